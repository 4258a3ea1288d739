#include "kernels/random/fill.h"

#include <algorithm>
#include <utility>

#include "base/parallel.h"
#include "kernels/random/distributions.h"

namespace sluice::random {
namespace {

// The number of four-word groups that is worth another thread.
constexpr int64_t kCheapGrain = 8192;
constexpr int64_t kCostlyGrain = 512;

// Element group g uses block g.
template <typename Distribution>
void FillFixed(Philox base, typename Distribution::Element* out, int64_t n,
               const Distribution& dist, int64_t grain) {
  constexpr int kCount = Distribution::kCount;
  ParallelFor((n + kCount - 1) / kCount, grain,
              [&](int64_t begin, int64_t end) {
                Philox gen = base;
                gen.Skip(static_cast<uint64_t>(begin));
                const int64_t full = std::min(end, n / kCount);
                for (int64_t g = begin; g < full; ++g) {
                  const auto x = dist(gen());
                  std::copy(x.begin(), x.end(), out + g * kCount);
                }
                if (full < end) {
                  const auto x = dist(gen());
                  std::copy(x.begin(), x.begin() + (n - full * kCount),
                            out + full * kCount);
                }
              });
}

// Element group g uses the blocks that start at g * kSkip.
template <typename Distribution>
void FillVariable(Philox base, typename Distribution::Element* out, int64_t n,
                  const Distribution& dist, int64_t grain) {
  constexpr int kCount = Distribution::kCount;
  constexpr int64_t kWordsPerOutput = 256;
  constexpr int64_t kSkip = kCount * kWordsPerOutput / Philox::kBlock;
  ParallelFor(
      (n + kCount - 1) / kCount, grain, [&](int64_t begin, int64_t end) {
        for (int64_t g = begin; g < end; ++g) {
          Philox gen = base;
          gen.Skip(static_cast<uint64_t>(g * kSkip));
          SingleSamples next(&gen);
          const auto x = dist(next);
          std::copy(x.begin(),
                    x.begin() + std::min<int64_t>(kCount, n - g * kCount),
                    out + g * kCount);
        }
      });
}

}  // namespace

template <typename T>
void FillUniform(Philox gen, T* out, int64_t n) {
  FillFixed(gen, out, n, UniformReal<T>(), kCheapGrain);
}

template <typename T>
void FillNormal(Philox gen, T* out, int64_t n) {
  FillFixed(gen, out, n, NormalReal<T>(), kCostlyGrain);
}

template <typename T>
void FillTruncatedNormal(Philox gen, T* out, int64_t n) {
  FillVariable(gen, out, n, TruncatedNormalReal<T>(), kCostlyGrain);
}

template <typename T>
void FillUniformInt(Philox gen, T lo, T hi, T* out, int64_t n) {
  FillFixed(gen, out, n, UniformInt<T>(lo, hi), kCheapGrain);
}

template <typename T>
void FillUniformFullInt(Philox gen, T* out, int64_t n) {
  FillFixed(gen, out, n, UniformFullInt<T>(), kCheapGrain);
}

template <typename T>
void Shuffle(Philox gen, T* values, int64_t n) {
  // The positions of a block first, so that its values, anywhere in memory, are
  // on their way when they are exchanged.
  constexpr int64_t kAhead = 64;
  int64_t other[kAhead];
  SingleSamples next(&gen);
  for (int64_t i = 0; i + 1 < n; i += kAhead) {
    const int64_t end = std::min(n - 1, i + kAhead);
    for (int64_t j = i; j < end; ++j) {
      // The divisor is truncated to 32 bits, as in TensorFlow.
      const uint32_t left = static_cast<uint32_t>(n - j);
      const uint32_t word = next();
      const int64_t at = left != 0 ? j + word % left : j;
      other[j - i] = at;
      __builtin_prefetch(values + at, 1);
    }
    for (int64_t j = i; j < end; ++j)
      std::swap(values[j], values[other[j - i]]);
  }
}

template <typename Index>
void FillShuffle(Philox gen, Index* perm, int64_t n) {
  for (int64_t i = 0; i < n; ++i) perm[i] = static_cast<Index>(i);
  Shuffle(gen, perm, n);
}

#define SLUICE_FILL_REAL(T)                          \
  template void FillUniform<T>(Philox, T*, int64_t); \
  template void FillNormal<T>(Philox, T*, int64_t);  \
  template void FillTruncatedNormal<T>(Philox, T*, int64_t);
SLUICE_FILL_REAL(float)
SLUICE_FILL_REAL(double)
SLUICE_FILL_REAL(half)
SLUICE_FILL_REAL(bfloat16)
#undef SLUICE_FILL_REAL

#define SLUICE_FILL_INT(T)                                    \
  template void FillUniformInt<T>(Philox, T, T, T*, int64_t); \
  template void FillUniformFullInt<T>(Philox, T*, int64_t);
SLUICE_FILL_INT(int32_t)
SLUICE_FILL_INT(int64_t)
SLUICE_FILL_INT(uint32_t)
SLUICE_FILL_INT(uint64_t)
#undef SLUICE_FILL_INT

template void Shuffle<uint8_t>(Philox, uint8_t*, int64_t);
template void Shuffle<uint16_t>(Philox, uint16_t*, int64_t);
template void Shuffle<uint32_t>(Philox, uint32_t*, int64_t);
template void Shuffle<uint64_t>(Philox, uint64_t*, int64_t);
template void FillShuffle<int32_t>(Philox, int32_t*, int64_t);
template void FillShuffle<int64_t>(Philox, int64_t*, int64_t);

}  // namespace sluice::random
