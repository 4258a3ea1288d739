#include "train/sync_replicas.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "client/control/control_flow.h"
#include "client/nn/in_graph_of.h"
#include "client/nn/optimizer_wrapper.h"
#include "client/operators.h"
#include "graph/device_scope.h"
#include "graph/hidden_attributes.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// A worker that waits for the chief asks again after so long.
constexpr int64_t kAskAgainMs = 100;

// Distinct rows in the order of their indices, in which accumulators add them.
Gradient InOrder(const Gradient& g) {
  const auto unique = ops::Unique(ops::Cast(g.indices, DType::kInt64));
  const Output count = ops::Size(unique.y);
  const Output sums = ops::UnsortedSegmentSum(g.values, unique.idx, count);
  const auto order = ops::TopKV2(-unique.y, count);
  return Gradient::Slices(-order.values, ops::GatherV2(sums, order.indices, 0),
                          g.dense_shape);
}

}  // namespace

SyncReplicas::SyncReplicas(Optimizer& optimizer, SyncReplicasOptions options)
    : optimizer_(&optimizer),
      apply_([&optimizer](const std::vector<GradAndVar>& means,
                          const MinimizeOptions& how) {
        return optimizer.ApplyGradients(means, how);
      }),
      options_(std::move(options)) {}

SyncReplicas::SyncReplicas(ApplyFn apply, SyncReplicasOptions options)
    : optimizer_(nullptr),
      apply_(std::move(apply)),
      options_(std::move(options)) {}

Status SyncReplicas::Check(const MinimizeOptions& options) const {
  const auto wrong = [this](const auto&... rule) {
    return InvalidArgument(options_.name, ": expected ", rule...);
  };
  if (options_.name.empty())
    return InvalidArgument("SyncReplicas: expected a name, got none");
  if (options_.replicas < 1)
    return wrong("at least one replica, got ", options_.replicas);
  if (options_.to_aggregate < 0)
    return wrong(
        "at least one gradient to aggregate, or 0 for one of each "
        "replica, got ",
        options_.to_aggregate);
  if (std::max(options_.replicas, options_.to_aggregate) > INT32_MAX)
    return wrong("at most ", INT32_MAX, " replicas and gradients, got ",
                 std::max(options_.replicas, options_.to_aggregate));
  if (const auto& e = options_.elastic) {
    if (e->worker < 0 || e->worker >= options_.replicas)
      return wrong("elastic.worker from 0 to ", options_.replicas - 1, ", got ",
                   e->worker);
    if (e->least < 1 || e->least > options_.replicas)
      return wrong("elastic.least from 1 to ", options_.replicas, ", got ",
                   e->least);
    if (!(e->lost_after_seconds > 0))
      return wrong("elastic.lost_after_seconds above 0, got ",
                   e->lost_after_seconds);
    if (options_.to_aggregate > options_.replicas)
      return wrong("at most ", options_.replicas,
                   " gradients to aggregate in elastic training, got ",
                   options_.to_aggregate);
    if (!options_.discard_old_tokens)
      return wrong("discard_old_tokens in elastic training, got false");
  }
  if (apply_ == nullptr) return wrong("what applies gradients, got none");
  const Var& step = options.global_step;
  if (!step.valid())
    return wrong(
        "MinimizeOptions::global_step, which counts updates, got none");
  if ((step.dtype() != DType::kInt64 && step.dtype() != DType::kInt32) ||
      !step.shape().CompatibleWith(PartialShape::Scalar()))
    return wrong("a scalar integer as global step, got '", step.name(),
                 "': ", DTypeName(step.dtype()), step.shape().ToString());
  if (update_ != nullptr)
    return FailedPrecondition(options_.name,
                              ": expected gradients to be applied once, got a "
                              "second call");
  return OkStatus();
}

Node* SyncReplicas::Minimize(Output loss, const MinimizeOptions& options,
                             SourceLoc loc) {
  const std::optional<WithGraph> there = InGraphOf(loss);
  if (optimizer_ == nullptr) {
    BuildError(
        InvalidArgument(options_.name,
                        ": expected an optimizer for Minimize, got none"),
        loc);
    return nullptr;
  }
  return MinimizeThrough(*this, *optimizer_, loss, options, loc);
}

