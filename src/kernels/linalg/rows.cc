#include "kernels/linalg/rows.h"

#include <algorithm>
#include <complex>
#include <tuple>
#include <utility>

#include "kernels/linalg/linalg.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linalg/rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

// The loops for one type.
#ifndef SLUICE_KERNELS_LINALG_ROW_LOOPS_
#define SLUICE_KERNELS_LINALG_ROW_LOOPS_
namespace sluice::linalg {
namespace {
template <typename T>
struct RowLoops {
  decltype(&ApplyReflection<T>) reflect;
  decltype(&ApplyReflectionRight<T>) reflect_right;
  decltype(&AddRowAndDot<T>) add_and_dot;
  decltype(&SubtractRows<T>) subtract;
};
using AllRowLoops =
    std::tuple<RowLoops<float>, RowLoops<double>, RowLoops<std::complex<float>>,
               RowLoops<std::complex<double>>, decltype(&RotateRows<float>),
               decltype(&RotateRows<double>)>;
}  // namespace
}  // namespace sluice::linalg
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::linalg {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Complex numbers as pairs of reals, without the handling of infinities that
// keeps loops over std::complex from being vectorised.
template <class R>
struct Parts {
  R re, im;
};

template <class T>
T Conjugate(T x) {
  return x;
}
template <class R>
std::complex<R> Conjugate(std::complex<R> x) {
  return {x.real(), -x.imag()};
}

// sum + c x, or with the conjugate of x if kConjugate; x is element j of a row.
template <bool kConjugate, class R>
R Add(R sum, R c, const R* x, int64_t j) {
  return sum + c * x[j];
}
template <bool kConjugate, class R>
Parts<R> Add(Parts<R> sum, std::complex<R> c, const R* x, int64_t j) {
  const R re = x[2 * j], im = kConjugate ? -x[2 * j + 1] : x[2 * j + 1];
  return {sum.re + (c.real() * re - c.imag() * im),
          sum.im + (c.real() * im + c.imag() * re)};
}

// y += c0 x0 + c1 x1 + ..., for n elements; rows of x are `pitch` apart.
template <bool kConjugate, class T, size_t... kRow>
void AddRows(std::index_sequence<kRow...>, const T* x, int64_t pitch,
             const T* c, int64_t n, T* y) {
  using R = RealOf<T>;
  constexpr int64_t kNumbers = sizeof(T) / sizeof(R);
  const R* const row = reinterpret_cast<const R*>(x);
  R* const to = reinterpret_cast<R*>(y);
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    if constexpr (kNumbers == 1) {
      R sum = to[j];
      ((sum = Add<kConjugate>(sum, c[kRow],
                              row + static_cast<int64_t>(kRow) * pitch, j)),
       ...);
      to[j] = sum;
    } else {
      Parts<R> sum{to[2 * j], to[2 * j + 1]};
      ((sum = Add<kConjugate>(sum, c[kRow],
                              row + static_cast<int64_t>(kRow) * 2 * pitch, j)),
       ...);
      to[2 * j] = sum.re;
      to[2 * j + 1] = sum.im;
    }
  }
}

template <class T>
void Reflect(const T* v, int64_t stride, T tau, int64_t rows, int64_t columns,
             int64_t pitch, T* a, T* work) {
  constexpr int kAtOnce = 4;  // Rows for each pass over `work`.
  using Several = std::make_index_sequence<kAtOnce>;
  using One = std::make_index_sequence<1>;
  std::copy_n(a, columns, work);
  int64_t i = 1;
  for (; i + kAtOnce <= rows; i += kAtOnce) {
    T c[kAtOnce];
    for (int k = 0; k < kAtOnce; ++k) c[k] = Conjugate(v[(i + k) * stride]);
    AddRows<false>(Several(), a + i * pitch, pitch, c, columns, work);
  }
  for (; i < rows; ++i) {
    const T c = Conjugate(v[i * stride]);
    AddRows<false>(One(), a + i * pitch, pitch, &c, columns, work);
  }
  for (int64_t k = 0; k < rows; ++k) {
    const T c = k == 0 ? -tau : -tau * v[k * stride];
    AddRows<false>(One(), work, 0, &c, columns, a + k * pitch);
  }
}

