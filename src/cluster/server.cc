#include "cluster/server.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "cluster/worker/collective_network.h"
#include "ops/collectives/hub.h"

namespace sluice {
namespace {

// A server that this process can call directly, and its pending calls.
struct Door {
  Server* server = nullptr;
  int calls = 0;
};
struct Doors {
  std::mutex mu;
  std::condition_variable left;
  std::map<std::string, std::shared_ptr<Door>> at;  // GUARDED_BY(mu); by target
};
Doors& TheDoors() {
  static Doors* const doors = new Doors;  // Used until the process ends.
  return *doors;
}

// The server with this target, or null.
std::shared_ptr<Door> FindDoor(const std::string& target) {
  Doors& doors = TheDoors();
  std::lock_guard<std::mutex> lock(doors.mu);
  const auto it = doors.at.find(target);
  return it == doors.at.end() ? nullptr : it->second;
}

// Looks up the server at each call, like a connection: a stopped server does
// not answer, and one restarted under the same target does, unless the caller
// has a session of the stopped one (`only`).
template <typename Fn>
Status WithServer(const std::string& target, const Door* only, Fn fn) {
  Doors& doors = TheDoors();
  std::shared_ptr<Door> door;
  {
    std::lock_guard<std::mutex> lock(doors.mu);
    auto it = doors.at.find(target);
    if (it == doors.at.end())
      return Unavailable(target,
                         ": expected a server of this process, got none");
    if (only != nullptr && it->second.get() != only)
      return Unavailable(target,
                         ": expected the server that has the session, got one "
                         "that was started since");
    door = it->second;
    ++door->calls;
  }
  Status s = fn(*door->server);
  std::lock_guard<std::mutex> lock(doors.mu);
  if (--door->calls == 0) doors.left.notify_all();
  return s;
}

// Calls a user's log on a separate thread, started by the first line, so that a
// slow log does not delay the printing step. Lines added after Finish are
// dropped.
class PrintedLines {
 public:
  explicit PrintedLines(const StepLog& log) : log_(log) {}
  ~PrintedLines() { Finish(); }

  void Push(const std::string& text) {
    std::lock_guard<std::mutex> lock(mu_);
    if (over_) return;
    lines_.push_back(text);
    if (thread_.joinable())
      changed_.notify_one();
    else
      thread_ = std::thread([this] { Loop(); });
  }
  // Returns when the log has received all lines. Called once, and not by the
  // log.
  void Finish() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      over_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Loop() {
    std::unique_lock<std::mutex> lock(mu_);
    for (;;) {
      changed_.wait(lock, [this] { return over_ || !lines_.empty(); });
      if (lines_.empty()) return;
      const std::deque<std::string> lines = std::exchange(lines_, {});
      lock.unlock();
      for (const std::string& line : lines) log_(line);
      lock.lock();
    }
  }

  const StepLog& log_;
  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;  // GUARDED_BY(mu_): bounded by BoundedLog.
  bool over_ = false;              // GUARDED_BY(mu_)
  std::thread thread_;             // GUARDED_BY(mu_) until it ends.
};

class InProcessMaster final : public MasterStub {
 public:
  explicit InProcessMaster(std::string target) : target_(std::move(target)) {}
  ~InProcessMaster() override {
    if (session_ == 0) return;
    proto::CloseSessionRequest close;
    close.set_session(session_);
    (void)CloseSession(close);
  }
  Status CreateSession(const proto::CreateSessionRequest& q,
                       proto::CreateSessionResponse* r) override {
    return On([&](Master& m) { return m.CreateSession(q, r, ""); });
  }
  Status Attend(const proto::AttendRequest& q) override {
    session_ = q.session();  // The stub's destructor ends the client.
    door_ = FindDoor(target_);
    return OkStatus();
  }
  Status ExtendGraph(const proto::ExtendGraphRequest& q) override {
    return On([&](Master& m) { return m.ExtendGraph(q); });
  }
  Status PrepareStep(const proto::PrepareStepRequest& q,
                     proto::PrepareStepResponse* r) override {
    return On([&](Master& m) { return m.PrepareStep(q, r); });
  }
  // (Values are shared with the steps, as those of a session without a master.)
  Status RunStep(const proto::RunStepRequest& q, std::span<const Tensor> feeds,
                 StepAnswer* r, const StepLog& log) override {
    if (!log)
      return On([&](Master& m) { return m.RunStep(q, feeds, r, nullptr); });
    // (Shared: a line of an abandoned task may still be in flight.)
    const auto lines = std::make_shared<PrintedLines>(log);
    const Status s = On([&](Master& m) {
      return m.RunStep(q, feeds, r,
                       [lines](const std::string& t) { lines->Push(t); });
    });
    lines->Finish();
    return s;
  }
  Status BeginPartialRun(const proto::BeginPartialRunRequest& q,
                         proto::BeginPartialRunResponse* r) override {
    return On([&](Master& m) { return m.BeginPartialRun(q, r); });
  }
  Status PartialRun(const proto::PartialRunRequest& q,
                    proto::PartialRunResponse* r) override {
    return On([&](Master& m) { return m.PartialRun(q, r); });
  }
  Status EndPartialRun(const proto::EndPartialRunRequest& q) override {
    return On([&](Master& m) { return m.EndPartialRun(q); });
  }
  Status CancelStep(const proto::CancelStepRequest& q) override {
    return On([&](Master& m) { return m.CancelStep(q); });
  }
  Status ListDevices(const proto::ListDevicesRequest& q,
                     proto::ListDevicesResponse* r) override {
    return On([&](Master& m) { return m.ListDevices(q, r); });
  }
  Status ListTasks(const proto::ListTasksRequest& q,
                   proto::ListTasksResponse* r) override {
    return On([&](Master& m) { return m.ListTasks(q, r); });
  }
  Status Reset(const proto::ResetRequest& q) override {
    return On([&](Master& m) { return m.Reset(q); });
  }
  Status CloseSession(const proto::CloseSessionRequest& q) override {
    return On([&](Master& m) { return m.CloseSession(q); });
  }

