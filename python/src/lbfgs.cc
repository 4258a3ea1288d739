// L-BFGS (sluice/training/lbfgs.py).
#include "client/nn/lbfgs.h"

#include "flow.h"

namespace sluice::python {
namespace {

// (train, loss, iterations, evaluations, converged). `loss` is a function of
// the list of the variables' values, which gives a list of one tensor.
std::tuple<py::object, Output, Output, Output, Output> Minimized(
    const std::string& scope, const py::object& loss,
    const std::vector<Output>& handles, int max_iterations, int history,
    double gradient_tolerance, double loss_tolerance, int max_search) {
  PyGraph& g = handles.empty() ? TargetGraph() : GraphOf(handles[0].node);
  const Building here(g);
  std::vector<Var> variables;
  for (const Output& o : handles) variables.push_back(Var::FromHandle(o));
  LbfgsOptions options;
  options.max_iterations = max_iterations;
  options.history = history;
  options.gradient_tolerance = gradient_tolerance;
  options.loss_tolerance = loss_tolerance;
  options.max_search = max_search;
  options.name = scope;
  const LbfgsResult made = Lbfgs(
      variables,
      [&loss](const std::vector<Output>& values) {
        const std::vector<Output> found = CallForOutputs(loss, values);
        return found.empty() ? Output() : found[0];
      },
      options, UserLine());
  CheckBuilt(g);
  return {HandleOf({made.train, kOperation}), made.loss, made.iterations,
          made.evaluations, made.converged};
}

}  // namespace

void AddLbfgs(py::module_& m) { m.def("minimize_lbfgs", Minimized); }

}  // namespace sluice::python
