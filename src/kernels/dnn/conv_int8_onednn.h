// One convolution of bytes (ByteConvPlan), computed by oneDNN.
#ifndef SLUICE_KERNELS_DNN_CONV_INT8_ONEDNN_H_
#define SLUICE_KERNELS_DNN_CONV_INT8_ONEDNN_H_

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "kernels/dnn/conv_int8.h"

namespace sluice::dnn {

// A primitive with its packed weights. Owned by a plan. Any number of threads
// may call Run at once; each call borrows its own memory objects.
class OnednnByteConv {
 public:
  // `filter` is read only during this call. REQUIRES: ByteSumsAreExact(), and a
  // valid shape. Unimplemented if oneDNN does not support the layer (or is not
  // in this build: without_onednn.cc).
  static Result<std::unique_ptr<OnednnByteConv>> Make(const ByteLayer& layer,
                                                      const int8_t* filter);
  virtual ~OnednnByteConv() = default;

  // As ByteConvPlan::Run.
  virtual Status Run(const void* image, void* out) = 0;
};

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_CONV_INT8_ONEDNN_H_
