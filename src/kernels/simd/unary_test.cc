#include "kernels/simd/unary.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <vector>

#include "base/parallel.h"
#include "kernels/simd/special.h"
#include "kernels/simd/test_util.h"

namespace sluice::simd {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Runs `op` in all sizes, in place and not.
template <class T, class R>
void CheckFn(UnaryOp op, const std::function<R(T)>& reference, double ulps) {
  SCOPED_TRACE(testing::Message()
               << "op " << static_cast<int>(op) << " on "
               << DTypeName(DTypeOf<T>()) << ", seed " << kTestSeed);
  const UnaryKernel kernel = GetUnary(op, DTypeOf<T>());
  ASSERT_TRUE(kernel);
  ASSERT_EQ(kernel.in_size, sizeof(T));
  ASSERT_EQ(kernel.out_size, sizeof(R));
  std::mt19937_64 rng(kTestSeed);
  for (int64_t n : kTestSizes) {
    auto in = RandomArray<T>(n, rng);
    Unaligned<R> out(n);
    kernel(in.data(), out.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      const R want = reference(in[i]);
      ASSERT_TRUE(Near<R>(out[i], want, ulps))
          << "at " << i << " of " << n << ": f(" << AsDouble(in[i]) << ") gave "
          << AsDouble<R>(out[i]) << ", expected " << AsDouble<R>(want);
    }
    if constexpr (std::is_same_v<T, R>) {
      kernel(in.data(), in.data(), n);
      for (int64_t i = 0; i < n; ++i)
        ASSERT_TRUE(Near<R>(in[i], out[i], 0)) << i;
    }
  }
}
template <class T, class F>
void Check(UnaryOp op, F reference, double ulps = 0) {
  CheckFn<T, decltype(reference(T()))>(op, reference, ulps);
}

template <class T>
class IntUnaryTest : public testing::Test {};
using Ints = testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t,
                            uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(IntUnaryTest, Ints);

TYPED_TEST(IntUnaryTest, WrapsAtTheExtremes) {
  using T = TypeParam;
  const auto neg = [](T x) {
    return static_cast<T>(-static_cast<uint64_t>(x));
  };
  Check<T>(UnaryOp::kNeg, neg);
  Check<T>(UnaryOp::kAbs, [&](T x) { return x < 0 ? neg(x) : x; });
  Check<T>(UnaryOp::kSquare, [](T x) {
    return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
  });
  Check<T>(UnaryOp::kSign, [](T x) {
    return static_cast<T>(x > 0 ? 1 : x < 0 ? -1 : 0);
  });
  Check<T>(UnaryOp::kInvert, [](T x) { return static_cast<T>(~x); });
  Check<T>(UnaryOp::kRound, [](T x) { return x; });
  Check<T>(UnaryOp::kRelu, [](T x) { return x < 0 ? T(0) : x; });
  Check<T>(UnaryOp::kRelu6, [](T x) {
    return x < 0 ? T(0) : x > 6 ? T(6) : x;
  });
  Check<T>(UnaryOp::kPopulationCount, [](T x) {
    uint8_t bits = 0;
    for (size_t i = 0; i < sizeof(T) * 8; ++i) bits += (x >> i) & 1;
    return bits;
  });
}

// For 16-bit types the reference is rounded from float.
template <class T>
class FloatUnaryTest : public testing::Test {
 protected:
  using C = std::conditional_t<kIs16BitFloat<T>, float, T>;
  template <class F>
  static void CheckFloat(UnaryOp op, F f, double ulps = 0) {
    if (kIs16BitFloat<T>) ulps = std::min(ulps, 1.0);
    Check<T>(
        op, [=](T x) { return static_cast<T>(f(static_cast<C>(x))); }, ulps);
  }
  static void CheckPredicate(UnaryOp op, bool (*f)(double)) {
    Check<T>(op, [=](T x) { return f(static_cast<double>(x)); });
  }
};
using Floats = testing::Types<float, double, half, bfloat16>;
TYPED_TEST_SUITE(FloatUnaryTest, Floats);

TYPED_TEST(FloatUnaryTest, ComputesSimpleFunctions) {
  using C = typename TestFixture::C;
  this->CheckFloat(UnaryOp::kNeg, [](C x) { return -x; });
  this->CheckFloat(UnaryOp::kSquare, [](C x) { return x * x; });
  this->CheckFloat(UnaryOp::kAbs, [](C x) { return std::fabs(x); });
  this->CheckFloat(UnaryOp::kSign, [](C x) {
    return std::isnan(x) ? x : C((x > 0) - (x < 0));
  });
  this->CheckFloat(UnaryOp::kFloor, [](C x) { return std::floor(x); });
  this->CheckFloat(UnaryOp::kCeil, [](C x) { return std::ceil(x); });
  this->CheckFloat(UnaryOp::kRint, [](C x) { return std::nearbyint(x); });
  this->CheckFloat(UnaryOp::kRound, [](C x) { return std::nearbyint(x); });
  this->CheckFloat(UnaryOp::kSqrt, [](C x) { return std::sqrt(x); });
  this->CheckFloat(
      UnaryOp::kRsqrt, [](C x) { return 1 / std::sqrt(x); }, 1);
  this->CheckFloat(UnaryOp::kReciprocal, [](C x) { return 1 / x; });
}

TYPED_TEST(FloatUnaryTest, ComputesActivations) {
  using C = typename TestFixture::C;
  this->CheckFloat(UnaryOp::kRelu, [](C x) { return x < 0 ? C(0) : x; });
  this->CheckFloat(UnaryOp::kRelu6, [](C x) {
    return x < 0 ? C(0) : x > 6 ? C(6) : x;
  });
  this->CheckFloat(UnaryOp::kSoftsign,
                   [](C x) { return x / (1 + std::fabs(x)); });
  this->CheckFloat(
      UnaryOp::kElu, [](C x) { return x < 0 ? std::expm1(x) : x; }, 4);
  this->CheckFloat(
      UnaryOp::kSelu,
      [](C x) {
        return x < 0 ? C(1.7580993408473768) * std::expm1(x)
                     : C(1.0507009873554805) * x;
      },
      4);
  this->CheckFloat(
      UnaryOp::kSoftplus,
      [](C x) {
        return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
      },
      4);
  this->CheckFloat(
      UnaryOp::kSigmoid,
      [](C x) {
        return static_cast<C>(1 / (1 + std::exp(-static_cast<double>(x))));
      },
      4);
}

TYPED_TEST(FloatUnaryTest, ComputesPredicates) {
  this->CheckPredicate(UnaryOp::kIsNan, [](double x) { return std::isnan(x); });
  this->CheckPredicate(UnaryOp::kIsInf, [](double x) { return std::isinf(x); });
  this->CheckPredicate(UnaryOp::kIsFinite,
                       [](double x) { return std::isfinite(x); });
}

TYPED_TEST(FloatUnaryTest, ComputesLeakyReluAndGradient) {
  using T = TypeParam;
  using C = typename TestFixture::C;
  std::mt19937_64 rng(kTestSeed);
  const auto x = RandomArray<T>(1000, rng, false);
  const auto dy = RandomArray<T>(1000, rng, false);
  Unaligned<T> y(1000), dx(1000);
  ASSERT_TRUE(LeakyRelu(DTypeOf<T>(), 0.25f, x.data(), y.data(), 1000));
  ASSERT_TRUE(
      LeakyReluGrad(DTypeOf<T>(), 0.25f, dy.data(), x.data(), dx.data(), 1000));
  for (int i = 0; i < 1000; ++i) {
    const C c = static_cast<C>(x[i]), g = static_cast<C>(dy[i]);
    ASSERT_TRUE(Near(y[i], static_cast<T>(c > 0 ? c : c * C(0.25)), 0));
    ASSERT_TRUE(Near(dx[i], static_cast<T>(c > 0 ? g : g * C(0.25)), 0));
  }
  EXPECT_FALSE(LeakyRelu(DType::kInt32, 0.25f, x.data(), y.data(), 0));
}

// The functions of the C library, over several magnitudes.
struct Libm {
  UnaryOp op;
  const char* name;
  double (*f)(double);
};
const Libm kLibm[] = {
    {UnaryOp::kExp, "exp", std::exp},
    {UnaryOp::kExpm1, "expm1", std::expm1},
    {UnaryOp::kLog, "log", std::log},
    {UnaryOp::kLog1p, "log1p", std::log1p},
    {UnaryOp::kSin, "sin", std::sin},
    {UnaryOp::kCos, "cos", std::cos},
    {UnaryOp::kTan, "tan", std::tan},
    {UnaryOp::kAsin, "asin", std::asin},
    {UnaryOp::kAcos, "acos", std::acos},
    {UnaryOp::kAtan, "atan", std::atan},
    {UnaryOp::kSinh, "sinh", std::sinh},
    {UnaryOp::kCosh, "cosh", std::cosh},
    {UnaryOp::kTanh, "tanh", std::tanh},
    {UnaryOp::kAsinh, "asinh", std::asinh},
    {UnaryOp::kAcosh, "acosh", std::acosh},
    {UnaryOp::kAtanh, "atanh", std::atanh},
    {UnaryOp::kErf, "erf", std::erf},
    {UnaryOp::kErfc, "erfc", std::erfc},
};

template <class T>
class LibmTest : public testing::Test {};
using Wide = testing::Types<float, double>;
TYPED_TEST_SUITE(LibmTest, Wide);

// Float is compared with the double function rounded, double with itself.
TYPED_TEST(LibmTest, StaysWithinFourUlps) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  for (const Libm& f : kLibm) {
    std::mt19937_64 rng(kTestSeed);
    std::vector<T> in = {T(0),
                         T(-0.0),
                         T(1),
                         T(-1),
                         T(0.5),
                         T(-0.5),
                         T(kInf),
                         T(-kInf),
                         Limits::quiet_NaN(),
                         Limits::max(),
                         Limits::lowest(),
                         Limits::min(),
                         Limits::denorm_min(),
                         T(-Limits::denorm_min()),
                         T(88),
                         T(-88),
                         T(89),
                         T(-89),
                         T(104),
                         T(-104),
                         T(709),
                         T(-709),
                         T(-745),
                         T(710),
                         T(1e10),
                         T(-1e10),
                         T(39000),
                         T(40000),
                         T(18.7),
                         T(1e-10),
                         T(-1e-10)};
    for (double scale :
         {1e-20, 1e-5, 1e-2, 0.5, 1.0, 3.0, 20.0, 95.0, 720.0, 2e4, 1e15}) {
      std::uniform_real_distribution<double> u(-scale, scale);
      for (int i = 0; i < 4000; ++i) in.push_back(static_cast<T>(u(rng)));
    }
    std::vector<T> out(in.size());
    GetUnary(f.op, DTypeOf<T>())(in.data(), out.data(),
                                 static_cast<int64_t>(in.size()));
    double worst = 0;
    T worst_at = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const double e =
          UlpDistance(out[i], static_cast<T>(f.f(static_cast<double>(in[i]))));
      if (e > worst) worst = e, worst_at = in[i];
    }
    EXPECT_LE(worst, 4) << f.name << "<" << DTypeName(DTypeOf<T>()) << "> at "
                        << worst_at << ", seed " << kTestSeed;
  }
}

