#include "ops/readers/formats.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/file.h"
#include "io/records.h"

namespace sluice::readers {
namespace {

// A longer line is refused, as a longer record is (RecordOptions).
constexpr size_t kMaxLineBytes = size_t{1} << 30;

Status TooShort(const std::string& file, const char* what, int64_t want,
                int64_t got) {
  return DataLoss("file '", file, "': expected ", what, " ", want,
                  " bytes, got ", got, " (truncated file)");
}

// A file, or only its name, as one record.
template <bool reads>
class OneRecordFormat final : public FileFormat {
 public:
  Status Open(const std::string& file, const FilePosition&) override {
    name_ = value_ = file;
    if (reads) {
      SLUICE_ASSIGN_OR_RETURN(value_, ReadFile(file));
    }
    return OkStatus();
  }
  Result<Outcome> Next(std::string* key, std::string* value) override {
    *key = std::move(name_);
    *value = std::move(value_);
    return Outcome::kLastRecord;
  }
  void Close() override {
    name_ = std::string();
    value_ = std::string();
  }
  FilePosition position() const override { return {}; }
  bool resumes() const override { return false; }

 private:
  std::string name_, value_;
};

class TextLineFormat final : public FileFormat {
 public:
  explicit TextLineFormat(const ReaderOptions& o)
      : skipped_(o.skip_header_lines) {}
  Status Open(const std::string& file, const FilePosition& at) override {
    SLUICE_ASSIGN_OR_RETURN(auto source, OpenFileSource(file));
    file_ = file;
    bytes_.emplace(std::move(source));
    line_ = at.number;
    SLUICE_ASSIGN_OR_RETURN(const int64_t skipped, bytes_->Skip(at.offset));
    if (skipped < at.offset)
      return TooShort(file, "at least", at.offset, skipped);
    // (A shorter file has no records.)
    std::string_view line;
    for (bool more = true; line_ < skipped_ && more; ++line_) {
      SLUICE_ASSIGN_OR_RETURN(more, ReadLine(&line));
    }
    return OkStatus();
  }
  Result<Outcome> Next(std::string* key, std::string* value) override {
    std::string_view line;
    SLUICE_ASSIGN_OR_RETURN(const bool more, ReadLine(&line));
    if (!more) return Outcome::kEnd;
    *key = absl::StrCat(file_, ":", ++line_);
    value->assign(line);
    return Outcome::kRecord;
  }
  void Close() override { bytes_.reset(); }
  FilePosition position() const override { return {bytes_->offset(), line_}; }
  bool resumes() const override { return true; }

 private:
  Result<bool> ReadLine(std::string_view* line) {
    Result<bool> more = bytes_->ReadLine(line, kMaxLineBytes);
    if (more.status().code() != StatusCode::kResourceExhausted) return more;
    return ResourceExhausted("file '", file_, "', line ", line_ + 1, ": ",
                             more.status().message());
  }

