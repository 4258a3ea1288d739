#include "ops/collectives/merge.h"

#include <type_traits>

#include "tensor/half.h"

namespace sluice::collectives {
namespace {

// The type in which elements are computed.
template <typename T>
struct Computed {
  using Type = T;
};
template <>
struct Computed<half> {
  using Type = float;
};
template <>
struct Computed<bfloat16> {
  using Type = float;
};
// (Signed overflow is undefined, unsigned wraps.)
template <>
struct Computed<int32_t> {
  using Type = uint32_t;
};
template <>
struct Computed<int64_t> {
  using Type = uint64_t;
};

template <typename T, typename Fn>
void MergeWith(const void* a, const void* b, void* to, int64_t count, Fn fn) {
  const T* const x = static_cast<const T*>(a);
  const T* const y = static_cast<const T*>(b);
  T* const z = static_cast<T*>(to);
  // (`to` may be one of the inputs, element for element.)
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) z[i] = fn(x[i], y[i]);
}

template <typename T>
void MergeOf(MergeOp op, const void* a, const void* b, void* to,
             int64_t count) {
  using C = typename Computed<T>::Type;
  // For comparisons the sign counts.
  using O = std::conditional_t<std::is_integral_v<T>, T, C>;
  switch (op) {
    case MergeOp::kAdd:
      return MergeWith<T>(a, b, to, count, [](T x, T y) {
        return static_cast<T>(static_cast<C>(x) + static_cast<C>(y));
      });
    case MergeOp::kMul:
      return MergeWith<T>(a, b, to, count, [](T x, T y) {
        return static_cast<T>(static_cast<C>(x) * static_cast<C>(y));
      });
    case MergeOp::kMin:
      return MergeWith<T>(a, b, to, count, [](T x, T y) {
        const O p = static_cast<O>(x), q = static_cast<O>(y);
        return q < p || q != q ? y : x;
      });
    case MergeOp::kMax:
      return MergeWith<T>(a, b, to, count, [](T x, T y) {
        const O p = static_cast<O>(x), q = static_cast<O>(y);
        return q > p || q != q ? y : x;
      });
  }
}

template <typename T>
void DivideOf(void* values, int64_t count, int64_t by) {
  T* const z = static_cast<T*>(values);
  if constexpr (std::is_integral_v<T>) {
    for (int64_t i = 0; i < count; ++i)
      z[i] = static_cast<T>(static_cast<int64_t>(z[i]) / by);
  } else {
    using C = typename Computed<T>::Type;
    const C divisor = static_cast<C>(by);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i)
      z[i] = static_cast<T>(static_cast<C>(z[i]) / divisor);
  }
}

}  // namespace

std::optional<MergeOp> ParseMergeOp(std::string_view name) {
  for (const MergeOp op :
       {MergeOp::kAdd, MergeOp::kMul, MergeOp::kMin, MergeOp::kMax})
    if (name == NameOf(op)) return op;
  return std::nullopt;
}

const char* NameOf(MergeOp op) {
  switch (op) {
    case MergeOp::kAdd:
      return "Add";
    case MergeOp::kMul:
      return "Mul";
    case MergeOp::kMin:
      return "Min";
    case MergeOp::kMax:
      return "Max";
  }
  return "";
}

bool CanMerge(DType type) {
  return IsFloating(type) || type == DType::kInt32 || type == DType::kInt64;
}

void Merge(DType type, MergeOp op, const void* a, const void* b, void* to,
           int64_t count) {
  switch (type) {
    case DType::kHalf:
      return MergeOf<half>(op, a, b, to, count);
    case DType::kBfloat16:
      return MergeOf<bfloat16>(op, a, b, to, count);
    case DType::kFloat:
      return MergeOf<float>(op, a, b, to, count);
    case DType::kDouble:
      return MergeOf<double>(op, a, b, to, count);
    case DType::kInt32:
      return MergeOf<int32_t>(op, a, b, to, count);
    default:
      return MergeOf<int64_t>(op, a, b, to, count);
  }
}

void Divide(DType type, void* values, int64_t count, int64_t by) {
  switch (type) {
    case DType::kHalf:
      return DivideOf<half>(values, count, by);
    case DType::kBfloat16:
      return DivideOf<bfloat16>(values, count, by);
    case DType::kFloat:
      return DivideOf<float>(values, count, by);
    case DType::kDouble:
      return DivideOf<double>(values, count, by);
    case DType::kInt32:
      return DivideOf<int32_t>(values, count, by);
    default:
      return DivideOf<int64_t>(values, count, by);
  }
}

}  // namespace sluice::collectives
