// Moving blocks of the spatial dimensions to the batch or the channels, and
// back.
#include <algorithm>

#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"

namespace sluice {
namespace {

using array::At;
using array::DimsOf;
using array::IntAt;
using array::SpanOf;

// ---- SpaceToBatch, BatchToSpace ---------------------------------------------

// The arguments of such an op: block sizes of dimensions 1.., and the padding
// that is added there (or, in the reverse direction, cropped).
struct Blocks {
  Dims size, before, after;
  size_t rank() const { return size.size(); }
};

Result<Blocks> ReadBlocks(const Dims& size, const Tensor& border, int rank) {
  Blocks b;
  b.size = size;
  const auto m = static_cast<int64_t>(size.size());
  if (rank < m + 1)
    return InvalidArgument("input: expected rank at least ", m + 1,
                           " for blocks of ", m, " dimensions, got ", rank);
  if (border.rank() != 2 || border.dim(0) != m || border.dim(1) != 2)
    return InvalidArgument("paddings or crops: expected shape [", m,
                           ",2], got ", border.shape().ToString());
  for (int64_t i = 0; i < m; ++i) {
    if (size[static_cast<size_t>(i)] < 1)
      return InvalidArgument("block_shape: expected sizes >= 1, got ",
                             size[static_cast<size_t>(i)]);
    b.before.push_back(IntAt(border, 2 * i));
    b.after.push_back(IntAt(border, 2 * i + 1));
    if (b.before.back() < 0 || b.after.back() < 0)
      return InvalidArgument("paddings or crops: expected amounts >= 0, got (",
                             b.before.back(), ", ", b.after.back(), ")");
  }
  return b;
}

// The product of the block sizes.
Result<int64_t> BlockCount(const Blocks& b) {
  int64_t n = 1;
  for (int64_t s : b.size) {
    SLUICE_ASSIGN_OR_RETURN(n, array::MultiplyDims(n, s));
  }
  return n;
}

// Result dims; unknown ones are -1.
Result<Dims> SpaceToBatchDims(const Dims& in, const Blocks& b) {
  Dims out = in;
  SLUICE_ASSIGN_OR_RETURN(const int64_t count, BlockCount(b));
  SLUICE_ASSIGN_OR_RETURN(out[0], array::MultiplyDims(in[0], count));
  for (size_t i = 0; i < b.rank(); ++i) {
    if (in[i + 1] < 0) continue;
    SLUICE_ASSIGN_OR_RETURN(int64_t d, array::AddDims(in[i + 1], b.before[i]));
    SLUICE_ASSIGN_OR_RETURN(d, array::AddDims(d, b.after[i]));
    if (d % b.size[i] != 0)
      return InvalidArgument("input: expected padded dimension ", i + 1,
                             " to be a multiple of the block size ", b.size[i],
                             ", got ", d);
    out[i + 1] = d / b.size[i];
  }
  return out;
}

Result<Dims> BatchToSpaceDims(const Dims& in, const Blocks& b) {
  Dims out = in;
  SLUICE_ASSIGN_OR_RETURN(const int64_t count, BlockCount(b));
  if (in[0] >= 0) {
    if (in[0] % count != 0)
      return InvalidArgument("input: expected a batch that is a multiple of ",
                             count, ", the size of a block, got ", in[0]);
    out[0] = in[0] / count;
  }
  for (size_t i = 0; i < b.rank(); ++i) {
    if (in[i + 1] < 0) continue;
    SLUICE_ASSIGN_OR_RETURN(int64_t d,
                            array::MultiplyDims(in[i + 1], b.size[i]));
    SLUICE_ASSIGN_OR_RETURN(const int64_t crop,
                            array::AddDims(b.before[i], b.after[i]));
    if (crop > d)
      return InvalidArgument("crops: expected at most ", d, " for dimension ",
                             i + 1, ", got ", crop);
    out[i + 1] = d - crop;
  }
  return out;
}

// A copy between `space` [batch, s0.., rest] (a dense tensor whose s are
// multiples of the blocks) and `batch` [blocks.., batch, s/block.., rest].
struct BlockCopy {
  Dims dims, space, batch;  // Loop sizes and strides of both sides.

