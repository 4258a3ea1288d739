// Gradients of function calls. Internal.
#ifndef SLUICE_CLIENT_AUTODIFF_FUNCTION_GRADIENTS_H_
#define SLUICE_CLIENT_AUTODIFF_FUNCTION_GRADIENTS_H_

#include <string>
#include <vector>

#include "client/autodiff/backprop_paths.h"
#include "client/autodiff/gradients.h"

namespace sluice {

// Inlines the functional nodes between the xs and the ys, so that gradients go
// through primitive ops. Calls of functions that may be recursive are kept.
Status LowerForGradients(const std::vector<Output>& ys,
                         const std::vector<Output>& xs,
                         const GradientOptions& options, StoreScope* stores);

// Gradients, in the current graph: of the ys and of what the xs contribute to
// the stores of `stores->duals`.
Result<std::vector<Gradient>> GradientsWithStores(
    const std::vector<Output>& ys, const std::vector<GradTarget>& xs,
    const GradientOptions& options, StoreScope* stores);

// A name for the gradients of one call of Gradients that no others in the graph
// have.
std::string NewGradientSource(const Graph& graph, const std::string& name);

// A store of gradients for a store, in the current context.
Output StoreOfGradients(const StoreScope& scope, const Output& handle);

// The gradient of a call that was kept: a SymbolicGradient of its function,
// whose gradient is again a SymbolicGradient.
Status CallGradient(GradContext& c);
// The same for a call of a function that takes TensorStores, with a store of
// gradients for each of them (StoreInputs).
Status CallGradientWithStores(GradContext& c, const std::vector<Output>& duals);

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_FUNCTION_GRADIENTS_H_
