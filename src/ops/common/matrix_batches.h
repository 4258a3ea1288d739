// Shared by the matrix ops: tensors viewed as batches of matrices, their shape
// functions, and the nodes that their gradients build.
#ifndef SLUICE_OPS_COMMON_MATRIX_BATCHES_H_
#define SLUICE_OPS_COMMON_MATRIX_BATCHES_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/functional/function_ref.h"
#include "exec/core/kernel.h"
#include "graph/grad.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"

namespace sluice::linalg {

// TensorFlow's list. `half` has a CPU kernel for two ops, there and here.
inline constexpr char kMatrixTypes[] =
    "T: {double, float, half, complex64, complex128}";

// ---- Kernels ----------------------------------------------------------------

// A tensor viewed as matrices: the last two dimensions. A value type.
struct Matrices {
  Dims batch;
  int64_t count = 1;  // How many.
  int64_t rows = 0, columns = 0;

  int64_t size() const { return rows * columns; }
  int64_t least() const { return std::min(rows, columns); }
  // The shape of a batch of results with these matrix dimensions.
  Result<Shape> BatchOf(std::initializer_list<int64_t> dims) const;
};
// Input i; `what` names it in messages.
Result<Matrices> MatricesOf(KernelContext& ctx, int i, const char* what);
Result<Matrices> SquareMatricesOf(KernelContext& ctx, int i, const char* what);
// The right-hand sides of systems: one per matrix in `a`, with the same number
// of rows.
Result<Matrices> RightSidesOf(KernelContext& ctx, int i, const Matrices& a);

// Calls each(i) for i in [0, count), with `work` multiplications each, on the
// kernel's threads. Returns the lowest i for which it returned false; -1: none.
int64_t FirstFailure(int64_t count, double work,
                     absl::FunctionRef<bool(int64_t)> each);
// The same, with an error that begins with `what` ("input: expected this").
Status ForEachMatrix(int64_t count, double work, const char* what,
                     absl::FunctionRef<bool(int64_t)> each);
inline constexpr char kNotInvertible[] =
    "Input is not invertible: expected pivots other than zero";

// The elements of a half matrix, converted for computing.
inline std::vector<float> Widened(const half* a, int64_t n) {
  return std::vector<float>(a, a + n);
}
inline void Narrow(const std::vector<float>& from, half* to) {
  std::transform(from.begin(), from.end(), to, [](float v) { return half(v); });
}

// ---- Shapes -----------------------------------------------------------------

// Input i with rank at least 2 whose last two dimensions are equal.
Result<PartialShape> SquareInput(ShapeContext& c, int i);
// All dimensions but the last two. REQUIRES: a known rank.
PartialShape BatchOf(const PartialShape& s);
// Output 0: square matrices of the shape of input 0.
Status SquareShape(ShapeContext& c);

// ---- Gradients --------------------------------------------------------------

// Batched matrix products; each factor may be replaced by its adjoint.
Output Product(Output a, Output b, bool adjoint_a = false,
               bool adjoint_b = false);
// The last two dimensions exchanged, elements conjugated.
Output Adjoint(Output x);
Output Diagonal(Output x);  // For matrices.
Output DiagonalMatrix(Output d);
Output WithDiagonal(Output x, Output d);
// Zero below or above the diagonal.
Output UpperTriangle(Output x);
Output LowerTriangle(Output x);
// Elements [from, to) of the last dimension, or of the second to last; negative
// numbers count from the end.
inline constexpr int kToEnd = INT32_MAX;
Output Columns(Output x, int from, int to = kToEnd);
Output Rows(Output x, int from, int to = kToEnd);
Output Concat(std::vector<Output> parts, int axis);
// 1 / x, and 0 where x is 0.
Output SafeInverse(Output x);
// 1 / (v_j - v_i) at (i, j), 0 on the diagonal and where they are equal.
Output InverseDifferences(Output v);
// Sums `dx` over the batch dimensions along which x was repeated by
// broadcasting with `other`.
Output SumRepeated(Output dx, Output x, Output other);

}  // namespace sluice::linalg

#endif  // SLUICE_OPS_COMMON_MATRIX_BATCHES_H_
