#include "ops/tensor_array/optional.h"

#include <algorithm>
#include <memory>
#include <typeinfo>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"

namespace sluice {

Status AddToOptional(const OptionalValue& x, Variant* sum, int depth) {
  const auto* a = sum->get<OptionalValue>();
  if (a == nullptr)
    return InvalidArgument("sum: expected two Optionals, got ",
                           sum->value()->TypeName(), " and ", x.TypeName());
  if (a->values().size() != x.values().size())
    return InvalidArgument(
        "sum: expected Optionals of one number of values, got ",
        a->values().size(), " and ", x.values().size());
  std::vector<Tensor> values = a->values();
  for (size_t i = 0; i < values.size(); ++i)
    SLUICE_RETURN_IF_ERROR(AddToTensor(x.values()[i], &values[i], depth));
  *sum = Variant(std::make_shared<OptionalValue>(std::move(values)));
  return OkStatus();
}

Result<Variant> ZerosLikeOptional(const OptionalValue& x, int depth) {
  std::vector<Tensor> zeros;
  for (const Tensor& t : x.values()) {
    SLUICE_ASSIGN_OR_RETURN(zeros.emplace_back(),
                            ZerosLikeTensor(t, depth + 1));
  }
  return Variant(std::make_shared<OptionalValue>(std::move(zeros)));
}

namespace {

Status RunFromValue(KernelContext& ctx) {
  std::vector<Tensor> values;
  values.reserve(static_cast<size_t>(ctx.num_inputs()));
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(values.emplace_back(), ctx.TakeToKeep(i));
  }
  ctx.set_output(0, Tensor::Scalar<Variant>(Variant(
                        std::make_shared<OptionalValue>(std::move(values)))));
  return OkStatus();
}

Status RunNone(KernelContext& ctx) {
  ctx.set_output(
      0, Tensor::Scalar<Variant>(
             Variant(std::make_shared<OptionalValue>(std::vector<Tensor>()))));
  return OkStatus();
}

Result<const OptionalValue*> OptionalInput(const KernelContext& ctx) {
  const Tensor& t = ctx.input(0);
  const OptionalValue* o = nullptr;
  if (t.rank() == 0) {
    // (A dynamic_cast takes tens of nanoseconds; the class is final.)
    const Variant::Value* const value = t.raw_scalar<Variant>().value();
    if (value != nullptr && typeid(*value) == typeid(OptionalValue))
      o = static_cast<const OptionalValue*>(value);
  }
  if (o == nullptr)
    return InvalidArgument("optional: expected a scalar Optional, got ",
                           t.ToString());
  return o;
}

Status RunHasValue(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const OptionalValue* o, OptionalInput(ctx));
  ctx.set_output(0, Tensor::Scalar(!o->values().empty()));
  return OkStatus();
}

bool Fits(const Shape& shape, const PartialShape& want) {
  if (!want.rank_known()) return true;
  if (want.rank() != shape.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i)
    if (want.dim(i) >= 0 && want.dim(i) != shape.dim(i)) return false;
  return true;
}

Status RunGetValue(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const OptionalValue* o, OptionalInput(ctx));
  if (o->values().empty())
    return InvalidArgument("optional: expected a value, got none");
  if (static_cast<int>(o->values().size()) != ctx.num_outputs())
    return InvalidArgument("optional: expected ", ctx.num_outputs(),
                           " values, got ", o->values().size());
  for (int i = 0; i < ctx.num_outputs(); ++i) {
    const Tensor& t = o->values()[static_cast<size_t>(i)];
    if (t.dtype() != ctx.node().output_type(i))
      return InvalidArgument("optional: expected ",
                             DTypeName(ctx.node().output_type(i)), " as value ",
                             i, ", got ", t.ToString());
    const PartialShape& want =
        ctx.state<AttrValue::Shapes>()[static_cast<size_t>(i)];
    if (!Fits(t.shape(), want))
      return InvalidArgument("optional: expected shape ", want.ToString(),
                             " of value ", i, ", got ", t.ToString());
  }
  // The only reader moves the values out.
  const Tensor token = ctx.TakeInput(0);
  const bool only_reader =
      token.unique() && token.raw_scalar<Variant>().unique();
  for (int i = 0; i < ctx.num_outputs(); ++i) {
    const auto at = static_cast<size_t>(i);
    // (Every value was created as non-const.)
    ctx.set_output(i, only_reader ? const_cast<OptionalValue*>(o)->Take(at)
                                  : o->values()[at]);
  }
  return OkStatus();
}

