// Saving tensors: SaveV2 and the merging of what several devices saved, and the
// ops of version 1.
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/bundle_writer.h"
#include "checkpoint/version1.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/file.h"
#include "ops/checkpoint/inputs.h"

namespace sluice {
namespace {

using checkpoint_ops::OneString;
using checkpoint_ops::VectorOf;

// Checks the vectors of names and of slices, and returns the number of tensors.
// `slices`: the input, or -1.
Result<int> SavedTensors(const KernelContext& ctx, int slices, int first) {
  const Tensor& names = ctx.input(1);
  const int tensors = ctx.num_inputs() - first;
  for (const int i : {1, slices}) {
    if (i < 0) continue;
    const Tensor& t = ctx.input(i);
    const char* const what = i == 1 ? "tensor_names" : "shape_and_slices";
    if (t.rank() != 1)
      return InvalidArgument("Input ", what, " should be a 1-D tensor, got ",
                             t.shape().ToString(), " instead.");
    if (t.num_elements() != names.num_elements())
      return InvalidArgument(
          "tensor_names and shape_and_slices have different number of "
          "elements: ",
          names.num_elements(), " vs. ", t.num_elements());
  }
  if (names.num_elements() != tensors)
    return InvalidArgument("Got ", names.num_elements(), " tensor names but ",
                           tensors, " tensors.");
  return tensors;
}

// The part that a text describes; "": all of the tensor.
Result<ShapeAndSlice> SavedSlice(const std::string& text, const Tensor& t) {
  if (text.empty())
    return ShapeAndSlice{t.shape(), TensorSlice(t.rank()), t.shape()};
  SLUICE_ASSIGN_OR_RETURN(ShapeAndSlice part, ParseShapeAndSlice(text));
  if (!(part.slice_shape == t.shape()))
    return InvalidArgument(
        "Slice in shape_and_slice specification does not match the shape of "
        "the tensor to save: ",
        text, ", tensor: ", t.shape().ToString());
  return part;
}

Status RunSaveV2(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::string prefix,
                          OneString(ctx, 0, "prefix"));
  SLUICE_ASSIGN_OR_RETURN(const int tensors, SavedTensors(ctx, 2, 3));
  SLUICE_ASSIGN_OR_RETURN(const auto writer, BundleWriter::Open(prefix));
  for (int i = 0; i < tensors; ++i) {
    if (ctx.cancelled()) return Cancelled("the step was cancelled");
    const std::string& name = ctx.input(1).raw<std::string>()[i];
    const std::string& text = ctx.input(2).raw<std::string>()[i];
    const Tensor& t = ctx.input(3 + i);
    if (text.empty()) {
      SLUICE_RETURN_IF_ERROR(writer->Add(name, t));
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(const ShapeAndSlice part, SavedSlice(text, t));
    SLUICE_RETURN_IF_ERROR(writer->AddSlice(name, part.shape, part.slice, t));
  }
  return writer->Finish();
}

Status SaveVersion1(KernelContext& ctx, int slices, int first) {
  SLUICE_ASSIGN_OR_RETURN(const std::string path,
                          OneString(ctx, 0, "filename"));
  SLUICE_ASSIGN_OR_RETURN(const int count, SavedTensors(ctx, slices, first));
  std::vector<Version1Tensor> tensors;
  for (int i = 0; i < count; ++i) {
    const Tensor& t = ctx.input(first + i);
    SLUICE_ASSIGN_OR_RETURN(
        ShapeAndSlice part,
        SavedSlice(slices < 0 ? "" : ctx.input(slices).raw<std::string>()[i],
                   t));
    tensors.push_back({ctx.input(1).raw<std::string>()[i],
                       std::move(part.shape), std::move(part.slice), t});
  }
  return WriteVersion1(path, tensors);
}
Status RunSave(KernelContext& ctx) { return SaveVersion1(ctx, -1, 2); }
Status RunSaveSlices(KernelContext& ctx) { return SaveVersion1(ctx, 2, 3); }

class MergeCheckpointsKernel {
 public:
  explicit MergeCheckpointsKernel(const Node& n)
      : delete_old_dirs_(n.BoolAttr("delete_old_dirs")),
        allow_missing_files_(n.BoolAttr("allow_missing_files")) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& prefixes = ctx.input(0);
    if (prefixes.rank() != 1)
      return InvalidArgument(
          "Input checkpoint_prefixes should be an 1-D tensor, got ",
          prefixes.shape().ToString(), " instead.");
    if (ctx.input(1).rank() != 0)
      return InvalidArgument(
          "Input destination_prefix should be a scalar tensor, got ",
          ctx.input(1).shape().ToString(), " instead.");
    const std::string& merged = ctx.input(1).raw_scalar<std::string>();
    SLUICE_RETURN_IF_ERROR(MergeBundles(prefixes.ToVector<std::string>(),
                                        merged, allow_missing_files_));
    if (!delete_old_dirs_) return OkStatus();
    for (const std::string& prefix : prefixes.raw_flat<std::string>()) {
      const std::string folder = FolderOf(LocalPath(prefix));
      // (As in TensorFlow, a folder that is not empty stays.)
      std::error_code ignored;
      if (folder != FolderOf(LocalPath(merged)))
        std::filesystem::remove(folder, ignored);
    }
    return OkStatus();
  }

