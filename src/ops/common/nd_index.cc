#include "ops/common/nd_index.h"

namespace sluice::array {
namespace {

Status LongRows(int rank, int64_t depth) {
  return InvalidArgument("indices: expected a last dimension of at most ", rank,
                         ", the rank of the tensor, got ", depth);
}

Dims SliceDims(std::span<const int64_t> tensor,
               std::span<const int64_t> indices, int depth) {
  Dims dims(indices.begin(), indices.end() - 1);
  dims.insert(dims.end(), tensor.begin() + depth, tensor.end());
  return dims;
}

Status WrongUpdates(const PartialShape& tensor, const PartialShape& indices,
                    const PartialShape& updates, const PartialShape& want) {
  return InvalidArgument("updates: expected shape ", want.ToString(),
                         " for indices of shape ", indices.ToString(), " into ",
                         tensor.ToString(), ", got ", updates.ToString());
}

}  // namespace

Result<NdIndex> NdIndex::Make(const Shape& tensor, const Tensor& indices) {
  if (indices.rank() < 1)
    return InvalidArgument("indices: expected rank at least 1, got a scalar");
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth > tensor.rank()) return LongRows(tensor.rank(), depth);
  NdIndex nd;
  nd.indices_ = &indices;
  nd.elements_ = indices.raw();
  nd.type_ = indices.dtype();
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
    absl::StrAppend(&row, d > 0 ? "," : "", At(i * depth_ + d));
  const Shape rows(std::span(indices_->shape().dims())
                       .first(static_cast<size_t>(indices_->rank() - 1)));
  return InvalidArgument("indices: expected row ", i, " (", IndexName(rows, i),
                         ") to index into shape ",
                         PartialShape(SpanOf(dims_)).ToString(), ", got [", row,
                         "]");
}

Result<Shape> NdIndex::SlicesShape() const {
  return MakeShape(SliceDims(SpanOf(dims_), indices_->shape().dims(), depth_));
}

Status NdIndex::CheckUpdates(const Shape& updates) const {
  const Dims want = SliceDims(SpanOf(dims_), indices_->shape().dims(), depth_);
  if (want == DimsOf(updates)) return OkStatus();
  return WrongUpdates(PartialShape(SpanOf(dims_)), indices_->shape(), updates,
                      PartialShape(SpanOf(want)));
}

Result<PartialShape> SlicesShape(const PartialShape& tensor,
                                 const PartialShape& indices) {
  if (indices.rank() == 0)
    return InvalidArgument("indices: expected rank at least 1, got a scalar");
  if (!tensor.rank_known() || !indices.rank_known()) return PartialShape();
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth > tensor.rank()) return LongRows(tensor.rank(), depth);
  if (depth < 0) return PartialShape();
  return PartialShape(SpanOf(SliceDims(
      SpanOf(tensor.dims()), SpanOf(indices.dims()), static_cast<int>(depth))));
}

Status CheckUpdates(const PartialShape& tensor, const PartialShape& indices,
                    const PartialShape& updates) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape want,
                          SlicesShape(tensor, indices));
  return want.CompatibleWith(updates)
             ? OkStatus()
             : WrongUpdates(tensor, indices, updates, want);
}

Result<bool> IgnoresBadIndices(const Node& n) {
  const auto policy = n.AttrOr<std::string>("bad_indices_policy", "");
  if (policy != "" && policy != "DEFAULT" && policy != "ERROR" &&
      policy != "IGNORE")
    return InvalidArgument(
        "bad_indices_policy: expected '', DEFAULT, ERROR or IGNORE, got '",
        policy, "'");
  return policy == "IGNORE";
}

}  // namespace sluice::array
