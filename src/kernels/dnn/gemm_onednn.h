// Matrix products by oneDNN. A build without it has without_onednn.cc instead,
// in which every function says that it has computed nothing.
#ifndef SLUICE_KERNELS_DNN_GEMM_ONEDNN_H_
#define SLUICE_KERNELS_DNN_GEMM_ONEDNN_H_

#include <cstdint>

#include "kernels/dnn/matmul.h"

namespace sluice::dnn {

// Gemm<float>. Returns false without having written anything if oneDNN did not
// compute the product (it is out of memory for packing, for example).
bool GemmByOnednn(const GemmShape& shape, const float* a, const float* b,
                  float* c);

// Whether oneDNN's byte products are exact on this processor: without dedicated
// instructions it adds two products in 16 bits, which saturates.
bool ByteSumsAreExact();

// The factors of a product of bytes, unsigned times signed, with their zero
// points. The shape's `accumulate` is not used.
struct ByteProduct {
  GemmShape shape;
  const uint8_t* a = nullptr;
  uint8_t a_zero = 0;
  const int8_t* b = nullptr;
  int8_t b_zero = 0;
};

// c = (op(a) - a_zero) * (op(b) - b_zero); false as above. REQUIRES:
// ByteSumsAreExact().
bool ByteGemmByOnednn(const ByteProduct& product, int32_t* c);

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_GEMM_ONEDNN_H_
