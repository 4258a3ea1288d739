// ArgMax, ArgMin and FirstAbove.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/simd/by_dtype.h"
#include "kernels/simd/reduce.h"
#include "kernels/simd/target.h"
#include "tensor/compute_type.h"

// Calls macro(T, Name) for each type of FirstAbove: HWY_EXPORT takes no
// templates, so each needs a function of its own.
#ifndef SLUICE_FIRST_ABOVE_TYPES
#define SLUICE_FIRST_ABOVE_TYPES(macro)                                 \
  macro(float, Float) macro(double, Double) macro(int8_t, Int8)         \
      macro(int16_t, Int16) macro(int32_t, Int32) macro(int64_t, Int64) \
          macro(uint8_t, Uint8) macro(uint16_t, Uint16)                 \
              macro(uint32_t, Uint32) macro(uint64_t, Uint64)
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/reduce_arg.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/simd/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

template <bool kMax, class C>
inline bool Better(C a, C b) {
  return kMax ? a > b : a < b;
}

// The search starts from here, so that values that do not beat it (NaN, and an
// infinity of the wrong sign) leave the result at 0.
template <bool kMax, class C>
constexpr C Worst() {
  return kMax ? std::numeric_limits<C>::lowest()
              : std::numeric_limits<C>::max();
}

inline constexpr int64_t kLanes = 32;
inline constexpr int64_t kTile = 256;

// Calls fn(converted elements, offset, count) on blocks of the row; stops when
// it returns true.
template <class T, class F>
inline void ForBlocks(const T* in, int64_t n, F fn) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    alignas(64) float f[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = n - i < kBlock ? n - i : kBlock;
      ToFloat(in + i, f, m);
      if (fn(static_cast<const float*>(f), i, m)) return;
    }
  } else {
    fn(in, int64_t{0}, n);
  }
}

// Finds the value first, which vectorises, and then its position.
template <bool kMax, class T, class C>
int64_t ArgRow(const T* in, int64_t n) {
  C lanes[kLanes];
  for (int64_t j = 0; j < kLanes; ++j) lanes[j] = Worst<kMax, C>();
  ForBlocks(in, n, [&lanes](const C* x, int64_t, int64_t m) {
    int64_t i = 0;
    for (; i + kLanes <= m; i += kLanes) {
#pragma omp simd
      for (int64_t j = 0; j < kLanes; ++j) {
        const C v = x[i + j];
        lanes[j] = Better<kMax>(v, lanes[j]) ? v : lanes[j];
      }
    }
    for (int64_t j = 0; i + j < m; ++j)
      if (Better<kMax>(x[i + j], lanes[j])) lanes[j] = x[i + j];
    return false;
  });
  C best = lanes[0];
  for (int64_t j = 1; j < kLanes; ++j)
    if (Better<kMax>(lanes[j], best)) best = lanes[j];
  if (best == Worst<kMax, C>()) return 0;
  int64_t found = 0;
  ForBlocks(in, n, [&found, best](const C* x, int64_t at, int64_t m) {
    for (int64_t i = 0; i < m; ++i) {
      if (x[i] == best) {
        found = at + i;
        return true;
      }
    }
    return false;
  });
  return found;
}

// n <= kTile columns of `length` rows.
template <bool kMax, class T, class C>
void ArgColumns(const T* in, int64_t length, int64_t stride, int64_t n,
                int64_t* index) {
  C best[kTile];
  alignas(64) float converted[kTile];
  for (int64_t j = 0; j < n; ++j) {
    best[j] = Worst<kMax, C>();
    index[j] = 0;
  }
  for (int64_t r = 0; r < length; ++r) {
    const C* row;
    if constexpr (std::is_same_v<T, C>) {
      row = in + r * stride;
    } else {
      ToFloat(in + r * stride, converted, n);
      row = converted;
    }
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const C v = row[j];
      const bool better = Better<kMax>(v, best[j]);
      best[j] = better ? v : best[j];
      index[j] = better ? r : index[j];
    }
  }
}

// The results [begin, end) of the [outer, inner] results.
template <bool kMax, class T, class C = T>
void ArgRange(const void* pin, int64_t length, int64_t inner, int64_t begin,
              int64_t end, int64_t* out) {
  const T* in = static_cast<const T*>(pin);
  if (inner == 1) {
    for (int64_t o = begin; o < end; ++o)
      *out++ = ArgRow<kMax, T, C>(in + o * length, length);
    return;
  }
  while (begin < end) {
    const int64_t outer = begin / inner;
    const int64_t column = begin % inner;
    const int64_t n = std::min({kTile, inner - column, end - begin});
    ArgColumns<kMax, T, C>(in + outer * length * inner + column, length, inner,
                           n, out);
    begin += n;
    out += n;
  }
}

}  // namespace

