// Gradients within the body of a function, with respect to outer values: those
// that the body captured. What else the body captured may depend on them as
// well; gradients do not go on there, so that is an error, not a part of the
// gradient that is left out. Internal.
#ifndef SLUICE_CLIENT_AUTODIFF_OUTSIDE_GRADIENTS_H_
#define SLUICE_CLIENT_AUTODIFF_OUTSIDE_GRADIENTS_H_

#include <vector>

#include "client/autodiff/gradients.h"

namespace sluice {

// The graph in which the gradients of the ys are built: the ambient one if it
// is the body of a function and one of the ys or their gradients is in it,
// otherwise that of the ys.
Graph* GraphOfGradients(const std::vector<Output>& ys,
                        const GradientOptions& options);

// True in the body of a function if an x or a stop_gradient is an outer value.
bool MayGoOutside(const std::vector<GradTarget>& xs,
                  const GradientOptions& options);

// Gradients in the current graph, the body of a function, whose xs and
// stop_gradients may also be of the graphs around it. Unimplemented, with the
// node, if they would go on from a captured value to an outer x.
Result<std::vector<Gradient>> GradientsFromBody(
    const std::vector<Output>& ys, const std::vector<GradTarget>& xs,
    const GradientOptions& options);

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_OUTSIDE_GRADIENTS_H_
