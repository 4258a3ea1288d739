// Conditional accumulators: gradients of several workers are summed, and taken
// when there are enough of them (OSDI'16, section 4.4). A gradient that was
// computed in an earlier step than the accumulator's is dropped.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/hidden_attributes.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/queues/attempts.h"
#include "ops/queues/queue_kernels.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

using queues::AtOnce;
using queues::Shared;

struct AccumulatorOptions {
  explicit AccumulatorOptions(const Node& n)
      : type(n.TypeAttr("dtype")),
        shape(n.AttrOr<PartialShape>("shape", PartialShape())),
        mean(n.AttrOr<std::string>("reduction_type", "MEAN") == "MEAN"),
        for_replicas(n.BoolAttr(kReplicasAccumulatorAttr)) {}
  bool operator==(const AccumulatorOptions& o) const {
    return type == o.type && shape == o.shape && mean == o.mean &&
           for_replicas == o.for_replicas;
  }
  DType type;
  PartialShape shape;
  bool mean;  // Else the sum.
  bool for_replicas;
};

// Calls f(array::Tag<T>()) with the type of gradients; false for types without
// kernels, which TensorFlow has none for either.
template <typename F>
bool ByGradientType(DType t, F&& f) {
  switch (t) {
    case DType::kFloat:
      f(array::Tag<float>());
      return true;
    case DType::kDouble:
      f(array::Tag<double>());
      return true;
    case DType::kHalf:
      f(array::Tag<half>());
      return true;
    case DType::kBfloat16:
      f(array::Tag<bfloat16>());
      return true;
    default:
      return false;
  }
}

// to[0, n) += from[0, n).
void AddGradient(DType type, const void* from, void* to, int64_t n) {
  ByGradientType(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const x = static_cast<const T*>(from);
    T* const y = static_cast<T*>(to);
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(y[i] + x[i]);
  });
}

// x[0, n) /= count.
void DivideGradient(DType type, void* x, int64_t n, int64_t count) {
  ByGradientType(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const y = static_cast<T*>(x);
    const T divisor = static_cast<T>(static_cast<float>(count));
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(y[i] / divisor);
  });
}

// What both kinds have: the steps, and the takes that wait, which are served in
// the order in which they came.
class Accumulator : public Shared {
 public:
  explicit Accumulator(const AccumulatorOptions& o)
      : Shared({true}), options_(o) {}
  std::string TypeName() const override { return "ConditionalAccumulator"; }
  const AccumulatorOptions& options() const { return options_; }

  int64_t count() const {
    std::lock_guard<std::mutex> lock(mu_);
    return count_;
  }
  void SetStep(int64_t step) {
    Update([&](Ended*) { step_ = step; });
  }
  // Takes the sum or mean of at least `required` gradients into the outputs of
  // `ctx`, and begins the next step.
  Status Take(int64_t required, KernelContext* ctx, const DoneFn& done) {
    if (required < 1)
      return InvalidArgument("Argument num_required must be positive, but was ",
                             required);
    Begin(0, std::make_shared<AtOnce>(
                 ctx->step().cancellation, "TakeGrad",
                 [this, required, ctx]() -> std::optional<Status> {
                   if (count_ < required) return std::nullopt;
                   SLUICE_RETURN_IF_ERROR(SetOutputs(ctx));
                   count_ = 0;
                   ++step_;
                   return OkStatus();
                 },
                 done));
    return OkStatus();
  }

 protected:
  // Calls add() unless the gradient is of an earlier step (for replicas, of
  // another one: a later one is from before the variables were restored). One
  // that is dropped may have any shape, as in TensorFlow.
  template <typename Add>
  Status Apply(int64_t step, Add&& add) {
    Status status;
    Update([&](Ended*) {
      if (step < step_ || (options_.for_replicas && step > step_)) return;
      status = add();
      if (status.ok()) ++count_;
    });
    return status;
  }
  // With mu_ held and count_ > 0; the accumulated values are not used after.
  virtual Status SetOutputs(KernelContext* ctx) = 0;

  const AccumulatorOptions options_;
  int64_t count_ = 0;  // GUARDED_BY(mu_): gradients since the last take.

 private:
  int64_t step_ = 0;  // GUARDED_BY(mu_)
};

// ---- Dense ------------------------------------------------------------------

class DenseAccumulator final : public Accumulator {
 public:
  using Accumulator::Accumulator;

