// Greyscale dilation of images: the largest sum of image and filter in each
// window, and its gradients.
#include "kernels/dnn/dilation.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/dnn/pool.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/common/window.h"

namespace sluice {
namespace {

// ---- Shapes -----------------------------------------------------------------

Result<PartialShape> DilatedShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w, WindowAttrs::Read(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape image, c.WithRank(0, 4));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape filter, c.WithRank(1, 3));
  SLUICE_ASSIGN_OR_RETURN(const int64_t depth,
                          MergeDim(image.dim(3), filter.dim(2)));
  const int64_t window[] = {filter.dim(0), filter.dim(1)};
  return w.OutputShape(image, window, depth);
}

Status DilationShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, DilatedShape(c));
  c.set_output(0, std::move(out));
  return OkStatus();
}

// The gradient for input i.
template <int i>
Status DilationGradShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape out, DilatedShape(c));
  SLUICE_RETURN_IF_ERROR(out.MergeWith(c.input(2)).status());
  c.set_output(0, c.input(i));
  return OkStatus();
}

// ---- Kernels ----------------------------------------------------------------

// The lowest finite value.
template <typename T>
T LeastSum() {
  if constexpr (std::is_same_v<T, half>) {
    return half(-65504.0f);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return bfloat16(-0x1.FEp127f);  // (The lowest float rounds to infinity.)
  } else {
    return std::numeric_limits<T>::lowest();
  }
}

enum class DilationPass { kForward, kInput, kFilter };

template <typename T, DilationPass kPass>
class Dilation {
 public:
  static Result<std::shared_ptr<Dilation>> Make(const Node& n) {
    auto k = std::make_shared<Dilation>();
    SLUICE_ASSIGN_OR_RETURN(k->window_, WindowAttrs::Read(n));
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    const Tensor& filter = ctx.input(1);
    if (in.rank() != 4 || filter.rank() != 3 || in.dim(3) != filter.dim(2))
      return InvalidArgument(
          "dilation: expected an image of rank 4 and a filter of rank 3 with "
          "as many channels, got ",
          in.shape().ToString(), " and ", filter.shape().ToString());
    dnn::PoolGeometry s;
    s.batch = in.dim(0);
    s.channels = in.dim(3);
    const int64_t sizes[] = {filter.dim(0), filter.dim(1)};
    SLUICE_RETURN_IF_ERROR(window_.Resolve(in.shape(), sizes, &s));
    SLUICE_ASSIGN_OR_RETURN(const Shape out, window_.OutputOf(s, s.channels));
    if constexpr (kPass == DilationPass::kForward) {
      SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), out));
      if (out.num_elements() == 0) return OkStatus();
      ParallelFor(s.batch, 1, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n)
          Image(s, n, in.raw<T>(), filter.raw<T>(), nullptr,
                ctx.output(0).template raw<T>());
      });
      return OkStatus();
    } else {
      const Tensor& dy = ctx.input(2);
      if (dy.shape() != out)
        return InvalidArgument("out_backprop: expected shape ", out.ToString(),
                               ", that of the dilation, got ",
                               dy.shape().ToString());
      SLUICE_ASSIGN_OR_RETURN(
          ctx.output(0),
          Tensor::Zeros(DTypeOf<T>(), kPass == DilationPass::kInput
                                          ? in.shape()
                                          : filter.shape()));
      if (ctx.output(0).num_elements() == 0 || out.num_elements() == 0)
        return OkStatus();
      for (int64_t n = 0; n < s.batch; ++n)
        Image(s, n, in.raw<T>(), filter.raw<T>(), dy.raw<T>(),
              ctx.output(0).template raw<T>());
      return OkStatus();
    }
  }

 private:
  // Image n of the batch: computes the result, or adds the gradient of each of
  // its elements to the tap with the largest sum (the first on ties).
  static void Image(const dnn::PoolGeometry& s, int64_t n, const T* in,
                    const T* filter, const T* dy, T* out) {
    const int64_t ow = s.w.out(), pixels = s.h.out() * ow;
    std::vector<T> best(static_cast<size_t>(s.channels));
    std::vector<int32_t> at(best.size());
    // Where the gradient for at[c] goes, less c. Element 0: that of a window
    // without a greatest sum (of NaN); -1: nowhere.
    std::vector<int64_t> targets(
        static_cast<size_t>(s.h.window * s.w.window + 1));
    for (int64_t p = 0; p < pixels; ++p) {
      const int64_t y = p / ow, x = p % ow;
      std::fill(best.begin(), best.end(), LeastSum<T>());
      std::fill(at.begin(), at.end(), 0);
      const int64_t iy = std::max<int64_t>(0, s.h.start(y));
      const int64_t ix = std::max<int64_t>(0, s.w.start(x));
      targets[0] = kPass == DilationPass::kFilter ? 0
                   : iy < s.h.in && ix < s.w.in   ? At(s, n, iy, ix)
                                                  : -1;
      int32_t taken = 0;
      for (int64_t ky = s.h.first_tap(y); ky < s.h.last_tap(y); ++ky)
        for (int64_t kx = s.w.first_tap(x); kx < s.w.last_tap(x); ++kx) {
          const int64_t from = At(s, n, s.h.start(y) + ky * s.h.dilation,
                                  s.w.start(x) + kx * s.w.dilation);
          const int64_t tap = (ky * s.w.window + kx) * s.channels;
          targets[static_cast<size_t>(++taken)] =
              kPass == DilationPass::kFilter ? tap : from;
          Raise(in + from, filter + tap, s.channels, taken, best.data(),
                at.data());
        }
      const int64_t o = (n * pixels + p) * s.channels;
      if constexpr (kPass == DilationPass::kForward) {
        std::copy(best.begin(), best.end(), out + o);
      } else {
        for (int64_t c = 0; c < s.channels; ++c) {
          const int64_t target =
              targets[static_cast<size_t>(at[static_cast<size_t>(c)])];
          if (target < 0) continue;
          T& to = out[target + c];
          to = array::WrapAdd<T>(to, dy[o + c]);
        }
      }
    }
  }
  // As dnn::RaiseFn.
  static void Raise(const T* x, const T* filter, int64_t n, int32_t tap,
                    T* best, int32_t* at) {
    if constexpr (std::is_same_v<T, float>) {
      static const dnn::RaiseFn raise = dnn::GetRaise();
      if (n >= 8) return raise(x, filter, n, tap, best, at);
    }
    for (int64_t c = 0; c < n; ++c) {
      const T v = array::WrapAdd<T>(x[c], filter[c]);
      if (v > best[c]) best[c] = v, at[c] = tap;
    }
  }
  static int64_t At(const dnn::PoolGeometry& s, int64_t n, int64_t y,
                    int64_t x) {
    return ((n * s.h.in + y) * s.w.in + x) * s.channels;
  }

  WindowAttrs window_;
};
template <typename T>
using DilationForward = Dilation<T, DilationPass::kForward>;
template <typename T>
using DilationInput = Dilation<T, DilationPass::kInput>;
template <typename T>
using DilationFilter = Dilation<T, DilationPass::kFilter>;

