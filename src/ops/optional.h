// Optional values, and parameters that nobody reads: TensorFlow's front end
// gives both branches of a conditional the same results by them.
#ifndef SLUICE_OPS_OPTIONAL_H_
#define SLUICE_OPS_OPTIONAL_H_

#include <string>
#include <utility>
#include <vector>

#include "ops/tensor_list.h"
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

 private:
  std::vector<Tensor> values_;
};

// What AddToVariant and ZerosLikeVariant (ops/tensor_list.h) do to these: one
// without values fits only its like.
Status AddToOptional(const OptionalValue& x, Variant* sum, int depth);
Result<Variant> ZerosLikeOptional(const OptionalValue& x, int depth);

}  // namespace sluice

#endif  // SLUICE_OPS_OPTIONAL_H_
