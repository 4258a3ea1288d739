// Optimizers and moving averages: the library's classes, whose variables are
// Python's Variable objects, and each of whose steps calls the method of the
// Python class that a program may have overridden.
//
// sluice/training/optimizer.py is the other half: Python's classes have one of
// these per graph, and their own methods call the library's steps here.
#include "client/nn/optimizers.h"

#include <set>

#include "client/nn/adam_optimizers.h"
#include "client/nn/moving_averages.h"
#include "client/tensorflow_names.h"
#include "flow.h"
#include "ops.h"
#include "scopes.h"

namespace sluice::python {
namespace {

using Handles = std::vector<Output>;

std::vector<Var> ToVars(const Handles& handles) {
  std::vector<Var> vars;
  for (const Output& o : handles) vars.push_back(Var::FromHandle(o));
  return vars;
}

// The handle of what a method of Python's makes: a Variable.
Var MadeVariable(const py::object& made) {
  return Var::FromHandle(py::cast<Output>(made));
}

// A number as Python's own, so that what is made of it has Python's names.
py::object FromOperand(const Operand& value) {
  const Tensor& t = value.literal;
  if (!value.output.valid() && value.weak && t.valid() && t.rank() == 0 &&
      t.dtype() == DType::kDouble)
    return py::float_(t.scalar<double>());
  return py::cast(value.Get());
}

// An optimizer in one graph, as Python's class sees it. "Own" are the steps as
// the library's class does them; what a program overrides calls them or does
// not.
class PythonOptimizer {
 public:
  virtual ~PythonOptimizer() = default;

  py::list Compute(const Output& loss, const Handles& handles,
                   const Output& grad_loss, int gate, bool colocate);
  // Calls `self`'s methods.
  Node* Apply(const py::object& self, const std::string& name,
              const std::vector<std::pair<py::object, Output>>& pairs,
              const Output& global_step, bool repeated_indices);

  void CreateOwn(const py::object& self, const Handles& handles,
                 const py::dict& numbers);
  Node* ApplyOwn(const py::object& grad, const Output& handle,
                 const py::list& numbers);
  Node* FinishOwn(const std::vector<Node*>& updates, const std::string& name,
                  const py::list& numbers);
  Node* Decay(const Output& handle, const Output& part, const Output& indices);

  Output GetSlot(const Output& handle, const std::string& slot) {
    const auto it = Slots().find({handle.node->name(), slot});
    return it == Slots().end() ? Output() : it->second.handle();
  }
  Output GetNonSlot(const std::string& name) {
    return base().GetNonSlot(name).handle();
  }
  virtual void AddSlot(const Output& handle, const std::string& slot,
                       const Output& made) = 0;
  virtual void AddNonSlot(const std::string& name, const Output& made) = 0;
  Handles Variables() {
    Handles handles;
    for (const Var& v : base().Variables()) handles.push_back(v.handle());
    return handles;
  }
  std::vector<std::string> NumberNames() {
    std::vector<std::string> names;
    for (const auto& [name, value] : Values()) names.push_back(name);
    return names;
  }
  std::set<std::string> SlotNames() {
    std::set<std::string> names;
    for (const auto& [of, made] : Slots()) names.insert(of.second);
    return names;
  }
  virtual void UseLocks(bool use) = 0;

 protected:
  virtual Optimizer& base() = 0;
  virtual void Create(const std::vector<Var>& vars) = 0;
  virtual Node* ApplyBuilt(const Gradient& grad, const Var& var) = 0;
  virtual Node* FinishBuilt(const std::vector<Node*>& updates,
                            const std::string& name) = 0;
  virtual Node* DecayBuilt(const Var& var, const Output& part,
                           const Output& indices) = 0;
  virtual const Optimizer::Slots& Slots() = 0;
  virtual const Optimizer::Numbers& Values() = 0;
  virtual void SetValues(const std::vector<Operand>& values) = 0;

