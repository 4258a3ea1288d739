// Bodies that are placed when they run.
#include "client/control/scheduled.h"

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/testing/client_test_util.h"
#include "exec/core/trace.h"
#include "exec/devices/emulated_device.h"
#include "exec/scheduling/schedule_policy.h"
#include "exec/scheduling/scheduler.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Names = std::vector<std::string>;

Names Emulated(int n) {
  Names names;
  for (int i = 0; i < n; ++i) names.push_back(absl::StrCat("/device:EMU:", i));
  return names;
}

// Tensors of these values.
Tensor Filled(const Shape& shape, uint64_t seed) {
  Tensor t(DType::kFloat, shape);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  for (float& x : t.flat<float>()) x = number(random);
  return t;
}

class ScheduledTest : public ClientTest {
 protected:
  // A session over `n` emulated devices.
  std::unique_ptr<Session> Over(int n, uint64_t seed = 0,
                                EmulatedDeviceOptions device = Quick()) {
    SessionOptions o;
    o.devices = EmulatedDevices(n, device);
    o.scheduler_seed = seed;
    o.resources = resources_;
    return std::make_unique<Session>(graph_, o);
  }
  static EmulatedDeviceOptions Quick() {
    EmulatedDeviceOptions o;
    o.kernel_ns = o.copy_ns = o.peer_ns = 1000;
    return o;
  }
  // The devices on which nodes of this op ran, with their number.
  static std::map<std::string, int> Ran(const RunMetadata& m,
                                        const std::string& op) {
    std::map<std::string, int> ran;
    for (const TraceEvent& e : m.events)
      if (e.op == op && e.kind == TraceEvent::kKernel)
        ++ran[e.device.substr(e.device.rfind('/') + 1)];
    return ran;
  }
  static RunOptions Traced() {
    RunOptions o;
    o.trace = true;
    return o;
  }
  // Expects that the outputs are the same over any number of devices and in any
  // order as `want` on the host.
  void ExpectSame(const std::vector<Output>& got,
                  const std::vector<Output>& want, const Feeds& feeds,
                  int devices = 4) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    Session host(graph_);
    const auto expected = host.Run(feeds, want);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const std::unique_ptr<Session> session = Over(devices, seed);
      const auto out = session->Run(feeds, got);
      ASSERT_TRUE(out.ok()) << out.status() << " with seed " << seed;
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ((*out)[i].shape(), (*expected)[i].shape());
        for (int64_t k = 0; k < (*out)[i].num_elements(); ++k)
          ASSERT_NEAR((*out)[i].flat<float>()[static_cast<size_t>(k)],
                      (*expected)[i].flat<float>()[static_cast<size_t>(k)],
                      1e-5)
              << "output " << i << " with seed " << seed;
      }
    }
  }

  std::shared_ptr<ResourceManager> resources_;
};

TEST_F(ScheduledTest, RunsOnOneDeviceOnly) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  const Output y = Scheduled(Emulated(4), x, [](Output rows) {
    return ops::Tanh(rows) * 2.0f;
  });
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const auto session = Over(4);
  RunMetadata m;
  const auto out = session->Run({{x, Filled(Shape({2, 3}), 1)}}, {y}, {},
                                Traced(), &m);
  ASSERT_TRUE(out.ok()) << out.status();
  const auto ran = Ran(m, "Tanh");
  ASSERT_EQ(ran.size(), 1u);
  EXPECT_EQ(ran.begin()->second, 1);
  EXPECT_THAT(ran.begin()->first, HasSubstr("EMU"));
}

TEST_F(ScheduledTest, SeveralBodiesSpreadOverTheDevices) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  std::vector<Output> got, want;
  for (int i = 0; i < 4; ++i) {
    const auto body = [i](Output rows) {
      return ops::Tanh(rows * static_cast<float>(i + 1));
    };
    got.push_back(
        Scheduled(Emulated(4), x, body, {.policy = "least_loaded"}));
    want.push_back(body(x));
  }
  const Feeds feeds = {{x, Filled(Shape({5, 3}), 2)}};
  ExpectSame(got, want, feeds);
  RunMetadata m;
  ASSERT_TRUE(Over(4)->Run(feeds, got, {}, Traced(), &m).ok());
  EXPECT_EQ(Ran(m, "Tanh").size(), 4u);
}

// Results, first and second order gradients, with a variable.
TEST_F(ScheduledTest, GradientsFollowTheDecisions) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  const Output w = Placeholder<float>({3, 3}, "w");
  const auto body = [&w](Output rows) {
    return ops::Tanh(ops::MatMul(rows, w));
  };
  const auto outputs = [&](const Output& y) {
    const std::vector<Output> d = Grad(std::vector<Output>{y * y}, {x, w});
    const std::vector<Output> dd = Grad({d[0] * d[0], d[1]}, {x, w});
    return std::vector<Output>{y, d[0], d[1], dd[0], dd[1]};
  };
  for (const int devices : {1, 2, 3, 4})
    ExpectSame(outputs(Scheduled(Emulated(devices), x, body)),
               outputs(body(x)),
               {{x, Filled(Shape({4, 3}), 3)}, {w, Filled(Shape({3, 3}), 4)}},
               devices);
}

TEST_F(ScheduledTest, GradientsRunWhereTheBodyRan) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  const Output w = Placeholder<float>({3, 3}, "w");
  const Output y = Scheduled(Emulated(3), x, [&w](Output rows) {
    return ops::Tanh(ops::MatMul(rows, w));
  });
  std::vector<Output> d = Grad(std::vector<Output>{y}, {x, w});
  d.push_back(Grad(d[0] * d[0], w));
  RunMetadata m;
  const auto out = Over(3)->Run(
      {{x, Filled(Shape({4, 3}), 3)}, {w, Filled(Shape({3, 3}), 4)}}, d, {},
      Traced(), &m);
  ASSERT_TRUE(out.ok()) << out.status();
  std::set<std::string> devices;
  int products = 0;
  for (const TraceEvent& e : m.events)
    if (e.op == "MatMul" || e.op == "TanhGrad") {
      devices.insert(e.device);
      ++products;
    }
  EXPECT_EQ(devices.size(), 1u) << *devices.begin() << *devices.rbegin();
  EXPECT_GE(products, 5);
  EXPECT_THAT(*devices.begin(), HasSubstr("EMU"));
}

TEST_F(ScheduledTest, IterationsGoToDifferentDevices) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  const auto loop = [&](bool scheduled) {
    const auto [i, sum] = While(
        std::tuple{0, ops::ZerosLike(x)},
        [](Output i, Output) { return i < 8; },
        [&](Output i, Output sum) {
          const auto body = [](Output rows, Output k) {
            return ops::Tanh(rows * ops::Cast(k + 1, DType::kFloat));
          };
          const Output term =
              scheduled ? Scheduled(Emulated(4), std::tuple{x, i}, body,
                                    {.policy = "least_loaded"})
                        : body(x, i);
          return std::tuple{i + 1, sum + term};
        });
    return sum;
  };
  const Output y = loop(true), plain = loop(false);
  const Feeds feeds = {{x, Filled(Shape({2, 3}), 5)}};
  const auto all = [&](const Output& o) {
    const Output d = Grad(o * o, x);
    return std::vector<Output>{o, d, Grad(d * d, x)};
  };
  const std::vector<Output> got = all(y);
  ExpectSame(got, all(plain), feeds);
  RunMetadata m;
  ASSERT_TRUE(Over(4)->Run(feeds, got, {}, Traced(), &m).ok());
  EXPECT_GT(Ran(m, "Tanh").size(), 1u);
}

}  // namespace
}  // namespace sluice
