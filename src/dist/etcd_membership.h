// EtcdMembership: which tasks a cluster has, as etcd knows it.
//
// Each task that runs has a key, /sluice/NAME/JOB/TASK, with its address and
// incarnation, under a lease that it keeps alive: when the task dies, is
// stopped or cut off, the lease ends and the key goes, and everybody sees it.
#ifndef SLUICE_DIST_ETCD_MEMBERSHIP_H_
#define SLUICE_DIST_ETCD_MEMBERSHIP_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dist/cluster.h"
#include "dist/etcd_client.h"
#include "dist/runner.h"

namespace sluice {

struct EtcdOptions {
  std::vector<std::string> endpoints;  // "host:port".
  std::string name;                    // Of the cluster.
  // How many tasks of which job make the cluster complete; none: any are.
  std::map<std::string, int> expected;
  // A task that etcd does not hear of for so long is lost. (etcd itself takes
  // no less than about two seconds.)
  std::chrono::seconds lease{5};
  // For one call to one server.
  std::chrono::milliseconds call_patience{3000};
};

// One process's view of the cluster, and maybe its place in it. Thread-safe;
// the destructor leaves. Two threads of its own: one watches, one keeps the
// lease. While etcd cannot be reached the tasks are those that were there last.
class EtcdMembership {
 public:
  // Told by the watching thread, without a lock held.
  using Lost = std::function<void(const std::string& task, uint64_t incarnation,
                                  const Status& why)>;

  // Begins to watch. Unavailable if no server answers.
  static Result<std::unique_ptr<EtcdMembership>> Open(EtcdOptions options);
  ~EtcdMembership();
  EtcdMembership(const EtcdMembership&) = delete;
  EtcdMembership& operator=(const EtcdMembership&) = delete;

  // Takes the place of `self`, and keeps it. Where it is taken, waits as long
  // as a lease may outlive its task; then AlreadyExists, which names who has
  // it. When a lease has ended in spite of all (this process was stopped for a
  // while), it takes the place again; if that has a new owner, tells `evicted`,
  // once.
  Status Join(const ClusterTask& self, uint64_t incarnation,
              std::function<void(const Status&)> evicted);
  // From now on, when a task goes or comes back as another.
  void OnLost(Lost lost);
  // The tasks, once all that are expected are there (without expectations: one
  // is). Unavailable names those that are missing after `patience`.
  Result<ClusterSpec> Members(std::chrono::milliseconds patience);
  // Whoever is there: now, or, while etcd cannot be reached, when it could be.
  Result<ClusterSpec> Present();
  // Gives the place up, and ends both threads. Nothing is told after it.
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
  // What etcd has.
  Result<MemberMap> List(int64_t* revision);
  Status Refresh(int64_t* revision);
  void Keep();
  // Under a new lease. OK with who has the place in `*owner`, or "".
  Status Take(std::string* owner);
  std::string Missing() const;  // REQUIRES: mu_ held.
  Result<ClusterSpec> Spec(const MemberMap& members) const;
  bool Stopped();

  const EtcdOptions options_;
  const std::string prefix_;
  EtcdClient client_;

  std::mutex mu_;
  std::condition_variable changed_;
  MemberMap members_;  // GUARDED_BY(mu_)
  Status reached_;     // GUARDED_BY(mu_): of the last look.
  Lost lost_;          // GUARDED_BY(mu_)
  bool stop_ = false;  // GUARDED_BY(mu_)

  // Of the place. Constant after Join but for the lease, which only the thread
  // that keeps it changes from then on.
  EtcdEntry self_;
  std::string self_task_;  // Written under mu_.
  std::function<void(const Status&)> evicted_;
  int64_t lease_ = 0;
  std::chrono::seconds lease_time_{0};

  Runner keeper_;
  std::thread watcher_;
};

}  // namespace sluice

#endif  // SLUICE_DIST_ETCD_MEMBERSHIP_H_
