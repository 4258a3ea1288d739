// Ops that look for elements, beside plain loops: sizes at which their loops
// take other ways than for the recorded cases, which are small.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "ops/array/test_util.h"

namespace sluice {
namespace {

constexpr unsigned kSeed = 5;

TEST(Search, BoundsAreThoseOfTheLibrary) {
  SCOPED_TRACE(kSeed);
  std::mt19937 rng(kSeed);
  const ScopedIntraOpThreads threads(3);
  for (const int64_t columns : {1, 2, 3, 7, 8, 100, 1025}) {
    const int64_t values = columns < 50 ? 40 : 5000;
    constexpr int64_t kRows = 2;
    Tensor sorted(DType::kInt32, Shape({kRows, columns}));
    Tensor wanted(DType::kInt32, Shape({kRows, values}));
    for (int32_t& x : sorted.flat<int32_t>())
      x = static_cast<int32_t>(rng() % 50);
    for (int32_t& x : wanted.flat<int32_t>())
      x = static_cast<int32_t>(rng() % 52) - 1;
    for (int64_t r = 0; r < kRows; ++r)
      std::sort(sorted.raw<int32_t>() + r * columns,
                sorted.raw<int32_t>() + (r + 1) * columns);
    const auto lower = RunRecorded("LowerBound", {sorted, wanted});
    const auto upper = RunRecorded("UpperBound", {sorted, wanted});
    ASSERT_TRUE(lower.ok() && upper.ok()) << lower.status() << upper.status();
    for (int64_t i = 0; i < kRows * values; ++i) {
      const int32_t* row = sorted.raw<int32_t>() + i / values * columns;
      const int32_t v = wanted.raw<int32_t>()[i];
      ASSERT_EQ((*lower)[0].raw<int32_t>()[i],
                std::lower_bound(row, row + columns, v) - row);
      ASSERT_EQ((*upper)[0].raw<int32_t>()[i],
                std::upper_bound(row, row + columns, v) - row);
    }
  }
}

TEST(Search, WhereHasTheCoordinatesOfAllElementsThatAreNotZero) {
  SCOPED_TRACE(kSeed);
  std::mt19937 rng(kSeed);
  for (const std::vector<int64_t>& dims :
       std::vector<std::vector<int64_t>>{{0},
                                         {1},
                                         {70},
                                         {5, 9},
                                         {4, 0},
                                         {0, 4},
                                         {6, 1},
                                         {1, 6},
                                         {3, 4, 5},
                                         {2, 1, 3, 2}}) {
    for (const unsigned of_ten : {0u, 1u, 5u, 10u}) {
      Tensor x(DType::kFloat, *Shape::Make(dims));
      for (float& v : x.flat<float>()) v = rng() % 10 < of_ten ? -0.5f : -0.0f;
      const auto got = RunRecorded("Where", {x});
      ASSERT_TRUE(got.ok()) << got.status();
      std::vector<int64_t> want;
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        if (x.flat<float>()[i] == 0) continue;
        int64_t inner = x.num_elements();
        for (const int64_t d : dims) {
          inner /= d;
          want.push_back(i / inner % d);
        }
      }
      const auto all = (*got)[0].flat<int64_t>();
      ASSERT_EQ(std::vector<int64_t>(all.begin(), all.end()), want)
          << x.shape().ToString();
      EXPECT_EQ((*got)[0].dim(1), static_cast<int64_t>(dims.size()));
    }
  }
}

TEST(Search, GatherNdTakesElementsOfEverySize) {
  for (const DType type : {DType::kInt8, DType::kInt16, DType::kInt32,
                           DType::kInt64, DType::kComplex128}) {
    Tensor x(type, Shape({3, 4}));
    const size_t size = DTypeSize(type);
    auto* const bytes = static_cast<uint8_t*>(x.raw());
    for (size_t i = 0; i < 12 * size; ++i)
      bytes[i] = static_cast<uint8_t>(i * 37 + i / size);
    const Tensor at = Tensor::Of<int32_t>(Shape({3, 2}), {2, 3, 0, 0, 1, 2});
    const auto got = RunRecorded("GatherNd", {x, at});
    ASSERT_TRUE(got.ok()) << got.status();
    size_t i = 0;
    for (const size_t from : {11u, 0u, 6u}) {
      EXPECT_EQ(
          std::memcmp(static_cast<const uint8_t*>((*got)[0].raw()) + i++ * size,
                      bytes + from * size, size),
          0)
          << DTypeName(type) << " " << from;
    }
    const Tensor bad = Tensor::Of<int32_t>(Shape({1, 2}), {0, 4});
    EXPECT_FALSE(RunRecorded("GatherNd", {x, bad}).ok());
    // Out of range is zero if the node says so.
    const auto ignored =
        RunRecorded("GatherNd", {x, bad}, {{"bad_indices_policy", "IGNORE"}});
    ASSERT_TRUE(ignored.ok()) << ignored.status();
    const auto* const zero = static_cast<const uint8_t*>((*ignored)[0].raw());
    EXPECT_EQ(std::count(zero, zero + size, 0), static_cast<int64_t>(size));
  }
}

// Numbers of a type from a few or from all of its values, beside a plain list.
template <typename T>
void CheckUnique(int64_t n, int64_t distinct) {
  SCOPED_TRACE(::testing::Message()
               << DTypeName(DTypeOf<T>()) << ", " << n << " of " << distinct);
  std::mt19937_64 rng(kSeed);
  Tensor x(DTypeOf<T>(), Shape({n}));
  for (T& v : x.flat<T>()) {
    v = static_cast<T>(static_cast<int64_t>(rng() % distinct) - distinct / 2);
    if constexpr (std::is_floating_point_v<T>) {
      if (v == T(1)) v = std::numeric_limits<T>::quiet_NaN();
      if (v == T(0) && rng() % 2 == 0) v = T(-0.0);
    }
  }
  std::vector<T> values;
  std::map<T, int32_t> known;  // Without NaN, which equals nothing.
  std::vector<int32_t> places, counts;
  for (const T v : x.flat<T>()) {
    const auto next = static_cast<int32_t>(values.size());
    const int32_t at = v == v ? known.try_emplace(v, next).first->second : next;
    if (at == next) {
      values.push_back(v);
      counts.push_back(0);
    }
    places.push_back(at);
    ++counts[static_cast<size_t>(at)];
  }
  const auto got = RunRecorded("UniqueWithCounts", {x});
  const auto plain = RunRecorded("Unique", {x});
  ASSERT_TRUE(got.ok() && plain.ok()) << got.status() << plain.status();
  ASSERT_EQ((*got)[0].num_elements(), std::ssize(values));
  if (!values.empty()) {
    EXPECT_EQ(
        std::memcmp((*got)[0].raw(), values.data(), values.size() * sizeof(T)),
        0);
  }
  for (const auto& [tensor, want] :
       {std::pair(&(*got)[1], &places), std::pair(&(*got)[2], &counts),
        std::pair(&(*plain)[1], &places)}) {
    const auto flat = tensor->template flat<int32_t>();
    EXPECT_TRUE(
        std::equal(flat.begin(), flat.end(), want->begin(), want->end()));
  }
}

TEST(Search, UniqueNumbersAreInTheOrderOfTheirFirst) {
  for (const int64_t n : {0, 1, 2, 15, 16, 17, 600, 20000}) {
    for (const int64_t distinct : {1, 5, 200, 1 << 30}) {
      CheckUnique<int32_t>(n, distinct);
      CheckUnique<int64_t>(n, distinct);
      CheckUnique<uint8_t>(n, distinct);
      CheckUnique<int16_t>(n, distinct);
      CheckUnique<float>(n, distinct);
      CheckUnique<double>(n, distinct);
    }
  }
}

}  // namespace
}  // namespace sluice
