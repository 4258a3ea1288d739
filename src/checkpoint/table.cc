#include "checkpoint/table.h"

#include <fcntl.h>
#include <snappy.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/crc32c.h"
#include "io/file.h"
#include "leveldb/env.h"
#include "leveldb/helpers/memenv.h"
#include "leveldb/table_builder.h"

namespace sluice {
namespace {

// TensorFlow's, so that the files are the same.
constexpr size_t kBlockBytes = 256 << 10;
constexpr int kRestartInterval = 16;
// Two handles of at most 20 bytes, zeros up to 40 bytes, and the number.
constexpr size_t kFooterBytes = 48;
constexpr uint64_t kMagic = 0xdb4775248b80fb57u;
// After each block: how it is compressed, and its checksum.
constexpr size_t kTrailerBytes = 5;

Status FromLevelDb(const leveldb::Status& s, const char* what) {
  if (s.ok()) return OkStatus();
  return Internal("making a table: ", what, ": ", s.ToString());
}

// Takes a number off the front. False if there is none.
bool TakeVarint(std::string_view* bytes, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    // (The tenth byte has room for one bit.)
    if (shift == 63 && byte > 1) return false;
    *value |= uint64_t{byte & 0x7fu} << shift;
    // A last byte of zero would be a second spelling of a shorter number.
    if (byte < 0x80) return byte != 0 || shift == 0;
  }
  return false;
}

uint32_t LoadWord(const char* at) {
  uint32_t word = 0;
  std::memcpy(&word, at, 4);
  return word;
}

}  // namespace

// ---- Writing ----------------------------------------------------------------

Result<std::string> MakeTable(const std::map<std::string, std::string>& entries,
                              TableCompression compression) {
  const std::unique_ptr<leveldb::Env> memory(
      leveldb::NewMemEnv(leveldb::Env::Default()));
  const char* const name = "/table";
  leveldb::WritableFile* opened = nullptr;
  SLUICE_RETURN_IF_ERROR(
      FromLevelDb(memory->NewWritableFile(name, &opened), "opening"));
  std::unique_ptr<leveldb::WritableFile> to(opened);
  leveldb::Options options;
  options.block_size = kBlockBytes;
  options.block_restart_interval = kRestartInterval;
  options.compression = compression == TableCompression::kSnappy
                            ? leveldb::kSnappyCompression
                            : leveldb::kNoCompression;
  leveldb::TableBuilder builder(options, to.get());
  for (const auto& [key, value] : entries) builder.Add(key, value);
  SLUICE_RETURN_IF_ERROR(FromLevelDb(builder.Finish(), "writing"));
  const uint64_t size = builder.FileSize();
  to.reset();
  leveldb::RandomAccessFile* written = nullptr;
  SLUICE_RETURN_IF_ERROR(
      FromLevelDb(memory->NewRandomAccessFile(name, &written), "reading"));
  const std::unique_ptr<leveldb::RandomAccessFile> from(written);
  std::string bytes(size, '\0');
  leveldb::Slice read;
  SLUICE_RETURN_IF_ERROR(
      FromLevelDb(from->Read(0, size, &read, bytes.data()), "reading"));
  if (read.size() != size) return Internal("making a table: it is incomplete");
  if (read.data() != bytes.data()) bytes.assign(read.data(), read.size());
  return bytes;
}

// ---- Reading ----------------------------------------------------------------

Status Table::Corrupt(const std::string& what) const {
  return DataLoss("file '", name_, "': expected a sorted table, got ", what,
                  " (corrupted or truncated file)");
}

Result<std::unique_ptr<Table>> Table::Open(const std::string& path) {
  std::unique_ptr<Table> table(new Table(path));
  // (Opening a FIFO would wait for a writer.)
  table->file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (table->file_ < 0) return FileError("reading", path);
  struct stat info = {};
  if (fstat(table->file_, &info) != 0) return FileError("reading", path);
  if (!S_ISREG(info.st_mode))
    return FailedPrecondition("reading '", path,
                              "': expected a file, got something else");
  table->size_ = info.st_size;
  SLUICE_RETURN_IF_ERROR(table->ReadIndex());
  return table;
}