// The sum of x[i] y[i].
template <class T>
T Dot(const T* x, const T* y, int64_t n) {
  T sum(0);
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}
template <class R>
std::complex<R> Dot(const std::complex<R>* x, const std::complex<R>* y,
                    int64_t n) {
  const R* const a = reinterpret_cast<const R*>(x);
  const R* const b = reinterpret_cast<const R*>(y);
  R re = 0, im = 0;
#pragma omp simd reduction(+ : re, im)
  for (int64_t i = 0; i < 2 * n; i += 2) {
    re += a[i] * b[i] - a[i + 1] * b[i + 1];
    im += a[i] * b[i + 1] + a[i + 1] * b[i];
  }
  return {re, im};
}

template <class T>
void ReflectRight(const T* v, T tau, int64_t rows, int64_t columns,
                  int64_t pitch, T* a) {
  for (int64_t i = 0; i < rows; ++i) {
    T* const x = a + i * pitch;
    const T by = -tau * (x[0] + Dot(x + 1, v + 1, columns - 1));
    x[0] += by;
    AddRows<true>(std::make_index_sequence<1>(), v + 1, 0, &by, columns - 1,
                  x + 1);
  }
}

template <class T>
T AddAndDot(const T* x, T c, const T* y, int64_t n, T* to) {
  T sum(0);
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    to[i] += c * x[i];
    sum += x[i] * y[i];
  }
  return sum;
}
template <class R>
std::complex<R> AddAndDot(const std::complex<R>* x, std::complex<R> c,
                          const std::complex<R>* y, int64_t n,
                          std::complex<R>* to) {
  const R* const a = reinterpret_cast<const R*>(x);
  const R* const b = reinterpret_cast<const R*>(y);
  R* const out = reinterpret_cast<R*>(to);
  const R c_re = c.real(), c_im = c.imag();
  R re = 0, im = 0;
#pragma omp simd reduction(+ : re, im)
  for (int64_t i = 0; i < 2 * n; i += 2) {
    out[i] += c_re * a[i] - c_im * a[i + 1];
    out[i + 1] += c_re * a[i + 1] + c_im * a[i];
    re += a[i] * b[i] + a[i + 1] * b[i + 1];
    im += a[i] * b[i + 1] - a[i + 1] * b[i];
  }
  return {re, im};
}

template <class T>
void Subtract(const T* x, T c, const T* y, T d, int64_t n, T* to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] -= c * x[i] + d * y[i];
}
template <class R>
void Subtract(const std::complex<R>* x, std::complex<R> c,
              const std::complex<R>* y, std::complex<R> d, int64_t n,
              std::complex<R>* to) {
  const R* const a = reinterpret_cast<const R*>(x);
  const R* const b = reinterpret_cast<const R*>(y);
  R* const out = reinterpret_cast<R*>(to);
  const R c_re = c.real(), c_im = c.imag(), d_re = d.real(), d_im = d.imag();
#pragma omp simd
  for (int64_t i = 0; i < 2 * n; i += 2) {
    out[i] -= c_re * a[i] - c_im * a[i + 1] + d_re * b[i] - d_im * b[i + 1];
    out[i + 1] -= c_re * a[i + 1] + c_im * a[i] + d_re * b[i + 1] + d_im * b[i];
  }
}

// Columns [0, kVectors of D) of all rows; a row that will be rotated again
// stays in registers.
template <int kVectors, class D, class R>
void RotateColumns(D d, const PlaneRotation<R>* by, int64_t count,
                   int64_t pitch, R* a) {
  using V = hn::Vec<D>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V x0 = hn::LoadU(d, a), x1 = x0, x2 = x0, x3 = x0;
  if constexpr (kVectors > 1) {
    x1 = hn::LoadU(d, a + lanes);
    x2 = hn::LoadU(d, a + 2 * lanes);
    x3 = hn::LoadU(d, a + 3 * lanes);
  }
  const auto turn = [d](V c, V s, V* x, R* row, const R* next) HWY_ATTR {
    const V y = hn::LoadU(d, next);
    hn::StoreU(hn::MulAdd(s, y, hn::Mul(c, *x)), d, row);
    *x = hn::NegMulAdd(s, *x, hn::Mul(c, y));
  };
  for (int64_t k = 0; k < count; ++k, a += pitch) {
    const V c = hn::Set(d, by[k].c), s = hn::Set(d, by[k].s);
    turn(c, s, &x0, a, a + pitch);
    if constexpr (kVectors > 1) {
      turn(c, s, &x1, a + lanes, a + pitch + lanes);
      turn(c, s, &x2, a + 2 * lanes, a + pitch + 2 * lanes);
      turn(c, s, &x3, a + 3 * lanes, a + pitch + 3 * lanes);
    }
  }
  hn::StoreU(x0, d, a);
  if constexpr (kVectors > 1) {
    hn::StoreU(x1, d, a + lanes);
    hn::StoreU(x2, d, a + 2 * lanes);
    hn::StoreU(x3, d, a + 3 * lanes);
  }
}

