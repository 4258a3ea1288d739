// Values between Python and the library: arrays, element types, shapes, and
// attributes of nodes.
#ifndef SLUICE_PYTHON_VALUES_H_
#define SLUICE_PYTHON_VALUES_H_

#include "graph/op_def.h"
#include "py.h"

namespace sluice::py {

// numpy is loaded when the first array is needed: it takes longer than all of
// the package.
bool LoadNumpy();

// The DType object of Python for a type, and back. A DType, a numpy type, a
// name or a number will do.
PyObject* FromDType(DType t);
bool ToDType(PyObject* o, DType* out);

// A tuple of ints and Nones, or None for an unknown rank.
PyObject* FromShape(const PartialShape& shape);
bool ToShape(PyObject* o, PartialShape* out);

// A numpy array (a numpy scalar or bytes where the rank is 0). Of what nobody
// else holds it becomes the owner; else, and if it is small, it is a copy.
PyObject* ToNumpy(Tensor t);

// True for what becomes a constant by itself: numbers, strings, lists and
// tuples, and numpy's arrays and scalars.
bool IsPlainValue(PyObject* o);

// A value as a tensor, by TensorFlow's rules: Python's own ints are int32 (or
// int64 where they do not fit) and floats are float, numpy's types are kept;
// `want`, unless kInvalid, says otherwise, and TypeError follows if it cannot
// hold the value. With `share`, the elements of a contiguous array of the right
// type are not copied.
bool ToTensor(PyObject* value, DType want, bool share, Tensor* out);

// An attribute as its declaration wants it. `what` is for messages.
bool ToAttr(PyObject* value, AttrKind kind, bool is_list,
            const std::string& what, AttrValue* out);
PyObject* FromAttr(const AttrValue& value);

}  // namespace sluice::py

#endif  // SLUICE_PYTHON_VALUES_H_
