// Reductions over all axes. Reductions are ops, whose second argument is axes.
//
//   Output loss = ops::Mean(ops::Square(y - x), AllAxes(y));
#ifndef SLUICE_CLIENT_REDUCTIONS_H_
#define SLUICE_CLIENT_REDUCTIONS_H_

#include "graph/builder.h"

namespace sluice {

// 0, 1, ..., rank(x) - 1, an int32 vector: a constant if the rank of x is
// known, else computed in the step. A reduction along them gives a scalar.
// If the rank is not known, nor is that shape before a step: EnsureShape
// says so.
Output AllAxes(const Output& x);

}  // namespace sluice

#endif  // SLUICE_CLIENT_REDUCTIONS_H_
