// The extension module sluice._core. Not for users: the package's modules make
// of it what is documented.
#include "interrupt.h"
#include "objects.h"
#include "ops.h"
#include "scopes.h"
#include "values.h"

namespace sluice::python {

void AddCheckpoints(py::module_& m);
void AddDatasets(py::module_& m);
void AddDefun(py::module_& m);
void AddEvents(py::module_& m);
void AddFlow(py::module_& m);
void AddFunctions(py::module_& m);
void AddOptimizers(py::module_& m);
void AddLbfgs(py::module_& m);
void AddLossesAndMetrics(py::module_& m);
void AddRecords(py::module_& m);
void AddReplicas(py::module_& m);
void AddSavedModels(py::module_& m);
void AddServers(py::module_& m);
void AddSessions(py::module_& m);
void AddShow(py::module_& m);
void AddTraining(py::module_& m);
void AddTreebanks(py::module_& m);

}  // namespace sluice::python

PYBIND11_MODULE(_core, m) {
  namespace python = sluice::python;
  m.doc() = "What sluice does in C++.";
  m.attr("takes_numpy_2") = python::kTakesNumpy2;
  python::AddHooks(m);
  python::AddObjects(m);
  python::AddScopes(m);
  python::AddOps(m);
  python::AddCheckpoints(m);
  python::AddDatasets(m);
  python::AddDefun(m);
  python::AddEvents(m);
  python::AddFlow(m);
  python::AddFunctions(m);
  python::AddInterrupts(m);
  python::AddOptimizers(m);
  python::AddLbfgs(m);
  python::AddLossesAndMetrics(m);
  python::AddRecords(m);
  python::AddReplicas(m);
  python::AddSavedModels(m);
  python::AddServers(m);
  python::AddSessions(m);
  python::AddShow(m);
  python::AddTraining(m);
  python::AddTreebanks(m);
}
