#include "cluster/master/master.h"

#include <cstdio>
#include <future>
#include <random>

#include "base/failpoint.h"
#include "graph/tensor_proto.h"

namespace sluice {

Master::Master(MasterContext context)
    : context_(std::move(context)),
      steps_(context_.worker, context_.transport, context_.patience) {}

Master::~Master() { CloseAll(); }

void Master::Drain() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    draining_ = true;
  }
  steps_.Drain();
}

bool Master::draining() {
  std::lock_guard<std::mutex> lock(mu_);
  return draining_;
}

void Master::CloseAll() {
  std::vector<uint64_t> ids;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [id, session] : sessions_) ids.push_back(id);
  }
  // (Not Cancelled: clients of such steps try again, of another master.)
  const Status why = Unavailable("task ", context_.worker->task(),
                                 ": expected to keep running, got stopped");
  for (const uint64_t id : ids) Close(id, why);
}

Status Master::Admit(const std::string& host) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto refuse = [](size_t limit, const std::string& whose,
                         const char* option) {
    return ResourceExhausted("sessions: expected at most ", limit, " ", whose,
                             ", got more (", option,
                             " of `sluice worker` sets the limit)");
  };
  if (draining_) return Draining(context_.worker->task());
  if (admitted_ >= context_.max_sessions)
    return refuse(context_.max_sessions,
                  absl::StrCat("of task ", context_.worker->task()),
                  "--max-sessions");
  if (!host.empty() && of_host_[host] >= context_.max_sessions_per_peer)
    return refuse(
        context_.max_sessions_per_peer,
        absl::StrCat("of task ", context_.worker->task(), " from ", host),
        "--max-sessions-per-peer");
  ++admitted_;
  ++of_host_[host];
  return OkStatus();
}

void Master::Release(const std::string& host) {
  std::lock_guard<std::mutex> lock(mu_);
  --admitted_;
  if (--of_host_[host] == 0) of_host_.erase(host);
}

Status Master::CreateSession(const proto::CreateSessionRequest& request,
                             proto::CreateSessionResponse* response,
                             const std::string& host) {
  SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("master.create_session").error);
  SLUICE_RETURN_IF_ERROR(Admit(host));
  static thread_local std::random_device random;
  const uint64_t id = (uint64_t{random()} << 32 | random()) | 1;
  auto session = std::make_shared<MasterSession>(&context_, id, request, host);
  if (const Status s = session->Open(); !s.ok()) {
    End(std::move(session));
    return s;
  }
  NoteIncarnations(*session);
  std::lock_guard<std::mutex> lock(mu_);
  sessions_[id] = std::move(session);
  response->set_session(id);
  response->set_task(context_.worker->task());
  response->set_peer_timeout_ms(context_.patience.count());
  return OkStatus();
}

void Master::NoteIncarnations(const MasterSession& session) {
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [task, incarnation] : session.Incarnations()) {
    uint64_t& known = incarnations_[task];
    if (known != 0 && known != incarnation)
      std::fprintf(stderr,
                   "sluice: task %s was restarted (incarnation %016llx, "
                   "before %016llx): its variables are lost\n",
                   task.c_str(), static_cast<unsigned long long>(incarnation),
                   static_cast<unsigned long long>(known));
    known = incarnation;
  }
}

Result<std::shared_ptr<MasterSession>> Master::Find(uint64_t session) {
  std::lock_guard<std::mutex> lock(mu_);
  auto it = sessions_.find(session);
  if (it == sessions_.end())
    return FailedPrecondition(
        "session: expected an open one, got a closed one (or the task ",
        context_.worker->task(), " was restarted since)");
  return it->second;
}

Status Master::ExtendGraph(const proto::ExtendGraphRequest& request) {
  SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("master.extend_graph").error);
  SLUICE_ASSIGN_OR_RETURN(auto session, Find(request.session()));
  return session->Extend(request.graph_def());
}

Status Master::PrepareStep(const proto::PrepareStepRequest& request,
                           proto::PrepareStepResponse* response) {
  SLUICE_ASSIGN_OR_RETURN(auto session, Find(request.session()));
  return session->Prepare(request, response);
}

