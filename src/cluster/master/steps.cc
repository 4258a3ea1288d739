#include "cluster/master/steps.h"

#include <algorithm>
#include <condition_variable>

#include "absl/strings/ascii.h"
#include "base/failpoint.h"

namespace sluice {
namespace {

// Extra time for the worker's own report of a missed deadline, which is more
// detailed.
constexpr std::chrono::milliseconds kDeadlineGrace{200};

// Limits on open partial runs: per session, so that one client cannot block
// others, and in total, so that tasks have room for other steps
// (StepLimits::running).
constexpr size_t kMaxStaged = 256, kMaxStagedOfAll = 2048;

// The fraction of the master's patience to wait after a task was lost
// (detecting the loss took the rest).
constexpr int kBriefly = 10;

// How long to wait before a step that may be stuck is looked at: the first
// time, then twice as long each time up to the second.
constexpr std::chrono::milliseconds kFirstLook{1}, kLongestLook{100};

// The number of remembered cancellations: more than are ever in flight.
constexpr size_t kCancelledKept = 4096;

bool NamesTask(absl::string_view message, const std::string& task) {
  for (size_t at = message.find(task); at != absl::string_view::npos;
       at = message.find(task, at + 1)) {
    const size_t end = at + task.size();
    // (Task 1 is not task 12.)
    if (end == message.size() ||
        !absl::ascii_isdigit(static_cast<unsigned char>(message[end])))
      return true;
  }
  return false;
}

// An error that a task reported about its part of a step, with the task's name
// appended unless the message already has it.
Status OfTask(const Status& s, const std::string& task) {
  if (s.ok() || NamesTask(s.message(), task)) return s;
  return Status(s.code(), absl::StrCat(s.message(), "; on ", task));
}

}  // namespace

Status PreparedStep::CheckFeed(size_t feed, const Tensor& value) const {
  const Feed& f = feeds[feed];
  if (value.dtype() == f.dtype &&
      f.shape.CompatibleWith(PartialShape(value.shape())))
    return OkStatus();
  return InvalidArgument("feed '", f.name, "': expected ", DTypeName(f.dtype),
                         f.shape.ToString(), ", got ", DTypeName(value.dtype()),
                         value.shape().ToString());
}

// One step in flight. Thread-safe.
class MasterSteps::Running {
 public:
  Running(std::shared_ptr<const PreparedStep> s, uint64_t run_number,
          RunRequest what, MasterSteps::Done whom)
      : step(std::move(s)),
        run(run_number),
        request(std::move(what)),
        done(std::move(whom)),
        done_(step->parts.size(), 0),
        states_(step->parts.size()),
        answered_(step->parts.size(), 0),
        left_(step->parts.size()),
        taken_(request.timeout.count() > 0) {
    for (size_t i = 0; request.log && i < step->parts.size(); ++i)
      logs.push_back(BoundedLog(request.log));
    result_.fetches.resize(step->num_fetches);
    if (!step->staged) return;
    fed_.resize(step->feeds.size());
    taken_fetches_.resize(step->num_fetches);
    come_.resize(step->num_fetches);
  }

