// Copying parts of what is larger than the caches.
#ifndef SLUICE_KERNELS_SIMD_COPY_PAST_H_
#define SLUICE_KERNELS_SIMD_COPY_PAST_H_

#include <cstddef>

namespace sluice::simd {

// memcpy, on this thread, with stores that leave `out` outside of the caches:
// no cache line is fetched only to be overwritten.
void CopyPast(void* out, const void* in, size_t bytes);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_COPY_PAST_H_
