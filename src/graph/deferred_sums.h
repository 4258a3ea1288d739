// Gradients that are sums over many calls or iterations, as deferred sums
// (docs/design/046): variants that keep the factors of their summands, so that
// one product computes all of them.
//
// An op whose results are such summands registers how, beside its kernel:
//
//   const DeferredTermRegistrar bias_terms("BiasAddGrad", [](const Node& n) {
//     return std::optional(Build("DeferredColumnSum", {n.input(0)}));
//   });
#ifndef SLUICE_GRAPH_DEFERRED_SUMS_H_
#define SLUICE_GRAPH_DEFERRED_SUMS_H_

#include <optional>

#include "graph/node.h"

namespace sluice {

// Builds output 0 of the node as a deferred sum, in the ambient graph; none if
// the node's attributes do not allow it.
using DeferredTermBuilder = std::optional<Output> (*)(const Node&);

// Static initialisers only; `op` has static lifetime. `has_sum`: the output is
// the value of a deferred sum, which `build` returns.
struct DeferredTermRegistrar {
  DeferredTermRegistrar(const char* op, DeferredTermBuilder build,
                        bool has_sum = false);
};

// Builds deferred sums of the values of one graph, which must be the ambient
// one. Each node is built in the context of the value that it replaces; sums
// and merges of branches are followed to their summands. Guarded by the
// graph's mutex.
class DeferredSums {
 public:
  // A deferred sum of the value of `dense`; null after an error, which the
  // graph has.
  Output Of(const Output& dense) { return Of(dense, 0); }

 private:
  // Deeper sums of sums are one summand.
  static constexpr int kMaxDepth = 64;

  Output Of(const Output& dense, int depth);
  Output Make(const Output& dense, int depth);
  Output OfMerge(const Output& dense, int depth);

  OutputMap<Output> made_;
};

// The array of a deferred sum, of the shape and type of `like` (a variable's
// handle: of its value).
Output DeferredValueOf(const Output& sum, const Output& like);

// True if a summand of `dense` is the value of a deferred sum.
bool HasDeferredTerm(const Output& dense);

}  // namespace sluice

#endif  // SLUICE_GRAPH_DEFERRED_SUMS_H_
