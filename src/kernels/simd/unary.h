// Elementwise functions of one array. A caller resolves a UnaryKernel once
// (GetUnary) and then calls it any number of times from any threads.
#ifndef SLUICE_KERNELS_SIMD_UNARY_H_
#define SLUICE_KERNELS_SIMD_UNARY_H_

#include <cstdint>

#include "tensor/dtype.h"

namespace sluice::simd {

// Result type: that of the input, except where noted. "Ints" are the eight
// integer types, "floats" half, bfloat16, float, double, "complex" the two
// complex types. float and double results are within 4 units in the last place
// of the C library's.
enum class UnaryOp : uint8_t {
  // Ints, floats, complex.
  kNeg,
  kSquare,
  kSign,  // NaN for NaN; complex: x/|x|.
  kAbs,   // Complex gives the real type.
  // Ints, floats.
  kRelu,
  kRelu6,
  kRound,  // Half to even.
  // Floats.
  kFloor,
  kCeil,
  kRint,
  kElu,
  kSelu,
  kSoftplus,
  kSoftsign,
  kErf,
  kErfc,
  kErfinv,
  kNdtri,
  kLgamma,
  kDigamma,
  kIsNan,  // These three give bool.
  kIsInf,
  kIsFinite,
  // Floats, complex.
  kSqrt,
  kRsqrt,
  kReciprocal,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kSigmoid,
  // bool.
  kLogicalNot,
  // Ints.
  kInvert,
  kPopulationCount,  // Gives uint8.
  // Complex.
  kConj,
  kReal,  // These three give the real type.
  kImag,
  kAngle,
};

// Computes n elements on the calling thread. `out` may be the same pointer as
// `in` if the element sizes are equal, else must not overlap it.
using UnaryFn = void (*)(const void* in, void* out, int64_t n);

// A value type; default-constructed: "not supported".
struct UnaryKernel {
  UnaryFn fn = nullptr;
  uint8_t in_size = 0;   // Bytes per element.
  uint8_t out_size = 0;  // Bytes per element.
  int32_t grain = 0;     // Fewest elements worth a thread.

  explicit operator bool() const { return fn != nullptr; }

  // As fn, split over IntraOpThreads() if n is large.
  void operator()(const void* in, void* out, int64_t n) const {
    if (n <= grain) return fn(in, out, n);
    RunParallel(in, out, n);
  }

 private:
  void RunParallel(const void* in, void* out, int64_t n) const;
};

// The kernel for inputs of type `t`; converts to false if there is none.
UnaryKernel GetUnary(UnaryOp op, DType t);

// Leaky ReLU, x > 0 ? x : alpha * x, and its gradient, x > 0 ? dy : alpha * dy.
// Floats; false for other types. In place is allowed.
bool LeakyRelu(DType t, float alpha, const void* x, void* out, int64_t n);
bool LeakyReluGrad(DType t, float alpha, const void* dy, const void* x,
                   void* out, int64_t n);

// Parts of GetUnary, tried in turn; each returns nullptr for ops that it does
// not implement. All except the last are compiled for several instruction sets.
UnaryFn GetUnarySimple(UnaryOp op, DType t);
// x[i] > 0 ? value[i] : alpha * value[i], for arguments alpha, value, x, out.
using LeakyFn = void (*)(float, const void*, const void*, void*, int64_t);
LeakyFn GetLeaky(DType t);
UnaryFn GetUnaryExp(UnaryOp op, DType t);
UnaryFn GetUnaryTrig(UnaryOp op, DType t);
UnaryFn GetUnaryNormal(UnaryOp op, DType t);
UnaryFn GetUnaryScalar(UnaryOp op, DType t);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_UNARY_H_
