// Slices of a tensor selected by rows of an index tensor: shared by GatherNd,
// ScatterNd and the TensorScatter ops.
#ifndef SLUICE_OPS_COMMON_ND_INDEX_H_
#define SLUICE_OPS_COMMON_ND_INDEX_H_

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
      const int64_t x = IntAt(*indices_, i * depth_ + d);
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

 private:
  const Tensor* indices_ = nullptr;
  Dims dims_;
  int depth_ = 0;
  int64_t count_ = 0, row_ = 0;
};

}  // namespace sluice::array

#endif  // SLUICE_OPS_COMMON_ND_INDEX_H_
