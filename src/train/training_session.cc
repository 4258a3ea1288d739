#include "train/training_session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "base/chief_election.h"
#include "base/cluster_library.h"
#include "checkpoint/bundle_writer.h"
#include "checkpoint/state.h"
#include "data/coordinator.h"
#include "io/file.h"
#include "sluice/ops.h"
#include "train/leftovers.h"
#include "train/run_lock.h"
#include "train/signal_stop.h"

namespace sluice {
namespace {

using FeedsOfStep = std::function<Result<Feeds>(int64_t step)>;

// What a step fails with if a task was lost, with the state that it held.
bool IsLoss(const Status& s) {
  return s.code() == StatusCode::kAborted ||
         s.code() == StatusCode::kUnavailable;
}

// "a, b, c and 7 more".
std::string Listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    absl::StrAppend(&text, i == 0 ? "" : ", ", names[i]);
  if (names.size() > kShown)
    absl::StrAppend(&text, " and ", names.size() - kShown, " more");
  return text;
}

Status CheckTrainingOptions(const TrainingOptions& o) {
  if (o.last_step < 0 || o.max_retries < 0)
    return InvalidArgument(
        "training: expected no negative last_step and max_retries, got ",
        o.last_step, " and ", o.max_retries);
  if (!(o.max_wait_seconds >= 0) || !(o.retry_seconds >= 0))
    return InvalidArgument(
        "training: expected no negative max_wait_seconds and retry_seconds, "
        "got ",
        o.max_wait_seconds, " and ", o.retry_seconds);
  if (o.progress && o.last_step == 0)
    return InvalidArgument(
        "training: expected a last_step for progress, got none");
  if (o.checkpoint_name.empty() ||
      o.checkpoint_name.find('/') != std::string::npos)
    return InvalidArgument(
        "training: expected the name of a file as checkpoint_name, got '",
        o.checkpoint_name, "'");
  if (o.saver != nullptr && !o.saver->status().ok()) return o.saver->status();
  for (const HookPtr& hook : o.hooks)
    if (hook == nullptr)
      return InvalidArgument("training: expected hooks, got a null one");
  return OkStatus();
}

// InvalidArgument unless it is a scalar integer.
Status CheckGlobalStep(const Var& v) {
  if (!v.valid() ||
      ((v.dtype() == DType::kInt64 || v.dtype() == DType::kInt32) &&
       v.shape().CompatibleWith(PartialShape::Scalar())))
    return OkStatus();
  return InvalidArgument(
      "training: expected a scalar integer as global step, got '", v.name(),
      "': ", DTypeName(v.dtype()), v.shape().ToString());
}

}  // namespace

class TrainingSession::Impl {
 public:
  Impl(TrainingOptions options, Graph& graph) : options_(std::move(options)) {
    options_.folder = LocalPath(options_.folder);
    context_.graph_ = &graph;
    context_.folder_ = options_.folder;
    context_.log_ = options_.log;
    context_.clock_ = options_.clock;
  }
  ~Impl() {
    election_.reset();  // (It may end the session's threads.)
    (void)EndSession();
  }

  Status Start(SourceLoc loc);
  bool ShouldStop();
  // Asks for the feeds before each try, by the step's number then.
  Result<std::vector<Tensor>> Run(const FeedsOfStep& feeds,
                                  const std::vector<Output>& fetches,
                                  const std::vector<Node*>& targets);
  Status Close();

  TrainingContext& context() { return context_; }
  const TrainingContext& context() const { return context_; }
  int stop_signal() const { return stop_signal_; }
  const std::string& stop_reason() const { return context_.stop_reason_; }

