#include "client/control/tensor_array.h"

#include <optional>
#include <utility>

#include "client/op_builder.h"
#include "client/types_and_shapes.h"
#include "graph/graph.h"
#include "graph/shape_context.h"
#include "graph/tensor_array_info.h"

namespace sluice {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

// The shape without its first dimension.
PartialShape Rest(const PartialShape& shape) {
  if (!shape.rank_known() || shape.rank() == 0) return PartialShape();
  return PartialShape(std::span<const int64_t>(
      shape.dims().data() + 1, static_cast<size_t>(shape.rank() - 1)));
}

PartialShape WithFirst(int64_t first, const PartialShape& rest) {
  if (!rest.rank_known()) return rest;
  PartialShape shape = {first};
  for (const int64_t d : rest.dims()) shape.add_dim(d);
  return shape;
}

// Returned for an array that could not be created or written.
TensorArray Null() {
  const Output failed = CurrentGraph().Failure();
  const Output* flow = &failed;
  return TensorArray().Unflatten(flow);
}

// 0, 1, ..., n - 1.
Output Count(const Output& n, SourceLoc loc) {
  const AtLine at(loc);
  return OpCall("Range", "", loc).In(0).In(n).In(1).Out();
}

}  // namespace

TensorArray::TensorArray(DType dtype, const Operand& size,
                         const TensorArrayOptions& options, SourceLoc loc) {
  const Lock lock(CurrentGraph().mutex());
  const Output n = size.Get(DType::kInt32);
  Node* node = OpCall("TensorArrayV3", options.name, loc)
                   .In(n)
                   .Attr("dtype", RemoveRef(dtype))
                   .Attr("element_shape", options.element_shape)
                   .Attr("dynamic_size", options.dynamic_size)
                   .Attr("clear_after_read", options.clear_after_read)
                   .Attr("identical_element_shapes", options.infer_shape)
                   .Run();
  if (node == nullptr) {
    flow_ = CurrentGraph().Failure();
    return;
  }
  array_ = std::make_shared<Array>();
  array_->name = node->name();
  array_->handle = Output(node, 0);
  array_->dtype = RemoveRef(dtype);
  array_->infer_shape = options.infer_shape;
  array_->element_shape = options.element_shape;
  if (!options.dynamic_size) array_->fixed_size = n;
  flow_ = Output(node, 1);
}

TensorArray TensorArray::FromHandle(Output handle, Output flow, DType dtype) {
  TensorArray t;
  if (!handle.valid() || !flow.valid()) return t;
  t.array_ = std::make_shared<Array>();
  t.array_->name = handle.node->name();
  t.array_->handle = handle;
  t.array_->element_shape = TensorArrayElementShape(handle);
  t.array_->infer_shape = false;
  t.array_->dtype = dtype;
  // A gradient array has its forward array's type.
  const Node* made = TensorArrayBehind(handle);
  while (made != nullptr && made->kind() != OpKind::kTensorArray)
    made = TensorArrayBehind(made->input(0));
  if (made != nullptr) {
    t.array_->dtype = made->TypeAttr("dtype");
    t.array_->infer_shape = made->BoolAttr("identical_element_shapes");
  }
  t.flow_ = flow;
  return t;
}

Output TensorArray::handle() const {
  return array_ == nullptr ? flow_ : array_->handle;
}

DType TensorArray::dtype() const {
  return array_ == nullptr ? DType::kInvalid : array_->dtype;
}

PartialShape TensorArray::element_shape() const {
  return array_ == nullptr ? PartialShape() : array_->element_shape;
}

// Converts a value to the array's type.
Output TensorArray::Value(const Operand& value, SourceLoc loc) const {
  const Output v = value.Get(dtype());
  if (v.valid() && dtype() != DType::kInvalid &&
      RemoveRef(v.dtype()) != dtype())
    return BuildError(
        InvalidArgument("TensorArray '", array_->name,
                        "': expected a value of type ", DTypeName(dtype()),
                        ", got ", DTypeName(v.dtype())),
        loc);
  return v;
}

// Records that the elements have this shape; false (with an error) if that is
// impossible.
bool TensorArray::Narrow(const PartialShape& shape, SourceLoc loc) const {
  Result<PartialShape> merged = array_->element_shape.MergeWith(shape);
  if (!merged.ok()) {
    BuildError(
        InvalidArgument(
            "TensorArray '", array_->name, "': expected an element of shape ",
            array_->element_shape.ToString(), ", got ", shape.ToString(),
            array_->infer_shape ? "; hint: infer_shape = false allows several"
                                : ""),
        loc);
    return false;
  }
  if (array_->infer_shape) array_->element_shape = *std::move(merged);
  return true;
}

Output TensorArray::Read(const Operand& index, SourceLoc loc) const {
  const Lock lock(CurrentGraph().mutex());
  return Shaped(OpCall("TensorArrayReadV3", "", loc)
                    .In(handle())
                    .In(index)
                    .In(flow_)
                    .Attr("dtype", dtype())
                    .Out(),
                element_shape(), loc);
}

