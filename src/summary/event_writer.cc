#include "summary/event_writer.h"

#include <google/protobuf/io/coded_stream.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "io/file.h"
#include "io/records.h"
#include "summary/proto/summary.pb.h"
#include "summary/summary.h"

namespace sluice {
namespace {

constexpr char kVersion[] = "brain.Event:2";  // Which readers look for.
// The writer's thread is woken when this much is pending: waking it for each
// event would cost more than the event.
constexpr int64_t kWakeBytes = 64 << 10;

double Now() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string HostName() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

// A path of a file that no other writer of this process or host has.
std::string NewPath(const std::string& folder, const std::string& suffix) {
  static std::atomic<int> number{0};
  char seconds[24];
  std::snprintf(seconds, sizeof(seconds), "%010lld",
                static_cast<long long>(Now()));
  return (std::filesystem::path(folder) /
          absl::StrCat("events.out.tfevents.", seconds, ".", HostName(), ".",
                       getpid(), ".", number++, suffix))
      .string();
}

Status NoMessage(std::string_view bytes, const char* what) {
  return InvalidArgument(what, ": expected a serialised message, got ",
                         bytes.size(), " bytes that are none");
}

// Parses what a caller gave, or says what was wanted.
template <typename Message>
Status Parse(std::string_view bytes, const char* what, Message* message) {
  if (bytes.size() <= std::numeric_limits<int>::max() &&
      message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return OkStatus();
  return NoMessage(bytes, what);
}

}  // namespace

class EventWriter::Impl {
 public:
  Impl(std::unique_ptr<RecordWriter> file, std::string path,
       const EventWriterOptions& options)
      : file_(std::move(file)),
        path_(std::move(path)),
        flush_ms_(std::clamp<int64_t>(options.flush_ms, 1, int64_t{1} << 40)),
        // (Callers must not wait for what does not wake the thread.)
        max_pending_bytes_(
            std::max<int64_t>(options.max_pending_bytes, kWakeBytes)),
        thread_([this] { Write(); }) {}
  ~Impl() { (void)Close(); }

  Status Add(const proto::Event& event) {
    std::string bytes;
    if (!event.SerializeToString(&bytes))
      return ResourceExhausted("event: expected at most 2 GiB, got ",
                               event.ByteSizeLong(), " bytes");
    return AddBytes(bytes);
  }

  Status AddBytes(std::string_view event) {
    std::unique_lock<std::mutex> lock(mu_);
    SLUICE_RETURN_IF_ERROR(WaitForRoom(&lock));
    pending_.bytes.append(event);
    EndEvent();
    return OkStatus();
  }

  // Metadata are written once. A summary without any is copied as it is.
  Status AddSummary(std::string_view summary, int64_t step) {
    bool described = false;
    if (!ForEachSummaryValue(summary, [&](const SummaryValueView& value) {
          described |= value.has_metadata;
        }))
      return NoMessage(summary, "summary");
    if (described) return AddDescribed(summary, step);
    proto::Event event;
    event.set_wall_time(Now());
    event.set_step(step);
    std::unique_lock<std::mutex> lock(mu_);
    SLUICE_RETURN_IF_ERROR(WaitForRoom(&lock));
    std::string& bytes = pending_.bytes;
    if (!event.AppendToString(&bytes)) return Internal("event: not serialised");
    using google::protobuf::io::CodedOutputStream;
    uint8_t head[1 + 10] = {proto::Event::kSummaryFieldNumber << 3 |
                            static_cast<int>(WireType::kBytes)};
    const uint8_t* const end =
        CodedOutputStream::WriteVarint64ToArray(summary.size(), head + 1);
    bytes.append(reinterpret_cast<const char*>(head),
                 static_cast<size_t>(end - head));
    bytes.append(summary);
    EndEvent();
    return OkStatus();
  }

  Status Flush() {
    std::unique_lock<std::mutex> lock(mu_);
    SLUICE_RETURN_IF_ERROR(CheckOpen());
    const int64_t mine = ++flushes_wanted_;
    wake_.notify_one();
    room_.wait(lock, [&] { return flushes_done_ >= mine || !error_.ok(); });
    return error_;
  }

