#include "io/records.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "io/crc32c.h"

namespace sluice {
namespace {

constexpr size_t kBufferBytes = 256 << 10;
// Before a record: its length and the checksum of it. After it: its own.
constexpr size_t kHeaderBytes = 12;
constexpr size_t kFooterBytes = 4;

Status FileError(const char* what, const std::string& path) {
  const int code = errno;
  const std::string message =
      absl::StrCat(what, " '", path, "': ", std::strerror(code));
  if (code == ENOENT) return NotFound(message);
  if (code == EACCES || code == EPERM)
    return Status(StatusCode::kPermissionDenied, message);
  return FailedPrecondition(message);
}

// ---- Sources ----------------------------------------------------------------

class FileSource : public ByteSource {
 public:
  FileSource(int file, std::string path)
      : file_(file), path_(std::move(path)) {}
  ~FileSource() override { close(file_); }
  Result<size_t> Read(char* to, size_t n) override {
    for (;;) {
      const ssize_t got = read(file_, to, n);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) return FileError("reading", path_);
    }
  }

 private:
  const int file_;
  const std::string path_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  Result<size_t> Read(char* to, size_t n) override {
    n = std::min(n, bytes_.size() - at_);
    std::copy_n(bytes_.data() + at_, n, to);
    at_ += n;
    return n;
  }

 private:
  const std::string bytes_;
  size_t at_ = 0;
};

class InflatingSource : public ByteSource {
 public:
  InflatingSource(std::unique_ptr<ByteSource> from, bool gzip, std::string name)
      : from_(std::move(from)),
        gzip_(gzip),
        name_(std::move(name)),
        in_(kBufferBytes, '\0') {}
  ~InflatingSource() override {
    if (begun_) inflateEnd(&z_);
  }
  Status Begin() {
    if (inflateInit2(&z_, MAX_WBITS + (gzip_ ? 16 : 0)) != Z_OK)
      return ResourceExhausted("inflating '", name_, "': no memory");
    begun_ = true;
    return OkStatus();
  }

  Result<size_t> Read(char* to, size_t n) override {
    z_.next_out = reinterpret_cast<Bytef*>(to);
    z_.avail_out = static_cast<uInt>(
        std::min<size_t>(n, std::numeric_limits<uInt>::max()));
    const uInt wanted = z_.avail_out;
    while (z_.avail_out == wanted) {
      if (z_.avail_in == 0) {
        SLUICE_ASSIGN_OR_RETURN(const size_t got,
                                from_->Read(in_.data(), in_.size()));
        if (got == 0) {
          if (between_members_) return size_t{0};
          return DataLoss("inflating '", name_,
                          "': expected the end of the compressed data, got the "
                          "end of the file (truncated)");
        }
        z_.next_in = reinterpret_cast<Bytef*>(in_.data());
        z_.avail_in = static_cast<uInt>(got);
      }
      // (An empty file holds no records.)
      between_members_ = false;
      const int code = inflate(&z_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        between_members_ = true;
        if (inflateReset(&z_) != Z_OK)
          return DataLoss("inflating '", name_, "': cannot begin a member");
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return DataLoss("inflating '", name_, "': expected ",
                        gzip_ ? "gzip's" : "zlib's", " format, got ",
                        z_.msg != nullptr ? z_.msg : "something else");
      }
    }
    return static_cast<size_t>(wanted - z_.avail_out);
  }

 private:
  const std::unique_ptr<ByteSource> from_;
  const bool gzip_;
  const std::string name_;
  std::string in_;
  z_stream z_ = {};
  bool begun_ = false;
  bool between_members_ = true;
};

}  // namespace

Result<RecordCompression> ParseRecordCompression(std::string_view name) {
  if (name.empty()) return RecordCompression::kNone;
  if (name == "ZLIB") return RecordCompression::kZlib;
  if (name == "GZIP") return RecordCompression::kGzip;
  return InvalidArgument("compression_type: expected '', 'ZLIB' or 'GZIP', ",
                         "got '", std::string(name), "'");
}

Result<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FileError("reading", path);
  return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(file, path));
}

std::unique_ptr<ByteSource> MakeMemorySource(std::string bytes) {
  return std::make_unique<MemorySource>(std::move(bytes));
}

Result<std::unique_ptr<ByteSource>> MakeInflatingSource(
    std::unique_ptr<ByteSource> from, RecordCompression compression,
    std::string name) {
  if (compression == RecordCompression::kNone) return from;
  auto made = std::make_unique<InflatingSource>(
      std::move(from), compression == RecordCompression::kGzip,
      std::move(name));
  SLUICE_RETURN_IF_ERROR(made->Begin());
  return std::unique_ptr<ByteSource>(std::move(made));
}

// ---- Reader -----------------------------------------------------------------

class RecordReader::Impl {
 public:
  Impl(std::unique_ptr<ByteSource> source, std::string name,
       int64_t max_record_bytes)
      : source_(std::move(source)),
        name_(std::move(name)),
        max_record_bytes_(max_record_bytes) {}

