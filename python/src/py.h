// What the files of the extension module sluice._core share: references,
// errors, locks, and where in the user's program a call came from.
//
// Conventions: a function that gives a PyObject* gives a new reference, or null
// with Python's error set; one that gives bool gives false with it set. All of
// it runs under the interpreter's lock unless a comment says otherwise.
#ifndef SLUICE_PYTHON_PY_H_
#define SLUICE_PYTHON_PY_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>
#include <string>
#include <utility>

#include "graph/graph.h"

namespace sluice::py {

// Owns one reference, or none.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : p_(owned) {}
  static Ref Borrow(PyObject* p) {
    Py_XINCREF(p);
    return Ref(p);
  }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref&& o) noexcept {
    PyObject* const old = std::exchange(p_, std::exchange(o.p_, nullptr));
    Py_XDECREF(old);
    return *this;
  }
  Ref(const Ref&) = delete;
  ~Ref() { Py_XDECREF(p_); }

  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

// A reference that any thread may drop, with or without the interpreter's lock:
// for what the library keeps (functions of gradients, arrays that are fed).
using SharedRef = std::shared_ptr<PyObject>;
SharedRef Share(PyObject* p);

// Lets other Python threads run while it lives.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }
  WithoutGil(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

// Holds a graph's mutex. Whoever has it may have to wait for the interpreter's
// lock (a branch that is being built is Python code), so nobody may wait for it
// while holding that.
class GraphLock {
 public:
  explicit GraphLock(Graph& g) : mutex_(g.mutex()) {
    if (mutex_.try_lock()) return;
    const WithoutGil others_run;
    mutex_.lock();
  }
  ~GraphLock() { mutex_.unlock(); }
  GraphLock(const GraphLock&) = delete;

 private:
  std::recursive_mutex& mutex_;
};

// A function of any of the signatures that a method table takes.
template <typename Fn>
PyCFunction Fast(Fn* fn) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(fn));
}

// ---- Strings ----------------------------------------------------------------

PyObject* FromString(std::string_view s);
// str (as UTF-8) or bytes.
bool ToString(PyObject* o, std::string* out);
// The same name always gives the same object; it lives forever.
PyObject* Interned(const char* name);
// o.name, or null without an error where there is none.
Ref FindAttribute(PyObject* o, PyObject* name);

// ---- Errors -----------------------------------------------------------------

// What building a graph raises: ValueError, or TypeError, LookupError,
// NotImplementedError by its code. Returns null.
PyObject* BuildFailed(const Status& s);
// What running a step raises: sluice.errors' class of the code. Returns null.
PyObject* RunFailed(const Status& s, PyObject* graph);
// Takes the error that a builder recorded in the graph and raises it; true if
// there was none and none is set already.
bool CheckBuilt(Graph& g);

// ---- Lines ------------------------------------------------------------------

// The line of the innermost Python function that is not of this package.
SourceLoc UserLine();

// ---- What the Python side tells us ------------------------------------------

// Set once by the package, by name: classes, and functions for what is rare
// enough to be written in Python. Null until then.
struct Hooks {
  PyObject* operation_class = nullptr;
  PyObject* tensor_class = nullptr;
  PyObject* dtypes = nullptr;        // A dict: number to DType.
  PyObject* as_dtype = nullptr;      // (x) -> DType.
  PyObject* shape_dims = nullptr;    // (x) -> tuple or None.
  PyObject* run_error = nullptr;     // (code, message, graph) -> exception.
  PyObject* convert = nullptr;       // (x, dtype, name, as_ref) -> Tensor.
  PyObject* pack = nullptr;          // (list, dtype, name) -> Tensor.
  PyObject* expand_fetch = nullptr;  // (x) -> (parts, function of values).
  PyObject* expand_feed = nullptr;   // (key, value) -> [(Tensor, value)].
  PyObject* variable_class = nullptr;
};
Hooks& GetHooks();
// _core.set_hooks(**hooks), _core.set_package(folder).
PyObject* SetHooks(PyObject*, PyObject* args, PyObject* kwargs);
PyObject* SetPackage(PyObject*, PyObject* folder);

}  // namespace sluice::py

#endif  // SLUICE_PYTHON_PY_H_
