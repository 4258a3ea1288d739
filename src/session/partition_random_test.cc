// Partitioned programs give the same results as whole ones: random nests of
// conditionals and loops with their gradients, with each node on a random
// device.
#include <algorithm>
#include <cmath>

#include "base/sanitizers.h"
#include "client/control/functions.h"
#include "client/testing/client_test_util.h"
#include "client/testing/random_program_test_util.h"
#include "exec/testing/random_graph.h"
#include "session/testing/partition_test_util.h"

namespace sluice {
namespace {

using random_program::Maker;
using random_program::Program;
using Vars = std::vector<Output>;

const GradientOptions kZeros = {.unconnected = Unconnected::kZero};

void ExpectSameBits(const std::vector<Tensor>& got,
                    const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].dtype(), want[i].dtype());
    EXPECT_EQ(got[i].shape(), want[i].shape());
    EXPECT_EQ(got[i].ToString(), want[i].ToString()) << "fetch " << i;
  }
}

// Within rounding: parts of gradients in stores are added in the order in which
// they come.
void ExpectNear(const std::vector<Tensor>& got,
                const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape(), want[i].shape());
    for (size_t k = 0; k < got[i].flat<double>().size(); ++k) {
      const double w = want[i].flat<double>()[k];
      EXPECT_NEAR(got[i].flat<double>()[k], w,
                  1e-9 * std::max(1.0, std::abs(w)))
          << "fetch " << i;
    }
  }
}

// (Sanitizers are slow here and run a seventh of the cases.)
constexpr uint64_t kEvery = kSanitized ? 7 : 1;

// Runs the step cut over 2, 3 and 4 devices, each under two schedules. (With a
// sanitizer over one of these numbers, because cutting takes most of the time.)
void ExpectSameWhenCut(const Graph& graph, const Feeds& feeds,
                       const std::vector<Output>& fetches,
                       const std::vector<Tensor>& want, uint64_t seed,
                       bool rounded = false) {
  StepSignature signature;
  std::vector<Tensor> values;
  for (const auto& [o, t] : feeds) {
    signature.feeds.push_back(o);
    values.push_back(t);
  }
  signature.fetches = fetches;
  const int most = kSanitized ? 2 + static_cast<int>(seed / kEvery % 3) : 4;
  for (int devices = kSanitized ? most : 2; devices <= most; ++devices) {
    SCOPED_TRACE(absl::StrCat("over ", devices, " devices, seed ", seed));
    CutStep::Options o;
    o.place = [&](Graph* g) {
      const uint64_t draw = seed * 31 + static_cast<uint64_t>(devices);
      return seed % 4 == 3 ? PlaceByRandomConstraints(g, devices, draw)
                           : PlaceAtRandom(g, devices, draw);
    };
    o.regions = seed % 2 == 1;
    o.optimize = seed % 5 != 1;
    // (The ops of stores run only on the host, where the placer puts them.)
    o.own_memory = !rounded && seed % 3 == 1;
    o.emulated.kernel_ns = o.emulated.copy_ns = o.emulated.peer_ns = 1;
    if (seed % 6 == 1) {
      o.clock = std::make_shared<VirtualClock>();
      o.emulated.late = true;
      o.emulated.kernel_ns = 1 + static_cast<int64_t>(seed % 5) * 100;
    }
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
      if (rounded)
        ExpectNear(*got, want);
      else
        ExpectSameBits(*got, want);
    }
    cut->reset();
    EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, live);
  }
}

class RandomPartition : public ::testing::TestWithParam<int> {};

