#ifndef SLUICE_BASE_THREAD_COUNT_TEST_UTIL_H_
#define SLUICE_BASE_THREAD_COUNT_TEST_UTIL_H_

#include <cstddef>
#include <filesystem>

namespace sluice {

// The threads of this process.
inline size_t NumThreads() {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task"))
    ++n;
  return n;
}

}  // namespace sluice

#endif  // SLUICE_BASE_THREAD_COUNT_TEST_UTIL_H_
