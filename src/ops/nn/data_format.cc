// Converting dimension numbers and sizes between layouts of images and volumes.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

// The layouts of a node. Immutable.
struct Formats {
  std::string from, to;

  static Result<Formats> Read(const Node& n) {
    Formats f;
    f.from = n.AttrOr<std::string>("src_format", "NHWC");
    f.to = n.AttrOr<std::string>("dst_format", "NCHW");
    if (f.from.size() != 4 && f.from.size() != 5)
      return InvalidArgument("src_format: expected 4 or 5 letters, got '",
                             f.from, "'");
    std::string a = f.from, b = f.to;
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    if (a != b || std::adjacent_find(a.begin(), a.end()) != a.end())
      return InvalidArgument(
          "dst_format: expected a permutation of the different letters of '",
          f.from, "', got '", f.to, "'");
    return f;
  }

  // For each letter of `from`, its position in `to`.
  std::vector<size_t> Places() const {
    std::vector<size_t> places;
    for (const char letter : from) places.push_back(to.find(letter));
    return places;
  }

  // The same for the spatial dimensions only.
  Formats Spatial() const {
    const auto strip = [](std::string s) {
      std::erase_if(s, [](char c) { return c == 'N' || c == 'C'; });
      return s;
    };
    return {strip(from), strip(to)};
  }
};

// ---- DataFormatDimMap -------------------------------------------------------

template <typename T>
Status MapDims(const Formats& f, const Tensor& x, Tensor* y) {
  const std::vector<size_t> places = f.Places();
  const auto rank = static_cast<int64_t>(places.size());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t at = x.raw<T>()[i];
    if (at < -rank || at >= rank)
      return InvalidArgument("x: expected dimensions in [", -rank, ", ", rank,
                             "), got ", at);
    y->raw<T>()[i] =
        static_cast<T>(places[static_cast<size_t>(at < 0 ? at + rank : at)]);
  }
  return OkStatus();
}

// ---- DataFormatVecPermute ---------------------------------------------------

Status RequirePermutable(const Formats& f, const PartialShape& x) {
  if (!x.rank_known()) return OkStatus();
  const auto full = static_cast<int64_t>(f.from.size());
  if (x.rank() != 1 && x.rank() != 2)
    return InvalidArgument("x: expected rank 1 or 2, got shape ", x.ToString());
  const int64_t n = x.dim(0);
  if (n >= 0 && n != full && n != full - 2)
    return InvalidArgument("x: expected ", full, " or ", full - 2,
                           " rows, got shape ", x.ToString());
  if (x.rank() == 2 && x.dim(1) >= 0 && x.dim(1) != 2)
    return InvalidArgument("x: expected two columns, got shape ", x.ToString());
  return OkStatus();
}

template <typename T>
Status PermuteRows(const Formats& f, const Tensor& x, Tensor* y) {
  SLUICE_RETURN_IF_ERROR(RequirePermutable(f, x.shape()));
  const Formats used =
      x.dim(0) == static_cast<int64_t>(f.from.size()) ? f : f.Spatial();
  if (x.dim(0) != static_cast<int64_t>(used.from.size()))
    return InvalidArgument("x: expected ", used.from.size(), " rows, as '",
                           f.from, "' has spatial dimensions, got ", x.dim(0));
  const std::vector<size_t> places = used.Places();
  const size_t width = x.rank() == 2 ? 2 : 1;
  for (size_t i = 0; i < places.size(); ++i)
    std::copy_n(x.raw<T>() + i * width, width, y->raw<T>() + places[i] * width);
  return OkStatus();
}

// ---- Both -------------------------------------------------------------------

// Run: MapDims or PermuteRows, for int32 or int64.
template <Status (*Run32)(const Formats&, const Tensor&, Tensor*),
          Status (*Run64)(const Formats&, const Tensor&, Tensor*)>
class FormatKernel {
 public:
  static Result<std::shared_ptr<FormatKernel>> Make(const Node& n) {
    auto k = std::make_shared<FormatKernel>();
    SLUICE_ASSIGN_OR_RETURN(k->formats_, Formats::Read(n));
    return k;
  }
  Status Run(KernelContext& ctx) const {
    const Tensor x = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, x.dtype(), x.shape()));
    return x.dtype() == DType::kInt32 ? Run32(formats_, x, &ctx.output(0))
                                      : Run64(formats_, x, &ctx.output(0));
  }

 private:
  Formats formats_;
};

Status DimMapShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(Formats::Read(c.node()).status());
  return UnchangedShape(c);
}

Status VecPermuteShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const Formats f, Formats::Read(c.node()));
  SLUICE_RETURN_IF_ERROR(RequirePermutable(f, c.input(0)));
  return UnchangedShape(c);
}

OpDefBuilder FormatOp(const char* name) {
  OpDefBuilder b(name);
  b.Input("x: T")
      .Output("y: T")
      .Attr("T: {int32, int64} = DT_INT32")
      .Attr("src_format: string = 'NHWC'")
      .Attr("dst_format: string = 'NCHW'")
      .Family("nn")
      .NoGradient("its outputs are integers");
  return b;
}

const OpRegistrar kFormatOps[] = {
    FormatOp("DataFormatDimMap")
        .Shape(DimMapShape)
        .Kernel(CpuState<FormatKernel<MapDims<int32_t>, MapDims<int64_t>>>())
        .Sample({{.shape = {4}, .values = {0, -1, 2, 1}}})
        .Doc("Converts dimension numbers from one data layout to another."),
    FormatOp("DataFormatVecPermute")
        .Shape(VecPermuteShape)
        .Kernel(CpuState<
                FormatKernel<PermuteRows<int32_t>, PermuteRows<int64_t>>>())
        .Sample({{.shape = {4}, .values = {2, 5, 6, 3}}})
        .Doc("Permutes sizes, strides or paddings from one data layout to "
             "another."),
};

}  // namespace
}  // namespace sluice
