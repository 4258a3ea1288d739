// Reductions over all axes. Reductions are ops, whose second argument is axes.
//
//   Output loss = ops::Mean(ops::Square(y - x), AllAxes(y));
#ifndef SLUICE_CLIENT_REDUCTIONS_H_
#define SLUICE_CLIENT_REDUCTIONS_H_

#include "graph/builder.h"

namespace sluice {

// 0, 1, ..., rank(x) - 1, an int32 vector: a constant if the rank of x is
// known, else computed in the step. The result of a reduction along them has
// the shape
// [] also in the second case, but only a step knows it: EnsureShape says so.
Output AllAxes(const Output& x);

}  // namespace sluice

#endif  // SLUICE_CLIENT_REDUCTIONS_H_