// If this returns an error, `done` is not called. NotFound refers to the step.
Status Master::Start(const proto::RunStepRequest& request,
                     std::span<const Tensor> feeds, bool here, StepLog log,
                     std::function<void(StepAnswer)> done) {
  SLUICE_ASSIGN_OR_RETURN(auto session, Find(request.session()));
  SLUICE_ASSIGN_OR_RETURN(auto step, session->Find(request.step()));
  if (step->staged)
    return InvalidArgument(
        "step: expected one that is run as a whole, got one for partial runs");
  if (feeds.size() != step->feeds.size())
    return InvalidArgument("feeds: expected ", step->feeds.size(), ", got ",
                           feeds.size());
  for (size_t i = 0; i < feeds.size(); ++i)
    SLUICE_RETURN_IF_ERROR(step->CheckFeed(i, feeds[i]));
  RunRequest run;
  run.feeds.assign(feeds.begin(), feeds.end());
  run.timeout = context_.TimeoutOfStep(request.timeout_ms());
  run.traced = request.traced();
  run.request = request.request();
  run.here = here;
  if (request.log()) run.log = std::move(log);
  steps_.Start(std::move(step), std::move(run),
               [done = std::move(done)](Result<StepResult> result) {
                 StepAnswer answer;
                 if (result.ok()) {
                   answer.fetches = std::move(result->fetches);
                   for (proto::TaskStats& t : result->stats)
                     answer.response.add_stats()->Swap(&t);
                 }
                 StatusToProto(result.status(),
                               answer.response.mutable_status());
                 done(std::move(answer));
               });
  return OkStatus();
}

Status Master::RunStep(const proto::RunStepRequest& request,
                       std::span<const Tensor> feeds, StepAnswer* answer,
                       const StepLog& log) {
  // (Text may arrive after the step has failed.)
  struct Gate {
    std::mutex mu;
    const StepLog* log = nullptr;  // GUARDED_BY(mu): null after the call.
  };
  const auto gate = std::make_shared<Gate>();
  gate->log = log ? &log : nullptr;
  const auto print = [gate](const std::string& text) {
    std::lock_guard<std::mutex> lock(gate->mu);
    if (gate->log != nullptr) (*gate->log)(text);
  };
  const Status s = RunStepLogged(request, feeds, answer, print);
  std::lock_guard<std::mutex> lock(gate->mu);
  gate->log = nullptr;
  return s;
}

Status Master::RunStepLogged(const proto::RunStepRequest& request,
                             std::span<const Tensor> feeds, StepAnswer* answer,
                             const StepLog& log) {
  const int64_t begin = NowNs();
  if (request.traced()) ReadClocks(request);
  // (Shared, because set_value may still be running when get() returns.)
  const auto promise = std::make_shared<std::promise<StepAnswer>>();
  const Status s =
      Start(request, feeds, /*here=*/false, log,
            [promise](StepAnswer got) { promise->set_value(std::move(got)); });
  answer->response.set_unknown_step(s.code() == StatusCode::kNotFound);
  SLUICE_RETURN_IF_ERROR(s);
  *answer = promise->get_future().get();
  proto::RunStepResponse* const response = &answer->response;
  SLUICE_RETURN_IF_ERROR(StatusFromProto(response->status()));
  if (!request.traced()) return OkStatus();
  ReadClocks(request);
  SLUICE_ASSIGN_OR_RETURN(auto session, Find(request.session()));
  std::vector<proto::TaskStats> stats(response->stats().begin(),
                                      response->stats().end());
  session->AlignClocks(begin, &stats);
  response->clear_stats();
  for (proto::TaskStats& t : stats) response->add_stats()->Swap(&t);
  return OkStatus();
}

// (If the session or step does not exist, the step returns the error.)
void Master::ReadClocks(const proto::RunStepRequest& request) {
  auto session = Find(request.session());
  if (!session.ok()) return;
  if (auto step = (*session)->Find(request.step()); step.ok())
    (*session)->ReadClocks(**step);
}

void Master::StartStep(const proto::RunStepRequest& request,
                       std::span<const Tensor> feeds,
                       std::function<void(StepAnswer)> done, StepLog log) {
  const Status s = Start(request, feeds, /*here=*/true, std::move(log), done);
  if (s.ok()) return;
  StepAnswer answer;
  answer.response.set_unknown_step(s.code() == StatusCode::kNotFound);
  StatusToProto(s, answer.response.mutable_status());
  done(std::move(answer));
}

Status Master::BeginPartialRun(const proto::BeginPartialRunRequest& request,
                               proto::BeginPartialRunResponse* response) {
  SLUICE_ASSIGN_OR_RETURN(auto session, Find(request.session()));
  auto step = session->Find(request.step());
  response->set_unknown_step(step.status().code() == StatusCode::kNotFound);
  SLUICE_RETURN_IF_ERROR(step.status());
  if (!(*step)->staged)
    return InvalidArgument(
        "partial run: expected a step that was prepared for it, got another");
  SLUICE_ASSIGN_OR_RETURN(const uint64_t run,
                          steps_.BeginStages(*std::move(step)));
  response->set_run(run);
  // (The session may have been closed since the lookup.)
  if (const Status open = Find(request.session()).status(); !open.ok()) {
    steps_.EndStages(request.session(), run);
    return open;
  }
  return OkStatus();
}

