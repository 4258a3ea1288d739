#include "kernels/dnn/pool_simd.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dnn/pool_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/simd/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::dnn {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The pixels of one output's window, as element offsets into an image.
struct Taps {
  int64_t start;  // The first pixel.
  int64_t planes, rows, columns;
  int64_t plane_step, row_step, column_step;
  int64_t count() const { return planes * rows * columns; }
  // Calls fn(tap, offset from the start) for each in order.
  template <class Fn>
  HWY_INLINE void ForEach(Fn fn) const {
    int64_t tap = 0;
    for (int64_t z = 0; z < planes; ++z) {
      for (int64_t y = 0; y < rows; ++y) {
        const int64_t row = z * plane_step + y * row_step;
        for (int64_t x = 0; x < columns; ++x, ++tap)
          fn(tap, row + x * column_step);
      }
    }
  }
};

// Calls fn(output offset, taps) for each output pixel of the part, row by row.
// Offsets are those of the part's first channel.
template <class Fn>
HWY_INLINE void ForEachWindow(const PoolGeometry& s, const PoolPart& part,
                              Fn fn) {
  const int64_t c = s.channels, oh = s.h.out(), ow = s.w.out();
  const int64_t image = part.n * s.in_pixels() * c + part.first;
  int64_t out = part.n * s.out_pixels() * c + part.first;
  for (int64_t r = 0; r < s.d.out() * oh; ++r) {
    const int64_t z = r / oh, y = r % oh;
    const int64_t z0 = s.d.first_tap(z), z1 = s.d.last_tap(z);
    const int64_t y0 = s.h.first_tap(y), y1 = s.h.last_tap(y);
    const int64_t iz = s.d.start(z) + z0;
    for (int64_t x = 0; x < ow; ++x, out += c) {
      const int64_t x0 = s.w.first_tap(x), x1 = s.w.last_tap(x);
      const int64_t iy = s.h.start(y) + y0, ix = s.w.start(x) + x0;
      fn(out, Taps{image + ((iz * s.h.in + iy) * s.w.in + ix) * c, z1 - z0,
                   y1 - y0, x1 - x0, s.h.in * s.w.in * c, s.w.in * c, c});
    }
  }
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void ClearPart(D d, const PoolGeometry& s, const PoolPart& part,
                          T* image) {
  const int64_t pixels = s.in_pixels(), width = part.last - part.first;
  T* at = image + part.n * pixels * s.channels + part.first;
  (void)d;
  if (width == s.channels) {
    std::fill(at, at + pixels * width, T(0));
    return;
  }
  for (int64_t p = 0; p < pixels; ++p, at += s.channels)
    std::fill(at, at + width, T(0));
}

template <typename T>
void MaxPool(const PoolGeometry& s, const PoolPart& part, const T* in, T* out) {
  const hn::ScalableTag<T> d;
  const int64_t width = part.last - part.first;
  ForEachWindow(s, part, [&](int64_t o, const Taps& taps) HWY_ATTR {
    simd::HWY_NAMESPACE::ForVectors(
        d, width, [&](int64_t c, auto load, auto store) HWY_ATTR {
          auto best = hn::Set(d, std::numeric_limits<T>::lowest());
          const T* from = in + taps.start + c;
          taps.ForEach([&](int64_t, int64_t at) HWY_ATTR {
            const auto v = load(from + at);
            best = hn::IfThenElse(hn::Lt(best, v), v, best);
          });
          store(best, out + o + c);
        });
  });
}

// The largest bytes of a window, with as many channels at a time as `d` has
// lanes, starting at channel c; returns the first remaining channel.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE int64_t MaxOfBytes(D d, const Taps& taps, const T* from, T* to,
                              int64_t c, int64_t width) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; c + lanes <= width; c += lanes) {
    auto best = hn::Set(d, std::numeric_limits<T>::lowest());
    taps.ForEach([&](int64_t, int64_t at) HWY_ATTR {
      best = hn::Max(best, hn::LoadU(d, from + at + c));
    });
    hn::StoreU(best, d, to + c);
  }
  return c;
}