 private:
  template <typename Fn>
  Status On(Fn fn) {
    return WithServer(target_, door_.get(),
                      [&](Server& s) { return fn(s.master()); });
  }
  const std::string target_;
  uint64_t session_ = 0;
  std::shared_ptr<Door> door_;  // Of the server that has the session.
};

class InProcessWorker final : public WorkerStub {
 public:
  explicit InProcessWorker(std::string target) : target_(std::move(target)) {}
  Status GetStatus(const proto::GetStatusRequest& q,
                   proto::GetStatusResponse* r) override {
    return On([&](Worker& w) {
      w.GetStatus(q, r);
      return OkStatus();
    });
  }
  Status CreateSession(const proto::CreateWorkerSessionRequest& q) override {
    return On([&](Worker& w) { return w.CreateSession(q); });
  }
  Status DeleteSession(const proto::DeleteWorkerSessionRequest& q) override {
    return On([&](Worker& w) { return w.DeleteSession(q); });
  }
  Status RegisterStep(const proto::RegisterStepRequest& q) override {
    return On([&](Worker& w) { return w.RegisterStep(q); });
  }
  Status DeregisterStep(const proto::DeregisterStepRequest& q) override {
    return On([&](Worker& w) { return w.DeregisterStep(q); });
  }
  Status Reset(const proto::ResetRequest& q) override {
    return On([&](Worker& w) { return w.Reset(q); });
  }

