// EtcdMembership: the tasks of a cluster that are registered in etcd.
//
// Each running task has a key, /sluice/NAME/JOB/TASK, with its address and
// incarnation, under a lease that it keeps alive. When the task dies, is
// stopped or is cut off, the lease expires, etcd deletes the key, and all
// watchers see it.
#ifndef SLUICE_CLUSTER_MEMBERSHIP_ETCD_MEMBERSHIP_H_
#define SLUICE_CLUSTER_MEMBERSHIP_ETCD_MEMBERSHIP_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/common/cluster.h"
#include "cluster/common/runner.h"
#include "cluster/membership/etcd_client.h"

namespace sluice {

struct EtcdOptions {
  std::vector<std::string> endpoints;  // "host:port".
  std::string name;                    // The cluster's name.
  // The number of tasks of each job in a complete cluster. Empty: any tasks are
  // complete.
  std::map<std::string, int> expected;
  // A task that does not renew its lease for this long is lost. (etcd's own
  // minimum is about two seconds.)
  std::chrono::seconds lease{5};
  // The time limit of one call to one server.
  std::chrono::milliseconds call_patience{3000};
};

// One process's view of the cluster and, after Join, its place in it.
// Thread-safe; the destructor leaves. It has two threads: one watches the keys,
// one renews the lease. While etcd is unreachable, the last known tasks are
// returned.
class EtcdMembership {
 public:
  // Called on the watching thread, without a lock held.
  using Lost = std::function<void(const std::string& task, uint64_t incarnation,
                                  const Status& why)>;

  // Starts watching. Unavailable if no server answers.
  static Result<std::unique_ptr<EtcdMembership>> Open(EtcdOptions options);
  ~EtcdMembership();
  EtcdMembership(const EtcdMembership&) = delete;
  EtcdMembership& operator=(const EtcdMembership&) = delete;

  // Registers this process as `self` and keeps the registration alive. If
  // another process is registered, waits as long as a lease can outlive its
  // task, then returns AlreadyExists, naming the owner. If the lease expires
  // anyway (this process was suspended), registers again; if there is a new
  // owner by then, calls `evicted`, once.
  Status Join(const ClusterTask& self, uint64_t incarnation,
              std::function<void(const Status&)> evicted);
  // Calls `lost` from now on when a task leaves or returns as a new
  // incarnation.
  void OnLost(Lost lost);
  // Waits until all expected tasks that match are present (if none are
  // expected: until any task is) and returns all that are. After `patience`,
  // Unavailable names the missing ones.
  Result<ClusterSpec> Members(std::chrono::milliseconds patience,
                              const TaskFilter& wait_for = AllTasks);
  // The tasks present now, or, while etcd is unreachable, the last known ones.
  Result<ClusterSpec> Present();
  // Gives up the registration and joins both threads. No callback runs after
  // it.
  void Leave();

 private:
  struct Member {
    std::string address;
    uint64_t incarnation = 0;
    bool operator==(const Member&) const = default;
  };
  using Key = std::pair<std::string, int>;  // Job and task.
  using MemberMap = std::map<Key, Member>;

  explicit EtcdMembership(EtcdOptions options);
  void Watch();
  // Reads the members from etcd.
  Result<MemberMap> List(int64_t* revision);
  Status Refresh(int64_t* revision);
  void Keep();
  // Registers under a new lease. Returns OK and the current owner in `*owner`,
  // "" if it is now us.
  Status Take(std::string* owner);
  // The expected tasks that match and are not present. REQUIRES: mu_ held.
  std::string Missing(const TaskFilter& wait_for) const;
  Result<ClusterSpec> Spec(const MemberMap& members) const;
  bool Stopped();

  const EtcdOptions options_;
  const std::string prefix_;
  EtcdClient client_;

  std::mutex mu_;
  std::condition_variable changed_;
  MemberMap members_;  // GUARDED_BY(mu_)
  Status reached_;     // GUARDED_BY(mu_): of the last query.
  Lost lost_;          // GUARDED_BY(mu_)
  bool stop_ = false;  // GUARDED_BY(mu_)

  // This task's registration. Constant after Join, except the lease, which only
  // the renewing thread changes from then on.
  EtcdEntry self_;
  std::string self_task_;  // Written under mu_.
  std::function<void(const Status&)> evicted_;
  int64_t lease_ = 0;
  std::chrono::seconds lease_time_{0};

  Runner keeper_;
  std::thread watcher_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_MEMBERSHIP_ETCD_MEMBERSHIP_H_
