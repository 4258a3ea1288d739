// Crops of images, each resized to one size, and their gradients.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "graph/op_def.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/image/resize.h"

namespace sluice {
namespace {

// ---- Boxes ------------------------------------------------------------------

// The rows (or columns) of an image that the rows of a crop read.
struct CropAxis {
  float start, step;  // Of the first one, and between two.
  int64_t crop, size;

  // `from` and `to`: the ends of the box, in units of size - 1.
  CropAxis(float from, float to, int64_t crop_size, int64_t image_size)
      : crop(crop_size), size(image_size) {
    const auto last = static_cast<float>(size - 1);
    if (crop > 1) {
      start = from * last;
      step = (to - from) * last / static_cast<float>(crop - 1);
    } else {
      start = static_cast<float>(0.5 * static_cast<double>(from + to) *
                                 static_cast<double>(size - 1));
      step = 0;
    }
  }
  float at(int64_t i) const {
    return crop > 1 ? start + static_cast<float>(i) * step : start;
  }
  // (False for NaN.)
  bool contains(float v) const {
    return v >= 0 && v <= static_cast<float>(size - 1);
  }
};

Status CheckCropBoxes(const Tensor& boxes, const Tensor& index,
                      int64_t images) {
  if (boxes.rank() != 2 || boxes.dim(1) != 4)
    return InvalidArgument("boxes: expected [boxes, 4], got shape ",
                           boxes.shape().ToString());
  if (index.rank() != 1 || index.dim(0) != boxes.dim(0))
    return InvalidArgument("box_ind: expected one image for each of ",
                           boxes.dim(0), " boxes, got shape ",
                           index.shape().ToString());
  for (const int32_t i : index.raw_flat<int32_t>())
    if (i < 0 || i >= images)
      return OutOfRange("box_ind: expected values in [0, ", images,
                        "), the images of the batch, got ", i);
  return OkStatus();
}

Status CheckCropImage(const Tensor& t, const char* name) {
  if (t.rank() != 4 || t.dim(1) < 1 || t.dim(2) < 1)
    return InvalidArgument(name,
                           ": expected [batch, height, width, depth] with at "
                           "least one pixel, got shape ",
                           t.shape().ToString());
  return OkStatus();
}

// Four pixels around a position, and its place between them.
struct Corners {
  int64_t top, bottom, left, right;
  float y, x;

  Corners(float in_y, float in_x)
      : top(static_cast<int64_t>(std::floor(in_y))),
        bottom(static_cast<int64_t>(std::ceil(in_y))),
        left(static_cast<int64_t>(std::floor(in_x))),
        right(static_cast<int64_t>(std::ceil(in_x))),
        y(in_y - std::floor(in_y)),
        x(in_x - std::floor(in_x)) {}
};

int64_t NearestOf(float v) { return static_cast<int64_t>(std::round(v)); }

// ---- Kernels ----------------------------------------------------------------

// Immutable.
template <typename T>
class CropAndResize {
 public:
  explicit CropAndResize(const Node& n)
      : nearest_(n.AttrOr<std::string>("method", "") == "nearest"),
        outside_(n.AttrOr<float>("extrapolation_value", 0)) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& image = ctx.input(0);
    const Tensor& boxes = ctx.input(1);
    SLUICE_RETURN_IF_ERROR(CheckCropImage(image, "image"));
    SLUICE_RETURN_IF_ERROR(CheckCropBoxes(boxes, ctx.input(2), image.dim(0)));
    for (const float v : boxes.raw_flat<float>())
      if (!std::isfinite(v))
        return InvalidArgument("boxes: expected finite numbers, got ", v);
    int64_t height, width;
    SLUICE_RETURN_IF_ERROR(
        resize::ReadPair(ctx.input(3), "crop_size", &height, &width));
    const int64_t depth = image.dim(3), rows = image.dim(1),
                  columns = image.dim(2);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(
        0, DType::kFloat, Shape({boxes.dim(0), height, width, depth})));
    if (ctx.output(0).num_elements() == 0) return OkStatus();
    float* const out = ctx.output(0).raw<float>();
    const int64_t crop_row = width * depth;
    ParallelFor(
        boxes.dim(0) * height, 4096 / crop_row + 1,
        [&](int64_t begin, int64_t end) {
          for (int64_t o = begin; o < end; ++o) {
            const float* box = boxes.raw<float>() + o / height * 4;
            const CropAxis y(box[0], box[2], height, rows);
            const CropAxis x(box[1], box[3], width, columns);
            const T* from =
                image.raw<T>() + ctx.input(2).raw<int32_t>()[o / height] *
                                     rows * columns * depth;
            Row(from, y.at(o % height), y, x, depth, out + o * crop_row);
          }
        });
    return OkStatus();
  }

