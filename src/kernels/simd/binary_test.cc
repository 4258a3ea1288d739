#include "kernels/simd/binary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "kernels/simd/select.h"
#include "kernels/simd/test_util.h"

namespace sluice::simd {
namespace {

constexpr Operands kModes[] = {Operands::kVectorVector, Operands::kScalarVector,
                               Operands::kVectorScalar};

// Runs `op` on T in all modes and sizes, in place and not, against `reference`.
template <class T, class R>
void CheckFn(BinaryOp op, const std::function<R(T, T)>& reference, double ulps,
             bool safe_ints) {
  SCOPED_TRACE(testing::Message()
               << "op " << static_cast<int>(op) << " on "
               << DTypeName(DTypeOf<T>()) << ", seed " << kTestSeed);
  const BinaryKernel kernel = GetBinary(op, DTypeOf<T>());
  ASSERT_TRUE(kernel);
  ASSERT_EQ(kernel.in_size, sizeof(T));
  ASSERT_EQ(kernel.out_size, sizeof(R));
  std::mt19937_64 rng(kTestSeed);
  for (Operands mode : kModes) {
    for (int64_t n : kTestSizes) {
      auto a = RandomArray<T>(std::max<int64_t>(n, 1), rng);
      auto b = RandomArray<T>(std::max<int64_t>(n, 1), rng);
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        if (safe_ints)
          for (int64_t i = 0; i < b.size(); ++i)
            if (b[i] == 0) b[i] = 3;
      }
      Unaligned<R> out(n);
      ASSERT_TRUE(kernel(a.data(), b.data(), out.data(), n, mode));
      std::vector<R> expected;
      for (int64_t i = 0; i < n; ++i) {
        const T x = a[mode == Operands::kScalarVector ? 0 : i];
        const T y = b[mode == Operands::kVectorScalar ? 0 : i];
        expected.push_back(reference(x, y));
        ASSERT_TRUE(Near<R>(out[i], expected[i], ulps))
            << "at " << i << " of " << n << ": f(" << AsDouble(x) << ", "
            << AsDouble(y) << ") gave " << AsDouble<R>(out[i]) << ", expected "
            << AsDouble<R>(expected[i]);
      }
      if constexpr (std::is_same_v<T, R>) {
        T* in_place = mode == Operands::kScalarVector ? b.data() : a.data();
        ASSERT_TRUE(kernel(a.data(), b.data(), in_place, n, mode));
        for (int64_t i = 0; i < n; ++i)
          ASSERT_TRUE(Near<R>(in_place[i], expected[i], ulps)) << i;
      }
    }
  }
}

template <class T, class F>
void Check(BinaryOp op, F reference, double ulps = 0, bool safe_ints = false) {
  using R = decltype(reference(T(), T()));
  CheckFn<T, R>(op, reference, ulps, safe_ints);
}

template <class T>
T WrapAdd(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class T>
T WrapSub(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
template <class T>
T WrapMul(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

template <class T>
class IntBinaryTest : public testing::Test {};
using Ints = testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t,
                            uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(IntBinaryTest, Ints);

TYPED_TEST(IntBinaryTest, ArithmeticWrapsAround) {
  using T = TypeParam;
  Check<T>(BinaryOp::kAdd, WrapAdd<T>);
  Check<T>(BinaryOp::kSub, WrapSub<T>);
  Check<T>(BinaryOp::kMul, WrapMul<T>);
  Check<T>(BinaryOp::kSquaredDifference,
           [](T a, T b) { return WrapMul(WrapSub(a, b), WrapSub(a, b)); });
  Check<T>(BinaryOp::kMaximum, [](T a, T b) { return std::max(a, b); });
  Check<T>(BinaryOp::kMinimum, [](T a, T b) { return std::min(a, b); });
}

TYPED_TEST(IntBinaryTest, DivisionTruncatesOrFloors) {
  using T = TypeParam;
  using Wide = __int128;
  const auto floor_div = [](T a, T b) {
    Wide q = Wide(a) / Wide(b);
    if (Wide(a) % Wide(b) != 0 && (a < 0) != (b < 0)) --q;
    return static_cast<T>(q);
  };
  Check<T>(BinaryOp::kFloorDiv, floor_div, 0, true);
  Check<T>(
      BinaryOp::kFloorMod,
      [](T a, T b) {
        Wide r = Wide(a) % Wide(b);
        if (r != 0 && (r < 0) != (b < 0)) r += b;
        return static_cast<T>(r);
      },
      0, true);
  const auto truncate = [](T a, T b) {
    return static_cast<T>(Wide(a) / Wide(b));
  };
  Check<T>(BinaryOp::kTruncateDiv, truncate, 0, true);
  Check<T>(BinaryOp::kDiv, truncate, 0, true);
  Check<T>(
      BinaryOp::kTruncateMod,
      [](T a, T b) { return static_cast<T>(Wide(a) % Wide(b)); }, 0, true);
}

TYPED_TEST(IntBinaryTest, DivisionByZeroIsReportedAndOtherElementsAreCorrect) {
  using T = TypeParam;
  for (BinaryOp op : {BinaryOp::kDiv, BinaryOp::kFloorDiv, BinaryOp::kFloorMod,
                      BinaryOp::kTruncateDiv, BinaryOp::kTruncateMod}) {
    const T a[] = {7, 7, 100};
    const T b[] = {2, 0, 3};
    T out[3] = {9, 9, 9};
    EXPECT_FALSE(GetBinary(op, DTypeOf<T>())(a, b, out, 3));
    EXPECT_EQ(out[1], T(0));
    EXPECT_EQ(out[2], op == BinaryOp::kFloorMod || op == BinaryOp::kTruncateMod
                          ? T(1)
                          : T(33));
  }
}

TYPED_TEST(IntBinaryTest, PowWrapsAndRefusesNegativeExponents) {
  using T = TypeParam;
  const BinaryKernel pow = GetBinary(BinaryOp::kPow, DTypeOf<T>());
  const T a[] = {2, 3, 0, static_cast<T>(-1), 5, 7};
  const T b[] = {5, 4, 0, 3, 0, 40};
  T out[6];
  ASSERT_TRUE(pow(a, b, out, 6));
  T expected = 1;
  for (int i = 0; i < 40; ++i) expected = WrapMul<T>(expected, 7);
  const T want[] = {32, 81, 1, static_cast<T>(-1), 1, expected};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], want[i]) << i;
  if constexpr (std::is_signed_v<T>) {
    const T negative[] = {5, -1, 0, 3, 0, 1};
    EXPECT_FALSE(pow(a, negative, out, 6));
    EXPECT_EQ(out[0], T(32));
    EXPECT_EQ(out[1], T(0));
  }
}

TYPED_TEST(IntBinaryTest, ComputesBitwiseOpsAndClampedShifts) {
  using T = TypeParam;
  Check<T>(BinaryOp::kBitwiseAnd, [](T a, T b) { return T(a & b); });
  Check<T>(BinaryOp::kBitwiseOr, [](T a, T b) { return T(a | b); });
  Check<T>(BinaryOp::kBitwiseXor, [](T a, T b) { return T(a ^ b); });
  const auto count = [](T b) {
    const T bits = static_cast<T>(sizeof(T) * 8 - 1);
    return static_cast<int>(std::clamp<T>(b, 0, bits));
  };
  Check<T>(BinaryOp::kLeftShift, [&](T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) << count(b));
  });
  Check<T>(BinaryOp::kRightShift,
           [&](T a, T b) { return static_cast<T>(a >> count(b)); });
}