  BlockCopy(const Dims& space_dims, const Blocks& b) {
    const Dims strides = array::DenseStrides(SpanOf(space_dims));
    for (size_t i = 0; i < b.rank(); ++i) {
      dims.push_back(b.size[i]);
      space.push_back(strides[i + 1]);
    }
    dims.push_back(space_dims[0]);
    space.push_back(strides[0]);
    for (size_t i = 0; i < b.rank(); ++i) {
      dims.push_back(space_dims[i + 1] / b.size[i]);
      space.push_back(strides[i + 1] * b.size[i]);
    }
    for (size_t i = b.rank() + 1; i < space_dims.size(); ++i) {
      dims.push_back(space_dims[i]);
      space.push_back(strides[i]);
    }
    batch = array::DenseStrides(SpanOf(dims));
  }
};

// The offset of the part without padding, and whether there is one.
bool Interior(const Dims& outer, const Blocks& b, int64_t* offset) {
  const Dims strides = array::DenseStrides(SpanOf(outer));
  bool border = false;
  *offset = 0;
  for (size_t i = 0; i < b.rank(); ++i) {
    *offset += b.before[i] * strides[i + 1];
    border |= b.before[i] + b.after[i] > 0;
  }
  return border;
}

Status SpaceToBatch(KernelContext& ctx, const Dims& block,
                    const Tensor& paddings) {
  const Tensor& in = ctx.input(0);
  SLUICE_ASSIGN_OR_RETURN(const Blocks b,
                          ReadBlocks(block, paddings, in.rank()));
  SLUICE_ASSIGN_OR_RETURN(const Dims dims,
                          SpaceToBatchDims(DimsOf(in.shape()), b));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
  const DType type = in.dtype();
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
  if (shape.num_elements() == 0) return OkStatus();
  Dims padded = DimsOf(in.shape());
  for (size_t i = 0; i < b.rank(); ++i) padded[i + 1] = dims[i + 1] * b.size[i];
  Tensor space = in;
  int64_t offset;
  if (Interior(padded, b, &offset)) {
    SLUICE_ASSIGN_OR_RETURN(const Shape padded_shape, array::MakeShape(padded));
    SLUICE_ASSIGN_OR_RETURN(
        space, array::MakeZeros(type, padded_shape, ctx.step().allocator));
    if (in.num_elements() > 0)
      array::CopyStrided(type, in.shape().dims(), in.raw(),
                         SpanOf(array::DenseStrides(in.shape().dims())),
                         At(type, space.raw(), offset),
                         SpanOf(array::DenseStrides(SpanOf(padded))));
  }
  const BlockCopy copy(padded, b);
  array::CopyStrided(type, SpanOf(copy.dims), std::as_const(space).raw(),
                     SpanOf(copy.space), ctx.output(0).raw(),
                     SpanOf(copy.batch));
  return OkStatus();
}

Status BatchToSpace(KernelContext& ctx, const Dims& block,
                    const Tensor& crops) {
  const Tensor& in = ctx.input(0);
  SLUICE_ASSIGN_OR_RETURN(const Blocks b, ReadBlocks(block, crops, in.rank()));
  SLUICE_ASSIGN_OR_RETURN(const Dims dims,
                          BatchToSpaceDims(DimsOf(in.shape()), b));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
  const DType type = in.dtype();
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
  if (shape.num_elements() == 0) return OkStatus();
  Dims whole = dims;
  for (size_t i = 0; i < b.rank(); ++i)
    whole[i + 1] = in.shape().dims()[i + 1] * b.size[i];
  const BlockCopy copy(whole, b);
  int64_t offset;
  if (!Interior(whole, b, &offset)) {
    array::CopyStrided(type, SpanOf(copy.dims), in.raw(), SpanOf(copy.batch),
                       ctx.output(0).raw(), SpanOf(copy.space));
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const Shape whole_shape, array::MakeShape(whole));
  SLUICE_ASSIGN_OR_RETURN(Tensor space, ctx.AllocateTemp(type, whole_shape));
  array::CopyStrided(type, SpanOf(copy.dims), in.raw(), SpanOf(copy.batch),
                     space.raw(), SpanOf(copy.space));
  array::CopyStrided(
      type, SpanOf(dims), At(type, std::as_const(space).raw(), offset),
      SpanOf(array::DenseStrides(SpanOf(whole))), ctx.output(0).raw(),
      SpanOf(array::DenseStrides(SpanOf(dims))));
  return OkStatus();
}

template <bool kToBatch>
Status BlockNdKernel(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const Dims block,
                          array::IntVectorOf(ctx.input(1), "block_shape"));
  if (block.size() >= static_cast<size_t>(kMaxRank))
    return InvalidArgument("block_shape: expected fewer than ", kMaxRank,
                           " entries, got ", block.size());
  return kToBatch ? SpaceToBatch(ctx, block, ctx.input(2))
                  : BatchToSpace(ctx, block, ctx.input(2));
}

template <bool kToBatch>
struct Block2Kernel {
  explicit Block2Kernel(const Node& n)
      : block{n.IntAttr("block_size"), n.IntAttr("block_size")} {}
  Status Run(KernelContext& ctx) {
    if (ctx.input(0).rank() != 4)
      return InvalidArgument("input: expected rank 4, got shape ",
                             ctx.input(0).shape().ToString());
    return kToBatch ? SpaceToBatch(ctx, block, ctx.input(1))
                    : BatchToSpace(ctx, block, ctx.input(1));
  }
  const Dims block;
};

Status BlockShape(ShapeContext& c, const Dims* block, int border_input,
                  bool to_batch) {
  const PartialShape& in = c.input(0);
  if (!in.rank_known()) return OkStatus();
  const Tensor* border = c.constant(border_input);
  if (block == nullptr || border == nullptr) {
    PartialShape out = PartialShape::OfRank(in.rank());
    if (block != nullptr) {
      // Elements that are not part of a block are unchanged.
      for (int i = static_cast<int>(block->size()) + 1; i < in.rank(); ++i)
        out.set_dim(i, in.dim(i));
    }
    c.set_output(0, std::move(out));
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const Blocks b,
                          ReadBlocks(*block, *border, in.rank()));
  SLUICE_ASSIGN_OR_RETURN(const Dims dims,
                          to_batch ? SpaceToBatchDims(in.dims(), b)
                                   : BatchToSpaceDims(in.dims(), b));
  c.set_output(0, PartialShape(SpanOf(dims)));
  return OkStatus();
}

template <bool kToBatch>
Status BlockNdShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(2, 2).status());
  const Tensor* known = c.constant(1);
  if (known == nullptr) return BlockShape(c, nullptr, 2, kToBatch);
  SLUICE_ASSIGN_OR_RETURN(const Dims block,
                          array::IntVectorOf(*known, "block_shape"));
  return BlockShape(c, &block, 2, kToBatch);
}

