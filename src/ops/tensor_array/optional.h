// Optional values, and parameters that are never read: TensorFlow's front end
// uses them to give both branches of a conditional the same result types.
#ifndef SLUICE_OPS_TENSOR_ARRAY_OPTIONAL_H_
#define SLUICE_OPS_TENSOR_ARRAY_OPTIONAL_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/batching/batch_objects.h"
#include "ops/tensor_array/tensor_list.h"
#include "tensor/object.h"
#include "tensor/tensor.h"

namespace sluice {

// The values of Optionals that were made for all instances of a batch at once
// (exec/batching): those of one input in one BatchValue, of one form. Each row
// belongs to one Optional, which alone reads and takes its tensors in `each`;
// the other forms are immutable.
struct OptionalRows {
  size_t count = 0;
  std::vector<BatchValue> columns;
};

// The value of a variant: some tensors, or none. Immutable.
class OptionalValue final : public NestedValue {
 public:
  explicit OptionalValue(std::vector<Tensor> values)
      : values_(std::move(values)) {}
  OptionalValue(std::shared_ptr<OptionalRows> rows, size_t row)
      : rows_(std::move(rows)), row_(row) {}
  ~OptionalValue() override;
  std::string TypeName() const override { return "Optional"; }
  void GiveItems(std::vector<Tensor>* to) override;
  size_t size() const {
    return rows_ == nullptr ? values_.size() : rows_->columns.size();
  }
  Tensor Get(size_t i) const;
  std::vector<Tensor> values() const;
  // Value i, moved out. REQUIRES: nobody else has this Optional.
  Tensor Take(size_t i);

  // Null if it was not made for a batch.
  const std::shared_ptr<OptionalRows>& rows() const { return rows_; }
  size_t row() const { return row_; }

 private:
  std::vector<Tensor> values_;  // If rows_ is null.
  std::shared_ptr<OptionalRows> rows_;
  size_t row_ = 0;
};

// The operations of AddToVariant and ZerosLikeVariant
// (ops/tensor_array/tensor_list.h) on Optionals: an Optional without values can
// only be added to another one without values.
Status AddToOptional(const OptionalValue& x, Variant* sum, int depth);
Result<Variant> ZerosLikeOptional(const OptionalValue& x, int depth);

}  // namespace sluice

#endif  // SLUICE_OPS_TENSOR_ARRAY_OPTIONAL_H_
