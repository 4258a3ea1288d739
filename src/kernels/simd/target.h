// Selects the instruction sets that the kernels are compiled for. Include this
// before hwy/foreach_target.h. On x86-64 there are three: SSE4 (the minimum),
// AVX2 and AVX-512; the best supported one is chosen at run time. More would
// cost compile time for little gain: these kernels are memory-bound. On aarch64
// there is NEON. (SVE's vectors have no size when they are compiled, but the
// kernels keep them in arrays and lambdas.)
#ifndef SLUICE_KERNELS_SIMD_TARGET_H_
#define SLUICE_KERNELS_SIMD_TARGET_H_

#if defined(__x86_64__) && !defined(HWY_BASELINE_TARGETS)
#define HWY_BASELINE_TARGETS HWY_SSE4
#elif defined(__aarch64__)
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

#endif  // SLUICE_KERNELS_SIMD_TARGET_H_
