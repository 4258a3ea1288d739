// Variables in several parts: a table that is too large for one device is cut
// along one dimension, and each part is a variable of its own, which has its
// device, its slots and its updates.
//
//   PartitionedVar table = GetPartitionedVariable(
//       "table", {1000000, 64}, FixedSizePartitioner(4),
//       init::RandomUniform(), DType::kFloat,
//       {.devices = {"/job:ps/task:0", "/job:ps/task:1"}});
//   Output rows = EmbeddingLookup(table, ids);  // Of all parts.
//   Output first = table.parts()[0] + 1;        // A part is a Var.
//
// Parts have TensorFlow's names ("table/part_0"), and a Saver saves them as
// slices of one tensor ("table"), so that a checkpoint fits whatever the number
// of parts is.
#ifndef SLUICE_CLIENT_PARTITIONED_VARIABLES_H_
#define SLUICE_CLIENT_PARTITIONED_VARIABLES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/variables.h"

namespace sluice {

// Into how many parts a variable is cut along each dimension: one number per
// dimension, at most one of them above 1.
using VariablePartitioner =
    std::function<std::vector<int64_t>(const Shape& shape, DType dtype)>;

// `parts` along a dimension, or as many as it has elements if it has fewer.
VariablePartitioner FixedSizePartitioner(int64_t parts, int axis = 0);
// As few parts as keep each of them within `max_bytes` (or one element along
// the dimension, if that is larger), but at most `max_parts`; 0: any number. A
// string counts as `bytes_per_string`.
VariablePartitioner VariableAxisSizePartitioner(int64_t max_bytes, int axis = 0,
                                                int64_t bytes_per_string = 16,
                                                int64_t max_parts = 0);
// Parts of about `min_bytes` each: the size divided by it, rounded up, but at
// most `max_parts`.
VariablePartitioner MinMaxVariablePartitioner(int64_t max_parts = 1,
                                              int axis = 0,
                                              int64_t min_bytes = 256 << 10,
                                              int64_t bytes_per_string = 16);

// Which part of which larger variable a variable is.
struct VariablePart {
  std::string name;  // Of the whole, in checkpoints.
  Shape whole;
  std::vector<int64_t> offset;  // Of its first element, in each dimension.
  Shape shape;                  // Of the part.

  // What saving ops take (ParseShapeAndSlice): "10 20 0,4:-".
  std::string ShapeAndSlice() const;
};
// None if it is a variable of its own.
std::optional<VariablePart> PartOf(const Var& variable);
// Makes it known as a part, for savers and for the slots of optimizers.
// InvalidArgument if the part does not lie within the whole or has another
// shape than the variable.
Status SetPartOf(const Var& variable, const VariablePart& part);
// For a variable "<part>/Momentum" that is made for a part, of the same shape:
// makes it a part of "<whole>/Momentum". Does nothing if `variable` is not a
// part. (Optimizers do so with their slots.)
Status SetPartLike(const Var& slot, const Var& variable);

// The parts of a variable, in order. A light handle, as Var is: copies refer to
// the same variables, which their graph owns. Belongs to the thread that builds
// the graph. Null by default, and if building it failed (the graph has the
// error).
class PartitionedVar {
 public:
  PartitionedVar() = default;
  // Of variables that exist, such as those of an imported graph, in any order.
  // InvalidArgument, recorded in the graph, unless they are all parts of one
  // variable (PartOf).
  explicit PartitionedVar(std::vector<Var> parts, SourceLoc loc = CallerLoc());

  bool valid() const { return !parts_.empty() && parts_[0].valid(); }
  const std::string& name() const { return name_; }
  DType dtype() const;
  const Shape& shape() const { return shape_; }  // Of the whole.
  int axis() const { return axis_; }             // Along which it is cut.
  // (If building failed, one null part, from which users inherit the error.)
  const std::vector<Var>& parts() const { return parts_; }
  // Where each part begins along axis(), and at the end the size of the whole.
  std::vector<int64_t> offsets() const;

  // The parts joined into one tensor, read at the time when this runs.
  Output Read(SourceLoc loc = CallerLoc()) const;
  operator Output() const { return Read({}); }  // NOLINT

  // Each part takes its slice of the value. Null, with the error recorded, if
  // the value has another shape.
  Node* Assign(const Operand& value, SourceLoc loc = CallerLoc()) const;
  Node* AssignAdd(const Operand& delta, SourceLoc loc = CallerLoc()) const;
  Node* AssignSub(const Operand& delta, SourceLoc loc = CallerLoc()) const;
  // Assigns the initial values of all parts.
  Node* initializer(SourceLoc loc = CallerLoc()) const;

 private:
  Status Set(std::vector<Var> parts);
  Node* Update(Node* (Var::*update)(const Operand&, SourceLoc) const,
               const Operand& value, const char* what, SourceLoc loc) const;

  std::string name_;
  Shape shape_;
  int axis_ = 0;
  std::vector<Var> parts_;
};

struct PartitionedVarOptions {
  VarOptions variable = {};  // Of each part.
  // Part i is on devices[i % devices.size()]. Empty: the scopes and device
  // functions decide (ReplicaDeviceSetter spreads the parts as it does
  // variables).
  std::vector<std::string> devices = {};
};

// The variable `name` in parts "<name>/part_0", ..., which GetVariable finds or
// makes: the current variable scope has its say, and a null partitioner is the
// scope's. If the number of parts does not divide the dimension, the first
// parts are longer by one. The initializer makes each part; fans
// (GlorotUniform) are those of the whole, and each part draws random numbers of
// its own. The nodes of the initializer belong
// to no loop, conditional or function body.
//
// InvalidArgument, recorded in the graph, if the shape is not valid, if there
// is no partitioner or it returns what it must not, or if existing parts
// differ.
PartitionedVar GetPartitionedVariable(
    const std::string& name, const Shape& shape,
    const VariablePartitioner& partitioner,
    const InitializerFn& initializer = nullptr, DType dtype = DType::kInvalid,
    const PartitionedVarOptions& options = {}, SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_PARTITIONED_VARIABLES_H_
