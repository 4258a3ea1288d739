#include "kernels/dnn/pool.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/dnn/pool_simd.h"
#include "tensor/half.h"

namespace sluice::dnn {
namespace {

// The lowest finite value.
template <typename T>
T Lowest() {
  if constexpr (std::is_same_v<T, half>) {
    return std::bit_cast<half>(uint16_t{0xfbff});
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return std::bit_cast<bfloat16>(uint16_t{0xff7f});
  } else {
    return std::numeric_limits<T>::lowest();
  }
}

// Sums of 16-bit floats are computed in float.
template <typename T>
using Wide = std::conditional_t<sizeof(T) == 2, float, T>;

// The sum of two windows' contributions to one element; integers wrap around.
template <typename T>
T Sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return T(Wide<T>(a) + Wide<T>(b));
  }
}

template <typename T>
constexpr bool kIsByte =
    std::is_same_v<T, uint8_t> || std::is_same_v<T, int8_t>;
template <typename T>
constexpr bool kVectorised =
    std::is_same_v<T, float> || std::is_same_v<T, double>;

// Element offsets of both layouts.
struct Strides {
  int64_t image, plane, row, pixel, channel;
};
Strides StridesOf(Layout layout, int64_t channels, int64_t d, int64_t h,
                  int64_t w) {
  const int64_t image = channels * d * h * w;
  return layout == Layout::kNhwc
             ? Strides{image, channels * h * w, channels * w, channels, 1}
             : Strides{image, h * w, w, 1, d * h * w};
}

// Divides images, or blocks of channels if there are few images, among the
// threads. Parts never overlap, in the input or in the output.
template <typename Fn>
void ForEachPart(const PoolGeometry& s, Fn fn) {
  constexpr int64_t kBlock = 64;  // Channels; a multiple of all vector sizes.
  const bool split = s.batch < 4 * IntraOpThreads() && s.channels > kBlock;
  const int64_t blocks = split ? (s.channels + kBlock - 1) / kBlock : 1;
  const int64_t work =
      std::max<int64_t>(1, s.out_pixels() * s.d.window * s.h.window *
                               s.w.window * s.channels / blocks);
  ParallelFor(
      s.batch * blocks, std::max<int64_t>(1, 32768 / work),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % blocks * kBlock;
          fn(PoolPart{
              i / blocks, first,
              blocks == 1 ? s.channels : std::min(s.channels, first + kBlock)});
        }
      });
}

// Calls window(output offset, taps) for each output of the part, with
// taps(fn) calling fn(input offset) for each input element of its window.
template <typename Window>
void ForEachWindow(const PoolGeometry& s, const PoolPart& part, Window window) {
  const int64_t od = s.d.out(), oh = s.h.out(), ow = s.w.out();
  const Strides in = StridesOf(s.layout, s.channels, s.d.in, s.h.in, s.w.in);
  const Strides out = StridesOf(s.layout, s.channels, od, oh, ow);
  for (int64_t r = 0; r < od * oh; ++r) {
    const int64_t z = r / oh, y = r % oh;
    const int64_t z0 = s.d.start(z) + s.d.first_tap(z);
    const int64_t z1 = s.d.start(z) + s.d.last_tap(z);
    const int64_t y0 = s.h.start(y) + s.h.first_tap(y);
    const int64_t y1 = s.h.start(y) + s.h.last_tap(y);
    for (int64_t x = 0; x < ow; ++x) {
      const int64_t x0 = s.w.start(x) + s.w.first_tap(x);
      const int64_t x1 = s.w.start(x) + s.w.last_tap(x);
      for (int64_t c = part.first; c < part.last; ++c) {
        const int64_t base = part.n * in.image + c * in.channel;
        const auto taps = [&](auto fn) {
          for (int64_t iz = z0; iz < z1; ++iz)
            for (int64_t iy = y0; iy < y1; ++iy)
              for (int64_t ix = x0; ix < x1; ++ix)
                fn(base + iz * in.plane + iy * in.row + ix * in.pixel);
        };
        window(part.n * out.image + z * out.plane + y * out.row +
                   x * out.pixel + c * out.channel,
               taps);
      }
    }
  }
}

