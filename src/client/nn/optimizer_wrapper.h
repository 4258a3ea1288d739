// Of classes that do something of their own with the gradients of an optimizer,
// such as adding them up. Internal.
#ifndef SLUICE_CLIENT_NN_OPTIMIZER_WRAPPER_H_
#define SLUICE_CLIENT_NN_OPTIMIZER_WRAPPER_H_

#include <optional>
#include <vector>

#include "client/nn/in_graph_of.h"
#include "client/nn/optimizer.h"

namespace sluice {

// `wrapper.ApplyGradients` of the gradients of `loss` by `optimizer`, built in
// the graph of the loss. Null after an error, which is recorded in the graph.
template <typename Wrapper>
Node* MinimizeThrough(Wrapper& wrapper, Optimizer& optimizer,
                      const Output& loss, const MinimizeOptions& options,
                      SourceLoc loc) {
  const std::optional<WithGraph> there = InGraphOf(loss);
  const Result<std::vector<GradAndVar>> grads =
      optimizer.ComputeGradients(loss, options, loc);
  if (!grads.ok()) {
    BuildError(grads.status(), loc);
    return nullptr;
  }
  return wrapper.ApplyGradients(*grads, options, loc);
}

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_OPTIMIZER_WRAPPER_H_
