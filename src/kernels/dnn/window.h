// The geometry that convolution and pooling share: a window sliding over the
// spatial dimensions of a batch of images, or of volumes.
#ifndef SLUICE_KERNELS_DNN_WINDOW_H_
#define SLUICE_KERNELS_DNN_WINDOW_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace sluice::dnn {

// Channels last or first; volumes, NDHWC and NCDHW, have a depth before the
// height.
enum class Layout : uint8_t { kNhwc, kNchw };

// One spatial dimension. Padding is explicit and may be asymmetric; SAME and
// VALID are resolved by the caller (ResolveSame below).
struct WindowDim {
  int64_t in = 0;
  int64_t window = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_before = 0;
  int64_t pad_after = 0;

  int64_t span() const { return (window - 1) * dilation + 1; }
  // Extent of the output; 0 where the window does not fit once.
  int64_t out() const {
    const int64_t room = in + pad_before + pad_after - span();
    return room < 0 ? 0 : room / stride + 1;
  }
  // Taps [first, last) of output position o that fall inside the input; tap t
  // reads input position start(o) + t * dilation.
  int64_t start(int64_t o) const { return o * stride - pad_before; }
  int64_t first_tap(int64_t o) const {
    const int64_t s = start(o);
    return s >= 0 ? 0 : std::min(window, (-s + dilation - 1) / dilation);
  }
  int64_t last_tap(int64_t o) const {
    const int64_t left = in - start(o);
    return left <= 0 ? 0 : std::min(window, (left + dilation - 1) / dilation);
  }

  bool operator==(const WindowDim&) const = default;
};

// Whether nothing is read, or nothing written, along one of the dimensions. (If
// one extent is zero, the product of the others may exceed 2^63.)
inline bool AnyEmpty(std::initializer_list<WindowDim> dims) {
  return std::any_of(dims.begin(), dims.end(), [](const WindowDim& d) {
    return d.in == 0 || d.window == 0 || d.out() == 0;
  });
}

// The depth of images: one, with a window of one.
inline constexpr WindowDim kNoDepth = {.in = 1};

// TensorFlow's SAME: out = ceil(in / stride), the odd pad goes after.
inline void ResolveSame(WindowDim* d) {
  const int64_t out = (d->in + d->stride - 1) / d->stride;
  const int64_t pad =
      std::max<int64_t>(0, (out - 1) * d->stride + d->span() - d->in);
  d->pad_before = pad / 2;
  d->pad_after = pad - pad / 2;
}

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_WINDOW_H_
