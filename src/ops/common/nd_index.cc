#include "ops/common/nd_index.h"

namespace sluice::array {

Result<NdIndex> NdIndex::Make(const Shape& tensor, const Tensor& indices) {
  if (indices.rank() < 1)
    return InvalidArgument("indices: expected rank at least 1, got a scalar");
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth > tensor.rank())
    return InvalidArgument("indices: expected a last dimension of at most ",
                           tensor.rank(), ", the rank of the tensor, got ",
                           depth);
  NdIndex nd;
  nd.indices_ = &indices;
  nd.dims_ = DimsOf(tensor);
  nd.depth_ = static_cast<int>(depth);
  nd.count_ = Product(indices.shape().dims(), 0, indices.rank() - 1);
  nd.row_ = Product(tensor.dims(), nd.depth_, tensor.rank());
  return nd;
}

Status NdIndex::CheckAll() const {
  for (int64_t i = 0; i < count_; ++i)
    if (Offset(i) < 0) return BadIndex(i);
  return OkStatus();
}

Status NdIndex::BadIndex(int64_t i) const {
  std::string row;
  for (int d = 0; d < depth_; ++d)
    absl::StrAppend(&row, d > 0 ? "," : "", IntAt(*indices_, i * depth_ + d));
  const Shape rows(std::span(indices_->shape().dims())
                       .first(static_cast<size_t>(indices_->rank() - 1)));
  return InvalidArgument("indices: expected row ", i, " (", IndexName(rows, i),
                         ") to index into shape ",
                         PartialShape(SpanOf(dims_)).ToString(), ", got [", row,
                         "]");
}

}  // namespace sluice::array
