// Warm starts of matrices whose rows and columns stand for other words than in
// the checkpoint.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/byte_source.h"
#include "ops/checkpoint/inputs.h"

namespace sluice {
namespace {

using checkpoint_ops::OneString;

// ---- LoadAndRemapMatrix -----------------------------------------------------

// Where the old rows (or columns) go.
struct Remapping {
  std::unordered_map<int64_t, int64_t> new_of_old;
  std::vector<bool> present;  // By the new number.
};

Status ReadRemapping(const Tensor& t, const char* what, int64_t old_size,
                     Remapping* out) {
  const std::span<const int64_t> olds = t.raw_flat<int64_t>();
  out->present.assign(olds.size(), false);
  for (size_t i = 0; i < olds.size(); ++i) {
    if (olds[i] < 0) continue;
    if (olds[i] >= old_size)
      return InvalidArgument(what, ": expected ids below ", old_size,
                             ", the size in the checkpoint, got ", olds[i],
                             " for new id ", i);
    out->present[i] = true;
    const auto [it, is_new] =
        out->new_of_old.emplace(olds[i], static_cast<int64_t>(i));
    if (!is_new)
      return Unimplemented("Old ID ", olds[i], " is mapped to both new ID ",
                           it->second, " and ", i,
                           ", which is not currently supported.");
  }
  return OkStatus();
}

class LoadAndRemapMatrixKernel {
 public:
  // (max_rows_in_memory is not needed: the matrix is read piece by piece.)
  explicit LoadAndRemapMatrixKernel(const Node& n)
      : rows_(n.IntAttr("num_rows")), cols_(n.IntAttr("num_cols")) {}

  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const std::string path,
                            OneString(ctx, 0, "ckpt_path"));
    SLUICE_ASSIGN_OR_RETURN(const std::string name,
                            OneString(ctx, 1, "old_tensor_name"));
    const Tensor& row_ids = ctx.input(2);
    const Tensor& col_ids = ctx.input(3);
    for (const int i : {2, 3})
      if (ctx.input(i).rank() != 1)
        return InvalidArgument(i == 2 ? "row_remapping" : "col_remapping",
                               ": expected a vector, got shape ",
                               ctx.input(i).shape().ToString());
    if (row_ids.num_elements() != rows_)
      return InvalidArgument("Size of row_remapping is ",
                             row_ids.num_elements(),
                             " instead of being equal to num_rows=", rows_);
    const bool remaps_cols = col_ids.num_elements() > 0;
    if (remaps_cols && col_ids.num_elements() != cols_)
      return InvalidArgument("Provided col_remapping, but its size is ",
                             col_ids.num_elements(),
                             " instead of being equal to num_cols=", cols_);
    SLUICE_ASSIGN_OR_RETURN(const CheckpointReader reader,
                            CheckpointReader::Open(path));
    SLUICE_ASSIGN_OR_RETURN(const SavedTensor* old, reader.Find(name));
    if (old->dtype != DType::kFloat)
      return InvalidArgument("Tensor ", name, " has invalid type ",
                             DTypeName(old->dtype),
                             " instead of expected type float");
    if (old->shape.rank() != 2)
      return InvalidArgument("Tensor ", name, " has shape ",
                             old->shape.ToString(), " of invalid rank ",
                             old->shape.rank(),
                             " instead of expected shape of rank 2");
    if (!remaps_cols && old->shape.dim(1) != cols_)
      return InvalidArgument(
          "Tensor ", name, " has shape ", old->shape.ToString(),
          ", where the size of its 2nd dimension is ", old->shape.dim(1),
          " instead of being equal to num_cols=", cols_);
    Remapping rows, cols;
    SLUICE_RETURN_IF_ERROR(
        ReadRemapping(row_ids, "row_remapping", old->shape.dim(0), &rows));
    if (remaps_cols)
      SLUICE_RETURN_IF_ERROR(
          ReadRemapping(col_ids, "col_remapping", old->shape.dim(1), &cols));
    SLUICE_RETURN_IF_ERROR(
        ctx.Allocate(0, DType::kFloat, Shape({rows_, cols_})));
    float* const out = ctx.output(0).raw<float>();
    const auto put = [&](int64_t row, int64_t col, float value) {
      const auto r = rows.new_of_old.find(row);
      if (r == rows.new_of_old.end()) return;
      if (remaps_cols) {
        const auto c = cols.new_of_old.find(col);
        if (c == cols.new_of_old.end()) return;
        col = c->second;
      }
      out[r->second * cols_ + col] = value;
    };
    if (!rows.new_of_old.empty())
      SLUICE_RETURN_IF_ERROR(ForEachElement(reader, name, *old, put));
    return FillMissing(ctx.input(4), rows, cols, remaps_cols, out);
  }