 private:
  void Row(const T* from, float in_y, const CropAxis& y, const CropAxis& x,
           int64_t depth, float* to) const {
    const int64_t row = x.size * depth;
    if (!y.contains(in_y)) {
      std::fill_n(to, x.crop * depth, outside_);
      return;
    }
    for (int64_t i = 0; i < x.crop; ++i, to += depth) {
      const float in_x = x.at(i);
      if (!x.contains(in_x)) {
        std::fill_n(to, depth, outside_);
      } else if (nearest_) {
        const T* pixel = from + NearestOf(in_y) * row + NearestOf(in_x) * depth;
        for (int64_t d = 0; d < depth; ++d)
          to[d] = static_cast<float>(pixel[d]);
      } else {
        const Corners c(in_y, in_x);
        const T* top = from + c.top * row;
        const T* bottom = from + c.bottom * row;
        for (int64_t d = 0; d < depth; ++d) {
          const auto tl = static_cast<float>(top[c.left * depth + d]);
          const auto tr = static_cast<float>(top[c.right * depth + d]);
          const auto bl = static_cast<float>(bottom[c.left * depth + d]);
          const auto br = static_cast<float>(bottom[c.right * depth + d]);
          const float above = tl + (tr - tl) * c.x;
          const float below = bl + (br - bl) * c.x;
          to[d] = above + (below - above) * c.y;
        }
      }
    }
  }

  const bool nearest_;
  const float outside_;
};

Status CheckCropGrads(const Tensor& grads, const Tensor& boxes) {
  SLUICE_RETURN_IF_ERROR(CheckCropImage(grads, "grads"));
  if (grads.dim(0) != boxes.dim(0))
    return InvalidArgument("grads: expected one crop for each of ",
                           boxes.dim(0), " boxes, got shape ",
                           grads.shape().ToString());
  return OkStatus();
}

// Immutable.
template <typename T>
class CropAndResizeGradImage {
 public:
  explicit CropAndResizeGradImage(const Node& n)
      : nearest_(n.AttrOr<std::string>("method", "") == "nearest") {}