  // The part has ended, in this state.
  void Done(size_t part, const Status& s, const proto::TaskStats* stats,
            GroupState state) {
    std::lock_guard<std::mutex> lock(mu_);
    if (done_[part] != 0) return;
    done_[part] = 1;
    --left_;
    states_[part] = std::move(state);
    answered_[part] = 1;
    if (stats != nullptr && request.traced) result_.stats.push_back(*stats);
    // Cancelled is usually a consequence of another error.
    Status& kept = s.code() == StatusCode::kCancelled ? other_ : root_;
    if (!s.ok() && kept.ok()) kept = s;
    changed_.notify_all();
  }
  void Lose(size_t part, const Status& why) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      lost_a_task_ = true;
    }
    Done(part, why, nullptr, {});
  }
  // True the first time.
  bool BeginsToWatch() {
    std::lock_guard<std::mutex> lock(mu_);
    return !std::exchange(watched_, true);
  }
  // Starts a round of questions for the parts' states, and returns its number.
  uint32_t Ask() {
    std::lock_guard<std::mutex> lock(mu_);
    answered_ = done_;
    return ++round_;
  }
  void Answer(size_t part, uint32_t round, GroupState state) {
    std::lock_guard<std::mutex> lock(mu_);
    if (round != round_ || done_[part] != 0) return;
    states_[part] = std::move(state);
    answered_[part] = 1;
    changed_.notify_all();
  }
  // Waits for the answers of all parts. nullopt if the step is over, or if they
  // have not come in time.
  std::optional<std::vector<GroupState>> Answers(
      std::chrono::milliseconds patience) {
    std::unique_lock<std::mutex> lock(mu_);
    const auto all = [this] {
      return std::all_of(answered_.begin(), answered_.end(),
                         [](uint8_t a) { return a != 0; });
    };
    changed_.wait_for(lock, patience, [&] { return all() || Over(); });
    if (Over() || !all()) return std::nullopt;
    return states_;
  }
  // An error from the master or a client, which is not a consequence of
  // another.
  void Fail(const Status& s) {
    std::lock_guard<std::mutex> lock(mu_);
    if (root_.ok()) root_ = s;
    changed_.notify_all();
  }
  // The next action for the step. Once one other than kNothing has been
  // returned, a thread is handling the step; for a step with a deadline,
  // WaitFor does so from the start.
  enum Next { kNothing, kConclude, kWait };
  Next WhatNext() {
    std::lock_guard<std::mutex> lock(mu_);
    const bool failed = !root_.ok() || !other_.ok();
    if (taken_ || (left_ > 0 && !failed)) return kNothing;
    taken_ = true;
    return left_ > 0 ? kWait : kConclude;
  }
  void Fetched(size_t part, uint32_t index, Tensor value) {
    const auto& mine = step->parts[part].fetches;
    if (std::find(mine.begin(), mine.end(), index) == mine.end()) return;
    std::lock_guard<std::mutex> lock(mu_);
    // (Empty once the fetches were taken: a task's messages may still arrive
    // after its part is done or was abandoned.)
    if (index >= result_.fetches.size()) return;
    result_.fetches[index] = std::move(value);
    if (!step->staged) return;
    come_[index] = 1;
    changed_.notify_all();
  }
  void Fetched(size_t part, std::span<TokenMessage> batch) {
    for (TokenMessage& m : batch) Fetched(part, m.edge, std::move(m.value));
  }
  // Waits until all parts are done or there is an error. False at `until`.
  bool Wait(std::chrono::steady_clock::time_point until) {
    std::unique_lock<std::mutex> lock(mu_);
    return changed_.wait_until(lock, until, [&] { return Over(); });
  }
  // Waits until all parts are done, but at most for `patience`, or `briefly` if
  // a task was lost, because detecting that already took time.
  void WaitForRest(std::chrono::milliseconds patience,
                   std::chrono::milliseconds briefly) {
    const auto now = std::chrono::steady_clock::now();
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait_until(lock, now + briefly, [&] { return left_ == 0; });
    changed_.wait_until(lock, now + patience,
                        [&] { return left_ == 0 || lost_a_task_; });
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
    return std::exchange(result_, {});
  }
  // Nothing more will arrive.
  void Conclude(const Status& s) {
    std::lock_guard<std::mutex> lock(mu_);
    outcome_ = s;
    changed_.notify_all();
  }
  // For partial runs: records that these are fed and fetched in this stage.
  Status Claim(std::span<const uint32_t> args,
               std::span<const uint32_t> fetches) {
    std::lock_guard<std::mutex> lock(mu_);
    std::vector<uint8_t> fed = fed_, taken = taken_fetches_;
    for (const auto& [what, numbers, marks] :
         {std::tuple("feed", args, &fed), std::tuple("fetch", fetches, &taken)})
      for (const uint32_t i : numbers)
        if (i >= marks->size() || std::exchange((*marks)[i], 1) != 0)
          return InvalidArgument("partial run: expected each ", what,
                                 " once, one of ", marks->size(),
                                 ", got number ", i);
    fed_ = std::move(fed);
    taken_fetches_ = std::move(taken);
    return OkStatus();
  }
  // Waits until these have arrived, or, once everything is fed and asked for,
  // until the step has ended. False at `until`.
  bool AwaitFetches(std::span<const uint32_t> fetches,
                    std::chrono::steady_clock::time_point until) {
    std::unique_lock<std::mutex> lock(mu_);
    return changed_.wait_until(lock, until,
                               [&] { return StageIsOver(fetches); });
  }
  // Also waits for them.
  Result<std::vector<std::optional<Tensor>>> TakeFetches(
      std::span<const uint32_t> fetches) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return StageIsOver(fetches); });
    if (outcome_) SLUICE_RETURN_IF_ERROR(*outcome_);
    std::vector<std::optional<Tensor>> out;
    for (const uint32_t f : fetches) {
      if (come_[f] == 0)
        return DataLoss("fetch ", f, ": expected it, got the step's end");
      Tensor& t = result_.fetches[f];
      out.push_back(t.valid() ? std::optional(std::move(t)) : std::nullopt);
      t = Tensor();
    }
    return out;
  }
  // The error for a step or stage that missed its deadline.
  Status Late(const char* what, std::chrono::milliseconds timeout) {
    std::string tasks;
    for (const size_t i : Pending())
      absl::StrAppend(&tasks, tasks.empty() ? "" : ", ", step->parts[i].task);
    return DeadlineExceeded(what, ": expected to be done within ",
                            timeout.count(), " ms, still waiting for ", tasks);
  }
  size_t PartOf(PeerId peer) const {
    size_t i = 0;
    while (i < step->parts.size() && step->parts[i].peer != peer) ++i;
    return i;
  }

  const std::shared_ptr<const PreparedStep> step;
  const uint64_t run;
  const RunRequest request;
  // Bounded logs by part, even if its task ignores the bound; empty if there is
  // no reader.
  std::vector<StepLog> logs;
  const MasterSteps::Done done;
  const std::chrono::steady_clock::time_point begin =
      std::chrono::steady_clock::now();

 private:
  // REQUIRES: mu_ held.
  bool StageIsOver(std::span<const uint32_t> fetches) const {
    if (outcome_) return true;
    // (While something is left for later stages, ops of the step may wait for
    // what the client does between them.)
    const auto has_come = [this](uint32_t f) { return come_[f] != 0; };
    const bool last =
        std::count(fed_.begin(), fed_.end(), 0) == 0 &&
        std::count(taken_fetches_.begin(), taken_fetches_.end(), 0) == 0;
    return !last && std::all_of(fetches.begin(), fetches.end(), has_come);
  }

  // All parts are done, or there is an error. REQUIRES: mu_ held.
  bool Over() const { return left_ == 0 || !root_.ok() || !other_.ok(); }

  std::mutex mu_;
  std::condition_variable changed_;
  Status root_, other_;        // GUARDED_BY(mu_)
  std::vector<uint8_t> done_;  // GUARDED_BY(mu_); by part.
  // By part, all GUARDED_BY(mu_): the latest states, or the last ones of parts
  // that are done, and whether they belong to this round of questions.
  std::vector<GroupState> states_;
  std::vector<uint8_t> answered_;
  uint32_t round_ = 0;
  bool watched_ = false;
  size_t left_;               // GUARDED_BY(mu_)
  bool lost_a_task_ = false;  // GUARDED_BY(mu_)
  bool taken_;                // GUARDED_BY(mu_)
  StepResult result_;         // GUARDED_BY(mu_)
  // For partial runs, all GUARDED_BY(mu_): the feeds given, the fetches taken
  // and the fetches received, by number; how it ended.
  std::vector<uint8_t> fed_, taken_fetches_, come_;
  std::optional<Status> outcome_;
};