  // `gradient`: not shared.
  Status Add(int64_t step, Tensor gradient) {
    return Apply(step, [&]() -> Status {
      if (!options_.shape.CompatibleWith(PartialShape(gradient.shape())))
        return InvalidArgument("Shape mismatch: expected ",
                               options_.shape.ToString(), ", got ",
                               gradient.shape().ToString());
      if (count_ == 0) {
        sum_ = std::move(gradient);
        return OkStatus();
      }
      if (!(sum_.shape() == gradient.shape()))
        return InvalidArgument("Shape mismatch: expected ",
                               sum_.shape().ToString(), ", got ",
                               gradient.shape().ToString());
      AddGradient(options_.type, gradient.raw(), sum_.raw(),
                  sum_.num_elements());
      return OkStatus();
    });
  }

 private:
  Status SetOutputs(KernelContext* ctx) override {
    if (options_.mean)
      DivideGradient(options_.type, sum_.raw(), sum_.num_elements(), count_);
    ctx->set_output(0, std::exchange(sum_, Tensor()));
    return OkStatus();
  }

  Tensor sum_;  // GUARDED_BY(mu_); of no other reader.
};

// ---- Sparse -----------------------------------------------------------------

// Sums rows by their indices. The indices of each gradient ascend, as those of
// unique ones do; the mean is that of the gradients that have the row.
class SparseAccumulator final : public Accumulator {
 public:
  using Accumulator::Accumulator;

  Status Add(int64_t step, const Tensor& indices, const Tensor& values,
             const Tensor& shape, bool has_known_shape) {
    return Apply(step, [&]() -> Status {
      SLUICE_RETURN_IF_ERROR(CheckRows(indices, values));
      if (has_known_shape) SLUICE_RETURN_IF_ERROR(CheckShape(shape));
      return Merge(indices, values);
    });
  }

 private:
  static Status CheckRows(const Tensor& indices, const Tensor& values) {
    if (indices.rank() != 1)
      return InvalidArgument(
          "Input indices should be vector but received shape: ",
          indices.shape().ToString());
    if (values.rank() == 0)
      return InvalidArgument("Values cannot be 0-dimensional.");
    const int64_t rows = indices.dim(0);
    if (values.dim(0) != rows)
      return InvalidArgument("Expected ", rows, " non-empty input values, got ",
                             values.dim(0));
    for (int64_t i = 0; i < rows; ++i)
      if (indices.raw<int64_t>()[i] < 0)
        return InvalidArgument("Index of slice ", i, ": expected >= 0, got ",
                               indices.raw<int64_t>()[i]);
    return OkStatus();
  }

  // The shape of a gradient may have more dimensions than the accumulator
  // declares; those that it declares are compared, as far as they are known.
  Status CheckShape(const Tensor& shape) const {
    const PartialShape& mine = options_.shape;
    if (!mine.rank_known()) return OkStatus();
    if (shape.num_elements() < mine.rank())
      return InvalidArgument("Shape mismatch: expected shape rank at least ",
                             mine.rank(), ", got ", shape.num_elements());
    for (int d = 0; d < mine.rank(); ++d)
      if (const int64_t got = shape.raw<int64_t>()[d];
          mine.dim(d) >= 0 && got != mine.dim(d))
        return InvalidArgument("Shape mismatch: expected shape dim ", d,
                               " to be ", mine.dim(d), ", got ", got);
    return OkStatus();
  }

  // With mu_ held. What the rows have to fit: the accumulated ones, or if there
  // are none, the declared shape, by its first dimensions.
  Status CheckFits(const Tensor& indices, const Tensor& values) const {
    const PartialShape& mine = options_.shape;
    const int64_t limit =
        mine.rank_known() && mine.rank() > 0 ? mine.dim(0) : -1;
    for (int64_t i = 0; limit >= 0 && i < indices.dim(0); ++i)
      if (const int64_t index = indices.raw<int64_t>()[i]; index >= limit)
        return InvalidArgument("Shape mismatch: index of slice ", i,
                               " exceeded limits of shape; index is ", index,
                               " exceeded ", limit);
    const bool any = count_ == 0;
    const PartialShape want = any ? mine : PartialShape(values_.shape());
    if (!want.rank_known()) return OkStatus();
    if (any ? values.rank() < want.rank() : values.rank() != want.rank())
      return InvalidArgument("Shape mismatch: expected values rank ",
                             any ? "at least " : "", want.rank(), ", got ",
                             values.rank());
    for (int d = 1; d < want.rank(); ++d)
      if (want.dim(d) >= 0 && values.dim(d) != want.dim(d))
        return InvalidArgument("Shape mismatch: expected values dim ", d,
                               " to be ", want.dim(d), ", got ", values.dim(d));
    return OkStatus();
  }

