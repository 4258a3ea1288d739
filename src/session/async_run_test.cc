// Steps for which no thread waits (Session::RunAsync).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/sanitizers.h"
#include "client/operators.h"
#include "client/variables.h"
#include "exec/core/device.h"
#include "graph/device_scope.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Fetched = Result<std::vector<Tensor>>;

// The ends of runs. Thread-safe.
class Ends {
 public:
  // For the next run.
  Session::Done Next() {
    return [this](Fetched got) {
      const std::lock_guard<std::mutex> lock(mu_);
      all_.push_back(std::move(got));
      changed_.notify_all();
    };
  }
  size_t count() {
    const std::lock_guard<std::mutex> lock(mu_);
    return all_.size();
  }
  // Waits for n ends.
  std::vector<Fetched> Await(size_t n) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return all_.size() >= n; });
    return all_;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<Fetched> all_;
};

float FloatOf(const Fetched& got) {
  EXPECT_TRUE(got.ok()) << got.status();
  return got.ok() ? (*got)[0].scalar<float>() : -1;
}

class AsyncRunTest : public ::testing::Test {
 protected:
  AsyncRunTest() : use_(graph_) {
    queue_ = Build("FIFOQueueV2", {},
                   {{"component_types", AttrValue::Types{DType::kFloat}},
                    {"shapes", AttrValue::Shapes{PartialShape(Shape())}}});
    x_ = Placeholder<float>({});
    put_ = BuildNode("QueueEnqueueV2", {queue_, x_});
    take_ = Build("QueueDequeueV2", {queue_},
                  {{"component_types", AttrValue::Types{DType::kFloat}}});
    next_ = take_ + 1.0f;
  }
  Status Put(Session& s, float value) {
    return s.RunTargets({put_}, {{x_, Tensor::Scalar(value)}});
  }

  Graph graph_;
  WithGraph use_;
  Output queue_, x_, take_, next_;
  Node* put_;
};

TEST_F(AsyncRunTest, WhatNeedNotWaitHasEndedOnReturn) {
  Session s(graph_);
  Ends ends;
  s.RunAsync({{x_, Tensor::Scalar(2.0f)}}, {x_ * 3.0f}, {}, ends.Next());
  ASSERT_EQ(ends.count(), 1u);
  EXPECT_EQ(FloatOf(ends.Await(1)[0]), 6);
}

TEST_F(AsyncRunTest, WhatWaitsHoldsNoThread) {
  Session s(graph_);
  auto step = s.MakeCallable({}, {next_});
  ASSERT_TRUE(step.ok()) << step.status();
  Ends ends;
  constexpr int kRuns = 1000;  // Far more than there are threads.
  for (int i = 0; i < kRuns; ++i) step->RunAsync({}, ends.Next());
  EXPECT_EQ(ends.count(), 0u);
  float expected = 0, sum = 0;
  for (int i = 0; i < kRuns; ++i) {
    const auto value = static_cast<float>(i);
    ASSERT_TRUE(Put(s, value).ok());
    expected += value + 1;
  }
  // (Each ended on this thread, which enqueued its element.)
  ASSERT_EQ(ends.count(), static_cast<size_t>(kRuns));
  for (const Fetched& got : ends.Await(kRuns)) sum += FloatOf(got);
  EXPECT_EQ(sum, expected);
}

TEST_F(AsyncRunTest, MistakesAreToldBeforeItReturns) {
  Session s(graph_);
  Ends ends;
  s.RunAsync({}, {Output()}, {}, ends.Next());
  s.RunAsync({{x_, Tensor::Scalar(1)}}, {x_ + 1.0f}, {}, ends.Next());
  Session::Callable().RunAsync({}, ends.Next());
  const Output root = ops::CheckNumerics(x_, "not finite");
  s.RunAsync({{x_, Tensor::Scalar(INFINITY)}}, {root}, {}, ends.Next());
  const Output twice = x_ + x_;
  const auto step = s.MakeCallable({x_}, {twice});
  ASSERT_TRUE(step.ok());
  step->RunAsync({}, ends.Next());
  ASSERT_TRUE(s.Close().ok());
  s.RunAsync({}, {next_}, {}, ends.Next());
  ASSERT_EQ(ends.count(), 6u);
  std::vector<std::string> messages;
  for (const Fetched& got : ends.Await(6))
    messages.emplace_back(got.status().message());
  EXPECT_THAT(messages, ElementsAre(HasSubstr("fetches[0]: expected an output"),
                                    HasSubstr("expected float[], got int32[]"),
                                    HasSubstr("got an empty one"),
                                    HasSubstr("not finite"),
                                    HasSubstr("feeds: expected 1, got 0"),
                                    HasSubstr("got a closed one")));
}

