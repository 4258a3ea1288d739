#include "values.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace sluice::py {
namespace {

// Below this an array of its own is cheaper than one that shares.
constexpr size_t kWorthSharing = 1024;

// -1: numpy has none.
int NumpyType(DType t) {
  switch (t) {
    case DType::kFloat:
      return NPY_FLOAT32;
    case DType::kDouble:
      return NPY_FLOAT64;
    case DType::kHalf:
      return NPY_FLOAT16;
    case DType::kInt32:
    case DType::kQint32:
      return NPY_INT32;
    case DType::kUint8:
    case DType::kQuint8:
      return NPY_UINT8;
    case DType::kInt16:
    case DType::kQint16:
      return NPY_INT16;
    case DType::kInt8:
    case DType::kQint8:
      return NPY_INT8;
    case DType::kUint16:
    case DType::kQuint16:
      return NPY_UINT16;
    case DType::kInt64:
      return NPY_INT64;
    case DType::kUint32:
      return NPY_UINT32;
    case DType::kUint64:
      return NPY_UINT64;
    case DType::kBool:
      return NPY_BOOL;
    case DType::kComplex64:
      return NPY_COMPLEX64;
    case DType::kComplex128:
      return NPY_COMPLEX128;
    case DType::kString:
      return NPY_OBJECT;
    default:
      return -1;
  }
}

// kInvalid: no tensor has such elements.
DType TypeOfArray(PyArrayObject* a) {
  const PyArray_Descr* d = PyArray_DESCR(a);
  switch (d->kind) {
    case 'b':
      return DType::kBool;
    case 'i':
      switch (PyArray_ITEMSIZE(a)) {
        case 1:
          return DType::kInt8;
        case 2:
          return DType::kInt16;
        case 4:
          return DType::kInt32;
        case 8:
          return DType::kInt64;
      }
      break;
    case 'u':
      switch (PyArray_ITEMSIZE(a)) {
        case 1:
          return DType::kUint8;
        case 2:
          return DType::kUint16;
        case 4:
          return DType::kUint32;
        case 8:
          return DType::kUint64;
      }
      break;
    case 'f':
      switch (PyArray_ITEMSIZE(a)) {
        case 2:
          return DType::kHalf;
        case 4:
          return DType::kFloat;
        case 8:
          return DType::kDouble;
      }
      break;
    case 'c':
      if (PyArray_ITEMSIZE(a) == 8) return DType::kComplex64;
      if (PyArray_ITEMSIZE(a) == 16) return DType::kComplex128;
      break;
    case 'S':
    case 'U':
    case 'O':
      return DType::kString;
  }
  return DType::kInvalid;
}

bool LooksFloating(DType t) { return IsFloating(t) || IsComplex(t); }

// Raises TensorFlow's error for a value that its type cannot hold.
bool Mismatch(DType want, PyObject* value) {
  const Ref type(FromDType(want));
  const Ref name(type ? PyObject_GetAttrString(type.get(), "name") : nullptr);
  if (name)
    PyErr_Format(PyExc_TypeError, "Expected %U, but got %R of type '%s'.",
                 name.get(), value, Py_TYPE(value)->tp_name);
  return false;
}

// Whether elements of the type may be written as constants of type `want`.
bool Fits(DType have, DType want) {
  if (want == DType::kBool || want == DType::kString || have == DType::kString)
    return have == want;
  if (have == DType::kBool) return true;  // A bool is an int to Python.
  if (IsComplex(want)) return true;
  if (IsComplex(have)) return false;
  return LooksFloating(want) || !LooksFloating(have);
}

// The first element of nested lists that does not fit; borrowed.
PyObject* FirstMisfit(PyObject* value, DType want) {
  if (PyList_Check(value) || PyTuple_Check(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      if (PyObject* bad = FirstMisfit(PySequence_Fast_GET_ITEM(value, i), want))
        return bad;
    return nullptr;
  }
  const DType have = PyBool_Check(value)      ? DType::kBool
                     : PyLong_Check(value)    ? DType::kInt64
                     : PyFloat_Check(value)   ? DType::kDouble
                     : PyComplex_Check(value) ? DType::kComplex128
                     : PyUnicode_Check(value) || PyBytes_Check(value)
                         ? DType::kString
                         : DType::kInvalid;
  return have != DType::kInvalid && !Fits(have, want) ? value : nullptr;
}

Result<Tensor> Strings(PyArrayObject* a, PyObject* value) {
  // One contiguous array of objects.
  const Ref objects(PyArray_FROM_OTF(reinterpret_cast<PyObject*>(a), NPY_OBJECT,
                                     NPY_ARRAY_C_CONTIGUOUS));
  if (!objects) return Internal("");
  auto* const array = reinterpret_cast<PyArrayObject*>(objects.get());
  SLUICE_ASSIGN_OR_RETURN(
      const Shape shape,
      Shape::Make(
          {PyArray_DIMS(array), static_cast<size_t>(PyArray_NDIM(array))}));
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Tensor::Make(DType::kString, shape));
  auto* const items = static_cast<PyObject**>(PyArray_DATA(array));
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    PyObject* const item = items[i];
    if (item == nullptr || (!PyUnicode_Check(item) && !PyBytes_Check(item))) {
      Mismatch(DType::kString, item == nullptr ? value : item);
      return Internal("");
    }
    if (!ToString(item, t.data<std::string>() + i)) return Internal("");
  }
  return t;
}

