// Bodies that are placed when they run.
#include "client/control/scheduled.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <stdexcept>

#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/nn/layers.h"
#include "client/testing/client_test_util.h"
#include "client/variable_scope.h"
#include "exec/core/trace.h"
#include "exec/devices/emulated_device.h"
#include "exec/scheduling/schedule_policy.h"
#include "exec/scheduling/scheduler.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Names = std::vector<std::string>;

constexpr const char* kTask = "/job:localhost/replica:0/task:0/device:";

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
    ExpectSameForEach(got, want, {feeds}, devices);
  }
  // The same for several feeds, which share the sessions: cutting the graph
  // takes most of the time.
  void ExpectSameForEach(const std::vector<Output>& got,
                         const std::vector<Output>& want,
                         const std::vector<Feeds>& each, int devices = 4) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    Session host(graph_);
    std::vector<std::vector<Tensor>> expected;
    for (const Feeds& feeds : each) {
      const auto out = host.Run(feeds, want);
      ASSERT_TRUE(out.ok()) << out.status();
      expected.push_back(*out);
    }
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const std::unique_ptr<Session> session = Over(devices, seed);
      for (size_t f = 0; f < each.size(); ++f) {
        SCOPED_TRACE(absl::StrCat("feeds ", f, " with seed ", seed));
        const auto out = session->Run(each[f], got);
        ASSERT_TRUE(out.ok()) << out.status();
        for (size_t i = 0; i < got.size(); ++i) {
          const Tensor& e = expected[f][i];
          ASSERT_EQ((*out)[i].shape(), e.shape());
          for (int64_t k = 0; k < (*out)[i].num_elements(); ++k)
            ASSERT_NEAR((*out)[i].flat<float>()[static_cast<size_t>(k)],
                        e.flat<float>()[static_cast<size_t>(k)], 1e-5)
                << "output " << i;
        }
      }
    }
  }

  std::shared_ptr<ResourceManager> resources_;
};

TEST_F(ScheduledTest, RunsOnOneDeviceOnly) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  const Output y = Scheduled(
      Emulated(4), x, [](Output rows) { return ops::Tanh(rows) * 2.0f; });
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const auto session = Over(4);
  RunMetadata m;
  const auto out =
      session->Run({{x, Filled(Shape({2, 3}), 1)}}, {y}, {}, Traced(), &m);
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
    got.push_back(Scheduled(Emulated(4), x, body, {.policy = "least_loaded"}));
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
    ExpectSame(outputs(Scheduled(Emulated(devices), x, body)), outputs(body(x)),
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
  // Gradients arrive at home, from the device directly.
  EXPECT_TRUE(Ran(m, "_CopyFromPeer").empty());
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
          const Output term = scheduled
                                  ? Scheduled(Emulated(4), std::tuple{x, i},
                                              body, {.policy = "least_loaded"})
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

TEST_F(ScheduledTest, CallsOfAFunctionGoToDifferentDevices) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  const Function cell =
      DefineFunction("cell", {DType::kFloat}, [](const auto& args) {
        return Scheduled(Emulated(3), args[0],
                         [](Output r) { return ops::Tanh(r * 2.0f); },
                         {.policy = "least_loaded"});
      });
  std::vector<Output> got, want;
  for (int i = 0; i < 3; ++i) {
    const Output in = x * static_cast<float>(i + 1);
    got.push_back(cell({in})[0]);
    want.push_back(ops::Tanh(in * 2.0f));
    got.push_back(Grad(got.back() * got.back(), x));
    want.push_back(Grad(want.back() * want.back(), x));
  }
  const Feeds feeds = {{x, Filled(Shape({2, 3}), 7)}};
  ExpectSame(got, want, feeds, 3);
  RunMetadata m;
  ASSERT_TRUE(Over(3)->Run(feeds, got, {}, Traced(), &m).ok());
  EXPECT_GT(Ran(m, "Tanh").size(), 1u);
}

// ---- Parts ------------------------------------------------------------------

TEST_F(ScheduledTest, PartsAreInOrder) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  const Output w = Placeholder<float>({3, 3}, "w");
  const auto body = [&w](Output rows) {
    return std::tuple{ops::Tanh(ops::MatMul(rows, w)), rows * 3.0f};
  };
  const auto [a, b] = Scheduled(Emulated(4), x, body,
                                {.policy = "least_loaded", .rows_per_part = 3});
  const auto [plain_a, plain_b] = body(x);
  const auto all = [&](Output a, Output b) {
    std::vector<Output> out = {a, b};
    const std::vector<Output> d = Grad(std::vector<Output>{a * a, b}, {x, w});
    out.insert(out.end(), d.begin(), d.end());
    out.push_back(Grad(d[0] * d[0], x));
    out.push_back(Grad(d[1] * d[1], w));
    return out;
  };
  const std::vector<Output> got = all(a, b), want = all(plain_a, plain_b);
  std::vector<Feeds> each;
  for (const int64_t rows : {0, 1, 3, 4, 11})
    each.push_back(
        {{x, Filled(Shape({rows, 3}), 8)}, {w, Filled(Shape({3, 3}), 9)}});
  ExpectSameForEach(got, want, each);
  RunMetadata m;
  ASSERT_TRUE(
      Over(4)
          ->Run({{x, Filled(Shape({12, 3}), 8)}, {w, Filled(Shape({3, 3}), 9)}},
                {a}, {}, Traced(), &m)
          .ok());
  const auto ran = Ran(m, "Tanh");
  EXPECT_EQ(ran.size(), 4u);
  int parts = 0;
  for (const auto& [device, times] : ran) parts += times;
  EXPECT_EQ(parts, 4);
}