template <class T>
void CheckComparisons() {
  Check<T>(BinaryOp::kEqual, [](T a, T b) { return a == b; });
  Check<T>(BinaryOp::kNotEqual, [](T a, T b) { return a != b; });
  if constexpr (!kIsComplexType<T> && !std::is_same_v<T, bool>) {
    Check<T>(BinaryOp::kLess, [](T a, T b) { return a < b; });
    Check<T>(BinaryOp::kLessEqual, [](T a, T b) { return a <= b; });
    Check<T>(BinaryOp::kGreater, [](T a, T b) { return a > b; });
    Check<T>(BinaryOp::kGreaterEqual, [](T a, T b) { return a >= b; });
  }
}

TYPED_TEST(IntBinaryTest, ComparesElements) { CheckComparisons<TypeParam>(); }

template <class T>
class FloatBinaryTest : public testing::Test {
 protected:
  // References are computed in the type itself; the 16-bit ones in float.
  using C = std::conditional_t<kIs16BitFloat<T>, float, T>;
  template <class F>
  static void CheckFloat(BinaryOp op, F f, double ulps = 0) {
    Check<T>(
        op,
        [&](T a, T b) {
          return static_cast<T>(f(static_cast<C>(a), static_cast<C>(b)));
        },
        ulps);
  }
};
using Floats = testing::Types<float, double, half, bfloat16>;
TYPED_TEST_SUITE(FloatBinaryTest, Floats);

