// Rows of one tensor, each with its own buffer if the tensor has no other
// owner, and joined into one tensor again without a copy if no row has another
// owner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "ops/tensor_array/tensor_array.h"

namespace sluice {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int kRowCount = 5;
constexpr int64_t kWidth = 300;

class TensorArrayRowsTest : public ::testing::Test {
 protected:
  TensorArrayRowsTest() : array_(NewArray()) {
    std::iota(all_.begin(), all_.end(), 0);
  }

  static std::shared_ptr<TensorArrayState> NewArray() {
    auto options = std::make_shared<TensorArrayDecl>();
    options->name = "rows";
    options->dtype = DType::kFloat;
    return std::make_shared<TensorArrayState>(options, kRowCount);
  }
  // Row i is full of i.
  static Tensor Numbered() {
    Tensor t(DType::kFloat, Shape({kRowCount, kWidth}));
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.data<float>()[i] = static_cast<float>(i / kWidth);
    return t;
  }
  Tensor Read(TensorArrayState& a, int i) {
    Tensor t;
    const Status s = a.Read(i, &t);
    EXPECT_TRUE(s.ok()) << s;
    return t;
  }
  Tensor Gather(TensorArrayState& a, const std::vector<int32_t>& indices) {
    Tensor t;
    const Status s = a.Gather(indices, PartialShape(), Allocator::Cpu(), &t);
    EXPECT_TRUE(s.ok()) << s;
    return t;
  }
  // The gradient array, which lives as long as the forward one.
  TensorArrayState& Gradient() {
    Tensor handle;
    EXPECT_TRUE(array_->Gradient("gradients", nullptr, &handle).ok());
    return static_cast<TensorArrayState&>(
        *handle.scalar<ResourceHandle>().resource);
  }
  // The value of each row after a loop computed in place: its negation.
  static Tensor Negated(Tensor row) {
    for (float& v : row.flat<float>()) v = -v;
    return row;
  }
  static float First(const Tensor& t, int64_t row) {
    return t.data<float>()[row * kWidth];
  }

  std::shared_ptr<TensorArrayState> array_;
  std::vector<int32_t> all_ = std::vector<int32_t>(kRowCount);
};

TEST_F(TensorArrayRowsTest, ReadersOwnRowsOfUnsharedTensor) {
  Tensor rows = Numbered();
  const auto* begin = std::as_const(rows).data<float>();
  ASSERT_TRUE(array_->Scatter(all_, std::move(rows)).ok());
  for (const int i : {3, 0, 4, 1, 2}) {
    Tensor row = Read(*array_, i);
    ASSERT_TRUE(row.unique()) << i;
    EXPECT_EQ(row.data<float>(), begin + i * kWidth);
    EXPECT_THAT(row.ToVector<float>(), Each(static_cast<float>(i)));
    std::fill_n(row.data<float>(), kWidth, -1.0f);
  }
}

TEST_F(TensorArrayRowsTest, RowsOfSharedTensorAreShared) {
  const Tensor rows = Numbered(), before = *rows.Clone();
  ASSERT_TRUE(array_->Scatter(all_, rows).ok());
  for (int i = 0; i < kRowCount; ++i)
    EXPECT_FALSE(Read(*array_, i).unique()) << i;
  EXPECT_TRUE(rows.Identical(before));
}

TEST_F(TensorArrayRowsTest, LastRowReleasesTheMemory) {
  const int64_t before = Allocator::Cpu()->stats().live_bytes;
  ASSERT_TRUE(array_->Scatter(all_, Numbered()).ok());
  std::vector<Tensor> rows;
  for (int i = 0; i < kRowCount; ++i) rows.push_back(Read(*array_, i));
  array_.reset();
  while (!rows.empty()) {
    EXPECT_GT(Allocator::Cpu()->stats().live_bytes, before);
    EXPECT_EQ(rows.back().data<float>()[kWidth - 1],
              static_cast<float>(rows.size() - 1));
    rows.pop_back();
  }
  EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, before);
}

TEST_F(TensorArrayRowsTest, UnreadRowsAreFreedWithTheArray) {
  const int64_t before = Allocator::Cpu()->stats().live_bytes;
  ASSERT_TRUE(array_->Scatter(all_, Numbered()).ok());
  Tensor row = Read(*array_, 2);
  array_.reset();
  EXPECT_THAT(row.ToVector<float>(), Each(2.0f));
  row = Tensor();
  EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, before);
}

// A loop computes in place in each row, and these rows become its gradient
// array's elements.
TEST_F(TensorArrayRowsTest, GatherRejoinsRowsWithoutCopy) {
  Tensor rows = Numbered();
  const void* const begin = std::as_const(rows).raw();
  ASSERT_TRUE(array_->Scatter(all_, std::move(rows)).ok());
  std::vector<Tensor> computed;
  for (int i = 0; i < kRowCount; ++i)
    computed.push_back(Negated(Read(*array_, i)));
  TensorArrayState& g = Gradient();
  for (int i = kRowCount; i-- > 0;)
    ASSERT_TRUE(g.Write(i, std::move(computed[static_cast<size_t>(i)])).ok());
  const Tensor joined = Gather(g, all_);
  EXPECT_EQ(joined.raw(), begin);
  EXPECT_EQ(joined.shape(), Shape({kRowCount, kWidth}));
  for (int i = 0; i < kRowCount; ++i) EXPECT_EQ(First(joined, i), -i);
}

