#include "ops/common/row_group.h"

#include <utility>

namespace sluice {

class RowGroup::RowBuffer final : public Buffer {
 public:
  RowBuffer(std::shared_ptr<RowGroup> group, void* data, size_t bytes)
      : Buffer(data, bytes), group_(std::move(group)) {}

 private:
  ~RowBuffer() override { group_->LetGo(); }
  const std::shared_ptr<RowGroup> group_;
};

RowGroup::RowGroup(Tensor whole)
    : begin_(static_cast<const char*>(std::as_const(whole).raw())),
      row_bytes_(whole.bytes() / static_cast<size_t>(whole.dim(0))),
      left_(whole.dim(0)),
      whole_(std::move(whole)) {}

Tensor RowGroup::Row(size_t i, const Shape& shape) {
  void* const data = static_cast<char*>(whole_.raw()) + i * row_bytes_;
  return Tensor(whole_.dtype(), shape,
                new RowBuffer(shared_from_this(), data, row_bytes_), data);
}

bool RowGroup::BeginsWith(const Tensor& row) const {
  return row.raw() == begin_ && row.bytes() == row_bytes_;
}

Tensor RowGroup::Joined(std::span<const Tensor> rows) const {
  if (left_.load(std::memory_order_acquire) !=
      static_cast<int64_t>(rows.size()))
    return Tensor();
  // (Only its rows can be within the memory of the whole tensor, which is
  // alive.)
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].raw() != begin_ + i * row_bytes_ ||
        rows[i].bytes() != row_bytes_ || !rows[i].unique())
      return Tensor();
  return whole_;
}

}  // namespace sluice
