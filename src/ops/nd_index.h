// Places in a tensor named by rows of an index tensor: what GatherNd, ScatterNd
// and the TensorScatter ops share.
#ifndef SLUICE_OPS_ND_INDEX_H_
#define SLUICE_OPS_ND_INDEX_H_

#include "ops/array_util.h"

namespace sluice::array {

// Row i of `indices` (its last dimension) names the slice
// tensor[row[0], ..., row[depth-1]]. Points into the index tensor, which must
// outlive it. Immutable.
class NdIndex {
 public:
  // InvalidArgument if the rows are longer than the rank of the tensor.
  static Result<NdIndex> Make(const Shape& tensor, const Tensor& indices);

  int depth() const { return depth_; }
  int64_t count() const { return count_; }  // Rows.
  int64_t row() const { return row_; }      // Elements of one named slice.
  // Where slice i begins, in elements; -1 if it is not in the tensor.
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
  // InvalidArgument for a row that is not in the tensor.
  Status CheckAll() const;
  Status BadIndex(int64_t i) const;

 private:
  const Tensor* indices_ = nullptr;
  Dims dims_;
  int depth_ = 0;
  int64_t count_ = 0, row_ = 0;
};

}  // namespace sluice::array

#endif  // SLUICE_OPS_ND_INDEX_H_
