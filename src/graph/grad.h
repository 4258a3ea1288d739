// The interface of gradient functions, and which ops have no gradient.
//
//   Status SquareGrad(GradContext& c) {  // y = x * x
//     c.grads[0] = 2 * c.input(0) * c.dy[0];
//     return OkStatus();
//   }
#ifndef SLUICE_GRAPH_GRAD_H_
#define SLUICE_GRAPH_GRAD_H_

#include <utility>
#include <vector>

#include "graph/node.h"

namespace sluice {

// The gradient of one tensor: none, dense, or a sparse set of slices of the
// first dimension ("IndexedSlices": rows `indices` of a tensor of shape
// `dense_shape` are `values`; repeated indices add up, all other rows are
// zero).
struct Gradient {
  Output dense;
  Output indices, values, dense_shape;  // dense_shape may be null (unknown).

  Gradient() = default;
  Gradient(Output d) : dense(d) {}  // NOLINT
  static Gradient Slices(Output indices, Output values, Output dense_shape) {
    Gradient g;
    g.indices = indices;
    g.values = values;
    g.dense_shape = dense_shape;
    return g;
  }
  bool is_sparse() const { return values.node != nullptr; }
  explicit operator bool() const {
    return dense.node != nullptr || is_sparse();
  }
};

// Lives for one call of one gradient function, which builds nodes in the
// ambient graph (graph/builder.h) and sets `grads`.
struct GradContext {
  Node* op;                     // The forward node.
  std::vector<Output> dy;       // One per output; null: the output has no
                                // gradient (treat as zero). Dense here.
  std::vector<Gradient> grads;  // One per input, to be set; none = no
                                // gradient flows there.
  Output input(int i) const { return op->input(i); }
  Output output(int i) const { return Output(op, i); }
  // dy[i], or zeros shaped like output i if it is null.
  Output DyOrZeros(int i);
};

namespace grad {

// The gradient function of a differentiable op whose gradient is not
// implemented: returns an error, whereas no gradient function would mean zero.
Status Undefined(GradContext& c);
// Whether the op declares a gradient other than Undefined.
bool HasGradient(const OpDef& op);

}  // namespace grad

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAD_H_
