#include "cluster/transport/inbox.h"

#include <utility>

namespace sluice {
namespace {
// How far a frame may be ahead of a missing one.
constexpr size_t kMaxEarlyFrames = 65536;
}  // namespace

Status Inbox::Add(IncomingFrame frame, std::vector<IncomingBody*>* bodies) {
  std::list<Item> items;
  for (Record& r : frame.records) {
    if (auto* tokens = std::get_if<IncomingTokens>(&r)) {
      Item& item = items.emplace_back();
      item.step = tokens->step;
      item.partition = tokens->partition;
      item.batch = std::move(tokens->batch);
    } else if (auto* control = std::get_if<IncomingControl>(&r)) {
      Item& item = items.emplace_back();
      item.control = true;
      item.kind = control->kind;
      item.bytes = std::move(control->bytes);
    } else if (auto* large = std::get_if<IncomingLarge>(&r)) {
      Item& item = items.emplace_back();
      item.step = large->step;
      item.partition = large->partition;
      item.batch.push_back(std::move(large->token));
      item.body = std::move(large->body);
      item.missing = true;
    }
  }
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return OkStatus();
  if (frame.number < next_frame_ || early_.contains(frame.number))
    return OkStatus();
  if (frame.number - next_frame_ > kMaxEarlyFrames)
    return InvalidArgument("frames on the wire: expected number ", next_frame_,
                           ", got ", frame.number);
  for (Item& item : items)
    if (item.missing) bodies->push_back(&item.body);
  if (frame.number != next_frame_) {
    if (early_.empty()) gap_since_ = std::chrono::steady_clock::now();
    early_.emplace(frame.number, std::move(items));
    return OkStatus();
  }
  items_.splice(items_.end(), items);
  ++next_frame_;
  gap_since_ = std::chrono::steady_clock::now();
  for (auto it = early_.begin(); it != early_.end() && it->first == next_frame_;
       ++next_frame_) {
    items_.splice(items_.end(), it->second);
    it = early_.erase(it);
  }
  return OkStatus();
}

Status Inbox::CheckGap(std::chrono::nanoseconds max_wait) {
  std::lock_guard<std::mutex> lock(mu_);
  if (early_.empty() ||
      std::chrono::steady_clock::now() - gap_since_ < max_wait)
    return OkStatus();
  return DataLoss("frames on the wire: expected number ", next_frame_,
                  ", got only later ones");
}

Status Inbox::BodyDone(IncomingBody* body) {
  SLUICE_RETURN_IF_ERROR(body->Finish());
  std::lock_guard<std::mutex> lock(mu_);
  body->whole = true;
  return OkStatus();
}

void Inbox::AddTokens(uint64_t step, uint32_t partition,
                      std::span<TokenMessage> batch) {
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return;
  Item& item = items_.emplace_back();
  item.step = step;
  item.partition = partition;
  item.batch.assign(std::move_iterator(batch.begin()),
                    std::move_iterator(batch.end()));
}

void Inbox::AddControl(uint8_t kind, std::string_view bytes) {
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return;
  Item& item = items_.emplace_back();
  item.control = true;
  item.kind = kind;
  item.bytes = bytes;
}

bool Inbox::Next(Item* out) {
  for (auto it = items_.begin(); it != items_.end(); ++it) {
    if (it->control) {
      // Everything before it must have been delivered.
      if (it != items_.begin()) return false;
    } else if (it->missing) {
      if (!it->body.whole) continue;
      it->batch[0].value = std::move(it->body.tensor);
    }
    *out = std::move(*it);
    items_.erase(it);
    return true;
  }
  return false;
}

int64_t Inbox::Drain(TransportHandler* handler, PeerId from, bool* more,
                     int64_t max_items) {
  int64_t delivered = 0;
  Item item;
  std::unique_lock<std::mutex> lock(mu_);
  if (draining_) return 0;
  draining_ = true;
  drainer_ = std::this_thread::get_id();
  while (!closed_ && max_items-- > 0 && Next(&item)) {
    lock.unlock();
    if (item.control) {
      handler->OnControl(from, item.kind, item.bytes);
    } else {
      delivered += static_cast<int64_t>(item.batch.size());
      handler->OnTokens(from, item.step, item.partition, item.batch);
      item.batch.clear();
    }
    lock.lock();
  }
  draining_ = false;
  drainer_ = std::thread::id();
  if (more != nullptr) *more = !closed_ && !items_.empty();
  idle_.notify_all();
  return delivered;
}

bool Inbox::BeginDirect() {
  std::lock_guard<std::mutex> lock(mu_);
  if (draining_ || closed_ || !items_.empty()) return false;
  draining_ = true;
  drainer_ = std::this_thread::get_id();
  return true;
}

bool Inbox::EndDirect() {
  std::lock_guard<std::mutex> lock(mu_);
  draining_ = false;
  drainer_ = std::thread::id();
  idle_.notify_all();
  return !closed_ && !items_.empty();
}

void Inbox::Close() {
  std::lock_guard<std::mutex> lock(mu_);
  closed_ = true;
  // (Bodies that are being filled stay in place.)
}

void Inbox::AwaitIdle() {
  std::unique_lock<std::mutex> lock(mu_);
  idle_.wait(lock, [&] {
    return !draining_ || drainer_ == std::this_thread::get_id();
  });
}

}  // namespace sluice