// The elements of an array, which has the type that is wanted.
Result<Tensor> FromArray(PyArrayObject* given, DType type, bool share) {
  const Ref contiguous(PyArray_FROM_OTF(
      reinterpret_cast<PyObject*>(given), NumpyType(type),
      NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_FORCECAST));
  if (!contiguous) return Internal("");
  auto* const a = reinterpret_cast<PyArrayObject*>(contiguous.get());
  SLUICE_ASSIGN_OR_RETURN(
      const Shape shape,
      Shape::Make({PyArray_DIMS(a), static_cast<size_t>(PyArray_NDIM(a))}));
  const auto bytes = static_cast<size_t>(PyArray_NBYTES(a));
  if (share && bytes >= kWorthSharing) {
    SharedRef owner = Share(contiguous.get());
    return Tensor(type, shape,
                  new ForeignBuffer(PyArray_DATA(a), bytes,
                                    [owner = std::move(owner)] {}),
                  PyArray_DATA(a));
  }
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Tensor::Make(type, shape));
  if (bytes > 0) std::memcpy(t.raw(), PyArray_DATA(a), bytes);
  return t;
}

// The array that a Python value is; null with an error where it is none.
PyObject* AsArray(PyObject* value) {
  if (PyArray_Check(value)) {
    Py_INCREF(value);
    return value;
  }
  PyObject* const array = PyArray_FROM_OF(value, NPY_ARRAY_C_CONTIGUOUS);
  return array;
}

// Rounds as Cast does: to the nearest even.
bool ToBfloat16(PyObject* array, Tensor* out) {
  const Ref floats(PyArray_FROM_OTF(
      array, NPY_FLOAT32, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_FORCECAST));
  if (!floats) return false;
  auto* const a = reinterpret_cast<PyArrayObject*>(floats.get());
  Result<Shape> shape =
      Shape::Make({PyArray_DIMS(a), static_cast<size_t>(PyArray_NDIM(a))});
  if (!shape.ok()) return BuildFailed(shape.status()) != nullptr;
  Tensor t(DType::kBfloat16, *shape);
  const auto* from = static_cast<const float*>(PyArray_DATA(a));
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.data<bfloat16>()[i] = bfloat16(from[i]);
  *out = std::move(t);
  return true;
}

}  // namespace

bool LoadNumpy() {
  static bool loaded = false;
  if (loaded) return true;
  if (_import_array() < 0) return false;
  return loaded = true;
}

// ---- Types and shapes -------------------------------------------------------

PyObject* FromDType(DType t) {
  // Filled once; objects live as long as the process.
  static PyObject* known[256] = {};
  PyObject*& object = known[static_cast<uint8_t>(t)];
  if (object == nullptr && GetHooks().dtypes != nullptr) {
    const Ref key(PyLong_FromLong(static_cast<int>(t)));
    object = PyDict_GetItemWithError(GetHooks().dtypes, key.get());
    Py_XINCREF(object);
  }
  if (object == nullptr) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_TypeError, "no DType for number %d",
                   static_cast<int>(t));
    return nullptr;
  }
  Py_INCREF(object);
  return object;
}

