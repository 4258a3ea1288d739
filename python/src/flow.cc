// Gradients, conditionals, loops and optimizers: the C++ libraries, which call
// Python's functions back while they build.
//
// What such a function raises is what the whole call raises: the error stays
// set while the library winds up with an error of its own.
#include <deque>
#include <map>

#include "client/control_flow.h"
#include "client/gradients.h"
#include "client/optimizers.h"
#include "graph/exact_line.h"
#include "ops.h"
#include "scopes.h"
#include "values.h"

namespace sluice::py {
namespace {

// ---- Gradients --------------------------------------------------------------

// None, a Tensor, or (values, indices, dense_shape).
PyObject* FromGradient(GraphObject* graph, const Gradient& g) {
  if (!g) Py_RETURN_NONE;
  if (!g.is_sparse()) return ToPython(graph, g.dense);
  PyObject* const values = ToPython(graph, g.values);
  PyObject* const indices = ToPython(graph, g.indices);
  PyObject* const shape = g.dense_shape ? ToPython(graph, g.dense_shape)
                                        : Ref::Borrow(Py_None).release();
  return Py_BuildValue("(NNN)", values, indices, shape);
}

bool ToGradient(PyObject* o, Gradient* out) {
  if (o == Py_None) {
    *out = Gradient();
    return true;
  }
  if (IsTensor(o)) {
    *out = Gradient(OutputOf(o));
    return true;
  }
  // IndexedSlices.
  const Ref values = FindAttribute(o, Interned("values"));
  const Ref indices = FindAttribute(o, Interned("indices"));
  const Ref shape = FindAttribute(o, Interned("dense_shape"));
  if (values && indices && IsTensor(values.get()) && IsTensor(indices.get())) {
    *out = Gradient::Slices(
        OutputOf(indices.get()), OutputOf(values.get()),
        shape && IsTensor(shape.get()) ? OutputOf(shape.get()) : Output());
    return true;
  }
  PyErr_Format(PyExc_TypeError,
               "expected a gradient that is a Tensor, IndexedSlices or None, "
               "got %R of type %s",
               o, Py_TYPE(o)->tp_name);
  return false;
}

// gradients(ys, xs, grad_ys, stop_gradients, name, unconnected_zero, colocate,
// gate_ops) -> list
PyObject* MakeGradients(PyObject*, PyObject* args) {
  PyObject *ys = nullptr, *xs = nullptr, *grad_ys = nullptr, *stop = nullptr;
  const char* name = nullptr;
  int zero = 0, colocate = 0, gate = 0;
  if (!PyArg_ParseTuple(args, "OOOOsppp", &ys, &xs, &grad_ys, &stop, &name,
                        &zero, &colocate, &gate))
    return nullptr;
  std::vector<Output> y, x;
  GradientOptions options;
  if (!ToOutputs(ys, &y) || !ToOutputs(xs, &x) ||
      !ToOutputs(grad_ys, &options.grad_ys) ||
      !ToOutputs(stop, &options.stop_gradients))
    return nullptr;
  options.unconnected = zero ? Unconnected::kZero : Unconnected::kNone;
  options.colocate = colocate != 0;
  options.gate_ops = gate != 0;
  options.name = name;
  PyObject* lists[] = {ys, xs};
  for (PyObject*& list : lists)
    if (!PyList_Check(list)) {
      PyErr_SetString(PyExc_TypeError, "gradients: expected lists");
      return nullptr;
    }
  GraphObject* const graph = GraphOfArguments(lists, 2);
  if (graph == nullptr) return nullptr;
  const InGraph there(graph);
  Graph& g = graph->state->graph;
  const GraphLock lock(g);
  const std::vector<GradTarget> targets(x.begin(), x.end());
  const Result<std::vector<Gradient>> grads =
      Gradients(y, targets, options, UserLine());
  if (PyErr_Occurred() || !grads.ok()) g.ClearError();
  if (PyErr_Occurred()) return nullptr;
  if (!grads.ok()) return BuildFailed(grads.status());
  Ref list(PyList_New(0));
  for (const Gradient& one : *grads) {
    const Ref grad(FromGradient(graph, one));
    if (!grad || PyList_Append(list.get(), grad.get()) < 0) return nullptr;
  }
  return list.release();
}

// A gradient function of Python's: fn(op, *grads) -> one gradient per input.
Status CallGradient(const SharedRef& fn, GradContext& c) {
  if (PyErr_Occurred()) return Internal("an error was raised before");
  GraphObject* const graph = TargetGraph();
  if (&graph->state->graph != c.op->graph())
    return Internal("gradient: expected the graph of Python's");
  const Status failed = InvalidArgument("gradient of ", c.op->Describe());
  // (Nodes have the line where the function makes them.)
  const ExactLine own_lines{SourceLoc()};
  Ref args(PyTuple_New(1 + c.op->num_outputs()));
  PyTuple_SET_ITEM(args.get(), 0, ToPython(graph, c.op));
  for (int i = 0; i < c.op->num_outputs(); ++i) {
    Output dy = c.dy[static_cast<size_t>(i)];
    const DType t = RemoveRef(c.op->output_type(i));
    if (!dy && (IsFloating(t) || IsComplex(t))) dy = c.DyOrZeros(i);
    PyTuple_SET_ITEM(args.get(), 1 + i,
                     dy ? ToPython(graph, dy) : Ref::Borrow(Py_None).release());
  }
  Ref result(PyObject_CallObject(fn.get(), args.get()));
  if (!result) return failed;
  if (!PyList_Check(result.get()) && !PyTuple_Check(result.get()))
    result = Ref(PyTuple_Pack(1, result.get()));
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(result.get());
  if (n != c.op->num_inputs()) {
    PyErr_Format(PyExc_ValueError,
                 "Num gradients %zd generated for op %s do not match num "
                 "inputs %d",
                 n, c.op->Describe().c_str(), c.op->num_inputs());
    return failed;
  }
  c.grads.resize(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!ToGradient(PySequence_Fast_GET_ITEM(result.get(), i),
                    &c.grads[static_cast<size_t>(i)]))
      return failed;
  return OkStatus();
}

// register_gradient(name, fn)
PyObject* RegisterPythonGradient(PyObject*, PyObject* args) {
  const char* name = nullptr;
  PyObject* fn = nullptr;
  if (!PyArg_ParseTuple(args, "sO", &name, &fn)) return nullptr;
  UserGradient gradient;
  if (fn == Py_None) {
    gradient = [](GradContext& c) {
      c.grads.resize(static_cast<size_t>(c.op->num_inputs()));
      return OkStatus();
    };
  } else {
    gradient = [f = Share(fn)](GradContext& c) { return CallGradient(f, c); };
  }
  const Status s = RegisterGradient(name, gradient);
  if (!s.ok()) {
    const Ref text(FromString({s.message().data(), s.message().size()}));
    PyErr_SetObject(PyExc_KeyError, text.get());
    return nullptr;
  }
  Py_RETURN_NONE;
}

// ---- Conditionals and loops -------------------------------------------------

// Calls a function of Python's that gives a list of tensors, within the scopes
// that the library is in; whatever it did to these is undone.
std::vector<Operand> CallBranch(PyObject* fn, PyObject* args, SourceLoc loc) {
  std::vector<Operand> values;
  if (PyErr_Occurred()) return values;
  const ScopeState scopes;
  const Ref result(PyObject_CallObject(fn, args));
  scopes.Restore();
  std::vector<Output> outputs;
  if (!result || !ToOutputs(result.get(), &outputs)) return values;
  for (const Output& o : outputs) values.emplace_back(o, loc.file, loc.line);
  return values;
}

PyObject* Finish(GraphObject* graph, const std::vector<Output>& outputs) {
  Graph& g = graph->state->graph;
  if (!CheckBuilt(g)) return nullptr;
  return ToPython(graph, outputs);
}

// cond(pred, then_fn, else_fn, name) -> [Tensor]; functions give lists.
PyObject* MakeCond(PyObject*, PyObject* args) {
  PyObject *pred = nullptr, *then_fn = nullptr, *else_fn = nullptr;
  const char* name = nullptr;
  if (!PyArg_ParseTuple(args, "O!OOs", &TensorType, &pred, &then_fn, &else_fn,
                        &name))
    return nullptr;
  GraphObject* const graph = AsTensor(pred)->graph;
  const InGraph there(graph);
  const GraphLock lock(graph->state->graph);
  const SourceLoc loc = UserLine();
  return Finish(
      graph, internal::BuildCond(
                 Operand(OutputOf(pred), loc.file, loc.line),
                 [&] { return CallBranch(then_fn, nullptr, loc); },
                 [&] { return CallBranch(else_fn, nullptr, loc); }, name, loc));
}

// while_loop(cond, body, variables, invariants, parallel_iterations, back_prop,
// swap_memory, maximum_iterations, name) -> [Tensor]. The functions take a list
// and give one; invariants are shapes, or an empty list.
PyObject* MakeWhile(PyObject*, PyObject* args) {
  PyObject *cond = nullptr, *body = nullptr, *variables = nullptr,
           *invariants = nullptr, *most = nullptr;
  WhileOptions options;
  int back_prop = 1, swap = 0;
  const char* name = nullptr;
  if (!PyArg_ParseTuple(args, "OOO!O!ippOs", &cond, &body, &PyList_Type,
                        &variables, &PyList_Type, &invariants,
                        &options.parallel_iterations, &back_prop, &swap, &most,
                        &name))
    return nullptr;
  std::vector<Output> init;
  if (!ToOutputs(variables, &init)) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(invariants); ++i) {
    options.shape_invariants.emplace_back();
    if (!ToShape(PyList_GET_ITEM(invariants, i),
                 &options.shape_invariants.back()))
      return nullptr;
  }
  options.back_prop = back_prop != 0;
  options.swap_memory = swap != 0;
  options.name = name;
  GraphObject* const graph = GraphOfArguments(&variables, 1);
  if (graph == nullptr) return nullptr;
  const InGraph there(graph);
  const GraphLock lock(graph->state->graph);
  const SourceLoc loc = UserLine();
  if (IsTensor(most))
    options.maximum_iterations = Operand(OutputOf(most), loc.file, loc.line);
  std::vector<Operand> operands;
  for (const Output& o : init) operands.emplace_back(o, loc.file, loc.line);
  const auto call = [&](PyObject* fn, const std::vector<Output>& values) {
    const Ref list(ToPython(graph, values));
    if (!list) return std::vector<Operand>();
    const Ref one(PyTuple_Pack(1, list.get()));
    return CallBranch(fn, one.get(), loc);
  };
  return Finish(
      graph,
      internal::BuildWhile(
          operands, [&](const std::vector<Output>& v) { return call(cond, v); },
          [&](const std::vector<Output>& v) { return call(body, v); }, options,
          loc));
}

// ---- Optimizers -------------------------------------------------------------

// An optimizer whose updates are methods of a Python object: _prepare(),
// _create_slots_for(handle), _dense(gradient, handle), _sparse(values, indices,
// dense_shape, handle); the library decides what they wait for.
class PythonOptimizer : public Optimizer {
 public:
  PythonOptimizer(std::string name, bool repeated)
      : Optimizer(std::move(name)), repeated_(repeated) {}

