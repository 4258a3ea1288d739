#include "summary/summary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "graph/proto/tensor.pb.h"
#include "graph/tensor_proto.h"
#include "io/image_png.h"
#include "summary/histogram.h"
#include "summary/proto/summary.pb.h"
#include "tensor/compute_type.h"

namespace sluice {
namespace {

// ---- Images -----------------------------------------------------------------

Status CheckImages(const Tensor& images, const ImageSummaryOptions& options) {
  const Shape& shape = images.shape();
  if (shape.rank() != 4 ||
      (shape.dim(3) != 1 && shape.dim(3) != 3 && shape.dim(3) != 4))
    return InvalidArgument(
        "tensor: expected [batch, height, width, channels] with 1, 3 or 4 "
        "channels, got shape ",
        shape.ToString());
  for (const int64_t dim : shape.dims())
    if (dim > std::numeric_limits<int32_t>::max())
      return InvalidArgument("tensor: expected dimensions below 2^31, got ",
                             "shape ", shape.ToString());
  if (static_cast<int64_t>(options.bad_color.size()) < shape.dim(3) &&
      images.dtype() != DType::kUint8)
    return InvalidArgument("bad_color: expected at least ", shape.dim(3),
                           " samples, got ", options.bad_color.size());
  return OkStatus();
}

// The pixels of one image of floats, as samples of 8 bits. As in TensorFlow,
// each operation rounds to T.
template <typename T>
void Normalize(std::span<const T> pixels, size_t channels,
               std::span<const uint8_t> bad_color, uint8_t* out) {
  const auto finite = [&](size_t at) {
    for (size_t c = 0; c < channels; ++c)
      if (!std::isfinite(static_cast<double>(pixels[at + c]))) return false;
    return true;
  };
  float least = std::numeric_limits<float>::infinity(), most = -least;
  for (size_t at = 0; at < pixels.size(); at += channels) {
    if (!finite(at)) continue;
    for (size_t c = 0; c < channels; ++c) {
      const auto v = static_cast<float>(pixels[at + c]);
      least = std::min(least, v);
      most = std::max(most, v);
    }
  }
  constexpr float kZero = 1e-6f;
  const bool centred = least < 0;
  const float magnitude = centred ? std::max(std::abs(least), most) : most;
  const T scale(magnitude < kZero ? 0.0f
                                  : (centred ? 127.0f : 255.0f) / magnitude);
  const T offset(centred ? 128.0f : 0.0f);
  using C = ComputeType<T>;
  for (size_t at = 0; at < pixels.size(); at += channels) {
    if (!finite(at)) {
      std::copy_n(bad_color.begin(), channels, out + at);
      continue;
    }
    for (size_t c = 0; c < channels; ++c) {
      const T scaled(static_cast<C>(pixels[at + c]) * static_cast<C>(scale));
      const T moved(static_cast<C>(scaled) + static_cast<C>(offset));
      out[at + c] = static_cast<uint8_t>(
          std::clamp(static_cast<double>(moved), 0.0, 255.0));
    }
  }
}

// Image i of the batch as uint8 [height, width, channels].
Result<Tensor> Pixels(const Tensor& images, int64_t i,
                      std::span<const uint8_t> bad_color) {
  const Shape& shape = images.shape();
  const Shape each({shape.dim(1), shape.dim(2), shape.dim(3)});
  const Tensor image = images.Rows(i, i + 1);
  if (images.dtype() == DType::kUint8) return image.Reshaped(each);
  SLUICE_ASSIGN_OR_RETURN(Tensor pixels, Tensor::Make(DType::kUint8, each));
  const auto channels = static_cast<size_t>(shape.dim(3));
  auto* const out = pixels.flat<uint8_t>().data();
  switch (images.dtype()) {
    case DType::kFloat:
      Normalize(image.flat<float>(), channels, bad_color, out);
      return pixels;
    case DType::kDouble:
      Normalize(image.flat<double>(), channels, bad_color, out);
      return pixels;
    case DType::kHalf:
      Normalize(image.flat<half>(), channels, bad_color, out);
      return pixels;
    default:
      return InvalidArgument("tensor: expected uint8, half, float or double, ",
                             "got ", DTypeName(images.dtype()));
  }
}

// "<tag>/<kind>", and the number if several are asked for.
std::string NumberedTag(const std::string& tag, const char* kind, int64_t i,
                        int64_t max) {
  std::string name = tag + "/" + kind;
  if (max > 1) name += "/" + std::to_string(i);
  return name;
}

// ---- Sounds -----------------------------------------------------------------

// A WAV file of samples of 16 bits, frame by frame.
Result<std::string> EncodeWav(std::span<const float> samples, int64_t channels,
                              float sample_rate) {
  constexpr int64_t kSampleBytes = 2;
  constexpr uint32_t kHeaderBytes = 44;
  const auto bytes = static_cast<uint64_t>(samples.size()) * kSampleBytes;
  if (bytes > std::numeric_limits<uint32_t>::max() - kHeaderBytes ||
      channels > std::numeric_limits<uint16_t>::max() / kSampleBytes)
    return InvalidArgument("tensor: expected a sound of less than 4 GiB, got ",
                           bytes, " bytes in ", channels, " channels");
  std::string wav;
  wav.reserve(kHeaderBytes + bytes);
  const auto put = [&wav](uint64_t value, int width) {  // Little-endian.
    for (int i = 0; i < width; ++i)
      wav.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  };
  const auto rate = static_cast<uint32_t>(std::lround(sample_rate));
  const auto frame_bytes = static_cast<uint64_t>(channels * kSampleBytes);
  wav += "RIFF";
  put(kHeaderBytes - 8 + bytes, 4);
  wav += "WAVEfmt ";
  put(16, 4);  // The size of this part.
  put(1, 2);   // Plain samples.
  put(static_cast<uint64_t>(channels), 2);
  put(rate, 4);
  put(rate * frame_bytes, 4);
  put(frame_bytes, 2);
  put(8 * kSampleBytes, 2);
  wav += "data";
  put(bytes, 4);
  for (const float sample : samples) {
    constexpr float kScale = 32768.0f;
    // (A sample that is not a number is silent.)
    const float scaled =
        std::isnan(sample)
            ? 0.0f
            : std::clamp(std::round(sample * kScale), -kScale, kScale - 1.0f);
    put(static_cast<uint16_t>(static_cast<int16_t>(scaled)), 2);
  }
  return wav;
}

}  // namespace

void AddScalarSummary(const std::string& tag, float value,
                      proto::Summary* summary) {
  proto::Summary::Value* const v = summary->add_value();
  v->set_tag(tag);
  v->set_simple_value(value);
}

Status AddHistogramSummary(const std::string& tag, const Tensor& values,
                           proto::Summary* summary) {
  Histogram histogram;
  SLUICE_RETURN_IF_ERROR(histogram.Add(values));
  proto::Summary::Value* const v = summary->add_value();
  v->set_tag(tag);
  histogram.ToProto(v->mutable_histo());
  return OkStatus();
}

Status AddImageSummary(const std::string& tag, const Tensor& images,
                       const ImageSummaryOptions& options,
                       proto::Summary* summary) {
  SLUICE_RETURN_IF_ERROR(CheckImages(images, options));
  const int64_t n = std::min(options.max_images, images.shape().dim(0));
  proto::Summary made;
  for (int64_t i = 0; i < n; ++i) {
    SLUICE_ASSIGN_OR_RETURN(const Tensor pixels,
                            Pixels(images, i, options.bad_color));
    proto::Summary::Value* const v = made.add_value();
    v->set_tag(NumberedTag(tag, "image", i, options.max_images));
    proto::Summary::Image* const image = v->mutable_image();
    image->set_height(static_cast<int32_t>(pixels.shape().dim(0)));
    image->set_width(static_cast<int32_t>(pixels.shape().dim(1)));
    image->set_colorspace(static_cast<int32_t>(pixels.shape().dim(2)));
    SLUICE_ASSIGN_OR_RETURN(*image->mutable_encoded_image_string(),
                            EncodePng(pixels, /*compression=*/-1));
  }
  summary->MergeFrom(made);
  return OkStatus();
}

Status AddAudioSummary(const std::string& tag, const Tensor& sound,
                       float sample_rate, int64_t max_outputs,
                       proto::Summary* summary) {
  const Shape& shape = sound.shape();
  if (sound.dtype() != DType::kFloat)
    return InvalidArgument("tensor: expected float, got ",
                           DTypeName(sound.dtype()));
  if (shape.rank() != 2 && shape.rank() != 3)
    return InvalidArgument(
        "tensor: expected [batch, frames, channels] or [batch, frames], got "
        "shape ",
        shape.ToString());
  if (!(sample_rate > 0) || sample_rate > 1e9f)
    return InvalidArgument("sample_rate: expected a positive number of hertz, ",
                           "got ", sample_rate);
  const int64_t frames = shape.dim(1);
  const int64_t channels = shape.rank() == 3 ? shape.dim(2) : 1;
  proto::Summary made;
  for (int64_t i = 0; i < std::min(max_outputs, shape.dim(0)); ++i) {
    const Tensor one = sound.Rows(i, i + 1);
    proto::Summary::Value* const v = made.add_value();
    v->set_tag(NumberedTag(tag, "audio", i, max_outputs));
    proto::Summary::Audio* const audio = v->mutable_audio();
    audio->set_sample_rate(sample_rate);
    audio->set_num_channels(channels);
    audio->set_length_frames(frames);
    audio->set_content_type("audio/wav");
    SLUICE_ASSIGN_OR_RETURN(
        *audio->mutable_encoded_audio_string(),
        EncodeWav(one.flat<float>(), channels, sample_rate));
  }
  summary->MergeFrom(made);
  return OkStatus();
}

Status AddTensorSummary(const std::string& tag, const Tensor& tensor,
                        std::optional<std::string_view> metadata,
                        proto::Summary* summary) {
  proto::Summary made;
  proto::Summary::Value* const v = made.add_value();
  v->set_tag(tag);
  if (metadata && !v->mutable_metadata()->ParseFromArray(
                      metadata->data(), static_cast<int>(metadata->size())))
    return InvalidArgument("serialized_summary_metadata: expected a ",
                           "SummaryMetadata, got ", metadata->size(),
                           " bytes that are none");
  SLUICE_RETURN_IF_ERROR(TensorToProto(tensor, v->mutable_tensor()));
  summary->MergeFrom(made);
  return OkStatus();
}

Status AddTextSummary(const std::string& tag, const Tensor& text,
                      proto::Summary* summary) {
  if (text.dtype() != DType::kString)
    return InvalidArgument("tensor: expected strings, got ",
                           DTypeName(text.dtype()));
  proto::SummaryMetadata metadata;
  metadata.mutable_plugin_data()->set_plugin_name("text");
  metadata.set_data_class(proto::DATA_CLASS_TENSOR);
  return AddTensorSummary(tag, text, metadata.SerializeAsString(), summary);
}

}  // namespace sluice
