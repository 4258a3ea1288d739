// What the files of the extension module sluice._core share: errors, locks,
// calls of Python's functions by the library, and where in the user's program a
// call came from.
//
// Functions that are called from Python raise by throwing, as pybind11's do.
// The library knows no exceptions: what it calls goes through FromLibrary.
#ifndef SLUICE_PYTHON_PY_H_
#define SLUICE_PYTHON_PY_H_

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/graph.h"

namespace sluice::python {

namespace py = pybind11;

// A reference that any thread may drop, with or without the interpreter's lock:
// for what the library keeps (functions of gradients, arrays that are fed).
using SharedObject = std::shared_ptr<const py::object>;
SharedObject Share(py::object o);

bool InterpreterIsGoing();

// Other Python threads run while it lives. It is py::gil_scoped_release, but
// for one thing: if the interpreter has ended when the lock is asked for again,
// CPython ends the thread by unwinding its stack, which a C++ destructor turns
// into an abort of the process. Here such a thread sleeps until that ends.
class OthersRun {
 public:
  OthersRun() : state_(PyEval_SaveThread()) {}
  ~OthersRun();
  OthersRun(const OthersRun&) = delete;

 private:
  PyThreadState* const state_;
};

// The interpreter's lock, for a thread of the library. (If the interpreter has
// ended, the thread sleeps, as above.)
class PythonLock {
 public:
  PythonLock();
  PythonLock(const PythonLock&) = delete;

 private:
  std::optional<py::gil_scoped_acquire> lock_;
};

// Holds a graph's mutex. Whoever has it may have to wait for the interpreter's
// lock (a branch that is being built is Python code), so nobody may wait for it
// while holding that.
class GraphLock {
 public:
  explicit GraphLock(Graph& g) : mutex_(g.mutex()) {
    if (mutex_.try_lock()) return;
    const OthersRun others_run;
    mutex_.lock();
  }
  ~GraphLock() { mutex_.unlock(); }
  GraphLock(const GraphLock&) = delete;

 private:
  std::recursive_mutex& mutex_;
};

// ---- Errors -----------------------------------------------------------------

// Raises an exception of the class, such as PyExc_TypeError. (Bytes that are
// not UTF-8 are replaced: a message may quote anything.)
[[noreturn]] void Raise(py::handle kind, absl::string_view message);
// What building a graph raises: ValueError, or LookupError, RuntimeError,
// NotImplementedError by its code.
void Check(const Status& s);
template <typename T>
T Checked(Result<T> result) {
  Check(result.status());
  return *std::move(result);
}
// What running a step raises: sluice.errors' class of the code.
void CheckRun(const Status& s, py::handle graph);
// Takes the error that a builder recorded in the graph and raises it, or what a
// function raised that the library called meanwhile.
void CheckBuilt(Graph& g);
// The same after what returns its error.
void CheckBuilt(Graph& g, const Status& s);

// For messages: a value, the name of its type, "got 3 of type int".
std::string Repr(py::handle o);
std::string TypeName(py::handle o);
std::string Got(py::handle o);

// Of str (as UTF-8) or bytes; TypeError of all else.
std::string ToText(py::handle o);

// Calls `fn`, which is Python's, for the library. What it raises stays set as
// Python's error, for CheckBuilt to find; meanwhile nothing more is called, and
// whoever asks gets an empty value.
template <typename Fn>
auto FromLibrary(const Fn& fn) -> decltype(fn()) {
  if (PyErr_Occurred()) return decltype(fn())();
  try {
    return fn();
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (const py::builtin_exception& e) {
    e.set_error();
  }
  return decltype(fn())();
}

// ---- Lines ------------------------------------------------------------------

// The line of the innermost Python function that is not of this package.
SourceLoc UserLine();

// ---- What the Python side tells us ------------------------------------------

// Set once by the package, by name: classes, and functions for what is rare
// enough to be written in Python. Null until then.
struct Hooks {
  py::object operation_class;
  py::object tensor_class;
  py::object dtypes;        // A dict: number to DType.
  py::object as_dtype;      // (x) -> DType.
  py::object shape_dims;    // (x) -> tuple or None.
  py::object run_error;     // (code, message, graph) -> exception.
  py::object wording;       // (message) -> message: of what building raises.
  py::object convert;       // (x, dtype, name, as_ref) -> Tensor.
  py::object pack;          // (list, dtype, name, as_ref) -> Tensor.
  py::object expand_fetch;  // (x) -> (parts, function of values).
  py::object expand_feed;   // (key, value) -> [(Tensor, value)].
  py::object variable_class;
  py::object session_handle;  // (session, dtype) -> function of [handle].
};
Hooks& GetHooks();
// _core.set_hooks(**hooks), _core.set_package(folder).
void AddHooks(py::module_& m);

}  // namespace sluice::python

#endif  // SLUICE_PYTHON_PY_H_
