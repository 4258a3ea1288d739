// Encoding of images.
#include <memory>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/image_jpeg.h"
#include "io/image_png.h"

namespace sluice {
namespace {

constexpr char kNoFileGradient[] = "a file is not a number";

// ---- PNG --------------------------------------------------------------------

// Immutable.
class PngEncoder {
 public:
  explicit PngEncoder(const Node& n) : compression_(n.IntAttr("compression")) {}
  static Result<std::shared_ptr<PngEncoder>> Make(const Node& n) {
    auto k = std::make_shared<PngEncoder>(n);
    if (k->compression_ < -1 || k->compression_ > 9)
      return InvalidArgument("compression: expected -1 to 9, got ",
                             k->compression_);
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& images = ctx.input(0);
    const int batch = images.rank() - 3;
    if (batch < 0)
      return InvalidArgument(
          "image: expected [..., height, width, channels], got shape ",
          images.shape().ToString());
    const auto dims = images.shape().dims();
    const Shape each(dims.subspan(static_cast<size_t>(batch)));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(
        0, DType::kString, Shape(dims.first(static_cast<size_t>(batch)))));
    Tensor& out = ctx.output(0);
    for (int64_t i = 0; i < out.num_elements(); ++i) {
      SLUICE_ASSIGN_OR_RETURN(const Tensor image, Part(images, each, i));
      SLUICE_ASSIGN_OR_RETURN(out.raw<std::string>()[i],
                              EncodePng(image, static_cast<int>(compression_)));
    }
    return OkStatus();
  }

 private:
  // Image i of `images`, which shares the buffer.
  static Result<Tensor> Part(const Tensor& images, const Shape& each,
                             int64_t i) {
    const int64_t n =
        images.num_elements() / std::max<int64_t>(1, each.num_elements());
    SLUICE_ASSIGN_OR_RETURN(
        const Tensor all,
        images.Reshaped(Shape({n, each.dim(0), each.dim(1), each.dim(2)})));
    return all.Rows(i, i + 1).Reshaped(each);
  }

  const int64_t compression_;
};

Status PngFileShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRankAtLeast(0, 3));
  if (!in.rank_known()) return OkStatus();
  PartialShape out = PartialShape::OfRank(in.rank() - 3);
  for (int i = 0; i < out.rank(); ++i) out.set_dim(i, in.dim(i));
  c.set_output(0, std::move(out));
  return OkStatus();
}

// ---- JPEG -------------------------------------------------------------------

// REQUIRES: rank 3.
Status CheckJpegChannels(const Tensor& image, const std::string& format) {
  const int64_t channels = image.dim(2);
  if (format == "grayscale" && channels != 1)
    return InvalidArgument(
        "image: expected 1 channel for grayscale, got shape ",
        image.shape().ToString());
  if (format == "rgb" && channels != 3)
    return InvalidArgument("image: expected 3 channels for rgb, got shape ",
                           image.shape().ToString());
  return OkStatus();
}

// Immutable.
class JpegEncoder {
 public:
  static Result<std::shared_ptr<JpegEncoder>> Make(const Node& n) {
    auto k = std::make_shared<JpegEncoder>();
    k->format_ = n.AttrOr<std::string>("format", "");
    JpegEncodeOptions& o = k->options_;
    const auto read = [&](const char* name, int64_t most, int* v) {
      const int64_t value = n.IntAttr(name);
      if (value < 0 || value > most)
        return InvalidArgument(name, ": expected 0 to ", most, ", got ", value);
      *v = static_cast<int>(value);
      return OkStatus();
    };
    SLUICE_RETURN_IF_ERROR(read("quality", 100, &o.quality));
    SLUICE_RETURN_IF_ERROR(read("x_density", 65535, &o.x_density));
    SLUICE_RETURN_IF_ERROR(read("y_density", 65535, &o.y_density));
    o.progressive = n.BoolAttr("progressive");
    o.optimize_size = n.BoolAttr("optimize_size");
    o.chroma_downsampling = n.BoolAttr("chroma_downsampling");
    o.density_per_cm = n.AttrOr<std::string>("density_unit", "in") == "cm";
    o.xmp_metadata = n.AttrOr<std::string>("xmp_metadata", "");
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& image = ctx.input(0);
    if (image.rank() != 3)
      return InvalidArgument(
          "image: expected [height, width, channels], got shape ",
          image.shape().ToString());
    SLUICE_RETURN_IF_ERROR(CheckJpegChannels(image, format_));
    SLUICE_ASSIGN_OR_RETURN(std::string file, EncodeJpeg(image, options_));
    ctx.set_output(0, Tensor::Scalar<std::string>(std::move(file)));
    return OkStatus();
  }

 private:
  std::string format_;
  JpegEncodeOptions options_;
};

Status EncodeWithQuality(KernelContext& ctx) {
  const Tensor& image = ctx.input(0);
  const Tensor& quality = ctx.input(1);
  if (quality.rank() != 0)
    return InvalidArgument("quality: expected a scalar, got shape ",
                           quality.shape().ToString());
  JpegEncodeOptions options;
  options.quality = quality.raw_scalar<int32_t>();
  SLUICE_ASSIGN_OR_RETURN(std::string file, EncodeJpeg(image, options));
  ctx.set_output(0, Tensor::Scalar<std::string>(std::move(file)));
  return OkStatus();
}

Status JpegFileShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, 3).status());
  for (int i = 1; i < c.num_inputs(); ++i)
    SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
  return ScalarShape(c);
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(EncodePng)
    .Input("image: T")
    .Output("contents: string")
    .Attr("compression: int = -1")
    .Attr("T: {uint8, uint16} = DT_UINT8")
    .Family("io")
    .HostOnly()
    .Shape(PngFileShape)
    .Kernel(CpuState<PngEncoder>(/*expensive=*/true))
    .NoGradient(kNoFileGradient)
    .Sample({{.shape = {2, 3, 4, 3}}})
    .Sample({{.shape = {3, 2, 1}}}, {{"compression", 9}})
    .Doc("Encodes images as PNG files.");

SLUICE_OP(EncodeJpeg)
    .Input("image: uint8")
    .Output("contents: string")
    .Attr("format: {'', 'grayscale', 'rgb'} = ''")
    .Attr("quality: int = 95")
    .Attr("progressive: bool = false")
    .Attr("optimize_size: bool = false")
    .Attr("chroma_downsampling: bool = true")
    .Attr("density_unit: {'in', 'cm'} = 'in'")
    .Attr("x_density: int = 300")
    .Attr("y_density: int = 300")
    .Attr("xmp_metadata: string = ''")
    .Family("io")
    .HostOnly()
    .Shape(JpegFileShape)
    .Kernel(CpuState<JpegEncoder>(/*expensive=*/true))
    .NoGradient(kNoFileGradient)
    .Sample({{.shape = {5, 4, 3}}})
    .Sample({{.shape = {5, 4, 1}}},
            {{"format", std::string("grayscale")}, {"progressive", true}})
    .Doc("Encodes an image as a JPEG file.");

SLUICE_OP(EncodeJpegVariableQuality)
    .Input("images: uint8")
    .Input("quality: int32")
    .Output("contents: string")
    .Family("io")
    .HostOnly()
    .Shape(JpegFileShape)
    .Kernel(Cpu(EncodeWithQuality, /*expensive=*/true))
    .NoGradient(kNoFileGradient)
    .Sample({{.shape = {5, 4, 3}}, {.shape = {}, .values = {80}}})
    .Doc("Encodes an image as a JPEG file of the given quality.");

}  // namespace
}  // namespace sluice