  // Whose methods are called; set for each call.
  PyObject* self = nullptr;
  GradientGate gate = GradientGate::kReads;

 protected:
  void CreateSlots(const Var& var) override {
    const Ref handle(ToPython(TargetGraph(), var.handle()));
    Call("_create_slots_for", handle.get());
  }
  void Prepare() override { Call("_prepare", nullptr); }
  Node* ApplyDense(Output grad, const Var& var) override {
    GraphObject* const graph = TargetGraph();
    const Ref args(Py_BuildValue("(NN)", ToPython(graph, grad),
                                 ToPython(graph, var.handle())));
    return Update("_dense", args.get());
  }
  Node* ApplySparse(const Gradient& g, const Var& var) override {
    GraphObject* const graph = TargetGraph();
    const Ref args(Py_BuildValue("(NN)", FromGradient(graph, g),
                                 ToPython(graph, var.handle())));
    return Update("_sparse", args.get());
  }
  bool AcceptsRepeatedIndices() const override { return repeated_; }

 private:
  void Call(const char* method, PyObject* argument) {
    if (PyErr_Occurred()) return;
    const Ref fn(PyObject_GetAttrString(self, method));
    if (!fn) return;
    const Ref done(argument == nullptr
                       ? PyObject_CallNoArgs(fn.get())
                       : PyObject_CallOneArg(fn.get(), argument));
  }
  Node* Update(const char* method, PyObject* args) {
    if (PyErr_Occurred() || args == nullptr) return nullptr;
    const Ref fn(PyObject_GetAttrString(self, method));
    const Ref result(fn ? PyObject_CallObject(fn.get(), args) : nullptr);
    if (!result) return nullptr;
    if (IsOperation(result.get())) return AsOperation(result.get())->node;
    if (IsTensor(result.get())) return AsTensor(result.get())->node;
    PyErr_Format(PyExc_TypeError,
                 "%s: expected an Operation or a Tensor, got %R", method,
                 result.get());
    return nullptr;
  }

