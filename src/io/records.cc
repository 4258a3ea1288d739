#include "io/records.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "io/crc32c.h"
#include "io/file.h"

namespace sluice {
namespace {

constexpr size_t kPieceBytes = 128 << 10;  // Of a long record.
// Before a record: its length and the checksum of it. After it: its own.
constexpr size_t kHeaderBytes = 12;
constexpr size_t kFooterBytes = 4;

}  // namespace

// ---- Reader -----------------------------------------------------------------

class RecordReader::Impl {
 public:
  Impl(std::unique_ptr<ByteSource> source, std::string name,
       int64_t max_record_bytes)
      : bytes_(std::move(source)),
        name_(std::move(name)),
        max_record_bytes_(max_record_bytes) {}

  Status Read(std::string_view* record) {
    if (failed_.ok()) [[likely]]
      failed_ = ReadNext(record);
    return failed_;
  }
  int64_t offset() const { return bytes_.offset(); }
  bool ended_early() const { return ended_early_; }

  Status SkipTo(int64_t offset) {
    SLUICE_RETURN_IF_ERROR(failed_);
    if (offset < bytes_.offset())
      return InvalidArgument("offset: expected at least ", bytes_.offset(),
                             ", got ", offset);
    SLUICE_RETURN_IF_ERROR(bytes_.Skip(offset - bytes_.offset()).status());
    if (bytes_.offset() == offset) return OkStatus();
    return OutOfRange("file '", name_, "': expected at least ", offset,
                      " bytes, got ", bytes_.offset());
  }

 private:
  Status ReadNext(std::string_view* record) {
    SLUICE_RETURN_IF_ERROR(bytes_.Fill(kHeaderBytes));
    std::string_view ahead = bytes_.ahead();
    if (ahead.empty())
      return OutOfRange("file '", name_, "': expected a record, got the end");
    if (ahead.size() < kHeaderBytes)
      return Truncated(kHeaderBytes, "a record's header");
    uint64_t length = 0;
    uint32_t checksum = 0;
    std::memcpy(&length, ahead.data(), 8);
    std::memcpy(&checksum, ahead.data() + 8, 4);
    if (MaskCrc(Crc32c(ahead.substr(0, 8))) != checksum)
      return Corrupt("its length's checksum");
    if (length > static_cast<uint64_t>(std::max<int64_t>(max_record_bytes_, 0)))
      return ResourceExhausted("file '", name_, "' at byte ", offset(),
                               ": expected a record of at most ",
                               max_record_bytes_, " bytes, got ", length);
    const auto size = static_cast<size_t>(length);
    const size_t all = kHeaderBytes + size + kFooterBytes;
    // A long record is checked piece by piece, while it is in the cache.
    uint32_t crc = 0;
    for (size_t done = 0, upto = 0; done < size; done = upto) {
      upto = std::min(size, done + kPieceBytes);
      SLUICE_RETURN_IF_ERROR(
          bytes_.Fill(upto == size ? all : kHeaderBytes + upto));
      ahead = bytes_.ahead();
      if (ahead.size() < kHeaderBytes + upto) return Truncated(all, "a record");
      crc = Crc32c(ahead.substr(kHeaderBytes + done, upto - done), crc);
    }
    SLUICE_RETURN_IF_ERROR(bytes_.Fill(all));
    ahead = bytes_.ahead();
    if (ahead.size() < all) return Truncated(all, "a record");
    std::memcpy(&checksum, ahead.data() + all - kFooterBytes, 4);
    if (MaskCrc(crc) != checksum) return Corrupt("its checksum");
    *record = ahead.substr(kHeaderBytes, size);
    bytes_.Consume(all);
    return OkStatus();
  }

  Status Truncated(size_t want, const char* what) {
    ended_early_ = true;
    return DataLoss("file '", name_, "' at byte ", offset(), ": expected ",
                    what, " of ", want, " bytes, got ", bytes_.ahead().size(),
                    " (truncated record)");
  }
  Status Corrupt(const char* what) const {
    return DataLoss("file '", name_, "' at byte ", offset(),
                    ": expected a record with ", what,
                    ", got another checksum (corrupted record)");
  }

  BufferedBytes bytes_;
  const std::string name_;
  const int64_t max_record_bytes_;
  Status failed_;  // Of the last Read; final.
  bool ended_early_ = false;
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
bool RecordReader::ended_early() const { return impl_->ended_early(); }
Status RecordReader::SkipTo(int64_t offset) { return impl_->SkipTo(offset); }

// ---- Writer -----------------------------------------------------------------

class RecordWriter::Impl {
 public:
  Impl(int file, std::string path, const RecordOptions& options)
      : file_(file), path_(std::move(path)), options_(options) {}
  ~Impl() {
    if (file_ >= 0) (void)Close();
  }

  Status Begin() {
    if (options_.compression == RecordCompression::kNone) return OkStatus();
    const bool gzip = options_.compression == RecordCompression::kGzip;
    if (deflateInit2(&z_, options_.compression_level, Z_DEFLATED,
                     options_.window_bits + (gzip ? 16 : 0), options_.mem_level,
                     options_.strategy) != Z_OK)
      return ResourceExhausted("writing '", path_, "': no memory");
    deflating_ = true;
    return OkStatus();
  }