// (Byte masks would read past the end.)
template <typename T>
void MaxPoolBytes(const PoolGeometry& s, const PoolPart& part, const T* in,
                  T* out) {
  const int64_t width = part.last - part.first;
  ForEachWindow(s, part, [&](int64_t o, const Taps& taps) HWY_ATTR {
    const T* from = in + taps.start;
    T* to = out + o;
    int64_t c = MaxOfBytes(hn::ScalableTag<T>(), taps, from, to, 0, width);
    c = MaxOfBytes(hn::FixedTag<T, 16>(), taps, from, to, c, width);
    for (; c < width; ++c) {
      T best = std::numeric_limits<T>::lowest();
      taps.ForEach(
          [&](int64_t, int64_t at) { best = std::max(best, from[at + c]); });
      to[c] = best;
    }
  });
}

template <typename T>
void MaxPoolGrad(const PoolGeometry& s, const PoolPart& part, const T* in,
                 const T* d_out, T* d_in) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using I = hn::TFromD<decltype(di)>;
  const int64_t width = part.last - part.first;
  ClearPart(d, s, part, d_in);
  ForEachWindow(s, part, [&](int64_t o, const Taps& taps) HWY_ATTR {
    if (taps.count() == 0) return;
    simd::HWY_NAMESPACE::ForVectors(
        d, width, [&](int64_t c, auto load, auto store) HWY_ATTR {
          const T* from = in + taps.start + c;
          // See the rule in pool.h for a NaN that comes first.
          auto best = std::is_same_v<T, float>
                          ? hn::Set(d, std::numeric_limits<T>::lowest())
                          : load(from);
          auto where = hn::Zero(di);
          taps.ForEach([&](int64_t tap, int64_t at) HWY_ATTR {
            const auto v = load(from + at);
            const auto more = hn::Lt(best, v);
            best = hn::IfThenElse(more, v, best);
            where = hn::IfThenElse(hn::RebindMask(di, more),
                                   hn::Set(di, static_cast<I>(tap)), where);
          });
          const auto g = load(d_out + o + c);
          T* to = d_in + taps.start + c;
          taps.ForEach([&](int64_t tap, int64_t at) HWY_ATTR {
            const auto mine = hn::RebindMask(
                d, hn::Eq(where, hn::Set(di, static_cast<I>(tap))));
            store(hn::Add(load(to + at), hn::IfThenElseZero(mine, g)), to + at);
          });
        });
  });
}

template <typename T>
void AvgPool(const PoolGeometry& s, const PoolPart& part, const T* in, T* out) {
  const hn::ScalableTag<T> d;
  const int64_t width = part.last - part.first;
  ForEachWindow(s, part, [&](int64_t o, const Taps& taps) HWY_ATTR {
    const auto count = hn::Set(d, static_cast<T>(taps.count()));
    simd::HWY_NAMESPACE::ForVectors(
        d, width, [&](int64_t c, auto load, auto store) HWY_ATTR {
          auto sum = hn::Zero(d);
          const T* from = in + taps.start + c;
          taps.ForEach([&](int64_t, int64_t at)
                           HWY_ATTR { sum = hn::Add(sum, load(from + at)); });
          store(hn::Div(sum, count), out + o + c);
        });
  });
}

template <typename T>
void AvgPoolGrad(const PoolGeometry& s, const PoolPart& part, const T* d_out,
                 T* d_in) {
  const hn::ScalableTag<T> d;
  const int64_t width = part.last - part.first;
  ClearPart(d, s, part, d_in);
  ForEachWindow(s, part, [&](int64_t o, const Taps& taps) HWY_ATTR {
    if (taps.count() == 0) return;
    const auto share = hn::Set(d, T(1) / static_cast<T>(taps.count()));
    simd::HWY_NAMESPACE::ForVectors(
        d, width, [&](int64_t c, auto load, auto store) HWY_ATTR {
          const auto g = hn::Mul(load(d_out + o + c), share);
          T* to = d_in + taps.start + c;
          taps.ForEach([&](int64_t, int64_t at) HWY_ATTR {
            store(hn::Add(load(to + at), g), to + at);
          });
        });
  });
}

