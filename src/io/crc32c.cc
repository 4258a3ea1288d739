#include "io/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
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

// Checksums of the three parts that follow what is folded, of kBytes each.
template <size_t kBytes>
struct Streams {
  uint64_t first = 0, second = 0, third = 0;

  // The next eight bytes of each; `at`: those of the first.
  __attribute__((always_inline, target("sse4.2"))) void Take(const char* at) {
    first = _mm_crc32_u64(first, Load(at));
    second = _mm_crc32_u64(second, Load(at + kBytes));
    third = _mm_crc32_u64(third, Load(at + 2 * kBytes));
  }
  // The checksum of the 16 bytes that stand for what was folded, and of these.
  __attribute__((always_inline, target("sse4.2"))) uint64_t After(
      __m128i folded) const {
    const ZeroTables& zeros = Zeros<kBytes>();
    uint64_t crc =
        _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(folded)));
    crc =
        _mm_crc32_u64(crc, static_cast<uint64_t>(_mm_extract_epi64(folded, 1)));
    crc = AppendZeros(zeros, crc) ^ first;
    crc = AppendZeros(zeros, crc) ^ second;
    return AppendZeros(zeros, crc) ^ third;
  }
};

// Processors that also multiply polynomials without carry have two units that
// can compute checksums at the same time. Of each block the first part,
// `kTurns` times 64 bytes, is folded: four times 16 bytes move on 64 bytes in
// each turn, as the polynomials of what they become there. The three other
// parts, of 16 bytes a turn, are for the checksum instruction, as above.
#define SLUICE_NARROW_FOLDS __attribute__((target("pclmul,sse4.2")))
constexpr size_t kLongNarrowTurns = 32;
constexpr size_t kShortNarrowTurns = 8;
constexpr size_t NarrowFoldedBytes(size_t turns) { return 64 * turns; }
constexpr size_t NarrowStreamBytes(size_t turns) { return 16 * turns; }
constexpr size_t NarrowBytes(size_t turns) {
  return NarrowFoldedBytes(turns) + 3 * NarrowStreamBytes(turns);
}

// x to the power n, modulo the checksum's polynomial, reflected.
constexpr uint32_t PowerOfX(int n) {
  uint32_t power = uint32_t{1} << 31;
  for (; n > 0; --n) power = (power >> 1) ^ ((power & 1) ? kCastagnoli : 0);
  return power;
}

