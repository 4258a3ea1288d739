// Random nests of constructs based on conditionals and loops: their values and
// gradients of first and second order, against plain code on dual numbers,
// under a random scheduler.
#include <cmath>

#include "base/sanitizers.h"
#include "client/testing/client_test_util.h"
#include "client/testing/random_construct_graph_test_util.h"
#include "client/testing/random_construct_plain_test_util.h"
#include "exec/batching/batch_requests.h"
#include "exec/devices/emulated_device.h"

namespace sluice {
namespace {

namespace construct = random_construct;
using random_program::Dual;
using random_program::Pair;

class RandomConstruct : public ::testing::TestWithParam<int> {
 protected:
  static constexpr int kSize = 2 * construct::kInputs;

  template <typename T>
  static T Plain(const construct::Program& program,
                 const std::array<T, kSize>& at) {
    return construct::Interpreter(program).Run<T>(
        {Pair<T>{at[0], at[1]}, Pair<T>{at[2], at[3]}});
  }

  // `batched`: instances of a node run as one, however small. With `devices`,
  // on a CPU and so many emulated devices, over which the assignments are
  // scheduled.
  void Check(uint64_t seed, bool batched, int devices = 0) {
    SCOPED_TRACE("program " + std::to_string(seed) +
                 (batched ? ", batched" : ""));
    const ScopedFewestBatchedElements all_sizes(batched ? 0 : 16);
    const construct::Program program = construct::Maker(seed).Make();
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> real(-1.5, 1.5);
    std::array<double, kSize> at, direction;
    for (double& x : at) x = real(random);
    for (double& x : direction) x = real(random);

    Graph graph;
    const WithGraph use(graph);
    const Output x0 = Placeholder<double>({2}), x1 = Placeholder<double>({2});
    std::vector<std::string> names;
    for (int d = 0; d < devices; ++d)
      names.push_back(absl::StrCat("/device:EMU:", d));
    const Output y = construct::GraphBuilder(program, names).Build({x0, x1});
    const GradientOptions zeros = {.unconnected = Unconnected::kZero};
    const std::vector<GradTarget> xs = {x0, x1};
    const bool first = !program.watches, second = first && seed % 4 == 0;
    std::vector<Output> fetches = {y};
    if (first)
      for (const Output& g : Grad({y}, xs, zeros)) fetches.push_back(g);
    if (second && graph.status().ok()) {
      const Output slope =
          ops::Sum(fetches[1] * Constant(Tensor::Vector<double>(
                                    {direction[0], direction[1]})) +
                       fetches[2] * Constant(Tensor::Vector<double>(
                                        {direction[2], direction[3]})),
                   {0});
      for (const Output& h : Grad({slope}, xs, zeros)) fetches.push_back(h);
    }
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    SessionOptions options;
    options.scheduler_seed = seed % 3;
    options.batch_frames = batched;
    if (devices > 0) {
      EmulatedDeviceOptions device;
      device.kernel_ns = device.copy_ns = device.peer_ns = 100;
      options.devices = EmulatedDevices(devices, device);
    }
    Session session(graph, options);
    const Result<std::vector<Tensor>> got =
        session.Run({{x0, Tensor::Vector<double>({at[0], at[1]})},
                     {x1, Tensor::Vector<double>({at[2], at[3]})}},
                    fetches);
    ASSERT_TRUE(got.ok()) << got.status();

    ExpectNear((*got)[0], 0, Plain<double>(program, at));
    for (int j = 0; first && j < kSize; ++j) {
      SCOPED_TRACE("by element " + std::to_string(j));
      const auto tensor = static_cast<size_t>(j / 2);
      using D = Dual<double>;
      using DD = Dual<D>;
      std::array<D, kSize> moved;
      std::array<DD, kSize> both;
      for (size_t k = 0; k < kSize; ++k) {
        const double d = static_cast<int>(k) == j ? 1.0 : 0.0;
        moved[k] = D(at[k], d);
        both[k] = DD(D(at[k], direction[k]), D(d, 0.0));
      }
      ExpectNear((*got)[1 + tensor], j % 2, Plain<D>(program, moved).d);
      if (second)
        ExpectNear((*got)[3 + tensor], j % 2, Plain<DD>(program, both).d.d);
    }
  }

  static void ExpectNear(const Tensor& got, int i, double want) {
    EXPECT_NEAR(got.flat<double>()[static_cast<size_t>(i)], want,
                1e-7 * std::max(1.0, std::fabs(want)));
  }
};

// (Sanitizers are slow here and run a tenth of the cases, every other one of
// them batched.)
TEST_P(RandomConstruct, ValuesAndGradientsMatchPlainCode) {
  for (int i = 0; i < 40; i += kSanitized ? 10 : 1) {
    for (const bool batched : {false, true})
      if (!kSanitized || batched == (i / 10 % 2 == 1))
        Check(static_cast<uint64_t>(GetParam() * 40 + i), batched);
    if (HasFailure()) return;
  }
}

TEST_P(RandomConstruct, ScheduledOverDevicesTheyMatchPlainCode) {
  for (int i = 0; i < 12; i += kSanitized ? 6 : 1) {
    const int seed = 1000 + GetParam() * 12 + i;
    Check(static_cast<uint64_t>(seed), i % 2 == 1, 2 + seed % 3);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomConstruct, ::testing::Range(0, 10));

}  // namespace
}  // namespace sluice
