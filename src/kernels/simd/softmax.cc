#include "kernels/simd/softmax.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "kernels/simd/by_dtype.h"
#include "kernels/simd/target.h"
#include "tensor/compute_type.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/softmax.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

// A vector with only the first n lanes loaded from memory; the others are set
// to `fill`. Does not use masked loads, which may access memory past the end on
// the oldest target.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadPart(D d, const T* p, int64_t n, T fill) {
  alignas(HWY_MAX_BYTES) T buffer[HWY_MAX_BYTES / sizeof(T)];
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; ++i) buffer[i] = p[i];
  for (int64_t i = n; i < lanes; ++i) buffer[i] = fill;
  return hn::Load(d, buffer);
}

template <class D, class T>
HWY_INLINE void StorePart(D d, hn::Vec<D> v, T* p, int64_t n) {
  alignas(HWY_MAX_BYTES) T buffer[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, buffer);
  for (int64_t i = 0; i < n; ++i) p[i] = buffer[i];
}

// exp(x) for x <= 0, or NaN; 0 where it is close to the least normal number or
// below. (Half of the work of an exp of any number.)
template <class D, class V>
HWY_INLINE V ExpOfShifted(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return Exp::F(d, x);
  } else {
    const V least = hn::Set(d, -86.6433945f);  // 125 * -ln 2
    const V t = hn::Max(x, least);
    const V rounder = hn::Set(d, kRounder);
    const V scale = hn::Set(d, 1.44269502f);  // 1 / ln 2, and the rest of it.
    const V rest = hn::Set(d, 1.92596303e-8f);
    const V z = hn::MulAdd(t, scale, rounder);
    V f = hn::MulSub(t, scale, hn::Sub(z, rounder));
    f = hn::MulAdd(t, rest, f);
    V y = hn::Set(d, kExp2[4]);
    for (int i = 3; i >= 0; --i) y = hn::MulAdd(y, f, hn::Set(d, kExp2[i]));
    y = hn::MulAdd(y, f, hn::Set(d, 1.0f));
    y = hn::IfThenElseZero(hn::Gt(x, least), TimesPow2(d, y, z));
    return hn::IfThenElse(IsNumber(d, x), y, x);
  }
}

template <class T>
T RowMax(const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const T least = -std::numeric_limits<T>::infinity();
  auto m = hn::Set(d, least);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) m = hn::Max(m, hn::LoadU(d, x + i));
  if (i < n) m = hn::Max(m, LoadPart(d, x + i, n - i, least));
  return hn::GetLane(hn::MaxOfLanes(d, m));
}

// e = exp(x - max), which is also summed; e may be x, or null.
template <class T>
T RowExp(const T* x, T max, int64_t n, T* e) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vmax = hn::Set(d, max);
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = ExpOfShifted(d, hn::Sub(hn::LoadU(d, x + i), vmax));
    if (e != nullptr) hn::StoreU(v, d, e + i);
    sum = hn::Add(sum, v);
  }
  if (i < n) {
    const T least = -std::numeric_limits<T>::infinity();
    const auto in = LoadPart(d, x + i, n - i, least);
    const auto v = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - i)),
                                      ExpOfShifted(d, hn::Sub(in, vmax)));
    if (e != nullptr) StorePart(d, v, e + i, n - i);
    sum = hn::Add(sum, v);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <class T>
void SoftmaxRow(const T* x, int64_t n, T* out) {
  const T sum = RowExp(x, RowMax(x, n), n, out);
  const T scale = T(1) / sum;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] *= scale;
}

template <class T>
void LogSoftmaxRow(const T* x, int64_t n, T* out) {
  const T max = RowMax(x, n);
  const T log_sum = std::log(RowExp<T>(x, max, n, nullptr));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - max) - log_sum;
}

// Reads x and labels before it writes the same elements of backprop.
template <class T>
T CrossEntropyRow(const T* x, const T* labels, int64_t n, T* backprop) {
  const T max = RowMax(x, n);
  const T sum = RowExp<T>(x, max, n, nullptr);
  const T log_sum = std::log(sum);
  const T scale = T(1) / sum;
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vmax = hn::Set(d, max);
  const auto vlog = hn::Set(d, log_sum);
  const auto vscale = hn::Set(d, scale);
  auto loss = hn::Zero(d);
  for (int64_t i = 0; i < n; i += lanes) {
    const bool whole = i + lanes <= n;
    const auto in =
        whole ? hn::LoadU(d, x + i) : LoadPart(d, x + i, n - i, max);
    const auto label =
        whole ? hn::LoadU(d, labels + i) : LoadPart(d, labels + i, n - i, T(0));
    const auto shifted = hn::Sub(in, vmax);
    auto term = hn::Mul(label, hn::Sub(vlog, shifted));
    const auto grad = hn::Sub(hn::Mul(ExpOfShifted(d, shifted), vscale), label);
    if (whole) {
      hn::StoreU(grad, d, backprop + i);
    } else {
      // The lanes beyond the end have a label of 0 but may be 0 * infinity.
      term =
          hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - i)), term);
      StorePart(d, grad, backprop + i, n - i);
    }
    loss = hn::Add(loss, term);
  }
  return hn::GetLane(hn::SumOfLanes(d, loss));
}

