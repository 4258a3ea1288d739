// Which instruction sets the kernels are compiled for. Include this before
// hwy/foreach_target.h. On x86-64 three: SSE4 (the least that is supported),
// AVX2 and AVX-512; the best one the machine has is chosen at run time. More
// would cost compile time and bring little: these kernels are bound by memory.
#ifndef SLUICE_KERNELS_SIMD_TARGET_H_
#define SLUICE_KERNELS_SIMD_TARGET_H_

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif

#endif  // SLUICE_KERNELS_SIMD_TARGET_H_
