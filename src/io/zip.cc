#include "io/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sluice {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50,
                   kEnd = 0x06054b50, kNone = 0xffffffff;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22;
// Deflate cannot compress better than this: a larger claim is invalid.
constexpr uint64_t kMaxRatio = 1040;

uint16_t Get16(std::string_view s, size_t at) {
  return static_cast<uint16_t>(static_cast<unsigned char>(s[at]) |
                               static_cast<unsigned char>(s[at + 1]) << 8);
}
uint32_t Get32(std::string_view s, size_t at) {
  return Get16(s, at) | static_cast<uint32_t>(Get16(s, at + 2)) << 16;
}
void Put16(uint32_t v, std::string* out) {
  out->push_back(static_cast<char>(v & 0xff));
  out->push_back(static_cast<char>(v >> 8 & 0xff));
}
void Put32(uint32_t v, std::string* out) {
  Put16(v & 0xffff, out);
  Put16(v >> 16, out);
}

uint32_t Checksum(std::string_view s) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(s.data()), s.size()));
}

Status BadZip(std::string_view what) {
  return InvalidArgument("zip: expected ", std::string(what));
}

// A z_stream with RAII cleanup.
struct Stream {
  z_stream z = {};
  int (*end)(z_stream*) = nullptr;
  ~Stream() {
    if (end != nullptr) end(&z);
  }
};

void SetInput(std::string_view in, z_stream* z) {
  z->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  z->avail_in = static_cast<uInt>(in.size());
}

Result<std::string> Inflate(std::string_view in, uint32_t size) {
  if (size > in.size() * kMaxRatio)
    return InvalidArgument("zip: expected a member that can be inflated from ",
                           in.size(), " bytes, got a size of ", size);
  Stream s;
  if (inflateInit2(&s.z, -MAX_WBITS) != Z_OK)
    return ResourceExhausted("zip: no memory to inflate");
  s.end = inflateEnd;
  std::string out(size, '\0');
  SetInput(in, &s.z);
  char spare = 0;  // zlib needs a valid pointer even for zero bytes.
  s.z.next_out = reinterpret_cast<Bytef*>(size > 0 ? out.data() : &spare);
  s.z.avail_out = size;
  const int code = inflate(&s.z, Z_FINISH);
  if (code != Z_STREAM_END || s.z.avail_out != 0)
    return DataLoss("zip: expected ", size, " bytes of deflated data, got ",
                    s.z.total_out, " good ones");
  return out;
}

