// MasterSession: the master's side of one client's session.
#ifndef SLUICE_CLUSTER_MASTER_SESSION_H_
#define SLUICE_CLUSTER_MASTER_SESSION_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/common/cluster.h"
#include "cluster/common/messages.h"
#include "cluster/common/stubs.h"
#include "cluster/master/clock_offset.h"
#include "cluster/master/graph_copy.h"
#include "cluster/master/steps.h"
#include "passes/partition.h"
#include "passes/place.h"
#include "passes/stage.h"

namespace sluice {

// What all sessions of a master share. Outlives them.
struct MasterContext {
  ClusterSpec cluster;
  // See ServerOptions::members; may be null.
  std::function<Result<ClusterSpec>(const TaskFilter& wait_for)> members;
  Result<ClusterSpec> Members(const TaskFilter& wait_for) const {
    return members ? members(wait_for) : Result<ClusterSpec>(cluster);
  }
  Worker* worker = nullptr;  // This task's.
  Transport* transport = nullptr;
  WorkerConnector connect;
  std::chrono::milliseconds patience{5000};
  // How long to retry a task that does not answer.
  std::chrono::milliseconds connect_timeout{20000};
  std::chrono::milliseconds step_timeout{0};  // See ServerOptions.
  // That of a step whose request says `ms`, where 0 is nothing.
  std::chrono::milliseconds TimeoutOfStep(int64_t ms) const {
    return ms > 0 ? TimeoutFromProto(ms) : step_timeout;
  }
  // The number that a session keeps; beyond it the least recently used is
  // dropped.
  size_t prepared_steps = 1024;
  // As in ServerOptions, but 0 has no special meaning.
  size_t max_sessions = 4096;
  size_t max_sessions_per_peer = 4096;
};

// Calls fn(i) for i < n, each on its own thread, so that the timeouts of tasks
// that do not answer overlap. Returns the error with the lowest i.
Status ForAllTasks(size_t n, const std::function<Status(size_t)>& fn);

// Owned by a Master; thread-safe. Keeps the client's graph and the steps
// prepared from it. Open connects to all tasks, which must be up.
class MasterSession {
 public:
  MasterSession(const MasterContext* context, uint64_t id,
                const proto::CreateSessionRequest& options,
                const std::string& host = "");
  ~MasterSession();

  Status Open();
  Status Extend(std::string_view graph_def);
  // Compiles a step and registers each task's partitions with it, unless the
  // request only asks for their graphs.
  Status Prepare(const proto::PrepareStepRequest& request,
                 proto::PrepareStepResponse* response);
  // NotFound if it was not prepared, or was dropped since.
  Result<std::shared_ptr<const PreparedStep>> Find(uint64_t step);
  void ListDevices(proto::ListDevicesResponse* response);
  // Exchanges clock readings with the step's tasks. Called before and after a
  // traced step.
  void ReadClocks(const PreparedStep& step);
  // Sets the clock offsets for a step that began at `begin_ns` on our clock and
  // has just ended.
  void AlignClocks(int64_t begin_ns, std::vector<proto::TaskStats>* stats);
  // kThisTask for this task, and for tasks or incarnations that are not part of
  // the session.
  PeerId PeerOf(const std::string& task, uint64_t incarnation) const;
  Status Reset(const proto::ResetRequest& request);
  // Closes the session at all workers that are not lost. Returns whether any
  // are lost. REQUIRES: its steps have ended.
  bool Close();
  // Closes the session at the lost workers, which may not have lost us. Times
  // out if they are dead.
  void CloseLost();

  uint64_t id() const { return id_; }
  // The client's address, "" for a client in this process.
  const std::string& host() const { return host_; }
  // The incarnations of its tasks, by name. Valid after Open.
  std::map<std::string, uint64_t> Incarnations() const;

 private:
  struct Task {
    ClusterTask where;  // With the session's name for it.
    std::unique_ptr<WorkerStub> stub;
    PeerId peer = kThisTask;
    // With its own name; the devices have the session's.
    proto::GetStatusResponse status;
  };
  // Whether the client has specified the cluster.
  bool own_cluster() const { return options_.task_size() > 0; }
  // The tasks that the client's filters leave.
  Result<TaskFilter> UsedTasks() const;
  bool IsHere(const Task& task) const;
  // Called after all tasks have answered. Checks that each is a separate server
  // and finds which one is ours.
  Status FindThisTask();
  // Fills in `status`, and the task's address if it has moved.
  Status QueryStatus(Task* task);
  // `staged`: see PartitionOptions. `log` may be null.
  Result<Partitions> Split(const Graph& graph, const StepSignature& signature,
                           bool staged, std::vector<std::string>* targets,
                           std::vector<Placement>* log);
  // `ends`: for a partial run, else null.
  Status Register(const Partitions& parts,
                  const std::vector<std::string>& targets, bool traced,
                  const OpenEnds* ends, PreparedStep* step);
  // Fills in the graphs that the devices would run.
  static Status Show(const Partitions& parts,
                     proto::PrepareStepResponse* response);
  // Removes a step's registration from a worker; running instances continue.
  Status Deregister(uint64_t step, size_t task);
  int TaskOf(const std::string& device) const;
  void Delete(const std::vector<size_t>& tasks);

  const MasterContext* const context_;
  const uint64_t id_;
  const proto::CreateSessionRequest options_;
  const std::string host_;
  // Constant after Open.
  std::vector<Task> tasks_;
  std::string this_task_;  // The session's name for the master's task.
  std::vector<PlaceableDevice> devices_;

  std::mutex mu_;               // Held while compiling.
  GraphCopy graph_;             // GUARDED_BY(mu_)
  StateDevices state_devices_;  // GUARDED_BY(mu_)
  uint64_t next_step_ = 1;      // GUARDED_BY(mu_)
  std::vector<size_t> lost_;    // Set by Close.
  std::mutex clocks_mu_;
  std::vector<ClockReadings> clocks_;  // GUARDED_BY(clocks_mu_); by task.
  std::mutex steps_mu_;
  struct Kept {
    std::shared_ptr<const PreparedStep> step;
    uint64_t used = 0;  // The value of uses_ at its last use.
  };
  std::map<uint64_t, Kept> steps_;  // GUARDED_BY(steps_mu_)
  // Dropped steps that may still be running: their tasks keep them.
  std::vector<std::shared_ptr<const PreparedStep>>
      dropped_;        // GUARDED_BY(steps_mu_)
  uint64_t uses_ = 0;  // GUARDED_BY(steps_mu_)
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_MASTER_SESSION_H_
