#include "io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "io/file.h"

namespace sluice {
namespace {

// The block in which files are read. It stays in the cache nearest to the core
// but one until its bytes have been looked at.
constexpr size_t kBlockBytes = 128 << 10;
constexpr size_t kPageBytes = 4096;

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
  Result<int64_t> Skip(int64_t n) override {
    struct stat about;
    const off_t at = lseek(file_, 0, SEEK_CUR);
    if (at < 0 || fstat(file_, &about) != 0 || !S_ISREG(about.st_mode))
      return ByteSource::Skip(n);
    n = std::min(n, std::max<int64_t>(0, about.st_size - at));
    if (lseek(file_, at + n, SEEK_SET) < 0) return FileError("reading", path_);
    return n;
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
        in_(kBlockBytes, '\0') {}
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
          if (between_members_ || AfterFlush()) return size_t{0};
          return DataLoss("inflating '", name_,
                          "': expected the end of the compressed data, got the "
                          "end of the file (truncated)");
        }
        z_.next_in = reinterpret_cast<Bytef*>(in_.data());
        z_.avail_in = static_cast<uInt>(got);
        tail_.append(in_, got < 4 ? 0 : got - 4, std::min<size_t>(got, 4));
        if (tail_.size() > 4) tail_.erase(0, tail_.size() - 4);
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
  // Whether the data ends where its writer was flushed (Z_SYNC_FLUSH): between
  // two blocks, at a whole byte, after an empty block. A file that was cut off
  // does not end so.
  bool AfterFlush() const {
    constexpr int kBits = 31, kInLastBlock = 64, kBetweenBlocks = 128;
    constexpr std::string_view kEmptyBlock("\0\0\xff\xff", 4);
    return (z_.data_type & (kBits | kInLastBlock | kBetweenBlocks)) ==
               kBetweenBlocks &&
           tail_ == kEmptyBlock;
  }

  const std::unique_ptr<ByteSource> from_;
  const bool gzip_;
  const std::string name_;
  std::string in_;
  z_stream z_ = {};
  bool begun_ = false;
  bool between_members_ = true;
  std::string tail_;  // The last bytes that were read, at most 4.
};

}  // namespace

Result<RecordCompression> ParseRecordCompression(std::string_view name,
                                                 const char* what) {
  if (name.empty()) return RecordCompression::kNone;
  if (name == "ZLIB") return RecordCompression::kZlib;
  if (name == "GZIP") return RecordCompression::kGzip;
  return InvalidArgument(what, ": expected '', 'ZLIB' or 'GZIP', got '",
                         std::string(name), "'");
}

Result<int64_t> ByteSource::Skip(int64_t n) {
  char block[4096];
  int64_t left = n;
  while (left > 0) {
    SLUICE_ASSIGN_OR_RETURN(const size_t got,
                            Read(block, static_cast<size_t>(std::min<int64_t>(
                                            left, sizeof(block)))));
    if (got == 0) break;
    left -= static_cast<int64_t>(got);
  }
  return n - left;
}

Result<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path) {
  const int file = open(LocalPath(path).c_str(), O_RDONLY | O_CLOEXEC);
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

// ---- Through a buffer -------------------------------------------------------

BufferedBytes::BufferedBytes(std::unique_ptr<ByteSource> source)
    : source_(std::move(source)) {}

// Whole pages are read, to where pages begin: the system copies these fastest.
// What is left of earlier ones ends where the new ones begin. It moves there
// only if no more bytes move than were consumed, or there is no room: a source
// that gives little at a time would make a long line take quadratic time.
Status BufferedBytes::ReadMore(size_t n) {
  const auto pages = [](size_t bytes) {
    return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  };
  size_t left = end_ - begin_;
  // For what is short, a block. What is long is read to its end: most of what
  // follows would have to be moved to the front.
  const size_t goal = n <= kBlockBytes / 4 ? kBlockBytes : pages(n - left);
  bool moved = false;
  for (size_t got = 0; left < n; left += got) {
    if (end_ == capacity_ ||
        (!moved && (left <= begin_ || n - left > capacity_ - end_))) {
      const size_t end = pages(left);
      if (end + kPageBytes > capacity_) {
        const size_t capacity =
            std::max(2 * capacity_, kBlockBytes + pages(kBlockBytes / 4));
        Block block(
            static_cast<char*>(std::aligned_alloc(kPageBytes, capacity)));
        if (block == nullptr)
          return ResourceExhausted("reading: no memory for ", capacity,
                                   " bytes");
        std::copy_n(block_.get() + begin_, left, block.get() + end - left);
        block_ = std::move(block);
        capacity_ = capacity;
      } else if (end != end_) {
        std::memmove(block_.get() + end - left, block_.get() + begin_, left);
      }
      begin_ = end - left;
      end_ = end;
      moved = true;
    }
    SLUICE_ASSIGN_OR_RETURN(
        got,
        source_->Read(block_.get() + end_, std::min(goal, capacity_ - end_)));
    if (got == 0) return OkStatus();
    end_ += got;
  }
  return OkStatus();
}

Result<int64_t> BufferedBytes::Skip(int64_t n) {
  const auto here =
      static_cast<int64_t>(std::min<uint64_t>(end_ - begin_, n < 0 ? 0 : n));
  Consume(static_cast<size_t>(here));
  if (here >= n) return here;
  SLUICE_ASSIGN_OR_RETURN(const int64_t more, source_->Skip(n - here));
  offset_ += more;
  return here + more;
}

Result<bool> BufferedBytes::ReadLine(std::string_view* line, size_t max_bytes) {
  *line = {};
  size_t searched = 0, length = 0, all = 0;
  for (;;) {
    const std::string_view bytes = ahead();
    const size_t at = bytes.find('\n', searched);
    if (at != bytes.npos || bytes.size() > max_bytes) {
      length = at;
      all = at + 1;
      break;
    }
    searched = bytes.size();
    SLUICE_RETURN_IF_ERROR(Fill(searched + 1));
    if (ahead().size() == searched) {  // The end.
      length = all = searched;
      break;
    }
  }
  if (length > max_bytes)
    return ResourceExhausted("expected a line of at most ", max_bytes,
                             " bytes, got more");
  *line = ahead().substr(0, length);
  Consume(all);
  if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
  // (As in TensorFlow, a '\r' alone at the end is no line.)
  return all > length || !line->empty();
}

}  // namespace sluice
