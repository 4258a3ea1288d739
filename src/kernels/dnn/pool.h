// Two-dimensional pooling and its gradients, with TensorFlow's rules. Each call
// may use up to IntraOpThreads() threads.
#ifndef SLUICE_KERNELS_DNN_POOL_H_
#define SLUICE_KERNELS_DNN_POOL_H_

#include <cstdint>

#include "base/status.h"
#include "kernels/dnn/window.h"

namespace sluice::dnn {

struct Pool2dShape {
  Layout layout = Layout::kNhwc;
  int64_t batch = 0;
  int64_t channels = 0;
  WindowDim h, w;  // Dilation must be 1.

  int64_t in_size() const { return batch * channels * h.in * w.in; }
  int64_t out_size() const { return batch * channels * h.out() * w.out(); }
  bool operator==(const Pool2dShape&) const = default;
};

// Extents and paddings not negative, strides and windows positive, dilation 1,
// paddings smaller than the window (so that no window lies in padding alone).
Status Validate(const Pool2dShape& shape);

// REQUIRES of all below: Validate(shape).ok().

// T: float, double, half, bfloat16, int8/16/32/64, uint8/16/32/64. The largest
// element of the window that is greater than the type's lowest value: NaN
// never wins, and a window of NaN or -inf alone gives the lowest finite value.
template <typename T>
void MaxPool(const Pool2dShape& shape, const T* in, T* out);

// T: as of MaxPool. All of an output's gradient goes to the first largest
// element of its window (row by row); overlapping windows add. A NaN that comes
// first in the window takes it for double and half; for float and bfloat16 NaN
// never does, unless nothing in the window is comparable.
template <typename T>
void MaxPoolGrad(const Pool2dShape& shape, const T* in, const T* d_out,
                 T* d_in);

// The second derivative's product: out[o] = dd_in at the element that
// MaxPoolGrad sends output o's gradient to.
template <typename T>
void MaxPoolGradGrad(const Pool2dShape& shape, const T* in, const T* dd_in,
                     T* out);

// NHWC only. argmax (int32 or int64) is the flattened index of the first
// largest element, within its image or, with include_batch, within the whole
// batch. Here a NaN that comes first in the window wins and -inf counts.
template <typename T, typename Index>
void MaxPoolWithArgmax(const Pool2dShape& shape, bool include_batch,
                       const T* in, T* out, Index* argmax);

// T: float, double, half, bfloat16. The mean over the elements of the window
// that are not padding.
template <typename T>
void AvgPool(const Pool2dShape& shape, const T* in, T* out);
template <typename T>
void AvgPoolGrad(const Pool2dShape& shape, const T* d_out, T* d_in);

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_POOL_H_
