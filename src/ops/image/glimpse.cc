// Windows of images at given positions.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_def.h"
#include "kernels/random/fill.h"
#include "ops/image/float_index.h"
#include "ops/image/resize.h"

namespace sluice {
namespace {

enum class Noise { kZero, kUniform, kGaussian };

Result<Noise> ReadNoise(const Node& n) {
  const bool uniform = n.BoolAttr("uniform_noise");
  const auto noise = n.AttrOr<std::string>("noise", "");
  if (uniform && !noise.empty() && noise != "uniform")
    return InvalidArgument(
        "noise: expected '' or 'uniform' where uniform_noise is true, got '",
        noise, "'");
  if (noise.empty()) return uniform ? Noise::kUniform : Noise::kGaussian;
  if (noise == "uniform") return Noise::kUniform;
  if (noise == "gaussian") return Noise::kGaussian;
  if (noise == "zero") return Noise::kZero;
  return InvalidArgument("noise: expected uniform, gaussian or zero, got '",
                         noise, "'");
}

// One image of a batch.
struct GlimpseImage {
  const float* data;
  int64_t height, width, channels;
  int64_t pixels() const { return height * width; }
};

// Shared by all steps; the generator is thread-safe. Noise differs from run to
// run, as in TensorFlow, which has no seeds for it.
class Glimpse {
 public:
  Glimpse() : generator_(0, 0) {}
  static Result<std::shared_ptr<Glimpse>> Make(const Node& n) {
    auto k = std::make_shared<Glimpse>();
    k->centered_ = n.BoolAttr("centered");
    k->normalized_ = n.BoolAttr("normalized");
    SLUICE_ASSIGN_OR_RETURN(k->noise_, ReadNoise(n));
    return k;
  }

  Status Run(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    const Tensor& size = ctx.input(1);
    const Tensor& offsets = ctx.input(2);
    if (in.rank() != 4)
      return InvalidArgument(
          "input: expected [batch, height, width, channels], got shape ",
          in.shape().ToString());
    if (size.rank() != 1 || size.dim(0) != 2)
      return InvalidArgument("size: expected [height, width], got shape ",
                             size.shape().ToString());
    if (offsets.rank() != 2 || offsets.dim(0) != in.dim(0) ||
        offsets.dim(1) != 2)
      return InvalidArgument("offsets: expected [", in.dim(0),
                             ", 2], a y and an x for each image, got shape ",
                             offsets.shape().ToString());
    const int64_t height = size.raw<int32_t>()[0];
    const int64_t width = size.raw<int32_t>()[1];
    if (height < 0 || width < 0)
      return InvalidArgument(
          "size: expected a height and width of 0 or more, got ", height,
          " and ", width);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(
        0, DType::kFloat, Shape({in.dim(0), height, width, in.dim(3)})));
    if (ctx.output(0).num_elements() == 0) return OkStatus();
    if (in.num_elements() == 0)
      return InvalidArgument("input: expected at least one pixel, got shape ",
                             in.shape().ToString());
    for (int64_t b = 0; b < in.dim(0); ++b) {
      const GlimpseImage image{
          in.raw<float>() + b * in.num_elements() / in.dim(0), in.dim(1),
          in.dim(2), in.dim(3)};
      const float* at = offsets.raw<float>() + 2 * b;
      Copy(image, Start(at[0], image.height, height),
           Start(at[1], image.width, width), height, width,
           ctx.output(0).raw<float>() + b * height * width * in.dim(3));
    }
    return OkStatus();
  }

 private:
  // The first row or column.
  int64_t Start(float at, int64_t size, int64_t window) const {
    const auto length = static_cast<float>(size);
    if (normalized_) at *= length;
    // (The half is TensorFlow's also where the position is in pixels.)
    if (centered_) at = at / 2.0f + length / 2.0f;
    at -= static_cast<float>(window) / 2.0f;
    return IndexOfFloat(at);
  }

