#include "ops/tensor_array/tensor_list.h"

#include <typeinfo>

#include "kernels/simd/binary.h"
#include "ops/common/carrier_type.h"
#include "ops/common/elements.h"
#include "ops/tensor_array/deferred_sum.h"
#include "ops/tensor_array/optional.h"
#include "ops/tensor_array/tensor_array.h"

namespace sluice {
namespace {

// The list in `v`; null unless `v` is its only owner.
TensorList* OwnList(const Variant& v) {
  const TensorList* list = AsList(v);
  // Every list was created as non-const.
  return list != nullptr && v.unique() ? const_cast<TensorList*>(list)
                                       : nullptr;
}

std::string NameOf(const Variant& v) {
  return v.empty() ? "nothing" : v.value()->TypeName();
}

Status CheckDepth(int depth) {
  constexpr int kMax = 1000;
  return depth < kMax ? OkStatus()
                      : InvalidArgument("lists of lists: expected at most ",
                                        kMax, " levels of nesting, got more");
}

}  // namespace

// Uses a worklist of the remaining tensors instead of recursion.
void DropNested(std::vector<Tensor> items) {
  while (!items.empty()) {
    Tensor t = std::move(items.back());
    items.pop_back();
    if (t.dtype() != DType::kVariant || !t.unique()) continue;
    for (const Variant& v : std::as_const(t).raw_flat<Variant>()) {
      if (!v.unique()) continue;
      // Every value was created as non-const.
      if (const auto* nested = v.get<NestedValue>())
        const_cast<NestedValue*>(nested)->GiveItems(&items);
    }
  }
}

void TensorList::GiveItems(std::vector<Tensor>* to) {
  if (dtype != DType::kVariant) return;
  for (Tensor& item : items) to->push_back(std::move(item));
  items.clear();
}

TensorList::~TensorList() {
  if (dtype == DType::kVariant) DropNested(std::move(items));
}

Tensor ListTensor(std::shared_ptr<TensorList> list) {
  return Tensor::Scalar<Variant>(Variant(std::move(list)));
}

const TensorList* AsList(const Variant& v) {
  const Variant::Value* value = v.value();
  if (value == nullptr || typeid(*value) != typeid(TensorList)) return nullptr;
  return static_cast<const TensorList*>(value);
}

Result<const TensorList*> ListInput(const KernelContext& ctx, int i,
                                    DType dtype) {
  const Tensor& t = ctx.input(i);
  if (t.dtype() != DType::kVariant || t.rank() != 0) [[unlikely]]
    return InvalidArgument("input ", i, ": expected a scalar variant, got ",
                           t.ToString());
  const auto& v = t.raw_scalar<Variant>();
  const TensorList* list = AsList(v);
  if (list == nullptr) [[unlikely]]
    return InvalidArgument("input ", i, ": expected a TensorList, got ",
                           NameOf(v));
  if (dtype != DType::kInvalid && dtype != list->dtype) [[unlikely]]
    return InvalidArgument("input ", i, ": expected a list of ",
                           DTypeName(dtype), ", got one of ",
                           DTypeName(list->dtype));
  return list;
}

Result<TensorList*> MutableList(KernelContext& ctx, DType dtype) {
  SLUICE_ASSIGN_OR_RETURN(const TensorList* shared, ListInput(ctx, 0, dtype));
  Tensor token = ctx.TakeInput(0);
  if (token.unique()) {
    if (TensorList* own = OwnList(token.raw_scalar<Variant>())) {
      ctx.set_output(0, std::move(token));
      return own;
    }
  }
  auto copy = std::make_shared<TensorList>(*shared);
  TensorList* own = copy.get();
  ctx.set_output(0, ListTensor(std::move(copy)));
  return own;
}

// ---- Shapes -----------------------------------------------------------------

Result<PartialShape> PartialShapeFrom(const Tensor& t, const char* what) {
  if (t.rank() == 0 && array::IntAt(t, 0) == -1) return PartialShape();
  if (t.rank() != 1 || t.num_elements() > kMaxRank)
    return InvalidArgument(what,
                           ": expected a vector of at most 8 dimensions, or "
                           "the scalar -1, got ",
                           t.ToString());
  PartialShape shape = PartialShape::Scalar();
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const int64_t d = array::IntAt(t, i);
    if (d < -1)
      return InvalidArgument(what, ": expected dimensions >= -1, got ", d);
    shape.add_dim(d);
  }
  return shape;
}

Result<PartialShape> ElementShape(const TensorList& list, const Tensor& shape) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape given,
                          PartialShapeFrom(shape, "element_shape"));
  Result<PartialShape> merged = list.element_shape.MergeWith(given);
  if (!merged.ok())
    return InvalidArgument("element_shape: expected one that fits the list's, ",
                           list.element_shape.ToString(), ", got ",
                           given.ToString());
  return merged;
}

Status CheckItem(const TensorList& list, const Shape& shape) {
  if (!list.element_shape.rank_known() ||
      list.element_shape.CompatibleWith(shape))
    return OkStatus();
  return InvalidArgument("item: expected a shape that fits the list's, ",
                         list.element_shape.ToString(), ", got ",
                         shape.ToString());
}

// ---- Sizes ------------------------------------------------------------------

