#include "ops/collectives/call.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/simd/copy_past.h"

namespace sluice::collectives {
namespace {

using Kind = Action::Kind;

// FNV-1a: the same in all processes.
uint32_t HashOf(const std::string& s) {
  uint32_t h = 2166136261u;
  for (const char c : s) h = (h ^ static_cast<uint8_t>(c)) * 16777619u;
  return h;
}

// Elements [begin, end) as a vector. Shares the buffer, if there is one.
Tensor PieceOf(const Tensor& t, int64_t begin, int64_t end, size_t bytes) {
  const Shape shape({end - begin});
  char* const at = static_cast<char*>(const_cast<void*>(t.raw())) +
                   static_cast<size_t>(begin) * bytes;
  if (t.has_buffer() && end > begin) {
    t.buffer()->Ref();
    if (Result<Tensor> view =
            Tensor::MakeView(t.dtype(), shape, t.buffer(), at);
        view.ok())
      return *std::move(view);
  }
  Result<Tensor> copy = Tensor::Make(t.dtype(), shape);
  if (!copy.ok()) return Tensor();
  if (end > begin)
    std::memcpy(copy->raw(), at, static_cast<size_t>(end - begin) * bytes);
  return *std::move(copy);
}

// The number of lanes under way at once: enough to keep the members busy, few
// enough that a piece is still in a cache when it is sent on.
constexpr size_t kLanesAtOnce = 8;
// Outputs of at least this size are not in a cache when they are complete: what
// is stored there and not sent on goes past the caches.
constexpr size_t kPastCaches = 4 << 20;

void StoreBytes(char* to, const void* from, size_t bytes, bool past) {
  if (past)
    simd::CopyPast(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

}  // namespace

// Stores or merges what a member sends.
class Call::Landing final : public ValueSink {
 public:
  // `to`: a part of the output, or for what is passed on a tensor of its own.
  Landing(const Call& call, const Action& action, Tensor to)
      : action_(action),
        dtype_(call.dtype_),
        merge_(call.spec_.merge),
        bytes_(static_cast<size_t>(call.element_bytes_)),
        past_(action.last && call.output_.bytes() >= kPastCaches),
        result_(std::move(to)),
        to_(static_cast<char*>(result_.raw())) {
    if (action.kind == Kind::kStore) return;
    if (action.kind == Kind::kMerge && !action.from_input) {
      ours_ = to_;
      return;
    }
    input_ = call.input_;
    ours_ = static_cast<const char*>(input_.raw()) +
            static_cast<size_t>(action.begin - call.schedule_.shift) * bytes_;
  }

  void Put(std::string_view bytes) override {
    if (action_.kind == Kind::kStore) {
      StoreBytes(to_, bytes.data(), bytes.size(), past_);
      to_ += bytes.size();
      return;
    }
    // The rest of an element.
    while (split_ > 0 && !bytes.empty()) {
      element_[split_++] = bytes[0];
      bytes.remove_prefix(1);
      if (split_ < bytes_) continue;
      MergeWhole(element_, bytes_);
      split_ = 0;
    }
    const size_t whole = bytes.size() / bytes_ * bytes_;
    std::string_view elements = bytes.substr(0, whole);
    if (reinterpret_cast<uintptr_t>(bytes.data()) % bytes_ == 0) {
      MergeWhole(elements.data(), whole);
    } else {
      alignas(8) char aligned[4096];
      while (!elements.empty()) {
        const size_t n = std::min(elements.size(), sizeof(aligned));
        std::memcpy(aligned, elements.data(), n);
        MergeWhole(aligned, n);
        elements.remove_prefix(n);
      }
    }
    for (const char c : bytes.substr(whole)) element_[split_++] = c;
  }

  Tensor Take() override { return std::move(result_); }

 private:
  // Merges aligned elements.
  void MergeWhole(const char* theirs, size_t bytes) {
    const auto count = static_cast<int64_t>(bytes / bytes_);
    if (action_.kind == Kind::kMerge)
      Merge(dtype_, merge_, ours_, theirs, to_, count);
    else
      Merge(dtype_, merge_, theirs, ours_, to_, count);
    to_ += bytes;
    ours_ += bytes;
  }

  const Action action_;
  const DType dtype_;
  const MergeOp merge_;
  const size_t bytes_;  // Of an element.
  const bool past_;
  // (They keep the memory, also of a call that has failed meanwhile.)
  Tensor input_, result_;
  char* to_;
  const char* ours_ = nullptr;
  alignas(8) char element_[8] = {};  // One that has come in part.
  size_t split_ = 0;                 // Bytes of it.
};

std::string CallSpec::Describe(DType dtype, const Shape& shape) const {
  const std::string of =
      absl::StrCat(" of ", DTypeName(dtype), shape.ToString(), " by ", size);
  switch (operation) {
    case Operation::kReduce:
      return absl::StrCat(NameOf(merge), mean ? " and division" : "", of,
                          " (algorithm ", static_cast<int>(algorithm), ")");
    case Operation::kBroadcast:
      return absl::StrCat("broadcast", of);
    case Operation::kGather:
      return absl::StrCat("gather", of, " (algorithm ",
                          static_cast<int>(algorithm), ")");
    case Operation::kReduceScatter:
      return absl::StrCat(NameOf(merge), mean ? " and division" : "",
                          " and scatter", of);
  }
  return "";
}

TokenTag DataKey::tag() const {
  TokenTag t;
  t.frame = absl::MakeUint128(uint64_t{instance} << 32 | to,
                              uint64_t{call} << 32 | from);
  t.iteration = static_cast<int64_t>(uint64_t{lane} << 32 | number);
  return t;
}

DataKey DataKey::Of(const TokenTag& tag) {
  const uint64_t high = absl::Uint128High64(tag.frame);
  const uint64_t low = absl::Uint128Low64(tag.frame);
  const auto at = static_cast<uint64_t>(tag.iteration);
  DataKey k;
  k.instance = static_cast<uint32_t>(high >> 32);
  k.to = static_cast<uint32_t>(high);
  k.call = static_cast<uint32_t>(low >> 32);
  k.from = static_cast<uint32_t>(low);
  k.lane = static_cast<uint32_t>(at >> 32);
  k.number = static_cast<uint32_t>(at);
  return k;
}

Call::Call(CallSpec spec, Tensor input, Tensor output, DType dtype, Shape shape,
           Done done)
    : spec_(std::move(spec)),
      input_(std::move(input)),
      output_(std::move(output)),
      dtype_(dtype),
      shape_(std::move(shape)),
      element_bytes_(static_cast<int64_t>(DTypeSize(dtype))),
      description_(spec_.Describe(dtype, shape_)),
      hash_(HashOf(description_)),
      done_(std::move(done)) {}

void Call::Prepare(int rank, int members, int root, uint32_t number,
                   std::function<void(std::vector<Outgoing>*)> send) {
  rank_ = rank;
  members_ = members;
  number_ = number;
  send_ = std::move(send);
  ScheduleRequest r;
  r.operation = spec_.operation;
  r.algorithm = spec_.algorithm;
  r.rank = rank;
  r.members = members;
  r.root = root;
  r.count = shape_.num_elements();
  if (spec_.operation == Operation::kGather) r.count *= members;
  r.row = shape_.rank() > 0 && shape_.dim(0) > 0
              ? shape_.num_elements() / shape_.dim(0)
              : 0;
  r.element_bytes = element_bytes_;
  r.mean = spec_.mean;
  schedule_ = MakeSchedule(r);
  lanes_.resize(schedule_.lanes.size());
  lanes_left_ = lanes_.size();
}

bool Call::Begin() {
  std::vector<Outgoing> out;
  std::unique_lock<std::mutex> lock(mu_);
  if (over_) return false;
  ++inside_;
  begun_ = true;
  StartLanes(&lock, &out);
  lock.unlock();
  if (!out.empty()) send_(&out);
  return Leave();
}

Status Call::Arrive(const DataKey& key, Tensor value, bool* ended) {
  *ended = false;
  std::vector<Outgoing> out;
  std::unique_lock<std::mutex> lock(mu_);
  if (over_) return OkStatus();
  if (key.lane >= lanes_.size() ||
      key.from >= static_cast<uint32_t>(members_) || value.dtype() != dtype_)
    return InvalidArgument("expected a part of ", description_,
                           ", got another from member ", key.from);
  // (Not kept unless it is used, so that a peer fills no memory.)
  const Action* const action = ActionOf(key);
  if (action == nullptr)
    return InvalidArgument("expected each part of ", description_,
                           " once, got part ", key.number, " from member ",
                           key.from);
  if (value.num_elements() != action->end - action->begin)
    return InvalidArgument("expected ", action->end - action->begin,
                           " elements of ", description_, " from member ",
                           key.from, ", got ", value.num_elements());
  const ParkedKey at(uint64_t{key.lane} << 32 | key.from, key.number);
  const auto coming = coming_.find(at);
  const bool in_place = coming != coming_.end();
  if ((in_place && value.raw() != coming->second) ||
      !parked_.emplace(at, Arrived{std::move(value), in_place}).second)
    return InvalidArgument("expected each part once, got one again from ",
                           "member ", key.from);
  if (in_place) coming_.erase(coming);
  if (!begun_ || key.lane >= started_) return OkStatus();
  ++inside_;
  Advance(key.lane, &lock, &out);
  StartLanes(&lock, &out);
  lock.unlock();
  if (!out.empty()) send_(&out);
  *ended = Leave();
  return OkStatus();
}

std::unique_ptr<ValueSink> Call::Receive(const DataKey& key, DType dtype,
                                         int64_t count) {
  std::lock_guard<std::mutex> lock(mu_);
  if (over_ || !begun_ || key.lane >= lanes_.size() || dtype != dtype_)
    return nullptr;
  const LaneState& state = lanes_[key.lane];
  const Action* const a = ActionOf(key);
  if (a == nullptr || a->end - a->begin != count) return nullptr;
  const bool turn = key.lane < started_ && !state.busy &&
                    a == &schedule_.lanes[key.lane][state.next];
  const ParkedKey at(uint64_t{key.lane} << 32 | key.from, key.number);
  if ((!turn && !a->early) || parked_.contains(at)) return nullptr;
  Tensor to;
  if (a->passing) {
    Result<Tensor> made = Tensor::Make(dtype_, Shape({count}));
    if (!made.ok()) return nullptr;
    to = *std::move(made);
  } else {
    to =
        PieceOf(output_, a->begin, a->end, static_cast<size_t>(element_bytes_));
    if (to.valid() && to.raw() != At(output_, a->begin)) return nullptr;
  }
  // (A few elements are within the tensor, wherever that is.)
  if (!to.valid() || !to.has_buffer()) return nullptr;
  if (!coming_.emplace(at, to.raw()).second) return nullptr;
  return std::make_unique<Landing>(*this, *a, std::move(to));
}

const Action* Call::ActionOf(const DataKey& key) const {
  const std::vector<Action>& actions = schedule_.lanes[key.lane];
  const auto action = std::find_if(
      actions.begin() + static_cast<ptrdiff_t>(lanes_[key.lane].next),
      actions.end(), [&](const Action& a) {
        return a.receives() && a.number == key.number &&
               static_cast<uint32_t>(a.peer) == key.from;
      });
  return action == actions.end() ? nullptr : &*action;
}

void Call::StartLanes(std::unique_lock<std::mutex>* lock,
                      std::vector<Outgoing>* out) {
  // (Lanes of all members start in the same order, so the first one that has
  // not ended is under way everywhere, and ends.)
  while (!over_ && started_ < lanes_.size() &&
         started_ < lanes_.size() - lanes_left_ + kLanesAtOnce)
    Advance(started_++, lock, out);
}

void Call::Advance(size_t lane, std::unique_lock<std::mutex>* lock,
                   std::vector<Outgoing>* out) {
  LaneState& state = lanes_[lane];
  const std::vector<Action>& actions = schedule_.lanes[lane];
  if (state.busy) return;
  state.busy = true;
  while (!over_ && state.next < actions.size()) {
    const Action& action = actions[state.next];
    Arrived arrived;
    if (action.receives()) {
      const auto it = parked_.find(
          {uint64_t{lane} << 32 | static_cast<uint32_t>(action.peer),
           action.number});
      if (it == parked_.end()) break;
      arrived = std::move(it->second);
      parked_.erase(it);
    }
    lock->unlock();
    Status s;
    if (action.kind == Kind::kSend)
      out->push_back({action.peer, MessageOf(action, lane, &state.passing)});
    else
      s = Perform(action, std::move(arrived), &state.passing);
    lock->lock();
    ++state.next;
    if (s.ok() || over_) continue;
    status_ = s;
    over_ = true;
  }
  state.busy = false;
  if (state.next == actions.size() && !over_ && --lanes_left_ == 0)
    over_ = true;
}

char* Call::At(Tensor& t, int64_t element) const {
  return static_cast<char*>(t.raw()) + element * element_bytes_;
}

Status Call::Perform(const Action& a, Arrived arrived, Tensor* passing) {
  const int64_t count = a.end - a.begin;
  Tensor value = std::move(arrived.value);
  if (arrived.in_place || count == 0) {
    if (a.passing) *passing = std::move(value);
    return OkStatus();
  }
  if (a.passing) {
    SLUICE_ASSIGN_OR_RETURN(*passing, Tensor::Make(dtype_, Shape({count})));
  }
  char* const to =
      a.passing ? static_cast<char*>(passing->raw()) : At(output_, a.begin);
  const auto input = [&] { return At(input_, a.begin - schedule_.shift); };
  const auto bytes = static_cast<size_t>(count * element_bytes_);
  switch (a.kind) {
    case Kind::kStore:
      StoreBytes(to, value.raw(), bytes,
                 a.last && output_.bytes() >= kPastCaches);
      break;
    case Kind::kMerge:
      Merge(dtype_, spec_.merge, a.from_input ? input() : to, value.raw(), to,
            count);
      break;
    case Kind::kMergeInto:
      Merge(dtype_, spec_.merge, value.raw(), input(), to, count);
      break;
    case Kind::kCopyInput:
      std::memcpy(to, input(), bytes);
      break;
    case Kind::kMergeInput:
      Merge(dtype_, spec_.merge, to, input(), to, count);
      break;
    case Kind::kDivide:
      Divide(dtype_, to, count, members_);
      break;
    case Kind::kSend:
      break;
  }
  return OkStatus();
}

TokenMessage Call::MessageOf(const Action& a, size_t lane,
                             Tensor* passing) const {
  TokenMessage m;
  m.edge = hash_;
  DataKey key;
  key.instance = static_cast<uint32_t>(spec_.instance);
  key.to = static_cast<uint32_t>(a.peer);
  key.call = number_;
  key.from = static_cast<uint32_t>(rank_);
  key.lane = static_cast<uint32_t>(lane);
  key.number = a.number;
  m.tag = key.tag();
  const int64_t shift = a.from_input ? schedule_.shift : 0;
  m.value = a.passing ? std::move(*passing)
            : a.begin == a.end
                ? Tensor(dtype_, Shape({0}))
                : PieceOf(a.from_input ? input_ : output_, a.begin - shift,
                          a.end - shift, static_cast<size_t>(element_bytes_));
  return m;
}

bool Call::Leave() {
  std::lock_guard<std::mutex> lock(mu_);
  if (--inside_ > 0 || !over_ || ended_) return false;
  ended_ = true;
  return true;
}

bool Call::Fail(const Status& why, bool* ended) {
  std::lock_guard<std::mutex> lock(mu_);
  const bool fails = !over_;
  if (fails) status_ = why;
  over_ = true;
  *ended = !ended_ && inside_ == 0;
  ended_ = ended_ || *ended;
  return fails;
}

void Call::Complete() {
  const Done done = std::move(done_);
  parked_.clear();
  Tensor result;
  if (status_.ok()) {
    const bool sent = spec_.operation == Operation::kBroadcast && spec_.root;
    result = std::move(sent ? input_ : output_);
  }
  input_ = Tensor();
  output_ = Tensor();
  if (status_.ok())
    done(*this, std::move(result));
  else
    done(*this, status_);
}

}  // namespace sluice::collectives