// The rows of 16-bit types are widened into scratch space.
template <class T>
class RowReader {
 public:
  using C = ComputeType<T>;
  explicit RowReader(int64_t n) : n_(n) {
    if constexpr (!std::is_same_v<T, C>)
      scratch_.resize(static_cast<size_t>(n));
  }
  const C* Read(const T* row) {
    if constexpr (std::is_same_v<T, C>) {
      return row;
    } else {
      ToFloat(row, scratch_.data(), n_);
      return scratch_.data();
    }
  }
  // Where a row of results is computed, before it is stored.
  C* Target(T* row) {
    if constexpr (std::is_same_v<T, C>)
      return row;
    else
      return scratch_.data();
  }
  void Write(const C* values, T* row) {
    if constexpr (!std::is_same_v<T, C>) FromFloat(values, row, n_);
  }

 private:
  int64_t n_;
  std::vector<C> scratch_;
};

// Rows of at most so many elements are computed side by side, one in each lane.
constexpr int64_t kShortRow = 24;

// (Log-)softmax of as many rows as d has lanes, in the transposed scratch.
template <class D, class T>
void ShortRows(D d, bool log, const T* in, int64_t n, T* scratch, T* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < lanes; ++r)
    for (int64_t i = 0; i < n; ++i) scratch[i * lanes + r] = in[r * n + i];
  auto max = hn::Set(d, -std::numeric_limits<T>::infinity());
  for (int64_t i = 0; i < n; ++i)
    max = hn::Max(max, hn::Load(d, scratch + i * lanes));
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < n; ++i) {
    const auto shifted = hn::Sub(hn::Load(d, scratch + i * lanes), max);
    const auto e = ExpOfShifted(d, shifted);
    sum = hn::Add(sum, e);
    hn::Store(log ? shifted : e, d, scratch + i * lanes);
  }
  if (log) {
    sum = hn::IfThenElse(IsNumber(d, sum), Log::F(d, sum), sum);
  } else {
    sum = hn::Div(hn::Set(d, T(1)), sum);
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto e = hn::Load(d, scratch + i * lanes);
    hn::Store(log ? hn::Sub(e, sum) : hn::Mul(e, sum), d, scratch + i * lanes);
  }
  for (int64_t r = 0; r < lanes; ++r)
    for (int64_t i = 0; i < n; ++i) out[r * n + i] = scratch[i * lanes + r];
}

template <class T>
void SoftmaxRows(bool log, int64_t begin, int64_t end, int64_t n,
                 const void* pin, void* pout) {
  const T* in = static_cast<const T*>(pin);
  T* out = static_cast<T*>(pout);
  if constexpr (std::is_floating_point_v<T>) {
    if (n <= kShortRow) {
      const hn::ScalableTag<T> d;
      const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
      alignas(64) T scratch[kShortRow * HWY_MAX_BYTES / sizeof(T)];
      alignas(64) T rest[kShortRow * HWY_MAX_BYTES / sizeof(T)];
      for (; begin < end; begin += lanes) {
        const int64_t rows = std::min(lanes, end - begin);
        if (rows == lanes) {
          ShortRows(d, log, in + begin * n, n, scratch, out + begin * n);
          continue;
        }
        // As if there were more rows, so that each has the same result wherever
        // its part of the rows ends.
        std::fill(std::copy_n(in + begin * n, rows * n, rest), rest + lanes * n,
                  T(0));
        ShortRows(d, log, rest, n, scratch, rest);
        std::copy_n(rest, rows * n, out + begin * n);
      }
      return;
    }
  }
  RowReader<T> reader(n);
  for (int64_t r = begin; r < end; ++r) {
    const auto* x = reader.Read(in + r * n);
    auto* y = reader.Target(out + r * n);
    if (log)
      LogSoftmaxRow(x, n, y);
    else
      SoftmaxRow(x, n, y);
    reader.Write(y, out + r * n);
  }
}

template <class T>
void DenseRows(int64_t begin, int64_t end, int64_t n, const void* plogits,
               int64_t logits_stride, const void* plabels,
               int64_t labels_stride, void* ploss, void* pbackprop) {
  const T* logits = static_cast<const T*>(plogits);
  const T* labels = static_cast<const T*>(plabels);
  T* loss = static_cast<T*>(ploss);
  T* backprop = static_cast<T*>(pbackprop);
  RowReader<T> logits_reader(n);
  RowReader<T> labels_reader(n);
  for (int64_t r = begin; r < end; ++r) {
    const auto* x = logits_reader.Read(logits + r * logits_stride);
    const auto* l = labels_reader.Read(labels + r * labels_stride);
    auto* g = logits_reader.Target(backprop + r * n);
    loss[r] = static_cast<T>(CrossEntropyRow(x, l, n, g));
    logits_reader.Write(g, backprop + r * n);
  }
}