// For the functions with our own polynomials, a dense sample of all floats:
// every exponent, both signs, infinities and NaN.
TEST(UnaryTest, OwnPolynomialsAreWithinFewUlpsOfAllFloats) {
  constexpr uint32_t kStep = 1009;
  constexpr int kBatch = 4096;
  for (const Libm& f : {Libm{UnaryOp::kTanh, "tanh", std::tanh},
                        Libm{UnaryOp::kErf, "erf", std::erf},
                        Libm{UnaryOp::kErfc, "erfc", std::erfc}}) {
    const bool erfc = f.op == UnaryOp::kErfc;
    std::vector<float> in(kBatch), out(kBatch);
    double worst = 0;
    float worst_at = 0;
    for (uint64_t first = 0; first < uint64_t{1} << 32;
         first += uint64_t{kBatch} * kStep) {
      for (int i = 0; i < kBatch; ++i)
        in[i] = std::bit_cast<float>(static_cast<uint32_t>(first + i * kStep));
      GetUnary(f.op, DType::kFloat)(in.data(), out.data(), kBatch);
      for (int i = 0; i < kBatch; ++i) {
        const double e = UlpDistance(out[i], static_cast<float>(f.f(in[i])));
        if (e > worst) worst = e, worst_at = in[i];
        ASSERT_FALSE(std::fabs(out[i]) > (erfc ? 2 : 1))
            << f.name << " of " << in[i];
      }
    }
    EXPECT_LE(worst, erfc ? 4 : 2) << f.name << " at " << worst_at;
  }
}

