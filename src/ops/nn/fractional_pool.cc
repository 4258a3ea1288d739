// Pooling over regions of random sizes (Graham, "Fractional Max-Pooling",
// 2015), and its gradients. Equal seeds give the same regions as TensorFlow.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/random/fill.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/random/generator.h"

namespace sluice {
namespace {

using random::GuardedPhilox;
using random::Philox;
using Sequence = std::vector<int64_t>;  // Starts of regions, and the end.

// ---- Attributes and shapes --------------------------------------------------

Result<std::vector<float>> ReadRatio(const Node& n) {
  const auto ratio =
      n.AttrOr<AttrValue::Floats>("pooling_ratio", AttrValue::Floats{});
  if (ratio.size() != 4)
    return InvalidArgument("pooling_ratio: expected 4 values, got ",
                           ratio.size());
  for (const float r : ratio)
    if (!(r >= 1) || std::isinf(r))
      return InvalidArgument("pooling_ratio: expected finite values >= 1, got ",
                             r);
  if (ratio[0] != 1 || ratio[3] != 1)
    return InvalidArgument(
        "pooling_ratio: expected 1 for the batch and the channels, got ",
        ratio[0], " and ", ratio[3]);
  return ratio;
}

int64_t PooledSize(int64_t in, float ratio) {
  if (ratio == 1) return in;  // (In float 2^63 - 1 would become 2^63.)
  // In float, as in TensorFlow: 6 / 1.2f is 5.
  return in < 0
             ? -1
             : static_cast<int64_t>(std::floor(static_cast<float>(in) / ratio));
}

Status FractionalShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<float> ratio, ReadRatio(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRank(0, 4));
  PartialShape out = PartialShape::OfRank(4);
  for (int i = 0; i < 4; ++i)
    out.set_dim(i, PooledSize(in.dim(i), ratio[static_cast<size_t>(i)]));
  for (int i = 1; i < 3; ++i) {
    const int64_t regions = out.dim(i);
    if (regions == std::numeric_limits<int64_t>::max())
      return InvalidArgument(
          "value: expected less than 2^63 - 1 pooled rows and columns, got "
          "shape ",
          in.ToString());
    c.set_output(i, PartialShape({regions < 0 ? -1 : regions + 1}));
  }
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status MaxGradShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape in, c.WithRank(0, 4));
  c.set_output(0, std::move(in));
  return OkStatus();
}

Status AvgGradShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.InputAsShape(0));
  SLUICE_ASSIGN_OR_RETURN(s, s.MergeWith(PartialShape::OfRank(4)));
  c.set_output(0, std::move(s));
  return OkStatus();
}

// ---- Drawing regions --------------------------------------------------------

double UniformDouble(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high & 0xfffffu} << 32) | low;
  return std::bit_cast<double>((uint64_t{1023} << 52) | bits) - 1.0;
}

// Starts by the formula ceil(alpha * (i + u)), with u drawn so that all regions
// have k or k + 1 elements. REQUIRES: 0 < out <= in.
Sequence DrawByFormula(int64_t in, int64_t out, GuardedPhilox* generator) {
  const double alpha = static_cast<double>(in) / static_cast<double>(out);
  const int64_t k = in / out;
  const double most = std::min(
      static_cast<double>(k + 2) / alpha - 1,
      static_cast<double>(in + 1 - k) / alpha - static_cast<double>(out - 1));
  Philox local = generator->ReserveWords(2);
  random::SingleSamples words(&local);
  const uint32_t high = words(), low = words();
  const double u = UniformDouble(high, low) * most;
  Sequence starts{0};
  for (int64_t i = 1; i < out; ++i)
    starts.push_back(
        static_cast<int64_t>(std::ceil(alpha * (static_cast<double>(i) + u))) -
        1);
  starts.push_back(in);
  return starts;
}

