// Bytes that are read one after the other: from files, plain or compressed, and
// through a buffer.
#ifndef SLUICE_IO_BYTE_SOURCE_H_
#define SLUICE_IO_BYTE_SOURCE_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace sluice {

enum class RecordCompression : uint8_t { kNone, kZlib, kGzip };

// From TensorFlow's names: "", "ZLIB", "GZIP". InvalidArgument for others;
// `what` names the value.
Result<RecordCompression> ParseRecordCompression(
    std::string_view name, const char* what = "compression_type");

// Bytes, from a file or another source. Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to n bytes, at least one; 0 at the end.
  virtual Result<size_t> Read(char* to, size_t n) = 0;
  // Leaves out up to n bytes, without reading them if possible. Returns how
  // many, which are fewer than n only at the end.
  virtual Result<int64_t> Skip(int64_t n);
};

// NotFound if the file does not exist.
Result<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path);
std::unique_ptr<ByteSource> MakeMemorySource(std::string bytes);
// What the bytes of `from`, which `name` names in messages, decompress to: all
// members of a gzip file. DataLoss if they are malformed or end early.
Result<std::unique_ptr<ByteSource>> MakeInflatingSource(
    std::unique_ptr<ByteSource> from, RecordCompression compression,
    std::string name);

// The bytes of a source through a buffer, which is used again: memory is needed
// for what is looked at together, not for the file. Not thread-safe.
class BufferedBytes {
 public:
  // `source`: not null.
  explicit BufferedBytes(std::unique_ptr<ByteSource> source);

  // Reads until ahead() holds n bytes or the source ends. The buffer grows only
  // with what was read, so that a large n alone costs no memory. Views of the
  // buffer end here.
  Status Fill(size_t n) {
    if (end_ - begin_ >= n) [[likely]]
      return OkStatus();
    return ReadMore(n);
  }
  // What has been read and not been consumed.
  std::string_view ahead() const {
    return {block_.get() + begin_, end_ - begin_};
  }
  // REQUIRES: n <= ahead().size().
  void Consume(size_t n) {
    begin_ += n;
    offset_ += static_cast<int64_t>(n);
  }
  // Consumes up to n bytes and returns how many; fewer only at the end.
  Result<int64_t> Skip(int64_t n);
  // Consumes the bytes up to the next '\n', and that, and sets `line` to them,
  // without a '\r' in front of it; it is valid until the next Fill. The last
  // line may lack its '\n'. Returns false, and an empty line, if nothing is
  // left. ResourceExhausted for a line of more than `max_bytes`.
  Result<bool> ReadLine(std::string_view* line, size_t max_bytes);
  // Of ahead() in the source.
  int64_t offset() const { return offset_; }

 private:
  Status ReadMore(size_t n);

  const std::unique_ptr<ByteSource> source_;
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  using Block = std::unique_ptr<char, Free>;
  Block block_;  // Of whole pages.
  size_t capacity_ = 0;
  size_t begin_ = 0, end_ = 0;  // What has been read and not been consumed.
  int64_t offset_ = 0;          // Of begin_ in the source.
};

}  // namespace sluice

#endif  // SLUICE_IO_BYTE_SOURCE_H_
