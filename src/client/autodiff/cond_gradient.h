// Gradients of conditionals: the gradient of a Merge is a Switch with the same
// predicate, that of a Switch is a Merge of the branches' gradients. Internal.
#ifndef SLUICE_CLIENT_AUTODIFF_COND_GRADIENT_H_
#define SLUICE_CLIENT_AUTODIFF_COND_GRADIENT_H_

#include <vector>

#include "client/autodiff/backprop_paths.h"
#include "client/autodiff/gradient_sums.h"
#include "client/autodiff/gradient_values.h"

namespace sluice {

// Differentiates the Switches and Merges of conditionals, one node at a time:
// it takes the total of the node's outputs from the sums and adds the gradient
// of its inputs to them. Owned by the walk, with which it shares its arguments;
// they must outlive it. Guarded by the graph's mutex.
class CondGradient {
 public:
  CondGradient(const GradientPaths* paths, const BuildErrors* errors,
               GradientSums* sums)
      : paths_(*paths), errors_(*errors), sums_(*sums) {}

  // `node` is a Switch (Merge) on the path, of `level`, some output of which
  // has a gradient. InvalidArgument if it belongs to no conditional.
  Status OfSwitch(Node* node, GradientLevel& level);
  Status OfMerge(Node* node, GradientLevel& level);

 private:
  const GradientPaths& paths_;
  const BuildErrors& errors_;
  GradientSums& sums_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_COND_GRADIENT_H_
