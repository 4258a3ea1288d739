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
  const int64_t at = t * d.dilation - d.pad_before;  // Read by position 0.
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

// A sum of nothing, and the epilogue.
template <typename T>
void FillEmpty(const Conv2dShape& s, ConvEpilogue epilogue, T* out,
               const T* bias) {
  std::fill(out, out + s.out_size(), T());
  const int64_t pixels = s.h.out() * s.w.out();
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
void PlainForward(const Conv2dShape& s, ConvEpilogue epilogue, const T* in,
                  const T* filter, T* out, const T* bias) {
  const int64_t oh = s.h.out(), ow = s.w.out();
  if (s.in_size() == 0 || s.filter_size() == 0) {
    FillEmpty(s, epilogue, out, bias);
    return;
  }
  if (s.layout == Layout::kNchw) {
    Conv2dShape nhwc = s;
    nhwc.layout = Layout::kNhwc;
    const auto x = ToNhwc(in, s.batch, s.in_channels, s.h.in * s.w.in);
    auto y =
        std::make_unique_for_overwrite<T[]>(static_cast<size_t>(s.out_size()));
    PlainForward(nhwc, epilogue, x.get(), filter, y.get(), bias);
    ToNchw(y.get(), s.batch, s.out_channels, oh * ow, out);
    return;
  }
  const int64_t groups = s.groups(), ic = s.filter_in_channels;
  const int64_t oc = s.out_channels / groups;
  ParallelFor(s.batch * oh, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t n = r / oh, oy = r % oh;
      T* out_row = out + r * ow * s.out_channels;
      std::fill(out_row, out_row + ow * s.out_channels, T());
      for (int64_t ky = s.h.first_tap(oy); ky < s.h.last_tap(oy); ++ky) {
        const int64_t iy = s.h.start(oy) + ky * s.h.dilation;
        const T* in_row = in + (n * s.h.in + iy) * s.w.in * s.in_channels;
        for (int64_t kx = 0; kx < s.w.window; ++kx) {
          const Range x = Covered(s.w, kx);
          if (x.first >= x.last) continue;
          const int64_t ix = s.w.start(x.first) + kx * s.w.dilation;
          const T* tap = filter + (ky * s.w.window + kx) * ic * s.out_channels;
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
void PlainBackwardData(const Conv2dShape& s, const T* filter, const T* d_out,
                       T* d_in) {
  const int64_t oh = s.h.out(), ow = s.w.out();
  if (s.in_size() == 0 || s.out_size() == 0 || s.filter_size() == 0) {
    std::fill(d_in, d_in + s.in_size(), T());
    return;
  }
  if (s.layout == Layout::kNchw) {
    Conv2dShape nhwc = s;
    nhwc.layout = Layout::kNhwc;
    const auto y = ToNhwc(d_out, s.batch, s.out_channels, oh * ow);
    auto x =
        std::make_unique_for_overwrite<T[]>(static_cast<size_t>(s.in_size()));
    PlainBackwardData(nhwc, filter, y.get(), x.get());
    ToNchw(x.get(), s.batch, s.in_channels, s.h.in * s.w.in, d_in);
    return;
  }
  const int64_t groups = s.groups(), ic = s.filter_in_channels;
  const int64_t oc = s.out_channels / groups;
  ParallelFor(s.batch * s.h.in, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t n = r / s.h.in, iy = r % s.h.in;
      T* in_row = d_in + r * s.w.in * s.in_channels;
      std::fill(in_row, in_row + s.w.in * s.in_channels, T());
      for (int64_t ky = 0; ky < s.h.window; ++ky) {
        const int64_t oy = ReaderOf(s.h, iy, ky);
        if (oy < 0) continue;
        const T* out_row = d_out + (n * oh + oy) * ow * s.out_channels;
        for (int64_t kx = 0; kx < s.w.window; ++kx) {
          const Range x = Covered(s.w, kx);
          if (x.first >= x.last) continue;
          const int64_t ix = s.w.start(x.first) + kx * s.w.dilation;
          const T* tap = filter + (ky * s.w.window + kx) * ic * s.out_channels;
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
void PlainBackwardFilter(const Conv2dShape& s, const T* in, const T* d_out,
                         T* d_filter) {
  const int64_t oh = s.h.out(), ow = s.w.out();
  if (s.in_size() == 0 || s.out_size() == 0) {
    std::fill(d_filter, d_filter + s.filter_size(), T());
    return;
  }
  if (s.layout == Layout::kNchw) {
    Conv2dShape nhwc = s;
    nhwc.layout = Layout::kNhwc;
    const auto x = ToNhwc(in, s.batch, s.in_channels, s.h.in * s.w.in);
    const auto y = ToNhwc(d_out, s.batch, s.out_channels, oh * ow);
    PlainBackwardFilter(nhwc, x.get(), y.get(), d_filter);
    return;
  }
  const int64_t groups = s.groups(), ic = s.filter_in_channels;
  const int64_t oc = s.out_channels / groups;
  ParallelFor(s.h.window * s.w.window, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t ky = t / s.w.window, kx = t % s.w.window;
      T* tap = d_filter + t * ic * s.out_channels;
      std::fill(tap, tap + ic * s.out_channels, T());
      const Range y = Covered(s.h, ky), x = Covered(s.w, kx);
      if (x.first >= x.last || ic == 0) continue;
      const int64_t ix = s.w.start(x.first) + kx * s.w.dilation;
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t oy = y.first; oy < y.last; ++oy) {
          const int64_t iy = s.h.start(oy) + ky * s.h.dilation;
          const T* from =
              in + ((n * s.h.in + iy) * s.w.in + ix) * s.in_channels;
          const T* d_row =
              d_out + ((n * oh + oy) * ow + x.first) * s.out_channels;
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

#define SLUICE_PLAIN(T)                                                        \
  template void PlainForward<T>(const Conv2dShape&, ConvEpilogue, const T*,    \
                                const T*, T*, const T*);                       \
  template void PlainBackwardData<T>(const Conv2dShape&, const T*, const T*,   \
                                     T*);                                      \
  template void PlainBackwardFilter<T>(const Conv2dShape&, const T*, const T*, \
                                       T*);
SLUICE_PLAIN(float)
SLUICE_PLAIN(double)
SLUICE_PLAIN(int32_t)
#undef SLUICE_PLAIN

}  // namespace sluice::dnn