bool ToDType(PyObject* o, DType* out) {
  static PyObject* const number = Interned("as_datatype_enum");
  Ref value = FindAttribute(o, number);
  if (!value) {
    const Ref type(PyObject_CallOneArg(GetHooks().as_dtype, o));
    if (!type) return false;
    value = Ref(PyObject_GetAttr(type.get(), number));
    if (!value) return false;
  }
  const long n = PyLong_AsLong(value.get());
  if (n == -1 && PyErr_Occurred()) return false;
  *out = static_cast<DType>(n);
  return true;
}

PyObject* FromShape(const PartialShape& shape) {
  if (!shape.rank_known()) Py_RETURN_NONE;
  PyObject* const dims = PyTuple_New(shape.rank());
  if (dims == nullptr) return nullptr;
  for (int i = 0; i < shape.rank(); ++i) {
    PyObject* dim = nullptr;
    if (shape.dim(i) < 0) {
      dim = Py_None;
      Py_INCREF(dim);
    } else {
      dim = PyLong_FromLongLong(shape.dim(i));
    }
    PyTuple_SET_ITEM(dims, i, dim);
  }
  return dims;
}

bool ToShape(PyObject* o, PartialShape* out) {
  const Ref dims(PyObject_CallOneArg(GetHooks().shape_dims, o));
  if (!dims) return false;
  if (dims.get() == Py_None) {
    *out = PartialShape();
    return true;
  }
  PartialShape shape = PartialShape::Scalar();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dims.get()); ++i) {
    PyObject* const dim = PyTuple_GET_ITEM(dims.get(), i);
    const int64_t d = dim == Py_None ? -1 : PyLong_AsLongLong(dim);
    if (d == -1 && PyErr_Occurred()) return false;
    shape.add_dim(d);
  }
  *out = std::move(shape);
  return true;
}

// ---- Tensors ----------------------------------------------------------------

PyObject* ToNumpy(Tensor t) {
  if (!LoadNumpy()) return nullptr;
  if (t.dtype() == DType::kBfloat16) {  // numpy has none: as float32.
    Tensor wide(DType::kFloat, t.shape());
    for (int64_t i = 0; i < t.num_elements(); ++i)
      wide.data<float>()[i] = static_cast<float>(t.data<bfloat16>()[i]);
    t = std::move(wide);
  }
  const int type = NumpyType(t.dtype());
  if (type < 0)
    return PyErr_Format(PyExc_TypeError,
                        "expected a value that numpy can hold, got one of type "
                        "%s",
                        DTypeName(t.dtype()).c_str());
  npy_intp dims[kMaxRank];
  for (int i = 0; i < t.rank(); ++i) dims[i] = t.dim(i);
  if (type == NPY_OBJECT) {
    const auto bytes = [&t](int64_t i) {
      const std::string& s = t.data<std::string>()[i];
      return PyBytes_FromStringAndSize(s.data(),
                                       static_cast<Py_ssize_t>(s.size()));
    };
    if (t.rank() == 0) return bytes(0);
    PyObject* const made = PyArray_SimpleNew(t.rank(), dims, NPY_OBJECT);
    if (made == nullptr) return nullptr;
    auto** const items = static_cast<PyObject**>(
        PyArray_DATA(reinterpret_cast<PyArrayObject*>(made)));
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      PyObject* const old = std::exchange(items[i], bytes(i));
      Py_XDECREF(old);
    }
    return made;
  }
  if (t.rank() == 0) {
    const Ref descr(reinterpret_cast<PyObject*>(PyArray_DescrFromType(type)));
    return PyArray_Scalar(
        t.raw(), reinterpret_cast<PyArray_Descr*>(descr.get()), nullptr);
  }
  const size_t bytes = t.bytes();
  if (bytes < kWorthSharing || !t.has_buffer() || !t.unique()) {
    PyObject* const made = PyArray_SimpleNew(t.rank(), dims, type);
    if (made != nullptr && bytes > 0)
      std::memcpy(PyArray_DATA(reinterpret_cast<PyArrayObject*>(made)), t.raw(),
                  bytes);
    return made;
  }
  auto* const owned = new Tensor(std::move(t));
  Ref owner(PyCapsule_New(owned, "sluice.Tensor", [](PyObject* capsule) {
    delete static_cast<Tensor*>(PyCapsule_GetPointer(capsule, "sluice.Tensor"));
  }));
  if (!owner) {
    delete owned;
    return nullptr;
  }
  PyObject* const made =
      PyArray_New(&PyArray_Type, owned->rank(), dims, type, nullptr,
                  owned->raw(), 0, NPY_ARRAY_CARRAY, nullptr);
  if (made == nullptr) return nullptr;
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(made),
                            owner.release()) < 0) {
    Py_DECREF(made);
    return nullptr;
  }
  return made;
}

