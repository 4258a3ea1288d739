// Elementwise functions of two arrays. A caller resolves a BinaryKernel once
// (GetBinary) and then calls it any number of times from any threads.
#ifndef SLUICE_KERNELS_SIMD_BINARY_H_
#define SLUICE_KERNELS_SIMD_BINARY_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/simd/broadcast.h"
#include "tensor/dtype.h"

namespace sluice::simd {

// Result type: that of the inputs, except where noted. "Ints" are the eight
// integer types, "floats" half, bfloat16, float, double, "complex" the two
// complex types. Integer arithmetic wraps.
enum class BinaryOp : uint8_t {
  // Ints, floats, complex.
  kAdd,
  kSub,
  kMul,
  kSquaredDifference,  // (a-b)^2; complex: (a-b)*conj(a-b).
  kDiv,                // Ints: truncating, as kTruncateDiv.
  kPow,  // Ints: a negative exponent is an error (the kernel returns false).
  // Ints and floats. Integer division by zero is an error; the least integer
  // divided by -1 wraps to itself.
  kFloorDiv,
  kFloorMod,  // The result has the sign of b.
  kTruncateDiv,
  kTruncateMod,  // The result has the sign of a.
  kMaximum,      // NaN if either is NaN.
  kMinimum,
  // Floats and complex.
  kXlogy,     // 0 where a == 0, else a * log(b).
  kXlog1py,   // 0 where a == 0, else a * log1p(b).
  kXdivy,     // 0 where a == 0, else a / b.
  kDivNoNan,  // 0 where b == 0, else a / b.
  kMulNoNan,  // 0 where b == 0, else a * b.
  // Floats.
  kAtan2,      // a is y, b is x.
  kNextAfter,  // float and double only.
  // float and double; gives complex64 and complex128.
  kComplex,
  // Comparisons give bool. Ints, floats; the first two also bool and complex.
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  // bool.
  kLogicalAnd,
  kLogicalOr,
  // Ints. Shift counts are clamped to [0, bits - 1].
  kBitwiseAnd,
  kBitwiseOr,
  kBitwiseXor,
  kLeftShift,
  kRightShift,  // Arithmetic for signed types.
  // Gradients, floats. Argument order is that of TensorFlow's ops.
  kReluGrad,      // (dy, x or y)
  kRelu6Grad,     // (dy, x or y)
  kEluGrad,       // (dy, y)
  kSeluGrad,      // (dy, y)
  kSoftplusGrad,  // (dy, x)
  kSoftsignGrad,  // (dy, x)
  // Gradients, floats and complex (where y is conjugated).
  kTanhGrad,        // (y, dy): dy * (1 - y*y)
  kSigmoidGrad,     // (y, dy): dy * y * (1 - y)
  kSqrtGrad,        // (y, dy): dy * 0.5 / y
  kRsqrtGrad,       // (y, dy): dy * -0.5 * y^3
  kReciprocalGrad,  // (y, dy): -dy * y * y
};

// How the operands are read.
enum class Operands : uint8_t {
  kVectorVector,
  kScalarVector,  // a is one element.
  kVectorScalar,  // b is one element.
};

// Computes n elements on the calling thread. `out` may be the same pointer as
// an operand of the same element size, else must not overlap one. False: an
// integer was divided by zero or raised to a negative power; such elements of
// `out` are 0, the others are right.
using BinaryFn = bool (*)(Operands mode, const void* a, const void* b,
                          void* out, int64_t n);

// A value type; default-constructed: "not supported".
struct BinaryKernel {
  BinaryFn fn = nullptr;
  uint8_t in_size = 0;   // Bytes per element of a and b.
  uint8_t out_size = 0;  // Bytes per element of out.
  int32_t grain = 0;     // The fewest elements worth a thread.

  explicit operator bool() const { return fn != nullptr; }

  // As fn, split over IntraOpThreads() if n is large.
  bool operator()(const void* a, const void* b, void* out, int64_t n,
                  Operands mode = Operands::kVectorVector) const {
    if (n <= grain) return fn(mode, a, b, out, n);
    return RunParallel(a, b, out, n, mode);
  }

 private:
  bool RunParallel(const void* a, const void* b, void* out, int64_t n,
                   Operands mode) const;
};

// The kernel for inputs of type `t`; converts to false if there is none.
BinaryKernel GetBinary(BinaryOp op, DType t);

// out = kernel(a, b) under the broadcast `plan` (built from the shapes of a and
// b in that order). `out` is dense, of shape plan.shape(); it may alias an
// operand of exactly that shape.
bool RunBroadcast(const BinaryKernel& kernel, const Broadcast<2>& plan,
                  const void* a, const void* b, void* out);

// The same, with a plan built for the call. REQUIRES: the shapes are
// compatible.
bool BroadcastBinary(const BinaryKernel& kernel,
                     absl::Span<const int64_t> a_shape,
                     absl::Span<const int64_t> b_shape, const void* a,
                     const void* b, void* out);

// Parts of GetBinary, tried in turn; each returns nullptr for ops that it does
// not implement. All except the last, which is portable code dominated by
// division or libm, are compiled for several instruction sets.
BinaryFn GetBinaryArithmetic(BinaryOp op, DType t);
BinaryFn GetBinaryCompare(BinaryOp op, DType t);
BinaryFn GetBinaryGrad(BinaryOp op, DType t);
BinaryFn GetBinaryPow(BinaryOp op, DType t);
BinaryFn GetBinaryScalar(BinaryOp op, DType t);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_BINARY_H_
