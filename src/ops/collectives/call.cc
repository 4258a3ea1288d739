#include "ops/collectives/call.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

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

}  // namespace

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
  for (size_t i = 0; i < lanes_.size(); ++i) Advance(i, &lock, &out);
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
  const std::vector<Action>& actions = schedule_.lanes[key.lane];
  const auto action = std::find_if(
      actions.begin() + static_cast<ptrdiff_t>(lanes_[key.lane].next),
      actions.end(), [&](const Action& a) {
        return a.receives() && a.number == key.number &&
               static_cast<uint32_t>(a.peer) == key.from;
      });
  if (action == actions.end())
    return InvalidArgument("expected each part of ", description_,
                           " once, got part ", key.number, " from member ",
                           key.from);
  if (value.num_elements() != action->end - action->begin)
    return InvalidArgument("expected ", action->end - action->begin,
                           " elements of ", description_, " from member ",
                           key.from, ", got ", value.num_elements());
  const ParkedKey at(uint64_t{key.lane} << 32 | key.from, key.number);
  if (!parked_.emplace(at, std::move(value)).second)
    return InvalidArgument("expected each part once, got one again from ",
                           "member ", key.from);
  if (!begun_) return OkStatus();
  ++inside_;
  Advance(key.lane, &lock, &out);
  lock.unlock();
  if (!out.empty()) send_(&out);
  *ended = Leave();
  return OkStatus();
}

void Call::Advance(size_t lane, std::unique_lock<std::mutex>* lock,
                   std::vector<Outgoing>* out) {
  LaneState& state = lanes_[lane];
  const std::vector<Action>& actions = schedule_.lanes[lane];
  if (state.busy || state.next == actions.size()) return;
  state.busy = true;
  while (!over_ && state.next < actions.size()) {
    const Action& action = actions[state.next];
    Tensor value;
    if (action.receives()) {
      const auto it = parked_.find(
          {uint64_t{lane} << 32 | static_cast<uint32_t>(action.peer),
           action.number});
      if (it == parked_.end()) break;
      value = std::move(it->second);
      parked_.erase(it);
    }
    lock->unlock();
    if (action.kind == Kind::kSend)
      out->push_back({action.peer, MessageOf(action, lane)});
    else
      Perform(action, value);
    lock->lock();
    ++state.next;
  }
  state.busy = false;
  if (state.next == actions.size() && !over_ && --lanes_left_ == 0)
    over_ = true;
}

char* Call::At(Tensor& t, int64_t element) const {
  return static_cast<char*>(t.raw()) + element * element_bytes_;
}

void Call::Perform(const Action& a, const Tensor& value) {
  const int64_t count = a.end - a.begin;
  if (count == 0) return;
  char* const to = At(output_, a.begin);
  const auto input = [&] { return At(input_, a.begin - schedule_.shift); };
  switch (a.kind) {
    case Kind::kStore:
      std::memcpy(to, value.raw(), static_cast<size_t>(count * element_bytes_));
      return;
    case Kind::kMerge:
      return Merge(dtype_, spec_.merge, a.from_input ? input() : to,
                   value.raw(), to, count);
    case Kind::kMergeInto:
      return Merge(dtype_, spec_.merge, value.raw(), input(), to, count);
    case Kind::kCopyInput:
      std::memcpy(to, input(), static_cast<size_t>(count * element_bytes_));
      return;
    case Kind::kMergeInput:
      return Merge(dtype_, spec_.merge, to, input(), to, count);
    case Kind::kDivide:
      return Divide(dtype_, to, count, members_);
    case Kind::kSend:
      return;
  }
}

TokenMessage Call::MessageOf(const Action& a, size_t lane) const {
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
  m.value = a.begin == a.end
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
