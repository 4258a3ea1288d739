#include "train/elastic_replicas.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/control/control_flow.h"
#include "client/operators.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// The chief looks again after so long, whether it was woken or not: a worker
// may have left.
constexpr int64_t kLookAgainMs = 200;
// Subtracted from the step of a worker that is forgotten. (It may arrive at the
// same time, and then gets its token all the same.)
constexpr int64_t kForgotten = int64_t{1} << 61;
// A worker that has never been there, or has left.
constexpr int64_t kAbsent = -2 * kForgotten;

}  // namespace

ElasticReplicas::ElasticReplicas(const ElasticOptions& options,
                                 int64_t replicas, int64_t to_aggregate,
                                 const std::string& name,
                                 const Var& global_step, SourceLoc loc)
    : options_(options),
      replicas_(replicas),
      to_aggregate_(to_aggregate),
      global_step_(global_step) {
  const ColocateWith there(global_step.handle().node);
  VarOptions hidden;
  hidden.trainable = false;
  hidden.collections = {name};
  next_ = Var(Nobody(), name + "_next", hidden, loc);
  const auto queue = [&](const std::string& what) {
    return Queue::Fifo(
        {{DType::kInt64, {}}},
        {.shared_name = absl::StrCat(name, "/", what), .name = what}, loc);
  };
  arrived_ = queue("arrived");
  for (int64_t i = 0; i < replicas; ++i)
    tokens_.push_back(queue(absl::StrCat("tokens_", i)));
}

Output ElasticReplicas::Nobody() const {
  return ops::Fill(Constant(Tensor::Vector<int64_t>({replicas_})),
                   Constant(kAbsent));
}

Output ElasticReplicas::Step() const {
  return ops::Cast(global_step_.Read(), DType::kInt64);
}

Node* ElasticReplicas::Reset() const {
  const ColocateWith there(global_step_.handle().node);
  return next_.Assign(Nobody());
}

Node* ElasticReplicas::SetNext(const Output& step) const {
  const ColocateWith there(global_step_.handle().node);
  return ops::ResourceScatterUpdate(
      next_.handle(), Constant(Tensor::Vector<int64_t>({options_.worker})),
      ops::Reshape(step, Constant(Tensor::Vector<int32_t>({1}))));
}

Output ElasticReplicas::Arrive(const Output& step) const {
  const ColocateWith there(global_step_.handle().node);
  const ControlDependencies set({SetNext(step + int64_t{1})});
  const ControlDependencies woken({arrived_.Enqueue({step})});
  // Whether this step has not ended, and the worker is waited for: otherwise no
  // update would put a token. (Reset makes it absent.)
  const auto in_time = [&](const Output& now) {
    const Output next =
        ops::GatherV2(next_.Read(), Constant(options_.worker), 0);
    return now == step && next > now;
  };
  const auto waits = [&](Output token) {
    return token != Step() || in_time(token);
  };
  const auto wait = [&](Output) {
    const Output now = Step();
    return Cond(
        in_time(now),
        [&] {
          return tokens_[static_cast<size_t>(options_.worker)].Dequeue()[0];
        },
        [&] { return now; });
  };
  return While(ops::Identity(Constant(kAbsent)), waits, wait);
}

Node* ElasticReplicas::Join() const { return SetNext(Step()); }

Node* ElasticReplicas::Leave() const {
  const ControlDependencies after({SetNext(Constant(kAbsent))});
  return arrived_.Enqueue({Constant(kAbsent)});
}

Output ElasticReplicas::Present() const {
  const ColocateWith there(global_step_.handle().node);
  return ops::Sum(ops::Cast(next_.Read() >= int64_t{0}, DType::kInt32), {0});
}

Node* ElasticReplicas::Release(const Output& whom) const {
  const Output step = Step();
  const Output counts = ops::Cast(whom, DType::kInt32);
  std::vector<Node*> put;
  for (int32_t i = 0; i < static_cast<int32_t>(replicas_); ++i) {
    const Output count =
        ops::Slice(counts, Constant(Tensor::Vector<int32_t>({i})),
                   Constant(Tensor::Vector<int32_t>({1})));
    put.push_back(
        tokens_[static_cast<size_t>(i)].EnqueueMany({ops::Fill(count, step)}));
  }
  return Group(put);
}

Node* ElasticReplicas::ReleaseWaiting() const {
  const ColocateWith there(global_step_.handle().node);
  const Output next = next_.Read();
  return Release(next == Step() || next == Step() - kForgotten);
}

Node* ElasticReplicas::ReleaseAll() const {
  const ColocateWith there(global_step_.handle().node);
  return Release(ops::Fill(Constant(Tensor::Vector<int64_t>({replicas_})),
                           Constant(true)));
}

void ElasticReplicas::BuildUpdates(const std::vector<Output>& counts) {
  const ColocateWith there(global_step_.handle().node);
  {
    const ControlDependencies after({arrived_.Dequeue()[0].node});
    wait_ = arrived_.DequeueMany(arrived_.Size())[0].node;
  }
  // (A gradient is here once it has come to all accumulators.)
  had_ = ops::Min(ops::Pack(counts), {0});
  required_ = Present();
  if (to_aggregate_ > 0)
    required_ = ops::Minimum(required_, static_cast<int32_t>(to_aggregate_));
  required_ = ops::Maximum(required_, static_cast<int32_t>(options_.least));
  const Output next = next_.Read();
  added_ = ops::Sum(ops::Cast(next > Step(), DType::kInt32), {0});
  forget_ = next_.AssignSub(
      ops::Cast(next >= int64_t{0} && next <= Step(), DType::kInt64) *
      kForgotten);
  {
    const ControlDependencies after({Reset()});
    again_ = ReleaseAll();
  }
}

Status ElasticReplicas::RunUpdates(Node* update, Session& session,
                                   Coordinator& coordinator) const {
  using Clock = std::chrono::steady_clock;
  RunOptions options;
  options.cancellation = coordinator.cancellation();
  RunOptions a_while = options;
  a_while.timeout_ms = kLookAgainMs;
  Clock::time_point since = Clock::now();  // The last gradient came.
  std::pair<int32_t, int32_t> before = {0, 0};
  const auto work = [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<Tensor> counts,
        session.Run({}, {had_, required_, added_}, {}, options));
    const int32_t had = counts[0].scalar<int32_t>();
    const int32_t added = counts[2].scalar<int32_t>();
    if (had >= counts[1].scalar<int32_t>()) {
      before = {0, 0};
      return session.Run({}, {}, {update}, options).status();
    }
    const std::pair<int32_t, int32_t> now = {had, added};
    if (now != before) since = Clock::now();
    before = now;
    if (now != std::pair(0, 0) &&
        Clock::now() - since >=
            std::chrono::duration<double>(options_.lost_after_seconds)) {
      since = Clock::now();
      return session.Run({}, {}, {added > had ? again_ : forget_}, options)
          .status();
    }
    const Status woken = session.Run({}, {}, {wait_}, a_while).status();
    return woken.code() == StatusCode::kDeadlineExceeded ? OkStatus() : woken;
  };
  while (!coordinator.ShouldStop()) {
    const Status s = work();
    if (!s.ok()) return coordinator.ShouldStop() ? OkStatus() : s;
  }
  return OkStatus();
}

}  // namespace sluice
