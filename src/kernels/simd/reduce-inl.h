// The loops of reductions, for the target being compiled: plain C++ over blocks
// of constant length, which the compiler vectorises.
//
// An op for elements of type T is a struct with
//   using Value;   what a block is reduced in
//   using Total;   what blocks are added up in
//   template <class A> static A Identity();
//   static Value Load(T or float x);
//   template <class A> static A Combine(A a, A b);
//   template <class R> static R Finish(Total total, int64_t count);
#include <cstdint>
#include <type_traits>

#include "kernels/simd/by_dtype.h"
#include "kernels/simd/half-inl.h"
#include "kernels/simd/reduce.h"
#include "tensor/compute_type.h"

#if defined(SLUICE_KERNELS_SIMD_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_SIMD_REDUCE_INL_H_
#undef SLUICE_KERNELS_SIMD_REDUCE_INL_H_
#else
#define SLUICE_KERNELS_SIMD_REDUCE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {

template <class T>
inline constexpr bool k16Bit =
    std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;

// Elements per block: how many a float accumulates before it is added to the
// double total. Each of the kLanes partial results accumulates few of them.
inline constexpr int64_t kRowBlock = 2048;
inline constexpr int64_t kRowLanes = 64;
// Rows accumulated before they are added to the totals.
inline constexpr int64_t kColumnBlock = 32;

// Combines acc[j] with element j of four rows `stride` apart, for j < n:
// accumulators are in memory, and are read and written once for all four rows.
// An op may provide kVectors and CombineVectors if the compiler would not
// vectorise it.
template <class Op, class X>
void CombineFour(const X* in, int64_t stride, int64_t n,
                 typename Op::Value* acc) {
  int64_t done = 0;
  if constexpr (requires { requires Op::kVectors; }) {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::ScalableTag<X> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; done + lanes <= n; done += lanes) {
      const X* const x = in + done;
      const auto first =
          Op::CombineVectors(hn::LoadU(d, x), hn::LoadU(d, x + stride));
      const auto second = Op::CombineVectors(hn::LoadU(d, x + 2 * stride),
                                             hn::LoadU(d, x + 3 * stride));
      const auto sum = Op::CombineVectors(hn::LoadU(d, acc + done),
                                          Op::CombineVectors(first, second));
      hn::StoreU(sum, d, acc + done);
    }
  }
#pragma omp simd
  for (int64_t j = done; j < n; ++j) {
    const X* const x = in + j;
    acc[j] = Op::Combine(
        acc[j], Op::Combine(Op::Combine(Op::Load(x[0]), Op::Load(x[stride])),
                            Op::Combine(Op::Load(x[2 * stride]),
                                        Op::Load(x[3 * stride]))));
  }
}

// n <= kRowBlock elements. X is T, or float for 16-bit types.
template <class Op, class X>
typename Op::Value ReduceBlock(const X* in, int64_t n) {
  using V = typename Op::Value;
  if (n < 16) {
    V acc = Op::template Identity<V>();
    for (int64_t i = 0; i < n; ++i) acc = Op::Combine(acc, Op::Load(in[i]));
    return acc;
  }
  V lanes[kRowLanes];
  int64_t width = n < kRowLanes ? 16 : kRowLanes;
  for (int64_t j = 0; j < width; ++j) lanes[j] = Op::Load(in[j]);
  int64_t i = width;
  if (width == kRowLanes) {
    for (; i + 4 * kRowLanes <= n; i += 4 * kRowLanes)
      CombineFour<Op, X>(in + i, kRowLanes, kRowLanes, lanes);
    for (; i + kRowLanes <= n; i += kRowLanes) {
#pragma omp simd
      for (int64_t j = 0; j < kRowLanes; ++j)
        lanes[j] = Op::Combine(lanes[j], Op::Load(in[i + j]));
    }
  }
  for (; i < n; i += width) {
    const int64_t m = n - i < width ? n - i : width;
#pragma omp simd
    for (int64_t j = 0; j < m; ++j)
      lanes[j] = Op::Combine(lanes[j], Op::Load(in[i + j]));
  }
  for (int64_t half_width = width / 2; half_width > 0; half_width /= 2) {
#pragma omp simd
    for (int64_t j = 0; j < half_width; ++j)
      lanes[j] = Op::Combine(lanes[j], lanes[j + half_width]);
  }
  return lanes[0];
}

template <class Op, class T>
void ReduceRow(const void* pin, int64_t n, void* pacc) {
  using W = typename Op::Total;
  const T* in = static_cast<const T*>(pin);
  W total = *static_cast<W*>(pacc);
  for (int64_t i = 0; i < n;) {
    const int64_t most = k16Bit<T> ? kBlock : kRowBlock;
    const int64_t m = n - i < most ? n - i : most;
    if constexpr (k16Bit<T>) {
      alignas(64) float f[kBlock];
      ToFloat(in + i, f, m);
      total = Op::Combine(total, W(ReduceBlock<Op, float>(f, m)));
    } else {
      total = Op::Combine(total, W(ReduceBlock<Op, T>(in + i, m)));
    }
    i += m;
  }
  *static_cast<W*>(pacc) = total;
}