  Status Read(std::string_view* record) {
    if (failed_.ok()) failed_ = ReadNext(record);
    return failed_;
  }
  int64_t offset() const { return offset_; }

  Status SkipTo(int64_t offset) {
    SLUICE_RETURN_IF_ERROR(failed_);
    if (offset < offset_)
      return InvalidArgument("offset: expected at least ", offset_, ", got ",
                             offset);
    while (offset_ < offset) {
      SLUICE_RETURN_IF_ERROR(Fill(1));
      if (begin_ == end_)
        return OutOfRange("file '", name_, "': expected at least ", offset,
                          " bytes, got ", offset_);
      const size_t n =
          std::min(static_cast<size_t>(offset - offset_), end_ - begin_);
      Consume(n);
    }
    return OkStatus();
  }

 private:
  Status ReadNext(std::string_view* record) {
    SLUICE_RETURN_IF_ERROR(Fill(kHeaderBytes));
    if (begin_ == end_)
      return OutOfRange("file '", name_, "': expected a record, got the end");
    if (end_ - begin_ < kHeaderBytes)
      return Truncated(kHeaderBytes, "a record's header");
    uint64_t length = 0;
    uint32_t checksum = 0;
    std::memcpy(&length, buffer_.data() + begin_, 8);
    std::memcpy(&checksum, buffer_.data() + begin_ + 8, 4);
    if (MaskCrc(Crc32c({buffer_.data() + begin_, 8})) != checksum)
      return Corrupt("its length's checksum");
    if (length > static_cast<uint64_t>(std::max<int64_t>(max_record_bytes_, 0)))
      return ResourceExhausted("file '", name_, "' at byte ", offset_,
                               ": expected a record of at most ",
                               max_record_bytes_, " bytes, got ", length);
    const size_t all =
        kHeaderBytes + static_cast<size_t>(length) + kFooterBytes;
    SLUICE_RETURN_IF_ERROR(Fill(all));
    if (end_ - begin_ < all) return Truncated(all, "a record");
    const std::string_view data(buffer_.data() + begin_ + kHeaderBytes,
                                static_cast<size_t>(length));
    std::memcpy(&checksum, data.data() + data.size(), 4);
    if (MaskCrc(Crc32c(data)) != checksum) return Corrupt("its checksum");
    *record = data;
    Consume(all);
    return OkStatus();
  }

  Status Truncated(size_t want, const char* what) const {
    return DataLoss("file '", name_, "' at byte ", offset_, ": expected ", what,
                    " of ", want, " bytes, got ", end_ - begin_,
                    " (truncated record)");
  }
  Status Corrupt(const char* what) const {
    return DataLoss("file '", name_, "' at byte ", offset_,
                    ": expected a record with ", what,
                    ", got another checksum (corrupted record)");
  }

  void Consume(size_t n) {
    begin_ += n;
    offset_ += static_cast<int64_t>(n);
  }

  // Reads until the buffer holds n bytes or the source ends. It grows only with
  // what was read, so that a length alone costs no memory.
  Status Fill(size_t n) {
    while (end_ - begin_ < n) {
      if (begin_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
      }
      if (end_ == buffer_.size())
        buffer_.resize(std::max(kBufferBytes, 2 * buffer_.size()));
      SLUICE_ASSIGN_OR_RETURN(
          const size_t got,
          source_->Read(buffer_.data() + end_, buffer_.size() - end_));
      if (got == 0) return OkStatus();
      end_ += got;
    }
    return OkStatus();
  }

  const std::unique_ptr<ByteSource> source_;
  const std::string name_;
  const int64_t max_record_bytes_;
  Status failed_;       // Of the last Read; final.
  std::string buffer_;  // [begin_, end_) has been read and not consumed.
  size_t begin_ = 0, end_ = 0;
  int64_t offset_ = 0;  // Of begin_ in the source.
};

RecordReader::RecordReader(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
RecordReader::~RecordReader() = default;

Result<std::unique_ptr<RecordReader>> RecordReader::Open(
    const std::string& path, const RecordOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source,
                          OpenFileSource(path));
  return FromSource(std::move(source), path, options);
}

Result<std::unique_ptr<RecordReader>> RecordReader::FromSource(
    std::unique_ptr<ByteSource> source, std::string name,
    const RecordOptions& options) {
  if (source == nullptr)
    return InvalidArgument("source: expected one, got none");
  SLUICE_ASSIGN_OR_RETURN(
      source,
      MakeInflatingSource(std::move(source), options.compression, name));
  return std::unique_ptr<RecordReader>(new RecordReader(std::make_unique<Impl>(
      std::move(source), std::move(name), options.max_record_bytes)));
}

Status RecordReader::Read(std::string_view* record) {
  return impl_->Read(record);
}
int64_t RecordReader::offset() const { return impl_->offset(); }
Status RecordReader::SkipTo(int64_t offset) { return impl_->SkipTo(offset); }

