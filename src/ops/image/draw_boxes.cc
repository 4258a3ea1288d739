// Boxes drawn on images.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/image/float_index.h"

namespace sluice {
namespace {

// Yellow, blue, red, lime, purple, olive, maroon, navy blue, aqua, fuchsia.
constexpr float kBoxColours[][4] = {
    {1, 1, 0, 1},       {0, 0, 1, 1},       {1, 0, 0, 1},    {0, 1, 0, 1},
    {0.5f, 0, 0.5f, 1}, {0.5f, 0.5f, 0, 1}, {0.5f, 0, 0, 1}, {0, 0, 0.5f, 1},
    {0, 1, 1, 1},       {1, 0, 1, 1}};

template <typename T>
struct DrawBoxes {
  static Status Run(KernelContext& ctx) {
    const Tensor& images = ctx.input(0);
    const Tensor& boxes = ctx.input(1);
    if (images.rank() != 4)
      return InvalidArgument(
          "images: expected [batch, height, width, depth], got shape ",
          images.shape().ToString());
    const int64_t height = images.dim(1), width = images.dim(2),
                  depth = images.dim(3);
    if (depth != 1 && depth != 3 && depth != 4)
      return InvalidArgument(
          "images: expected a depth of 1, 3 or 4, got shape ",
          images.shape().ToString());
    if (boxes.rank() != 3 || boxes.dim(0) != images.dim(0) || boxes.dim(2) != 4)
      return InvalidArgument("boxes: expected [", images.dim(0),
                             ", boxes, 4], got shape ",
                             boxes.shape().ToString());
    std::vector<std::array<T, 4>> colours;
    for (const auto& c : kBoxColours)  // On grey images all boxes are white.
      colours.push_back(
          {depth == 1 ? T(1.0f) : T(c[0]), T(c[1]), T(c[2]), T(c[3])});
    if (ctx.num_inputs() > 2)
      SLUICE_RETURN_IF_ERROR(ReadColours(ctx.input(2), depth, &colours));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), images.shape()));
    T* const out = ctx.output(0).template raw<T>();
    std::copy_n(images.raw<T>(), images.num_elements(), out);
    if (images.num_elements() == 0) return OkStatus();
    for (int64_t b = 0; b < images.dim(0); ++b)
      for (int64_t i = 0; i < boxes.dim(1); ++i)
        Draw(boxes.raw<float>() + (b * boxes.dim(1) + i) * 4, height, width,
             depth, colours[static_cast<size_t>(i) % colours.size()].data(),
             out + b * height * width * depth);
    return OkStatus();
  }

  // Replaces the colours by the rows of `t`, if it has any.
  static Status ReadColours(const Tensor& t, int64_t depth,
                            std::vector<std::array<T, 4>>* colours) {
    if (t.rank() != 2 || t.dim(1) < depth)
      return InvalidArgument("colors: expected [colors, ", depth,
                             " or more], got shape ", t.shape().ToString());
    if (t.dim(0) > 0) colours->clear();
    for (int64_t i = 0; i < t.dim(0); ++i) {
      std::array<T, 4> c = {};
      for (int64_t d = 0; d < depth; ++d)
        c[static_cast<size_t>(d)] = T(t.raw<float>()[i * t.dim(1) + d]);
      colours->push_back(c);
    }
    return OkStatus();
  }

  static void Draw(const float* box, int64_t height, int64_t width,
                   int64_t depth, const T* colour, T* image) {
    if (!std::all_of(box, box + 4, [](float v) { return v == v; })) return;
    const auto at = [](float v, int64_t size) {
      return IndexOfFloat(v * static_cast<float>(size - 1));
    };
    const int64_t top = at(box[0], height), left = at(box[1], width);
    const int64_t bottom = at(box[2], height), right = at(box[3], width);
    if (top > bottom || left > right || top >= height || bottom < 0 ||
        left >= width || right < 0)
      return;
    // The parts within the image.
    const int64_t first_y = std::max(top, int64_t{0});
    const int64_t last_y = std::min(bottom, height - 1);
    const int64_t first_x = std::max(left, int64_t{0});
    const int64_t last_x = std::min(right, width - 1);
    const auto paint = [&](int64_t y, int64_t x) {
      std::copy_n(colour, depth, image + (y * width + x) * depth);
    };
    for (int64_t x = first_x; x <= last_x; ++x) {
      if (top >= 0) paint(top, x);
      if (bottom < height) paint(bottom, x);
    }
    for (int64_t y = first_y; y <= last_y; ++y) {
      if (left >= 0) paint(y, left);
      if (right < width) paint(y, right);
    }
  }
};

Status DrawShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape images, c.WithRank(0, 4));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape boxes, c.WithRank(1, 3));
  SLUICE_ASSIGN_OR_RETURN(const int64_t batch,
                          MergeDim(images.dim(0), boxes.dim(0)));
  SLUICE_RETURN_IF_ERROR(MergeDim(boxes.dim(2), 4).status());
  if (c.num_inputs() > 2) SLUICE_RETURN_IF_ERROR(c.WithRank(2, 2).status());
  images.set_dim(0, batch);
  c.set_output(0, std::move(images));
  return OkStatus();
}

SLUICE_OP(DrawBoundingBoxes)
    .Input("images: T")
    .Input("boxes: float")
    .Output("output: T")
    .Attr("T: {float, half} = DT_FLOAT")
    .Family("image")
    .Shape(DrawShape)
    .Kernel(CpuFor<DrawBoxes, float, half>("T", /*expensive=*/true))
    .NoGradient("TensorFlow gives none for drawn boxes")
    .Sample({{.shape = {2, 5, 6, 3}},
             {.shape = {2, 1, 4},
              .values = {0.1, 0.2, 0.8, 0.7, -0.5, 0.3, 0.6, 1.5}}})
    .Doc("Draws the outlines of boxes on images, in ten colours by turns.");

SLUICE_OP(DrawBoundingBoxesV2)
    .Input("images: T")
    .Input("boxes: float")
    .Input("colors: float")
    .Output("output: T")
    .Attr("T: {float, half} = DT_FLOAT")
    .Family("image")
    .Shape(DrawShape)
    .Kernel(CpuFor<DrawBoxes, float, half>("T", /*expensive=*/true))
    .NoGradient("TensorFlow gives none for drawn boxes")
    .Sample({{.shape = {2, 5, 6, 3}},
             {.shape = {2, 1, 4},
              .values = {0.1, 0.2, 0.8, 0.7, -0.5, 0.3, 0.6, 1.5}},
             {.shape = {2, 3}}})
    .Doc(
        "Draws the outlines of boxes on images, in the colours given by turns; "
        "without any, in those of DrawBoundingBoxes.");

}  // namespace
}  // namespace sluice