TEST(BinaryEdgeTest, AnglesOfZerosInfinitiesAndNan) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float edges[] = {0.f, -0.f, 1.f, -1.f, inf, -inf, nan, 1e-30f, -3e30f};
  constexpr int64_t kEdges = std::ssize(edges);
  std::vector<float> y, x;
  for (int64_t i = 0; i < kEdges * kEdges; ++i) {
    y.push_back(edges[i / kEdges]);
    x.push_back(edges[i % kEdges]);
  }
  std::vector<float> out(y.size());
  GetBinary(BinaryOp::kAtan2, DType::kFloat)(y.data(), x.data(), out.data(),
                                             std::ssize(y));
  for (size_t i = 0; i < out.size(); ++i) {
    const float want = std::atan2(y[i], x[i]);
    EXPECT_EQ(std::isnan(out[i]), std::isnan(want)) << y[i] << ", " << x[i];
    if (std::isnan(want)) continue;
    EXPECT_EQ(std::signbit(out[i]), std::signbit(want)) << y[i] << ", " << x[i];
    EXPECT_NEAR(out[i], want, 3e-7f * std::abs(want)) << y[i] << ", " << x[i];
  }
}

TYPED_TEST(FloatBinaryTest, ComputesArithmetic) {
  using C = typename TestFixture::C;
  this->CheckFloat(BinaryOp::kAdd, [](C a, C b) { return a + b; });
  this->CheckFloat(BinaryOp::kSub, [](C a, C b) { return a - b; });
  this->CheckFloat(BinaryOp::kMul, [](C a, C b) { return a * b; });
  this->CheckFloat(BinaryOp::kDiv, [](C a, C b) { return a / b; });
  this->CheckFloat(
      BinaryOp::kSquaredDifference, [](C a, C b) { return (a - b) * (a - b); },
      1);
  // 16-bit floats are divided as such.
  const auto quotient = [](C a, C b) { return C(TypeParam(a / b)); };
  this->CheckFloat(BinaryOp::kFloorDiv,
                   [&](C a, C b) { return std::floor(quotient(a, b)); });
  this->CheckFloat(BinaryOp::kTruncateDiv,
                   [&](C a, C b) { return std::trunc(quotient(a, b)); });
  this->CheckFloat(BinaryOp::kTruncateMod,
                   [](C a, C b) { return std::fmod(a, b); });
  this->CheckFloat(
      BinaryOp::kPow, [](C a, C b) { return std::pow(a, b); }, 1);
  this->CheckFloat(
      BinaryOp::kAtan2, [](C a, C b) { return std::atan2(a, b); },
      std::is_same_v<TypeParam, double> ? 0 : 2);
}

template <typename T>
class ScalarPowerTest : public ::testing::Test {};
using ScalarPowerTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ScalarPowerTest, ScalarPowerTypes);