MasterSteps::MasterSteps(Worker* worker, Transport* transport,
                         std::chrono::milliseconds patience)
    : worker_(worker), transport_(transport), patience_(patience) {}

MasterSteps::~MasterSteps() {
  std::unique_lock<std::mutex> lock(mu_);
  concluded_.wait(lock, [this] { return unconcluded_ == 0; });
}

void MasterSteps::Send(const std::shared_ptr<Running>& r, size_t part) {
  const PreparedStep::Part& p = r->step->parts[part];
  const std::vector<Tensor>& feeds = r->request.feeds;
  const std::chrono::milliseconds timeout = r->request.timeout;
  if (const FailpointHit hit = SLUICE_FAILPOINT("master.start_part");
      !hit.error.ok())
    return PartDone(r, part, hit.error, nullptr);
  if (p.peer == kThisTask) {
    Result<std::shared_ptr<RegisteredStep>> step =
        worker_->FindStep(r->step->session, r->step->step);
    if (!step.ok()) return PartDone(r, part, step.status(), nullptr);
    StepRequest request;
    request.run = r->run;
    request.step = *step;
    for (const uint32_t arg : p.args) {
      request.args.push_back(arg);
      request.values.push_back(feeds[arg]);
    }
    if (timeout.count() > 0)
      request.deadline = std::chrono::steady_clock::now() + timeout;
    request.traced = r->request.traced;
    request.here = r->request.here;
    if (!r->logs.empty()) request.log = r->logs[part];
    request.fetched = [r, part](std::span<TokenMessage> batch) {
      r->Fetched(part, batch);
    };
    request.stuck = [this, r] { Watch(r); };
    request.done = [this, r, part](StepOutcome o) {
      for (size_t i = 0; i < o.fetches.size(); ++i)
        r->Fetched(part, o.fetches[i], std::move(o.values[i]));
      PartDone(r, part, OfTask(o.status, r->step->parts[part].task), &o.stats,
               {true, o.tokens_sent, o.tokens_received, {}});
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
    start.set_session(r->step->session);
    start.set_step(r->step->step);
    start.set_run(r->run);
    start.set_feeds(static_cast<uint32_t>(p.args.size()));
    start.set_timeout_ms(timeout.count());
    start.set_traced(r->request.traced);
    start.set_log(r->request.log != nullptr);
    sent = transport_->SendControl(p.peer,
                                   static_cast<uint8_t>(StepMessage::kStart),
                                   start.SerializeAsString());
  }
  if (!sent.ok()) PartDone(r, part, sent, nullptr);
}

void MasterSteps::SendCancels(const std::shared_ptr<Running>& r,
                              const std::vector<size_t>& parts,
                              const Status& why) {
  const Status consequence = Cancelled(
      "step: cancelled, because it failed elsewhere: ", why.message());
  proto::StepCancel cancel;
  cancel.set_run(r->run);
  StatusToProto(consequence, cancel.mutable_why());
  const std::string bytes = cancel.SerializeAsString();
  for (const size_t i : parts) {
    const PreparedStep::Part& p = r->step->parts[i];
    if (p.peer == kThisTask)
      worker_->steps().Cancel(r->run, consequence);
    else if (const Status sent = transport_->SendControl(
                 p.peer, static_cast<uint8_t>(StepMessage::kCancel), bytes);
             !sent.ok())
      PartDone(r, i, sent, nullptr);
  }
}

Status MasterSteps::Add(const std::shared_ptr<Running>& r) {
  std::lock_guard<std::mutex> lock(mu_);
  for (const PreparedStep::Part& p : r->step->parts) {
    if (p.peer == kThisTask) continue;
    if (const Status lost = transport_->Lost(p.peer); !lost.ok())
      return Annotate(lost,
                      absl::StrCat("session: expected all of its tasks, lost ",
                                   p.task, "; make a new session"));
  }
  if (down_) return Unavailable("task ", worker_->task(), " shuts down");
  if (draining_) return Draining(worker_->task());
  for (const uint64_t request : {uint64_t{0}, r->request.request})
    if (auto it = cancelled_.find({r->step->session, request});
        it != cancelled_.end())
      return it->second;
  if (r->step->staged) {
    size_t mine = 0;
    for (const auto& [run, other] : staged_)
      mine += other->step->session == r->step->session;
    for (const auto& [what, had, most] :
         {std::tuple("of a session", mine, kMaxStaged),
          std::tuple("of all sessions", staged_.size(), kMaxStagedOfAll)})
      if (had >= most)
        return ResourceExhausted("partial run: expected at most ", most, " ",
                                 what, " that were not ended, got one more");
    staged_.emplace(r->run, r);
  }
  running_.emplace(r->run, r);
  ++unconcluded_;
  return OkStatus();
}

void MasterSteps::Begin(const std::shared_ptr<Running>& r) {
  const std::vector<PreparedStep::Part>& parts = r->step->parts;
  // This task's own part last, because this thread may run it immediately.
  for (const bool local : {false, true})
    for (size_t i = 0; i < parts.size(); ++i)
      if ((parts[i].peer == kThisTask) == local) Send(r, i);
}

void MasterSteps::Start(std::shared_ptr<const PreparedStep> step,
                        RunRequest request, Done done) {
  Status refused = SLUICE_FAILPOINT("master.run_step").error;
  const uint64_t run = RunNumber(
      step->session, next_run_.fetch_add(1, std::memory_order_relaxed));
  const auto r = std::make_shared<Running>(std::move(step), run,
                                           std::move(request), std::move(done));
  if (refused.ok()) refused = Add(r);
  if (!refused.ok()) return r->done(refused);
  (void)SLUICE_FAILPOINT("master.step_known");
  Begin(r);
  if (r->request.timeout.count() > 0)
    threads_.Schedule([this, r] { WaitFor(r); });
  else if (r->step->parts.empty())
    Advance(r);
}

void MasterSteps::PartDone(const std::shared_ptr<Running>& r, size_t part,
                           const Status& s, const proto::TaskStats* stats,
                           GroupState state) {
  r->Done(part, s, stats, std::move(state));
  Advance(r);
}

void MasterSteps::Fail(const std::shared_ptr<Running>& r, const Status& s) {
  r->Fail(s);
  Advance(r);
}

void MasterSteps::Advance(const std::shared_ptr<Running>& r) {
  switch (r->WhatNext()) {
    case Running::kNothing:
      return;
    case Running::kConclude:
      return Conclude(r);
    case Running::kWait:
      threads_.Schedule([this, r] { WaitFor(r); });
  }
}

void MasterSteps::WaitFor(const std::shared_ptr<Running>& r) {
  const std::chrono::milliseconds timeout = r->request.timeout;
  if (timeout.count() > 0 && !r->Wait(r->begin + timeout + kDeadlineGrace))
    r->Fail(r->Late("step", timeout));
  if (const Status s = r->status(); !s.ok()) {
    SendCancels(r, r->Pending(), s);
    r->WaitForRest(patience_, patience_ / kBriefly);
  }
  Conclude(r);
}

// ---- Steps that may be stuck ------------------------------------------------

void MasterSteps::Watch(const std::shared_ptr<Running>& r) {
  if (r->BeginsToWatch()) threads_.Schedule([this, r] { WatchOnItsThread(r); });
}

void MasterSteps::WatchOnItsThread(const std::shared_ptr<Running>& r) {
  for (auto pause = kFirstLook;; pause = std::min(2 * pause, kLongestLook)) {
    if (r->Wait(std::chrono::steady_clock::now() + pause)) return;
    const auto first = Ask(r);
    if (!first) continue;
    uint64_t sent = 0, received = 0;
    bool idle = true;
    for (const GroupState& s : *first) {
      idle = idle && s.idle;
      sent += s.sent;
      received += s.received;
    }
    if (!idle || sent != received) continue;
    const auto second = Ask(r);
    if (!second) continue;
    std::vector<std::string> needs;
    for (size_t i = 0; i < second->size(); ++i) {
      const GroupState &a = (*first)[i], &b = (*second)[i];
      idle = idle && b.idle && a.sent == b.sent && a.received == b.received;
      needs.insert(needs.end(), b.needs.begin(), b.needs.end());
    }
    if (idle && !needs.empty()) return Fail(r, StuckOn(needs));
  }
}

std::optional<std::vector<GroupState>> MasterSteps::Ask(
    const std::shared_ptr<Running>& r) {
  proto::StepProbe probe;
  probe.set_run(r->run);
  probe.set_round(r->Ask());
  const std::string bytes = probe.SerializeAsString();
  for (const size_t i : r->Pending()) {
    const PeerId peer = r->step->parts[i].peer;
    if (peer == kThisTask)
      r->Answer(i, probe.round(), worker_->steps().State(kThisTask, r->run));
    else if (!transport_
                  ->SendControl(peer, static_cast<uint8_t>(StepMessage::kProbe),
                                bytes)
                  .ok())
      return std::nullopt;  // (The loss of the task ends the step.)
  }
  return r->Answers(patience_);
}

void MasterSteps::OnStuck(PeerId from, uint64_t run) {
  const std::shared_ptr<Running> r = Find(run);
  // (A partial run may wait for its client.)
  if (r == nullptr || r->step->staged ||
      r->PartOf(from) == r->step->parts.size())
    return;
  Watch(r);
}

void MasterSteps::OnState(PeerId from, const proto::StepState& state) {
  const std::shared_ptr<Running> r = Find(state.run());
  if (r == nullptr) return;
  const size_t part = r->PartOf(from);
  if (part == r->step->parts.size()) return;
  r->Answer(part, state.round(),
            {state.idle(),
             state.tokens_sent(),
             state.tokens_received(),
             {state.need().begin(), state.need().end()}});
}

// ---- The end ----------------------------------------------------------------

void MasterSteps::Conclude(const std::shared_ptr<Running>& r) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    running_.erase(r->run);
  }
  Status s = r->status();
  StepResult result;
  if (!r->step->staged) result = r->Take();
  for (const PreparedStep::Part& p : r->step->parts)
    for (const uint32_t f : p.fetches)
      if (s.ok() && !r->step->staged && !result.fetches[f].valid())
        s = DataLoss("fetch ", f, ": expected it from task ", p.task,
                     ", got none");
  if (r->step->staged)
    r->Conclude(s);
  else if (s.ok())
    r->done(std::move(result));
  else
    r->done(s);
  std::lock_guard<std::mutex> lock(mu_);
  if (--unconcluded_ == 0) concluded_.notify_all();
}

