#include "cluster/worker/steps.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "base/failpoint.h"
#include "cluster/transport/wire.h"
#include "exec/core/executor.h"

namespace sluice {
namespace {

// Ended steps that are remembered, so that their late tokens are dropped.
constexpr size_t kEndedKept = 4096;
// The same for sessions.
constexpr size_t kClosedKept = 64;
// Steps whose durations are kept.
constexpr size_t kRecentSteps = 256;
// The overhead counted for a waiting token, beside its value, and for a waiting
// step.
constexpr size_t kTokenBytes = 128;
constexpr size_t kEarlyBytes = 256;
// The maximum number of idle groups kept per registered step.
constexpr size_t kIdleKept = 64;

size_t BytesOf(const TokenMessage& m) {
  return kTokenBytes + (m.value.valid() ? m.value.bytes() : 0);
}

// Checks the master's feeds: kernels trust the types of their inputs, and a
// token that is fed twice would be counted once.
Status CheckFeeds(const RegisteredStep& step, std::span<const uint32_t> args,
                  std::span<const Tensor> values) {
  absl::flat_hash_set<uint32_t> seen;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!seen.insert(args[i]).second)
      return InvalidArgument("feed ", args[i], ": expected once, got it again");
    for (const PartitionPlan& p : step.partitions) {
      if (p.plan == nullptr || args[i] >= p.plan->args.size()) continue;
      const PlanNode* arg = p.plan->args[args[i]];
      if (arg == nullptr) continue;
      const DType want = RemoveRef(arg->node->output_type(0));
      if (!values[i].valid() || values[i].dtype() != want)
        return InvalidArgument(
            "feed ", args[i], ": expected a tensor of ", DTypeName(want),
            ", got ",
            values[i].valid() ? DTypeName(values[i].dtype()) : "none");
    }
  }
  return OkStatus();
}

}  // namespace

std::unique_ptr<StepGroup> RegisteredStep::Acquire() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!idle_.empty()) {
      std::unique_ptr<StepGroup> g = std::move(idle_.back());
      idle_.pop_back();
      return g;
    }
  }
  return std::make_unique<StepGroup>(partitions);
}

void RegisteredStep::Release(std::unique_ptr<StepGroup> group) {
  std::lock_guard<std::mutex> lock(mu_);
  if (idle_.size() < kIdleKept) idle_.push_back(std::move(group));
}

// One run of a step. As a sink it sends the tokens for other tasks.
class WorkerSteps::Step final : public TokenSink {
 public:
  Step(StepRequest request, Transport* transport)
      : request(std::move(request)),
        group(this->request.step->Acquire()),
        transport_(transport) {}

  void Deliver(uint32_t partition, std::span<TokenMessage> batch) override {
    const RegisteredStep& s = *request.step;
    Status sent = CheckValues(partition, batch);
    if (!sent.ok()) return group->Cancel(sent);
    if (partition == s.peers.size() && s.staged) {
      if (request.master != kThisTask)
        sent = transport_->SendTokens(request.master, request.run,
                                      kFetchPartition, batch);
      else if (request.fetched)
        request.fetched(batch);
    } else if (partition >= s.peers.size())
      sent = Internal("token: expected one of ", s.peers.size(),
                      " partitions, got ", partition);
    else
      sent = transport_->SendTokens(s.peers[partition], request.run, partition,
                                    batch);
    if (!sent.ok()) group->Cancel(sent);
  }

  void MayBeStuck() override {
    if (!request.step->staged && request.stuck) request.stuck();
  }

  // Checks a fetch of this task.
  Status CheckFetch(uint32_t fetch, const Tensor& value) const {
    Status s = CheckGiven(value);
    if (s.ok()) return s;
    for (const PartitionPlan& p : request.step->partitions)
      if (p.plan != nullptr && fetch < p.plan->retvals.size() &&
          p.plan->retvals[fetch] != nullptr)
        return WithNode(s, *p.plan->retvals[fetch]);
    return s;
  }