SLUICE_NARROW_FOLDS inline __m128i LoadHalves(const char* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
// `halves`, moved on, and `onto`. (A product of reflected factors is shifted by
// one bit, and the second factor has 32.)
template <int kBytes>
SLUICE_NARROW_FOLDS inline __m128i MovedOnTo(__m128i onto, __m128i halves) {
  // (Constants in builds without optimization, too.)
  constexpr uint32_t kLater = PowerOfX(8 * kBytes - 33);
  constexpr uint32_t kEarlier = PowerOfX(8 * kBytes + 31);
  const __m128i by = _mm_set_epi64x(kLater, kEarlier);
  return _mm_xor_si128(onto,
                       _mm_xor_si128(_mm_clmulepi64_si128(halves, by, 0x00),
                                     _mm_clmulepi64_si128(halves, by, 0x11)));
}

// Takes blocks off the bytes. (Loops of a constant length are written out: g++
// does not unroll them at -O2.)
template <size_t kTurns>
SLUICE_NARROW_FOLDS uint64_t CrcOfNarrow(const char** bytes, size_t* size,
                                         uint64_t crc) {
  constexpr size_t kStream = NarrowStreamBytes(kTurns);
  const char* p = *bytes;
  for (; *size >= NarrowBytes(kTurns);
       p += NarrowBytes(kTurns), *size -= NarrowBytes(kTurns)) {
    const char* s = p + NarrowFoldedBytes(kTurns);
    Streams<kStream> streams;
    __m128i a = _mm_xor_si128(LoadHalves(p),
                              _mm_cvtsi64_si128(static_cast<int64_t>(crc)));
    __m128i b = LoadHalves(p + 16), c = LoadHalves(p + 32),
            d = LoadHalves(p + 48);
    for (const char* f = p + 64;; f += 64) {
      streams.Take(s + 0);
      streams.Take(s + 8);
      s += 16;
      if (f == p + NarrowFoldedBytes(kTurns)) break;
      a = MovedOnTo<64>(LoadHalves(f), a);
      b = MovedOnTo<64>(LoadHalves(f + 16), b);
      c = MovedOnTo<64>(LoadHalves(f + 32), c);
      d = MovedOnTo<64>(LoadHalves(f + 48), d);
    }
    // Together, until the last 16 bytes stand for all.
    b = MovedOnTo<16>(b, a);
    c = MovedOnTo<16>(c, b);
    const __m128i last = MovedOnTo<16>(d, c);
    crc = streams.After(last);
  }
  *bytes = p;
  return crc;
}

// The same with pairs of 16 bytes, where an instruction multiplies two: each
// turn folds 128 bytes and leaves 40 to each of the other parts.
#define SLUICE_FOLDS __attribute__((target("avx2,pclmul,vpclmulqdq,sse4.2")))
constexpr size_t kLongTurns = 16;
constexpr size_t kShortTurns = 4;
constexpr size_t FoldedBytes(size_t turns) { return 128 * turns; }
constexpr size_t StreamBytes(size_t turns) { return 40 * turns; }
constexpr size_t MixedBytes(size_t turns) {
  return FoldedBytes(turns) + 3 * StreamBytes(turns);
}

template <int kBytes>
SLUICE_FOLDS inline __m256i MovedOn(__m256i pairs) {
  constexpr uint32_t kLater = PowerOfX(8 * kBytes - 33);
  constexpr uint32_t kEarlier = PowerOfX(8 * kBytes + 31);
  const __m256i by = _mm256_set_epi64x(kLater, kEarlier, kLater, kEarlier);
  return _mm256_xor_si256(_mm256_clmulepi64_epi128(pairs, by, 0x00),
                          _mm256_clmulepi64_epi128(pairs, by, 0x11));
}

SLUICE_FOLDS inline __m256i LoadPairs(const char* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}
SLUICE_FOLDS inline __m256i MovedOnTo(const char* at, __m256i pairs) {
  return _mm256_xor_si256(LoadPairs(at), MovedOn<128>(pairs));
}

template <size_t kTurns>
SLUICE_FOLDS uint64_t CrcOfMixed(const char** bytes, size_t* size,
                                 uint64_t crc) {
  constexpr size_t kStream = StreamBytes(kTurns);
  const char* p = *bytes;
  for (; *size >= MixedBytes(kTurns);
       p += MixedBytes(kTurns), *size -= MixedBytes(kTurns)) {
    const char* s = p + FoldedBytes(kTurns);
    Streams<kStream> streams;
    __m256i a = _mm256_xor_si256(
        LoadPairs(p), _mm256_set_epi64x(0, 0, 0, static_cast<int64_t>(crc)));
    __m256i b = LoadPairs(p + 32), c = LoadPairs(p + 64), d = LoadPairs(p + 96);
    for (const char* f = p + 128;; f += 128) {
      streams.Take(s + 0);
      streams.Take(s + 8);
      streams.Take(s + 16);
      streams.Take(s + 24);
      streams.Take(s + 32);
      s += 40;
      if (f == p + FoldedBytes(kTurns)) break;
      a = MovedOnTo(f, a);
      b = MovedOnTo(f + 32, b);
      c = MovedOnTo(f + 64, c);
      d = MovedOnTo(f + 96, d);
    }
    // Together, pair by pair, until the last 16 bytes stand for all.
    c = _mm256_xor_si256(c, MovedOn<64>(a));
    d = _mm256_xor_si256(d, MovedOn<64>(b));
    d = _mm256_xor_si256(d, MovedOn<32>(c));
    const __m128i last = _mm_xor_si128(_mm256_extracti128_si256(d, 1),
                                       _mm256_castsi256_si128(MovedOn<16>(d)));
    crc = streams.After(last);
  }
  *bytes = p;
  return crc;
}

// The same with pairs of pairs, for processors with AVX-512: each turn folds
// 256 bytes and leaves 24 to each of the other parts.
#define SLUICE_WIDE_FOLDS \
  __attribute__((target("avx512f,avx2,pclmul,vpclmulqdq,sse4.2")))
constexpr size_t kLongWideTurns = 12;
constexpr size_t kShortWideTurns = 3;
constexpr size_t WideFoldedBytes(size_t turns) { return 256 * turns; }
constexpr size_t WideStreamBytes(size_t turns) { return 24 * turns; }
constexpr size_t WideBytes(size_t turns) {
  return WideFoldedBytes(turns) + 3 * WideStreamBytes(turns);
}

SLUICE_WIDE_FOLDS inline __m512i LoadQuad(const char* at) {
  return _mm512_loadu_si512(at);
}
// `quad`, moved on, and `onto`.
template <int kBytes>
SLUICE_WIDE_FOLDS inline __m512i MovedOnTo(__m512i onto, __m512i quad) {
  constexpr uint32_t kLater = PowerOfX(8 * kBytes - 33);
  constexpr uint32_t kEarlier = PowerOfX(8 * kBytes + 31);
  const __m512i by = _mm512_set_epi64(kLater, kEarlier, kLater, kEarlier,
                                      kLater, kEarlier, kLater, kEarlier);
  constexpr int kXor = 0x96;  // Of three.
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(quad, by, 0x00),
                                   _mm512_clmulepi64_epi128(quad, by, 0x11),
                                   onto, kXor);
}