Node* SyncReplicas::ApplyGradients(const std::vector<GradAndVar>& grads,
                                   const MinimizeOptions& options,
                                   SourceLoc loc) {
  const std::optional<WithGraph> there =
      InGraphOf(grads.empty() ? Output() : grads[0].var.handle());
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const AtLine at(loc);
  if (const Status s = Check(options); !s.ok()) {
    BuildError(s, loc);
    return nullptr;
  }
  std::vector<GradAndVar> some;
  for (const GradAndVar& one : grads) {
    if (!one.var.valid()) return one.var.Assign(0, loc);  // The error.
    if (one.gradient) some.push_back(one);
  }
  if (some.empty()) {
    // Reports which variables lack one.
    const Result<Node*> none = apply_(grads, options);
    BuildError(none.ok() ? InvalidArgument(options_.name,
                                           ": expected a gradient, got none")
                         : none.status(),
               loc);
    return nullptr;
  }
  return Build(some, options, loc);
}

// ---- One variable -----------------------------------------------------------

Output SyncReplicas::Accumulator(const Summed& s) const {
  const std::string shared =
      absl::StrCat(options_.name, "/", s.var.name(), "/grad_accum");
  return sluice::Build(
      s.sparse ? "SparseConditionalAccumulator" : "ConditionalAccumulator", {},
      {{"dtype", s.var.dtype()},
       {"shape", s.var.shape()},
       {"shared_name", shared},
       {kReplicasAccumulatorAttr, true}});
}

Node* SyncReplicas::Add(const Summed& s, const Gradient& gradient,
                        const Output& step) {
  if (!s.sparse) {
    const ColocateWith there(s.var.handle().node);
    return ops::AccumulatorApplyGradient(Accumulator(s), step, gradient.dense);
  }
  const Gradient rows = InOrder(gradient);
  const ColocateWith there(s.var.handle().node);
  return ops::SparseAccumulatorApplyGradient(
      Accumulator(s), step, rows.indices, rows.values,
      Constant(Tensor(DType::kInt64, {0})), /*has_known_shape=*/false);
}

Gradient SyncReplicas::Mean(const Summed& s) const {
  const int64_t required = options_.elastic            ? 1
                           : options_.to_aggregate > 0 ? options_.to_aggregate
                                                       : options_.replicas;
  const Output count = Constant(static_cast<int32_t>(required));
  if (!s.sparse)
    return ops::AccumulatorTakeGradient(Accumulator(s), count, s.var.dtype());
  const auto mean =
      ops::SparseAccumulatorTakeGradient(Accumulator(s), count, s.var.dtype());
  return Gradient::Slices(mean.indices, mean.values, Output());
}

Node* SyncReplicas::Restart(const Summed& s, const Output& step) const {
  const ColocateWith there(s.var.handle().node);
  Node* const emptied = Cond(
      ops::AccumulatorNumAccumulated(Accumulator(s)) > 0,
      [&]() -> Node* {
        if (s.sparse)
          return Group({ops::SparseAccumulatorTakeGradient(Accumulator(s), 1,
                                                           s.var.dtype())
                            .values.node});
        return Group(
            {ops::AccumulatorTakeGradient(Accumulator(s), 1, s.var.dtype())
                 .node});
      },
      []() -> Node* { return ops::NoOp(); });
  const ControlDependencies after({emptied});
  return ops::AccumulatorSetGlobalStep(Accumulator(s), step);
}

Output SyncReplicas::Token(const Var& global_step) const {
  // A token of an earlier step belonged to a worker that was lost or late: its
  // gradient would be dropped. One of a later step is from before the chief
  // was started again.
  const ColocateWith there(global_step.handle().node);
  if (!options_.discard_old_tokens) return tokens_.Dequeue()[0];
  return While(
      tokens_.Dequeue()[0],
      [&](Output token) { return token != global_step.Read(); },
      [&](Output) { return tokens_.Dequeue()[0]; });
}

// ---- The graph --------------------------------------------------------------

