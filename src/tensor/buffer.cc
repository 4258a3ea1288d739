#include "tensor/buffer.h"

#include <bit>
#include <cstdlib>
#include <new>

#include "absl/base/internal/spinlock.h"

namespace sluice {
namespace {

constexpr size_t kAlign = 64;
constexpr int kClasses = 4 * 42;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCache = false;
#else
constexpr bool kCache = true;
#endif

thread_local int64_t thread_allocated = 0;

}  // namespace

int64_t ThreadAllocatedBytes() { return thread_allocated; }

// Header and data in one piece of memory: [Block, padded to 64][data].
class Allocator::Block final : public Buffer {
 public:
  Block(Allocator* owner, int size_class, size_t bytes)
      : Buffer(reinterpret_cast<char*>(this) + kAlign, bytes),
        owner_(owner),
        size_class_(size_class) {}

  Allocator* owner_;
  Block* next_ = nullptr;  // In a free list.
  int size_class_;

 private:
  void Free() override { owner_->Recycle(this); }
};

struct Allocator::SizeClass {
  absl::base_internal::SpinLock lock;
  Block* free = nullptr;  // GUARDED_BY(lock)
};

Allocator::Allocator(int64_t max_bytes, int64_t max_cached)
    : max_bytes_(max_bytes),
      max_cached_(max_cached),
      classes_(new SizeClass[kClasses]) {
  static_assert(sizeof(Block) <= kAlign);
}

Allocator::~Allocator() { ReleaseCache(); }

Allocator* Allocator::Cpu() {
  static Allocator* cpu = new Allocator();
  return cpu;
}

// Classes are 64 * {1, 1.25, 1.5, 1.75} * 2^k: at most a quarter is wasted.
int Allocator::ClassOf(size_t bytes, size_t* rounded) {
  const size_t units = bytes <= kAlign ? 1 : (bytes + kAlign - 1) / kAlign;
  const int log = static_cast<int>(std::bit_width(units)) - 1;
  const size_t base = size_t{1} << log;
  const size_t step = base >= 4 ? base / 4 : 1;
  const size_t quarter = (units - base + step - 1) / step;
  const size_t parts = base + quarter * step;
  *rounded = parts * kAlign;
  // Parts == 2 * base falls into the next power of two.
  return 4 * log + static_cast<int>(quarter);
}

Result<Buffer*> Allocator::Allocate(size_t bytes) {
  if (bytes > (size_t{1} << 46))
    return ResourceExhausted("allocation: expected at most 2^46 bytes, got ",
                             bytes);
  size_t rounded;
  const int c = ClassOf(bytes, &rounded);
  const int64_t live =
      live_.fetch_add(static_cast<int64_t>(rounded), std::memory_order_relaxed) +
      static_cast<int64_t>(rounded);
  if (live > max_bytes_) {
    live_.fetch_sub(static_cast<int64_t>(rounded), std::memory_order_relaxed);
    return ResourceExhausted("out of memory: expected at most ", max_bytes_,
                             " live bytes, got ", live);
  }
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (live > peak &&
         !peak_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
  allocations_.fetch_add(1, std::memory_order_relaxed);
  thread_allocated += static_cast<int64_t>(rounded);
  if (kCache) {
    SizeClass& sc = classes_[static_cast<size_t>(c)];
    sc.lock.Lock();
    Block* b = sc.free;
    if (b != nullptr) sc.free = b->next_;
    sc.lock.Unlock();
    if (b != nullptr) {
      cached_.fetch_sub(static_cast<int64_t>(rounded), std::memory_order_relaxed);
      return new (b) Block(this, c, rounded);
    }
  }
  void* memory = std::aligned_alloc(kAlign, kAlign + rounded);
  if (memory == nullptr) {
    live_.fetch_sub(static_cast<int64_t>(rounded), std::memory_order_relaxed);
    return ResourceExhausted("out of memory: the system refused ", rounded,
                             " bytes");
  }
  return new (memory) Block(this, c, rounded);
}

void Allocator::Recycle(Block* b) {
  const int64_t bytes = static_cast<int64_t>(b->bytes());
  live_.fetch_sub(bytes, std::memory_order_relaxed);
  if (kCache &&
      cached_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= max_cached_) {
    SizeClass& sc = classes_[static_cast<size_t>(b->size_class_)];
    sc.lock.Lock();
    b->next_ = sc.free;
    sc.free = b;
    sc.lock.Unlock();
    return;
  }
  if (kCache) cached_.fetch_sub(bytes, std::memory_order_relaxed);
  b->~Block();
  std::free(b);
}

AllocatorStats Allocator::stats() const {
  return {live_.load(std::memory_order_relaxed),
          peak_.load(std::memory_order_relaxed),
          cached_.load(std::memory_order_relaxed),
          allocations_.load(std::memory_order_relaxed)};
}

void Allocator::ResetPeak() {
  peak_.store(live_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void Allocator::ReleaseCache() {
  for (int c = 0; c < kClasses; ++c) {
    SizeClass& sc = classes_[static_cast<size_t>(c)];
    sc.lock.Lock();
    Block* list = std::exchange(sc.free, nullptr);
    sc.lock.Unlock();
    while (list != nullptr) {
      Block* b = list;
      list = b->next_;
      cached_.fetch_sub(static_cast<int64_t>(b->bytes()),
                        std::memory_order_relaxed);
      b->~Block();
      std::free(b);
    }
  }
}

}  // namespace sluice
