// Shared by the ops that compute whole recurrent cells: they compute in float,
// convert half on input and output, and check many shapes.
#ifndef SLUICE_OPS_NN_BLOCK_CELL_H_
#define SLUICE_OPS_NN_BLOCK_CELL_H_

#include <algorithm>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "kernels/dnn/matmul.h"
#include "kernels/simd/cast.h"
#include "kernels/simd/unary.h"

namespace sluice::block_cell {

inline Result<Tensor> CastTo(const Tensor& t, DType type) {
  if (t.dtype() == type) return t;
  SLUICE_ASSIGN_OR_RETURN(Tensor to, Tensor::Make(type, t.shape()));
  simd::GetCast(t.dtype(), type)(t.raw(), to.raw(), t.num_elements());
  return to;
}

// Runs fn(inputs, &outputs) with float in place of half: fn creates one float
// output for each output of the node.
template <typename Fn>
Status RunInFloat(KernelContext& ctx, Fn fn) {
  std::vector<Tensor> in, out(static_cast<size_t>(ctx.num_outputs()));
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const Tensor& t = ctx.input(i);
    if (t.dtype() == DType::kHalf) {
      SLUICE_ASSIGN_OR_RETURN(in.emplace_back(), CastTo(t, DType::kFloat));
    } else {
      in.push_back(t);
    }
  }
  SLUICE_RETURN_IF_ERROR(fn(std::as_const(in), &out));
  for (int i = 0; i < ctx.num_outputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(ctx.output(i), CastTo(out[static_cast<size_t>(i)],
                                                  ctx.node().output_type(i)));
  }
  return OkStatus();
}

inline Status RequireDims(const char* name, const Tensor& t,
                          std::initializer_list<int64_t> dims) {
  const std::span<const int64_t> want(dims.begin(), dims.size());
  const auto got = t.shape().dims();
  if (std::equal(want.begin(), want.end(), got.begin(), got.end()))
    return OkStatus();
  return InvalidArgument(name, ": expected shape ",
                         PartialShape(want).ToString(), ", got ",
                         t.shape().ToString());
}

inline Status RequireRank(const char* name, const Tensor& t, int rank) {
  if (t.rank() == rank) return OkStatus();
  return InvalidArgument(name, ": expected rank ", rank, ", got shape ",
                         t.shape().ToString());
}

// Checks that four times the sum of the widths does not overflow.
inline Status RequireModest(int64_t inputs, int64_t units) {
  constexpr int64_t kMax = int64_t{1} << 56;
  if (inputs < kMax && units < kMax) return OkStatus();
  return InvalidArgument("widths: expected less than 2^56, got ", inputs,
                         " and ", units);
}

inline Result<Tensor> Floats(std::initializer_list<int64_t> dims) {
  SLUICE_ASSIGN_OR_RETURN(const Shape s,
                          Shape::Make({dims.begin(), dims.size()}));
  return Tensor::Zeros(DType::kFloat, s);
}

// c[m, n] (+)= a[m, k] * b[k, n], either one transposed in memory.
inline void Times(int64_t m, int64_t n, int64_t k, const float* a,
                  const float* b, float* c, bool accumulate,
                  bool transpose_a = false, bool transpose_b = false) {
  using dnn::Trans;
  dnn::Gemm({m, n, k, transpose_a ? Trans::kTranspose : Trans::kNone,
             transpose_b ? Trans::kTranspose : Trans::kNone, accumulate},
            a, b, c);
}

inline void Sigmoid(float* x, int64_t n) {
  simd::GetUnary(simd::UnaryOp::kSigmoid, DType::kFloat)(x, x, n);
}
inline void Tanh(const float* x, float* y, int64_t n) {
  simd::GetUnary(simd::UnaryOp::kTanh, DType::kFloat)(x, y, n);
}

}  // namespace sluice::block_cell

#endif  // SLUICE_OPS_NN_BLOCK_CELL_H_