// The element that MaxPoolGrad selects, or -1 for an empty window.
template <typename T, typename Taps>
int64_t PickLargest(const T* in, bool from_lowest, const Taps& taps) {
  int64_t best = -1;
  T value = Lowest<T>();
  taps([&](int64_t i) {
    if (best < 0) {
      best = i;
      if (!from_lowest) value = in[i];
    }
    if (value < in[i]) {
      value = in[i];
      best = i;
    }
  });
  return best;
}
template <typename T>
constexpr bool kFromLowest =
    std::is_same_v<T, float> || std::is_same_v<T, bfloat16>;

template <typename T>
void ClearPart(const PoolGeometry& s, const PoolPart& part, T* image) {
  // Pixels follow each other without gaps.
  const Strides in = StridesOf(s.layout, s.channels, s.d.in, s.h.in, s.w.in);
  T* at = image + part.n * in.image;
  for (int64_t p = 0; p < s.in_pixels(); ++p)
    for (int64_t c = part.first; c < part.last; ++c)
      at[p * in.pixel + c * in.channel] = T();
}

Status ValidateDim(const char* name, const WindowDim& d) {
  if (d.in < 0 || d.window < 1 || d.stride < 1 || d.dilation != 1) {
    return InvalidArgument("pooling's ", name,
                           ": expected an input of at least 0, window and "
                           "stride of at least 1 and no dilation, got ",
                           d.in, ", ", d.window, ", ", d.stride, " and ",
                           d.dilation);
  }
  if (d.pad_before < 0 || d.pad_after < 0 || d.pad_before >= d.window ||
      d.pad_after >= d.window) {
    return InvalidArgument("pooling's ", name,
                           ": expected paddings from 0 to less than the "
                           "window of ",
                           d.window, ", got ", d.pad_before, " and ",
                           d.pad_after);
  }
  return OkStatus();
}

}  // namespace

Status Validate(const PoolGeometry& s) {
  SLUICE_RETURN_IF_ERROR(ValidateDim("depth", s.d));
  SLUICE_RETURN_IF_ERROR(ValidateDim("height", s.h));
  SLUICE_RETURN_IF_ERROR(ValidateDim("width", s.w));
  if (s.batch < 0 || s.channels < 0) {
    return InvalidArgument(
        "pooling: expected a batch and channels of at least 0, got ", s.batch,
        " and ", s.channels);
  }
  return OkStatus();
}

template <typename T>
void MaxPool(const PoolGeometry& s, const T* in, T* out) {
  ForEachPart(s, [&](const PoolPart& part) {
    if constexpr (kVectorised<T> || kIsByte<T>) {
      if (s.layout == Layout::kNhwc) {
        MaxPoolPart(s, part, in, out);
        return;
      }
    }
    ForEachWindow(s, part, [&](int64_t o, const auto& taps) {
      T best = Lowest<T>();
      taps([&](int64_t i) {
        if (best < in[i]) best = in[i];
      });
      out[o] = best;
    });
  });
}

template <typename T>
void MaxPoolGrad(const PoolGeometry& s, const T* in, const T* d_out, T* d_in) {
  ForEachPart(s, [&](const PoolPart& part) {
    if constexpr (kVectorised<T>) {
      if (s.layout == Layout::kNhwc) {
        MaxPoolGradPart(s, part, in, d_out, d_in);
        return;
      }
    }
    ClearPart(s, part, d_in);
    ForEachWindow(s, part, [&](int64_t o, const auto& taps) {
      const int64_t i = PickLargest(in, kFromLowest<T>, taps);
      if (i >= 0) d_in[i] = Sum(d_in[i], d_out[o]);
    });
  });
}

template <typename T>
void MaxPoolGradToAll(const PoolGeometry& s, const T* in, const T* out,
                      const T* d_out, T* d_in) {
  ForEachPart(s, [&](const PoolPart& part) {
    ClearPart(s, part, d_in);
    ForEachWindow(s, part, [&](int64_t o, const auto& taps) {
      const Wide<T> largest(out[o]);
      taps([&](int64_t i) {
        if (std::abs(Wide<T>(in[i]) - largest) < Wide<T>(1e-5))
          d_in[i] = Sum(d_in[i], d_out[o]);
      });
    });
  });
}

