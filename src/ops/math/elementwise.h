// Kernels of elementwise ops: wraps functions of kernels/simd as kernel makers
// for .Kernel() of an op declaration.
#ifndef SLUICE_OPS_MATH_ELEMENTWISE_H_
#define SLUICE_OPS_MATH_ELEMENTWISE_H_

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "kernels/simd/binary.h"
#include "kernels/simd/unary.h"

namespace sluice {

// Output 0 = op(input 0), elementwise, in the type of output 0. The node gets a
// kernel if simd has one for the type of input 0.
KernelMaker MakeUnary(simd::UnaryOp op);

// Sets `k` to compute output 0 = kernel(input 0), elementwise, in the type of
// output 0. NoKernelFor that type if its elements have another size than the
// kernel's results.
Status UseUnary(const simd::UnaryKernel& kernel, const Node& n, Kernel* k);

// Output 0 = op(input 0, input 1) with NumPy broadcasting. If the op fails on
// an element (such as an integer divided by zero) the step fails.
KernelMaker MakeBinary(simd::BinaryOp op);

// Like MakeBinary for Equal and NotEqual, on every comparable type including
// strings. With incompatible_shape_error = false, operands whose shapes do not
// broadcast give the scalar false (NotEqual: true).
KernelMaker MakeEquality(simd::BinaryOp op);

// As MakeBinary for operands of equal shapes (gradients of elementwise ops).
KernelMaker MakeSameShapeBinary(simd::BinaryOp op);

// Whether the known shape of output 0 implies that computing all elements takes
// long.
bool LooksBig(const Node& node);

Status IncompatibleShapes(const Shape& a, const Shape& b);

// OK if the two inputs of a node have equal shapes.
Status RequireEqualShapes(KernelContext& ctx, int i, int j);

}  // namespace sluice

#endif  // SLUICE_OPS_MATH_ELEMENTWISE_H_
