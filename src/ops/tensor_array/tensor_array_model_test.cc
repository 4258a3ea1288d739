// TensorArrays against a map from indices to tensors: random operations on
// elements of all layouts, which are packed, rows of one tensor, or tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

#include "ops/tensor_array/tensor_array.h"

namespace sluice {
namespace {

// An array together with its model.
class ModelledArray {
 public:
  ModelledArray(std::mt19937* rng, DType dtype, Shape shape, bool dynamic,
                bool clear, int size)
      : rng_(rng),
        dtype_(dtype),
        shape_(std::move(shape)),
        dynamic_(dynamic),
        clear_(clear),
        size_(size) {
    auto decl = std::make_shared<TensorArrayDecl>();
    decl->name = "modelled";
    decl->dtype = dtype;
    decl->dynamic_size = dynamic;
    decl->clear_after_read = clear;
    array_ = std::make_shared<TensorArrayState>(decl, size);
  }

  // Whole numbers, so that sums are exact.
  Tensor Random(const Shape& shape) {
    Tensor t(dtype_, shape);
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      const int v = static_cast<int>((*rng_)() % 9) - 4;
      if (dtype_ == DType::kFloat)
        t.data<float>()[i] = static_cast<float>(v);
      else if (dtype_ == DType::kDouble)
        t.data<double>()[i] = v;
      else
        t.data<int8_t>()[i] = static_cast<int8_t>(v);
    }
    return t;
  }
  Shape AShape(bool other) {
    return other ? Shape({3, 1 + static_cast<int64_t>((*rng_)() % 3)}) : shape_;
  }
  int AnIndex() {
    return static_cast<int>((*rng_)() % static_cast<unsigned>(size_ + 2)) - 1;
  }

  void Write(bool other) {
    const int i = AnIndex();
    const Tensor value = Random(AShape(other && !narrowed_));
    const bool fits = i >= 0 && (i < size_ || dynamic_);
    const bool want = fits && !written_.contains(i);
    const bool word = value.rank() == 0 && ((*rng_)() & 1);
    if (word && i < size_) {  // Like regions: by words, else by tensors.
      uint64_t bits = 0;
      std::memcpy(&bits, value.raw(), DTypeSize(dtype_));
      if (array_->WriteScalar(i, dtype_, bits)) {
        ASSERT_TRUE(want) << i;
        written_[i] = value;
        return;
      }
    }
    const Status s = array_->Write(i, value);
    ASSERT_EQ(s.ok(), want) << i << s;
    if (!want) return;
    written_[i] = value;
    size_ = std::max(size_, i + 1);
  }

  void Read() {
    const int i = AnIndex();
    const bool want = written_.contains(i) && !cleared_.contains(i);
    Tensor got;
    uint64_t bits = 0;
    if (array_->ReadScalar(i, dtype_, &bits)) {
      ASSERT_TRUE(want) << i;
      got = Tensor(dtype_, Shape());
      std::memcpy(got.raw(), &bits, DTypeSize(dtype_));
    } else {
      ASSERT_EQ(array_->Read(i, &got).ok(), want) << i;
    }
    if (!want) return;
    ASSERT_TRUE(got.Identical(written_[i])) << got.ToString();
    if (clear_) cleared_[i] = true;
    // A reader may overwrite its result if it is the only owner.
    if (got.unique() && got.has_buffer()) std::memset(got.raw(), 1, 1);
  }

  void ScatterAll() {
    std::vector<int32_t> indices(static_cast<size_t>(size_));
    std::iota(indices.begin(), indices.end(), 0);
    Dims dims = {size_};
    dims.insert(dims.end(), shape_.dims().begin(), shape_.dims().end());
    const Tensor rows = Random(Shape(std::span<const int64_t>(dims)));
    if (!written_.empty()) return;  // (A failure might leave half of it.)
    narrowed_ = true;               // To the shape of the rows.
    ASSERT_TRUE(array_->Scatter(indices, rows).ok());
    for (int i = 0; i < size_; ++i)
      written_[i] = *rows.Rows(i, i + 1).Reshaped(shape_)->Clone();
  }

  // Takes all; at the end, since it may fail halfway.
  void Gather() {
    std::vector<int32_t> indices(static_cast<size_t>(size_));
    std::iota(indices.begin(), indices.end(), 0);
    std::shuffle(indices.begin(), indices.end(), *rng_);
    bool want = size_ > 0;
    for (const int32_t i : indices)
      want = want && written_.contains(i) && !cleared_.contains(i) &&
             written_[i].shape() == written_[indices[0]].shape();
    Tensor all;
    ASSERT_EQ(
        array_->Gather(indices, PartialShape(), Allocator::Cpu(), &all).ok(),
        want);
    if (!want) return;
    for (int64_t r = 0; r < size_; ++r) {
      const Tensor& w = written_[indices[static_cast<size_t>(r)]];
      ASSERT_TRUE(all.Rows(r, r + 1).Reshaped(w.shape())->Identical(w)) << r;
    }
  }

