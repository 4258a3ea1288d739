#include "kernels/simd/update.h"

#include <algorithm>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/simd/binary.h"
#include "kernels/simd/by_dtype.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/update.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/half-inl.h"

// The parameters of all updates, and the arrays they may touch.
#ifndef SLUICE_KERNELS_SIMD_UPDATE_ARGS_
#define SLUICE_KERNELS_SIMD_UPDATE_ARGS_
namespace sluice::simd {
namespace {
struct UpdateArgs {
  double lr = 0;
  double a = 0;
  double b = 0;
  double epsilon = 0;
  bool flag = false;
  const void* g = nullptr;
  void* s1 = nullptr;  // First slot; null if there is none.
  void* s2 = nullptr;  // Second slot.
  void* w = nullptr;
};
enum class UpdateKind { kAxpy, kAdagrad, kMomentum, kAdam, kAdamDecay };
}  // namespace
}  // namespace sluice::simd
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// A rule is constructed from the parameters and applied to vectors of any
// number of lanes: op(d, g, s1, s2, w) changes its last three arguments.

template <class T>
struct AxpyRule {
  static constexpr int kSlots = 0;
  explicit AxpyRule(const UpdateArgs& u) : alpha(static_cast<T>(u.lr)) {}
  T alpha;
  template <class D, class V>
  HWY_INLINE void operator()(D d, V g, V&, V&, V& w) const {
    w = hn::MulAdd(hn::Set(d, alpha), g, w);
  }
};

template <class T>
struct AdagradRule {
  static constexpr int kSlots = 1;
  explicit AdagradRule(const UpdateArgs& u)
      : lr(static_cast<T>(u.lr)),
        epsilon(static_cast<T>(u.epsilon)),
        update_slots(u.flag) {}
  T lr, epsilon;
  bool update_slots;
  template <class D, class V>
  HWY_INLINE void operator()(D d, V g, V& accum, V&, V& w) const {
    if (update_slots) accum = hn::MulAdd(g, g, accum);
    const V root = hn::Add(hn::Sqrt(accum), hn::Set(d, epsilon));
    w = hn::Sub(w, hn::Div(hn::Mul(hn::Set(d, lr), g), root));
  }
};

template <class T>
struct MomentumRule {
  static constexpr int kSlots = 1;
  explicit MomentumRule(const UpdateArgs& u)
      : lr(static_cast<T>(u.lr)),
        momentum(static_cast<T>(u.a)),
        nesterov(u.flag) {}
  T lr, momentum;
  bool nesterov;
  template <class D, class V>
  HWY_INLINE void operator()(D d, V g, V& accum, V&, V& w) const {
    const V mu = hn::Set(d, momentum);
    accum = hn::MulAdd(accum, mu, g);
    const V step = nesterov ? hn::MulAdd(accum, mu, g) : accum;
    w = hn::NegMulAdd(hn::Set(d, lr), step, w);
  }
};

template <class T>
struct AdamRule {
  static constexpr int kSlots = 2;
  explicit AdamRule(const UpdateArgs& u)
      : lr(static_cast<T>(u.lr)),
        beta1(static_cast<T>(u.a)),
        beta2(static_cast<T>(u.b)),
        epsilon(static_cast<T>(u.epsilon)),
        nesterov(u.flag) {}
  T lr, beta1, beta2, epsilon;
  bool nesterov;
  template <class D, class V>
  HWY_INLINE void operator()(D d, V g, V& m, V& v, V& w) const {
    const V rest = hn::Set(d, T(1) - beta1);
    m = hn::MulAdd(rest, hn::Sub(g, m), m);
    v = hn::MulAdd(hn::Set(d, T(1) - beta2), hn::Sub(hn::Mul(g, g), v), v);
    const V top =
        nesterov ? hn::MulAdd(hn::Set(d, beta1), m, hn::Mul(rest, g)) : m;
    const V root = hn::Add(hn::Sqrt(v), hn::Set(d, epsilon));
    w = hn::Sub(w, hn::Div(hn::Mul(hn::Set(d, lr), top), root));
  }
};

