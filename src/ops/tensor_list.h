// Lists of tensors as values: what variant edges of graphs that TensorFlow 2
// wrote carry.
#ifndef SLUICE_OPS_TENSOR_LIST_H_
#define SLUICE_OPS_TENSOR_LIST_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "exec/kernel.h"
#include "tensor/object.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace sluice {

// A variant's value that holds tensors. Those may be variants in turn, nested
// deeper than a thread's stack is: who destroys one gives its tensors to
// DropNested.
struct NestedValue : Variant::Value {
  // Moves the tensors out that may hold others. Called when nobody else holds
  // the value.
  virtual void GiveItems(std::vector<Tensor>* to) = 0;
};
void DropNested(std::vector<Tensor> items);

// The value of a variant. Immutable while shared, as all variants are: an op
// that changes a list takes its token and writes in place if nobody else holds
// it (MutableList), else into a copy, which shares the items.
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
  int64_t max_size = -1;       // None if negative.
  std::vector<Tensor> items;   // An invalid one was not set: it is zeros.
};

// A scalar variant that holds the list.
Tensor ListTensor(std::shared_ptr<TensorList> list);

// Null if it holds something else.
const TensorList* AsList(const Variant& v);

// The list that input i holds, of items of type `dtype` (kInvalid: any); lives
// as long as the token.
Result<const TensorList*> ListInput(const KernelContext& ctx, int i,
                                    DType dtype = DType::kInvalid);

// Output 0 becomes input 0's list, which the caller may then change: the same
// list if nobody else holds it, else a copy.
Result<TensorList*> MutableList(KernelContext& ctx,
                                DType dtype = DType::kInvalid);

// A shape given as a tensor: a vector of dimensions, -1 unknown, or the scalar
// -1.
Result<PartialShape> PartialShapeFrom(const Tensor& t, const char* what);
// The list's element shape merged with one that a tensor gives.
Result<PartialShape> ElementShape(const TensorList& list, const Tensor& shape);
// InvalidArgument unless an item of this shape may stand in the list.
Status CheckItem(const TensorList& list, const Shape& shape);

// A list of items that are not set.
Result<std::shared_ptr<TensorList>> NewList(DType dtype,
                                            PartialShape element_shape,
                                            int64_t size);
// Makes the list longer (by items that are not set) or shorter.
Status ResizeList(TensorList* list, int64_t size);

// What AddN and ZerosLike do to variants: lists item by item, Optionals value
// by value; an empty variant is zero. InvalidArgument for values of other
// types, and for those nested more than 1,000 deep (`depth`: how deep x is
// already).
Status AddToVariant(const Variant& x, Variant* sum, int depth = 0);
Result<Variant> ZerosLikeVariant(const Variant& x, int depth = 0);
// Zeros of the type and shape of x; if variants, of what they hold.
Result<Tensor> ZerosLikeTensor(const Tensor& x, int depth = 0);

// a + b, also of variants. REQUIRES: one type and shape; writes into `a` if
// nobody else holds it.
Status AddToTensor(const Tensor& b, Tensor* a, int depth = 0);

}  // namespace sluice

#endif  // SLUICE_OPS_TENSOR_LIST_H_