bool IsPlainValue(PyObject* o) {
  if (PyLong_Check(o) || PyFloat_Check(o) || PyList_CheckExact(o) ||
      PyTuple_CheckExact(o) || PyUnicode_Check(o) || PyBytes_Check(o) ||
      PyComplex_Check(o))
    return true;
  return LoadNumpy() && (PyArray_Check(o) || PyArray_CheckScalar(o));
}

bool ToTensor(PyObject* value, DType want, bool share, Tensor* out) {
  want = RemoveRef(want);
  // Scalars of Python's own, without numpy.
  if (PyFloat_CheckExact(value)) {
    const double v = PyFloat_AS_DOUBLE(value);
    switch (want) {
      case DType::kInvalid:
      case DType::kFloat:
        *out = Tensor::Scalar(static_cast<float>(v));
        return true;
      case DType::kDouble:
        *out = Tensor::Scalar(v);
        return true;
      default:
        break;
    }
  } else if (PyBool_Check(value)) {
    if (want == DType::kInvalid || want == DType::kBool) {
      *out = Tensor::Scalar(value == Py_True);
      return true;
    }
  } else if (PyLong_CheckExact(value)) {
    int overflow = 0;
    const int64_t v = PyLong_AsLongLongAndOverflow(value, &overflow);
    const bool small = overflow == 0 &&
                       v >= std::numeric_limits<int32_t>::min() &&
                       v <= std::numeric_limits<int32_t>::max();
    if (overflow == 0) {
      if (small && (want == DType::kInvalid || want == DType::kInt32)) {
        *out = Tensor::Scalar(static_cast<int32_t>(v));
        return true;
      }
      if (want == DType::kInt64 || want == DType::kInvalid) {
        *out = Tensor::Scalar(v);
        return true;
      }
      if (want == DType::kFloat) {
        *out = Tensor::Scalar(static_cast<float>(v));
        return true;
      }
      if (want == DType::kDouble) {
        *out = Tensor::Scalar(static_cast<double>(v));
        return true;
      }
    }
  } else if (PyUnicode_CheckExact(value) || PyBytes_CheckExact(value)) {
    if (want == DType::kInvalid || want == DType::kString) {
      std::string s;
      if (!ToString(value, &s)) return false;
      *out = Tensor::Scalar(std::move(s));
      return true;
    }
  } else if (value == Py_None) {
    PyErr_SetString(PyExc_ValueError, "None values not supported.");
    return false;
  }
  if (!LoadNumpy()) return false;
  const bool has_own_type = PyArray_Check(value) || PyArray_CheckScalar(value);
  if (!has_own_type && want != DType::kInvalid)
    if (PyObject* const bad = FirstMisfit(value, want))
      return Mismatch(want, bad);
  const Ref array(AsArray(value));
  if (!array) return false;
  auto* a = reinterpret_cast<PyArrayObject*>(array.get());
  DType have = TypeOfArray(a);
  if (have == DType::kInvalid) {
    PyErr_Format(PyExc_TypeError,
                 "Failed to convert %R of type %s to a Tensor: no tensor has "
                 "elements of type %R",
                 value, Py_TYPE(value)->tp_name, PyArray_DESCR(a));
    return false;
  }
  if (have == DType::kString) {
    if (want != DType::kInvalid && want != DType::kString)
      return Mismatch(want, value);
    Result<Tensor> t = Strings(a, value);
    if (!t.ok()) {
      if (!PyErr_Occurred()) BuildFailed(t.status());
      return false;
    }
    *out = *std::move(t);
    return true;
  }
  if (want == DType::kString) return Mismatch(want, value);
  DType type = want;
  if (type == DType::kInvalid) {
    type = have;
    if (!has_own_type && have == DType::kDouble) type = DType::kFloat;
    if (!has_own_type && have == DType::kInt64) {
      // int32, unless that would lose something.
      type = DType::kInt32;
      const auto* v = static_cast<const int64_t*>(PyArray_DATA(a));
      for (npy_intp i = 0; i < PyArray_SIZE(a); ++i)
        if (v[i] != static_cast<int32_t>(v[i])) type = DType::kInt64;
    }
  } else if (!has_own_type && PyArray_SIZE(a) > 0 && IsInteger(type) &&
             IsInteger(have)) {
    // Numbers that the type has no room for.
    const Ref cast(
        PyArray_FROM_OTF(array.get(), NumpyType(type), NPY_ARRAY_FORCECAST));
    const Ref same(cast ? PyObject_RichCompare(cast.get(), array.get(), Py_EQ)
                        : nullptr);
    const Ref all(same ? PyObject_CallMethod(same.get(), "all", nullptr)
                       : nullptr);
    if (!all) return false;
    const int holds = PyObject_IsTrue(all.get());
    if (holds <= 0) return holds == 0 ? Mismatch(type, value) : false;
  }
  if (type == DType::kBfloat16) return ToBfloat16(array.get(), out);
  if (NumpyType(type) < 0) return Mismatch(type, value);
  Result<Tensor> t = FromArray(a, type, share);
  if (!t.ok()) {
    if (!PyErr_Occurred()) BuildFailed(t.status());
    return false;
  }
  *out = *std::move(t);
  return true;
}

