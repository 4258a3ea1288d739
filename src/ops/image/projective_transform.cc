// Projective transforms of images.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "graph/op_def.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/image/float_index.h"
#include "ops/image/resize.h"

namespace sluice {
namespace {

// What pixels outside the image are.
enum class Outside { kConstant, kReflect, kWrap, kNearest };

// The position within [0, size) that stands for `at`; with kConstant, `at`
// itself. As in SciPy's ndimage.
float InsideImage(float at, int64_t size, Outside fill) {
  if (fill == Outside::kConstant) return at;
  const auto last = static_cast<float>(size - 1);
  float in = at;
  // Whole lengths of `period` pixels in `distance`.
  const auto whole = [](float distance, float period) {
    return std::trunc(distance / period);
  };
  const auto length = static_cast<float>(size);
  if (fill == Outside::kReflect && size > 1) {  // abcd: dcba|abcd|dcba.
    const float period = 2 * length;
    if (in < 0) {
      in += period * whole(-in, period);
      in = in < -length ? in + period : -in - 1;
    } else if (in > last) {
      in -= period * whole(in, period);
      if (in >= length) in = period - in - 1;
    }
  } else if (fill == Outside::kWrap && size > 1) {  // abcd: abcd|abcd|abcd.
    if (in < 0)
      in += length * (whole(-in, last) + 1);
    else if (in > last)
      in -= length * whole(in, last);
  } else if (fill != Outside::kNearest && (in < 0 || in > last)) {
    in = 0;
  }
  // (Clamped because a position such as 3.5 in a size of 4 would be rounded to
  // 4.)
  return std::clamp(in, 0.0f, last);
}

// Immutable.
template <typename T>
class ProjectiveTransform {
 public:
  static Result<std::shared_ptr<ProjectiveTransform>> Make(const Node& n) {
    auto k = std::make_shared<ProjectiveTransform>();
    const auto interpolation = n.AttrOr<std::string>("interpolation", "");
    if (interpolation != "NEAREST" && interpolation != "BILINEAR")
      return InvalidArgument(
          "interpolation: expected NEAREST or BILINEAR, got '", interpolation,
          "'");
    k->bilinear_ = interpolation == "BILINEAR";
    const auto fill = n.AttrOr<std::string>("fill_mode", "CONSTANT");
    if (fill == "REFLECT")
      k->fill_ = Outside::kReflect;
    else if (fill == "WRAP")
      k->fill_ = Outside::kWrap;
    else if (fill == "NEAREST")
      k->fill_ = Outside::kNearest;
    else if (fill != "CONSTANT")
      return InvalidArgument(
          "fill_mode: expected REFLECT, WRAP, CONSTANT or NEAREST, got '", fill,
          "'");
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& images = ctx.input(0);
    const Tensor& transforms = ctx.input(1);
    if (images.rank() != 4)
      return InvalidArgument(
          "images: expected [batch, height, width, channels], got shape ",
          images.shape().ToString());
    const int64_t batch = images.dim(0), channels = images.dim(3);
    if (transforms.rank() != 2 || transforms.dim(1) != 8 ||
        (transforms.dim(0) != 1 && transforms.dim(0) != batch))
      return InvalidArgument("transforms: expected [1, 8] or [", batch,
                             ", 8], got shape ", transforms.shape().ToString());
    int64_t height, width;
    SLUICE_RETURN_IF_ERROR(
        resize::ReadPair(ctx.input(2), "output_shape", &height, &width));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(
        0, images.dtype(), Shape({batch, height, width, channels})));
    if (ctx.output(0).num_elements() == 0) return OkStatus();
    const int64_t pixels = images.dim(1) * images.dim(2);
    T* const out = ctx.output(0).template raw<T>();
    const int64_t row = width * channels;
    ParallelFor(
        batch * height, 4096 / row + 1, [&](int64_t begin, int64_t end) {
          for (int64_t o = begin; o < end; ++o) {
            const int64_t b = o / height;
            const float* transform =
                transforms.raw<float>() + (transforms.dim(0) == 1 ? 0 : 8 * b);
            const View image{images.raw<T>() + b * pixels * channels,
                             images.dim(1), images.dim(2), channels};
            for (int64_t x = 0; x < width; ++x)
              Pixel(image, transform, static_cast<float>(o % height),
                    static_cast<float>(x), out + o * row + x * channels);
          }
        });
    return OkStatus();
  }

 private:
  struct View {
    const T* data;
    int64_t height, width, channels;
    // 0 outside.
    T at(int64_t y, int64_t x, int64_t c) const {
      return y >= 0 && y < height && x >= 0 && x < width
                 ? data[(y * width + x) * channels + c]
                 : T{};
    }
  };