// Has no gradient: Step passes another array in its place.
template <class T>
struct AdamDecayRule {
  static constexpr int kSlots = 2;
  explicit AdamDecayRule(const UpdateArgs& u)
      : lr(static_cast<T>(u.flag ? u.lr * u.a : u.lr)),
        beta1(static_cast<T>(u.a)),
        beta2(static_cast<T>(u.b)),
        epsilon(static_cast<T>(u.epsilon)) {}
  T lr, beta1, beta2, epsilon;
  template <class D, class V>
  HWY_INLINE void operator()(D d, V, V& m, V& v, V& w) const {
    m = hn::Mul(hn::Set(d, beta1), m);
    v = hn::Mul(hn::Set(d, beta2), v);
    const V root = hn::Add(hn::Sqrt(v), hn::Set(d, epsilon));
    const V step = hn::Div(hn::Mul(hn::Set(d, lr), m), root);
    // (Where epsilon is zero, as 1e-8 is as a half, 0 / 0 is to be zero.)
    w = hn::Sub(w, hn::IfThenZeroElse(hn::Eq(m, hn::Zero(d)), step));
  }
  // Whether nothing changes.
  template <class D, class V>
  HWY_INLINE bool Skips(D d, V m, V v) const {
    return hn::AllTrue(d,
                       hn::And(hn::Eq(m, hn::Zero(d)), hn::Eq(v, hn::Zero(d))));
  }
};

template <class Rule, class T, class D>
HWY_INLINE void Step(const Rule& rule, D d, const T* g, T* s1, T* s2, T* w) {
  using V = hn::Vec<D>;
  V vs1 = Rule::kSlots > 0 ? hn::LoadU(d, s1) : hn::Zero(d);
  V vs2 = Rule::kSlots > 1 ? hn::LoadU(d, s2) : hn::Zero(d);
  if constexpr (requires { rule.Skips(d, vs1, vs2); })
    if (rule.Skips(d, vs1, vs2)) return;
  V vw = hn::LoadU(d, w);
  rule(d, hn::LoadU(d, g), vs1, vs2, vw);
  if (Rule::kSlots > 0) hn::StoreU(vs1, d, s1);
  if (Rule::kSlots > 1) hn::StoreU(vs2, d, s2);
  hn::StoreU(vw, d, w);
}

template <class Rule, class T>
void Steps(const Rule& rule, const T* g, T* s1, T* s2, T* w, int64_t n) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    Step<Rule, T>(rule, d, g + i, s1 + i, s2 + i, w + i);
  for (; i < n; ++i) Step<Rule, T>(rule, one, g + i, s1 + i, s2 + i, w + i);
}

template <template <class> class Rule, class T>
void Run(const UpdateArgs& u, int64_t begin, int64_t end) {
  const T* g = static_cast<const T*>(u.g);
  T* s1 = static_cast<T*>(u.s1);
  T* s2 = static_cast<T*>(u.s2);
  T* w = static_cast<T*>(u.w);
  if constexpr (std::is_floating_point_v<T>) {
    const Rule<T> rule(u);
    // Missing slots are never read; w is passed instead.
    Steps<Rule<T>, T>(rule, g + begin, (s1 ? s1 : w) + begin,
                      (s2 ? s2 : w) + begin, w + begin, end - begin);
  } else {
    using R = Rule<float>;
    const R rule(u);
    alignas(64) float fg[kBlock], f1[kBlock], f2[kBlock], fw[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t m = end - i < kBlock ? end - i : kBlock;
      ToFloat(g + i, fg, m);
      ToFloat(w + i, fw, m);
      if (R::kSlots > 0) ToFloat(s1 + i, f1, m);
      if (R::kSlots > 1) ToFloat(s2 + i, f2, m);
      Steps<R, float>(rule, fg, f1, f2, fw, m);
      FromFloat(fw, w + i, m);
      if (R::kSlots > 0) FromFloat(f1, s1 + i, m);
      if (R::kSlots > 1) FromFloat(f2, s2 + i, m);
    }
  }
}

}  // namespace

using UpdateFn = void (*)(const UpdateArgs&, int64_t, int64_t);

