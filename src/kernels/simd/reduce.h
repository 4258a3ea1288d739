// Reductions of an array over any subset of its dimensions. Adjacent dimensions
// that are reduced (or kept) together are merged first, so that for any rank
// the inner loop is a sum along a row or a sum of rows.
#ifndef SLUICE_KERNELS_SIMD_REDUCE_H_
#define SLUICE_KERNELS_SIMD_REDUCE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/simd/broadcast.h"
#include "tensor/dtype.h"

namespace sluice::simd {

// The result has the input's type. An empty reduction gives: sum 0, product 1,
// max -inf or the lowest integer, min the opposite, any false, all true,
// floating mean NaN, integer mean 0.
enum class ReduceOp : uint8_t {
  // Ints, floats, complex. 16-bit floats are summed in float; float blocks are
  // added up in double. Integers wrap, but a mean is formed in 64 bits.
  kSum,
  kMean,  // Ints: truncated.
  kProd,
  kSumSquares,     // Complex: the sum of |x|^2.
  kEuclideanNorm,  // sqrt(kSumSquares); ints: truncated.
  // Ints and floats. NaN if any element is NaN.
  kMax,
  kMin,
  // bool.
  kAny,
  kAll,
};

// The loop structure of a reduction. Plain data; independent of the type.
class ReducePlan {
 public:
  // Reduces the dimensions d of `shape` with reduced[d]. False if the rank
  // exceeds kMaxRank or the lengths differ.
  bool Build(absl::Span<const int64_t> shape, absl::Span<const bool> reduced);

  // The number of result elements, and of input elements per result.
  int64_t outputs() const { return outputs_; }
  int64_t reduced() const { return reduced_; }

 private:
  friend class Reducer;

  // A nest of loops over offsets, outermost first.
  struct Nest {
    int rank = 0;
    int64_t count = 1;
    int64_t dims[kMaxRank] = {};
    int64_t strides[kMaxRank] = {};
    void Add(int64_t dim, int64_t stride);
    int64_t Offset(int64_t index) const;
  };

  int64_t outputs_ = 0;
  int64_t reduced_ = 0;
  // The innermost dimension has stride 1; if it is kept, the innermost reduced
  // dimension has rows_ elements, row_stride_ apart.
  bool inner_reduced_ = true;
  int64_t inner_ = 1;
  int64_t rows_ = 1;
  int64_t row_stride_ = 0;
  Nest kept_;           // Outer dimensions that are kept...
  Nest reduced_outer_;  // ...and those that are reduced.
};

// out = op(in), with outputs in the order of the kept dimensions. Splits over
// IntraOpThreads(); for a given thread count the result is deterministic. False
// if op is not defined for `t`.
bool Reduce(ReduceOp op, DType t, const ReducePlan& plan, const void* in,
            void* out);

// The same, with a plan built for the call. REQUIRES: as for ReducePlan::Build.
bool Reduce(ReduceOp op, DType t, absl::Span<const int64_t> shape,
            absl::Span<const bool> reduced, const void* in, void* out);

// Index of the first greatest (or least) element along the middle dimension of
// [outer, length, inner]. As in TensorFlow, NaN is never chosen over a number,
// and the result is 0 if nothing is comparable. Ints, floats and bool;
// `index_type` is int16, uint16, int32 or int64. False for other types.
// REQUIRES: length > 0 unless there is no output.
bool ArgMax(DType t, DType index_type, int64_t outer, int64_t length,
            int64_t inner, const void* in, void* out);
bool ArgMin(DType t, DType index_type, int64_t outer, int64_t length,
            int64_t inner, const void* in, void* out);

// Index of the first of n elements that is greater than `bound`, or, in floats,
// NaN; n if there is none. Floats and doubles, ints of 8 to 64 bits. `bound` is
// no NaN.
template <class T>
int64_t FirstAbove(const T* in, int64_t n, T bound);

// The functions that make up a reduction for one type. Accumulators are arrays
// with `acc_size` bytes per element, of a type chosen by the kernel.
struct ReduceKernel {
  // Sets n accumulators to the identity.
  void (*init)(void* acc, int64_t n) = nullptr;
  // Reduces n adjacent elements into one accumulator.
  void (*row)(const void* in, int64_t n, void* acc) = nullptr;
  // Reduces `rows` rows of n <= kReduceTile elements, `stride` elements apart,
  // into n accumulators.
  void (*columns)(const void* in, int64_t rows, int64_t stride, int64_t n,
                  void* acc) = nullptr;
  // acc[i] = op(acc[i], other[i]).
  void (*merge)(void* acc, const void* other, int64_t n) = nullptr;
  // out[i] = the result from acc[i], which accumulated `count` elements.
  void (*finish)(const void* acc, int64_t n, int64_t count,
                 void* out) = nullptr;
  uint8_t acc_size = 0;
  uint8_t size = 0;  // Bytes per element.
};
inline constexpr int64_t kReduceTile = 256;

// Parts of the implementation, compiled for several instruction sets.
ReduceKernel GetReduceSum(ReduceOp op, DType t);
ReduceKernel GetReduceOrder(ReduceOp op, DType t);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_REDUCE_H_
