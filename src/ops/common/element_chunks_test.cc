#include "ops/common/element_chunks.h"

#include <gtest/gtest.h>

#include <cstring>

namespace sluice {
namespace {

// Element i is full of a byte that depends on i.
void FillElement(ElementChunks* c, size_t i, size_t length) {
  char* const to = c->Make(i, length);
  ASSERT_NE(to, nullptr);
  std::memset(to, static_cast<int>(i * 7 % 251), c->bytes());
}
bool IsFilled(const ElementChunks& c, size_t i) {
  for (size_t b = 0; b < c.bytes(); ++b)
    if (c.At(i)[b] != static_cast<char>(i * 7 % 251)) return false;
  return true;
}

int64_t LiveChunkBytes() { return Allocator::Cpu()->stats().live_bytes; }

TEST(ElementChunksTest, GrowthKeepsWrittenElements) {
  for (const size_t bytes : {1, 3, 4, 8, 16, 36, 512, 1000, 1024}) {
    SCOPED_TRACE(bytes);
    ElementChunks c;
    c.Begin(bytes);
    const size_t n = 200'000 / bytes;
    for (size_t i = 0; i < n; ++i) FillElement(&c, i, i + 1);
    for (size_t i = n; i-- > 0;) ASSERT_TRUE(IsFilled(c, i)) << i;
  }
}

TEST(ElementChunksTest, ElementsCanBeCreatedInAnyOrder) {
  ElementChunks c;
  for (const size_t bytes : {4, 100, 600}) {
    c.Begin(bytes);
    const size_t n = 300'000 / bytes;  // (Seven does not divide these.)
    for (size_t i = 0; i < n; ++i) FillElement(&c, (n - 1 + i * 7) % n, n);
    for (size_t i = 0; i < n; ++i) ASSERT_TRUE(IsFilled(c, i)) << i;
  }
}

TEST(ElementChunksTest, MemoryMatchesElementSizes) {
  const int64_t before = LiveChunkBytes();
  ElementChunks c;
  c.Begin(32);
  for (size_t i = 0; i < 100'000; ++i) FillElement(&c, i, i + 1);
  EXPECT_LE(LiveChunkBytes() - before, 32 * 100'000 + 64 * 1024);
  c.Begin(32);
  EXPECT_EQ(LiveChunkBytes(), before);
  for (size_t i = 0; i < 3; ++i) FillElement(&c, i, 3);
  EXPECT_LE(LiveChunkBytes() - before, 128);
}

TEST(ElementChunksTest, DroppingElementsFreesMemory) {
  const int64_t before = LiveChunkBytes();
  ElementChunks c;
  c.Begin(32);
  constexpr size_t kAll = 100'000;
  for (size_t i = 0; i < kAll; ++i) FillElement(&c, i, i + 1);
  for (size_t i = kAll; i-- > kAll / 2;) c.Drop(i);
  EXPECT_LE(LiveChunkBytes() - before, 32 * kAll / 2 + 3 * 64 * 1024);
  for (size_t i = kAll / 2; i-- > 0;) {
    ASSERT_TRUE(IsFilled(c, i)) << i;
    c.Drop(i);
  }
  EXPECT_LE(LiveChunkBytes() - before, 64 * 1024);
  c.Clear();
  EXPECT_EQ(LiveChunkBytes(), before);
}

// A queue: each element is read before the next one is written.
TEST(ElementChunksTest, ElementsMayBeDroppedBeforeOthersAreCreated) {
  ElementChunks c;
  c.Begin(100);
  for (size_t i = 0; i < 5000; ++i) {
    FillElement(&c, i, i + 1);
    ASSERT_TRUE(IsFilled(c, i)) << i;
    c.Drop(i);
  }
}

}  // namespace
}  // namespace sluice
