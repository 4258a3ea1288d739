// Event files: what a program logs for TensorBoard.
//
//   Status Log(const std::string& folder) {
//     SLUICE_ASSIGN_OR_RETURN(auto log, EventWriter::Open(folder));
//     for (int64_t step = 0; step < 100; ++step)
//       SLUICE_RETURN_IF_ERROR(log->AddScalar("loss", 1.0 / (step + 1), step));
//     return log->Close();
//   }
#ifndef SLUICE_SUMMARY_EVENT_WRITER_H_
#define SLUICE_SUMMARY_EVENT_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

namespace proto {
class Event;
}  // namespace proto

struct EventWriterOptions {
  // How often events are handed to the system, where readers see them.
  int64_t flush_ms = 120'000;
  // Callers wait while more bytes than this have not been handed over.
  int64_t max_pending_bytes = int64_t{64} << 20;
  std::string suffix = "";  // Of the file's name.
};

enum class SessionEvent : uint8_t { kStart, kStop, kCheckpoint };

// Appends events to a new file in a folder, on a thread of its own: a call
// costs its caller a copy of the event. Thread-safe.
//
// Every function returns the first error of the file (a full disk, for
// instance), if there was one; what is added after it is dropped, so that a
// program that ignores the error goes on.
class EventWriter {
 public:
  // Creates the folder where needed, and in it
  // "events.out.tfevents.<seconds>.<host>.<process>.<number><suffix>".
  static Result<std::unique_ptr<EventWriter>> Open(
      const std::string& folder, const EventWriterOptions& options = {});
  // Writes what was added. Errors are lost, unless Close was called.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;

  // A serialised Summary, as the ops make it: ops::ScalarSummary and others.
  // The metadata of a tag are written with its first value only, since readers
  // look for them there. InvalidArgument if the bytes are malformed.
  Status AddSummary(std::string_view summary, int64_t step);
  Status AddScalar(const std::string& tag, double value, int64_t step);
  // Real numbers; InvalidArgument for NaN and infinities.
  Status AddHistogram(const std::string& tag, const Tensor& values,
                      int64_t step);
  // [batch, height, width, channels] of uint8, half, float or double, channels
  // 1, 3 or 4; floats are scaled for each image, so that its largest magnitude
  // is full intensity.
  Status AddImages(const std::string& tag, const Tensor& images, int64_t step,
                   int64_t max_images = 3);
  // float [batch, frames, channels] or [batch, frames], from -1 to 1.
  Status AddAudio(const std::string& tag, const Tensor& sound,
                  float sample_rate, int64_t step, int64_t max_outputs = 3);
  // Strings, shown as Markdown.
  Status AddText(const std::string& tag, const Tensor& text, int64_t step);
  // A serialised GraphDef or MetaGraphDef, which TensorBoard draws. What
  // Graph::ToGraphDef returns, for instance.
  Status AddGraph(std::string_view graph_def);
  Status AddMetaGraph(std::string_view meta_graph_def);
  // A serialised RunMetadata of the step.
  Status AddRunMetadata(const std::string& tag, std::string_view run_metadata,
                        int64_t step);
  Status AddSession(SessionEvent event, const std::string& checkpoint,
                    int64_t step);
  // Any serialised Event; it is written as it is.
  Status AddEvent(std::string_view event);

  // Waits until what was added is with the system.
  Status Flush();
  // Flushes and ends. FailedPrecondition if it is closed, as all functions
  // then.
  Status Close();
  const std::string& path() const;

 private:
  class Impl;
  explicit EventWriter(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_SUMMARY_EVENT_WRITER_H_
