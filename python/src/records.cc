// Files of records, which programs read and write without a graph
// (sluice/client/records.py).
#include "io/records.h"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "py.h"

namespace sluice::python {
namespace {

// (The Python side has checked the name.)
RecordOptions OptionsOf(std::string_view compression) {
  RecordOptions options;
  if (compression == "ZLIB") options.compression = RecordCompression::kZlib;
  if (compression == "GZIP") options.compression = RecordCompression::kGzip;
  return options;
}

// What Open gives. (Other Python threads run meanwhile.)
template <typename File>
std::unique_ptr<File> Opened(const std::string& path,
                             const RecordOptions& options) {
  auto file = [&] {
    const OthersRun others_run;
    return File::Open(path, options);
  }();
  CheckRun(file.status(), py::none());
  return *std::move(file);
}

// Of any thread: calls take turns.
class PyRecordWriter {
 public:
  PyRecordWriter(const std::string& path, const std::string& compression,
                 int level, int window_bits, int mem_level, int strategy,
                 int flush_mode, int64_t input_buffer_bytes,
                 int64_t buffer_bytes)
      : file_(Opened<RecordWriter>(path, [&] {
          RecordOptions options = OptionsOf(compression);
          options.compression_level = level;
          options.window_bits = window_bits;
          options.mem_level = mem_level;
          options.strategy = strategy;
          options.flush_mode = flush_mode;
          options.input_buffer_bytes = input_buffer_bytes;
          options.buffer_bytes = buffer_bytes;
          return options;
        }())) {}

  void Write(const py::bytes& record) {
    // (The bytes are the caller's, who holds them during the call.)
    const std::string_view bytes(record);
    Do([&] { return file_->Write(bytes); });
  }
  void Flush() {
    Do([&] { return file_->Flush(); });
  }
  void Close() {
    Do([&] { return file_->Close(); });
  }

 private:
  template <typename Fn>
  void Do(const Fn& fn) {
    const Status status = [&] {
      const OthersRun others_run;
      const std::lock_guard<std::mutex> lock(mutex_);
      return fn();
    }();
    CheckRun(status, py::none());
  }

  std::mutex mutex_;
  const std::unique_ptr<RecordWriter> file_;
};

// The records of a file, which may grow meanwhile: after its end, or an error,
// the next call reads on where the last record ended. Of any thread: calls take
// turns.
class PyRecordReader {
 public:
  PyRecordReader(const std::string& path, const std::string& compression)
      : path_(path),
        options_(OptionsOf(compression)),
        file_(Opened<RecordReader>(path_, options_)) {}

  py::bytes Next() {
    std::string record;
    const Status status = [&]() -> Status {
      const OthersRun others_run;
      const std::lock_guard<std::mutex> lock(mutex_);
      const Status s = Read(&record);
      if (!s.ok()) file_ = nullptr;
      return s;
    }();
    if (status.code() == StatusCode::kOutOfRange) throw py::stop_iteration();
    CheckRun(status, py::none());
    return py::bytes(record);
  }

 private:
  Status Read(std::string* record) {
    if (file_ == nullptr) {
      SLUICE_ASSIGN_OR_RETURN(file_, RecordReader::Open(path_, options_));
      SLUICE_RETURN_IF_ERROR(file_->SkipTo(offset_));
    }
    std::string_view next;
    SLUICE_RETURN_IF_ERROR(file_->Read(&next));
    record->assign(next);  // (It is valid until the next call.)
    offset_ = file_->offset();
    return OkStatus();
  }

  const std::string path_;
  const RecordOptions options_;
  std::mutex mutex_;
  std::unique_ptr<RecordReader> file_;  // Null after the end or an error.
  int64_t offset_ = 0;                  // Where the next record begins.
};

}  // namespace

void AddRecords(py::module_& m) {
  py::class_<PyRecordWriter>(m, "RecordWriter")
      .def(py::init<std::string, std::string, int, int, int, int, int, int64_t,
                    int64_t>(),
           py::arg("path"), py::arg("compression"), py::arg("level"),
           py::arg("window_bits"), py::arg("mem_level"), py::arg("strategy"),
           py::arg("flush_mode"), py::arg("input_buffer_bytes"),
           py::arg("buffer_bytes"))
      .def("write", &PyRecordWriter::Write)
      .def("flush", &PyRecordWriter::Flush)
      .def("close", &PyRecordWriter::Close);
  py::class_<PyRecordReader>(m, "RecordReader")
      .def(py::init<std::string, std::string>(), py::arg("path"),
           py::arg("compression"))
      .def("__iter__", [](const py::object& self) { return self; })
      .def("__next__", &PyRecordReader::Next);
}

}  // namespace sluice::python