TYPED_TEST(ScalarPowerTest, MatchesTheCLibraryForEveryElement) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  std::vector<T> x;
  for (const T magnitude : {T(0), Limits::denorm_min(), Limits::min(), T(1e-13),
                            T(0.3), T(1), T(1.7), T(3), T(1e13), Limits::max(),
                            Limits::infinity(), Limits::quiet_NaN()}) {
    x.push_back(magnitude);
    x.push_back(-magnitude);
  }
  const auto n = static_cast<int64_t>(x.size());
  for (const T y : {T(2), T(1), T(3), T(-1), T(0), T(-2), T(0.5), T(2.5)}) {
    std::vector<T> out(x);  // In place.
    ASSERT_TRUE(GetBinary(BinaryOp::kPow, DTypeOf<T>())(
        out.data(), &y, out.data(), n, Operands::kVectorScalar));
    for (size_t i = 0; i < x.size(); ++i) {
      const T want = std::pow(x[i], y);
      EXPECT_LE(UlpDistance(out[i], want), 1) << x[i] << " to the " << y;
      EXPECT_TRUE(std::isnan(want) ||
                  std::signbit(out[i]) == std::signbit(want))
          << x[i] << " to the " << y;
    }
  }
}

TEST(BinaryTest, FloatPowersAreWithinOneUlp) {
  using Limits = std::numeric_limits<float>;
  const float inf = Limits::infinity();
  std::vector<float> edges;
  for (float x :
       {0.0f, Limits::denorm_min(), Limits::min() / 3, 1e-20f, 0.5f, 1.0f, 1.5f,
        2.0f, 3.0f, 127.0f, 128.0f, 149.0f, 150.0f, 16777215.0f, 16777217.0f,
        1e20f, Limits::max(), inf, Limits::quiet_NaN()}) {
    edges.push_back(x);
    edges.push_back(-x);
  }
  std::vector<float> a, b;
  for (float x : edges) {
    for (float y : edges) a.push_back(x), b.push_back(y);
  }
  std::mt19937_64 rng(kTestSeed);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(rng()));
    // The logarithms of the results are spread over all that floats have.
    std::uniform_real_distribution<float> log_of_result(-105, 90);
    const float log_of_x = std::log(std::fabs(x));
    a.push_back(std::fabs(x));
    b.push_back(log_of_result(rng) / log_of_x);
    a.push_back(1 + 1e-3f * log_of_result(rng));
    b.push_back(log_of_result(rng) * 10);
  }
  std::vector<float> out(a.size());
  ASSERT_TRUE(GetBinary(BinaryOp::kPow, DType::kFloat)(
      a.data(), b.data(), out.data(), static_cast<int64_t>(a.size())));
  for (size_t i = 0; i < a.size(); ++i) {
    const double want = std::pow(static_cast<double>(a[i]), b[i]);
    ASSERT_LE(UlpDistance(out[i], static_cast<float>(want)), 1)
        << a[i] << " to the " << b[i];
    ASSERT_TRUE(std::isnan(want) || std::signbit(out[i]) == std::signbit(want))
        << a[i] << " to the " << b[i];
  }
}

TYPED_TEST(FloatBinaryTest, MaximumAndMinimumPropagateNan) {
  using C = typename TestFixture::C;
  this->CheckFloat(BinaryOp::kMaximum, [](C a, C b) {
    return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
  });
  this->CheckFloat(BinaryOp::kMinimum, [](C a, C b) {
    return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b);
  });
}

TYPED_TEST(FloatBinaryTest, FloorModHasTheSignOfTheDivisor) {
  using C = typename TestFixture::C;
  this->CheckFloat(BinaryOp::kFloorMod, [](C a, C b) {
    const C r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  });
}

TYPED_TEST(FloatBinaryTest, NoNanAndXlogyVariantsReturnZero) {
  using C = typename TestFixture::C;
  this->CheckFloat(BinaryOp::kDivNoNan,
                   [](C a, C b) { return b == 0 ? C(0) : a / b; });
  this->CheckFloat(BinaryOp::kMulNoNan,
                   [](C a, C b) { return b == 0 ? C(0) : a * b; });
  this->CheckFloat(BinaryOp::kXdivy,
                   [](C a, C b) { return a == 0 ? C(0) : a / b; });
  this->CheckFloat(BinaryOp::kXlogy,
                   [](C a, C b) { return a == 0 ? C(0) : a * std::log(b); });
  this->CheckFloat(BinaryOp::kXlog1py,
                   [](C a, C b) { return a == 0 ? C(0) : a * std::log1p(b); });
}

