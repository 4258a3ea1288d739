// Minimisation of smooth functions by L-BFGS, as one loop in the graph: one run
// of a node goes all the way to the minimum.
//
//   Var w(Zeros({10, 1}), "w");
//   const LbfgsResult fit = Lbfgs({w}, [&](const std::vector<Output>& at) {
//     return ops::Mean(ops::Square(ops::MatMul(x, at[0]) - y), {0, 1});
//   });
//   Result<std::vector<Tensor>> done =
//       session.Run({}, {fit.loss, fit.iterations}, {fit.train});
#ifndef SLUICE_CLIENT_NN_LBFGS_H_
#define SLUICE_CLIENT_NN_LBFGS_H_

#include <functional>
#include <string>
#include <vector>

#include "client/variables.h"

namespace sluice {

struct LbfgsOptions {
  int max_iterations = 100;
  int history = 10;  // Pairs of steps and gradient changes that are kept.
  // Converged if no element of the gradient is larger, or if the loss fell by
  // less than this part of it (or of 1, if it is less than 1).
  double gradient_tolerance = 1e-5;
  double loss_tolerance = 1e-9;
  int max_search = 25;  // Evaluations of the loss per iteration.
  std::string name = "lbfgs";
};

struct LbfgsResult {
  Node* train = nullptr;  // Minimises, and assigns the variables.
  // The results of a run, without which the variables are not assigned: scalars
  // of the variables' type, int32, int32, and bool.
  Output loss, iterations, evaluations, converged;
};

// Minimises loss(values) from the variables' values on; values[i] has the shape
// and type of variables[i]. The loss is a scalar of the same type; it may use
// other outputs and variables, whose values stay the same meanwhile. The
// function is called twice, while the graph is built. Null, with the error in
// the graph, unless all variables have one floating type (float or double) and
// known shapes.
//
// Two-loop recursion on all variables as one vector (Nocedal and Wright,
// "Numerical Optimization", 2006, algorithms 7.4 and 7.5), and a line search by
// doubling and bisection for the weak Wolfe conditions with 1e-4 and 0.9 (Lewis
// and Overton, 2013). If no step of the line search meets both conditions, the
// one with the lowest loss is taken, provided that it is lower than before;
// otherwise the minimisation ends, converged only if the loss after the last
// step differs by less than the tolerance.
LbfgsResult Lbfgs(
    const std::vector<Var>& variables,
    const std::function<Output(const std::vector<Output>& values)>& loss,
    const LbfgsOptions& options = {}, SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_LBFGS_H_
