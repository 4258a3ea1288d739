#include "io/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace sluice {
namespace {

constexpr uint32_t kCastagnoli = 0x82f63b78;  // Reflected.

// Table k: what a byte does to the checksum k + 1 bytes later.
using SliceTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr SliceTables MakeSliceTables() {
  SliceTables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCastagnoli : 0);
    t[0][i] = crc;
  }
  for (uint32_t i = 0; i < 256; ++i)
    for (size_t k = 1; k < 8; ++k)
      t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xff];
  return t;
}
constexpr SliceTables kSlices = MakeSliceTables();

uint32_t SlicedCrc(const char* p, size_t n, uint32_t crc) {
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k)
      crc ^= kSlices[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; n > 0; ++p, --n)
    crc = (crc >> 8) ^ kSlices[0][(crc ^ static_cast<uint8_t>(*p)) & 0xff];
  return crc;
}

#if defined(__x86_64__)

// The instruction takes three cycles, and one can start in each: three blocks
// are computed side by side and then joined. Joining needs what a block of zero
// bytes does to a checksum, which is linear: a table for each of its bytes.
using ZeroTables = std::array<std::array<uint32_t, 256>, 4>;
constexpr size_t kLongBlock = 1024;
constexpr size_t kShortBlock = 128;

template <size_t kBlock>
const ZeroTables& Zeros() {
  static const ZeroTables tables = [] {
    static constexpr char zeros[kBlock] = {};
    std::array<uint32_t, 32> bits{};
    for (size_t b = 0; b < 32; ++b)
      bits[b] = SlicedCrc(zeros, kBlock, uint32_t{1} << b);
    ZeroTables t{};
    for (size_t k = 0; k < 4; ++k)
      for (size_t i = 0; i < 256; ++i)
        for (size_t b = 0; b < 8; ++b)
          if ((i >> b & 1) != 0) t[k][i] ^= bits[8 * k + b];
    return t;
  }();
  return tables;
}

uint64_t AppendZeros(const ZeroTables& t, uint64_t crc) {
  return t[0][crc & 0xff] ^ t[1][crc >> 8 & 0xff] ^ t[2][crc >> 16 & 0xff] ^
         t[3][crc >> 24 & 0xff];
}

uint64_t Load(const char* p) {
  uint64_t word = 0;
  std::memcpy(&word, p, 8);
  return word;
}

// Takes threes of blocks off the bytes.
template <size_t kBlock>
__attribute__((target("sse4.2"))) uint64_t CrcOfThrees(const char** bytes,
                                                       size_t* size,
                                                       uint64_t crc) {
  const ZeroTables& zeros = Zeros<kBlock>();
  const char* p = *bytes;
  for (; *size >= 3 * kBlock; p += 3 * kBlock, *size -= 3 * kBlock) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kBlock; i += 8) {
      crc = _mm_crc32_u64(crc, Load(p + i));
      second = _mm_crc32_u64(second, Load(p + kBlock + i));
      third = _mm_crc32_u64(third, Load(p + 2 * kBlock + i));
    }
    crc = AppendZeros(zeros, crc) ^ second;
    crc = AppendZeros(zeros, crc) ^ third;
  }
  *bytes = p;
  return crc;
}

__attribute__((target("sse4.2"))) uint32_t InstructionCrc(const char* p,
                                                          size_t n,
                                                          uint32_t start) {
  uint64_t crc = start;
  if (n >= 3 * kLongBlock) crc = CrcOfThrees<kLongBlock>(&p, &n, crc);
  if (n >= 3 * kShortBlock) crc = CrcOfThrees<kShortBlock>(&p, &n, crc);
  for (; n >= 8; p += 8, n -= 8) crc = _mm_crc32_u64(crc, Load(p));
  auto last = static_cast<uint32_t>(crc);
  for (; n > 0; ++p, --n) last = _mm_crc32_u8(last, static_cast<uint8_t>(*p));
  return last;
}

#endif

}  // namespace

uint32_t PortableCrc32c(std::string_view bytes, uint32_t before) {
  return ~SlicedCrc(bytes.data(), bytes.size(), ~before);
}

uint32_t Crc32c(std::string_view bytes, uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction)
    return ~InstructionCrc(bytes.data(), bytes.size(), ~before);
#endif
  return PortableCrc32c(bytes, before);
}

}  // namespace sluice