TEST_F(ScheduledTest, PartsNeedInputsOfAsManyRows) {
  const Output x = Placeholder<float>({-1, 3}), y = Placeholder<float>({-1, 3});
  const Output z =
      Scheduled(Emulated(2), std::tuple{x, y},
                [](Output a, Output b) { return a + b; }, {.rows_per_part = 2});
  const Status s =
      Over(2)
          ->Run({{x, Filled(Shape({4, 3}), 1)}, {y, Filled(Shape({1, 3}), 1)}},
                z)
          .status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()),
              AllOf(HasSubstr("as many rows"), HasSubstr("[4] [1]"),
                    Not(HasSubstr("\\'")), HasSubstr("scheduled_test.cc")));
}

TEST_F(ScheduledTest, PartsOfMoreRowsThanHalfTheNumbersAreAllThere) {
  // (Without elements, so they take no memory.)
  const int64_t rows = (int64_t{1} << 30) + 5;
  const Output x = Placeholder<float>({-1, 0}, "x");
  const auto session = Over(2);
  for (const int64_t size :
       {int64_t{1} << 29, int64_t{1} << 30, int64_t{INT32_MAX}}) {
    const Output y =
        Scheduled(Emulated(2), x, [](Output r) { return ops::Identity(r); },
                  {.rows_per_part = size});
    const auto out =
        session->Run({{x, Tensor(DType::kFloat, Shape({rows, 0}))}}, y);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(out->shape(), Shape({rows, 0})) << "in parts of " << size;
  }
}

TEST_F(ScheduledTest, PartsGiveTheShapesOfTheirResults) {
  const Output x = Placeholder<float>({-1, 3}), y = Placeholder<float>({7, 3});
  const auto body = [](Output rows) {
    return std::tuple{rows * 2.0f, ops::ArgMax(rows, 1)};
  };
  const auto [a, b] = Scheduled(Emulated(2), x, body, {.rows_per_part = 2});
  EXPECT_EQ(a.shape(), PartialShape({-1, 3}));
  EXPECT_EQ(b.shape(), PartialShape({-1}));
  const auto [c, d] = Scheduled(Emulated(2), y, body, {.rows_per_part = 2});
  EXPECT_EQ(c.shape(), PartialShape({7, 3}));
  EXPECT_EQ(d.shape(), PartialShape({7}));
}

TEST_F(ScheduledTest, ResultsOfPartsHaveTheirRows) {
  const Output x = Placeholder<float>({-1, 2}, "x");
  const auto fails = [&](const auto& body) {
    const Output y = Scheduled(Emulated(2), x, body, {.rows_per_part = 2});
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    // (Parts of equal size, since either may report its error first.)
    return std::string(
        Over(2)->Run({{x, Filled(Shape({4, 2}), 1)}}, y).status().message());
  };
  const auto at = HasSubstr("scheduled_test.cc");
  EXPECT_THAT(fails([](Output r) {
                return ops::Tile(r, {2, 1});
              }),
              AllOf(HasSubstr("expected the 2 rows of the part"),
                    HasSubstr("[4,2]"), at));
  EXPECT_THAT(fails([&](Output) { return x; }),
              AllOf(HasSubstr("rows of the part"), HasSubstr("[4,2]"), at));
  const Output total = Scheduled(Emulated(2), x,
                                 [](Output r) {
                                   return ops::Sum(r, {0, 1});
                                 },
                                 {.rows_per_part = 2});
  EXPECT_FALSE(total.valid());
  EXPECT_THAT(std::string(graph_.ErrorOf(total)->message()),
              AllOf(HasSubstr("got a scalar, result 0"), at));
}

TEST_F(ScheduledTest, PartsNeedInputsWithRows) {
  const auto body = [](Output r) { return r * 2.0f; };
  const Output known =
      Scheduled(Emulated(2), Constant(3.0f), body, {.rows_per_part = 2});
  EXPECT_FALSE(known.valid());
  EXPECT_THAT(std::string(graph_.ErrorOf(known)->message()),
              AllOf(HasSubstr("inputs with rows"), HasSubstr("got a scalar"),
                    HasSubstr("scheduled_test.cc")));
  const Output x = Placeholder(DType::kFloat, PartialShape());
  const Output y = Scheduled(Emulated(2), x, body, {.rows_per_part = 2});
  const auto session = Over(2);
  const Status s = session->Run({{x, Tensor::Scalar<float>(3)}}, y).status();
  EXPECT_THAT(std::string(s.message()),
              AllOf(HasSubstr("inputs with rows"), HasSubstr("got a scalar"),
                    Not(HasSubstr("\\'")), HasSubstr("scheduled_test.cc")));
  EXPECT_TRUE(session->Run({{x, Filled(Shape({5, 2}), 1)}}, y).ok());
}

// ---- Policies and decisions -------------------------------------------------

TEST_F(ScheduledTest, UsersPolicyDecides) {
  static std::atomic<int> next{0};
  ASSERT_TRUE(
      RegisterSchedulePolicy("test_in_turn", [](const ScheduleRequest& r) {
        EXPECT_EQ(r.candidates.size(), 3u);
        EXPECT_EQ(r.rows, 7);
        EXPECT_EQ(r.input_bytes, 7 * 3 * 4);
        return next++ % 3;
      }).ok());
  const Output x = Placeholder<float>({-1, 3}, "x");
  const Output y =
      Scheduled(Emulated(3), x, [](Output rows) { return ops::Tanh(rows); },
                {.policy = "test_in_turn"});
  const auto session = Over(3);
  for (int i = 0; i < 6; ++i) {
    RunMetadata m;
    ASSERT_TRUE(
        session->Run({{x, Filled(Shape({7, 3}), 1)}}, {y}, {}, Traced(), &m)
            .ok());
    const auto ran = Ran(m, "Tanh");
    ASSERT_EQ(ran.size(), 1u);
    EXPECT_EQ(ran.begin()->first, absl::StrCat("device:EMU:", i % 3));
  }
}

