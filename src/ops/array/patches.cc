// Windows of images and volumes, arranged as the channels of one pixel.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/dnn/pool.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/common/window.h"

namespace sluice {
namespace {

// The number of pixels of the window times the channels; -1 if unknown.
Result<int64_t> PatchDepth(const WindowAttrs& w, int64_t channels) {
  int64_t depth = channels;
  for (int i = 0; i < w.spatial && depth >= 0; ++i) {
    depth = MultiplyOrNegative(depth, w.window[i]);
    if (depth < 0)
      return InvalidArgument("ksizes: expected fewer than 2^63 elements");
  }
  return depth;
}

Status PatchesShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w, WindowAttrs::Read(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRank(0, w.rank()));
  SLUICE_ASSIGN_OR_RETURN(const int64_t depth,
                          PatchDepth(w, in.dim(w.channel())));
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, w.OutputShape(in, w.window, depth));
  c.set_output(0, std::move(out));
  return OkStatus();
}

// For all plain types: runs of channels are copied as bytes, and zeros are zero
// bytes. Immutable.
class ExtractPatches {
 public:
  static Result<std::shared_ptr<ExtractPatches>> Make(const Node& n) {
    auto k = std::make_shared<ExtractPatches>();
    SLUICE_ASSIGN_OR_RETURN(k->window_, WindowAttrs::Read(n));
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    if (in.rank() != window_.rank())
      return InvalidArgument("patches: expected an input of rank ",
                             window_.rank(), ", got shape ",
                             in.shape().ToString());
    dnn::PoolGeometry s;
    s.batch = in.dim(0);
    s.channels = in.dim(window_.channel());
    SLUICE_RETURN_IF_ERROR(window_.Resolve(in.shape(), window_.window, &s));
    SLUICE_ASSIGN_OR_RETURN(const int64_t depth,
                            PatchDepth(window_, s.channels));
    SLUICE_ASSIGN_OR_RETURN(const Shape out, window_.OutputOf(s, depth));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), out));
    if (out.num_elements() == 0) return OkStatus();
    const size_t run = DTypeSize(in.dtype()) * static_cast<size_t>(s.channels);
    const char* from = static_cast<const char*>(in.raw());
    char* to = static_cast<char*>(ctx.output(0).raw());
    const int64_t taps = s.d.window * s.h.window * s.w.window;
    ParallelFor(s.batch * s.out_pixels(), 256, [&](int64_t begin, int64_t end) {
      char* at = to + static_cast<size_t>(begin * taps) * run;
      for (int64_t p = begin; p < end; ++p)
        at = CopyWindow(s, p, from, run, at);
    });
    return OkStatus();
  }

 private:
  // Copies the window of output pixel p, row by row; returns the end of the
  // copy. Taps in the padding are zero.
  static char* CopyWindow(const dnn::PoolGeometry& s, int64_t p,
                          const char* from, size_t run, char* to) {
    const int64_t width = s.w.out(), height = s.h.out(), depth = s.d.out();
    const int64_t x = p % width, y = p / width % height;
    const int64_t z = p / (width * height) % depth;
    const int64_t n = p / (width * height * depth);
    const int64_t first = s.w.first_tap(x), last = s.w.last_tap(x);
    const int64_t step = s.w.dilation == 1 ? last - first : 1;
    const auto bytes = [run](int64_t taps) {
      return static_cast<size_t>(taps) * run;
    };
    const auto zero = [&](int64_t taps) {
      if (taps == 0) return;
      std::memset(to, 0, bytes(taps));
      to += bytes(taps);
    };
    for (int64_t kz = 0; kz < s.d.window; ++kz) {
      const int64_t iz = s.d.start(z) + kz * s.d.dilation;
      for (int64_t ky = 0; ky < s.h.window; ++ky) {
        const int64_t iy = s.h.start(y) + ky * s.h.dilation;
        if (iy < 0 || iy >= s.h.in || iz < 0 || iz >= s.d.in || first >= last) {
          zero(s.w.window);
          continue;
        }
        zero(first);
        const int64_t row =
            ((n * s.d.in + iz) * s.h.in + iy) * s.w.in + s.w.start(x);
        for (int64_t k = first; k < last; k += step, to += bytes(step))
          std::memcpy(to, from + bytes(row + k * s.w.dilation), bytes(step));
        zero(s.w.window - last);
      }
    }
    return to;
  }

  WindowAttrs window_;
};

