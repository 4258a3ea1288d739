// Random nests of conditionals and loops: their values and gradients of first
// and second order, against plain code on dual numbers, under a random
// scheduler.
#include <cmath>

#include "base/sanitizers.h"
#include "client/testing/client_test_util.h"
#include "client/testing/random_program_test_util.h"
#include "exec/batching/batch_requests.h"
#include "exec/devices/emulated_device.h"
#include "graph/device_scope.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

using random_program::Dual;
using random_program::Interpreter;
using random_program::Maker;
using random_program::Pair;
using random_program::Program;

constexpr int kElements = 2 * Program::kInputs;

class RandomProgram : public ::testing::TestWithParam<int> {
 protected:
  template <typename T>
  static std::array<Pair<T>, Program::kInputs> Shaped(
      const std::array<T, kElements>& flat) {
    return {Pair<T>{flat[0], flat[1]}, Pair<T>{flat[2], flat[3]}};
  }

  // `batched`: instances of a node run as one, however small. `stores`: the
  // program uses a TensorStore; its statements are on several devices, where
  // the session has them. `recursive`: every other loop is a function that
  // calls itself, whose gradients through a store are of first order.
  void Check(uint64_t seed, bool batched, bool stores = false,
             bool recursive = false) {
    SCOPED_TRACE("program " + std::to_string(seed) +
                 (batched ? ", batched" : ""));
    const ScopedFewestBatchedElements all_sizes(batched ? 0 : 16);
    const Program program = Maker(seed, stores).Make();
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> real(-1.5, 1.5);
    std::array<double, kElements> at, direction;
    for (double& x : at) x = real(random);
    for (double& x : direction) x = real(random);

    Graph graph;
    const WithGraph use(graph);
    const Output x0 = Placeholder<double>({2}), x1 = Placeholder<double>({2});
    int assigned = 0;
    const auto on_a_device = [&assigned](const Output& v) {
      const DeviceScope on("/device:EMU:" + std::to_string(assigned++ % 2));
      return v + Constant(Tensor::Vector<double>({0.0, 0.0}));
    };
    const Output y =
        (stores ? random_program::GraphBuilder({x0, x1}, on_a_device, recursive)
                : random_program::GraphBuilder({x0, x1}, nullptr, recursive))
            .Build(program);
    const Output to_zero =
        Constant(Tensor::Vector<double>({direction[0], direction[1]}));
    const Output to_one =
        Constant(Tensor::Vector<double>({direction[2], direction[3]}));
    const GradientOptions zeros = {.unconnected = Unconnected::kZero};
    const std::vector<GradTarget> xs = {x0, x1};
    const std::vector<Output> g = Grad({y}, xs, zeros);
    const bool second = seed % 3 == 0 && !(stores && recursive);
    std::vector<Output> fetches = {y, g[0], g[1]};
    Output slope;
    if (second && g[0].valid() && g[1].valid()) {
      slope = ops::Sum(g[0] * to_zero, {0}) + ops::Sum(g[1] * to_one, {0});
      for (const Output& h : Grad({slope}, xs, zeros)) fetches.push_back(h);
    }
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    SessionOptions options;
    options.scheduler_seed = seed % 4;
    options.batch_frames = batched;
    options.soft_placement = stores;
    Session session(graph, options);
    const Feeds feeds = {{x0, Tensor::Vector<double>({at[0], at[1]})},
                         {x1, Tensor::Vector<double>({at[2], at[3]})}};
    const Result<std::vector<Tensor>> got = session.Run(feeds, fetches);
    ASSERT_TRUE(got.ok()) << got.status();
    if (stores) {
      // (Bodies of functions cannot use constants on devices with memory of
      // their own yet: docs/design/024-emulated-device.md.)
      for (const bool cut : {false, !recursive}) {
        // (Only over devices there are several threads.)
        if (kThreadSanitized && !cut) continue;
        for (const uint64_t scheduler : {uint64_t{0}, seed + 1, seed + 77}) {
          // (Two of the three orders under sanitizers.)
          if (kSanitized && scheduler == seed + 77) continue;
          SCOPED_TRACE((cut ? "over devices, scheduler " : "scheduler ") +
                       std::to_string(scheduler));
          SessionOptions o = options;
          o.scheduler_seed = scheduler;
          if (cut) o.devices = EmulatedDevices(2);
          Session other(graph, o);
          for (int round = 0; round < 2; ++round) {
            const Result<std::vector<Tensor>> same = other.Run(feeds, fetches);
            ASSERT_TRUE(same.ok()) << same.status();
            for (size_t i = 0; i < fetches.size(); ++i)
              for (int k = 0; k < (i == 0 ? 1 : 2); ++k)
                Near((*same)[i], k,
                     (*got)[i].flat<double>()[static_cast<size_t>(k)]);
          }
        }
      }
    }

    // The same gradients in a copy that was exported and imported.
    if (seed % 4 == 0 && !(stores && recursive)) {
      SCOPED_TRACE("imported");
      Graph copy;
      Import(graph, copy);
      if (HasFatalFailure()) return;
      const WithGraph there(copy);
      const std::vector<GradTarget> theirs = {Twin(x0, copy), Twin(x1, copy)};
      const std::vector<Output> again =
          Grad({Twin(fetches[0], copy)}, theirs, zeros);
      std::vector<Output> more = again;
      if (second)
        for (const Output& h : Grad({Twin(slope, copy)}, theirs, zeros))
          more.push_back(h);
      ASSERT_TRUE(copy.status().ok()) << copy.status();
      Session other(copy, options);
      const Result<std::vector<Tensor>> same = other.Run(
          {{theirs[0].output, Tensor::Vector<double>({at[0], at[1]})},
           {theirs[1].output, Tensor::Vector<double>({at[2], at[3]})}},
          more);
      ASSERT_TRUE(same.ok()) << same.status();
      for (size_t i = 0; i < same->size(); ++i)
        for (int k = 0; k < 2; ++k)
          Near((*same)[i], k,
               (*got)[1 + i].flat<double>()[static_cast<size_t>(k)]);
    }

    const double want = Interpreter<double>(Shaped<double>(at)).Run(program);
    Near((*got)[0], 0, want);
    for (int j = 0; j < kElements; ++j) {
      SCOPED_TRACE("by element " + std::to_string(j));
      const auto tensor = static_cast<size_t>(j / 2);
      using D = Dual<double>;
      std::array<D, kElements> moved;
      for (size_t k = 0; k < kElements; ++k)
        moved[k] = D(at[k], static_cast<int>(k) == j ? 1.0 : 0.0);
      Near((*got)[1 + tensor], j % 2,
           Interpreter<D>(Shaped<D>(moved)).Run(program).d);
      if (!second) continue;
      using DD = Dual<D>;
      std::array<DD, kElements> both;
      for (size_t k = 0; k < kElements; ++k)
        both[k] = DD(D(at[k], direction[k]),
                     D(static_cast<int>(k) == j ? 1.0 : 0.0, 0.0));
      Near((*got)[3 + tensor], j % 2,
           Interpreter<DD>(Shaped<DD>(both)).Run(program).d.d);
    }
  }

