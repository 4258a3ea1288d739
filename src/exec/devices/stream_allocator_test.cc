// The memory of a device is given back in the order of its streams, and late
// memory finds out if it is not.
#include "exec/core/stream_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "exec/devices/emulated_stream.h"
#include "exec/devices/late_memory.h"

namespace sluice {
namespace {

constexpr int64_t kBytes = 4096;

// A device of four blocks with two streams, in virtual time.
class StreamAllocatorTest : public ::testing::Test {
 protected:
  StreamAllocatorTest() { Make(kBytes); }
  void Make(int64_t max_cached) {
    memory_ = std::make_shared<StreamMemory>(std::make_unique<HostAllocator>(),
                                             4 * kBytes, 4 * max_cached);
    first_.emplace(memory_, a_);
    second_.emplace(memory_, b_);
  }
  static Buffer* Get(std::optional<StreamAllocator>& from,
                     int64_t bytes = kBytes) {
    Result<Buffer*> b = from->Allocate(static_cast<size_t>(bytes));
    EXPECT_TRUE(b.ok()) << b.status();
    return *b;
  }
  // Allocates a block in stream a, which uses it for `ns`, and frees it.
  void* UseAndFree(int64_t ns) {
    Buffer* const b = Get(first_);
    void* const data = b->data();
    a_->Enqueue(ns);
    b->Unref();
    return data;
  }

  std::shared_ptr<VirtualClock> clock_ = std::make_shared<VirtualClock>();
  std::shared_ptr<EmulatedStream> a_ = std::make_shared<EmulatedStream>(clock_);
  std::shared_ptr<EmulatedStream> b_ = std::make_shared<EmulatedStream>(clock_);
  std::shared_ptr<StreamMemory> memory_;
  std::optional<StreamAllocator> first_, second_;
};

TEST_F(StreamAllocatorTest, OneStreamReusesABlockAtOnce) {
  void* const data = UseAndFree(100);
  Buffer* const again = Get(first_);
  EXPECT_EQ(again->data(), data);
  EXPECT_EQ(a_->Position(), 100) << "and waits for nothing else";
  again->Unref();
}

TEST_F(StreamAllocatorTest, AnotherStreamReusesABlockWhenItIsDone) {
  void* const data = UseAndFree(100);
  Buffer* const other = Get(second_);
  EXPECT_NE(other->data(), data);
  clock_->AdvanceTo(100);
  Buffer* const same = Get(second_);
  EXPECT_EQ(same->data(), data);
  EXPECT_EQ(b_->Position(), 0) << "it never waited";
  other->Unref();
  same->Unref();
}

TEST_F(StreamAllocatorTest, ABlockThatTwoStreamsUseIsGivenBackAfterBoth) {
  Buffer* const b = Get(first_);
  void* const data = b->data();
  a_->Enqueue(100);
  b_->Enqueue(300);
  static_cast<StreamBuffer*>(b)->UseIn(*b_);
  b->Unref();
  // Not even by its own stream, which is done earlier.
  Buffer* const own = Get(first_);
  EXPECT_NE(own->data(), data);
  clock_->AdvanceTo(200);
  Buffer* const other = Get(second_);
  EXPECT_NE(other->data(), data);
  clock_->AdvanceTo(300);
  Buffer* const same = Get(first_);
  EXPECT_EQ(same->data(), data);
  for (Buffer* each : {own, other, same}) each->Unref();
}

TEST_F(StreamAllocatorTest, ABlockIsHandedToTheStreamOfItsReaders) {
  Buffer* const b = Get(second_);
  void* const data = b->data();
  b_->Enqueue(50);
  static_cast<StreamBuffer*>(b)->HandTo(a_);
  a_->Wait(b_->Record());
  a_->Enqueue(100);
  b->Unref();
  clock_->AdvanceTo(
      60);  // The stream that wrote it is done, its reader is not.
  Buffer* const writer = Get(second_);
  EXPECT_NE(writer->data(), data);
  Buffer* const reader = Get(first_);
  EXPECT_EQ(reader->data(), data);
  writer->Unref();
  reader->Unref();
}

TEST_F(StreamAllocatorTest, AStreamWaitsForMemoryAndTheHostDoesNot) {
  std::vector<Buffer*> live = {Get(first_), Get(first_), Get(first_)};
  UseAndFree(100);
  EXPECT_EQ(memory_->stats().live_bytes, 3 * kBytes);
  // (Of another size: it cannot take the block as it is.)
  Buffer* const late = Get(second_, kBytes / 2);
  EXPECT_EQ(clock_->Now(), 0);
  EXPECT_EQ(b_->Position(), 100);
  EXPECT_EQ(memory_->stats().cached_bytes, 0);
  EXPECT_EQ(second_->Allocate(kBytes).status().code(),
            StatusCode::kResourceExhausted);
  late->Unref();
  for (Buffer* b : live) b->Unref();
  EXPECT_EQ(memory_->stats().live_bytes, 0);
  EXPECT_EQ(memory_->stats().peak_bytes, 4 * kBytes);
}

TEST_F(StreamAllocatorTest, NoMoreIsKeptThanAllowed) {
  Make(0);
  UseAndFree(100);
  EXPECT_EQ(memory_->stats().cached_bytes, 0);
  Make(kBytes);
  UseAndFree(100);
  EXPECT_EQ(memory_->stats().cached_bytes, kBytes);
  memory_->ReleaseCache();
  EXPECT_EQ(memory_->stats().cached_bytes, 0);
}

TEST_F(StreamAllocatorTest, AKernelMayFreeBeforeItHasEnqueuedItsWork) {
  Buffer* const b = Get(first_);
  void* const data = b->data();
  {
    const StreamMemory::FreeAfter end;
    b->Unref();
    a_->Enqueue(100);
  }
  Buffer* const other = Get(second_);
  EXPECT_NE(other->data(), data);
  other->Unref();
}

TEST_F(StreamAllocatorTest, TensorsOutliveTheDevice) {
  Tensor t = *Tensor::Make(DType::kFloat, Shape({100}), &*first_);
  first_.reset();
  second_.reset();
  memory_.reset();
  a_.reset();
  std::fill_n(t.raw<float>(), 100, 1.0f);
  EXPECT_EQ(t.raw<float>()[99], 1.0f);
}

TEST_F(StreamAllocatorTest, EveryTensorOfADeviceHasAnAddress) {
  const Tensor here = *Tensor::Make(DType::kFloat, Shape());
  EXPECT_FALSE(here.has_buffer());
  EXPECT_TRUE(here.in_host_memory());
  const Tensor there = *Tensor::Make(DType::kFloat, Shape({2}), &*first_);
  ASSERT_TRUE(there.has_buffer());
  EXPECT_FALSE(there.in_host_memory());
  EXPECT_EQ(StreamBuffer::Of(here), nullptr);
  EXPECT_EQ(StreamBuffer::Of(there), there.buffer());
  // Its parts are there, too, at their own addresses.
  const Tensor row = there.Rows(1, 2);
  EXPECT_TRUE(row.SharesBufferWith(there));
  EXPECT_EQ(row.raw(), there.raw<float>() + 1);
  // Nothing has no address.
  EXPECT_FALSE(Tensor::Make(DType::kFloat, Shape({0}), &*first_)->has_buffer());
}

TEST_F(StreamAllocatorTest, EventsAreDoneAtTheEndOfWhatWasEnqueued) {
  a_->Enqueue(100);
  const std::shared_ptr<Event> event = a_->Record();
  EXPECT_EQ(a_->Record(), event) << "nothing was enqueued since";
  a_->Enqueue(100);
  b_->Wait(event);
  EXPECT_EQ(b_->Enqueue(10).start_ns, 100);
  EXPECT_FALSE(event->done());
  int calls = 0;
  event->OnDone([&] { calls += event->done(); });
  clock_->AdvanceTo(99);
  EXPECT_EQ(calls, 0);
  clock_->AdvanceTo(100);
  EXPECT_EQ(calls, 1);
}

// ---- Late memory ------------------------------------------------------------

class LateMemoryTest : public StreamAllocatorTest {
 protected:
  LateMemoryTest() {
    auto late = std::make_unique<LateMemory>(INT64_MAX);
    late_ = late.get();
    memory_ = std::make_shared<StreamMemory>(std::move(late), 1 << 20, 1 << 20);
    first_.emplace(memory_, a_);
    x_ = Made(2), y_ = Made(3);
  }
  Tensor Made(float value) {
    Tensor t = *Tensor::Make(DType::kFloat, Shape({4}), &*first_);
    std::fill_n(t.raw<float>(), 4, value);
    return t;
  }
  void WriteAt(const Tensor& t, int64_t start, int64_t end) {
    LateWork work;
    work.Writes(t);
    std::move(work).Enqueue(*clock_, start, end);
  }
  // y = x, from 100 to 200.
  void Kernel() {
    LateWork work;
    work.Reads(x_);
    work.Writes(y_);
    std::move(work).Enqueue(*clock_, 100, 200);
  }
  // What the device has at that time.
  float At(int64_t time, const Tensor& t) {
    clock_->AdvanceTo(time);
    Tensor now(DType::kFloat, Shape({4}));
    EXPECT_TRUE(LateMemory::Read(t, &now));
    return now.data<float>()[3];
  }

