#include "kernels/simd/move.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/parallel.h"
#include "kernels/simd/cast.h"
#include "kernels/simd/test_util.h"

namespace sluice::simd {
namespace {

using Shape = std::vector<int64_t>;

int64_t Count(const Shape& s) {
  return std::accumulate(s.begin(), s.end(), int64_t{1},
                         std::multiplies<int64_t>());
}

// Calls fn(linear index, index) for each element.
template <class F>
void ForEach(const Shape& shape, F fn) {
  Shape index(shape.size());
  const int64_t n = Count(shape);
  for (int64_t i = 0; i < n; ++i) {
    fn(i, index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

int64_t Linear(const Shape& shape, const Shape& index) {
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

template <class T>
Unaligned<T> Numbered(int64_t n) {
  Unaligned<T> v(n);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<T>(i + 1);
  return v;
}

template <class T>
class MoveTest : public testing::Test {};
using MovedTypes =
    testing::Types<uint8_t, uint16_t, uint32_t, double, complex128>;
TYPED_TEST_SUITE(MoveTest, MovedTypes);

template <class T>
void CheckTranspose(const Shape& shape, const std::vector<int>& perm) {
  const auto in = Numbered<T>(Count(shape));
  Unaligned<T> out(in.size());
  ASSERT_TRUE(Transpose(sizeof(T), shape, perm, in.data(), out.data()));
  Shape out_shape;
  for (int p : perm) out_shape.push_back(shape[static_cast<size_t>(p)]);
  ForEach(out_shape, [&](int64_t i, const Shape& index) {
    Shape from(shape.size());
    for (size_t d = 0; d < perm.size(); ++d)
      from[static_cast<size_t>(perm[d])] = index[d];
    ASSERT_EQ(out[i], in[Linear(shape, from)]) << i;
  });
}

TYPED_TEST(MoveTest, TransposesAllPermutations) {
  for (const Shape& shape :
       {Shape{}, Shape{5}, Shape{3, 4}, Shape{17, 33}, Shape{64, 48},
        Shape{2, 3, 4}, Shape{5, 18, 7}, Shape{1, 3, 1, 4}, Shape{2, 3, 4, 5},
        Shape{0, 3}}) {
    std::vector<int> perm(shape.size());
    std::iota(perm.begin(), perm.end(), 0);
    do {
      CheckTranspose<TypeParam>(shape, perm);
    } while (std::next_permutation(perm.begin(), perm.end()));
  }
  ScopedIntraOpThreads threads(3);
  CheckTranspose<TypeParam>({401, 307}, {1, 0});
  CheckTranspose<TypeParam>({5, 150, 100}, {0, 2, 1});
  CheckTranspose<TypeParam>({40, 30, 20, 8}, {2, 1, 0, 3});
  CheckTranspose<TypeParam>({2, 1, 3, 2, 2, 3, 1, 2}, {7, 5, 3, 1, 0, 2, 4, 6});
}

TYPED_TEST(MoveTest, SlicesAndAssignsWithStrides) {
  using T = TypeParam;
  std::mt19937_64 rng(kTestSeed);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(testing::Message()
                 << "seed " << kTestSeed << ", trial " << trial);
    Shape shape, begin, steps, dims;
    const int rank = static_cast<int>(rng() % 5);
    for (int d = 0; d < rank; ++d) {
      const int64_t size = 1 + static_cast<int64_t>(rng() % 9);
      const int64_t step = 1 + static_cast<int64_t>(rng() % 3);
      const int64_t first =
          static_cast<int64_t>(rng() % static_cast<uint64_t>(size));
      const bool back = rng() % 2 == 0;
      shape.push_back(size);
      begin.push_back(first);
      steps.push_back(back ? -step : step);
      dims.push_back((back ? first : size - 1 - first) / step +
                     (rng() % 8 != 0));
    }
    const auto in = Numbered<T>(Count(shape));
    Unaligned<T> out(Count(dims));
    ASSERT_TRUE(
        Slice(sizeof(T), shape, begin, steps, dims, in.data(), out.data()));
    Unaligned<T> back(in.size());
    ASSERT_TRUE(AssignSlice(sizeof(T), shape, begin, steps, dims, out.data(),
                            back.data()));
    std::vector<bool> touched(static_cast<size_t>(in.size()));
    ForEach(dims, [&](int64_t i, const Shape& index) {
      Shape from(index);
      for (size_t d = 0; d < from.size(); ++d)
        from[d] = begin[d] + index[d] * steps[d];
      const int64_t at = Linear(shape, from);
      ASSERT_EQ(out[i], in[at]);
      ASSERT_EQ(back[at], in[at]);
      touched[static_cast<size_t>(at)] = true;
    });
    for (int64_t i = 0; i < in.size(); ++i)
      ASSERT_TRUE(touched[static_cast<size_t>(i)] || back[i] == T(0)) << i;
  }
}

TYPED_TEST(MoveTest, TilesPadsAndBroadcasts) {
  using T = TypeParam;
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{2, 1, 4},
                             Shape{1, 2, 1, 2, 1, 2, 1, 2}}) {
    const auto in = Numbered<T>(Count(shape));
    Shape multiples, tiled, before, after, padded;
    for (size_t d = 0; d < shape.size(); ++d) {
      multiples.push_back(d % 3 == 0 ? 2 : d % 3 == 1 ? 3 : 1);
      tiled.push_back(shape[d] * multiples[d]);
      before.push_back(d % 2 ? 2 : 0);
      after.push_back(d % 3 ? 1 : 0);
      padded.push_back(shape[d] + before[d] + after[d]);
    }
    Unaligned<T> out(Count(tiled));
    ASSERT_TRUE(Tile(sizeof(T), shape, multiples, in.data(), out.data()));
    ForEach(tiled, [&](int64_t i, Shape index) {
      for (size_t d = 0; d < index.size(); ++d) index[d] %= shape[d];
      ASSERT_EQ(out[i], in[Linear(shape, index)]);
    });
    Unaligned<T> wide(Count(padded));
    const T value = static_cast<T>(99);
    ASSERT_TRUE(
        Pad(sizeof(T), shape, before, after, &value, in.data(), wide.data()));
    ForEach(padded, [&](int64_t i, Shape index) {
      bool inside = true;
      for (size_t d = 0; d < index.size(); ++d) {
        index[d] -= before[d];
        inside = inside && index[d] >= 0 && index[d] < shape[d];
      }
      ASSERT_EQ(wide[i], inside ? in[Linear(shape, index)] : value);
    });
  }
  const Shape from = {3, 1, 2}, to = {4, 3, 5, 2};
  const auto in = Numbered<T>(6);
  Unaligned<T> out(Count(to));
  ASSERT_TRUE(BroadcastTo(sizeof(T), from, to, in.data(), out.data()));
  ForEach(to, [&](int64_t i, const Shape& index) {
    ASSERT_EQ(out[i], in[index[1] * 2 + index[3]]);
  });
}

// For outputs of 16 MB and more, which bypass the caches where their lines are
// aligned.
template <class T>
void CheckLargeTranspose() {
  const int64_t rows = 1030;
  const int64_t columns = (17 << 20) / static_cast<int64_t>(sizeof(T)) / rows;
  const auto n = static_cast<size_t>(rows * columns);
  std::vector<T> in(n), want(n), out(n + 1);
  std::iota(in.begin(), in.end(), T(0));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      want[static_cast<size_t>(j * rows + i)] =
          in[static_cast<size_t>(i * columns + j)];
  for (size_t at : {0, 1}) {
    ASSERT_TRUE(Transpose(sizeof(T), Shape{rows, columns}, {1, 0}, in.data(),
                          out.data() + at));
    EXPECT_EQ(std::memcmp(out.data() + at, want.data(), n * sizeof(T)), 0)
        << sizeof(T) << " bytes, " << at << " from the line";
  }
}

TEST(MoveTest, TransposesTensorsLargerThanCaches) {
  CheckLargeTranspose<uint32_t>();
  CheckLargeTranspose<double>();
}

TYPED_TEST(MoveTest, FillsAnySize) {
  using T = TypeParam;
  ScopedIntraOpThreads threads(2);
  for (int64_t n : {0, 1, 7, 1000, 100003}) {
    Unaligned<T> out(n);
    const T value = static_cast<T>(42);
    ASSERT_TRUE(Fill(sizeof(T), &value, out.data(), n));
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out[i], value);
  }
}

TEST(MoveTest, RowsAreCopiedAndGathered) {
  const int64_t rows = 300, in_width = 7, out_width = 11;
  const auto in = Numbered<int32_t>(rows * in_width);
  Unaligned<int32_t> out(rows * out_width);
  CopyRows(rows, in_width * 4, in.data(), in_width * 4, out.data() + 3,
           out_width * 4);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < out_width; ++c)
      ASSERT_EQ(out[r * out_width + c],
                c >= 3 && c < 10 ? in[r * in_width + c - 3] : 0);
  const int64_t indices[] = {5, 0, 299, 5};
  int32_t rows_out[4 * 7];
  EXPECT_EQ(GatherRows(28, indices, 4, rows, in.data(), rows_out), -1);
  EXPECT_EQ(rows_out[0], in[35]);
  EXPECT_EQ(rows_out[14], in[299 * 7]);
  const int32_t outside[] = {1, 300, 2, 0};
  EXPECT_EQ(GatherRows(28, outside, 4, rows, in.data(), rows_out), 1);
  EXPECT_EQ(rows_out[7], 0);
  EXPECT_EQ(rows_out[14], in[14]);
  const int32_t negative[] = {-1};
  EXPECT_EQ(GatherRows(28, negative, 1, rows, in.data(), rows_out), 0);
  EXPECT_EQ(GatherRows(28, negative, 0, 0, nullptr, nullptr), -1);
}

TEST(MoveTest, UnsupportedElementSizesAndRanksAreRefused) {
  const Shape one = {1};
  const Shape many(17, 1);
  char x[8] = {}, y[8];
  EXPECT_FALSE(StridedCopy(3, one, x, one, y, one));
  EXPECT_FALSE(StridedCopy(1, many, x, many, y, many));
  EXPECT_FALSE(Fill(3, x, y, 1));
}

// One element of any type from a double, the way the kernels store it.
template <class T>
T Number(double x) {
  if constexpr (kIs16BitFloat<T>)
    return T(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

template <class From, class To>
void CheckCast() {
  const UnaryKernel cast = GetCast(DTypeOf<From>(), DTypeOf<To>());
  ASSERT_TRUE(cast);
  for (int64_t n : {0, 1, 17, 300}) {
    Unaligned<From> in(n);
    Unaligned<To> out(n);
    for (int64_t i = 0; i < n; ++i) in[i] = Number<From>((i % 50) * 2.5);
    cast(in.data(), out.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      const double x = AsDouble(in[i]);
      To want;
      if constexpr (std::is_same_v<To, bool>)
        want = x != 0;
      else
        want = Number<To>(x);
      ASSERT_EQ(out[i], want) << DTypeName(DTypeOf<From>()) << " to "
                              << DTypeName(DTypeOf<To>()) << " of " << x;
    }
  }
}

template <class From>
void CheckCastFrom() {
  CheckCast<From, bool>();
  CheckCast<From, int8_t>();
  CheckCast<From, int16_t>();
  CheckCast<From, int32_t>();
  CheckCast<From, int64_t>();
  CheckCast<From, uint8_t>();
  CheckCast<From, uint16_t>();
  CheckCast<From, uint32_t>();
  CheckCast<From, uint64_t>();
  CheckCast<From, half>();
  CheckCast<From, bfloat16>();
  CheckCast<From, float>();
  CheckCast<From, double>();
  CheckCast<From, complex64>();
  CheckCast<From, complex128>();
}

template <class T>
class CastTest : public testing::Test {};
using AllTypes = testing::Types<bool, int8_t, int16_t, int32_t, int64_t,
                                uint8_t, uint16_t, uint32_t, uint64_t, half,
                                bfloat16, float, double, complex64, complex128>;
TYPED_TEST_SUITE(CastTest, AllTypes);

TYPED_TEST(CastTest, CastsToEveryType) { CheckCastFrom<TypeParam>(); }

template <class From, class To>
To CastOne(From x, bool truncate = false) {
  To out{};
  GetCast(DTypeOf<From>(), DTypeOf<To>(), truncate)(&x, &out, 1);
  return out;
}

TEST(CastEdgeTest, FloatsTruncateTowardsZero) {
  EXPECT_EQ((CastOne<float, int32_t>(-2.9f)), -2);
  EXPECT_EQ((CastOne<double, int64_t>(2.9)), 2);
  EXPECT_EQ((CastOne<double, uint64_t>(1e19)), 10000000000000000000u);
  EXPECT_EQ((CastOne<double, int32_t>(-2147483648.5)),
            std::numeric_limits<int32_t>::min());
  EXPECT_EQ((CastOne<float, uint32_t>(3e9f)), 3000000000u);
}

template <class To>
void CheckWholeVectors() {
  const float inf = std::numeric_limits<float>::infinity();
  const float odd[] = {-2.9f,  2.9f,   inf,           -inf,  std::nanf(""),
                       3e9f,   -3e9f,  2147483648.f,  300.f, -300.f,
                       -0.25f, 127.9f, -2147483648.f, 1e30f, 2147483520.f};
  for (int64_t n : {1, 15, 16, 33, 700}) {
    Unaligned<float> in(n);
    Unaligned<To> out(n);
    for (int64_t i = 0; i < n; ++i) in[i] = odd[(i + i / 16) % std::ssize(odd)];
    GetCast(DType::kFloat, DTypeOf<To>())(in.data(), out.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      const bool fits = in[i] >= -2147483648.f && in[i] < 2147483648.f;
      const int32_t want = fits ? static_cast<int32_t>(in[i])
                                : std::numeric_limits<int32_t>::min();
      ASSERT_EQ(out[i], static_cast<To>(want)) << in[i] << " at " << i;
    }
  }
}

TEST(CastEdgeTest, FloatsOutOfRangeBecomeTheMinimumInteger) {
  CheckWholeVectors<int32_t>();
  CheckWholeVectors<int8_t>();
  CheckWholeVectors<uint8_t>();
  CheckWholeVectors<int16_t>();
}

TEST(CastEdgeTest, DoublesOutOfRangeBecomeTheMinimumInteger) {
  const double inf = std::numeric_limits<double>::infinity();
  const double odd[] = {-2147483648.5, -2147483649.0, 2147483647.9,
                        2147483648.0,  inf,           -inf,
                        std::nan(""),  1e300,         -0.75};
  for (int64_t n : {1, 4, 7, 16, 530}) {
    Unaligned<double> in(n);
    Unaligned<int32_t> out(n);
    Unaligned<uint8_t> small(n);
    for (int64_t i = 0; i < n; ++i) in[i] = odd[(i + i / 8) % std::ssize(odd)];
    GetCast(DType::kDouble, DType::kInt32)(in.data(), out.data(), n);
    GetCast(DType::kDouble, DType::kUint8)(in.data(), small.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      const bool fits = in[i] > -2147483649.0 && in[i] < 2147483648.0;
      const int32_t want = fits ? static_cast<int32_t>(in[i])
                                : std::numeric_limits<int32_t>::min();
      ASSERT_EQ(out[i], want) << in[i] << " at " << i;
      ASSERT_EQ(small[i], static_cast<uint8_t>(want)) << in[i] << " at " << i;
    }
  }
}

// In vectors as one by one, and as rounded from more digits than a float has.
template <class T16>
void CheckDoublesTo16Bits() {
  std::mt19937_64 rng(kTestSeed);
  constexpr int64_t kCount = 3000;
  Unaligned<double> in(kCount);
  Unaligned<T16> out(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    // Any exponent of a float or beyond, and ties that a float would round to.
    const int exponent = static_cast<int>(rng() % 320) - 170;
    in[i] = std::ldexp(1 + static_cast<double>(rng() % 4096) / 2048, exponent);
    if (i % 3 == 0) in[i] *= 1 + 0x1p-45;
    if (i % 3 == 1) in[i] *= 1 - 0x1p-45;
    if (i % 2 == 0) in[i] = std::ldexp(in[i], -exponent);
    if (i % 5 == 0) in[i] = -in[i];
  }
  in[7] = std::nan("");
  in[8] = std::numeric_limits<double>::infinity();
  in[9] = -0.0;
  in[10] = std::bit_cast<double>(uint64_t{0x7ff0000000000001});
  in[11] = 65519.99999999999;
  in[12] = 65520;
  GetCast(DType::kDouble, DTypeOf<T16>())(in.data(), out.data(), kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    if (std::isnan(in[i]))
      ASSERT_TRUE(std::isnan(static_cast<float>(out[i]))) << i;
    else
      ASSERT_EQ(out[i].bits, DoubleTo16<T16>(in[i]).bits) << in[i];
  }
}

TEST(CastEdgeTest, DoublesAreRoundedTo16BitsOnce) {
  SCOPED_TRACE(kTestSeed);
  CheckDoublesTo16Bits<half>();
  CheckDoublesTo16Bits<bfloat16>();
}

TEST(CastEdgeTest, OutOfRangeAndNanDoNotTrap) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (float x : {inf, -inf, nan, 1e30f, -1e30f}) {
    EXPECT_EQ((CastOne<float, int32_t>(x)),
              std::numeric_limits<int32_t>::min());
    EXPECT_EQ((CastOne<float, int64_t>(x)),
              std::numeric_limits<int64_t>::min());
    EXPECT_TRUE((CastOne<float, bool>(x)));
  }
}

TEST(CastEdgeTest, IntegersKeepTheirLowBits) {
  EXPECT_EQ((CastOne<int32_t, int8_t>(300)), 44);
  EXPECT_EQ((CastOne<int64_t, uint32_t>(-1)), 4294967295u);
  EXPECT_TRUE((CastOne<int32_t, bool>(256)));
  EXPECT_TRUE((CastOne<complex64, bool>({0, 1})));
}

TEST(CastEdgeTest, DoubleToHalfRoundsOnce) {
  // Just above the middle of two halves; in float it is the middle.
  const double x = 1 + std::ldexp(1, -11) + std::ldexp(1, -40);
  EXPECT_EQ((CastOne<double, half>(x).bits), 0x3c01);
  EXPECT_EQ((CastOne<double, half>(1 + std::ldexp(1, -11)).bits), 0x3c00);
  EXPECT_EQ((CastOne<double, half>(1e300).bits), 0x7c00);
}

TEST(CastEdgeTest, TruncateDropsBits) {
  EXPECT_EQ((CastOne<float, bfloat16>(1.99999f).bits), 0x4000);
  EXPECT_EQ((CastOne<float, bfloat16>(1.99999f, true).bits), 0x3fff);
  EXPECT_EQ((CastOne<double, float>(1.0 + 0.999 * std::ldexp(1, -23), true)),
            1.0f);
  EXPECT_TRUE(std::isnan(static_cast<float>(
      CastOne<float, half>(std::numeric_limits<float>::quiet_NaN(), true))));
}

TEST(CastEdgeTest, AllHalvesRoundTripThroughFloat) {
  std::vector<half> in(65536), back(65536);
  std::vector<float> wide(65536);
  for (int i = 0; i < 65536; ++i)
    in[static_cast<size_t>(i)].bits = static_cast<uint16_t>(i);
  GetCast(DType::kHalf, DType::kFloat)(in.data(), wide.data(), 65536);
  GetCast(DType::kFloat, DType::kHalf)(wide.data(), back.data(), 65536);
  for (size_t i = 0; i < 65536; ++i) {
    ASSERT_TRUE(Near(wide[i], static_cast<float>(in[i]), 0)) << i;
    ASSERT_EQ(UlpDistance(in[i], back[i]), 0) << i;
  }
}

TEST(CastEdgeTest, UnsupportedTypesHaveNoKernel) {
  EXPECT_FALSE(GetCast(DType::kString, DType::kFloat));
  EXPECT_FALSE(GetCast(DType::kFloat, DType::kString));
  EXPECT_FALSE(GetCast(DType::kVariant, DType::kVariant));
}

}  // namespace
}  // namespace sluice::simd