  // Whether the partition runs here. (Peers' messages are checked, so that none
  // is forwarded to a third task.)
  bool Runs(uint32_t partition) const {
    const auto& all = request.step->partitions;
    return partition < all.size() && all[partition].plan != nullptr;
  }
  // Calls fn with its master and the tasks of its partitions, until one returns
  // true.
  template <typename Fn>
  bool AnyPeer(Fn fn) const {
    const RegisteredStep& s = *request.step;
    if (fn(request.master)) return true;
    for (size_t i = 0; i < s.partitions.size(); ++i)
      if (s.partitions[i].plan == nullptr && fn(s.peers[i])) return true;
    return false;
  }
  bool Involves(PeerId peer) const {
    return AnyPeer([peer](PeerId p) { return p == peer; });
  }

  StepRequest request;
  std::unique_ptr<StepGroup> group;
  TraceCollector trace;
  int64_t start_ns = 0;
  // GUARDED_BY(WorkerSteps::mu_): threads inside the group, and one until
  // OnGroupDone.
  int users = 1;
  Status status;  // Set by OnGroupDone.
  // Tokens that arrived before the start. Used by the step's own thread.
  std::vector<std::pair<uint32_t, TokenMessage>> early;

 private:
  // Checks a value for the client, which has no use for a list.
  static Status CheckGiven(const Tensor& value) {
    if (value.dtype() != DType::kVariant) return CheckSendable(value);
    return InvalidArgument(
        "value for another task: expected plain elements or strings for a "
        "client, got variant");
  }
  static Status WithNode(const Status& s, const PlanNode& end) {
    return InvalidArgument(s.message(), "; ",
                           end.node->input(0).node->Describe());
  }
  // OK if the values may leave the task; else an error that names the node.
  Status CheckValues(uint32_t partition,
                     std::span<const TokenMessage> batch) const {
    for (const TokenMessage& m : batch) {
      const Status s = partition == request.step->peers.size()
                           ? CheckGiven(m.value)
                           : CheckSendable(m.value);
      if (s.ok()) continue;
      for (const PartitionPlan& p : request.step->partitions) {
        if (p.plan == nullptr) continue;
        for (const PlanNode& n : p.plan->nodes)
          if (n.role == OpRole::kSend &&
              p.plan->sends[n.aux].destination == partition &&
              p.plan->sends[n.aux].edge == m.edge)
            return WithNode(s, n);
      }
      return s;
    }
    return OkStatus();
  }

  Transport* const transport_;
};

WorkerSteps::WorkerSteps(std::string task, StepLimits limits,
                         Transport* transport)
    : task_(std::move(task)), limits_(limits), transport_(transport) {}

WorkerSteps::~WorkerSteps() {
  Stop();
  std::unique_lock<std::mutex> lock(mu_);
  concluded_.wait(lock, [this] { return unconcluded_ == 0; });
}

void WorkerSteps::Stop() {
  std::vector<uint64_t> runs;
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopped_ = true;
    early_over_.notify_all();
    for (const auto& [run, step] : running_) runs.push_back(run);
  }
  for (const uint64_t run : runs)
    Cancel(run, Cancelled("step: expected task ", task_,
                          " to keep running, got its shutdown"));
}

void WorkerSteps::Drain() {
  std::lock_guard<std::mutex> lock(mu_);
  draining_ = true;
}

