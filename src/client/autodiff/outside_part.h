// The node that stands, in the body of a function, for the part of a gradient
// that is outside of the body: _GradientOutside. Internal.
#ifndef SLUICE_CLIENT_AUTODIFF_OUTSIDE_PART_H_
#define SLUICE_CLIENT_AUTODIFF_OUTSIDE_PART_H_

#include <vector>

#include "graph/node.h"

namespace sluice {

// The node's inputs, in this order. All are values of the body, captured ones
// where they are from outside. The node's outputs are the gradients of the xs.
struct OutsidePart {
  // Where the gradients of the body ended, and what they were there.
  std::vector<Output> ys, dys;
  std::vector<Output> xs, stops;
  // For each x, then each stop: whether the value outside is meant, and not the
  // argument of the body that stands for it.
  std::vector<bool> is_outer;
};

bool IsOutsidePart(const Node& n);
// REQUIRES: IsOutsidePart(n).
OutsidePart ReadOutsidePart(const Node& n);
// Null if building it failed: the current graph has the error.
Node* BuildOutsidePart(const OutsidePart& part);

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_OUTSIDE_PART_H_