Status Master::PartialRun(const proto::PartialRunRequest& request,
                          proto::PartialRunResponse* response) {
  SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("master.partial_run").error);
  SLUICE_RETURN_IF_ERROR(Find(request.session()).status());
  std::vector<uint32_t> args;
  std::vector<Tensor> values;
  for (const auto& feed : request.feed()) {
    SLUICE_ASSIGN_OR_RETURN(Tensor t, ParseTensorProto(feed.tensor()));
    args.push_back(feed.number());
    values.push_back(std::move(t));
  }
  const std::vector<uint32_t> fetches(request.fetch().begin(),
                                      request.fetch().end());
  SLUICE_ASSIGN_OR_RETURN(
      const std::vector<std::optional<Tensor>> out,
      steps_.RunStage(request.session(), request.run(), args, values, fetches,
                      context_.TimeoutOfStep(request.timeout_ms())));
  for (const std::optional<Tensor>& t : out) {
    auto* fetch = response->add_fetch();
    fetch->set_dead(!t);
    if (t) {
      SLUICE_ASSIGN_OR_RETURN(*fetch->mutable_tensor(),
                              SerializeTensorProto(*t));
    }
  }
  const Status fits = CheckMessage("fetches", *response);
  if (!fits.ok()) response->clear_fetch();
  return fits;
}

Status Master::EndPartialRun(const proto::EndPartialRunRequest& request) {
  steps_.EndStages(request.session(), request.run());
  return OkStatus();
}

Status Master::CancelStep(const proto::CancelStepRequest& request) {
  if (request.request() == 0)
    return InvalidArgument("cancel: expected the number of a request, got 0");
  steps_.Cancel(request.session(), request.request(),
                Cancelled("step: cancelled by the client"));
  return OkStatus();
}

Status Master::ListDevices(const proto::ListDevicesRequest& request,
                           proto::ListDevicesResponse* response) {
  SLUICE_ASSIGN_OR_RETURN(auto session, Find(request.session()));
  session->ListDevices(response);
  return OkStatus();
}

Status Master::ListTasks(const proto::ListTasksRequest& request,
                         proto::ListTasksResponse* response) {
  const Result<ClusterSpec> members = context_.Members(/*wait_for=*/nullptr);
  SLUICE_RETURN_IF_ERROR(members.status());
  response->set_master(context_.worker->task());
  for (const ClusterTask& t : members->tasks()) {
    proto::TaskReport* report = response->add_task();
    report->set_task(t.name());
    report->set_address(t.address);
  }
  proto::GetStatusRequest ask;
  ask.set_counters(true);
  ask.set_patience_ms(request.patience_ms() > 0 ? request.patience_ms() : 1000);
  const auto& tasks = members->tasks();
  (void)ForAllTasks(tasks.size(), [&](size_t i) {
    proto::TaskReport* report = response->mutable_task(static_cast<int>(i));
    Status s;
    if (tasks[i].name() == context_.worker->task()) {
      context_.worker->GetStatus(ask, report->mutable_answer());
    } else {
      Result<std::unique_ptr<WorkerStub>> stub = context_.connect(tasks[i]);
      s = stub.ok() ? (*stub)->GetStatus(ask, report->mutable_answer())
                    : stub.status();
    }
    StatusToProto(s, report->mutable_reached());
    return OkStatus();
  });
  return OkStatus();
}

Status Master::Reset(const proto::ResetRequest& request) {
  SLUICE_ASSIGN_OR_RETURN(auto session, Find(request.session()));
  return session->Reset(request);
}

Status Master::CloseSession(const proto::CloseSessionRequest& request) {
  Close(request.session(),
        Cancelled("step: expected an open session, got one that was closed"));
  return OkStatus();
}

void Master::Close(uint64_t id, const Status& why) {
  std::shared_ptr<MasterSession> session;
  {
    std::lock_guard<std::mutex> lock(mu_);
    auto it = sessions_.find(id);
    if (it == sessions_.end()) return;  // Already closed.
    session = std::move(it->second);
    sessions_.erase(it);
  }
  steps_.Cancel(session->id(), 0, why);
  End(std::move(session));
}

// Closes the session in the background at tasks that were lost: such a task may
// be suspended rather than dead, so this may wait; or it may have reconnected,
// and would otherwise keep its part of the session.
void Master::End(std::shared_ptr<MasterSession> session) {
  Release(session->host());
  if (session->Close())
    closing_threads_.Schedule(
        [session = std::move(session)] { session->CloseLost(); });
}

void Master::LoseTask(const std::string& task, uint64_t incarnation,
                      const Status& why) {
  std::vector<std::shared_ptr<MasterSession>> sessions;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [id, session] : sessions_) sessions.push_back(session);
  }
  for (const auto& session : sessions) {
    const PeerId peer = session->PeerOf(task, incarnation);
    if (peer == kThisTask) continue;
    context_.transport->Disconnect(peer, why);
    context_.worker->OnPeerLost(peer, why);
    steps_.OnPeerLost(peer, why);
  }
}

size_t Master::num_sessions() {
  std::lock_guard<std::mutex> lock(mu_);
  return sessions_.size();
}

}  // namespace sluice
