// Deferred sums: sums of arrays of one shape whose summands are kept as what
// they are computed from (docs/design/046).
#ifndef SLUICE_OPS_TENSOR_ARRAY_DEFERRED_SUM_H_
#define SLUICE_OPS_TENSOR_ARRAY_DEFERRED_SUM_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "exec/core/kernel.h"
#include "tensor/object.h"
#include "tensor/tensor.h"

namespace sluice {

// Summands in terms of rows. The type is float or double.
struct DeferredTerm {
  enum class Kind : uint8_t {
    kProduct,   // a^T b, for matrices with equally many rows.
    kColumns,   // The sum of a over all dimensions but the last.
    kSegments,  // Row i of a is added to row b[i] of the sum, if that is not
                // negative; b has int32 or int64 and the first dimensions of a.
  };
  Kind kind = Kind::kProduct;
  Tensor a, b;
};

// The value of a variant: an array so far, and terms to be added to it, in this
// order. Immutable while shared, as all variants are. The terms take no more
// memory than the array would (or kRoom bytes): they are added to it before
// they exceed that. The order of additions depends only on the order in which
// sums were joined, not on threads.
class DeferredSumValue final : public Variant::Value {
 public:
  static constexpr int64_t kRoom = 4 << 20;

  std::string TypeName() const override { return "DeferredSum"; }

  // The type and shape of the sum; kInvalid if nothing was added yet.
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }

  // Adds a summand. InvalidArgument if its type or shape is another one; then
  // the sum is unchanged. The term is one that has been checked.
  Status Add(Tensor dense);
  Status Add(DeferredTerm term, const Shape& shape);
  // Adds another sum, whose parts are moved out if it has no other owner.
  Status Add(const DeferredSumValue& other);
  Status Add(DeferredSumValue&& other);

  // The array: moved out, which leaves nothing. `shape`: what it must be; zeros
  // of that shape if nothing was added.
  Result<Tensor> Take(DType dtype, const Shape& shape, Allocator* allocator);

 private:
  Status Join(DType dtype, const Shape& shape);
  Status AddDense(Tensor dense);
  // Adds the terms to the array if they take too much memory.
  Status KeepBounded();
  Status Evaluate(Allocator* allocator);
  template <typename T>
  Status EvaluateAs(Allocator* allocator);
  template <typename T>
  Status AddProducts(Allocator* allocator);
  template <typename T>
  void AddRows();

  DType dtype_ = DType::kInvalid;
  Shape shape_;
  Tensor dense_;  // Invalid: zeros.
  std::list<DeferredTerm> terms_;
  int64_t bytes_ = 0;  // Of the terms.
};

// The sum in `v`; null if `v` holds something else.
const DeferredSumValue* AsDeferredSum(const Variant& v);

// A scalar variant that holds the sum.
Tensor DeferredTensor(std::shared_ptr<DeferredSumValue> sum);
// Makes output 0 a sum of one term, which has been checked.
Status SetDeferredTerm(KernelContext& ctx, DeferredTerm term,
                       const Shape& shape);

// The operation of AddToVariant (ops/tensor_array/tensor_list.h).
Status AddToDeferredSum(const DeferredSumValue& x, Variant* sum);

}  // namespace sluice

#endif  // SLUICE_OPS_TENSOR_ARRAY_DEFERRED_SUM_H_
