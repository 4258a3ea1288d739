#include "cluster/remote_session.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "cluster/common/cluster.h"
#include "cluster/master/graph_copy.h"
#include "cluster/server.h"
#include "exec/core/on_cancel.h"
#include "graph/tensor_proto.h"

namespace sluice {
namespace {

// The limit of one ExtendGraph.
constexpr size_t kMaxGraphBytes = size_t{2} << 30;

// The connection to the master is kept until the session is closed and the
// calls that were running then have returned.
class RemoteSession final : public SessionBackend {
 public:
  RemoteSession(std::unique_ptr<MasterStub> master, uint64_t session,
                std::function<void(const std::string&)> placement_log)
      : session_(session),
        master_(std::move(master)),
        placement_log_(std::move(placement_log)) {}

  ~RemoteSession() override {
    (void)Close();
    std::unique_lock<std::mutex> lock(mu_);
    idle_.wait(lock, [this] { return running_ == 0; });
  }

  Result<uint64_t> Prepare(const Graph& graph, const StepSignature& s,
                           StepKind kind) override {
    std::lock_guard<std::mutex> graph_lock(graph_mu_);
    proto::PrepareStepRequest request = RequestOf(s);
    request.set_traced(kind == StepKind::kTraced);
    request.set_staged(kind == StepKind::kStaged);
    request.set_placements(placement_log_ != nullptr);
    proto::PrepareStepResponse response;
    SLUICE_RETURN_IF_ERROR(WhileOpen([&](MasterStub& master) {
      SLUICE_RETURN_IF_ERROR(SendChanges(graph, master));
      return master.PrepareStep(request, &response);
    }));
    if (placement_log_) placement_log_(response.placements());
    request.set_placements(false);
    std::lock_guard<std::mutex> lock(mu_);
    prepared_.push_back({std::move(request), response.step()});
    return prepared_.size() - 1;
  }

  Result<std::vector<std::string>> PartitionGraphs(
      const Graph& graph, const StepSignature& s) override {
    std::lock_guard<std::mutex> graph_lock(graph_mu_);
    proto::PrepareStepRequest request = RequestOf(s);
    request.set_graphs(true);
    proto::PrepareStepResponse response;
    SLUICE_RETURN_IF_ERROR(WhileOpen([&](MasterStub& master) {
      SLUICE_RETURN_IF_ERROR(SendChanges(graph, master));
      return master.PrepareStep(request, &response);
    }));
    return std::vector<std::string>(response.graph().begin(),
                                    response.graph().end());
  }

  Result<std::vector<Tensor>> Run(uint64_t step, std::span<const Tensor> feeds,
                                  const RunOptions& options,
                                  RunMetadata* metadata) override {
    std::vector<Tensor> out;
    SLUICE_RETURN_IF_ERROR(StepWhileOpen([&](MasterStub& master) {
      SLUICE_ASSIGN_OR_RETURN(out,
                              RunAt(master, step, feeds, options, metadata));
      return OkStatus();
    }));
    return out;
  }

  Result<std::unique_ptr<BackendPartialRun>> StartPartialRun(
      uint64_t step) override {
    proto::BeginPartialRunRequest request;
    request.set_session(session_);
    request.set_step(Number(step));
    proto::BeginPartialRunResponse response;
    SLUICE_RETURN_IF_ERROR(StepWhileOpen([&](MasterStub& master) {
      Status begun = master.BeginPartialRun(request, &response);
      for (int i = 0; i < kPrepareAgain && response.unknown_step(); ++i) {
        SLUICE_RETURN_IF_ERROR(PrepareAgain(master, step, request.step()));
        request.set_step(Number(step));
        response.Clear();
        begun = master.BeginPartialRun(request, &response);
      }
      return begun;
    }));
    return std::unique_ptr<BackendPartialRun>(
        std::make_unique<PartialRun>(this, response.run()));
  }

  Result<std::vector<std::string>> ListDevices() override {
    proto::ListDevicesRequest request;
    request.set_session(session_);
    proto::ListDevicesResponse response;
    SLUICE_RETURN_IF_ERROR(WhileOpen([&](MasterStub& master) {
      return master.ListDevices(request, &response);
    }));
    std::vector<std::string> names;
    for (const auto& d : response.device()) names.push_back(d.name());
    return names;
  }

  Status Reset(const std::vector<std::string>& containers) override {
    proto::ResetRequest request;
    request.set_session(session_);
    for (const std::string& c : containers) request.add_container(c);
    return WhileOpen(
        [&request](MasterStub& master) { return master.Reset(request); });
  }

  Status Close() override {
    std::shared_ptr<MasterStub> master;
    {
      std::lock_guard<std::mutex> lock(mu_);
      master.swap(master_);
    }
    if (master == nullptr) return OkStatus();
    proto::CloseSessionRequest request;
    request.set_session(session_);
    return master->CloseSession(request);
  }

