// Decoding of image files.
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/image_bmp.h"
#include "io/image_gif.h"
#include "io/image_jpeg.h"
#include "io/image_png.h"

namespace sluice {
namespace {

constexpr char kNoPixelGradient[] = "a file is not a number";

// What a file is decoded to.
enum class Wanted {
  kStill,      // [height, width, channels], from PNG, JPEG or one GIF frame.
  kWindow,     // The same, from JPEG only.
  kAnimation,  // [frames, height, width, channels], from PNG, JPEG or GIF.
  kBitmap,     // [height, width, channels], from BMP only.
  kAny,        // kAnimation from GIF (kStill without expand_animations), else
               // kStill.
};

// ---- Attributes -------------------------------------------------------------

Status CheckChannels(int64_t channels) {
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4)
    return InvalidArgument("channels: expected 0, 1, 3 or 4, got ", channels);
  return OkStatus();
}

Result<JpegOptions> ReadJpegOptions(const Node& n) {
  JpegOptions o;
  const int64_t ratio = n.IntAttr("ratio");
  if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8)
    return InvalidArgument("ratio: expected 1, 2, 4 or 8, got ", ratio);
  o.ratio = static_cast<int>(ratio);
  o.fancy_upscaling = n.BoolAttr("fancy_upscaling");
  o.recover_truncated = n.BoolAttr("try_recover_truncated");
  o.acceptable_fraction = n.AttrOr<float>("acceptable_fraction", 1);
  const auto method = n.AttrOr<std::string>("dct_method", "");
  if (!method.empty() && method != "INTEGER_FAST" &&
      method != "INTEGER_ACCURATE")
    return InvalidArgument(
        "dct_method: expected '', INTEGER_FAST or INTEGER_ACCURATE, got '",
        method, "'");
  o.fast_dct = method != "INTEGER_ACCURATE";
  return o;
}

// ---- Kernel -----------------------------------------------------------------

// The format by the first bytes.
std::string_view FileFormatOf(std::string_view bytes) {
  const std::string_view format = ImageFormat(bytes);
  return format.empty() && bytes.starts_with("BM") ? "BMP" : format;
}

// `image`, of uint8, as `t`.
Result<Tensor> WithDepth(Tensor image, DType t) {
  if (t == image.dtype()) return image;
  SLUICE_ASSIGN_OR_RETURN(Tensor out, Tensor::Make(t, image.shape()));
  const uint8_t* from = image.raw<uint8_t>();
  for (int64_t i = 0; i < image.num_elements(); ++i)
    if (t == DType::kUint16)
      out.raw<uint16_t>()[i] = static_cast<uint16_t>(from[i] * 256);
    else
      out.raw<float>()[i] = static_cast<float>(from[i]) * (1.0f / 255);
  return out;
}

// Immutable.
template <Wanted kWanted>
class Decoder {
 public:
  static Result<std::shared_ptr<Decoder>> Make(const Node& n) {
    auto k = std::make_shared<Decoder>();
    if (kWanted == Wanted::kAnimation) {
      k->channels_ = 3;
    } else {
      k->channels_ = static_cast<int>(n.IntAttr("channels"));
      SLUICE_RETURN_IF_ERROR(CheckChannels(n.IntAttr("channels")));
    }
    if (n.FindAttr("dtype") != nullptr) k->type_ = n.TypeAttr("dtype");
    if (n.FindAttr("ratio") != nullptr) {
      SLUICE_ASSIGN_OR_RETURN(k->jpeg_, ReadJpegOptions(n));
    } else {
      k->jpeg_.fast_dct = true;
    }
    k->jpeg_.channels = k->channels_;
    k->expand_ =
        kWanted == Wanted::kAny ? n.BoolAttr("expand_animations") : true;
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& contents = ctx.input(0);
    if (contents.rank() != 0)
      return InvalidArgument("contents: expected a scalar, got shape ",
                             contents.shape().ToString());
    const std::string_view bytes = contents.raw_scalar<std::string>();
    SLUICE_ASSIGN_OR_RETURN(Tensor image, Decode(ctx, bytes));
    const Shape& s = image.shape();
    if (kWanted == Wanted::kAnimation && s.rank() == 3) {
      SLUICE_ASSIGN_OR_RETURN(
          image, image.Reshaped(Shape({1, s.dim(0), s.dim(1), s.dim(2)})));
    }
    ctx.set_output(0, std::move(image));
    return OkStatus();
  }

