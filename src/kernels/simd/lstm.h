// The elementwise part of a step of an LSTM layer, in one pass over memory in
// each direction. Both functions split large work over IntraOpThreads() and
// return false if the type is neither float nor double.
#ifndef SLUICE_KERNELS_SIMD_LSTM_H_
#define SLUICE_KERNELS_SIMD_LSTM_H_

#include <cstdint>

#include "tensor/dtype.h"

namespace sluice::simd {

// The memory layout of the rows of one step. A row of gates is the input gate
// i, the new input j, the forget gate f and the output gate o, `units` elements
// each.
struct LstmShape {
  int64_t rows = 0, units = 0;
};

// z = a + b (all rows of a use the same row of b if `one_b`);
// i, f, o = sigmoid(z_i, z_f + forget_bias, z_o); j = tanh(z_j);
// c = f * c_prev + i * j; h = o * tanh(c). `gates` may be a or b.
bool LstmForward(DType t, LstmShape shape, double forget_bias, const void* a,
                 const void* b, bool one_b, const void* c_prev, void* gates,
                 void* c, void* h);

// The gradients of z and c_prev, given those of c and h. `dz` may be `gates`;
// `dc_prev` may be c_prev, dc or dh.
bool LstmBackward(DType t, LstmShape shape, const void* gates,
                  const void* c_prev, const void* dc, const void* dh, void* dz,
                  void* dc_prev);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_LSTM_H_