// ---- Writer -----------------------------------------------------------------

class RecordWriter::Impl {
 public:
  Impl(int file, std::string path, RecordCompression compression)
      : file_(file), path_(std::move(path)), compression_(compression) {}
  ~Impl() {
    if (file_ >= 0) (void)Close();
  }

  Status Begin() {
    if (compression_ == RecordCompression::kNone) return OkStatus();
    const bool gzip = compression_ == RecordCompression::kGzip;
    if (deflateInit2(&z_, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                     MAX_WBITS + (gzip ? 16 : 0), 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
      return ResourceExhausted("writing '", path_, "': no memory");
    deflating_ = true;
    return OkStatus();
  }

  Status Write(std::string_view record) {
    SLUICE_RETURN_IF_ERROR(CheckOpen());
    char header[kHeaderBytes];
    const auto length = static_cast<uint64_t>(record.size());
    std::memcpy(header, &length, 8);
    const uint32_t of_length = MaskCrc(Crc32c({header, 8}));
    std::memcpy(header + 8, &of_length, 4);
    const uint32_t of_record = MaskCrc(Crc32c(record));
    char footer[kFooterBytes];
    std::memcpy(footer, &of_record, 4);
    SLUICE_RETURN_IF_ERROR(Append({header, kHeaderBytes}));
    SLUICE_RETURN_IF_ERROR(Append(record));
    return Append({footer, kFooterBytes});
  }

  Status Flush() {
    SLUICE_RETURN_IF_ERROR(CheckOpen());
    if (deflating_) SLUICE_RETURN_IF_ERROR(Deflate({}, Z_SYNC_FLUSH));
    return WriteOut();
  }

  Status Close() {
    SLUICE_RETURN_IF_ERROR(CheckOpen());
    Status s = deflating_ ? Deflate({}, Z_FINISH) : OkStatus();
    if (s.ok()) s = WriteOut();
    if (deflating_) deflateEnd(&z_);
    deflating_ = false;
    if (close(file_) != 0 && s.ok()) s = FileError("writing", path_);
    file_ = -1;
    return s;
  }

 private:
  Status CheckOpen() const {
    if (file_ >= 0) return OkStatus();
    return FailedPrecondition("writing '", path_,
                              "': expected an open writer, got a closed one");
  }

  Status Append(std::string_view bytes) {
    if (deflating_) return Deflate(bytes, Z_NO_FLUSH);
    buffer_.append(bytes);
    return buffer_.size() < kBufferBytes ? OkStatus() : WriteOut();
  }

  Status Deflate(std::string_view bytes, int flush) {
    // (zlib counts in 32 bits and does not write to its input.)
    auto* from = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    size_t left = bytes.size();
    char block[16 << 10];
    for (;;) {
      if (z_.avail_in == 0) {
        z_.next_in = from;
        z_.avail_in = static_cast<uInt>(
            std::min<size_t>(left, std::numeric_limits<uInt>::max()));
        from += z_.avail_in;
        left -= z_.avail_in;
      }
      z_.next_out = reinterpret_cast<Bytef*>(block);
      z_.avail_out = sizeof(block);
      const int code = deflate(&z_, left == 0 ? flush : Z_NO_FLUSH);
      if (code == Z_STREAM_ERROR)
        return Internal("writing '", path_, "': deflate failed");
      buffer_.append(block, sizeof(block) - z_.avail_out);
      if (buffer_.size() >= kBufferBytes) SLUICE_RETURN_IF_ERROR(WriteOut());
      const bool more = left > 0 || z_.avail_in > 0 || z_.avail_out == 0;
      if (flush == Z_FINISH ? code == Z_STREAM_END : !more) return OkStatus();
    }
  }

  Status WriteOut() {
    for (size_t at = 0; at < buffer_.size();) {
      const ssize_t n = write(file_, buffer_.data() + at, buffer_.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError("writing", path_);
      at += static_cast<size_t>(n);
    }
    buffer_.clear();
    return OkStatus();
  }

  int file_;  // -1: closed.
  const std::string path_;
  const RecordCompression compression_;
  std::string buffer_;
  z_stream z_ = {};
  bool deflating_ = false;
};

RecordWriter::RecordWriter(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
RecordWriter::~RecordWriter() = default;

Result<std::unique_ptr<RecordWriter>> RecordWriter::Open(
    const std::string& path, const RecordOptions& options) {
  const int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return FileError("writing", path);
  auto impl = std::make_unique<Impl>(file, path, options.compression);
  SLUICE_RETURN_IF_ERROR(impl->Begin());
  return std::unique_ptr<RecordWriter>(new RecordWriter(std::move(impl)));
}

Status RecordWriter::Write(std::string_view record) {
  return impl_->Write(record);
}
Status RecordWriter::Flush() { return impl_->Flush(); }
Status RecordWriter::Close() { return impl_->Close(); }

}  // namespace sluice