 private:
  static constexpr int kPrepareAgain = 100;

  // Sends the new parts of the graph to the master. REQUIRES: graph_mu_ held.
  Status SendChanges(const Graph& graph, MasterStub& master) {
    SLUICE_ASSIGN_OR_RETURN(std::string changes, sender_.Changes(graph));
    if (changes.size() >= kMaxGraphBytes)
      return ResourceExhausted("graph: expected less than ", kMaxGraphBytes,
                               " bytes that are new, got ", changes.size());
    if (changes.empty()) return OkStatus();
    proto::ExtendGraphRequest extend;
    extend.set_session(session_);
    extend.set_graph_def(std::move(changes));
    const Status sent = master.ExtendGraph(extend);
    if (!sent.ok()) sender_.Lost();
    return sent;
  }

  proto::PrepareStepRequest RequestOf(const StepSignature& s) const {
    proto::PrepareStepRequest request;
    request.set_session(session_);
    for (const Output& o : s.feeds) request.add_feed(o.name());
    for (const Output& o : s.fetches) request.add_fetch(o.name());
    for (const Node* n : s.targets) request.add_target(n->name());
    return request;
  }

  // A partial run at the master, identified by a number.
  class PartialRun final : public BackendPartialRun {
   public:
    PartialRun(RemoteSession* session, uint64_t run)
        : session_(session), run_(run) {}
    ~PartialRun() override {
      // (Closing the session has ended the run.)
      (void)session_->StepWhileOpen(
          [this](MasterStub& master) { return End(master); });
    }
    Result<std::vector<std::optional<Tensor>>> Run(
        std::span<const uint32_t> args, std::span<const Tensor> values,
        std::span<const uint32_t> fetches, const RunOptions& options) override {
      proto::PartialRunRequest request;
      request.set_session(session_->session_);
      request.set_run(run_);
      request.set_timeout_ms(options.timeout_ms);
      for (size_t i = 0; i < args.size(); ++i) {
        auto* feed = request.add_feed();
        feed->set_number(args[i]);
        SLUICE_ASSIGN_OR_RETURN(*feed->mutable_tensor(),
                                SerializeTensorProto(values[i]));
      }
      SLUICE_RETURN_IF_ERROR(CheckMessage("feeds", request));
      request.mutable_fetch()->Assign(fetches.begin(), fetches.end());
      proto::PartialRunResponse response;
      const Status ran = session_->StepWhileOpen([&](MasterStub& master) {
        const OnCancel on_cancel(options.cancellation, [this, &master] {
          cancelled_ = true;
          (void)End(master);
        });
        return master.PartialRun(request, &response);
      });
      if (cancelled_)
        return Cancelled("step: expected to run to its end, got cancelled");
      SLUICE_RETURN_IF_ERROR(ran);
      if (static_cast<size_t>(response.fetch_size()) != fetches.size())
        return DataLoss("partial run: expected ", fetches.size(),
                        " fetches, got ", response.fetch_size());
      std::vector<std::optional<Tensor>> out;
      for (const auto& fetch : response.fetch()) {
        out.emplace_back();
        if (fetch.dead()) continue;
        SLUICE_ASSIGN_OR_RETURN(out.back(), ParseTensorProto(fetch.tensor()));
      }
      return out;
    }

   private:
    Status End(MasterStub& master) const {
      proto::EndPartialRunRequest request;
      request.set_session(session_->session_);
      request.set_run(run_);
      return master.EndPartialRun(request);
    }

    RemoteSession* const session_;
    const uint64_t run_;
    std::atomic<bool> cancelled_{false};
  };

  // Calls fn with the master. FailedPrecondition if the session is closed; if
  // it is closed meanwhile, the connection lasts until fn returns.
  template <typename Fn>
  Status WhileOpen(Fn fn) {
    std::shared_ptr<MasterStub> master;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (master_ == nullptr)
        return FailedPrecondition(
            "session: expected an open one, got a closed one");
      master = master_;
      ++running_;
    }
    Status s = fn(*master);
    master.reset();  // (Without the lock: this may end the connection.)
    std::lock_guard<std::mutex> lock(mu_);
    if (--running_ == 0) idle_.notify_all();
    return s;
  }
  // The same for a call that runs a step: if the session is closed meanwhile,
  // the step was cancelled.
  template <typename Fn>
  Status StepWhileOpen(Fn fn) {
    return WhileOpen([this, &fn](MasterStub& master) {
      Status s = fn(master);
      std::lock_guard<std::mutex> lock(mu_);
      if (master_ == nullptr && s.code() == StatusCode::kFailedPrecondition)
        s = Cancelled(
            "step: expected an open session, got one that was closed");
      return s;
    });
  }
  struct Prepared {
    proto::PrepareStepRequest request;
    uint64_t number;  // The master's number.
  };