  // The gradient array: adds some elements up, and reads all back.
  void Gradient() {
    if (dtype_ == DType::kInt8) return;
    Tensor handle;
    ASSERT_TRUE(array_->Gradient("g", nullptr, &handle).ok());
    auto& g = static_cast<TensorArrayState&>(
        *handle.scalar<ResourceHandle>().resource);
    std::map<int, Tensor> sums;
    for (int k = 0; k < 2 * size_; ++k) {
      const int i = static_cast<int>((*rng_)() % static_cast<unsigned>(size_));
      if (!written_.contains(i)) continue;
      const Tensor dy = Random(written_[i].shape());
      uint64_t bits = 0;
      std::memcpy(&bits, std::as_const(dy).raw(),
                  std::min<size_t>(8, dy.bytes()));
      if (dy.rank() != 0 || !g.WriteScalar(i, dtype_, bits)) {
        ASSERT_TRUE(g.Write(i, dy).ok()) << i;
      }
      if (!sums.contains(i)) {
        sums[i] = *dy.Clone();
        continue;
      }
      for (int64_t e = 0; e < dy.num_elements(); ++e) {
        if (dtype_ == DType::kFloat)
          sums[i].data<float>()[e] += dy.data<float>()[e];
        else
          sums[i].data<double>()[e] += dy.data<double>()[e];
      }
    }
    for (int i = size_; i-- > 0;) {
      if (!written_.contains(i)) continue;
      Tensor got;
      ASSERT_TRUE(g.Read(i, &got).ok()) << i;
      const Tensor want = sums.contains(i)
                              ? sums[i]
                              : *Tensor::Zeros(dtype_, written_[i].shape());
      ASSERT_TRUE(got.Identical(want)) << got.ToString() << want.ToString();
    }
  }

 private:
  std::mt19937* const rng_;
  const DType dtype_;
  const Shape shape_;
  const bool dynamic_, clear_;
  int size_;
  bool narrowed_ = false;
  std::map<int, Tensor> written_;
  std::map<int, bool> cleared_;
  std::shared_ptr<TensorArrayState> array_;
};

TEST(TensorArrayModelTest, AllStorageLayoutsBehaveEqually) {
  const int64_t before = Allocator::Cpu()->stats().live_bytes;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    const DType dtype =
        std::array{DType::kFloat, DType::kDouble, DType::kInt8}[rng() % 3];
    const Shape shape = std::array{Shape(), Shape({3}), Shape({1, 2}),
                                   Shape({200}), Shape({0})}[rng() % 5];
    const bool mixed = rng() % 4 == 0;
    const int size = static_cast<int>(rng() % 12);
    ModelledArray a(&rng, dtype, shape, rng() % 2 == 0, rng() % 2 == 0, size);
    if (size > 0 && rng() % 3 == 0) a.ScatterAll();
    for (int op = 0; op < 30 && !testing::Test::HasFatalFailure(); ++op) {
      if (rng() % 3 == 0) {
        a.Read();
      } else {
        a.Write(mixed && rng() % 8 == 0);
      }
    }
    if (!testing::Test::HasFatalFailure()) a.Gradient();
    if (!testing::Test::HasFatalFailure()) a.Gather();
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
  EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, before);
}

// What a loop saves takes as many bytes as its rows have, and is freed as they
// are read.
TEST(TensorArrayModelTest, SmallRowsUseOnlyTheirBytes) {
  constexpr int kRows = 100'000;
  auto decl = std::make_shared<TensorArrayDecl>();
  decl->name = "saved";
  decl->dtype = DType::kFloat;
  decl->dynamic_size = true;
  const int64_t before = Allocator::Cpu()->stats().live_bytes;
  const auto live = [before] {
    return Allocator::Cpu()->stats().live_bytes - before;
  };
  TensorArrayState array(decl, 0);
  for (int i = 0; i < kRows; ++i) {
    Tensor row(DType::kFloat, Shape({8}));
    std::fill_n(row.data<float>(), 8, static_cast<float>(i));
    ASSERT_TRUE(array.Write(i, std::move(row)).ok());
  }
  EXPECT_LE(live(), kRows * 32 + 64 * 1024);
  for (int i = kRows; i-- > 0;) {
    Tensor row;
    ASSERT_TRUE(array.Read(i, &row).ok());
    ASSERT_TRUE(row.unique());
    ASSERT_EQ(row.data<float>()[7], static_cast<float>(i));
    if (i == kRows / 4) {
      row = Tensor();
      EXPECT_LE(live(), kRows * 8 + 3 * 64 * 1024);
    }
  }
}

}  // namespace
}  // namespace sluice
