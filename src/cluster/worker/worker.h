// Worker: the part of a task that runs steps. Has the task's devices, its
// state, and, for each session that a master opened here, the registered
// partitions.
#ifndef SLUICE_CLUSTER_WORKER_WORKER_H_
#define SLUICE_CLUSTER_WORKER_WORKER_H_

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cluster/common/messages.h"
#include "cluster/transport/transport.h"
#include "cluster/worker/idle_memory.h"
#include "cluster/worker/steps.h"
#include "exec/core/device.h"
#include "exec/core/resources.h"

namespace sluice {

namespace collectives {
class Hub;
}

struct WorkerOptions {
  std::string task;  // "/job:worker/replica:0/task:1".
  // All devices of this task; at least one.
  std::vector<std::unique_ptr<Device>> devices;
  StepLimits limits;
  // As in ServerOptions.
  size_t max_sessions = 4096;
  bool allow_host_access = false;
  bool allow_reset = false;
};

// Owned by a Server. Thread-safe. Control calls come from masters (directly in
// this process, else over gRPC) and may block. Messages from the transport go
// to steps(), which does not block.
class Worker {
 public:
  // The owner of both starts `transport` after this; it outlives this.
  Worker(WorkerOptions options, Transport* transport);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void GetStatus(const proto::GetStatusRequest& request,
                 proto::GetStatusResponse* response);
  // When the transport loses the session's master, the session is dropped and
  // its steps are cancelled.
  Status CreateSession(const proto::CreateWorkerSessionRequest& request);
  Status DeleteSession(const proto::DeleteWorkerSessionRequest& request);
  // Builds kernels and plans.
  Status RegisterStep(const proto::RegisterStepRequest& request);
  Status DeregisterStep(const proto::DeregisterStepRequest& request);
  Status Reset(const proto::ResetRequest& request);

  // The step that a StepStart names. FailedPrecondition if there is none.
  Result<std::shared_ptr<RegisteredStep>> FindStep(uint64_t session,
                                                   uint64_t step);
  void OnPeerLost(PeerId peer, const Status& why);

  WorkerSteps& steps() { return steps_; }
  // The groups of collective operations that steps of this task are in.
  collectives::Hub& collectives() { return *collectives_; }
  const std::string& task() const { return options_.task; }
  bool allows_host_access() const { return options_.allow_host_access; }
  uint64_t incarnation() const { return transport_->incarnation(); }
  size_t num_sessions();
  size_t num_steps();  // Registered, in all sessions.

 private:
  struct Session;
  // Adds it to sessions_, if it may be open.
  Status Admit(const std::shared_ptr<Session>& session);
  Result<std::shared_ptr<Session>> FindSession(uint64_t session);
  Status BuildPartition(const proto::RegisterStepRequest::Partition& partition,
                        bool fusion, bool regions, Session& session,
                        RegisteredStep* step);
  Device* FindDevice(const std::string& name);
  // An error if the node accesses the host and sessions may not.
  Status CheckHostReach(const Node& node) const;
  void Count(proto::TaskCounters* counters);
  void CountStages(proto::TaskCounters* counters);
  // Where kernels find the groups.
  void AddCollectives(ResourceManager* resources) const;

  const WorkerOptions options_;
  Transport* const transport_;
  const std::shared_ptr<ResourceManager> shared_;
  const std::shared_ptr<collectives::Hub> collectives_;
  const int64_t started_ns_ = NowNs();
  std::unique_ptr<ThreadPool> pool_;  // Null on one core.
  WorkerSteps steps_;

  std::mutex mu_;
  std::map<uint64_t, std::shared_ptr<Session>> sessions_;  // GUARDED_BY(mu_)
  // The latest sessions that were deleted before they were created: a master
  // that did not wait for CreateSession may have sent DeleteSession ahead of
  // it.
  std::deque<uint64_t> not_to_begin_;  // GUARDED_BY(mu_)
  IdleMemory idle_memory_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_WORKER_WORKER_H_
