// The rows of one tensor as tensors that are computed in.
#ifndef SLUICE_OPS_ROW_GROUP_H_
#define SLUICE_OPS_ROW_GROUP_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace sluice {

// The rows of one tensor that nobody else has, each handed out as a buffer of
// its own: whoever takes a row may compute in it. The memory is one piece all
// the same, let go with the last row. Owned by its rows that are in use, by the
// array that hands them out and by that one's gradient arrays. Any thread may
// let a row go; one at a time hands out each, as the array's lock has it.
class RowGroup : public std::enable_shared_from_this<RowGroup> {
 public:
  // REQUIRES: whole.unique(), plain elements, whole.dim(0) > 0.
  explicit RowGroup(Tensor whole);
  // Row i, of this shape. REQUIRES: it was not handed out before.
  Tensor Row(size_t i, const Shape& shape);
  // All rows as one tensor, if `rows` are these, in their order, and each has
  // no other owner; it is the only one that has them when `rows` are gone. Else
  // an invalid tensor.
  Tensor Joined(std::span<const Tensor> rows) const;
  // True for what would be row 0.
  bool BeginsWith(const Tensor& row) const;

 private:
  class RowBuffer;
  void LetGo() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) whole_ = Tensor();
  }

  const char* const begin_;
  const size_t row_bytes_;
  std::atomic<int64_t> left_;  // Rows that were not let go.
  // Constant as long as there are such.
  Tensor whole_;
};

}  // namespace sluice

#endif  // SLUICE_OPS_ROW_GROUP_H_
