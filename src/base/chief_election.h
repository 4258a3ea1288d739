// ChiefElection: which of several processes is the chief of a training run.
// Implemented by the cluster library, with etcd.
#ifndef SLUICE_BASE_CHIEF_ELECTION_H_
#define SLUICE_BASE_CHIEF_ELECTION_H_

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace sluice {

// One candidate. At most one is elected at a time, up to how far the clocks of
// candidates and of etcd drift apart within a lease: a candidate that cannot
// renew its lease gives up its office before the lease expires. The destructor
// gives it up, so that another takes over at once; when a process dies, another
// takes over when its lease expires. Thread-safe.
class ChiefElection {
 public:
  virtual ~ChiefElection() = default;
  virtual bool elected() = 0;
  // Calls `changed` after each change of elected(), on a thread of the election
  // and never after the destructor. Called once.
  virtual void OnChange(std::function<void()> changed) = 0;
};

// In libsluice_cluster. `source`: "etcd://host:port,.../NAME?lease=SECONDS".
extern "C" void sluice_join_election(
    const std::string* source, std::unique_ptr<sluice::ChiefElection>* election,
    sluice::Status* status);

}  // namespace sluice

#endif  // SLUICE_BASE_CHIEF_ELECTION_H_
