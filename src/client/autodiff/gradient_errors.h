// What Gradients says about gradients that are missing. Internal.
#ifndef SLUICE_CLIENT_AUTODIFF_GRADIENT_ERRORS_H_
#define SLUICE_CLIENT_AUTODIFF_GRADIENT_ERRORS_H_

#include <string>
#include <vector>

#include "client/autodiff/backprop_paths.h"
#include "client/autodiff/gradient_sums.h"

namespace sluice {

// "loss <- node <- x": a shortest path from some y through `node` to some x.
std::string PathThrough(const GradientPaths& paths, const Node* node);

// The error `why` of an op without a gradient, with its path.
Status NoGradientFor(const GradientPaths& paths, const Node* node,
                     const Status& why);

// Stores in each missing gradient, one per x, the reason why it is missing.
// `sums` are those of the finished walk.
void ExplainNone(const GradientPaths& paths, const GradientSums& sums,
                 std::vector<Gradient>* grads);

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_GRADIENT_ERRORS_H_
