// bfloat16 matrix products that use the processor's bfloat16 instructions.
#ifndef SLUICE_KERNELS_DNN_MATMUL_BF16_H_
#define SLUICE_KERNELS_DNN_MATMUL_BF16_H_

#include "kernels/dnn/matmul.h"
#include "tensor/half.h"

namespace sluice::dnn {

// Gemm<bfloat16> through oneDNN, summed in float and rounded once. Returns
// false without computing anything if the processor has no such instructions,
// or if the product is too small to be worth the call.
bool GemmByBf16(const GemmShape& shape, const bfloat16* a, const bfloat16* b,
                bfloat16* c);

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_MATMUL_BF16_H_
