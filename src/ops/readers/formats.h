// The formats of the files that readers read.
#ifndef SLUICE_OPS_READERS_FORMATS_H_
#define SLUICE_OPS_READERS_FORMATS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/byte_source.h"
#include "ops/readers/reader_state.h"

namespace sluice::readers {

// What the node of a reader declares. A format reads the fields that are its
// own; the others have these values.
struct ReaderOptions {
  // The numbers are at most this large, so that sums of them are numbers.
  static constexpr int64_t kMaxNumber = int64_t{1} << 40;

  std::string name;             // For messages.
  const char* kind = "Reader";  // For messages: "TextLineReader".
  int64_t skip_header_lines = 0;
  int64_t header_bytes = 0, record_bytes = 0, footer_bytes = 0, hop_bytes = 0;
  RecordCompression compression = RecordCompression::kNone;
  bool exact = false;  // A rest shorter than a record is an error.
};

// Reads the records of one file after the other. Not synchronised; owned by a
// Reader, which locks. Reads blocks of a file, never all of it at once (except
// WholeFileReader's).
class FileFormat {
 public:
  enum class Outcome { kRecord, kLastRecord, kEnd };

  virtual ~FileFormat() = default;
  // Begins a file at a position, which is the beginning or was position() after
  // a record of that file.
  virtual Status Open(const std::string& file, const FilePosition& at) = 0;
  // The next record and its key, or kEnd. kLastRecord: the file is known to
  // have no other. After an error each further call returns it again. Never
  // OutOfRange, which tells the client that the queue has no more files.
  // REQUIRES: a file is open and has not ended.
  virtual Result<Outcome> Next(std::string* key, std::string* value) = 0;
  virtual void Close() = 0;
  // Where the next record begins. REQUIRES: a file is open.
  virtual FilePosition position() const = 0;
  // Whether a file may be begun elsewhere than at its beginning.
  virtual bool resumes() const = 0;
};

// The contents of files; keys are their names.
std::unique_ptr<FileFormat> MakeWholeFileFormat();
// The names of the work items themselves, which need not be files.
std::unique_ptr<FileFormat> MakeIdentityFormat();
// Lines, without their ends, and keys "file:number of the line", from 1.
std::unique_ptr<FileFormat> MakeTextLineFormat(const ReaderOptions& options);
// Records of the same size, and keys "file:number of the record", from 0.
std::unique_ptr<FileFormat> MakeFixedLengthFormat(const ReaderOptions& options);
// TFRecord files, and keys "file:offset".
std::unique_ptr<FileFormat> MakeTFRecordFormat(const ReaderOptions& options);

}  // namespace sluice::readers

#endif  // SLUICE_OPS_READERS_FORMATS_H_