std::shared_ptr<MasterSteps::Running> MasterSteps::Find(uint64_t run) {
  std::lock_guard<std::mutex> lock(mu_);
  auto it = running_.find(run);
  return it == running_.end() ? nullptr : it->second;
}

// ---- Partial runs -----------------------------------------------------------

Result<uint64_t> MasterSteps::BeginStages(
    std::shared_ptr<const PreparedStep> step) {
  const uint64_t run = RunNumber(
      step->session, next_run_.fetch_add(1, std::memory_order_relaxed));
  const auto r = std::make_shared<Running>(std::move(step), run, RunRequest(),
                                           [](const Result<StepResult>&) {});
  SLUICE_RETURN_IF_ERROR(Add(r));
  Begin(r);
  if (r->step->parts.empty()) Advance(r);
  return run;
}

std::shared_ptr<MasterSteps::Running> MasterSteps::FindStaged(uint64_t session,
                                                              uint64_t run) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = staged_.find(run);
  return it == staged_.end() || it->second->step->session != session
             ? nullptr
             : it->second;
}

Result<std::vector<std::optional<Tensor>>> MasterSteps::RunStage(
    uint64_t session, uint64_t run, std::span<const uint32_t> args,
    std::span<const Tensor> values, std::span<const uint32_t> fetches,
    std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  const std::shared_ptr<Running> r = FindStaged(session, run);
  if (r == nullptr)
    return FailedPrecondition(
        "partial run: expected one that was begun and has not been ended, got "
        "number ",
        run);
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i] < r->step->feeds.size())  // (Else Claim fails.)
      SLUICE_RETURN_IF_ERROR(r->step->CheckFeed(args[i], values[i]));
  SLUICE_RETURN_IF_ERROR(r->Claim(args, fetches));
  std::map<std::pair<int, uint32_t>, std::vector<TokenMessage>> batches;
  for (size_t i = 0; i < args.size(); ++i) {
    const PreparedStep::Entry& e = r->step->entries[args[i]];
    if (e.part < 0) continue;
    TokenMessage& m = batches[{e.part, e.partition}].emplace_back();
    m.edge = e.edge;
    m.value = values[i];
  }
  auto deliver = [this, r, batches = std::move(batches)]() mutable {
    for (auto& [to, batch] : batches) {
      const auto part = static_cast<size_t>(to.first);
      const PeerId peer = r->step->parts[part].peer;
      if (peer == kThisTask)
        worker_->steps().Deliver(r->run, to.second, batch);
      else if (const Status sent =
                   transport_->SendTokens(peer, r->run, to.second, batch);
               !sent.ok())
        PartDone(r, part, sent, nullptr);
    }
  };
  // (The delivering thread may run the stage and cannot check the deadline.)
  if (timeout.count() > 0)
    threads_.Schedule(std::move(deliver));
  else
    deliver();
  if (timeout.count() > 0 && !r->AwaitFetches(fetches, until))
    Fail(r, r->Late("partial run: a stage", timeout));
  return r->TakeFetches(fetches);
}

