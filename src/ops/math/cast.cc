// Conversion between element types.
#include "kernels/simd/cast.h"

#include <memory>

#include "exec/batching/batch_form.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/carrier_type.h"
#include "ops/common/grad_nodes.h"
#include "ops/math/elementwise.h"

namespace sluice {
namespace {

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
  const simd::UnaryKernel cast =
      simd::GetCast(CarrierType(from), CarrierType(to), n.BoolAttr("Truncate"));
  if (!cast)
    return Unimplemented("no kernel: expected types that Cast converts, got ",
                         DTypeName(from), " to ", DTypeName(to));
  return UseUnary(cast, n, k);
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
    .Kind(OpKind::kCast)
    .Family("math")
    .Shape(UnchangedShape)
    .Kernel(MakeCast)
    .Grad(CastGrad)
    .Sample({{.shape = {2, 3}, .low = -3, .high = 3, .dtype = DType::kFloat}},
            {{"DstT", DType::kInt32}})
    .Sample({{.shape = {2, 3}, .low = -3, .high = 3, .dtype = DType::kFloat}},
            {{"DstT", DType::kDouble}})
    .Doc("Converts the elements to another type.");

const BatchFormRegistrar cast_batch("Cast", PartByPart<0>);

}  // namespace
}  // namespace sluice