  Status Run(KernelContext& ctx) const {
    const Tensor& grads = ctx.input(0);
    const Tensor& boxes = ctx.input(1);
    const Tensor& size = ctx.input(3);
    if (size.rank() != 1 || size.dim(0) != 4)
      return InvalidArgument(
          "image_size: expected [batch, height, width, depth], got shape ",
          size.shape().ToString());
    const auto dims = size.raw_flat<int32_t>();
    if (dims[0] < 0 || dims[1] < 1 || dims[2] < 1 || dims[3] < 0)
      return InvalidArgument(
          "image_size: expected [batch, height, width, depth] with at least "
          "one pixel, got ",
          size.ToString());
    SLUICE_RETURN_IF_ERROR(CheckCropBoxes(boxes, ctx.input(2), dims[0]));
    SLUICE_RETURN_IF_ERROR(CheckCropGrads(grads, boxes));
    const int64_t rows = dims[1], columns = dims[2], depth = dims[3];
    if (grads.dim(3) != depth)
      return InvalidArgument("grads: expected depth ", depth,
                             ", as in image_size, got shape ",
                             grads.shape().ToString());
    const Shape shape({int64_t{dims[0]}, rows, columns, depth});
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), shape));
    // 16-bit floats are summed in float.
    using S = ComputeType<T>;
    Tensor sum = ctx.output(0);
    if (DTypeOf<S>() != DTypeOf<T>()) {
      SLUICE_ASSIGN_OR_RETURN(sum, ctx.AllocateTemp(DTypeOf<S>(), shape));
    }
    S* const out = sum.raw<S>();
    std::fill_n(out, shape.num_elements(), S{});
    const int32_t* image_of = ctx.input(2).raw<int32_t>();
    // By image, so that no two threads add to the same element.
    ParallelFor(dims[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = 0; b < boxes.dim(0); ++b)
        if (image_of[b] >= begin && image_of[b] < end)
          AddCrop(grads, b, boxes.raw<float>() + 4 * b, rows, columns,
                  out + image_of[b] * rows * columns * depth);
    });
    if constexpr (!std::is_same_v<S, T>)
      std::transform(out, out + shape.num_elements(),
                     ctx.output(0).template raw<T>(),
                     [](S v) { return static_cast<T>(v); });
    return OkStatus();
  }

 private:
  template <typename S>
  void AddCrop(const Tensor& grads, int64_t b, const float* box, int64_t rows,
               int64_t columns, S* to) const {
    const int64_t height = grads.dim(1), width = grads.dim(2),
                  depth = grads.dim(3), row = columns * depth;
    const CropAxis y(box[0], box[2], height, rows);
    const CropAxis x(box[1], box[3], width, columns);
    for (int64_t i = 0; i < height; ++i) {
      const float in_y = y.at(i);
      if (!y.contains(in_y)) continue;
      for (int64_t j = 0; j < width; ++j) {
        const float in_x = x.at(j);
        if (!x.contains(in_x)) continue;
        const float* g =
            grads.raw<float>() + ((b * height + i) * width + j) * depth;
        if (nearest_) {
          S* pixel = to + NearestOf(in_y) * row + NearestOf(in_x) * depth;
          for (int64_t d = 0; d < depth; ++d) pixel[d] += g[d];
          continue;
        }
        const Corners c(in_y, in_x);
        S* top = to + c.top * row;
        S* bottom = to + c.bottom * row;
        for (int64_t d = 0; d < depth; ++d) {
          const float above = (1 - c.y) * g[d], below = c.y * g[d];
          top[c.left * depth + d] += (1 - c.x) * above;
          top[c.right * depth + d] += c.x * above;
          bottom[c.left * depth + d] += (1 - c.x) * below;
          bottom[c.right * depth + d] += c.x * below;
        }
      }
    }
  }

  const bool nearest_;
};