TYPED_TEST(FloatBinaryTest, ComputesGradients) {
  using C = typename TestFixture::C;
  this->CheckFloat(BinaryOp::kReluGrad,
                   [](C dy, C x) { return dy * C(x > 0 ? 1 : 0); });
  this->CheckFloat(BinaryOp::kRelu6Grad,
                   [](C dy, C x) { return dy * C(x > 0 && x < 6 ? 1 : 0); });
  this->CheckFloat(
      BinaryOp::kEluGrad, [](C dy, C y) { return y < 0 ? (y + 1) * dy : dy; },
      2);
  this->CheckFloat(
      BinaryOp::kSeluGrad,
      [](C dy, C y) {
        return y < 0 ? dy * (y + C(1.7580993408473768))
                     : dy * C(1.0507009873554805);
      },
      2);
  this->CheckFloat(
      BinaryOp::kSoftplusGrad,
      [](C dy, C x) { return dy / (std::exp(-x) + C(1)); }, 5);
  this->CheckFloat(
      BinaryOp::kSoftsignGrad,
      [](C dy, C x) { return dy / ((1 + std::fabs(x)) * (1 + std::fabs(x))); },
      2);
  // Cancellation amplifies the rounding of y*y, so the last bits may differ
  // where the compiler fuses it.
  this->CheckFloat(
      BinaryOp::kTanhGrad,
      [](C y, C dy) { return static_cast<C>(dy * std::fma(-y, y, C(1))); },
      1 << 12);
  this->CheckFloat(
      BinaryOp::kSigmoidGrad, [](C y, C dy) { return dy * (1 - y) * y; }, 2);
  this->CheckFloat(
      BinaryOp::kSqrtGrad,
      [](C y, C dy) { return dy == 0 ? C(0) : dy * C(0.5) / y; }, 1);
  this->CheckFloat(
      BinaryOp::kRsqrtGrad,
      [](C y, C dy) { return dy == 0 ? C(0) : dy * (C(-0.5) * y) * (y * y); },
      2);
  this->CheckFloat(
      BinaryOp::kReciprocalGrad,
      [](C y, C dy) { return dy == 0 ? C(0) : -dy * y * y; }, 2);
}

// (y, dy) -> 0: masked values stay masked where the slope is infinite.
template <typename T>
void CheckNothingGivesNothing() {
  const T inf(std::numeric_limits<float>::infinity());
  for (const auto& [op, y] : {std::pair(BinaryOp::kSqrtGrad, T(0)),
                              std::pair(BinaryOp::kRsqrtGrad, inf),
                              std::pair(BinaryOp::kReciprocalGrad, inf)}) {
    const std::vector<T> ys(19, y), dys(19, T(0));
    std::vector<T> out(19, T(1));
    const BinaryKernel kernel = GetBinary(op, DTypeOf<T>());
    kernel(ys.data(), dys.data(), out.data(), 19);
    EXPECT_EQ(out, dys) << static_cast<int>(op);
  }
}

TYPED_TEST(FloatBinaryTest, AcceptsEmptyInputs) {
  CheckNothingGivesNothing<TypeParam>();
}

TEST(BinaryTest, AcceptsEmptyComplexInputs) {
  CheckNothingGivesNothing<complex64>();
  CheckNothingGivesNothing<complex128>();
}

TYPED_TEST(FloatBinaryTest, ComparesElements) { CheckComparisons<TypeParam>(); }

