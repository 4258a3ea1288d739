// The kernels of the optimizer ops: a rule (training_rules.h) applied to all
// elements, or to the rows selected by indices, of a variable and its slots.
#ifndef SLUICE_OPS_TRAINING_KERNEL_H_
#define SLUICE_OPS_TRAINING_KERNEL_H_

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/parallel.h"
#include "ops/common/prefetch.h"
#include "ops/state/lookup.h"
#include "ops/training/rules.h"
#include "tensor/compute_type.h"
#include "tensor/computed_types.h"

namespace sluice::training {

inline constexpr int kMaxVariables = 4, kMaxScalars = 8;

// The position of each input, from the names in the declaration. Immutable: the
// state of a kernel.
struct Layout {
  explicit Layout(const Node& n);

  std::vector<int> scalars;
  int grad = -1;
  int indices = -1;      // -1: dense.
  int global_step = -1;  // -1: the op has none.
  Options options;
};

// The values of the variables of one update, locked together: what they are,
// and where the new ones go. For each variable this is one tensor if nothing
// else reads it (Variable::Rewrite).
struct Values {
  std::array<const Tensor*, kMaxVariables> from{};
  std::array<Tensor*, kMaxVariables> to{};
};

// How much of its variables an update writes.
enum class Writes { kSome, kAll };

// Calls fn while inputs [0, count), which are variables, are locked; checks
// that they have the shape of the first. If the update writes only some
// elements, the others are where the new values go. Then forwards the
// reference.
Status UpdateTogether(KernelContext& ctx, int count, DType dtype, Writes writes,
                      absl::FunctionRef<Status(const Values&)> fn);

// InvalidArgument unless the gradient fits the variable: same shape if dense;
// else one row for each index.
Status CheckGradient(const KernelContext& ctx, const Layout& layout,
                     const Shape& variable);

// The rows that the indices name, all of them in [0, rows).
Result<std::vector<int64_t>> RowIndices(const Tensor& indices, int64_t rows);

// Fewest elements worth a thread.
inline constexpr int64_t kGrain = 16384;

// The types that have vectorised loops.
template <typename T>
inline constexpr bool kIsReal =
    !std::is_same_v<T, complex64> && !std::is_same_v<T, complex128>;

// Updates n elements: of variables x[k] from `at` on, by the gradient g.
template <typename T, typename R>
void UpdateRange(const R& rule, const std::array<T*, kMaxVariables>& x,
                 int64_t at, const T* g, int64_t n) {
  using C = ComputeType<T>;
  for (int64_t i = 0; i < n; ++i) {
    C e[R::kVariables];
    for (int k = 0; k < R::kVariables; ++k)
      e[k] = static_cast<C>(x[static_cast<size_t>(k)][at + i]);
    rule(e, static_cast<C>(g[i]));
    for (int k = 0; k < R::kVariables; ++k)
      x[static_cast<size_t>(k)][at + i] = static_cast<T>(e[k]);
  }
}

// The same with multiple threads, vectorised if the rule supports it.
template <typename T, typename R>
void Update(const R& rule, const std::array<T*, kMaxVariables>& x, int64_t at,
            const T* g, int64_t n) {
  if constexpr (kIsReal<T> &&
                requires(void** v) { rule.Fused(DTypeOf<T>(), v, g, n); }) {
    void* arrays[R::kVariables];
    for (size_t k = 0; k < R::kVariables; ++k) arrays[k] = x[k] + at;
    if (rule.Fused(DTypeOf<T>(), arrays, g, n)) return;
  }
  ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    UpdateRange(rule, x, at + begin, g + begin, end - begin);
  });
}

// Elements that are copied, and then updated, at a time: they are in the first
// level of the cache in between, with those of the gradient and of the slots.
inline constexpr int64_t kRewriteBlock = 1024;

// Updates n elements of variables whose old values are in `from`, which others
// read (a checkpoint that is being written), and whose new ones go to `to`; the
// two may be the same for some of them. The memory is traversed once.
template <typename T, typename R>
void Rewrite(const R& rule, const std::array<const T*, kMaxVariables>& from,
             const std::array<T*, kMaxVariables>& to, const T* g, int64_t n) {
  ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    const ScopedIntraOpThreads this_one(1);
    for (int64_t i = begin; i < end; i += kRewriteBlock) {
      const int64_t m = std::min(kRewriteBlock, end - i);
      for (size_t k = 0; k < R::kVariables; ++k)
        if (to[k] != from[k]) std::copy_n(from[k] + i, m, to[k] + i);
      Update(rule, to, i, g + i, m);
    }
  });
}