TEST_F(ScheduledTest, PolicyThatChoosesNoCandidateFailsTheStep) {
  ASSERT_TRUE(RegisterSchedulePolicy("test_beyond", [](const ScheduleRequest&) {
                return 2;
              }).ok());
  EXPECT_EQ(RegisterSchedulePolicy("test_beyond",
                                   [](const ScheduleRequest&) { return 0; })
                .code(),
            StatusCode::kAlreadyExists);
  const Output x = Placeholder<float>({-1, 3}, "x");
  const Output y =
      Scheduled(Emulated(2), x, [](Output rows) { return ops::Tanh(rows); },
                {.policy = "test_beyond"});
  const Status s = Over(2)->Run({{x, Filled(Shape({7, 3}), 1)}}, y).status();
  EXPECT_THAT(std::string(s.message()),
              AllOf(HasSubstr("'test_beyond'"), HasSubstr("[0, 2), got 2"),
                    HasSubstr("scheduled_test.cc")));
}

TEST_F(ScheduledTest, PolicyThatThrowsFailsTheStep) {
  static bool throws = true;
  ASSERT_TRUE(RegisterSchedulePolicy("test_throws", [](const ScheduleRequest&) {
                if (throws) throw std::runtime_error("no device today");
                return 1;
              }).ok());
  const Output x = Placeholder<float>({-1, 3}, "x");
  std::vector<Output> y;
  for (int i = 0; i < 2; ++i)
    y.push_back(Scheduled(Emulated(2), x,
                          [](Output rows) { return ops::Tanh(rows); },
                          {.policy = "test_throws"}));
  const Feeds feeds = {{x, Filled(Shape({2, 3}), 1)}};
  const auto session = Over(2);
  const Status s = session->Run(feeds, y).status();
  EXPECT_EQ(s.code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(s.message()),
              AllOf(HasSubstr("'test_throws'"), HasSubstr("no device today"),
                    HasSubstr("scheduled_test.cc")));
  throws = false;
  EXPECT_TRUE(session->Run(feeds, y).ok());
}

// The end of a body must not decide anew all that wait for room.
TEST_F(ScheduledTest, FewOfThoseThatWaitForRoomAreDecidedAnew) {
  constexpr int kBodies = 400;
  static std::atomic<int> calls{0};
  ASSERT_TRUE(
      RegisterSchedulePolicy("test_counts", [](const ScheduleRequest& r) {
        ++calls;
        return r.candidates[0].load_ns <= r.candidates[1].load_ns ? 0 : 1;
      }).ok());
  EmulatedDeviceOptions device = Quick();
  device.memory_bytes = 1 << 20;
  device.parameter_bytes = 2 * 4096;
  const Output x = Placeholder<float>({-1, 32}, "x");
  WhileOptions parallel;
  parallel.parallel_iterations = kBodies;
  const auto [i, sum] = While(
      std::tuple{0, ops::ZerosLike(x)},
      [](Output i, Output) { return i < kBodies; },
      [&](Output i, Output sum) {
        return std::tuple{
            i + 1,
            sum + Scheduled(Emulated(2), x + ops::Cast(i, DType::kFloat),
                            [](Output r) { return r * 2.0f; },
                            {.policy = "test_counts", .ns_per_row = 1000})};
      },
      parallel);
  const auto out =
      Over(2, 0, device)
          ->Run({{x, Tensor::Zeros(DType::kFloat, {16, 32}).value()}}, sum);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->flat<float>()[7], kBodies * (kBodies - 1));
  EXPECT_LT(calls, 40 * kBodies);  // Not in the order of its square.
}

// A body waits, through a control dependency, for another one that waits for
// room: it must not take that room first.
TEST_F(ScheduledTest, BodiesAwaitWhatTheirNodesRunAfter) {
  const Output x = Placeholder<float>({-1, 2}, "x");
  const Output big = Placeholder<float>({-1, 2}, "big");
  EmulatedDeviceOptions device = Quick();
  device.parameter_bytes = 4096;
  const ScheduledOptions o = {.ns_per_row = 1000};
  const auto build = [&] {
    const Output b = Scheduled(
        Emulated(2), x, [](Output r) { return r * 2.0f; }, o);
    std::vector<Output> all;
    for (int i = 0; i < 2; ++i)
      all.push_back(Scheduled(
          Emulated(2), big,
          [&](Output r) {
            const ControlDependencies after({b.node});
            return r * 3.0f;
          },
          o));
    all.push_back(b);
    return all;
  };
  const Feeds feeds = {{x, Filled(Shape({256, 2}), 1)},
                       {big, Filled(Shape({512, 2}), 2)}};
  RunOptions limited;
  limited.timeout_ms = 20000;
  const auto runs = [&](const std::vector<Output>& outputs) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    for (const uint64_t seed : {0, 1, 2, 3}) {
      const auto out = Over(2, seed, device)->Run(feeds, outputs, {}, limited);
      ASSERT_TRUE(out.ok()) << out.status() << " with seed " << seed;
    }
  };
  runs(build());
  // The same where the other one is outside of a loop.
  const Output b = Scheduled(
      Emulated(2), x, [](Output r) { return r * 2.0f; }, o);
  WhileOptions parallel;
  parallel.parallel_iterations = 4;
  const auto [i, sum] = While(
      std::tuple{0, ops::ZerosLike(big)},
      [](Output i, Output) { return i < 4; },
      [&](Output i, Output sum) {
        const Output y = Scheduled(
            Emulated(2), big,
            [&](Output r) {
              return r * 3.0f + ops::Sum(b, {0, 1});
            },
            o);
        EXPECT_EQ(y.node->op_name(), "ScheduleDone");
        return std::tuple{i + 1, sum + y};
      },
      parallel);
  runs({sum});
  // These take part in the waiting for room.
  for (const auto& n : graph_.nodes()) {
    if (n->op_name() != "Schedule") continue;
    EXPECT_TRUE(n->AttrOr<bool>("limited", true)) << n->name();
  }
}