 private:
  Result<Tensor> Decode(const KernelContext& ctx,
                        std::string_view bytes) const {
    const std::string_view format = FileFormatOf(bytes);
    const bool bitmap = format == "BMP";
    if (bitmap || kWanted == Wanted::kBitmap) {
      if (!bitmap || (kWanted != Wanted::kBitmap && kWanted != Wanted::kAny))
        return WrongFormat(bytes);
      if (channels_ == 1)
        return InvalidArgument("channels: expected 0, 3 or 4 for a BMP, got 1");
      SLUICE_ASSIGN_OR_RETURN(Tensor image, DecodeBmp(bytes, channels_));
      return WithDepth(std::move(image), type_);
    }
    if (format == "JPEG") return OfJpeg(ctx, bytes);
    if (kWanted == Wanted::kWindow) return WrongFormat(bytes);
    if (format == "PNG") return OfPng(bytes);
    if (format == "GIF") return OfGif(bytes);
    return WrongFormat(bytes);
  }

  Result<Tensor> OfJpeg(const KernelContext& ctx,
                        std::string_view bytes) const {
    if (channels_ == 4)
      return InvalidArgument("channels: expected 0, 1 or 3 for a JPEG, got 4");
    JpegOptions options = jpeg_;
    if (kWanted == Wanted::kWindow) {
      const Tensor& window = ctx.input(1);
      if (window.rank() != 1 || window.dim(0) != 4)
        return InvalidArgument(
            "crop_window: expected [y, x, height, width], got shape ",
            window.shape().ToString());
      const int32_t* v = window.raw<int32_t>();
      options.window = JpegWindow{v[0], v[1], v[2], v[3]};
    }
    SLUICE_ASSIGN_OR_RETURN(Tensor image, DecodeJpeg(bytes, options));
    return WithDepth(std::move(image), type_);
  }

  Result<Tensor> OfPng(std::string_view bytes) const {
    PngOptions options;
    options.channels = channels_;
    options.deep = type_ != DType::kUint8;
    SLUICE_ASSIGN_OR_RETURN(Tensor image, DecodePng(bytes, options));
    if (type_ != DType::kFloat) return image;
    SLUICE_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Make(DType::kFloat, image.shape()));
    for (int64_t i = 0; i < image.num_elements(); ++i)
      out.raw<float>()[i] =
          static_cast<float>(image.raw<uint16_t>()[i]) * (1.0f / 65535);
    return out;
  }

  Result<Tensor> OfGif(std::string_view bytes) const {
    if (channels_ != 0 && channels_ != 3)
      return InvalidArgument("channels: expected 0 or 3 for a GIF, got ",
                             channels_);
    GifOptions options;
    options.first_frame_only = !expand_;
    SLUICE_ASSIGN_OR_RETURN(Tensor image, DecodeGif(bytes, options));
    const Shape s = image.shape();
    if (kWanted == Wanted::kStill && s.dim(0) != 1)
      return InvalidArgument(
          "contents: expected one frame (DecodeGif and DecodeImage take "
          "more), got a GIF of ",
          s.dim(0));
    if (kWanted == Wanted::kStill || !expand_) {
      SLUICE_ASSIGN_OR_RETURN(
          image, image.Reshaped(Shape({s.dim(1), s.dim(2), s.dim(3)})));
    }
    return WithDepth(std::move(image), type_);
  }

  static Status WrongFormat(std::string_view bytes) {
    const char* wanted = kWanted == Wanted::kBitmap   ? "a BMP"
                         : kWanted == Wanted::kWindow ? "a JPEG"
                         : kWanted == Wanted::kAny ? "a PNG, JPEG, GIF or BMP"
                                                   : "a PNG, JPEG or GIF";
    const std::string_view format = FileFormatOf(bytes);
    if (format.empty())
      return InvalidArgument("contents: expected ", wanted, ", got ",
                             bytes.size(), " bytes that are no image");
    return InvalidArgument("contents: expected ", wanted, ", got a ",
                           std::string(format));
  }

  int channels_ = 0;
  DType type_ = DType::kUint8;
  JpegOptions jpeg_;
  bool expand_ = true;
};

template <typename T>
struct JpegShape {
  static Status Run(KernelContext& ctx) {
    const Tensor& contents = ctx.input(0);
    if (contents.rank() != 0)
      return InvalidArgument("contents: expected a scalar, got shape ",
                             contents.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(const JpegHeader h,
                            ReadJpegHeader(contents.raw_scalar<std::string>()));
    ctx.set_output(
        0, Tensor::Vector<T>({static_cast<T>(h.height), static_cast<T>(h.width),
                              static_cast<T>(h.channels)}));
    return OkStatus();
  }
};

// ---- Shapes -----------------------------------------------------------------

Status StillShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  const int64_t channels = c.node().IntAttr("channels");
  SLUICE_RETURN_IF_ERROR(CheckChannels(channels));
  c.set_output(0, {-1, -1, channels == 0 ? -1 : channels});
  return OkStatus();
}

