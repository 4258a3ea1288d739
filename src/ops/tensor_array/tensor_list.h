// Lists of tensors as values: the contents of variant edges in graphs written
// by TensorFlow 2.
#ifndef SLUICE_OPS_TENSOR_ARRAY_TENSOR_LIST_H_
#define SLUICE_OPS_TENSOR_ARRAY_TENSOR_LIST_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "tensor/object.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace sluice {

// A variant's value that holds tensors. These may be variants in turn, nested
// deeper than a thread's stack allows: destructors pass their tensors to
// DropNested instead of destroying them recursively.
struct NestedValue : Variant::Value {
  // Moves out the tensors that may hold other tensors. Called when the value
  // has no other owner.
  virtual void GiveItems(std::vector<Tensor>* to) = 0;
};
void DropNested(std::vector<Tensor> items);

// The value of a variant. Immutable while shared, as all variants are: an op
// that changes a list takes its token and writes in place if it is the only
// owner (MutableList), else into a copy, which shares the items.
struct TensorList final : NestedValue {
  TensorList() = default;
  TensorList(const TensorList&) = default;
  TensorList& operator=(const TensorList&) = delete;
  ~TensorList() override;
  std::string TypeName() const override { return "TensorList"; }
  void GiveItems(std::vector<Tensor>* to) override;

  int64_t size() const { return static_cast<int64_t>(items.size()); }

  DType dtype = DType::kInvalid;
  PartialShape element_shape;  // Every item fits it.
  int64_t max_size = -1;       // No limit if negative.
  std::vector<Tensor> items;   // An invalid item is unset and reads as zeros.
};

// A scalar variant that holds the list.
Tensor ListTensor(std::shared_ptr<TensorList> list);

// The list in `v`; null if `v` holds something else.
const TensorList* AsList(const Variant& v);

// The list in input i, with items of type `dtype` (kInvalid: any); valid as
// long as the token.
Result<const TensorList*> ListInput(const KernelContext& ctx, int i,
                                    DType dtype = DType::kInvalid);

// Makes output 0 the list of input 0, which the caller may then change: the
// same list if it has no other owner, else a copy.
Result<TensorList*> MutableList(KernelContext& ctx,
                                DType dtype = DType::kInvalid);

// A shape given as a tensor: a vector of dimensions with -1 for unknown, or the
// scalar -1 for an unknown rank.
Result<PartialShape> PartialShapeFrom(const Tensor& t, const char* what);
// The list's element shape merged with the one given by a tensor.
Result<PartialShape> ElementShape(const TensorList& list, const Tensor& shape);
// InvalidArgument unless an item of this shape is allowed in the list.
Status CheckItem(const TensorList& list, const Shape& shape);

// A list of unset items.
Result<std::shared_ptr<TensorList>> NewList(DType dtype,
                                            PartialShape element_shape,
                                            int64_t size);
// Extends the list (with unset items) or truncates it.
Status ResizeList(TensorList* list, int64_t size);

// The operations of AddN and ZerosLike on variants: lists are handled item by
// item, Optionals value by value; an empty variant counts as zero.
// InvalidArgument for values of other types, and for nesting of more than 1,000
// levels (`depth`: the current level of x).
Status AddToVariant(const Variant& x, Variant* sum, int depth = 0);
Result<Variant> ZerosLikeVariant(const Variant& x, int depth = 0);
// Zeros of the type and shape of x; for variants, of the values that they hold.
Result<Tensor> ZerosLikeTensor(const Tensor& x, int depth = 0);

// a + b, for variants too. REQUIRES: equal types and shapes; writes into `a` if
// it has no other owner.
Status AddToTensor(const Tensor& b, Tensor* a, int depth = 0);

}  // namespace sluice

#endif  // SLUICE_OPS_TENSOR_ARRAY_TENSOR_LIST_H_
