// Truncated normal numbers, and random crops of images.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/random/distributions.h"
#include "ops/common/elements.h"
#include "ops/random/generator.h"

namespace sluice {
namespace {

// ---- Normal numbers ---------------------------------------------------------

// Gives up after this many consecutive rejections.
constexpr int kMaxRejected = 1000;
// Rows of one distribution are drawn in pieces of this size.
constexpr int64_t kBoundedPiece = 100;
// Plain rejection sampling is used if the bounds are at least this many
// deviations apart.
constexpr double kRoomy = 1.3;

// One distribution, in units of its deviation from its mean: [low, high],
// mirrored if that brings the finite bound near zero to the left. Every step is
// rounded to T, as in TensorFlow.
template <typename T>
class BoundedNormal {
 public:
  // InvalidArgument for bounds that contain no number.
  static Result<BoundedNormal> Make(T mean, T deviation, T low, T high) {
    if (!(deviation > T(0)) || !(low < high) ||
        (std::isinf(float(low)) && std::isinf(float(high))))
      return InvalidArgument(
          "stdevs, minvals, maxvals: expected a deviation above 0 and a range "
          "with a finite bound, got ",
          double(deviation), ", [", double(low), ", ", double(high), "]");
    if ((std::isinf(float(low)) && low < T(0)) || high < mean) {
      std::swap(low, high);
      deviation = T(-deviation);
    }
    BoundedNormal b;
    b.mean_ = mean;
    b.deviation_ = deviation;
    b.low_ = T(T(low - mean) / deviation);
    b.high_ = T(T(high - mean) / deviation);
    return b;
  }

  Status Fill(random::Philox* gen, T* out, int64_t n) const {
    if ((low_ < T(-kRoomy) && high_ >= T(0)) ||
        (high_ > T(kRoomy) && low_ <= T(0)))
      return FillByNormals(gen, out, n);
    const T square = T(low_ * low_);
    const T root = T(std::sqrt(T(square + T(4))));
    const T exponent = T(T(0.5) + T(T(low_ * T(low_ - root)) / T(4)));
    const T cutoff = T(T(T(2) * T(std::exp(exponent))) / T(low_ + root));
    if (T(high_ - low_) < cutoff) return FillByUniforms(gen, out, n);
    return FillByExponentials(gen, out, n, T(T(low_ + root) / T(2)));
  }

 private:
  T Scaled(T x) const { return T(T(x * deviation_) + mean_); }

  // `draw(accept)` calls accept(number, whether it is accepted) for the numbers
  // of a block, until that returns false.
  template <typename Draw>
  Status FillBy(T* out, int64_t n, Draw&& draw) const {
    int64_t done = 0;
    int refused = 0;
    while (done < n && refused < kMaxRejected)
      draw([&](T x, bool taken) {
        if (!taken) return ++refused < kMaxRejected;
        refused = 0;
        out[done++] = Scaled(x);
        return done < n;
      });
    if (done == n) return OkStatus();
    return InvalidArgument(
        "minvals, maxvals: expected bounds that a number falls into within ",
        kMaxRejected, " tries, got [", double(low_), ", ", double(high_),
        "] deviations");
  }

