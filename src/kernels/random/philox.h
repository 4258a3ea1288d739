// The counter-based generator of every random op: Philox 4x32-10 (Salmon et
// al., SC'11) with TensorFlow's key and counter layout, skipping and seeding,
// so that equal seeds give equal bits.
#ifndef SLUICE_KERNELS_RANDOM_PHILOX_H_
#define SLUICE_KERNELS_RANDOM_PHILOX_H_

#include <array>
#include <cstdint>
#include <mutex>

namespace sluice::random {

// A stream of 2^128 blocks of four 32-bit words; block i is a pure function of
// (key, counter + i). A value type: copy it to fork the stream, Skip() to jump
// ahead.
class Philox {
 public:
  using Block = std::array<uint32_t, 4>;
  using Key = std::array<uint32_t, 2>;
  static constexpr int kBlock = 4;

  Philox() = default;
  explicit Philox(uint64_t seed) : Philox(seed, 0) {}
  // The op attributes (seed, seed2), in this order.
  Philox(uint64_t seed_lo, uint64_t seed_hi)
      : counter_{0, 0, Low(seed_hi), High(seed_hi)},
        key_{Low(seed_lo), High(seed_lo)} {}
  Philox(const Block& counter, const Key& key) : counter_(counter), key_(key) {}
  // From the memory form of the V2 stateless ops: key[1], counter[2] of uint64.
  static Philox FromMemory(const uint64_t* counter, const uint64_t* key) {
    return Philox(Block{Low(counter[0]), High(counter[0]), Low(counter[1]),
                        High(counter[1])},
                  Key{Low(key[0]), High(key[0])});
  }

  const Block& counter() const { return counter_; }
  const Key& key() const { return key_; }

  // Skips `count` blocks. Carries as TensorFlow does: exactly, except for one
  // bug (a carry out of word 0 on top of a count whose high word is
  // 0xffffffff), which is kept because it affects the bits.
  void Skip(uint64_t count) {
    const uint32_t lo = Low(count);
    uint32_t hi = High(count);
    counter_[0] += lo;
    if (counter_[0] < lo) ++hi;
    counter_[1] += hi;
    if (counter_[1] < hi && ++counter_[2] == 0) ++counter_[3];
  }

  // The next block.
  Block operator()() {
    Block c = counter_;
    Key k = key_;
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
      const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
      c = {High(p1) ^ c[1] ^ k[0], Low(p1), High(p0) ^ c[3] ^ k[1], Low(p0)};
      k[0] += 0x9E3779B9;
      k[1] += 0xBB67AE85;
    }
    if (++counter_[0] == 0 && ++counter_[1] == 0 && ++counter_[2] == 0)
      ++counter_[3];
    return c;
  }

 private:
  static constexpr uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
  static constexpr uint32_t High(uint64_t x) {
    return static_cast<uint32_t>(x >> 32);
  }

  Block counter_{};
  Key key_{};
};

// Returns the words of a Philox one at a time. Owned by one thread; `gen` must
// outlive it and advances by whole blocks.
class SingleSamples {
 public:
  explicit SingleSamples(Philox* gen) : gen_(gen) {}
  uint32_t operator()() {
    if (used_ == Philox::kBlock) {
      block_ = (*gen_)();
      used_ = 0;
    }
    return block_[used_++];
  }
  // Jumps over `words` words.
  void Skip(uint64_t words) {
    const uint64_t left = static_cast<uint64_t>(Philox::kBlock - used_);
    if (words <= left) {
      used_ += static_cast<int>(words);
      return;
    }
    words -= left;
    gen_->Skip(words / Philox::kBlock);
    used_ = Philox::kBlock;
    if (const int rest = static_cast<int>(words % Philox::kBlock)) {
      block_ = (*gen_)();
      used_ = rest;
    }
  }

 private:
  Philox* gen_;
  Philox::Block block_{};
  int used_ = Philox::kBlock;
};

// The state of one stateful random op: each execution reserves a range of the
// stream and fills from its own copy without a lock. Owned by the node (or the
// resource), shared by all threads that run it. Invariant: no two callers get
// overlapping ranges.
class GuardedPhilox {
 public:
  // Both seeds 0 means "differs from run to run" (drawn from the system).
  GuardedPhilox(int64_t seed, int64_t seed2);
  GuardedPhilox(const GuardedPhilox&) = delete;
  GuardedPhilox& operator=(const GuardedPhilox&) = delete;

  // Returns the current stream and advances the shared one by `blocks`.
  Philox ReserveBlocks(int64_t blocks);
  // `words` 32-bit words (RandomShuffle).
  Philox ReserveWords(int64_t words) { return ReserveBlocks((words + 3) / 4); }
  // `outputs` elements of a Fill*; a distribution may use up to 256 blocks for
  // each element (TensorFlow's factor for every stateful random op).
  Philox ReserveOutputs(int64_t outputs, int64_t multiplier = 256) {
    return ReserveBlocks(
        static_cast<int64_t>(static_cast<uint64_t>(outputs) * multiplier));
  }

  // Restarts at the first block with these seeds (0, 0 as above).
  void Reset(int64_t seed, int64_t seed2);

 private:
  std::mutex mutex_;
  Philox gen_;  // Guarded by mutex_.
};

// 64 unpredictable bits, for seeds that the user did not set.
uint64_t RandomSeed64();

// The generator of the stateless ops for a user's seed pair (int32 seeds are
// sign-extended): the seed is scrambled through Philox itself.
Philox StatelessPhilox(int64_t seed0, int64_t seed1);

// The result of StatelessRandomGetKeyCounter(seed): key[1] and counter[2].
void StatelessSeedToKeyCounter(int64_t seed0, int64_t seed1, uint64_t* key,
                               uint64_t* counter);

}  // namespace sluice::random

#endif  // SLUICE_KERNELS_RANDOM_PHILOX_H_
