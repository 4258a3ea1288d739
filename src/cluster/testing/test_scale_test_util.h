// How many of a test's random cases run: some of them in the fast tier, all
// with SLUICE_TEST_FULL=1, and a few under sanitizers (kSanitized), which are
// five to fifteen times slower.
#ifndef SLUICE_CLUSTER_TESTING_TEST_SCALE_TEST_UTIL_H_
#define SLUICE_CLUSTER_TESTING_TEST_SCALE_TEST_UTIL_H_

#include <cstdlib>

#include "base/sanitizers.h"

namespace sluice {

inline bool FullTests() {
  static const bool full = std::getenv("SLUICE_TEST_FULL") != nullptr;
  return full;
}

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TESTING_TEST_SCALE_TEST_UTIL_H_