 private:
  // An error that ends the run.
  Status Fail(const Status& s) {
    if (failure_.ok()) failure_ = s;
    return s;
  }
  Status FindGlobalStep();
  Status TakeFolder();
  Status JoinElection();
  // Whether this run has become the chief since the session began, or ceased to
  // be it.
  bool ElectionChanged() {
    return election_ != nullptr && (elections_ != elections_seen_ ||
                                    election_->elected() != context_.is_chief_);
  }
  // Whether it may become the chief.
  bool MayBeChief() const {
    return options_.is_chief || !options_.chief_election.empty();
  }
  // Adds the nodes and hooks that the options ask for.
  Status Build(SourceLoc loc);
  // Makes a session in which variables have values, with what fills its queues.
  // Tries again while tasks are lost. `again`: it takes the place of another.
  Status NewSession(bool again);
  Status TryNewSession(bool again);
  Status Initialise(bool again);
  Status RestoreFrom(const std::string& path);
  Status RunInit();
  void WarnOfOtherFiles();
  // The names of what has no value.
  Result<std::vector<std::string>> Missing();
  Status AwaitChief();
  Status StartInputs();
  Status ReadStep();
  // The error of a queue runner, if there is one, before one that follows.
  Status CauseOf(const Status& s);
  Result<std::vector<Tensor>> Step(const Feeds& feeds,
                                   const std::vector<Output>& fetches,
                                   const std::vector<Node*>& targets);
  Status ForEachHook(Status (TrainingHook::*call)(TrainingContext&));
  // Whether the hook takes part in the session.
  bool Takes(const TrainingHook& hook) const {
    return context_.is_chief_ || !chief_hooks_.contains(&hook);
  }
  // Ends threads and the session; an error of the threads, but for those that
  // come from ending them.
  Status EndSession();
  // Before another try; a signal ends it.
  void Pause() const {
    double left = options_.retry_seconds;
    do {
      const double slice = std::min(left, 0.1);
      std::this_thread::sleep_for(std::chrono::duration<double>(slice));
      left -= slice;
    } while (left > 0 && (signals_ == nullptr || signals_->received() == 0));
  }
  // Cancelled if a signal has asked for the end while there is no session.
  Status CheckSignals() {
    (void)ShouldStop();
    if (stop_signal_ == 0) return OkStatus();
    return Cancelled("training: expected to wait for a session, got ",
                     signals_->name());
  }
  void Log(const std::string& line) const { context_.Log(line); }
  std::string Prefix() const {
    return (std::filesystem::path(options_.folder) / options_.checkpoint_name)
        .string();
  }

  TrainingOptions options_;
  TrainingContext context_;
  std::vector<HookPtr> hooks_;
  HookPtr stop_at_step_;  // One of them; null without a last step.
  std::optional<RunLock> lock_;
  std::unique_ptr<SignalStop> signals_;
  std::unique_ptr<Saver> own_saver_;
  Saver* saver_ = nullptr;
  std::vector<Var> variables_;  // Global, then local.
  size_t global_variables_ = 0;
  std::vector<Output> initialised_;  // Of each: bool.
  Output step_value_;
  std::unique_ptr<Session> session_;
  // Of the session's threads. The election's thread may stop it.
  std::mutex coordinator_mu_;  // For changes of the pointer.
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<ChiefElection> election_;
  // The changes of the office, of which each has stopped the coordinator, and
  // those that the session has begun after. (Who lost the office and holds it
  // again must not go on either.)
  std::atomic<int64_t> elections_{0};
  int64_t elections_seen_ = 0;
  std::set<const TrainingHook*> chief_hooks_;  // Called in the chief only.
  Session::Callable read_step_;
  int retries_ = 0;
  int stop_signal_ = 0;
  bool closed_ = false;
  Status failure_;
};

Status TrainingSession::Impl::FindGlobalStep() {
  Var step = options_.global_step;
  if (step.valid() && step.handle().graph() != context_.graph_)
    return InvalidArgument(
        "training: expected a global step of the run's graph, got '",
        step.name(), "' of another");
  if (!step.valid())
    for (const Var& v : GlobalVariables())
      if (v.name() == "global_step" && CheckGlobalStep(v).ok()) step = v;
  SLUICE_RETURN_IF_ERROR(CheckGlobalStep(step));
  context_.global_step_ = step;
  return OkStatus();
}

