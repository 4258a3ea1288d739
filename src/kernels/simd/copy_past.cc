#include "kernels/simd/copy_past.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sluice::simd {

void CopyPast(void* out, const void* in, size_t bytes) {
#if defined(__SSE2__)
  constexpr size_t kLine = 64, kVector = sizeof(__m128i);
  auto* to = static_cast<char*>(out);
  auto* from = static_cast<const char*>(in);
  const size_t before = std::min(
      bytes, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, before);
  to += before;
  from += before;
  size_t rest = bytes - before;
  for (; rest >= kLine; rest -= kLine, to += kLine, from += kLine) {
    __m128i line[kLine / kVector];
    std::memcpy(line, from, kLine);
    for (size_t k = 0; k < kLine / kVector; ++k)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to) + k, line[k]);
  }
  _mm_sfence();
  std::memcpy(to, from, rest);
#else
  std::memcpy(out, in, bytes);
#endif
}

}  // namespace sluice::simd
