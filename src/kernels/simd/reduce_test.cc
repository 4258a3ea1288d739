#include "kernels/simd/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/simd/test_util.h"

namespace sluice::simd {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum,  ReduceOp::kMean,
                             ReduceOp::kProd, ReduceOp::kSumSquares,
                             ReduceOp::kMax,  ReduceOp::kMin};

// The plain definition. Floats are reduced in long double, ints wrap.
template <class T>
T Reference(ReduceOp op, const std::vector<T>& v) {
  using A = std::conditional_t<
      std::is_integral_v<T>, uint64_t,
      std::conditional_t<kIsComplexType<T>, complex128, long double>>;
  const auto wide = [](T x) {
    if constexpr (kIsComplexType<T>)
      return A(x.real(), x.imag());
    else
      return static_cast<A>(x);
  };
  const auto narrow = [](A a) {
    if constexpr (std::is_same_v<T, complex64>) {
      return T(static_cast<float>(a.real()), static_cast<float>(a.imag()));
    } else if constexpr (kIs16BitFloat<T>) {
      return T(static_cast<float>(a));
    } else {
      return static_cast<T>(a);
    }
  };
  A a = op == ReduceOp::kProd ? A(1) : A(0);
  if constexpr (!kIsComplexType<T>) {
    if (op == ReduceOp::kMax || op == ReduceOp::kMin) {
      T best = v[0];
      for (T x : v) {
        if constexpr (!std::is_integral_v<T>) {
          if (std::isnan(static_cast<float>(x))) return x;
        }
        const bool better = op == ReduceOp::kMax ? best < x : x < best;
        if (better) best = x;
      }
      return best;
    }
    if (op == ReduceOp::kMean && std::is_integral_v<T>) {
      __int128 sum = 0;
      for (T x : v) sum += static_cast<int64_t>(x);
      if constexpr (std::is_same_v<T, uint64_t>) {
        uint64_t s = 0;
        for (T x : v) s += x;
        return s / v.size();
      }
      return static_cast<T>(static_cast<int64_t>(sum) /
                            static_cast<int64_t>(v.size()));
    }
  }
  for (T x : v) {
    if (op == ReduceOp::kProd) {
      a *= wide(x);
    } else if (op == ReduceOp::kSumSquares) {
      if constexpr (kIsComplexType<T>)
        a += std::norm(wide(x));
      else
        a += wide(x) * wide(x);
    } else {
      a += wide(x);
    }
  }
  if constexpr (!std::is_integral_v<T>) {
    if (op == ReduceOp::kMean) a /= static_cast<double>(v.size());
  }
  return narrow(a);
}

// Reduces by index arithmetic and compares.
template <class T>
void CheckShape(ReduceOp op, const std::vector<int64_t>& shape, int mask,
                std::mt19937_64& rng, bool edges) {
  const size_t rank = shape.size();
  bool reduced[kMaxRank];
  int64_t total = 1, outputs = 1;
  for (size_t i = 0; i < rank; ++i) {
    reduced[i] = (mask >> i & 1) != 0;
    total *= shape[i];
    if (!reduced[i]) outputs *= shape[i];
  }
  const auto in = RandomArray<T>(total, rng, edges);
  Unaligned<T> out(outputs);
  ASSERT_TRUE(Reduce(op, DTypeOf<T>(), shape,
                     absl::MakeConstSpan(reduced, rank), in.data(),
                     out.data()));
  std::vector<std::vector<T>> parts(static_cast<size_t>(outputs));
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, o = 0, step = 1;
    for (size_t d = rank; d-- > 0;) {
      if (!reduced[d]) {
        o += rest % shape[d] * step;
        step *= shape[d];
      }
      rest /= shape[d];
    }
    parts[static_cast<size_t>(o)].push_back(in[i]);
  }
  for (int64_t o = 0; o < outputs; ++o) {
    const auto& part = parts[static_cast<size_t>(o)];
    if (part.empty()) continue;
    const T want = Reference(op, part);
    if constexpr (std::is_integral_v<T>) {
      ASSERT_EQ(out[o], want) << "output " << o;
    } else if (op == ReduceOp::kMax || op == ReduceOp::kMin) {
      ASSERT_TRUE(Near(out[o], want, 0)) << "output " << o;
    } else if constexpr (kIsComplexType<T>) {
      double size = 0;
      for (T x : part)
        size += static_cast<double>(std::abs(x) * std::abs(x)) + 1;
      if (op == ReduceOp::kProd) size = 1e6 * (std::abs(want) + 1e-3);
      ASSERT_LE(std::abs(out[o] - want), size * 1e-6) << "output " << o;
    } else {
      const double got = static_cast<double>(out[o]);
      const double w = static_cast<double>(want);
      if (std::isnan(w) || std::isinf(w)) {
        ASSERT_TRUE(Near(out[o], want, 0)) << "output " << o << " " << got;
        continue;
      }
      double magnitude = 0;
      for (T x : part)
        magnitude += std::max(1.0, std::fabs(static_cast<double>(x))) * 3;
      if (op == ReduceOp::kMean) magnitude /= static_cast<double>(part.size());
      if (op == ReduceOp::kProd) {
        magnitude = std::fabs(w) * static_cast<double>(part.size() + 1) + 1e-30;
      }
      const double eps = std::is_same_v<T, double>     ? 1e-15
                         : std::is_same_v<T, float>    ? 2e-7
                         : std::is_same_v<T, bfloat16> ? 8e-3
                                                       : 1e-3;
      ASSERT_NEAR(got, w, eps * (magnitude + std::fabs(w))) << "output " << o;
    }
  }
}