using ArgFn = void (*)(const void*, int64_t length, int64_t inner,
                       int64_t begin, int64_t end, int64_t* out);

template <bool kMax>
ArgFn PickArg(DType t) {
  if (t == DType::kBool) t = DType::kUint8;
  if (IsFloating(t))
    return ByDType<ArgFn>(FloatTypes(), t, []<class T>() {
      return ArgRange<kMax, T, ComputeType<T>>;
    });
  return ByDType<ArgFn>(IntTypes(), t,
                        []<class T>() { return ArgRange<kMax, T>; });
}

template <class T>
int64_t FirstAboveOf(const T* in, int64_t n, T bound) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto most = hn::Set(d, bound);
  const auto above = [&](int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, in + i);
    if constexpr (std::is_floating_point_v<T>)
      return hn::Not(hn::Le(v, most));  // (NaN too.)
    else
      return hn::Gt(v, most);
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes)
    if (!hn::AllFalse(
            d, hn::Or(hn::Or(above(i), above(i + lanes)),
                      hn::Or(above(i + 2 * lanes), above(i + 3 * lanes)))))
      break;
  while (i < n && in[i] <= bound) ++i;
  return i;
}

#define SLUICE_FIRST_ABOVE(T, Name)                           \
  int64_t FirstAbove##Name(const T* in, int64_t n, T bound) { \
    return FirstAboveOf<T>(in, n, bound);                     \
  }
SLUICE_FIRST_ABOVE_TYPES(SLUICE_FIRST_ABOVE)
#undef SLUICE_FIRST_ABOVE

ArgFn PickArgMax(DType t) { return PickArg<true>(t); }
ArgFn PickArgMin(DType t) { return PickArg<false>(t); }

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(PickArgMax);
HWY_EXPORT(PickArgMin);
namespace {

using ArgFn = void (*)(const void*, int64_t, int64_t, int64_t, int64_t,
                       int64_t*);

template <class I>
void Run(ArgFn fn, int64_t outer, int64_t length, int64_t inner, const void* in,
         void* pout) {
  I* out = static_cast<I*>(pout);
  const int64_t grain =
      std::max<int64_t>(1, 32768 / std::max<int64_t>(1, length));
  ParallelFor(outer * inner, grain, [&](int64_t begin, int64_t end) {
    constexpr int64_t kBatch = 1024;
    int64_t index[kBatch];
    for (int64_t i = begin; i < end; i += kBatch) {
      const int64_t n = std::min(kBatch, end - i);
      fn(in, length, inner, i, i + n, index);
      for (int64_t j = 0; j < n; ++j) out[i + j] = static_cast<I>(index[j]);
    }
  });
}

bool RunAs(ArgFn fn, DType index_type, int64_t outer, int64_t length,
           int64_t inner, const void* in, void* out) {
  if (fn == nullptr) return false;
  switch (index_type) {
    case DType::kInt32:
      Run<int32_t>(fn, outer, length, inner, in, out);
      break;
    case DType::kInt64:
      Run<int64_t>(fn, outer, length, inner, in, out);
      break;
    case DType::kInt16:
      Run<int16_t>(fn, outer, length, inner, in, out);
      break;
    case DType::kUint16:
      Run<uint16_t>(fn, outer, length, inner, in, out);
      break;
    default:
      return false;
  }
  return true;
}

}  // namespace

#define SLUICE_FIRST_ABOVE(T, Name)                              \
  HWY_EXPORT(FirstAbove##Name);                                  \
  template <>                                                    \
  int64_t FirstAbove<T>(const T* in, int64_t n, T bound) {       \
    return HWY_DYNAMIC_DISPATCH(FirstAbove##Name)(in, n, bound); \
  }
SLUICE_FIRST_ABOVE_TYPES(SLUICE_FIRST_ABOVE)
#undef SLUICE_FIRST_ABOVE

bool ArgMax(DType t, DType index_type, int64_t outer, int64_t length,
            int64_t inner, const void* in, void* out) {
  return RunAs(HWY_DYNAMIC_DISPATCH(PickArgMax)(t), index_type, outer, length,
               inner, in, out);
}

bool ArgMin(DType t, DType index_type, int64_t outer, int64_t length,
            int64_t inner, const void* in, void* out) {
  return RunAs(HWY_DYNAMIC_DISPATCH(PickArgMin)(t), index_type, outer, length,
               inner, in, out);
}

}  // namespace sluice::simd
#endif