TEST(BinaryTest, ComputesComplexArithmetic) {
  using T = complex64;
  Check<T>(BinaryOp::kAdd, [](T a, T b) { return a + b; });
  Check<T>(BinaryOp::kSub, [](T a, T b) { return a - b; });
  Check<T>(
      BinaryOp::kMul, [](T a, T b) { return a * b; }, 2);
  Check<T>(
      BinaryOp::kDivNoNan, [](T a, T b) { return b == T(0) ? T(0) : a / b; },
      4);
  Check<T>(
      BinaryOp::kSquaredDifference,
      [](T a, T b) { return std::conj(a - b) * (a - b); }, 4);
  Check<T>(
      BinaryOp::kTanhGrad, [](T y, T dy) { return dy * (T(1) - y * y); }, 16);
  Check<T>(
      BinaryOp::kSigmoidGrad, [](T y, T dy) { return dy * y * (T(1) - y); },
      16);
  Check<T>(
      BinaryOp::kReciprocalGrad,
      [](T y, T dy) { return -dy * std::conj(y) * std::conj(y); }, 16);
  Check<complex128>(
      BinaryOp::kXlog1py,
      [](complex128 a, complex128 b) {
        return a == complex128(0) ? a : a * std::log(complex128(1) + b);
      },
      1e4);
  CheckComparisons<complex64>();
  CheckComparisons<complex128>();
}

TEST(BinaryTest, CombinesTwoRealsIntoComplex) {
  const double re[] = {1, 2};
  const double im[] = {3, -4};
  complex128 out[2];
  const BinaryKernel kernel = GetBinary(BinaryOp::kComplex, DType::kDouble);
  ASSERT_EQ(kernel.out_size, 16);
  ASSERT_TRUE(kernel(re, im, out, 2));
  EXPECT_EQ(out[1], complex128(2, -4));
}

TEST(BinaryTest, ComputesBoolLogicAndEquality) {
  Check<bool>(BinaryOp::kLogicalAnd, [](bool a, bool b) { return a && b; });
  Check<bool>(BinaryOp::kLogicalOr, [](bool a, bool b) { return a || b; });
  CheckComparisons<bool>();
}

TEST(BinaryTest, UnsupportedTypesHaveNoKernel) {
  EXPECT_FALSE(GetBinary(BinaryOp::kAdd, DType::kString));
  EXPECT_FALSE(GetBinary(BinaryOp::kAdd, DType::kBool));
  EXPECT_FALSE(GetBinary(BinaryOp::kLess, DType::kComplex64));
  EXPECT_FALSE(GetBinary(BinaryOp::kBitwiseAnd, DType::kFloat));
  EXPECT_FALSE(GetBinary(BinaryOp::kAtan2, DType::kInt32));
}

TEST(BinaryTest, LargeArraysAreSplitOverThreadsAndKeepTheErrorFlag) {
  ScopedIntraOpThreads threads(4);
  std::mt19937_64 rng(kTestSeed);
  const int64_t n = kLargeTestSize;
  const auto a = RandomArray<float>(n, rng);
  const auto b = RandomArray<float>(n, rng);
  Unaligned<float> out(n);
  for (Operands mode : kModes) {
    ASSERT_TRUE(GetBinary(BinaryOp::kMul, DType::kFloat)(a.data(), b.data(),
                                                         out.data(), n, mode));
    for (int64_t i = 0; i < n; ++i) {
      const float x = a[mode == Operands::kScalarVector ? 0 : i];
      const float y = b[mode == Operands::kVectorScalar ? 0 : i];
      ASSERT_TRUE(Near(out[i], x * y, 0)) << i;
    }
  }
  Unaligned<int32_t> p(n), q(n), r(n);
  for (int64_t i = 0; i < n; ++i) q[i] = 2;
  const BinaryKernel div = GetBinary(BinaryOp::kFloorDiv, DType::kInt32);
  EXPECT_TRUE(div(p.data(), q.data(), r.data(), n));
  q[n - 1] = 0;
  EXPECT_FALSE(div(p.data(), q.data(), r.data(), n));
}

