#include "client/nn/loss_scaling.h"

#include <cmath>
#include <mutex>
#include <optional>

#include "client/control/control_flow.h"
#include "client/nn/in_graph_of.h"
#include "client/operators.h"
#include "client/reductions.h"
#include "graph/exact_line.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

Output Times(const Output& x, const Output& factor) {
  const DType t = RemoveRef(x.dtype());
  return x * (t == DType::kFloat ? factor : ops::Cast(factor, t));
}

Output AllFinite(const Output& x) {
  return ops::All(ops::IsFinite(x), AllAxes(x));
}

}  // namespace

Status LossScaling::MakeVariables(SourceLoc loc) {
  if (!(options_.initial > 0) || !std::isfinite(options_.initial))
    return InvalidArgument(
        "loss scaling: expected a positive initial scale, got ",
        options_.initial);
  if (options_.dynamic &&
      (!(options_.factor > 1) || !std::isfinite(options_.factor)))
    return InvalidArgument("loss scaling: expected a factor above 1, got ",
                           options_.factor);
  if (options_.dynamic && options_.growth_steps <= 0)
    return InvalidArgument(
        "loss scaling: expected a positive number of steps, got ",
        options_.growth_steps);
  if (scale_.valid()) return OkStatus();
  const NoControlDependencies initialisers_run_alone;
  VarOptions hidden;
  hidden.trainable = false;
  scale_ = Var(Constant(Tensor::Scalar(static_cast<float>(options_.initial))),
               "current_loss_scale", hidden, loc);
  good_steps_ =
      Var(Constant(Tensor::Scalar<int64_t>(0)), "good_steps", hidden, loc);
  return OkStatus();
}

Node* LossScaling::Minimize(Optimizer& optimizer, Output loss,
                            const MinimizeOptions& options, SourceLoc loc) {
  const std::optional<WithGraph> there = InGraphOf(loss);
  const Result<std::vector<GradAndVar>> grads =
      ComputeGradients(optimizer, loss, options, loc);
  if (!grads.ok()) {
    BuildError(grads.status(), loc);
    return nullptr;
  }
  return ApplyGradients(optimizer, *grads, options, loc);
}

Result<std::vector<GradAndVar>> LossScaling::ComputeGradients(
    Optimizer& optimizer, Output loss, const MinimizeOptions& options,
    SourceLoc loc) {
  const std::optional<WithGraph> there = InGraphOf(loss);
  const Status made = MakeVariables(loc);
  if (!made.ok()) return WithLine(made, loc);
  const AtLine at(loc);
  // The optimizer reports a loss that is none.
  if (!loss.valid() || !IsFloating(RemoveRef(loss.dtype())))
    return optimizer.ComputeGradients(loss, options, loc);
  MinimizeOptions scaled = options;
  const Output scale = scale_.Read(loc);
  const Output seed =
      options.grad_loss.valid() ? options.grad_loss : ops::OnesLike(loss);
  scaled.grad_loss = Times(seed, scale);
  SLUICE_ASSIGN_OR_RETURN(std::vector<GradAndVar> grads,
                          optimizer.ComputeGradients(loss, scaled, loc));
  const Output inverse = 1 / scale;
  for (GradAndVar& g : grads) {
    if (!g.gradient) continue;
    Output& values =
        g.gradient.is_sparse() ? g.gradient.values : g.gradient.dense;
    values = Times(values, inverse);
  }
  return grads;
}

Node* LossScaling::ApplyGradients(Optimizer& optimizer,
                                  const std::vector<GradAndVar>& grads,
                                  const MinimizeOptions& options,
                                  SourceLoc loc) {
  const std::optional<WithGraph> there =
      InGraphOf(grads.empty() ? Output() : grads[0].var.handle());
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const AtLine at(loc);
  const Status made = MakeVariables(loc);
  if (!made.ok()) {
    BuildError(made, loc);
    return nullptr;
  }
  std::vector<Output> finite;
  for (const GradAndVar& one : grads) {
    const Gradient& d = one.gradient;
    if (d && one.var.valid())
      finite.push_back(AllFinite(d.is_sparse() ? d.values : d.dense));
  }
  const Output all = finite.empty() ? Constant(Tensor::Scalar(true))
                                    : ops::All(ops::Pack(finite), 0);
  Node* train = Cond(
      all,
      [&]() -> Node* {
        const Result<Node*> applied =
            optimizer.ApplyGradients(grads, options, loc);
        if (applied.ok()) return *applied;
        BuildError(applied.status(), loc);
        return nullptr;
      },
      [&]() -> Node* { return Group({}, "skipped", loc); }, "unless_overflow",
      loc);
  if (train == nullptr || !options_.dynamic) return train;
  const NameScope scope("loss_scale");
  const Output scale = scale_.Read(loc);
  const Output good =
      good_steps_.Read(loc) + Constant(Tensor::Scalar<int64_t>(1));
  const Output grows =
      good >= Constant(Tensor::Scalar<int64_t>(options_.growth_steps));
  const Output larger = scale * options_.factor;
  const Output after_good = ops::SelectV2(
      ops::LogicalAnd(grows, ops::IsFinite(larger)), larger, scale);
  const Output after_bad = ops::Maximum(scale / options_.factor, 1);
  const Output none = Constant(Tensor::Scalar<int64_t>(0));
  const Output next_good =
      ops::SelectV2(ops::LogicalAnd(all, !grows), good, none);
  const Output next_scale = ops::SelectV2(all, after_good, after_bad);
  const ControlDependencies trained({train});
  Node* scaled = scale_.Assign(next_scale, loc);
  Node* counted = good_steps_.Assign(next_good, loc);
  if (scaled == nullptr || counted == nullptr) return nullptr;
  return Group({train, scaled, counted}, "update", loc);
}

}  // namespace sluice
