// Products with a thin side. They are memory-bound: each element of the large
// factor is used once or a few times, so copying it into panels, as products of
// larger matrices do, would cost more than it gains.
#include <algorithm>
#include <cstddef>

#include "kernels/dnn/gemm_simd.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dnn/gemm_thin.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/dnn/gemm-inl.h"
#include "kernels/simd/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::dnn {
namespace HWY_NAMESPACE {
namespace {

// c[n] += the sum of kDepth rows of b, each times its x; without kAdd: =.
template <int kDepth, bool kAdd, class T>
HWY_INLINE void AddRows(int64_t n, const T* x, int64_t x_step, const T* b,
                        int64_t ldb, T* c) {
  static_assert(kDepth >= 1 && kDepth <= 4);
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = [&](int p) HWY_ATTR {
    return hn::Set(d, x[p < kDepth ? p * x_step : 0]);
  };
  const V x0 = factor(0), x1 = factor(1), x2 = factor(2), x3 = factor(3);
  const T* b1 = b + (kDepth > 1 ? ldb : 0);
  const T* b2 = b + (kDepth > 2 ? 2 * ldb : 0);
  const T* b3 = b + (kDepth > 3 ? 3 * ldb : 0);
  const auto sum = [&](V v, auto load, int64_t j) HWY_ATTR {
    v = kAdd ? MulAdd(x0, load(b + j), v) : hn::Mul(x0, load(b + j));
    if constexpr (kDepth > 1) v = MulAdd(x1, load(b1 + j), v);
    if constexpr (kDepth > 2) v = MulAdd(x2, load(b2 + j), v);
    if constexpr (kDepth > 3) v = MulAdd(x3, load(b3 + j), v);
    return v;
  };
  const auto whole = [&](const T* at) HWY_ATTR { return hn::LoadU(d, at); };
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes)
    hn::StoreU(sum(whole(c + j), whole, j), d, c + j);
  if (j == n) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(n - j));
  const auto part = [&](const T* at) HWY_ATTR {
    return simd::HWY_NAMESPACE::LoadFirst(mask, d, at);
  };
  simd::HWY_NAMESPACE::StoreFirst(sum(part(c + j), part, j), mask, d, c + j);
}

template <int kDepth, class T>
HWY_INLINE void AddRowsOrSet(bool add, int64_t n, const T* x, int64_t x_step,
                             const T* b, int64_t ldb, T* c) {
  if (add) {
    AddRows<kDepth, true>(n, x, x_step, b, ldb, c);
  } else {
    AddRows<kDepth, false>(n, x, x_step, b, ldb, c);
  }
}

template <typename T>
void Thin(int64_t m, int64_t n, int64_t k, MatrixView<T> a, const T* b,
          int64_t ldb, T* c, int64_t ldc, bool accumulate) {
  for (int64_t i = 0; i < m; ++i, c += ldc) {
    const T* x = a.data + i * a.row;
    bool add = accumulate;
    int64_t p = 0;
    for (; p + 4 <= k; p += 4, add = true)
      AddRowsOrSet<4>(add, n, x + p * a.col, a.col, b + p * ldb, ldb, c);
    const T* rest = b + p * ldb;
    x += p * a.col;
    if (k - p == 1) AddRowsOrSet<1>(add, n, x, a.col, rest, ldb, c);
    if (k - p == 2) AddRowsOrSet<2>(add, n, x, a.col, rest, ldb, c);
    if (k - p == 3) AddRowsOrSet<3>(add, n, x, a.col, rest, ldb, c);
  }
}