template <class R>
void Rotate(const PlaneRotation<R>* by, int64_t count, int64_t columns, R* a) {
  const hn::ScalableTag<R> d;
  const hn::CappedTag<R, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + 4 * lanes <= columns; j += 4 * lanes)
    RotateColumns<4>(d, by, count, columns, a + j);
  for (; j + lanes <= columns; j += lanes)
    RotateColumns<1>(d, by, count, columns, a + j);
  for (; j < columns; ++j) RotateColumns<1>(one, by, count, columns, a + j);
}

template <class T>
RowLoops<T> LoopsFor() {
  return {Reflect<T>, ReflectRight<T>, AddAndDot, Subtract};
}

}  // namespace

AllRowLoops GetRowLoops() {
  return {LoopsFor<float>(),
          LoopsFor<double>(),
          LoopsFor<std::complex<float>>(),
          LoopsFor<std::complex<double>>(),
          Rotate<float>,
          Rotate<double>};
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::linalg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::linalg {
namespace {

HWY_EXPORT(GetRowLoops);
template <typename Loops>
const Loops& LoopsOf() {
  static const AllRowLoops all = HWY_DYNAMIC_DISPATCH(GetRowLoops)();
  return std::get<Loops>(all);
}

}  // namespace

template <typename T>
void ApplyReflection(const T* v, int64_t stride, T tau, int64_t rows,
                     int64_t columns, int64_t pitch, T* a, T* work) {
  if (tau == T(0)) return;
  LoopsOf<RowLoops<T>>().reflect(v, stride, tau, rows, columns, pitch, a, work);
}

template <typename T>
void ApplyReflectionRight(const T* v, T tau, int64_t rows, int64_t columns,
                          int64_t pitch, T* a) {
  if (tau == T(0)) return;
  LoopsOf<RowLoops<T>>().reflect_right(v, tau, rows, columns, pitch, a);
}

template <typename T>
T AddRowAndDot(const T* x, T c, const T* y, int64_t n, T* to) {
  return LoopsOf<RowLoops<T>>().add_and_dot(x, c, y, n, to);
}

template <typename T>
void SubtractRows(const T* x, T c, const T* y, T d, int64_t n, T* to) {
  LoopsOf<RowLoops<T>>().subtract(x, c, y, d, n, to);
}

template <typename Real>
void RotateRows(const PlaneRotation<Real>* by, int64_t count, int64_t columns,
                Real* a) {
  LoopsOf<decltype(&RotateRows<Real>)>()(by, count, columns, a);
}

#define SLUICE_INSTANTIATE(T)                                                \
  template void ApplyReflection(const T*, int64_t, T, int64_t, int64_t,      \
                                int64_t, T*, T*);                            \
  template void ApplyReflectionRight(const T*, T, int64_t, int64_t, int64_t, \
                                     T*);                                    \
  template T AddRowAndDot(const T*, T, const T*, int64_t, T*);               \
  template void SubtractRows(const T*, T, const T*, T, int64_t, T*);
SLUICE_LINALG_TYPES(SLUICE_INSTANTIATE)
#undef SLUICE_INSTANTIATE
template void RotateRows(const PlaneRotation<float>*, int64_t, int64_t, float*);
template void RotateRows(const PlaneRotation<double>*, int64_t, int64_t,
                         double*);

}  // namespace sluice::linalg
#endif
