#include "py.h"

#include <cxxabi.h>
#include <frameobject.h>
#include <unistd.h>

#include <string_view>
#include <unordered_set>

namespace sluice::python {
namespace {

std::string& PackageFolder() {
  static auto* const folder = new std::string();
  return *folder;
}

py::str Text(absl::string_view s) {
  PyObject* const made = PyUnicode_DecodeUTF8(
      s.data(), static_cast<py::ssize_t>(s.size()), "replace");
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(made);
}

}  // namespace

bool InterpreterIsGoing() {
#if PY_VERSION_HEX >= 0x030d0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

SharedObject Share(py::object o) {
  return SharedObject(new py::object(std::move(o)), [](const py::object* p) {
    // (A thread that asked for the lock then would not come back.)
    if (InterpreterIsGoing()) return;
    const py::gil_scoped_acquire lock;
    delete p;
  });
}

OthersRun::~OthersRun() {
  try {
    PyEval_RestoreThread(state_);
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

PythonLock::PythonLock() {
  try {
    if (!InterpreterIsGoing()) {
      lock_.emplace();
      return;
    }
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();  // (Within: who leaves here ends the process.)
  }
  for (;;) pause();
}

// ---- Errors -----------------------------------------------------------------

void Raise(py::handle kind, absl::string_view message) {
  PyErr_SetObject(kind.ptr(), Text(message).ptr());
  throw py::error_already_set();
}

namespace {

py::handle BuildErrorClass(StatusCode code) {
  switch (code) {
    case StatusCode::kNotFound:
      return PyExc_LookupError;
    case StatusCode::kUnimplemented:
      return PyExc_NotImplementedError;
    case StatusCode::kInternal:
    case StatusCode::kFailedPrecondition:
      return PyExc_RuntimeError;
    default:
      return PyExc_ValueError;
  }
}

}  // namespace

void Check(const Status& s) {
  if (s.ok()) return;
  PyErr_SetObject(BuildErrorClass(s.code()).ptr(),
                  GetHooks().wording(Text(s.message())).ptr());
  throw py::error_already_set();
}

void CheckRun(const Status& s, py::handle graph) {
  if (s.ok()) return;
  if (PyErr_Occurred()) throw py::error_already_set();
  py::object error;
  try {
    error = GetHooks().run_error(static_cast<int>(s.code()), Text(s.message()),
                                 graph);
  } catch (const abi::__forced_unwind&) {
    // The interpreter ended while this was Python code of another thread (see
    // OthersRun).
    for (;;) pause();
  }
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

void CheckBuilt(Graph& g) { CheckBuilt(g, g.status()); }

void CheckBuilt(Graph& g, const Status& s) {
  const Status failed = s;  // (It may be the graph's own.)
  if (failed.ok() && !PyErr_Occurred()) return;
  g.ClearErrors();
  // What the user's function raised is the cause of what the builder says.
  if (PyErr_Occurred()) throw py::error_already_set();
  Check(failed);
}

std::string Repr(py::handle o) { return py::repr(o); }
std::string TypeName(py::handle o) { return Py_TYPE(o.ptr())->tp_name; }
std::string Got(py::handle o) {
  return absl::StrCat("got ", Repr(o), " of type ", TypeName(o));
}

std::string ToText(py::handle o) {
  if (!PyUnicode_Check(o.ptr()) && !PyBytes_Check(o.ptr()))
    Raise(PyExc_TypeError, "expected str or bytes, " + Got(o));
  return py::cast<std::string>(o);
}

// ---- Lines ------------------------------------------------------------------

// Frames are read by CPython's own functions: pybind11 has none for them, and
// asking in Python (sys._getframe) would take most of an op's time.
namespace {

// The file's name, interned, if the code is the user's; null if it is ours.
const char* UserFile(const PyCodeObject& code) {
  static auto* const files = new std::unordered_set<std::string>();
  const char* path = PyUnicode_AsUTF8(code.co_filename);
  if (path == nullptr) {
    PyErr_Clear();
    path = "?";
  }
  const std::string& ours = PackageFolder();
  if (!ours.empty() && std::string_view(path).starts_with(ours)) return nullptr;
  return files->insert(path).first->c_str();
}

}  // namespace

SourceLoc UserLine() {
  auto frame = py::reinterpret_borrow<py::object>(
      reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* const f = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code = py::reinterpret_steal<py::object>(
        reinterpret_cast<PyObject*>(PyFrame_GetCode(f)));
    if (const char* const file =
            UserFile(*reinterpret_cast<PyCodeObject*>(code.ptr())))
      return {file, PyFrame_GetLineNumber(f)};
    frame = py::reinterpret_steal<py::object>(
        reinterpret_cast<PyObject*>(PyFrame_GetBack(f)));
  }
  return {};
}

// ---- Hooks ------------------------------------------------------------------

Hooks& GetHooks() {
  static auto* const hooks = new Hooks();  // (The interpreter goes first.)
  return *hooks;
}

void AddHooks(py::module_& m) {
  py::class_<Hooks>(m, "_Hooks")
      .def_readwrite("operation_class", &Hooks::operation_class)
      .def_readwrite("tensor_class", &Hooks::tensor_class)
      .def_readwrite("dtypes", &Hooks::dtypes)
      .def_readwrite("as_dtype", &Hooks::as_dtype)
      .def_readwrite("shape_dims", &Hooks::shape_dims)
      .def_readwrite("run_error", &Hooks::run_error)
      .def_readwrite("wording", &Hooks::wording)
      .def_readwrite("convert", &Hooks::convert)
      .def_readwrite("pack", &Hooks::pack)
      .def_readwrite("expand_fetch", &Hooks::expand_fetch)
      .def_readwrite("expand_feed", &Hooks::expand_feed)
      .def_readwrite("variable_class", &Hooks::variable_class)
      .def_readwrite("session_handle", &Hooks::session_handle);
  m.def("set_hooks", [](const py::kwargs& given) {
    const py::object hooks =
        py::cast(&GetHooks(), py::return_value_policy::reference);
    for (const auto& [name, hook] : given) py::setattr(hooks, name, hook);
  });
  m.def("set_package",
        [](const std::string& folder) { PackageFolder() = folder; });
}

}  // namespace sluice::python