// If a row has another owner, who may write to it, rows are copied.
TEST_F(TensorArrayRowsTest, GatherCopiesIfARowIsShared) {
  for (const bool held : {true, false}) {
    SCOPED_TRACE(held ? "one is held" : "two changed places");
    array_ = NewArray();
    ASSERT_TRUE(array_->Scatter(all_, Numbered()).ok());
    std::vector<Tensor> computed;
    for (int i = 0; i < kRowCount; ++i)
      computed.push_back(Negated(Read(*array_, i)));
    Tensor other;
    if (held) {
      other = computed[2];
    } else {
      std::swap(computed[1], computed[3]);
    }
    TensorArrayState& g = Gradient();
    for (int i = 0; i < kRowCount; ++i)
      ASSERT_TRUE(g.Write(i, std::move(computed[static_cast<size_t>(i)])).ok());
    const Tensor joined = Gather(g, all_);
    EXPECT_TRUE(other.unique() || !held);
    if (held) std::fill_n(other.data<float>(), kWidth, 7.0f);
    const std::vector<int> want = held ? std::vector<int>{0, 1, 2, 3, 4}
                                       : std::vector<int>{0, 3, 2, 1, 4};
    for (int i = 0; i < kRowCount; ++i)
      EXPECT_EQ(First(joined, i), -want[static_cast<size_t>(i)]);
  }
}

TEST_F(TensorArrayRowsTest, GradientRowsAreStackedOnceForAllReaders) {
  for (const int64_t width : {int64_t{2}, kWidth, 4 * kWidth}) {
    array_ = NewArray();
    for (int i = 0; i < kRowCount; ++i)
      ASSERT_TRUE(
          array_->Write(i, *Tensor::Zeros(DType::kFloat, Shape({width}))).ok());
    TensorArrayState& g = Gradient();
    for (int i = 0; i < kRowCount; ++i) {
      Tensor row(DType::kFloat, Shape({width}));
      std::fill_n(row.data<float>(), width, static_cast<float>(i));
      ASSERT_TRUE(g.Write(i, std::move(row)).ok());
    }
    const Tensor once = Gather(g, all_), twice = Gather(g, all_);
    EXPECT_EQ(once.raw(), twice.raw());
    const Tensor some = Gather(g, {0, 1, 2}), mixed = Gather(g, {4, 1});
    EXPECT_EQ(some.data<float>()[2 * width], 2);
    EXPECT_EQ(mixed.data<float>()[0], 4);
    EXPECT_EQ(mixed.data<float>()[width], 1);
    EXPECT_EQ(Read(g, 3).data<float>()[width - 1], 3);
  }
}

TEST_F(TensorArrayRowsTest, PartiallyStackedGradientRowsStayReadable) {
  for (int i = 0; i < kRowCount; ++i)
    ASSERT_TRUE(
        array_->Write(i, *Tensor::Zeros(DType::kFloat, Shape({kWidth}))).ok());
  TensorArrayState& g = Gradient();
  for (const int i : {0, 1, 3}) {
    Tensor row(DType::kFloat, Shape({kWidth}));
    std::fill_n(row.data<float>(), kWidth, static_cast<float>(i));
    ASSERT_TRUE(g.Write(i, std::move(row)).ok());
  }
  EXPECT_EQ(First(Gather(g, {0, 1}), 1), 1);
  const Tensor all = Gather(g, all_);
  const std::vector<float> want = {0, 1, 0, 3, 0};
  for (int i = 0; i < kRowCount; ++i)
    EXPECT_EQ(First(all, i), want[static_cast<size_t>(i)]);
}

TEST_F(TensorArrayRowsTest, ThreadsMayStackGradientRowsConcurrently) {
  for (int round = 0; round < 20; ++round) {
    array_ = NewArray();
    for (int i = 0; i < kRowCount; ++i)
      ASSERT_TRUE(
          array_->Write(i, *Tensor::Zeros(DType::kFloat, Shape({4 * kWidth})))
              .ok());
    TensorArrayState& g = Gradient();
    for (int i = 0; i < kRowCount; ++i) {
      Tensor row(DType::kFloat, Shape({4 * kWidth}));
      std::fill_n(row.data<float>(), 4 * kWidth, static_cast<float>(i));
      ASSERT_TRUE(g.Write(i, std::move(row)).ok());
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        const Tensor all = Gather(g, all_);
        for (int i = 0; i < kRowCount; ++i)
          EXPECT_EQ(all.data<float>()[i * 4 * kWidth], static_cast<float>(i));
      });
    for (std::thread& t : threads) t.join();
  }
}

// Rows released by several threads at once.
TEST_F(TensorArrayRowsTest, ThreadsMayReleaseRowsConcurrently) {
  const int64_t before = Allocator::Cpu()->stats().live_bytes;
  for (int round = 0; round < 50; ++round) {
    const auto array = NewArray();
    ASSERT_TRUE(array->Scatter(all_, Numbered()).ok());
    std::vector<std::thread> threads;
    for (int i = 0; i < kRowCount; ++i)
      threads.emplace_back([this, &array, i] {
        const Tensor row = Negated(Read(*array, i));
        EXPECT_EQ(row.data<float>()[kWidth / 2], static_cast<float>(-i));
      });
    for (std::thread& t : threads) t.join();
  }
  EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, before);
}

}  // namespace
}  // namespace sluice
