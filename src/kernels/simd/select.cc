#include "kernels/simd/select.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "kernels/simd/binary.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/select.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

// Each iteration depends only on its own elements, so that `out` may be an
// operand. A scalar is read before anything is written.
template <class T>
void Loop(SelectSteps s, const uint8_t* cond, const void* pa, const void* pb,
          void* po, int64_t n) {
  const T* a = static_cast<const T*>(pa);
  const T* b = static_cast<const T*>(pb);
  T* out = static_cast<T*>(po);
  if (n == 0) return;
  const T a0 = *a;
  const T b0 = *b;
  if (!s.cond) {
    const bool first = *cond != 0;
    const T* from = first ? a : b;
    const bool array = first ? s.a : s.b;
    const T value = first ? a0 : b0;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = array ? from[i] : value;
  } else if (s.a && s.b) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T x = a[i];
      const T y = b[i];
      out[i] = cond[i] != 0 ? x : y;
    }
  } else if (s.a) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T x = a[i];
      out[i] = cond[i] != 0 ? x : b0;
    }
  } else if (s.b) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T y = b[i];
      out[i] = cond[i] != 0 ? a0 : y;
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = cond[i] != 0 ? a0 : b0;
  }
}

struct Bytes16 {
  uint64_t lo, hi;
};

}  // namespace

using SelectFn = void (*)(SelectSteps, const uint8_t*, const void*, const void*,
                          void*, int64_t);

SelectFn PickSelect(size_t size) {
  switch (size) {
    case 1:
      return Loop<uint8_t>;
    case 2:
      return Loop<uint16_t>;
    case 4:
      return Loop<uint32_t>;
    case 8:
      return Loop<uint64_t>;
    case 16:
      return Loop<Bytes16>;
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(PickSelect);
namespace {
constexpr int64_t kGrain = 32768;

const char* At(const void* p, int64_t bytes) {
  return static_cast<const char*>(p) + bytes;
}
char* At(void* p, int64_t bytes) { return static_cast<char*>(p) + bytes; }
}  // namespace

bool Select(size_t element_size, SelectSteps steps, const bool* cond,
            const void* a, const void* b, void* out, int64_t n) {
  const auto fn = HWY_DYNAMIC_DISPATCH(PickSelect)(element_size);
  if (fn == nullptr) return false;
  const int64_t size = static_cast<int64_t>(element_size);
  const auto* c = reinterpret_cast<const uint8_t*>(cond);
  ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    fn(steps, steps.cond ? c + begin : c, At(a, steps.a ? begin * size : 0),
       At(b, steps.b ? begin * size : 0), At(out, begin * size), end - begin);
  });
  return true;
}

bool BroadcastSelect(size_t element_size, const Broadcast<3>& plan,
                     const bool* cond, const void* a, const void* b,
                     void* out) {
  const int last = plan.rank() - 1;
  const int64_t n = plan.inner();
  const SelectSteps steps{plan.stride(0, last) != 0, plan.stride(1, last) != 0,
                          plan.stride(2, last) != 0};
  if (plan.rank() == 1)
    return Select(element_size, steps, cond, a, b, out, plan.num_elements());
  const auto fn = HWY_DYNAMIC_DISPATCH(PickSelect)(element_size);
  if (fn == nullptr) return false;
  const int64_t size = static_cast<int64_t>(element_size);
  const auto* c = reinterpret_cast<const uint8_t*>(cond);
  ParallelFor(
      plan.outer(), std::max<int64_t>(1, kGrain / std::max<int64_t>(1, n)),
      [&](int64_t begin, int64_t end) {
        plan.ForEachInner(begin, end,
                          [&](int64_t o, const Broadcast<3>::Offsets& at) {
                            fn(steps, c + at[0], At(a, at[1] * size),
                               At(b, at[2] * size), At(out, o * size), n);
                          });
      });
  return true;
}

bool Clip(DType t, const void* x, const void* lo, bool lo_is_scalar,
          const void* hi, bool hi_is_scalar, void* out, int64_t n) {
  const BinaryKernel most = GetBinary(BinaryOp::kMinimum, t);
  const BinaryKernel least = GetBinary(BinaryOp::kMaximum, t);
  if (!most || !least) return false;
  const Operands lo_mode =
      lo_is_scalar ? Operands::kVectorScalar : Operands::kVectorVector;
  const Operands hi_mode =
      hi_is_scalar ? Operands::kVectorScalar : Operands::kVectorVector;
  const int64_t size = most.in_size;
  // Block by block, so that the second pass finds its input in the cache.
  constexpr int64_t kClipBlock = 2048;
  ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kClipBlock) {
      const int64_t m = std::min(kClipBlock, end - i);
      char* to = At(out, i * size);
      most.fn(hi_mode, At(x, i * size), At(hi, hi_is_scalar ? 0 : i * size), to,
              m);
      least.fn(lo_mode, to, At(lo, lo_is_scalar ? 0 : i * size), to, m);
    }
  });
  return true;
}

}  // namespace sluice::simd
#endif