// The required number of regions of k + 1 elements, in random order.
Sequence DrawByShuffle(int64_t in, int64_t out, GuardedPhilox* generator) {
  Sequence order(static_cast<size_t>(out));
  random::FillShuffle(generator->ReserveWords(out), order.data(), out);
  Sequence starts{0};
  for (const int64_t i : order)
    starts.push_back(starts.back() + in / out + (i < in % out ? 1 : 0));
  return starts;
}

struct Regions {
  Sequence rows, columns;
};

// ---- Walking over regions ---------------------------------------------------

// First and last element of region i.
struct Extent {
  int64_t first, last;
  int64_t count() const { return last - first + 1; }
};
Extent RegionAt(std::span<const int64_t> starts, int64_t i, bool overlapping,
                int64_t in) {
  const auto at = static_cast<size_t>(i);
  return {starts[at],
          std::min(overlapping ? starts[at + 1] : starts[at + 1] - 1, in - 1)};
}

// Calls fn(output pixel, rows, columns, batch) for each region.
template <typename Fn>
void ForEachRegion(int64_t batch, int64_t in_rows, int64_t in_columns,
                   std::span<const int64_t> rows,
                   std::span<const int64_t> columns, bool overlapping, Fn fn) {
  const auto oh = static_cast<int64_t>(rows.size()) - 1;
  const auto ow = static_cast<int64_t>(columns.size()) - 1;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t y = 0; y < oh; ++y)
      for (int64_t x = 0; x < ow; ++x)
        fn((b * oh + y) * ow + x, RegionAt(rows, y, overlapping, in_rows),
           RegionAt(columns, x, overlapping, in_columns), b);
}

// Checks a sequence that was passed to a kernel: non-decreasing from 0 to `in`,
// with `out` nonempty regions.
Status CheckSequence(const char* name, const Tensor& t, int64_t in,
                     int64_t out) {
  if (t.rank() != 1 || t.dim(0) != out + 1)
    return InvalidArgument(name, ": expected a vector of ", out + 1,
                           ", one more than the pooled size, got shape ",
                           t.shape().ToString());
  const int64_t* v = t.raw<int64_t>();
  for (int64_t i = 0; i <= out; ++i)
    if (v[i] < 0 || v[i] > in || (i < out && v[i] >= in) ||
        (i > 0 && v[i] <= v[i - 1]))
      return InvalidArgument(name, ": expected rising values in [0, ", in,
                             "], got ", v[i], " at ", i);
  return OkStatus();
}

// ---- Kernels ----------------------------------------------------------------

// Shared by all steps. The generator is thread-safe; a deterministic node draws
// its regions once, under mutex_.
template <typename T, bool kMax>
class FractionalPool : public random::SeededKernel {
 public:
  explicit FractionalPool(const Node& n)
      : SeededKernel(n),
        pseudo_random_(n.BoolAttr("pseudo_random")),
        overlapping_(n.BoolAttr("overlapping")),
        deterministic_(n.BoolAttr("deterministic")) {}
  static Result<std::shared_ptr<FractionalPool>> Make(const Node& n) {
    auto k = std::make_shared<FractionalPool>(n);
    SLUICE_ASSIGN_OR_RETURN(k->ratio_, ReadRatio(n));
    const int64_t seed = n.AttrOr<int64_t>("seed", 0);
    const int64_t seed2 = n.AttrOr<int64_t>("seed2", 0);
    if (!k->deterministic_ && (seed != 0 || seed2 != 0))
      return InvalidArgument(
          "seed, seed2: expected 0 where deterministic is false, got ", seed,
          " and ", seed2);
    return k;
  }

