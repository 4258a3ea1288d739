// Ops that wait for something outside of their step: in whole steps, and in the
// stages of partial runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "base/sanitizers.h"
#include "client/control/control_flow.h"
#include "client/operators.h"
#include "client/variables.h"
#include "exec/core/kernel.h"
#include "graph/device_scope.h"
#include "graph/shape_context.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Where OwnOpsTestPass ops wait. Thread-safe.
class Gate {
 public:
  static Gate& Of(const std::string& name) {
    static std::mutex mu;
    static auto* const all = new std::map<std::string, std::unique_ptr<Gate>>;
    std::lock_guard<std::mutex> lock(mu);
    std::unique_ptr<Gate>& gate = (*all)[name];
    if (gate == nullptr) gate = std::make_unique<Gate>();
    return *gate;
  }
  // Passes input 0 on, after a Release that is not used by another.
  void Pass(KernelContext& ctx, DoneFn done) {
    auto wait = std::make_shared<Wait>();
    wait->ctx = &ctx;
    wait->done = std::move(done);
    wait->callback = ctx.step().cancellation->Register([this, wait] {
      if (!wait->decided.exchange(true)) {
        AddWaiting(-1);
        wait->done(Cancelled("the gate did not open"));
      }
    });
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (wait->callback >= 0 && released_ == 0) {
        waits_.push_back(wait);
        ++waiting_;
        changed_.notify_all();
        return;
      }
      if (wait->callback >= 0) --released_;
      ++waiting_;
    }
    Finish(*wait);
  }
  // Lets one op pass: the one that has waited longest, or the next that comes.
  void Release() {
    std::shared_ptr<Wait> wait;
    do {
      std::lock_guard<std::mutex> lock(mu_);
      if (waits_.empty()) {
        ++released_;
        changed_.notify_all();
        return;
      }
      wait = std::move(waits_.front());
      waits_.pop_front();
    } while (!Finish(*wait));
  }
  void AwaitWaiting(int n) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return waiting_ == n; });
  }
  void AwaitReleased(int n) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return released_ == n; });
  }
  // Takes back a Release that no op has used, if there is one.
  void TakeReleased() {
    std::lock_guard<std::mutex> lock(mu_);
    if (released_ > 0) --released_;
  }
  int waiting() {
    std::lock_guard<std::mutex> lock(mu_);
    return waiting_;
  }

 private:
  struct Wait {
    std::atomic<bool> decided{false};
    KernelContext* ctx = nullptr;  // Valid until done is called.
    DoneFn done;
    int64_t callback = -1;  // -1: cancelled before it began.
  };
  void AddWaiting(int n) {
    std::lock_guard<std::mutex> lock(mu_);
    waiting_ += n;
    changed_.notify_all();
  }
  bool Finish(Wait& wait) {
    if (wait.decided.exchange(true)) return false;
    AddWaiting(-1);
    if (wait.callback < 0) {
      wait.done(Cancelled("the gate did not open"));
      return true;
    }
    wait.ctx->step().cancellation->Deregister(wait.callback);
    wait.ctx->set_output(0, wait.ctx->input(0));
    wait.done(OkStatus());
    return true;
  }

  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Wait>> waits_;  // GUARDED_BY(mu_)
  int waiting_ = 0;                          // GUARDED_BY(mu_)
  int released_ = 0;                         // GUARDED_BY(mu_)
};

struct GateName {
  explicit GateName(const Node& n) : gate(n.AttrOr<std::string>("gate", "")) {}
  Status Run(KernelContext& ctx) const {
    Gate::Of(gate).Release();
    ctx.set_output(0, ctx.input(0));
    return OkStatus();
  }
  const std::string gate;
};

SLUICE_OP(OwnOpsTestPass)
    .Input("x: float")
    .Output("y: float")
    .Attr("gate: string")
    .Stateful()
    .Waits()
    .Shape(UnchangedShape)
    .Kernel([](const Node& n, Kernel* k) {
      k->state = std::make_shared<GateName>(n);
      k->run_async = [](KernelContext& ctx, DoneFn done) {
        Gate::Of(ctx.state<GateName>().gate).Pass(ctx, std::move(done));
      };
      return OkStatus();
    });

