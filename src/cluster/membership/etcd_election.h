// EtcdElection: the chief of a training run, elected in etcd.
//
// Who creates the key /sluice-chief/NAME/chief, under a lease that it keeps
// alive, is the chief. The others look at the key until it is gone.
#ifndef SLUICE_CLUSTER_MEMBERSHIP_ETCD_ELECTION_H_
#define SLUICE_CLUSTER_MEMBERSHIP_ETCD_ELECTION_H_

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/chief_election.h"
#include "cluster/common/runner.h"
#include "cluster/membership/etcd_client.h"
#include "cluster/membership/etcd_membership.h"

namespace sluice {

// See ChiefElection. It has one thread, which makes all calls to etcd.
class EtcdElection final : public ChiefElection {
 public:
  // Of the options it uses endpoints, name, lease and call_patience, which is
  // at most a fifth of the lease.
  // Unavailable if no server answers within 10 s. Once it returns, it is known
  // whether this process is the chief.
  static Result<std::unique_ptr<EtcdElection>> Join(EtcdOptions options);
  ~EtcdElection() override;

  bool elected() override;
  void OnChange(std::function<void()> changed) override;

 private:
  using Clock = std::chrono::steady_clock;
  explicit EtcdElection(EtcdOptions options);
  Status Look();
  Status Campaign();
  void Renew();
  void Tick();

  const EtcdOptions options_;
  const std::string folder_;
  EtcdClient client_;
  // Used by the thread, before it starts and after it has ended.
  int64_t lease_ = 0;  // 0: not elected.
  bool told_ = false;  // What `changed_` was last called for.
  std::mutex mu_;
  // Elected until then. A process that was suspended for longer than its lease
  // sees that without asking.
  Clock::time_point until_ = Clock::time_point::min();  // GUARDED_BY(mu_)
  std::function<void()> changed_;                       // GUARDED_BY(mu_)
  Runner runner_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_MEMBERSHIP_ETCD_ELECTION_H_