void WorkerSteps::Start(StepRequest request) {
  const uint64_t run = request.run;
  if (const FailpointHit hit = SLUICE_FAILPOINT("worker.start_step");
      !hit.error.ok()) {
    Forget(run);
    StepOutcome outcome;
    outcome.status = hit.error;
    request.done(std::move(outcome));
    return;
  }
  auto step = std::make_shared<Step>(std::move(request), transport_);
  const StepRequest& r = step->request;
  ExecuteOptions o;
  // (Kernels use it as a key for per-step state, and collective operations to
  // find the step's session: CollectiveSession.)
  o.step.step_id = static_cast<int64_t>(run & INT64_MAX);
  o.step.resources = r.step->resources.get();
  o.step.log = r.log ? &r.log : nullptr;
  o.pool = r.step->pool;
  o.intra_op_threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  o.deadline = r.deadline;
  o.trace = r.traced ? &step->trace : nullptr;
  o.max_call_depth = static_cast<uint32_t>(
      std::clamp<int64_t>(r.step->max_call_depth, 0, UINT32_MAX));
  o.scheduler_seed =
      r.step->scheduler_seed == 0 ? 0 : r.step->scheduler_seed + run * 7919;
  step->group->Start(o, step.get());
  step->start_ns = NowNs();
  Status refused;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (auto e = ended_.find(run); e != ended_.end()) {
      refused = e->second;
    } else if (auto it = early_.find(run); it != early_.end()) {
      refused = it->second.cancelled;
      step->early = std::move(it->second.tokens);
      early_bytes_ -= it->second.bytes;
      early_.erase(it);
    }
    // (Report which task was lost, not just that the session has ended.)
    for (const auto& [session, why] : closed_)
      if (refused.ok() && session == r.step->session) refused = why;
    if (refused.ok()) refused = FindLost(*step);
    if (refused.ok() && running_.size() >= limits_.running)
      refused = ResourceExhausted("steps: expected at most ", limits_.running,
                                  " running in task ", task_, ", got more");
    if (refused.ok() && draining_) refused = Draining(task_);
    if (stopped_)
      refused = Cancelled("step: expected task ", task_, " to keep running");
    if (refused.ok() && !running_.emplace(run, step).second)
      refused = InvalidArgument("step: expected an unused number, got ", run,
                                " again");
    else if (!refused.ok())
      Ended(run);
    else
      ++unconcluded_;
  }
  if (!refused.ok()) {
    step->group->Finish();
    step->request.step->Release(std::move(step->group));
    StepOutcome outcome;
    outcome.status = refused;
    step->request.done(std::move(outcome));
    return;
  }
  if (step->request.here && !step->request.deadline && !OthersWait())
    Run(step);
  else
    threads_.Schedule([this, step] { Run(step); });
}

Status WorkerSteps::FindLost(const Step& step) const {
  Status why;
  step.AnyPeer([&](PeerId peer) {
    if (peer != kThisTask) why = transport_->Lost(peer);
    return !why.ok();
  });
  return why;
}

void WorkerSteps::Run(const std::shared_ptr<Step>& step) {
  const StepRequest& r = step->request;
  StepGroup& group = *step->group;
  for (auto& [partition, token] : step->early)
    if (step->Runs(partition))
      group.Deliver(partition, std::span<TokenMessage>(&token, 1));
  step->early.clear();
  if (const Status s = CheckFeeds(*r.step, r.args, r.values); !s.ok())
    OnGroupDone(step, s);
  else if (r.deadline)
    OnGroupDone(step, group.Run(r.args, r.values));
  else
    group.Run(r.args, r.values,
              [this, step](const Status& s) { OnGroupDone(step, s); });
}

void WorkerSteps::OnGroupDone(const std::shared_ptr<Step>& step,
                              const Status& s) {
  step->status = s;
  {
    std::lock_guard<std::mutex> lock(mu_);
    running_.erase(step->request.run);
    Ended(step->request.run);
  }
  Leave(step);
}

void WorkerSteps::Leave(const std::shared_ptr<Step>& step) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (--step->users > 0) return;
  }
  Conclude(step);
}