namespace {
template <template <class> class Rule>
UpdateFn PickType(DType t) {
  return ByDType<UpdateFn>(FloatTypes(), t,
                           []<class T>() -> UpdateFn { return Run<Rule, T>; });
}
}  // namespace

UpdateFn PickUpdate(UpdateKind kind, DType t) {
  switch (kind) {
    case UpdateKind::kAxpy:
      return PickType<AxpyRule>(t);
    case UpdateKind::kAdagrad:
      return PickType<AdagradRule>(t);
    case UpdateKind::kMomentum:
      return PickType<MomentumRule>(t);
    case UpdateKind::kAdam:
      return PickType<AdamRule>(t);
    case UpdateKind::kAdamDecay:
      return PickType<AdamDecayRule>(t);
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(PickUpdate);
namespace {

constexpr int64_t kGrain = 16384;

bool RunUpdate(UpdateKind kind, DType t, const UpdateArgs& u, int64_t n) {
  const auto fn = HWY_DYNAMIC_DISPATCH(PickUpdate)(kind, t);
  if (fn == nullptr) return false;
  ParallelFor(n, kGrain,
              [&](int64_t begin, int64_t end) { fn(u, begin, end); });
  return true;
}

}  // namespace

bool Axpy(DType t, double alpha, const void* x, void* y, int64_t n) {
  return RunUpdate(UpdateKind::kAxpy, t, {.lr = alpha, .g = x, .w = y}, n);
}

bool AdagradUpdate(DType t, double lr, double epsilon, bool update_slots,
                   const void* g, void* accum, void* w, int64_t n) {
  return RunUpdate(UpdateKind::kAdagrad, t,
                   {.lr = lr,
                    .epsilon = epsilon,
                    .flag = update_slots,
                    .g = g,
                    .s1 = accum,
                    .w = w},
                   n);
}

bool MomentumUpdate(DType t, double lr, double momentum, bool nesterov,
                    const void* g, void* accum, void* w, int64_t n) {
  return RunUpdate(
      UpdateKind::kMomentum, t,
      {.lr = lr, .a = momentum, .flag = nesterov, .g = g, .s1 = accum, .w = w},
      n);
}

bool AdamUpdate(DType t, double lr, double beta1, double beta2, double epsilon,
                bool nesterov, const void* g, void* m, void* v, void* w,
                int64_t n) {
  return RunUpdate(UpdateKind::kAdam, t,
                   {.lr = lr,
                    .a = beta1,
                    .b = beta2,
                    .epsilon = epsilon,
                    .flag = nesterov,
                    .g = g,
                    .s1 = m,
                    .s2 = v,
                    .w = w},
                   n);
}

bool AdamDecay(DType t, double lr, double beta1, double beta2, double epsilon,
               bool nesterov, void* m, void* v, void* w, int64_t n) {
  return RunUpdate(UpdateKind::kAdamDecay, t,
                   {.lr = lr,
                    .a = beta1,
                    .b = beta2,
                    .epsilon = epsilon,
                    .flag = nesterov,
                    .g = w,
                    .s1 = m,
                    .s2 = v,
                    .w = w},
                   n);
}

bool AddN(DType t, absl::Span<const void* const> inputs, void* out, int64_t n) {
  const BinaryKernel add = GetBinary(BinaryOp::kAdd, t);
  if (!add) return false;
  const int64_t size = add.in_size;
  // Block by block, so that the sum stays in the cache between inputs.
  constexpr int64_t kSumBlock = 2048;
  const auto at = [size](const void* p, int64_t i) {
    return static_cast<const char*>(p) + i * size;
  };
  ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kSumBlock) {
      const int64_t m = std::min(kSumBlock, end - i);
      char* sum = static_cast<char*>(out) + i * size;
      if (inputs.size() == 1) {
        if (out != inputs[0]) std::copy_n(at(inputs[0], i), m * size, sum);
        continue;
      }
      add.fn(Operands::kVectorVector, at(inputs[0], i), at(inputs[1], i), sum,
             m);
      for (size_t k = 2; k < inputs.size(); ++k)
        add.fn(Operands::kVectorVector, sum, at(inputs[k], i), sum, m);
    }
  });
  return true;
}

}  // namespace sluice::simd
#endif
