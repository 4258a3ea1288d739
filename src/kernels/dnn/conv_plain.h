// Convolution by our own loops: one matrix product for each output row and
// filter tap, so that nothing is copied and padding is free. For the types that
// oneDNN does not compute, and the shapes that it rejects.
#ifndef SLUICE_KERNELS_DNN_CONV_PLAIN_H_
#define SLUICE_KERNELS_DNN_CONV_PLAIN_H_

#include "kernels/dnn/conv.h"

namespace sluice::dnn {

// T: float, double, int32. bias may be nullptr. REQUIRES: Validate(s).ok().
template <typename T>
void PlainForward(const ConvGeometry& s, ConvEpilogue epilogue, const T* in,
                  const T* filter, T* out, const T* bias);
template <typename T>
void PlainBackwardData(const ConvGeometry& s, const T* filter, const T* d_out,
                       T* d_in);
template <typename T>
void PlainBackwardFilter(const ConvGeometry& s, const T* in, const T* d_out,
                         T* d_filter);

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_CONV_PLAIN_H_
