#include "values.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace sluice::python {
namespace {

// Below this an array of its own is cheaper than one that shares.
constexpr size_t kWorthSharing = 1024;

// ---- numpy ------------------------------------------------------------------

// What numpy has for each type. The first of a kind and size is what an array
// of these becomes.
constexpr struct {
  DType type;
  const char* name;
  char kind;
  int size;
} kNumpyTypes[] = {
    {DType::kFloat, "float32", 'f', 4},
    {DType::kDouble, "float64", 'f', 8},
    {DType::kHalf, "float16", 'f', 2},
    {DType::kInt8, "int8", 'i', 1},
    {DType::kInt16, "int16", 'i', 2},
    {DType::kInt32, "int32", 'i', 4},
    {DType::kInt64, "int64", 'i', 8},
    {DType::kUint8, "uint8", 'u', 1},
    {DType::kUint16, "uint16", 'u', 2},
    {DType::kUint32, "uint32", 'u', 4},
    {DType::kUint64, "uint64", 'u', 8},
    {DType::kBool, "bool", 'b', 1},
    {DType::kComplex64, "complex64", 'c', 8},
    {DType::kComplex128, "complex128", 'c', 16},
    {DType::kQint8, "int8", 'i', 1},
    {DType::kQint16, "int16", 'i', 2},
    {DType::kQint32, "int32", 'i', 4},
    {DType::kQuint8, "uint8", 'u', 1},
    {DType::kQuint16, "uint16", 'u', 2},
};

// Null: numpy has none.
const py::dtype* NumpyType(DType t) {
  static auto* const known = new std::array<std::optional<py::dtype>, 256>();
  auto& type = (*known)[static_cast<uint8_t>(t)];
  if (!type)
    for (const auto& entry : kNumpyTypes)
      if (entry.type == t) type.emplace(entry.name);
  return type ? &*type : nullptr;
}

// kInvalid: no tensor has such elements.
DType TypeOfArray(const py::array& a) {
  const char kind = a.dtype().kind();
  if (kind == 'S' || kind == 'U' || kind == 'O') return DType::kString;
  for (const auto& entry : kNumpyTypes)
    if (entry.kind == kind && entry.size == a.itemsize()) return entry.type;
  return DType::kInvalid;
}

// PyArray_Scalar of numpy's C interface. (An array's only element, which is
// what Python has for it, takes ten times as long.)
PyObject* (*numpys_scalar)(const void* data, PyObject* type, PyObject* base);

// Before anything is done with numpy, here or in pybind11. Both keep in static
// variables what they look up there: to load it meanwhile, which lets other
// threads run, would have these wait for the variable with the interpreter's
// lock.
void NeedNumpy() {
  static bool loaded = false;
  if (loaded) return;
  const py::module_ numpy = py::module_::import("numpy");
  const auto version = py::cast<std::string>(numpy.attr("__version__"));
  const bool is_2 = std::stoi(version) >= 2;
  if (!kTakesNumpy2 && is_2)
    Raise(PyExc_ImportError,
          absl::StrCat("sluice._core: expected numpy 1, as built with pybind11 "
                       "before 2.12, got numpy ",
                       version, "; hint: numpy<2, or pip install ."));
  const py::object table =
      numpy.attr(is_2 ? "_core" : "core").attr("multiarray").attr("_ARRAY_API");
  constexpr int kScalar = 60;  // In all versions.
  numpys_scalar = reinterpret_cast<decltype(numpys_scalar)>(
      static_cast<void**>(PyCapsule_GetPointer(table.ptr(), nullptr))[kScalar]);
  loaded = true;
}

// An attribute of numpy, looked up once.
py::object FromNumpy(const char* name) {
  return py::module_::import("numpy").attr(name);
}

// A numpy scalar of the value there.
py::object ScalarAt(const void* data, const py::dtype& type) {
  auto made = py::reinterpret_steal<py::object>(
      numpys_scalar(data, type.ptr(), Py_None));
  if (!made) throw py::error_already_set();
  return made;
}

// The array that a Python value is, in C's order; raises where it is none.
py::array AsArray(py::handle value, py::handle type = py::none()) {
  static auto* const as_array = new py::object(FromNumpy("asarray"));
  return (*as_array)(value, type, "C");
}

// The same elements, as numpy casts them.
py::array Cast(const py::array& a, const py::dtype& type) {
  if (a.dtype().equal(type)) return a;
  return a.attr("astype")(type);
}

Shape ShapeOf(const py::array& a) {
  const std::vector<int64_t> dims(a.shape(), a.shape() + a.ndim());
  return Checked(Shape::Make(dims));
}

// ---- Checks -----------------------------------------------------------------

bool LooksFloating(DType t) { return IsFloating(t) || IsComplex(t); }

// Raises TensorFlow's error for a value that its type cannot hold.
[[noreturn]] void Mismatch(DType want, py::handle value) {
  Raise(PyExc_TypeError,
        absl::StrCat("Expected ", PythonTypeName(want), ", but got ",
                     Repr(value), " of type '", TypeName(value), "'."));
}

// Whether elements of the type may stand for those of type `want`.
bool Fits(DType have, DType want, Numbers numbers) {
  if (want == DType::kString || have == DType::kString) return have == want;
  if (IsComplex(have)) return IsComplex(want);
  if (numbers == Numbers::kCast) return true;
  if (want == DType::kBool) return have == want;
  if (have == DType::kBool) return true;  // A bool is an int to Python.
  return LooksFloating(want) || !LooksFloating(have);
}

// Raises for the first element of nested lists that does not fit.
void CheckFits(py::handle value, DType want, Numbers numbers) {
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    for (const py::handle item : value) CheckFits(item, want, numbers);
    return;
  }
  const DType have =
      PyBool_Check(value.ptr())      ? DType::kBool
      : PyLong_Check(value.ptr())    ? DType::kInt64
      : PyFloat_Check(value.ptr())   ? DType::kDouble
      : PyComplex_Check(value.ptr()) ? DType::kComplex128
      : PyUnicode_Check(value.ptr()) || PyBytes_Check(value.ptr())
          ? DType::kString
          : DType::kInvalid;
  if (have != DType::kInvalid && !Fits(have, want, numbers))
    Mismatch(want, value);
}