// c[j] = the dot product of a and row j of b. Four rows at a time, so that the
// sums are independent.
// The vector's halves, added until 16 bytes are left.
template <class D, class V = hn::Vec<D>>
HWY_INLINE auto Folded(D, V v) {
  if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) <= 16) {
    return v;
  } else {
    const hn::Half<D> half;
    return Folded(half,
                  hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// Stores the sums of the elements of each vector, or adds them.
template <class D, class V = hn::Vec<D>, typename T = hn::TFromD<D>>
HWY_INLINE void StoreSums([[maybe_unused]] D d, V s0, V s1, V s2, V s3, T* at,
                          bool accumulate) {
#if !HWY_HAVE_SCALABLE
  if constexpr (sizeof(T) == 4) {
    const hn::FixedTag<T, 4> quad;
    const auto f0 = Folded(d, s0), f1 = Folded(d, s1), f2 = Folded(d, s2),
               f3 = Folded(d, s3);
    // Halves of 0 and 2, and of 1 and 3, then of all.
    const auto even = hn::Add(hn::InterleaveLower(quad, f0, f2),
                              hn::InterleaveUpper(quad, f0, f2));
    const auto odd = hn::Add(hn::InterleaveLower(quad, f1, f3),
                             hn::InterleaveUpper(quad, f1, f3));
    const auto sums = hn::Add(hn::InterleaveLower(quad, even, odd),
                              hn::InterleaveUpper(quad, even, odd));
    hn::StoreU(accumulate ? hn::Add(sums, hn::LoadU(quad, at)) : sums, quad,
               at);
    return;
  }
#endif
  const V sums[] = {s0, s1, s2, s3};
  for (int i = 0; i < 4; ++i) {
    const T sum = hn::GetLane(hn::SumOfLanes(d, sums[i]));
    at[i] = accumulate ? at[i] + sum : sum;
  }
}

template <typename T>
void Dots(int64_t n, int64_t k, const T* a, const T* b, T* c, bool accumulate) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = k / lanes * lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(k - whole));
  const auto store = [&](V v, T* at) HWY_ATTR {
    const T sum = hn::GetLane(hn::SumOfLanes(d, v));
    *at = accumulate ? *at + sum : sum;
  };
  int64_t j = 0;
  for (; j + 4 <= n; j += 4, b += 4 * k, c += 4) {
    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    const auto add = [&](V x, auto load, int64_t p) HWY_ATTR {
      s0 = MulAdd(x, load(b + p), s0);
      s1 = MulAdd(x, load(b + k + p), s1);
      s2 = MulAdd(x, load(b + 2 * k + p), s2);
      s3 = MulAdd(x, load(b + 3 * k + p), s3);
    };
    for (int64_t p = 0; p < whole; p += lanes)
      add(
          hn::LoadU(d, a + p),
          [&](const T* at) HWY_ATTR { return hn::LoadU(d, at); }, p);
    if (whole < k)
      add(
          simd::HWY_NAMESPACE::LoadFirst(mask, d, a + whole),
          [&](const T* at)
              HWY_ATTR { return simd::HWY_NAMESPACE::LoadFirst(mask, d, at); },
          whole);
    StoreSums(d, s0, s1, s2, s3, c, accumulate);
  }
  for (; j < n; ++j, b += k, ++c) {
    V s = hn::Zero(d);
    for (int64_t p = 0; p < whole; p += lanes)
      s = MulAdd(hn::LoadU(d, a + p), hn::LoadU(d, b + p), s);
    if (whole < k)
      s = MulAdd(simd::HWY_NAMESPACE::LoadFirst(mask, d, a + whole),
                 simd::HWY_NAMESPACE::LoadFirst(mask, d, b + whole), s);
    store(s, c);
  }
}

#define SLUICE_GEMM_TYPE(T, Name)                                     \
  void Thin##Name(int64_t m, int64_t n, int64_t k, MatrixView<T> a,   \
                  const T* b, int64_t ldb, T* c, int64_t ldc,         \
                  bool accumulate) {                                  \
    Thin<T>(m, n, k, a, b, ldb, c, ldc, accumulate);                  \
  }                                                                   \
  void Dots##Name(int64_t n, int64_t k, const T* a, const T* b, T* c, \
                  bool accumulate) {                                  \
    Dots<T>(n, k, a, b, c, accumulate);                               \
  }
SLUICE_GEMM_TYPES(SLUICE_GEMM_TYPE)
#undef SLUICE_GEMM_TYPE

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice::dnn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::dnn {

#define SLUICE_GEMM_TYPE(T, Name)                                             \
  HWY_EXPORT(Thin##Name);                                                     \
  HWY_EXPORT(Dots##Name);                                                     \
  template <>                                                                 \
  void GemmThin<T>(int64_t m, int64_t n, int64_t k, MatrixView<T> a,          \
                   const T* b, int64_t ldb, T* c, int64_t ldc,                \
                   bool accumulate) {                                         \
    HWY_DYNAMIC_DISPATCH(Thin##Name)(m, n, k, a, b, ldb, c, ldc, accumulate); \
  }                                                                           \
  template <>                                                                 \
  void GemmDots<T>(int64_t n, int64_t k, const T* a, const T* b, T* c,        \
                   bool accumulate) {                                         \
    HWY_DYNAMIC_DISPATCH(Dots##Name)(n, k, a, b, c, accumulate);              \
  }
SLUICE_GEMM_TYPES(SLUICE_GEMM_TYPE)
#undef SLUICE_GEMM_TYPE

}  // namespace sluice::dnn
#endif  // HWY_ONCE
