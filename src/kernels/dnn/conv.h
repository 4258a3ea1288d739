// Convolution of images and volumes, and its two gradients.
#ifndef SLUICE_KERNELS_DNN_CONV_H_
#define SLUICE_KERNELS_DNN_CONV_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "kernels/dnn/window.h"

namespace sluice::dnn {

// Volumes [batch, d.in, h.in, w.in, in_channels] (or NCDHW), filter always
// DHWIO: [d.window, h.window, w.window, filter_in_channels, out_channels],
// output [batch, d.out(), h.out(), w.out(), out_channels] (or NCDHW). Images
// are volumes of depth one (kNoDepth), so that they have no such dimension. The
// convolution is grouped where in_channels is a multiple of filter_in_channels.
// A depthwise filter [H, W, C, M] is this with filter_in_channels = 1,
// out_channels = C * M.
struct ConvGeometry {
  Layout layout = Layout::kNhwc;
  int64_t batch = 0;
  int64_t in_channels = 0;
  int64_t filter_in_channels = 0;
  int64_t out_channels = 0;
  WindowDim h, w;
  WindowDim d = kNoDepth;

  int64_t groups() const {
    return filter_in_channels > 0 ? in_channels / filter_in_channels : 1;
  }
  bool has_depth() const { return d != kNoDepth; }
  int64_t in_pixels() const { return d.in * h.in * w.in; }
  int64_t out_pixels() const { return d.out() * h.out() * w.out(); }
  int64_t taps() const { return d.window * h.window * w.window; }
  int64_t in_size() const { return batch * in_pixels() * in_channels; }
  int64_t out_size() const { return batch * out_pixels() * out_channels; }
  int64_t filter_size() const {
    return taps() * filter_in_channels * out_channels;
  }
  bool operator==(const ConvGeometry&) const = default;
};

// Checks that extents and paddings are not negative, that strides, dilations
// and window are positive, that channels are divisible into groups, and that
// sizes are within 2^31 - 1 where oneDNN needs it.
Status Validate(const ConvGeometry& shape);

// What Forward applies to the sum, in this order.
struct ConvEpilogue {
  bool bias = false;  // [out_channels]
  bool relu = false;
  bool operator==(const ConvEpilogue&) const = default;
};

enum class ConvPass { kForward, kBackwardData, kBackwardFilter };

// Everything that can be prepared for one shape: oneDNN primitives (made at the
// first use of each pass and thread count), conversions to the layouts they
// need, scratch memory. Owned by the code that runs the shape (a node keeps it
// in a ConvPlanCache). Thread-safe: primitives are immutable, and each call
// borrows its own set of buffers. Results are overwritten, never accumulated
// into.
//
// T: float through oneDNN; half and bfloat16 are converted to float, computed
// and rounded once; double and int32 by our own loops.
template <typename T>
class ConvPlan {
 public:
  static Result<std::shared_ptr<const ConvPlan>> Make(
      const ConvGeometry& shape, ConvEpilogue epilogue = {});
  ~ConvPlan();
  ConvPlan(const ConvPlan&) = delete;
  ConvPlan& operator=(const ConvPlan&) = delete;

  const ConvGeometry& shape() const { return shape_; }
  const ConvEpilogue& epilogue() const { return epilogue_; }

  // bias: nullptr unless epilogue().bias.
  Status Forward(const T* in, const T* filter, T* out,
                 const T* bias = nullptr) const;
  // d_in from the output's gradient. Ignores the epilogue.
  Status BackwardData(const T* filter, const T* d_out, T* d_in) const;
  Status BackwardFilter(const T* in, const T* d_out, T* d_filter) const;

 private:
  template <typename>
  friend class ConvPlan;  // Plans of 16-bit floats run one of float.
  struct Impl;
  ConvPlan(const ConvGeometry& shape, ConvEpilogue epilogue);
  // x, y -> z, as OnednnConv::Run. bias: only for kForward, or null.
  Status Run(ConvPass pass, const T* x, const T* y, T* z, const T* bias) const;

  const ConvGeometry shape_;
  const ConvEpilogue epilogue_;
  std::unique_ptr<Impl> impl_;  // Thread-safe.
};

// The plans of one node, for the most recent shapes. Shared by all threads that
// run the node.
template <typename T>
class ConvPlanCache {
 public:
  Result<std::shared_ptr<const ConvPlan<T>>> Get(const ConvGeometry& shape,
                                                 ConvEpilogue epilogue = {});

 private:
  static constexpr size_t kCapacity = 8;
  std::mutex mutex_;
  // Most recently used first. Guarded by mutex_.
  std::vector<std::shared_ptr<const ConvPlan<T>>> plans_;
};

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_CONV_H_