// ---- To tensors -------------------------------------------------------------

py::array AsDenseArray(py::handle value) {
  try {
    return AsArray(value);
  } catch (py::error_already_set& e) {
    // (Bytes that are no text, beside text.)
    if (e.matches(PyExc_UnicodeDecodeError))
      return AsArray(value, py::dtype("O"));
    if (e.matches(PyExc_ValueError))
      Raise(PyExc_ValueError,
            absl::StrCat("Argument must be a dense tensor: ", Repr(value), "; ",
                         std::string(py::str(e.value()))));
    throw;
  }
}

// Scalars of Python's own, without numpy; invalid where that is not enough.
Tensor FromScalar(py::handle value, DType want) {
  PyObject* const v = value.ptr();
  if (PyFloat_CheckExact(v)) {
    if (want == DType::kInvalid || want == DType::kFloat)
      return Tensor::Scalar(static_cast<float>(PyFloat_AS_DOUBLE(v)));
    if (want == DType::kDouble) return Tensor::Scalar(PyFloat_AS_DOUBLE(v));
  } else if (PyBool_Check(v)) {
    if (want == DType::kInvalid || want == DType::kBool)
      return Tensor::Scalar(v == Py_True);
  } else if (PyLong_CheckExact(v)) {
    int overflow = 0;
    const int64_t i = PyLong_AsLongLongAndOverflow(v, &overflow);
    if (overflow != 0) return Tensor();
    if ((want == DType::kInvalid || want == DType::kInt32) &&
        i == static_cast<int32_t>(i))
      return Tensor::Scalar(static_cast<int32_t>(i));
    if (want == DType::kInvalid || want == DType::kInt64)
      return Tensor::Scalar(i);
    if (want == DType::kFloat) return Tensor::Scalar(static_cast<float>(i));
    if (want == DType::kDouble) return Tensor::Scalar(static_cast<double>(i));
  } else if (PyUnicode_CheckExact(v) || PyBytes_CheckExact(v)) {
    if (want == DType::kInvalid || want == DType::kString)
      return Tensor::Scalar(py::cast<std::string>(value));
  }
  return Tensor();
}

Tensor FromStrings(const py::array& a) {
  Tensor t = Checked(Tensor::Make(DType::kString, ShapeOf(a)));
  std::string* to = t.data<std::string>();
  for (const py::handle item : a.attr("ravel")().attr("tolist")()) {
    if (!PyUnicode_Check(item.ptr()) && !PyBytes_Check(item.ptr()))
      Mismatch(DType::kString, item);
    *to++ = py::cast<std::string>(item);
  }
  return t;
}

