#include "ops/tensor_array/deferred_sum.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <typeinfo>
#include <utility>

#include "kernels/dnn/matmul.h"
#include "kernels/simd/binary.h"
#include "ops/tensor_array/tensor_list.h"

namespace sluice {
namespace {

int64_t BytesOfTerm(const DeferredTerm& t) {
  return static_cast<int64_t>(t.a.bytes()) +
         (t.b.valid() ? static_cast<int64_t>(t.b.bytes()) : 0);
}

// The rows of one factor of all products, one below the other.
template <typename T>
Result<Tensor> StackFactor(const std::list<DeferredTerm>& terms,
                           Tensor DeferredTerm::*factor, int64_t rows,
                           int64_t width, Allocator* allocator) {
  SLUICE_ASSIGN_OR_RETURN(
      Tensor all, Tensor::Make(DTypeOf<T>(), Shape({rows, width}), allocator));
  char* to = static_cast<char*>(all.raw());
  for (const DeferredTerm& t : terms) {
    if (t.kind != DeferredTerm::Kind::kProduct) continue;
    const Tensor& part = t.*factor;
    if (part.bytes() > 0) std::memcpy(to, part.raw(), part.bytes());
    to += part.bytes();
  }
  return all;
}

}  // namespace

const DeferredSumValue* AsDeferredSum(const Variant& v) {
  // (A dynamic_cast takes tens of nanoseconds; the class is final.)
  const Variant::Value* const value = v.value();
  return value != nullptr && typeid(*value) == typeid(DeferredSumValue)
             ? static_cast<const DeferredSumValue*>(value)
             : nullptr;
}

Tensor DeferredTensor(std::shared_ptr<DeferredSumValue> sum) {
  return Tensor::Scalar<Variant>(Variant(std::move(sum)));
}

Status SetDeferredTerm(KernelContext& ctx, DeferredTerm term,
                       const Shape& shape) {
  auto sum = std::make_shared<DeferredSumValue>();
  SLUICE_RETURN_IF_ERROR(sum->Add(std::move(term), shape));
  ctx.set_output(0, DeferredTensor(std::move(sum)));
  return OkStatus();
}

Status AddToDeferredSum(const DeferredSumValue& x, Variant* sum) {
  const DeferredSumValue* const a = AsDeferredSum(*sum);
  if (a == nullptr)
    return InvalidArgument("sum: expected two DeferredSums, got ",
                           sum->value()->TypeName(), " and ", x.TypeName());
  auto both = std::make_shared<DeferredSumValue>(*a);
  SLUICE_RETURN_IF_ERROR(both->Add(x));
  *sum = Variant(std::move(both));
  return OkStatus();
}

Status DeferredSumValue::Join(DType dtype, const Shape& shape) {
  if (dtype_ == DType::kInvalid) {
    dtype_ = dtype;
    shape_ = shape;
    return OkStatus();
  }
  if (dtype_ == dtype && shape_ == shape) return OkStatus();
  return InvalidArgument("deferred sum: expected ", DTypeName(dtype_),
                         " of shape ", shape_.ToString(), ", got ",
                         DTypeName(dtype), " of shape ", shape.ToString());
}

Status DeferredSumValue::AddDense(Tensor dense) {
  if (!dense_.valid()) {
    dense_ = std::move(dense);
    return OkStatus();
  }
  // Into the one that nobody else has; which one is the same in the result.
  if (!dense_.unique() && dense.unique()) std::swap(dense_, dense);
  return AddToTensor(dense, &dense_);
}

Status DeferredSumValue::Add(Tensor dense) {
  SLUICE_RETURN_IF_ERROR(Join(dense.dtype(), dense.shape()));
  return AddDense(std::move(dense));
}

Status DeferredSumValue::Add(DeferredTerm term, const Shape& shape) {
  SLUICE_RETURN_IF_ERROR(Join(term.a.dtype(), shape));
  bytes_ += BytesOfTerm(term);
  terms_.push_back(std::move(term));
  return KeepBounded();
}

Status DeferredSumValue::Add(const DeferredSumValue& other) {
  return Add(DeferredSumValue(other));
}

Status DeferredSumValue::Add(DeferredSumValue&& other) {
  if (other.dtype_ == DType::kInvalid) return OkStatus();
  SLUICE_RETURN_IF_ERROR(Join(other.dtype_, other.shape_));
  if (other.dense_.valid())
    SLUICE_RETURN_IF_ERROR(AddDense(std::exchange(other.dense_, Tensor())));
  terms_.splice(terms_.end(), other.terms_);
  bytes_ += std::exchange(other.bytes_, 0);
  other.dtype_ = DType::kInvalid;
  return KeepBounded();
}

Status DeferredSumValue::KeepBounded() {
  const int64_t array =
      shape_.num_elements() * static_cast<int64_t>(DTypeSize(dtype_));
  return bytes_ > std::max(array, kRoom) ? Evaluate(Allocator::Cpu())
                                         : OkStatus();
}

Status DeferredSumValue::Evaluate(Allocator* allocator) {
  if (terms_.empty()) return OkStatus();
  SLUICE_RETURN_IF_ERROR(dtype_ == DType::kFloat
                             ? EvaluateAs<float>(allocator)
                             : EvaluateAs<double>(allocator));
  terms_.clear();
  bytes_ = 0;
  return OkStatus();
}

template <typename T>
Status DeferredSumValue::EvaluateAs(Allocator* allocator) {
  if (dense_.valid() && !dense_.unique()) {
    SLUICE_ASSIGN_OR_RETURN(dense_, dense_.Clone());
  }
  SLUICE_RETURN_IF_ERROR(AddProducts<T>(allocator));
  if (!dense_.valid()) {
    SLUICE_ASSIGN_OR_RETURN(dense_, Tensor::Zeros(dtype_, shape_));
  }
  AddRows<T>();
  return OkStatus();
}

// All products are one product of all rows.
template <typename T>
Status DeferredSumValue::AddProducts(Allocator* allocator) {
  int64_t rows = 0, count = 0;
  const DeferredTerm* only = nullptr;
  for (const DeferredTerm& t : terms_) {
    if (t.kind != DeferredTerm::Kind::kProduct) continue;
    rows += t.a.dim(0);
    ++count;
    only = &t;
  }
  if (rows == 0) return OkStatus();
  dnn::GemmShape s;
  s.m = shape_.dim(0);
  s.n = shape_.dim(1);
  s.k = rows;
  s.trans_a = dnn::Trans::kTranspose;
  s.accumulate = dense_.valid();
  Tensor a, b;
  if (count == 1) {
    a = only->a;
    b = only->b;
  } else {
    SLUICE_ASSIGN_OR_RETURN(
        a, StackFactor<T>(terms_, &DeferredTerm::a, rows, s.m, allocator));
    SLUICE_ASSIGN_OR_RETURN(
        b, StackFactor<T>(terms_, &DeferredTerm::b, rows, s.n, allocator));
  }
  if (!dense_.valid()) {
    SLUICE_ASSIGN_OR_RETURN(dense_, Tensor::Make(dtype_, shape_, allocator));
  }
  dnn::Gemm<T>(s, std::as_const(a).raw<T>(), std::as_const(b).raw<T>(),
               dense_.raw<T>());
  return OkStatus();
}

template <typename T>
void DeferredSumValue::AddRows() {
  if (shape_.num_elements() == 0) return;
  const simd::BinaryKernel add =
      simd::GetBinary(simd::BinaryOp::kAdd, DTypeOf<T>());
  T* const sum = dense_.raw<T>();
  for (const DeferredTerm& t : terms_) {
    if (t.kind == DeferredTerm::Kind::kProduct) continue;
    const bool segments = t.kind == DeferredTerm::Kind::kSegments;
    const int64_t rows = segments ? t.b.num_elements()
                                  : t.a.num_elements() / shape_.num_elements();
    const int64_t width = rows > 0 ? t.a.num_elements() / rows : 0;
    const T* row = t.a.raw<T>();
    for (int64_t i = 0; i < rows; ++i, row += width) {
      int64_t to = 0;
      if (segments)
        to = t.b.dtype() == DType::kInt32 ? t.b.raw<int32_t>()[i]
                                          : t.b.raw<int64_t>()[i];
      if (to < 0) continue;
      add(sum + to * width, row, sum + to * width, width);
    }
  }
}

Result<Tensor> DeferredSumValue::Take(DType dtype, const Shape& shape,
                                      Allocator* allocator) {
  SLUICE_RETURN_IF_ERROR(Join(dtype, shape));
  SLUICE_RETURN_IF_ERROR(Evaluate(allocator));
  dtype_ = DType::kInvalid;
  if (!dense_.valid()) return Tensor::Zeros(dtype, shape);
  return std::exchange(dense_, Tensor());
}

}  // namespace sluice
