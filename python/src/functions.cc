// Functions of Python that ops call (tf.py_func).
//
// The library has weak references to them: a graph holds its functions, where
// the collector sees them.

#include <cxxabi.h>
#include <unistd.h>

#include "exec/core/host_functions.h"
#include "objects.h"
#include "values.h"

namespace sluice::python {
namespace {

// As UTF-8, which does not have all that a str may hold.
std::string Utf8(py::handle text) {
  return py::cast<std::string>(
      text.attr("encode")("utf-8", "backslashreplace"));
}

// "ValueError: what it says" and the lines that it came from.
std::string Explain(const py::error_already_set& e) {
  try {
    // (What numpy raises when it is called from here has no trace.)
    const py::object trace = e.trace() ? e.trace() : py::object(py::none());
    const py::object lines =
        py::module_::import("traceback")
            .attr("format_exception")(e.type(), e.value(), trace);
    return absl::StrCat(Utf8(e.type().attr("__name__")), ": ",
                        Utf8(py::str(e.value())), "\n\n",
                        Utf8(py::str("").attr("join")(lines)));
  } catch (const std::exception&) {  // Its __str__, which is the user's.
    return TypeName(e.value());
  }
}

// What became of an exception, which is the step's error then.
Status StatusOf(const py::error_already_set& e) {
  if (!e.matches(PyExc_Exception)) {
    // The main thread's, which raises it as it comes out of the step.
    if (e.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
    return Cancelled("function: expected to end, got ", TypeName(e.value()));
  }
  const std::string text = Explain(e);
  if (e.matches(PyExc_ValueError) || e.matches(PyExc_TypeError))
    return InvalidArgument(text);
  if (e.matches(PyExc_StopIteration)) return OutOfRange(text);
  if (e.matches(PyExc_MemoryError)) return ResourceExhausted(text);
  if (e.matches(PyExc_NotImplementedError)) return Unimplemented(text);
  return Status(StatusCode::kUnknown, text);
}

// Values with types of their own (numpy's) keep these; Python's numbers and
// lists become what is asked for.
Tensor ResultOf(py::handle value, DType type) {
  return ToTensor(value, HasOwnType(value) ? DType::kInvalid : type);
}

// fn(*args). A thread that the interpreter ends meanwhile, as it goes, sleeps
// here (OthersRun says why).
py::object CallFunction(const py::object& fn, const py::tuple& args) {
  PyObject* made = nullptr;
  try {
    made = PyObject_CallObject(fn.ptr(), args.ptr());
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

Result<std::vector<Tensor>> CallPython(const py::object& reference,
                                       std::vector<Tensor> args,
                                       const std::vector<DType>& types) {
  const PythonLock lock;
  try {
    const py::object fn = reference();
    if (fn.is_none())
      return FailedPrecondition(
          "function: expected one whose graph lives, got none");
    py::tuple arrays(args.size());
    for (size_t i = 0; i < args.size(); ++i)
      arrays[i] = ToNumpy(std::move(args[i]));
    const py::object made = CallFunction(fn, arrays);
    std::vector<Tensor> results;
    if (made.is_none()) return results;
    if (!py::isinstance<py::list>(made) && !py::isinstance<py::tuple>(made)) {
      results.push_back(
          ResultOf(made, types.empty() ? DType::kInvalid : types[0]));
      return results;
    }
    for (const py::handle value : made) {
      const size_t i = results.size();
      results.push_back(
          ResultOf(value, i < types.size() ? types[i] : DType::kInvalid));
    }
    return results;
  } catch (py::error_already_set& e) {
    return StatusOf(e);
  } catch (const std::exception& e) {  // Of pybind11.
    return Internal("function: ", e.what());
  }
}

// A token for what calls the function (an object that has weak references),
// which holds as long as that lives.
std::string AddFunction(const py::object& fn) {
  static int number = 0;
  const std::string token = absl::StrCat("pyfunc_", number++);
  const py::weakref reference(
      fn, py::cpp_function([token](py::handle) { RemoveHostFunction(token); }));
  AddHostFunction(token,
                  [shared = Share(reference)](std::vector<Tensor> args,
                                              const std::vector<DType>& types) {
                    return CallPython(*shared, std::move(args), types);
                  });
  return token;
}

}  // namespace

void AddFunctions(py::module_& m) { m.def("add_function", AddFunction); }

}  // namespace sluice::python