// The elements of an array, as those of the type that is wanted.
Tensor FromArray(const py::array& given, DType type, bool share) {
  if (type == DType::kBfloat16) {  // Rounds as Cast does: to the nearest even.
    const py::array a = Cast(given, *NumpyType(DType::kFloat));
    Tensor t = Checked(Tensor::Make(type, ShapeOf(a)));
    const auto* const from = static_cast<const float*>(a.data());
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.data<bfloat16>()[i] = bfloat16(from[i]);
    return t;
  }
  const py::array a = Cast(given, *NumpyType(type));
  const auto bytes = static_cast<size_t>(a.nbytes());
  auto* const data = const_cast<void*>(a.data());
  const bool aligned =
      reinterpret_cast<uintptr_t>(data) % static_cast<size_t>(a.itemsize()) ==
      0;
  if (share && aligned && bytes >= kWorthSharing)
    return Tensor(
        type, ShapeOf(a),
        new ForeignBuffer(
            data, bytes, [owner = Share(a)] {}, ForeignBuffer::Lent::kForAStep),
        data);
  Tensor t = Checked(Tensor::Make(type, ShapeOf(a)));
  if (bytes > 0) std::memcpy(t.raw(), data, bytes);
  return t;
}

// Whether an integer type has room for all elements of an array of integers.
bool HasRoom(DType want, const py::array& a) {
  const py::dtype& type = *NumpyType(want);
  const bool is_signed = type.kind() == 'i';
  const int bits = 8 * static_cast<int>(type.itemsize()) - is_signed;
  const uint64_t most = std::numeric_limits<uint64_t>::max() >> (64 - bits);
  const int64_t least = is_signed ? -static_cast<int64_t>(most) - 1 : 0;
  const auto fit = [&](const auto* v) {
    return std::all_of(v, v + a.size(), [most, least](auto i) {
      return std::cmp_less_equal(i, most) && std::cmp_greater_equal(i, least);
    });
  };
  if (TypeOfArray(a) == DType::kUint64)
    return fit(static_cast<const uint64_t*>(a.data()));
  const py::array wide = Cast(a, *NumpyType(DType::kInt64));
  return fit(static_cast<const int64_t*>(wide.data()));
}

// Whether all elements of an array of objects stand for integers, as dimensions
// of shapes do, none of them an integer too large for numpy's.
bool AreIndices(const py::array& a) {
  if (a.dtype().kind() != 'O' || a.size() == 0) return false;
  const py::list items = a.attr("ravel")().attr("tolist")();
  return std::all_of(items.begin(), items.end(), [](py::handle item) {
    if (!PyLong_Check(item.ptr())) return PyIndex_Check(item.ptr()) != 0;
    int overflow = 0;
    (void)PyLong_AsLongLongAndOverflow(item.ptr(), &overflow);
    return overflow == 0;
  });
}

// The type that Python's own numbers get where none is asked for.
DType PresetType(const py::array& a, DType have) {
  if (have == DType::kDouble) return DType::kFloat;
  // int32, unless that would lose something.
  return have == DType::kInt64 && HasRoom(DType::kInt32, a) ? DType::kInt32
                                                            : have;
}

}  // namespace

bool HasOwnType(py::handle o) {
  NeedNumpy();
  static auto* const generic = new py::object(FromNumpy("generic"));
  return py::isinstance<py::array>(o) || py::isinstance(o, *generic);
}

Tensor ToTensor(py::handle value, DType want, bool share, Numbers numbers) {
  want = RemoveRef(want);
  Tensor scalar = FromScalar(value, want);
  if (scalar.valid()) return scalar;
  if (value.is_none()) Raise(PyExc_ValueError, "None values not supported.");
  if (numbers == Numbers::kCast && want == DType::kBool &&
      PyLong_Check(value.ptr()) &&
      !value.equal(py::bool_(py::reinterpret_borrow<py::object>(value))))
    Mismatch(want, value);
  const bool has_own_type = HasOwnType(value);
  if (!has_own_type && want != DType::kInvalid) CheckFits(value, want, numbers);
  py::array a = AsDenseArray(value);
  if (!has_own_type && (want == DType::kInvalid || IsInteger(want)) &&
      AreIndices(a))
    a = AsArray(value, *NumpyType(DType::kInt64));
  DType have = TypeOfArray(a);
  // (numpy's own strings have lost the zeros at their ends, and its empty lists
  // are of floats.)
  if (!has_own_type &&
      (have == DType::kString || (want == DType::kString && a.size() == 0))) {
    a = AsArray(value, py::dtype("O"));
    have = DType::kString;
  }
  // (numpy has ints beyond int64 beside smaller ones as float64.)
  if (have == DType::kDouble && want == DType::kUint64 && !has_own_type) {
    a = AsArray(value, *NumpyType(want));
    have = want;
  }
  if (have == DType::kInvalid)
    Raise(PyExc_TypeError,
          absl::StrCat("Failed to convert ", Repr(value), " of type ",
                       TypeName(value),
                       " to a Tensor: no tensor has elements of type ",
                       Repr(a.dtype())));
  if ((have == DType::kString) != (want == DType::kString) &&
      want != DType::kInvalid)
    Mismatch(want, value);
  if (have == DType::kString) return FromStrings(a);
  if (want == DType::kInvalid)
    return FromArray(a, has_own_type ? have : PresetType(a, have), share);
  if (want != DType::kBfloat16 && NumpyType(want) == nullptr)
    Mismatch(want, value);
  if (!has_own_type && IsInteger(want) && IsInteger(have) && !HasRoom(want, a))
    Mismatch(want, value);
  return FromArray(a, want, share);
}

