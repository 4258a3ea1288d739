// Version 2: an index, and files of elements.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "checkpoint/bundle_writer.h"
#include "checkpoint/proto/checkpoint.pb.h"
#include "checkpoint/saved_parts.h"
#include "checkpoint/stored_slice.h"
#include "checkpoint/table.h"
#include "graph/tensor_proto.h"
#include "io/crc32c.h"
#include "io/file.h"

namespace sluice {
namespace {

constexpr int kKnownVersion = 1;

Result<DType> KnownType(int value) {
  SLUICE_ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(value));
  if (IsRef(dtype)) return InvalidArgument("type: expected no reference");
  return dtype;
}

Result<Shape> KnownShape(const proto::TensorShapeProto& p) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape shape, ShapeFromProto(p));
  return shape.ToShape();
}

// Reverses the bytes of each number. (Of complex numbers, the parts are such.)
void SwapBytes(DType dtype, char* at, size_t n) {
  const size_t width =
      IsComplex(dtype) ? DTypeSize(dtype) / 2 : DTypeSize(dtype);
  for (size_t i = 0; i < n; i += width) std::reverse(at + i, at + i + width);
}

class BundleFiles final : public SavedFiles {
 public:
  explicit BundleFiles(std::string prefix) : prefix_(std::move(prefix)) {}
  ~BundleFiles() override {
    for (const File& f : files_)
      if (f.file >= 0) close(f.file);
  }

  Status Open(SavedParts* found);

  // (The other byte order is rare: such parts are read as a whole.)
  bool HasBytes(DType dtype) const override {
    return IsPlain(dtype) && !swapped_;
  }
  Status CheckPart(const std::string& name,
                   const SavedPart& part) const override;
  Status ReadBytes(const std::string& name, const SavedPart& part,
                   int64_t begin, size_t n, char* to) const override;
  Result<Tensor> ReadPart(const std::string& name, DType dtype,
                          const SavedPart& part) const override;
  std::string FileOf(const SavedPart& part) const override {
    return BundleDataName(prefix_, part.file, shards_);
  }

 private:
  struct File {
    int file = -1;
    int64_t size = 0;
    Status failed;  // Why it is not open.
  };
  Status ReadHeader(std::string_view value);
  Status OpenFiles(const SavedParts& found);
  Result<SavedPart> PartOf(const proto::BundleEntryProto& entry) const;
  Status ReadStrings(const std::string& name, const SavedPart& part,
                     Tensor* to) const;
  Status Corrupt(const std::string& name, const SavedPart& part,
                 const std::string& what) const {
    return DataLoss("file '", FileOf(part), "', tensor '", name, "' at byte ",
                    part.offset, ": expected ", what,
                    " (corrupted checkpoint)");
  }

  const std::string prefix_;
  int shards_ = 0;
  bool swapped_ = false;
  std::vector<File> files_;
};

Status BundleFiles::ReadHeader(std::string_view value) {
  proto::BundleHeaderProto header;
  if (!header.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
      header.num_shards() < 1 || header.num_shards() > kMaxBundleShards)
    return DataLoss(
        "expected a header with a number of data files, got "
        "something else (corrupted checkpoint)");
  if (header.version().min_consumer() > kKnownVersion)
    return Unimplemented("expected a format of version ", kKnownVersion,
                         " at most, got ", header.version().min_consumer());
  shards_ = header.num_shards();
  const bool big = header.endianness() == proto::BundleHeaderProto::BIG;
  swapped_ = big != (std::endian::native == std::endian::big);
  return OkStatus();
}

Result<SavedPart> BundleFiles::PartOf(
    const proto::BundleEntryProto& entry) const {
  SavedPart part;
  SLUICE_ASSIGN_OR_RETURN(const DType dtype, KnownType(entry.dtype()));
  SLUICE_ASSIGN_OR_RETURN(part.shape, KnownShape(entry.shape()));
  part.file = entry.shard_id();
  part.offset = entry.offset();
  part.size = entry.size();
  part.masked_crc = entry.crc32c();
  if (part.file < 0 || part.file >= shards_)
    return DataLoss("expected a data file from 0 to ", shards_ - 1, ", got ",
                    part.file);
  int64_t end = 0, bytes = 0;
  if (part.offset < 0 || part.size < 0 ||
      __builtin_add_overflow(part.offset, part.size, &end))
    return DataLoss("expected a position in a file, got ", part.offset, "+",
                    part.size);
  if (IsPlain(dtype) &&
      (__builtin_mul_overflow(part.shape.num_elements(),
                              static_cast<int64_t>(DTypeSize(dtype)), &bytes) ||
       bytes != part.size))
    return DataLoss("expected as many bytes as a ", DTypeName(dtype),
                    part.shape.ToString(), " has, got ", part.size);
  // Each string takes a byte at least.
  if (dtype == DType::kString && part.shape.num_elements() > part.size)
    return DataLoss("expected at least ", part.shape.num_elements(),
                    " bytes of strings, got ", part.size);
  return part;
}

