// Hashes whose values are part of the contract of ops: they must equal
// TensorFlow's on every machine and in all versions.
#ifndef SLUICE_OPS_COMMON_FINGERPRINT_H_
#define SLUICE_OPS_COMMON_FINGERPRINT_H_

#include <cstdint>
#include <string_view>

namespace sluice {

// FarmHash's.
uint64_t Fingerprint64(std::string_view s);
// The fingerprint of two fingerprints in this order.
uint64_t FingerprintCat64(uint64_t a, uint64_t b);
// MurmurHash64A; TensorFlow's Hash64, with its seed.
inline constexpr uint64_t kMurmurSeed = 0xDECAFCAFFE;
uint64_t MurmurHash64(std::string_view s);
uint64_t MurmurHash64(std::string_view s, uint64_t seed);
// SipHash-2-4 under a key of 128 bits.
uint64_t SipHash64(std::string_view s, uint64_t key0, uint64_t key1);

}  // namespace sluice

#endif  // SLUICE_OPS_COMMON_FINGERPRINT_H_