 private:
  const bool delete_old_dirs_, allow_missing_files_;
};

// ---- Shapes -----------------------------------------------------------------

Status SaveShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  return VectorOf(c, 1, c.num_inputs() - 2);
}

Status SaveSlicesShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(VectorOf(c, 1, c.num_inputs() - 3));
  return VectorOf(c, 2, c.num_inputs() - 3);
}

Status MergeCheckpointsShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  return c.RequireScalar(1);
}

// ---- Declarations -----------------------------------------------------------

std::string WritesCheckpoint(const Node&) { return "writes a checkpoint"; }
constexpr const char* kNoOutputs = "it has no outputs";

SLUICE_OP(SaveV2)
    .Input("prefix: string")
    .Input("tensor_names: string")
    .Input("shape_and_slices: string")
    .Input("tensors: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .Stateful()
    .Family("io")
    .HostOnly()
    .ReachesHost(WritesCheckpoint)
    .Shape(SaveSlicesShape)
    .Kernel(Cpu(RunSaveV2, /*expensive=*/true))
    .NoGradient(kNoOutputs)
    .Doc(
        "Writes tensors, or slices of them, to a checkpoint of version 2, "
        "which replaces any other there once it is complete and on disk.");

SLUICE_OP(MergeV2Checkpoints)
    .Input("checkpoint_prefixes: string")
    .Input("destination_prefix: string")
    .Attr("delete_old_dirs: bool = true")
    .Attr("allow_missing_files: bool = false")
    .Stateful()
    .Family("io")
    .HostOnly()
    .ReachesHost([](const Node&) -> std::string {
      return "renames and deletes files of checkpoints";
    })
    .Shape(MergeCheckpointsShape)
    .Kernel(CpuState<MergeCheckpointsKernel>(/*expensive=*/true))
    .NoGradient(kNoOutputs)
    .Doc(
        "Makes one checkpoint of the parts that several devices saved, by "
        "renaming their files.");

SLUICE_OP(Save)
    .Input("filename: string")
    .Input("tensor_names: string")
    .Input("data: T")
    .Attr("T: list(type) >= 1")
    .Stateful()
    .Family("io")
    .HostOnly()
    .ReachesHost(WritesCheckpoint)
    .Shape(SaveShape)
    .Kernel(Cpu(RunSave, /*expensive=*/true))
    .NoGradient(kNoOutputs)
    .Doc(
        "Writes tensors to a checkpoint of version 1, a single file, in which "
        "each tensor may have up to 2 GB.");

SLUICE_OP(SaveSlices)
    .Input("filename: string")
    .Input("tensor_names: string")
    .Input("shapes_and_slices: string")
    .Input("data: T")
    .Attr("T: list(type) >= 1")
    .Stateful()
    .Family("io")
    .HostOnly()
    .ReachesHost(WritesCheckpoint)
    .Shape(SaveSlicesShape)
    .Kernel(Cpu(RunSaveSlices, /*expensive=*/true))
    .NoGradient(kNoOutputs)
    .Doc("Writes slices of tensors to a checkpoint of version 1.");

}  // namespace
}  // namespace sluice
