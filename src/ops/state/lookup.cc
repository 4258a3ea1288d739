#include "ops/state/lookup.h"

#include "ops/common/elements.h"

namespace sluice::state {

ResourceName::ResourceName(const Node& n)
    : container(n.AttrOr<std::string>("container", "")),
      name(n.AttrOr<std::string>("shared_name", "")) {
  if (name.empty()) name = n.name();
}

Tensor MakeHandle(const ResourceName& name,
                  std::shared_ptr<Resource> resource) {
  return Tensor::Scalar<ResourceHandle>(
      {name.container, name.name, std::move(resource)});
}

Status HandleShape(ShapeContext& c) {
  if (!IsRef(c.node().output_type(0))) return ScalarShape(c);
  c.set_output(0, {2});
  return OkStatus();
}

Status RequireHandle(ShapeContext& c, int i) {
  if (!IsRef(c.node().input(i).dtype())) return c.RequireScalar(i);
  SLUICE_ASSIGN_OR_RETURN(const PartialShape handle, c.WithRank(i, 1));
  return MergeDim(handle.dim(0), 2).status();
}

Result<Variable*> VariableInput(const KernelContext& ctx, int i) {
  SLUICE_ASSIGN_OR_RETURN(const ResourceHandle* h, ctx.handle(i));
  Variable* const v = AsVariable(h->resource.get());
  if (v == nullptr) [[unlikely]]
    return InvalidArgument(
        "input ", i, ": expected a variable, got ",
        h->resource != nullptr ? h->resource->TypeName() : "nothing", " '",
        h->name, "'");
  return v;
}

Result<Variable*> VariableInput(const KernelContext& ctx, int i, DType dtype) {
  SLUICE_ASSIGN_OR_RETURN(Variable * v, VariableInput(ctx, i));
  if (v->dtype() != dtype) [[unlikely]]
    return InvalidArgument("variable '", v->name(), "': expected type ",
                           DTypeName(dtype), ", got ", DTypeName(v->dtype()));
  return v;
}

Status OfUse(const KernelContext& ctx, const Status& status) {
  if (status.code() != StatusCode::kFailedPrecondition ||
      IsRef(ctx.node().input_type(0)))
    return status;
  return NotFound(status.message());
}

PartialShape VariableShapeOf(ShapeContext& c, int i) {
  return IsRef(c.node().input_type(i)) ? c.input(i) : c.ResourceShape(i);
}

std::vector<int64_t> ToInt64s(const Tensor& t) {
  if (t.dtype() == DType::kInt64) return t.ToVector<int64_t>();
  return {t.raw<int32_t>(), t.raw<int32_t>() + t.num_elements()};
}

Result<std::vector<int64_t>> CheckedIndices(const Tensor& indices,
                                            int64_t limit) {
  std::vector<int64_t> out = ToInt64s(indices);
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] < 0 || out[i] >= limit)
      return InvalidArgument(
          "indices",
          indices.rank() > 0
              ? array::IndexName(indices.shape(), static_cast<int64_t>(i))
              : "",
          " = ", out[i], " is not in [0, ", limit, ")");
  return out;
}

}  // namespace sluice::state