Result<std::unique_ptr<Table>> Table::FromBytes(std::string bytes,
                                                std::string name) {
  std::unique_ptr<Table> table(new Table(std::move(name)));
  table->size_ = static_cast<int64_t>(bytes.size());
  table->memory_ = std::move(bytes);
  SLUICE_RETURN_IF_ERROR(table->ReadIndex());
  return table;
}

Table::~Table() {
  if (file_ >= 0) close(file_);
}

Status Table::ReadBytes(uint64_t offset, size_t n, char* to) const {
  if (file_ < 0) {
    std::memcpy(to, memory_.data() + offset, n);
    return OkStatus();
  }
  while (n > 0) {
    const ssize_t got = pread(file_, to, n, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("reading", name_);
    if (got == 0) return Corrupt("a file that became shorter");
    to += got;
    offset += static_cast<uint64_t>(got);
    n -= static_cast<size_t>(got);
  }
  return OkStatus();
}

// The part of the file that a handle describes; a block and its trailer lie
// before the footer.
Result<Table::Handle> Table::ParseHandle(std::string_view* bytes) const {
  Handle h;
  if (!TakeVarint(bytes, &h.offset) || !TakeVarint(bytes, &h.size))
    return Corrupt("a malformed position of a block");
  const uint64_t room = static_cast<uint64_t>(size_) - kFooterBytes;
  if (h.offset > room || h.size > room - h.offset ||
      room - h.offset - h.size < kTrailerBytes)
    return Corrupt(absl::StrCat("a block of ", h.size, " bytes at ", h.offset,
                                ", beyond the end"));
  return h;
}

Result<std::string> Table::ReadBlock(Handle handle) const {
  std::string block(handle.size + kTrailerBytes, '\0');
  SLUICE_RETURN_IF_ERROR(ReadBytes(handle.offset, block.size(), block.data()));
  const std::string_view checked(block.data(), handle.size + 1);
  if (MaskCrc(Crc32c(checked)) != LoadWord(&block[handle.size + 1]))
    return Corrupt(absl::StrCat("a block at byte ", handle.offset,
                                " with another checksum"));
  const char type = block[handle.size];
  block.resize(handle.size);
  if (type == 0) return block;
  if (type != 1)
    return Corrupt(absl::StrCat("a block of unknown compression ",
                                static_cast<int>(type)));
  size_t length = 0;
  if (!snappy::GetUncompressedLength(block.data(), block.size(), &length) ||
      length / kMaxExpansion > block.size())
    return Corrupt("a block of malformed snappy data");
  std::string plain(length, '\0');
  if (!snappy::RawUncompress(block.data(), block.size(), plain.data()))
    return Corrupt("a block of malformed snappy data");
  return plain;
}

// A block: entries, each with the number of bytes that its key shares with the
// one before; then the positions of entries that share nothing, and their
// number.
Status Table::ForEachIn(std::string_view block, EntryFn fn) const {
  if (block.size() < 4) return Corrupt("a block of less than 4 bytes");
  const uint64_t restarts = LoadWord(block.data() + block.size() - 4);
  if (restarts > (block.size() - 4) / 4)
    return Corrupt("a block with more restarts than bytes");
  std::string_view left = block.substr(0, block.size() - 4 - 4 * restarts);
  std::string key;
  bool first = true;
  while (!left.empty()) {
    uint64_t shared = 0, added = 0, length = 0;
    if (!TakeVarint(&left, &shared) || !TakeVarint(&left, &added) ||
        !TakeVarint(&left, &length) || shared > key.size() ||
        added > left.size() || length > left.size() - added)
      return Corrupt("a block with a malformed entry");
    const std::string_view rest = left.substr(0, added);
    if (!first && rest <= std::string_view(key).substr(shared))
      return Corrupt("keys that are not sorted");
    key.resize(shared);
    key.append(rest);
    first = false;
    SLUICE_RETURN_IF_ERROR(fn(key, left.substr(added, length)));
    left.remove_prefix(added + length);
  }
  return OkStatus();
}

Status Table::ReadIndex() {
  if (size_ < static_cast<int64_t>(kFooterBytes))
    return Corrupt(absl::StrCat(size_, " bytes, less than a footer"));
  char footer[kFooterBytes];
  SLUICE_RETURN_IF_ERROR(ReadBytes(static_cast<uint64_t>(size_) - kFooterBytes,
                                   kFooterBytes, footer));
  uint64_t magic = 0;
  std::memcpy(&magic, footer + kFooterBytes - 8, 8);
  if (magic != kMagic) return Corrupt("another number at the end");
  std::string_view handles(footer, kFooterBytes - 8);
  SLUICE_ASSIGN_OR_RETURN(const Handle meta, ParseHandle(&handles));
  SLUICE_ASSIGN_OR_RETURN(const Handle index, ParseHandle(&handles));
  if (handles.find_first_not_of('\0') != handles.npos)
    return Corrupt("a malformed footer");
  // The meta block could name a filter; checkpoints have none.
  SLUICE_ASSIGN_OR_RETURN(const std::string filters, ReadBlock(meta));
  SLUICE_RETURN_IF_ERROR(ForEachIn(
      filters, [](std::string_view, std::string_view) { return OkStatus(); }));
  SLUICE_ASSIGN_OR_RETURN(const std::string block, ReadBlock(index));
  SLUICE_RETURN_IF_ERROR(ForEachIn(
      block, [this](std::string_view key, std::string_view value) -> Status {
        SLUICE_ASSIGN_OR_RETURN(const Handle h, ParseHandle(&value));
        if (!value.empty()) return Corrupt("a malformed position of a block");
        blocks_.push_back({std::string(key), h});
        return OkStatus();
      }));
  // Blocks follow each other without gaps: nothing is left unchecked, and a
  // small file cannot ask for its blocks to be read many times.
  uint64_t at = 0;
  for (const IndexEntry& e : blocks_) {
    if (e.block.offset != at) return Corrupt("blocks with gaps between them");
    at += e.block.size + kTrailerBytes;
  }
  if (meta.offset != at || index.offset != at + meta.size + kTrailerBytes ||
      index.offset + index.size + kTrailerBytes + kFooterBytes !=
          static_cast<uint64_t>(size_))
    return Corrupt("blocks with gaps between them");
  return OkStatus();
}

Status Table::ForEach(EntryFn fn) const {
  std::string before;
  bool first = true;
  for (const IndexEntry& e : blocks_) {
    SLUICE_ASSIGN_OR_RETURN(const std::string block, ReadBlock(e.block));
    SLUICE_RETURN_IF_ERROR(ForEachIn(
        block, [&](std::string_view key, std::string_view value) -> Status {
          if ((!first && key <= before) || key > e.last_key)
            return Corrupt("keys that are not sorted");
          first = false;
          before = key;
          return fn(key, value);
        }));
  }
  return OkStatus();
}

Result<std::optional<std::string>> Table::Lookup(std::string_view key) const {
  const auto e = std::lower_bound(
      blocks_.begin(), blocks_.end(), key,
      [](const IndexEntry& b, std::string_view k) { return b.last_key < k; });
  std::optional<std::string> found;
  if (e == blocks_.end()) return found;
  SLUICE_ASSIGN_OR_RETURN(const std::string block, ReadBlock(e->block));
  SLUICE_RETURN_IF_ERROR(
      ForEachIn(block, [&](std::string_view k, std::string_view value) {
        if (k == key) found = std::string(value);
        return OkStatus();
      }));
  return found;
}

}  // namespace sluice