// `stores`: the programs use a TensorStore.
void CheckPrograms(uint64_t first, uint64_t count, bool stores) {
  for (uint64_t seed = first; seed < first + count; seed += kEvery) {
    const Program program = Maker(seed, stores).Make();
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
    ExpectSameWhenCut(graph, feeds, fetches, *want, seed, stores);
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(RandomPartition, ProgramsAndGradientsGiveEqualResults) {
  CheckPrograms(40 * static_cast<uint64_t>(GetParam()), 40, false);
}

TEST_P(RandomPartition, ProgramsWithStoresGiveEqualResults) {
  CheckPrograms(5000 + 20 * static_cast<uint64_t>(GetParam()), 20, true);
}

// Raw primitives, including dead loops, Merges with several inputs, constants
// with control inputs, and a counter that every branch and iteration may
// change.
TEST_P(RandomPartition, RawGraphsGiveEqualResults) {
  for (uint64_t seed = 60 * static_cast<uint64_t>(GetParam());
       seed < 60 * static_cast<uint64_t>(GetParam() + 1); seed += kEvery) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    std::vector<uint8_t> bytes(20 + random() % 200);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
    RandomGraph g;
    RandomGraphMaker(bytes.data(), bytes.size(), &g).Make();
    ASSERT_TRUE(g.graph.status().ok()) << g.graph.status();
    StepSignature signature;
    std::vector<Tensor> values;
    for (const auto& [o, t] : g.feeds) {
      signature.feeds.push_back(o);
      values.push_back(t);
    }
    Session session(g.graph);
    ASSERT_TRUE(session.RunTargets({g.init_counter}).ok());
    for (const Output& f : g.fetches)  // Some are dead.
      if (session.Run(g.feeds, f).ok()) signature.fetches.push_back(f);
    for (const CounterAdd& a : g.adds) signature.targets.push_back(a.node);
    ASSERT_TRUE(session.RunTargets({g.init_counter}).ok());
    const Result<std::vector<Tensor>> want =
        session.Run(g.feeds, signature.fetches, signature.targets);
    ASSERT_TRUE(want.ok()) << want.status();
    const Tensor counted = *session.Run(g.counter);
    for (int devices = 2; devices <= 4; ++devices) {
      CutStep::Options o;
      o.regions = devices % 2 == 0;
      o.place = [&](Graph* graph) {
        PlaceAtRandom(graph, devices,
                      seed * 17 + static_cast<uint64_t>(devices));
      };
      Result<std::unique_ptr<CutStep>> cut =
          CutStep::Make(g.graph, signature, o);
      ASSERT_TRUE(cut.ok()) << cut.status();
      for (const uint64_t schedule : {uint64_t{0}, seed + 1}) {
        ASSERT_TRUE(session.RunTargets({g.init_counter}).ok());
        size_t untaken = 99;
        const Result<std::vector<Tensor>> got =
            (*cut)->Run(values, schedule, &untaken, &session.resources());
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(untaken, 0u);
        ExpectSameBits(*got, *want);
        EXPECT_EQ(session.Run(g.counter)->ToString(), counted.ToString());
      }
    }
    if (testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPartition, ::testing::Range(0, 5));

// ---- Functions that call themselves -----------------------------------------

class RecursivePartition : public ClientTest {
 protected:
  void Check(const Feeds& feeds, const std::vector<Output>& fetches) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    Session session(graph_);
    const Result<std::vector<Tensor>> want = session.Run(feeds, fetches);
    ASSERT_TRUE(want.ok()) << want.status();
    for (uint64_t seed = 0; seed < 25; ++seed)
      ExpectSameWhenCut(graph_, feeds, fetches, *want, seed);
  }
};

TEST_F(RecursivePartition, SelfRecursionGivesEqualResults) {
  const Function fib =
      DefineFunction("fib", {DType::kInt32}, {DType::kInt32},
                     [](const Function& f, const Vars& a) {
                       const Output n = a[0];
                       return Cond(
                           n < 2, [&] { return n; },
                           [&] { return f({n - 1})[0] + f({n - 2})[0]; });
                     });
  const Output n = Placeholder<int32_t>(PartialShape::Scalar());
  Check({{n, Tensor::Scalar(9)}}, {fib({n})[0], fib({n - 3})[0] * 2});
}

TEST_F(RecursivePartition, MutualRecursionWithLoopsGivesEqualResults) {
  // even(n) = n == 0 or odd(n - 1), with a loop on the way; called in a loop.
  const Function even = DefineFunction(
      "even", {DType::kInt32}, {DType::kInt32},
      [](const Function& f, const Vars& a) {
        const Output n = a[0];
        return Cond(
            n < 1, [&] { return n; },
            [&] {
              const Output less = While(
                  Vars{Constant(0), n}, [](Vars v) { return v[0] < 2; },
                  [](Vars v) -> Vars {
                    return {v[0] + 1, v[1] - 1};
                  })[1];
              return f({less})[0] + n;
            });
      });
  const Output n = Placeholder<int32_t>(PartialShape::Scalar());
  const Output sum = While(
      Vars{Constant(0), n}, [](Vars v) { return v[0] < 4; },
      [&](Vars v) -> Vars {
        return {v[0] + 1, v[1] + even({v[0] * 2})[0]};
      },
      {.shape_invariants = {PartialShape::Scalar(), PartialShape()}})[1];
  Check({{n, Tensor::Scalar(7)}}, {sum, even({n})[0]});
}

TEST_F(RecursivePartition, GradientsOfCallsGiveEqualResults) {
  const Function f = DefineFunction(
      "f", {DType::kFloat, DType::kInt32}, {DType::kFloat},
      [](const Function& self, const Vars& a) {
        return Cond(
            a[1] < 1, [&] { return a[0]; },
            [&] {
              return ops::Sin(self({a[0] * 1.5f, a[1] - 1})[0]) * a[0];
            });
      });
  const Output x = Placeholder<float>(PartialShape::Scalar());
  const Output y = f({x, Constant(3)})[0];
  const std::vector<GradTarget> xs = {x};
  Check({{x, Tensor::Scalar(0.7f)}}, {y, Grad({y}, xs, kZeros)[0]});
}

// ---- Side effects -----------------------------------------------------------

// A call completes only when its side effects are done.
TEST_F(RecursivePartition, DependentsOfCallWaitForItsEffects) {
  const auto variable = [] {
    return Build("VarHandleOp", {},
                 {{"dtype", DType::kInt32},
                  {"shape", PartialShape::Scalar()},
                  {"shared_name", std::string("v")}});
  };
  const Output handle = variable();
  Node* init = BuildNode("AssignVariableOp", {handle, Constant(0)});
  const Function down = DefineFunction(
      "down", {DType::kInt32}, {DType::kInt32},
      [&](const Function& f, const Vars& a) {
        BuildNode("AssignAddVariableOp", {variable(), ops::Square(a[0])});
        return Cond(
            a[0] < 1, [&] { return a[0]; }, [&] { return f({a[0] - 1})[0]; });
      });
  const Output n = Placeholder<int32_t>(PartialShape::Scalar());
  Output read;
  {
    const Output called = down({n})[0];
    ControlDependencies after({called.node});
    read = Build("ReadVariableOp", {handle}, {{"dtype", DType::kInt32}});
  }
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session(graph_);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    CutStep::Options o;
    o.place = [&](Graph* g) {
      if (seed > 0) return PlaceAtRandom(g, 3, seed);
      for (const auto& node : g->nodes())
        g->SetDevice(
            node.get(),
            TestDeviceName(node->name().find("down/VarHandleOp") == 0 ||
                           node->name().find("down/Assign") == 0));
    };
    auto cut = CutStep::Make(graph_, {{n}, {read}, {}}, o);
    ASSERT_TRUE(cut.ok()) << cut.status();
    ASSERT_TRUE(session.RunTargets({init}).ok());
    size_t untaken = 99;
    const auto got =
        (*cut)->Run({Tensor::Scalar(6)}, seed, &untaken, &session.resources());
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ((*got)[0].scalar<int32_t>(), 91);
    EXPECT_EQ(untaken, 0u);
  }
}

}  // namespace
}  // namespace sluice