// Every pair of shapes made by keeping or collapsing dimensions of a random
// shape, against index arithmetic.
TEST(BroadcastTest, HandlesAllPatternsUpToEightDimensions) {
  std::mt19937_64 rng(kTestSeed);
  const BinaryKernel sub = GetBinary(BinaryOp::kSub, DType::kInt32);
  for (int rank = 0; rank <= kMaxRank; ++rank) {
    for (int trial = 0; trial < 60; ++trial) {
      std::vector<int64_t> full, as, bs;
      for (int i = 0; i < rank; ++i) {
        const int64_t d = 1 + static_cast<int64_t>(rng() % (rank > 4 ? 3 : 9));
        const auto pick = rng() % 4;
        as.push_back(pick == 1 ? 1 : d);
        bs.push_back(pick == 2 ? 1 : d);
        full.push_back(std::max(as.back(), bs.back()));
      }
      // Leading ones may also be absent.
      while (!as.empty() && as[0] == 1 && rng() % 2) as.erase(as.begin());
      SCOPED_TRACE(testing::Message() << "seed " << kTestSeed << ", rank "
                                      << rank << ", trial " << trial);
      const auto count = [](const std::vector<int64_t>& s) {
        int64_t n = 1;
        for (int64_t d : s) n *= d;
        return n;
      };
      const auto a = RandomArray<int32_t>(count(as), rng);
      const auto b = RandomArray<int32_t>(count(bs), rng);
      ScopedIntraOpThreads threads(trial % 2 ? 3 : 1);
      Broadcast<2> plan;
      ASSERT_TRUE(plan.Build({as, bs}));
      Unaligned<int32_t> out(plan.num_elements());
      ASSERT_TRUE(BroadcastBinary(sub, as, bs, a.data(), b.data(), out.data()));
      for (int64_t o = 0; o < out.size(); ++o) {
        int64_t rest = o, ia = 0, ib = 0, step_a = 1, step_b = 1;
        for (size_t j = 0; j < plan.shape().size(); ++j) {
          const size_t from_end = j;
          const int64_t d = plan.shape()[plan.shape().size() - 1 - j];
          const int64_t index = rest % d;
          rest /= d;
          if (from_end < as.size()) {
            const int64_t da = as[as.size() - 1 - from_end];
            ia += da == 1 ? 0 : index * step_a;
            step_a *= da;
          }
          if (from_end < bs.size()) {
            const int64_t db = bs[bs.size() - 1 - from_end];
            ib += db == 1 ? 0 : index * step_b;
            step_b *= db;
          }
        }
        ASSERT_EQ(out[o], WrapSub(a[ia], b[ib])) << "at " << o;
      }
    }
  }
}

TEST(BroadcastTest, BroadcastsNarrowBiasOverManyRows) {
  std::mt19937_64 rng(kTestSeed);
  for (int64_t width : {1, 3, 10, 63, 64}) {
    for (bool bias_first : {false, true}) {
      const int64_t rows = 3001;
      const auto x = RandomArray<float>(rows * width, rng, false);
      const auto bias = RandomArray<float>(width, rng, false);
      Unaligned<float> out(rows * width);
      const int64_t xs[] = {rows, width}, bs[] = {width};
      const BinaryKernel sub = GetBinary(BinaryOp::kSub, DType::kFloat);
      if (bias_first) {
        BroadcastBinary(sub, bs, xs, bias.data(), x.data(), out.data());
      } else {
        BroadcastBinary(sub, xs, bs, x.data(), bias.data(), out.data());
      }
      for (int64_t i = 0; i < rows * width; ++i) {
        const float d = x[i] - bias[i % width];
        ASSERT_EQ(out[i], bias_first ? -d : d) << i;
      }
    }
  }
}

TEST(BroadcastTest, HandlesEmptyAndRejectsIncompatibleShapes) {
  Broadcast<2> plan;
  const int64_t empty[] = {0, 3}, row[] = {3}, four[] = {4};
  ASSERT_TRUE(plan.Build({empty, row}));
  EXPECT_EQ(plan.num_elements(), 0);
  EXPECT_EQ(plan.shape().size(), 2u);
  const BinaryKernel add = GetBinary(BinaryOp::kAdd, DType::kFloat);
  const float x[3] = {};
  EXPECT_TRUE(RunBroadcast(add, plan, x, x, nullptr));
  EXPECT_FALSE(plan.Build({row, four}));
  const std::vector<int64_t> nine(9, 1);
  EXPECT_FALSE(plan.Build({nine, row}));
  const int64_t zero[] = {0}, one[] = {1};
  ASSERT_TRUE(plan.Build({zero, one}));
  EXPECT_EQ(plan.num_elements(), 0);
}

