// Prepares trained graphs for inference: freezes variables into constants, and
// turns layers into int8 layers (docs/design/028-int8.md).
//
//   Result<InferenceGraph> frozen = Freeze(session, {images}, {probabilities});
//   Result<QuantizedGraph> small = Quantize(*frozen, {{batch1}, {batch2}});
//   Session fast(*small->graph);
//   auto out = fast.Run({{small->feeds[0], batch1}}, small->fetches);
#ifndef SLUICE_DEPLOY_QUANTIZE_H_
#define SLUICE_DEPLOY_QUANTIZE_H_

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "session/session.h"

namespace sluice {

// A self-contained graph with its feeds and fetches.
struct InferenceGraph {
  std::unique_ptr<Graph> graph;
  std::vector<Output> feeds, fetches;
  // The size of all its constants.
  int64_t constant_bytes() const;
};

// Returns the subgraph that computes the fetches from the feeds, with the
// current values of the session's variables as constants. Nodes keep their
// names; feeds become placeholders; calls of functions that capture variables
// become the functions' bodies. The session's graph gets a read of a variable
// that only functions, loops or branches read. InvalidArgument if a fetch is
// not an edge of the session's graph; Unimplemented if a variable is needed for
// anything but reads of its value, or is captured by a recursive function.
Result<InferenceGraph> Freeze(Session& session,
                              const std::vector<Output>& feeds,
                              const std::vector<Output>& fetches);

struct QuantizeOptions {
  // The fraction of an activation's absolute values that its range covers;
  // values beyond it are clipped.
  double percentile = 1.0;
  // Layers to keep in float: names of their Conv2D or MatMul nodes.
  std::vector<std::string> keep_float = {};
};

struct QuantizedGraph : InferenceGraph {
  std::vector<std::string> quantized;  // Names of the int8 nodes.
  // Convolutions and products that stayed float: "name: reason".
  std::vector<std::string> kept;
};

// Returns the same network in int8. Conv2D and MatMul with constant weights,
// with their bias and ReLU, become one int8 op each; max pooling and Reshape
// after them operate on bytes. Weights are symmetric int8 with one range per
// output channel; activations have one range each, from their values in the
// calibration steps (each a list of values for the feeds): uint8 if no value is
// negative, else symmetric int8. Everything else is unchanged. InvalidArgument
// without calibration data; otherwise the errors of the calibration steps.
Result<QuantizedGraph> Quantize(
    const InferenceGraph& graph,
    const std::vector<std::vector<Tensor>>& calibration,
    const QuantizeOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_DEPLOY_QUANTIZE_H_
