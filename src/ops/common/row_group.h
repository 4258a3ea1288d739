// The rows of one tensor as separate tensors that can be written in place.
#ifndef SLUICE_OPS_COMMON_ROW_GROUP_H_
#define SLUICE_OPS_COMMON_ROW_GROUP_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace sluice {

// The rows of a tensor with no other owner, each returned as a separate buffer,
// so that the owner of a row may write to it. The memory is one block, which is
// freed with the last row. Owned by its rows in use, by the array that returns
// them and by that array's gradient arrays. Any thread may release a row; rows
// are handed out by one thread at a time, under the array's lock.
class RowGroup : public std::enable_shared_from_this<RowGroup> {
 public:
  // REQUIRES: whole.unique(), plain elements, whole.dim(0) > 0.
  explicit RowGroup(Tensor whole);
  // Returns row i with this shape. REQUIRES: it was not returned before.
  Tensor Row(size_t i, const Shape& shape);
  // Returns all rows as one tensor, if `rows` are exactly these rows in order
  // and each has no other owner; the result is the only owner once `rows` are
  // gone. Otherwise returns an invalid tensor.
  Tensor Joined(std::span<const Tensor> rows) const;
  // True if `row` has the address of row 0.
  bool BeginsWith(const Tensor& row) const;

 private:
  class RowBuffer;
  void LetGo() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) whole_ = Tensor();
  }

  const char* const begin_;
  const size_t row_bytes_;
  std::atomic<int64_t> left_;  // Rows that have not been released.
  // Constant while there are such rows.
  Tensor whole_;
};

}  // namespace sluice

#endif  // SLUICE_OPS_COMMON_ROW_GROUP_H_