SLUICE_OP(OwnOpsTestRelease)
    .Input("x: float")
    .Output("y: float")
    .Attr("gate: string")
    .Stateful()
    .Shape(UnchangedShape)
    .Kernel(CpuState<GateName>());

// Outputs how many threads its kernel may use.
Status CountThreads(KernelContext& ctx) {
  ctx.set_output(0,
                 Tensor::Scalar<float>(static_cast<float>(IntraOpThreads())));
  return OkStatus();
}

SLUICE_OP(OwnOpsTestThreads)
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(UnchangedShape)
    .Kernel(Cpu(CountThreads, /*expensive=*/true));

// Calls a function of the test, on the driver's thread.
std::function<void()>& CalledFunction() {
  static auto* const function = new std::function<void()>;
  return *function;
}

SLUICE_OP(OwnOpsTestCallFunction)
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(UnchangedShape)
    .Kernel(Cpu([](KernelContext& ctx) {
      CalledFunction()();
      ctx.set_output(0, ctx.input(0));
      return OkStatus();
    }));

// Where OwnOpsTestLong ran.
struct LongRuns {
  std::mutex mu;
  std::vector<std::thread::id> threads;  // GUARDED_BY(mu)
};
LongRuns& AllLongRuns() {
  static auto* const runs = new LongRuns;
  return *runs;
}

// Takes longer than a thread switch before it completes.
SLUICE_OP(OwnOpsTestLong)
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Waits()
    .Shape(UnchangedShape)
    .Kernel([](const Node&, Kernel* k) {
      k->expensive = true;
      k->run_async = [](KernelContext& ctx, DoneFn done) {
        const auto end =
            std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
        while (std::chrono::steady_clock::now() < end) continue;
        {
          std::lock_guard<std::mutex> lock(AllLongRuns().mu);
          AllLongRuns().threads.push_back(std::this_thread::get_id());
        }
        ctx.set_output(0, ctx.input(0));
        done(OkStatus());
      };
      return OkStatus();
    });

// Its first run takes long.
SLUICE_OP(OwnOpsTestLongAtFirst)
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(UnchangedShape)
    .Kernel([](const Node&, Kernel* k) {
      k->expensive = true;
      k->state = std::make_shared<std::atomic<bool>>(false);
      k->run = [](KernelContext& ctx) {
        if (!ctx.state<std::atomic<bool>>().exchange(true))
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        {
          std::lock_guard<std::mutex> lock(AllLongRuns().mu);
          AllLongRuns().threads.push_back(std::this_thread::get_id());
        }
        ctx.set_output(0, ctx.input(0));
        return OkStatus();
      };
      return OkStatus();
    });

Tensor WaitingValue(float v) { return Tensor::Scalar<float>(v); }

// The parameter is the seed of the scheduler; 0: newest first.
class WaitingOpsTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  WaitingOpsTest() : use_(graph_) {
    x_ = Placeholder<float>({}, "x");
    y_ = Placeholder<float>({}, "y");
  }
  // (Gates outlive tests, so each test has its own.)
  static std::string GateName(const std::string& name) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    return std::string(test->name()) + "/" + name;
  }
  static Gate& TheGate(const std::string& name = "") {
    return Gate::Of(GateName(name));
  }
  static Output Pass(Output x, const std::string& gate = "",
                     const std::string& name = "pass") {
    return Build("OwnOpsTestPass", {x}, {{"gate", GateName(gate)}}, name);
  }
  static Output Release(Output x, const std::string& gate = "") {
    return Build("OwnOpsTestRelease", {x}, {{"gate", GateName(gate)}});
  }
  static SessionOptions Options() {
    SessionOptions o;
    o.scheduler_seed = GetParam();
    return o;
  }
  std::unique_ptr<Session::PartialRun> Begin(const std::vector<Output>& feeds,
                                             const std::vector<Output>& fetches,
                                             Session& session) {
    auto run = session.StartPartialRun(feeds, fetches);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : nullptr;
  }
  static float Only(const Result<std::vector<Tensor>>& got) {
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? (*got)[0].scalar<float>() : -1e9f;
  }

  Graph graph_;
  WithGraph use_;
  Output x_, y_;
};
INSTANTIATE_TEST_SUITE_P(Seeds, WaitingOpsTest,
                         ::testing::Values(0, 1, 2, 3, 4, 5));

