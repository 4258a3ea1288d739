// Gradients of loops: a loop over the same iterations in reverse order, whose
// variables are the gradients of the loop variables. Internal.
#ifndef SLUICE_CLIENT_AUTODIFF_WHILE_GRADIENT_H_
#define SLUICE_CLIENT_AUTODIFF_WHILE_GRADIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "client/autodiff/backprop_paths.h"
#include "client/autodiff/backprop_units.h"
#include "client/autodiff/gradient_sums.h"
#include "client/autodiff/gradient_values.h"
#include "client/autodiff/loop_products.h"

namespace sluice {

// Differentiates loops, one at a time: it takes the totals of the loop's
// results from the sums, builds the gradient loop, lets the walk visit the body
// and adds the gradients of the loop's inputs to the sums. Owned by the walk,
// with which it shares its arguments; they must outlive it. Guarded by the
// graph's mutex.
class WhileGradient {
 public:
  // Visits the units of a level.
  using Walk = std::function<Status(GradientLevel&)>;

  WhileGradient(const GradientPaths* paths, const GradientUnits* units,
                const BuildErrors* errors, GradientSums* sums, Walk walk)
      : paths_(*paths),
        units_(*units),
        errors_(*errors),
        sums_(*sums),
        walk_(std::move(walk)) {}

  // Differentiates `loop`, a unit of the level `outer`; does nothing if none of
  // its values has a gradient or its back_prop is off. InvalidArgument if the
  // loop is not complete.
  Status Of(WhileContext* loop, GradientLevel& outer);

  // The number of nodes looked at, besides those that `paths` counts.
  int64_t num_visits() const;

 private:
  // Whether a node in the loop, or in a loop in it, has a gradient by now.
  bool HasGradientWithin(const WhileContext* loop) const;
  // The Enters of the loop's constants between the xs and the ys, by id.
  std::vector<Node*> ConstantsOf(const WhileContext* loop) const;
  // Opens a variable of the gradient loop for each variable of the loop; sets
  // `opened`: the gradient loop's variables by those of the loop.
  Status OpenVariables(WhileContext* loop, GradientLevel& outer,
                       GradientLevel& inner, std::map<int, int>* opened);
  // Closes them when the body is done. Appends the gradients of variables that
  // are summed instead of carried.
  Status CloseVariables(WhileContext* loop, GradientLevel& inner,
                        const std::map<int, int>& opened,
                        std::vector<LoopSum>* sums);

  const GradientPaths& paths_;
  const GradientUnits& units_;
  const BuildErrors& errors_;
  GradientSums& sums_;
  const Walk walk_;
  std::optional<ArrayUses> array_uses_;  // Null until there is a loop.
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_WHILE_GRADIENT_H_
