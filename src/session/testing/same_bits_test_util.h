// Shared by tests of graph rewrites: both versions of a step give the same
// bits.
#ifndef SLUICE_SESSION_TESTING_SAME_BITS_TEST_UTIL_H_
#define SLUICE_SESSION_TESTING_SAME_BITS_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <vector>

#include "session/session.h"

namespace sluice {

// Runs with the default options and with `plain`, expects equal results, and
// returns them.
inline std::vector<Tensor> SameBits(Graph& graph, const SessionOptions& plain,
                                    const Feeds& feeds,
                                    const std::vector<Output>& fetches) {
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  Session without(graph, plain), session(graph);
  const auto want = without.Run(feeds, fetches);
  EXPECT_TRUE(want.ok()) << want.status();
  // Twice: state that a run leaves behind must not affect the next run.
  for (int run = 0; run < 2; ++run) {
    const auto got = session.Run(feeds, fetches);
    EXPECT_TRUE(got.ok()) << got.status();
    if (!want.ok() || !got.ok()) return {};
    for (size_t i = 0; i < fetches.size(); ++i)
      EXPECT_TRUE((*got)[i].Identical((*want)[i]))
          << fetches[i].name() << ": " << (*got)[i].ToString() << " for "
          << (*want)[i].ToString();
  }
  return *want;
}

}  // namespace sluice

#endif  // SLUICE_SESSION_TESTING_SAME_BITS_TEST_UTIL_H_
