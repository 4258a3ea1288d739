// Implements Gradients (client/autodiff/gradients.h) as a walk over the graph.
// Internal.
//
// Within a level the walk visits units from consumers to producers, each one
// after all its consumers on that level (client/autodiff/backprop_units.h). Its
// parts, each of which can be read alone:
//
//   backprop_paths.h   which nodes gradients pass through
//   backprop_units.h   the levels, and the order of the units on each
//   gradient_sums.h    the gradients found so far, and where they are built
//   cond_gradient.h    conditionals
//   while_gradient.h   loops; loop_sums.h and loop_products.h: what they sum up
//   store_gradient.h   reads and writes of TensorStores
//   gradient_errors.h  why a gradient is missing
#ifndef SLUICE_CLIENT_AUTODIFF_BACKPROP_H_
#define SLUICE_CLIENT_AUTODIFF_BACKPROP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/autodiff/backprop_paths.h"
#include "client/autodiff/backprop_units.h"
#include "client/autodiff/cond_gradient.h"
#include "client/autodiff/gradient_sums.h"
#include "client/autodiff/gradient_values.h"
#include "client/autodiff/gradients.h"
#include "client/autodiff/store_gradient.h"
#include "client/autodiff/while_gradient.h"

namespace sluice {

// One call of Gradients, in the current graph. Takes time linear in the size of
// the graph (times the depth of its loops). Runs once, on one thread, which
// holds the graph's mutex. The arguments must outlive it.
class Backprop {
 public:
  Backprop(const std::vector<Output>& ys, const std::vector<GradTarget>& xs,
           const GradientOptions& options, StoreScope* stores);
  Result<std::vector<Gradient>> Run();

  // How often Run looked at a node: what its time grows with.
  int64_t num_visits() const {
    return paths_.num_visits() + loops_.num_visits();
  }

 private:
  Status Seed();
  Result<Gradient> SeedFor(const Output& y, const Gradient& given);
  Status Walk(GradientLevel& level);
  Status VisitNode(Node* node, GradientLevel& level);
  // `duals`: of a call, the stores of gradients for its stores.
  Status Differentiate(Node* node, const std::vector<Gradient>& dy,
                       GradientLevel& level,
                       const std::vector<Output>& duals = {});
  Status DifferentiateStore(Node* node, const std::vector<Gradient>& dy,
                            GradientLevel& level);
  Status Distribute(Node* node, std::vector<Gradient> grads);
  Result<std::vector<Gradient>> Collect();

  const std::vector<Output>& ys_;
  const std::vector<Output> xs_;
  const GradientOptions& options_;
  StoreScope& scope_;
  Graph* const graph_;
  const BuildErrors errors_;
  GradientPaths paths_;
  GradientUnits units_{&paths_};
  GradientSums sums_;
  GradientLevel outermost_{nullptr};
  CondGradient conditionals_{&paths_, &errors_, &sums_};
  StoreGradient stores_{&paths_, &errors_, &scope_};
  WhileGradient loops_{&paths_, &units_, &errors_, &sums_,
                       [this](GradientLevel& level) { return Walk(level); }};
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_BACKPROP_H_
