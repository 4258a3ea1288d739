// Calls of Python's functions by libraries that build a part of a graph, and
// gradients.
#ifndef SLUICE_PYTHON_FLOW_H_
#define SLUICE_PYTHON_FLOW_H_

#include <vector>

#include "absl/cleanup/cleanup.h"
#include "graph/grad.h"
#include "ops.h"
#include "scopes.h"
#include "values.h"

namespace sluice::python {

// Calls a function of Python's that gives a list of tensors, within the scopes
// that the library is in; whatever it did to these is undone. Empty if it
// raised.
template <typename... Args>
std::vector<Output> CallForOutputs(const py::object& fn, const Args&... args) {
  std::vector<Output> values;
  FromLibrary([&] {
    const ScopeState scopes;
    const absl::Cleanup back = [&scopes] { scopes.Restore(); };
    for (const Output& o : py::cast<std::vector<Output>>(fn(args...)))
      values.push_back(InGraphOf(TargetGraph(), o));
  });
  return values;
}

// None, a Tensor, or (values, indices, dense_shape).
py::object FromGradient(const Gradient& g);
py::list FromGradients(const std::vector<Gradient>& grads);
// None, a Tensor or IndexedSlices, as a gradient in a graph.
Gradient ToGradient(PyGraph& g, py::handle o);

}  // namespace sluice::python

#endif  // SLUICE_PYTHON_FLOW_H_