template <class Op, class T>
void AddRow(const T* in, int64_t n, typename Op::Value* acc) {
  if constexpr (k16Bit<T>) {
    alignas(64) float f[kReduceTile];
    ToFloat(in, f, n);
    AddRow<Op, float>(f, n, acc);
  } else {
    int64_t done = 0;
    if constexpr (requires { requires Op::kVectors; }) {
      namespace hn = hwy::HWY_NAMESPACE;
      const hn::ScalableTag<T> d;
      const auto lanes = static_cast<int64_t>(hn::Lanes(d));
      for (; done + lanes <= n; done += lanes)
        hn::StoreU(Op::CombineVectors(hn::LoadU(d, acc + done),
                                      hn::LoadU(d, in + done)),
                   d, acc + done);
    }
#pragma omp simd
    for (int64_t j = done; j < n; ++j)
      acc[j] = Op::Combine(acc[j], Op::Load(in[j]));
  }
}

// The same for four rows.
template <class Op, class T>
void AddFourRows(const T* in, int64_t stride, int64_t n,
                 typename Op::Value* acc) {
  if constexpr (k16Bit<T>) {
    for (int64_t k = 0; k < 4; ++k) AddRow<Op, T>(in + k * stride, n, acc);
  } else {
    CombineFour<Op, T>(in, stride, n, acc);
  }
}

// Narrow adjacent rows are processed `group` at a time, as one wide row whose
// accumulators are combined afterwards.
template <class Op, class T>
void ReduceColumns(const void* pin, int64_t rows, int64_t stride, int64_t n,
                   void* pacc) {
  using V = typename Op::Value;
  using W = typename Op::Total;
  const T* in = static_cast<const T*>(pin);
  W* total = static_cast<W*>(pacc);
  const int64_t group = stride == n && n <= kReduceTile / 4
                            ? (rows < kReduceTile / n ? rows : kReduceTile / n)
                            : 1;
  const int64_t width = group * n;
  alignas(64) V acc[kReduceTile];
  int64_t r = 0;
  while (r + group <= rows) {
    for (int64_t j = 0; j < width; ++j) acc[j] = Op::template Identity<V>();
    int64_t k = 0;
    for (; k < kColumnBlock && r + 4 * group <= rows; k += 4, r += 4 * group)
      AddFourRows<Op, T>(in + r * stride, group * stride, width, acc);
    for (; k < kColumnBlock && r + group <= rows; ++k, r += group)
      AddRow<Op, T>(in + r * stride, width, acc);
    for (int64_t g = 0; g < width; g += n) {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j)
        total[j] = Op::Combine(total[j], W(acc[g + j]));
    }
  }
  if (r == rows) return;
  for (int64_t j = 0; j < n; ++j) acc[j] = Op::template Identity<V>();
  for (; r < rows; ++r) AddRow<Op, T>(in + r * stride, n, acc);
  for (int64_t j = 0; j < n; ++j) total[j] = Op::Combine(total[j], W(acc[j]));
}

template <class Op>
void ReduceInit(void* pacc, int64_t n) {
  using W = typename Op::Total;
  W* acc = static_cast<W*>(pacc);
  for (int64_t i = 0; i < n; ++i) acc[i] = Op::template Identity<W>();
}

template <class Op>
void ReduceMerge(void* pacc, const void* pother, int64_t n) {
  using W = typename Op::Total;
  W* acc = static_cast<W*>(pacc);
  const W* other = static_cast<const W*>(pother);
  for (int64_t i = 0; i < n; ++i) acc[i] = Op::Combine(acc[i], other[i]);
}

template <class Op, class T>
void ReduceFinish(const void* pacc, int64_t n, int64_t count, void* pout) {
  using W = typename Op::Total;
  const W* acc = static_cast<const W*>(pacc);
  T* out = static_cast<T*>(pout);
  for (int64_t i = 0; i < n; ++i)
    out[i] = Op::template Finish<T>(acc[i], count);
}

template <class Op, class T>
ReduceKernel MakeReduce() {
  ReduceKernel k;
  k.init = ReduceInit<Op>;
  k.row = ReduceRow<Op, T>;
  k.columns = ReduceColumns<Op, T>;
  k.merge = ReduceMerge<Op>;
  k.finish = ReduceFinish<Op, T>;
  k.acc_size = sizeof(typename Op::Total);
  k.size = sizeof(T);
  return k;
}

// Op is a template over the element type.
template <template <class> class Op>
ReduceKernel PickReduceFloats(DType t) {
  return ByDType<ReduceKernel>(FloatTypes(), t, []<class T>() {
    return MakeReduce<Op<ComputeType<T>>, T>();
  });
}

// For ops whose result has the same bits for signed and unsigned elements.
template <template <class> class Op>
ReduceKernel PickReduceUnsigned(DType t) {
  return ByDType<ReduceKernel>(IntTypes(), t, []<class T>() {
    using U = std::make_unsigned_t<T>;
    return MakeReduce<Op<U>, U>();
  });
}

template <template <class> class Op>
ReduceKernel PickReduceInts(DType t) {
  return ByDType<ReduceKernel>(
      IntTypes(), t, []<class T>() { return MakeReduce<Op<T>, T>(); });
}

template <template <class> class Op>
ReduceKernel PickReduceComplex(DType t) {
  return ByDType<ReduceKernel>(
      ComplexTypes(), t, []<class T>() { return MakeReduce<Op<T>, T>(); });
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#endif
