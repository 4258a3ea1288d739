#include "exec/scheduling/parameter_cache.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// Numbers names in the order of their first use.
struct NumberedNames {
  std::mutex mu;
  absl::flat_hash_map<std::string, int> numbers;  // GUARDED_BY(mu)
  int Of(const std::string& name) {
    std::lock_guard<std::mutex> lock(mu);
    return numbers.try_emplace(name, static_cast<int>(numbers.size()))
        .first->second;
  }
};

int64_t SizeOf(const Tensor& t) {
  return t.valid() ? static_cast<int64_t>(t.bytes()) : 0;
}

}  // namespace

int ParameterNumber(const std::string& name) {
  static auto* const names = new NumberedNames;
  return names->Of(name);
}

int ScheduledDeviceNumber(const std::string& name) {
  static auto* const names = new NumberedNames;
  return names->Of(name);
}

namespace {

struct BodyMemories {
  std::mutex mu;
  std::vector<int64_t> bytes;  // By device. GUARDED_BY(mu)
};
BodyMemories& AllBodyMemories() {
  static auto* const all = new BodyMemories;
  return *all;
}

}  // namespace

void SetBodyMemory(int device_number, int64_t bytes) {
  BodyMemories& all = AllBodyMemories();
  std::lock_guard<std::mutex> lock(all.mu);
  const auto n = static_cast<size_t>(device_number);
  if (n >= all.bytes.size()) all.bytes.resize(n + 1, INT64_MAX);
  all.bytes[n] = bytes;
}

int64_t BodyMemory(int device_number) {
  BodyMemories& all = AllBodyMemories();
  std::lock_guard<std::mutex> lock(all.mu);
  const auto n = static_cast<size_t>(device_number);
  return n < all.bytes.size() ? all.bytes[n] : INT64_MAX;
}

std::string ParameterCache::NameFor(const std::string& device, int64_t number) {
  return absl::StrCat("_parameters of ", device, ", number ", number);
}

Tensor ParameterCache::Find(int parameter, const Tensor& value) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto p = static_cast<size_t>(parameter);
  if (p >= entries_.size() || !entries_[p].copy.valid()) return Tensor();
  Entry& e = entries_[p];
  if (!e.value->SharesBufferWith(value) || e.value->raw() != value.raw() ||
      !(e.value->shape() == value.shape()))
    return Tensor();
  e.used = ++clock_;
  ++stats_.hits;
  return e.copy;
}

void ParameterCache::Drop(Entry* e, Dropped* dropped) {
  stats_.bytes -= SizeOf(e->copy);
  dropped->copies.push_back(std::exchange(e->copy, Tensor()));
  dropped->values.push_back(std::move(e->value));
}

ParameterCache::Entry* ParameterCache::LeastRecent(bool unused_only) {
  Entry* least = nullptr;
  for (Entry& e : entries_) {
    if (!e.copy.valid() || (least != nullptr && e.used >= least->used))
      continue;
    if (unused_only && !e.copy.buffer()->unique()) continue;
    least = &e;
  }
  return least;
}

void ParameterCache::Keep(int parameter, std::shared_ptr<const Tensor> value,
                          Tensor copy) {
  Dropped dropped;
  std::lock_guard<std::mutex> lock(mu_);
  ++stats_.fetches;
  const auto p = static_cast<size_t>(parameter);
  if (p >= entries_.size()) entries_.resize(p + 1);
  if (entries_[p].copy.valid()) Drop(&entries_[p], &dropped);
  const int64_t size = SizeOf(copy);
  if (size > max_bytes_) return;
  while (stats_.bytes + size > max_bytes_) {
    // (One in use takes its memory until it is not, whether it is kept or not.)
    Entry* least = LeastRecent(/*unused_only=*/true);
    if (least == nullptr) least = LeastRecent(/*unused_only=*/false);
    if (least == nullptr) break;
    Drop(least, &dropped);
    ++stats_.evictions;
  }
  stats_.bytes += size;
  entries_[p] = {std::move(value), std::move(copy), ++clock_};
}

int64_t ParameterCache::Evict(int64_t bytes) {
  Dropped dropped;
  std::lock_guard<std::mutex> lock(mu_);
  int64_t freed = 0;
  while (freed < bytes) {
    Entry* const least = LeastRecent(/*unused_only=*/true);
    if (least == nullptr) break;
    freed += SizeOf(least->copy);
    Drop(least, &dropped);
    ++stats_.evictions;
  }
  return freed;
}

int64_t ParameterCache::BytesOf(std::span<const int> parameters) {
  Dropped dropped;
  std::lock_guard<std::mutex> lock(mu_);
  int64_t bytes = 0;
  for (const int parameter : parameters) {
    const auto p = static_cast<size_t>(parameter);
    if (p >= entries_.size() || !entries_[p].copy.valid()) continue;
    Entry& e = entries_[p];
    if (e.value->unique())
      Drop(&e, &dropped);
    else
      bytes += SizeOf(e.copy);
  }
  return bytes;
}

ParameterCache::Stats ParameterCache::stats() const {
  std::lock_guard<std::mutex> lock(mu_);
  return stats_;
}

}  // namespace sluice
