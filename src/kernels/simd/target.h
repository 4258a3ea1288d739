// Selects the instruction sets that the kernels are compiled for. Include this
// before hwy/foreach_target.h. On x86-64 there are three: SSE4 (the minimum),
// AVX2 and AVX-512; the best supported one is chosen at run time. More would
// cost compile time for little gain: these kernels are memory-bound.
#ifndef SLUICE_KERNELS_SIMD_TARGET_H_
#define SLUICE_KERNELS_SIMD_TARGET_H_

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif

#endif  // SLUICE_KERNELS_SIMD_TARGET_H_