  // With mu_ held. Both lists of rows are read in their order, as TensorFlow
  // does, which decides what becomes of indices that do not ascend.
  Status Merge(const Tensor& indices, const Tensor& values) {
    SLUICE_RETURN_IF_ERROR(CheckFits(indices, values));
    const int64_t rows = indices.dim(0);
    const int64_t* const at = indices.raw<int64_t>();
    if (count_ == 0) {
      indices_.clear();
      counts_.clear();
      SLUICE_ASSIGN_OR_RETURN(values_,
                              Tensor::Make(options_.type, values.shape()));
      indices_.assign(at, at + rows);
      counts_.assign(static_cast<size_t>(rows), 1);
      array::CopyRun(options_.type, values.raw(), values_.raw(),
                     values.num_elements());
      return OkStatus();
    }
    // (Index in the new list, or -1; in the old list, or -1.)
    std::vector<std::pair<int64_t, int64_t>> merged;
    const auto old_rows = static_cast<int64_t>(indices_.size());
    for (int64_t i = 0, o = 0; i < rows || o < old_rows;) {
      const bool take_old =
          i == rows ||
          (o < old_rows && indices_[static_cast<size_t>(o)] <= at[i]);
      const bool take_new =
          o == old_rows ||
          (i < rows && at[i] <= indices_[static_cast<size_t>(o)]);
      merged.emplace_back(take_new ? i++ : -1, take_old ? o++ : -1);
    }
    Dims dims = array::DimsOf(values.shape());
    dims[0] = static_cast<int64_t>(merged.size());
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    SLUICE_ASSIGN_OR_RETURN(Tensor sum, Tensor::Make(options_.type, shape));
    const int64_t row = array::Product(array::SpanOf(dims), 1, values.rank());
    std::vector<int64_t> new_indices, new_counts;
    for (size_t r = 0; r < merged.size(); ++r) {
      const auto [i, o] = merged[r];
      void* const to =
          array::At(options_.type, sum.raw(), static_cast<int64_t>(r) * row);
      if (o >= 0) {
        array::CopyRun(options_.type,
                       array::At(options_.type, values_.raw(), o * row), to,
                       row);
        new_indices.push_back(indices_[static_cast<size_t>(o)]);
        new_counts.push_back(counts_[static_cast<size_t>(o)]);
      } else {
        array::ZeroRun(options_.type, to, row);
        new_indices.push_back(at[i]);
        new_counts.push_back(0);
      }
      if (i >= 0) {
        AddGradient(options_.type,
                    array::At(options_.type, values.raw(), i * row), to, row);
        ++new_counts.back();
      }
    }
    indices_ = std::move(new_indices);
    counts_ = std::move(new_counts);
    values_ = std::move(sum);
    return OkStatus();
  }

  Status SetOutputs(KernelContext* ctx) override {
    SLUICE_ASSIGN_OR_RETURN(
        Tensor indices,
        Tensor::MakeVector<int64_t>({indices_.data(), indices_.size()}));
    Dims dims = array::DimsOf(values_.shape());
    const int64_t row = array::Product(array::SpanOf(dims), 1, values_.rank());
    dims[0] = options_.shape.rank_known() && options_.shape.rank() > 0
                  ? options_.shape.dim(0)
                  : -1;
    SLUICE_ASSIGN_OR_RETURN(
        Tensor shape, Tensor::MakeVector<int64_t>({dims.data(), dims.size()}));
    for (size_t r = 0; options_.mean && r < counts_.size(); ++r)
      DivideGradient(options_.type,
                     array::At(options_.type, values_.raw(),
                               static_cast<int64_t>(r) * row),
                     row, options_.for_replicas ? count_ : counts_[r]);
    ctx->set_output(0, std::move(indices));
    ctx->set_output(1, std::exchange(values_, Tensor()));
    ctx->set_output(2, std::move(shape));
    return OkStatus();
  }

  // GUARDED_BY(mu_): the rows, and how many gradients had each.
  std::vector<int64_t> indices_, counts_;
  Tensor values_;
};

// ---- Kernels ----------------------------------------------------------------

