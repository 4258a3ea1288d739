// One float convolution shape in oneDNN's hands.
#ifndef SLUICE_KERNELS_DNN_CONV_ONEDNN_H_
#define SLUICE_KERNELS_DNN_CONV_ONEDNN_H_

#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "kernels/dnn/conv.h"

namespace sluice::dnn {

enum class ConvPass { kForward, kBackwardData, kBackwardFilter };

// The three passes' primitives, each made at its first use for the thread
// count of that call (oneDNN fixes the division of work when a primitive is
// made). Owned by a plan; any number of threads may Run at once: the mutex
// guards the lists only, never a computation, and each Run holds a Call (its
// memory objects and scratchpad) that no other Run sees.
class OnednnConv {
 public:
  OnednnConv(const ConvGeometry& shape, ConvEpilogue epilogue);
  ~OnednnConv();

  // x, y -> z by pass: (in, filter) -> out, (filter, d_out) -> d_in,
  // (in, d_out) -> d_filter. Unimplemented where oneDNN has no way to do it.
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
