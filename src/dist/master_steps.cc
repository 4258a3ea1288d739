#include "dist/master_steps.h"

#include <algorithm>
#include <condition_variable>

#include "base/failpoint.h"

namespace sluice {
namespace {

// The worker's own report of a missed deadline says more: it has so long.
constexpr std::chrono::milliseconds kDeadlineGrace{200};

}  // namespace

// One step in flight. Thread-safe.
class MasterSteps::Running {
 public:
  Running(const PreparedStep& s, uint64_t run_number, uint64_t request_number)
      : step(s),
        run(run_number),
        request(request_number),
        done_(s.parts.size(), 0),
        left_(s.parts.size()) {
    result_.fetches.resize(s.num_fetches);
  }

  // The part is over. True if this is the step's first error: then the others
  // are to be cancelled.
  bool Done(size_t part, const Status& s, const proto::TaskStats* stats) {
    std::lock_guard<std::mutex> lock(mu_);
    if (done_[part] != 0) return false;
    done_[part] = 1;
    --left_;
    if (stats != nullptr) result_.stats.push_back(*stats);
    const bool first = Note(s);
    changed_.notify_all();
    return first;
  }
  // By the master, or whoever asked it to: no consequence of anything.
  void Fail(const Status& s) {
    std::lock_guard<std::mutex> lock(mu_);
    if (root_.ok()) root_ = s;
    changed_.notify_all();
  }
  void Fetched(size_t part, uint32_t index, Tensor value) {
    const auto& mine = step.parts[part].fetches;
    if (std::find(mine.begin(), mine.end(), index) == mine.end()) return;
    std::lock_guard<std::mutex> lock(mu_);
    result_.fetches[index] = std::move(value);
  }
  // Until all parts are done, or there is an error that wants cancelling, or
  // `until`. True unless it was the time.
  template <typename Time>
  bool Wait(Time until, bool until_failure) {
    std::unique_lock<std::mutex> lock(mu_);
    return changed_.wait_until(lock, until, [&] {
      return left_ == 0 || (until_failure && (!root_.ok() || !other_.ok()));
    });
  }
  void WaitForever(bool until_failure) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] {
      return left_ == 0 || (until_failure && (!root_.ok() || !other_.ok()));
    });
  }
  std::vector<size_t> Pending() {
    std::lock_guard<std::mutex> lock(mu_);
    std::vector<size_t> parts;
    for (size_t i = 0; i < done_.size(); ++i)
      if (done_[i] == 0) parts.push_back(i);
    return parts;
  }
  Status status() {
    std::lock_guard<std::mutex> lock(mu_);
    return root_.ok() ? other_ : root_;
  }
  StepResult Take() {
    std::lock_guard<std::mutex> lock(mu_);
    return std::move(result_);
  }
  size_t PartOf(PeerId peer) const {
    size_t i = 0;
    while (i < step.parts.size() && step.parts[i].peer != peer) ++i;
    return i;
  }

  const PreparedStep step;
  const uint64_t run;
  const uint64_t request;

 private:
  // Being cancelled is a consequence, mostly. REQUIRES: mu_ held.
  bool Note(const Status& s) {
    if (s.ok()) return false;
    Status& kept = s.code() == StatusCode::kCancelled ? other_ : root_;
    const bool first = root_.ok() && other_.ok();
    if (kept.ok()) kept = s;
    return first;
  }

  std::mutex mu_;
  std::condition_variable changed_;
  Status root_, other_;        // GUARDED_BY(mu_)
  std::vector<uint8_t> done_;  // GUARDED_BY(mu_); by part.
  size_t left_;                // GUARDED_BY(mu_)
  StepResult result_;          // GUARDED_BY(mu_)
};

MasterSteps::MasterSteps(Worker* worker, Transport* transport,
                         std::chrono::milliseconds patience)
    : worker_(worker), transport_(transport), patience_(patience) {}

MasterSteps::~MasterSteps() = default;

void MasterSteps::Send(const std::shared_ptr<Running>& r, size_t part,
                       std::span<const Tensor> feeds,
                       std::chrono::milliseconds timeout, bool traced) {
  const PreparedStep::Part& p = r->step.parts[part];
  if (const FailpointHit hit = SLUICE_FAILPOINT("master.start_part");
      !hit.error.ok()) {
    r->Done(part, hit.error, nullptr);
    return;
  }
  if (p.peer == kThisTask) {
    Result<std::shared_ptr<RegisteredStep>> step =
        worker_->FindStep(r->step.session, r->step.step);
    if (!step.ok()) {
      r->Done(part, step.status(), nullptr);
      return;
    }
    StepRequest request;
    request.run = r->run;
    request.step = *step;
    for (const uint32_t arg : p.args) {
      request.args.push_back(arg);
      request.values.push_back(feeds[arg]);
    }
    if (timeout.count() > 0)
      request.deadline = std::chrono::steady_clock::now() + timeout;
    request.traced = traced;
    request.done = [r, part](StepOutcome o) {
      for (size_t i = 0; i < o.fetches.size(); ++i)
        r->Fetched(part, o.fetches[i], std::move(o.values[i]));
      r->Done(part, o.status, &o.stats);
    };
    worker_->steps().Start(std::move(request));
    return;
  }
  std::vector<TokenMessage> tokens(p.args.size());
  for (size_t i = 0; i < p.args.size(); ++i) {
    tokens[i].edge = p.args[i];
    tokens[i].value = feeds[p.args[i]];
  }
  Status sent;
  if (!tokens.empty())
    sent = transport_->SendTokens(p.peer, r->run, kFeedPartition, tokens);
  if (sent.ok()) {
    proto::StepStart start;
    start.set_session(r->step.session);
    start.set_step(r->step.step);
    start.set_run(r->run);
    start.set_feeds(static_cast<uint32_t>(p.args.size()));
    start.set_timeout_ms(timeout.count());
    start.set_traced(traced);
    sent = transport_->SendControl(p.peer,
                                   static_cast<uint8_t>(StepMessage::kStart),
                                   start.SerializeAsString());
  }
  if (!sent.ok()) r->Done(part, sent, nullptr);
}