template <typename A>
class MakeAccumulatorKernel {
 public:
  static Result<std::shared_ptr<MakeAccumulatorKernel>> Make(const Node& n) {
    const DType t = n.TypeAttr("dtype");
    if (!ByGradientType(t, [](auto) {}))
      return NoKernelFor(
          n, t,
          {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16});
    return std::make_shared<MakeAccumulatorKernel>(n);
  }
  explicit MakeAccumulatorKernel(const Node& n) : handle_(n), options_(n) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(
        ctx.output(0),
        handle_.Get(
            ctx, [this] { return std::make_shared<A>(options_); },
            [this](const A& a) {
              if (a.options() == options_) return OkStatus();
              return InvalidArgument(
                  "Shared conditional accumulator '", handle_.name(),
                  "' has another type, shape or reduction than requested");
            }));
    return OkStatus();
  }

 private:
  state::SharedHandle<A> handle_;
  const AccumulatorOptions options_;
};

Status CheckGradientType(const Accumulator& a, DType got) {
  if (a.options().type == got) return OkStatus();
  return InvalidArgument("dtype: expected ", DTypeName(a.options().type),
                         " of the accumulator, got ", DTypeName(got));
}

Status RunApplyDense(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const auto a, ctx.resource<DenseAccumulator>(0));
  SLUICE_ASSIGN_OR_RETURN(const int64_t step,
                          array::IntScalar(ctx.input(1), "local_step"));
  SLUICE_RETURN_IF_ERROR(CheckGradientType(*a, ctx.input(2).dtype()));
  SLUICE_ASSIGN_OR_RETURN(Tensor gradient, ctx.TakeToKeep(2));
  // (The first gradient becomes the sum, which is written.)
  if (!gradient.unique()) {
    SLUICE_ASSIGN_OR_RETURN(gradient, gradient.Clone());
  }
  return a->Add(step, std::move(gradient));
}

struct ApplySparseKernel {
  explicit ApplySparseKernel(const Node& n)
      : has_known_shape(n.BoolAttr("has_known_shape")) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const auto a, ctx.resource<SparseAccumulator>(0));
    SLUICE_ASSIGN_OR_RETURN(const int64_t step,
                            array::IntScalar(ctx.input(1), "local_step"));
    SLUICE_RETURN_IF_ERROR(CheckGradientType(*a, ctx.input(3).dtype()));
    return a->Add(step, ctx.input(2), ctx.input(3), ctx.input(4),
                  has_known_shape);
  }
  const bool has_known_shape;
};

template <typename A>
struct TakeGradientKernel {
  explicit TakeGradientKernel(const Node& n) : type(n.TypeAttr("dtype")) {}
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const auto a, ctx.resource<A>(0));
    SLUICE_RETURN_IF_ERROR(CheckGradientType(*a, type));
    SLUICE_ASSIGN_OR_RETURN(const int64_t required,
                            array::IntScalar(ctx.input(1), "num_required"));
    return a->Take(required, &ctx, done);
  }
  const DType type;
};

Status RunNumAccumulated(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const auto a, ctx.resource<Accumulator>(0));
  ctx.set_output(0, Tensor::Scalar(static_cast<int32_t>(a->count())));
  return OkStatus();
}

Status RunSetGlobalStep(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const auto a, ctx.resource<Accumulator>(0));
  SLUICE_ASSIGN_OR_RETURN(const int64_t step,
                          array::IntScalar(ctx.input(1), "new_global_step"));
  a->SetStep(step);
  return OkStatus();
}

Status AccumulatorStepShape(ShapeContext& c) { return c.RequireScalar(1); }
Status AccumulatorCountShape(ShapeContext& c) {
  c.set_output(0, PartialShape::Scalar());
  return OkStatus();
}
Status TakeSparseShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  c.set_output(0, {-1});
  c.set_output(2, {-1});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

constexpr const char* kAccumulates =
    "an accumulator holds values; gradients do not flow through it";

#define SLUICE_ACCUMULATOR_OP(Name)                                  \
  SLUICE_OP(Name).Stateful().HostOnly().Family("queues").NoGradient( \
      kAccumulates)

#define SLUICE_MAKE_ACCUMULATOR(Name, Kind, handle, doc) \
  SLUICE_OP(Name)                                        \
      .Output(handle)                                    \
      .Attr("dtype: numbertype")                         \
      .Attr("shape: shape")                              \
      .Attr("container: string = ''")                    \
      .Attr("shared_name: string = ''")                  \
      .Attr("reduction_type: {'MEAN', 'SUM'} = 'MEAN'")  \
      .Stateful(kOwnsState)                              \
      .HostOnly()                                        \
      .Family("queues")                                  \
      .NoGradient(kAccumulates)                          \
      .Shape(state::HandleShape)                         \
      .Kernel(CpuState<MakeAccumulatorKernel<Kind>>())   \
      .Doc(doc)