void WorkerSteps::Conclude(const std::shared_ptr<Step>& step) {
  StepRequest& r = step->request;
  StepGroup& group = *step->group;
  StepOutcome outcome;
  outcome.status = step->status;
  if (outcome.status.ok())
    outcome.status = SLUICE_FAILPOINT("worker.end_step").error;
  for (const uint32_t fetch : r.step->fetches) {
    if (!outcome.status.ok()) break;
    Tensor* t = group.result(fetch);
    if (t == nullptr) {
      outcome.status = group.MissingResult(fetch);
      break;
    }
    outcome.status = step->CheckFetch(fetch, *t);
    outcome.fetches.push_back(fetch);
    outcome.values.push_back(std::move(*t));
  }
  Count(NowNs() - step->start_ns, outcome.status.ok());
  if (outcome.status.ok()) {
    const GroupState state = group.State();
    outcome.tokens_sent = state.sent;
    outcome.tokens_received = state.received;
  }
  group.Finish();
  r.step->Release(std::move(step->group));
  if (!outcome.status.ok()) {
    outcome.fetches.clear();
    outcome.values.clear();
  }
  outcome.stats.set_task(r.step->task);
  outcome.stats.set_start_ns(step->start_ns);
  outcome.stats.set_end_ns(NowNs());
  if (r.traced) TraceToProto(step->trace.Take(), &outcome.stats);
  r.values.clear();
  auto done = std::move(r.done);
  r.step.reset();
  done(std::move(outcome));
  std::lock_guard<std::mutex> lock(mu_);
  if (--unconcluded_ == 0) concluded_.notify_all();
}

void WorkerSteps::Count(int64_t took_ns, bool ok) {
  std::lock_guard<std::mutex> lock(mu_);
  StepCounters& c = counters_;
  const auto number = static_cast<size_t>(c.succeeded + c.failed);
  ++(ok ? c.succeeded : c.failed);
  if (c.recent_ns.size() < kRecentSteps)
    c.recent_ns.push_back(took_ns);
  else
    c.recent_ns[number % kRecentSteps] = took_ns;
}

Status WorkerSteps::TooManyEarlyTokens() const {
  return ResourceExhausted(
      "tokens of steps that have not begun: expected at most ",
      limits_.early_bytes, " bytes in task ", task_, ", got more");
}

void WorkerSteps::Ended(uint64_t run, Status why) {
  if (!ended_.emplace(run, std::move(why)).second) return;
  ended_order_.push_back(run);
  if (ended_order_.size() > kEndedKept) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
}

void WorkerSteps::Deliver(uint64_t run, uint32_t partition,
                          std::span<TokenMessage> batch) {
  std::shared_ptr<Step> step;
  {
    std::lock_guard<std::mutex> lock(mu_);
    auto it = running_.find(run);
    if (it == running_.end()) {
      KeepEarlyTokens(run, partition, batch);
      return;
    }
    step = it->second;
    if (!step->Runs(partition)) return;
    ++step->users;
  }
  if (const FailpointHit hit = SLUICE_FAILPOINT("worker.deliver");
      hit.error.ok())
    step->group->Deliver(partition, batch);
  else
    step->group->Cancel(hit.error);
  Leave(step);
}

void WorkerSteps::KeepEarlyTokens(uint64_t run, uint32_t partition,
                                  std::span<TokenMessage> batch) {
  const auto is_its = [run](const auto& closed) {
    return SessionPart(closed.first) == SessionPart(run);
  };
  if (ended_.contains(run) || absl::c_any_of(closed_, is_its)) return;
  if (!early_.contains(run) &&
      early_bytes_ + kEarlyBytes > limits_.early_bytes) {
    Ended(run, TooManyEarlyTokens());  // (It lacks tokens.)
    return;
  }
  auto [it, fresh] = early_.try_emplace(run);
  Early& e = it->second;
  if (fresh) {
    e.expires = std::chrono::steady_clock::now() + limits_.early_expiry;
    e.bytes = kEarlyBytes;
    early_bytes_ += kEarlyBytes;
    if (!stopped_ && !std::exchange(watching_, true))
      threads_.Schedule([this] { WatchEarly(); });
  }
  for (TokenMessage& m : batch) {
    const size_t bytes = BytesOf(m);
    if (early_bytes_ + bytes > limits_.early_bytes) {
      // A step that lacks a token must not run: it would wait forever.
      if (e.cancelled.ok()) e.cancelled = TooManyEarlyTokens();
      return;
    }
    e.bytes += bytes;
    early_bytes_ += bytes;
    if (partition == kFeedPartition)
      e.feeds.push_back(std::move(m));
    else
      e.tokens.emplace_back(partition, std::move(m));
  }
}