// The gradient of a pixel is the sum over the patches that contain it, which
// are found by extracting patches of an image of pixel numbers, with 0 for the
// padding.
Status PatchesGrad(GradContext& c) {
  const Output x = c.input(0), dy = c.dy[0];
  AttrMap attrs;
  for (const char* name : {"ksizes", "strides", "rates", "padding"})
    if (const AttrValue* a = c.op->FindAttr(name)) attrs[name] = *a;
  const auto cut = [](Output shape, int32_t begin, int32_t end) {
    return Build("StridedSlice",
                 {shape, IntVector({begin}), IntVector({end}), IntVector({1})},
                 {{"end_mask", end == 0 ? 1 : 0}});
  };
  const Output axis = Constant(int32_t{0});
  const auto join = [&](Output a, Output b, Output d) {
    return Build("ConcatV2", {a, b, d, axis});
  };
  const Output shape = grad::ShapeOf(x), one = Constant(int32_t{1});
  const Output batch = cut(shape, 0, 1), channels = cut(shape, -1, 0);
  const Output spatial = cut(shape, 1, -1);
  const Output count = Build("Prod", {spatial, IntVector({0})});
  const Output numbers =
      Build("Reshape", {Build("Range", {one, grad::Add(count, one), one}),
                        join(IntVector({1}), spatial, IntVector({1}))});
  const Output ids = grad::Sub(
      Build("Reshape",
            {Build(c.op->op_name(), {numbers}, attrs), IntVector({-1})}),
      one);
  const Output rows = Build("Reshape", {grad::SizeOf(ids), IntVector({1})});
  const Output data = grad::Transpose(
      grad::ReshapeTo(dy, join(batch, rows, channels)), {1, 0, 2});
  const Output sums = Build("UnsortedSegmentSum", {data, ids, count});
  c.grads[0] = grad::ReshapeTo(grad::Transpose(sums, {1, 0, 2}), shape);
  return OkStatus();
}

SLUICE_OP(ExtractImagePatches)
    .Input("images: T")
    .Output("patches: T")
    .Attr("ksizes: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("rates: list(int) >= 4")
    .Attr(
        "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, "
        "uint16, uint32, uint64, complex64, complex128, bool}")
    .Attr("padding: {'SAME', 'VALID'}")
    .Family("array")
    .Shape(PatchesShape)
    .Kernel(CpuState<ExtractPatches>())
    .Grad(PatchesGrad)
    .Sample({{.shape = {2, 4, 5, 2}}},
            {{"ksizes", AttrValue::Ints{1, 2, 3, 1}},
             {"strides", AttrValue::Ints{1, 1, 2, 1}},
             {"rates", AttrValue::Ints{1, 2, 1, 1}},
             {"padding", "SAME"}})
    .Doc("Extracts windows of images as the channels of the output pixels.");

SLUICE_OP(ExtractVolumePatches)
    .Input("input: T")
    .Output("patches: T")
    .Attr("ksizes: list(int) >= 5")
    .Attr("strides: list(int) >= 5")
    .Attr(kRealTypes)
    .Attr("padding: {'SAME', 'VALID'}")
    .Family("array")
    .Shape(PatchesShape)
    .Kernel(CpuState<ExtractPatches>())
    .Grad(PatchesGrad)
    .Sample({{.shape = {1, 3, 4, 3, 2}}},
            {{"ksizes", AttrValue::Ints{1, 2, 2, 2, 1}},
             {"strides", AttrValue::Ints{1, 1, 2, 1, 1}},
             {"padding", "SAME"}})
    .Doc("Extracts windows of volumes as the channels of the output pixels.");

}  // namespace
}  // namespace sluice
