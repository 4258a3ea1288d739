#include "kernels/simd/unary.h"

#include "base/parallel.h"

namespace sluice::simd {
namespace {

// Below this number of elements per thread, starting a thread costs more than
// it saves.
constexpr int32_t kCheapGrain = 32768;
constexpr int32_t kVectorMathGrain = 8192;
constexpr int32_t kScalarMathGrain = 2048;

uint8_t OutSize(UnaryOp op, DType t) {
  const uint8_t size = static_cast<uint8_t>(DTypeSize(t));
  switch (op) {
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf:
    case UnaryOp::kIsFinite:
    case UnaryOp::kPopulationCount:
      return 1;
    case UnaryOp::kAbs:
      return IsComplex(t) ? size / 2 : size;
    case UnaryOp::kReal:
    case UnaryOp::kImag:
    case UnaryOp::kAngle:
      return size / 2;
    default:
      return size;
  }
}

}  // namespace

UnaryKernel GetUnary(UnaryOp op, DType t) {
  UnaryKernel k;
  k.grain = kCheapGrain;
  k.fn = GetUnarySimple(op, t);
  if (k.fn == nullptr) {
    k.grain = kVectorMathGrain;
    k.fn = GetUnaryExp(op, t);
  }
  if (k.fn == nullptr) k.fn = GetUnaryTrig(op, t);
  if (k.fn == nullptr) k.fn = GetUnaryNormal(op, t);
  if (k.fn == nullptr) {
    k.grain = kScalarMathGrain;
    k.fn = GetUnaryScalar(op, t);
  }
  if (k.fn == nullptr) return UnaryKernel();
  k.in_size = static_cast<uint8_t>(DTypeSize(t));
  k.out_size = OutSize(op, t);
  return k;
}

void UnaryKernel::RunParallel(const void* in, void* out, int64_t n) const {
  ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    fn(static_cast<const char*>(in) + begin * in_size,
       static_cast<char*>(out) + begin * out_size, end - begin);
  });
}

bool LeakyReluGrad(DType t, float alpha, const void* dy, const void* x,
                   void* out, int64_t n) {
  const LeakyFn fn = GetLeaky(t);
  if (fn == nullptr) return false;
  const auto size = static_cast<int64_t>(DTypeSize(t));
  ParallelFor(n, kCheapGrain, [&](int64_t begin, int64_t end) {
    const int64_t at = begin * size;
    fn(alpha, static_cast<const char*>(dy) + at,
       static_cast<const char*>(x) + at, static_cast<char*>(out) + at,
       end - begin);
  });
  return true;
}

bool LeakyRelu(DType t, float alpha, const void* x, void* out, int64_t n) {
  return LeakyReluGrad(t, alpha, x, x, out, n);
}

}  // namespace sluice::simd
