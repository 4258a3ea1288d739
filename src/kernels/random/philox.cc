#include "kernels/random/philox.h"

#include <random>

namespace sluice::random {

uint64_t RandomSeed64() {
  static std::mutex mutex;
  static std::random_device device;
  std::lock_guard<std::mutex> lock(mutex);
  const uint64_t high = device();
  return high << 32 | device();
}

GuardedPhilox::GuardedPhilox(int64_t seed, int64_t seed2) {
  Reset(seed, seed2);
}

void GuardedPhilox::Reset(int64_t seed, int64_t seed2) {
  if (seed == 0 && seed2 == 0) {
    seed = static_cast<int64_t>(RandomSeed64());
    seed2 = static_cast<int64_t>(RandomSeed64());
  }
  std::lock_guard<std::mutex> lock(mutex_);
  gen_ = Philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(seed2));
}

Philox GuardedPhilox::ReserveBlocks(int64_t blocks) {
  std::lock_guard<std::mutex> lock(mutex_);
  Philox mine = gen_;
  gen_.Skip(static_cast<uint64_t>(blocks));
  return mine;
}

Philox StatelessPhilox(int64_t seed0, int64_t seed1) {
  const uint64_t s0 = static_cast<uint64_t>(seed0);
  const uint64_t s1 = static_cast<uint64_t>(seed1);
  const Philox::Block in{
      static_cast<uint32_t>(s0), static_cast<uint32_t>(s0 >> 32),
      static_cast<uint32_t>(s1), static_cast<uint32_t>(s1 >> 32)};
  const Philox::Block mix = Philox(in, {0x3ec8f720, 0x02461e29})();
  return Philox({0, 0, mix[2], mix[3]}, {mix[0], mix[1]});
}

void StatelessSeedToKeyCounter(int64_t seed0, int64_t seed1, uint64_t* key,
                               uint64_t* counter) {
  const Philox gen = StatelessPhilox(seed0, seed1);
  const auto join = [](uint32_t lo, uint32_t hi) {
    return uint64_t{lo} | uint64_t{hi} << 32;
  };
  key[0] = join(gen.key()[0], gen.key()[1]);
  counter[0] = join(gen.counter()[0], gen.counter()[1]);
  counter[1] = join(gen.counter()[2], gen.counter()[3]);
}

}  // namespace sluice::random
