#include "peaks.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "exec/core/trace.h"

namespace sluice::bench {
namespace {

int PeakCores() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The shortest of some runs of fn on every core at once, in seconds.
template <typename Fn>
double OnAllCores(const Fn& fn) {
  double best = 1e300;
  for (int i = 0; i < 9; ++i) {
    const int64_t start = NowNs();
    std::vector<std::thread> others;
    for (int c = 1; c < PeakCores(); ++c) others.emplace_back(fn, c);
    fn(0);
    for (std::thread& t : others) t.join();
    best = std::min(best, static_cast<double>(NowNs() - start) * 1e-9);
  }
  return best;
}

constexpr int64_t kRounds = 4'000'000;
constexpr int kChains = 12;  // Enough to hide an addition's latency.

// Each chain is x = x * a + b over a vector of `floats` floats.
#define SLUICE_BURN(name, isa, floats)                                    \
  __attribute__((target(isa))) float name() {                             \
    typedef float V __attribute__((vector_size(floats * 4)));             \
    V x[kChains];                                                         \
    for (int i = 0; i < kChains; ++i) x[i] = V{} + static_cast<float>(i); \
    V a = V{} + 0.999999f, b = V{} + 1e-6f;                               \
    for (int64_t r = 0; r < kRounds; ++r) {                               \
      _Pragma("GCC unroll 12") for (int i = 0; i < kChains; ++i) x[i] =   \
          x[i] * a + b;                                                   \
      asm volatile("" : "+x"(a), "+x"(b));                                \
    }                                                                     \
    float sum = 0;                                                        \
    for (int i = 0; i < kChains; ++i) sum += x[i][0];                     \
    return sum;                                                           \
  }
SLUICE_BURN(Burn512, "avx512f,fma", 16)
SLUICE_BURN(Burn256, "avx2,fma", 8)
#undef SLUICE_BURN

}  // namespace

double PeakFlopsPerSecond() {
  static const double peak = [] {
    const bool wide = __builtin_cpu_supports("avx512f");
    const double s = OnAllCores([wide](int) {
      volatile float end = wide ? Burn512() : Burn256();
      (void)end;
    });
    return 2.0 * kRounds * kChains * (wide ? 16 : 8) * PeakCores() / s;
  }();
  return peak;
}

double CopyBytesPerSecond() {
  static const double peak = [] {
    constexpr size_t kBytes = size_t{64} << 20;
    std::vector<char> from(kBytes * static_cast<size_t>(PeakCores()), 1);
    std::vector<char> to(from.size(), 2);
    const double s = OnAllCores([&](int c) {
      const size_t at = kBytes * static_cast<size_t>(c);
      std::memcpy(to.data() + at, from.data() + at, kBytes);
    });
    return 2.0 * static_cast<double>(from.size()) / s;
  }();
  return peak;
}

}  // namespace sluice::bench