  Status FillByNormals(random::Philox* gen, T* out, int64_t n) const {
    return FillBy(out, n, [&](auto&& accept) {
      for (const T& x : random::NormalReal<T>()((*gen)()))
        if (!accept(x, x >= low_ && x <= high_)) return;
    });
  }
  Status FillByUniforms(random::Philox* gen, T* out, int64_t n) const {
    const T width = T(high_ - low_);
    const T plus = low_ < T(0) ? T(0) : T(low_ * low_);
    return FillBy(out, n, [&](auto&& accept) {
      const auto x = random::UniformReal<T>()((*gen)());
      const auto u = random::UniformReal<T>()((*gen)());
      for (size_t i = 0; i < x.size(); ++i) {
        const T z = T(T(x[i] * width) + low_);
        const T g = T(T(plus - T(z * z)) / T(2));
        if (!accept(z, u[i] <= T(std::exp(g)))) return;
      }
    });
  }
  Status FillByExponentials(random::Philox* gen, T* out, int64_t n,
                            T alpha) const {
    return FillBy(out, n, [&](auto&& accept) {
      const auto u = random::UniformReal<T>()((*gen)());
      for (size_t i = 0; i + 1 < u.size(); i += 2) {
        const T z = T(T(T(-T(std::log(u[i]))) / alpha) + low_);
        const T x = low_ < alpha ? T(alpha - z) : T(low_ - alpha);
        const T g = T(std::exp(T(T(T(-x) * x) / T(2))));
        if (!accept(z, u[i + 1] <= g && z < high_)) return;
      }
    });
  }

  T mean_, deviation_, low_, high_;
};

template <typename T>
struct BoundedNormals {
  static Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, random::ShapeInput(ctx, 0));
    if (shape.rank() < 1)
      return InvalidArgument("shape: expected at least one dimension, got []");
    int64_t rows = shape.dim(0);
    bool one = true;
    for (int i = 1; i < 5; ++i) {
      const Tensor& t = ctx.input(i);
      if (t.rank() > 1 || (t.rank() == 1 && t.dim(0) != 1 && t.dim(0) != rows))
        return InvalidArgument(
            "means, stdevs, minvals, maxvals: expected a scalar or a vector of "
            "1 or ",
            rows, " elements, got shape ", t.shape().ToString());
      one = one && (i < 3 ? t.num_elements() == 1 : t.rank() == 0);
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), shape));
    const int64_t n = shape.num_elements();
    if (n == 0) return OkStatus();
    int64_t columns = n / rows;
    if (one) {
      columns = kBoundedPiece;
      rows = (n + columns - 1) / columns;
    }
    random::Philox gen =
        ctx.state<random::SeededKernel>().generator().ReserveBlocks(
            rows * 2 * kMaxRejected * (columns + 3) / 4);
    T* out = ctx.output(0).raw<T>();
    for (int64_t r = 0; r < rows; ++r) {
      const auto at = [&](int i) {
        const Tensor& t = ctx.input(i);
        return t.raw<T>()[t.num_elements() == 1 ? 0 : r];
      };
      SLUICE_ASSIGN_OR_RETURN(
          const BoundedNormal<T> numbers,
          BoundedNormal<T>::Make(at(1), at(2), at(3), at(4)));
      SLUICE_RETURN_IF_ERROR(numbers.Fill(&gen, out + r * columns,
                                          std::min(columns, n - r * columns)));
    }
    return OkStatus();
  }
};

Status MakeBoundedNormals(const Node& n, Kernel* k) {
  k->state = std::make_shared<random::SeededKernel>(n);
  return CpuFor<BoundedNormals, half, float, double>("dtype", true)(n, k);
}

Status BoundedNormalsShape(ShapeContext& c) {
  for (int i = 1; i < 5; ++i) {
    const PartialShape& s = c.input(i);
    if (s.rank_known() && s.rank() > 1)
      return InvalidArgument("input ", i,
                             ": expected a scalar or a vector, got shape ",
                             s.ToString());
  }
  return random::ShapeFromInput0(c);
}

SLUICE_OP(ParameterizedTruncatedNormal)
    .Input("shape: T")
    .Input("means: dtype")
    .Input("stdevs: dtype")
    .Input("minvals: dtype")
    .Input("maxvals: dtype")
    .Output("output: dtype")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("dtype: {half, bfloat16, float, double}")
    .Attr("T: {int32, int64}")
    .Stateful(kOwnsState)
    .Family("random")
    .Shape(BoundedNormalsShape)
    .Kernel(MakeBoundedNormals)
    .NoGradient(random::kNoGradient)
    .Sample({{.shape = {2}, .values = {2, 3}, .dtype = DType::kInt32},
             {.shape = {2}, .values = {0, 1}},
             {.shape = {}, .values = {1}},
             {.shape = {}, .values = {-1}},
             {.shape = {}, .values = {2}}},
            {{"seed", 7}})
    .Doc(
        "Draws from truncated normal distributions with the given bounds, one "
        "distribution per row.");

