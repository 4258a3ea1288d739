// Summaries: the named values that a program logs for TensorBoard, as values of
// TensorFlow's Summary message. event_writer.h writes them to files.
#ifndef SLUICE_SUMMARY_SUMMARY_H_
#define SLUICE_SUMMARY_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/wire.h"
#include "tensor/tensor.h"

namespace sluice {

namespace proto {
class Summary;
}  // namespace proto

// A value of a serialised Summary.
struct SummaryValueView {
  std::string_view tag;
  bool has_metadata = false;
};
// Calls fn(SummaryValueView) for each value, which copies nothing. Returns
// false if the bytes are malformed, down to the fields of the values.
template <typename Fn>
bool ForEachSummaryValue(std::string_view summary, const Fn& fn) {
  FieldReader values(summary);
  WireTag tag;
  while (values.ReadTag(&tag)) {
    std::string_view bytes;
    if (!tag.Is(1, WireType::kBytes)) {
      if (!values.Skip(tag)) return false;
      continue;
    }
    if (!values.ReadBytes(&bytes)) return false;
    SummaryValueView value;
    FieldReader fields(bytes);
    while (fields.ReadTag(&tag)) {
      value.has_metadata |= tag.Is(9, WireType::kBytes);
      if (!(tag.Is(1, WireType::kBytes) ? fields.ReadBytes(&value.tag)
                                        : fields.Skip(tag)))
        return false;
    }
    if (!fields.done()) return false;
    fn(value);
  }
  return values.done();
}

// Each function adds values to the message, or nothing if it fails.

void AddScalarSummary(const std::string& tag, float value,
                      proto::Summary* summary);

// InvalidArgument for NaN, infinities and what is not a real number.
Status AddHistogramSummary(const std::string& tag, const Tensor& values,
                           proto::Summary* summary);

struct ImageSummaryOptions {
  // The first images of the batch. Their tags are "<tag>/image/<number>", or
  // "<tag>/image" if at most one is asked for.
  int64_t max_images = 3;
  // The colour of a pixel that is not finite; at least as many samples as the
  // images have channels.
  std::span<const uint8_t> bad_color = kRed;

  static constexpr uint8_t kRed[4] = {255, 0, 0, 255};
};
// `images`: [batch, height, width, channels] with 1 (grey), 3 (RGB) or 4 (RGBA)
// channels, uint8, half, float or double. Floats are scaled for each image: if
// none is negative, so that its largest becomes 255; else so that 0 becomes 128
// and its largest magnitude 127 more or less. Encoded as PNG.
Status AddImageSummary(const std::string& tag, const Tensor& images,
                       const ImageSummaryOptions& options,
                       proto::Summary* summary);

// `sound`: float [batch, frames, channels] or [batch, frames], from -1 to 1
// (what exceeds this is clipped); `sample_rate` in hertz. Encoded as WAV files
// of 16 bits. The first `max_outputs` of the batch are added as "<tag>/audio/
// <number>", or "<tag>/audio" if at most one is asked for.
Status AddAudioSummary(const std::string& tag, const Tensor& sound,
                       float sample_rate, int64_t max_outputs,
                       proto::Summary* summary);

// Any tensor except resources and variants. `metadata` is a serialised
// SummaryMetadata, which says what shows the tensor.
// InvalidArgument if it cannot be parsed.
Status AddTensorSummary(const std::string& tag, const Tensor& tensor,
                        std::optional<std::string_view> metadata,
                        proto::Summary* summary);

// Strings of any shape, as Markdown; a matrix is shown as a table.
Status AddTextSummary(const std::string& tag, const Tensor& text,
                      proto::Summary* summary);

}  // namespace sluice

#endif  // SLUICE_SUMMARY_SUMMARY_H_
