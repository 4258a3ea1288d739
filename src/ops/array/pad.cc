// Padding of tensors: with a constant, or mirrored.
#include <algorithm>

#include "base/parallel.h"
#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

using array::IntAt;
using array::SpanOf;
using array::Tag;

// Rows (before, after) of a paddings tensor, checked.
struct Paddings {
  Dims before, after;
};

Result<Paddings> ReadPaddings(const Tensor& t, int rank) {
  if (t.rank() != 2 || t.dim(1) != 2 || t.dim(0) != rank)
    return InvalidArgument("paddings: expected shape [", rank,
                           ",2], got shape ", t.shape().ToString());
  Paddings p;
  for (int i = 0; i < rank; ++i) {
    p.before.push_back(IntAt(t, 2 * i));
    p.after.push_back(IntAt(t, 2 * i + 1));
    if (p.before.back() < 0 || p.after.back() < 0)
      return InvalidArgument("paddings: expected amounts >= 0, got (",
                             p.before.back(), ", ", p.after.back(),
                             ") for dimension ", i);
  }
  return p;
}

Result<Dims> PaddedDims(std::span<const int64_t> dims, const Paddings& p) {
  Dims out;
  for (size_t i = 0; i < dims.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(int64_t d, array::AddDims(dims[i], p.before[i]));
    SLUICE_ASSIGN_OR_RETURN(d, array::AddDims(d, p.after[i]));
    out.push_back(d);
  }
  return out;
}

// ---- Pad, PadV2 -------------------------------------------------------------

template <bool kHasValue>
Status PadKernel(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  SLUICE_ASSIGN_OR_RETURN(const Paddings p,
                          ReadPaddings(ctx.input(1), in.rank()));
  if (kHasValue && ctx.input(2).rank() != 0)
    return InvalidArgument("constant_values: expected a scalar, got shape ",
                           ctx.input(2).shape().ToString());
  SLUICE_ASSIGN_OR_RETURN(const Dims dims, PaddedDims(in.shape().dims(), p));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
  if (shape == in.shape()) {
    ctx.set_output(0, ctx.TakeInput(0));
    return OkStatus();
  }
  const DType type = in.dtype();
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
  void* out = ctx.output(0).raw();
  if (kHasValue)
    array::FillRun(type, ctx.input(2).raw(), out, shape.num_elements());
  else
    array::ZeroRun(type, out, shape.num_elements());
  if (in.num_elements() == 0) return OkStatus();
  const Dims strides = array::DenseStrides(shape.dims());
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i)
    offset += p.before[i] * strides[i];
  array::CopyStrided(type, in.shape().dims(), in.raw(),
                     SpanOf(array::DenseStrides(in.shape().dims())),
                     array::At(type, out, offset), SpanOf(strides));
  return OkStatus();
}