// ---- Parts of images --------------------------------------------------------

Status RunRandomCrop(KernelContext& ctx) {
  const Tensor& image = ctx.input(0);
  if (image.rank() != 3)
    return InvalidArgument("image: expected rank 3, got shape ",
                           image.shape().ToString());
  SLUICE_ASSIGN_OR_RETURN(const Dims size,
                          array::IntVectorOf(ctx.input(1), "size"));
  if (size.size() != 2)
    return InvalidArgument("size: expected two numbers, got ", size.size());
  for (int i = 0; i < 2; ++i) {
    const int64_t s = size[static_cast<size_t>(i)];
    if (s < 0) return InvalidArgument("size: expected at least 0, got ", s);
    if (s > image.dim(i))
      return FailedPrecondition("size: expected at most that of the image, ",
                                image.shape().ToString(), ", got ", s,
                                " in dimension ", i);
  }
  random::Philox gen =
      ctx.state<random::SeededKernel>().generator().ReserveWords(2);
  if (size[0] == image.dim(0) && size[1] == image.dim(1)) {
    ctx.set_output(0, ctx.TakeInput(0));
    return OkStatus();
  }
  const int64_t depth = image.dim(2);
  SLUICE_RETURN_IF_ERROR(
      ctx.Allocate(0, image.dtype(), Shape({size[0], size[1], depth})));
  random::SingleSamples words(&gen);
  int64_t start[2] = {0, 0};
  for (int i : {1, 0})
    if (const int64_t room = image.dim(i) - size[static_cast<size_t>(i)];
        room > 0)
      start[i] = static_cast<int64_t>(words()) % (room + 1);
  const Dims strides = array::DenseStrides(image.shape().dims());
  const Dims out_dims = array::DimsOf(ctx.output(0).shape());
  const Dims out_strides = array::DenseStrides(array::SpanOf(out_dims));
  if (ctx.output(0).num_elements() == 0) return OkStatus();
  array::CopyStrided(image.dtype(), array::SpanOf(out_dims),
                     array::At(image.dtype(), image.raw(),
                               start[0] * strides[0] + start[1] * strides[1]),
                     array::SpanOf(strides), ctx.output(0).raw(),
                     array::SpanOf(out_strides));
  return OkStatus();
}

Status MakeRandomCrop(const Node& n, Kernel* k) {
  k->state = std::make_shared<random::SeededKernel>(n);
  k->run = RunRandomCrop;
  return OkStatus();
}

Status RandomCropShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape image, c.WithRank(0, 3));
  SLUICE_ASSIGN_OR_RETURN(PartialShape size, c.InputAsShape(1));
  if (size.rank_known() && size.rank() != 2)
    return InvalidArgument("size: expected two numbers, got ", size.rank());
  PartialShape out({-1, -1, image.dim(2)});
  if (size.rank_known())
    for (int i = 0; i < 2; ++i) out.set_dim(i, size.dim(i));
  c.set_output(0, std::move(out));
  return OkStatus();
}

SLUICE_OP(RandomCrop)
    .Input("image: T")
    .Input("size: int64")
    .Output("output: T")
    .Attr("T: {uint8, int8, int16, int32, int64, float, double}")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Stateful(kOwnsState)
    .Family("random")
    .Shape(RandomCropShape)
    .Kernel(MakeRandomCrop)
    .NoGradient("the crop position is random")
    .Sample({{.shape = {4, 5, 2}}, {.shape = {2}, .values = {2, 3}}},
            {{"seed", 7}})
    .Doc("Crops an image to the given size at a random position.");

}  // namespace
}  // namespace sluice