  uint64_t Number(uint64_t step) {
    std::lock_guard<std::mutex> lock(mu_);
    return prepared_[step].number;
  }
  // Prepares a step again that the master has evicted.
  Status PrepareAgain(MasterStub& master, uint64_t step, uint64_t number) {
    std::lock_guard<std::mutex> graph_lock(graph_mu_);
    proto::PrepareStepRequest request;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (prepared_[step].number != number) return OkStatus();  // Done.
      request = prepared_[step].request;
    }
    proto::PrepareStepResponse response;
    SLUICE_RETURN_IF_ERROR(master.PrepareStep(request, &response));
    std::lock_guard<std::mutex> lock(mu_);
    prepared_[step].number = response.step();
    return OkStatus();
  }
  Result<std::vector<Tensor>> RunAt(MasterStub& master, uint64_t step,
                                    std::span<const Tensor> feeds,
                                    const RunOptions& options,
                                    RunMetadata* metadata) {
    const int64_t start = NowNs();
    proto::RunStepRequest request;
    request.set_session(session_);
    request.set_timeout_ms(options.timeout_ms);
    request.set_request(next_request_.fetch_add(1, std::memory_order_relaxed));
    request.set_traced(options.trace);
    request.set_log(options.log != nullptr);
    StepAnswer answer;
    const proto::RunStepResponse& response = answer.response;
    request.set_step(Number(step));
    const OnCancel on_cancel(options.cancellation, [&] {
      proto::CancelStepRequest cancel;
      cancel.set_session(session_);
      cancel.set_request(request.request());
      (void)master.CancelStep(cancel);  // (The step returns its own status.)
    });
    Status ran = master.RunStep(request, feeds, &answer, options.log);
    // (The master keeps a limited number; other threads may evict it again.)
    for (int i = 0; i < kPrepareAgain && response.unknown_step(); ++i) {
      SLUICE_RETURN_IF_ERROR(PrepareAgain(master, step, request.step()));
      request.set_step(Number(step));
      answer = StepAnswer();
      ran = master.RunStep(request, feeds, &answer, options.log);
    }
    SLUICE_RETURN_IF_ERROR(ran);
    if (metadata != nullptr) {
      *metadata = RunMetadata();
      metadata->wall_ns = NowNs() - start;
      for (const proto::TaskStats& stats : response.stats()) {
        metadata->tasks.push_back(TraceTaskFromProto(stats));
        for (TraceEvent& e : TraceFromProto(stats)) {
          metadata->allocated_bytes += e.allocated_bytes;
          metadata->events.push_back(std::move(e));
        }
      }
    }
    return std::move(answer.fetches);
  }

  const uint64_t session_;
  std::atomic<uint64_t> next_request_{1};
  std::mutex graph_mu_;
  GraphSender sender_;  // GUARDED_BY(graph_mu_)
  std::mutex mu_;
  std::condition_variable idle_;
  // Null once the session is closed.
  std::shared_ptr<MasterStub> master_;  // GUARDED_BY(mu_)
  int running_ = 0;  // GUARDED_BY(mu_); calls that use the master.
  std::vector<Prepared> prepared_;  // GUARDED_BY(mu_)
  const std::function<void(const std::string&)> placement_log_;
};

const SessionBackendRegistration in_process(
    "inproc",
    [](const std::string& target, const SessionOptions& options)
        -> Result<std::unique_ptr<SessionBackend>> {
      SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<MasterStub> master,
                              ConnectInProcess(target));
      return OpenRemoteSession(std::move(master), options);
    });

}  // namespace

Result<std::unique_ptr<SessionBackend>> OpenRemoteSession(
    std::unique_ptr<MasterStub> master, const SessionOptions& options) {
  proto::CreateSessionRequest request;
  request.set_constant_folding(options.constant_folding);
  request.set_common_subexpressions(options.common_subexpressions);
  request.set_regions(options.regions);
  request.set_fusion(options.fusion);
  request.set_isolated(options.isolated);
  request.set_soft_placement(options.soft_placement);
  request.set_max_call_depth(options.max_call_depth);
  request.set_scheduler_seed(options.scheduler_seed);
  for (const std::string& filter : options.device_filters)
    request.add_device_filter(filter);
  if (!options.cluster.empty()) {
    SLUICE_ASSIGN_OR_RETURN(const ClusterSpec cluster,
                            ClusterSpec::Parse(options.cluster));
    for (const ClusterTask& t : cluster.tasks()) {
      proto::SessionTask* task = request.add_task();
      task->set_job(t.job);
      task->set_number(t.task);
      task->set_address(t.address);
    }
  }
  proto::CreateSessionResponse response;
  SLUICE_RETURN_IF_ERROR(master->CreateSession(request, &response));
  proto::AttendRequest attend;
  attend.set_session(response.session());
  SLUICE_RETURN_IF_ERROR(master->Attend(attend));
  return std::unique_ptr<SessionBackend>(std::make_unique<RemoteSession>(
      std::move(master), response.session(), options.placement_log));
}

}  // namespace sluice
