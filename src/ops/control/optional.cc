#include "ops/tensor_array/optional.h"

#include <algorithm>
#include <cstring>
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

OptionalValue::~OptionalValue() {
  if (rows_ != nullptr) GiveItems(&values_);
  DropNested(std::move(values_));
}

void OptionalValue::GiveItems(std::vector<Tensor>* to) {
  if (rows_ == nullptr) {
    for (Tensor& t : values_) to->push_back(std::move(t));
    values_.clear();
    return;
  }
  for (BatchValue& column : rows_->columns)
    if (column.is_each && column.each[row_].valid())
      to->push_back(std::move(column.each[row_]));
}

Tensor OptionalValue::Get(size_t i) const {
  if (rows_ == nullptr) return values_[i];
  const BatchValue& column = rows_->columns[i];
  return column.is_each      ? column.each[row_]
         : column.is_stacked ? PartsOf(column.stacked)[row_]
                             : column.shared;
}

Tensor OptionalValue::Take(size_t i) {
  if (rows_ == nullptr) return std::move(values_[i]);
  BatchValue& column = rows_->columns[i];
  return column.is_each ? std::move(column.each[row_]) : Get(i);
}

std::vector<Tensor> OptionalValue::values() const {
  std::vector<Tensor> all;
  all.reserve(size());
  for (size_t i = 0; i < size(); ++i) all.push_back(Get(i));
  return all;
}