template <typename T>
struct CropAndResizeGradBoxes {
  static Status Run(KernelContext& ctx) {
    const Tensor& grads = ctx.input(0);
    const Tensor& image = ctx.input(1);
    const Tensor& boxes = ctx.input(2);
    SLUICE_RETURN_IF_ERROR(CheckCropImage(image, "image"));
    SLUICE_RETURN_IF_ERROR(CheckCropBoxes(boxes, ctx.input(3), image.dim(0)));
    SLUICE_RETURN_IF_ERROR(CheckCropGrads(grads, boxes));
    if (grads.dim(3) != image.dim(3))
      return InvalidArgument("grads: expected depth ", image.dim(3),
                             ", as in image, got shape ",
                             grads.shape().ToString());
    SLUICE_RETURN_IF_ERROR(
        ctx.Allocate(0, DType::kFloat, Shape({boxes.dim(0), 4})));
    float* const out = ctx.output(0).raw<float>();
    const int64_t pixels = image.dim(1) * image.dim(2) * image.dim(3);
    ParallelFor(boxes.dim(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b)
        OfBox(grads, b,
              image.raw<T>() + ctx.input(3).raw<int32_t>()[b] * pixels,
              image.dim(1), image.dim(2), boxes.raw<float>() + 4 * b,
              out + 4 * b);
    });
    return OkStatus();
  }

  static void OfBox(const Tensor& grads, int64_t b, const T* image,
                    int64_t rows, int64_t columns, const float* box,
                    float* out) {
    const int64_t height = grads.dim(1), width = grads.dim(2),
                  depth = grads.dim(3), row = columns * depth;
    const CropAxis y(box[0], box[2], height, rows);
    const CropAxis x(box[1], box[3], width, columns);
    double sum[4] = {};
    for (int64_t i = 0; i < height; ++i) {
      const float in_y = y.at(i);
      if (!y.contains(in_y)) continue;
      for (int64_t j = 0; j < width; ++j) {
        const float in_x = x.at(j);
        if (!x.contains(in_x)) continue;
        const Corners c(in_y, in_x);
        const T* top = image + c.top * row;
        const T* bottom = image + c.bottom * row;
        const float* g =
            grads.raw<float>() + ((b * height + i) * width + j) * depth;
        // The derivatives by the position.
        double by_y = 0, by_x = 0;
        for (int64_t d = 0; d < depth; ++d) {
          const auto tl = static_cast<float>(top[c.left * depth + d]);
          const auto tr = static_cast<float>(top[c.right * depth + d]);
          const auto bl = static_cast<float>(bottom[c.left * depth + d]);
          const auto br = static_cast<float>(bottom[c.right * depth + d]);
          by_y += g[d] * ((1 - c.x) * (bl - tl) + c.x * (br - tr));
          by_x += g[d] * ((1 - c.y) * (tr - tl) + c.y * (br - bl));
        }
        // How far along the box the position is.
        const double along_y = height > 1 ? static_cast<double>(i) /
                                                static_cast<double>(height - 1)
                                          : 0.5;
        const double along_x =
            width > 1 ? static_cast<double>(j) / static_cast<double>(width - 1)
                      : 0.5;
        by_y *= static_cast<double>(rows - 1);
        by_x *= static_cast<double>(columns - 1);
        sum[0] += by_y * (1 - along_y);
        sum[1] += by_x * (1 - along_x);
        sum[2] += by_y * along_y;
        sum[3] += by_x * along_x;
      }
    }
    for (int k = 0; k < 4; ++k) out[k] = static_cast<float>(sum[k]);
  }
};

// ---- Shapes, gradients, declarations ----------------------------------------

Status CropShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape image, c.WithRank(0, 4));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape boxes, c.WithRank(1, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape index, c.WithRank(2, 1));
  SLUICE_ASSIGN_OR_RETURN(const int64_t n,
                          MergeDim(boxes.dim(0), index.dim(0)));
  SLUICE_RETURN_IF_ERROR(MergeDim(boxes.dim(1), 4).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(3, 1).status());
  SLUICE_ASSIGN_OR_RETURN(PartialShape size, c.InputAsShape(3));
  SLUICE_ASSIGN_OR_RETURN(size, size.MergeWith(PartialShape::OfRank(2)));
  c.set_output(0, {n, size.dim(0), size.dim(1), image.dim(3)});
  return OkStatus();
}

Status CropGradImageShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(3, 1).status());
  SLUICE_ASSIGN_OR_RETURN(PartialShape size, c.InputAsShape(3));
  SLUICE_ASSIGN_OR_RETURN(size, size.MergeWith(PartialShape::OfRank(4)));
  c.set_output(0, std::move(size));
  return OkStatus();
}

Status CropGradBoxesShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape boxes, c.WithRank(2, 2));
  SLUICE_RETURN_IF_ERROR(MergeDim(boxes.dim(1), 4).status());
  boxes.set_dim(1, 4);
  c.set_output(0, std::move(boxes));
  return OkStatus();
}

