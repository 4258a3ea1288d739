// Master: compiles and coordinates the steps of the clients that connect to its
// task.
#ifndef SLUICE_CLUSTER_MASTER_MASTER_H_
#define SLUICE_CLUSTER_MASTER_MASTER_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "cluster/master/session.h"

namespace sluice {

// Owned by a Server. Thread-safe; calls block. Each method implements one call
// of proto::MasterService; its status is the call's status.
class Master {
 public:
  explicit Master(MasterContext context);
  ~Master();  // Closes all sessions.

  // `host`: the client's address, "" for a client in this process.
  Status CreateSession(const proto::CreateSessionRequest& request,
                       proto::CreateSessionResponse* response,
                       const std::string& host = "");
  Status ExtendGraph(const proto::ExtendGraphRequest& request);
  Status PrepareStep(const proto::PrepareStepRequest& request,
                     proto::PrepareStepResponse* response);
  // If the request asks for logs, `log` may be called until this returns.
  Status RunStep(const proto::RunStepRequest& request,
                 std::span<const Tensor> feeds, StepAnswer* answer,
                 const StepLog& log);
  // The same without waiting for the step, although the calling thread may run
  // part of it. `done` is called once, possibly before this returns; `log` may
  // be called for a short time after it.
  void StartStep(const proto::RunStepRequest& request,
                 std::span<const Tensor> feeds,
                 std::function<void(StepAnswer)> done, StepLog log);
  // A partial run. PartialRun waits for the values it fetches.
  Status BeginPartialRun(const proto::BeginPartialRunRequest& request,
                         proto::BeginPartialRunResponse* response);
  Status PartialRun(const proto::PartialRunRequest& request,
                    proto::PartialRunResponse* response);
  Status EndPartialRun(const proto::EndPartialRunRequest& request);
  Status CancelStep(const proto::CancelStepRequest& request);
  Status ListDevices(const proto::ListDevicesRequest& request,
                     proto::ListDevicesResponse* response);
  // Asks every task; the response also lists the tasks that did not answer.
  Status ListTasks(const proto::ListTasksRequest& request,
                   proto::ListTasksResponse* response);
  Status Reset(const proto::ResetRequest& request);
  Status CloseSession(const proto::CloseSessionRequest& request);
  void CloseAll();
  // From now on, new sessions and steps get Unavailable.
  void Drain();
  bool draining();

  // From the transport.
  void OnFetches(PeerId from, uint64_t run, std::span<TokenMessage> batch) {
    steps_.OnFetches(from, run, batch);
  }
  void OnDone(PeerId from, const proto::StepDone& done) {
    steps_.OnDone(from, done);
  }
  void OnLog(PeerId from, const proto::StepLog& log) {
    steps_.OnLog(from, log);
  }
  void OnStuck(PeerId from, uint64_t run) { steps_.OnStuck(from, run); }
  void OnState(PeerId from, const proto::StepState& state) {
    steps_.OnState(from, state);
  }
  void OnPeerLost(PeerId peer, const Status& why) {
    steps_.OnPeerLost(peer, why);
  }
  void OnTransportDown() { steps_.OnTransportDown(); }

  // Reports that an incarnation of a task is gone: the steps of the sessions
  // that use it fail with `why`, as if the transport had lost the task.
  void LoseTask(const std::string& task, uint64_t incarnation,
                const Status& why);

  size_t num_sessions();
  MasterSteps& steps() { return steps_; }

 private:
  Result<std::shared_ptr<MasterSession>> Find(uint64_t session);
  // Its running steps end with `why`.
  void Close(uint64_t id, const Status& why);
  void End(std::shared_ptr<MasterSession> session);
  void ReadClocks(const proto::RunStepRequest& request);
  // `log` may still be called after this returns.
  Status RunStepLogged(const proto::RunStepRequest& request,
                       std::span<const Tensor> feeds, StepAnswer* answer,
                       const StepLog& log);
  Status Start(const proto::RunStepRequest& request,
               std::span<const Tensor> feeds, bool here, StepLog log,
               std::function<void(StepAnswer)> done);

  // Counts one more session of `host`, open or being opened, if the limits
  // allow it.
  Status Admit(const std::string& host);
  void Release(const std::string& host);
  // Logs which tasks were restarted since the previous session.
  void NoteIncarnations(const MasterSession& session);

  const MasterContext context_;
  MasterSteps steps_;
  std::mutex mu_;
  bool draining_ = false;                  // GUARDED_BY(mu_)
  size_t admitted_ = 0;                    // GUARDED_BY(mu_)
  std::map<std::string, size_t> of_host_;  // GUARDED_BY(mu_): admitted, by
                                           // host.
  // By task, at the latest session.
  std::map<std::string, uint64_t> incarnations_;  // GUARDED_BY(mu_)
  std::map<uint64_t, std::shared_ptr<MasterSession>>
      sessions_;                 // GUARDED_BY(mu_)
  TaskThreads closing_threads_;  // Last: joined before the other members are
                                 // destroyed.
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_MASTER_MASTER_H_