Status MakeGetValue(const Node& n, Kernel* k) {
  SLUICE_ASSIGN_OR_RETURN(auto shapes,
                          n.Attr<AttrValue::Shapes>("output_shapes"));
  if (static_cast<int>(shapes.size()) != n.num_outputs())
    return InvalidArgument("output_shapes: expected ", n.num_outputs(),
                           ", got ", shapes.size());
  k->state = std::make_shared<AttrValue::Shapes>(std::move(shapes));
  k->run = RunGetValue;
  return OkStatus();
}

Status GetValueShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  const auto shapes = c.node().AttrOr<AttrValue::Shapes>("output_shapes", {});
  if (static_cast<int>(shapes.size()) != c.num_outputs())
    return InvalidArgument("output_shapes: expected ", c.num_outputs(),
                           ", got ", shapes.size());
  for (int i = 0; i < c.num_outputs(); ++i)
    c.set_output(i, shapes[static_cast<size_t>(i)]);
  return OkStatus();
}

Status FromValueGrad(GradContext& c) {
  AttrValue::Types types;
  AttrValue::Shapes shapes;
  for (const Output& in : c.op->inputs()) {
    types.push_back(RemoveRef(in.dtype()));
    shapes.push_back(in.shape());
  }
  Node* g = BuildNode("OptionalGetValue", {c.dy[0]},
                      {{"output_types", types}, {"output_shapes", shapes}});
  for (int i = 0; g != nullptr && i < g->num_outputs(); ++i)
    c.grads[static_cast<size_t>(i)] = Output(g, i);
  return OkStatus();
}

Status GetValueGrad(GradContext& c) {
  std::vector<Output> dy;
  for (int i = 0; i < c.op->num_outputs(); ++i) dy.push_back(c.DyOrZeros(i));
  c.grads[0] = Build("OptionalFromValue", std::move(dy));
  return OkStatus();
}

SLUICE_OP(OptionalFromValue)
    .Input("components: Toutput_types")
    .Output("optional: variant")
    .Attr("Toutput_types: list(type) >= 1")
    .Family("control_flow")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunFromValue))
    .Grad(FromValueGrad)
    .Doc("Returns an Optional that holds the values.");

SLUICE_OP(OptionalNone)
    .Output("optional: variant")
    .Family("control_flow")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunNone))
    .NoGradient("it has no inputs")
    .Doc("Returns an empty Optional.");

SLUICE_OP(OptionalHasValue)
    .Input("optional: variant")
    .Output("has_value: bool")
    .Family("control_flow")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunHasValue))
    .NoGradient("its output is boolean")
    .Doc("Whether an Optional holds values.");

SLUICE_OP(OptionalGetValue)
    .Input("optional: variant")
    .Output("components: output_types")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Family("control_flow")
    .Shape(GetValueShape)
    .Kernel(MakeGetValue)
    .Grad(GetValueGrad)
    .Doc("Returns the values of an Optional; an error if it is empty.");

// ---- FakeParam --------------------------------------------------------------

Status MakeFakeParam(const Node& n, Kernel* k) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape shape,
                          n.Attr<PartialShape>("shape"));
  const DType t = n.TypeAttr("dtype");
  // Its contents are never used; an unknown dimension is replaced by 0.
  Dims dims;
  for (int i = 0; i < shape.rank(); ++i)
    dims.push_back(std::max<int64_t>(0, shape.dim(i)));
  SLUICE_ASSIGN_OR_RETURN(Shape known, Shape::Make(dims));
  SLUICE_ASSIGN_OR_RETURN(Tensor value, Tensor::Zeros(t, known));
  k->state = std::make_shared<Tensor>(std::move(value));
  k->run = [](KernelContext& ctx) {
    ctx.set_output(0, ctx.state<Tensor>());
    return OkStatus();
  };
  return OkStatus();
}

Status FakeParamShape(ShapeContext& c) {
  c.set_output(0,
               c.node().AttrOr<PartialShape>("shape", PartialShape::Unknown()));
  return OkStatus();
}

SLUICE_OP(FakeParam)
    .Output("output: dtype")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Family("control_flow")
    .Shape(FakeParamShape)
    .Kernel(MakeFakeParam)
    .NoGradient("it has no inputs")
    .Doc(
        "A placeholder for a value that the other branch of a conditional "
        "returns and that is never read.");

}  // namespace
}  // namespace sluice
