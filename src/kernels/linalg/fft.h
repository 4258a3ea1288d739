// Discrete Fourier transforms along the last dimensions of a tensor.
#ifndef SLUICE_KERNELS_LINALG_FFT_H_
#define SLUICE_KERNELS_LINALG_FFT_H_

#include <complex>
#include <cstdint>
#include <span>

namespace sluice::linalg {

// The maximum length of a transformed line.
inline constexpr int64_t kMaxFftLength = int64_t{1} << 28;

// T is float or double. `dims`: the dimensions to transform, row-major, at most
// kMaxFftLength each; `batch` such blocks are stored consecutively. Uses up to
// IntraOpThreads() threads.

// In place. Inverse ones are divided by the number of elements of a block.
template <typename T>
void Fft(std::span<const int64_t> dims, int64_t batch, bool inverse,
         std::complex<T>* data);

// Transforms real blocks of `dims`: returns the first dims.back() / 2 + 1
// frequencies along the last dimension, and all along the others.
template <typename T>
void RealFft(std::span<const int64_t> dims, int64_t batch, const T* in,
             std::complex<T>* out);

// The inverse: `in`, which is overwritten, has dims.back() / 2 + 1 frequencies
// along the last dimension. Imaginary parts that must be zero are ignored.
template <typename T>
void InverseRealFft(std::span<const int64_t> dims, int64_t batch,
                    std::complex<T>* in, T* out);

}  // namespace sluice::linalg

#endif  // SLUICE_KERNELS_LINALG_FFT_H_
