// Values between Python and the library: arrays, element types, shapes, and
// attributes of nodes.
#ifndef SLUICE_PYTHON_VALUES_H_
#define SLUICE_PYTHON_VALUES_H_

#include "graph/op_def.h"
#include "py.h"

namespace sluice::python {

// pybind11 has numpy 1's structures before 2.12; with numpy 2 it would read
// wrong sizes and strides.
inline constexpr bool kTakesNumpy2 = PYBIND11_VERSION_HEX >= 0x020C0000;

// The DType object of Python for a type, and back. A DType, a numpy type, a
// name or a number will do.
py::object FromDType(DType t);
DType ToDType(py::handle o);
// "float32".
std::string PythonTypeName(DType t);

// A tuple of ints and Nones, or None for an unknown rank.
py::object FromShape(const PartialShape& shape);
PartialShape ToShape(py::handle o);

// Copies large values that others hold, too: ToNumpy would otherwise, with the
// interpreter's lock, and into memory that the system has to clear first.
Status MakeOwn(std::vector<Tensor>* values);

// A numpy array (a numpy scalar or bytes where the rank is 0). Of what nobody
// else holds it becomes the owner; else, and if it is small, it is a copy.
// (numpy is loaded when the first array is needed: it takes longer than all of
// the package.)
py::object ToNumpy(Tensor t);

// True for what becomes a constant by itself: numbers, strings, lists and
// tuples, and numpy's arrays and scalars.
bool IsPlainValue(py::handle o);

// True for numpy's arrays and scalars, whose types are not guessed.
bool HasOwnType(py::handle o);

// Which of Python's own numbers may become another type's.
enum class Numbers {
  kFit,   // Those that it holds: constants.
  kCast,  // As numpy casts them, but for ints that it does not hold: feeds.
};

// A value as a tensor, by TensorFlow's rules: Python's own ints are int32 (or
// int64 where they do not fit) and floats are float, numpy's types are kept;
// `want`, unless kInvalid, says otherwise, and TypeError follows if it cannot
// hold the value. With `share`, the elements of a contiguous array of the right
// type are not copied: the tensor is lent for a step.
Tensor ToTensor(py::handle value, DType want, bool share = false,
                Numbers numbers = Numbers::kFit);

// An attribute as its declaration wants it. `what` is for messages.
AttrValue ToAttr(py::handle value, AttrKind kind, bool is_list,
                 const std::string& what);
py::object FromAttr(const AttrValue& value);

}  // namespace sluice::python

namespace pybind11::detail {

template <>
struct type_caster<sluice::DType> {
  PYBIND11_TYPE_CASTER(sluice::DType, const_name("DType"));
  bool load(handle o, bool) {
    value = sluice::python::ToDType(o);
    return true;
  }
  static handle cast(sluice::DType t, return_value_policy, handle) {
    return sluice::python::FromDType(t).release();
  }
};

template <>
struct type_caster<sluice::PartialShape> {
  PYBIND11_TYPE_CASTER(sluice::PartialShape, const_name("TensorShape"));
  bool load(handle o, bool) {
    value = sluice::python::ToShape(o);
    return true;
  }
  static handle cast(const sluice::PartialShape& shape, return_value_policy,
                     handle) {
    return sluice::python::FromShape(shape).release();
  }
};

}  // namespace pybind11::detail

#endif  // SLUICE_PYTHON_VALUES_H_
