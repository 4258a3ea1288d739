// Hub: the groups that the nodes of this task take part in.
#ifndef SLUICE_OPS_COLLECTIVES_HUB_H_
#define SLUICE_OPS_COLLECTIVES_HUB_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "exec/core/kernel.h"
#include "exec/core/resources.h"
#include "exec/core/runtime_resource.h"
#include "ops/collectives/call.h"
#include "ops/collectives/network.h"

namespace sluice::collectives {

class StepUse;

// One per task (or per ResourceManager outside clusters), found by kernels in
// the ResourceManager. Thread-safe; sends and completes without its lock.
//
// How a group is formed. A member that has something to do in a group that is
// not formed announces itself to all tasks that this one knows (a join, with a
// number that is never used again); a task that hears of it answers with the
// joins of its own members. When a task has as many joins as the group has
// members, the group is formed there: an epoch, whose number is a hash of all
// joins, so that tasks which saw other joins do not mistake it for theirs. No
// task coordinates, neither then nor later.
//
// How it ends. When a step that takes part fails or is cancelled, a task is
// lost, or members do not agree, the task that notices ends the epoch: all
// calls in it fail, all its joins are void, and all others are told (an abort).
// A member that had no call in it then gets the error with the next one of a
// session that took part in the epoch (but not if the epoch ended only since
// members joined anew). The first call of a later step forms the group anew. A
// call of a step that has already taken part in an ended epoch fails: it must
// not meet the calls of steps that begin from the start.
//
// Whom the loss of a task concerns. A loss is that of one connection to one
// incarnation: it ends the epochs that have a member there, and no others. A
// member whose group is not formed may be waiting for just this task, but only
// if its session has it: then its call fails, or, if it has none, its next one,
// once. What another session waits for, as one that was opened with the task's
// next incarnation, goes on. A transport marks a peer as lost before it says so
// (OnPeerLost), possibly long before: what depends on a peer looks at the mark,
// so that a call never begins in an epoch that is about to be ended for a loss
// that the call's session has not suffered.
//
// When the sessions whose steps ran a member's calls are closed, the member
// leaves, and tells so, with how many calls it has made. The others make these
// calls too, and end them as they would have (the root of a broadcast waits for
// its receivers, but these do not wait for each other). One that needs more of
// the member fails, and with it the epoch; calls of new sessions form the group
// anew.
//
// Calls of an instance are matched by their number in the epoch. A member does
// one at a time.
class Hub : public Resource, public std::enable_shared_from_this<Hub> {
 public:
  // The resource's name. Clearing containers keeps it.
  static constexpr const char* kContainer = kRuntimeContainer;
  static constexpr const char* kName = kRuntimeResource;

  // `network` null: all members are in this process.
  explicit Hub(std::unique_ptr<Network> network);
  std::string TypeName() const override { return "CollectiveHub"; }

  // The hub of a step; made if there is none.
  static Result<std::shared_ptr<Hub>> Of(const KernelContext& ctx);
  // Takes part, for the member that `call` names, as part of the kernel's step.
  void Start(KernelContext& ctx, std::shared_ptr<Call> call);

  // ---- For the network. Peers are numbers other than kHere.
  // The tasks of a session, to which members are announced from now on, and
  // whose loss concerns its steps (Network::SessionOf).
  void OpenSession(uint64_t session, std::span<const Peer> peers);
  // Its steps have ended or are cancelled.
  void CloseSession(uint64_t session);
  void OnNote(Peer from, const Note& note);
  void OnTokens(Peer from, uint64_t epoch, std::span<TokenMessage> batch);
  // `why` names the task. (It may have been noticed before.)
  void OnPeerLost(Peer peer, const Status& why);

  // Calls that run in a group or wait for one to form; for tests.
  size_t num_waiting();

 private:
  friend class StepUse;
  struct Member {
    std::string name;
    int64_t size = 0, rank = -1;
    uint64_t nonce = 0;
    Peer peer = kHere;
    uint64_t incarnation = 0;  // Of its task; 0: this one.
  };
  struct Epoch;
  // A call that waits until its group is formed.
  struct Waiting {
    std::shared_ptr<Call> call;
    std::shared_ptr<StepUse> use;
  };
  // Why an epoch ended, for the sessions that took part in it.
  struct Owed {
    Status why;
    uint64_t lost = 0;  // As in Note.
    std::set<uint64_t> sessions;
  };
  struct Session {
    std::set<Peer> peers;             // Those that are not lost.
    std::map<uint64_t, Status> lost;  // By incarnation.
    // By group and member: the incarnations whose loss its calls have reported.
    std::map<std::pair<int64_t, std::string>, std::set<uint64_t>> told;
  };
  struct Group {
    std::map<std::string, Member> joined;  // Of no epoch that is over.
    std::shared_ptr<Epoch> live;           // That none of its members has left.
    std::map<std::string, std::vector<Waiting>> waiting;  // By member.
    std::map<std::string, std::set<Peer>> told;  // Whom of a local join.
    // Members of this task that had no call in an epoch when it ended: their
    // next one reports it.
    std::map<std::string, Owed> owed;
  };
  // What an epoch gets before it is formed here.
  struct Early {
    // With the incarnations of the senders.
    std::vector<std::pair<uint64_t, Note>> notes;
    std::vector<std::pair<uint64_t, TokenMessage>> tokens;
    size_t bytes = 0;
  };
  // What is to be done without the lock.
  struct Later {
    std::vector<std::pair<Peer, Note>> notes;
    std::vector<std::pair<std::shared_ptr<Epoch>, std::shared_ptr<Call>>> begin;
    std::vector<std::pair<std::shared_ptr<Call>, Status>> fail;
    std::vector<std::shared_ptr<Call>> complete;
    struct Arrival {
      std::shared_ptr<Epoch> epoch;
      std::shared_ptr<Call> call;
      DataKey key;
      Tensor value;
    };
    std::vector<Arrival> arrivals;
  };

