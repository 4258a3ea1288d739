#include "ops/image/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/simd/cast.h"

namespace sluice::resize {
namespace {

constexpr int64_t kMaxSide = std::numeric_limits<int32_t>::max();

Status CheckImages(const Tensor& t, const char* name) {
  if (t.rank() != 4)
    return InvalidArgument(name,
                           ": expected [batch, height, width, channels], got "
                           "shape ",
                           t.shape().ToString());
  for (int i = 1; i < 3; ++i)
    if (t.dim(i) < 1 || t.dim(i) >= kMaxSide)
      return InvalidArgument(
          name, ": expected a height and width from 1 to 2^31 - 2, got shape ",
          t.shape().ToString());
  return OkStatus();
}

// The gradient as double: the sum of products that are floats, as in
// TensorFlow.
void SumGradients(const Tensor& grads, const image::Taps& rows,
                  const image::Taps& columns, Tensor* sum) {
  const int64_t channels = grads.dim(3), width = sum->dim(2);
  std::fill_n(sum->raw<double>(), sum->num_elements(), 0.0);
  const float* g = grads.raw<float>();
  for (int64_t b = 0; b < grads.dim(0); ++b) {
    double* const to_image =
        sum->raw<double>() + b * sum->dim(1) * width * channels;
    for (size_t y = 0; y < static_cast<size_t>(grads.dim(1)); ++y)
      for (size_t x = 0; x < static_cast<size_t>(grads.dim(2)); ++x) {
        for (auto r = static_cast<size_t>(rows.first[y]);
             r < static_cast<size_t>(rows.first[y + 1]); ++r)
          for (auto c = static_cast<size_t>(columns.first[x]);
               c < static_cast<size_t>(columns.first[x + 1]); ++c) {
            double* const to =
                to_image +
                (rows.index[r] * width + columns.index[c]) * channels;
            for (int64_t i = 0; i < channels; ++i)
              to[i] += static_cast<double>(g[i] * rows.weight[r] *
                                           columns.weight[c]);
          }
        g += channels;
      }
  }
}

}  // namespace

Result<Alignment> Alignment::Read(const Node& n) {
  Alignment a;
  a.corners = n.BoolAttr("align_corners");
  a.half_pixel_centers = n.BoolAttr("half_pixel_centers");
  if (a.corners && a.half_pixel_centers)
    return InvalidArgument(
        "half_pixel_centers: expected false where align_corners is true, got "
        "true");
  return a;
}

AttrMap AlignmentOf(const Node& n) {
  return {{"align_corners", n.BoolAttr("align_corners")},
          {"half_pixel_centers", n.BoolAttr("half_pixel_centers")}};
}

float Alignment::Scale(int64_t in, int64_t out) const {
  return corners && out > 1
             ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
             : static_cast<float>(in) / static_cast<float>(out);
}

Status ReadPair(const Tensor& t, const char* name, int64_t* height,
                int64_t* width) {
  if (t.rank() != 1 || t.dim(0) != 2)
    return InvalidArgument(name, ": expected [height, width], got shape ",
                           t.shape().ToString());
  *height = t.raw<int32_t>()[0];
  *width = t.raw<int32_t>()[1];
  if (*height < 1 || *width < 1)
    return InvalidArgument(name, ": expected a positive height and width, got ",
                           *height, " and ", *width);
  return OkStatus();
}

Result<Sizes> ReadSizes(const KernelContext& ctx) {
  const Tensor& images = ctx.input(0);
  SLUICE_RETURN_IF_ERROR(CheckImages(images, "images"));
  if (images.dim(3) < 1)
    return InvalidArgument("images: expected at least one channel, got shape ",
                           images.shape().ToString());
  Sizes s;
  s.in = {images.dim(0), images.dim(1), images.dim(2), images.dim(3)};
  SLUICE_RETURN_IF_ERROR(ReadPair(ctx.input(1), "size", &s.height, &s.width));
  return s;
}

Status ResizeShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.WithRank(0, 4));
  SLUICE_ASSIGN_OR_RETURN(PartialShape size, c.InputAsShape(1));
  SLUICE_ASSIGN_OR_RETURN(size, size.MergeWith(PartialShape::OfRank(2)));
  out.set_dim(1, size.dim(0));
  out.set_dim(2, size.dim(1));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status ResizeGradShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.WithRank(0, 4));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape original, c.WithRank(1, 4));
  out.set_dim(1, original.dim(1));
  out.set_dim(2, original.dim(2));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status RunGradient(KernelContext& ctx, DType t, TapsFn taps) {
  const Tensor& grads = ctx.input(0);
  const Tensor& original = ctx.input(1);
  SLUICE_RETURN_IF_ERROR(CheckImages(grads, "grads"));
  SLUICE_RETURN_IF_ERROR(CheckImages(original, "original_image"));
  const int64_t height = original.dim(1), width = original.dim(2);
  const Shape shape({grads.dim(0), height, width, grads.dim(3)});
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, t, shape));
  if (shape.num_elements() == 0) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const image::Taps rows,
                          taps(0, grads.dim(1), height));
  SLUICE_ASSIGN_OR_RETURN(const image::Taps columns,
                          taps(1, grads.dim(2), width));
  if (t == DType::kDouble) {
    SumGradients(grads, rows, columns, &ctx.output(0));
    return OkStatus();
  }
  Tensor sum = ctx.output(0);
  if (t != DType::kFloat) {
    SLUICE_ASSIGN_OR_RETURN(sum, ctx.AllocateTemp(DType::kFloat, shape));
  }
  image::Resample(DType::kFloat, grads.raw(),
                  {grads.dim(0), grads.dim(1), grads.dim(2), grads.dim(3)},
                  image::Transposed(rows, height),
                  image::Transposed(columns, width), sum.raw<float>());
  if (t != DType::kFloat)
    simd::GetCast(DType::kFloat, t)(sum.raw(), ctx.output(0).raw(),
                                    shape.num_elements());
  return OkStatus();
}

}  // namespace sluice::resize
