// Random programs for clusters, with their results on one device.
#ifndef SLUICE_CLUSTER_TESTING_RANDOM_CLUSTER_TEST_UTIL_H_
#define SLUICE_CLUSTER_TESTING_RANDOM_CLUSTER_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "client/testing/random_program_test_util.h"
#include "session/testing/partition_test_util.h"
#include "sluice/sluice.h"

namespace sluice {

// A program, its gradients, and their results on one device.
struct WholeProgram {
  // `stores`: it uses a TensorStore.
  explicit WholeProgram(uint64_t seed, bool stores = false) {
    using random_program::GraphBuilder;
    using random_program::Maker;
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> real(-1.5, 1.5);
    const WithGraph use(graph);
    const Output x0 = Placeholder<double>({2}), x1 = Placeholder<double>({2});
    fetches = {GraphBuilder({x0, x1}).Build(Maker(seed, stores).Make())};
    const std::vector<Output> g =
        Grad({fetches[0]}, std::vector<GradTarget>{x0, x1},
             {.unconnected = Unconnected::kZero});
    fetches.insert(fetches.end(), g.begin(), g.end());
    EXPECT_TRUE(graph.status().ok()) << graph.status();
    feeds = {{x0, Tensor::Vector<double>({real(random), real(random)})},
             {x1, Tensor::Vector<double>({real(random), real(random)})}};
    Session session(graph);
    const auto got = session.Run(feeds, fetches);
    EXPECT_TRUE(got.ok()) << got.status();
    if (got.ok()) want = *got;
  }
  // Places each node on a random one of the tasks' devices.
  void PlaceOver(const std::vector<std::string>& tasks, uint64_t seed,
                 size_t devices = 1) {
    PlaceAtRandom(&graph, static_cast<int>(devices * tasks.size()), seed,
                  [&](int d) {
                    const auto i = static_cast<size_t>(d);
                    return absl::StrCat(tasks[i % tasks.size()],
                                        "/device:CPU:", i / tasks.size());
                  });
  }

  Graph graph;
  Feeds feeds;
  std::vector<Output> fetches;
  std::vector<Tensor> want;
};

inline void ExpectIdentical(const Result<std::vector<Tensor>>& got,
                            const std::vector<Tensor>& want) {
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(got->size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE((*got)[i].Identical(want[i]))
        << "fetch " << i << ": expected " << want[i].ToString() << ", got "
        << (*got)[i].ToString();
}

// Within rounding, for vectors and scalars of doubles: parts of gradients in
// stores are added in the order in which they come.
inline void ExpectNearlyIdentical(const Result<std::vector<Tensor>>& got,
                                  const std::vector<Tensor>& want) {
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(got->size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_TRUE((*got)[i].shape() == want[i].shape());
    for (size_t k = 0; k < want[i].flat<double>().size(); ++k) {
      const double w = want[i].flat<double>()[k];
      EXPECT_NEAR((*got)[i].flat<double>()[k], w,
                  1e-9 * std::max(1.0, std::abs(w)))
          << "fetch " << i;
    }
  }
}

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TESTING_RANDOM_CLUSTER_TEST_UTIL_H_