Status TrainingSession::Impl::TakeFolder() {
  if (options_.folder.empty() || !context_.is_chief_ ||
      context_.events_ != nullptr)
    return OkStatus();
  Result<RunLock> lock = RunLock::Take(options_.folder, [&] {
    RemoveLeftovers(Prefix(), options_.saver_options.state_file);
  });
  // (A previous chief that is suspended keeps the lock; its office is over.)
  if (!lock.ok() && election_ == nullptr) return lock.status();
  if (lock.ok())
    lock_ = *std::move(lock);
  else
    Log(absl::StrCat("WARNING: training: ", lock.status().message()));
  SLUICE_ASSIGN_OR_RETURN(context_.events_, EventWriter::Open(options_.folder));
  return OkStatus();
}

Status TrainingSession::Impl::JoinElection() {
  context_.is_chief_ = options_.is_chief;
  if (options_.chief_election.empty()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(void* const symbol,
                          DistSymbol("sluice_join_election"));
  Status joined;
  reinterpret_cast<decltype(&sluice_join_election)>(symbol)(
      &options_.chief_election, &election_, &joined);
  SLUICE_RETURN_IF_ERROR(Annotate(joined, "training"));
  context_.is_candidate_ = true;
  context_.is_chief_ = election_->elected();
  Log(context_.is_chief_
          ? "training: elected as the chief"
          : "training: another is the chief; standing by as a candidate");
  election_->OnChange([this] {
    // (The step that runs may wait for what only a chief does.)
    std::lock_guard<std::mutex> lock(coordinator_mu_);
    ++elections_;
    if (coordinator_ != nullptr) coordinator_->RequestStop();
  });
  return OkStatus();
}

Status TrainingSession::Impl::Build(SourceLoc loc) {
  const AtLine at(loc);
  SLUICE_RETURN_IF_ERROR(FindGlobalStep());
  if (options_.loss.valid())
    hooks_.push_back(NanHook(options_.loss, options_.nan));
  if (options_.last_step > 0) {
    stop_at_step_ = StopAtStepHook(options_.last_step);
    hooks_.push_back(stop_at_step_);
  }
  hooks_.insert(hooks_.end(), options_.hooks.begin(), options_.hooks.end());
  auto logged = options_.log_tensors;
  if (options_.loss.valid())
    logged.insert(logged.begin(), {"loss", options_.loss});
  if (!logged.empty()) hooks_.push_back(LogHook(logged, options_.log_every));
  if (options_.progress) hooks_.push_back(ProgressHook(options_.last_step));
  const bool writes = MayBeChief() && !options_.folder.empty();
  const size_t of_all = hooks_.size();
  if (writes) {
    hooks_.push_back(StepCounterHook(options_.log_every));
    if (options_.summary.valid())
      hooks_.push_back(SummaryHook(options_.summary, options_.summary_every));
  }
  for (size_t i = of_all; i < hooks_.size(); ++i)
    chief_hooks_.insert(hooks_[i].get());
  // (They may add variables, which the saver and the initialiser are to have.)
  SLUICE_RETURN_IF_ERROR(ForEachHook(&TrainingHook::Begin));
  variables_ = GlobalVariables();
  global_variables_ = variables_.size();
  for (const Var& v : VariablesIn(kLocalVariables)) variables_.push_back(v);
  const NoControlDependencies alone;
  const NameScope scope("training");
  if (!options_.ready.valid())
    for (const Var& v : variables_)
      initialised_.push_back(v.IsInitialized(loc));
  if (context_.global_step_.valid())
    step_value_ = context_.global_step_.Read(loc);
  if (options_.init == nullptr && global_variables_ > 0)
    options_.init = GlobalVariablesInitializer(loc);
  if (options_.local_init == nullptr && variables_.size() > global_variables_)
    options_.local_init =
        VariablesInitializer(VariablesIn(kLocalVariables), "init_local", loc);
  if (!options_.folder.empty() && global_variables_ > 0) {
    saver_ = options_.saver;
    if (saver_ == nullptr) {
      if (options_.saver_options.log == nullptr)
        options_.saver_options.log = options_.log;
      own_saver_ = std::make_unique<Saver>(options_.saver_options, loc);
      saver_ = own_saver_.get();
    }
    SLUICE_RETURN_IF_ERROR(saver_->status());
  }
  if (writes && saver_ != nullptr) {
    hooks_.push_back(CheckpointHook(saver_, Prefix(),
                                    {.every = options_.save,
                                     .metric = options_.metric,
                                     .wait = options_.wait_for_saves}));
    chief_hooks_.insert(hooks_.back().get());
    SLUICE_RETURN_IF_ERROR(
        Annotate(hooks_.back()->Begin(context_),
                 absl::StrCat("hook '", hooks_.back()->name(), "'")));
  }
  return context_.graph_->status();
}

Status TrainingSession::Impl::Start(SourceLoc loc) {
  SLUICE_RETURN_IF_ERROR(CheckTrainingOptions(options_));
  SLUICE_RETURN_IF_ERROR(JoinElection());
  SLUICE_RETURN_IF_ERROR(TakeFolder());
  {
    const WithGraph use(*context_.graph_);
    SLUICE_RETURN_IF_ERROR(Build(loc));
  }
  if (options_.stop_on_signals) {
    SLUICE_ASSIGN_OR_RETURN(signals_, SignalStop::Install());
  }
  return NewSession(/*again=*/false);
}

Status TrainingSession::Impl::ForEachHook(
    Status (TrainingHook::*call)(TrainingContext&)) {
  for (const HookPtr& hook : hooks_)
    if (call == &TrainingHook::Begin || Takes(*hook))
      SLUICE_RETURN_IF_ERROR(
          Annotate((hook.get()->*call)(context_),
                   absl::StrCat("hook '", hook->name(), "'")));
  return OkStatus();
}

// ---- Sessions ---------------------------------------------------------------

Status TrainingSession::Impl::NewSession(bool again) {
  const double start = context_.Now();
  while (true) {
    const Status s = TryNewSession(again);
    const bool again_by_election = !s.ok() && ElectionChanged();
    if ((!IsLoss(s) && !again_by_election) ||
        context_.Now() - start >= options_.max_wait_seconds) {
      if (!s.ok()) (void)EndSession();
      return s;
    }
    Log(absl::StrCat("training: no session yet: ", s.message()));
    (void)EndSession();
    Pause();
    SLUICE_RETURN_IF_ERROR(CheckSignals());
  }
}

Status TrainingSession::Impl::TryNewSession(bool again) {
  if (ElectionChanged()) {
    elections_seen_ = elections_;  // (First: a change from here on is another.)
    const bool was = context_.is_chief_;
    context_.is_chief_ = election_->elected();
    if (context_.is_chief_)
      Log(was ? "WARNING: training: was not the chief for a time: taking over"
              : "training: elected as the chief: taking over");
    else if (was)
      Log("WARNING: training: no longer the chief");
    if (!context_.is_chief_) {
      context_.events_.reset();
      lock_.reset();
    }
    SLUICE_RETURN_IF_ERROR(TakeFolder());
  }
  session_ = options_.target.empty()
                 ? std::make_unique<Session>(*context_.graph_,
                                             options_.session_options)
                 : std::make_unique<Session>(options_.target, *context_.graph_,
                                             options_.session_options);
  context_.session_ = session_.get();
  {
    std::lock_guard<std::mutex> lock(coordinator_mu_);
    coordinator_ = std::make_unique<Coordinator>();
  }
  context_.coordinator_ = coordinator_.get();
  SLUICE_RETURN_IF_ERROR(context_.is_chief_ ? Initialise(again) : AwaitChief());
  if (step_value_.valid()) {
    SLUICE_ASSIGN_OR_RETURN(read_step_,
                            session_->MakeCallable({}, {step_value_}));
    SLUICE_RETURN_IF_ERROR(ReadStep());
  }
  SLUICE_RETURN_IF_ERROR(StartInputs());
  SLUICE_RETURN_IF_ERROR(ForEachHook(&TrainingHook::AfterCreateSession));
  if (!step_value_.valid()) return OkStatus();
  // A hook may have waited for the chief, which went on to the last step.
  SLUICE_RETURN_IF_ERROR(ReadStep());
  return stop_at_step_ == nullptr ? OkStatus()
                                  : stop_at_step_->AfterCreateSession(context_);
}

Status TrainingSession::Impl::ReadStep() {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out, read_step_.Run());
  if (out[0].num_elements() != 1)
    return InvalidArgument("training: expected a scalar as global step, got ",
                           out[0].ToString());
  context_.step_ = out[0].dtype() == DType::kInt64 ? out[0].data<int64_t>()[0]
                                                   : out[0].data<int32_t>()[0];
  return OkStatus();
}