  Status Close() {
    {
      const std::lock_guard<std::mutex> lock(mu_);
      if (closed_) return CheckOpen();
      closed_ = true;
    }
    wake_.notify_one();
    room_.notify_all();
    thread_.join();
    const Status closed = file_->Close();
    const std::lock_guard<std::mutex> lock(mu_);
    return error_.ok() ? closed : error_;
  }

  const std::string& path() const { return path_; }

 private:
  // REQUIRES: mu_ is held.
  Status CheckOpen() const {
    SLUICE_RETURN_IF_ERROR(error_);
    if (!closed_) return OkStatus();
    return FailedPrecondition("writing '", path_,
                              "': expected an open writer, got a closed one");
  }

  // REQUIRES: mu_ is held by `lock`.
  Status WaitForRoom(std::unique_lock<std::mutex>* lock) {
    room_.wait(*lock, [this] {
      return pending_.size() <= max_pending_bytes_ || !error_.ok() || closed_;
    });
    return CheckOpen();
  }

  // REQUIRES: mu_ is held.
  void EndEvent() {
    pending_.ends.push_back(pending_.bytes.size());
    if (pending_.size() >= kWakeBytes) wake_.notify_one();
  }

  Status AddDescribed(std::string_view summary, int64_t step) {
    proto::Event event;
    SLUICE_RETURN_IF_ERROR(Parse(summary, "summary", event.mutable_summary()));
    event.set_wall_time(Now());
    event.set_step(step);
    {
      const std::lock_guard<std::mutex> lock(mu_);
      for (proto::Summary::Value& value :
           *event.mutable_summary()->mutable_value())
        if (value.has_metadata() && !described_.insert(value.tag()).second)
          value.clear_metadata();
    }
    return Add(event);
  }

  // Events one after the other, and where each ends.
  struct Events {
    std::string bytes;
    std::vector<size_t> ends;
    int64_t size() const { return static_cast<int64_t>(bytes.size()); }
  };

  // The thread: writes what is pending, and flushes in time or on demand.
  void Write() {
    using Clock = std::chrono::steady_clock;
    const std::chrono::milliseconds interval(flush_ms_);
    auto flushed = Clock::now();
    Events events;
    std::unique_lock<std::mutex> lock(mu_);
    for (;;) {
      wake_.wait_until(lock, flushed + interval, [this] {
        return closed_ || flushes_wanted_ > flushes_done_ ||
               pending_.size() >= kWakeBytes;
      });
      // (The buffers are used by turns.)
      events.bytes.clear();
      events.ends.clear();
      std::swap(events, pending_);
      const int64_t wanted = flushes_wanted_;
      const bool flush = closed_ || wanted > flushes_done_ ||
                         Clock::now() >= flushed + interval;
      const bool last = closed_;
      const bool failed = !error_.ok();
      lock.unlock();
      Status s;
      size_t begin = 0;
      for (const size_t end : events.ends) {
        if (!s.ok() || failed) break;
        s = file_->Write(
            std::string_view(events.bytes).substr(begin, end - begin));
        begin = end;
      }
      if (flush && s.ok() && !failed) s = file_->Flush();
      if (flush) flushed = Clock::now();
      lock.lock();
      if (!s.ok()) error_ = s;
      if (flush) flushes_done_ = wanted;
      room_.notify_all();
      if (last) return;
    }
  }

