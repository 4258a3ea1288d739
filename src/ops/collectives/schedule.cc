#include "ops/collectives/schedule.h"

#include <algorithm>
#include <map>
#include <utility>

namespace sluice::collectives {
namespace {

using Kind = Action::Kind;
using Lane = std::vector<Action>;

// What is sent at once: large enough to make the cost of a message small, small
// enough that three pieces (both inputs and the result of a merge) stay in a
// core's cache.
constexpr int64_t kPieceBytes = 512 << 10;
// Values up to this size go directly to all, in groups up to kDirectMembers.
constexpr int64_t kDirectBytes = 64 << 10;
constexpr int kDirectMembers = 8;

// Element ranges of parts, in pieces.
class Parts {
 public:
  explicit Parts(const ScheduleRequest& r) : r_(r) {
    piece_ = std::max<int64_t>(1, kPieceBytes / r.element_bytes);
    for (int c = 0; c < r.members; ++c)
      largest_ = std::max(largest_, Begin(c + 1) - Begin(c));
  }
  int64_t lanes() const {
    return std::max<int64_t>(1, (largest_ + piece_ - 1) / piece_);
  }
  // Piece `lane` of the part, for any integer `part`.
  Action Of(Kind kind, int part, int64_t lane, int peer,
            bool from_input = false) const {
    const int c = ((part % r_.members) + r_.members) % r_.members;
    const int64_t end = Begin(c + 1);
    return {kind, peer, from_input, std::min(end, Begin(c) + lane * piece_),
            std::min(end, Begin(c) + (lane + 1) * piece_)};
  }