  void TakeNumbers(PyGraph& g, const py::list& numbers) {
    std::vector<Operand> values;
    for (const py::handle n : numbers) {
      const Operand value = ToOperand(g, n, UserLine());
      // (A program's _prepare may set numbers where the library's sets
      // tensors.)
      values.push_back(
          value.output.valid()
              ? value
              : value.Get(value.weak ? DType::kFloat : DType::kInvalid));
    }
    SetValues(values);
  }

  // Calls a method of Python's that builds an update.
  Node* Call(const char* method, const py::object& grad, const Var& var);

  py::object self_;  // While one of its methods may be called.
  bool repeated_indices_ = false;
  GradientGate gate_ = GradientGate::kReads;
};

// Sets `self` until its end.
class Calling {
 public:
  Calling(py::object* place, const py::object& self)
      : place_(place), before_(*place) {
    *place = self;
  }
  ~Calling() { *place_ = before_; }
  Calling(const Calling&) = delete;

 private:
  py::object* const place_;
  const py::object before_;
};

// Gates: 0 none, 1 op, 2 graph, as TensorFlow counts; for 1 the library's own
// does, which is stricter.
py::list PythonOptimizer::Compute(const Output& loss, const Handles& handles,
                                  const Output& grad_loss, int gate,
                                  bool colocate) {
  gate_ = gate == 0   ? GradientGate::kNone
          : gate == 2 ? GradientGate::kGraph
                      : GradientGate::kReads;
  MinimizeOptions options;
  options.variables = ToVars(handles);
  options.grad_loss = grad_loss;
  options.gate = gate_;
  options.colocate = colocate;
  PyGraph& g = GraphOf(loss.node);
  const Building here(g);
  const Result<std::vector<GradAndVar>> grads =
      base().ComputeGradients(loss, options, UserLine());
  CheckBuilt(g, grads.status());
  py::list list;
  for (const GradAndVar& one : *grads) list.append(FromGradient(one.gradient));
  return list;
}

Node* PythonOptimizer::Apply(
    const py::object& self, const std::string& name,
    const std::vector<std::pair<py::object, Output>>& pairs,
    const Output& global_step, bool repeated_indices) {
  if (pairs.empty()) Raise(PyExc_ValueError, "No variables provided.");
  PyGraph& g = GraphOf(pairs.back().second.node);
  std::vector<GradAndVar> grads;
  for (const auto& [grad, handle] : pairs)
    grads.push_back({ToGradient(g, grad), Var::FromHandle(handle)});
  MinimizeOptions options;
  options.name = name;
  options.gate = gate_;
  if (global_step.valid()) options.global_step = Var::FromHandle(global_step);
  const Building here(g);
  const Calling calling(&self_, self);
  repeated_indices_ = repeated_indices;
  const Result<Node*> train = base().ApplyGradients(grads, options, UserLine());
  CheckBuilt(g, train.status());
  return *train;
}

void PythonOptimizer::CreateOwn(const py::object& self, const Handles& handles,
                                const py::dict& numbers) {
  if (handles.empty()) return;
  PyGraph& g = GraphOf(handles[0].node);
  const Building here(g);
  const Calling calling(&self_, self);
  std::vector<Operand> values;
  for (const auto& [name, value] : Values())
    values.push_back(numbers.contains(name)
                         ? ToOperand(g, numbers[name], UserLine())
                         : value);
  SetValues(values);
  Create(ToVars(handles));
  CheckBuilt(g);
}

Node* PythonOptimizer::ApplyOwn(const py::object& grad, const Output& handle,
                                const py::list& numbers) {
  PyGraph& g = GraphOf(handle.node);
  const Building here(g);
  const TensorFlowNames names;
  TakeNumbers(g, numbers);
  Node* const made = ApplyBuilt(ToGradient(g, grad), Var::FromHandle(handle));
  CheckBuilt(g);
  return made;
}

Node* PythonOptimizer::FinishOwn(const std::vector<Node*>& updates,
                                 const std::string& name,
                                 const py::list& numbers) {
  PyGraph& g = updates.empty() ? TargetGraph() : GraphOf(updates[0]);
  const Building here(g);
  const TensorFlowNames names;
  TakeNumbers(g, numbers);
  Node* const made = FinishBuilt(updates, name);
  CheckBuilt(g);
  return made;
}

Node* PythonOptimizer::Decay(const Output& handle, const Output& part,
                             const Output& indices) {
  PyGraph& g = GraphOf(handle.node);
  const Building here(g);
  const TensorFlowNames names;
  Node* const made = DecayBuilt(Var::FromHandle(handle), part, indices);
  CheckBuilt(g);
  return made;
}

Node* PythonOptimizer::Call(const char* method, const py::object& grad,
                            const Var& var) {
  return FromLibrary([&] {
    const py::object made = self_.attr(method)(grad, var.handle());
    py::detail::make_caster<Node> node;
    if (!node.load(made, false))
      Raise(PyExc_TypeError,
            absl::StrCat(method, ": expected an Operation or a Tensor, ",
                         Got(made)));
    return node.node;
  });
}

// `Built` is a class of the library.
template <typename Built>
class InPython final : public PythonOptimizer, Built {
 public:
  using Built::Built;