template <bool kToBatch>
Status Block2Shape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, 4).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 2).status());
  const int64_t size = c.node().IntAttr("block_size");
  const Dims block = {size, size};
  return BlockShape(c, &block, 1, kToBatch);
}

// The two ops are each other's gradient.
Status BlockGrad(GradContext& g) {
  const std::string& name = g.op->op_name();
  if (name == "SpaceToBatchND" || name == "BatchToSpaceND") {
    g.grads[0] =
        Build(name == "SpaceToBatchND" ? "BatchToSpaceND" : "SpaceToBatchND",
              {g.dy[0], g.input(1), g.input(2)});
  } else {
    g.grads[0] = Build(name == "SpaceToBatch" ? "BatchToSpace" : "SpaceToBatch",
                       {g.dy[0], g.input(1)},
                       {{"block_size", g.op->IntAttr("block_size")}});
  }
  return OkStatus();
}

// ---- SpaceToDepth, DepthToSpace ---------------------------------------------

// The meaning of each dimension.
struct ImageLayout {
  int c, h, w;
};

Result<ImageLayout> LayoutOf(const Node& n) {
  const std::string format = n.AttrOr<std::string>("data_format", "NHWC");
  if (format == "NHWC") return ImageLayout{3, 1, 2};
  if (format == "NCHW") return ImageLayout{1, 2, 3};
  return Unimplemented("data_format: expected NHWC or NCHW, got ", format);
}

