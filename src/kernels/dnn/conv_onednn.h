// One float convolution shape, computed by oneDNN.
#ifndef SLUICE_KERNELS_DNN_CONV_ONEDNN_H_
#define SLUICE_KERNELS_DNN_CONV_ONEDNN_H_

#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "kernels/dnn/conv.h"

namespace sluice::dnn {

// The primitives of the three passes, each created at its first use for the
// thread count of that call (oneDNN fixes the partition of the work when a
// primitive is created). Owned by a plan. Any number of threads may call Run at
// once: the mutex guards only the lists, never a computation, and each Run
// holds its own Call (its memory objects and scratchpad).
class OnednnConv {
 public:
  OnednnConv(const ConvGeometry& shape, ConvEpilogue epilogue);
  ~OnednnConv();

  // x, y -> z by pass: (in, filter) -> out, (filter, d_out) -> d_in,
  // (in, d_out) -> d_filter. Unimplemented if oneDNN does not support the
  // shape.
  Status Run(ConvPass pass, const float* x, const float* y, float* z,
             const float* bias);

 private:
  struct Call;
  struct Program;

  Status Make(ConvPass pass, int threads, std::unique_ptr<Program>* made) const;

  const ConvGeometry shape_;
  const ConvEpilogue epilogue_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Program>> programs_;  // Guarded by mutex_.
};

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_CONV_ONEDNN_H_