template <class T>
class ReduceTest : public testing::Test {};
using ReduceTypes = testing::Types<float, double, half, bfloat16, int8_t,
                                   int16_t, int32_t, int64_t, uint8_t, uint16_t,
                                   uint32_t, uint64_t, complex64, complex128>;
TYPED_TEST_SUITE(ReduceTest, ReduceTypes);

TYPED_TEST(ReduceTest, ReducesRowsAndColumnsOfManySizes) {
  using T = TypeParam;
  std::mt19937_64 rng(kTestSeed);
  for (ReduceOp op : kOps) {
    if (kIsComplexType<T> && op >= ReduceOp::kMax) continue;
    for (int64_t n : {1, 2, 7, 15, 16, 17, 63, 64, 65, 300, 2048, 5000}) {
      // Products of many random floats overflow; their order then matters.
      if (op == ReduceOp::kProd && !std::is_integral_v<T> && n > 17) continue;
      SCOPED_TRACE(testing::Message() << "seed " << kTestSeed << ", op "
                                      << static_cast<int>(op) << ", n " << n);
      const bool edges = op == ReduceOp::kMax || op == ReduceOp::kMin;
      CheckShape<T>(op, {3, n}, 2, rng, edges);
      // (Short rows are transposed by tiles.)
      if (n < 16) CheckShape<T>(op, {700, n}, 2, rng, edges);
      CheckShape<T>(op, {n, 3}, 1, rng, edges);
      if (n <= 300) CheckShape<T>(op, {n, 300}, 1, rng, edges);
    }
  }
}

TYPED_TEST(ReduceTest, ReducesEverySubsetOfAxes) {
  using T = TypeParam;
  std::mt19937_64 rng(kTestSeed);
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{},
                                         {5},
                                         {4, 3},
                                         {2, 3, 4},
                                         {3, 1, 2, 5},
                                         {2, 3, 1, 2, 2, 3},
                                         {2, 1, 2, 3, 2, 1, 2, 2}}) {
    for (int mask = 0; mask < 1 << shape.size(); ++mask) {
      SCOPED_TRACE(testing::Message() << "seed " << kTestSeed << ", rank "
                                      << shape.size() << ", axes " << mask);
      CheckShape<T>(ReduceOp::kSum, shape, mask, rng, false);
      if constexpr (!kIsComplexType<T>)
        CheckShape<T>(ReduceOp::kMax, shape, mask, rng, true);
    }
  }
}

TYPED_TEST(ReduceTest, ThreadsSplitFewAndManyOutputs) {
  using T = TypeParam;
  std::mt19937_64 rng(kTestSeed);
  ScopedIntraOpThreads threads(3);
  CheckShape<T>(ReduceOp::kSum, {kLargeTestSize}, 1, rng, false);
  CheckShape<T>(ReduceOp::kSum, {50000, 2}, 1, rng, false);
  CheckShape<T>(ReduceOp::kSum, {2, 50000}, 2, rng, false);
  CheckShape<T>(ReduceOp::kSum, {40, 3, 900}, 5, rng, false);
  CheckShape<T>(ReduceOp::kSum, {40, 700, 5}, 2, rng, false);
  CheckShape<T>(ReduceOp::kSum, {300, 400}, 1, rng, false);
}

