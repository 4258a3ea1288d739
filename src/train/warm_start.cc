#include "train/warm_start.h"

#include <algorithm>

#include "checkpoint/tensor_slice.h"
#include "client/operators.h"
#include "client/partitioned_variables.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

Output Text(const std::string& value) {
  return Constant(Tensor::Scalar<std::string>(value));
}

// Where the rows of a variable, which may be a part, are within the whole.
struct Rows {
  int64_t whole = 0, first = 0, count = 0;
};
Result<Rows> RowsOf(const Shape& shape, const std::string& shape_and_slice) {
  Rows rows = {shape.dim(0), 0, shape.dim(0)};
  if (shape_and_slice.empty()) return rows;
  SLUICE_ASSIGN_OR_RETURN(const ShapeAndSlice part,
                          ParseShapeAndSlice(shape_and_slice));
  if (part.slice_shape != shape || part.slice_shape.dim(1) != part.shape.dim(1))
    return InvalidArgument("warm start: expected a part of whole rows, ",
                           shape.ToString(), ", got '", shape_and_slice, "'");
  return Rows{part.shape.dim(0), part.slice.extents()[0].start, shape.dim(0)};
}

// A float matrix whose words are those of a checkpoint, in another order.
class RemappedMatrix {
 public:
  RemappedMatrix(const std::string& checkpoint, const std::string& name,
                 const VocabularyChange& change)
      : checkpoint_(checkpoint), name_(name), change_(change) {}

  Output Build(const Shape& shape, const Rows& rows) const {
    return change_.axis == 0 ? ByRows(shape, rows) : ByColumns(shape, rows);
  }

 private:
  Output ByRows(const Shape& shape, const Rows& rows) const {
    const int64_t width = shape.dim(1);
    const int64_t known =
        std::clamp(change_.new_size - rows.first, int64_t{0}, rows.count);
    std::vector<Output> parts;
    if (known > 0) {
      const auto ids = Remapping(rows.first, known);
      parts.push_back(Matrix(
          ids.remapping, Constant(Tensor(DType::kInt64, {0})),
          ops::Cast(ids.num_present, DType::kInt64) * width, known, width));
    }
    if (known < rows.count) parts.push_back(Others(rows.count - known, width));
    return parts.size() == 1 ? parts[0] : ops::ConcatV2(parts, 0);
  }
  Output ByColumns(const Shape& shape, const Rows& rows) const {
    const auto ids = Remapping(0, change_.new_size);
    std::vector<int64_t> all(static_cast<size_t>(rows.count));
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = rows.first + static_cast<int64_t>(i);
    std::vector<Output> parts = {
        Matrix(Constant(Tensor::Vector<int64_t>(all)), ids.remapping,
               ops::Cast(ids.num_present, DType::kInt64) * rows.count,
               rows.count, change_.new_size)};
    if (change_.new_size < shape.dim(1))
      parts.push_back(Others(rows.count, shape.dim(1) - change_.new_size));
    return parts.size() == 1 ? parts[0] : ops::ConcatV2(parts, 1);
  }
  // The old lines of new ones.
  ops::GenerateVocabRemappingOutputs Remapping(int64_t first,
                                               int64_t count) const {
    return ops::GenerateVocabRemapping(
        Text(change_.new_vocabulary), Text(change_.old_vocabulary), first,
        count, {.old_vocab_size = change_.old_size});
  }
  // Of which `present` elements are in the checkpoint.
  Output Matrix(const Output& rows, const Output& columns,
                const Output& present, int64_t height, int64_t width) const {
    const Output missing = Constant(height * width) - present;
    const Output others = ops::Slice(ops::Reshape(Others(height, width), {-1}),
                                     Constant(Tensor::Vector<int64_t>({0})),
                                     ops::Pack({missing}));
    return ops::LoadAndRemapMatrix(Text(checkpoint_), Text(name_), rows,
                                   columns, others, height, width);
  }
  Output Others(int64_t height, int64_t width) const {
    const Shape shape({height, width});
    return change_.other_values ? change_.other_values(shape, DType::kFloat)
                                : Zeros(shape, DType::kFloat, {});
  }