TYPED_TEST(LibmTest, KeepsNegativeZero) {
  using T = TypeParam;
  for (UnaryOp op :
       {UnaryOp::kSin, UnaryOp::kAsin, UnaryOp::kAtan, UnaryOp::kSinh,
        UnaryOp::kTanh, UnaryOp::kAsinh, UnaryOp::kAtanh, UnaryOp::kExpm1,
        UnaryOp::kLog1p, UnaryOp::kSqrt, UnaryOp::kFloor, UnaryOp::kCeil,
        UnaryOp::kRint, UnaryOp::kErf}) {
    for (int64_t n : {1, 33}) {
      std::vector<T> x(static_cast<size_t>(n), T(-0.0));
      GetUnary(op, DTypeOf<T>())(x.data(), x.data(), n);
      for (T y : x) {
        EXPECT_EQ(y, T(0)) << static_cast<int>(op);
        EXPECT_TRUE(std::signbit(y)) << static_cast<int>(op);
      }
    }
  }
}

TEST(UnaryTest, SigmoidAndSoftplusTailsAreAccurate) {
  const double in[] = {-800, -745, -100, -40, 40, 100, 800, -kInf, kInf};
  double sigmoid[9], softplus[9];
  GetUnary(UnaryOp::kSigmoid, DType::kDouble)(in, sigmoid, 9);
  GetUnary(UnaryOp::kSoftplus, DType::kDouble)(in, softplus, 9);
  for (int i = 0; i < 9; ++i) {
    const double s = in[i] < 0 ? std::exp(in[i]) / (1 + std::exp(in[i]))
                               : 1 / (1 + std::exp(-in[i]));
    const double p = in[i] > 0 ? in[i] + std::log1p(std::exp(-in[i]))
                               : std::log1p(std::exp(in[i]));
    EXPECT_LE(UlpDistance(sigmoid[i], s), 4) << in[i];
    EXPECT_LE(UlpDistance(softplus[i], p), 4) << in[i];
  }
}

