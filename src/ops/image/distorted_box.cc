// Random crops that keep enough of an object.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/random/generator.h"

namespace sluice {
namespace {

// Pixels of an image.
struct PixelBox {
  int64_t left = 0, top = 0, right = 0, bottom = 0;

  float area() const {
    return static_cast<float>((right - left) * (bottom - top));
  }
  // Empty at the origin if the two do not meet.
  PixelBox Intersection(const PixelBox& o) const {
    const PixelBox both{std::max(left, o.left), std::max(top, o.top),
                        std::min(right, o.right), std::min(bottom, o.bottom)};
    return both.left > both.right || both.top > both.bottom ? PixelBox() : both;
  }
};

// ---- Drawing ----------------------------------------------------------------

// The draws of one run, with TensorFlow's bits.
class BoxDraws {
 public:
  explicit BoxDraws(random::Philox generator)
      : generator_(generator), words_(&generator_) {}
  BoxDraws(const BoxDraws&) = delete;

  // In [0, 1).
  float Fraction() {
    return static_cast<float>(words_() & 0x7fffffu) * 0x1p-23f;
  }
  // In [0, n), or 0 if n is 0; draws that would favour small numbers are
  // repeated.
  int64_t Below(int64_t n) {
    const auto size = static_cast<uint32_t>(n);
    if (size == 0) return static_cast<int64_t>(words_() * size);
    if ((size & (size - 1)) == 0) return words_() & (size - 1);
    const uint32_t uneven = std::numeric_limits<uint32_t>::max() % size + 1;
    uint32_t word;
    do word = words_();
    while (word < uneven);
    return word % size;
  }

 private:
  random::Philox generator_;
  random::SingleSamples words_;
};

// Rounded half to even. REQUIRES: v is not negative.
int64_t RoundedSide(float v) {
  return v < 1e9f ? std::lrint(v) : int64_t{1000000000};
}

// Draws a crop of the given aspect ratio (width / height), with an area between
// the two fractions of the image's. False if there is none. The sizes are
// computed step by step as in TensorFlow, for equal results.
bool DrawCrop(int64_t width, int64_t height, float least, float most,
              float ratio, BoxDraws* draws, PixelBox* out) {
  if (width <= 0 || height <= 0 || least > most) return false;
  const float least_area =
      least * static_cast<float>(width) * static_cast<float>(height);
  const float most_area =
      most * static_cast<float>(width) * static_cast<float>(height);
  const auto width_of = [&](int64_t h) {
    return RoundedSide(static_cast<float>(h) * ratio);
  };
  int64_t h = RoundedSide(std::sqrt(least_area / ratio));
  int64_t highest = RoundedSide(std::sqrt(most_area / ratio));
  if (width_of(highest) > width) {
    // The greatest height whose width fits.
    const float epsilon = 0.0000001f;
    highest = static_cast<int64_t>(std::min(
        1e9, (static_cast<double>(width) + 0.5 - static_cast<double>(epsilon)) /
                 static_cast<double>(ratio)));
    if (width_of(highest) > width) --highest;
  }
  highest = std::min(highest, height);
  h = std::min(h, highest);
  if (h < highest) h += draws->Below(highest - h + 1);
  int64_t w = width_of(h);
  // Rounding may have left the range by a little.
  auto area = static_cast<float>(w * h);
  if (area < least_area) {
    w = width_of(++h);
    area = static_cast<float>(w * h);
  }
  if (area > most_area) {
    w = width_of(--h);
    area = static_cast<float>(w * h);
  }
  if (area < least_area || area > most_area || w > width || h > height ||
      w <= 0 || h <= 0)
    return false;
  out->top = h < height ? draws->Below(height - h) : 0;
  out->left = w < width ? draws->Below(width - w) : 0;
  out->bottom = out->top + h;
  out->right = out->left + w;
  return true;
}

// True if the crop has the given part of one of the objects.
bool Covers(const PixelBox& crop, float part,
            const std::vector<PixelBox>& objects) {
  return crop.area() >= 1 &&
         std::any_of(objects.begin(), objects.end(), [&](const PixelBox& o) {
           return o.area() >= 1 &&
                  crop.Intersection(o).area() / o.area() >= part;
         });
}

// ---- Kernel -----------------------------------------------------------------

struct Interval {
  float least = 0, most = 0;
};

Result<Interval> ReadInterval(const Node& n, const char* name, float limit) {
  const auto v = n.AttrOr<AttrValue::Floats>(name, AttrValue::Floats{});
  if (v.size() != 2)
    return InvalidArgument(name, ": expected two numbers, got ", v.size());
  for (const float x : v)
    if (!(x > 0 && x <= limit))
      return InvalidArgument(name, ": expected numbers above 0 and at most ",
                             limit, ", got ", x);
  return Interval{v[0], v[1]};
}

// Shared by all steps; the generator is thread-safe.
template <typename T>
class DistortedBox : public random::SeededKernel {
 public:
  explicit DistortedBox(const Node& n)
      : SeededKernel(n),
        attempts_(n.IntAttr("max_attempts")),
        use_image_(n.BoolAttr("use_image_if_no_bounding_boxes")) {}
  static Result<std::shared_ptr<DistortedBox>> Make(const Node& n) {
    auto k = std::make_shared<DistortedBox>(n);
    SLUICE_ASSIGN_OR_RETURN(k->ratio_,
                            ReadInterval(n, "aspect_ratio_range",
                                         std::numeric_limits<float>::max()));
    SLUICE_ASSIGN_OR_RETURN(k->area_, ReadInterval(n, "area_range", 1));
    // (More would take minutes.)
    constexpr int64_t kMostAttempts = 1 << 30;
    if (k->attempts_ < 1 || k->attempts_ > kMostAttempts)
      return InvalidArgument("max_attempts: expected 1 to 2^30, got ",
                             k->attempts_);
    return k;
  }

