#include "train/elastic_replicas.h"

#include <chrono>

#include "client/operators.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// The chief looks again after so long, whether it was woken or not: a worker
// may have left.
constexpr int64_t kLookAgainMs = 200;

}  // namespace

ElasticReplicas::ElasticReplicas(const ElasticOptions& options,
                                 int64_t replicas, int64_t to_aggregate,
                                 const std::string& name,
                                 const Var& global_step, SourceLoc loc)
    : options_(options),
      to_aggregate_(to_aggregate),
      global_step_(global_step) {
  const ColocateWith there(global_step.handle().node);
  VarOptions hidden;
  hidden.trainable = false;
  hidden.collections = {name};
  next_ = Var(ops::Fill(Constant(Tensor::Vector<int64_t>({replicas})),
                        Constant(int64_t{-1})),
              name + "_next", hidden, loc);
  arrived_ =
      Queue::Fifo({{DType::kInt64, {}}},
                  {.shared_name = name + "/arrived", .name = "arrived"}, loc);
}

Node* ElasticReplicas::SetNext(const Output& step) const {
  const ColocateWith there(global_step_.handle().node);
  return ops::ResourceScatterUpdate(
      next_.handle(), Constant(Tensor::Vector<int64_t>({options_.worker})),
      ops::Reshape(step, Constant(Tensor::Vector<int32_t>({1}))));
}

Node* ElasticReplicas::Arrive(const Output& step) const {
  const ControlDependencies after({SetNext(step + int64_t{1})});
  return arrived_.Enqueue({step});
}

Node* ElasticReplicas::Join() const {
  return SetNext(ops::Cast(global_step_.Read(), DType::kInt64));
}

Node* ElasticReplicas::Leave() const {
  const ControlDependencies after({SetNext(Constant(int64_t{-1}))});
  return arrived_.Enqueue({Constant(int64_t{-1})});
}

Output ElasticReplicas::Present() const {
  const ColocateWith there(global_step_.handle().node);
  return ops::Sum(ops::Cast(next_.Read() >= int64_t{0}, DType::kInt32), {0});
}

void ElasticReplicas::BuildUpdates(const std::vector<Output>& counts) {
  const ColocateWith there(global_step_.handle().node);
  // (A gradient is here once it has come to all accumulators.)
  had_ = ops::Min(ops::Pack(counts), {0});
  required_ = Present();
  if (to_aggregate_ > 0)
    required_ = ops::Minimum(required_, static_cast<int32_t>(to_aggregate_));
  required_ = ops::Maximum(required_, static_cast<int32_t>(options_.least));
  wait_ = arrived_.Dequeue()[0].node;
  const Output next = next_.Read();
  const Output step = ops::Cast(global_step_.Read(), DType::kInt64);
  forget_ =
      next_.Assign(ops::SelectV2(next <= step, Constant(int64_t{-1}), next));
}

Status ElasticReplicas::RunUpdates(Node* update, Session& session,
                                   Coordinator& coordinator) const {
  using Clock = std::chrono::steady_clock;
  RunOptions options;
  options.cancellation = coordinator.cancellation();
  RunOptions a_while = options;
  a_while.timeout_ms = kLookAgainMs;
  Clock::time_point since = Clock::now();  // The last gradient came.
  int32_t before = -1;
  const auto work = [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> counts,
                            session.Run({}, {had_, required_}, {}, options));
    const int32_t had = counts[0].scalar<int32_t>();
    if (had >= counts[1].scalar<int32_t>()) {
      before = -1;
      return session.Run({}, {}, {update}, options).status();
    }
    if (had != before) since = Clock::now();
    before = had;
    if (had > 0 && Clock::now() - since >= std::chrono::duration<double>(
                                               options_.lost_after_seconds)) {
      since = Clock::now();
      return session.RunTargets({forget_});
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
