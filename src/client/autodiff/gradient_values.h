// Values that every part of the gradients builds: zeros, slices without rows,
// and the shapes of slices. Internal.
//
// All of these add nodes to the current graph, in the current context. Their
// caller holds the graph's mutex.
#ifndef SLUICE_CLIENT_AUTODIFF_GRADIENT_VALUES_H_
#define SLUICE_CLIENT_AUTODIFF_GRADIENT_VALUES_H_

#include <cstddef>

#include "client/autodiff/gradients.h"
#include "graph/graph.h"

namespace sluice {

// Reports whether gradients may flow through an edge of this type.
bool IsDifferentiable(DType t);

// While one that is on exists, integers are differentiable on this thread
// (GradientOptions::integers).
class IntegerGradients {
 public:
  explicit IntegerGradients(bool on);
  ~IntegerGradients();
  IntegerGradients(const IntegerGradients&) = delete;
  static bool On();

 private:
  const bool before_;
};

// An output that was just built in the current graph, or the error that
// building it recorded there.
Result<Output> Built(Output o);

// Finds the first error that builders record in a graph after this was made.
// The graph must outlive it.
class BuildErrors {
 public:
  explicit BuildErrors(const Graph* graph)
      : graph_(graph), before_(graph->errors().size()) {}
  Status First() const {
    return graph_->errors().size() > before_ ? graph_->errors()[before_]
                                             : OkStatus();
  }

 private:
  const Graph* const graph_;
  const size_t before_;  // Number of errors then.
};

// Zeros of the value's shape and type. For a variable's handle: of the
// variable's shape and type. For a TensorArray's flow: the flow itself, since
// its number has no meaning.
Output ZerosFor(const Output& x);

// The shape of x, or of the variable whose handle it is, given that `part` is a
// summand of its gradient: an int32 or int64 vector.
Result<Output> DenseShapeOf(const Output& x, const Gradient& part);

// Slices with no rows, of a tensor like `like` (or of the variable whose handle
// it is), with indices of type `indices`.
Result<Gradient> NoSlices(const Output& like, DType indices);

// Checks a gradient that was found for the input `in` of `node`: its parts are
// outputs of the node's graph, and its type and shape are those of `in`. The
// gradient then has all that is known about the shape of `in`. Internal if not:
// gradient functions of users may return anything.
Status CheckGradient(const Node& node, const Output& in, const Gradient& g);

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_GRADIENT_VALUES_H_