Result<std::vector<std::string>> TrainingSession::Impl::Missing() {
  std::vector<std::string> names;
  if (options_.ready.valid()) {
    SLUICE_ASSIGN_OR_RETURN(const Tensor out, session_->Run(options_.ready));
    if (out.dtype() != DType::kString)
      return InvalidArgument("training: expected strings from ready, got ",
                             DTypeName(out.dtype()));
    for (const std::string& name : out.flat<std::string>())
      names.push_back(name);
    return names;
  }
  if (initialised_.empty()) return names;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out,
                          session_->Run(initialised_));
  for (size_t i = 0; i < out.size(); ++i)
    if (!out[i].scalar<bool>()) names.push_back(variables_[i].name());
  return names;
}

void TrainingSession::Impl::WarnOfOtherFiles() {
  std::vector<std::string> files;
  std::error_code ignored;
  const std::string events =
      context_.events_ == nullptr
          ? ""
          : std::filesystem::path(context_.events_->path()).filename().string();
  for (const auto& e :
       std::filesystem::directory_iterator(options_.folder, ignored)) {
    const std::string name = e.path().filename().string();
    if (name != ".run.lock" && name != events) files.push_back(name);
  }
  if (files.empty()) return;
  std::sort(files.begin(), files.end());
  Log(absl::StrCat(
      "WARNING: training: folder '", options_.folder,
      "' has files but no checkpoint to go on from: ", Listed(files),
      "; training begins anew from initial values"));
}

