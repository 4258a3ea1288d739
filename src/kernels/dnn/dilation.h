// The step of a greyscale dilation that takes its time.
#ifndef SLUICE_KERNELS_DNN_DILATION_H_
#define SLUICE_KERNELS_DNN_DILATION_H_

#include <cstdint>

namespace sluice::dnn {

// best[c] = x[c] + filter[c] where that is greater, and then at[c] = tap, for c
// below n.
using RaiseFn = void (*)(const float* x, const float* filter, int64_t n,
                         int32_t tap, float* best, int32_t* at);
RaiseFn GetRaise();

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_DILATION_H_
