#include "tensor/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "absl/base/internal/spinlock.h"
#include "base/sanitizers.h"

namespace sluice {
namespace {

constexpr size_t kAlign = 64;
// Size classes: four per power of two, sixteen for blocks of 2^14 or more units
// of kAlign (a megabyte).
constexpr int kFineLog = 14;
constexpr int kClasses = 4 * kFineLog + 16 * 28;

constexpr size_t kMaxBytes = size_t{1} << 46;

constexpr bool kCache = !kSanitized;  // Sanitizers see every use after free.

thread_local int64_t thread_allocated = 0;

// Limits of a thread's cache (Front): the largest block in bytes, the number of
// blocks of each class, and the largest unflushed change of the live bytes.
constexpr size_t kFrontBytes = 1024;
constexpr int kFrontClasses = 4 * 4 + 1;
constexpr uint32_t kFrontBlocks = 64;
constexpr uint32_t kFrontBatch = 32;  // Blocks moved at once.
constexpr int64_t kFrontLive = 32 * 1024;

// Written by one thread, read by all.
using Counter = std::atomic<int64_t>;
int64_t Read(const Counter& c) { return c.load(std::memory_order_relaxed); }
int64_t Add(Counter* c, int64_t d) {
  const int64_t v = Read(*c) + d;
  c->store(v, std::memory_order_relaxed);
  return v;
}

void Raise(std::atomic<int64_t>* peak, int64_t live) {
  int64_t p = peak->load(std::memory_order_relaxed);
  while (live > p &&
         !peak->compare_exchange_weak(p, live, std::memory_order_relaxed)) {
  }
}

// Large blocks request huge pages: a kernel that traverses one by columns has
// fewer TLB misses, and a new block has 512 times fewer page faults. (The
// maximum of each of 4096 rows of 4096 floats: 2.5 ms -> 1.6.)
void* SystemMemory(size_t bytes) {
  constexpr size_t kLargePage = 2 << 20;
  const bool large = bytes >= 2 * kLargePage;
  void* memory = nullptr;
  if (posix_memalign(&memory, large ? kLargePage : kAlign, bytes) != 0)
    return nullptr;
#if defined(MADV_HUGEPAGE)
  // (Advice only: no effect where huge pages are unavailable.)
  if (large) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return memory;
}

}  // namespace

int64_t ThreadAllocatedBytes() { return thread_allocated; }

// Header and data in one piece of memory: [Block, padded to 64][data].
class HostAllocator::Block final : public Buffer {
 public:
  Block(HostAllocator* owner, int size_class, size_t bytes)
      : Buffer(reinterpret_cast<char*>(this) + kAlign, bytes),
        owner_(owner),
        size_class_(size_class) {}

  HostAllocator* owner_;
  Block* next_ = nullptr;        // In a free list.
  Block* next_batch_ = nullptr;  // For the first block of a batch.
  int size_class_;

 private:
  void Free() override { owner_->Recycle(this); }
};

struct HostAllocator::SizeClass {
  class Front;
  // Moves up to `n` blocks from one list to the other and returns how many.
  uint32_t Move(Block** from, Block** to, uint32_t n) {
    lock.Lock();
    uint32_t moved = 0;
    for (; moved < n && *from != nullptr; ++moved) {
      Block* const b = *from;
      *from = b->next_;
      b->next_ = *to;
      *to = b;
    }
    lock.Unlock();
    return moved;
  }
  // Batches are transferred as a whole: taking one does not touch its blocks,
  // which form a linked list and may all be out of the cache.
  void PushBatch(Block* first) {
    lock.Lock();
    first->next_batch_ = batches;
    batches = first;
    lock.Unlock();
  }
  Block* PopBatch() {
    lock.Lock();
    Block* const first = batches;
    if (first != nullptr) batches = first->next_batch_;
    lock.Unlock();
    return first;
  }

  absl::base_internal::SpinLock lock;
  Block* free = nullptr;  // GUARDED_BY(lock)
  // Lists of kFrontBatch blocks each. GUARDED_BY(lock)
  Block* batches = nullptr;
};

// A thread's cache of the process's allocator: small free blocks and its share
// of the counters. Small tensors, which loops allocate and free all the time,
// then need neither a lock nor an atomic read-modify-write. Owned by its
// thread; others read the counters.
class HostAllocator::SizeClass::Front {
 public:
  // This thread's; null for other allocators, and once the thread is ending.
  static Front* Of(const HostAllocator* a) {
    if (!kCache || a != Allocator::Cpu()) return nullptr;
    if (mine_ == nullptr && !ended_) Begin();
    return mine_;
  }

  // Null if there is no block: then the caller makes one.
  Block* Take(HostAllocator* a, int c, int64_t bytes) {
    Block*& list = free_[c];
    if (list == nullptr) Refill(a, c, bytes);
    Block* const b = list;
    if (b != nullptr) {
      list = b->next_;
      if (list != nullptr) {  // Prefetch header and data of the next one.
        __builtin_prefetch(list, 1);
        __builtin_prefetch(reinterpret_cast<char*>(list) + kAlign, 1);
      }
      --count_[c];
      Add(&cached_, -bytes);
    }
    Add(&allocations_, 1);
    const int64_t live = Add(&live_, bytes);
    if (live > Read(high_)) high_.store(live, std::memory_order_relaxed);
    if (live > kFrontLive) Flush(a);
    return b;
  }