// One function per type: HWY_EXPORT takes no templates.
#define SLUICE_POOL_TYPE(T, Name)                                           \
  void MaxPool##Name(const PoolGeometry& s, const PoolPart& p, const T* in, \
                     T* out) {                                              \
    MaxPool(s, p, in, out);                                                 \
  }                                                                         \
  void MaxPoolGrad##Name(const PoolGeometry& s, const PoolPart& p,          \
                         const T* in, const T* d_out, T* d_in) {            \
    MaxPoolGrad(s, p, in, d_out, d_in);                                     \
  }                                                                         \
  void AvgPool##Name(const PoolGeometry& s, const PoolPart& p, const T* in, \
                     T* out) {                                              \
    AvgPool(s, p, in, out);                                                 \
  }                                                                         \
  void AvgPoolGrad##Name(const PoolGeometry& s, const PoolPart& p,          \
                         const T* d_out, T* d_in) {                         \
    AvgPoolGrad(s, p, d_out, d_in);                                         \
  }
SLUICE_POOL_TYPE(float, Float)
SLUICE_POOL_TYPE(double, Double)
#undef SLUICE_POOL_TYPE

void MaxPoolUint8(const PoolGeometry& s, const PoolPart& p, const uint8_t* in,
                  uint8_t* out) {
  MaxPoolBytes(s, p, in, out);
}
void MaxPoolInt8(const PoolGeometry& s, const PoolPart& p, const int8_t* in,
                 int8_t* out) {
  MaxPoolBytes(s, p, in, out);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice::dnn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::dnn {

#define SLUICE_POOL_TYPE(T, Name)                                            \
  HWY_EXPORT(MaxPool##Name);                                                 \
  HWY_EXPORT(MaxPoolGrad##Name);                                             \
  HWY_EXPORT(AvgPool##Name);                                                 \
  HWY_EXPORT(AvgPoolGrad##Name);                                             \
  template <>                                                                \
  void MaxPoolPart<T>(const PoolGeometry& s, const PoolPart& p, const T* in, \
                      T* out) {                                              \
    HWY_DYNAMIC_DISPATCH(MaxPool##Name)(s, p, in, out);                      \
  }                                                                          \
  template <>                                                                \
  void MaxPoolGradPart<T>(const PoolGeometry& s, const PoolPart& p,          \
                          const T* in, const T* d_out, T* d_in) {            \
    HWY_DYNAMIC_DISPATCH(MaxPoolGrad##Name)(s, p, in, d_out, d_in);          \
  }                                                                          \
  template <>                                                                \
  void AvgPoolPart<T>(const PoolGeometry& s, const PoolPart& p, const T* in, \
                      T* out) {                                              \
    HWY_DYNAMIC_DISPATCH(AvgPool##Name)(s, p, in, out);                      \
  }                                                                          \
  template <>                                                                \
  void AvgPoolGradPart<T>(const PoolGeometry& s, const PoolPart& p,          \
                          const T* d_out, T* d_in) {                         \
    HWY_DYNAMIC_DISPATCH(AvgPoolGrad##Name)(s, p, d_out, d_in);              \
  }
SLUICE_POOL_TYPE(float, Float)
SLUICE_POOL_TYPE(double, Double)
#undef SLUICE_POOL_TYPE

HWY_EXPORT(MaxPoolUint8);
HWY_EXPORT(MaxPoolInt8);
template <>
void MaxPoolPart<uint8_t>(const PoolGeometry& s, const PoolPart& p,
                          const uint8_t* in, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(MaxPoolUint8)(s, p, in, out);
}
template <>
void MaxPoolPart<int8_t>(const PoolGeometry& s, const PoolPart& p,
                         const int8_t* in, int8_t* out) {
  HWY_DYNAMIC_DISPATCH(MaxPoolInt8)(s, p, in, out);
}

}  // namespace sluice::dnn
#endif  // HWY_ONCE