Status CropAndResizeGradient(GradContext& c) {
  const DType t = grad::TypeOf(c.input(0));
  if (t == DType::kHalf || t == DType::kFloat || t == DType::kDouble)
    c.grads[0] =
        Build("CropAndResizeGradImage",
              {c.dy[0], c.input(1), c.input(2), grad::ShapeOf(c.input(0))},
              {{"T", t},
               {"method", c.op->AttrOr<std::string>("method", "bilinear")}});
  // (Of the nearest pixel too, as an approximation, like TensorFlow.)
  c.grads[1] = Build("CropAndResizeGradBoxes",
                     {c.dy[0], c.input(0), c.input(1), c.input(2)});
  return OkStatus();
}

constexpr char kCropTypes[] =
    "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}";

SLUICE_OP(CropAndResize)
    .Input("image: T")
    .Input("boxes: float")
    .Input("box_ind: int32")
    .Input("crop_size: int32")
    .Output("crops: float")
    .Attr(kCropTypes)
    .Attr("method: {'bilinear', 'nearest'} = 'bilinear'")
    .Attr("extrapolation_value: float = 0")
    .Family("image")
    .HostInput("crop_size")
    .Shape(CropShape)
    .Kernel(
        CpuStateFor<CropAndResize, uint8_t, uint16_t, int8_t, int16_t, int32_t,
                    int64_t, half, float, double>("T", /*expensive=*/true))
    .Grad(CropAndResizeGradient)
    .Sample({{.shape = {2, 4, 5, 2}, .dtype = DType::kFloat},
             {.shape = {2, 4},
              .values = {0.12, 0.17, 0.83, 0.71, 0.4, -0.55, 1.3, 0.45}},
             {.shape = {2}, .values = {1, 0}},
             {.shape = {2}, .values = {3, 2}}})
    .Sample({{.shape = {1, 4, 5, 2}},
             {.shape = {1, 4}, .values = {0.12, 0.17, 0.83, 0.71}},
             {.shape = {1}, .values = {0}},
             {.shape = {2}, .values = {1, 4}}})
    .Doc("Cuts boxes out of images and resizes each to crop_size.");

SLUICE_OP(CropAndResizeGradImage)
    .Input("grads: float")
    .Input("boxes: float")
    .Input("box_ind: int32")
    .Input("image_size: int32")
    .Output("output: T")
    .Attr("T: {float, half, double}")
    .Attr("method: {'bilinear', 'nearest'} = 'bilinear'")
    .Family("image")
    .HostInput("image_size")
    .Shape(CropGradImageShape)
    .Kernel(CpuStateFor<CropAndResizeGradImage, float, half, double>(
        "T", /*expensive=*/true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {2, 3, 2, 2}},
             {.shape = {2, 4},
              .values = {0.12, 0.17, 0.83, 0.71, 0.4, -0.55, 1.3, 0.45}},
             {.shape = {2}, .values = {1, 0}},
             {.shape = {4}, .values = {2, 4, 5, 2}}},
            {{"T", DType::kFloat}})
    .Doc("The gradient of CropAndResize by its images.");

SLUICE_OP(CropAndResizeGradBoxes)
    .Input("grads: float")
    .Input("image: T")
    .Input("boxes: float")
    .Input("box_ind: int32")
    .Output("output: float")
    .Attr(kCropTypes)
    .Attr("method: {'bilinear'} = 'bilinear'")
    .Family("image")
    .Shape(CropGradBoxesShape)
    .Kernel(CpuFor<CropAndResizeGradBoxes, uint8_t, uint16_t, int8_t, int16_t,
                   int32_t, int64_t, half, float, double>("T",
                                                          /*expensive=*/true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {2, 3, 2, 2}},
             {.shape = {2, 4, 5, 2}},
             {.shape = {2, 4},
              .values = {0.12, 0.17, 0.83, 0.71, 0.4, -0.55, 1.3, 0.45}},
             {.shape = {2}, .values = {1, 0}}})
    .Doc("The gradient of CropAndResize by its boxes.");

}  // namespace
}  // namespace sluice
