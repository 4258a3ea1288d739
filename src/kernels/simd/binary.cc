#include "kernels/simd/binary.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/parallel.h"

namespace sluice::simd {
namespace {

// Below this number of elements per thread, starting a thread costs more than
// it saves.
constexpr int32_t kCheapGrain = 32768;
constexpr int32_t kDearGrain = 2048;

bool GivesBool(BinaryOp op) {
  return op >= BinaryOp::kEqual && op <= BinaryOp::kLogicalOr;
}

// Inner loops shorter than this are joined by repeating an operand.
constexpr int64_t kShortRow = 64;
// Bytes of stack for the repeated operand.
constexpr int64_t kTileBytes = 4096;

const char* At(const void* p, int64_t bytes) {
  return static_cast<const char*>(p) + bytes;
}
char* At(void* p, int64_t bytes) { return static_cast<char*>(p) + bytes; }

}  // namespace

BinaryKernel GetBinary(BinaryOp op, DType t) {
  BinaryKernel k;
  k.grain = kCheapGrain;
  k.fn = GetBinaryArithmetic(op, t);
  if (k.fn == nullptr) k.fn = GetBinaryCompare(op, t);
  if (k.fn == nullptr) k.fn = GetBinaryGrad(op, t);
  if (k.fn == nullptr) {
    k.fn = GetBinaryPow(op, t);
    k.grain = kDearGrain;
  }
  if (k.fn == nullptr) k.fn = GetBinaryScalar(op, t);
  if (k.fn == nullptr) return BinaryKernel();
  k.in_size = static_cast<uint8_t>(DTypeSize(t));
  k.out_size = GivesBool(op)              ? 1
               : op == BinaryOp::kComplex ? k.in_size * 2
                                          : k.in_size;
  return k;
}

bool BinaryKernel::RunParallel(const void* a, const void* b, void* out,
                               int64_t n, Operands mode) const {
  std::atomic<bool> ok{true};
  const int64_t step_a = mode == Operands::kScalarVector ? 0 : in_size;
  const int64_t step_b = mode == Operands::kVectorScalar ? 0 : in_size;
  ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    if (!fn(mode, At(a, begin * step_a), At(b, begin * step_b),
            At(out, begin * out_size), end - begin))
      ok.store(false, std::memory_order_relaxed);
  });
  return ok.load(std::memory_order_relaxed);
}

namespace {

// The nest [rows, n] where one operand repeats its row and the other is dense
// (a bias added to a narrow matrix): the repeated row is laid out several
// times on the stack, so that the kernel sees long vectors.
bool RunRepeatedRow(const BinaryKernel& kernel, bool repeat_a, int64_t rows,
                    int64_t n, const void* a, const void* b, void* out) {
  alignas(64) char tile[kTileBytes];
  const int64_t size = kernel.in_size;
  const int64_t per_tile = std::min(rows, kTileBytes / (n * size));
  const void* row = repeat_a ? a : b;
  for (int64_t i = 0; i < per_tile; ++i)
    std::memcpy(tile + i * n * size, row, n * size);
  bool ok = true;
  for (int64_t i = 0; i < rows; i += per_tile) {
    const int64_t count = std::min(per_tile, rows - i) * n;
    const void* dense = At(repeat_a ? b : a, i * n * size);
    ok &= kernel.fn(Operands::kVectorVector, repeat_a ? tile : dense,
                    repeat_a ? dense : tile, At(out, i * n * kernel.out_size),
                    count);
  }
  return ok;
}

}  // namespace

bool RunBroadcast(const BinaryKernel& kernel, const Broadcast<2>& plan,
                  const void* a, const void* b, void* out) {
  const int64_t total = plan.num_elements();
  if (total == 0) return true;
  const int last = plan.rank() - 1;
  const int64_t n = plan.inner();
  const Operands mode = plan.stride(0, last) == 0   ? Operands::kScalarVector
                        : plan.stride(1, last) == 0 ? Operands::kVectorScalar
                                                    : Operands::kVectorVector;
  if (plan.rank() == 1) return kernel(a, b, out, n, mode);

  const int64_t in = kernel.in_size;
  const bool row_tiling = plan.rank() == 2 && mode == Operands::kVectorVector &&
                          n < kShortRow && plan.dim(0) > 2;
  std::atomic<bool> ok{true};
  const int64_t grain = std::max<int64_t>(1, kernel.grain / n);
  ParallelFor(plan.outer(), grain, [&](int64_t begin, int64_t end) {
    bool fine = true;
    if (row_tiling) {
      const bool repeat_a = plan.stride(0, 0) == 0;
      fine = RunRepeatedRow(kernel, repeat_a, end - begin, n,
                            At(a, begin * plan.stride(0, 0) * in),
                            At(b, begin * plan.stride(1, 0) * in),
                            At(out, begin * n * kernel.out_size));
    } else {
      plan.ForEachInner(
          begin, end, [&](int64_t o, const Broadcast<2>::Offsets& offset) {
            fine &=
                kernel.fn(mode, At(a, offset[0] * in), At(b, offset[1] * in),
                          At(out, o * kernel.out_size), n);
          });
    }
    if (!fine) ok.store(false, std::memory_order_relaxed);
  });
  return ok.load(std::memory_order_relaxed);
}

bool BroadcastBinary(const BinaryKernel& kernel,
                     absl::Span<const int64_t> a_shape,
                     absl::Span<const int64_t> b_shape, const void* a,
                     const void* b, void* out) {
  Broadcast<2> plan;
  if (!plan.Build({a_shape, b_shape})) return false;
  return RunBroadcast(kernel, plan, a, b, out);
}

}  // namespace sluice::simd