TEST_P(WaitingOpsTest, AStageEndsWhileAnOpWaitsAndTheNextReleasesIt) {
  const Output a = -x_, b = Pass(a) * 2.0f, r = Release(y_);
  Session session(graph_, Options());
  for (int i = 0; i < 10; ++i) {
    auto run = Begin({x_, y_}, {a, b, r}, session);
    EXPECT_EQ(Only(run->Run({{x_, WaitingValue(3)}}, {a})), -3);
    EXPECT_EQ(TheGate().waiting(), 1);
    const auto got = run->Run({{y_, WaitingValue(5)}}, {b, r});
    EXPECT_EQ(Only(got), -6);
    EXPECT_EQ((*got)[1].scalar<float>(), 5);
    EXPECT_EQ(TheGate().waiting(), 0);
  }
}

TEST_P(WaitingOpsTest, AStageThatFetchesItsResultAwaitsIt) {
  const Output a = -x_, b = Pass(a) * 2.0f;
  Session session(graph_, Options());
  for (int i = 0; i < 10; ++i) {
    auto run = Begin({x_}, {a, b}, session);
    std::thread opener([] {
      TheGate().AwaitWaiting(1);
      TheGate().Release();
    });
    EXPECT_EQ(Only(run->Run({{x_, WaitingValue(3)}}, {b})), -6);
    opener.join();
    EXPECT_EQ(Only(run->Run({}, {a})), -3);
  }
}

TEST_P(WaitingOpsTest, WhatFollowsRunsBetweenTheStages) {
  const Output a = -x_, b = Pass(Pass(a, "1") * 2.0f, "2") + y_;
  Session session(graph_, Options());
  auto run = Begin({x_, y_}, {a, b}, session);
  EXPECT_EQ(Only(run->Run({{x_, WaitingValue(3)}}, {a})), -3);
  std::thread opener([] { TheGate("1").Release(); });
  TheGate("2").AwaitWaiting(1);
  opener.join();
  EXPECT_EQ(TheGate("1").waiting(), 0);
  TheGate("2").Release();
  EXPECT_EQ(Only(run->Run({{y_, WaitingValue(10)}}, {b})), 4);
}

// The next stage begins at any moment of what runs since the last.
TEST_P(WaitingOpsTest, AReleaseMeetsTheNextStage) {
  const Output a = -x_;
  Output b = Pass(a);
  for (int i = 0; i < 50; ++i) b = b + 1.0f;
  const Output c = b + y_;
  Session session(graph_, Options());
  for (int i = 0; i < 50; ++i) {
    auto run = Begin({x_, y_}, {a, b, c}, session);
    EXPECT_EQ(Only(run->Run({{x_, WaitingValue(3)}}, {a})), -3);
    std::thread opener([] { TheGate().Release(); });
    EXPECT_EQ(Only(run->Run({{y_, WaitingValue(1)}}, {c})), 48);
    EXPECT_EQ(Only(run->Run({}, {b})), 47);
    opener.join();
  }
}

TEST_P(WaitingOpsTest, TwoAreReleasedInAnyOrder) {
  const Output a = -x_, b = Pass(x_, "b"), c = Pass(a, "c");
  Session session(graph_, Options());
  for (const bool b_first : {false, true}) {
    auto run = Begin({x_}, {a, b, c}, session);
    EXPECT_EQ(Only(run->Run({{x_, WaitingValue(3)}}, {a})), -3);
    EXPECT_EQ(TheGate("b").waiting() + TheGate("c").waiting(), 2);
    TheGate(b_first ? "b" : "c").Release();
    EXPECT_EQ(Only(run->Run({}, {b_first ? b : c})), b_first ? 3 : -3);
    EXPECT_EQ(TheGate(b_first ? "c" : "b").waiting(), 1);
    TheGate(b_first ? "c" : "b").Release();
    EXPECT_EQ(Only(run->Run({}, {b_first ? c : b})), b_first ? -3 : 3);
  }
}