void MasterSteps::SendCancels(const std::shared_ptr<Running>& r,
                              const std::vector<size_t>& parts,
                              const Status& why) {
  const Status consequence =
      Cancelled("step: cancelled, for it failed elsewhere: ", why.message());
  proto::StepCancel cancel;
  cancel.set_run(r->run);
  StatusToProto(consequence, cancel.mutable_why());
  const std::string bytes = cancel.SerializeAsString();
  for (const size_t i : parts) {
    const PreparedStep::Part& p = r->step.parts[i];
    if (p.peer == kThisTask)
      worker_->steps().Cancel(r->run, consequence);
    else if (const Status sent = transport_->SendControl(
                 p.peer, static_cast<uint8_t>(StepMessage::kCancel), bytes);
             !sent.ok())
      r->Done(i, sent, nullptr);
  }
}

Result<StepResult> MasterSteps::Run(const PreparedStep& step,
                                    std::span<const Tensor> feeds,
                                    std::chrono::milliseconds timeout,
                                    bool traced, uint64_t request) {
  SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("master.run_step").error);
  const auto begin = std::chrono::steady_clock::now();
  auto r = std::make_shared<Running>(
      step,
      RunNumber(step.session,
                next_run_.fetch_add(1, std::memory_order_relaxed)),
      request);
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const PreparedStep::Part& p : step.parts)
      if (auto it = lost_.find(p.peer); it != lost_.end())
        return Annotate(
            it->second,
            "session: expected the tasks that it began with; make a "
            "new one");
    running_.emplace(r->run, r);
  }
  // This task's own part last: its thread is busy with it at once.
  for (const bool local : {false, true})
    for (size_t i = 0; i < step.parts.size(); ++i)
      if ((step.parts[i].peer == kThisTask) == local)
        Send(r, i, feeds, timeout, traced);
  if (timeout.count() <= 0) {
    r->WaitForever(/*until_failure=*/true);
  } else if (!r->Wait(begin + timeout + kDeadlineGrace, true)) {
    std::string tasks;
    for (const size_t i : r->Pending())
      absl::StrAppend(&tasks, tasks.empty() ? "" : ", ", step.parts[i].task);
    r->Fail(DeadlineExceeded("step: expected to be done within ",
                             timeout.count(), " ms, still waiting for ",
                             tasks));
  }
  if (const Status s = r->status(); !s.ok()) {
    SendCancels(r, r->Pending(), s);
    (void)r->Wait(std::chrono::steady_clock::now() + patience_, false);
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    running_.erase(r->run);
  }
  SLUICE_RETURN_IF_ERROR(r->status());
  StepResult result = r->Take();
  for (const PreparedStep::Part& p : step.parts)
    for (const uint32_t f : p.fetches)
      if (!result.fetches[f].valid())
        return DataLoss("fetch ", f, ": expected it from task ", p.task,
                        ", got none");
  return result;
}

std::shared_ptr<MasterSteps::Running> MasterSteps::Find(uint64_t run) {
  std::lock_guard<std::mutex> lock(mu_);
  auto it = running_.find(run);
  return it == running_.end() ? nullptr : it->second;
}

void MasterSteps::Cancel(uint64_t session, uint64_t request,
                         const Status& why) {
  std::vector<std::shared_ptr<Running>> found;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [run, r] : running_)
      if (r->step.session == session && (request == 0 || r->request == request))
        found.push_back(r);
  }
  for (const auto& r : found) r->Fail(why);
}

void MasterSteps::OnFetches(PeerId from, uint64_t run,
                            std::span<TokenMessage> batch) {
  const std::shared_ptr<Running> r = Find(run);
  if (r == nullptr) return;
  const size_t part = r->PartOf(from);
  if (part == r->step.parts.size()) return;
  for (TokenMessage& m : batch) r->Fetched(part, m.edge, std::move(m.value));
}

void MasterSteps::OnDone(PeerId from, const proto::StepDone& done) {
  const std::shared_ptr<Running> r = Find(done.run());
  if (r == nullptr) return;
  const size_t part = r->PartOf(from);
  if (part == r->step.parts.size()) return;
  const FailpointHit hit = SLUICE_FAILPOINT("master.done");
  r->Done(part, hit.error.ok() ? StatusFromProto(done.status()) : hit.error,
          &done.stats());
}

void MasterSteps::OnPeerLost(PeerId peer, const Status& why) {
  std::vector<std::shared_ptr<Running>> found;
  {
    std::lock_guard<std::mutex> lock(mu_);
    lost_.emplace(peer, why);
    for (const auto& [run, r] : running_)
      if (r->PartOf(peer) < r->step.parts.size()) found.push_back(r);
  }
  for (const auto& r : found) r->Done(r->PartOf(peer), why, nullptr);
}

size_t MasterSteps::num_running() {
  std::lock_guard<std::mutex> lock(mu_);
  return running_.size();
}

}  // namespace sluice
