// CRC-32C (Castagnoli), by the processor's instruction where it has one.
#ifndef SLUICE_IO_CRC32C_H_
#define SLUICE_IO_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice {

// The checksum of the bytes, or of those that `before` is the checksum of,
// followed by these.
uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

// A way to compute it.
struct Crc32cPath {
  const char* name;  // Of static lifetime.
  uint32_t (*crc)(std::string_view bytes, uint32_t before);
};
// Those that this processor can run, for tests: first the one without special
// instructions, last the one that Crc32c takes.
std::vector<Crc32cPath> Crc32cPaths();

// The checksum of bytes with checksum `first` followed by `count` bytes with
// checksum `second`: parts can be checked on several threads.
uint32_t JoinCrc32c(uint32_t first, uint32_t second, uint64_t count);

// Checksums that are stored are masked: the checksum of bytes that contain
// their own checksum would be of little use.
constexpr uint32_t MaskCrc(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace sluice

#endif  // SLUICE_IO_CRC32C_H_
