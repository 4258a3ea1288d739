// Divides the gradient of a function f, which computes f's values and then the
// gradients from them, into two functions (docs/design/046):
//
//   saving:      x... -> y..., saved    f, and the values that are needed later
//   from_saved:  saved, dy... -> dx...  the rest
//
// A recursive call of f in the one is a SavingCall, so that `saved` contains
// what the inner call saved, and in the other a SavedGradient. The saved values
// form the same tree as the calls. The dx of arguments that all calls share are
// deferred sums (graph/summed_arguments.h). If some x are handles of
// TensorStores, both parts also take the stores of gradients that belong to
// them, as their last arguments.
//
// `saved` is an Optional of the values, one for each conditional among them:
// an Optional of the values in the branch that was taken.
#ifndef SLUICE_GRAPH_GRADIENT_PARTS_H_
#define SLUICE_GRAPH_GRADIENT_PARTS_H_

#include "graph/function.h"

namespace sluice {

// `gradient` has forward_results. `saving` and `from_saved` have empty graphs;
// all but `order` is filled in. Unimplemented if the gradient uses a value that
// cannot be saved: a reference, or one within a loop.
Status SplitGradient(const FunctionBody& gradient, FunctionBody* saving,
                     FunctionBody* from_saved);

// The same for a function whose values are to be computed again: only its
// arguments are saved. `body`: the function.
Status SaveArguments(const FunctionBody& body, const FunctionBody& gradient,
                     FunctionBody* saving, FunctionBody* from_saved);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRADIENT_PARTS_H_
