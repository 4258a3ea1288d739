// Pooling of images and volumes and its gradients, with TensorFlow's semantics.
// Each call may use up to IntraOpThreads() threads.
#ifndef SLUICE_KERNELS_DNN_POOL_H_
#define SLUICE_KERNELS_DNN_POOL_H_

#include <cstdint>

#include "base/status.h"
#include "kernels/dnn/window.h"

namespace sluice::dnn {

struct PoolGeometry {
  Layout layout = Layout::kNhwc;
  int64_t batch = 0;
  int64_t channels = 0;
  WindowDim h, w;  // Dilations must be 1.
  WindowDim d = kNoDepth;

  int64_t in_pixels() const { return d.in * h.in * w.in; }
  int64_t out_pixels() const { return d.out() * h.out() * w.out(); }
  int64_t in_size() const { return batch * channels * in_pixels(); }
  int64_t out_size() const { return batch * channels * out_pixels(); }
  bool operator==(const PoolGeometry&) const = default;
};

// Checks that extents and paddings are not negative, that strides and windows
// are positive, that dilations are 1, and that paddings are smaller than the
// window (so that no window lies in padding alone).
Status Validate(const PoolGeometry& shape);

// REQUIRES of all below: Validate(shape).ok().

// T: float, double, half, bfloat16, int8/16/32/64, uint8/16/32/64. The largest
// element of the window that is greater than the type's lowest value: NaN is
// never chosen, and a window of only NaN or -inf gives the lowest finite value.
template <typename T>
void MaxPool(const PoolGeometry& shape, const T* in, T* out);

// T: as for MaxPool. The whole gradient of an output goes to the first largest
// element of its window (plane by plane, row by row); overlapping windows add
// up. For double and half, a NaN that comes first in the window receives it;
// for float and bfloat16 a NaN never does, unless nothing in the window is
// comparable.
template <typename T>
void MaxPoolGrad(const PoolGeometry& shape, const T* in, const T* d_out,
                 T* d_in);

// T: float, double, half, bfloat16. TensorFlow's rule for volumes: every
// element of a window within 1e-5 of its largest value, `out`, gets the whole
// gradient.
template <typename T>
void MaxPoolGradToAll(const PoolGeometry& shape, const T* in, const T* out,
                      const T* d_out, T* d_in);

// The product for the second derivative: out[o] = dd_in at the first largest
// element of o's window; also for volumes.
template <typename T>
void MaxPoolGradGrad(const PoolGeometry& shape, const T* in, const T* dd_in,
                     T* out);

// NHWC only. argmax (int32 or int64) is the flattened index of the first
// largest element, within its image or, with include_batch, within the whole
// batch. Unlike in MaxPool, a NaN that comes first in the window is chosen, and
// so is -inf.
template <typename T, typename Index>
void MaxPoolWithArgmax(const PoolGeometry& shape, bool include_batch,
                       const T* in, T* out, Index* argmax);

// T: float, double, half, bfloat16. The mean over the elements of the window
// that are not padding.
template <typename T>
void AvgPool(const PoolGeometry& shape, const T* in, T* out);
template <typename T>
void AvgPoolGrad(const PoolGeometry& shape, const T* d_out, T* d_in);

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_POOL_H_