Result<std::string> Deflate(std::string_view in) {
  Stream s;
  if (deflateInit2(&s.z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    return ResourceExhausted("zip: no memory to deflate");
  s.end = deflateEnd;
  std::string out(deflateBound(&s.z, in.size()), '\0');
  SetInput(in, &s.z);
  s.z.next_out = reinterpret_cast<Bytef*>(out.data());
  s.z.avail_out = static_cast<uInt>(out.size());
  if (deflate(&s.z, Z_FINISH) != Z_STREAM_END)
    return Internal("zip: deflating failed");
  out.resize(s.z.total_out);
  return out;
}

// Finds the end record: the last candidate whose comment reaches exactly to the
// end of the file.
Result<size_t> FindEnd(std::string_view bytes) {
  if (bytes.size() >= kEndSize) {
    const size_t first =
        bytes.size() - std::min<size_t>(bytes.size(), kEndSize + 0xffff);
    for (size_t at = bytes.size() - kEndSize + 1; at-- > first;)
      if (Get32(bytes, at) == kEnd &&
          at + kEndSize + Get16(bytes, at + 20) == bytes.size())
        return at;
  }
  return BadZip("an archive with its directory at the end (truncated?)");
}

// One entry of the directory.
struct Entry {
  uint16_t flags, method;
  uint32_t crc, packed, size, offset;
  std::string name;
};

Result<std::string> ReadMember(std::string_view bytes, size_t directory,
                               const Entry& e) {
  if (e.flags & 1) return Unimplemented("zip: expected no encryption");
  if (e.packed == kNone || e.size == kNone || e.offset == kNone)
    return Unimplemented("zip: expected members below 4 GiB, got zip64");
  if (e.offset > directory || directory - e.offset < kLocalSize ||
      Get32(bytes, e.offset) != kLocal)
    return BadZip("a local header where the directory says");
  const size_t start = e.offset + kLocalSize + Get16(bytes, e.offset + 26) +
                       Get16(bytes, e.offset + 28);
  if (start > directory || directory - start < e.packed)
    return BadZip("members before the directory (truncated?)");
  const std::string_view data = bytes.substr(start, e.packed);
  std::string out;
  if (e.method == 0) {
    if (e.packed != e.size) return BadZip("a stored member of one size");
    out = data;
  } else if (e.method == 8) {
    SLUICE_ASSIGN_OR_RETURN(out, Inflate(data, e.size));
  } else {
    return Unimplemented(
        "zip: expected stored or deflated members, got "
        "compression method ",
        e.method);
  }
  if (Checksum(out) != e.crc)
    return DataLoss("zip: expected checksum ", e.crc, ", got ", Checksum(out));
  return out;
}

}  // namespace

Result<ZipMembers> ReadZip(std::string_view bytes, int64_t max_bytes) {
  SLUICE_ASSIGN_OR_RETURN(const size_t end, FindEnd(bytes));
  const size_t count = Get16(bytes, end + 10);
  const size_t directory = Get32(bytes, end + 16);
  if (count == 0xffff || directory == kNone)
    return Unimplemented("zip: expected an archive below 4 GiB, got zip64");
  if (Get16(bytes, end + 4) != 0 || Get16(bytes, end + 8) != count)
    return Unimplemented("zip: expected an archive in one part");
  if (directory > end) return BadZip("the directory before its end record");
  ZipMembers members;
  size_t at = directory;
  for (size_t i = 0; i < count; ++i) {
    if (end - at < kCentralSize || Get32(bytes, at) != kCentral)
      return BadZip("as many entries as the directory claims");
    Entry e{Get16(bytes, at + 8),
            Get16(bytes, at + 10),
            Get32(bytes, at + 16),
            Get32(bytes, at + 20),
            Get32(bytes, at + 24),
            Get32(bytes, at + 42),
            {}};
    const size_t name = Get16(bytes, at + 28);
    const size_t rest = name + Get16(bytes, at + 30) + Get16(bytes, at + 32);
    if (end - at - kCentralSize < rest)
      return BadZip("whole directory entries");
    e.name = bytes.substr(at + kCentralSize, name);
    at += kCentralSize + rest;
    if (e.size != kNone && (max_bytes -= e.size) < 0)
      return ResourceExhausted(
          "zip: expected members of fewer bytes in all, "
          "got ",
          e.size, " in '", e.name, "'");
    Result<std::string> contents = ReadMember(bytes, directory, e);
    if (!contents.ok())
      return Annotate(contents.status(), absl::StrCat("'", e.name, "'"));
    members.emplace_back(std::move(e.name), *std::move(contents));
  }
  return members;
}

Result<std::string> WriteZip(const ZipMembers& members, bool compress) {
  std::string out, directory;
  for (const auto& [name, contents] : members) {
    if (contents.size() >= kNone || out.size() >= kNone ||
        name.size() > 0xffff || members.size() >= 0xffff)
      return ResourceExhausted(
          "zip: expected less than 4 GiB and 65535 "
          "members, got more at '",
          name, "'");
    std::string packed;
    bool deflated = false;
    if (compress) {
      SLUICE_ASSIGN_OR_RETURN(packed, Deflate(contents));
      deflated = packed.size() < contents.size();
    }
    if (!deflated) packed = contents;
    std::string common;  // Shared by the local header and the directory's.
    Put16(20, &common);  // Version 2.0.
    Put16(0, &common);
    Put16(deflated ? 8 : 0, &common);
    Put32(0x00210000, &common);  // 1980-01-01: the same bytes every time.
    Put32(Checksum(contents), &common);
    Put32(static_cast<uint32_t>(packed.size()), &common);
    Put32(static_cast<uint32_t>(contents.size()), &common);
    Put16(static_cast<uint32_t>(name.size()), &common);
    Put16(0, &common);
    const auto offset = static_cast<uint32_t>(out.size());
    Put32(kLocal, &out);
    out.append(common).append(name).append(packed);
    Put32(kCentral, &directory);
    Put16(20, &directory);
    directory.append(common);
    directory.append(10, '\0');  // No comment, disk 0, no attributes.
    Put32(offset, &directory);
    directory.append(name);
  }
  const auto start = static_cast<uint32_t>(out.size());
  if (out.size() + directory.size() >= kNone)
    return ResourceExhausted("zip: expected less than 4 GiB, got more");
  out.append(directory);
  Put32(kEnd, &out);
  Put32(0, &out);
  Put16(static_cast<uint32_t>(members.size()), &out);
  Put16(static_cast<uint32_t>(members.size()), &out);
  Put32(static_cast<uint32_t>(directory.size()), &out);
  Put32(start, &out);
  Put16(0, &out);
  return out;
}

}  // namespace sluice