TEST_P(WaitingOpsTest, OneInALoopWaitsInEachIteration) {
  const Output a = -x_;
  const Output end = While(
      x_, [](Output i) { return i < 5.0f; },
      [](Output i) { return Pass(i) + 1.0f; });
  Session session(graph_, Options());
  auto run = Begin({x_}, {a, end}, session);
  EXPECT_EQ(Only(run->Run({{x_, WaitingValue(2)}}, {a})), -2);
  TheGate().AwaitWaiting(1);
  TheGate().Release();
  TheGate().AwaitWaiting(1);
  EXPECT_TRUE(run->Run({}, {}).ok());
  std::thread opener([] {
    TheGate().Release();
    TheGate().Release();
  });
  EXPECT_EQ(Only(run->Run({}, {end})), 5);
  opener.join();
}

TEST_P(WaitingOpsTest, AFetchThatLacksAFeedIsAnErrorAtOnce) {
  const Output a = -x_, b = Pass(a), c = b + y_;
  Session session(graph_, Options());
  auto run = Begin({x_, y_}, {a, b, c}, session);
  const Status s = run->Run({{x_, WaitingValue(3)}}, {c}).status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
  EXPECT_THAT(s.ToString(), HasSubstr("'y:0'"));
  TheGate().Release();
  EXPECT_EQ(Only(run->Run({{y_, WaitingValue(1)}}, {c})), -2);
}

TEST_P(WaitingOpsTest, IsCancelledInAStage) {
  const Output a = -x_, b = Pass(a);
  Session session(graph_, Options());
  auto run = Begin({x_}, {a, b}, session);
  EXPECT_TRUE(run->Run({{x_, WaitingValue(3)}}, {a}).ok());
  Cancellation cancellation;
  RunOptions options;
  options.cancellation = &cancellation;
  std::thread canceller([&] { cancellation.Cancel(); });
  EXPECT_EQ(run->Run({}, {b}, options).status().code(), StatusCode::kCancelled);
  canceller.join();
  EXPECT_EQ(TheGate().waiting(), 0);
  EXPECT_EQ(run->Run({}, {b}).status().code(), StatusCode::kCancelled);
}

TEST_P(WaitingOpsTest, TheDeadlineOfAStageEndsItAndNamesIt) {
  const Output a = -x_, b = Pass(a, "", "closed_gate");
  Session session(graph_, Options());
  auto run = Begin({x_}, {a, b}, session);
  RunOptions options;
  options.timeout_ms = 20;
  const Status s = run->Run({{x_, WaitingValue(3)}}, {b}, options).status();
  EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
  EXPECT_THAT(s.ToString(),
              AllOf(HasSubstr("closed_gate"), HasSubstr("OwnOpsTestPass"),
                    HasSubstr("still waits")));
  EXPECT_EQ(TheGate().waiting(), 0);
}

TEST_P(WaitingOpsTest, TheDeadlineOfAStageThatIsOverDoesNotEndIt) {
  const Output a = -x_;
  const Output b = While(
      Pass(a), [](Output i) { return i < 2000.0f; },
      [](Output i) { return i + 1.0f; });
  Session session(graph_, Options());
  auto run = Begin({x_}, {a, b}, session);
  RunOptions options;
  options.timeout_ms = 5000;
  EXPECT_EQ(Only(run->Run({{x_, WaitingValue(3)}}, {a}, options)), -3);
  options.timeout_ms = 1;
  while (run->Run({}, {}, options).ok() && TheGate().waiting() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    TheGate().Release();  // The loop runs past the last stage's deadline.
  }
  EXPECT_EQ(Only(run->Run({}, {b})), 2000);
}