TensorArray TensorArray::Write(const Operand& index, const Operand& value,
                               SourceLoc loc) const {
  const Lock lock(CurrentGraph().mutex());
  const Output v = *this ? Value(value, loc) : flow_;
  if (!v.valid() || !Narrow(v.shape(), loc)) return Null();
  return WithFlow(OpCall("TensorArrayWriteV3", "", loc)
                      .In(handle())
                      .In(index)
                      .In(v)
                      .In(flow_)
                      .Out());
}

Output TensorArray::Stack(SourceLoc loc) const {
  const Lock lock(CurrentGraph().mutex());
  if (!*this) return flow_;
  return Gather(Count(Size(loc), loc), loc);
}

Output TensorArray::Gather(const Operand& indices, SourceLoc loc) const {
  const Lock lock(CurrentGraph().mutex());
  return OpCall("TensorArrayGatherV3", "", loc)
      .In(handle())
      .In(indices)
      .In(flow_)
      .Attr("dtype", dtype())
      .Attr("element_shape", element_shape())
      .Out();
}

TensorArray TensorArray::Unstack(const Operand& value, SourceLoc loc) const {
  const Lock lock(CurrentGraph().mutex());
  const Output v = *this ? Value(value, loc) : flow_;
  if (!v.valid()) return Null();
  return Scatter(Count(DimOf(v, 0, loc), loc), v, loc);
}

TensorArray TensorArray::Scatter(const Operand& indices, const Operand& value,
                                 SourceLoc loc) const {
  const Lock lock(CurrentGraph().mutex());
  const Output v = *this ? Value(value, loc) : flow_;
  if (!v.valid() || !Narrow(Rest(v.shape()), loc)) return Null();
  return WithFlow(OpCall("TensorArrayScatterV3", "", loc)
                      .In(handle())
                      .In(indices)
                      .In(v)
                      .In(flow_)
                      .Out());
}

Output TensorArray::Concat(Output* lengths, SourceLoc loc) const {
  const Lock lock(CurrentGraph().mutex());
  Node* n = OpCall("TensorArrayConcatV3", "", loc)
                .In(handle())
                .In(flow_)
                .Attr("dtype", dtype())
                .Attr("element_shape_except0", Rest(element_shape()))
                .Run();
  if (n == nullptr) {
    const Output failed = CurrentGraph().Failure();
    if (lengths != nullptr) *lengths = failed;
    return failed;
  }
  if (lengths != nullptr) *lengths = Output(n, 1);
  // If all elements have one known shape, the sum is known.
  const PartialShape& element = array_->element_shape;
  const std::optional<Tensor> size = array_->fixed_size.valid()
                                         ? ConstantValue(array_->fixed_size)
                                         : std::nullopt;
  int64_t rows = -1;
  if (size && array_->infer_shape && element.rank() >= 1 && element.dim(0) >= 0)
    rows = MultiplyOrNegative(size->raw_scalar<int32_t>(), element.dim(0));
  return Shaped(Output(n, 0), WithFirst(rows, Rest(element)), loc);
}

TensorArray TensorArray::Split(const Operand& value, const Operand& lengths,
                               SourceLoc loc) const {
  const Lock lock(CurrentGraph().mutex());
  const Output v = *this ? Value(value, loc) : flow_;
  Output each = lengths.Get(DType::kInt64);
  if (each.valid() && each.dtype() != DType::kInt64)
    each = Build("Cast", {each}, {{"DstT", DType::kInt64}}, "", loc);
  if (!v.valid() || !each.valid()) return Null();
  if (v.shape().rank() >= 1) {
    int64_t rows = -1;
    if (const std::optional<Tensor> known = ConstantValue(each);
        known && known->num_elements() > 0) {
      rows = known->raw<int64_t>()[0];
      for (const int64_t l : known->raw_flat<int64_t>())
        if (l != rows) rows = -1;
    }
    if (!Narrow(WithFirst(rows, Rest(v.shape())), loc)) return Null();
  }
  return WithFlow(OpCall("TensorArraySplitV3", "", loc)
                      .In(handle())
                      .In(v)
                      .In(each)
                      .In(flow_)
                      .Out());
}

Output TensorArray::Size(SourceLoc loc) const {
  if (array_ != nullptr && array_->fixed_size.valid())
    return array_->fixed_size;
  return OpCall("TensorArraySizeV3", "", loc).In(handle()).In(flow_).Out();
}

TensorArray TensorArray::Identity(SourceLoc loc) const {
  return WithFlow(Build("Identity", {flow_}, {}, "", loc));
}

TensorArray TensorArray::Grad(const std::string& source, SourceLoc loc) const {
  const Lock lock(CurrentGraph().mutex());
  Node* n = BuildNode("TensorArrayGradV3", {handle(), flow_},
                      {{"source", source}}, "", loc);
  if (n == nullptr) return Null();
  TensorArray t = WithFlow(Output(n, 1));
  t.array_ = std::make_shared<Array>(*array_);
  t.array_->handle = Output(n, 0);
  t.array_->name = n->name();
  return t;
}

Node* TensorArray::Close(SourceLoc loc) const {
  return BuildNode("TensorArrayCloseV3", {handle()}, {}, "", loc);
}

}  // namespace sluice