void WorkerSteps::WatchEarly() {
  std::unique_lock<std::mutex> lock(mu_);
  while (!stopped_ && !early_.empty()) {
    auto first = early_.begin();
    for (auto it = first; it != early_.end(); ++it)
      if (it->second.expires < first->second.expires) first = it;
    const auto until = first->second.expires;
    if (std::chrono::steady_clock::now() < until) {
      early_over_.wait_until(lock, until);
      continue;
    }
    for (auto it = early_.begin(); it != early_.end();) {
      const auto here = it++;
      if (here->second.expires > until) continue;
      early_bytes_ -= here->second.bytes;
      Ended(here->first);
      early_.erase(here);
    }
  }
  watching_ = false;
}

Status WorkerSteps::TakeFeeds(uint64_t run, std::vector<uint32_t>* args,
                              std::vector<Tensor>* values) {
  std::lock_guard<std::mutex> lock(mu_);
  auto it = early_.find(run);
  if (it == early_.end()) {
    const auto e = ended_.find(run);
    return e == ended_.end() ? OkStatus() : e->second;
  }
  for (TokenMessage& m : it->second.feeds) {
    args->push_back(m.edge);
    const size_t bytes = BytesOf(m);
    values->push_back(std::move(m.value));
    it->second.bytes -= bytes;
    early_bytes_ -= bytes;
  }
  it->second.feeds.clear();
  const Status cancelled = it->second.cancelled;
  if (!it->second.tokens.empty() || !cancelled.ok()) return cancelled;
  early_bytes_ -= it->second.bytes;
  early_.erase(it);
  return OkStatus();
}

void WorkerSteps::Forget(uint64_t run) {
  std::lock_guard<std::mutex> lock(mu_);
  Ended(run);
  auto it = early_.find(run);
  if (it == early_.end()) return;
  early_bytes_ -= it->second.bytes;
  early_.erase(it);
}

void WorkerSteps::Cancel(uint64_t run, const Status& why) {
  std::shared_ptr<Step> step;
  {
    std::lock_guard<std::mutex> lock(mu_);
    auto it = running_.find(run);
    if (it == running_.end()) {
      if (auto e = early_.find(run); e != early_.end()) {
        early_bytes_ -= e->second.bytes;
        early_.erase(e);
      }
      Ended(run);
      return;
    }
    step = it->second;
    ++step->users;
  }
  step->group->Cancel(why);
  Leave(step);
}

GroupState WorkerSteps::State(PeerId master, uint64_t run) {
  std::shared_ptr<Step> step;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = running_.find(run);
    if (it == running_.end() || it->second->request.master != master) return {};
    step = it->second;
    ++step->users;
  }
  GroupState state = step->group->State();
  Leave(step);
  return state;
}

void WorkerSteps::CancelSession(uint64_t session, const Status& why) {
  std::vector<uint64_t> runs;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [run, step] : running_)
      if (step->request.step->session == session) runs.push_back(run);
    // None of its steps will start.
    closed_.emplace_back(session, why);
    if (closed_.size() > kClosedKept) closed_.pop_front();
    for (auto it = early_.begin(); it != early_.end();) {
      const auto here = it++;
      if (SessionPart(here->first) != SessionPart(session)) continue;
      early_bytes_ -= here->second.bytes;
      early_.erase(here);
    }
  }
  for (const uint64_t run : runs) Cancel(run, why);
}

void WorkerSteps::OnPeerLost(PeerId peer, const Status& why) {
  std::vector<uint64_t> runs;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [run, step] : running_)
      if (step->Involves(peer)) runs.push_back(run);
  }
  for (const uint64_t run : runs) Cancel(run, why);
}

bool WorkerSteps::idle() {
  std::lock_guard<std::mutex> lock(mu_);
  return unconcluded_ == 0;
}

size_t WorkerSteps::num_running() {
  std::lock_guard<std::mutex> lock(mu_);
  return running_.size();
}

StepCounters WorkerSteps::counters() {
  std::lock_guard<std::mutex> lock(mu_);
  return counters_;
}

size_t WorkerSteps::early_bytes() {
  std::lock_guard<std::mutex> lock(mu_);
  return early_bytes_;
}

}  // namespace sluice