TEST(ReduceTest, FloatSumsAreAccurate) {
  const int64_t n = 1 << 24;
  std::vector<float> x(static_cast<size_t>(n), 0.1f);
  float out;
  const int64_t row[] = {n}, matrix[] = {n / 4, 4};
  const bool one[] = {true}, both[] = {true, false};
  ASSERT_TRUE(Reduce(ReduceOp::kSum, DType::kFloat, row, one, x.data(), &out));
  // Added one after another in float this is off by a quarter.
  EXPECT_NEAR(out, 0.1f * static_cast<double>(n), 2);
  float columns[4];
  ASSERT_TRUE(
      Reduce(ReduceOp::kSum, DType::kFloat, matrix, both, x.data(), columns));
  for (float c : columns) EXPECT_NEAR(c, 0.1f * static_cast<double>(n / 4), 1);
}

TEST(ReduceTest, EmptyReductionGivesTheIdentity) {
  const int64_t shape[] = {2, 0};
  const bool reduced[] = {false, true};
  const auto run = [&](ReduceOp op, auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    ASSERT_TRUE(Reduce(op, DTypeOf<T>(), shape, reduced, nullptr, out));
  };
  float f[2];
  run(ReduceOp::kSum, f);
  EXPECT_EQ(f[1], 0);
  run(ReduceOp::kProd, f);
  EXPECT_EQ(f[1], 1);
  run(ReduceOp::kMax, f);
  EXPECT_EQ(f[1], -std::numeric_limits<float>::infinity());
  run(ReduceOp::kMin, f);
  EXPECT_EQ(f[1], std::numeric_limits<float>::infinity());
  run(ReduceOp::kMean, f);
  EXPECT_TRUE(std::isnan(f[1]));
  run(ReduceOp::kEuclideanNorm, f);
  EXPECT_EQ(f[1], 0);
  int32_t i[2];
  run(ReduceOp::kMax, i);
  EXPECT_EQ(i[1], std::numeric_limits<int32_t>::min());
  run(ReduceOp::kMin, i);
  EXPECT_EQ(i[1], std::numeric_limits<int32_t>::max());
  run(ReduceOp::kMean, i);
  EXPECT_EQ(i[1], 0);
  bool b[2];
  run(ReduceOp::kAny, b);
  EXPECT_FALSE(b[1]);
  run(ReduceOp::kAll, b);
  EXPECT_TRUE(b[1]);
  // No outputs at all.
  const bool other[] = {true, false};
  EXPECT_TRUE(
      Reduce(ReduceOp::kSum, DType::kFloat, shape, other, nullptr, nullptr));
}

TEST(ReduceTest, ComputesAnyAllAndNorm) {
  std::mt19937_64 rng(kTestSeed);
  for (int64_t n : {1, 17, 1000}) {
    for (int64_t hit : {int64_t{-1}, n - 1}) {
      Unaligned<bool> x(n);
      for (int64_t i = 0; i < n; ++i) x[i] = i == hit;
      bool any = false, all = true;
      const bool one[] = {true};
      ASSERT_TRUE(
          Reduce(ReduceOp::kAny, DType::kBool, {n}, one, x.data(), &any));
      ASSERT_TRUE(
          Reduce(ReduceOp::kAll, DType::kBool, {n}, one, x.data(), &all));
      EXPECT_EQ(any, hit >= 0);
      EXPECT_EQ(all, n == 1 && hit == 0);
    }
  }
  const double v[] = {3, 4};
  const complex64 c[] = {{3, 0}, {0, 4}};
  double norm = 0;
  complex64 complex_norm;
  const bool one[] = {true};
  ASSERT_TRUE(
      Reduce(ReduceOp::kEuclideanNorm, DType::kDouble, {2}, one, v, &norm));
  EXPECT_EQ(norm, 5);
  ASSERT_TRUE(Reduce(ReduceOp::kEuclideanNorm, DType::kComplex64, {2}, one, c,
                     &complex_norm));
  EXPECT_EQ(complex_norm, complex64(5, 0));
}

TEST(ReduceTest, UnsupportedTypesAreRefused) {
  const bool one[] = {true};
  float x = 0;
  EXPECT_FALSE(Reduce(ReduceOp::kMax, DType::kComplex64, {1}, one, &x, &x));
  EXPECT_FALSE(Reduce(ReduceOp::kAny, DType::kFloat, {1}, one, &x, &x));
  EXPECT_FALSE(Reduce(ReduceOp::kSum, DType::kString, {1}, one, &x, &x));
  ReducePlan plan;
  EXPECT_FALSE(plan.Build({1, 2}, one));
}

