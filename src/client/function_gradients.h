// Gradients of calls. Not for users.
#ifndef SLUICE_CLIENT_FUNCTION_GRADIENTS_H_
#define SLUICE_CLIENT_FUNCTION_GRADIENTS_H_

#include <vector>

#include "client/gradients.h"

namespace sluice {

// Puts the bodies of functional nodes between the xs and the ys in their place,
// so that gradients go through primitives. What stays are calls of functions
// that may call themselves.
Status LowerForGradients(const std::vector<Output>& ys,
                         const std::vector<Output>& xs);

// The gradient of a call that stays: a SymbolicGradient of its function, whose
// gradient in turn is a SymbolicGradient of that.
Status CallGradient(GradContext& c);

}  // namespace sluice

#endif  // SLUICE_CLIENT_FUNCTION_GRADIENTS_H_