Result<Dims> DepthDims(const Dims& in, const ImageLayout& l, int64_t block,
                       bool to_depth) {
  Dims out = in;
  const auto c = static_cast<size_t>(l.c);
  const int64_t area = MultiplyOrNegative(block, block);
  if (area < 0)
    return InvalidArgument("block_size: expected below 2^31, got ", block);
  for (int d : {l.h, l.w}) {
    const auto i = static_cast<size_t>(d);
    if (in[i] < 0) continue;
    if (to_depth && in[i] % block != 0)
      return InvalidArgument(
          "input: expected height and width that are "
          "multiples of block_size ",
          block, ", got ", in[i]);
    if (to_depth) {
      out[i] = in[i] / block;
    } else {
      SLUICE_ASSIGN_OR_RETURN(out[i], array::MultiplyDims(in[i], block));
    }
  }
  if (in[c] < 0) return out;
  if (!to_depth && in[c] % area != 0)
    return InvalidArgument("input: expected a depth that is a multiple of ",
                           "block_size squared, ", area, ", got ", in[c]);
  if (!to_depth) {
    out[c] = in[c] / area;
  } else {
    SLUICE_ASSIGN_OR_RETURN(out[c], array::MultiplyDims(in[c], area));
  }
  return out;
}

template <bool kToDepth>
class DepthKernel {
 public:
  static Result<std::shared_ptr<DepthKernel>> Make(const Node& n) {
    auto k = std::make_shared<DepthKernel>();
    SLUICE_ASSIGN_OR_RETURN(k->layout_, LayoutOf(n));
    k->block_ = n.IntAttr("block_size");
    return k;
  }
  Status Run(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    if (in.rank() != 4)
      return InvalidArgument("input: expected rank 4, got shape ",
                             in.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(
        const Dims dims,
        DepthDims(DimsOf(in.shape()), layout_, block_, kToDepth));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), shape));
    if (shape.num_elements() == 0) return OkStatus();
    // Loops over batch, rows, columns, rows and columns of a block, channels.
    const Dims space_dims = kToDepth ? DimsOf(in.shape()) : dims;
    const Dims depth_dims = kToDepth ? dims : DimsOf(in.shape());
    const Dims s = array::DenseStrides(SpanOf(space_dims));
    const Dims d = array::DenseStrides(SpanOf(depth_dims));
    const auto c = static_cast<size_t>(layout_.c),
               h = static_cast<size_t>(layout_.h),
               w = static_cast<size_t>(layout_.w);
    const int64_t channels = space_dims[c];
    const int64_t loops[] = {depth_dims[0], depth_dims[h], depth_dims[w],
                             block_,        block_,        channels};
    const int64_t space[] = {s[0], s[h] * block_, s[w] * block_,
                             s[h], s[w],          s[c]};
    const int64_t depth[] = {
        d[0], d[h], d[w], d[c] * block_ * channels, d[c] * channels, d[c]};
    array::CopyStrided(in.dtype(), loops, in.raw(), kToDepth ? space : depth,
                       ctx.output(0).raw(), kToDepth ? depth : space);
    return OkStatus();
  }

 private:
  ImageLayout layout_ = {};
  int64_t block_ = 0;
};

template <bool kToDepth>
Status DepthShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const ImageLayout layout, LayoutOf(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRank(0, 4));
  SLUICE_ASSIGN_OR_RETURN(
      const Dims dims,
      DepthDims(in.dims(), layout, c.node().IntAttr("block_size"), kToDepth));
  c.set_output(0, PartialShape(SpanOf(dims)));
  return OkStatus();
}

