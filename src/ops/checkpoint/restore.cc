// Restoring tensors from checkpoints of either version.
#include <string>
#include <vector>

#include "base/parallel.h"
#include "checkpoint/checkpoint_reader.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/checkpoint/inputs.h"

namespace sluice {
namespace {

using checkpoint_ops::OneString;
using checkpoint_ops::VectorOf;

// What to read for a tensor of which `text` describes the part; "": all.
// InvalidArgument if the checkpoint has another type or shape.
Result<CheckpointReader::Request> RequestOf(const CheckpointReader& reader,
                                            const std::string& name,
                                            const std::string& text,
                                            DType dtype) {
  SLUICE_ASSIGN_OR_RETURN(const SavedTensor* saved, reader.Find(name));
  if (saved->dtype != dtype)
    return InvalidArgument("tensor_name = ", name, "; expected dtype ",
                           DTypeName(dtype), " does not equal original dtype ",
                           DTypeName(saved->dtype));
  if (text.empty()) return CheckpointReader::Request{.name = name};
  SLUICE_ASSIGN_OR_RETURN(ShapeAndSlice part, ParseShapeAndSlice(text));
  if (!(part.shape == saved->shape))
    return InvalidArgument("tensor_name = ", name,
                           "; shape in shape_and_slice spec ",
                           part.shape.ToString(),
                           " does not match the shape stored in checkpoint: ",
                           saved->shape.ToString());
  return CheckpointReader::Request{
      .name = name, .slice = std::move(part.slice), .whole = false};
}

class RestoreV2Kernel {
 public:
  explicit RestoreV2Kernel(const Node& n)
      : dtypes_(n.AttrOr<std::vector<DType>>("dtypes", {})) {}

  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const std::string prefix,
                            OneString(ctx, 0, "prefix"));
    const auto tensors = static_cast<int64_t>(dtypes_.size());
    for (const int i : {1, 2})
      if (ctx.input(i).rank() != 1 || ctx.input(i).num_elements() != tensors)
        return InvalidArgument(i == 1 ? "tensor_names" : "shape_and_slices",
                               ": expected a vector of ", tensors,
                               ", got shape ", ctx.input(i).shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(const CheckpointReader reader,
                            CheckpointReader::Open(prefix));
    std::vector<CheckpointReader::Request> requests;
    for (size_t i = 0; i < dtypes_.size(); ++i) {
      SLUICE_ASSIGN_OR_RETURN(
          CheckpointReader::Request r,
          RequestOf(reader, ctx.input(1).raw<std::string>()[i],
                    ctx.input(2).raw<std::string>()[i], dtypes_[i]));
      requests.push_back(std::move(r));
    }
    SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> read,
                            reader.ReadMany(requests, IntraOpThreads()));
    for (size_t i = 0; i < read.size(); ++i)
      ctx.set_output(static_cast<int>(i), std::move(read[i]));
    return OkStatus();
  }

 private:
  const std::vector<DType> dtypes_;
};

// Restore and RestoreSlice, which read checkpoints of either version.
class RestoreKernel {
 public:
  explicit RestoreKernel(const Node& n)
      : dtype_(n.TypeAttr("dt")), has_slice_(n.num_inputs() == 3) {}

  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const std::string pattern,
                            OneString(ctx, 0, "file_pattern"));
    SLUICE_ASSIGN_OR_RETURN(const std::string name,
                            OneString(ctx, 1, "tensor_name"));
    std::string text;
    if (has_slice_) {
      SLUICE_ASSIGN_OR_RETURN(text, OneString(ctx, 2, "shape_and_slice"));
    }
    SLUICE_ASSIGN_OR_RETURN(const CheckpointReader reader,
                            CheckpointReader::Open(pattern));
    SLUICE_ASSIGN_OR_RETURN(CheckpointReader::Request request,
                            RequestOf(reader, name, text, dtype_));
    SLUICE_ASSIGN_OR_RETURN(
        std::vector<Tensor> read,
        reader.ReadMany({std::move(request)}, IntraOpThreads()));
    ctx.set_output(0, std::move(read[0]));
    return OkStatus();
  }

 private:
  const DType dtype_;
  const bool has_slice_;
};

// ---- Shapes -----------------------------------------------------------------

// The shape that a text describes; unknown for "".
Result<PartialShape> RestoredShape(const std::string& text) {
  if (text.empty()) return PartialShape();
  SLUICE_ASSIGN_OR_RETURN(const ShapeAndSlice part, ParseShapeAndSlice(text));
  return PartialShape(part.slice_shape);
}

Status RestoreV2Shape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(VectorOf(c, 1, c.num_outputs()));
  SLUICE_RETURN_IF_ERROR(VectorOf(c, 2, c.num_outputs()));
  c.set_all_outputs(PartialShape());
  const Tensor* const texts = c.constant(2);
  if (texts == nullptr || texts->num_elements() != c.num_outputs())
    return OkStatus();
  for (int i = 0; i < c.num_outputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(PartialShape shape,
                            RestoredShape(texts->raw<std::string>()[i]));
    c.set_output(i, std::move(shape));
  }
  return OkStatus();
}

Status RestoreShape(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i)
    SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
  c.set_output(0, PartialShape());
  const Tensor* const text = c.num_inputs() == 3 ? c.constant(2) : nullptr;
  if (text == nullptr || text->num_elements() != 1) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(PartialShape shape,
                          RestoredShape(text->raw_scalar<std::string>()));
  c.set_output(0, std::move(shape));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

std::string ReadsCheckpoint(const Node&) { return "reads a checkpoint"; }
constexpr const char* kNoInputs = "its inputs are names";

SLUICE_OP(RestoreV2)
    .Input("prefix: string")
    .Input("tensor_names: string")
    .Input("shape_and_slices: string")
    .Output("tensors: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .Stateful(kDiffersEachTime)
    .Family("io")
    .ReachesHost(ReadsCheckpoint)
    .Shape(RestoreV2Shape)
    .Kernel(CpuState<RestoreV2Kernel>(/*expensive=*/true))
    .NoGradient(kNoInputs)
    .Doc(
        "Reads tensors, or slices of them, from a checkpoint of either "
        "version, however they are divided there.");

SLUICE_OP(Restore)
    .Input("file_pattern: string")
    .Input("tensor_name: string")
    .Output("tensor: dt")
    .Attr("dt: type")
    .Attr("preferred_shard: int = -1")
    .Stateful(kDiffersEachTime)
    .Family("io")
    .ReachesHost(ReadsCheckpoint)
    .Shape(RestoreShape)
    .Kernel(CpuState<RestoreKernel>(/*expensive=*/true))
    .NoGradient(kNoInputs)
    .Doc("Reads a tensor from the checkpoint whose files match the pattern.");

SLUICE_OP(RestoreSlice)
    .Input("file_pattern: string")
    .Input("tensor_name: string")
    .Input("shape_and_slice: string")
    .Output("tensor: dt")
    .Attr("dt: type")
    .Attr("preferred_shard: int = -1")
    .Stateful(kDiffersEachTime)
    .Family("io")
    .ReachesHost(ReadsCheckpoint)
    .Shape(RestoreShape)
    .Kernel(CpuState<RestoreKernel>(/*expensive=*/true))
    .NoGradient(kNoInputs)
    .Doc(
        "Reads a slice of a tensor from the checkpoint whose files match the "
        "pattern.");

}  // namespace
}  // namespace sluice
