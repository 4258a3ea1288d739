// Files of records: TensorFlow's TFRecord format, plain or compressed.
//
//   Status Copy(const std::string& from, const std::string& to) {
//     SLUICE_ASSIGN_OR_RETURN(auto in, RecordReader::Open(from));
//     SLUICE_ASSIGN_OR_RETURN(auto out, RecordWriter::Open(to));
//     for (;;) {
//       std::string_view record;
//       const Status s = in->Read(&record);
//       if (s.code() == StatusCode::kOutOfRange) return out->Close();
//       SLUICE_RETURN_IF_ERROR(s);
//       SLUICE_RETURN_IF_ERROR(out->Write(record));
//     }
//   }
#ifndef SLUICE_IO_RECORDS_H_
#define SLUICE_IO_RECORDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "io/byte_source.h"

namespace sluice {

struct RecordOptions {
  RecordCompression compression = RecordCompression::kNone;
  // A longer record is refused: its length may be corrupt, and in a compressed
  // file costs nothing.
  int64_t max_record_bytes = int64_t{1} << 30;
  // Of a compressed file that is written: zlib's, from 0 (none) to 9 (best);
  // -1: zlib's default.
  int compression_level = -1;
  // Of the same, zlib's: how much memory it takes (mem_level, 1 to 9), the size
  // of its window (window_bits: 9 to 15, which count for GZIP too), what the
  // data is like (strategy, 0 to 4), and whether data is flushed after each
  // record (flush_mode: Z_NO_FLUSH, Z_PARTIAL_FLUSH, Z_SYNC_FLUSH, Z_FULL_FLUSH
  // or Z_BLOCK; 0 to 3 and 5) and goes to the file. Of what Z_PARTIAL_FLUSH
  // and Z_BLOCK leave in a file that is not closed, the end is read as
  // DataLoss.
  int window_bits = 15;
  int mem_level = 8;
  int strategy = 0;
  int flush_mode = 0;
  // Of the same: how many bytes of records a writer collects before it
  // compresses them together, and only then flushes them. 0: each record by
  // itself.
  int64_t input_buffer_bytes = 0;
  // How many bytes a writer collects before they go to the file; at least 1.
  int64_t buffer_bytes = 256 << 10;
};

// Reads records one after the other. Checks their checksums. Not thread-safe.
class RecordReader {
 public:
  static Result<std::unique_ptr<RecordReader>> Open(
      const std::string& path, const RecordOptions& options = {});
  // Reads what the source holds; `name` names it in messages.
  static Result<std::unique_ptr<RecordReader>> FromSource(
      std::unique_ptr<ByteSource> source, std::string name,
      const RecordOptions& options = {});
  ~RecordReader();

  // The next record; it is valid until the next call. OutOfRange at the end of
  // the file. DataLoss for a record that is truncated or corrupt, with the file
  // and the offset (in the decompressed bytes); all later calls fail too.
  Status Read(std::string_view* record);
  // Where the next record begins.
  int64_t offset() const;
  // True if Read failed because the file ended within a record, which may
  // still be being written.
  bool ended_early() const;
  // Skips bytes until the next record begins at `offset`. OutOfRange if the
  // file ends before, InvalidArgument if that is before offset().
  Status SkipTo(int64_t offset);

 private:
  class Impl;
  explicit RecordReader(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// Writes records one after the other, through a buffer. After an error nothing
// more is written: all calls return that error, and the file holds what reached
// it, which may end within a record. Not thread-safe.
class RecordWriter {
 public:
  // Replaces or creates the file, but does not create its folder.
  // InvalidArgument for options out of range.
  static Result<std::unique_ptr<RecordWriter>> Open(
      const std::string& path, const RecordOptions& options = {});
  // Closes the file, if Close was not called; errors are lost.
  ~RecordWriter();

  // The record need not outlive the call.
  Status Write(std::string_view record);
  // Hands all records so far to the system, so that a reader sees them: it
  // comes to the end of the file after them, of a compressed one too.
  Status Flush();
  // Closes the file also after an error. FailedPrecondition if it is closed, as
  // all functions then.
  Status Close();

 private:
  class Impl;
  explicit RecordWriter(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_IO_RECORDS_H_