Node* SyncReplicas::Build(const std::vector<GradAndVar>& grads,
                          const MinimizeOptions& options, SourceLoc loc) {
  Graph& g = CurrentGraph();
  const Var& step = global_step_ = options.global_step;
  Node* const at_step = step.handle().node;
  VarOptions hidden;
  hidden.trainable = false;
  {
    // On the worker's device, even if variables are placed elsewhere.
    const NoControlDependencies initialiser_runs_alone;
    Node* const here = ops::NoOp();
    const ColocateWith worker(here);
    hidden.collections = {kLocalVariables};
    hidden.reference = step.is_reference();
    local_step_ =
        Var(Zeros({}, step.dtype()), "sync_rep_local_step", hidden, loc);
  }
  {
    const NoControlDependencies initialiser_runs_alone;
    const WithGraph no_scopes(g);
    const ColocateWith there(at_step);
    hidden.collections = {options_.name};
    ready_ = Var(Constant(false), options_.name + "_ready", hidden, loc);
    if (!options_.elastic)
      tokens_ = Queue::Fifo({{step.dtype(), {}}},
                            {.shared_name = options_.name + "/sync_token_q",
                             .name = "sync_token_q"},
                            loc);
    else
      elastic_ =
          ElasticReplicas(*options_.elastic, options_.replicas,
                          options_.to_aggregate, options_.name, step, loc);
  }
  const NameScope scope(options_.name);
  std::vector<Summed> summed;
  for (const GradAndVar& one : grads)
    summed.push_back({one.var, one.gradient.is_sparse()});

  // A worker's step.
  Node* train = nullptr;
  {
    const Output computed_at = ops::Cast(local_step_.Read(loc), DType::kInt64);
    std::vector<Node*> added;
    for (size_t i = 0; i < summed.size(); ++i)
      added.push_back(Add(summed[i], grads[i].gradient, computed_at));
    Output next;
    {
      const ControlDependencies after(added);
      next = options_.elastic ? elastic_.Arrive(computed_at) : Token(step);
    }
    // (Not after each of `added`: they are on other tasks.)
    if (options_.elastic) next = ops::Cast(next, step.dtype());
    train = local_step_.Assign(next, loc);
  }

  const NoControlDependencies runs_by_itself;
  // An update.
  {
    // (Also the learning rates, for instance.)
    const DeviceScope there(at_step->device());
    std::vector<GradAndVar> means;
    for (const Summed& s : summed) {
      const ColocateWith with_variable(s.var.handle().node);
      means.push_back({Mean(s), s.var});
    }
    MinimizeOptions how = options;
    how.gate = GradientGate::kNone;
    const Result<Node*> updated = apply_(means, how);
    if (!updated.ok()) {
      BuildError(updated.status(), loc);
      return nullptr;
    }
    std::vector<Node*> before_tokens = {*updated};
    if (options_.after_update) {
      const ControlDependencies after(before_tokens);
      before_tokens.push_back(options_.after_update());
    }
    const ControlDependencies after(before_tokens);
    const ColocateWith with_step(at_step);
    const int64_t count = std::max(options_.replicas, options_.to_aggregate);
    update_ = options_.elastic
                  ? elastic_.ReleaseWaiting()
                  : tokens_.EnqueueMany(
                        {ops::Fill(Constant(Tensor::Vector<int32_t>(
                                       {static_cast<int32_t>(count)})),
                                   step.Read(loc))},
                        loc);
  }
  std::vector<Node*> joined;
  if (options_.elastic) {
    std::vector<Output> counts;
    for (const Summed& s : summed) {
      const ColocateWith with_variable(s.var.handle().node);
      counts.push_back(ops::AccumulatorNumAccumulated(Accumulator(s)));
    }
    elastic_.BuildUpdates(counts);
    present_ = elastic_.Present();
    leave_ = elastic_.Leave();
    release_all_ = elastic_.ReleaseAll();
    joined = {elastic_.Join()};
  }
  // The beginning.
  {
    const ControlDependencies after(joined);
    local_init_ = local_step_.Assign(step.Read(loc), loc);
  }
  std::vector<Node*> restarted;
  for (const Summed& s : summed)
    restarted.push_back(Restart(s, ops::Cast(step.Read(loc), DType::kInt64)));
  if (options_.elastic) {
    const ControlDependencies after(restarted);
    restarted = {elastic_.Reset()};
  }
  {
    const ControlDependencies after(restarted);
    chief_init_ = ready_.Assign(true, loc);
  }
  return update_ == nullptr || chief_init_ == nullptr ? nullptr : train;
}

Node* SyncReplicas::PutTokens(const Operand& count, SourceLoc loc) const {
  if (!global_step_.valid()) {
    BuildError(FailedPrecondition(
                   options_.name,
                   ": expected gradients to be applied before tokens are put"),
               loc);
    return nullptr;
  }
  if (options_.elastic) {
    BuildError(FailedPrecondition(options_.name,
                                  ": expected no tokens in elastic training, "
                                  "whose chief's Hook releases the workers"),
               loc);
    return nullptr;
  }
  const WithGraph there(*global_step_.handle().graph());
  const AtLine at(loc);
  const NoControlDependencies runs_by_itself;
  const ColocateWith with_step(global_step_.handle().node);
  return tokens_.EnqueueMany(
      {ops::Fill(ops::Reshape(count.Get(DType::kInt32),
                              Constant(Tensor::Vector<int32_t>({1}))),
                 global_step_.Read(loc))},
      loc);
}