  // The next REQUIRE that mu_ is held.
  void Enter(Waiting waiting, const std::string& member, Later* later);
  void Join(Group& group, const CallSpec& spec, const std::string& member,
            Later* later);
  Note JoinNote(int64_t group, const Member& member) const;
  // Adds a join, and forms the group if it was the last.
  void Add(int64_t key, Member member, Later* later);
  void TryForm(int64_t key, Later* later);
  void Bind(const Waiting& waiting, const std::shared_ptr<Epoch>& epoch,
            Later* later);
  void Launch(const Waiting& waiting, const std::shared_ptr<Epoch>& epoch,
              Later* later);
  // Begins the member's call of an instance, once its root is known.
  void TryBegin(const std::shared_ptr<Epoch>& epoch, uint32_t instance,
                int rank, Later* later);
  Status Mismatch(const Epoch& epoch, const Call& call, int other) const;
  void Record(const std::shared_ptr<Epoch>& epoch, const Note& note,
              Later* later);
  // Ends an epoch. `tell`: the other tasks too. `changed`, `lost`: as in Note.
  // (By value: it may be the reference that the group holds.)
  void Kill(std::shared_ptr<Epoch> epoch, const Status& why, bool tell,
            Later* later, bool changed = false, uint64_t lost = 0);
  // Does what the loss of a peer requires.
  void Lose(Peer peer, const Status& why, Later* later);
  // Does so for those of `peers` that are marked as lost.
  void NoticeLost(std::span<const Peer> peers, Later* later);
  // Those of a group: the live one, and those that members have left.
  std::vector<std::shared_ptr<Epoch>> EpochsOf(int64_t key) const;
  // The other tasks that have members in a group's live epoch, or joins.
  static std::vector<Peer> PeersOf(const Group& group);
  // A connection to this incarnation of a task that is not lost; or kHere.
  Peer ConnectionTo(uint64_t incarnation) const;
  // A member has left the epoch, of which it makes no other calls than these.
  void Leave(const std::shared_ptr<Epoch>& epoch, int rank,
             const std::vector<std::pair<uint32_t, uint32_t>>& calls,
             Later* later);
  // An error if the call needs one that a member which has left did not make.
  static Status NeedsOneWhoLeft(const Epoch& epoch, uint32_t instance,
                                uint32_t number);
  // The next call of a member in an epoch that others have left reports that,
  // unless it MayEnter.
  void Owe(const Epoch& epoch, int rank);
  // The session knows why the member's epoch ended.
  void Reported(int64_t key, const std::string& member, uint64_t session);
  static bool MayEnter(const Epoch& epoch, const std::string& member,
                       const Waiting& waiting);
  // Ends an epoch that members have left, when this task has ended the calls
  // that they have made.
  void EndIfLeft(const std::shared_ptr<Epoch>& epoch, Later* later);
  // A call of this member reports the loss.
  void Told(uint64_t session, int64_t key, const std::string& member,
            uint64_t lost);
  // A loss that the session has suffered and this member has not reported;
  // from now on it has.
  Status TakeLoss(uint64_t session, int64_t key, const std::string& member);
  // Ends the attempt of this task's members to form a group, and with `all`
  // those of the members with which they would have formed it.
  void GiveUp(int64_t key, const Status& why, bool all, Later* later);
  // Tells a task that what it sends to an epoch is dropped.
  void Refuse(Peer from, uint64_t epoch, Later* later) const;
  void Void(uint64_t nonce);
  void Deliver(const std::shared_ptr<Epoch>& epoch, uint64_t incarnation,
               TokenMessage message, Later* later);
  void TellAll(const Note& note, Later* later);
  std::string NameOfMember(const CallSpec& spec) const;
  std::string Here() const;

  // Does what was noted, then what follows from it.
  void Do(Later later);
  void Perform(Later later);
  void Send(const std::shared_ptr<Epoch>& epoch, std::vector<Outgoing>* out);
  // The call has ended.
  void Finish(const std::shared_ptr<Epoch>& epoch,
              const std::shared_ptr<Call>& call);
  void OnStepCancelled(const std::shared_ptr<StepUse>& use);

  const std::unique_ptr<Network> network_;

  std::mutex mu_;
  std::mt19937_64 random_;                             // GUARDED_BY(mu_)
  std::set<Peer> peers_;                               // GUARDED_BY(mu_)
  std::map<uint64_t, Session> sessions_;               // GUARDED_BY(mu_)
  std::map<int64_t, Group> groups_;                    // GUARDED_BY(mu_)
  std::map<uint64_t, std::shared_ptr<Epoch>> epochs_;  // GUARDED_BY(mu_): live.
  std::map<uint64_t, Early> early_;                    // GUARDED_BY(mu_)
  size_t early_bytes_ = 0;                             // GUARDED_BY(mu_)
  // The latest joins that are void, and epochs that are over.
  absl::flat_hash_set<uint64_t> over_;  // GUARDED_BY(mu_)
  std::deque<uint64_t> over_order_;     // GUARDED_BY(mu_)
};

}  // namespace sluice::collectives

#endif  // SLUICE_OPS_COLLECTIVES_HUB_H_
