#include "client/nn/moving_averages.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/control/control_flow.h"
#include "client/operators.h"
#include "client/partitioned_variables.h"
#include "client/types_and_shapes.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// A variable of zeros that belongs to an average.
Var ZerosBeside(const Var& variable, const std::string& name,
                const Shape& shape) {
  // Named after the variable, and initialized before anything runs.
  const NoControlDependencies initialisers_run_alone;
  const WithGraph no_scopes(CurrentGraph());
  const ColocateWith same_device(variable.handle().node);
  VarOptions hidden;
  hidden.trainable = false;
  hidden.reference = variable.is_reference();
  return Var(Zeros(shape, variable.dtype(), {}),
             absl::StrCat(variable.name(), "/", name), hidden, {});
}

// What to subtract from a variable that has the average without its bias.
Output DebiasedDelta(const Var& variable, const Output& value,
                     const Output& rest, const MovingAverageUpdate& update) {
  const PartialShape shape = variable.shape();
  const Result<Shape> known =
      shape.fully_known()
          ? shape.ToShape()
          : Result<Shape>(InvalidArgument(
                "moving average: expected a variable of known shape, got ",
                shape.ToString(), "; variable '", variable.name(), "'"));
  if (!known.ok()) return BuildError(known.status());
  const auto make = [&](const std::string& name, const Shape& of) {
    return update.make ? update.make(name, of)
                       : ZerosBeside(variable, name, of);
  };
  const Var biased = make("biased", *known), steps = make("local_step", {});
  if (!biased.valid() || !steps.valid()) return CurrentGraph().Failure();
  const Output moved = biased - (biased - value) * rest;
  const Output count = steps + 1;
  const ControlDependencies kept(
      {biased.Assign(moved, {}), steps.Assign(count, {})});
  return variable - moved / (1 - ops::Pow(1 - rest, count));
}

// 1 - decay. A bare number is subtracted as a double and then rounded, as in
// TensorFlow: 1 - 0.999 loses the last digits as floats.
Output Rest(const Operand& decay) {
  const Tensor& t = decay.literal;
  if (!decay.output.valid() && decay.weak && t.valid() && t.rank() == 0 &&
      t.dtype() == DType::kDouble)
    return Constant(Tensor::Scalar(static_cast<float>(1 - t.scalar<double>())),
                    "decay", {});
  return 1 - (decay.weak ? InType(decay, DType::kFloat) : decay.Get());
}

}  // namespace

Node* AssignMovingAverage(const Var& variable, const Operand& value,
                          const Operand& decay, bool zero_debias,
                          SourceLoc loc) {
  MovingAverageUpdate update;
  update.zero_debias = zero_debias;
  return AssignMovingAverage(variable, value, decay, update, loc);
}

Node* AssignMovingAverage(const Var& variable, const Operand& value,
                          const Operand& decay,
                          const MovingAverageUpdate& update, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope(update.name);
  if (!variable.valid()) return variable.AssignSub(value, loc);  // The error.
  // (In the body of a function the variable is an argument.)
  std::optional<ColocateWith> same_device;
  if (variable.handle().graph() == &CurrentGraph())
    same_device.emplace(variable.handle().node);
  const DType t = variable.dtype();
  const Output rest = InType(Rest(decay), t);
  const Output x = InType(value, t);
  const Output delta = update.zero_debias
                           ? DebiasedDelta(variable, x, rest, update)
                           : (variable - x) * rest;
  const std::string name = scope.prefix() + "/";
  if (variable.is_reference())
    return BuildNode("AssignSub", {variable.handle(), delta}, {}, name, loc);
  return BuildNode("AssignSubVariableOp", {variable.handle(), delta},
                   {{"dtype", t}}, name, loc);
}

ExponentialMovingAverage::ExponentialMovingAverage(
    const Operand& decay, const MovingAverageOptions& options)
    : decay_(decay), options_(options) {}

Node* ExponentialMovingAverage::Apply(SourceLoc loc) {
  return Apply(TrainableVariables(), {}, loc);
}

