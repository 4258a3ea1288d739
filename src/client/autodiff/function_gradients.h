// Gradients of function calls. Internal.
#ifndef SLUICE_CLIENT_AUTODIFF_FUNCTION_GRADIENTS_H_
#define SLUICE_CLIENT_AUTODIFF_FUNCTION_GRADIENTS_H_

#include <vector>

#include "client/autodiff/gradients.h"

namespace sluice {

// Inlines the functional nodes between the xs and the ys, so that gradients go
// through primitive ops. Calls of functions that may be recursive are kept.
Status LowerForGradients(const std::vector<Output>& ys,
                         const std::vector<Output>& xs);

// The gradient of a call that was kept: a SymbolicGradient of its function,
// whose gradient is again a SymbolicGradient.
Status CallGradient(GradContext& c);

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_FUNCTION_GRADIENTS_H_