TEST(UnaryTest, HalfTypesRoundFloatResults) {
  // All half values: exp in float, rounded once.
  std::vector<half> in(65536), out(65536);
  for (int i = 0; i < 65536; ++i) in[i].bits = static_cast<uint16_t>(i);
  GetUnary(UnaryOp::kExp, DType::kHalf)(in.data(), out.data(), 65536);
  for (int i = 0; i < 65536; ++i) {
    const half want(std::exp(static_cast<float>(in[i])));
    ASSERT_LE(UlpDistance(out[i], want), 1) << i;
  }
}

template <class T>
class ComplexUnaryTest : public testing::Test {};
using Complexes = testing::Types<complex64, complex128>;
TYPED_TEST_SUITE(ComplexUnaryTest, Complexes);

TYPED_TEST(ComplexUnaryTest, ComputesComplexFunctions) {
  using T = TypeParam;
  Check<T>(UnaryOp::kNeg, [](T x) { return -x; });
  Check<T>(
      UnaryOp::kSquare, [](T x) { return x * x; }, 2);
  Check<T>(UnaryOp::kConj, [](T x) { return std::conj(x); });
  Check<T>(UnaryOp::kReal, [](T x) { return x.real(); });
  Check<T>(UnaryOp::kImag, [](T x) { return x.imag(); });
  Check<T>(UnaryOp::kAbs, [](T x) { return std::abs(x); });
  Check<T>(UnaryOp::kAngle, [](T x) { return std::arg(x); });
  Check<T>(
      UnaryOp::kSign, [](T x) { return x == T(0) ? x : x / std::abs(x); }, 2);
  Check<T>(UnaryOp::kSqrt, [](T x) { return std::sqrt(x); });
  Check<T>(UnaryOp::kExp, [](T x) { return std::exp(x); });
  Check<T>(
      UnaryOp::kExpm1, [](T x) { return std::exp(x) - T(1); }, 400);
  Check<T>(UnaryOp::kLog, [](T x) { return std::log(x); });
  Check<T>(
      UnaryOp::kLog1p, [](T x) { return std::log(T(1) + x); }, 400);
  Check<T>(UnaryOp::kTanh, [](T x) { return std::tanh(x); });
  Check<T>(
      UnaryOp::kSigmoid, [](T x) { return T(1) / (T(1) + std::exp(-x)); }, 4);
}

TEST(UnaryTest, NegatesBooleans) {
  Check<bool>(UnaryOp::kLogicalNot, [](bool x) { return !x; });
}

TEST(UnaryTest, UnsupportedTypesHaveNoKernel) {
  EXPECT_FALSE(GetUnary(UnaryOp::kExp, DType::kInt32));
  EXPECT_FALSE(GetUnary(UnaryOp::kNeg, DType::kString));
  EXPECT_FALSE(GetUnary(UnaryOp::kFloor, DType::kComplex64));
  EXPECT_FALSE(GetUnary(UnaryOp::kInvert, DType::kBool));
}