  void Copy(const GlimpseImage& image, int64_t top, int64_t left,
            int64_t height, int64_t width, float* out) {
    const int64_t c = image.channels;
    if (top < 0 || left < 0 || top + height > image.height ||
        left + width > image.width)
      Surround(image, height * width, out);
    const int64_t first = std::max(int64_t{0}, -left);
    const int64_t end = std::min(width, image.width - left);
    for (int64_t y = std::max(int64_t{0}, -top);
         y < std::min(height, image.height - top); ++y)
      if (first < end)
        std::copy_n(image.data + ((top + y) * image.width + left + first) * c,
                    (end - first) * c, out + (y * width + first) * c);
  }

  // Fills a glimpse that reaches out of the image.
  void Surround(const GlimpseImage& image, int64_t pixels, float* out) {
    const int64_t c = image.channels, n = pixels * c;
    switch (noise_) {
      case Noise::kZero:
        std::fill_n(out, n, 0.0f);
        return;
      case Noise::kUniform: {
        const auto [least, most] =
            std::minmax_element(image.data, image.data + image.pixels() * c);
        random::FillUniform(generator_.ReserveOutputs(n), out, n);
        for (int64_t i = 0; i < n; ++i)
          out[i] = *least + out[i] * (*most - *least);
        return;
      }
      case Noise::kGaussian:
        random::FillNormal(generator_.ReserveOutputs(n), out, n);
        for (int64_t i = 0; i < c; ++i) ShapeChannel(image, i, pixels, out);
        return;
    }
  }

  // Gives normal noise the mean, deviation and range of the image's channel.
  static void ShapeChannel(const GlimpseImage& image, int64_t channel,
                           int64_t pixels, float* out) {
    const int64_t c = image.channels;
    double sum = 0, squares = 0;
    float least = image.data[channel], most = least;
    for (int64_t p = 0; p < image.pixels(); ++p) {
      const float v = image.data[p * c + channel];
      sum += v;
      least = std::min(least, v);
      most = std::max(most, v);
    }
    const double mean = sum / static_cast<double>(image.pixels());
    for (int64_t p = 0; p < image.pixels(); ++p) {
      const double d = image.data[p * c + channel] - mean;
      squares += d * d;
    }
    const double deviation =
        std::sqrt(squares / static_cast<double>(image.pixels()));
    for (int64_t p = 0; p < pixels; ++p) {
      float& v = out[p * c + channel];
      v = std::max(least,
                   std::min(most, static_cast<float>(mean + v * deviation)));
    }
  }

  bool centered_ = true, normalized_ = true;
  Noise noise_ = Noise::kUniform;
  random::GuardedPhilox generator_;
};

Status GlimpseShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.WithRank(0, 4));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape offsets, c.WithRank(2, 2));
  SLUICE_ASSIGN_OR_RETURN(const int64_t batch,
                          MergeDim(out.dim(0), offsets.dim(0)));
  SLUICE_RETURN_IF_ERROR(MergeDim(offsets.dim(1), 2).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  SLUICE_ASSIGN_OR_RETURN(PartialShape size, c.InputAsShape(1));
  SLUICE_ASSIGN_OR_RETURN(size, size.MergeWith(PartialShape::OfRank(2)));
  out.set_dim(0, batch);
  out.set_dim(1, size.dim(0));
  out.set_dim(2, size.dim(1));
  c.set_output(0, std::move(out));
  return OkStatus();
}

SLUICE_OP(ExtractGlimpse)
    .Input("input: float")
    .Input("size: int32")
    .Input("offsets: float")
    .Output("glimpse: float")
    .Attr("centered: bool = true")
    .Attr("normalized: bool = true")
    .Attr("uniform_noise: bool = true")
    .Attr("noise: string = 'uniform'")
    .Family("image")
    .HostInput("size")
    .Shape(GlimpseShape)
    .Kernel(CpuState<Glimpse>(/*expensive=*/true))
    .NoGradient("TensorFlow gives none for a glimpse")
    .Sample({{.shape = {2, 4, 5, 2}},
             {.shape = {2}, .values = {2, 3}},
             {.shape = {2, 2}, .values = {0.1, 0, -0.2, 1.5}}},
            {{"uniform_noise", false}, {"noise", "zero"}})
    .Doc(
        "Cuts a window of one size out of each image, at its own position; "
        "what is outside is noise.");

}  // namespace
}  // namespace sluice
