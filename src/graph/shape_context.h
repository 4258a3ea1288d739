// The interface of shape functions. They read partial shapes, constant values
// and attributes, and set the partial shapes of the outputs.
//
//   Status MatVecShape(ShapeContext& c) {
//     SLUICE_ASSIGN_OR_RETURN(const PartialShape matrix, c.WithRank(0, 2));
//     SLUICE_ASSIGN_OR_RETURN(const PartialShape vector, c.WithRank(1, 1));
//     SLUICE_RETURN_IF_ERROR(MergeDim(matrix.dim(1), vector.dim(0)).status());
//     c.set_output(0, {matrix.dim(0)});
//     return OkStatus();
//   }
#ifndef SLUICE_GRAPH_SHAPE_CONTEXT_H_
#define SLUICE_GRAPH_SHAPE_CONTEXT_H_

#include <optional>
#include <string_view>
#include <vector>

#include "graph/node.h"

namespace sluice {

// Lives for one call of one shape function, on the caller's thread. Errors
// state what was expected and received; the graph adds the node.
class ShapeContext {
 public:
  explicit ShapeContext(const Node& node);

  const Node& node() const { return node_; }
  int num_inputs() const { return node_.num_inputs(); }
  int num_outputs() const { return node_.num_outputs(); }
  // That of the node's graph (Graph::producer_version).
  int producer_version() const;
  const PartialShape& input(int i) const;
  // The value of input i if it is known before a step runs; else null.
  const Tensor* constant(int i);
  // The single integer of a constant int32/int64 input.
  std::optional<int64_t> ConstantInt(int i);
  // Input i read as a shape (a vector of dimensions, -1 unknown): from a
  // constant, or as far as it follows from Shape, Pack, ConcatV2, slices and
  // casts. Unknown rank if nothing is known. InvalidArgument if it is not a
  // vector.
  Result<PartialShape> InputAsShape(int i);
  // Shape and type of the variable that resource input i points to; unknown and
  // kInvalid if nothing is known.
  PartialShape ResourceShape(int i);
  DType ResourceType(int i);

  void set_output(int i, PartialShape s) {
    if (i < 0 || i >= num_outputs()) {
      wrong_output_ = i;
      return;
    }
    outputs_[static_cast<size_t>(i)] = std::move(s);
  }
  void set_all_outputs(const PartialShape& s) {
    for (PartialShape& o : outputs_) o = s;
  }
  const std::vector<PartialShape>& outputs() const { return outputs_; }

  // Runs the op's shape function. Internal if it sets an output that the op
  // does not have, or throws.
  Status Infer();

  // Input i merged with "rank r" (at least, at most r); InvalidArgument if not.
  Result<PartialShape> WithRank(int i, int rank) const;
  Result<PartialShape> WithRankAtLeast(int i, int rank) const;
  Result<PartialShape> WithRankAtMost(int i, int rank) const;
  Status RequireScalar(int i) const { return WithRank(i, 0).status(); }

 private:
  const Node& node_;
  std::vector<PartialShape> outputs_;  // Unknown until set.
  std::vector<std::optional<Tensor>> constants_;
  std::optional<int> wrong_output_;
};

// Merges dimensions that must agree: returns the known one. InvalidArgument if
// both are known and differ.
Result<int64_t> MergeDim(int64_t a, int64_t b);
// Converts an axis in [-rank, rank) to one in [0, rank).
Result<int> CanonicalAxis(int64_t axis, int rank);
// NumPy broadcasting of two partial shapes.
Result<PartialShape> BroadcastShapes(const PartialShape& a,
                                     const PartialShape& b);
// Output size of a window along one dimension; -1 if `in` is unknown.
// `padding`: "SAME", "VALID" or "EXPLICIT" (then before/after are read; else
// they are written if `in` is known).
Result<int64_t> WindowOutputSize(int64_t in, int64_t window, int64_t dilation,
                                 int64_t stride, std::string_view padding,
                                 int64_t* before, int64_t* after);

// Shape functions that many ops share.
Status UnknownShape(ShapeContext& c);    // Nothing is known.
Status UnchangedShape(ShapeContext& c);  // All outputs: input 0.
Status ScalarShape(ShapeContext& c);     // All outputs: scalars.
Status NoOutputs(ShapeContext& c);
Status BroadcastBinaryShape(ShapeContext& c);  // Output 0: inputs 0 and 1.
Status MergeBothShape(ShapeContext& c);        // Inputs 0 and 1 must agree.
Status ReductionShape(ShapeContext& c);        // Input 1: axes; keep_dims.

// The value of an output if it is known before a step: constants, and integer
// arithmetic on shapes. Does not change the graph.
std::optional<Tensor> ConstantValue(const Output& o);
// An output read as a shape, see ShapeContext::InputAsShape.
Result<PartialShape> ConstantAsShape(const Output& o);

// The declared shape and type of the variable that a handle points to, traced
// through ops that forward handles.
PartialShape VariableShape(const Output& handle);
DType VariableDType(const Output& handle);

}  // namespace sluice

#endif  // SLUICE_GRAPH_SHAPE_CONTEXT_H_
