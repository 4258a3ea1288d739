// Byte convolutions whose sums are scaled, and rounded to bytes again, on
// output: the layers of quantised networks. Matrix products are such
// convolutions over one row of pixels.
#ifndef SLUICE_KERNELS_DNN_CONV_INT8_H_
#define SLUICE_KERNELS_DNN_CONV_INT8_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "kernels/dnn/conv.h"

namespace sluice::dnn {

enum class ByteOut : uint8_t { kUint8, kInt8, kFloat };

// out = scale[c] * (sum of image * filter + bias[c]), c the output channel;
// rounded to the nearest (ties to even) and clamped to the range of the type.
struct ByteLayer {
  ConvGeometry shape;         // NHWC, two dimensions, one group.
  bool signed_image = false;  // int8 instead of uint8. The zero point is 0.
  ByteOut out = ByteOut::kUint8;
  bool relu = false;
  std::vector<float> scale, bias;  // [out_channels].
};

class OnednnByteConv;

// A layer with its packed weights. Immutable; any number of threads may run it
// at once, each call on up to IntraOpThreads() threads (the count at Make).
class ByteConvPlan {
 public:
  // `filter`: int8, HWIO; read only during this call. The sums are exact: our
  // own loops compute shapes for which oneDNN's sums would saturate in 16 bits
  // or which it does not support.
  static Result<std::shared_ptr<const ByteConvPlan>> Make(ByteLayer layer,
                                                          const int8_t* filter,
                                                          bool plain = false);
  ~ByteConvPlan();
  ByteConvPlan(const ByteConvPlan&) = delete;

  const ByteLayer& layer() const { return layer_; }
  int threads() const { return threads_; }
  Status Run(const void* image, void* out) const;

 private:
  explicit ByteConvPlan(ByteLayer layer);
  Status RunPlain(const void* image, void* out) const;

  const ByteLayer layer_;
  int threads_ = 1;
  std::vector<int32_t> wide_;  // The filter, if our own loops are used.
  std::unique_ptr<OnednnByteConv> onednn_;  // Thread-safe. Else null.
};

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_CONV_INT8_H_