template <class T, class I>
int64_t SparseRows(int64_t begin, int64_t end, int64_t n, const void* plogits,
                   const void* plabels, void* ploss, void* pbackprop) {
  using C = ComputeType<T>;
  const T* logits = static_cast<const T*>(plogits);
  const I* labels = static_cast<const I*>(plabels);
  T* loss = static_cast<T*>(ploss);
  T* backprop = static_cast<T*>(pbackprop);
  const C nan = std::numeric_limits<C>::quiet_NaN();
  int64_t bad = -1;
  RowReader<T> reader(n);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t label = static_cast<int64_t>(labels[r]);
    const C* x = reader.Read(logits + r * n);
    C* g = reader.Target(backprop + r * n);
    if (label < 0 || label >= n) {
      bad = r;
      loss[r] = static_cast<T>(nan);
      std::fill_n(g, n, nan);
    } else {
      const C max = RowMax(x, n);
      const C chosen = x[label] - max;
      const C sum = RowExp(x, max, n, g);
      const C scale = C(1) / sum;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) g[i] *= scale;
      g[label] -= C(1);
      loss[r] = static_cast<T>(std::log(sum) - chosen);
    }
    reader.Write(g, backprop + r * n);
  }
  return bad;
}

}  // namespace

using SoftmaxFn = void (*)(bool, int64_t, int64_t, int64_t, const void*, void*);
using DenseFn = void (*)(int64_t, int64_t, int64_t, const void*, int64_t,
                         const void*, int64_t, void*, void*);
using SparseFn = int64_t (*)(int64_t, int64_t, int64_t, const void*,
                             const void*, void*, void*);

SoftmaxFn PickSoftmax(DType t) {
  return ByDType<SoftmaxFn>(FloatTypes(), t,
                            []<class T>() { return SoftmaxRows<T>; });
}

DenseFn PickDense(DType t) {
  return ByDType<DenseFn>(FloatTypes(), t,
                          []<class T>() { return DenseRows<T>; });
}

SparseFn PickSparse(DType t, DType label_type) {
  const bool wide = label_type == DType::kInt64;
  if (!wide && label_type != DType::kInt32) return nullptr;
  return ByDType<SparseFn>(FloatTypes(), t, [&]<class T>() {
    return wide ? SparseRows<T, int64_t> : SparseRows<T, int32_t>;
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(PickSoftmax);
HWY_EXPORT(PickDense);
HWY_EXPORT(PickSparse);
namespace {

// The number of rows that is worth starting a thread.
int64_t Grain(int64_t columns) {
  return std::max<int64_t>(1, 8192 / std::max<int64_t>(1, columns));
}

bool Run(DType t, bool log, int64_t rows, int64_t columns, const void* in,
         void* out) {
  const auto fn = HWY_DYNAMIC_DISPATCH(PickSoftmax)(t);
  if (fn == nullptr) return false;
  ParallelFor(rows, Grain(columns), [&](int64_t begin, int64_t end) {
    fn(log, begin, end, columns, in, out);
  });
  return true;
}

}  // namespace

bool Softmax(DType t, int64_t rows, int64_t columns, const void* in,
             void* out) {
  return Run(t, false, rows, columns, in, out);
}

bool LogSoftmax(DType t, int64_t rows, int64_t columns, const void* in,
                void* out) {
  return Run(t, true, rows, columns, in, out);
}

bool SoftmaxCrossEntropy(DType t, int64_t rows, int64_t columns,
                         const void* logits, int64_t logits_stride,
                         const void* labels, int64_t labels_stride, void* loss,
                         void* backprop) {
  const auto fn = HWY_DYNAMIC_DISPATCH(PickDense)(t);
  if (fn == nullptr) return false;
  ParallelFor(rows, Grain(columns), [&](int64_t begin, int64_t end) {
    fn(begin, end, columns, logits, logits_stride, labels, labels_stride, loss,
       backprop);
  });
  return true;
}

bool SparseSoftmaxCrossEntropy(DType t, DType label_type, int64_t rows,
                               int64_t columns, const void* logits,
                               const void* labels, void* loss, void* backprop,
                               int64_t* bad_row) {
  *bad_row = -1;
  const auto fn = HWY_DYNAMIC_DISPATCH(PickSparse)(t, label_type);
  if (fn == nullptr) return false;
  std::atomic<int64_t> bad{-1};
  ParallelFor(rows, Grain(columns), [&](int64_t begin, int64_t end) {
    const int64_t r = fn(begin, end, columns, logits, labels, loss, backprop);
    if (r >= 0) bad.store(r, std::memory_order_relaxed);
  });
  *bad_row = bad.load(std::memory_order_relaxed);
  return true;
}

}  // namespace sluice::simd
#endif
