// The allocator reuses freed blocks, counts every byte of all threads, and
// respects its limit.
#include "tensor/buffer.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/sanitizers.h"
#include "tensor/tensor.h"

namespace sluice {
namespace {

constexpr bool kReuses = !kSanitized;

TEST(AllocatorTest, FreedMemoryIsReused) {
  for (const size_t bytes : {1, 64, 65, 1000, 1025, 5000, 1 << 20}) {
    Buffer* b = *Allocator::Cpu()->Allocate(bytes);
    EXPECT_GE(b->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b->data()) % 64, 0u);
    const void* const data = b->data();
    b->Unref();
    b = *Allocator::Cpu()->Allocate(bytes);
    if (kReuses) {
      EXPECT_EQ(b->data(), data) << bytes;
    }
    b->Unref();
  }
}

TEST(AllocatorTest, LiveBytesAreExactAcrossThreads) {
  for (HostAllocator* a : {Allocator::Cpu(), new HostAllocator()}) {
    const AllocatorStats before = a->stats();
    std::vector<Buffer*> buffers(3000);
    int64_t bytes = 0;
    std::thread([&] {
      for (size_t i = 0; i < buffers.size(); ++i) {
        buffers[i] = *a->Allocate(1 + i);
        bytes += static_cast<int64_t>(buffers[i]->bytes());
      }
    }).join();
    EXPECT_EQ(a->stats().live_bytes - before.live_bytes, bytes);
    EXPECT_GE(a->stats().peak_bytes, before.live_bytes + bytes);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        for (size_t i = t; i < buffers.size(); i += 3) buffers[i]->Unref();
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(a->stats().live_bytes, before.live_bytes);
    EXPECT_EQ(a->stats().allocations - before.allocations, 3000);
    if (a != Allocator::Cpu()) delete a;
  }
}

TEST(AllocatorTest, PeakIncludesSmallBuffers) {
  Allocator* const a = Allocator::Cpu();
  a->ResetPeak();
  const int64_t live = a->stats().live_bytes;
  std::vector<Buffer*> buffers;
  for (int i = 0; i < 5000; ++i) buffers.push_back(*a->Allocate(100));
  for (Buffer* b : buffers) b->Unref();
  EXPECT_EQ(a->stats().live_bytes, live);
  EXPECT_EQ(a->stats().peak_bytes, live + 5000 * 128);
  a->ResetPeak();
  EXPECT_EQ(a->stats().peak_bytes, live);
}

TEST(AllocatorTest, ReleaseCacheFreesMemory) {
  Allocator* const a = Allocator::Cpu();
  (*a->Allocate(100))->Unref();
  (*a->Allocate(100000))->Unref();
  EXPECT_EQ(a->stats().cached_bytes > 100000, kReuses);
  a->ReleaseCache();
  EXPECT_EQ(a->stats().cached_bytes, 0);
}

TEST(AllocatorTest, AllocationBeyondLimitIsAnError) {
  HostAllocator a(1100);
  Buffer* const b = *a.Allocate(900);
  EXPECT_EQ(a.Allocate(200).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(a.stats().live_bytes, static_cast<int64_t>(b->bytes()));
  b->Unref();
  EXPECT_EQ(Allocator::Cpu()->Allocate(size_t{1} << 60).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(AllocatorTest, LimitMayBeSetLater) {
  HostAllocator a;
  Buffer* const b = *a.Allocate(100000);
  a.set_max_bytes(150000);
  EXPECT_EQ(a.Allocate(100000).status().code(), StatusCode::kResourceExhausted);
  b->Unref();
  (*a.Allocate(100000))->Unref();
}

TEST(TensorTest, TooManyObjectsAreAnError) {
  for (const DType t : {DType::kString, DType::kVariant, DType::kResource})
    EXPECT_EQ(Tensor::Make(t, Shape({int64_t{1} << 36})).status().code(),
              StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace sluice