template <size_t kTurns>
SLUICE_WIDE_FOLDS uint64_t CrcOfWide(const char** bytes, size_t* size,
                                     uint64_t crc) {
  constexpr size_t kStream = WideStreamBytes(kTurns);
  const char* p = *bytes;
  for (; *size >= WideBytes(kTurns);
       p += WideBytes(kTurns), *size -= WideBytes(kTurns)) {
    const char* s = p + WideFoldedBytes(kTurns);
    Streams<kStream> streams;
    __m512i a = _mm512_xor_si512(
        LoadQuad(p),
        _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, static_cast<int64_t>(crc)));
    __m512i b = LoadQuad(p + 64), c = LoadQuad(p + 128), d = LoadQuad(p + 192);
    for (const char* f = p + 256;; f += 256) {
      streams.Take(s + 0);
      streams.Take(s + 8);
      streams.Take(s + 16);
      s += 24;
      if (f == p + WideFoldedBytes(kTurns)) break;
      a = MovedOnTo<256>(LoadQuad(f), a);
      b = MovedOnTo<256>(LoadQuad(f + 64), b);
      c = MovedOnTo<256>(LoadQuad(f + 128), c);
      d = MovedOnTo<256>(LoadQuad(f + 192), d);
    }
    c = MovedOnTo<128>(c, a);
    d = MovedOnTo<128>(d, b);
    d = MovedOnTo<64>(d, c);
    const __m256i pairs =
        _mm256_xor_si256(_mm512_extracti64x4_epi64(d, 1),
                         MovedOn<32>(_mm512_castsi512_si256(d)));
    const __m128i last =
        _mm_xor_si128(_mm256_extracti128_si256(pairs, 1),
                      _mm256_castsi256_si128(MovedOn<16>(pairs)));
    crc = streams.After(last);
  }
  *bytes = p;
  return crc;
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