bool IsPlainValue(py::handle o) {
  PyObject* const v = o.ptr();
  return PyLong_Check(v) || PyFloat_Check(v) || PyList_CheckExact(v) ||
         PyTuple_CheckExact(v) || PyUnicode_Check(v) || PyBytes_Check(v) ||
         PyComplex_Check(v) || HasOwnType(o);
}

// ---- From tensors -----------------------------------------------------------

Status MakeOwn(std::vector<Tensor>* values) {
  for (Tensor& t : *values)
    if (IsPlain(t.dtype()) && t.bytes() >= kWorthSharing && !t.unique()) {
      SLUICE_ASSIGN_OR_RETURN(t, t.Clone());
    }
  return OkStatus();
}

py::object ToNumpy(Tensor t) {
  NeedNumpy();
  if (t.dtype() == DType::kBfloat16) {  // numpy has none: as float32.
    Tensor wide = Checked(Tensor::Make(DType::kFloat, t.shape()));
    for (int64_t i = 0; i < t.num_elements(); ++i)
      wide.data<float>()[i] = static_cast<float>(t.data<bfloat16>()[i]);
    t = std::move(wide);
  }
  std::vector<py::ssize_t> dims;
  for (int i = 0; i < t.rank(); ++i) dims.push_back(t.dim(i));
  if (t.dtype() == DType::kString) {
    if (t.rank() == 0) return py::bytes(t.scalar<std::string>());
    py::list items;
    for (const std::string& s : t.flat<std::string>())
      items.append(py::bytes(s));
    return FromNumpy("array")(items, "O").attr("reshape")(dims);
  }
  const py::dtype* const type = NumpyType(t.dtype());
  if (type == nullptr)
    Raise(PyExc_TypeError,
          absl::StrCat("expected a value that numpy can hold, got one of type ",
                       DTypeName(t.dtype())));
  if (t.rank() == 0) return ScalarAt(t.raw(), *type);
  const size_t bytes = t.bytes();
  if (bytes < kWorthSharing || !t.has_buffer() || !t.unique()) {
    py::array made(*type, dims);
    if (bytes > 0) std::memcpy(made.mutable_data(), t.raw(), bytes);
    return made;
  }
  auto* const owned = new Tensor(std::move(t));
  const py::capsule owner(owned,
                          [](void* p) { delete static_cast<Tensor*>(p); });
  return py::array(*type, dims, owned->raw(), owner);
}

// ---- Types and shapes -------------------------------------------------------

py::object FromDType(DType t) {
  // Filled once; objects live as long as the process.
  static auto* const known = new std::array<py::object, 256>();
  py::object& object = (*known)[static_cast<uint8_t>(t)];
  if (!object) object = GetHooks().dtypes[py::int_(static_cast<int>(t))];
  return object;
}

DType ToDType(py::handle o) {
  py::object number = py::getattr(o, "as_datatype_enum", py::none());
  if (number.is_none())
    number = GetHooks().as_dtype(o).attr("as_datatype_enum");
  return static_cast<DType>(py::cast<int>(number));
}

std::string PythonTypeName(DType t) {
  return py::str(FromDType(t).attr("name"));
}

py::object FromShape(const PartialShape& shape) {
  if (!shape.rank_known()) return py::none();
  py::tuple dims(shape.rank());
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dim(i) < 0)
      dims[static_cast<size_t>(i)] = py::none();
    else
      dims[static_cast<size_t>(i)] = shape.dim(i);
  }
  return dims;
}

PartialShape ToShape(py::handle o) {
  const py::object dims = GetHooks().shape_dims(o);
  if (dims.is_none()) return PartialShape();
  PartialShape shape = PartialShape::Scalar();
  for (const py::handle dim : dims)
    shape.add_dim(dim.is_none() ? -1 : py::cast<int64_t>(dim));
  return shape;
}

// ---- Attributes -------------------------------------------------------------