  // Exports and imports the graph, which loses its contexts.
  static void Import(const Graph& from, Graph& to) {
    const Result<std::string> bytes = ExportGraphDef(from);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const Status s = ImportGraphDef(*bytes, to);
    ASSERT_TRUE(s.ok()) << s;
  }
  static Output Twin(const Output& o, const Graph& copy) {
    return Output(copy.FindNode(o.node->name()), o.index);
  }

  static void Near(const Tensor& got, int i, double want) {
    EXPECT_NEAR(got.flat<double>()[static_cast<size_t>(i)], want,
                1e-7 * std::max(1.0, std::fabs(want)));
  }
};

// (Sanitizers are slow here and run a seventh of the cases, every other one of
// them batched.)
TEST_P(RandomProgram, ValuesAndGradientsMatchPlainCode) {
  for (int i = 0; i < 60; i += kSanitized ? 7 : 1) {
    for (const bool batched : {false, true})
      if (!kSanitized || batched == (i % 2 == 1))
        Check(static_cast<uint64_t>(GetParam() * 60 + i), batched);
    if (HasFailure()) return;
  }
}

TEST_P(RandomProgram, WithStoresValuesAndGradientsMatchPlainCode) {
  for (int i = 0; i < 20; i += kSanitized ? 7 : 1) {
    Check(static_cast<uint64_t>(1000 + GetParam() * 20 + i), i % 2 == 1,
          /*stores=*/true);
    if (HasFailure()) return;
  }
}

TEST_P(RandomProgram, RecursiveProgramsMatchPlainCode) {
  for (int i = 0; i < 12; i += kSanitized ? 7 : 1) {
    const auto seed = static_cast<uint64_t>(2000 + GetParam() * 12 + i);
    Check(seed, i % 2 == 1, /*stores=*/false, /*recursive=*/true);
    Check(seed, i % 2 == 0, /*stores=*/true, /*recursive=*/true);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomProgram, ::testing::Range(0, 10));

}  // namespace
}  // namespace sluice