  const int64_t skipped_;
  std::string file_;
  std::optional<BufferedBytes> bytes_;
  int64_t line_ = 0;  // The number of lines before.
};

// A record begins `hop` bytes after the one before it (by default where that
// ends), and is one if at least the footer follows: what is left at the end is
// no error, as in TensorFlow.
class FixedLengthFormat final : public FileFormat {
 public:
  explicit FixedLengthFormat(const ReaderOptions& o)
      : header_(o.header_bytes),
        record_(o.record_bytes),
        footer_(o.footer_bytes),
        hop_(o.hop_bytes > 0 ? o.hop_bytes : o.record_bytes),
        exact_(o.exact),
        compression_(o.compression) {}
  Status Open(const std::string& file, const FilePosition& at) override {
    SLUICE_ASSIGN_OR_RETURN(auto source, OpenFileSource(file));
    SLUICE_ASSIGN_OR_RETURN(
        source, MakeInflatingSource(std::move(source), compression_, file));
    file_ = file;
    bytes_.emplace(std::move(source));
    SLUICE_ASSIGN_OR_RETURN(const int64_t header, bytes_->Skip(header_));
    if (header < header_) return TooShort(file, "a header of", header_, header);
    next_ = {std::max(header_, at.offset), at.number};
    return OkStatus();
  }
  Result<Outcome> Next(std::string* key, std::string* value) override {
    SLUICE_RETURN_IF_ERROR(
        bytes_->Skip(next_.offset - bytes_->offset()).status());
    if (bytes_->offset() < next_.offset) return Outcome::kEnd;
    const auto all = static_cast<size_t>(record_ + footer_);
    SLUICE_RETURN_IF_ERROR(bytes_->Fill(all));
    if (const size_t rest = bytes_->ahead().size(); rest < all) {
      if (!exact_ || rest == static_cast<size_t>(footer_)) return Outcome::kEnd;
      return InvalidArgument(
          "file '", file_, "': excluding the header (", header_,
          " bytes) and the footer (", footer_, " bytes), expected a multiple ",
          "of ", record_, " bytes, got ",
          next_.offset - header_ + static_cast<int64_t>(rest) - footer_);
    }
    *key = absl::StrCat(file_, ":", next_.number);
    value->assign(bytes_->ahead().substr(0, static_cast<size_t>(record_)));
    ++next_.number;
    next_.offset += hop_;
    return Outcome::kRecord;
  }
  void Close() override { bytes_.reset(); }
  FilePosition position() const override { return next_; }
  bool resumes() const override { return true; }

 private:
  const int64_t header_, record_, footer_, hop_;
  const bool exact_;
  const RecordCompression compression_;
  std::string file_;
  std::optional<BufferedBytes> bytes_;
  FilePosition next_;
};

class TFRecordFormat final : public FileFormat {
 public:
  explicit TFRecordFormat(const ReaderOptions& o)
      : options_({.compression = o.compression}) {}
  Status Open(const std::string& file, const FilePosition& at) override {
    SLUICE_ASSIGN_OR_RETURN(reader_, RecordReader::Open(file, options_));
    file_ = file;
    number_ = at.number;
    const Status s = reader_->SkipTo(at.offset);
    if (s.code() == StatusCode::kOutOfRange)
      return TooShort(file, "at least", at.offset, reader_->offset());
    return s;
  }
  Result<Outcome> Next(std::string* key, std::string* value) override {
    const int64_t offset = reader_->offset();
    std::string_view record;
    const Status s = reader_->Read(&record);
    if (s.code() == StatusCode::kOutOfRange) return Outcome::kEnd;
    SLUICE_RETURN_IF_ERROR(s);
    *key = absl::StrCat(file_, ":", offset);
    value->assign(record);
    ++number_;
    return Outcome::kRecord;
  }
  void Close() override { reader_.reset(); }
  FilePosition position() const override {
    return {reader_->offset(), number_};
  }
  bool resumes() const override { return true; }

 private:
  const RecordOptions options_;
  std::string file_;
  std::unique_ptr<RecordReader> reader_;
  int64_t number_ = 0;
};

}  // namespace

std::unique_ptr<FileFormat> MakeWholeFileFormat() {
  return std::make_unique<OneRecordFormat<true>>();
}
std::unique_ptr<FileFormat> MakeIdentityFormat() {
  return std::make_unique<OneRecordFormat<false>>();
}
std::unique_ptr<FileFormat> MakeTextLineFormat(const ReaderOptions& options) {
  return std::make_unique<TextLineFormat>(options);
}
std::unique_ptr<FileFormat> MakeFixedLengthFormat(
    const ReaderOptions& options) {
  return std::make_unique<FixedLengthFormat>(options);
}
std::unique_ptr<FileFormat> MakeTFRecordFormat(const ReaderOptions& options) {
  return std::make_unique<TFRecordFormat>(options);
}

}  // namespace sluice::readers
