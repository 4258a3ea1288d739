#include "data/dataset_iterator.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/operators.h"
#include "data/coordinator.h"
#include "exec/core/pipeline_stages.h"
#include "exec/core/trace.h"
#include "sluice/ops.h"

namespace sluice {
// The pipeline while it runs in one state, and what it has come to.
class DatasetIterator::Run {
 public:
  // `begin`: sets where the stages begin. Null: at the beginning.
  Run(Graph& graph, const std::vector<PipelineStage>& stages, Node* begin)
      : graph_(graph), stages_(stages), begin_(begin) {}
  ~Run() { Stop(); }
  Run(const Run&) = delete;

  bool ended() const { return running_ == 0; }
  int64_t ignored_errors() const { return ignored_; }

  Status Start(Session& session, const Feeds& feeds, int threads) {
    SessionOptions options = session.options();
    if (options.resources != nullptr) {
      NoteLocalPipelines(options.resources);
      options.inter_op_threads =
          threads > 0 ? threads
                      : static_cast<int>(
                            std::max(1U, std::thread::hardware_concurrency()));
      options.intra_op_threads = 1;
      own_session_ = std::make_unique<Session>(graph_, std::move(options));
    }
    Session& runs = own_session_ != nullptr ? *own_session_ : session;
    // (The queues are emptied before any stage runs. By the caller's session,
    // which refuses if it is closed or of another graph.)
    std::vector<Node*> reopen;
    for (const PipelineStage& s : stages_) reopen.push_back(s.reopen);
    SLUICE_RETURN_IF_ERROR(session.RunTargets(reopen));
    // Where to begin is read once no element of an earlier run can be taken.
    if (begin_ != nullptr) {
      if (const Status begun = session.RunTargets({begin_}); !begun.ok()) {
        // (Steps must not wait for stages that do not run.)
        for (const PipelineStage& s : stages_) Fail(s, session, begun);
        return begun;
      }
    }
    for (const PipelineStage& s : stages_) {
      ++running_;
      SLUICE_RETURN_IF_ERROR(coordinator_.Start([this, &s, &runs, feeds] {
        Status status = RunStage(s, runs, feeds);
        --running_;
        return status;
      }));
    }
    return OkStatus();
  }
  // Cancels what runs, and waits for its end.
  void Stop() {
    coordinator_.RequestStop();
    (void)Join();
    const std::lock_guard<std::mutex> lock(mu_);
    own_session_.reset();
  }
  Status Join() {
    (void)coordinator_.Join();
    const std::lock_guard<std::mutex> lock(mu_);
    return error_;
  }

 private:
  // Errors do not stop the other stages: they follow the elements before them
  // through the queues.
  Status RunStage(const PipelineStage& s, Session& session,
                  const Feeds& feeds) {
    const Status status = s.had_value.valid()
                              ? RunElements(s, session, feeds)
                              : RunOnce(s, session, feeds).status();
    // Both sides hear of it, whether or not the pipeline is being stopped.
    if (status.ok()) {
      (void)session.RunTargets({s.close});
    } else {
      Fail(s, session, Passed(status));
    }
    (void)session.RunTargets({s.close_inputs});
    return OkStatus();
  }
  // Ends a stage's queue with an error.
  static void Fail(const PipelineStage& s, Session& session,
                   const Status& error) {
    (void)session.Run(
        {{s.error_code, Tensor::Scalar(static_cast<int32_t>(error.code()))},
         {s.error_message, Tensor::Scalar(std::string(error.message()))}},
        {}, {s.fail});
  }
  Result<std::vector<Tensor>> RunOnce(const PipelineStage& s, Session& session,
                                      const Feeds& feeds,
                                      const std::vector<Output>& fetches = {}) {
    RunOptions options;
    options.cancellation = coordinator_.cancellation();
    return session.Run(feeds, fetches, {s.run}, options);
  }
  Status RunElements(const PipelineStage& s, Session& session,
                     const Feeds& feeds) {
    while (!coordinator_.ShouldStop()) {
      const auto got = RunOnce(s, session, feeds, {s.had_value, s.ended});
      if (!got.ok()) {
        // An error of the stages before it would come again and again.
        if (HasError() || got.status().code() == StatusCode::kCancelled)
          return got.status();
        ++ignored_;
        continue;
      }
      if ((*got)[0].scalar<bool>()) continue;
      if ((*got)[1].scalar<bool>()) return OkStatus();
      SLUICE_RETURN_IF_ERROR(session.RunTargets({s.end_epoch}));
    }
    return Cancelled("the pipeline was stopped");
  }

  bool HasError() {
    const std::lock_guard<std::mutex> lock(mu_);
    return !error_.ok();
  }
  // What the next stage gets to see of an error: the first, as it was where it
  // happened. (It comes back from each later stage.)
  Status Passed(const Status& status) {
    if (status.code() == StatusCode::kCancelled) return status;
    const std::lock_guard<std::mutex> lock(mu_);
    if (error_.ok())
      // The end of a queue is no error; this one is.
      error_ = status.code() == StatusCode::kOutOfRange
                   ? InvalidArgument(status.message())
                   : status;
    return error_;
  }

