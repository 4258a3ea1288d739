#include "kernels/simd/quantize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/quantize.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Rounding = Quantization::Rounding;

template <Rounding kRounding, class D, class V>
HWY_INLINE V Rounded(D d, V y) {
  if constexpr (kRounding == Rounding::kHalfAway) {
    // Half less one unit: from 0.5 the sum would round up what is just below.
    return hn::Trunc(hn::Add(y, hn::CopySign(hn::Set(d, 0.49999997f), y)));
  } else if constexpr (kRounding == Rounding::kHalfToEven) {
    return hn::Round(y);
  } else {
    return hn::Floor(y);
  }
}

// n numbers of at most kBlock.
constexpr int64_t kBlock = 256;
// kSmall: results are below 2^22 and only their low 16 bits are needed; NaN
// gives 0 or the lowest.
template <Rounding kRounding, bool kSmall>
void ToInts(const Quantization& q, const float* in, int64_t n, int32_t* out) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V min = hn::Set(d, q.min), max = hn::Set(d, q.max);
  const V base = hn::Set(d, q.base), scale = hn::Set(d, q.scale);
  const V shift = hn::Set(d, q.shift), offset = hn::Set(d, q.offset);
  const V low = hn::Set(d, q.low), high = hn::Set(d, q.high);
  const V end = hn::Set(d, 2147483648.0f);
  // Added to a float below 2^22, it leaves no bits for a fraction, and the
  // integer in the low bits.
  const V rounder = hn::Set(d, 12582912.0f);
  const bool clamp_after =
      q.low > -Quantization::kInfinity || q.high < Quantization::kInfinity;
  const auto convert = [&](V v) HWY_ATTR {
    v = hn::IfThenElse(hn::Lt(max, v), max, v);  // (NaN stays.)
    v = hn::IfThenElse(hn::Lt(v, min), min, v);
    V y = hn::Sub(hn::Mul(hn::Sub(v, base), scale), shift);
    if (!kSmall || clamp_after || kRounding != Rounding::kHalfToEven)
      y = Rounded<kRounding>(d, y);
    if (!kSmall || clamp_after) {
      y = hn::Sub(y, offset);
      y = hn::IfThenElse(hn::Gt(y, low), y, low);
      y = hn::IfThenElse(hn::Lt(y, high), y, high);
    }
    if constexpr (kSmall) {
      y = hn::IfThenElseZero(hn::Eq(y, y), y);
      return hn::BitCast(di, hn::Add(y, rounder));
    } else {
      const auto fits = hn::And(hn::Lt(y, end), hn::Ge(y, hn::Neg(end)));
      return hn::ConvertTo(di, hn::IfThenElse(fits, y, hn::Neg(end)));
    }
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(convert(hn::LoadU(d, in + i)), di, out + i);
  for (; i < n; ++i) out[i] = hn::GetLane(convert(hn::Set(d, in[i])));
}

template <Rounding kRounding>
void ToInts(const Quantization& q, bool small, const float* in, int64_t n,
            int32_t* out) {
  small ? ToInts<kRounding, true>(q, in, n, out)
        : ToInts<kRounding, false>(q, in, n, out);
}

// Whether all results are below 2^22.
bool IsSmall(const Quantization& q) {
  constexpr float kMost = 4e6f;
  if (q.low > -kMost && q.high < kMost) return true;
  const auto of = [&](float v) {
    return std::abs((v - q.base) * q.scale - q.shift) < kMost;
  };
  return of(q.min) && of(q.max) && q.offset == 0;
}

template <class T>
void NarrowBlock(const int32_t* from, int64_t n, T* to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
}

}  // namespace

void QuantizeAll(const Quantization& q, const float* in, int64_t n,
                 size_t bytes, void* out) {
  alignas(64) int32_t block[kBlock];
  const bool small = bytes <= 2 && IsSmall(q);
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    if (q.rounding == Rounding::kHalfAway)
      ToInts<Rounding::kHalfAway>(q, small, in + i, m, block);
    else if (q.rounding == Rounding::kHalfToEven)
      ToInts<Rounding::kHalfToEven>(q, small, in + i, m, block);
    else
      ToInts<Rounding::kDown>(q, small, in + i, m, block);
    if (bytes == 1)
      NarrowBlock(block, m, static_cast<uint8_t*>(out) + i);
    else if (bytes == 2)
      NarrowBlock(block, m, static_cast<uint16_t*>(out) + i);
    else
      std::copy_n(block, m, static_cast<int32_t*>(out) + i);
  }
}

// Sums are in float for blocks, and in double for all of them.
void ClampPart(float min, float max, const float* dy, const float* x, int64_t n,
               float* dx, double* below, double* above) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V low = hn::Set(d, min), high = hn::Set(d, max);
  int64_t i = 0;
  while (i + lanes <= n) {
    V less = hn::Zero(d), more = hn::Zero(d);
    for (const int64_t end = std::min(i + kBlock, n); i + lanes <= end;
         i += lanes) {
      const V v = hn::LoadU(d, x + i), g = hn::LoadU(d, dy + i);
      const auto under = hn::Lt(v, low), over = hn::Gt(v, high);
      less = hn::Add(less, hn::IfThenElseZero(under, g));
      more = hn::Add(more, hn::IfThenElseZero(over, g));
      // (NaN is nowhere.)
      const auto within = hn::And(hn::Ge(v, low), hn::Le(v, high));
      hn::StoreU(hn::IfThenElseZero(within, g), d, dx + i);
    }
    *below += hn::GetLane(hn::SumOfLanes(d, less));
    *above += hn::GetLane(hn::SumOfLanes(d, more));
  }
  for (; i < n; ++i) {
    const float v = x[i], g = dy[i];
    if (v < min) *below += g;
    if (v > max) *above += g;
    dx[i] = v >= min && v <= max ? g : 0.0f;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
namespace {
HWY_EXPORT(QuantizeAll);
HWY_EXPORT(ClampPart);
constexpr int64_t kGrain = 32768;
}  // namespace

void Quantize(const Quantization& q, const float* in, int64_t n, size_t bytes,
              void* out) {
  ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(QuantizeAll)
    (q, in + begin, end - begin, bytes,
     static_cast<char*>(out) + begin * static_cast<int64_t>(bytes));
  });
}

// (Sums of parts, in the order of the parts, for the same result each time.)
void ClampGradient(float min, float max, const float* dy, const float* x,
                   int64_t n, float* dx, double* below, double* above) {
  const int64_t parts = (n + kGrain - 1) / kGrain;
  std::vector<double> sums(static_cast<size_t>(2 * parts));
  ParallelFor(parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      const int64_t begin = p * kGrain;
      double* const sum = &sums[static_cast<size_t>(2 * p)];
      HWY_DYNAMIC_DISPATCH(ClampPart)
      (min, max, dy + begin, x + begin, std::min(kGrain, n - begin), dx + begin,
       sum, sum + 1);
    }
  });
  for (size_t p = 0; p < sums.size(); p += 2)
    *below += sums[p], *above += sums[p + 1];
}

}  // namespace sluice::simd
#endif  // HWY_ONCE
