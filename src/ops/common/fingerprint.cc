#include "ops/common/fingerprint.h"

#include <farmhash.h>

#include <bit>
#include <cstring>

namespace sluice {
namespace {

constexpr uint64_t kMurmur = 0xc6a4a7935bd1e995;

uint64_t MixedHigh(uint64_t v) { return v ^ (v >> 47); }

// The first n <= 8 bytes as a little-endian number.
uint64_t LittleEndian(const char* p, size_t n) {
  static_assert(std::endian::native == std::endian::little);
  uint64_t v = 0;
  std::memcpy(&v, p, n);
  return v;
}

// The state of SipHash.
struct SipState {
  uint64_t v0, v1, v2, v3;

  void Round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void Add(uint64_t word) {
    v3 ^= word;
    Round();
    Round();
    v0 ^= word;
  }
};

}  // namespace

uint64_t Fingerprint64(std::string_view s) {
  return util::Fingerprint64(s.data(), s.size());
}

uint64_t FingerprintCat64(uint64_t a, uint64_t b) {
  uint64_t h = a ^ kMurmur;
  h ^= MixedHigh(b * kMurmur) * kMurmur;
  h *= kMurmur;
  h = MixedHigh(h) * kMurmur;
  return MixedHigh(h);
}

uint64_t MurmurHash64(std::string_view s) {
  return MurmurHash64(s, kMurmurSeed);
}

uint64_t MurmurHash64(std::string_view s, uint64_t seed) {
  uint64_t h = seed ^ (s.size() * kMurmur);
  const char* p = s.data();
  size_t n = s.size();
  for (; n >= 8; p += 8, n -= 8) {
    const uint64_t k = MixedHigh(LittleEndian(p, 8) * kMurmur) * kMurmur;
    h = (h ^ k) * kMurmur;
  }
  if (n > 0) h = (h ^ LittleEndian(p, n)) * kMurmur;
  return MixedHigh(MixedHigh(h) * kMurmur);
}

uint64_t SipHash64(std::string_view s, uint64_t key0, uint64_t key1) {
  SipState state{0x736f6d6570736575 ^ key0, 0x646f72616e646f6d ^ key1,
                 0x6c7967656e657261 ^ key0, 0x7465646279746573 ^ key1};
  const char* p = s.data();
  size_t n = s.size();
  for (; n >= 8; p += 8, n -= 8) state.Add(LittleEndian(p, 8));
  const uint64_t last = n > 0 ? LittleEndian(p, n) : 0;
  state.Add(last | static_cast<uint64_t>(s.size()) << 56);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace sluice