  void AddSlot(const Output& handle, const std::string& slot,
               const Output& made) override {
    Built::AddSlot(Var::FromHandle(handle), slot, Var::FromHandle(made));
  }
  void AddNonSlot(const std::string& name, const Output& made) override {
    Built::AddNonSlot(name, Var::FromHandle(made));
  }
  void UseLocks(bool use) override { this->UseLocking(use); }

 protected:
  Optimizer& base() override { return *this; }
  void Create(const std::vector<Var>& vars) override {
    Built::CreateVariables(vars);
  }
  Node* ApplyBuilt(const Gradient& grad, const Var& var) override {
    return grad.is_sparse() ? Built::ApplySparse(grad, var)
                            : Built::ApplyDense(grad.dense, var);
  }
  Node* FinishBuilt(const std::vector<Node*>& updates,
                    const std::string& name) override {
    return Built::Finished(updates, name);
  }
  Node* DecayBuilt(const Var& var, const Output& part,
                   const Output& indices) override {
    return Built::Decay(var, part, indices);
  }
  const Optimizer::Slots& Slots() override { return this->slots(); }
  const Optimizer::Numbers& Values() override { return this->numbers(); }
  void SetValues(const std::vector<Operand>& values) override {
    this->SetNumbers(values);
  }

  // ---- The steps, which the library takes.

  void CreateVariables(const std::vector<Var>& vars) override {
    FromLibrary([&] {
      py::list handles;
      for (const Var& v : vars) handles.append(v.handle());
      self_.attr("_create_all")(handles);
    });
  }
  void Prepare() override {
    FromLibrary([&] { self_.attr("_prepare")(); });
  }
  Node* ApplyDense(Output grad, const Var& var) override {
    return Call("_dense", py::cast(grad), var);
  }
  Node* ApplySparse(const Gradient& g, const Var& var) override {
    return Call("_sparse", FromGradient(g), var);
  }
  bool AcceptsRepeatedIndices() const override {
    return repeated_indices_ && Built::AcceptsRepeatedIndices();
  }
  Node* Finished(std::vector<Node*> updates, const std::string& name) override {
    return FromLibrary([&]() -> Node* {
      py::list operations;
      for (Node* n : updates) operations.append(n);
      const py::object made = self_.attr("_finish")(operations, name);
      py::detail::make_caster<Node> node;
      if (!node.load(made, false))
        Raise(PyExc_TypeError,
              absl::StrCat("_finish: expected an Operation or a Tensor, ",
                           Got(made)));
      return node.node;
    });
  }
  Var NewSlot(const Var& var, const std::string& suffix,
              const std::function<Output()>& initial) override {
    return FromLibrary([&] {
      return MadeVariable(
          self_.attr("_new_slot")(var.handle(), suffix, py::cpp_function([&] {
                                    PyGraph& g = GraphOf(var.handle().node);
                                    const Building here(g);
                                    const Output value = initial();
                                    CheckBuilt(g);
                                    return value;
                                  })));
    });
  }
  Var NewNonSlot(const std::string& name, const Operand& initial,
                 const Var& near) override {
    return FromLibrary([&] {
      return MadeVariable(self_.attr("_new_non_slot")(FromOperand(initial),
                                                      name, near.handle()));
    });
  }
};

// What a program's own optimizer derives from.
class NoUpdates : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  Node* ApplyDense(Output, const Var&) override { return Missing(); }
  Node* ApplySparse(const Gradient&, const Var&) override { return Missing(); }