void MasterSteps::EndStages(uint64_t session, uint64_t run) {
  const std::shared_ptr<Running> r = FindStaged(session, run);
  if (r == nullptr) return;
  bool runs;
  {
    std::lock_guard<std::mutex> lock(mu_);
    staged_.erase(run);
    runs = running_.contains(run);
  }
  if (runs)
    Fail(r, Cancelled(
                "partial run: ended by the client before its ops were done"));
}

size_t MasterSteps::num_staged() {
  std::lock_guard<std::mutex> lock(mu_);
  return staged_.size();
}

// ---- Ending steps -----------------------------------------------------------

void MasterSteps::Cancel(uint64_t session, uint64_t request,
                         const Status& why) {
  std::vector<std::shared_ptr<Running>> found;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [run, r] : running_)
      if (r->step->session == session &&
          (request == 0 || r->request.request == request))
        found.push_back(r);
    if (cancelled_.try_emplace({session, request}, why).second)
      cancelled_order_.emplace_back(session, request);
    if (cancelled_order_.size() > kCancelledKept) {
      cancelled_.erase(cancelled_order_.front());
      cancelled_order_.pop_front();
    }
    if (request == 0)
      absl::erase_if(staged_, [session](const auto& e) {
        return e.second->step->session == session;
      });
  }
  for (const auto& r : found) Fail(r, why);
}

