// How many of a test's random cases are run: in the fast tier a part of them,
// with SLUICE_TEST_FULL=1 all, under sanitizers (five to fifteen times slower)
// a few.
#ifndef SLUICE_DIST_TEST_SCALE_TEST_UTIL_H_
#define SLUICE_DIST_TEST_SCALE_TEST_UTIL_H_

#include <cstdint>
#include <cstdlib>

// There if the program is instrumented. (The macros that say so are taken back
// for tests that include protobuf's headers; see cmake/Tests.cmake.)
extern "C" {
[[gnu::weak]] void __tsan_init();  // NOLINT
[[gnu::weak]] void __asan_init();  // NOLINT
}

namespace sluice {

inline bool Sanitized() {
  return &__tsan_init != nullptr || &__asan_init != nullptr;
}
inline bool FullTests() {
  static const bool full = std::getenv("SLUICE_TEST_FULL") != nullptr;
  return full;
}

}  // namespace sluice

#endif  // SLUICE_DIST_TEST_SCALE_TEST_UTIL_H_
