// Reports of steps that were interrupted: which loops were in which iteration,
// what ran, what waited, and for what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/operators.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HangTest : public ::testing::Test {
 protected:
  HangTest() : use_(graph_) {}

  static SessionOptions Without(bool regions) {
    SessionOptions o;
    o.regions = regions;
    return o;
  }
  // The error of a step that exceeds its deadline.
  std::string LateError(const Output& fetch, const SessionOptions& o) {
    Session session(graph_, o);
    RunOptions options;
    options.timeout_ms = 30;
    const Status s = session.Run({}, {fetch}, {}, options).status();
    EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
    return std::string(s.message());
  }
  static Output Lock(const Output& mutex, const std::string& name,
                     const Output& after) {
    const ControlDependencies wait({after.node});
    return Build("MutexLock", {mutex}, {}, name);
  }
  static Output Endless(const Output& init, const std::string& name) {
    return While(
        init, [](Output v) { return v >= 0; },
        [](Output v) { return (v + 1) % 1000; }, {.name = name});
  }

  Graph graph_;
  WithGraph use_;
};

// Iteration 1 of the inner loop, in iteration 2 of the outer one, waits for a
// lock that is never released: an async kernel that does not complete.
TEST_F(HangTest, PendingKernelIsNamedWithItsLoops) {
  const Output mutex = Build("MutexV2", {});
  const auto [n, total] = While(
      std::tuple{0, 0}, [](Output i, Output) { return i < 5; },
      [&](Output i, Output total) {
        const auto [j, sum] = While(
            std::tuple{0, total}, [](Output j, Output) { return j < 5; },
            [&](Output j, Output sum) {
              const Output stuck = Cond(
                  ops::LogicalAnd(ops::Equal(i, 2), ops::Equal(j, 1)),
                  [&] {
                    const Output first = Lock(mutex, "first", j);
                    const Output second = Lock(mutex, "second", first);
                    // Both are kept until both exist.
                    Node* both;
                    {
                      const ControlDependencies later({second.node});
                      both =
                          BuildNode("ConsumeMutexLock", {first}, {}, "release");
                    }
                    const ControlDependencies last({both});
                    return ops::Identity(sum);
                  },
                  [&] { return sum + 1; });
              return std::tuple{j + 1, stuck};
            },
            {.parallel_iterations = 1, .name = "inner"});
        return std::tuple{i + 1, sum + i};
      },
      {.parallel_iterations = 1, .name = "outer"});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  for (const bool regions : {true, false}) {
    const std::string e = LateError(total, Without(regions));
    EXPECT_THAT(
        e, AllOf(HasSubstr("second' (MutexLock) at "), HasSubstr("still waits"),
                 HasSubstr("frame 'outer' iteration 2"),
                 HasSubstr(" within frame 'outer' iteration 2"),
                 HasSubstr("release' (ConsumeMutexLock)"),
                 HasSubstr("waits for 1 of 2 inputs: 'outer/inner/")))
        << e;
  }
}

TEST_F(HangTest, LoopsInRegionAreNamedWithIterations) {
  const auto [n, y] = While(
      std::tuple{0, 0}, [](Output i, Output) { return i < 5; },
      [](Output i, Output y) {
        return std::tuple{
            i + 1, Cond(
                       ops::Equal(i, 3), [&] { return Endless(y, "inner"); },
                       [&] { return y; })};
      },
      {.name = "outer"});
  const std::string e = LateError(y, {});
  EXPECT_THAT(e, AllOf(HasSubstr("; frame 'outer' iteration 3; frame 'outer/"),
                       HasSubstr("inner' iteration "),
                       HasSubstr(" within frame 'outer' iteration 3"),
                       Not(HasSubstr("_Region"))))
      << e;
}

// The inner loop is a region, the outer one is not: it takes a lock.
TEST_F(HangTest, RegionIsNamedWithOuterLoops) {
  const Output mutex = Build("MutexV2", {});
  const auto [n, y] = While(
      std::tuple{0, 0}, [](Output i, Output) { return i < 5; },
      [&](Output i, Output y) {
        const Output lock = Lock(mutex, "lock", i);
        Node* const release = BuildNode("ConsumeMutexLock", {lock});
        const ControlDependencies later({release});
        const Output start = ops::Identity(y);
        return std::tuple{i + 1, Cond(
                                     ops::Equal(i, 3),
                                     [&] { return Endless(start, "inner"); },
                                     [&] { return start; })};
      },
      {.parallel_iterations = 1, .name = "outer"});
  const std::string e = LateError(y, {});
  EXPECT_THAT(e, AllOf(HasSubstr("inner' iteration "),
                       HasSubstr(" within frame 'outer' iteration 3; frame "
                                 "'outer' iteration 3"),
                       Not(HasSubstr("_Region"))))
      << e;
}

TEST_F(HangTest, CloseErrorNamesLoops) {
  const Output y = Endless(Constant(0), "endless");
  for (const bool regions : {true, false}) {
    Session session(graph_, Without(regions));
    const Result<Session::Callable> run = session.MakeCallable({}, {y});
    ASSERT_TRUE(run.ok()) << run.status();
    Status s;
    std::thread step([&] { s = run->Run().status(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(session.Close().ok());
    step.join();
    EXPECT_EQ(s.code(), StatusCode::kCancelled) << s;
    EXPECT_THAT(
        std::string(s.message()),
        AllOf(HasSubstr("closed"), HasSubstr("frame 'endless' iteration"),
              Not(HasSubstr("_Region"))));
  }
}

// With many frames and waiting nodes, some are named and the others counted.
TEST_F(HangTest, ExcessFramesAreCounted) {
  const Function f =
      DefineFunction("deep", {DType::kInt32}, {DType::kInt32},
                     [](const Function& self, const std::vector<Output>& a) {
                       return self({a[0] + 1})[0] * 2;
                     });
  SessionOptions options;
  options.max_call_depth = 1'000'000'000;
  const std::string e = LateError(f({Constant(0)})[0], options);
  EXPECT_THAT(e, AllOf(HasSubstr("function 'deep' at call depth 1;"),
                       HasSubstr("function 'deep' at call depth 2;"),
                       HasSubstr(" more frames")))
      << e;
  EXPECT_LT(e.size(), 5000u);
}

TEST_F(HangTest, ConcurrentIterationsAreNamedTogether) {
  const Output mutex = Build("MutexV2", {});
  const Output held = Build("MutexLock", {mutex}, {}, "held");
  const Output n = [&] {
    const ControlDependencies after({held.node});
    return ops::Identity(Constant(10));
  }();
  const auto [count, total] = While(
      std::tuple{0, 0}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output total) {
        const Output next = i + 1;
        const Output lock = Lock(mutex, "lock", i);
        Node* const release = BuildNode("ConsumeMutexLock", {lock});
        const ControlDependencies later({release});
        return std::tuple{next, total + i};
      },
      {.parallel_iterations = 4, .name = "loop"});
  const ControlDependencies end({total.node});
  Node* const release = BuildNode("ConsumeMutexLock", {held}, {}, "release");
  const ControlDependencies last({release});
  const std::string e = LateError(Constant(1) + total, {});
  EXPECT_THAT(e,
              AllOf(HasSubstr("frame 'loop' iterations 0 to 3 (1 value waits "
                              "for the next)"),
                    HasSubstr("(MutexLock) at "),
                    HasSubstr(", frame 'loop' iteration 3 still waits"),
                    HasSubstr("node 'release' (ConsumeMutexLock)"),
                    HasSubstr("waits for 1 of 2 inputs: 'loop/Exit")))
      << e;
}

}  // namespace
}  // namespace sluice
