// Conditions that optimizers keep weights in: after each update of a variable
// its value is replaced by the nearest one that meets its constraint.
//
//   Output h = Dense(x, 100, {.kernel_constraint = MaxNorm(3)});
//   Var scale = GetVariable("scale", {100}, init::Ones());
//   Status status = SetConstraint(scale, NonNegative());
//   Node* train = GradientDescentOptimizer(0.1).Minimize(loss);
#ifndef SLUICE_CLIENT_NN_CONSTRAINTS_H_
#define SLUICE_CLIENT_NN_CONSTRAINTS_H_

#include <functional>
#include <vector>

#include "client/variables.h"

namespace sluice {

// Builds the new value of a variable, of the same type and shape, of its value
// after an update. Null: none.
using Constraint = std::function<Output(Output value)>;

// The formulas are Keras's. A norm is the square root of the sum of squares
// over `axes`: for a kernel of a dense layer over 0, so that each unit has a
// norm; for one of a 2-D convolution over {0, 1, 2}. InvalidArgument, when they
// are used, for axes that the value lacks, and for norms or a rate out of
// their ranges.

// Norms of at most `max`, from 0 on.
Constraint MaxNorm(double max = 2, const std::vector<int>& axes = {0});
// Norms of 1.
Constraint UnitNorm(const std::vector<int>& axes = {0});
// Norms from `min` to `max`: they are moved there by a fraction `rate` in [0,
// 1] of what they lack, all of it with 1.
Constraint MinMaxNorm(double min = 0, double max = 1, double rate = 1,
                      const std::vector<int>& axes = {0});
// Negative elements become 0.
Constraint NonNegative();

// Gives a variable of the ambient graph, but not of a function's body, a
// constraint in place of one that it has. All optimizers that update the
// variable apply it, those that are used afterwards. It is kept as a function
// of the graph, also in exported graphs, and may use no values from around it
// (InvalidArgument). One that is refused, or that fails, leaves the graph as it
// was, without an error. Optimizers refuse sparse gradients of such variables.
Status SetConstraint(const Var& variable, const Constraint& constraint,
                     SourceLoc loc = CallerLoc());
// Whether a variable has one.
bool HasConstraint(const Var& variable);
// For optimizers: a node that replaces the variable's value by what its
// constraint makes of it, under the control dependencies of the ambient scopes.
// Null on errors, which the graph records, and if there is no constraint.
Node* ApplyConstraint(const Var& variable, SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_CONSTRAINTS_H_