  Status Run(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    if (in.rank() != 4)
      return InvalidArgument("value: expected rank 4, got shape ",
                             in.shape().ToString());
    int64_t dims[4];
    for (int i = 0; i < 4; ++i) {
      dims[i] = PooledSize(in.dim(i), ratio_[static_cast<size_t>(i)]);
      if (dims[i] < 1)
        return InvalidArgument(
            "value: expected at least one pooled element in "
            "dimension ",
            i, ", got shape ", in.shape().ToString());
    }
    SLUICE_ASSIGN_OR_RETURN(const Shape out, Shape::Make(dims));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), out));
    const Regions r = Draw(in.dim(1), dims[1], in.dim(2), dims[2]);
    SLUICE_ASSIGN_OR_RETURN(ctx.output(1), Tensor::MakeVector<int64_t>(r.rows));
    SLUICE_ASSIGN_OR_RETURN(ctx.output(2),
                            Tensor::MakeVector<int64_t>(r.columns));
    Pool(in, r, &ctx.output(0));
    return OkStatus();
  }

 private:
  Sequence DrawOne(int64_t in, int64_t out) {
    return pseudo_random_ ? DrawByFormula(in, out, &generator())
                          : DrawByShuffle(in, out, &generator());
  }
  Regions Draw(int64_t h, int64_t oh, int64_t w, int64_t ow) {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool fits = !kept_.rows.empty() && kept_.rows.back() == h &&
                      kept_.columns.back() == w;
    if (deterministic_ && fits) return kept_;
    Regions r;
    r.rows = DrawOne(h, oh);
    r.columns = DrawOne(w, ow);
    if (deterministic_) kept_ = r;
    return r;
  }

  void Pool(const Tensor& in, const Regions& r, Tensor* out) const {
    const int64_t h = in.dim(1), w = in.dim(2), c = in.dim(3);
    const T* from = in.raw<T>();
    std::fill_n(out->raw<T>(), out->num_elements(),
                kMax ? std::numeric_limits<T>::lowest() : T(0));
    ForEachRegion(in.dim(0), h, w, r.rows, r.columns, overlapping_,
                  [&](int64_t o, Extent rows, Extent columns, int64_t b) {
                    T* to = out->raw<T>() + o * c;
                    for (int64_t y = rows.first; y <= rows.last; ++y)
                      for (int64_t x = columns.first; x <= columns.last; ++x)
                        for (int64_t i = 0; i < c; ++i) {
                          const T v = from[((b * h + y) * w + x) * c + i];
                          to[i] = kMax ? std::max(to[i], v)
                                       : array::WrapAdd(to[i], v);
                        }
                    if constexpr (!kMax)
                      for (int64_t i = 0; i < c; ++i)
                        to[i] /= static_cast<T>(rows.count() * columns.count());
                  });
  }

  std::vector<float> ratio_;
  const bool pseudo_random_, overlapping_, deterministic_;
  std::mutex mutex_;
  Regions kept_;  // Guarded by mutex_.
};
template <typename T>
using FractionalMax = FractionalPool<T, true>;
template <typename T>
using FractionalAvg = FractionalPool<T, false>;

std::span<const int64_t> SequenceOf(const Tensor& t) {
  return {t.raw<int64_t>(), static_cast<size_t>(t.num_elements())};
}