  const bool repeated_;
};

constexpr const char* kOptimizer = "sluice.Optimizer";

PythonOptimizer* AsOptimizer(PyObject* capsule) {
  return static_cast<PythonOptimizer*>(
      PyCapsule_GetPointer(capsule, kOptimizer));
}

// new_optimizer(name, accepts_repeated_indices, gate): what the next two take.
PyObject* NewOptimizer(PyObject*, PyObject* args) {
  const char* name = nullptr;
  int repeated = 0;
  if (!PyArg_ParseTuple(args, "sp", &name, &repeated)) return nullptr;
  auto* const made = new PythonOptimizer(name, repeated != 0);
  PyObject* const capsule = PyCapsule_New(
      made, kOptimizer, [](PyObject* c) { delete AsOptimizer(c); });
  if (capsule == nullptr) delete made;
  return capsule;
}

// optimizer_compute(optimizer, loss, handles, grad_loss or None, gate,
// colocate) -> gradients. Gates: 0 none, 1 op, 2 graph, as TensorFlow counts;
// for 1 the library's own does, which is stricter.
PyObject* OptimizerCompute(PyObject*, PyObject* args) {
  PyObject *capsule = nullptr, *loss = nullptr, *handles = nullptr,
           *grad_loss = nullptr;
  int gate = 1, colocate = 0;
  if (!PyArg_ParseTuple(args, "OO!OOip", &capsule, &TensorType, &loss, &handles,
                        &grad_loss, &gate, &colocate))
    return nullptr;
  PythonOptimizer* const optimizer = AsOptimizer(capsule);
  std::vector<Output> outputs;
  if (optimizer == nullptr || !ToOutputs(handles, &outputs)) return nullptr;
  GraphObject* const graph = AsTensor(loss)->graph;
  const InGraph there(graph);
  Graph& g = graph->state->graph;
  const GraphLock lock(g);
  MinimizeOptions options;
  for (const Output& o : outputs)
    options.variables.push_back(Var::FromHandle(o));
  if (IsTensor(grad_loss)) options.grad_loss = OutputOf(grad_loss);
  optimizer->gate = gate == 0   ? GradientGate::kNone
                    : gate == 2 ? GradientGate::kGraph
                                : GradientGate::kReads;
  options.gate = optimizer->gate;
  options.colocate = colocate != 0;
  const Result<std::vector<GradAndVar>> grads =
      optimizer->ComputeGradients(OutputOf(loss), options, UserLine());
  if (PyErr_Occurred() || !grads.ok()) g.ClearError();
  if (PyErr_Occurred()) return nullptr;
  if (!grads.ok()) return BuildFailed(grads.status());
  Ref list(PyList_New(0));
  for (const GradAndVar& one : *grads) {
    const Ref grad(FromGradient(graph, one.gradient));
    if (!grad || PyList_Append(list.get(), grad.get()) < 0) return nullptr;
  }
  return list.release();
}

// optimizer_apply(optimizer, self, node_name, [(gradient, handle)],
// global_step handle or None) -> Operation
PyObject* OptimizerApply(PyObject*, PyObject* args) {
  PyObject *capsule = nullptr, *self = nullptr, *pairs = nullptr,
           *step = nullptr;
  const char* node_name = nullptr;
  if (!PyArg_ParseTuple(args, "OOsO!O", &capsule, &self, &node_name,
                        &PyList_Type, &pairs, &step))
    return nullptr;
  PythonOptimizer* const optimizer = AsOptimizer(capsule);
  if (optimizer == nullptr) return nullptr;
  std::vector<GradAndVar> grads;
  GraphObject* graph = nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(pairs); ++i) {
    PyObject *grad = nullptr, *handle = nullptr;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(pairs, i), "OO!", &grad, &TensorType,
                          &handle))
      return nullptr;
    GradAndVar one;
    if (!ToGradient(grad, &one.gradient)) return nullptr;
    one.var = Var::FromHandle(OutputOf(handle));
    grads.push_back(one);
    graph = AsTensor(handle)->graph;
  }
  if (graph == nullptr) {
    PyErr_SetString(PyExc_ValueError, "No variables provided.");
    return nullptr;
  }
  const InGraph there(graph);
  Graph& g = graph->state->graph;
  const GraphLock lock(g);
  MinimizeOptions options;
  options.name = node_name;
  options.gate = optimizer->gate;
  if (IsTensor(step)) options.global_step = Var::FromHandle(OutputOf(step));
  optimizer->self = self;
  const Result<Node*> train =
      optimizer->ApplyGradients(grads, options, UserLine());
  optimizer->self = nullptr;
  if (PyErr_Occurred() || !train.ok()) g.ClearError();
  if (PyErr_Occurred()) return nullptr;
  if (!train.ok()) return BuildFailed(train.status());
  return ToPython(graph, *train);
}

}  // namespace

PyMethodDef flow_functions[] = {
    {"gradients", MakeGradients, METH_VARARGS, nullptr},
    {"register_gradient", RegisterPythonGradient, METH_VARARGS, nullptr},
    {"cond", MakeCond, METH_VARARGS, nullptr},
    {"while_loop", MakeWhile, METH_VARARGS, nullptr},
    {"new_optimizer", NewOptimizer, METH_VARARGS, nullptr},
    {"optimizer_compute", OptimizerCompute, METH_VARARGS, nullptr},
    {"optimizer_apply", OptimizerApply, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace sluice::py