Status BundleFiles::Open(SavedParts* found) {
  const std::string index = BundleIndexName(prefix_);
  SLUICE_ASSIGN_OR_RETURN(const auto table, Table::Open(index));
  std::map<std::string, proto::BundleEntryProto> entries;
  bool has_header = false;
  const Status read = table->ForEach(
      [&](std::string_view key, std::string_view value) -> Status {
        if (key.empty()) {
          has_header = true;
          return ReadHeader(value);
        }
        proto::BundleEntryProto entry;
        if (!entry.ParseFromArray(value.data(), static_cast<int>(value.size())))
          return DataLoss("tensor '", std::string(key),
                          "': expected an entry, got something else "
                          "(corrupted checkpoint)");
        entries.emplace_hint(entries.end(), std::string(key), std::move(entry));
        return OkStatus();
      });
  if (!read.ok() && absl::StartsWith(read.message(), "file '")) return read;
  SLUICE_RETURN_IF_ERROR(Annotate(read, absl::StrCat("file '", index, "'")));
  if (!has_header)
    return DataLoss("file '", index,
                    "': expected a header, got none "
                    "(corrupted checkpoint)");
  for (const auto& pair : entries) {
    const std::string& name = pair.first;
    const proto::BundleEntryProto& entry = pair.second;
    // The keys of slices begin with a zero; names of tensors do not.
    if (name[0] == '\0') continue;
    const std::string at =
        absl::StrCat("file '", index, "', tensor '", name, "'");
    SavedTensor tensor;
    std::vector<SavedPart> parts;
    const Status s = [&]() -> Status {
      SLUICE_ASSIGN_OR_RETURN(tensor.dtype, KnownType(entry.dtype()));
      SLUICE_ASSIGN_OR_RETURN(tensor.shape, KnownShape(entry.shape()));
      if (entry.slices().empty()) {
        SLUICE_ASSIGN_OR_RETURN(SavedPart part, PartOf(entry));
        parts.push_back(std::move(part));
        tensor.slices.emplace_back(tensor.shape.rank());
        return OkStatus();
      }
      for (const auto& p : entry.slices()) {
        SLUICE_ASSIGN_OR_RETURN(TensorSlice slice, SliceFromProto(p));
        const auto it = entries.find(SliceKey(name, slice));
        if (it == entries.end())
          return DataLoss("expected an entry of slice '", slice.ToString(),
                          "', got none");
        SLUICE_ASSIGN_OR_RETURN(SavedPart part, PartOf(it->second));
        if (it->second.dtype() != entry.dtype())
          return DataLoss("expected slices of one type, got others");
        parts.push_back(std::move(part));
        tensor.slices.push_back(std::move(slice));
      }
      return OkStatus();
    }();
    SLUICE_RETURN_IF_ERROR(Annotate(s, at));
    SLUICE_RETURN_IF_ERROR(
        AddTensor(index, name, std::move(tensor), std::move(parts), found));
  }
  return OpenFiles(*found);
}

// Opened now, so that what is read later belongs to this index. A file that no
// part needs may be missing, as one that is read later.
Status BundleFiles::OpenFiles(const SavedParts& found) {
  std::vector<bool> needed(static_cast<size_t>(shards_));
  for (const auto& [name, parts] : found.parts)
    for (const SavedPart& part : parts)
      needed[static_cast<size_t>(part.file)] = true;
  files_.resize(static_cast<size_t>(shards_));
  for (int i = 0; i < shards_; ++i) {
    File& f = files_[static_cast<size_t>(i)];
    if (!needed[static_cast<size_t>(i)]) continue;
    const std::string path = BundleDataName(prefix_, i, shards_);
    // (Opening a FIFO would wait for a writer.)
    f.file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f.file < 0) {
      f.failed = FileError("reading", path);
      continue;
    }
    struct stat info = {};
    if (fstat(f.file, &info) != 0)
      f.failed = FileError("reading", path);
    else if (!S_ISREG(info.st_mode))
      f.failed = FailedPrecondition("reading '", path,
                                    "': expected a file, "
                                    "got something else");
    f.size = info.st_size;
  }
  return OkStatus();
}

Status BundleFiles::CheckPart(const std::string& name,
                              const SavedPart& part) const {
  const File& f = files_[static_cast<size_t>(part.file)];
  if (!f.failed.ok())
    return Annotate(f.failed, absl::StrCat("tensor '", name, "'"));
  if (part.offset + part.size > f.size)
    return Corrupt(
        name, part,
        absl::StrCat(part.size, " bytes, got a file that ends at ", f.size));
  return OkStatus();
}

