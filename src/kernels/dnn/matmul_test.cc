#include "kernels/dnn/matmul.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "base/sanitizers.h"
#include "tensor/dtype.h"

namespace sluice::dnn {
namespace {

template <typename T>
struct WideOf {
  using Type = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
};
template <>
struct WideOf<complex64> {
  using Type = complex128;
};
template <>
struct WideOf<complex128> {
  using Type = complex128;
};

template <typename T>
T DrawOne(std::mt19937& rng) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(rng() * 0x9e3779b97f4a7c15u >> 7);
  } else if constexpr (std::is_same_v<T, complex64> ||
                       std::is_same_v<T, complex128>) {
    using R = typename T::value_type;
    return T(DrawOne<R>(rng), DrawOne<R>(rng));
  } else {
    return T(static_cast<float>(rng() % 2001) / 1000.0f - 1.0f);
  }
}

template <typename W, typename T>
W Read(const T* m, Trans t, int64_t i, int64_t j, int64_t rows, int64_t cols) {
  const T v = t == Trans::kNone ? m[i * cols + j] : m[j * rows + i];
  if constexpr (std::is_same_v<W, complex128>) {
    const W w(v);
    return t == Trans::kAdjoint ? std::conj(w) : w;
  } else {
    return static_cast<W>(v);
  }
}

template <typename T>
void Reference(const GemmShape& s, const T* a, const T* b, T* c) {
  using W = typename WideOf<T>::Type;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      W sum = s.accumulate ? static_cast<W>(c[i * s.n + j]) : W();
      for (int64_t p = 0; p < s.k; ++p)
        sum += Read<W>(a, s.trans_a, i, p, s.m, s.k) *
               Read<W>(b, s.trans_b, p, j, s.k, s.n);
      if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>) {
        c[i * s.n + j] = T(static_cast<float>(sum));
      } else {
        c[i * s.n + j] = static_cast<T>(sum);
      }
    }
  }
}

template <typename T>
double Tolerance(int64_t k) {
  double eps = 0;  // Integers are exact.
  if constexpr (std::is_same_v<T, half>) eps = 0x1p-10;
  if constexpr (std::is_same_v<T, bfloat16>) eps = 0x1p-7;
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, complex64>)
    eps = 0x1p-22;
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, complex128>)
    eps = 0x1p-50;
  return eps * (4 + 2 * std::sqrt(static_cast<double>(k)));
}

template <typename T>
void ExpectClose(const std::vector<T>& got, const std::vector<T>& want,
                 int64_t k, const std::string& what) {
  const double tolerance = Tolerance<T>(k);
  for (size_t i = 0; i < got.size(); ++i) {
    if constexpr (std::is_integral_v<T>) {
      ASSERT_EQ(got[i], want[i]) << what << " element " << i;
    } else {
      using W = typename WideOf<T>::Type;
      const W g(got[i]), w(want[i]);
      ASSERT_LE(std::abs(g - w), tolerance * (1 + std::abs(w)))
          << what << " element " << i << ": " << g << " for " << w;
    }
  }
}

// Gemm's result with each number of threads is the plain sum.
template <typename T>
void ExpectPlainSum(const GemmShape& s, const std::vector<T>& a,
                    const std::vector<T>& b, const std::vector<T>& c,
                    std::initializer_list<int> numbers_of_threads) {
  std::vector<T> want = c;
  Reference(s, a.data(), b.data(), want.data());
  for (const int threads : numbers_of_threads) {
    ScopedIntraOpThreads scope(threads);
    std::vector<T> got = c;
    Gemm(s, a.data(), b.data(), got.data());
    ExpectClose(got, want, s.k,
                "m " + std::to_string(s.m) + " n " + std::to_string(s.n) +
                    " k " + std::to_string(s.k) + " trans " +
                    std::to_string(static_cast<int>(s.trans_a)) +
                    std::to_string(static_cast<int>(s.trans_b)) + " threads " +
                    std::to_string(threads));
  }
}

template <typename T>
class MatMulTest : public ::testing::Test {};
using MatMulTypes =
    ::testing::Types<float, double, half, bfloat16, int8_t, int16_t, int32_t,
                     int64_t, uint8_t, uint16_t, uint32_t, uint64_t, complex64,
                     complex128>;
TYPED_TEST_SUITE(MatMulTest, MatMulTypes);