// Home may name no task; only the scheduler of the task where a decision was
// made knows of it.
TEST_F(ScheduledTest, BodiesEndWhereTheyWereDecided) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  const Output y =
      Scheduled(Emulated(3), x, [](Output rows) { return ops::Tanh(rows); });
  const std::string group =
      absl::StrCat("loc:@", y.node->input(0).node->name());
  std::set<std::string> ops;
  for (const auto& n : graph_.nodes()) {
    const std::string& op = n->op_name();
    if ((op != "ScheduleDone" && op != "Less" && op != "Switch" &&
         op != "Merge") ||
        (op == "Switch" && n->input(0).node == n->input(1).node))
      continue;
    EXPECT_THAT(n->AttrOr<AttrValue::Strings>("_class", {}), ElementsAre(group))
        << n->name();
    ops.insert(op);
  }
  EXPECT_EQ(ops.size(), 4u);
  const auto scheduler = std::make_shared<Scheduler>();
  const Scheduler::Step ours(scheduler), other(scheduler);
  ScheduledBody body;
  body.devices = {"/device:TEST:0"};
  body.device_numbers = {ScheduledDeviceNumber("/device:TEST:0")};
  body.bytes_per_s = 1;
  std::vector<Decision> decisions(3);
  for (Decision& d : decisions) d.body = &body;
  ASSERT_TRUE(scheduler->Decide(decisions, &ours).ok());
  EXPECT_EQ(scheduler->Done(decisions[0].ticket, &other).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(*scheduler->Done(decisions[0].ticket, &ours), 1);
  EXPECT_EQ(scheduler->Done(decisions[0].ticket, &ours).status().code(),
            StatusCode::kFailedPrecondition);
  // The end of a step ends its own.
  std::vector<Decision> more(2);
  for (Decision& d : more) d.body = &body;
  {
    const Scheduler::Step failed(scheduler);
    ASSERT_TRUE(scheduler->Decide(more, &failed).ok());
    ASSERT_TRUE(scheduler->Done(more[0].ticket, &failed).ok());
  }
  EXPECT_FALSE(scheduler->Done(more[1].ticket, &ours).ok());
  EXPECT_TRUE(scheduler->Done(decisions[1].ticket, &ours).ok());
  EXPECT_TRUE(scheduler->Done(decisions[2].ticket, &ours).ok());
  EXPECT_EQ(scheduler->LoadNs(body.device_numbers[0]), 0);
}

TEST_F(ScheduledTest, TraceShowsDecisionsMadeTogether) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  std::vector<Output> y;
  for (int i = 1; i <= 3; ++i)
    y.push_back(Scheduled(Emulated(2), ops::Tile(x, {i, 1}),
                          [](Output rows) { return ops::Tanh(rows); },
                          {.policy = "least_loaded", .ns_per_row = 1e6}));
  RunMetadata m;
  ASSERT_TRUE(
      Over(2)->Run({{x, Filled(Shape({2, 3}), 1)}}, y, {}, Traced(), &m).ok());
  // The largest first: 6 rows to device 0, 4 to 1, then 2 to 1.
  std::map<std::string, std::string> chosen;
  for (const TraceEvent& e : m.events) {
    if (e.op != "Schedule") continue;
    chosen[e.tensor] = e.peer;
    EXPECT_EQ(e.instances, 3);
  }
  ASSERT_EQ(chosen.size(), 3u);
  const auto expect = [&](const char* reason, const char* device) {
    const auto it = chosen.find(reason);
    ASSERT_NE(it, chosen.end())
        << reason << " not in " << chosen.begin()->first;
    EXPECT_THAT(it->second, HasSubstr(device));
  };
  expect(
      "least_loaded: 6 rows, work 6000 us, load 0 us, parameters 0 of 0 "
      "bytes",
      "EMU:0");
  expect(
      "least_loaded: 4 rows, work 4000 us, load 0 us, parameters 0 of 0 "
      "bytes",
      "EMU:1");
  expect(
      "least_loaded: 2 rows, work 2000 us, load 4000 us, parameters 0 of 0 "
      "bytes",
      "EMU:1");
}

// Also where regions run the cheap nodes around the decisions.
TEST_F(ScheduledTest, LargestIsDecidedFirst) {
  static std::vector<int64_t> rows;
  ASSERT_TRUE(
      RegisterSchedulePolicy("test_records", [](const ScheduleRequest& r) {
        rows.push_back(r.rows);
        return 0;
      }).ok());
  const Output x = Placeholder<float>({-1, 3}, "x");
  std::vector<Output> y;
  for (const int times : {2, 5, 1, 4, 3})
    y.push_back(Scheduled(Emulated(2), ops::Tile(x, {times, 1}),
                          [](Output rows) { return ops::Tanh(rows); },
                          {.policy = "test_records", .ns_per_row = 1000}));
  SessionOptions o;
  o.devices = EmulatedDevices(2, Quick());
  // (Another thread would take a Tile that was slow once, and its decision
  // would be made alone.)
  o.inter_op_threads = 0;
  Session session(graph_, o);
  for (int i = 0; i < 3; ++i) {
    rows.clear();
    ASSERT_TRUE(session.Run({{x, Filled(Shape({1, 3}), 1)}}, y).ok());
    EXPECT_THAT(rows, ElementsAre(5, 4, 3, 2, 1));
  }
}

TEST_F(ScheduledTest, LoadIsTakenOffWhenBodiesEndOrFail) {
  resources_ = std::make_shared<ResourceManager>();
  const Output x = Placeholder<float>({-1, 3}, "x");
  const Output n = Placeholder<int32_t>({}, "n");
  const Output y = Scheduled(Names{"/device:CPU:0"}, x,
                             [&](Output rows) {
                               return rows * ops::Cast(ops::Div(Constant(6), n),
                                                       DType::kFloat);
                             },
                             {.ns_per_row = 1000});
  const auto session = Over(1);
  const auto load = [&] {
    return (*Scheduler::Of(resources_.get()))
        ->LoadNs(ScheduledDeviceNumber(absl::StrCat(kTask, "CPU:0")));
  };
  for (int i = 0; i < 3; ++i) {
    const Feeds bad = {{x, Filled(Shape({4, 3}), 1)},
                       {n, Tensor::Scalar<int32_t>(0)}};
    EXPECT_FALSE(session->Run(bad, y).ok());
    EXPECT_EQ(load(), 0);
    const Feeds good = {{x, Filled(Shape({4, 3}), 1)},
                        {n, Tensor::Scalar<int32_t>(2)}};
    ASSERT_TRUE(session->Run(good, y).ok());
    EXPECT_EQ(load(), 0);
  }
}