TEST_P(WaitingOpsTest, EndsWithItsPartialRun) {
  const Output a = -x_, b = Pass(a), c = Pass(b);
  Session session(graph_, Options());
  auto run = Begin({x_}, {a, c}, session);
  EXPECT_TRUE(run->Run({{x_, WaitingValue(3)}}, {a}).ok());
  EXPECT_EQ(TheGate().waiting(), 1);
  run.reset();
  EXPECT_EQ(TheGate().waiting(), 0);
  // The next step that uses its memory is not affected.
  TheGate().Release();
  TheGate().Release();
  EXPECT_EQ(
      Only(Begin({x_}, {a, c}, session)->Run({{x_, WaitingValue(4)}}, {c})),
      -4);
}

TEST_P(WaitingOpsTest, EndsWithItsSessionBetweenStages) {
  const Output a = -x_, b = Pass(a);
  Session session(graph_, Options());
  auto run = Begin({x_}, {a, b}, session);
  EXPECT_TRUE(run->Run({{x_, WaitingValue(3)}}, {a}).ok());
  EXPECT_EQ(TheGate().waiting(), 1);
  ASSERT_TRUE(session.Close().ok());
  EXPECT_EQ(TheGate().waiting(), 0);
}

TEST_P(WaitingOpsTest, ASessionEndsAfterWhatRunsBetweenStages) {
  const Output a = -x_, b = Build("OwnOpsTestCallFunction", {Pass(a)});
  std::atomic<bool> ended{false};
  CalledFunction() = [&ended] {
    TheGate("began").Release();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ended = true;
  };
  auto session = std::make_unique<Session>(graph_, Options());
  auto run = Begin({x_}, {a, b}, *session);
  EXPECT_TRUE(run->Run({{x_, WaitingValue(3)}}, {a}).ok());
  std::thread opener([] { TheGate().Release(); });
  TheGate("began").AwaitReleased(1);
  session.reset();
  EXPECT_TRUE(ended);
  opener.join();
}

// The first step releases the second, and waits for a step that the second
// releases.
TEST_P(WaitingOpsTest, AStepInAKernelMayWaitForOneThatItsThreadIsToDrive) {
  const Output a = -x_;
  const Output first =
      Build("OwnOpsTestCallFunction", {Release(Pass(a, "first"), "second")});
  const Output second = Release(Pass(a, "second"), "third");
  const Output third = Pass(a, "third");
  Session session(graph_, Options());
  float got = 0;
  CalledFunction() = [&] {
    got =
        Only(session.Run({{x_, WaitingValue(5)}}, std::vector<Output>{third}));
  };
  auto one = Begin({x_}, {a, first}, session);
  auto two = Begin({x_}, {a, second}, session);
  EXPECT_TRUE(one->Run({{x_, WaitingValue(3)}}, {a}).ok());
  EXPECT_TRUE(two->Run({{x_, WaitingValue(4)}}, {a}).ok());
  TheGate("first").Release();
  EXPECT_EQ(got, -5);
  EXPECT_EQ(Only(one->Run({}, {first})), -3);
  EXPECT_EQ(Only(two->Run({}, {second})), -4);
}

TEST_P(WaitingOpsTest, AStageWithinItsDeadlineDoesNotFailTheNext) {
  const Output a = -x_, b = Pass(a);
  Session session(graph_, Options());
  for (int i = 0; i < 30; ++i) {
    auto run = Begin({x_}, {a, b}, session);
    EXPECT_TRUE(run->Run({{x_, WaitingValue(3)}}, {a}).ok());
    // At about the time of the deadline.
    std::thread opener([i] {
      std::this_thread::sleep_for(std::chrono::microseconds(900 + 10 * i));
      TheGate().Release();
    });
    RunOptions options;
    options.timeout_ms = 1;
    const Status s = run->Run({}, {b}, options).status();
    const Status next = run->Run({}, {}).status();
    EXPECT_EQ(next, s) << i;
    opener.join();
    if (!s.ok()) {
      EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
      // The op may have passed before the stage ended at its deadline.
      TheGate().TakeReleased();
    }
  }
}