Status BundleFiles::ReadBytes(const std::string& name, const SavedPart& part,
                              int64_t begin, size_t n, char* to) const {
  SLUICE_RETURN_IF_ERROR(CheckPart(name, part));
  const File& f = files_[static_cast<size_t>(part.file)];
  off_t at = part.offset + begin;
  while (n > 0) {
    const ssize_t got = pread(f.file, to, n, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return Annotate(FileError("reading", FileOf(part)),
                      absl::StrCat("tensor '", name, "'"));
    if (got == 0)
      return Corrupt(name, part, "more bytes, got a file that became shorter");
    at += got;
    to += got;
    n -= static_cast<size_t>(got);
  }
  return OkStatus();
}

Status BundleFiles::ReadStrings(const std::string& name, const SavedPart& part,
                                Tensor* to) const {
  SLUICE_RETURN_IF_ERROR(CheckPart(name, part));
  std::string bytes(static_cast<size_t>(part.size), '\0');
  SLUICE_RETURN_IF_ERROR(ReadBytes(name, part, 0, bytes.size(), bytes.data()));
  std::string_view left = bytes;
  std::vector<uint64_t> lengths;
  uint32_t crc = 0;
  uint64_t total = 0;
  for (int64_t i = 0; i < part.shape.num_elements(); ++i) {
    uint64_t length = 0;
    int shift = 0;
    bool more = true;
    for (; more && !left.empty() && shift < 63; shift += 7) {
      length |= uint64_t{static_cast<uint8_t>(left[0]) & 0x7fu} << shift;
      more = (left[0] & 0x80) != 0;
      left.remove_prefix(1);
    }
    if (more || length > bytes.size())
      return Corrupt(name, part, "lengths of strings, got other bytes");
    lengths.push_back(length);
    total += length;
    char word[8] = {};
    const size_t n = length <= UINT32_MAX ? 4 : 8;
    for (size_t b = 0; b < n; ++b)
      word[swapped_ ? n - 1 - b : b] = static_cast<char>(length >> (8 * b));
    crc = Crc32c({word, n}, crc);
  }
  uint32_t stored = 0;
  if (left.size() < 4)
    return Corrupt(name, part,
                   "a checksum of the strings' lengths, got the "
                   "end");
  std::memcpy(&stored, left.data(), 4);
  if (swapped_) stored = __builtin_bswap32(stored);
  if (stored != MaskCrc(crc))
    return Corrupt(name, part,
                   "lengths of strings with their checksum, got "
                   "another");
  crc = Crc32c(left.substr(0, 4), crc);
  left.remove_prefix(4);
  if (left.size() != total)
    return Corrupt(name, part,
                   absl::StrCat(total, " bytes of strings, got ", left.size()));
  if (MaskCrc(Crc32c(left, crc)) != part.masked_crc)
    return Corrupt(name, part, "bytes with the index's checksum, got another");
  SLUICE_ASSIGN_OR_RETURN(*to, Tensor::Make(DType::kString, part.shape));
  for (size_t i = 0; i < lengths.size(); ++i) {
    to->raw<std::string>()[i].assign(left.substr(0, lengths[i]));
    left.remove_prefix(lengths[i]);
  }
  return OkStatus();
}

Result<Tensor> BundleFiles::ReadPart(const std::string& name, DType dtype,
                                     const SavedPart& part) const {
  Tensor out;
  if (dtype == DType::kString) {
    SLUICE_RETURN_IF_ERROR(ReadStrings(name, part, &out));
    return out;
  }
  if (!IsPlain(dtype))
    return Unimplemented("file '", FileOf(part), "', tensor '", name,
                         "': expected a type whose elements have a meaning "
                         "outside of the process that wrote them, got ",
                         DTypeName(dtype));
  SLUICE_RETURN_IF_ERROR(CheckPart(name, part));
  SLUICE_ASSIGN_OR_RETURN(out, Tensor::Make(dtype, part.shape));
  SLUICE_RETURN_IF_ERROR(
      ReadBytes(name, part, 0, out.bytes(), out.raw<char>()));
  if (MaskCrc(Crc32c({out.raw<char>(), out.bytes()})) != part.masked_crc)
    return Corrupt(name, part, "bytes with the index's checksum, got another");
  if (swapped_) SwapBytes(dtype, out.raw<char>(), out.bytes());
  return out;
}

}  // namespace

Result<std::unique_ptr<SavedFiles>> OpenBundle(const std::string& prefix,
                                               SavedParts* found) {
  auto files = std::make_unique<BundleFiles>(prefix);
  SLUICE_RETURN_IF_ERROR(files->Open(found));
  return files;
}

}  // namespace sluice