TEST(UnaryTest, LargeArraysAreSplitOverThreads) {
  ScopedIntraOpThreads threads(3);
  std::mt19937_64 rng(kTestSeed);
  const auto in = RandomArray<double>(kLargeTestSize, rng);
  Unaligned<double> out(kLargeTestSize);
  GetUnary(UnaryOp::kTanh, DType::kDouble)(in.data(), out.data(),
                                           kLargeTestSize);
  for (int64_t i = 0; i < kLargeTestSize; ++i)
    ASSERT_LE(UlpDistance(out[i], std::tanh(in[i])), 4) << i;
}

template <class T>
T Of(UnaryOp op, T x) {
  GetUnary(op, DTypeOf<T>())(&x, &x, 1);
  return x;
}
const auto Erfinv = [](double x) { return Of(UnaryOp::kErfinv, x); };
const auto Ndtri = [](double p) { return Of(UnaryOp::kNdtri, p); };

TEST(UnaryTest, ErfinvInvertsErf) {
  for (double x :
       {-5.0, -3.0, -1.0, -0.3, -1e-5, 1e-12, 0.1, 0.45, 0.5, 0.9, 2.0, 4.0}) {
    const double y = std::erf(x);
    // The slope of the inverse is what rounding of y is multiplied by.
    const double slope = std::exp(x * x);
    EXPECT_NEAR(Erfinv(y), x, 1e-15 * (std::fabs(x) + slope)) << x;
  }
  EXPECT_EQ(Erfinv(1), kInf);
  EXPECT_EQ(Erfinv(-1), -kInf);
  EXPECT_TRUE(std::isnan(Erfinv(1.5)));
  EXPECT_TRUE(std::isnan(Erfinv(std::nan(""))));
  EXPECT_EQ(Erfinv(0), 0);
  EXPECT_TRUE(std::signbit(Erfinv(-0.0)));
}

TEST(UnaryTest, NdtriMatchesKnownValues) {
  EXPECT_DOUBLE_EQ(Ndtri(0.975), 1.959963984540054);
  EXPECT_DOUBLE_EQ(Ndtri(0.025), -1.959963984540054);
  EXPECT_NEAR(Ndtri(1e-300), -37.0471, 1e-4);
  EXPECT_EQ(Ndtri(0.5), 0);
  EXPECT_EQ(Ndtri(0), -kInf);
  EXPECT_EQ(Ndtri(1), kInf);
  EXPECT_TRUE(std::isnan(Ndtri(-0.1)));
  EXPECT_TRUE(std::isnan(Ndtri(std::nan(""))));
  for (double p : {1e-200, 1e-20, 1e-5, 0.01, 0.2, 0.49})
    EXPECT_NEAR(0.5 * std::erfc(-Ndtri(p) / std::sqrt(2.0)) / p, 1, 1e-12) << p;
}

// Compared with a step of Newton's method, which doubles the number of correct
// digits, for floats of every exponent.
TEST(UnaryTest, InversesOfFloatsAreWithinOneUlp) {
  for (uint32_t bits = 1; bits < std::bit_cast<uint32_t>(1.0f); bits += 4099) {
    const float x = std::bit_cast<float>(bits);
    const double y = Of(UnaryOp::kErfinv, x);
    const double off = x < 0.5f ? std::erf(y) - x : (1.0 - x) - std::erfc(y);
    const double slope = 2 / std::sqrt(M_PI) * std::exp(-y * y);
    ASSERT_LE(
        UlpDistance(static_cast<float>(y), static_cast<float>(y - off / slope)),
        1)
        << x;
    ASSERT_EQ(Of(UnaryOp::kErfinv, -x), static_cast<float>(-y));
    const double z = Of(UnaryOp::kNdtri, x);
    const double r = std::sqrt(0.5);
    const double past = x < 0.5f ? 0.5 * std::erfc(-z * r) - x
                                 : (1.0 - x) - 0.5 * std::erfc(z * r);
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
    ASSERT_LE(UlpDistance(static_cast<float>(z),
                          static_cast<float>(z - past / density)),
              1)
        << x;
  }
}

TEST(SpecialTest, DigammaMatchesKnownValues) {
  EXPECT_NEAR(Digamma(1), -0.57721566490153286, 1e-15);
  EXPECT_NEAR(Digamma(0.5), -1.9635100260214235, 1e-14);
  EXPECT_NEAR(Digamma(-0.5), 0.03648997397857652, 1e-14);
  EXPECT_NEAR(Digamma(100), 4.600161852738087, 1e-14);
  EXPECT_TRUE(std::isnan(Digamma(0)));
  EXPECT_TRUE(std::isnan(Digamma(-3)));
  EXPECT_NEAR(Lgamma(0.5), 0.5723649429247001, 1e-15);
}

}  // namespace
}  // namespace sluice::simd