TEST_P(WaitingOpsTest, AnErrorOfAnotherOpEndsIt) {
  const Output a = -x_, b = Pass(a);
  const Output bad =
      Build("CheckNumerics", {ops::Log(y_)}, {{"message", "negative"}});
  Session session(graph_, Options());
  auto run = Begin({x_, y_}, {a, b, bad}, session);
  EXPECT_TRUE(run->Run({{x_, WaitingValue(3)}}, {a}).ok());
  EXPECT_EQ(TheGate().waiting(), 1);
  EXPECT_EQ(run->Run({{y_, WaitingValue(-1)}}, {bad}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(TheGate().waiting(), 0);
}

TEST_P(WaitingOpsTest, AWholeStepAwaitsItOverAnyDevices) {
  for (const int devices : {1, 2}) {
    SessionOptions options = Options();
    options.devices = CpuDevices(devices);
    Output b;
    {
      DeviceScope on(devices == 1 ? "/cpu:0" : "/cpu:1");
      b = Pass(-x_, "", "closed_gate");
    }
    Output c;
    {
      DeviceScope on("/cpu:0");
      c = b * 2.0f;
    }
    Session session(graph_, options);
    std::thread opener([] {
      TheGate().AwaitWaiting(1);
      TheGate().Release();
    });
    EXPECT_EQ(
        Only(session.Run({{x_, WaitingValue(3)}}, std::vector<Output>{c})), -6);
    opener.join();
    RunOptions late;
    late.timeout_ms = 20;
    const Status s =
        session.Run({{x_, WaitingValue(3)}}, {c}, {}, late).status();
    EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
    EXPECT_THAT(s.ToString(),
                AllOf(HasSubstr("closed_gate"), HasSubstr("still waits")));
    EXPECT_EQ(TheGate().waiting(), 0);
  }
}

TEST_P(WaitingOpsTest, LeavesAllThreadsToTheOpThatRuns) {
  const Output a = -x_, b = Pass(a);
  const Output threads = Build("OwnOpsTestThreads", {y_});
  SessionOptions options = Options();
  options.intra_op_threads = 3;
  Session session(graph_, options);
  auto run = Begin({x_, y_}, {a, b, threads}, session);
  EXPECT_TRUE(run->Run({{x_, WaitingValue(3)}}, {a}).ok());
  EXPECT_EQ(TheGate().waiting(), 1);
  // (OpenMP may provide fewer: one, under ThreadSanitizer.)
  const ScopedIntraOpThreads three(3);
  EXPECT_EQ(Only(run->Run({{y_, WaitingValue(0)}}, {threads})),
            IntraOpThreads());
}

// One partial run holds a mutex until it is fed; the other waits for it.
TEST_P(WaitingOpsTest, AMutexLockWaitsForAnotherPartialRun) {
  const Output mutex = Build("MutexV2", {});
  const auto consume = [](Output lock, Output after) {
    ControlDependencies in_order({after.node});
    return BuildNode("ConsumeMutexLock", {lock});
  };
  const auto then = [](Node* done, Output value) {
    ControlDependencies in_order({done});
    return value + 1.0f;
  };
  const Output held = x_ * 2.0f, freed = y_ * 2.0f;
  Output lock;
  {
    ControlDependencies in_order({held.node});
    lock = Build("MutexLock", {mutex});
  }
  const Output last = then(consume(lock, freed), freed);
  Session session(graph_, Options());
  auto holder = Begin({x_, y_}, {held, last}, session);
  auto waiter = Begin({x_, y_}, {held, freed, last}, session);
  EXPECT_EQ(Only(holder->Run({{x_, WaitingValue(1)}}, {held})), 2);
  EXPECT_EQ(Only(waiter->Run({{x_, WaitingValue(2)}}, {held})), 4);
  EXPECT_EQ(Only(waiter->Run({{y_, WaitingValue(3)}}, {freed})), 6);
  EXPECT_EQ(Only(holder->Run({{y_, WaitingValue(4)}}, {last})), 9);
  EXPECT_EQ(Only(waiter->Run({}, {last})), 7);
}

// Each releases the next: not within the call that released it, which would
// exhaust the stack.
class ManyWaitingOpsTest : public WaitingOpsTest {};
INSTANTIATE_TEST_SUITE_P(NewestFirst, ManyWaitingOpsTest, ::testing::Values(0));

TEST_P(ManyWaitingOpsTest, AreReleasedInTurn) {
  // (Releases that nest would overflow the stack.)
  constexpr int kRuns = kSanitized ? 4000 : 20000;
  const Output a = -x_, b = Release(Pass(a));
  Session session(graph_, Options());
  std::vector<std::unique_ptr<Session::PartialRun>> runs;
  for (int i = 0; i < kRuns; ++i) {
    runs.push_back(Begin({x_}, {a, b}, session));
    ASSERT_TRUE(runs.back()->Run({{x_, WaitingValue(1)}}, {a}).ok());
  }
  TheGate().AwaitWaiting(kRuns);
  TheGate().Release();
  TheGate().AwaitWaiting(0);
  EXPECT_EQ(Only(runs.back()->Run({}, {b})), -1);
}

// As a synchronous kernel that takes long does. (In the first step it is
// measured.)
TEST(LongAsyncOpsTest, RunOnThreadsOfTheSessionWhileOthersAreReady) {
  Graph graph;
  WithGraph use(graph);
  const Output x = Placeholder<float>({}, "x");
  std::vector<Output> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(Build("OwnOpsTestLong", {x}));
  const Output sum = Build("AddN", parts);
  for (const int threads : {0, 2}) {
    SessionOptions options;
    options.inter_op_threads = threads;
    Session session(graph, options);
    for (int step = 0; step < 3; ++step) {
      AllLongRuns().threads.clear();
      const auto got = session.Run({{x, WaitingValue(2)}}, sum);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(got->scalar<float>(), 8);
      ASSERT_EQ(AllLongRuns().threads.size(), 4u);
      int elsewhere = 0;
      for (const std::thread::id id : AllLongRuns().threads)
        elsewhere += id != std::this_thread::get_id();
      EXPECT_EQ(elsewhere > 0, threads > 0 && step > 0) << step;
    }
  }
}

// A kernel whose first run takes long runs beside others at first, and by the
// driver once its average shows that it is short.
TEST(LongAsyncOpsTest, ComeBackFromThePoolWhenTheyAreShort) {
  Graph graph;
  WithGraph use(graph);
  const Output x = Placeholder<float>({}, "x");
  std::vector<Output> parts;
  for (int i = 0; i < 2; ++i)
    parts.push_back(Build("OwnOpsTestLongAtFirst", {x}));
  const Output sum = Build("AddN", parts);
  SessionOptions options;
  options.inter_op_threads = 2;
  options.regions = false;  // (They would be one node.)
  Session session(graph, options);
  bool went = false, came_back = false;
  for (int step = 0; step < 300; ++step) {
    AllLongRuns().threads.clear();
    const auto got = session.Run({{x, WaitingValue(2)}}, sum);
    ASSERT_TRUE(got.ok()) << got.status();
    bool elsewhere = false;
    for (const std::thread::id id : AllLongRuns().threads)
      elsewhere = elsewhere || id != std::this_thread::get_id();
    went = went || elsewhere;
    came_back = came_back || (went && !elsewhere);
  }
  EXPECT_TRUE(went);
  EXPECT_TRUE(came_back);
}

// In a stage, it completes before the stage is over.
TEST(LongAsyncOpsTest, CompleteWithinTheirStage) {
  Graph graph;
  WithGraph use(graph);
  const Output x = Placeholder<float>({}, "x"), z = Placeholder<float>({}, "z");
  std::vector<Output> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(Build("OwnOpsTestLong", {x}));
  const Output sum = Build("AddN", parts) + z, other = -x;
  SessionOptions options;
  options.inter_op_threads = 2;
  Session session(graph, options);
  for (int step = 0; step < 3; ++step) {
    auto run = session.StartPartialRun({x, z}, {other, sum});
    ASSERT_TRUE(run.ok()) << run.status();
    AllLongRuns().threads.clear();
    ASSERT_TRUE((*run)->Run({{x, WaitingValue(2)}}, {other}).ok());
    EXPECT_EQ(AllLongRuns().threads.size(), 4u);
    const auto got = (*run)->Run({{z, WaitingValue(1)}}, {sum});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ((*got)[0].scalar<float>(), 9);
  }
}

}  // namespace
}  // namespace sluice
