// Which gradients of a recursive function's arguments are sums over its calls
// (docs/design/046).
#ifndef SLUICE_GRAPH_SUMMED_ARGUMENTS_H_
#define SLUICE_GRAPH_SUMMED_ARGUMENTS_H_

#include <vector>

#include "graph/function.h"

namespace sluice {

// By argument of `f`: true if its gradient in a SavedGradient is a deferred sum
// (graph/deferred_sums.h). That is the case for arguments that all calls of the
// recursion pass on unchanged (weights, and tables), unless they are known to
// be small; and for those without a gradient, for which the sum is empty. This
// is a choice of a form: the gradient is right in either. Without a body, none.
// Guarded by the mutex of the library's graph.
std::vector<bool> SummedArguments(FunctionLibrary& library,
                                  const FunctionRef& f);

}  // namespace sluice

#endif  // SLUICE_GRAPH_SUMMED_ARGUMENTS_H_
