// A formed group of a Hub, and the steps that take part. Internal.
#ifndef SLUICE_OPS_COLLECTIVES_EPOCH_H_
#define SLUICE_OPS_COLLECTIVES_EPOCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/collectives/hub.h"

namespace sluice::collectives {

// The limit on data for calls that have not begun here, and what is counted for
// a message beside its value.
inline constexpr size_t kEarlyBytes = size_t{1} << 30;
inline constexpr size_t kMessageBytes = 128;

inline size_t BytesOf(const TokenMessage& m) {
  return kMessageBytes + (m.value.valid() ? m.value.bytes() : 0);
}

inline size_t BytesOf(const Note& n) {
  return sizeof(Note) + kMessageBytes + n.member.size() + n.description.size() +
         n.calls.size() * sizeof(n.calls[0]);
}

inline std::string GroupName(int64_t key) {
  return absl::StrCat("group ", key, ": ");
}

// Why calls that need more of a member cannot be.
inline Status HasLeft(int64_t key, const std::string& member) {
  return Aborted(GroupName(key), "expected its members to stay, got '", member,
                 "', whose session was closed");
}

inline Status TooMuch(const std::string& here) {
  return ResourceExhausted("group: expected at most ", kEarlyBytes,
                           " bytes for calls that have not begun in ", here,
                           ", got more");
}

// A formed group. Guarded by the lock of the hub, but for what is constant.
struct Hub::Epoch {
  struct Turn {
    uint32_t next = 0;  // The number of the next call.
    std::shared_ptr<Call> running;
    bool begun = false;    // Of the running one: it is prepared.
    uint64_t session = 0;  // The same: of its step.
    std::map<uint32_t, std::vector<TokenMessage>> early;  // By number.
  };
  // Constant.
  int64_t key = 0;
  uint64_t id = 0;
  std::vector<Member> members;  // By rank.

  bool IsLocal(int64_t rank) const {
    return members[static_cast<size_t>(rank)].peer == kHere;
  }

  bool dead = false;
  Status why;
  uint64_t lost = 0;                                 // As in Note.
  std::map<std::pair<uint32_t, int>, Turn> turns;    // By instance and rank.
  std::map<std::pair<uint32_t, int>, Note> records;  // The same.
  // By rank of this task: the open sessions whose steps have taken part.
  std::map<int, std::set<uint64_t>> sessions;
  // By rank: the members that have left, and their calls by instance.
  std::map<int, std::map<uint32_t, uint32_t>> left;
  // Of what peers have sent: records, and data in turns[].early.
  size_t early_bytes = 0;

  // No member of this task does anything in it.
  bool idle() const {
    return std::none_of(turns.begin(), turns.end(), [](const auto& t) {
      return t.second.running != nullptr;
    });
  }
};

// The groups that a step takes part in; lives as long as the step. Its state is
// guarded by the lock of the hub.
class StepUse final : public Resource,
                      public std::enable_shared_from_this<StepUse> {
 public:
  StepUse(std::shared_ptr<Hub> hub, uint64_t session_of_step)
      : session(session_of_step), hub_(std::move(hub)) {}
  ~StepUse() override {
    if (cancellation_ != nullptr && callback_ >= 0)
      cancellation_->Deregister(callback_);
  }
  std::string TypeName() const override { return "CollectiveStep"; }

  // The callback has been called: the Cancellation may be gone before this.
  void Unwatch() {
    std::lock_guard<std::mutex> lock(watch_mu_);
    cancellation_ = nullptr;
  }
  // Watches for the cancellation of the step.
  void Watch(Cancellation* cancellation) {
    std::lock_guard<std::mutex> lock(watch_mu_);
    if (cancellation_ != nullptr || cancellation == nullptr) return;
    cancellation_ = cancellation;
    callback_ =
        cancellation->Register([weak = weak_from_this(), hub = hub_.get()] {
          if (const auto use = weak.lock()) hub->OnStepCancelled(use);
        });
    if (callback_ < 0) cancelled_at_once_ = true;
  }
  bool cancelled_at_once() {
    std::lock_guard<std::mutex> lock(watch_mu_);
    return cancelled_at_once_;
  }

  const uint64_t session;
  bool cancelled = false;
  std::map<int64_t, std::shared_ptr<Hub::Epoch>> epochs;  // By group.
  std::set<std::pair<int64_t, std::string>> members;      // Group and name.
  std::vector<std::weak_ptr<Call>> calls;

 private:
  const std::shared_ptr<Hub> hub_;
  std::mutex watch_mu_;
  Cancellation* cancellation_ = nullptr;  // GUARDED_BY(watch_mu_)
  int64_t callback_ = -1;                 // GUARDED_BY(watch_mu_)
  bool cancelled_at_once_ = false;        // GUARDED_BY(watch_mu_)
};

}  // namespace sluice::collectives

#endif  // SLUICE_OPS_COLLECTIVES_EPOCH_H_