template <class T>
class ArgTest : public testing::Test {};
using Ordered = testing::Types<float, double, half, bfloat16, int8_t, int16_t,
                               int32_t, int64_t, uint8_t, uint64_t>;
TYPED_TEST_SUITE(ArgTest, Ordered);

TYPED_TEST(ArgTest, FindsFirstExtremumAlongAnyAxis) {
  using T = TypeParam;
  std::mt19937_64 rng(kTestSeed);
  ScopedIntraOpThreads threads(2);
  for (int64_t inner : {1, 3, 300}) {
    for (int64_t length : {1, 2, 31, 32, 33, 700}) {
      const int64_t outer = 3;
      Unaligned<T> in(outer * length * inner);
      // Few distinct values, so that ties are common.
      for (int64_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<T>(static_cast<float>(rng() % 20));
      for (bool max : {true, false}) {
        std::vector<int64_t> got(static_cast<size_t>(outer * inner));
        std::vector<int32_t> got32(got.size());
        ASSERT_TRUE((max ? ArgMax : ArgMin)(DTypeOf<T>(), DType::kInt64, outer,
                                            length, inner, in.data(),
                                            got.data()));
        ASSERT_TRUE((max ? ArgMax : ArgMin)(DTypeOf<T>(), DType::kInt32, outer,
                                            length, inner, in.data(),
                                            got32.data()));
        for (int64_t o = 0; o < outer; ++o) {
          for (int64_t c = 0; c < inner; ++c) {
            int64_t want = 0;
            const auto at = [&](int64_t r) {
              return static_cast<double>(in[(o * length + r) * inner + c]);
            };
            for (int64_t r = 1; r < length; ++r)
              if (max ? at(r) > at(want) : at(r) < at(want)) want = r;
            const size_t k = static_cast<size_t>(o * inner + c);
            ASSERT_EQ(got[k], want) << length << "x" << inner;
            ASSERT_EQ(got32[k], want);
          }
        }
      }
    }
  }
}

TEST(ArgTest, PrefersNumbersOverNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float x[] = {nan, 1, nan, 2, 2, nan};
  int64_t at = -1;
  ASSERT_TRUE(ArgMax(DType::kFloat, DType::kInt64, 1, 6, 1, x, &at));
  EXPECT_EQ(at, 3);
  ASSERT_TRUE(ArgMin(DType::kFloat, DType::kInt64, 1, 6, 1, x, &at));
  EXPECT_EQ(at, 1);
  const float none[] = {nan, nan};
  ASSERT_TRUE(ArgMax(DType::kFloat, DType::kInt64, 1, 2, 1, none, &at));
  EXPECT_EQ(at, 0);
  EXPECT_FALSE(ArgMax(DType::kComplex64, DType::kInt64, 1, 1, 1, x, &at));
  EXPECT_FALSE(ArgMax(DType::kFloat, DType::kFloat, 1, 1, 1, x, &at));
}

template <class T>
class FirstAboveTest : public testing::Test {};
using TypesOfFirstAbove =
    testing::Types<float, double, int8_t, uint8_t, int16_t, int32_t, uint32_t,
                   int64_t, uint64_t>;
TYPED_TEST_SUITE(FirstAboveTest, TypesOfFirstAbove);

TYPED_TEST(FirstAboveTest, FindsTheFirstElementAtAnyPlace) {
  using T = TypeParam;
  const T bound = T(5), least = std::numeric_limits<T>::lowest();
  for (const int64_t n : {0, 1, 3, 16, 63, 64, 65, 128, 300}) {
    Unaligned<T> x(n + 1);
    for (int64_t i = 0; i <= n; ++i) x[i] = i % 3 == 0 ? bound : least;
    x[n] = T(6);  // Behind the end.
    EXPECT_EQ(FirstAbove(x.data(), n, bound), n);
    for (int64_t at = n - 1; at >= 0; --at) {
      x[at] = at % 2 == 0 ? T(6) : std::numeric_limits<T>::max();
      EXPECT_EQ(FirstAbove(x.data(), n, bound), at) << "of " << n;
      if (at % 5 == 0 && !std::is_integral_v<T>)
        x[at] = std::numeric_limits<T>::quiet_NaN();
      EXPECT_EQ(FirstAbove(x.data(), n, bound), at) << "of " << n;
    }
  }
}

}  // namespace
}  // namespace sluice::simd