  Status Write(std::string_view record) {
    SLUICE_RETURN_IF_ERROR(CheckOpen());
    if (failed_.ok()) [[likely]]
      failed_ = WriteRecord(record);
    return failed_;
  }

  Status Flush() {
    SLUICE_RETURN_IF_ERROR(CheckOpen());
    if (failed_.ok() && deflating_) failed_ = DeflateCollected(Z_SYNC_FLUSH);
    if (failed_.ok()) failed_ = WriteOut();
    return failed_;
  }

  Status Close() {
    SLUICE_RETURN_IF_ERROR(CheckOpen());
    if (failed_.ok() && deflating_) failed_ = DeflateCollected(Z_FINISH);
    if (failed_.ok()) failed_ = WriteOut();
    if (deflating_) deflateEnd(&z_);
    deflating_ = false;
    if (close(file_) != 0 && failed_.ok())
      failed_ = FileError("writing", path_);
    file_ = -1;
    return failed_;
  }

 private:
  Status CheckOpen() const {
    if (file_ >= 0) return OkStatus();
    return FailedPrecondition("writing '", path_,
                              "': expected an open writer, got a closed one");
  }

  Status WriteRecord(std::string_view record) {
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
    SLUICE_RETURN_IF_ERROR(Append({footer, kFooterBytes}));
    if (!deflating_ ||
        static_cast<int64_t>(collected_.size()) < options_.input_buffer_bytes)
      return OkStatus();
    SLUICE_RETURN_IF_ERROR(DeflateCollected(options_.flush_mode));
    return options_.flush_mode == Z_NO_FLUSH ? OkStatus() : WriteOut();
  }

  Status Append(std::string_view bytes) {
    if (deflating_ && options_.input_buffer_bytes == 0)
      return Deflate(bytes, Z_NO_FLUSH);
    if (deflating_) {
      collected_.append(bytes);
      return OkStatus();
    }
    buffer_.append(bytes);
    return Full() ? WriteOut() : OkStatus();
  }

  Status DeflateCollected(int flush) {
    if (collected_.empty() && flush == Z_NO_FLUSH) return OkStatus();
    SLUICE_RETURN_IF_ERROR(Deflate(collected_, flush));
    collected_.clear();
    return OkStatus();
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
      if (Full()) SLUICE_RETURN_IF_ERROR(WriteOut());
      const bool more = left > 0 || z_.avail_in > 0 || z_.avail_out == 0;
      if (flush == Z_FINISH ? code == Z_STREAM_END : !more) return OkStatus();
    }
  }

  bool Full() const {
    return static_cast<int64_t>(buffer_.size()) >= options_.buffer_bytes;
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
  const RecordOptions options_;
  std::string buffer_;     // For the file.
  std::string collected_;  // To be compressed.
  z_stream z_ = {};
  bool deflating_ = false;
  // Of the first call that failed; final. Part of what was to be written may be
  // in the file by then, and zlib may still refer to the caller's record: after
  // an error nothing is compressed or written.
  Status failed_;
};

RecordWriter::RecordWriter(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
RecordWriter::~RecordWriter() = default;

Result<std::unique_ptr<RecordWriter>> RecordWriter::Open(
    const std::string& path, const RecordOptions& options) {
  const struct {
    const char* name;
    int value, min, max;
  } limits[] = {
      {"compression_level", options.compression_level, -1, 9},
      {"window_bits", options.window_bits, 9, MAX_WBITS},
      {"mem_level", options.mem_level, 1, MAX_MEM_LEVEL},
      {"strategy", options.strategy, Z_DEFAULT_STRATEGY, Z_FIXED},
      {"flush_mode", options.flush_mode, Z_NO_FLUSH, Z_BLOCK},
  };
  for (const auto& l : limits)
    if (l.value < l.min || l.value > l.max)
      return InvalidArgument(l.name, ": expected ", l.min, " to ", l.max,
                             ", got ", l.value);
  if (options.flush_mode == Z_FINISH)
    return InvalidArgument(
        "flush_mode: expected one that does not end the file, got Z_FINISH");
  if (options.buffer_bytes < 1)
    return InvalidArgument("buffer_bytes: expected at least 1, got ",
                           options.buffer_bytes);
  if (options.input_buffer_bytes < 0)
    return InvalidArgument("input_buffer_bytes: expected at least 0, got ",
                           options.input_buffer_bytes);
  const int file = open(LocalPath(path).c_str(),
                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return FileError("writing", path);
  auto impl = std::make_unique<Impl>(file, path, options);
  SLUICE_RETURN_IF_ERROR(impl->Begin());
  return std::unique_ptr<RecordWriter>(new RecordWriter(std::move(impl)));
}

Status RecordWriter::Write(std::string_view record) {
  return impl_->Write(record);
}
Status RecordWriter::Flush() { return impl_->Flush(); }
Status RecordWriter::Close() { return impl_->Close(); }

}  // namespace sluice