// Updates rows of n elements in the order of their indices, so that a row named
// twice is updated twice. Each thread updates the rows whose numbers have its
// remainder: all updates of a row are one thread's, and the result does not
// depend on the number of threads.
template <typename T, typename R>
void UpdateRows(const R& rule, const std::array<T*, kMaxVariables>& x,
                int64_t n, const std::vector<int64_t>& rows, const T* g) {
  const size_t bytes = static_cast<size_t>(n) * sizeof(T);
  const int64_t work = static_cast<int64_t>(rows.size()) * n;
  const int64_t parts = std::clamp<int64_t>(work / kGrain, 1, IntraOpThreads());
  ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    const ScopedIntraOpThreads this_one(1);
    for (int64_t part = begin; part < end; ++part) {
      // (A loop over the next own index would need them sorted.)
      const auto mine = [&](int64_t row) {
        return parts == 1 || row % parts == part;
      };
      const auto request = [&](size_t i) {
        if (i >= rows.size() || !mine(rows[i])) return;
        for (int k = 0; k < R::kVariables; ++k)
          PrefetchRow(x[static_cast<size_t>(k)] + rows[i] * n, bytes);
      };
      const size_t ahead = kRowsAhead * static_cast<size_t>(parts);
      for (size_t i = 0; i < ahead; ++i) request(i);
      for (size_t i = 0; i < rows.size(); ++i) {
        request(i + ahead);
        if (mine(rows[i]))
          Update(rule, x, rows[i] * n, g + static_cast<int64_t>(i) * n, n);
      }
    }
  });
}

template <template <typename> class Rule>
struct Training {
  template <typename T>
  struct For {
    static Status Run(KernelContext& ctx) {
      using C = ComputeType<T>;
      using R = Rule<C>;
      const auto& layout = ctx.state<Layout>();
      C scalars[kMaxScalars];
      int count = 0;
      for (int i : layout.scalars) {
        if (ctx.input(i).rank() != 0)
          return InvalidArgument("input ", i, ": expected a scalar, got shape ",
                                 ctx.input(i).shape().ToString());
        scalars[count++] =
            static_cast<C>(ctx.input(i).template raw_scalar<T>());
      }
      int64_t step = 0;
      if (layout.global_step >= 0) {
        const Tensor& t = ctx.input(layout.global_step);
        if (t.rank() != 0)
          return InvalidArgument("global_step: expected a scalar, got shape ",
                                 t.shape().ToString());
        step = t.raw_scalar<int64_t>();
      }
      const R rule(Scalars<C>{scalars, step}, layout.options);
      const Tensor& grad = ctx.input(layout.grad);
      return UpdateTogether(ctx, R::kVariables, DTypeOf<T>(),
                            layout.indices < 0 ? Writes::kAll : Writes::kSome,
                            [&](const Values& values) {
                              return Apply(ctx, layout, rule, values, grad);
                            });
    }

    template <typename R>
    static Status Apply(const KernelContext& ctx, const Layout& layout,
                        const R& rule, const Values& values,
                        const Tensor& grad) {
      const Shape& shape = values.from[0]->shape();
      SLUICE_RETURN_IF_ERROR(CheckGradient(ctx, layout, shape));
      std::array<const T*, kMaxVariables> from{};
      std::array<T*, kMaxVariables> x{};
      for (size_t k = 0; k < R::kVariables; ++k) {
        from[k] = values.from[k]->template raw<T>();
        x[k] = values.to[k]->template raw<T>();
      }
      const T* g = grad.raw<T>();
      if (layout.indices < 0) {
        if (std::equal(x.begin(), x.end(), from.begin()))
          Update(rule, x, 0, g, shape.num_elements());
        else
          Rewrite(rule, from, x, g, shape.num_elements());
        return OkStatus();
      }
      // (Some rules know what to do with all rows.)
      SLUICE_ASSIGN_OR_RETURN(
          const std::vector<int64_t> rows,
          RowIndices(ctx.input(layout.indices), shape.dim(0)));
      if (shape.num_elements() == 0) return OkStatus();
      const int64_t n = shape.num_elements() / shape.dim(0);
      if constexpr (requires { rule.UpdateRows(x, int64_t{0}, n, rows, g); }) {
        rule.UpdateRows(x, shape.dim(0), n, rows, g);
        return OkStatus();
      }
      UpdateRows(rule, x, n, rows, g);
      return OkStatus();
    }
  };
};

// A kernel for one of the types Ts that this build computes with.
template <template <typename> class Rule, typename... Ts>
KernelMaker TrainingKernel() {
  return [](const Node& n, Kernel* k) {
    k->state = std::make_shared<Layout>(n);
    const DType t = RemoveRef(n.TypeAttr("T"));
    Status made = NoKernelFor(n, t);
    const auto make = [&]<typename T>() {
      if constexpr (kIsComputed<T>)
        if (t == DTypeOf<T>())
          made = CpuFor<Training<Rule>::template For, T>("T", true)(n, k);
    };
    (make.template operator()<Ts>(), ...);
    return made;
  };
}
template <template <typename> class Rule>
KernelMaker RealTraining() {
  return TrainingKernel<Rule, float, double, half, bfloat16>();
}
template <template <typename> class Rule>
KernelMaker ComplexTraining() {
  return TrainingKernel<Rule, float, double, half, bfloat16, complex64,
                        complex128>();
}

// One optimizer op and its Resource form, which differ in how the variables are
// passed. All strings are literals; lists are separated by spaces.
struct Declaration {
  const char* name;       // "SparseApplyAdagrad".
  const char* variables;  // "var accum".
  const char* inputs;     // "lr grad indices"; T but for indices, global_step.
  const char* options;    // "use_nesterov": false; "update_slots": true.
  KernelMaker kernel;
  const char* doc;
  bool resource_only = false;  // There is no form with references.
};
bool Declare(const std::vector<Declaration>& ops);

}  // namespace sluice::training

#endif  // SLUICE_OPS_TRAINING_KERNEL_H_