SLUICE_MAKE_ACCUMULATOR(ConditionalAccumulator, DenseAccumulator,
                        "handle: Ref(string)",
                        "Returns an accumulator of gradients, from which the "
                        "mean or sum is taken when there are enough.");
SLUICE_MAKE_ACCUMULATOR(ResourceConditionalAccumulator, DenseAccumulator,
                        "handle: resource",
                        "Returns an accumulator of gradients, from which the "
                        "mean or sum is taken when there are enough.");
SLUICE_MAKE_ACCUMULATOR(SparseConditionalAccumulator, SparseAccumulator,
                        "handle: Ref(string)",
                        "Returns an accumulator of sparse gradients, from "
                        "which the mean or sum is taken when there are "
                        "enough.");

#define SLUICE_ACCUMULATOR_OPS(Prefix, handle, Access)                       \
  SLUICE_ACCUMULATOR_OP(Prefix##ApplyGradient)                               \
      .Input(handle)                                                         \
      .Input("local_step: int64")                                            \
      .Input("gradient: dtype")                                              \
      .Attr("dtype: numbertype") Access.Shape(AccumulatorStepShape)          \
      .Kernel(Cpu(RunApplyDense))                                            \
      .Doc(                                                                  \
          "Adds a gradient, unless local_step is less than the "             \
          "accumulator's step.");                                            \
  SLUICE_ACCUMULATOR_OP(Prefix##TakeGradient)                                \
      .Input(handle)                                                         \
      .Input("num_required: int32")                                          \
      .Output("average: dtype")                                              \
      .Attr("dtype: numbertype")                                             \
      .Waits() Access.Shape(AccumulatorStepShape)                            \
      .Kernel(queues::WaitingKernel<TakeGradientKernel<DenseAccumulator>>()) \
      .Doc(                                                                  \
          "Takes the mean or sum of the gradients, and begins the next "     \
          "step; waits until there are as many.");                           \
  SLUICE_ACCUMULATOR_OP(Prefix##NumAccumulated)                              \
      .Input(handle)                                                         \
      .Output("num_accumulated: int32") Access.Shape(AccumulatorCountShape)  \
      .Kernel(Cpu(RunNumAccumulated))                                        \
      .Doc("The number of gradients since the last were taken.");            \
  SLUICE_ACCUMULATOR_OP(Prefix##SetGlobalStep)                               \
      .Input(handle)                                                         \
      .Input("new_global_step: int64") Access.Shape(AccumulatorStepShape)    \
      .Kernel(Cpu(RunSetGlobalStep))                                         \
      .Doc(                                                                  \
          "Sets the accumulator's step: gradients of earlier ones are "      \
          "dropped.")

SLUICE_ACCUMULATOR_OPS(Accumulator, "handle: Ref(string)",
                       .AllowsUninitializedInput());
SLUICE_ACCUMULATOR_OPS(ResourceAccumulator, "handle: resource", );

SLUICE_ACCUMULATOR_OP(SparseAccumulatorApplyGradient)
    .Input("handle: Ref(string)")
    .Input("local_step: int64")
    .Input("gradient_indices: int64")
    .Input("gradient_values: dtype")
    .Input("gradient_shape: int64")
    .Attr("dtype: numbertype")
    .Attr("has_known_shape: bool")
    .AllowsUninitializedInput()
    .Shape(AccumulatorStepShape)
    .Kernel(CpuState<ApplySparseKernel>())
    .Doc(
        "Adds a sparse gradient, unless local_step is less than the "
        "accumulator's step.");
SLUICE_ACCUMULATOR_OP(SparseAccumulatorTakeGradient)
    .Input("handle: Ref(string)")
    .Input("num_required: int32")
    .Output("indices: int64")
    .Output("values: dtype")
    .Output("shape: int64")
    .Attr("dtype: numbertype")
    .AllowsUninitializedInput()
    .Waits()
    .Shape(TakeSparseShape)
    .Kernel(queues::WaitingKernel<TakeGradientKernel<SparseAccumulator>>())
    .Doc(
        "Takes the mean or sum of sparse gradients, and begins the next step; "
        "waits until there are as many.");

#undef SLUICE_ACCUMULATOR_OPS
#undef SLUICE_MAKE_ACCUMULATOR
#undef SLUICE_ACCUMULATOR_OP

}  // namespace
}  // namespace sluice