 private:
  [[noreturn]] static Node* Missing() { Raise(PyExc_NotImplementedError, ""); }
};

template <typename Built, typename... Args>
std::unique_ptr<PythonOptimizer> Made(const Args&... args) {
  return std::make_unique<InPython<Built>>(args...);
}

// (Python's classes give the numbers at each step, those of which tensors are
// made; what is given here is what a graph has no tensor of.)
void AddOptimizerClasses(py::module_& m) {
  using Name = const std::string&;
  py::class_<PythonOptimizer>(m, "Optimizer")
      .def_static("own", [](Name name) { return Made<NoUpdates>(name); })
      .def_static(
          "gradient_descent",
          [](Name name) { return Made<GradientDescentOptimizer>(0.0, name); })
      .def_static("momentum",
                  [](Name name, bool nesterov) {
                    return Made<MomentumOptimizer>(0.0, 0.0, nesterov, name);
                  })
      .def_static("adagrad",
                  [](Name name, double initial) {
                    return Made<AdagradOptimizer>(0.0, initial, name);
                  })
      .def_static("adagrad_da",
                  [](Name name, double initial) {
                    AdagradDaOptions o;
                    o.initial_squared_accumulator = initial;
                    o.name = name;
                    return Made<AdagradDaOptimizer>(0.0, Var(), o);
                  })
      .def_static("adadelta",
                  [](Name name) {
                    return Made<AdadeltaOptimizer>(0.0, 0.0, 0.0, name);
                  })
      .def_static("rms_prop",
                  [](Name name, bool centered) {
                    RmsPropOptions o;
                    o.centered = centered;
                    o.name = name;
                    return Made<RmsPropOptimizer>(0.0, o);
                  })
      .def_static(
          "ftrl",
          [](Name name, double initial, double l2_shrinkage,
             const std::string& accum_name, const std::string& linear_name) {
            FtrlOptions o;
            o.initial_accumulator = initial;
            o.l2_shrinkage = l2_shrinkage;
            o.name = name;
            o.accum_name = accum_name;
            o.linear_name = linear_name;
            return Made<FtrlOptimizer>(0.0, o);
          })
      .def_static("proximal_gradient_descent",
                  [](Name name) {
                    return Made<ProximalGradientDescentOptimizer>(0.0, 0.0, 0.0,
                                                                  name);
                  })
      .def_static("proximal_adagrad",
                  [](Name name, double initial) {
                    ProximalAdagradOptions o;
                    o.initial_accumulator = initial;
                    o.name = name;
                    return Made<ProximalAdagradOptimizer>(0.0, o);
                  })
      .def_static("adam",
                  [](Name name, bool nesterov, const std::string& rows) {
                    AdamOptions o;
                    o.nesterov = nesterov;
                    o.rows = rows == "lazy" ? AdamRows::kLazyByTensorFlowOps
                             : rows == "moments"
                                 ? AdamRows::kMomentsOfAll
                                 : AdamRows::kAllByTensorFlowOps;
                    o.name = name;
                    return Made<AdamOptimizer>(0.0, o);
                  })
      .def_static("ada_max",
                  [](Name name) {
                    AdamOptions o;
                    o.name = name;
                    return Made<AdaMaxOptimizer>(0.0, o);
                  })
      .def("compute", &PythonOptimizer::Compute)
      .def("apply", &PythonOptimizer::Apply)
      .def("create", &PythonOptimizer::CreateOwn)
      .def("update", &PythonOptimizer::ApplyOwn)
      .def("finish", &PythonOptimizer::FinishOwn)
      .def("decay", &PythonOptimizer::Decay)
      .def("slot", &PythonOptimizer::GetSlot)
      .def("add_slot", &PythonOptimizer::AddSlot)
      .def("non_slot", &PythonOptimizer::GetNonSlot)
      .def("add_non_slot", &PythonOptimizer::AddNonSlot)
      .def("variables", &PythonOptimizer::Variables)
      .def("numbers", &PythonOptimizer::NumberNames)
      .def("slot_names", &PythonOptimizer::SlotNames)
      .def("use_locks", &PythonOptimizer::UseLocks);
}

// ---- Moving averages --------------------------------------------------------

// A variable beside an average, made by a function of Python's.
struct MakesWith {
  explicit MakesWith(py::object fn) : make(std::move(fn)) {}
  Var operator()(const Var& average, const std::string& name,
                 const Shape& shape) const {
    return FromLibrary([&] {
      return MadeVariable(make(average.handle(), name, PartialShape(shape)));
    });
  }
  py::object make;
};

// The node that assigns. `make` is None without zero_debias.
Node* AssignAverage(const std::string& scope, const Output& handle,
                    const py::object& value, const py::object& decay,
                    const py::object& make) {
  PyGraph& g = GraphOfArguments({py::cast(handle), value, decay});
  const Building here(g);
  const TensorFlowNames names;
  const SourceLoc loc = UserLine();
  const Var variable = Var::FromHandle(InGraphOf(g, handle));
  MovingAverageUpdate update;
  update.zero_debias = !make.is_none();
  update.name = scope;
  if (update.zero_debias)
    update.make = [&](const std::string& name, const Shape& shape) {
      return MakesWith(make)(variable, name, shape);
    };
  Node* const made = AssignMovingAverage(variable, ToOperand(g, value, loc),
                                         ToOperand(g, decay, loc), update, loc);
  CheckBuilt(g);
  return made;
}

// The library's averages for one call of Python's class, `self`, which keeps
// and makes their variables: _average_of(handle or tensor, is_variable),
// _of_debiased(handle, name, shape).
class PythonAverages : public ExponentialMovingAverage {
 public:
  PythonAverages(const py::object& self, const Operand& decay,
                 const MovingAverageOptions& options)
      : ExponentialMovingAverage(decay, options), self_(self) {}

