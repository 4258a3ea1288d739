// Gradients within the body of a function, with respect to outer values: they
// go on through what the body captured, to the outer values that this depends
// on. Internal.
//
// The part outside cannot be built in the body, which has no nodes of the outer
// graph, and which may capture values of loops and branches. So a node of the
// body stands for it (client/autodiff/outside_part.h). A call of such a
// function is inlined as soon as it is built, and the node is replaced by what
// Gradients builds there, where all nodes are in one graph. In a body of a
// body, that may be such a node again.
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

// Whether gradients in the current graph may have a part outside: in the body
// of a function, if an x or a stop_gradient is an outer value, or if earlier
// gradients have one.
bool MayGoOutside(const std::vector<GradTarget>& xs,
                  const GradientOptions& options);

// Gradients in the current graph, the body of a function, whose xs and
// stop_gradients may also be of the graphs around it.
Result<std::vector<Gradient>> GradientsFromBody(
    const std::vector<Output>& ys, const std::vector<GradTarget>& xs,
    const GradientOptions& options);

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_OUTSIDE_GRADIENTS_H_