namespace {

[[noreturn]] void Wrong(py::handle value, const char* expected,
                        const std::string& what) {
  PyErr_Clear();
  Raise(PyExc_TypeError, absl::StrCat("Expected ", expected, " for argument '",
                                      what, "' not ", Repr(value), "."));
}

bool IsText(py::handle o) {
  return PyUnicode_Check(o.ptr()) || PyBytes_Check(o.ptr());
}

// One value of each kind.
template <typename T>
T ToOne(py::handle value, const std::string& what);

template <>
int64_t ToOne<int64_t>(py::handle value, const std::string& what) {
  const auto number =
      py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!number) Wrong(value, "int", what);
  const int64_t i = PyLong_AsLongLong(number.ptr());
  if (i == -1 && PyErr_Occurred()) throw py::error_already_set();
  return i;
}

template <>
float ToOne<float>(py::handle value, const std::string& what) {
  if (IsText(value)) Wrong(value, "float", what);
  const double d = PyFloat_AsDouble(value.ptr());
  if (d == -1 && PyErr_Occurred()) Wrong(value, "float", what);
  return static_cast<float>(d);
}

template <>
bool ToOne<bool>(py::handle value, const std::string& what) {
  py::detail::make_caster<bool> caster;  // Python's or numpy's, no other.
  if (!caster.load(value, false)) Wrong(value, "bool", what);
  return caster;
}

template <>
std::string ToOne<std::string>(py::handle value, const std::string& what) {
  if (!IsText(value)) Wrong(value, "string", what);
  return py::cast<std::string>(value);
}

template <>
DType ToOne<DType>(py::handle value, const std::string&) {
  return ToDType(value);
}

template <>
PartialShape ToOne<PartialShape>(py::handle value, const std::string&) {
  return ToShape(value);
}

template <>
Tensor ToOne<Tensor>(py::handle value, const std::string&) {
  return ToTensor(value, DType::kInvalid);
}

template <>
FunctionRef ToOne<FunctionRef>(py::handle value, const std::string& what) {
  const py::object name = IsText(value)
                              ? py::reinterpret_borrow<py::object>(value)
                              : py::getattr(value, "name", py::none());
  if (!IsText(name)) Wrong(value, "a function", what);
  return {py::cast<std::string>(name), nullptr};
}

template <typename T>
AttrValue ToAttrOf(py::handle value, bool is_list, const std::string& what) {
  if (!is_list) return AttrValue(ToOne<T>(value, what));
  if (IsText(value) || !PySequence_Check(value.ptr()))
    Raise(PyExc_TypeError, absl::StrCat("Expected list for '", what,
                                        "' argument, not ", Repr(value), "."));
  std::vector<T> list;
  for (const py::handle item : value) list.push_back(ToOne<T>(item, what));
  return AttrValue(std::move(list));
}

}  // namespace

AttrValue ToAttr(py::handle value, AttrKind kind, bool is_list,
                 const std::string& what) {
  switch (kind) {
    case AttrKind::kInt:
      return ToAttrOf<int64_t>(value, is_list, what);
    case AttrKind::kFloat:
      return ToAttrOf<float>(value, is_list, what);
    case AttrKind::kBool:
      return ToAttrOf<bool>(value, is_list, what);
    case AttrKind::kString:
      return ToAttrOf<std::string>(value, is_list, what);
    case AttrKind::kType:
      return ToAttrOf<DType>(value, is_list, what);
    case AttrKind::kShape:
      return ToAttrOf<PartialShape>(value, is_list, what);
    case AttrKind::kTensor:
      return ToAttrOf<Tensor>(value, is_list, what);
    case AttrKind::kFunction:
      return ToAttrOf<FunctionRef>(value, is_list, what);
    case AttrKind::kNone:
      break;
  }
  Wrong(value, "a known kind of attribute", what);
}

namespace {

// Where pybind11 would do something else, or nothing.
py::object FromOne(std::monostate) { return py::none(); }
py::object FromOne(AttrValue::EmptyList) { return py::list(); }
py::object FromOne(const std::string& v) { return py::bytes(v); }
py::object FromOne(const Tensor& v) { return ToNumpy(v); }
py::object FromOne(const FunctionRef& v) { return py::str(v.name); }
py::object FromOne(const AttrValue::Placeholder& v) { return py::str(v.name); }
template <typename T>
py::object FromOne(const T& v) {
  return py::cast(v);
}
template <typename T>
py::object FromOne(const std::vector<T>& list) {
  py::list made;
  for (const auto& item : list) made.append(FromOne(static_cast<T>(item)));
  return made;
}

}  // namespace

py::object FromAttr(const AttrValue& value) {
  return std::visit([](const auto& v) { return FromOne(v); }, value.value());
}

}  // namespace sluice::python
