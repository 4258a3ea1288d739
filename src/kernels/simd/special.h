// Special functions of one double that the C library lacks.
#ifndef SLUICE_KERNELS_SIMD_SPECIAL_H_
#define SLUICE_KERNELS_SIMD_SPECIAL_H_

namespace sluice::simd {

// The inverse of the error function: NaN outside [-1, 1], infinite at its ends.
double Erfinv(double x);

// The inverse of the normal distribution function: NaN outside [0, 1].
double Ndtri(double p);

// log |gamma(x)|, safe to call from many threads.
double Lgamma(double x);

// The derivative of log gamma; NaN at 0, -1, -2...
double Digamma(double x);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_SPECIAL_H_