template <typename T>
struct FractionalMaxGrad {
  explicit FractionalMaxGrad(const Node& n)
      : overlapping(n.BoolAttr("overlapping")) {}
  Status Run(KernelContext& ctx) const {
    const Tensor &in = ctx.input(0), &out = ctx.input(1), &dy = ctx.input(2);
    if (in.rank() != 4 || out.rank() != 4 || dy.shape() != out.shape() ||
        out.dim(0) != in.dim(0) || out.dim(3) != in.dim(3))
      return InvalidArgument(
          "out_backprop: expected the shape of orig_output, a pooled "
          "orig_input, got shapes ",
          dy.shape().ToString(), ", ", out.shape().ToString(), " and ",
          in.shape().ToString());
    const int64_t h = in.dim(1), w = in.dim(2), c = in.dim(3);
    SLUICE_RETURN_IF_ERROR(
        CheckSequence("row_pooling_sequence", ctx.input(3), h, out.dim(1)));
    SLUICE_RETURN_IF_ERROR(
        CheckSequence("col_pooling_sequence", ctx.input(4), w, out.dim(2)));
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0),
                            Tensor::Zeros(DTypeOf<T>(), in.shape()));
    T* dx = ctx.output(0).template raw<T>();
    const T* from = in.raw<T>();
    ForEachRegion(
        in.dim(0), h, w, SequenceOf(ctx.input(3)), SequenceOf(ctx.input(4)),
        overlapping, [&](int64_t o, Extent rows, Extent columns, int64_t b) {
          for (int64_t i = 0; i < c; ++i) {
            int64_t best = -1;
            for (int64_t y = rows.first; y <= rows.last; ++y)
              for (int64_t x = columns.first; x <= columns.last; ++x) {
                const int64_t at = ((b * h + y) * w + x) * c + i;
                if (best < 0 || from[best] < from[at]) best = at;
              }
            dx[best] = array::WrapAdd(dx[best], dy.raw<T>()[o * c + i]);
          }
        });
    return OkStatus();
  }
  const bool overlapping;
};

template <typename T>
struct FractionalAvgGrad {
  explicit FractionalAvgGrad(const Node& n)
      : overlapping(n.BoolAttr("overlapping")) {}
  Status Run(KernelContext& ctx) const {
    const Tensor &sizes = ctx.input(0), &dy = ctx.input(1);
    if (sizes.rank() != 1 || sizes.dim(0) != 4)
      return InvalidArgument(
          "orig_input_tensor_shape: expected a vector of 4, got shape ",
          sizes.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(const Shape in, Shape::Make(SequenceOf(sizes)));
    if (dy.rank() != 4 || dy.dim(0) != in.dim(0) || dy.dim(3) != in.dim(3))
      return InvalidArgument("out_backprop: expected a pooled ", in.ToString(),
                             ", got shape ", dy.shape().ToString());
    const int64_t h = in.dim(1), w = in.dim(2), c = in.dim(3);
    SLUICE_RETURN_IF_ERROR(
        CheckSequence("row_pooling_sequence", ctx.input(2), h, dy.dim(1)));
    SLUICE_RETURN_IF_ERROR(
        CheckSequence("col_pooling_sequence", ctx.input(3), w, dy.dim(2)));
    // Summed in double, since integers are divided into fractions.
    SLUICE_ASSIGN_OR_RETURN(const Tensor sum,
                            Tensor::Zeros(DType::kDouble, in));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), in));
    double* dx = const_cast<Tensor&>(sum).raw<double>();
    ForEachRegion(
        in.dim(0), h, w, SequenceOf(ctx.input(2)), SequenceOf(ctx.input(3)),
        overlapping, [&](int64_t o, Extent rows, Extent columns, int64_t b) {
          const auto count =
              static_cast<double>(rows.count() * columns.count());
          for (int64_t y = rows.first; y <= rows.last; ++y)
            for (int64_t x = columns.first; x <= columns.last; ++x)
              for (int64_t i = 0; i < c; ++i)
                dx[((b * h + y) * w + x) * c + i] +=
                    static_cast<double>(dy.raw<T>()[o * c + i]) / count;
        });
    std::transform(dx, dx + sum.num_elements(), ctx.output(0).template raw<T>(),
                   [](double v) {
                     if constexpr (std::is_integral_v<T>) {
                       // (The largest T may not be a double; the next lower one
                       // is used.)
                       constexpr T most = std::numeric_limits<T>::max();
                       if (v >= static_cast<double>(most)) return most;
                       constexpr T least = std::numeric_limits<T>::min();
                       if (v <= static_cast<double>(least)) return least;
                     }
                     return static_cast<T>(v);
                   });
    return OkStatus();
  }
  const bool overlapping;
};

// ---- Gradients and declarations ---------------------------------------------

