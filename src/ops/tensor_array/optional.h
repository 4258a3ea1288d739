// Optional values, and parameters that are never read: TensorFlow's front end
// uses them to give both branches of a conditional the same result types.
#ifndef SLUICE_OPS_TENSOR_ARRAY_OPTIONAL_H_
#define SLUICE_OPS_TENSOR_ARRAY_OPTIONAL_H_

#include <string>
#include <utility>
#include <vector>

#include "ops/tensor_array/tensor_list.h"
#include "tensor/object.h"
#include "tensor/tensor.h"

namespace sluice {

// The value of a variant: some tensors, or none. Immutable.
class OptionalValue final : public NestedValue {
 public:
  explicit OptionalValue(std::vector<Tensor> values)
      : values_(std::move(values)) {}
  ~OptionalValue() override { DropNested(std::move(values_)); }
  std::string TypeName() const override { return "Optional"; }
  void GiveItems(std::vector<Tensor>* to) override {
    for (Tensor& t : values_) to->push_back(std::move(t));
    values_.clear();
  }
  const std::vector<Tensor>& values() const { return values_; }
  // Value i, moved out. REQUIRES: nobody else has this Optional.
  Tensor Take(size_t i) { return std::move(values_[i]); }

 private:
  std::vector<Tensor> values_;
};

// The operations of AddToVariant and ZerosLikeVariant
// (ops/tensor_array/tensor_list.h) on Optionals: an Optional without values can
// only be added to another one without values.
Status AddToOptional(const OptionalValue& x, Variant* sum, int depth);
Result<Variant> ZerosLikeOptional(const OptionalValue& x, int depth);

}  // namespace sluice

#endif  // SLUICE_OPS_TENSOR_ARRAY_OPTIONAL_H_