// `sign` 1: adds the padding; -1: removes it.
Status PaddedShape(ShapeContext& c, int sign) {
  const PartialShape& in = c.input(0);
  SLUICE_ASSIGN_OR_RETURN(PartialShape paddings, c.WithRank(1, 2));
  SLUICE_RETURN_IF_ERROR(MergeDim(paddings.dim(1), 2).status());
  int rank = in.rank();
  const int64_t rows = paddings.dim(0);
  if (rows >= 0) {
    if ((rank >= 0 && rows != rank) || rows > kMaxRank)
      return InvalidArgument("paddings: expected ", rank >= 0 ? rank : kMaxRank,
                             " rows, one per dimension, got ", rows);
    rank = static_cast<int>(rows);
  }
  if (rank < 0) return OkStatus();
  PartialShape out = PartialShape::OfRank(rank);
  const Tensor* known = c.constant(1);
  if (known != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(const Paddings p, ReadPaddings(*known, rank));
    for (int i = 0; i < rank; ++i) {
      const auto at = static_cast<size_t>(i);
      SLUICE_ASSIGN_OR_RETURN(const int64_t border,
                              array::AddDims(p.before[at], p.after[at]));
      if (in.dim(i) < 0) continue;
      if (sign > 0) {
        SLUICE_ASSIGN_OR_RETURN(const int64_t d,
                                array::AddDims(in.dim(i), border));
        out.set_dim(i, d);
      } else if (border > in.dim(i)) {
        return InvalidArgument("paddings: expected at most ", in.dim(i),
                               " for dimension ", i, ", got ", border);
      } else {
        out.set_dim(i, in.dim(i) - border);
      }
    }
  }
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status PadShape(ShapeContext& c) { return PaddedShape(c, 1); }
Status UnpadShape(ShapeContext& c) { return PaddedShape(c, -1); }

Status PadGrad(GradContext& g) {
  const Output x = g.input(0), paddings = g.input(1);
  const Output column =
      Build("StridedSlice",
            {paddings, IntVector({0, 0}), IntVector({0, 1}), IntVector({1, 1})},
            {{"begin_mask", 1}, {"end_mask", 1}, {"shrink_axis_mask", 2}});
  g.grads[0] =
      Build("Slice", {g.dy[0], column, grad::ShapeOf(x, paddings.dtype())});
  return OkStatus();
}

// ---- MirrorPad, MirrorPadGrad -----------------------------------------------

// The source of each entry of a padded dimension, times the stride there.
using Sources = std::vector<std::vector<int64_t>>;

// `skip`: 1 if the edge itself is not repeated (REFLECT), 0 if it is.
Result<Sources> MirrorSources(std::span<const int64_t> inner, const Paddings& p,
                              int skip) {
  const Dims strides = array::DenseStrides(inner);
  Sources out(inner.size());
  for (size_t d = 0; d < inner.size(); ++d) {
    const int64_t n = inner[d], most = n - skip;
    if (p.before[d] > std::max<int64_t>(0, most) ||
        p.after[d] > std::max<int64_t>(0, most))
      return InvalidArgument("paddings: expected at most ",
                             std::max<int64_t>(0, most), " for dimension ", d,
                             " of size ", n, ", got (", p.before[d], ", ",
                             p.after[d], ")");
    for (int64_t i = p.before[d]; i > 0; --i)
      out[d].push_back((i - 1 + skip) * strides[d]);
    for (int64_t i = 0; i < n; ++i) out[d].push_back(i * strides[d]);
    for (int64_t i = 1; i <= p.after[d]; ++i)
      out[d].push_back((n - i - skip) * strides[d]);
  }
  return out;
}

// Calls row(inner offset of the row, outer row number) for rows [begin, end) of
// the padded tensor's last dimension.
template <typename F>
void ForRows(const Sources& sources, int64_t begin, int64_t end, F&& row) {
  for (int64_t r = begin; r < end; ++r) {
    int64_t at = 0, rest = r;
    for (size_t d = sources.size() - 1; d-- > 0;) {
      const auto n = static_cast<int64_t>(sources[d].size());
      at += sources[d][static_cast<size_t>(rest % n)];
      rest /= n;
    }
    row(at, r);
  }
}

int SkipOf(const Node& n) {
  return n.AttrOr<std::string>("mode", "") == "REFLECT" ? 1 : 0;
}

class MirrorPadKernel {
 public:
  explicit MirrorPadKernel(const Node& n) : skip_(SkipOf(n)) {}
  Status Run(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    SLUICE_ASSIGN_OR_RETURN(const Paddings p,
                            ReadPaddings(ctx.input(1), in.rank()));
    SLUICE_ASSIGN_OR_RETURN(const Dims dims, PaddedDims(in.shape().dims(), p));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    SLUICE_ASSIGN_OR_RETURN(const Sources sources,
                            MirrorSources(in.shape().dims(), p, skip_));
    if (shape == in.shape()) {
      ctx.set_output(0, ctx.TakeInput(0));
      return OkStatus();
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), shape));
    if (shape.num_elements() == 0) return OkStatus();
    const std::vector<int64_t>& last = sources.back();
    const auto n = static_cast<int64_t>(last.size());
    void* out = ctx.output(0).raw();
    array::ByElement(in.dtype(), [&]<typename T>(Tag<T>) {
      const T* from = static_cast<const T*>(in.raw());
      T* to = static_cast<T*>(out);
      ParallelFor(shape.num_elements() / n, std::max<int64_t>(1, 16384 / n),
                  [&](int64_t begin, int64_t end) {
                    ForRows(sources, begin, end, [&](int64_t at, int64_t r) {
                      for (int64_t i = 0; i < n; ++i)
                        to[r * n + i] = from[at + last[static_cast<size_t>(i)]];
                    });
                  });
    });
    return OkStatus();
  }

 private:
  const int skip_;
};

