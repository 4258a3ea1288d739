// Ops whose results may be known before their inputs are.
#ifndef SLUICE_GRAPH_READS_SHAPE_H_
#define SLUICE_GRAPH_READS_SHAPE_H_

#include <string_view>

namespace sluice {

// True if the op reads nothing of its inputs but their shapes: it may be folded
// although they run in the step, so that it comes after nothing by them.
inline bool ReadsOnlyShape(std::string_view op) {
  return op == "Shape" || op == "ShapeN" || op == "Size" || op == "Rank";
}

}  // namespace sluice

#endif  // SLUICE_GRAPH_READS_SHAPE_H_