 private:
  template <typename Fn>
  Status On(Fn fn) {
    return WithServer(target_, nullptr,
                      [&](Server& s) { return fn(s.worker()); });
  }
  const std::string target_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                              ServerParts parts) {
  SLUICE_ASSIGN_OR_RETURN(const ClusterTask self,
                          options.cluster.Find(options.job, options.task));
  if (options.cpu_devices < 1)
    return InvalidArgument("devices: expected at least one CPU, got ",
                           options.cpu_devices);
  SLUICE_ASSIGN_OR_RETURN(const DeviceName task,
                          DeviceName::Parse(self.name()));
  WorkerOptions w;
  w.task = self.name();
  w.limits = options.limits;
  w.max_sessions = options.max_sessions;
  w.allow_host_access = options.allow_host_access;
  w.allow_reset = options.allow_reset;
  for (int i = 0; i < options.cpu_devices; ++i) {
    DeviceName name = task;
    name.type = "CPU";
    name.number = i;
    w.devices.push_back(std::make_unique<CpuDevice>(name));
  }
  if (options.more_devices)
    SLUICE_RETURN_IF_ERROR(options.more_devices(task, &w.devices));
  std::unique_ptr<Server> server(new Server);
  server->transport_ = std::move(parts.transport);
  server->worker_ =
      std::make_unique<Worker>(std::move(w), server->transport_.get());
  MasterContext context;
  context.cluster = options.cluster;
  context.members = options.members;
  context.worker = server->worker_.get();
  context.transport = server->transport_.get();
  context.connect = std::move(parts.connect);
  context.patience = options.peer_timeout;
  context.step_timeout = options.step_timeout;
  context.connect_timeout = options.connect_timeout;
  context.prepared_steps = std::max<size_t>(options.prepared_steps, 1);
  context.max_sessions = options.max_sessions;
  context.max_sessions_per_peer =
      options.max_sessions_per_peer > 0
          ? options.max_sessions_per_peer
          : std::max<size_t>(options.max_sessions / 2, 1);
  server->master_ = std::make_unique<Master>(std::move(context));
  SLUICE_RETURN_IF_ERROR(server->transport_->Start(server.get()));
  if (parts.listener != nullptr) {
    server->listener_ = std::move(parts.listener);
    SLUICE_RETURN_IF_ERROR(
        server->listener_->Start(server->master_.get(), server->worker_.get()));
    server->target_ = server->listener_->target();
  }
  if (!parts.name.empty()) server->target_ = kInProcessScheme + parts.name;
  if (!parts.name.empty() || options.direct_clients) {
    Doors& doors = TheDoors();
    std::lock_guard<std::mutex> lock(doors.mu);
    auto door = std::make_shared<Door>();
    door->server = server.get();
    if (!doors.at.emplace(server->target_, door).second)
      return AlreadyExists("server: expected a unique target, got '",
                           server->target_, "' again");
    server->has_door_ = true;
  }
  return server;
}

Server::~Server() { Stop(); }

void Server::Stop() {
  if (transport_ == nullptr) return;
  std::shared_ptr<Door> door;
  if (has_door_) {
    Doors& doors = TheDoors();
    std::lock_guard<std::mutex> lock(doors.mu);
    door = doors.at[target_];
    doors.at.erase(target_);
    has_door_ = false;
  }
  if (master_ != nullptr) master_->CloseAll();
  if (door != nullptr) {
    Doors& doors = TheDoors();
    std::unique_lock<std::mutex> lock(doors.mu);
    doors.left.wait(lock, [&door] { return door->calls == 0; });
  }
  // Running steps end, and their masters see that the task is gone.
  stopping_.store(true);
  worker_->steps().Stop();
  transport_->Shutdown();
  master_->OnTransportDown();
  if (listener_ != nullptr) listener_->Stop();
  master_.reset();
  worker_.reset();
  listener_.reset();
  transport_.reset();
}

void Server::Drain() {
  master_->Drain();
  worker_->steps().Drain();
}

bool Server::idle() const {
  return master_->steps().idle() && worker_->steps().idle() &&
         !transport_->HasUnsent() &&
         (listener_ == nullptr || !listener_->HasUnsent());
}

void Server::OnTokens(PeerId from, uint64_t step, uint32_t partition,
                      std::span<TokenMessage> batch) {
  if (partition == kFetchPartition)
    master_->OnFetches(from, step, batch);
  else if (partition == kCollectivePartition)
    worker_->collectives().OnTokens(from, step, batch);
  else
    worker_->steps().Deliver(step, partition, batch);
}

void Server::OnControl(PeerId from, uint8_t kind, std::string_view bytes) {
  const int size = static_cast<int>(bytes.size());
  // (Invalid and unknown messages are ignored: the sender is not a master or
  // worker.)
  switch (static_cast<StepMessage>(kind)) {
    case StepMessage::kStart: {
      proto::StepStart start;
      if (start.ParseFromArray(bytes.data(), size)) StartStep(from, start);
      return;
    }
    case StepMessage::kDone: {
      proto::StepDone done;
      if (done.ParseFromArray(bytes.data(), size)) master_->OnDone(from, done);
      return;
    }
    case StepMessage::kLog: {
      proto::StepLog log;
      if (log.ParseFromArray(bytes.data(), size)) master_->OnLog(from, log);
      return;
    }
    case StepMessage::kCancel: {
      proto::StepCancel cancel;
      if (cancel.ParseFromArray(bytes.data(), size))
        worker_->steps().Cancel(cancel.run(), StatusFromProto(cancel.why()));
      return;
    }
    case StepMessage::kStuck: {
      proto::StepStuck stuck;
      if (stuck.ParseFromArray(bytes.data(), size))
        master_->OnStuck(from, stuck.run());
      return;
    }
    case StepMessage::kProbe: {
      proto::StepProbe probe;
      if (probe.ParseFromArray(bytes.data(), size)) AnswerProbe(from, probe);
      return;
    }
    case StepMessage::kState: {
      proto::StepState state;
      if (state.ParseFromArray(bytes.data(), size))
        master_->OnState(from, state);
      return;
    }
    case StepMessage::kCollective: {
      proto::CollectiveNote note;
      if (!note.ParseFromArray(bytes.data(), size)) return;
      if (const auto n = NoteFromProto(note); n.ok())
        worker_->collectives().OnNote(from, *n);
      return;
    }
  }
}

void Server::StartStep(PeerId from, const proto::StepStart& start) {
  const uint64_t run = start.run();
  StepRequest request;
  request.run = run;
  request.master = from;
  request.traced = start.traced();
  request.here = transport_->HandlersMayTakeLong();
  if (start.timeout_ms() > 0)
    request.deadline =
        std::chrono::steady_clock::now() + TimeoutFromProto(start.timeout_ms());
  if (start.log())
    request.log = BoundedLog([this, from, run](const std::string& text) {
      SendLog(from, run, text);
    });
  request.stuck = [this, from, run] {
    if (stopping_.load()) return;
    proto::StepStuck stuck;
    stuck.set_run(run);
    (void)transport_->SendControl(from,
                                  static_cast<uint8_t>(StepMessage::kStuck),
                                  stuck.SerializeAsString());
  };
  request.done = [this, from, run](StepOutcome o) {
    SendDone(from, run, std::move(o));
  };
  const Status dropped =
      worker_->steps().TakeFeeds(run, &request.args, &request.values);
  Status s;
  if (request.args.size() != start.feeds() && !dropped.ok())
    s = dropped;
  else if (request.args.size() != start.feeds())
    s = DataLoss("feeds: expected ", start.feeds(), " in task ",
                 worker_->task(), ", got ", request.args.size());
  if (s.ok()) {
    Result<std::shared_ptr<RegisteredStep>> step =
        worker_->FindStep(start.session(), start.step());
    s = step.status();
    if (step.ok()) request.step = *std::move(step);
  }
  if (!s.ok()) {
    worker_->steps().Forget(run);
    StepOutcome outcome;
    outcome.status = s;
    SendDone(from, run, std::move(outcome));
    return;
  }
  worker_->steps().Start(std::move(request));
}

void Server::AnswerProbe(PeerId from, const proto::StepProbe& probe) {
  const GroupState s = worker_->steps().State(from, probe.run());
  proto::StepState state;
  state.set_run(probe.run());
  state.set_round(probe.round());
  state.set_idle(s.idle);
  state.set_tokens_sent(s.sent);
  state.set_tokens_received(s.received);
  constexpr size_t kMostBytes = 64 << 10;  // Far below kMaxControlBytes.
  size_t bytes = 0;
  for (const std::string& need : s.needs)
    if ((bytes += need.size()) < kMostBytes) state.add_need(need);
  (void)transport_->SendControl(from, static_cast<uint8_t>(StepMessage::kState),
                                state.SerializeAsString());
}

void Server::SendLog(PeerId to, uint64_t run, const std::string& text) {
  if (stopping_.load()) return;
  proto::StepLog log;
  log.set_run(run);
  log.set_text(text);
  (void)transport_->SendControl(to, static_cast<uint8_t>(StepMessage::kLog),
                                log.SerializeAsString());
}

void Server::SendDone(PeerId to, uint64_t run, StepOutcome outcome) {
  if (stopping_.load()) return;
  if (!outcome.fetches.empty()) {
    std::vector<TokenMessage> tokens(outcome.fetches.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i].edge = outcome.fetches[i];
      tokens[i].value = std::move(outcome.values[i]);
    }
    const Status sent =
        transport_->SendTokens(to, run, kFetchPartition, tokens);
    if (!sent.ok()) outcome.status = sent;
  }
  proto::StepDone done;
  done.set_run(run);
  StatusToProto(outcome.status, done.mutable_status());
  *done.mutable_stats() = std::move(outcome.stats);
  done.set_tokens_sent(outcome.tokens_sent);
  done.set_tokens_received(outcome.tokens_received);
  std::string bytes = done.SerializeAsString();
  if (bytes.size() > kMaxControlBytes) {  // A long trace.
    FitTrace(kMaxControlBytes, 64 << 10, done.mutable_stats());
    bytes = done.SerializeAsString();
  }
  // (If sending fails, the master is lost and no longer waits for the step.)
  (void)transport_->SendControl(to, static_cast<uint8_t>(StepMessage::kDone),
                                bytes);
}

void Server::OnPeerLost(PeerId peer, const Status& why) {
  worker_->OnPeerLost(peer, why);
  master_->OnPeerLost(peer, why);
}

Result<std::unique_ptr<MasterStub>> ConnectInProcess(
    const std::string& target) {
  SLUICE_RETURN_IF_ERROR(
      WithServer(target, nullptr, [](Server&) { return OkStatus(); }));
  return std::unique_ptr<MasterStub>(std::make_unique<InProcessMaster>(target));
}

bool HasServerInProcess(const std::string& target) {
  return FindDoor(target) != nullptr;
}

Result<std::unique_ptr<WorkerStub>> ConnectWorkerInProcess(
    const std::string& name) {
  return std::unique_ptr<WorkerStub>(
      std::make_unique<InProcessWorker>(kInProcessScheme + name));
}

}  // namespace sluice