TEST_F(AsyncRunTest, CancelledWhileItWaits) {
  Session s(graph_);
  Ends ends;
  Cancellation stop;
  RunOptions options;
  options.cancellation = &stop;
  s.RunAsync({}, {next_}, {}, ends.Next(), options);
  s.RunAsync({}, {next_}, {}, ends.Next());
  EXPECT_EQ(ends.count(), 0u);
  stop.Cancel();
  ASSERT_EQ(ends.count(), 1u);
  EXPECT_EQ(ends.Await(1)[0].status().code(), StatusCode::kCancelled);
  // Before it begins.
  s.RunAsync({}, {next_}, {}, ends.Next(), options);
  ASSERT_EQ(ends.count(), 2u);
  EXPECT_EQ(ends.Await(2)[1].status().code(), StatusCode::kCancelled);
  ASSERT_TRUE(Put(s, 4).ok());
  EXPECT_EQ(FloatOf(ends.Await(3)[2]), 5);
}

TEST_F(AsyncRunTest, DeadlineEndsWhatWaits) {
  Session s(graph_);
  Ends ends;
  RunOptions options;
  options.timeout_ms = 20;
  s.RunAsync({}, {next_}, {}, ends.Next(), options);
  const Status late = ends.Await(1)[0].status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("still waits"));
  // One that ends in time.
  options.timeout_ms = 60'000;
  s.RunAsync({}, {next_}, {}, ends.Next(), options);
  ASSERT_TRUE(Put(s, 1).ok());
  EXPECT_EQ(FloatOf(ends.Await(2)[1]), 2);
}

TEST_F(AsyncRunTest, ClosingEndsWhatWaits) {
  Ends ends;
  {
    Session s(graph_);
    s.RunAsync({}, {next_}, {}, ends.Next());
    s.RunAsync({}, {next_}, {}, ends.Next());
  }
  ASSERT_EQ(ends.count(), 2u);
  for (const Fetched& got : ends.Await(2))
    EXPECT_EQ(got.status().code(), StatusCode::kCancelled);
}

// Runs the step again and again, each time from the end of the last.
TEST_F(AsyncRunTest, DoneMayBeginTheNext) {
  Session s(graph_);
  const Result<Session::Callable> step = s.MakeCallable({}, {next_});
  ASSERT_TRUE(step.ok());
  // Calls that nest would overflow the stack. (Frames are larger under
  // sanitizers.)
  constexpr int kRuns = kSanitized ? 20'000 : 100'000;
  const Output many = ops::Fill(IntVector({kRuns}), Constant(1.0f));
  ASSERT_TRUE(
      s.RunTargets({BuildNode("QueueEnqueueManyV2", {queue_, many})}).ok());
  int ended = 0;
  std::function<void(Fetched)> done = [&](const Fetched& got) {
    EXPECT_TRUE(got.ok());
    if (++ended < kRuns) step->RunAsync({}, done);
  };
  step->RunAsync({}, done);
  EXPECT_EQ(ended, kRuns);
}

TEST_F(AsyncRunTest, DoneMayRunAndCloseAndDropTheSession) {
  auto s = std::make_unique<Session>(graph_);
  Ends ends;
  const Output twice = x_ * 2.0f;
  float inner = 0;
  s->RunAsync({}, {next_}, {}, [&](const Fetched& got) {
    const auto more = s->Run({{x_, Tensor::Scalar(FloatOf(got))}}, {twice});
    if (more.ok()) inner = more->scalar<float>();
  });
  ASSERT_TRUE(Put(*s, 3).ok());
  EXPECT_EQ(inner, 8);
  // (The second is ended by the first, when that drops the session.)
  s->RunAsync({{x_, Tensor::Scalar(1.0f)}}, {twice}, {}, [&](const Fetched&) {
    s->RunAsync({}, {next_}, {}, ends.Next());
    s.reset();
  });
  EXPECT_EQ(s, nullptr);
  EXPECT_EQ(ends.Await(1)[0].status().code(), StatusCode::kCancelled);
}

TEST_F(AsyncRunTest, SessionWaitsForDoneOnOtherThreads) {
  auto s = std::make_unique<Session>(graph_);
  std::atomic<bool> in_done{false}, returned{false};
  s->RunAsync({}, {next_}, {}, [&](const Fetched&) {
    in_done = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    returned = true;
  });
  Session putter(graph_, s->options());  // (Shares the queue.)
  std::thread other([&] { EXPECT_TRUE(Put(putter, 1).ok()); });
  while (!in_done) std::this_thread::yield();
  s.reset();
  EXPECT_TRUE(returned);
  other.join();
}

