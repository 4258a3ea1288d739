// Whole files, and names of files.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/file.h"
#include "io/glob.h"

namespace sluice {
namespace {

// The string of a scalar input.
Result<std::string> ScalarString(const KernelContext& ctx, int i,
                                 const char* what) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 0)
    return InvalidArgument(what, ": expected a scalar, got shape ",
                           t.shape().ToString());
  return t.raw_scalar<std::string>();
}

Status RunReadFile(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::string name,
                          ScalarString(ctx, 0, "filename"));
  SLUICE_ASSIGN_OR_RETURN(std::string contents, ReadFile(name));
  ctx.set_output(0, Tensor::Scalar(std::move(contents)));
  return OkStatus();
}

Status RunWriteFile(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::string name,
                          ScalarString(ctx, 0, "filename"));
  if (ctx.input(1).rank() != 0)
    return InvalidArgument("contents: expected a scalar, got shape ",
                           ctx.input(1).shape().ToString());
  // As in TensorFlow, the folder is made too. (If it cannot be, writing fails
  // and says so.)
  const std::filesystem::path folder =
      std::filesystem::path(LocalPath(name)).parent_path();
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  return WriteFile(name, ctx.input(1).raw_scalar<std::string>());
}

Status RunMatchingFiles(KernelContext& ctx) {
  const Tensor& patterns = ctx.input(0);
  if (patterns.rank() > 1)
    return InvalidArgument("pattern: expected a scalar or a vector, got shape ",
                           patterns.shape().ToString());
  std::vector<std::string> all;
  for (const std::string& pattern : patterns.raw_flat<std::string>()) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            MatchingFiles(pattern));
    all.insert(all.end(), names.begin(), names.end());
  }
  std::sort(all.begin(), all.end());
  SLUICE_ASSIGN_OR_RETURN(Tensor out, Tensor::MakeVector<std::string>(all));
  ctx.set_output(0, std::move(out));
  return OkStatus();
}

Status RunShardedFilename(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::string base,
                          ScalarString(ctx, 0, "basename"));
  for (const int i : {1, 2})
    if (ctx.input(i).rank() != 0)
      return InvalidArgument(i == 1 ? "shard" : "num_shards",
                             ": expected a scalar, got shape ",
                             ctx.input(i).shape().ToString());
  ctx.set_output(
      0, Tensor::Scalar(ShardedFilename(base, ctx.input(1).raw_scalar<int>(),
                                        ctx.input(2).raw_scalar<int>())));
  return OkStatus();
}

Status RunShardedFilespec(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::string base,
                          ScalarString(ctx, 0, "basename"));
  if (ctx.input(1).rank() != 0)
    return InvalidArgument("num_shards: expected a scalar, got shape ",
                           ctx.input(1).shape().ToString());
  ctx.set_output(
      0, Tensor::Scalar(ShardedFilespec(base, ctx.input(1).raw_scalar<int>())));
  return OkStatus();
}

// ---- Shapes -----------------------------------------------------------------

Status ScalarsToScalar(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i)
    SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
  c.set_all_outputs(PartialShape::Scalar());
  return OkStatus();
}

Status MatchingFilesShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(0, 1).status());
  c.set_output(0, PartialShape({-1}));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

std::string ReadsAFile(const Node&) { return "reads a file"; }

constexpr const char* kNames = "strings have no derivative";

SLUICE_OP(ReadFile)
    .Input("filename: string")
    .Output("contents: string")
    .Family("io")
    .ReachesHost(ReadsAFile)
    .Shape(ScalarsToScalar)
    .Kernel(Cpu(RunReadFile, /*expensive=*/true))
    .NoGradient(kNames)
    .Doc("Returns the contents of a file.");

SLUICE_OP(WriteFile)
    .Input("filename: string")
    .Input("contents: string")
    .Stateful()
    .Family("io")
    .ReachesHost([](const Node&) -> std::string { return "writes a file"; })
    .Shape(ScalarsToScalar)
    .Kernel(Cpu(RunWriteFile, /*expensive=*/true))
    .NoGradient(kNames)
    .Doc("Creates or replaces a file, and the folders it is in.");

SLUICE_OP(MatchingFiles)
    .Input("pattern: string")
    .Output("filenames: string")
    .Family("io")
    .ReachesHost([](const Node&) -> std::string { return "lists files"; })
    .Shape(MatchingFilesShape)
    .Kernel(Cpu(RunMatchingFiles, /*expensive=*/true))
    .NoGradient(kNames)
    .Doc("Returns the sorted paths that match any of the patterns.");

SLUICE_OP(ShardedFilename)
    .Input("basename: string")
    .Input("shard: int32")
    .Input("num_shards: int32")
    .Output("filename: string")
    .Family("io")
    .Shape(ScalarsToScalar)
    .Kernel(Cpu(RunShardedFilename))
    .NoGradient(kNames)
    .Sample({{.shape = {}, .dtype = DType::kString}, {.shape = {}}, {}})
    .Doc("Returns the name of one part of a file that is stored in several.");

SLUICE_OP(ShardedFilespec)
    .Input("basename: string")
    .Input("num_shards: int32")
    .Output("filename: string")
    .Family("io")
    .Shape(ScalarsToScalar)
    .Kernel(Cpu(RunShardedFilespec))
    .NoGradient(kNames)
    .Sample({{.shape = {}, .dtype = DType::kString}, {.shape = {}}})
    .Doc("Returns the pattern of all parts of a file stored in several.");

}  // namespace
}  // namespace sluice