void MasterSteps::OnFetches(PeerId from, uint64_t run,
                            std::span<TokenMessage> batch) {
  const std::shared_ptr<Running> r = Find(run);
  if (r == nullptr) return;
  const size_t part = r->PartOf(from);
  if (part == r->step->parts.size()) return;
  r->Fetched(part, batch);
}

void MasterSteps::OnDone(PeerId from, const proto::StepDone& done) {
  const std::shared_ptr<Running> r = Find(done.run());
  if (r == nullptr) return;
  const size_t part = r->PartOf(from);
  if (part == r->step->parts.size()) return;
  const FailpointHit hit = SLUICE_FAILPOINT("master.done");
  PartDone(
      r, part,
      hit.error.ok()
          ? OfTask(StatusFromProto(done.status()), r->step->parts[part].task)
          : hit.error,
      &done.stats(), {true, done.tokens_sent(), done.tokens_received(), {}});
}

void MasterSteps::OnLog(PeerId from, const proto::StepLog& log) {
  const std::shared_ptr<Running> r = Find(log.run());
  if (r == nullptr || r->logs.empty()) return;
  const size_t part = r->PartOf(from);
  if (part < r->logs.size()) r->logs[part](log.text());
}

void MasterSteps::OnPeerLost(PeerId peer, const Status& why) {
  std::vector<std::shared_ptr<Running>> found;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [run, r] : running_)
      if (r->PartOf(peer) < r->step->parts.size()) found.push_back(r);
  }
  for (const auto& r : found) {
    r->Lose(r->PartOf(peer), why);
    Advance(r);
  }
}

void MasterSteps::OnTransportDown() {
  std::vector<std::shared_ptr<Running>> found;
  {
    std::lock_guard<std::mutex> lock(mu_);
    down_ = true;
    for (const auto& [run, r] : running_) found.push_back(r);
  }
  const Status why = Cancelled("step: expected task ", worker_->task(),
                               " to keep running, got its shutdown");
  for (const auto& r : found)
    for (const size_t part : r->Pending())
      if (r->step->parts[part].peer != kThisTask)
        PartDone(r, part, why, nullptr);
}

void MasterSteps::Drain() {
  std::lock_guard<std::mutex> lock(mu_);
  draining_ = true;
}

bool MasterSteps::idle() {
  std::lock_guard<std::mutex> lock(mu_);
  return unconcluded_ == 0;
}

size_t MasterSteps::num_running() {
  std::lock_guard<std::mutex> lock(mu_);
  return running_.size();
}

}  // namespace sluice
