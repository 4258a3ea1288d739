#include "kernels/dnn/conv_plain.h"

#include <algorithm>
#include <memory>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/dnn/gemm_simd.h"

namespace sluice::dnn {
namespace {

// The product's element type: int32 is computed as uint32, which wraps.
template <typename T>
using Lane = std::conditional_t<std::is_integral_v<T>, uint32_t, T>;
template <typename T>
const Lane<T>* In(const T* p) {
  return reinterpret_cast<const Lane<T>*>(p);
}
template <typename T>
Lane<T>* Out(T* p) {
  return reinterpret_cast<Lane<T>*>(p);
}

template <typename L>
void Accumulate(int64_t m, int64_t n, int64_t k, MatrixView<L> a,
                MatrixView<L> b, L* c, int64_t ldc) {
  if (k * n <= kTinyFactor) {
    GemmTiny<L>(m, n, k, a, b, c, ldc, true);
  } else {
    GemmBlocked<L>(m, n, k, a, b, c, ldc, true);
  }
}

// [batch, channels, pixels] to [batch, pixels, channels].
template <typename T>
std::unique_ptr<T[]> ToNhwc(const T* from, int64_t batch, int64_t channels,
                            int64_t pixels) {
  auto to = std::make_unique_for_overwrite<T[]>(
      static_cast<size_t>(batch * channels * pixels));
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < pixels; ++p)
        to[(n * pixels + p) * channels + c] =
            from[(n * channels + c) * pixels + p];
  return to;
}
template <typename T>
void ToNchw(const T* from, int64_t batch, int64_t channels, int64_t pixels,
            T* to) {
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < pixels; ++p)
        to[(n * channels + c) * pixels + p] =
            from[(n * pixels + p) * channels + c];
}

// Output positions [first, last) for which tap t reads inside the input.
struct Range {
  int64_t first, last;
};
Range Covered(const WindowDim& d, int64_t t) {
  const int64_t at = t * d.dilation - d.pad_before;  // Input of position 0.
  const int64_t first = at >= 0 ? 0 : (-at + d.stride - 1) / d.stride;
  const int64_t room = d.in - 1 - at;
  const int64_t last = room < 0 ? 0 : room / d.stride + 1;
  return {first, std::min(d.out(), last)};
}

// Output position at which tap t reads input position i, or -1.
int64_t ReaderOf(const WindowDim& d, int64_t i, int64_t t) {
  const int64_t x = i + d.pad_before - t * d.dilation;
  if (x < 0 || x % d.stride != 0) return -1;
  const int64_t o = x / d.stride;
  return o < d.out() ? o : -1;
}

// The filter rows, over its depth and height, that the output row (oz, oy)
// reads inside the input.
class TapRows {
 public:
  TapRows(const ConvGeometry& s, int64_t oz, int64_t oy)
      : s_(s),
        first_z_(s.d.first_tap(oz)),
        first_y_(s.h.first_tap(oy)),
        rows_(std::max<int64_t>(0, s.h.last_tap(oy) - first_y_)),
        planes_(std::max<int64_t>(0, s.d.last_tap(oz) - first_z_)),
        in_z_(s.d.start(oz)),
        in_y_(s.h.start(oy)) {}

  int64_t count() const { return planes_ * rows_; }
  struct Row {
    int64_t tap;  // Among the filter's d.window * h.window rows.
    int64_t in;   // Among the d.in * h.in rows of one batch element.
  };
  Row at(int64_t k) const {
    const int64_t kz = first_z_ + k / rows_, ky = first_y_ + k % rows_;
    return {kz * s_.h.window + ky, (in_z_ + kz * s_.d.dilation) * s_.h.in +
                                       in_y_ + ky * s_.h.dilation};
  }

 private:
  const ConvGeometry& s_;
  const int64_t first_z_, first_y_, rows_, planes_, in_z_, in_y_;
};

template <typename T>
void AddBiasAndRelu(ConvEpilogue epilogue, int64_t pixels, int64_t channels,
                    const T* bias, T* out) {
  if (!epilogue.bias && !epilogue.relu) return;
  for (int64_t p = 0; p < pixels; ++p, out += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      T v = out[c];
      if (epilogue.bias) {
        *Out(&v) += *In(&bias[c]);
      }
      out[c] = epilogue.relu && v < T() ? T() : v;
    }
  }
}