  void Give(HostAllocator* a, Block* b, int64_t bytes) {
    const int c = b->size_class_;
    b->next_ = free_[c];
    free_[c] = b;
    Add(&cached_, bytes);
    if (Add(&live_, -bytes) < -kFrontLive) Flush(a);
    if (++count_[c] > kFrontBlocks) Spill(a, c, kFrontBlocks + 1 - kFrontBatch);
  }

  void SpillAll(HostAllocator* a) {
    for (int c = 0; c < kFrontClasses; ++c) Spill(a, c, 0);
    Flush(a);
  }

  int64_t live() const { return Read(live_); }

  // Adds the shares of all threads. Their peaks need not coincide.
  static void AddAll(AllocatorStats* s) {
    std::lock_guard<std::mutex> lock(All().mu);
    int64_t most = s->live_bytes;
    for (const Front* f : All().fronts) {
      most += Read(f->high_);
      s->live_bytes += f->live();
      s->cached_bytes += Read(f->cached_);
      s->allocations += Read(f->allocations_);
    }
    s->peak_bytes = std::max(s->peak_bytes, most);
  }
  static void ResetPeaks() {
    std::lock_guard<std::mutex> lock(All().mu);
    for (Front* f : All().fronts)
      f->high_.store(f->live(), std::memory_order_relaxed);
  }

 private:
  struct Fronts {
    std::mutex mu;
    std::vector<Front*> fronts;  // GUARDED_BY(mu)
  };
  static Fronts& All() {
    static Fronts* all = new Fronts();
    return *all;
  }

  static void Begin() {
    struct Owner {
      Owner() {
        std::lock_guard<std::mutex> lock(All().mu);
        All().fronts.push_back(mine_ = new Front());
      }
      ~Owner() {
        Front* const f = std::exchange(mine_, nullptr);
        ended_ = true;
        f->SpillAll(Allocator::Cpu());
        std::lock_guard<std::mutex> lock(All().mu);
        Allocator::Cpu()->allocations_.fetch_add(Read(f->allocations_));
        std::erase(All().fronts, f);
        delete f;
      }
    };
    static thread_local const Owner owner;
  }

  void Refill(HostAllocator* a, int c, int64_t bytes) {
    SizeClass& sc = a->classes_[static_cast<size_t>(c)];
    if (Block* const batch = sc.PopBatch()) {
      free_[c] = batch;
      count_[c] = kFrontBatch;
    } else {
      count_[c] = sc.Move(&sc.free, &free_[c], kFrontBatch);
    }
    a->cached_.fetch_sub(count_[c] * bytes, std::memory_order_relaxed);
    Add(&cached_, count_[c] * bytes);
  }

  void Spill(HostAllocator* a, int c, uint32_t keep) {
    if (count_[c] <= keep) return;
    SizeClass& sc = a->classes_[static_cast<size_t>(c)];
    const auto block = static_cast<int64_t>(free_[c]->bytes());
    const int64_t n = count_[c] - keep;
    for (; count_[c] - keep >= kFrontBatch; count_[c] -= kFrontBatch) {
      Block* const first = free_[c];
      Block* last = first;
      for (uint32_t i = 1; i < kFrontBatch; ++i) last = last->next_;
      free_[c] = std::exchange(last->next_, nullptr);
      sc.PushBatch(first);
    }
    sc.Move(&free_[c], &sc.free, count_[c] - keep);
    count_[c] = keep;
    a->cached_.fetch_add(n * block, std::memory_order_relaxed);
    Add(&cached_, -n * block);
  }

  void Flush(HostAllocator* a) {
    const int64_t d = live();
    const int64_t before = a->live_.fetch_add(d, std::memory_order_relaxed);
    Raise(&a->peak_, before + Read(high_));
    live_.store(0, std::memory_order_relaxed);
    high_.store(0, std::memory_order_relaxed);
  }