TEST(BroadcastTest, DivisionByZeroIsReportedThroughBroadcasting) {
  const int64_t as[] = {2, 2}, bs[] = {2, 1};
  const int32_t a[] = {1, 2, 3, 4}, b[] = {1, 0};
  int32_t out[4];
  EXPECT_FALSE(BroadcastBinary(GetBinary(BinaryOp::kDiv, DType::kInt32), as, bs,
                               a, b, out));
  EXPECT_EQ(out[1], 2);
}

template <class T>
class SelectTest : public testing::Test {};
using BySize = testing::Types<uint8_t, uint16_t, float, double, complex128>;
TYPED_TEST_SUITE(SelectTest, BySize);

TYPED_TEST(SelectTest, SelectsFromArraysAndScalars) {
  using T = TypeParam;
  std::mt19937_64 rng(kTestSeed);
  for (int64_t n : kTestSizes) {
    for (int mask = 0; mask < 8; ++mask) {
      const SelectSteps steps{(mask & 1) != 0, (mask & 2) != 0,
                              (mask & 4) != 0};
      const auto c = RandomArray<bool>(n + 1, rng);
      const auto a = RandomArray<T>(n + 1, rng, false);
      auto b = RandomArray<T>(n + 1, rng, false);
      Unaligned<T> out(n);
      ASSERT_TRUE(Select(sizeof(T), steps, c.data(), a.data(), b.data(),
                         out.data(), n));
      for (int64_t i = 0; i < n; ++i) {
        const T want =
            c[steps.cond ? i : 0] ? a[steps.a ? i : 0] : b[steps.b ? i : 0];
        ASSERT_EQ(out[i], want) << i << " of " << n << ", mask " << mask;
      }
    }
  }
}

TEST(SelectTest, BroadcastsThreeOperands) {
  const int64_t cs[] = {2, 1}, as[] = {3}, bs[] = {2, 3};
  const bool c[] = {true, false};
  const float a[] = {1, 2, 3}, b[] = {10, 20, 30, 40, 50, 60};
  Broadcast<3> plan;
  ASSERT_TRUE(plan.Build({cs, as, bs}));
  float out[6];
  ASSERT_TRUE(BroadcastSelect(4, plan, c, a, b, out));
  const float want[] = {1, 2, 3, 40, 50, 60};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], want[i]);
  EXPECT_FALSE(Select(3, {}, c, a, b, out, 1));
}

TEST(ClipTest, BoundsMayBeScalarsOrArraysAndNanIsKept) {
  const int64_t n = 5000;
  std::mt19937_64 rng(kTestSeed);
  const auto x = RandomArray<float>(n, rng);
  Unaligned<float> out(n), lo(n), hi(n);
  for (int64_t i = 0; i < n; ++i) {
    lo[i] = -1;
    hi[i] = static_cast<float>(i % 3);
  }
  for (bool scalar : {false, true}) {
    ASSERT_TRUE(Clip(DType::kFloat, x.data(), lo.data(), true, hi.data(),
                     scalar, out.data(), n));
    for (int64_t i = 0; i < n; ++i) {
      const float top = scalar ? hi[0] : hi[i];
      const float want =
          std::isnan(x[i]) ? x[i] : std::min(std::max(x[i], -1.0f), top);
      ASSERT_TRUE(Near(out[i], want, 0)) << i;
    }
  }
  EXPECT_FALSE(Clip(DType::kComplex64, x.data(), x.data(), true, x.data(), true,
                    out.data(), 1));
  // If the bounds contradict each other, the lower one wins.
  const int64_t low = 3, high = 2, in[] = {0, 5};
  int64_t clipped[2];
  ASSERT_TRUE(Clip(DType::kInt64, in, &low, true, &high, true, clipped, 2));
  EXPECT_EQ(clipped[0], 3);
  EXPECT_EQ(clipped[1], 3);
}

}  // namespace
}  // namespace sluice::simd