// An empty sum, followed by the epilogue.
template <typename T>
void FillEmpty(const ConvGeometry& s, ConvEpilogue epilogue, T* out,
               const T* bias) {
  std::fill(out, out + s.out_size(), T());
  const int64_t pixels = s.out_pixels();
  if (s.layout == Layout::kNhwc) {
    AddBiasAndRelu(epilogue, s.batch * pixels, s.out_channels, bias, out);
  } else if (epilogue.bias) {
    for (int64_t i = 0; i < s.batch * s.out_channels; ++i) {
      const T b = bias[i % s.out_channels];
      std::fill(out + i * pixels, out + (i + 1) * pixels,
                epilogue.relu && b < T() ? T() : b);
    }
  }
}

}  // namespace

template <typename T>
void PlainForward(const ConvGeometry& s, ConvEpilogue epilogue, const T* in,
                  const T* filter, T* out, const T* bias) {
  const int64_t od = s.d.out(), oh = s.h.out(), ow = s.w.out();
  if (s.in_size() == 0 || s.filter_size() == 0) {
    FillEmpty(s, epilogue, out, bias);
    return;
  }
  if (s.layout == Layout::kNchw) {
    ConvGeometry nhwc = s;
    nhwc.layout = Layout::kNhwc;
    const auto x = ToNhwc(in, s.batch, s.in_channels, s.in_pixels());
    auto y =
        std::make_unique_for_overwrite<T[]>(static_cast<size_t>(s.out_size()));
    PlainForward(nhwc, epilogue, x.get(), filter, y.get(), bias);
    ToNchw(y.get(), s.batch, s.out_channels, s.out_pixels(), out);
    return;
  }
  const int64_t groups = s.groups(), ic = s.filter_in_channels;
  const int64_t oc = s.out_channels / groups;
  ParallelFor(s.batch * od * oh, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t n = r / (od * oh), oz = r / oh % od, oy = r % oh;
      T* out_row = out + r * ow * s.out_channels;
      std::fill(out_row, out_row + ow * s.out_channels, T());
      const TapRows rows(s, oz, oy);
      for (int64_t k = 0; k < rows.count(); ++k) {
        const TapRows::Row row = rows.at(k);
        const T* in_row =
            in + (n * s.d.in * s.h.in + row.in) * s.w.in * s.in_channels;
        for (int64_t kx = 0; kx < s.w.window; ++kx) {
          const Range x = Covered(s.w, kx);
          if (x.first >= x.last) continue;
          const int64_t ix = s.w.start(x.first) + kx * s.w.dilation;
          const T* tap =
              filter + (row.tap * s.w.window + kx) * ic * s.out_channels;
          for (int64_t g = 0; g < groups; ++g) {
            Accumulate<Lane<T>>(
                x.last - x.first, oc, ic,
                {In(in_row + ix * s.in_channels + g * ic),
                 s.w.stride * s.in_channels, 1},
                {In(tap + g * oc), s.out_channels, 1},
                Out(out_row + x.first * s.out_channels + g * oc),
                s.out_channels);
          }
        }
      }
      AddBiasAndRelu(epilogue, ow, s.out_channels, bias, out_row);
    }
  });
}

template <typename T>
void PlainBackwardData(const ConvGeometry& s, const T* filter, const T* d_out,
                       T* d_in) {
  const int64_t od = s.d.out(), oh = s.h.out(), ow = s.w.out();
  if (s.in_size() == 0 || s.out_size() == 0 || s.filter_size() == 0) {
    std::fill(d_in, d_in + s.in_size(), T());
    return;
  }
  if (s.layout == Layout::kNchw) {
    ConvGeometry nhwc = s;
    nhwc.layout = Layout::kNhwc;
    const auto y = ToNhwc(d_out, s.batch, s.out_channels, s.out_pixels());
    auto x =
        std::make_unique_for_overwrite<T[]>(static_cast<size_t>(s.in_size()));
    PlainBackwardData(nhwc, filter, y.get(), x.get());
    ToNchw(x.get(), s.batch, s.in_channels, s.in_pixels(), d_in);
    return;
  }
  const int64_t groups = s.groups(), ic = s.filter_in_channels;
  const int64_t oc = s.out_channels / groups;
  const int64_t in_rows = s.d.in * s.h.in;
  ParallelFor(s.batch * in_rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t n = r / in_rows, iz = r / s.h.in % s.d.in, iy = r % s.h.in;
      T* in_row = d_in + r * s.w.in * s.in_channels;
      std::fill(in_row, in_row + s.w.in * s.in_channels, T());
      for (int64_t k = 0; k < s.d.window * s.h.window; ++k) {
        const int64_t oz = ReaderOf(s.d, iz, k / s.h.window);
        const int64_t oy = ReaderOf(s.h, iy, k % s.h.window);
        if (oz < 0 || oy < 0) continue;
        const T* out_row =
            d_out + ((n * od + oz) * oh + oy) * ow * s.out_channels;
        for (int64_t kx = 0; kx < s.w.window; ++kx) {
          const Range x = Covered(s.w, kx);
          if (x.first >= x.last) continue;
          const int64_t ix = s.w.start(x.first) + kx * s.w.dilation;
          const T* tap = filter + (k * s.w.window + kx) * ic * s.out_channels;
          for (int64_t g = 0; g < groups; ++g) {
            Accumulate<Lane<T>>(
                x.last - x.first, ic, oc,
                {In(out_row + x.first * s.out_channels + g * oc),
                 s.out_channels, 1},
                {In(tap + g * oc), 1, s.out_channels},
                Out(in_row + ix * s.in_channels + g * ic),
                s.w.stride * s.in_channels);
          }
        }
      }
    }
  });
}