  Graph& graph_;
  const std::vector<PipelineStage>& stages_;
  Node* const begin_;
  std::atomic<int64_t> ignored_{0};
  std::atomic<size_t> running_{0};  // Stages.
  std::mutex mu_;
  std::unique_ptr<Session> own_session_;  // GUARDED_BY(mu_) once started.
  Status error_;                          // GUARDED_BY(mu_)
  Coordinator coordinator_;
};

// The stages, and where they run. Shared by the copies of an iterator.
class DatasetIterator::Runner {
 public:
  Runner(Graph& graph, std::vector<PipelineStage> stages,
         SavedPosition position)
      : graph_(graph),
        stages_(std::move(stages)),
        position_(std::move(position)) {}
  Runner(const Runner&) = delete;

  // The stages' counters at some time.
  struct Sample {
    int64_t at_ns = 0;
    std::vector<StageCounters> stages;
  };

  const std::vector<PipelineStage>& stages() const { return stages_; }
  const SavedPosition& position() const { return position_; }

  Status Start(Session& session, const Feeds& feeds, int threads) {
    const std::lock_guard<std::mutex> starting(start_mu_);
    for (const auto& run : Runs(&session)) run->Stop();
    auto run = std::make_shared<Run>(graph_, stages_, position_.begin);
    {
      const std::lock_guard<std::mutex> lock(mu_);
      std::erase_if(runs_, [](const auto& r) { return r.second->ended(); });
      // (The queues' counters are not those of one run.)
      samples_.erase(StateOf(session));
      std::erase_if(samples_, [this](const auto& s) {
        return runs_.find(s.first) == runs_.end();
      });
      runs_[StateOf(session)] = run;
    }
    return run->Start(session, feeds, threads);
  }
  // In all sessions, or in one.
  void Stop(const Session* session = nullptr) {
    const std::lock_guard<std::mutex> not_starting(start_mu_);
    for (const auto& run : Runs(session)) run->Stop();
  }
  Status Join() {
    Status first;
    for (const auto& run : Runs())
      if (Status s = run->Join(); first.ok()) first = std::move(s);
    return first;
  }
  bool running(const Session& session) const {
    const auto runs = Runs(&session);
    return !runs.empty() && !runs[0]->ended();
  }
  // Returns the sample before.
  Sample Exchange(const Session& session, Sample now) {
    const std::lock_guard<std::mutex> lock(mu_);
    return std::exchange(samples_[StateOf(session)], std::move(now));
  }
  int64_t ignored_errors() const {
    int64_t sum = 0;
    for (const auto& run : Runs()) sum += run->ignored_errors();
    return sum;
  }

 private:
  // What the queues belong to; null: to the tasks of a cluster.
  static const ResourceManager* StateOf(const Session& session) {
    return session.options().resources.get();
  }
  std::vector<std::shared_ptr<Run>> Runs(
      const Session* session = nullptr) const {
    const std::lock_guard<std::mutex> lock(mu_);
    std::vector<std::shared_ptr<Run>> runs;
    for (const auto& [state, run] : runs_)
      if (session == nullptr || state == StateOf(*session)) runs.push_back(run);
    return runs;
  }

