// Shared by the ops on sparse tensors. A sparse tensor with n entries and rank
// r is given by three consecutive inputs: indices [n, r], values [n], and the
// dense shape [r].
#ifndef SLUICE_OPS_SPARSE_SPARSE_TENSOR_H_
#define SLUICE_OPS_SPARSE_SPARSE_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"

namespace sluice::sparse {

// A view of three consistent tensors, which must outlive it.
struct Entries {
  int64_t n = 0;
  int rank = 0;
  const int64_t* indices = nullptr;
  const Tensor* values = nullptr;  // Null if there are no values.
  Dims shape;

  const int64_t* row(int64_t i) const { return indices + i * rank; }
};

// Checks the ranks, the lengths and that no dimension is negative, but not the
// indices. `values` may be null. `what` is the prefix for messages: "a_".
Result<Entries> View(const Tensor& indices, const Tensor* values,
                     const Tensor& shape, const std::string& what = "");
// A view of inputs first, first + 1 and first + 2.
Result<Entries> InputAt(const KernelContext& ctx, int first,
                        const std::string& what = "");

// -1, 0 or 1 as index a comes before, equals or comes after b.
int Compare(const int64_t* a, const int64_t* b, int rank);
// InvalidArgument if an index is not within the shape.
Status CheckBounds(const Entries& e);
// InvalidArgument if indices are not in increasing order.
Status CheckOrder(const Entries& e, bool repeats_allowed = true);
// The permutation that sorts the entries in increasing order; stable.
std::vector<int64_t> Order(const Entries& e);

// The dense shape, InvalidArgument if it has too many elements or dimensions.
Result<Shape> DenseShape(const Entries& e);

// Allocates outputs first, first + 1 (unless `type` is kInvalid) and sets first
// + 2 to `shape`. The caller fills the two allocated ones.
Status AllocateSparse(KernelContext& ctx, int first, int64_t n, DType type,
                      const Dims& shape);
// to[at] = from[i], of any type.
void CopyValue(const Tensor& from, int64_t i, Tensor* to, int64_t at);
// A vector of int64.
Tensor VectorOf(const Dims& values);

// For shape functions: checks that inputs first, first + 1 and first + 2 are
// consistent. Returns the rank, -1 if it is unknown.
Result<int64_t> CheckShapes(const ShapeContext& c, int first);

}  // namespace sluice::sparse

#endif  // SLUICE_OPS_SPARSE_SPARSE_TENSOR_H_