TYPED_TEST(MatMulTest, MatchesThePlainSum) {
  using T = TypeParam;
  constexpr unsigned kSeed = 17;
  SCOPED_TRACE(kSeed);
  std::mt19937 rng(kSeed);
  const int64_t shapes[][3] = {
      {1, 1, 1},     {2, 2, 2},     {3, 5, 7},     {4, 16, 4},    {5, 17, 9},
      {8, 33, 2},    {1, 100, 33},  {100, 1, 33},  {16, 16, 16},  {17, 31, 63},
      {64, 10, 100}, {7, 130, 40},  {66, 50, 260}, {9, 1100, 5},  {2, 300, 70},
      {1, 1, 50},    {1, 70, 130},  {40, 20, 1},   {5, 17, 2},    {7, 35, 3},
      {6, 64, 4},    {1, 16, 2},    {1, 2100, 90}, {90, 1700, 2}, {71, 1, 1503},
      {1, 67, 1503}, {30, 200, 270}};
  for (const auto& [m, n, k] : shapes) {
    const bool large = m * n * k > 100000;  // Fewer variants of these.
    for (Trans ta : {Trans::kNone, Trans::kTranspose, Trans::kAdjoint}) {
      for (Trans tb : {Trans::kNone, Trans::kTranspose, Trans::kAdjoint}) {
        // (An adjoint reads what a transpose does.)
        if (kSanitized && (ta == Trans::kAdjoint) != (tb == Trans::kAdjoint))
          continue;
        const bool accumulate = (static_cast<int>(ta) + m) % 2 == 1;
        if (large && (ta == Trans::kTranspose) == (tb == Trans::kTranspose))
          continue;
        const GemmShape s{m, n, k, ta, tb, accumulate};
        std::vector<T> a(m * k), b(k * n), c(m * n);
        for (auto* v : {&a, &b, &c})
          for (T& x : *v) x = DrawOne<T>(rng);
        ExpectPlainSum(s, a, b, c, {1, 3});
      }
    }
  }
}

// Large enough that the threads get rows or columns of their own, in numbers
// that do not divide evenly.
TEST(MatMulFloatTest, PartsOfLargeProductsMatchThePlainSum) {
  constexpr unsigned kSeed = 23;
  SCOPED_TRACE(kSeed);
  std::mt19937 rng(kSeed);
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {205, 97, 131},
           {205, 97, 310},
           {33, 301, 270},
           {70, 1024, 66},  // Rows of b, or of a transposed, of 4 KiB.
           {1024, 66, 70}}) {
    std::vector<float> a(m * k), b(k * n), c(m * n);
    for (auto* v : {&a, &b, &c})
      for (float& x : *v) x = DrawOne<float>(rng);
    for (int variant = 0; variant < 8; variant += kSanitized ? 3 : 1) {
      const auto trans = [&](int bit) {
        return (variant & bit) != 0 ? Trans::kTranspose : Trans::kNone;
      };
      const GemmShape s{m, n, k, trans(1), trans(2), (variant & 4) != 0};
      ExpectPlainSum(s, a, b, c, {1, 2, 3});
    }
  }
}

TYPED_TEST(MatMulTest, EmptyInnerDimensionGivesZerosOrKeepsAccumulator) {
  using T = TypeParam;
  std::vector<T> c(6, T(3));
  GemmShape s{2, 3, 0};
  s.accumulate = true;
  Gemm<T>(s, nullptr, nullptr, c.data());
  for (T x : c) EXPECT_EQ(x, T(3));
  s.accumulate = false;
  Gemm<T>(s, nullptr, nullptr, c.data());
  for (T x : c) EXPECT_EQ(x, T());
  Gemm<T>(GemmShape{0, 3, 2}, nullptr, nullptr, nullptr);
  Gemm<T>(GemmShape{3, 0, 2}, nullptr, nullptr, nullptr);
}

TEST(MatMulFloatTest, PropagatesNanAndInfinityAtEverySize) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t size : {2, 5, 16, 70}) {
    std::vector<float> a(size * size, 1.0f), b(size * size, 0.0f),
        c(size * size);
    a[0] = inf;         // Row 0 times zeros: NaN.
    a[size + 1] = nan;  // Row 1: NaN.
    Gemm<float>({size, size, size}, a.data(), b.data(), c.data());
    for (int64_t i = 0; i < size * size; ++i)
      EXPECT_EQ(std::isnan(c[i]), i < 2 * size) << size << " " << i;
    std::fill(b.begin(), b.end(), 1.0f);
    Gemm<float>({size, size, size}, a.data(), b.data(), c.data());
    EXPECT_EQ(c[0], inf);
    EXPECT_TRUE(std::isnan(c[size]));
  }
}

TEST(MatMulFloatTest, MultipliesFewRowsByLargeTransposedFactor) {
  std::mt19937 rng(5);
  const GemmShape s{16, 2000, 200, Trans::kNone, Trans::kTranspose, false};
  std::vector<float> a(s.m * s.k), b(s.k * s.n), c(s.m * s.n), want(s.m * s.n);
  for (float& x : a) x = DrawOne<float>(rng);
  for (float& x : b) x = DrawOne<float>(rng);
  Reference(s, a.data(), b.data(), want.data());
  ScopedIntraOpThreads scope(2);
  Gemm(s, a.data(), b.data(), c.data());
  ExpectClose(c, want, s.k, "split columns");
}