Status WindowShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(StillShape(c));
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  const PartialShape still = c.outputs()[0];
  const Tensor* window = c.constant(1);
  if (window != nullptr && window->num_elements() == 4)
    c.set_output(0, {std::max(-1, window->raw<int32_t>()[2]),
                     std::max(-1, window->raw<int32_t>()[3]), still.dim(2)});
  return OkStatus();
}

Status AnimationShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  c.set_output(0, {-1, -1, -1, 3});
  return OkStatus();
}

Status AnyShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(StillShape(c));
  // With animations the rank depends on the file.
  if (c.node().BoolAttr("expand_animations"))
    c.set_output(0, PartialShape::Unknown());
  return OkStatus();
}

Status HeaderShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  c.set_output(0, {3});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

OpDefBuilder JpegOp(const char* name) {
  OpDefBuilder b(name);
  b.Input("contents: string");
  return b;
}

OpDefBuilder& JpegAttrs(OpDefBuilder& b) {
  return b.Output("image: uint8")
      .Attr("channels: int = 0")
      .Attr("ratio: int = 1")
      .Attr("fancy_upscaling: bool = true")
      .Attr("try_recover_truncated: bool = false")
      .Attr("acceptable_fraction: float = 1.0")
      .Attr("dct_method: string = ''")
      .Family("io")
      .HostOnly()
      .NoGradient(kNoPixelGradient);
}

const OpRegistrar kJpegDecoders[] = {
    [] {
      OpDefBuilder b = JpegOp("DecodeJpeg");
      return JpegAttrs(b)
          .Shape(StillShape)
          .Kernel(CpuState<Decoder<Wanted::kStill>>(/*expensive=*/true))
          .Doc("Decodes a JPEG file (or a PNG, or a GIF of one frame).");
    }(),
    [] {
      OpDefBuilder b = JpegOp("DecodeAndCropJpeg");
      b.Input("crop_window: int32");
      return JpegAttrs(b)
          .Shape(WindowShape)
          .Kernel(CpuState<Decoder<Wanted::kWindow>>(/*expensive=*/true))
          .Doc("Decodes the pixels [y, x, height, width] of a JPEG file.");
    }(),
};

SLUICE_OP(DecodePng)
    .Input("contents: string")
    .Output("image: dtype")
    .Attr("channels: int = 0")
    .Attr("dtype: {uint8, uint16} = DT_UINT8")
    .Family("io")
    .HostOnly()
    .Shape(StillShape)
    .Kernel(CpuState<Decoder<Wanted::kStill>>(/*expensive=*/true))
    .NoGradient(kNoPixelGradient)
    .Doc("Decodes a PNG file (or a JPEG, or a GIF of one frame).");

SLUICE_OP(DecodeGif)
    .Input("contents: string")
    .Output("image: uint8")
    .Family("io")
    .HostOnly()
    .Shape(AnimationShape)
    .Kernel(CpuState<Decoder<Wanted::kAnimation>>(/*expensive=*/true))
    .NoGradient(kNoPixelGradient)
    .Doc("Decodes the frames of a GIF file (or a PNG or JPEG, as one frame).");

SLUICE_OP(DecodeBmp)
    .Input("contents: string")
    .Output("image: uint8")
    .Attr("channels: int = 0")
    .Family("io")
    .HostOnly()
    .Shape(StillShape)
    .Kernel(CpuState<Decoder<Wanted::kBitmap>>(/*expensive=*/true))
    .NoGradient(kNoPixelGradient)
    .Doc("Decodes an uncompressed BMP file.");

SLUICE_OP(DecodeImage)
    .Input("contents: string")
    .Output("image: dtype")
    .Attr("channels: int = 0")
    .Attr("dtype: {uint8, uint16, float} = DT_UINT8")
    .Attr("expand_animations: bool = true")
    .Family("io")
    .HostOnly()
    .Shape(AnyShape)
    .Kernel(CpuState<Decoder<Wanted::kAny>>(/*expensive=*/true))
    .NoGradient(kNoPixelGradient)
    .Doc("Decodes a PNG, JPEG, GIF or BMP file.");

SLUICE_OP(ExtractJpegShape)
    .Input("contents: string")
    .Output("image_shape: output_type")
    .Attr("output_type: {int32, int64} = DT_INT32")
    .Family("io")
    .HostOnly()
    .Shape(HeaderShape)
    .Kernel(CpuFor<JpegShape, int32_t, int64_t>("output_type"))
    .NoGradient(kNoPixelGradient)
    .Doc("Height, width and channels of a JPEG file, from its header.");

}  // namespace
}  // namespace sluice
