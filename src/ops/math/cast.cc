// Conversion between element types.
#include "kernels/simd/cast.h"

#include <memory>

#include "exec/fusion/block_form.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/carrier_type.h"
#include "ops/common/grad_util.h"
#include "ops/math/elementwise.h"

namespace sluice {
namespace {

// Immutable.
struct CastState {
  simd::CastKernel kernel;
  DType out;
};

Status RunCast(KernelContext& ctx) {
  const CastState& s = ctx.state<CastState>();
  const Tensor& x = ctx.input(0);
  const void* in = x.raw();
  if (x.rank() == 0) {
    Tensor y(s.out, Shape());
    s.kernel.fn(in, y.raw(), 1);
    ctx.set_output(0, std::move(y));
    return OkStatus();
  }
  const Shape shape = x.shape();
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, s.out, shape));
  s.kernel(in, ctx.output(0).raw(), shape.num_elements());
  return OkStatus();
}

bool ScalarCast(uint64_t* registers, Tensor*, const ScalarPlaces& at) {
  uint64_t bits = 0;
  static_cast<const CastState*>(at.state)->kernel.fn(&registers[at.in[0]],
                                                     &bits, 1);
  registers[at.out] = bits;
  return true;
}

bool CastBlock(const void* state, const void* const* in, uint32_t, void* out,
               int64_t n) {
  static_cast<const CastState*>(state)->kernel.fn(in[0], out, n);
  return true;
}

const BlockFormRegistrar cast_form(
    [](const Node&, const Kernel& k) -> std::optional<BlockForm> {
      if (k.run != RunCast) return std::nullopt;
      return BlockForm{.fn = CastBlock};
    });

Status RunSameType(KernelContext& ctx) {
  ctx.set_output(0, ctx.TakeInput(0));
  return OkStatus();
}

Status MakeCast(const Node& n, Kernel* k) {
  const DType from = n.TypeAttr("SrcT"), to = n.TypeAttr("DstT");
  if (from == to) {
    k->run = RunSameType;
    return OkStatus();
  }
  auto s = std::make_shared<CastState>();
  s->kernel =
      simd::GetCast(CarrierType(from), CarrierType(to), n.BoolAttr("Truncate"));
  if (!s->kernel)
    return Unimplemented("no kernel: expected types that Cast converts, got ",
                         DTypeName(from), " to ", DTypeName(to));
  s->out = to;
  if (DTypeSize(from) <= 8 && DTypeSize(to) <= 8) k->scalar = ScalarCast;
  k->state = std::move(s);
  k->run = RunCast;
  k->expensive = LooksBig(n);
  return OkStatus();
}

bool HasGradient(DType t) { return IsFloating(t) || IsComplex(t); }

Status CastGrad(GradContext& c) {
  const DType from = grad::TypeOf(c.input(0)), to = grad::TypeOf(c.output(0));
  if (HasGradient(from) && HasGradient(to))
    c.grads[0] = grad::Cast(c.dy[0], from);
  return OkStatus();
}

SLUICE_OP(Cast)
    .Input("x: SrcT")
    .Output("y: DstT")
    .Attr("SrcT: type")
    .Attr("DstT: type")
    .Attr("Truncate: bool = false")
    .Family("math")
    .Shape(UnchangedShape)
    .Kernel(MakeCast)
    .Grad(CastGrad)
    .Sample({{.shape = {2, 3}, .low = -3, .high = 3, .dtype = DType::kFloat}},
            {{"DstT", DType::kInt32}})
    .Sample({{.shape = {2, 3}, .low = -3, .high = 3, .dtype = DType::kFloat}},
            {{"DstT", DType::kDouble}})
    .Doc("Converts the elements to another type.");

}  // namespace
}  // namespace sluice