// ---- Attributes -------------------------------------------------------------

namespace {

bool Wrong(PyObject* value, const char* expected, const std::string& what) {
  PyErr_Clear();
  PyErr_Format(PyExc_TypeError, "Expected %s for argument '%s' not %R.",
               expected, what.c_str(), value);
  return false;
}

bool ToInt(PyObject* value, const std::string& what, int64_t* out) {
  if (PyFloat_Check(value)) return Wrong(value, "int", what);
  const Ref number(PyNumber_Index(value));
  const Ref as_int(number ? nullptr : (PyErr_Clear(), PyNumber_Long(value)));
  if (!number && !as_int) return Wrong(value, "int", what);
  const int64_t v = PyLong_AsLongLong(number ? number.get() : as_int.get());
  if (v == -1 && PyErr_Occurred()) return false;
  *out = v;
  return true;
}

bool ToFloat(PyObject* value, const std::string& what, float* out) {
  if (PyUnicode_Check(value) || PyBytes_Check(value))
    return Wrong(value, "float", what);
  const double v = PyFloat_AsDouble(value);
  if (v == -1 && PyErr_Occurred()) return Wrong(value, "float", what);
  *out = static_cast<float>(v);
  return true;
}

bool ToBool(PyObject* value, const std::string& what, bool* out) {
  if (!PyBool_Check(value)) {
    const Ref item = FindAttribute(value, Interned("item"));  // numpy.bool_
    const Ref inner(item ? PyObject_CallNoArgs(item.get()) : nullptr);
    if (!inner || !PyBool_Check(inner.get())) return Wrong(value, "bool", what);
    *out = inner.get() == Py_True;
    return true;
  }
  *out = value == Py_True;
  return true;
}

bool ToFunction(PyObject* value, const std::string& what, FunctionRef* out) {
  Ref name = Ref::Borrow(value);
  if (!PyUnicode_Check(value)) name = FindAttribute(value, Interned("name"));
  if (!name || !PyUnicode_Check(name.get()))
    return Wrong(value, "a function", what);
  return ToString(name.get(), &out->name);
}

template <typename T, typename Convert>
bool ToList(PyObject* value, const std::string& what, const Convert& convert,
            AttrValue* out) {
  if (PyUnicode_Check(value) || PyBytes_Check(value) ||
      !PySequence_Check(value)) {
    PyErr_Format(PyExc_TypeError, "Expected list for '%s' argument, not %R.",
                 what.c_str(), value);
    return false;
  }
  const Ref items(PySequence_Fast(value, "expected a list"));
  if (!items) return false;
  std::vector<T> list;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    T item{};
    if (!convert(PySequence_Fast_GET_ITEM(items.get(), i), &item)) return false;
    list.push_back(std::move(item));
  }
  *out = AttrValue(std::move(list));
  return true;
}