  Status Run(KernelContext& ctx) {
    const Tensor& size = ctx.input(0);
    if (size.rank() != 1 || size.dim(0) != 3)
      return InvalidArgument(
          "image_size: expected [height, width, channels], got shape ",
          size.shape().ToString());
    const auto height = static_cast<int64_t>(size.raw<T>()[0]);
    const auto width = static_cast<int64_t>(size.raw<T>()[1]);
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (height < 0 || height >= kMost || width < 0 || width >= kMost)
      return InvalidArgument(
          "image_size: expected a height and width from 0 to 2^31 - 2, got ",
          height, " and ", width);
    SLUICE_ASSIGN_OR_RETURN(const std::vector<PixelBox> objects,
                            Objects(ctx, height, width));
    const Tensor& covered = ctx.input(2);
    if (covered.rank() != 0 || !(covered.raw_scalar<float>() >= 0))
      return InvalidArgument(
          "min_object_covered: expected a scalar of 0 or more, got ",
          covered.ToString());
    const PixelBox image{0, 0, width, height};
    PixelBox crop = image;
    BoxDraws draws(generator().ReserveWords(4 * attempts_));
    for (int64_t i = 0; i < attempts_; ++i) {
      if (i % 1024 == 1023 && ctx.cancelled())
        return Cancelled("the step was cancelled");
      const float ratio =
          draws.Fraction() * (ratio_.most - ratio_.least) + ratio_.least;
      PixelBox drawn;
      if (DrawCrop(width, height, area_.least, area_.most, ratio, &draws,
                   &drawn) &&
          Covers(drawn, covered.raw_scalar<float>(), objects)) {
        crop = drawn;
        break;
      }
    }
    return SetOutputs(ctx, crop, height, width);
  }