// The pool belongs to the session that one of its threads destroys.
TEST_F(AsyncRunTest, DoneOnAThreadOfThePoolMayDropTheSession) {
  for (int round = 0; round < 20; ++round) {
    SessionOptions options;
    options.inter_op_threads = 2;
    auto s = std::make_shared<Session>(graph_, options);
    const Output big = ops::Fill(IntVector({200, 200}), x_);
    std::vector<Output> sums;
    for (int i = 0; i < 4; ++i)
      sums.push_back(ops::Sum(ops::MatMul(big, big + static_cast<float>(i)),
                              IntVector({0, 1})));
    Ends ends;
    const Feeds feeds = {{x_, Tensor::Scalar(1.0f)}};
    for (int i = 0; i < 3; ++i)  // (Known as expensive from the first run on.)
      ASSERT_TRUE(s->Run(feeds, sums).ok());
    s->RunAsync(feeds, sums, {},
                [s, done = ends.Next()](Fetched got) { done(std::move(got)); });
    s.reset();
    const Fetched got = ends.Await(1)[0];
    EXPECT_TRUE(got.ok()) << got.status();
  }
}

TEST_F(AsyncRunTest, OverDevices) {
  SessionOptions options;
  options.devices = CpuDevices(2);
  Session s(graph_, options);
  Output there, here;
  {
    const DeviceScope on("/cpu:1");
    there = next_ * 2.0f;
  }
  {
    const DeviceScope on("/cpu:0");
    here = there + 0.5f;
  }
  Ends ends;
  Cancellation stop;
  RunOptions stopped, late;
  stopped.cancellation = &stop;
  late.timeout_ms = 20;
  s.RunAsync({}, {here}, {}, ends.Next(), stopped);
  stop.Cancel();
  EXPECT_EQ(ends.Await(1)[0].status().code(), StatusCode::kCancelled);
  s.RunAsync({}, {here}, {}, ends.Next(), late);
  EXPECT_EQ(ends.Await(2)[1].status().code(), StatusCode::kDeadlineExceeded);
  s.RunAsync({}, {here}, {}, ends.Next());
  EXPECT_EQ(ends.count(), 2u);
  ASSERT_TRUE(Put(s, 1).ok());
  EXPECT_EQ(FloatOf(ends.Await(3)[2]), 4.5f);
}

// Runs, ends, cancellations and deadlines of many steps on several threads.
TEST_F(AsyncRunTest, EndsOnceWhateverHappens) {
  constexpr int kThreads = 4, kRuns = 200;
  for (const int devices : {1, 2}) {
    SessionOptions options;
    options.devices = CpuDevices(devices);
    std::atomic<int> ended{0}, well{0};
    {
      Session s(graph_, options);
      const auto step = s.MakeCallable({}, {next_});
      ASSERT_TRUE(step.ok());
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
          for (int i = 0; i < kRuns; ++i) {
            // (Kept: it must outlive the step.)
            auto stop = std::make_shared<Cancellation>();
            RunOptions run;
            run.cancellation = stop.get();
            run.timeout_ms = i % 3 == 0 ? 1 : 0;
            step->RunAsync(
                {},
                [&, stop](const Fetched& got) {
                  ++ended;
                  well += got.ok() ? 1 : 0;
                },
                run);
            if ((i + t) % 2 == 0) stop->Cancel();
            if (i % 2 == 1) {
              EXPECT_TRUE(Put(s, 1).ok());
            }
          }
        });
      for (std::thread& t : threads) t.join();
    }
    EXPECT_EQ(ended, kThreads * kRuns);
    EXPECT_GT(well, 0);
  }
}

TEST_F(AsyncRunTest, PrintsToItsOwnLog) {
  Session s(graph_);
  const Output shown = Build("Print", {next_, next_},
                             {{"T", DType::kFloat},
                              {"U", AttrValue::Types{DType::kFloat}},
                              {"message", std::string("got ")}});
  Ends ends;
  std::string text;
  {
    RunOptions options;
    options.log = [&text](const std::string& line) { text += line; };
    s.RunAsync({}, {shown}, {}, ends.Next(), options);
  }
  ASSERT_TRUE(Put(s, 1).ok());
  EXPECT_EQ(FloatOf(ends.Await(1)[0]), 2);
  EXPECT_THAT(text, HasSubstr("got "));
}

}  // namespace
}  // namespace sluice