// ---- Parameters -------------------------------------------------------------

class ScheduledParametersTest : public ScheduledTest {
 protected:
  static constexpr int kUnits = 32;  // A parameter has 4 KB.
  static constexpr int64_t kBytes = int64_t{kUnits} * kUnits * 4;

  ScheduledParametersTest() {
    resources_ = std::make_shared<ResourceManager>();
  }

  // `n` bodies with a variable each.
  std::vector<Output> Experts(int n, int devices, const Output& x,
                              const std::string& policy) {
    std::vector<Output> y;
    for (int e = 0; e < n; ++e)
      y.push_back(Scheduled(
          Emulated(devices), x,
          [e](Output rows) {
            return ops::MatMul(
                rows, GetVariable(absl::StrCat("w", e), {kUnits, kUnits},
                                  init::RandomUniform(-1, 1)));
          },
          {.policy = policy, .ns_per_row = 1000}));
    return y;
  }
  ParameterCache::Stats Cached(int device) {
    const auto cache =
        (*Scheduler::Of(resources_.get()))
            ->Cache(ScheduledDeviceNumber(absl::StrCat(kTask, "EMU:", device)));
    return cache != nullptr ? cache->stats() : ParameterCache::Stats();
  }
  static Tensor Rows(int n = 3) { return Filled(Shape({n, kUnits}), 1); }
};

TEST_F(ScheduledParametersTest, VariablesOfBodiesAreKeptAtHomeOnce) {
  const Output x = Placeholder<float>({-1, kUnits}, "x");
  const std::vector<Output> y = Experts(2, 3, x, "least_loaded");
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  ASSERT_EQ(GlobalVariables().size(), 2u);
  EXPECT_EQ(GlobalVariables()[0].name(), "scheduled/body/w0");
  for (const Var& v : GlobalVariables())
    EXPECT_EQ(v.handle().node->device(), "/device:CPU:0");
}

TEST_F(ScheduledParametersTest, AreFetchedOnceUntilAssigned) {
  const Output x = Placeholder<float>({-1, kUnits}, "x");
  const Output y = Experts(1, 1, x, "cost")[0];
  const Var w = GlobalVariables()[0];
  const auto session = Over(1);
  ASSERT_TRUE(session->RunTargets({GlobalVariablesInitializer()}).ok());
  const Output plain = ops::MatMul(x, w);
  const auto expect_same = [&] {
    const auto out = session->Run({{x, Rows()}}, {y, plain});
    ASSERT_TRUE(out.ok()) << out.status();
    for (size_t i = 0; i < 3 * kUnits; ++i)
      ASSERT_NEAR((*out)[0].flat<float>()[i], (*out)[1].flat<float>()[i], 1e-4);
  };
  for (int i = 0; i < 3; ++i) expect_same();
  EXPECT_EQ(Cached(0).fetches, 1);
  EXPECT_EQ(Cached(0).hits, 2);
  EXPECT_EQ(Cached(0).bytes, kBytes);
  Node* const more = w.AssignAdd(Constant(1.0f) + ops::ZerosLike(w));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(session->RunTargets({more}).ok());
    expect_same();
  }
  EXPECT_EQ(Cached(0).fetches, 4);
  EXPECT_EQ(Cached(0).bytes, kBytes);
}

// The copies of a value that the variable does not have any more.
TEST_F(ScheduledParametersTest, OldCopiesAreDropped) {
  static std::atomic<int> turn{0};
  static std::vector<int64_t> held;
  ASSERT_TRUE(RegisterSchedulePolicy("test_turn", [](const ScheduleRequest& r) {
                held.clear();
                for (const ScheduleCandidate& c : r.candidates)
                  held.push_back(c.parameter_bytes);
                return turn.load();
              }).ok());
  const Output x = Placeholder<float>({-1, kUnits}, "x");
  const Output y = Experts(1, 4, x, "test_turn")[0];
  const Var w = GlobalVariables()[0];
  Node* const more = w.AssignAdd(Constant(1.0f) + ops::ZerosLike(w));
  const auto session = Over(4);
  ASSERT_TRUE(session->RunTargets({GlobalVariablesInitializer()}).ok());
  const auto run = [&](int device) {
    turn = device;
    ASSERT_TRUE(session->Run({{x, Rows()}}, y).ok());
  };
  for (int d = 0; d < 3; ++d) run(d);
  run(3);
  EXPECT_THAT(held, ElementsAre(kBytes, kBytes, kBytes, 0));
  ASSERT_TRUE(session->RunTargets({more}).ok());
  run(1);
  EXPECT_THAT(held, ElementsAre(0, 0, 0, 0));
  for (int d = 0; d < 4; ++d) EXPECT_EQ(Cached(d).bytes, d == 1 ? kBytes : 0);
  run(2);
  EXPECT_THAT(held, ElementsAre(0, kBytes, 0, 0));
  for (int d = 0; d < 4; ++d) {
    ASSERT_TRUE(session->RunTargets({more}).ok());
    run(d);
    EXPECT_THAT(held, ElementsAre(0, 0, 0, 0));
  }
  int64_t bytes = 0;
  for (int d = 0; d < 4; ++d) bytes += Cached(d).bytes;
  EXPECT_EQ(bytes, kBytes);
}