Status TrainingSession::Impl::RunInit() {
  if (options_.init != nullptr)
    SLUICE_RETURN_IF_ERROR(
        session_->RunTargets({options_.init}, options_.init_feeds));
  return options_.init_function ? options_.init_function(*session_)
                                : OkStatus();
}

Status TrainingSession::Impl::RestoreFrom(const std::string& path) {
  SLUICE_RETURN_IF_ERROR(saver_->Restore(*session_, path));
  SLUICE_RETURN_IF_ERROR(saver_->RecoverLastCheckpoints(options_.folder));
  // What the saver does not save.
  if (options_.ready.valid()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> missing, Missing());
  std::vector<Node*> initialisers;
  std::vector<std::string> names;
  for (size_t i = 0; i < global_variables_; ++i) {
    const Var& v = variables_[i];
    if (std::find(missing.begin(), missing.end(), v.name()) == missing.end() ||
        v.initializer() == nullptr)
      continue;
    initialisers.push_back(v.initializer());
    names.push_back(v.name());
  }
  if (initialisers.empty()) return OkStatus();
  Log(absl::StrCat("training: initialising what is not in the checkpoint: ",
                   Listed(names)));
  return session_->RunTargets(initialisers, options_.init_feeds);
}

Status TrainingSession::Impl::Initialise(bool again) {
  Result<std::string> latest = NotFound("");
  if (saver_ != nullptr) {
    const std::string& state_file = options_.saver_options.state_file;
    latest = LatestCheckpoint(options_.folder, state_file);
    if (latest.status().code() == StatusCode::kNotFound &&
        std::filesystem::exists(std::filesystem::path(options_.folder) /
                                state_file))
      return FailedPrecondition("training: expected the checkpoint that '",
                                state_file,
                                "' of the folder names, or no such file, got: ",
                                latest.status().message());
    if (!latest.ok() && latest.status().code() != StatusCode::kNotFound)
      return latest.status();
  }
  if (latest.ok()) {
    SLUICE_RETURN_IF_ERROR(RestoreFrom(*latest));
    Log(absl::StrCat("training: restored ", *latest));
    if (!again) context_.restored_from_ = *latest;
  } else {
    bool lost = true;
    if (again) {
      SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> missing,
                              Missing());
      lost = !missing.empty();
      Log(lost ? absl::StrCat("WARNING: training: these have lost their "
                              "values, and there is no checkpoint: ",
                              Listed(missing),
                              "; training begins anew from initial values")
               : "training: no checkpoint, but no value is lost; training goes "
                 "on");
    } else {
      if (!options_.folder.empty()) WarnOfOtherFiles();
      Log("training: initialising");
    }
    if (lost) SLUICE_RETURN_IF_ERROR(RunInit());
  }
  if (options_.local_init != nullptr)
    SLUICE_RETURN_IF_ERROR(session_->RunTargets({options_.local_init}));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> missing, Missing());
  if (missing.empty()) return OkStatus();
  return FailedPrecondition("training: expected values of all variables after ",
                            latest.ok() ? "restoring " + *latest : "init",
                            ", got none of ", Listed(missing));
}