// ---- Gradients and declarations ---------------------------------------------

Status DilationGrad(GradContext& c) {
  AttrMap attrs;
  for (const char* name : {"strides", "rates", "padding"})
    attrs[name] = *c.op->FindAttr(name);
  c.grads[0] = Build("Dilation2DBackpropInput",
                     {c.input(0), c.input(1), c.dy[0]}, attrs);
  c.grads[1] = Build("Dilation2DBackpropFilter",
                     {c.input(0), c.input(1), c.dy[0]}, attrs);
  return OkStatus();
}

template <template <typename> class K>
OpDefBuilder DilationOp(const char* name,
                        std::initializer_list<const char*> args) {
  OpDefBuilder b(name);
  for (const char* arg : args)
    arg == *(args.end() - 1) ? b.Output(arg) : b.Input(arg);
  b.Attr(kRealTypes)
      .Attr("strides: list(int) >= 4")
      .Attr("rates: list(int) >= 4")
      .Attr("padding: {'SAME', 'VALID'}")
      .Family("nn")
      .Kernel(
          CpuStateFor<K, float, double, half, bfloat16, int8_t, int16_t,
                      int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(
              "T", /*expensive=*/true));
  return b;
}

AttrMap DilationSampleAttrs() {
  return {{"strides", AttrValue::Ints{1, 1, 2, 1}},
          {"rates", AttrValue::Ints{1, 2, 1, 1}},
          {"padding", "SAME"}};
}

const OpRegistrar kDilations[] = {
    DilationOp<DilationForward>("Dilation2D",
                                {"input: T", "filter: T", "output: T"})
        .Shape(DilationShape)
        .Grad(DilationGrad)
        .Sample({{.shape = {2, 5, 5, 2}}, {.shape = {2, 3, 2}}},
                DilationSampleAttrs())
        .Doc("Morphological dilation: the largest sum of image and filter in "
             "each window."),
    DilationOp<DilationInput>(
        "Dilation2DBackpropInput",
        {"input: T", "filter: T", "out_backprop: T", "in_backprop: T"})
        .Shape(DilationGradShape<0>)
        .Grad(grad::Undefined)
        .Sample({{.shape = {2, 5, 5, 2}},
                 {.shape = {2, 3, 2}},
                 {.shape = {2, 5, 3, 2}}},
                DilationSampleAttrs())
        .Doc("The gradient of Dilation2D with respect to its image."),
    DilationOp<DilationFilter>(
        "Dilation2DBackpropFilter",
        {"input: T", "filter: T", "out_backprop: T", "filter_backprop: T"})
        .Shape(DilationGradShape<1>)
        .Grad(grad::Undefined)
        .Sample({{.shape = {2, 5, 5, 2}},
                 {.shape = {2, 3, 2}},
                 {.shape = {2, 5, 3, 2}}},
                DilationSampleAttrs())
        .Doc("The gradient of Dilation2D with respect to its filter."),
};

}  // namespace
}  // namespace sluice
