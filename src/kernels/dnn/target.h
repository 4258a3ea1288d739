// The instruction sets that this folder's own loops are compiled for; include
// it before hwy/foreach_target.h. On x86-64: SSE4 (the least supported), AVX2
// and AVX-512; the best that the machine has is chosen at run time.
#ifndef SLUICE_KERNELS_DNN_TARGET_H_
#define SLUICE_KERNELS_DNN_TARGET_H_

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif

#endif  // SLUICE_KERNELS_DNN_TARGET_H_