  static thread_local Front* mine_;
  static thread_local bool ended_;
  Block* free_[kFrontClasses] = {};
  uint32_t count_[kFrontClasses] = {};
  Counter live_{0}, high_{0};  // Live bytes, and their peak, since a Flush.
  Counter cached_{0}, allocations_{0};
};

thread_local HostAllocator::SizeClass::Front*
    HostAllocator::SizeClass::Front::mine_ = nullptr;
thread_local bool HostAllocator::SizeClass::Front::ended_ = false;

void Allocator::CountOnThread(int64_t bytes) { thread_allocated += bytes; }

HostAllocator::HostAllocator(int64_t max_bytes, int64_t max_cached)
    : Allocator(/*host_memory=*/true),
      max_bytes_(max_bytes),
      max_cached_(max_cached),
      classes_(new SizeClass[kClasses]) {
  static_assert(sizeof(Block) <= kAlign);
}

HostAllocator::~HostAllocator() { ReleaseCache(); }

HostAllocator* Allocator::Cpu() {
  static auto* const cpu = new HostAllocator();
  return cpu;
}

// Classes are 64 * {1, 1.25, 1.5, 1.75} * 2^k: at most a quarter is wasted.
// From a megabyte on they are a sixteenth apart.
int HostAllocator::ClassOf(size_t bytes, size_t* rounded) {
  const size_t units = bytes <= kAlign ? 1 : (bytes + kAlign - 1) / kAlign;
  const int log = static_cast<int>(std::bit_width(units)) - 1;
  const size_t base = size_t{1} << log;
  const bool fine = log >= kFineLog;
  const size_t step = fine ? base / 16 : base >= 4 ? base / 4 : 1;
  const size_t part = (units - base + step - 1) / step;
  const size_t parts = base + part * step;
  *rounded = parts * kAlign;
  // Parts == 2 * base falls into the next power of two.
  return (fine ? 4 * kFineLog + 16 * (log - kFineLog) : 4 * log) +
         static_cast<int>(part);
}

size_t HostAllocator::Rounded(size_t bytes) {
  if (bytes > kMaxBytes) return bytes;  // Is refused.
  size_t rounded;
  ClassOf(bytes, &rounded);
  return rounded;
}

Result<Buffer*> HostAllocator::Allocate(size_t bytes) {
  if (bytes > kMaxBytes)
    return ResourceExhausted("allocation: expected at most 2^46 bytes, got ",
                             bytes);
  size_t rounded;
  const int c = ClassOf(bytes, &rounded);
  const auto size = static_cast<int64_t>(rounded);
  thread_allocated += size;
  SizeClass::Front* const front = SizeClass::Front::Of(this);
  const bool small = front != nullptr && rounded <= kFrontBytes;
  Block* b = nullptr;
  if (small) {
    b = front->Take(this, c, size);
  } else {
    const int64_t live =
        live_.fetch_add(size, std::memory_order_relaxed) + size;
    const int64_t most = max_bytes_.load(std::memory_order_relaxed);
    if (live > most) {
      live_.fetch_sub(size, std::memory_order_relaxed);
      return ResourceExhausted("out of memory: expected at most ",
                               most - (live - size), " more bytes (of ", most,
                               "), got a request for ", size);
    }
    Raise(&peak_, live + (front == nullptr ? 0 : front->live()));
    allocations_.fetch_add(1, std::memory_order_relaxed);
    SizeClass& sc = classes_[static_cast<size_t>(c)];
    if (kCache && sc.Move(&sc.free, &b, 1) == 1)
      cached_.fetch_sub(size, std::memory_order_relaxed);
  }
  if (b != nullptr) return new (b) Block(this, c, rounded);
  void* memory = SystemMemory(kAlign + rounded);
  if (memory == nullptr) {
    live_.fetch_sub(size, std::memory_order_relaxed);
    return ResourceExhausted("out of memory: the system refused ", rounded,
                             " bytes");
  }
  return new (memory) Block(this, c, rounded);
}

void HostAllocator::Recycle(Block* b) {
  const auto size = static_cast<int64_t>(b->bytes());
  SizeClass::Front* const front = SizeClass::Front::Of(this);
  if (front != nullptr && b->bytes() <= kFrontBytes)
    return front->Give(this, b, size);
  live_.fetch_sub(size, std::memory_order_relaxed);
  if (kCache && cached_.fetch_add(size, std::memory_order_relaxed) + size <=
                    max_cached_) {
    SizeClass& sc = classes_[static_cast<size_t>(b->size_class_)];
    b->next_ = nullptr;
    sc.Move(&b, &sc.free, 1);
    return;
  }
  if (kCache) cached_.fetch_sub(size, std::memory_order_relaxed);
  b->~Block();
  std::free(b);
}

AllocatorStats HostAllocator::stats() const {
  AllocatorStats s = {live_.load(std::memory_order_relaxed),
                      peak_.load(std::memory_order_relaxed),
                      cached_.load(std::memory_order_relaxed),
                      allocations_.load(std::memory_order_relaxed)};
  if (this == Cpu()) SizeClass::Front::AddAll(&s);
  return s;
}

void HostAllocator::ResetPeak() {
  if (this == Cpu()) SizeClass::Front::ResetPeaks();
  peak_.store(stats().live_bytes, std::memory_order_relaxed);
}

void HostAllocator::ReleaseCache() {
  if (SizeClass::Front* front = SizeClass::Front::Of(this))
    front->SpillAll(this);
  for (int c = 0; c < kClasses; ++c) {
    SizeClass& sc = classes_[static_cast<size_t>(c)];
    for (;;) {
      Block* list = sc.PopBatch();
      if (list == nullptr) {
        sc.lock.Lock();
        list = std::exchange(sc.free, nullptr);
        sc.lock.Unlock();
        if (list == nullptr) break;
      }
      while (list != nullptr) {
        Block* const b = list;
        list = b->next_;
        cached_.fetch_sub(static_cast<int64_t>(b->bytes()),
                          std::memory_order_relaxed);
        b->~Block();
        std::free(b);
      }
    }
  }
}

}  // namespace sluice