 private:
  // A matrix that is stored whole is read piece by piece, another part by part.
  template <typename Fn>
  static Status ForEachElement(const CheckpointReader& reader,
                               const std::string& name, const SavedTensor& old,
                               const Fn& put) {
    if (old.slices.size() == 1) {
      const int64_t width = old.shape.dim(1);
      int64_t row = 0, col = 0;
      return reader.ForEachPiece(name, [&](std::string_view bytes) {
        for (; !bytes.empty(); bytes.remove_prefix(sizeof(float))) {
          float value = 0;
          std::memcpy(&value, bytes.data(), sizeof(float));
          put(row, col, value);
          if (++col == width) {
            col = 0;
            ++row;
          }
        }
        return OkStatus();
      });
    }
    for (const TensorSlice& slice : old.slices) {
      SLUICE_ASSIGN_OR_RETURN(const Tensor part, reader.ReadSlice(name, slice));
      const float* value = part.raw<float>();
      for (int64_t r = 0; r < part.dim(0); ++r)
        for (int64_t c = 0; c < part.dim(1); ++c)
          put(slice.extents()[0].start + r, slice.extents()[1].start + c,
              *value++);
    }
    return OkStatus();
  }

  Status FillMissing(const Tensor& initial, const Remapping& rows,
                     const Remapping& cols, bool remaps_cols,
                     float* out) const {
    const std::span<const float> values = initial.raw_flat<float>();
    size_t used = 0;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < cols_; ++c) {
        if (rows.present[static_cast<size_t>(r)] &&
            (!remaps_cols || cols.present[static_cast<size_t>(c)]))
          continue;
        if (used == values.size())
          return InvalidArgument("initializing_values contained ",
                                 values.size(),
                                 " elements, but more missing values remain.");
        out[r * cols_ + c] = values[used++];
      }
    if (used == values.size()) return OkStatus();
    return InvalidArgument("initializing_values contained ", values.size(),
                           " elements, but only ", used,
                           " elements were used to fill in missing values.");
  }

  const int64_t rows_, cols_;
};

// ---- GenerateVocabRemapping -------------------------------------------------

// The lines of a file, at most `most` of them (-1: all).
Result<std::vector<std::string>> VocabularyOf(const std::string& path,
                                              int64_t most) {
  SLUICE_ASSIGN_OR_RETURN(auto source, OpenFileSource(path));
  BufferedBytes bytes(std::move(source));
  std::vector<std::string> lines;
  while (most < 0 || static_cast<int64_t>(lines.size()) < most) {
    std::string_view line;
    SLUICE_ASSIGN_OR_RETURN(const bool more,
                            bytes.ReadLine(&line, size_t{1} << 30));
    if (!more) break;
    lines.emplace_back(line);
  }
  return lines;
}

