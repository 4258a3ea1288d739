// Matrix products of dense row-major matrices. Each call may use up to
// IntraOpThreads() threads; calls are thread-safe.
#ifndef SLUICE_KERNELS_DNN_MATMUL_H_
#define SLUICE_KERNELS_DNN_MATMUL_H_

#include <cstdint>

#include "base/status.h"

namespace sluice::dnn {

// The transformation of a factor as it is read; kAdjoint is the conjugate
// transpose (for real types the same as kTranspose).
enum class Trans : uint8_t { kNone, kTranspose, kAdjoint };

// c[m, n] = op(a)[m, k] * op(b)[k, n], or += with accumulate. a is stored as
// [m, k], or [k, m] if transposed; b as [k, n] or [n, k]. Rows are contiguous
// and follow each other without gaps.
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Trans trans_a = Trans::kNone;
  Trans trans_b = Trans::kNone;
  bool accumulate = false;
};

// T: float, double, half, bfloat16, (u)int8/16/32/64, complex64, complex128.
// half and bfloat16 are summed in float and rounded once; integers wrap. k == 0
// gives zeros; m == 0 or n == 0 does nothing. NaN and infinity propagate as in
// the textbook sum (0 * inf is NaN). c must not overlap a or b. The order of
// summation, and therefore the last bits, may depend on the thread count.
template <typename T>
void Gemm(const GemmShape& shape, const T* a, const T* b, T* c);

// Many products with broadcast batch dimensions (BatchMatMulV2). Batch
// dimensions are row-major; a dimension of extent 1 in a or b is repeated.
// Immutable once made; shared by any number of threads.
class BatchMatMulShape {
 public:
  static constexpr int kMaxBatchRank = 8;

  // a_dims and b_dims are full shapes of rank a_rank, b_rank >= 2 (stored
  // order, that is, before op()). Errors: ranks, inner dimensions that differ,
  // batch dimensions that do not broadcast.
  static Result<BatchMatMulShape> Make(const int64_t* a_dims, int a_rank,
                                       const int64_t* b_dims, int b_rank,
                                       Trans trans_a, Trans trans_b);

  const GemmShape& gemm() const { return gemm_; }
  // The shape of the result: batch dimensions, then m, n.
  int rank() const { return batch_rank_ + 2; }
  int64_t dim(int i) const {
    return i < batch_rank_ ? batch_[i] : i == batch_rank_ ? gemm_.m : gemm_.n;
  }
  int64_t batch_count() const { return count_; }
  // Matrix index in a and b of result matrix i.
  void Locate(int64_t i, int64_t* a_index, int64_t* b_index) const;

 private:
  GemmShape gemm_;
  int batch_rank_ = 0;
  int64_t count_ = 1;
  bool plain_ = true;  // No broadcasting: indices are i.
  int64_t batch_[kMaxBatchRank] = {};
  int64_t a_stride_[kMaxBatchRank] = {};  // In matrices; 0 where repeated.
  int64_t b_stride_[kMaxBatchRank] = {};
};

template <typename T>
void BatchMatMul(const BatchMatMulShape& shape, const T* a, const T* b, T* c);

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_MATMUL_H_
