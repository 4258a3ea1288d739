// Calls of library functions that build a part of a graph, with arguments as
// Python has them.
#ifndef SLUICE_PYTHON_LIBRARY_CALLS_H_
#define SLUICE_PYTHON_LIBRARY_CALLS_H_

#include <string>
#include <vector>

#include "ops.h"
#include "scopes.h"
#include "values.h"

namespace sluice::python {

// An argument of a library function: Python's own numbers, which take the type
// of what they meet, or what becomes a tensor (a constant named `name`).
inline Operand ToOperand(PyGraph& g, py::handle o, SourceLoc loc,
                         const std::string& name = "Const") {
  if (PyFloat_Check(o.ptr()) ||
      (PyLong_Check(o.ptr()) && !PyBool_Check(o.ptr())))
    return Operand(py::cast<double>(o), loc.file, loc.line);
  return Operand(ToOutput(g, o, DType::kInvalid, false, name, loc), loc.file,
                 loc.line);
}

// Calls `make(operand, loc)`, which builds a part of the graph of the arguments
// and may return a result; `operand(o)` is an argument as an Operand.
template <typename Make>
auto Made(const std::vector<py::handle>& arguments, const Make& make) {
  PyGraph& g = GraphOfArguments(arguments);
  const Building here(g);
  const SourceLoc loc = UserLine();
  auto made =
      make([&g, loc](py::handle o) { return ToOperand(g, o, loc); }, loc);
  CheckBuilt(g);
  return made;
}

}  // namespace sluice::python

#endif  // SLUICE_PYTHON_LIBRARY_CALLS_H_