template <typename T>
void PlainBackwardFilter(const ConvGeometry& s, const T* in, const T* d_out,
                         T* d_filter) {
  const int64_t od = s.d.out(), oh = s.h.out(), ow = s.w.out();
  if (s.in_size() == 0 || s.out_size() == 0) {
    std::fill(d_filter, d_filter + s.filter_size(), T());
    return;
  }
  if (s.layout == Layout::kNchw) {
    ConvGeometry nhwc = s;
    nhwc.layout = Layout::kNhwc;
    const auto x = ToNhwc(in, s.batch, s.in_channels, s.in_pixels());
    const auto y = ToNhwc(d_out, s.batch, s.out_channels, s.out_pixels());
    PlainBackwardFilter(nhwc, x.get(), y.get(), d_filter);
    return;
  }
  const int64_t groups = s.groups(), ic = s.filter_in_channels;
  const int64_t oc = s.out_channels / groups;
  ParallelFor(s.taps(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t kx = t % s.w.window, ky = t / s.w.window % s.h.window;
      const int64_t kz = t / (s.w.window * s.h.window);
      T* tap = d_filter + t * ic * s.out_channels;
      std::fill(tap, tap + ic * s.out_channels, T());
      const Range z = Covered(s.d, kz), y = Covered(s.h, ky);
      const Range x = Covered(s.w, kx);
      const int64_t rows = y.last - y.first;
      if (z.first >= z.last || rows <= 0 || x.first >= x.last || ic == 0)
        continue;
      const int64_t ix = s.w.start(x.first) + kx * s.w.dilation;
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t r = 0; r < (z.last - z.first) * rows; ++r) {
          const int64_t oz = z.first + r / rows, oy = y.first + r % rows;
          const int64_t iz = s.d.start(oz) + kz * s.d.dilation;
          const int64_t iy = s.h.start(oy) + ky * s.h.dilation;
          const T* from =
              in +
              (((n * s.d.in + iz) * s.h.in + iy) * s.w.in + ix) * s.in_channels;
          const T* d_row = d_out + (((n * od + oz) * oh + oy) * ow + x.first) *
                                       s.out_channels;
          for (int64_t g = 0; g < groups; ++g) {
            Accumulate<Lane<T>>(
                ic, oc, x.last - x.first,
                {In(from + g * ic), 1, s.w.stride * s.in_channels},
                {In(d_row + g * oc), s.out_channels, 1}, Out(tap + g * oc),
                s.out_channels);
          }
        }
      }
    }
  });
}

#define SLUICE_PLAIN(T)                                                       \
  template void PlainForward<T>(const ConvGeometry&, ConvEpilogue, const T*,  \
                                const T*, T*, const T*);                      \
  template void PlainBackwardData<T>(const ConvGeometry&, const T*, const T*, \
                                     T*);                                     \
  template void PlainBackwardFilter<T>(const ConvGeometry&, const T*,         \
                                       const T*, T*);
SLUICE_PLAIN(float)
SLUICE_PLAIN(double)
SLUICE_PLAIN(int32_t)
#undef SLUICE_PLAIN

}  // namespace sluice::dnn