Status TrainingSession::Impl::AwaitChief() {
  const double start = context_.Now();
  while (true) {
    Status local;
    if (options_.local_init != nullptr)
      local = session_->RunTargets({options_.local_init});
    SLUICE_ASSIGN_OR_RETURN(std::vector<std::string> missing, Missing());
    // (It may need variables of the chief.)
    if (local.code() == StatusCode::kFailedPrecondition && !missing.empty())
      local = OkStatus();
    SLUICE_RETURN_IF_ERROR(local);
    if (missing.empty()) return OkStatus();
    if (context_.Now() - start >= options_.max_wait_seconds)
      return DeadlineExceeded(
          "training: expected the chief to initialise variables within ",
          options_.max_wait_seconds, " seconds, got no value of ",
          Listed(missing));
    Pause();
    SLUICE_RETURN_IF_ERROR(CheckSignals());
    if (ElectionChanged())
      return Aborted("training: another chief was elected");
  }
}

Status TrainingSession::Impl::StartInputs() {
  for (DatasetIterator& input : options_.inputs)
    SLUICE_RETURN_IF_ERROR(input.Start(*session_));
  for (const QueueRunner& runner : options_.queue_runners)
    SLUICE_RETURN_IF_ERROR(
        StartQueueRunner(runner, *session_, coordinator_.get()));
  return OkStatus();
}

Status TrainingSession::Impl::EndSession() {
  Status of_threads;
  if (coordinator_ != nullptr) {
    coordinator_->RequestStop();
    of_threads = coordinator_->Join();
  }
  if (session_ != nullptr) {
    for (DatasetIterator& input : options_.inputs) input.Stop(*session_);
    (void)session_->Close();
  }
  context_.coordinator_ = nullptr;
  {
    std::lock_guard<std::mutex> lock(coordinator_mu_);
    coordinator_.reset();
  }
  read_step_ = {};
  context_.session_ = nullptr;
  session_.reset();
  return of_threads;
}

// ---- Steps ------------------------------------------------------------------

bool TrainingSession::Impl::ShouldStop() {
  if (signals_ != nullptr && stop_signal_ == 0 && signals_->received() != 0) {
    stop_signal_ = signals_->received();
    context_.RequestStop("signal " + signals_->name());
    Log(absl::StrCat("training: ", signals_->name(), ": stopping at step ",
                     context_.step()));
  }
  return closed_ || !failure_.ok() || context_.stop_;
}