 protected:
  Var NewAverage(const Var& of, SourceLoc) override {
    return Make(of.handle(), true);
  }
  Var NewAverage(const Output& of, SourceLoc) override {
    return Make(of, false);
  }
  Var NewOfDebiased(const Var& average, const std::string& name,
                    const Shape& shape) override {
    return MakesWith(self_.attr("_of_debiased"))(average, name, shape);
  }

 private:
  Var Make(const Output& of, bool is_variable) {
    return FromLibrary([&] {
      return MadeVariable(self_.attr("_average_of")(of, is_variable));
    });
  }

  const py::object self_;
};

Node* MoveAverages(const py::object& self, const py::object& decay,
                   const py::object& num_updates, bool zero_debias,
                   const std::string& name, const Handles& handles,
                   const Handles& tensors) {
  PyGraph& g = GraphOfArguments({py::cast(handles), py::cast(tensors)});
  const Building here(g);
  const TensorFlowNames names;
  const SourceLoc loc = UserLine();
  MovingAverageOptions options;
  if (!num_updates.is_none())
    options.num_updates =
        ToOutput(g, num_updates, DType::kInvalid, false, "Const", loc);
  options.zero_debias = zero_debias;
  options.name = name;
  PythonAverages averages(self, ToOperand(g, decay, loc), options);
  Node* const made = averages.Apply(ToVars(handles), tensors, loc);
  CheckBuilt(g);
  return made;
}

}  // namespace

void AddOptimizers(py::module_& m) {
  AddOptimizerClasses(m);
  m.def("assign_moving_average", AssignAverage);
  m.def("move_averages", MoveAverages);
}

}  // namespace sluice::python