 private:
  Result<std::vector<PixelBox>> Objects(const KernelContext& ctx,
                                        int64_t height, int64_t width) const {
    const Tensor& boxes = ctx.input(1);
    if (boxes.rank() != 3 || boxes.dim(2) != 4)
      return InvalidArgument(
          "bounding_boxes: expected [batch, boxes, 4], got "
          "shape ",
          boxes.shape().ToString());
    std::vector<PixelBox> objects;
    const float* v = boxes.raw<float>();
    for (int64_t i = 0; i < boxes.num_elements(); i += 4) {
      for (int64_t k = i; k < i + 4; ++k)
        if (!(v[k] >= 0 && v[k] <= 1))
          return InvalidArgument(
              "bounding_boxes: expected numbers in [0, 1], got ", v[k]);
      const auto at = [](float part, int64_t side) {
        return static_cast<int64_t>(part * static_cast<float>(side));
      };
      objects.push_back({at(v[i + 1], width), at(v[i], height),
                         at(v[i + 3], width), at(v[i + 2], height)});
    }
    if (objects.empty()) {
      if (!use_image_)
        return InvalidArgument(
            "bounding_boxes: expected at least one box where "
            "use_image_if_no_bounding_boxes is false, got none");
      objects.push_back({0, 0, width, height});
    }
    return objects;
  }

  static Status SetOutputs(KernelContext& ctx, const PixelBox& crop,
                           int64_t height, int64_t width) {
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), Shape({3})));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, DTypeOf<T>(), Shape({3})));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(2, DType::kFloat, Shape({1, 1, 4})));
    const int64_t begin[] = {crop.top, crop.left, 0};
    // (All channels: -1, as Slice takes it.)
    const int64_t sizes[] = {crop.bottom - crop.top, crop.right - crop.left,
                             -1};
    for (int k = 0; k < 3; ++k) {
      ctx.output(0).template raw<T>()[k] = static_cast<T>(begin[k]);
      ctx.output(1).template raw<T>()[k] = static_cast<T>(sizes[k]);
    }
    float* box = ctx.output(2).raw<float>();
    const auto part = [](int64_t at, int64_t side) {
      return static_cast<float>(at) / static_cast<float>(side);
    };
    box[0] = part(crop.top, height);
    box[1] = part(crop.left, width);
    box[2] = part(crop.bottom, height);
    box[3] = part(crop.right, width);
    return OkStatus();
  }

  const int64_t attempts_;
  const bool use_image_;
  Interval ratio_, area_;
};

Status DistortedShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape size, c.WithRank(0, 1));
  SLUICE_RETURN_IF_ERROR(MergeDim(size.dim(0), 3).status());
  SLUICE_ASSIGN_OR_RETURN(const PartialShape boxes, c.WithRank(1, 3));
  SLUICE_RETURN_IF_ERROR(MergeDim(boxes.dim(2), 4).status());
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(2));
  c.set_output(0, {3});
  c.set_output(1, {3});
  c.set_output(2, {1, 1, 4});
  return OkStatus();
}

SLUICE_OP(SampleDistortedBoundingBoxV2)
    .Input("image_size: T")
    .Input("bounding_boxes: float")
    .Input("min_object_covered: float")
    .Output("begin: T")
    .Output("size: T")
    .Output("bboxes: float")
    .Attr("T: {uint8, int8, int16, int32, int64}")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("aspect_ratio_range: list(float) = [0.75, 1.33]")
    .Attr("area_range: list(float) = [0.05, 1]")
    .Attr("max_attempts: int = 100")
    .Attr("use_image_if_no_bounding_boxes: bool = false")
    .Stateful(kOwnsState)
    .Family("image")
    .Shape(DistortedShape)
    .Kernel(CpuStateFor<DistortedBox, uint8_t, int8_t, int16_t, int32_t,
                        int64_t>("T"))
    .NoGradient(random::kNoGradient)
    .Sample({{.shape = {3}, .values = {40, 30, 3}},
             {.shape = {1, 2, 4},
              .values = {0.1, 0.2, 0.6, 0.7, 0.3, 0, 0.9, 0.5}},
             {.shape = {}, .values = {0.4}}},
            {{"seed", 3}, {"seed2", 5}})
    .Doc("Draws a crop that has min_object_covered of one of the boxes.");

}  // namespace
}  // namespace sluice
