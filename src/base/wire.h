// A walk over protobuf's wire format that copies nothing, for messages whose
// fields are read in bulk.
//
//   FieldReader r(bytes);
//   WireTag tag;
//   while (r.ReadTag(&tag))
//     if (!(tag.Is(1, WireType::kBytes) ? r.ReadBytes(&name) : r.Skip(tag)))
//       return Corrupt();
//   if (!r.done()) return Corrupt();
#ifndef SLUICE_BASE_WIRE_H_
#define SLUICE_BASE_WIRE_H_

#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice {

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kFixed32 = 5,
};

struct WireTag {
  uint32_t field = 0;
  WireType type = WireType::kVarint;
  bool Is(uint32_t f, WireType t) const { return field == f && type == t; }
};

// Reads fields from a view, which must outlive it. Every function returns false
// if the bytes are no such field, and never reads beyond them. Groups, which
// proto3 does not have, count as malformed.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }
  // The bytes that were not read yet.
  size_t left() const { return static_cast<size_t>(end_ - at_); }

  bool ReadVarint(uint64_t* value) {
    // Most tags, lengths and numbers take one byte.
    if (at_ < end_ && static_cast<uint8_t>(*at_) < 0x80) [[likely]] {
      *value = static_cast<uint8_t>(*at_++);
      return true;
    }
    uint64_t v = 0;
    const char* p = at_;
    for (int shift = 0; shift < 70; shift += 7) {
      if (p == end_) return false;
      const uint64_t byte = static_cast<uint8_t>(*p++);
      // (Bits beyond 64 are dropped, as protobuf does.)
      if (shift < 64) v |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        at_ = p;
        *value = v;
        return true;
      }
    }
    return false;
  }
  // False also at the end.
  bool ReadTag(WireTag* tag) {
    uint64_t v = 0;
    if (done()) return false;
    const char* const before = at_;
    if (!ReadVarint(&v) || v > UINT32_MAX || (v >> 3) == 0) {
      at_ = before;  // So that done() tells this from the end.
      return false;
    }
    tag->field = static_cast<uint32_t>(v >> 3);
    tag->type = static_cast<WireType>(v & 7);
    return true;
  }
  bool ReadBytes(std::string_view* bytes) {
    uint64_t n = 0;
    if (!ReadVarint(&n) || n > static_cast<uint64_t>(end_ - at_)) return false;
    *bytes = {at_, static_cast<size_t>(n)};
    at_ += n;
    return true;
  }
  template <typename T>
  bool ReadFixed(T* value) {
    if (static_cast<size_t>(end_ - at_) < sizeof(T)) return false;
    std::memcpy(value, at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }
  bool Skip(const WireTag& tag) {
    uint64_t number = 0;
    uint32_t word = 0;
    std::string_view bytes;
    switch (tag.type) {
      case WireType::kVarint:
        return ReadVarint(&number);
      case WireType::kFixed64:
        return ReadFixed(&number);
      case WireType::kBytes:
        return ReadBytes(&bytes);
      case WireType::kFixed32:
        return ReadFixed(&word);
    }
    return false;
  }

 private:
  const char* at_;
  const char* end_;
};

}  // namespace sluice

#endif  // SLUICE_BASE_WIRE_H_
