// Reads event files, also those that another process is writing.
#ifndef SLUICE_SUMMARY_EVENT_READER_H_
#define SLUICE_SUMMARY_EVENT_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "io/records.h"

namespace sluice {

// The events of one file, in their order. Not thread-safe.
class EventReader {
 public:
  explicit EventReader(std::string path) : path_(std::move(path)) {}

  // The next serialised Event (summary/proto/summary.proto); valid until the
  // next call. OutOfRange at the end of what has been written: a later call
  // finds what was added meanwhile. DataLoss for a corrupt record; all later
  // calls fail too. NotFound if there is no such file.
  Status Read(std::string_view* event);
  const std::string& path() const { return path_; }
  // Where the next event begins: RecordReader::SkipTo(offset()) leads to it.
  int64_t offset() const { return offset_; }

 private:
  const std::string path_;
  std::unique_ptr<RecordReader> records_;  // Null at the end of the file.
  int64_t offset_ = 0;                     // Where the next record begins.
  Status failed_;
};

}  // namespace sluice

#endif  // SLUICE_SUMMARY_EVENT_READER_H_
