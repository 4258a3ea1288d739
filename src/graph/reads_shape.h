// Ops whose results may be known before their inputs.
#ifndef SLUICE_GRAPH_READS_SHAPE_H_
#define SLUICE_GRAPH_READS_SHAPE_H_

#include <string_view>

namespace sluice {

// True if the op reads only the shapes of its inputs. It may be folded although
// its inputs run in the step, so its inputs do not order it after anything.
inline bool ReadsOnlyShape(std::string_view op) {
  return op == "Shape" || op == "ShapeN" || op == "Size" || op == "Rank";
}

}  // namespace sluice

#endif  // SLUICE_GRAPH_READS_SHAPE_H_
