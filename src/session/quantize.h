// Trained graphs for inference: variables frozen into constants, and layers
// turned into int8 ones (docs/design/028-int8.md).
//
//   Result<InferenceGraph> frozen = Freeze(session, {images}, {probabilities});
//   Result<QuantizedGraph> small = Quantize(*frozen, {{batch1}, {batch2}});
//   Session fast(*small->graph);
//   auto out = fast.Run({{small->feeds[0], batch1}}, small->fetches);
#ifndef SLUICE_SESSION_QUANTIZE_H_
#define SLUICE_SESSION_QUANTIZE_H_

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "session/session.h"

namespace sluice {

// A graph of its own, what to feed it and what to fetch.
struct InferenceGraph {
  std::unique_ptr<Graph> graph;
  std::vector<Output> feeds, fetches;
  // Of all its constants.
  int64_t constant_bytes() const;
};

// What the fetches need when the feeds are given, with the values that the
// session's variables have now as constants. Nodes keep their names; feeds are
// placeholders. InvalidArgument if a fetch is no edge of the session's graph.
Result<InferenceGraph> Freeze(Session& session,
                              const std::vector<Output>& feeds,
                              const std::vector<Output>& fetches);

struct QuantizeOptions {
  // The part of the absolute values of an activation that its range covers;
  // what lies beyond is cut.
  double percentile = 1.0;
  // Layers that stay float: names of their Conv2D or MatMul nodes.
  std::vector<std::string> keep_float = {};
};

struct QuantizedGraph : InferenceGraph {
  std::vector<std::string> quantized;  // The nodes that are int8 now.
  // Convolutions and products that stayed float: "name: why".
  std::vector<std::string> kept;
};

// The same network in bytes: Conv2D and MatMul with constant weights, with
// their bias and ReLU, are one int8 op each; pooling (the largest) and Reshape
// behind them move bytes. Weights are symmetric int8, one range per output
// channel; activations have one range each, from the values that they take in
// the calibration steps (each a list of values for the feeds): uint8 where none
// is negative, else symmetric int8. Everything else stays as it is.
// InvalidArgument without calibration data; else the errors of its steps.
Result<QuantizedGraph> Quantize(
    const InferenceGraph& graph,
    const std::vector<std::vector<Tensor>>& calibration,
    const QuantizeOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_SESSION_QUANTIZE_H_
