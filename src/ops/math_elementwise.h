// Kernels of elementwise ops: from a function of kernels/simd to what a
// declaration hands to .Kernel().
#ifndef SLUICE_OPS_MATH_ELEMENTWISE_H_
#define SLUICE_OPS_MATH_ELEMENTWISE_H_

#include "exec/kernel.h"
#include "graph/op_def.h"
#include "kernels/simd/binary.h"
#include "kernels/simd/unary.h"

namespace sluice {

// Output 0 = op(input 0), elementwise, in the type of output 0. The node gets a
// kernel if simd has one for the type of input 0.
KernelMaker MakeUnary(simd::UnaryOp op);

// Output 0 = op(input 0, input 1) with numpy's broadcasting. Where the op fails
// on some element (an integer divided by zero) the step fails.
KernelMaker MakeBinary(simd::BinaryOp op);

// As MakeBinary for Equal and NotEqual, on every type that can be compared:
// strings too. With incompatible_shape_error = false, operands whose shapes do
// not broadcast give the scalar false (NotEqual: true).
KernelMaker MakeEquality(simd::BinaryOp op);

// As MakeBinary for operands of equal shapes (gradients of elementwise ops).
KernelMaker MakeSameShapeBinary(simd::BinaryOp op);

// The integer type whose bits and order a quantised type has; else t itself.
DType CarrierType(DType t);

// True if what is known of the shape of output 0 says that computing each
// element takes a while.
bool LooksBig(const Node& node);

Status IncompatibleShapes(const Shape& a, const Shape& b);

// OK if the two inputs of a node have equal shapes.
Status RequireEqualShapes(KernelContext& ctx, int i, int j);

}  // namespace sluice

#endif  // SLUICE_OPS_MATH_ELEMENTWISE_H_
