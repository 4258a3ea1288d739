// Gradients, conditionals and loops: the C++ libraries, which call
// Python's functions back while they build.
//
// What such a function raises is what the whole call raises: the error stays
// set while the library winds up with an error of its own.
#include "flow.h"

#include <algorithm>
#include <memory>

#include "client/autodiff/gradients.h"
#include "client/body_captures.h"
#include "client/control/cond_of_slices.h"
#include "client/control/control_flow.h"
#include "client/control/scheduled.h"
#include "graph/exact_line.h"
#include "ops.h"
#include "scopes.h"
#include "values.h"

namespace sluice::python {

// ---- Gradients --------------------------------------------------------------

py::object FromGradient(const Gradient& g) {
  if (!g) return py::none();
  if (!g.is_sparse()) return py::cast(g.dense);
  return py::make_tuple(g.values, g.indices, g.dense_shape);
}

py::list FromGradients(const std::vector<Gradient>& grads) {
  py::list list;
  for (const Gradient& g : grads) list.append(FromGradient(g));
  return list;
}

Gradient ToGradient(PyGraph& g, py::handle o) {
  if (o.is_none()) return Gradient();
  if (const TensorHandle* const tensor = AsTensor(o))
    return Gradient(InGraphOf(g, tensor->output));
  // IndexedSlices.
  const auto part = [&g, o](const char* name) {
    const py::object value = py::getattr(o, name, py::none());
    const TensorHandle* const tensor = AsTensor(value);
    return tensor == nullptr ? Output() : InGraphOf(g, tensor->output);
  };
  const Output values = part("values"), indices = part("indices");
  if (!values.valid() || !indices.valid())
    Raise(PyExc_TypeError,
          "expected a gradient that is a Tensor, IndexedSlices or None, " +
              Got(o));
  return Gradient::Slices(indices, values, part("dense_shape"));
}

namespace {

py::list MakeGradients(const py::list& ys, const py::list& xs,
                       const py::list& grad_ys,
                       const std::vector<Output>& stop_gradients,
                       const std::string& name, bool unconnected_zero,
                       bool colocate, bool gate_ops) {
  const auto y = py::cast<std::vector<Output>>(ys);
  PyGraph& found = GraphOfArguments({ys, xs});
  // (Within a function's body: of what is outside, the gradients are, too,
  // unless they begin within.)
  const bool begins_within =
      std::any_of(y.begin(), y.end(),
                  [&](const Output& o) { return o.graph() == &found; }) ||
      std::any_of(grad_ys.begin(), grad_ys.end(), [&](py::handle grad) {
        return !grad.is_none() &&
               py::getattr(grad, "graph", py::none()).is(ObjectOf(found));
      });
  PyGraph& g = found.is_function && !y.empty() && !begins_within
                   ? GraphOf(y[0].node)
                   : found;
  const Building here(g);
  std::vector<std::unique_ptr<GraphLock>> around;
  for (const BodyCaptures* body = BodyCaptures::Of(&g); body != nullptr;
       body = BodyCaptures::Of(body->outside()))
    around.push_back(std::make_unique<GraphLock>(*body->outside()));
  GradientOptions options;
  for (const py::handle grad : grad_ys)
    options.grad_ys.push_back(ToGradient(g, grad));
  options.stop_gradients = stop_gradients;
  options.unconnected =
      unconnected_zero ? Unconnected::kZero : Unconnected::kNone;
  options.colocate = colocate;
  options.gate_ops = gate_ops;
  options.name = name;
  const auto x = py::cast<std::vector<Output>>(xs);
  const std::vector<GradTarget> targets(x.begin(), x.end());
  const Result<std::vector<Gradient>> grads =
      Gradients(y, targets, options, UserLine());
  CheckBuilt(g, grads.status());
  return FromGradients(*grads);
}

// A gradient function of Python's: fn(op, *grads) -> one gradient per input.
void CallGradient(const py::object& fn, GradContext& c) {
  // (Nodes have the line where the function makes them.)
  const ExactLine own_lines{SourceLoc()};
  py::list args;
  args.append(c.op);
  for (int i = 0; i < c.op->num_outputs(); ++i) {
    const Output dy = c.dy[static_cast<size_t>(i)];
    const DType t = RemoveRef(c.op->output_type(i));
    args.append(!dy.valid() && (IsFloating(t) || IsComplex(t)) ? c.DyOrZeros(i)
                                                               : dy);
  }
  py::object result = fn(*args);
  if (!py::isinstance<py::list>(result) && !py::isinstance<py::tuple>(result))
    result = py::make_tuple(result);
  for (const py::handle grad : result)
    c.grads.push_back(ToGradient(TargetGraph(), grad));
  if (c.grads.size() != static_cast<size_t>(c.op->num_inputs()))
    Raise(PyExc_ValueError,
          absl::StrCat("Num gradients ", c.grads.size(), " generated for op ",
                       c.op->Describe(), " do not match num inputs ",
                       c.op->num_inputs()));
}

// `fn` is None where an op has no gradient.
void RegisterPythonGradient(const std::string& name, const py::object& fn) {
  UserGradient gradient = [](GradContext& c) {
    c.grads.resize(static_cast<size_t>(c.op->num_inputs()));
    return OkStatus();
  };
  if (!fn.is_none())
    gradient = [shared = Share(fn)](GradContext& c) -> Status {
      if (&TargetGraph() != c.op->graph())
        return Internal("gradient: expected the graph of Python's");
      c.grads.clear();
      const bool done = FromLibrary([&] {
        CallGradient(*shared, c);
        return true;
      });
      if (done) return OkStatus();
      return InvalidArgument("gradient of ", c.op->Describe());
    };
  const Status s = RegisterGradient(name, gradient);
  if (!s.ok()) Raise(PyExc_KeyError, s.message());
}

// ---- Conditionals and loops -------------------------------------------------

template <typename... Args>
std::vector<Operand> CallBranch(const py::function& fn, SourceLoc loc,
                                const Args&... args) {
  std::vector<Operand> values;
  for (const Output& o : CallForOutputs(fn, args...))
    values.emplace_back(o, loc.file, loc.line);
  return values;
}

// The functions take nothing and give lists. `indices`: which results are
// indices of slices; the functions may add to it.
std::vector<Output> MakeCond(const py::object& pred,
                             const py::function& then_fn,
                             const py::function& else_fn,
                             const py::set& indices, const std::string& name) {
  PyGraph& g = GraphOfArguments({pred});
  const Building here(g);
  const SourceLoc loc = UserLine();
  std::vector<Output> made = internal::BuildCondOfSlices(
      Operand(InGraphOf(g, py::cast<Output>(pred)), loc.file, loc.line),
      [&] { return CallBranch(then_fn, loc); },
      [&] { return CallBranch(else_fn, loc); },
      [&](size_t i) { return indices.contains(i); }, name, loc);
  CheckBuilt(g);
  return made;
}

// The functions take a list and give one; invariants are shapes, or an empty
// list.
std::vector<Output> MakeWhile(
    const py::function& cond, const py::function& body,
    const py::list& variables, const std::vector<PartialShape>& invariants,
    int parallel_iterations, bool back_prop, bool swap_memory,
    const Output& maximum_iterations, const std::string& name, bool batch) {
  WhileOptions options;
  options.shape_invariants = invariants;
  options.parallel_iterations = parallel_iterations;
  options.back_prop = back_prop;
  options.swap_memory = swap_memory;
  options.batch = batch;
  options.name = name;
  PyGraph& g = GraphOfArguments({variables});
  const Building here(g);
  const SourceLoc loc = UserLine();
  if (maximum_iterations.valid())
    options.maximum_iterations =
        Operand(InGraphOf(g, maximum_iterations), loc.file, loc.line);
  std::vector<Operand> init;
  for (const Output& o : py::cast<std::vector<Output>>(variables))
    init.emplace_back(InGraphOf(g, o), loc.file, loc.line);
  std::vector<Output> made = internal::BuildWhile(
      init,
      [&](const std::vector<Output>& v) { return CallBranch(cond, loc, v); },
      [&](const std::vector<Output>& v) { return CallBranch(body, loc, v); },
      options, loc);
  CheckBuilt(g);
  return made;
}

// The body takes a list and gives one.
std::vector<Output> MakeScheduled(const std::vector<std::string>& devices,
                                  const py::list& inputs,
                                  const py::function& body,
                                  const std::string& policy, double ns_per_row,
                                  double bytes_per_s, int64_t rows_per_part,
                                  const std::string& home,
                                  const std::string& name) {
  PyGraph& g = GraphOfArguments({inputs});
  const Building here(g);
  const SourceLoc loc = UserLine();
  std::vector<Operand> values;
  for (const Output& o : py::cast<std::vector<Output>>(inputs))
    values.emplace_back(InGraphOf(g, o), loc.file, loc.line);
  std::vector<Output> made = internal::BuildScheduled(
      devices, values,
      [&](const std::vector<Output>& v) { return CallBranch(body, loc, v); },
      {.policy = policy,
       .ns_per_row = ns_per_row,
       .bytes_per_s = bytes_per_s,
       .rows_per_part = rows_per_part,
       .home = home,
       .name = name},
      loc);
  CheckBuilt(g);
  return made;
}

}  // namespace

void AddFlow(py::module_& m) {
  m.def("gradients", MakeGradients);
  m.def("register_gradient", RegisterPythonGradient);
  m.def("cond", MakeCond);
  m.def("while_loop", MakeWhile);
  m.def("scheduled", MakeScheduled);
}

}  // namespace sluice::python