Node* ExponentialMovingAverage::Apply(const std::vector<Var>& variables,
                                      const std::vector<Output>& tensors,
                                      SourceLoc loc) {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const AtLine at(loc);
  struct Item {
    Var average;
    Operand value;
    bool debias;
  };
  const auto refused = [&](const std::string& name, DType t) {
    BuildError(InvalidArgument("moving average: expected a floating type, got ",
                               DTypeName(t), "; '", name, "'"),
               loc);
    return nullptr;
  };
  std::vector<Item> items;
  for (const Var& v : variables) {
    if (!v.valid()) return v.Assign(0, loc);  // The error.
    if (!IsFloating(v.dtype())) return refused(v.name(), v.dtype());
    Var& average = averages_[v.name()];
    if (!average.valid()) {
      average = NewAverage(v, loc);
      if (!average.valid()) return nullptr;
      std::vector<Output>& with_average =
          g.collections()[kMovingAverageVariables];
      if (std::none_of(with_average.begin(), with_average.end(),
                       [&](const Output& o) { return o.SameAs(v.handle()); }))
        with_average.push_back(v.handle());
    }
    items.push_back({average, v.Read({}), false});
  }
  for (const Output& x : tensors) {
    if (!x.valid()) {
      (void)ops::Identity(x);
      return nullptr;
    }
    const DType t = RemoveRef(x.dtype());
    if (!IsFloating(t)) return refused(x.name(), t);
    Var& average = averages_[x.name()];
    if (!average.valid()) {
      average = NewAverage(x, loc);
      if (!average.valid()) return nullptr;
    }
    items.push_back({average, x, options_.zero_debias});
  }
  const NameScope scope(options_.name);
  const Tensor& number = decay_.literal;
  Output decay =
      decay_.weak && number.valid() && number.dtype() == DType::kDouble &&
              number.rank() == 0
          ? Constant(
                Tensor::Scalar(static_cast<float>(number.scalar<double>())),
                "decay", {})
          : decay_.Get(decay_.weak ? DType::kFloat : DType::kInvalid);
  if (options_.num_updates.valid()) {
    const Output n = InType(options_.num_updates, DType::kFloat);
    decay = ops::Minimum(InType(decay, DType::kFloat), (1 + n) / (10 + n));
  }
  std::vector<Node*> updates;
  for (const Item& i : items) {
    MovingAverageUpdate update;
    update.zero_debias = i.debias;
    update.make = [&](const std::string& name, const Shape& shape) {
      return NewOfDebiased(i.average, name, shape);
    };
    updates.push_back(
        AssignMovingAverage(i.average, i.value, decay, update, loc));
    if (updates.back() == nullptr) return nullptr;
  }
  return Group(updates, scope.prefix() + "/", loc);
}

Var ExponentialMovingAverage::NewAverage(const Var& of, SourceLoc loc) {
  const NoControlDependencies initialisers_run_alone;
  const WithGraph no_scopes(CurrentGraph());
  const ColocateWith same_device(of.handle().node);
  VarOptions hidden;
  hidden.trainable = false;
  hidden.reference = of.is_reference();
  // The value that the variable has or is about to get.
  const Output start = Cond(
      of.IsInitialized({}), [&] { return of.Read({}); },
      [&] { return ops::Identity(of.initial_value()); });
  const Var average(start, absl::StrCat(of.name(), "/", options_.name), hidden,
                    loc);
  if (average.valid())
    if (const Status s = SetPartLike(average, of); !s.ok()) {
      BuildError(s, loc);
      return {};
    }
  return average;
}

Var ExponentialMovingAverage::NewAverage(const Output& of, SourceLoc loc) {
  const NoControlDependencies initialisers_run_alone;
  const WithGraph no_scopes(CurrentGraph());
  const PartialShape shape = of.shape();
  const Result<Shape> known = shape.fully_known()
                                  ? shape.ToShape()
                                  : Result<Shape>(InvalidArgument("unknown"));
  VarOptions hidden;
  hidden.trainable = false;
  return Var(known.ok() ? Zeros(*known, RemoveRef(of.dtype()), {})
                        : ops::ZerosLike(of),
             absl::StrCat(of.node->name(), "/", options_.name), hidden, loc);
}

Var ExponentialMovingAverage::NewOfDebiased(const Var& average,
                                            const std::string& name,
                                            const Shape& shape) {
  return ZerosBeside(average, name, shape);
}

Var ExponentialMovingAverage::Average(const Var& variable) const {
  const auto it = averages_.find(variable.name());
  return it == averages_.end() ? Var() : it->second;
}

Var ExponentialMovingAverage::Average(const Output& tensor) const {
  if (!tensor.valid()) return {};
  const auto it = averages_.find(tensor.name());
  return it == averages_.end() ? Var() : it->second;
}

std::string ExponentialMovingAverage::AverageName(const Var& variable) const {
  const Var known = Average(variable);
  return known.valid() ? known.name()
                       : absl::StrCat(variable.name(), "/", options_.name);
}

std::map<std::string, Var> ExponentialMovingAverage::VariablesToRestore()
    const {
  std::vector<Var> averaged = TrainableVariables();
  for (const Var& v : VariablesIn(kMovingAverageVariables))
    averaged.push_back(v);
  return VariablesToRestore(averaged);
}

std::map<std::string, Var> ExponentialMovingAverage::VariablesToRestore(
    const std::vector<Var>& averaged) const {
  std::map<std::string, Var> restored;
  std::vector<std::string> names;  // Of the variables so far.
  for (const Var& v : averaged) {
    if (!v.valid()) continue;
    restored.emplace(AverageName(v), v);
    names.push_back(v.name());
  }
  for (const Var& v : GlobalVariables())
    if (std::find(names.begin(), names.end(), v.name()) == names.end())
      restored.emplace(v.name(), v);
  return restored;
}

}  // namespace sluice
