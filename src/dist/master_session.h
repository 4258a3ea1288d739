// MasterSession: one client's session, at the master.
#ifndef SLUICE_DIST_MASTER_SESSION_H_
#define SLUICE_DIST_MASTER_SESSION_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dist/clock_offset.h"
#include "dist/cluster.h"
#include "dist/graph_copy.h"
#include "dist/master_steps.h"
#include "dist/stubs.h"
#include "passes/partition.h"
#include "passes/place.h"
#include "passes/stage.h"

namespace sluice {

// What a master has for all its sessions. Outlives them.
struct MasterContext {
  ClusterSpec cluster;
  // As ServerOptions::members; may be null.
  std::function<Result<ClusterSpec>(bool complete)> members;
  Result<ClusterSpec> Members(bool complete) const {
    return members ? members(complete) : Result<ClusterSpec>(cluster);
  }
  Worker* worker = nullptr;  // Of this task.
  Transport* transport = nullptr;
  WorkerConnector connect;
  std::chrono::milliseconds patience{5000};
  // How long a task that does not answer is asked.
  std::chrono::milliseconds connect_timeout{20000};
  // That a session keeps; then the one that was used longest ago goes.
  size_t prepared_steps = 1024;
  // As ServerOptions', but that none is chosen for us.
  size_t max_sessions = 4096;
  size_t max_sessions_per_peer = 4096;
};

// Calls fn(i) for i < n, each on a thread of its own: waiting for tasks that do
// not answer is waiting once. The first error by number.
Status ForAllTasks(size_t n, const std::function<Status(size_t)>& fn);

// Owned by a Master; thread-safe. Keeps the client's graph and what was
// prepared of it. Opening connects to all tasks; they must be up.
class MasterSession {
 public:
  MasterSession(const MasterContext* context, uint64_t id,
                const proto::CreateSessionRequest& options,
                const std::string& host = "");
  ~MasterSession();

  Status Open();
  Status Extend(std::string_view graph_def);
  // Compiles, and registers each task's partitions there, unless only their
  // graphs are asked for.
  Status Prepare(const proto::PrepareStepRequest& request,
                 proto::PrepareStepResponse* response);
  // NotFound if it was not prepared, or too many have been since.
  Result<std::shared_ptr<const PreparedStep>> Find(uint64_t step);
  void ListDevices(proto::ListDevicesResponse* response);
  // Exchanges readings with the clocks of the step's tasks. Before and after a
  // step that is traced.
  void ReadClocks(const PreparedStep& step);
  // Says what to add to the times of a step that began at `begin_ns` here and
  // has just ended.
  void AlignClocks(int64_t begin_ns, std::vector<proto::TaskStats>* stats);
  // kThisTask for this one, and for those that the session is not over: other
  // incarnations, too.
  PeerId PeerOf(const std::string& task, uint64_t incarnation) const;
  Status Reset(const proto::ResetRequest& request);
  // Tells the workers, but for those that are lost: true if there are any.
  // Steps have ended.
  bool Close();
  // Tells those, who may not have lost us, and waits in vain if they are dead.
  void CloseLost();

  uint64_t id() const { return id_; }
  // The address of its client, "" for one of this process.
  const std::string& host() const { return host_; }
  // Of its tasks, by name. After Open.
  std::map<std::string, uint64_t> Incarnations() const;

 private:
  struct Task {
    ClusterTask where;  // As the session names it,
    std::unique_ptr<WorkerStub> stub;
    PeerId peer = kThisTask;
    // as it names itself; but the devices are the session's.
    proto::GetStatusResponse status;
  };
  // Whether the client has said what the cluster is.
  bool own_cluster() const { return options_.task_size() > 0; }
  bool IsHere(const Task& task) const;
  // After all tasks were asked. Each is to be a server of its own, one of them
  // ours.
  Status FindThisTask();
  // Fills in `status`, and where the task is if it has moved meanwhile.
  Status Ask(Task* task);
  // `staged`: see PartitionOptions. `log` may be null.
  Result<Partitions> Split(const Graph& graph, const StepSignature& signature,
                           bool staged, std::vector<std::string>* targets,
                           std::vector<Placement>* log);
  // `ends`: of a step that is fed in stages, else null.
  Status Register(const Partitions& parts,
                  const std::vector<std::string>& targets, bool traced,
                  const OpenEnds* ends, PreparedStep* step);
  // Fills in what the devices would run.
  static Status Show(const Partitions& parts,
                     proto::PrepareStepResponse* response);
  // The worker forgets what it was told of a step; what runs of it goes on.
  Status Deregister(uint64_t step, size_t task);
  int TaskOf(const std::string& device) const;
  void Delete(const std::vector<size_t>& tasks);

  const MasterContext* const context_;
  const uint64_t id_;
  const proto::CreateSessionRequest options_;
  const std::string host_;
  // Constant after Open.
  std::vector<Task> tasks_;
  std::string this_task_;  // What the session calls the master's.
  std::vector<PlaceableDevice> devices_;

  std::mutex mu_;               // Held while compiling.
  GraphCopy graph_;             // GUARDED_BY(mu_)
  StateDevices state_devices_;  // GUARDED_BY(mu_)
  uint64_t next_step_ = 1;      // GUARDED_BY(mu_)
  std::vector<size_t> lost_;    // At Close.
  std::mutex clocks_mu_;
  std::vector<ClockReadings> clocks_;  // GUARDED_BY(clocks_mu_); by task.
  std::mutex steps_mu_;
  struct Kept {
    std::shared_ptr<const PreparedStep> step;
    uint64_t used = 0;  // When, as uses_ counts.
  };
  std::map<uint64_t, Kept> steps_;  // GUARDED_BY(steps_mu_)
  // Those that made place and are run still, maybe: their tasks keep them.
  std::vector<std::shared_ptr<const PreparedStep>>
      dropped_;        // GUARDED_BY(steps_mu_)
  uint64_t uses_ = 0;  // GUARDED_BY(steps_mu_)
};

}  // namespace sluice

#endif  // SLUICE_DIST_MASTER_SESSION_H_
