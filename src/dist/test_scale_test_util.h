// How many of a test's random cases are run: in the fast tier a part of them,
// with SLUICE_TEST_FULL=1 all, under sanitizers (five to fifteen times slower)
// a few: kSanitized.
#ifndef SLUICE_DIST_TEST_SCALE_TEST_UTIL_H_
#define SLUICE_DIST_TEST_SCALE_TEST_UTIL_H_

#include <cstdlib>

#include "base/sanitizers.h"

namespace sluice {

inline bool FullTests() {
  static const bool full = std::getenv("SLUICE_TEST_FULL") != nullptr;
  return full;
}

}  // namespace sluice

#endif  // SLUICE_DIST_TEST_SCALE_TEST_UTIL_H_