  Graph& graph_;
  const std::vector<PipelineStage> stages_;
  const SavedPosition position_;
  std::mutex start_mu_;  // Held while the pipeline is started and stopped.
  mutable std::mutex mu_;
  std::map<const ResourceManager*, std::shared_ptr<Run>>
      runs_;  // GUARDED_BY(mu_)
  // The counters when they were asked for last, and of what state.
  std::map<const ResourceManager*, Sample> samples_;  // GUARDED_BY(mu_)
};

DatasetIterator::DatasetIterator(Graph& graph,
                                 std::vector<PipelineStage> stages,
                                 SavedPosition position)
    : runner_(std::make_shared<Runner>(graph, std::move(stages),
                                       std::move(position))) {}

namespace {

Status NoPipeline() {
  return FailedPrecondition(
      "DatasetIterator: expected one that Dataset::MakeIterator has made, got "
      "an empty one");
}

// As many null outputs as an element of the queue would have, with its error.
std::vector<Output> FailedElement(const Queue& queue) {
  return std::vector<Output>(std::max<size_t>(1, queue.components().size()),
                             queue.handle());
}

}  // namespace

Queue DatasetIterator::Last(SourceLoc loc) const {
  if (runner_ == nullptr) return Queue::Failed(BuildError(NoPipeline(), loc));
  return runner_->stages().back().out;
}

// What was dequeued, once it has been counted; so a step that uses it leaves
// the position behind it.
std::vector<Output> DatasetIterator::Counted(std::vector<Output> taken,
                                             const Operand& elements,
                                             SourceLoc loc) const {
  const Var& position = runner_->position().taken;
  if (!position.valid() || !taken[0].valid()) return taken;
  Node* const add = [&] {
    const ControlDependencies after({taken[0].node});
    return position.AssignAdd(elements, loc);
  }();
  const ControlDependencies counted({add});
  for (Output& o : taken) o = ops::Identity(o, {}, loc);
  return taken;
}

std::vector<Output> DatasetIterator::Next(SourceLoc loc) const {
  const Queue last = Last(loc);
  if (!last.handle().valid()) return FailedElement(last);
  return Counted(last.Dequeue(loc), runner_->position().elements, loc);
}

Queue::Maybe DatasetIterator::TryNext(SourceLoc loc) const {
  const Queue last = Last(loc);
  if (!last.handle().valid()) return {last.handle(), FailedElement(last)};
  Queue::Maybe next = last.Next(loc);
  if (!runner_->position().taken.valid() || !next.has_value.valid())
    return next;
  const Output elements = ops::Cast(next.has_value, DType::kInt64, {}, loc) *
                          runner_->position().elements;
  std::vector<Output> all = next.element;
  all.insert(all.begin(), next.has_value);
  all = Counted(std::move(all), elements, loc);
  return {all[0], std::vector<Output>(all.begin() + 1, all.end())};
}

Status DatasetIterator::Rewind(Session& session) {
  if (runner_ == nullptr) return NoPipeline();
  Node* const rewind = runner_->position().rewind;
  if (rewind == nullptr)
    return FailedPrecondition(
        "Rewind: expected an iterator whose position is saved "
        "(IteratorOptions::saved), got another");
  runner_->Stop(&session);
  return session.RunTargets({rewind});
}

SavedPosition DatasetIterator::position() const {
  return runner_ == nullptr ? SavedPosition() : runner_->position();
}

Status DatasetIterator::Start(Session& session, const Feeds& feeds,
                              int threads) {
  return runner_ == nullptr ? NoPipeline()
                            : runner_->Start(session, feeds, threads);
}

void DatasetIterator::Stop() {
  if (runner_ != nullptr) runner_->Stop();
}

void DatasetIterator::Stop(Session& session) {
  if (runner_ != nullptr) runner_->Stop(&session);
}

bool DatasetIterator::Running(Session& session) const {
  return runner_ != nullptr && runner_->running(session);
}

Status DatasetIterator::Join() {
  return runner_ == nullptr ? NoPipeline() : runner_->Join();
}

Result<std::vector<StageStatus>> DatasetIterator::Ask(
    Session& session, PipelineLoad* load) const {
  if (runner_ == nullptr) return NoPipeline();
  const std::vector<PipelineStage>& stages = runner_->stages();
  std::vector<Output> fetches;
  for (const PipelineStage& s : stages) fetches.push_back(s.stats);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> stats,
                          session.Run(fetches));
  Runner::Sample now = {NowNs(), {}};
  for (size_t i = 0; i < stages.size(); ++i) {
    const int64_t* v = stats[i].data<int64_t>();
    StageCounters& c = now.stages.emplace_back();
    c.stage = stages[i].name;
    c.number = static_cast<int64_t>(i);
    c.inputs = stages[i].input_stages;
    c.ready = v[0];
    c.capacity = v[1];
    c.elements = v[2];
    c.full_ns = v[6];
    c.starving_ns = v[7];
  }
  const Runner::Sample before = runner_->Exchange(session, now);
  *load =
      PipelineLoads(before.stages, now.stages,
                    static_cast<double>(now.at_ns - before.at_ns) * 1e-9)[0];
  std::vector<StageStatus> all;
  for (size_t i = 0; i < stages.size(); ++i) {
    const int64_t* v = stats[i].data<int64_t>();
    const StageLoad& s = load->stages[i];
    all.push_back({.name = s.now.stage,
                   .elements = s.now.elements,
                   .ready = s.now.ready,
                   .capacity = s.now.capacity,
                   .full = v[4] > 0,
                   .starving = v[5] > 0,
                   .per_second = s.per_second,
                   .full_share = s.full,
                   .starving_share = s.starving,
                   .slowest = load->slowest == static_cast<int>(i)});
  }
  return all;
}

Result<std::vector<StageStatus>> DatasetIterator::Stages(
    Session& session) const {
  PipelineLoad load;
  return Ask(session, &load);
}

std::string DatasetIterator::StatusLine(Session& session) const {
  PipelineLoad load;
  const Result<std::vector<StageStatus>> all = Ask(session, &load);
  if (!all.ok()) return all.status().ToString();
  std::string line =
      absl::StrJoin(*all, " > ", [](std::string* out, const StageStatus& s) {
        absl::StrAppendFormat(
            out, "%s %d at %.*f/s (%d/%d%s%s%s)", s.name, s.elements,
            s.per_second < 99.95 ? 1 : 0, s.per_second, s.ready, s.capacity,
            s.full ? " full" : "", s.starving ? " starving" : "",
            s.slowest ? ", slowest" : "");
      });
  if (load.slowest == static_cast<int>(all->size()))
    line += " > slowest: the steps that take elements";
  return line;
}

int64_t DatasetIterator::ignored_errors() const {
  return runner_ == nullptr ? 0 : runner_->ignored_errors();
}

}  // namespace sluice