Status TrainingSession::Impl::CauseOf(const Status& s) {
  if (coordinator_ == nullptr || !coordinator_->ShouldStop()) return s;
  const Status first = coordinator_->Join();
  return first.ok() ? s : Annotate(first, "queue runner");
}

Result<std::vector<Tensor>> TrainingSession::Impl::Step(
    const Feeds& feeds, const std::vector<Output>& fetches,
    const std::vector<Node*>& targets) {
  context_.feeds_ = feeds;
  std::vector<Output> all = fetches;
  std::vector<size_t> first(hooks_.size());
  RunOptions options;
  for (size_t i = 0; i < hooks_.size(); ++i) {
    first[i] = all.size();
    if (!Takes(*hooks_[i])) continue;
    HookRequest request;
    const std::string who = absl::StrCat("hook '", hooks_[i]->name(), "'");
    SLUICE_RETURN_IF_ERROR(
        Annotate(hooks_[i]->BeforeRun(context_, &request), who));
    for (const auto& [output, value] : request.feeds) {
      for (const auto& [other, unused] : context_.feeds_)
        if (other.SameAs(output))
          return FailedPrecondition(
              who, ": expected to feed what nothing else feeds, got '",
              output.valid() ? output.name() : "", "', which is fed already");
      context_.feeds_.push_back({output, value});
    }
    all.insert(all.end(), request.fetches.begin(), request.fetches.end());
    options.trace = options.trace || request.trace;
  }
  options.cancellation = coordinator_->cancellation();
  options.log = nullptr;
  RunMetadata metadata;
  Result<std::vector<Tensor>> out =
      session_->Run(context_.feeds_, all, targets, options,
                    options.trace ? &metadata : nullptr);
  if (!out.ok()) return CauseOf(out.status());
  if (step_value_.valid())
    SLUICE_RETURN_IF_ERROR(ReadStep());
  else
    ++context_.step_;
  const bool stop_before = context_.stop_;
  for (size_t i = 0; i < hooks_.size(); ++i) {
    if (!Takes(*hooks_[i])) continue;
    HookResult result;
    const size_t end = i + 1 < hooks_.size() ? first[i + 1] : all.size();
    result.values.assign(out->begin() + static_cast<ptrdiff_t>(first[i]),
                         out->begin() + static_cast<ptrdiff_t>(end));
    result.metadata = &metadata;
    // (A hook may run steps that end with the session's threads.)
    if (const Status s = hooks_[i]->AfterRun(context_, result); !s.ok()) {
      // (If the step is run again, from a checkpoint that may be of an earlier
      // one, the hook that asked for a stop asks again in time.)
      context_.stop_ = stop_before;
      return CauseOf(
          Annotate(s, absl::StrCat("hook '", hooks_[i]->name(), "'")));
    }
  }
  out->resize(fetches.size());
  return out;
}

