// Special functions of one double that the C library lacks.
#ifndef SLUICE_KERNELS_SIMD_SPECIAL_H_
#define SLUICE_KERNELS_SIMD_SPECIAL_H_

namespace sluice::simd {

// log |gamma(x)|, safe to call from many threads.
double Lgamma(double x);

// The derivative of log gamma; NaN at 0, -1, -2...
double Digamma(double x);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_SPECIAL_H_
