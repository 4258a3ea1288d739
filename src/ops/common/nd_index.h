// Slices of a tensor selected by rows of an index tensor: shared by the
// GatherNd, ScatterNd and TensorScatter ops, on tensors and on variables.
#ifndef SLUICE_OPS_COMMON_ND_INDEX_H_
#define SLUICE_OPS_COMMON_ND_INDEX_H_

#include "graph/node.h"
#include "ops/common/elements.h"

namespace sluice::array {

// Row i of `indices` (its last dimension) selects the slice tensor[row[0], ...,
// row[depth-1]]. Points into the index tensor, which must outlive it.
// Immutable.
class NdIndex {
 public:
  // InvalidArgument if the rows are longer than the rank of the tensor.
  static Result<NdIndex> Make(const Shape& tensor, const Tensor& indices);

  int depth() const { return depth_; }
  int64_t count() const { return count_; }  // Rows.
  int64_t row() const { return row_; }      // Elements per slice.
  // The first element of slice i; -1 if the index is out of range.
  int64_t Offset(int64_t i) const {
    int64_t at = 0;
    for (int d = 0; d < depth_; ++d) {
      const int64_t x = At(i * depth_ + d);
      if (static_cast<uint64_t>(x) >=
          static_cast<uint64_t>(dims_[static_cast<size_t>(d)]))
        return -1;
      at = at * dims_[static_cast<size_t>(d)] + x;
    }
    return at * row_;
  }
  // InvalidArgument if a row is out of range.
  Status CheckAll() const;
  Status BadIndex(int64_t i) const;

  // The shape of all slices together: indices[:-1] + tensor[depth:].
  // InvalidArgument if it has too many elements.
  Result<Shape> SlicesShape() const;
  // InvalidArgument unless `updates` has that shape.
  Status CheckUpdates(const Shape& updates) const;

  // Calls f(from, at) for each slice, in order: it begins at element `from` of
  // all slices together and at element `at` of the tensor. An index out of
  // range is skipped with `ignore_bad`, else InvalidArgument.
  template <typename F>
  Status ForEach(bool ignore_bad, F&& f) const {
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t at = Offset(i);
      if (at >= 0)
        f(i * row_, at);
      else if (!ignore_bad)
        return BadIndex(i);
    }
    return OkStatus();
  }

 private:
  // Element k of the index tensor.
  int64_t At(int64_t k) const {
    switch (type_) {
      case DType::kInt16:
        return static_cast<const int16_t*>(elements_)[k];
      case DType::kInt32:
        return static_cast<const int32_t*>(elements_)[k];
      default:
        return static_cast<const int64_t*>(elements_)[k];
    }
  }

  const Tensor* indices_ = nullptr;
  const void* elements_ = nullptr;
  DType type_ = DType::kInvalid;
  Dims dims_;
  int depth_ = 0;
  int64_t count_ = 0, row_ = 0;
};

// NdIndex::SlicesShape and CheckUpdates, as far as the shapes are known.
// InvalidArgument too if the rows are longer than the rank of the tensor.
Result<PartialShape> SlicesShape(const PartialShape& tensor,
                                 const PartialShape& indices);
Status CheckUpdates(const PartialShape& tensor, const PartialShape& indices,
                    const PartialShape& updates);

// Whether the node's bad_indices_policy has indices out of range skipped.
// InvalidArgument if it is not one of TensorFlow's.
Result<bool> IgnoresBadIndices(const Node& n);

}  // namespace sluice::array

#endif  // SLUICE_OPS_COMMON_ND_INDEX_H_