class GenerateVocabRemappingKernel {
 public:
  explicit GenerateVocabRemappingKernel(const Node& n)
      : offset_(n.IntAttr("new_vocab_offset")),
        count_(n.IntAttr("num_new_vocab")),
        old_size_(n.IntAttr("old_vocab_size")) {}

  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const std::string new_path,
                            OneString(ctx, 0, "new_vocab_file"));
    SLUICE_ASSIGN_OR_RETURN(const std::string old_path,
                            OneString(ctx, 1, "old_vocab_file"));
    int64_t last = 0;
    if (__builtin_add_overflow(offset_, count_, &last)) last = INT64_MAX;
    SLUICE_ASSIGN_OR_RETURN(const auto words, VocabularyOf(new_path, last));
    if (static_cast<int64_t>(words.size()) < last)
      return InvalidArgument(
          "lookup table size must be larger than the last new vocab entry's "
          "line: file '",
          new_path, "': expected at least ", last, " lines, got ",
          words.size());
    SLUICE_ASSIGN_OR_RETURN(const auto olds, VocabularyOf(old_path, old_size_));
    if (static_cast<int64_t>(olds.size()) < old_size_)
      return InvalidArgument("file '", old_path,
                             "': expected old_vocab_size=", old_size_,
                             " lines, got ", olds.size());
    std::unordered_map<std::string, int64_t> ids;
    for (size_t i = 0; i < olds.size(); ++i) {
      const auto [it, is_new] = ids.emplace(olds[i], static_cast<int64_t>(i));
      if (!is_new)
        return InvalidArgument("file '", old_path,
                               "': expected each line once, got '", olds[i],
                               "' in lines ", it->second + 1, " and ", i + 1);
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kInt64, Shape({count_})));
    int32_t present = 0;
    for (int64_t i = 0; i < count_; ++i) {
      const auto it = ids.find(words[static_cast<size_t>(offset_ + i)]);
      ctx.output(0).raw<int64_t>()[i] = it == ids.end() ? -1 : it->second;
      present += it == ids.end() ? 0 : 1;
    }
    ctx.set_output(1, Tensor::Scalar(present));
    return OkStatus();
  }

 private:
  const int64_t offset_, count_, old_size_;
};

// ---- Shapes -----------------------------------------------------------------

Status LoadAndRemapMatrixShape(ShapeContext& c) {
  // (As in TensorFlow, the path may be in a vector.)
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  SLUICE_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(3, 1).status());
  c.set_output(0, PartialShape({c.node().IntAttr("num_rows"),
                                c.node().IntAttr("num_cols")}));
  return OkStatus();
}

Status GenerateVocabRemappingShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  c.set_output(0, PartialShape({c.node().IntAttr("num_new_vocab")}));
  c.set_output(1, PartialShape::Scalar());
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(LoadAndRemapMatrix)
    .Input("ckpt_path: string")
    .Input("old_tensor_name: string")
    .Input("row_remapping: int64")
    .Input("col_remapping: int64")
    .Input("initializing_values: float")
    .Output("output_matrix: float")
    .Attr("num_rows: int >= 0")
    .Attr("num_cols: int >= 1")
    .Attr("max_rows_in_memory: int = -1")
    .Stateful(kDiffersEachTime)
    .Family("io")
    .ReachesHost([](const Node&) -> std::string {
      return "reads a checkpoint";
    })
    .Shape(LoadAndRemapMatrixShape)
    .Kernel(CpuState<LoadAndRemapMatrixKernel>(/*expensive=*/true))
    .NoGradient("it reads a constant from a file")
    .Doc(
        "Reads a matrix from a checkpoint with its rows and columns in another "
        "order; new ones get the initializing values.");

SLUICE_OP(GenerateVocabRemapping)
    .Input("new_vocab_file: string")
    .Input("old_vocab_file: string")
    .Output("remapping: int64")
    .Output("num_present: int32")
    .Attr("new_vocab_offset: int >= 0")
    .Attr("num_new_vocab: int >= 0")
    .Attr("old_vocab_size: int >= -1 = -1")
    .Family("io")
    .ReachesHost([](const Node&) -> std::string { return "reads files"; })
    .Shape(GenerateVocabRemappingShape)
    .Kernel(CpuState<GenerateVocabRemappingKernel>(/*expensive=*/true))
    .NoGradient("its inputs are names of files")
    .Doc(
        "Returns the line of the old vocabulary for lines of the new one, -1 "
        "for new words, and how many are not new.");

}  // namespace
}  // namespace sluice