Result<std::vector<Tensor>> TrainingSession::Impl::Run(
    const FeedsOfStep& feeds, const std::vector<Output>& fetches,
    const std::vector<Node*>& targets) {
  if (!failure_.ok()) return failure_;
  if (ShouldStop())
    return FailedPrecondition(
        "training: expected no step after the stop, got one (",
        closed_ ? "the run is closed" : context_.stop_reason_, ")");
  while (true) {
    // (Another try may be of an earlier step, whose feeds are others.)
    const Result<Feeds> of_step = feeds(context_.step());
    if (of_step.status().code() == StatusCode::kOutOfRange)
      context_.RequestStop("the data has ended");
    else if (!of_step.ok())
      (void)Fail(of_step.status());
    SLUICE_RETURN_IF_ERROR(of_step.status());
    const bool changed_before = ElectionChanged();
    Result<std::vector<Tensor>> out =
        changed_before ? Aborted("training: another chief was elected")
                       : Step(*of_step, fetches, targets);
    if (out.ok()) {
      retries_ = 0;
      return out;
    }
    if (out.status().code() == StatusCode::kOutOfRange) {
      context_.RequestStop("the data has ended");
      return out;
    }
    // (A change ends the step that runs.)
    const bool changed = changed_before || ElectionChanged();
    if (!IsLoss(out.status()) && !changed) return Fail(out.status());
    if (!changed && ++retries_ > options_.max_retries)
      return Fail(Annotate(
          out.status(),
          absl::StrCat("training: giving up after ", retries_, " tries")));
    Log(absl::StrCat("WARNING: training: the step after ", context_.step(),
                     " was aborted and is run again in a new session: ",
                     out.status().message()));
    (void)EndSession();
    // (So that the latest checkpoint is there.)
    if (saver_ != nullptr) (void)saver_->WaitForSaves();
    Pause();
    if (const Status s = NewSession(/*again=*/true); !s.ok()) return Fail(s);
    // A hook may have asked for it, or the checkpoint be the last step's.
    if (ShouldStop())
      return FailedPrecondition(
          "training: expected no step after the stop, got one (",
          context_.stop_reason_, ")");
  }
}

Status TrainingSession::Impl::Close() {
  if (closed_) return failure_;
  (void)ShouldStop();  // Notes a signal.
  if (failure_.ok() && session_ != nullptr)
    failure_ = ForEachHook(&TrainingHook::End);
  closed_ = true;
  const Status of_threads = EndSession();
  if (failure_.ok()) failure_ = Annotate(of_threads, "queue runner");
  if (saver_ != nullptr) (void)saver_->WaitForSaves();
  if (context_.events_ != nullptr) {
    const Status s = context_.events_->Close();
    if (failure_.ok()) failure_ = s;
  }
  signals_.reset();
  lock_.reset();
  election_.reset();  // After the last checkpoint.
  return failure_;
}

// ---- The public class -------------------------------------------------------

TrainingSession::TrainingSession(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
TrainingSession::~TrainingSession() = default;

Result<std::unique_ptr<TrainingSession>> TrainingSession::Start(
    TrainingOptions options, Graph& graph, SourceLoc loc) {
  auto impl = std::make_unique<Impl>(std::move(options), graph);
  SLUICE_RETURN_IF_ERROR(impl->Start(loc));
  return std::unique_ptr<TrainingSession>(new TrainingSession(std::move(impl)));
}

bool TrainingSession::ShouldStop() { return impl_->ShouldStop(); }
Result<std::vector<Tensor>> TrainingSession::Run(
    const Feeds& feeds, const std::vector<Output>& fetches,
    const std::vector<Node*>& targets) {
  return impl_->Run([&](int64_t) { return feeds; }, fetches, targets);
}
Status TrainingSession::RunStep(const std::vector<Node*>& targets,
                                const Feeds& feeds) {
  return Run(feeds, {}, targets).status();
}

Status TrainingSession::Train(
    const std::vector<Node*>& targets,
    const std::function<Result<Feeds>(int64_t step)>& feeds) {
  const FeedsOfStep none = [](int64_t) { return Feeds(); };
  while (!ShouldStop())
    if (!impl_->Run(feeds ? feeds : none, {}, targets).ok()) break;
  return Close();
}

Status TrainingSession::Close() { return impl_->Close(); }
void TrainingSession::RequestStop(const std::string& reason) {
  impl_->context().RequestStop(reason);
}
const std::string& TrainingSession::stop_reason() const {
  return impl_->stop_reason();
}
int TrainingSession::stop_signal() const { return impl_->stop_signal(); }
int64_t TrainingSession::step() const { return impl_->context().step(); }
const std::string& TrainingSession::restored_from() const {
  return impl_->context().restored_from();
}
Result<Session*> TrainingSession::session() const {
  return impl_->context().session();
}

}  // namespace sluice