  void Pixel(const View& image, const float* t, float y, float x,
             T* out) const {
    std::fill_n(out, image.channels, T{});
    const float projection = t[6] * x + t[7] * y + 1.0f;
    if (projection == 0 || image.height == 0 || image.width == 0) return;
    const float from_x = InsideImage((t[0] * x + t[1] * y + t[2]) / projection,
                                     image.width, fill_);
    const float from_y = InsideImage((t[3] * x + t[4] * y + t[5]) / projection,
                                     image.height, fill_);
    if (!std::isfinite(from_x) || !std::isfinite(from_y)) return;
    if (!bilinear_) {
      for (int64_t c = 0; c < image.channels; ++c)
        out[c] = image.at(IndexOfFloat(std::round(from_y)),
                          IndexOfFloat(std::round(from_x)), c);
      return;
    }
    const float above = std::floor(from_y), left = std::floor(from_x);
    const int64_t top = IndexOfFloat(above), first = IndexOfFloat(left);
    const float right = left + 1 - from_x, below = above + 1 - from_y;
    for (int64_t c = 0; c < image.channels; ++c) {
      const auto at = [&](int64_t dy, int64_t dx) {
        return static_cast<float>(image.at(top + dy, first + dx, c));
      };
      const float upper = right * at(0, 0) + (from_x - left) * at(0, 1);
      const float lower = right * at(1, 0) + (from_x - left) * at(1, 1);
      out[c] = ElementOfFloat<T>(below * upper + (from_y - above) * lower);
    }
  }

  bool bilinear_ = false;
  Outside fill_ = Outside::kConstant;
};

Status ProjectiveShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.WithRank(0, 4));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape transforms, c.WithRank(1, 2));
  SLUICE_RETURN_IF_ERROR(MergeDim(transforms.dim(1), 8).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  SLUICE_ASSIGN_OR_RETURN(PartialShape size, c.InputAsShape(2));
  SLUICE_ASSIGN_OR_RETURN(size, size.MergeWith(PartialShape::OfRank(2)));
  out.set_dim(1, size.dim(0));
  out.set_dim(2, size.dim(1));
  c.set_output(0, std::move(out));
  return OkStatus();
}

// As TensorFlow does: the gradient, transformed by the inverse. It is exact
// where pixels are only moved.
Status ProjectiveGradient(GradContext& c) {
  const DType t = grad::TypeOf(c.input(0));
  if (t != DType::kHalf && t != DType::kBfloat16 && t != DType::kFloat &&
      t != DType::kDouble)
    return OkStatus();
  const auto ints = [](std::initializer_list<int32_t> v) {
    return Constant(Tensor::Vector(v));
  };
  const Output transforms = c.input(1);
  // The ninth coefficient is 1.
  const Output matrices =
      Build("Reshape", {Build("Pad", {transforms, Constant(Tensor::Of<int32_t>(
                                                      {2, 2}, {0, 0, 0, 1}))}),
                        ints({-1, 3, 3})});
  const Output one =
      Constant(Tensor::Of<float>(Shape({3, 3}), {0, 0, 0, 0, 0, 0, 0, 0, 1}));
  const Output inverse = Build(
      "Reshape",
      {Build("MatrixInverse", {grad::Add(matrices, one)}), ints({-1, 9})});
  const Output last = Build("Slice", {inverse, ints({0, 8}), ints({-1, 1})});
  const Output flat =
      Build("Slice", {grad::Div(inverse, last), ints({0, 0}), ints({-1, 8})});
  const Output size =
      Build("Slice", {grad::ShapeOf(c.input(0)), ints({1}), ints({2})});
  c.grads[0] = Build(
      "ImageProjectiveTransformV2", {c.dy[0], flat, size},
      {{"interpolation", c.op->AttrOr<std::string>("interpolation", "")},
       {"fill_mode", c.op->AttrOr<std::string>("fill_mode", "CONSTANT")}});
  return OkStatus();
}

SLUICE_OP(ImageProjectiveTransformV2)
    .Input("images: dtype")
    .Input("transforms: float")
    .Input("output_shape: int32")
    .Output("transformed_images: dtype")
    .Attr("dtype: {uint8, int32, int64, half, bfloat16, float, double}")
    .Attr("interpolation: string")
    .Attr("fill_mode: string = 'CONSTANT'")
    .Family("image")
    .HostInput("output_shape")
    .Shape(ProjectiveShape)
    .Kernel(CpuStateFor<ProjectiveTransform, uint8_t, int32_t, int64_t, half,
                        bfloat16, float, double>("dtype", /*expensive=*/true))
    .Grad(ProjectiveGradient)
    // Shifted by a column, and turned by a right angle.
    .Sample({{.shape = {2, 3, 3, 2}},
             {.shape = {2, 8},
              .values = {1, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, -1, 0, 2, 0, 0}},
             {.shape = {2}, .values = {3, 3}}},
            {{"interpolation", "NEAREST"}})
    .Sample({{.shape = {1, 3, 4, 2}, .dtype = DType::kFloat},
             {.shape = {1, 8}, .values = {-1, 0, 3, 0, 1, -1, 0, 0}},
             {.shape = {2}, .values = {3, 4}}},
            {{"interpolation", "BILINEAR"}})
    .Doc(
        "Reads each pixel at the position that a projective map with eight "
        "coefficients gives for it.");

}  // namespace
}  // namespace sluice
