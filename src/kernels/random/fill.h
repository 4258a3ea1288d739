// Filling buffers with random numbers. The same generator gives the same bits
// for any thread count and on every supported machine, identical to
// TensorFlow's: the random ops' kernels are GuardedPhilox::ReserveOutputs(n)
// (stateful) or StatelessPhilox(seed) (stateless) followed by one of these
// functions.
#ifndef SLUICE_KERNELS_RANDOM_FILL_H_
#define SLUICE_KERNELS_RANDOM_FILL_H_

#include <cstdint>

#include "kernels/random/philox.h"

namespace sluice::random {

// T: float, double, half, bfloat16. [0, 1): RandomUniform.
template <typename T>
void FillUniform(Philox gen, T* out, int64_t n);

// T as above. Mean 0, deviation 1: RandomStandardNormal.
template <typename T>
void FillNormal(Philox gen, T* out, int64_t n);

// T as above. Normal within (-2, 2): TruncatedNormal. Each group of outputs
// owns 256 words per output of the stream, whether or not it uses them.
template <typename T>
void FillTruncatedNormal(Philox gen, T* out, int64_t n);

// T: int32, int64, uint32, uint64. [lo, hi): RandomUniformInt.
// REQUIRES: n == 0 or lo < hi.
template <typename T>
void FillUniformInt(Philox gen, T lo, T hi, T* out, int64_t n);

// T as above, over all its values: StatelessRandomUniformFullInt.
template <typename T>
void FillUniformFullInt(Philox gen, T* out, int64_t n);

// A permutation of 0..n-1: RandomShuffle is out[i] = in[perm[i]] with
// gen = ReserveWords(n - 1) (nothing is reserved for n <= 1, or if the tensor
// has at most one element). Index: int32, int64.
template <typename Index>
void FillShuffle(Philox gen, Index* perm, int64_t n);
// Puts n values into that order, for T an unsigned integer of any size.
template <typename T>
void Shuffle(Philox gen, T* values, int64_t n);

}  // namespace sluice::random

#endif  // SLUICE_KERNELS_RANDOM_FILL_H_
