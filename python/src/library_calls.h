// Calls of library functions that build a part of a graph, with arguments as
// Python has them.
#ifndef SLUICE_PYTHON_LIBRARY_CALLS_H_
#define SLUICE_PYTHON_LIBRARY_CALLS_H_

#include <vector>

#include "ops.h"
#include "scopes.h"
#include "values.h"

namespace sluice::python {

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