Status AddToOptional(const OptionalValue& x, Variant* sum, int depth) {
  const auto* a = sum->get<OptionalValue>();
  if (a == nullptr)
    return InvalidArgument("sum: expected two Optionals, got ",
                           sum->value()->TypeName(), " and ", x.TypeName());
  if (a->size() != x.size())
    return InvalidArgument(
        "sum: expected Optionals of one number of values, got ", a->size(),
        " and ", x.size());
  std::vector<Tensor> values = a->values();
  for (size_t i = 0; i < values.size(); ++i)
    SLUICE_RETURN_IF_ERROR(AddToTensor(x.Get(i), &values[i], depth));
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

// The Optional in a token.
Result<const OptionalValue*> AsOptional(const Tensor& t) {
  const OptionalValue* o = nullptr;
  if (t.dtype() == DType::kVariant && t.rank() == 0) {
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

// Whether it may move values out of its Optional: it has no other reader.
bool OwnsOptional(const Tensor& token) {
  return token.unique() && token.raw_scalar<Variant>().unique();
}

Status RunHasValue(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const OptionalValue* o, AsOptional(ctx.input(0)));
  ctx.set_output(0, Tensor::Scalar(o->size() > 0));
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
  SLUICE_ASSIGN_OR_RETURN(const OptionalValue* o, AsOptional(ctx.input(0)));
  if (o->size() == 0)
    return InvalidArgument("optional: expected a value, got none");
  if (static_cast<int>(o->size()) != ctx.num_outputs())
    return InvalidArgument("optional: expected ", ctx.num_outputs(),
                           " values, got ", o->size());
  for (int i = 0; i < ctx.num_outputs(); ++i) {
    const Tensor t = o->Get(static_cast<size_t>(i));
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
  const bool only_reader = OwnsOptional(token);
  for (int i = 0; i < ctx.num_outputs(); ++i) {
    const auto at = static_cast<size_t>(i);
    // (Every value was created as non-const.)
    ctx.set_output(
        i, only_reader ? const_cast<OptionalValue*>(o)->Take(at) : o->Get(at));
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

// ---- For all instances of a batch -------------------------------------------

bool AnyBorrowed(const BatchValue& v) {
  return (v.is_shared && v.shared.borrowed()) ||
         (v.is_stacked && v.stacked.borrowed()) ||
         (v.is_each &&
          std::any_of(v.each.begin(), v.each.end(),
                      [](const Tensor& t) { return t.borrowed(); }));
}

// OptionalFromValue: the Optionals share their values' buffers.
Status PackAll(BatchCall& call) {
  auto rows = std::make_shared<OptionalRows>();
  rows->count = call.count;
  rows->columns.resize(call.inputs.size());
  for (const BatchValue* in : call.inputs)
    if (AnyBorrowed(*in)) return Unimplemented("optional: of borrowed memory");
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    BatchValue &from = *call.inputs[i], &to = rows->columns[i];
    // (Small values that are equal in one batch differ from the next one's,
    // with which the instances of the gradient are to run.)
    if (from.is_shared && from.shared.bytes() > kComparedBytes) {
      to.shared = from.shared;
      to.is_shared = true;
    } else if (from.is_shared) {
      to.each.assign(call.count, from.shared);
      to.is_each = true;
    } else if (from.is_stacked) {
      to.stacked = from.stacked;
      to.is_stacked = true;
    } else {
      to.each = call.last_read[i] ? std::move(from.each) : from.each;
      to.is_each = true;
    }
  }
  BatchValue& out = call.outputs[0];
  out.is_each = true;
  out.each.reserve(call.count);
  for (size_t k = 0; k < call.count; ++k)
    out.each.push_back(Tensor::Scalar<Variant>(
        Variant(std::make_shared<OptionalValue>(rows, k))));
  return OkStatus();
}

// The Optionals of the instances, which all have a row for each output.
Result<std::vector<OptionalValue*>> RowsOf(const BatchCall& call) {
  if (!call.inputs[0]->is_each)
    return Unimplemented("optional: not one for each instance");
  std::vector<OptionalValue*> optionals;
  optionals.reserve(call.count);
  for (const Tensor& t : call.inputs[0]->each) {
    SLUICE_ASSIGN_OR_RETURN(const OptionalValue* o, AsOptional(t));
    if (o->rows() == nullptr || o->size() != call.outputs.size())
      return Unimplemented("optional: not of a batch");
    // (Every value was created as non-const.)
    optionals.push_back(const_cast<OptionalValue*>(o));
  }
  return optionals;
}

// Whether a value is what OptionalGetValue declares as output i.
bool IsDeclared(const Tensor& t, const Node& n, const Kernel& kernel,
                size_t i) {
  const auto& shapes =
      *static_cast<const AttrValue::Shapes*>(kernel.state.get());
  return t.dtype() == n.output_type(static_cast<int>(i)) &&
         Fits(t.shape(), shapes[i]);
}

// The elements of value i of all Optionals, one after the other.
Result<Tensor> StackColumn(const BatchCall& call,
                           std::span<OptionalValue* const> optionals,
                           size_t i) {
  const Tensor first = optionals[0]->Get(i);
  const Shape& shape = first.shape();
  if (!IsDeclared(first, call.node, call.kernel, i))
    return Unimplemented("optional: of another type or shape");
  const auto fits = [&](const Tensor& t, std::span<const int64_t> dims) {
    return t.dtype() == first.dtype() &&
           std::equal(dims.begin(), dims.end(), shape.dims().begin(),
                      shape.dims().end());
  };
  // (Most come from few batches.)
  const OptionalRows* checked = nullptr;
  bool in_a_row = true;
  for (size_t k = 0; k < optionals.size(); ++k) {
    const OptionalValue& o = *optionals[k];
    in_a_row = in_a_row && o.rows() == optionals[0]->rows() &&
               o.row() == optionals[0]->row() + k;
    if (o.rows().get() == checked) continue;
    const BatchValue& column = o.rows()->columns[i];
    bool same;
    if (column.is_stacked) {
      checked = o.rows().get();
      same = fits(column.stacked, column.stacked.shape().dims().subspan(1));
    } else {
      const Tensor t = o.Get(i);
      same = fits(t, t.shape().dims());
    }
    if (!same) return Unimplemented("optional: of other types or shapes");
  }
  Dims dims = {static_cast<int64_t>(call.count)};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  SLUICE_ASSIGN_OR_RETURN(const Shape all_shape, Shape::Make(dims));
  const Tensor& source = optionals[0]->rows()->columns[i].stacked;
  if (in_a_row) {
    const auto begin = static_cast<int64_t>(optionals[0]->row());
    return source.Rows(begin, begin + static_cast<int64_t>(call.count));
  }
  SLUICE_ASSIGN_OR_RETURN(
      Tensor all, Tensor::Make(first.dtype(), all_shape, call.allocator));
  const size_t bytes = first.bytes();
  char* to = static_cast<char*>(all.raw());
  for (size_t k = 0; bytes > 0 && k < optionals.size(); ++k, to += bytes) {
    const OptionalValue& o = *optionals[k];
    const BatchValue& column = o.rows()->columns[i];
    if (column.is_stacked)
      std::memcpy(
          to, static_cast<const char*>(column.stacked.raw()) + o.row() * bytes,
          bytes);
    else
      std::memcpy(to, o.Get(i).raw(), bytes);
  }
  return all;
}

// OptionalGetValue: values that PackAll stacked are stacked again, without a
// tensor for each instance.
Status UnpackAll(BatchCall& call) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<OptionalValue*> optionals,
                          RowsOf(call));
  const auto form_of = [&](size_t i) -> const BatchValue& {
    return optionals[0]->rows()->columns[i];
  };
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    BatchValue& out = call.outputs[i];
    if (!form_of(i).is_stacked) continue;
    SLUICE_ASSIGN_OR_RETURN(out.stacked, StackColumn(call, optionals, i));
    out.is_stacked = true;
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    BatchValue& out = call.outputs[i];
    if (out.is_stacked) continue;
    const Tensor& shared = form_of(i).shared;
    bool is_shared = form_of(i).is_shared;
    for (const OptionalValue* o : optionals) {
      const BatchValue& column = o->rows()->columns[i];
      is_shared =
          is_shared && column.is_shared && SameTensor(column.shared, shared);
      if (!IsDeclared(o->Get(i), call.node, call.kernel, i))
        return Unimplemented("optional: of other types or shapes");
    }
    if (!is_shared) continue;
    out.shared = shared;
    out.is_shared = true;
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    BatchValue& out = call.outputs[i];
    if (out.is_stacked || out.is_shared) continue;
    out.is_each = true;
    out.each.reserve(call.count);
    for (size_t k = 0; k < call.count; ++k) {
      const bool takes =
          call.last_read[0] && OwnsOptional(call.inputs[0]->each[k]);
      out.each.push_back(takes ? optionals[k]->Take(i) : optionals[k]->Get(i));
    }
  }
  return OkStatus();
}

// Whether what their batches share in two Optionals is the same.
bool ShareTheSame(const Tensor& a, const Tensor& b) {
  const Result<const OptionalValue*> x = AsOptional(a), y = AsOptional(b);
  if (!x.ok() || !y.ok()) return false;
  const OptionalRows *rows = (*x)->rows().get(), *other = (*y)->rows().get();
  if (rows == other) return true;
  if (rows == nullptr || other == nullptr ||
      rows->columns.size() != other->columns.size())
    return false;
  for (size_t i = 0; i < rows->columns.size(); ++i) {
    const BatchValue &c = rows->columns[i], &d = other->columns[i];
    if (c.is_shared != d.is_shared ||
        (c.is_shared && !SameTensor(c.shared, d.shared)))
      return false;
  }
  return true;
}

// Where the first value that is stacked lies.
const void* PlaceOfRow(const Tensor& t) {
  const Result<const OptionalValue*> o = AsOptional(t);
  if (!o.ok() || (*o)->rows() == nullptr) return nullptr;
  const OptionalRows& rows = *(*o)->rows();
  for (const BatchValue& column : rows.columns)
    if (column.is_stacked)
      return static_cast<const char*>(column.stacked.raw()) +
             (*o)->row() * (column.stacked.bytes() / rows.count);
  return nullptr;
}

const BatchKernelRegistrar pack_all("OptionalFromValue", {PackAll});
const BatchKernelRegistrar unpack_all("OptionalGetValue",
                                      {UnpackAll, ShareTheSame, PlaceOfRow});

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
