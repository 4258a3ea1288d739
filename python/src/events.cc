// Event files, which FileWriter writes (sluice/summary/writer.py).
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "py.h"
#include "summary/event_reader.h"
#include "summary/event_writer.h"

namespace sluice::python {
namespace {

// Of any thread, as an EventWriter.
class PyEventWriter {
 public:
  PyEventWriter(const std::string& folder, double flush_secs,
                const std::string& suffix) {
    EventWriterOptions options;
    options.flush_ms = static_cast<int64_t>(flush_secs * 1e3);
    options.suffix = suffix;
    auto writer = [&] {
      const OthersRun others_run;
      return EventWriter::Open(folder, options);
    }();
    CheckRun(writer.status(), py::none());
    writer_ = *std::move(writer);
  }

  void AddSummary(const py::bytes& summary, int64_t step) {
    const std::string_view bytes(summary);
    Do([&] { return writer_->AddSummary(bytes, step); });
  }
  void AddEvent(const py::bytes& event) {
    const std::string_view bytes(event);
    Do([&] { return writer_->AddEvent(bytes); });
  }
  void Flush() {
    Do([&] { return writer_->Flush(); });
  }
  void Close() {
    Do([&] { return writer_->Close(); });
  }
  const std::string& path() const { return writer_->path(); }

 private:
  template <typename Fn>
  void Do(const Fn& fn) {
    const Status status = [&] {
      const OthersRun others_run;
      return fn();
    }();
    CheckRun(status, py::none());
  }

  std::unique_ptr<EventWriter> writer_;
};

// Of any thread: calls take turns.
class PyEventReader {
 public:
  explicit PyEventReader(std::string path) : reader_(std::move(path)) {}

  // The next event; None at the end of what has been written.
  py::object Read() {
    std::string event;
    const Status status = [&]() -> Status {
      const OthersRun others_run;
      const std::lock_guard<std::mutex> lock(mutex_);
      std::string_view next;
      SLUICE_RETURN_IF_ERROR(reader_.Read(&next));
      event.assign(next);  // (It is valid until the next call.)
      return Status();
    }();
    if (status.code() == StatusCode::kOutOfRange) return py::none();
    CheckRun(status, py::none());
    return py::bytes(event);
  }

 private:
  std::mutex mutex_;
  EventReader reader_;
};

}  // namespace

void AddEvents(py::module_& m) {
  py::class_<PyEventWriter>(m, "EventWriter")
      .def(py::init<std::string, double, std::string>(), py::arg("folder"),
           py::arg("flush_secs"), py::arg("suffix"))
      .def("add_summary", &PyEventWriter::AddSummary)
      .def("add_event", &PyEventWriter::AddEvent)
      .def("flush", &PyEventWriter::Flush)
      .def("close", &PyEventWriter::Close)
      .def_property_readonly("path", &PyEventWriter::path);
  py::class_<PyEventReader>(m, "EventReader")
      .def(py::init<std::string>(), py::arg("path"))
      .def("read", &PyEventReader::Read);
}

}  // namespace sluice::python