  const std::string &checkpoint_, &name_;
  const VocabularyChange& change_;
};

Status CheckChange(const Var& variable, const VocabularyChange& change) {
  if (change.axis != 0 && change.axis != 1)
    return InvalidArgument("warm start: expected axis 0 or 1, got ",
                           change.axis);
  if (change.new_size < 1 || change.oov_rows < 0 || change.old_size < -1)
    return InvalidArgument(
        "warm start: expected new_size of at least 1, oov_rows of at least 0 "
        "and old_size of at least -1, got ",
        change.new_size, ", ", change.oov_rows, " and ", change.old_size);
  if (variable.dtype() != DType::kFloat || variable.shape().rank() != 2 ||
      !variable.shape().fully_known())
    return InvalidArgument(
        "warm start: expected a float matrix of a known shape, got ",
        DTypeName(variable.dtype()), " ", variable.shape().ToString(),
        "; variable '", variable.name(), "'");
  return OkStatus();
}

Result<Output> Remapped(const std::string& checkpoint, const Var& variable,
                        const std::string& name,
                        const std::string& shape_and_slice,
                        const VocabularyChange& change) {
  SLUICE_RETURN_IF_ERROR(CheckChange(variable, change));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, variable.shape().ToShape());
  SLUICE_ASSIGN_OR_RETURN(const Rows rows, RowsOf(shape, shape_and_slice));
  const int64_t size = change.axis == 0 ? rows.whole : shape.dim(1);
  if (size - change.new_size != change.oov_rows)
    return InvalidArgument(
        "warm start: expected ", change.axis == 0 ? "rows" : "columns",
        " for a vocabulary of ", change.new_size, " and ", change.oov_rows,
        " other words, got ", size, "; variable '", variable.name(), "'");
  return RemappedMatrix(checkpoint, name, change).Build(shape, rows);
}

}  // namespace

Output SavedValue(const std::string& checkpoint, const Var& variable,
                  const std::string& name, const std::string& shape_and_slice,
                  const std::optional<VocabularyChange>& vocabulary,
                  SourceLoc loc) {
  const AtLine at(loc);
  if (!variable.valid())
    return BuildError(
        InvalidArgument("warm start: expected a variable, got none"));
  if (vocabulary.has_value()) {
    const NameScope scope("checkpoint_initializer");
    const Result<Output> value =
        Remapped(checkpoint, variable, name, shape_and_slice, *vocabulary);
    return value.ok() ? *value : BuildError(value.status());
  }
  const auto strings = [](const std::string& s) {
    return Constant(Tensor::Vector<std::string>({s}));
  };
  Node* const restore = BuildNode(
      "RestoreV2", {Text(checkpoint), strings(name), strings(shape_and_slice)},
      {{"dtypes", std::vector<DType>{variable.dtype()}}},
      "checkpoint_initializer");
  return OrFailure(restore);
}

Node* WarmStart(const std::string& checkpoint,
                const std::vector<WarmStartVariable>& variables,
                SourceLoc loc) {
  const AtLine at(loc);
  const NoControlDependencies alone;
  const NameScope scope("warm_start");
  std::vector<Node*> assigned;
  for (const WarmStartVariable& v : variables) {
    std::string name = v.name, slice;
    if (v.variable.valid()) {
      const std::optional<VariablePart> part = PartOf(v.variable);
      if (name.empty()) name = part ? part->name : v.variable.name();
      if (part) slice = part->ShapeAndSlice();
    }
    const Output value =
        SavedValue(checkpoint, v.variable, name, slice, v.vocabulary, loc);
    if (!value.valid()) return nullptr;
    assigned.push_back(v.variable.Assign(value, loc));
    if (assigned.back() == nullptr) return nullptr;
  }
  return Group(assigned, scope.prefix() + "/", loc);
}

}  // namespace sluice
