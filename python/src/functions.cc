// Functions of Python that ops call (tf.py_func).
//
// The library has weak references to them: a graph holds its functions, where
// the collector sees them.

#include "exec/host_functions.h"
#include "objects.h"
#include "values.h"

namespace sluice::python {
namespace {

// What became of an exception, which is the step's error then.
Status StatusOf(const py::error_already_set& e) {
  if (!e.matches(PyExc_Exception)) {
    // The main thread's, which raises it as it comes out of the step.
    if (e.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
    return Cancelled("function: expected to end, got ", TypeName(e.value()));
  }
  // (What numpy raises when it is called from here has no trace.)
  const py::object trace = e.trace() ? e.trace() : py::object(py::none());
  const py::object lines =
      py::module_::import("traceback")
          .attr("format_exception")(e.type(), e.value(), trace);
  const std::string text =
      absl::StrCat(py::cast<std::string>(e.type().attr("__name__")), ": ",
                   py::cast<std::string>(py::str(e.value())), "\n\n",
                   py::cast<std::string>(py::str("").attr("join")(lines)));
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

Result<std::vector<Tensor>> CallPython(const py::object& reference,
                                       std::vector<Tensor> args,
                                       const std::vector<DType>& types) {
  const PythonLock lock;
  try {
    const py::object fn = reference();
    if (fn.is_none())
      return FailedPrecondition(
          "function: expected one whose graph lives, got none");
    py::list arrays;
    for (Tensor& arg : args) arrays.append(ToNumpy(std::move(arg)));
    const py::object made = fn(*arrays);
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
