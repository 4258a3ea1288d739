// Programs cut anywhere give what they give whole: random nests of conditionals
// and loops with their gradients, each node on a device drawn at random.
#include "client/client_test_util.h"
#include "client/functions.h"
#include "client/random_program_test_util.h"
#include "exec/random_graph.h"
#include "session/partition_test_util.h"

namespace sluice {
namespace {

using random_program::Maker;
using random_program::Program;
using Vars = std::vector<Output>;

constexpr GradientOptions kZeros = {.unconnected = Unconnected::kZero};

void ExpectSameBits(const std::vector<Tensor>& got,
                    const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].dtype(), want[i].dtype());
    EXPECT_EQ(got[i].shape(), want[i].shape());
    EXPECT_EQ(got[i].ToString(), want[i].ToString()) << "fetch " << i;
  }
}

// Runs the step cut over 2, 3 and 4 devices, each under two schedules.
void ExpectSameWhenCut(const Graph& graph, const Feeds& feeds,
                       const std::vector<Output>& fetches,
                       const std::vector<Tensor>& want, uint64_t seed) {
  StepSignature signature;
  std::vector<Tensor> values;
  for (const auto& [o, t] : feeds) {
    signature.feeds.push_back(o);
    values.push_back(t);
  }
  signature.fetches = fetches;
  for (int devices = 2; devices <= 4; ++devices) {
    SCOPED_TRACE(absl::StrCat("over ", devices, " devices, seed ", seed));
    CutStep::Options o;
    o.place = [&](Graph* g) {
      PlaceAtRandom(g, devices, seed * 31 + static_cast<uint64_t>(devices));
    };
    o.optimize = seed % 5 != 1;
    o.own_memory = seed % 3 == 1;
    const int64_t live = Allocator::Cpu()->stats().live_bytes;
    Result<std::unique_ptr<CutStep>> cut = CutStep::Make(graph, signature, o);
    ASSERT_TRUE(cut.ok()) << cut.status();
    for (const uint64_t schedule : {uint64_t{0}, seed * 7 + 1}) {
      SCOPED_TRACE(absl::StrCat("schedule ", schedule));
      size_t untaken = 99;
      const Result<std::vector<Tensor>> got =
          (*cut)->Run(values, schedule, &untaken);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(untaken, 0u) << "tokens that nobody took";
      ExpectSameBits(*got, want);
    }
    cut->reset();
    EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, live);
  }
}

class RandomCut : public ::testing::TestWithParam<int> {};

TEST_P(RandomCut, ProgramsAndTheirGradientsGiveTheSame) {
  for (uint64_t seed = 40 * static_cast<uint64_t>(GetParam());
       seed < 40 * static_cast<uint64_t>(GetParam() + 1); ++seed) {
    const Program program = Maker(seed).Make();
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> real(-1.5, 1.5);
    Graph graph;
    const WithGraph use(graph);
    const Output x0 = Placeholder<double>({2}), x1 = Placeholder<double>({2});
    Vars fetches = {random_program::GraphBuilder({x0, x1}).Build(program)};
    const std::vector<GradTarget> xs = {x0, x1};
    const Vars g = Grad({fetches[0]}, xs, kZeros);
    fetches.insert(fetches.end(), g.begin(), g.end());
    if (seed % 10 == 0)
      for (const Output& h : Grad({ops::Sum(g[0] + g[1], {0})}, xs, kZeros))
        fetches.push_back(h);
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    const Feeds feeds = {
        {x0, Tensor::Vector<double>({real(random), real(random)})},
        {x1, Tensor::Vector<double>({real(random), real(random)})}};
    Session session(graph);
    const Result<std::vector<Tensor>> want = session.Run(feeds, fetches);
    ASSERT_TRUE(want.ok()) << want.status();
    ExpectSameWhenCut(graph, feeds, fetches, *want, seed);
    if (testing::Test::HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomCut, ::testing::Range(0, 5));

}  // namespace
}  // namespace sluice
