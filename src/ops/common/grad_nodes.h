// Helpers for gradient functions: short names for the nodes that most of them
// build, and the reduction of a gradient over broadcast dimensions. All of them
// build into the ambient graph (graph/builder.h); a null input gives a null
// output, as in every builder.
//
//   Status ProductGrad(GradContext& c) {  // Of y = a * b, broadcast.
//     const Output a = c.input(0), b = c.input(1), dy = c.dy[0];
//     c.grads[0] = grad::SumToShape(grad::Mul(dy, b), a, b);
//     c.grads[1] = grad::SumToShape(grad::Mul(dy, a), b, a);
//     return OkStatus();
//   }
#ifndef SLUICE_OPS_COMMON_GRAD_NODES_H_
#define SLUICE_OPS_COMMON_GRAD_NODES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/node.h"
#include "graph/op_def.h"

namespace sluice::grad {

// The value type of x, also if x is a reference; kInvalid for null.
DType TypeOf(Output x);

// A scalar constant of the (value) type of `like`.
Output Number(Output like, double v);

// ---- Elementwise, broadcasting ----------------------------------------------
Output Add(Output a, Output b);  // AddV2.
Output Sub(Output a, Output b);
Output Mul(Output a, Output b);
Output Div(Output a, Output b);  // RealDiv.
Output Neg(Output x);
Output Square(Output x);
Output Select(Output condition, Output a, Output b);  // SelectV2.
// The complex conjugate; x itself if x is not complex.
Output Conj(Output x);
// x as `dtype`; x itself if it has that type.
Output Cast(Output x, DType dtype);

// ---- Shapes -----------------------------------------------------------------
// A constant if the shape is known, else a Shape node.
Output ShapeOf(Output x, DType out_type = DType::kInt32);
Output RankOf(Output x);  // int32, likewise.
Output SizeOf(Output x, DType out_type = DType::kInt32);
Output ZerosLike(Output x);
Output OnesLike(Output x);
Output ReshapeTo(Output x, Output shape);
// x in the shape of `like`; x itself if the shapes are known to be equal.
Output ReshapeLike(Output x, Output like);
// Inserts a dimension of size 1.
Output ExpandDims(Output x, int axis);
Output Transpose(Output x, const std::vector<int32_t>& permutation);

// ---- Reductions -------------------------------------------------------------
Output SumAxes(Output x, const std::vector<int32_t>& axes,
               bool keep_dims = false);
Output SumOver(Output x, Output axes, bool keep_dims = false);

// Sums `dy`, the gradient of a result that was broadcast from x and `other`,
// over the dimensions along which x was repeated, so that it has the shape of
// x. Known shapes are resolved while building; the rest is left to
// BroadcastGradientArgs at run time.
Output SumToShape(Output dy, Output x, Output other);

// Which axes of the result SumToShape sums over; nullopt if that depends on
// unknown dimensions.
std::optional<std::vector<int32_t>> BroadcastAxes(const PartialShape& x,
                                                  const PartialShape& other);

// As above, for a result of the shape of `dy` broadcast from x alone (a
// BroadcastTo).
Output SumToShapeOf(Output dy, Output x);

}  // namespace sluice::grad

#endif  // SLUICE_OPS_COMMON_GRAD_NODES_H_