Status FractionalMaxGradient(GradContext& c) {
  c.grads[0] = Build(
      "FractionalMaxPoolGrad",
      {c.input(0), c.output(0), c.dy[0], Output(c.op, 1), Output(c.op, 2)},
      {{"overlapping", c.op->BoolAttr("overlapping")}});
  return OkStatus();
}

Status FractionalAvgGradient(GradContext& c) {
  c.grads[0] = Build("FractionalAvgPoolGrad",
                     {grad::ShapeOf(c.input(0), DType::kInt64), c.dy[0],
                      Output(c.op, 1), Output(c.op, 2)},
                     {{"overlapping", c.op->BoolAttr("overlapping")}});
  return OkStatus();
}

template <template <typename> class K>
OpDefBuilder FractionalOp(const char* name) {
  OpDefBuilder b(name);
  b.Input("value: T")
      .Output("output: T")
      .Output("row_pooling_sequence: int64")
      .Output("col_pooling_sequence: int64")
      .Attr("pooling_ratio: list(float) >= 4")
      .Attr("pseudo_random: bool = false")
      .Attr("overlapping: bool = false")
      .Attr("deterministic: bool = false")
      .Attr("seed: int = 0")
      .Attr("seed2: int = 0")
      .Attr("T: {float, double, int32, int64}")
      .Stateful(kOwnsState)
      .Family("nn")
      .Shape(FractionalShape)
      .Kernel(CpuStateFor<K, float, double, int32_t, int64_t>("T"))
      .Sample({{.shape = {2, 7, 6, 2}}},
              {{"pooling_ratio", AttrValue::Floats{1, 1.5f, 1.4f, 1}},
               {"deterministic", true},
               {"seed", 7},
               {"seed2", 3}});
  return b;
}

template <template <typename> class K>
OpDefBuilder FractionalGradOp(const char* name,
                              std::initializer_list<const char*> inputs) {
  OpDefBuilder b(name);
  for (const char* input : inputs) b.Input(input);
  b.Input("row_pooling_sequence: int64")
      .Input("col_pooling_sequence: int64")
      .Output("output: T")
      .Attr("overlapping: bool = false")
      .Attr("T: {float, double, int32, int64}")
      .Family("nn")
      .Kernel(CpuStateFor<K, float, double, int32_t, int64_t>("T"))
      .Grad(grad::Undefined);
  return b;
}

const OpRegistrar kFractionalPools[] = {
    FractionalOp<FractionalMax>("FractionalMaxPool")
        .Grad(FractionalMaxGradient)
        .Doc("Max pooling over regions of random sizes."),
    FractionalOp<FractionalAvg>("FractionalAvgPool")
        .Grad(FractionalAvgGradient)
        .Doc("Average pooling over regions of random sizes."),
    FractionalGradOp<FractionalMaxGrad>(
        "FractionalMaxPoolGrad",
        {"orig_input: T", "orig_output: T", "out_backprop: T"})
        .Shape(MaxGradShape)
        .Sample({{.shape = {1, 4, 3, 2}},
                 {.shape = {1, 3, 2, 2}},
                 {.shape = {1, 3, 2, 2}},
                 {.shape = {4}, .values = {0, 1, 3, 4}},
                 {.shape = {3}, .values = {0, 2, 3}}})
        .Doc("The gradient of FractionalMaxPool."),
    FractionalGradOp<FractionalAvgGrad>(
        "FractionalAvgPoolGrad",
        {"orig_input_tensor_shape: int64", "out_backprop: T"})
        .Shape(AvgGradShape)
        .Sample({{.shape = {4}, .values = {1, 4, 3, 2}},
                 {.shape = {1, 3, 2, 2}},
                 {.shape = {4}, .values = {0, 1, 3, 4}},
                 {.shape = {3}, .values = {0, 2, 3}}})
        .Doc("The gradient of FractionalAvgPool."),
};

}  // namespace
}  // namespace sluice
