// Products of bfloat16 by the instructions that processors have for them.
#ifndef SLUICE_KERNELS_DNN_MATMUL_BF16_H_
#define SLUICE_KERNELS_DNN_MATMUL_BF16_H_

#include "kernels/dnn/matmul.h"
#include "tensor/half.h"

namespace sluice::dnn {

// Gemm<bfloat16> by oneDNN, summed in float and rounded once. False, and
// nothing done, where the processor has no such instructions, or the product is
// too small to pay for the call.
bool GemmByBf16(const GemmShape& shape, const bfloat16* a, const bfloat16* b,
                bfloat16* c);

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_MATMUL_BF16_H_