template <typename T, typename Convert>
bool ToOne(PyObject* value, const Convert& convert, AttrValue* out) {
  T item{};
  if (!convert(value, &item)) return false;
  *out = AttrValue(std::move(item));
  return true;
}

}  // namespace

bool ToAttr(PyObject* value, AttrKind kind, bool is_list,
            const std::string& what, AttrValue* out) {
  const auto both = [&]<typename T>(T, const auto& convert) {
    return is_list ? ToList<T>(value, what, convert, out)
                   : ToOne<T>(value, convert, out);
  };
  switch (kind) {
    case AttrKind::kInt:
      return both(int64_t{},
                  [&](PyObject* v, int64_t* o) { return ToInt(v, what, o); });
    case AttrKind::kFloat:
      return both(float{},
                  [&](PyObject* v, float* o) { return ToFloat(v, what, o); });
    case AttrKind::kBool: {
      bool b = false;
      if (!is_list) {
        if (!ToBool(value, what, &b)) return false;
        *out = AttrValue(b);
        return true;
      }
      const Ref items(PySequence_Fast(value, "expected a list"));
      if (!items) return false;
      AttrValue::Bools list;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
        if (!ToBool(PySequence_Fast_GET_ITEM(items.get(), i), what, &b))
          return false;
        list.push_back(b);
      }
      *out = AttrValue(std::move(list));
      return true;
    }
    case AttrKind::kString:
      return both(std::string{}, [&](PyObject* v, std::string* o) {
        return ToString(v, o) || Wrong(v, "string", what);
      });
    case AttrKind::kType:
      return both(DType{},
                  [&](PyObject* v, DType* o) { return ToDType(v, o); });
    case AttrKind::kShape:
      return both(PartialShape{},
                  [&](PyObject* v, PartialShape* o) { return ToShape(v, o); });
    case AttrKind::kTensor:
      return both(Tensor{}, [&](PyObject* v, Tensor* o) {
        return ToTensor(v, DType::kInvalid, false, o);
      });
    case AttrKind::kFunction:
      return both(FunctionRef{}, [&](PyObject* v, FunctionRef* o) {
        return ToFunction(v, what, o);
      });
    case AttrKind::kNone:
      break;
  }
  return Wrong(value, "a known kind of attribute", what);
}

namespace {

PyObject* One(int64_t v) { return PyLong_FromLongLong(v); }
PyObject* One(float v) { return PyFloat_FromDouble(v); }
PyObject* One(bool v) { return PyBool_FromLong(v); }
PyObject* One(const std::string& v) {
  return PyBytes_FromStringAndSize(v.data(), static_cast<Py_ssize_t>(v.size()));
}
PyObject* One(DType v) { return FromDType(v); }
PyObject* One(const PartialShape& v) { return FromShape(v); }
PyObject* One(const Tensor& v) { return ToNumpy(v); }
PyObject* One(const FunctionRef& v) { return FromString(v.name); }
PyObject* One(std::monostate) { Py_RETURN_NONE; }
PyObject* One(AttrValue::EmptyList) { return PyList_New(0); }
PyObject* One(const AttrValue::Placeholder& v) { return FromString(v.name); }
template <typename T>
PyObject* One(const std::vector<T>& list) {
  Ref made(PyList_New(0));
  for (const auto& item : list) {
    const Ref one(One(static_cast<T>(item)));
    if (!one || PyList_Append(made.get(), one.get()) < 0) return nullptr;
  }
  return made.release();
}

}  // namespace

PyObject* FromAttr(const AttrValue& value) {
  return std::visit([](const auto& v) { return One(v); }, value.value());
}

}  // namespace sluice::py