TEST_F(ScheduledParametersTest, AreKnownWhenImportedWithAPrefix) {
  std::string bytes;
  {
    Graph exported;
    const WithGraph use(exported);
    const Output x = Placeholder<float>({-1, kUnits}, "x");
    ops::Identity(Experts(1, 2, x, "locality")[0]);
    const auto text = ExportGraphDef(exported);
    ASSERT_TRUE(text.ok()) << text.status();
    bytes = *text;
  }
  for (const std::string prefix : {"", "imported"}) {
    Graph graph;
    ImportOptions options;
    options.prefix = prefix;
    const Status s = ImportGraphDef(bytes, graph, options);
    ASSERT_TRUE(s.ok()) << s;
    const auto node = [&](const std::string& name) {
      return graph.FindNode(prefix.empty() ? name
                                           : absl::StrCat(prefix, "/", name));
    };
    SessionOptions o;
    o.devices = EmulatedDevices(2, Quick());
    Session session(graph, o);
    ASSERT_TRUE(session.RunTargets({node("scheduled/body/w0/Assign")}).ok());
    std::string reason;
    for (int i = 0; i < 2; ++i) {
      RunMetadata m;
      const auto out = session.Run({{Output(node("x")), Rows()}},
                                   std::vector{Output(node("scheduled/done"))},
                                   {}, Traced(), &m);
      ASSERT_TRUE(out.ok()) << out.status();
      for (const TraceEvent& e : m.events)
        if (e.op == "Schedule") reason = e.tensor;
    }
    EXPECT_THAT(reason, HasSubstr("parameters 4096 of 4096 bytes"))
        << "prefix '" << prefix << "'";
  }
}

// ---- Variables that replicas share ------------------------------------------

TEST_F(ScheduledParametersTest, LayersOfReplicasShareTheirVariables) {
  const Output x = Placeholder<float>({-1, kUnits}, "x");
  const auto names = [] {
    std::vector<std::string> all;
    for (const Var& v : GlobalVariables()) all.push_back(v.name());
    return all;
  };
  const auto body = [](Output r) { return Dense(Dense(r, 8), 2); };
  std::vector<Output> y = {Scheduled(Emulated(3), x, body)};
  EXPECT_THAT(names(), ElementsAre("dense/kernel", "dense/bias",
                                   "dense_1/kernel", "dense_1/bias"));
  y.push_back(Dense(x, 2));
  EXPECT_EQ(names()[4], "dense_2/kernel");
  {
    const VariableScope model("model");
    y.push_back(Scheduled(Emulated(3), x, body));
    y.push_back(Dense(x, 2));
  }
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  ASSERT_EQ(names().size(), 12u);
  EXPECT_EQ(names()[6], "model/dense/kernel");
  EXPECT_EQ(names()[8], "model/dense_1/kernel");
  EXPECT_EQ(names()[10], "model/dense_2/kernel");
  // Name scopes, too, and other bodies within.
  y.push_back(Scheduled(Emulated(2), x, [](Output r) {
    for (int i = 0; i < 2; ++i) {
      const NameScope layer("layer");
      r = ops::MatMul(r, GetVariable("w", {kUnits, kUnits}));
    }
    return Scheduled(Emulated(2), r, [](Output r) {
      return Dense(ops::MatMul(r, GetVariable("w", {kUnits, kUnits})), 2);
    });
  }));
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const std::vector<std::string> all = names();
  EXPECT_THAT(
      std::vector<std::string>(all.begin() + 12, all.end()),
      ElementsAre("scheduled_1/body/layer/w", "scheduled_1/body/layer_1/w",
                  "scheduled_1/body/scheduled/body/w", "dense_3/kernel",
                  "dense_3/bias"));
  // The same weights everywhere.
  Node* const init = GlobalVariablesInitializer();
  std::vector<Tensor> first;
  const auto session = Over(3);
  ASSERT_TRUE(session->RunTargets({init}).ok());
  const auto load =
      Scheduled(Emulated(3), x, [](Output r) { return ops::Tanh(r); });
  for (int i = 0; i < 4; ++i) {
    std::vector<Output> all = y;
    if (i % 2 == 1) all.insert(all.begin(), load);
    auto out = session->Run({{x, Rows()}}, all);
    ASSERT_TRUE(out.ok()) << out.status();
    if (i % 2 == 1) out->erase(out->begin());
    if (first.empty()) first = *out;
    for (size_t k = 0; k < first.size(); ++k)
      EXPECT_TRUE(first[k].Identical((*out)[k])) << k;
  }
}

TEST_F(ScheduledParametersTest, VariablesOfTheirOwnAreRefused) {
  const Output x = Placeholder<float>({-1, kUnits}, "x");
  int replica = 0;
  const int line = __LINE__ + 1;
  const Output y = Scheduled(Emulated(2), x, [&](Output r) {
    return ops::MatMul(
        r, GetVariable(absl::StrCat("w", replica++), {kUnits, kUnits}));
  });
  EXPECT_FALSE(y.valid());
  EXPECT_THAT(std::string(graph_.ErrorOf(y)->message()),
              AllOf(HasSubstr("scheduled body 'scheduled'"),
                    HasSubstr("'scheduled/body/w1'"), HasSubstr("EMU:1"),
                    HasSubstr(Here(line, __FILE__))));
}

TEST_F(ScheduledParametersTest, LeastRecentlyUsedGoFirst) {
  const Output x = Placeholder<float>({-1, kUnits}, "x");
  const std::vector<Output> y = Experts(3, 1, x, "cost");
  EmulatedDeviceOptions device = Quick();
  device.parameter_bytes = 2 * kBytes;
  const auto session = Over(1, 0, device);
  ASSERT_TRUE(session->RunTargets({GlobalVariablesInitializer()}).ok());
  const auto run = [&](size_t e) {
    ASSERT_TRUE(session->Run({{x, Rows()}}, y[e]).ok());
  };
  run(0), run(1), run(0);
  EXPECT_EQ(Cached(0).evictions, 0);
  run(2);  // In place of 1.
  EXPECT_EQ(Cached(0).evictions, 1);
  EXPECT_EQ(Cached(0).fetches, 3);
  run(0);
  EXPECT_EQ(Cached(0).fetches, 3);
  run(1);
  EXPECT_EQ(Cached(0).fetches, 4);
  EXPECT_EQ(Cached(0).bytes, 2 * kBytes);
}