  LateMemory* late_ = nullptr;
  Tensor x_, y_;
};

TEST_F(LateMemoryTest, ElementsAreThereWhenTheWorkIsDone) {
  EXPECT_TRUE(std::isnan(At(0, x_)));
  WriteAt(x_, 10, 50);
  Kernel();
  EXPECT_TRUE(std::isnan(At(49, x_)));
  EXPECT_EQ(At(50, x_), 2);
  EXPECT_TRUE(std::isnan(At(199, y_)));
  EXPECT_EQ(At(200, y_), 3);
  Tensor host(DType::kFloat, Shape({4}));
  EXPECT_FALSE(LateMemory::Read(host, &host));
}

TEST_F(LateMemoryTest, WorkThatStartsBeforeItsInputIsThereWritesNan) {
  WriteAt(x_, 10, 150);
  Kernel();
  EXPECT_TRUE(std::isnan(At(300, y_)));
}

TEST_F(LateMemoryTest, WorkWhoseInputIsReusedTooEarlyWritesNan) {
  WriteAt(x_, 10, 50);
  Kernel();
  std::fill_n(x_.raw<float>(), 4, 7.0f);
  WriteAt(x_, 150, 160);
  EXPECT_EQ(At(300, x_), 7);
  EXPECT_TRUE(std::isnan(At(300, y_)));
}

TEST_F(LateMemoryTest, WhatAKernelWroteBesideItsOutputsIsFound) {
  LateWork first;
  first.WritesWhatChanged(*late_);
  std::move(first).Enqueue(*clock_, 0, 10);
  EXPECT_EQ(At(10, x_), 2);
  x_.raw<float>()[3] = 5;
  LateWork second, third;
  second.WritesWhatChanged(*late_);
  EXPECT_TRUE(second.writes_any());
  std::move(second).Enqueue(*clock_, 10, 20);
  third.WritesWhatChanged(*late_);
  EXPECT_FALSE(third.writes_any());
  EXPECT_EQ(At(20, x_), 5);
  EXPECT_EQ(At(20, y_), 3);
}

}  // namespace
}  // namespace sluice
