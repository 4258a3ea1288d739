// Random graphs of conditionals, loops and control edges compute the same as
// the reference interpreter, in any order of their nodes.
#include <gtest/gtest.h>

#include <random>

#include "base/sanitizers.h"
#include "exec/testing/random_graph_test_util.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

std::vector<uint8_t> RandomBytes(uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> bytes(40 + rng() % 400);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng());
  return bytes;
}

// (Sanitizers, which are slow here, run an eighth, and count in a third. With
// AddressSanitizer the fuzzer runs other programs, too.)
constexpr int kEvery = kSanitized ? 8 : 1;
constexpr int kCountEvery = kSanitized ? 3 : 1;

TEST(RandomGraph, MatchesTheReferenceInterpreter) {
  for (uint32_t seed = 1; seed <= 300; seed += kEvery) {
    const std::vector<uint8_t> bytes = RandomBytes(seed);
    const std::string what = CheckRandomGraph(bytes.data(), bytes.size(), seed);
    ASSERT_EQ(what, "") << "program seed " << seed;
  }
}

// Otherwise the test above would prove little.
TEST(RandomGraph, ProgramsContainLoopsBranchesAndDeadValues) {
  int loops = 0, merges = 0, nested = 0, dead = 0, counted = 0;
  for (uint32_t seed = 1; seed <= 300; seed += kCountEvery) {
    const std::vector<uint8_t> bytes = RandomBytes(seed);
    RandomGraph g;
    RandomGraphMaker(bytes.data(), bytes.size(), &g).Make();
    ASSERT_TRUE(g.graph.status().ok()) << g.graph.status();
    for (const auto& n : g.graph.nodes()) {
      loops += n->op_name() == "LoopCond";
      merges += n->op_name() == "Merge";
    }
    OnDeepStack([&] {
      ReferenceInterpreter reference(g.feeds);
      for (const Output& o : g.fetches) dead += !reference.Value(o);
      for (const CounterAdd& a : g.adds) {
        nested += a.loops.size() > 1;
        counted += reference.Total(a.node, a.loops) != 0;
      }
    });
  }
  EXPECT_GT(loops, 300 / kCountEvery);
  EXPECT_GT(merges, 1000 / kCountEvery);
  EXPECT_GT(nested, 30 / kCountEvery);
  EXPECT_GT(dead, 30 / kCountEvery);
  EXPECT_GT(counted, 100 / kCountEvery);
}

TEST(RandomGraph, AnyBytesGiveAValidGraph) {
  for (int value = 0; value < 256; value += kSanitized ? 15 : 1) {
    const std::vector<uint8_t> bytes(300, static_cast<uint8_t>(value));
    ASSERT_EQ(CheckRandomGraph(bytes.data(), bytes.size(), 7), "")
        << "bytes of " << value;
  }
  EXPECT_EQ(CheckRandomGraph(nullptr, 0, 7), "");
}

}  // namespace
}  // namespace sluice
