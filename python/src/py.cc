#include "py.h"

#include <frameobject.h>

#include <atomic>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sluice::py {
namespace {

// References that were dropped by threads without the interpreter's lock.
std::mutex dropped_mutex;
std::vector<PyObject*> dropped;  // GUARDED_BY(dropped_mutex)

int DropAll(void*) {
  std::vector<PyObject*> now;
  {
    const std::lock_guard<std::mutex> lock(dropped_mutex);
    now.swap(dropped);
  }
  for (PyObject* p : now) Py_DECREF(p);
  return 0;
}

void Drop(PyObject* p) {
  if (p == nullptr || !Py_IsInitialized()) return;
  if (PyGILState_Check()) {
    Py_DECREF(p);
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(dropped_mutex);
    dropped.push_back(p);
  }
  // (If the queue is full, what is dropped later takes this along.)
  Py_AddPendingCall(DropAll, nullptr);
}

std::string& PackageFolder() {
  static auto* const folder = new std::string();
  return *folder;
}

}  // namespace

SharedRef Share(PyObject* p) {
  Py_XINCREF(p);
  return SharedRef(p, Drop);
}

// ---- Strings ----------------------------------------------------------------

PyObject* FromString(std::string_view s) {
  return PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()),
                              "replace");
}

bool ToString(PyObject* o, std::string* out) {
  if (PyUnicode_Check(o)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(o, &size);
    if (text == nullptr) return false;
    out->assign(text, static_cast<size_t>(size));
    return true;
  }
  if (PyBytes_Check(o)) {
    out->assign(PyBytes_AS_STRING(o), static_cast<size_t>(PyBytes_GET_SIZE(o)));
    return true;
  }
  PyErr_Format(PyExc_TypeError, "expected str or bytes, got %R of type %s", o,
               Py_TYPE(o)->tp_name);
  return false;
}

PyObject* Interned(const char* name) {
  return PyUnicode_InternFromString(name);
}

Ref FindAttribute(PyObject* o, PyObject* name) {
  PyObject* value = PyObject_GetAttr(o, name);
  if (value == nullptr) PyErr_Clear();
  return Ref(value);
}

// ---- Errors -----------------------------------------------------------------

PyObject* BuildFailed(const Status& s) {
  PyObject* kind = PyExc_ValueError;
  switch (s.code()) {
    case StatusCode::kNotFound:
      kind = PyExc_LookupError;
      break;
    case StatusCode::kUnimplemented:
      kind = PyExc_NotImplementedError;
      break;
    case StatusCode::kInternal:
    case StatusCode::kFailedPrecondition:
      kind = PyExc_RuntimeError;
      break;
    default:
      break;
  }
  const Ref text(FromString({s.message().data(), s.message().size()}));
  if (text) PyErr_SetObject(kind, text.get());
  return nullptr;
}

PyObject* RunFailed(const Status& s, PyObject* graph) {
  if (PyErr_Occurred()) return nullptr;  // Raised by a function that it called.
  const Ref text(FromString({s.message().data(), s.message().size()}));
  if (!text) return nullptr;
  const Ref code(PyLong_FromLong(static_cast<int>(s.code())));
  const Ref error(PyObject_CallFunctionObjArgs(GetHooks().run_error, code.get(),
                                               text.get(), graph, nullptr));
  if (error)
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())),
                    error.get());
  return nullptr;
}

bool CheckBuilt(Graph& g) {
  if (g.status().ok()) return !PyErr_Occurred();
  const Status s = g.status();
  g.ClearError();
  // What the user's function raised is the cause of what the builder says.
  if (!PyErr_Occurred()) BuildFailed(s);
  return false;
}

// ---- Lines ------------------------------------------------------------------

namespace {

// The file's name, interned, if the code is the user's; null if it is ours.
// Code objects are kept so that their addresses stay theirs.
const char* UserFile(PyCodeObject* code) {
  constexpr size_t kMost = 1 << 16;
  static auto* const known = new std::unordered_map<PyObject*, const char*>();
  static auto* const files = new std::unordered_set<std::string>();
  const auto found = known->find(reinterpret_cast<PyObject*>(code));
  if (found != known->end()) return found->second;
  if (known->size() >= kMost) {
    for (const auto& [object, file] : *known) Py_DECREF(object);
    known->clear();
  }
  const char* file = nullptr;
  const char* path = PyUnicode_AsUTF8(code->co_filename);
  if (path == nullptr) {
    PyErr_Clear();
    path = "?";
  }
  const std::string& ours = PackageFolder();
  if (ours.empty() || !std::string_view(path).starts_with(ours))
    file = files->insert(path).first->c_str();
  Py_INCREF(code);
  known->emplace(reinterpret_cast<PyObject*>(code), file);
  return file;
}

}  // namespace

SourceLoc UserLine() {
  Ref frame = Ref::Borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* const f = reinterpret_cast<PyFrameObject*>(frame.get());
    PyCodeObject* const code = PyFrame_GetCode(f);
    const char* const file = UserFile(code);
    Py_DECREF(code);
    if (file != nullptr) return {file, PyFrame_GetLineNumber(f)};
    frame = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(f)));
  }
  return {};
}

// ---- Hooks ------------------------------------------------------------------

Hooks& GetHooks() {
  static auto* const hooks = new Hooks();
  return *hooks;
}

PyObject* SetHooks(PyObject*, PyObject* args, PyObject* kwargs) {
  Hooks& h = GetHooks();
  const std::pair<const char*, PyObject**> places[] = {
      {"operation_class", &h.operation_class},
      {"tensor_class", &h.tensor_class},
      {"dtypes", &h.dtypes},
      {"as_dtype", &h.as_dtype},
      {"shape_dims", &h.shape_dims},
      {"run_error", &h.run_error},
      {"convert", &h.convert},
      {"pack", &h.pack},
      {"expand_fetch", &h.expand_fetch},
      {"expand_feed", &h.expand_feed},
      {"variable_class", &h.variable_class}};
  if (PyTuple_GET_SIZE(args) != 0) {
    PyErr_SetString(PyExc_TypeError, "set_hooks: expected keywords only");
    return nullptr;
  }
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0;
       kwargs != nullptr && PyDict_Next(kwargs, &at, &key, &value);) {
    PyObject** place = nullptr;
    for (const auto& [name, p] : places)
      if (PyUnicode_CompareWithASCIIString(key, name) == 0) place = p;
    if (place == nullptr)
      return PyErr_Format(PyExc_TypeError, "set_hooks: no hook %R", key);
    Py_INCREF(value);
    Py_XDECREF(*place);
    *place = value;
  }
  Py_RETURN_NONE;
}

PyObject* SetPackage(PyObject*, PyObject* folder) {
  if (!ToString(folder, &PackageFolder())) return nullptr;
  Py_RETURN_NONE;
}

}  // namespace sluice::py
