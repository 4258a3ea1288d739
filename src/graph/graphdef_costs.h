// The costs of a graph's nodes as TensorFlow's CostGraphDef.
#ifndef SLUICE_GRAPH_GRAPHDEF_COSTS_H_
#define SLUICE_GRAPH_GRAPHDEF_COSTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace sluice {

struct NodeCost {
  struct Output {
    DType dtype = DType::kInvalid;
    Shape shape;
    int64_t bytes = 0;
    int alias = -1;  // The input whose memory it shares; -1: none.
  };
  int64_t ns = 0;
  int64_t temporary_bytes = 0;
  std::vector<Output> outputs;
};

// A serialised CostGraphDef of the nodes of these GraphDefs. Nodes without
// known costs (`cost_of` returns null) are marked as inaccurate.
Result<std::string> MakeCostGraphDef(
    const std::vector<std::string>& graph_defs,
    const std::function<const NodeCost*(const std::string& device,
                                        const std::string& node)>& cost_of);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPHDEF_COSTS_H_