// A device with memory for eight parameters and what a body needs.
TEST_F(ScheduledParametersTest, MoreFitThanTheMemoryHas) {
  EmulatedDeviceOptions device = Quick();
  device.memory_bytes = 10 * kBytes;
  const Output x = Placeholder<float>({-1, kUnits}, "x");
  const std::vector<Output> y = Experts(20, 1, x, "cost");
  const auto session = Over(1, 0, device);
  ASSERT_TRUE(session->RunTargets({GlobalVariablesInitializer()}).ok());
  for (int times = 0; times < 3; ++times)
    for (const Output& o : y) {
      const auto out = session->Run({{x, Rows()}}, o);
      ASSERT_TRUE(out.ok()) << out.status();
    }
  EXPECT_GT(Cached(0).evictions, 20);
  // Kernels' outputs take memory from parameters too.
  const Output big = Scheduled(Emulated(1), ops::Tile(x, {100, 1}),
                               [](Output r) { return ops::Tanh(r) * 2.0f; });
  const auto out = session->Run({{x, Rows(1)}}, big);
  ASSERT_TRUE(out.ok()) << out.status();
  // On the device itself, the variables do not fit.
  Graph on_device;
  const WithGraph use(on_device);
  {
    const DeviceScope scope("/device:EMU:0");
    for (int e = 0; e < 20; ++e)
      GetVariable(absl::StrCat("w", e), {kUnits, kUnits},
                  init::RandomUniform(-1, 1));
  }
  SessionOptions o;
  o.devices = EmulatedDevices(1, device);
  EXPECT_EQ(
      Session(on_device, o).RunTargets({GlobalVariablesInitializer()}).code(),
      StatusCode::kResourceExhausted);
}

// All at once, they would need three times the memory.
TEST_F(ScheduledParametersTest, BodiesWaitForRoom) {
  EmulatedDeviceOptions device = Quick();
  device.memory_bytes = 6 * kBytes;
  device.parameter_bytes = 3 * kBytes;
  const Output x = Placeholder<float>({-1, kUnits}, "x");
  std::vector<Output> y = Experts(18, 2, x, "cost");
  ASSERT_TRUE(Over(2)->RunTargets({GlobalVariablesInitializer()}).ok());
  const std::vector<Var> w = GlobalVariables();
  std::vector<Output> plain;
  for (const Var& v : w) plain.push_back(ops::MatMul(x, v));
  const auto want = Over(1)->Run({{x, Rows()}}, plain);
  ASSERT_TRUE(want.ok()) << want.status();
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto session = Over(2, seed, device);
    for (int times = 0; times < 2; ++times) {
      const auto out = session->Run({{x, Rows()}}, y);
      ASSERT_TRUE(out.ok()) << out.status() << " with seed " << seed;
      for (size_t e = 0; e < y.size(); ++e)
        ASSERT_NEAR((*out)[e].flat<float>()[5], (*want)[e].flat<float>()[5],
                    1e-4);
    }
    EXPECT_LE(Cached(0).bytes, 3 * kBytes);
  }
}

TEST_F(ScheduledParametersTest, BodiesWithinBodies) {
  EmulatedDeviceOptions device = Quick();
  device.memory_bytes = 16 * kBytes;
  device.parameter_bytes = kBytes;
  const Output x = Placeholder<float>({-1, kUnits}, "x");
  std::vector<Output> y;
  for (int e = 0; e < 4; ++e)
    y.push_back(Scheduled(Emulated(2), x, [&](Output rows) {
      const Output w =
          GetVariable("outer", {kUnits, kUnits}, init::Constant(0.01));
      return Scheduled(Emulated(2), ops::MatMul(rows, w), [](Output rows) {
        return ops::MatMul(
            rows, GetVariable("inner", {kUnits, kUnits}, init::Constant(0.02)));
      });
    }));
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const auto session = Over(2, 0, device);
  ASSERT_TRUE(session->RunTargets({GlobalVariablesInitializer()}).ok());
  const auto out = session->Run({{x, Rows()}}, y);
  ASSERT_TRUE(out.ok()) << out.status();
  for (const Tensor& t : *out) EXPECT_TRUE((*out)[0].Identical(t));
}

class ScheduledPolicies : public ScheduledParametersTest,
                          public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, ScheduledPolicies,
                         ::testing::Values("locality", "cost"));

TEST_P(ScheduledPolicies, BodiesStayWithTheParametersOfIdleDevices) {
  const Output x = Placeholder<float>({-1, kUnits}, "x");
  const std::vector<Output> y = Experts(4, 4, x, GetParam());
  const auto session = Over(4);
  ASSERT_TRUE(session->RunTargets({GlobalVariablesInitializer()}).ok());
  ASSERT_TRUE(session->Run({{x, Rows()}}, y).ok());
  for (int i = 0; i < 5; ++i)
    for (const Output& one : y)
      ASSERT_TRUE(session->Run({{x, Rows()}}, one).ok());
  int64_t fetches = 0;
  for (int d = 0; d < 4; ++d) {
    EXPECT_EQ(Cached(d).fetches, 1);  // Spread by load in the first step.
    fetches += Cached(d).fetches;
  }
  EXPECT_EQ(fetches, 4);
}

