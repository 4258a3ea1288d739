#include "client/nn/gradient_accumulation.h"

#include <mutex>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/control/control_flow.h"
#include "client/nn/in_graph_of.h"
#include "client/nn/optimizer_wrapper.h"
#include "client/operators.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// Zeros of the shape and type of a variable: that of `value`, one of its
// values, if the shape is not known.
Output ZerosOf(const Var& v, const std::function<Output()>& value) {
  const PartialShape shape = v.shape();
  if (shape.fully_known()) {
    const Result<Shape> known = shape.ToShape();
    if (known.ok()) return Zeros(*known, v.dtype(), {});
  }
  return ops::ZerosLike(value());
}

// For a step, in which the variable has a value.
Output ZerosNow(const Var& v) {
  return ZerosOf(v, [&] { return v.Read({}); });
}

}  // namespace

Node* GradientAccumulator::Minimize(Output loss, const MinimizeOptions& options,
                                    SourceLoc loc) {
  return MinimizeThrough(*this, optimizer_, loss, options, loc);
}

Node* GradientAccumulator::ApplyGradients(const std::vector<GradAndVar>& grads,
                                          const MinimizeOptions& options,
                                          SourceLoc loc) {
  const std::optional<WithGraph> there =
      InGraphOf(grads.empty() ? Output() : grads[0].var.handle());
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const AtLine at(loc);
  if (every_ <= 0) {
    BuildError(
        InvalidArgument("GradientAccumulator: expected a positive number of "
                        "micro-batches, got ",
                        every_),
        loc);
    return nullptr;
  }
  std::vector<GradAndVar> some;
  for (const GradAndVar& one : grads) {
    if (!one.var.valid()) return one.var.Assign(0, loc);  // The error.
    if (one.gradient) some.push_back(one);
  }
  if (some.empty()) {
    // Reports which variables lack one.
    const Result<Node*> none = optimizer_.ApplyGradients(grads, options, loc);
    if (!none.ok()) BuildError(none.status(), loc);
    return nullptr;
  }
  VarOptions hidden;
  hidden.trainable = false;
  {
    const NoControlDependencies initialisers_run_alone;
    const WithGraph no_scopes(g);
    for (const GradAndVar& one : some) {
      Var& sum = sums_[one.var.name()];
      if (sum.valid()) continue;
      const ColocateWith same_device(one.var.handle().node);
      sum = Var(ZerosOf(one.var, [&] { return one.var.initial_value(); }),
                absl::StrCat(one.var.name(), "/GradientAccumulator"), hidden,
                loc);
    }
    if (!count_.valid())
      count_ = Var(Constant(Tensor::Scalar<int64_t>(0)),
                   "GradientAccumulator/count", hidden, loc);
  }
  const NameScope scope("GradientAccumulator");
  std::vector<Node*> added;
  for (const GradAndVar& one : some) {
    const Var& sum = sums_[one.var.name()];
    const ColocateWith same_device(sum.handle().node);
    added.push_back(one.gradient.is_sparse()
                        ? ops::ResourceScatterAdd(sum.handle(),
                                                  one.gradient.indices,
                                                  one.gradient.values)
                        : sum.AssignAdd(one.gradient.dense, loc));
    if (added.back() == nullptr) return nullptr;
  }
  const Output count = count_ + Constant(Tensor::Scalar<int64_t>(1));
  const Output full = count >= Constant(Tensor::Scalar<int64_t>(every_));
  const ControlDependencies all_added(added);
  return Cond(
      ops::Identity(full),
      [&]() -> Node* {
        std::vector<GradAndVar> means = some;
        for (GradAndVar& mean : means)
          mean.gradient =
              sums_[mean.var.name()].Read({}) / static_cast<double>(every_);
        const Result<Node*> train =
            optimizer_.ApplyGradients(means, options, loc);
        if (!train.ok()) {
          BuildError(train.status(), loc);
          return nullptr;
        }
        const ControlDependencies applied({*train});
        std::vector<Node*> emptied = {count_.Assign(0, loc)};
        for (const GradAndVar& mean : means)
          emptied.push_back(
              sums_[mean.var.name()].Assign(ZerosNow(mean.var), loc));
        return Group(emptied, "emptied", loc);
      },
      [&]() -> Node* { return count_.Assign(count, loc); }, "cond", loc);
}

Var GradientAccumulator::Sum(const Var& variable) const {
  const auto it = sums_.find(variable.name());
  return it == sums_.end() ? Var() : it->second;
}

AccumulatedStep MinimizeInMicroBatches(
    Optimizer& optimizer, const Operand& micro_batches,
    const std::function<Output(Output i)>& loss, const MinimizeOptions& options,
    SourceLoc loc) {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const AtLine at(loc);
  if (!loss) {
    BuildError(InvalidArgument("MinimizeInMicroBatches: expected a function, "
                               "got an empty one"),
               loc);
    return {};
  }
  const std::vector<Var> vars =
      options.variables.empty() ? TrainableVariables() : options.variables;
  for (const Var& v : vars)
    if (!v.valid()) return {v.Assign(0, loc), {}};  // The error.
  const Output n = micro_batches.Get(DType::kInt32);
  std::vector<GradAndVar> means;
  Output mean_loss;
  {
    const NameScope scope("micro_batches");
    // Which variables have a gradient is known once the body is built.
    std::vector<bool> connected(vars.size(), false);
    std::vector<Operand> start = {Constant(int32_t{0}), Constant(0.0f)};
    for (const Var& v : vars) start.emplace_back(ZerosNow(v));
    WhileOptions how;
    how.parallel_iterations = 1;
    how.back_prop = false;
    const std::vector<Output> end = While(
        start, [&](const std::vector<Output>& now) { return now[0] < n; },
        [&](const std::vector<Output>& now) {
          std::vector<Output> next = now;
          const Output one = loss(now[0]);
          MinimizeOptions of_loop = options;
          of_loop.variables = vars;
          const Result<std::vector<GradAndVar>> grads =
              optimizer.ComputeGradients(one, of_loop, loc);
          if (!grads.ok()) {
            const Output failed = BuildError(grads.status(), loc);
            next[1] = failed;
            return next;
          }
          next[0] = now[0] + 1;
          next[1] = now[1] + ops::Cast(one, DType::kFloat);
          for (size_t i = 0; i < vars.size(); ++i) {
            const Gradient& part = (*grads)[i].gradient;
            if (!part) continue;
            connected[i] = true;
            next[i + 2] = now[i + 2] + Densify(part, vars[i].handle());
          }
          return next;
        },
        how, loc);
    // (No micro-batch: the gradients are zero, not NaN.)
    const Output count = ops::Cast(ops::Maximum(n, 1), DType::kFloat);
    mean_loss = end[1] / count;
    for (size_t i = 0; i < vars.size(); ++i) {
      GradAndVar mean;
      mean.var = vars[i];
      if (connected[i]) {
        const DType t = vars[i].dtype();
        mean.gradient =
            end[i + 2] / (t == DType::kFloat ? count : ops::Cast(count, t));
      }
      means.push_back(mean);
    }
  }
  const Result<Node*> train = optimizer.ApplyGradients(means, options, loc);
  if (!train.ok()) {
    BuildError(train.status(), loc);
    return {nullptr, mean_loss};
  }
  return {*train, mean_loss};
}

}  // namespace sluice
