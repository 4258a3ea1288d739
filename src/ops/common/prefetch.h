// Reading ahead in tables that are larger than the caches.
#ifndef SLUICE_OPS_COMMON_PREFETCH_H_
#define SLUICE_OPS_COMMON_PREFETCH_H_

#include <cstddef>

namespace sluice {

// How many rows ahead are requested: as many as their waits for memory overlap.
inline constexpr size_t kRowsAhead = 16;

// Requests the first bytes of a row; the processor goes on with the rest of a
// long one by itself. A row that is cached costs some nanoseconds.
inline void PrefetchRow(const void* row, size_t bytes) {
  constexpr size_t kLine = 64, kMost = 512;
  const char* const at = static_cast<const char*>(row);
  for (size_t i = 0; i < bytes && i < kMost; i += kLine)
    __builtin_prefetch(at + i);
}

}  // namespace sluice

#endif  // SLUICE_OPS_COMMON_PREFETCH_H_