 private:
  int64_t Begin(int c) const {
    if (r_.row <= 0) return 0;
    return PartBegin(r_.count / r_.row, c, r_.members) * r_.row;
  }
  const ScheduleRequest& r_;
  int64_t piece_ = 1, largest_ = 0;
};

// Parts travel around the ring, each member adding its own; then, unless they
// are to be scattered, the results travel around once more.
void Ring(const ScheduleRequest& r, std::vector<Lane>* lanes) {
  const Parts parts(r);
  const int n = r.members;
  const int next = (r.rank + 1) % n, previous = (r.rank + n - 1) % n;
  // The part that a member begins with: such that in the end it owns the part
  // of its rank if that is to be scattered, else the next.
  const int first =
      r.operation == Operation::kReduceScatter ? r.rank - 1 : r.rank;
  for (int64_t p = 0; p < parts.lanes(); ++p) {
    Lane lane;
    int owned = r.rank;
    if (r.operation == Operation::kGather) {
      lane.push_back(parts.Of(Kind::kCopyInput, owned, p, -1));
    } else {
      for (int s = 0; s < n - 1; ++s) {
        lane.push_back(parts.Of(Kind::kSend, first - s, p, next, s == 0));
        lane.push_back(parts.Of(Kind::kMergeInto, first - s - 1, p, previous));
      }
      owned = first - (n - 1);
      if (r.mean) lane.push_back(parts.Of(Kind::kDivide, owned, p, -1));
    }
    if (r.operation != Operation::kReduceScatter) {
      for (int s = 0; s < n - 1; ++s) {
        lane.push_back(parts.Of(Kind::kSend, owned - s, p, next));
        lane.push_back(parts.Of(Kind::kStore, owned - s - 1, p, previous));
      }
    }
    lanes->push_back(std::move(lane));
  }
}

// Pieces of the whole value, for trees.
template <typename Fn>
void ForPieces(const ScheduleRequest& r, Fn fn) {
  const int64_t piece = std::max<int64_t>(1, kPieceBytes / r.element_bytes);
  int64_t begin = 0;
  do {
    const int64_t end = std::min(r.count, begin + piece);
    fn([begin, end](Kind kind, int peer, bool from_input = false) {
      return Action{kind, peer, from_input, begin, end};
    });
    begin = end;
  } while (begin < r.count);
}

// From the root (relative rank 0) to all; `acknowledge`: the root ends when all
// have it.
template <typename Make>
void SendDown(const ScheduleRequest& r, const Make& make, bool from_input,
              bool acknowledge, Lane* lane) {
  const int n = r.members, v = (r.rank - r.root + n) % n;
  const auto rank = [&](int relative) { return (relative + r.root) % n; };
  int mask = 1;
  while (mask < n && (v & mask) == 0) mask <<= 1;
  if (v != 0) lane->push_back(make(Kind::kStore, rank(v - mask), false));
  std::vector<int> children;
  for (mask >>= 1; mask > 0; mask >>= 1)
    if (v + mask < n) children.push_back(rank(v + mask));
  for (const int c : children)
    lane->push_back(make(Kind::kSend, c, from_input && v == 0));
  if (!acknowledge) return;
  for (const int c : children)
    lane->push_back(Action{Kind::kStore, c, false, 0, 0});
  int low = 1;
  while (v != 0 && (v & low) == 0) low <<= 1;
  if (v != 0) lane->push_back(Action{Kind::kSend, rank(v - low), false, 0, 0});
}

void Tree(const ScheduleRequest& r, std::vector<Lane>* lanes) {
  ForPieces(r, [&](auto make) {
    Lane lane;
    if (r.operation == Operation::kBroadcast) {
      SendDown(r, make, true, true, &lane);
    } else {
      bool merged = false;
      for (int mask = 1; mask < r.members; mask <<= 1) {
        if ((r.rank & mask) != 0) {
          lane.push_back(make(Kind::kSend, r.rank - mask, !merged));
          break;
        }
        if (r.rank + mask >= r.members) continue;
        lane.push_back(make(Kind::kMerge, r.rank + mask, !merged));
        merged = true;
      }
      if (r.mean && r.rank == 0) lane.push_back(make(Kind::kDivide, -1, false));
      SendDown(r, make, false, false, &lane);
    }
    lanes->push_back(std::move(lane));
  });
}

// Merges in the order of ranks, so that all compute the same.
void Direct(const ScheduleRequest& r, std::vector<Lane>* lanes) {
  const Parts parts(r);
  const auto whole = [&](Kind kind, int peer, bool from_input) {
    return Action{kind, peer, from_input, 0, r.count};
  };
  Lane lane;
  const bool gathers = r.operation == Operation::kGather;
  if (gathers) {
    lane.push_back(parts.Of(Kind::kCopyInput, r.rank, 0, -1));
  }
  for (int i = 1; i < r.members; ++i) {
    const int to = (r.rank + i) % r.members;
    lane.push_back(gathers ? parts.Of(Kind::kSend, r.rank, 0, to, true)
                           : whole(Kind::kSend, to, true));
  }
  for (int i = 0; i < r.members; ++i) {
    if (gathers) {
      if (i != r.rank) lane.push_back(parts.Of(Kind::kStore, i, 0, i));
    } else if (i == r.rank) {
      if (i > 0) lane.push_back(whole(Kind::kMergeInput, -1, false));
    } else if (i == 0) {
      lane.push_back(whole(Kind::kStore, i, false));
    } else {
      lane.push_back(whole(Kind::kMerge, i, r.rank == 0 && i == 1));
    }
  }
  if (r.mean) lane.push_back(whole(Kind::kDivide, -1, false));
  lanes->push_back(std::move(lane));
}

}  // namespace

Algorithm ChooseAlgorithm(Operation operation, int members, int64_t bytes) {
  const bool small = bytes <= kDirectBytes;
  switch (operation) {
    case Operation::kBroadcast:
      return Algorithm::kTree;
    case Operation::kReduceScatter:
      return Algorithm::kRing;
    case Operation::kGather:
      return small && members <= kDirectMembers ? Algorithm::kDirect
                                                : Algorithm::kRing;
    case Operation::kReduce:
      if (!small) return Algorithm::kRing;
      return members <= kDirectMembers ? Algorithm::kDirect : Algorithm::kTree;
  }
  return Algorithm::kRing;
}

Schedule MakeSchedule(const ScheduleRequest& request) {
  Schedule s;
  ScheduleRequest r = request;
  const bool by_rows = r.operation == Operation::kGather ||
                       r.operation == Operation::kReduceScatter;
  if (!by_rows) r.row = 1;
  if (r.operation == Operation::kGather || r.operation == Operation::kBroadcast)
    r.mean = false;
  if (r.operation != Operation::kBroadcast) r.root = 0;
  Algorithm a = r.algorithm;
  const int64_t bytes = r.count * r.element_bytes;
  const Algorithm usual = ChooseAlgorithm(r.operation, r.members, bytes);
  // A hint that does not fit the operation (or, for kDirect, its size) is none.
  if (a == Algorithm::kAuto || r.operation == Operation::kBroadcast ||
      r.operation == Operation::kReduceScatter ||
      (a == Algorithm::kTree && r.operation == Operation::kGather) ||
      (a == Algorithm::kDirect && bytes > kPieceBytes))
    a = usual;
  if (r.operation == Operation::kGather && r.row > 0)
    s.shift = PartBegin(r.count / r.row, r.rank, r.members) * r.row;
  switch (a) {
    case Algorithm::kTree:
      Tree(r, &s.lanes);
      break;
    case Algorithm::kDirect:
      Direct(r, &s.lanes);
      break;
    default:
      Ring(r, &s.lanes);
  }
  for (Lane& lane : s.lanes) {
    std::map<int, uint32_t> sent, received;
    for (Action& action : lane) {
      if (action.kind == Kind::kSend)
        action.number = sent[action.peer]++;
      else if (action.receives())
        action.number = received[action.peer]++;
    }
  }
  return s;
}

}  // namespace sluice::collectives