  const std::unique_ptr<RecordWriter> file_;  // The thread's until it ended.
  const std::string path_;
  const int64_t flush_ms_;
  const int64_t max_pending_bytes_;
  std::mutex mu_;
  std::condition_variable wake_;  // The thread's.
  std::condition_variable room_;  // Of callers that wait.
  Events pending_;
  int64_t flushes_wanted_ = 0, flushes_done_ = 0;
  bool closed_ = false;
  Status error_;                     // The first one.
  std::set<std::string> described_;  // Tags whose metadata were written.
  std::thread thread_;               // The last member: it uses all others.
};

EventWriter::EventWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EventWriter::~EventWriter() = default;

Result<std::unique_ptr<EventWriter>> EventWriter::Open(
    const std::string& given, const EventWriterOptions& options) {
  const std::string folder = LocalPath(given);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    return FailedPrecondition("folder '", folder, "': ", failed.message());
  const std::string path = NewPath(folder, options.suffix);
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<RecordWriter> file,
                          RecordWriter::Open(path));
  std::unique_ptr<EventWriter> writer(
      new EventWriter(std::make_unique<Impl>(std::move(file), path, options)));
  proto::Event first;
  first.set_wall_time(Now());
  first.set_file_version(kVersion);
  SLUICE_RETURN_IF_ERROR(writer->impl_->Add(first));
  // Readers find a file of this kind at once.
  SLUICE_RETURN_IF_ERROR(writer->Flush());
  return writer;
}

Status EventWriter::AddSummary(std::string_view summary, int64_t step) {
  return impl_->AddSummary(summary, step);
}

Status EventWriter::AddScalar(const std::string& tag, double value,
                              int64_t step) {
  proto::Summary summary;
  AddScalarSummary(tag, static_cast<float>(value), &summary);
  return impl_->AddSummary(summary.SerializeAsString(), step);
}

Status EventWriter::AddHistogram(const std::string& tag, const Tensor& values,
                                 int64_t step) {
  proto::Summary summary;
  SLUICE_RETURN_IF_ERROR(AddHistogramSummary(tag, values, &summary));
  return impl_->AddSummary(summary.SerializeAsString(), step);
}

Status EventWriter::AddImages(const std::string& tag, const Tensor& images,
                              int64_t step, int64_t max_images) {
  proto::Summary summary;
  SLUICE_RETURN_IF_ERROR(
      AddImageSummary(tag, images, {.max_images = max_images}, &summary));
  return impl_->AddSummary(summary.SerializeAsString(), step);
}

Status EventWriter::AddAudio(const std::string& tag, const Tensor& sound,
                             float sample_rate, int64_t step,
                             int64_t max_outputs) {
  proto::Summary summary;
  SLUICE_RETURN_IF_ERROR(
      AddAudioSummary(tag, sound, sample_rate, max_outputs, &summary));
  return impl_->AddSummary(summary.SerializeAsString(), step);
}

Status EventWriter::AddText(const std::string& tag, const Tensor& text,
                            int64_t step) {
  proto::Summary summary;
  SLUICE_RETURN_IF_ERROR(AddTextSummary(tag, text, &summary));
  return impl_->AddSummary(summary.SerializeAsString(), step);
}

Status EventWriter::AddGraph(std::string_view graph_def) {
  proto::Event event;
  event.set_wall_time(Now());
  event.set_graph_def(std::string(graph_def));
  return impl_->Add(event);
}

Status EventWriter::AddMetaGraph(std::string_view meta_graph_def) {
  proto::Event event;
  event.set_wall_time(Now());
  event.set_meta_graph_def(std::string(meta_graph_def));
  return impl_->Add(event);
}

Status EventWriter::AddRunMetadata(const std::string& tag,
                                   std::string_view run_metadata,
                                   int64_t step) {
  proto::Event event;
  event.set_wall_time(Now());
  event.set_step(step);
  event.mutable_tagged_run_metadata()->set_tag(tag);
  event.mutable_tagged_run_metadata()->set_run_metadata(
      std::string(run_metadata));
  return impl_->Add(event);
}

Status EventWriter::AddSession(SessionEvent session,
                               const std::string& checkpoint, int64_t step) {
  proto::Event event;
  event.set_wall_time(Now());
  event.set_step(step);
  proto::SessionLog* const log = event.mutable_session_log();
  switch (session) {
    case SessionEvent::kStart:
      log->set_status(proto::SessionLog::START);
      break;
    case SessionEvent::kStop:
      log->set_status(proto::SessionLog::STOP);
      break;
    case SessionEvent::kCheckpoint:
      log->set_status(proto::SessionLog::CHECKPOINT);
      break;
  }
  log->set_checkpoint_path(checkpoint);
  return impl_->Add(event);
}

Status EventWriter::AddEvent(std::string_view event) {
  proto::Event parsed;
  SLUICE_RETURN_IF_ERROR(Parse(event, "event", &parsed));
  return impl_->AddBytes(event);
}

Status EventWriter::Flush() { return impl_->Flush(); }
Status EventWriter::Close() { return impl_->Close(); }
const std::string& EventWriter::path() const { return impl_->path(); }

}  // namespace sluice