Status DepthGrad(GradContext& g) {
  const bool to_depth = g.op->op_name() == "SpaceToDepth";
  g.grads[0] = Build(
      to_depth ? "DepthToSpace" : "SpaceToDepth", {g.dy[0]},
      {{"block_size", g.op->IntAttr("block_size")},
       {"data_format", g.op->AttrOr<std::string>("data_format", "NHWC")}});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(SpaceToBatchND)
    .Input("input: T")
    .Input("block_shape: Tblock_shape")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tblock_shape: {int32, int64} = DT_INT32")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Shape(BlockNdShape<true>)
    .Kernel(Cpu(BlockNdKernel<true>, true))
    .Grad(BlockGrad)
    .Sample({{.shape = {1, 4, 3, 2}},
             {.shape = {2}, .values = {2, 2}},
             {.shape = {2, 2}, .values = {0, 0, 1, 0}}})
    .Doc(
        "Pads the spatial dimensions with zeros and moves blocks of them to "
        "the batch.")
    .Family("array");

SLUICE_OP(BatchToSpaceND)
    .Input("input: T")
    .Input("block_shape: Tblock_shape")
    .Input("crops: Tcrops")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tblock_shape: {int32, int64} = DT_INT32")
    .Attr("Tcrops: {int32, int64} = DT_INT32")
    .Shape(BlockNdShape<false>)
    .Kernel(Cpu(BlockNdKernel<false>, true))
    .Grad(BlockGrad)
    .Sample({{.shape = {4, 2, 2, 1}},
             {.shape = {2}, .values = {2, 2}},
             {.shape = {2, 2}, .values = {0, 0, 1, 0}}})
    .Doc(
        "Moves the batch back to blocks of the spatial dimensions and crops "
        "them.")
    .Family("array");

SLUICE_OP(SpaceToBatch)
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Attr("block_size: int >= 2")
    .Shape(Block2Shape<true>)
    .Kernel(CpuState<Block2Kernel<true>>(true))
    .Grad(BlockGrad)
    .Sample({{.shape = {1, 4, 3, 2}},
             {.shape = {2, 2}, .values = {0, 0, 1, 0}}},
            {{"block_size", 2}})
    .Doc("Pads images with zeros and moves blocks of pixels to the batch.")
    .Family("array");

SLUICE_OP(BatchToSpace)
    .Input("input: T")
    .Input("crops: Tidx")
    .Output("output: T")
    .Attr("T: type")
    .Attr("block_size: int >= 2")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(Block2Shape<false>)
    .Kernel(CpuState<Block2Kernel<false>>(true))
    .Grad(BlockGrad)
    .Sample({{.shape = {4, 2, 2, 1}},
             {.shape = {2, 2}, .values = {0, 0, 1, 0}}},
            {{"block_size", 2}})
    .Doc("Moves the batch back to blocks of pixels and crops the images.")
    .Family("array");

SLUICE_OP(SpaceToDepth)
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("block_size: int >= 2")
    .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
    .Shape(DepthShape<true>)
    .Kernel(CpuState<DepthKernel<true>>(true))
    .Grad(DepthGrad)
    .Sample({{.shape = {1, 4, 2, 3}}}, {{"block_size", 2}})
    .Doc("Moves blocks of pixels to the channels.")
    .Family("array");

SLUICE_OP(DepthToSpace)
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("block_size: int >= 2")
    .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
    .Shape(DepthShape<false>)
    .Kernel(CpuState<DepthKernel<false>>(true))
    .Grad(DepthGrad)
    .Sample({{.shape = {1, 2, 1, 12}}}, {{"block_size", 2}})
    .Doc("Moves channels to blocks of pixels.")
    .Family("array");

const BatchFormRegistrar depth_batches[] = {
    {"SpaceToDepth", RowByRow<>},
    {"DepthToSpace", RowByRow<>},
};

}  // namespace
}  // namespace sluice
