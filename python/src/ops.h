// Op functions: every op of the registry as a Python callable.
//
//   add = _core.op("AddV2")
//   z = add(x, 1.0, name="z")
//
// Parameters are the op's inputs, the attributes that inputs do not tell (those
// without a default first), and `name`: TensorFlow's order. What is not a
// tensor becomes one, of the type of the inputs before it that share its type.
// The node's line is that of the innermost Python function outside of the
// package.
#ifndef SLUICE_PYTHON_OPS_H_
#define SLUICE_PYTHON_OPS_H_

#include "objects.h"

namespace sluice::python {

// A tensor as one of `graph`: of a function's body, an argument in place of
// one from outside.
Output InGraphOf(PyGraph& graph, const Output& o);

// `value` as an output of `graph`, which is the ambient one and whose mutex is
// held: itself, or a new constant named `name`. `want`: the type, or kInvalid;
// an output that is given may have another all the same. `as_ref`: where a
// variable is meant, not its value.
Output ToOutput(PyGraph& graph, py::handle value, DType want, bool as_ref,
                const std::string& name, SourceLoc loc);

// An argument of a library function: Python's own numbers, which take the type
// of what they meet, or what becomes a tensor.
Operand ToOperand(PyGraph& graph, py::handle value, SourceLoc loc,
                  const std::string& name = "Const");

// The graph of the first tensor (or variable) among the arguments, in lists
// too, or the default one; ValueError if they are of several. A function's body
// takes them all.
PyGraph& GraphOfArguments(const std::vector<py::handle>& arguments);

void AddOps(py::module_& m);

}  // namespace sluice::python

#endif  // SLUICE_PYTHON_OPS_H_