template <typename T>
void MaxPoolGradGrad(const PoolGeometry& s, const T* in, const T* dd_in,
                     T* out) {
  ForEachPart(s, [&](const PoolPart& part) {
    ForEachWindow(s, part, [&](int64_t o, const auto& taps) {
      const int64_t i = PickLargest(in, kFromLowest<T>, taps);
      out[o] = i >= 0 ? dd_in[i] : T();
    });
  });
}

template <typename T, typename Index>
void MaxPoolWithArgmax(const PoolGeometry& s, bool include_batch, const T* in,
                       T* out, Index* argmax) {
  const int64_t image = s.in_pixels() * s.channels;
  ForEachPart(s, [&](const PoolPart& part) {
    ForEachWindow(s, part, [&](int64_t o, const auto& taps) {
      const int64_t i = PickLargest(in, false, taps);
      out[o] = i >= 0 ? in[i] : Lowest<T>();
      argmax[o] =
          static_cast<Index>(include_batch || i < 0 ? i : i - part.n * image);
    });
  });
}

template <typename T>
void AvgPool(const PoolGeometry& s, const T* in, T* out) {
  ForEachPart(s, [&](const PoolPart& part) {
    if constexpr (kVectorised<T>) {
      if (s.layout == Layout::kNhwc) {
        AvgPoolPart(s, part, in, out);
        return;
      }
    }
    ForEachWindow(s, part, [&](int64_t o, const auto& taps) {
      Wide<T> sum = 0;
      int64_t count = 0;
      taps([&](int64_t i) {
        sum += Wide<T>(in[i]);
        ++count;
      });
      out[o] = T(sum / static_cast<Wide<T>>(count));
    });
  });
}

template <typename T>
void AvgPoolGrad(const PoolGeometry& s, const T* d_out, T* d_in) {
  ForEachPart(s, [&](const PoolPart& part) {
    if constexpr (kVectorised<T>) {
      if (s.layout == Layout::kNhwc) {
        AvgPoolGradPart(s, part, d_out, d_in);
        return;
      }
    }
    ClearPart(s, part, d_in);
    ForEachWindow(s, part, [&](int64_t o, const auto& taps) {
      int64_t count = 0;
      taps([&](int64_t) { ++count; });
      if (count == 0) return;
      const Wide<T> share =
          Wide<T>(d_out[o]) * (Wide<T>(1) / static_cast<Wide<T>>(count));
      taps([&](int64_t i) { d_in[i] = T(Wide<T>(d_in[i]) + share); });
    });
  });
}

#define SLUICE_POOL_MAX(T)                                                   \
  template void MaxPool<T>(const PoolGeometry&, const T*, T*);               \
  template void MaxPoolWithArgmax<T, int32_t>(const PoolGeometry&, bool,     \
                                              const T*, T*, int32_t*);       \
  template void MaxPoolWithArgmax<T, int64_t>(const PoolGeometry&, bool,     \
                                              const T*, T*, int64_t*);       \
  template void MaxPoolGrad<T>(const PoolGeometry&, const T*, const T*, T*); \
  template void MaxPoolGradGrad<T>(const PoolGeometry&, const T*, const T*, T*);
#define SLUICE_POOL(T)                                                       \
  SLUICE_POOL_MAX(T)                                                         \
  template void MaxPoolGradToAll<T>(const PoolGeometry&, const T*, const T*, \
                                    const T*, T*);                           \
  template void AvgPool<T>(const PoolGeometry&, const T*, T*);               \
  template void AvgPoolGrad<T>(const PoolGeometry&, const T*, T*);
SLUICE_POOL(float)
SLUICE_POOL(double)
SLUICE_POOL(half)
SLUICE_POOL(bfloat16)
SLUICE_POOL_MAX(int8_t)
SLUICE_POOL_MAX(int16_t)
SLUICE_POOL_MAX(int32_t)
SLUICE_POOL_MAX(int64_t)
SLUICE_POOL_MAX(uint8_t)
SLUICE_POOL_MAX(uint16_t)
SLUICE_POOL_MAX(uint32_t)
SLUICE_POOL_MAX(uint64_t)
#undef SLUICE_POOL
#undef SLUICE_POOL_MAX

}  // namespace sluice::dnn