// ---- The hook ---------------------------------------------------------------

class SyncReplicas::SyncHook : public TrainingHook {
 public:
  SyncHook(const SyncReplicas* replicas, bool is_chief, double max_wait_seconds)
      : replicas_(replicas),
        is_chief_(is_chief),
        max_wait_seconds_(max_wait_seconds) {}
  std::string name() const override { return replicas_->options_.name; }

  Status Begin(TrainingContext& context) override {
    if (!(max_wait_seconds_ >= 0))
      return InvalidArgument("expected no negative max_wait_seconds, got ",
                             max_wait_seconds_);
    if (replicas_->update() == nullptr ||
        replicas_->update()->graph() != &context.graph())
      return FailedPrecondition(
          "expected gradients to be applied in the run's graph, got none");
    const NoControlDependencies alone;
    is_ready_ = replicas_->ready().IsInitialized();
    if (replicas_->options_.elastic) return context.graph().status();
    token_count_ = Placeholder<int32_t>({}, "token_count");
    put_tokens_ = replicas_->PutTokens(token_count_);
    return context.graph().status();
  }
  Status AfterCreateSession(TrainingContext& context) override {
    return is_chief_ || context.is_chief() ? StartUpdates(context)
                                           : AwaitChief(context);
  }
  Status End(TrainingContext& context) override {
    if (replicas_->leave_ == nullptr) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(Session* const session, context.session());
    return session->RunTargets({replicas_->leave_});
  }

 private:
  Result<bool> IsReady(Session& session) {
    SLUICE_ASSIGN_OR_RETURN(const Tensor ready, session.Run(is_ready_));
    return ready.scalar<bool>();
  }

  Status StartUpdates(TrainingContext& context) {
    const SyncReplicasOptions& o = replicas_->options_;
    SLUICE_ASSIGN_OR_RETURN(Session* const session, context.session());
    SLUICE_ASSIGN_OR_RETURN(const bool again, IsReady(*session));
    SLUICE_RETURN_IF_ERROR(session->RunTargets({replicas_->chief_init()}));
    Coordinator* const coordinator = context.coordinator();
    if (o.elastic) {
      SLUICE_RETURN_IF_ERROR(session->RunTargets(
          {replicas_->local_init(), replicas_->release_all_}));
      return coordinator->Start([replicas = replicas_, session, coordinator] {
        return replicas->elastic_.RunUpdates(replicas->update_, *session,
                                             *coordinator);
      });
    }
    // Each worker begins without a token, but those that still wait for the
    // previous chief need one.
    const int64_t tokens =
        again ? std::max(o.replicas, o.to_aggregate) - 1
              : std::max<int64_t>(0, o.to_aggregate - o.replicas);
    SLUICE_RETURN_IF_ERROR(session->RunTargets(
        {replicas_->local_init(), put_tokens_},
        {{token_count_, Tensor::Scalar(static_cast<int32_t>(tokens))}}));
    return StartQueueRunner(replicas_->update_runner(), *session, coordinator);
  }

  Status AwaitChief(TrainingContext& context) {
    SLUICE_ASSIGN_OR_RETURN(Session* const session, context.session());
    const double start = context.Now();
    while (true) {
      SLUICE_ASSIGN_OR_RETURN(const bool ready, IsReady(*session));
      if (ready) return session->RunTargets({replicas_->local_init()});
      if (context.Now() - start >= max_wait_seconds_)
        return DeadlineExceeded("expected the chief to begin within ",
                                max_wait_seconds_, " seconds, got nothing");
      if (context.coordinator()->WaitForStop(kAskAgainMs))
        return Cancelled("expected the chief to begin, got a stop");
    }
  }

  const SyncReplicas* const replicas_;
  const bool is_chief_;
  const double max_wait_seconds_;
  Output is_ready_, token_count_;
  Node* put_tokens_ = nullptr;
};

HookPtr SyncReplicas::Hook(bool is_chief, double max_wait_seconds) {
  return std::make_shared<SyncHook>(this, is_chief, max_wait_seconds);
}

}  // namespace sluice