TEST(MatMulFloatTest, ThreadsMayMultiplyConcurrently) {
  std::mt19937 rng(6);
  std::vector<float> a(90 * 90), b(90 * 90), want(90 * 90);
  for (float& x : a) x = DrawOne<float>(rng);
  for (float& x : b) x = DrawOne<float>(rng);
  const GemmShape s{90, 90, 90};
  Reference(s, a.data(), b.data(), want.data());
  std::vector<std::vector<float>> got(4, std::vector<float>(90 * 90));
  std::vector<std::thread> threads;
  for (auto& c : got) {
    threads.emplace_back([&a, &b, &c, s] {
      ScopedIntraOpThreads scope(2);
      for (int i = 0; i < 20; ++i) Gemm(s, a.data(), b.data(), c.data());
    });
  }
  for (auto& t : threads) t.join();
  for (const auto& c : got) ExpectClose(c, want, 90, "concurrent");
}

using Dims = std::vector<int64_t>;

Result<BatchMatMulShape> Shape(const Dims& a, const Dims& b,
                               Trans ta = Trans::kNone,
                               Trans tb = Trans::kNone) {
  return BatchMatMulShape::Make(a.data(), static_cast<int>(a.size()), b.data(),
                                static_cast<int>(b.size()), ta, tb);
}

Dims ResultDims(const BatchMatMulShape& s) {
  Dims d;
  for (int i = 0; i < s.rank(); ++i) d.push_back(s.dim(i));
  return d;
}

TEST(BatchMatMulTest, BroadcastsBatchDimensions) {
  EXPECT_EQ(ResultDims(*Shape({2, 3}, {3, 4})), (Dims{2, 4}));
  EXPECT_EQ(ResultDims(*Shape({5, 2, 3}, {3, 4})), (Dims{5, 2, 4}));
  EXPECT_EQ(ResultDims(*Shape({5, 1, 2, 3}, {7, 3, 4})), (Dims{5, 7, 2, 4}));
  EXPECT_EQ(ResultDims(*Shape({0, 2, 3}, {1, 3, 4})), (Dims{0, 2, 4}));
  EXPECT_EQ(ResultDims(*Shape({5, 3, 2}, {5, 4, 3}, Trans::kTranspose,
                              Trans::kAdjoint)),
            (Dims{5, 2, 4}));

  std::mt19937 rng(7);
  const Dims da{3, 1, 4, 5}, db{2, 5, 6};
  const BatchMatMulShape s = *Shape(da, db);
  std::vector<float> a(3 * 4 * 5), b(2 * 5 * 6), c(3 * 2 * 4 * 6);
  for (float& x : a) x = DrawOne<float>(rng);
  for (float& x : b) x = DrawOne<float>(rng);
  for (int threads : {1, 2}) {
    ScopedIntraOpThreads scope(threads);
    BatchMatMul(s, a.data(), b.data(), c.data());
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 2; ++j) {
        std::vector<float> want(24);
        Reference(s.gemm(), a.data() + i * 20, b.data() + j * 30, want.data());
        const float* at = c.data() + (i * 2 + j) * 24;
        ExpectClose(std::vector<float>(at, at + 24), want, 5, "batch");
      }
    }
  }
}

TEST(BatchMatMulTest, ThreadsShareProducts) {
  std::mt19937 rng(8);
  const BatchMatMulShape s = *Shape({50, 20, 30}, {50, 30, 20});
  std::vector<double> a(50 * 600), b(50 * 600), c(50 * 400), want(50 * 400);
  for (double& x : a) x = DrawOne<double>(rng);
  for (double& x : b) x = DrawOne<double>(rng);
  for (int i = 0; i < 50; ++i)
    Reference(s.gemm(), a.data() + i * 600, b.data() + i * 600,
              want.data() + i * 400);
  ScopedIntraOpThreads scope(3);
  BatchMatMul(s, a.data(), b.data(), c.data());
  ExpectClose(c, want, 30, "many");
  EXPECT_EQ(IntraOpThreads(), 3);
}

TEST(BatchMatMulTest, ErrorsDescribeMismatchedShapes) {
  EXPECT_EQ(Shape({2, 3}, {4, 2}).status().message(),
            "matrices: expected inner dimensions that agree, got [2,3] and "
            "[4,2]");
  EXPECT_FALSE(Shape({3}, {3, 2}).ok());
  EXPECT_EQ(Shape({2, 2, 3}, {3, 3, 2}).status().message(),
            "batch dimensions of a matrix product: expected equal ones or 1, "
            "got 2 and 3");
}

}  // namespace
}  // namespace sluice::dnn