TEST_F(ScheduledParametersTest, TrainingOverDevicesEqualsTrainingOnOne) {
  std::vector<std::vector<float>> losses;
  for (const int devices : {0, 1, 3}) {
    Graph g;
    const WithGraph use(g);
    const Output x = Placeholder<float>({-1, kUnits}, "x");
    Output sum = ops::ZerosLike(x);
    for (int e = 0; e < 3; ++e) {
      const auto body = [e](Output rows) {
        return ops::Tanh(ops::MatMul(
            rows, GetVariable(absl::StrCat("w", e), {kUnits, kUnits},
                              init::Constant(0.01 * (e + 1)))));
      };
      sum = sum + (devices == 0 ? body(x)
                                : Scheduled(Emulated(devices), x, body,
                                            {.policy = "least_loaded"}));
    }
    const Output loss = ops::Mean(ops::Square(sum - 0.5f), {0, 1});
    Node* const train = GradientDescentOptimizer(0.5).Minimize(loss);
    ASSERT_TRUE(g.status().ok()) << g.status();
    SessionOptions o;
    o.devices = EmulatedDevices(std::max(devices, 1), Quick());
    Session session(g, o);
    ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    losses.emplace_back();
    for (int step = 0; step < 5; ++step) {
      const auto out = session.Run({{x, Rows()}}, {loss}, {train});
      ASSERT_TRUE(out.ok()) << out.status();
      losses.back().push_back((*out)[0].scalar<float>());
    }
    EXPECT_EQ(GlobalVariables().size(), 3u);
    EXPECT_LT(losses.back()[4], losses.back()[0]);
  }
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(losses[1][i], losses[0][i], 1e-4);
    EXPECT_NEAR(losses[2][i], losses[0][i], 1e-4);
  }
}

// ---- Errors -----------------------------------------------------------------

class ScheduledErrorsTest : public ScheduledTest {
 protected:
  // What building it records.
  std::string Recorded(const Names& devices, const ScheduledOptions& options,
                       int line) {
    const Output x = Placeholder<float>({-1, 3});
    const Output y = Scheduled(
        devices, x, [](Output r) { return ops::Tanh(r); }, options,
        SourceLoc{__FILE__, line});
    EXPECT_FALSE(y.valid());
    const auto status = graph_.ErrorOf(y);
    return status == nullptr ? "" : std::string(status->message());
  }
};

TEST_F(ScheduledErrorsTest, AreRecordedWithTheUsersLine) {
  const int line = __LINE__;
  const auto at = HasSubstr(Here(line, __FILE__));
  EXPECT_THAT(Recorded({}, {}, line),
              AllOf(HasSubstr("at least one device, got none"), at));
  EXPECT_THAT(
      Recorded({"/device:EMU:x"}, {}, line),
      AllOf(HasSubstr("scheduled body"), HasSubstr("/device:EMU:x"), at));
  EXPECT_THAT(Recorded(Emulated(2), {.home = "nowhere"}, line),
              AllOf(HasSubstr("home"), HasSubstr("nowhere"), at));
  EXPECT_THAT(Recorded(Emulated(2), {.rows_per_part = -1}, line),
              AllOf(HasSubstr("rows_per_part"), at));
  for (const double bad :
       {-1.0, std::nan(""), std::numeric_limits<double>::infinity(), 1e60})
    EXPECT_THAT(Recorded(Emulated(2), {.ns_per_row = bad}, line),
                AllOf(HasSubstr("ns_per_row"), at));
  for (const double bad : {0.0, 1e-60, -1.0})
    EXPECT_THAT(Recorded(Emulated(2), {.bytes_per_s = bad}, line),
                AllOf(HasSubstr("bytes_per_s"), at));
}

TEST_F(ScheduledErrorsTest, OfAStepNameTheUsersLine) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  const Feeds feeds = {{x, Filled(Shape({2, 3}), 1)}};
  const Output unknown = Scheduled(Names{"/device:EMU:0", "/device:EMU:7"}, x,
                                   [](Output r) { return ops::Tanh(r); }, {});
  const Status a = Over(2)->Run(feeds, unknown).status();
  EXPECT_EQ(a.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(a.message()),
              AllOf(HasSubstr("EMU:7"), HasSubstr("scheduled_test.cc")));
  const Output policy =
      Scheduled(Emulated(2), x, [](Output r) { return ops::Tanh(r); },
                {.policy = "last_loaded"});
  const Status b = Over(2)->Run(feeds, policy).status();
  EXPECT_EQ(b.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(b.message()),
              AllOf(HasSubstr("'last_loaded'"), HasSubstr("least_loaded"),
                    HasSubstr("scheduled_test.cc")));
}

// (The library's own constants have the user's line, too.)
TEST_F(ScheduledErrorsTest, AnAbsentHomeIsReportedAtTheUsersLine) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  const Output y =
      Scheduled(Emulated(3), x, [](Output r) { return ops::Tanh(r); },
                {.home = "/device:CPU:7"});
  const Status s = Over(3)->Run({{x, Filled(Shape({2, 3}), 1)}}, y).status();
  EXPECT_THAT(std::string(s.message()),
              AllOf(HasSubstr("CPU:7"), HasSubstr("scheduled_test.cc")));
  for (const auto& n : graph_.nodes())
    EXPECT_THAT(n->loc().ToString(), HasSubstr("scheduled_test.cc"))
        << n->name();
}

TEST_F(ScheduledErrorsTest, ReplicasReturnTheSameTypes) {
  const Output x = Placeholder<float>({-1, 3}, "x");
  int replica = 0;
  const int line = __LINE__ + 1;
  const Output y = Scheduled(Emulated(2), x, [&](Output r) {
    return replica++ == 0 ? r : ops::Cast(r, DType::kDouble);
  });
  EXPECT_FALSE(y.valid());
  EXPECT_THAT(
      std::string(graph_.ErrorOf(y)->message()),
      AllOf(HasSubstr("scheduled body 'scheduled'"), HasSubstr("types (float)"),
            HasSubstr("(double)"), HasSubstr("/device:EMU:1"),
            HasSubstr(Here(line, __FILE__))));
}

}  // namespace
}  // namespace sluice