Result<std::shared_ptr<TensorList>> NewList(DType dtype,
                                            PartialShape element_shape,
                                            int64_t size) {
  auto list = std::make_shared<TensorList>();
  list->dtype = dtype;
  list->element_shape = std::move(element_shape);
  SLUICE_RETURN_IF_ERROR(ResizeList(list.get(), size));
  return list;
}

Status ResizeList(TensorList* list, int64_t size) {
  SLUICE_RETURN_IF_ERROR(TensorArrayState::CheckSize(size));
  if (list->max_size >= 0 && size > list->max_size)
    return InvalidArgument("list: expected at most ", list->max_size,
                           " items (max_num_elements), got ", size);
  list->items.resize(static_cast<size_t>(size));
  return OkStatus();
}

// ---- Sums -------------------------------------------------------------------

Status AddToTensor(const Tensor& b, Tensor* a, int depth) {
  const DType t = a->dtype();
  const int64_t n = a->num_elements();
  if (b.dtype() != t || !(b.shape() == a->shape()))
    return InvalidArgument(
        "sum: expected ", DTypeName(t), " of shape ", a->shape().ToString(),
        ", got ", DTypeName(b.dtype()), " of shape ", b.shape().ToString());
  if (n == 0) return OkStatus();
  if (t == DType::kVariant) {
    if (!a->unique()) {
      SLUICE_ASSIGN_OR_RETURN(*a, a->Clone());
    }
    for (int64_t i = 0; i < n; ++i)
      SLUICE_RETURN_IF_ERROR(
          AddToVariant(b.raw<Variant>()[i], &a->raw<Variant>()[i], depth + 1));
    return OkStatus();
  }
  const simd::BinaryKernel add =
      simd::GetBinary(simd::BinaryOp::kAdd, CarrierType(t));
  if (!add)
    return InvalidArgument("sum: expected a type that has sums, got ",
                           DTypeName(t));
  if (a->unique()) {
    add(a->raw(), b.raw(), a->raw(), n);
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(Tensor sum, Tensor::Make(t, a->shape()));
  add(std::as_const(*a).raw(), b.raw(), sum.raw(), n);
  *a = std::move(sum);
  return OkStatus();
}

Status AddToVariant(const Variant& x, Variant* sum, int depth) {
  if (x.empty()) return OkStatus();
  SLUICE_RETURN_IF_ERROR(CheckDepth(depth));
  if (sum->empty()) {
    *sum = x;
    return OkStatus();
  }
  if (const auto* optional = x.get<OptionalValue>())
    return AddToOptional(*optional, sum, depth);
  if (const auto* deferred = AsDeferredSum(x))
    return AddToDeferredSum(*deferred, sum);
  const TensorList *a = AsList(*sum), *b = AsList(x);
  if (a == nullptr || b == nullptr)
    return InvalidArgument(
        "sum: expected two TensorLists or two Optionals, got ", NameOf(*sum),
        " and ", NameOf(x));
  if (a->dtype != b->dtype)
    return InvalidArgument("sum: expected lists of one type, got ",
                           DTypeName(a->dtype), " and ", DTypeName(b->dtype));
  if (a->size() != b->size())
    return InvalidArgument("sum: expected lists of one length, got ", a->size(),
                           " and ", b->size());
  SLUICE_ASSIGN_OR_RETURN(PartialShape shape,
                          a->element_shape.MergeWith(b->element_shape));
  TensorList* own = OwnList(*sum);
  if (own == nullptr) {
    auto copy = std::make_shared<TensorList>(*a);
    own = copy.get();
    *sum = Variant(std::move(copy));
  }
  own->element_shape = std::move(shape);
  for (size_t i = 0; i < own->items.size(); ++i) {
    if (!b->items[i].valid()) continue;
    if (!own->items[i].valid())
      own->items[i] = b->items[i];
    else
      SLUICE_RETURN_IF_ERROR(AddToTensor(b->items[i], &own->items[i], depth));
  }
  return OkStatus();
}

Result<Variant> ZerosLikeVariant(const Variant& x, int depth) {
  if (x.empty()) return x;
  SLUICE_RETURN_IF_ERROR(CheckDepth(depth));
  if (const auto* optional = x.get<OptionalValue>())
    return ZerosLikeOptional(*optional, depth);
  if (AsDeferredSum(x) != nullptr)
    return Variant(std::make_shared<DeferredSumValue>());
  const TensorList* list = AsList(x);
  if (list == nullptr)
    return InvalidArgument("zeros: expected a TensorList or an Optional, got ",
                           NameOf(x));
  auto zeros = std::make_shared<TensorList>();
  zeros->dtype = list->dtype;
  zeros->element_shape = list->element_shape;
  zeros->max_size = list->max_size;
  zeros->items.resize(list->items.size());
  for (size_t i = 0; i < list->items.size(); ++i) {
    if (!list->items[i].valid()) continue;
    SLUICE_ASSIGN_OR_RETURN(zeros->items[i],
                            ZerosLikeTensor(list->items[i], depth + 1));
  }
  return Variant(std::move(zeros));
}

Result<Tensor> ZerosLikeTensor(const Tensor& x, int depth) {
  SLUICE_ASSIGN_OR_RETURN(Tensor zeros, Tensor::Zeros(x.dtype(), x.shape()));
  if (x.dtype() != DType::kVariant) return zeros;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(zeros.raw<Variant>()[i],
                            ZerosLikeVariant(x.raw<Variant>()[i], depth));
  }
  return zeros;
}

}  // namespace sluice