enum Folds { kNoFolds, kNarrowFolds, kFolds, kWideFolds };
template <Folds folds>
__attribute__((target("sse4.2"))) uint32_t InstructionCrc(const char* p,
                                                          size_t n,
                                                          uint32_t start) {
  uint64_t crc = start;
  if constexpr (folds == kWideFolds) {
    if (n >= WideBytes(kLongWideTurns))
      crc = CrcOfWide<kLongWideTurns>(&p, &n, crc);
    if (n >= WideBytes(kShortWideTurns))
      crc = CrcOfWide<kShortWideTurns>(&p, &n, crc);
  } else if constexpr (folds == kFolds) {
    if (n >= MixedBytes(kLongTurns)) crc = CrcOfMixed<kLongTurns>(&p, &n, crc);
    if (n >= MixedBytes(kShortTurns))
      crc = CrcOfMixed<kShortTurns>(&p, &n, crc);
  } else if constexpr (folds == kNarrowFolds) {
    if (n >= NarrowBytes(kLongNarrowTurns))
      crc = CrcOfNarrow<kLongNarrowTurns>(&p, &n, crc);
    if (n >= NarrowBytes(kShortNarrowTurns))
      crc = CrcOfNarrow<kShortNarrowTurns>(&p, &n, crc);
  }
  if (n >= 3 * kLongBlock) crc = CrcOfThrees<kLongBlock>(&p, &n, crc);
  if (n >= 3 * kShortBlock) crc = CrcOfThrees<kShortBlock>(&p, &n, crc);
  for (; n >= 8; p += 8, n -= 8) crc = _mm_crc32_u64(crc, Load(p));
  auto last = static_cast<uint32_t>(crc);
  if (n >= 4) {
    uint32_t word = 0;
    std::memcpy(&word, p, 4);
    last = _mm_crc32_u32(last, word);
    p += 4;
    n -= 4;
  }
  for (; n > 0; ++p, --n) last = _mm_crc32_u8(last, static_cast<uint8_t>(*p));
  return last;
}

#endif

}  // namespace

// The product of two polynomials modulo the checksum's, reflected: the highest
// bit is the coefficient of 1.
static uint32_t MultiplyModulo(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = uint32_t{1} << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kCastagnoli : 0);
  }
  return product;
}

// As in zlib's crc32_combine: `first` moves on by 8 * count bits, by
// multiplication with x to that power, made of squares.
uint32_t JoinCrc32c(uint32_t first, uint32_t second, uint64_t count) {
  uint32_t power = uint32_t{1} << 31;   // 1
  uint32_t square = uint32_t{1} << 23;  // x^8
  for (; count != 0; count >>= 1) {
    if ((count & 1) != 0) power = MultiplyModulo(power, square);
    square = MultiplyModulo(square, square);
  }
  return MultiplyModulo(power, first) ^ second;
}

namespace {

template <uint32_t (*kUpdate)(const char*, size_t, uint32_t)>
uint32_t CrcBy(std::string_view bytes, uint32_t before) {
  return ~kUpdate(bytes.data(), bytes.size(), ~before);
}

}  // namespace

std::vector<Crc32cPath> Crc32cPaths() {
  std::vector<Crc32cPath> paths = {{"portable", CrcBy<SlicedCrc>}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") == 0) return paths;
  paths.push_back({"instruction", CrcBy<InstructionCrc<kNoFolds>>});
  if (__builtin_cpu_supports("pclmul") == 0) return paths;
  paths.push_back({"narrow folds", CrcBy<InstructionCrc<kNarrowFolds>>});
  if (__builtin_cpu_supports("avx2") == 0 ||
      __builtin_cpu_supports("vpclmulqdq") == 0)
    return paths;
  paths.push_back({"folds", CrcBy<InstructionCrc<kFolds>>});
  if (__builtin_cpu_supports("avx512f") == 0) return paths;
  paths.push_back({"wide folds", CrcBy<InstructionCrc<kWideFolds>>});
#endif
  return paths;
}

uint32_t Crc32c(std::string_view bytes, uint32_t before) {
  static const auto best = Crc32cPaths().back().crc;
  return best(bytes, before);
}

}  // namespace sluice