class MirrorPadGradKernel {
 public:
  static Result<std::shared_ptr<MirrorPadGradKernel>> Make(const Node& n) {
    const DType t = n.TypeAttr("T");
    if (!array::ByNumber(t, [](auto) {})) return NoKernelFor(n, t);
    auto k = std::make_shared<MirrorPadGradKernel>();
    k->skip_ = SkipOf(n);
    return k;
  }
  Status Run(KernelContext& ctx) {
    const Tensor& dy = ctx.input(0);
    SLUICE_ASSIGN_OR_RETURN(const Paddings p,
                            ReadPaddings(ctx.input(1), dy.rank()));
    Dims dims;
    for (int i = 0; i < dy.rank(); ++i) {
      const auto at = static_cast<size_t>(i);
      SLUICE_ASSIGN_OR_RETURN(const int64_t border,
                              array::AddDims(p.before[at], p.after[at]));
      if (border > dy.dim(i))
        return InvalidArgument("paddings: expected at most ", dy.dim(i),
                               " for dimension ", i, ", got ", border);
      dims.push_back(dy.dim(i) - border);
    }
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    SLUICE_ASSIGN_OR_RETURN(const Sources sources,
                            MirrorSources(shape.dims(), p, skip_));
    if (shape == dy.shape()) {
      ctx.set_output(0, ctx.TakeInput(0));
      return OkStatus();
    }
    SLUICE_ASSIGN_OR_RETURN(
        Tensor out, array::MakeZeros(dy.dtype(), shape, ctx.step().allocator));
    if (dy.num_elements() > 0) {
      array::ByNumber(dy.dtype(),
                      [&]<typename T>(Tag<T>) { Add<T>(dy, sources, &out); });
    }
    ctx.set_output(0, std::move(out));
    return OkStatus();
  }

 private:
  // Adds each element of dy to the source of the padding.
  template <typename T>
  static void Add(const Tensor& dy, const Sources& sources, Tensor* out) {
    const T* from = dy.raw<T>();
    T* to = out->raw<T>();
    const std::vector<int64_t>& last = sources.back();
    const auto n = static_cast<int64_t>(last.size());
    ForRows(sources, 0, dy.num_elements() / n, [&](int64_t at, int64_t r) {
      for (int64_t i = 0; i < n; ++i) {
        T& sum = to[at + last[static_cast<size_t>(i)]];
        sum = array::WrapAdd(sum, from[r * n + i]);
      }
    });
  }

  int skip_ = 0;
};

Status MirrorGrad(GradContext& g) {
  const bool padded = g.op->op_name() == "MirrorPad";
  g.grads[0] =
      Build(padded ? "MirrorPadGrad" : "MirrorPad", {g.dy[0], g.input(1)},
            {{"mode", g.op->AttrOr<std::string>("mode", "")}});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Pad)
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .HostInput("paddings")
    .Shape(PadShape)
    .Kernel(Cpu(PadKernel<false>, true))
    .Grad(PadGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {2, 2}, .values = {1, 0, 2, 1}}})
    .Doc("Pads the input with zeros.")
    .Family("array");

SLUICE_OP(PadV2)
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Input("constant_values: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .HostInput("paddings")
    .Shape(PadShape)
    .Kernel(Cpu(PadKernel<true>, true))
    .Grad(PadGrad)
    .Sample({{.shape = {2, 3}},
             {.shape = {2, 2}, .values = {1, 0, 2, 1}},
             {.shape = {}}})
    .Doc("Pads the input with a constant value.")
    .Family("array");

SLUICE_OP(MirrorPad)
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
    .HostInput("paddings")
    .Shape(PadShape)
    .Kernel(CpuState<MirrorPadKernel>(true))
    .Grad(MirrorGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {2, 2}, .values = {1, 0, 2, 1}}},
            {{"mode", "REFLECT"}})
    .Doc("Pads the input with its own mirrored values.")
    .Family("array");

SLUICE_OP(MirrorPadGrad)
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
    .HostInput("paddings")
    .Shape(UnpadShape)
    .Kernel(CpuState<MirrorPadGradKernel>(true))
    .Grad(MirrorGrad)
    .Sample({{.shape = {3, 6}}, {.shape = {2, 2}, .values = {1, 0, 2, 1}}},
            {{"mode", "SYMMETRIC"}})
    .Doc(
        "Removes the padding of MirrorPad, adding each padded value to its "
        "source: the gradient of MirrorPad.")
    .Family("array");

const BatchFormRegistrar pad_batches[] = {
    {"Pad", ByDimension<1, 0>},
    {"PadV2", ByDimension<1, 0, 1 << 1 | 1 << 2>},
    {"MirrorPad", ByDimension<1, 0>},
};

}  // namespace
}  // namespace sluice
