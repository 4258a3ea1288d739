// Queues in steps: in both spellings, over sessions, devices and threads, in
// loops and conditionals, and steps that end early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_count_test_util.h"
#include "client/control/control_flow.h"
#include "client/operators.h"
#include "client/variables.h"
#include "exec/core/host_functions.h"
#include "graph/device_scope.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The ops of one queue, in the spelling with resources or with references.
struct QueueNodes {
  std::string suffix;  // "V2" or "".
  AttrValue::Types types;
  Output handle;

  static QueueNodes Make(const std::string& kind, const std::string& suffix,
                         AttrValue::Types types, AttrValue::Shapes shapes,
                         int64_t capacity = -1, AttrMap attrs = {}) {
    attrs["component_types"] = types;
    attrs["shapes"] = std::move(shapes);
    attrs["capacity"] = capacity;
    return {suffix, std::move(types), Build(kind + suffix, {}, attrs)};
  }
  static QueueNodes Floats(int64_t capacity = -1,
                           const std::string& suffix = "V2",
                           const std::string& shared_name = "") {
    return Make("FIFOQueue", suffix, {DType::kFloat}, {PartialShape(Shape())},
                capacity, {{"shared_name", shared_name}});
  }
  Node* Enqueue(std::vector<Output> components, bool many = false) const {
    components.insert(components.begin(), handle);
    return BuildNode((many ? "QueueEnqueueMany" : "QueueEnqueue") + suffix,
                     components);
  }
  Output Dequeue() const {
    return Build("QueueDequeue" + suffix, {handle},
                 {{"component_types", types}}, "take");
  }
  Output DequeueMany(const Output& n, bool up_to = false) const {
    return Build((up_to ? "QueueDequeueUpTo" : "QueueDequeueMany") + suffix,
                 {handle, n}, {{"component_types", types}}, "take");
  }
  Node* Close(bool cancel = false) const {
    return BuildNode("QueueClose" + suffix, {handle},
                     {{"cancel_pending_enqueues", cancel}});
  }
  Output Size() const { return Build("QueueSize" + suffix, {handle}); }
  Output IsClosed() const { return Build("QueueIsClosed" + suffix, {handle}); }
};

int SizeIn(Session& session, const Output& size) {
  const Result<Tensor> t = session.Run(size);
  EXPECT_TRUE(t.ok()) << t.status();
  return t.ok() ? t->scalar<int32_t>() : -1;
}

std::vector<float> FloatsIn(const Result<Tensor>& got) {
  EXPECT_TRUE(got.ok()) << got.status();
  return got.ok() ? got->ToVector<float>() : std::vector<float>();
}
std::vector<float> FloatsIn(const Result<std::vector<Tensor>>& got) {
  return FloatsIn(got.ok() ? Result<Tensor>((*got)[0]) : got.status());
}

class QueueStepsTest : public ::testing::TestWithParam<std::string> {
 protected:
  QueueStepsTest() : use_(graph_) {}
  QueueNodes Numbers(int64_t capacity = -1) {
    return QueueNodes::Floats(capacity, GetParam());
  }
  Graph graph_;
  WithGraph use_;
};
INSTANTIATE_TEST_SUITE_P(Spellings, QueueStepsTest,
                         ::testing::Values("V2", ""));

TEST_P(QueueStepsTest, ElementsPassFromStepToStep) {
  const QueueNodes q = Numbers(10);
  const Output x = Placeholder<float>({}, "x");
  Node* const put = q.Enqueue({x});
  Node* const put_many =
      q.Enqueue({Constant(Tensor::Vector<float>({7, 8, 9}))}, true);
  const Output size = q.Size(), take = q.Dequeue();
  const Output two = q.DequeueMany(Constant(2));
  const Output rest = q.DequeueMany(Constant(9), true);
  const Output closed = q.IsClosed();
  Node* const close = q.Close();
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session(graph_);
  for (float v = 0; v < 3; ++v)
    ASSERT_TRUE(session.RunTargets({put}, {{x, Tensor::Scalar(v)}}).ok());
  ASSERT_TRUE(session.RunTargets({put_many}).ok());
  EXPECT_EQ(SizeIn(session, size), 6);
  EXPECT_THAT(FloatsIn(session.Run({take})), ElementsAre(0));
  EXPECT_THAT(FloatsIn(session.Run({two})), ElementsAre(1, 2));
  EXPECT_FALSE(session.Run(closed)->scalar<bool>());
  ASSERT_TRUE(session.RunTargets({close}).ok());
  EXPECT_TRUE(session.Run(closed)->scalar<bool>());
  Status s = session.RunTargets({put}, {{x, Tensor::Scalar(1.0f)}});
  EXPECT_EQ(s.code(), StatusCode::kCancelled);
  EXPECT_THAT(s.ToString(), HasSubstr("' is closed."));
  EXPECT_THAT(FloatsIn(session.Run({rest})), ElementsAre(7, 8, 9));
  s = session.Run(take).status();
  EXPECT_EQ(s.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(s.ToString(), HasSubstr("is closed and has insufficient elements "
                                      "(requested 1, current size 0)"));
  EXPECT_EQ(session.Run(rest).status().code(), StatusCode::kOutOfRange);
}

TEST_P(QueueStepsTest, ElementsHaveSeveralComponents) {
  const QueueNodes q =
      QueueNodes::Make("FIFOQueue", GetParam(), {DType::kString, DType::kFloat},
                       {PartialShape(Shape()), PartialShape({2})});
  Node* const put =
      q.Enqueue({Constant(Tensor::Vector<std::string>({"a", "b", "c"})),
                 Constant(Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6}))},
                true);
  const Output one = q.Dequeue(), two = q.DequeueMany(Constant(2));
  EXPECT_EQ(Output(one.node, 1).shape(), PartialShape({2}));
  EXPECT_EQ(Output(two.node, 1).shape(), PartialShape({2, 2}));
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({put}).ok());
  auto got = session.Run({one, Output(one.node, 1)});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].scalar<std::string>(), "a");
  EXPECT_THAT((*got)[1].ToVector<float>(), ElementsAre(1, 2));
  got = session.Run({two, Output(two.node, 1)});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].ToVector<std::string>(), ElementsAre("b", "c"));
  EXPECT_TRUE((*got)[1].Identical(Tensor::Of<float>({2, 2}, {3, 4, 5, 6})));
}

TEST_P(QueueStepsTest, DifferentShapesArePadded) {
  const QueueNodes q = QueueNodes::Make(
      "PaddingFIFOQueue", GetParam(), {DType::kInt32, DType::kString},
      {PartialShape({-1, 2}), PartialShape({-1})});
  const Output x = Placeholder<int32_t>(PartialShape({-1, 2}), "x");
  const Output y = Placeholder<std::string>(PartialShape({-1}), "y");
  Node* const put = q.Enqueue({x, y});
  const Output n = Placeholder<int32_t>({}, "n");
  const Output many = q.DequeueMany(n), strings(many.node, 1);
  EXPECT_EQ(many.shape(), PartialShape({-1, -1, 2}));
  Session session(graph_);
  const auto feed = [&](const Tensor& a, const Tensor& b) {
    ASSERT_TRUE(session.RunTargets({put}, {{x, a}, {y, b}}).ok());
  };
  feed(Tensor::Of<int32_t>({1, 2}, {1, 2}), Tensor::Vector<std::string>({}));
  feed(Tensor::Of<int32_t>({2, 2}, {3, 4, 5, 6}),
       Tensor::Vector<std::string>({"a", "b"}));
  auto got = session.Run({{n, Tensor::Scalar(2)}}, {many, strings});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE((*got)[0].Identical(
      Tensor::Of<int32_t>({2, 2, 2}, {1, 2, 0, 0, 3, 4, 5, 6})));
  EXPECT_TRUE(
      (*got)[1].Identical(Tensor::Of<std::string>({2, 2}, {"", "", "a", "b"})));
  got = session.Run({{n, Tensor::Scalar(0)}}, {many, strings});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].shape(), Shape({0, 0, 2}));
}

TEST_P(QueueStepsTest, PrioritiesDecide) {
  QueueNodes q = QueueNodes::Make("PriorityQueue", GetParam(), {DType::kFloat},
                                  {PartialShape(Shape())});
  q.types = {DType::kInt64, DType::kFloat};
  Node* const put =
      q.Enqueue({Constant(Tensor::Vector<int64_t>({3, 1, 2, 1})),
                 Constant(Tensor::Vector<float>({30, 10, 20, 11}))},
                true);
  const Output all = q.DequeueMany(Constant(4));
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({put}).ok());
  EXPECT_THAT(FloatsIn(session.Run({Output(all.node, 1)})),
              ElementsAre(10, 11, 20, 30));
}

TEST_P(QueueStepsTest, WhatDoesNotFitIsRefused) {
  const QueueNodes q = Numbers();
  const auto fails = [&](Node* put, const std::string& text) {
    Session session(graph_);
    const Status s = session.RunTargets({put});
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
    EXPECT_THAT(s.ToString(), HasSubstr(text));
    EXPECT_EQ(SizeIn(session, q.Size()), 0);
  };
  fails(q.Enqueue({Constant(1)}),
        "expected component 0 of type float, got int32");
  fails(q.Enqueue({Constant(1.0f), Constant(2.0f)}),
        "expected 1 components, got 2");
  fails(q.Enqueue({Constant(Tensor::Vector<float>({1, 2}))}),
        "Shape mismatch in tuple component 0. Expected [], got [2]");
  fails(q.Enqueue({Constant(Tensor::Of<float>({1, 2}, {1, 2}))}, true),
        "Shape mismatch in tuple component 0. Expected [1], got [1,2]");
  fails(q.Enqueue({Constant(1.0f)}, true), "got a scalar");
  QueueNodes other = q;
  other.types = {DType::kInt32};
  fails(other.Dequeue().node, "component_types: expected [float]");
  const Output n = Build("Identity", {Placeholder<int32_t>({}, "n")});
  const Output take = q.DequeueMany(n);
  Session session(graph_);
  const Status s = session.Run({{n, Tensor::Scalar(-1)}}, take).status();
  EXPECT_THAT(s.ToString(), HasSubstr("DequeueManyOp requested -1 < 0"));
  // (Errors of the builder are the graph's.)
  EXPECT_FALSE(q.DequeueMany(Constant(-1)).valid());
}

TEST_P(QueueStepsTest, OfAnyShapesNoneAreStacked) {
  const QueueNodes q =
      QueueNodes::Make("FIFOQueue", GetParam(), {DType::kFloat}, {});
  Node* const put = q.Enqueue({Constant(Tensor::Vector<float>({1, 2}))});
  const Output one = q.Dequeue(), many = q.DequeueMany(Constant(1));
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({put}).ok());
  EXPECT_THAT(session.Run(many).status().ToString(),
              HasSubstr("require the components to have specified shapes"));
  EXPECT_THAT(FloatsIn(session.Run({one})), ElementsAre(1, 2));
}

TEST_P(QueueStepsTest, ImpossibleQueuesAreRefused) {
  const auto fails = [&](const std::string& kind, AttrValue::Shapes shapes,
                         int64_t capacity, AttrMap attrs,
                         const std::string& text) {
    const QueueNodes q = QueueNodes::Make(kind, GetParam(), {DType::kFloat},
                                          std::move(shapes), capacity, attrs);
    Session session(graph_);
    EXPECT_THAT(session.Run(q.Size()).status().ToString(), HasSubstr(text));
  };
  const PartialShape scalar((Shape()));
  fails("FIFOQueue", {scalar, scalar}, -1, {},
        "expected one for each of the 1");
  fails("FIFOQueue", {PartialShape({-1})}, -1, {}, "fully defined");
  fails("PaddingFIFOQueue", {}, -1, {}, "expected one for each of the 1");
  fails("PaddingFIFOQueue", {PartialShape()}, -1, {}, "except for dimensions");
  fails("PriorityQueue", {}, -1, {}, "expected one for each of the 2");
  fails("RandomShuffleQueue", {scalar}, 3, {{"min_after_dequeue", 3}},
        "min_after_dequeue 3 must be < capacity 3");
  fails("RandomShuffleQueue", {scalar}, 3, {{"min_after_dequeue", -1}},
        "min_after_dequeue -1 must be >= 0");
}

TEST_P(QueueStepsTest, AStepThatEndsEarlyTakesNothing) {
  const QueueNodes q = Numbers(2);
  Node* const put = q.Enqueue({Constant(Tensor::Vector<float>({1, 2}))}, true);
  const Output three = q.DequeueMany(Constant(3));
  const Output size = q.Size(), two = q.DequeueMany(Constant(2));
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({put}).ok());
  RunOptions late;
  late.timeout_ms = 20;
  const Status s = session.Run({}, {three}, {}, late).status();
  EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
  EXPECT_THAT(s.ToString(), AllOf(HasSubstr("take"), HasSubstr("still waits")));
  EXPECT_EQ(SizeIn(session, size), 2);
  // An enqueue into a full queue, that is cancelled.
  Cancellation cancellation;
  RunOptions options;
  options.cancellation = &cancellation;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    cancellation.Cancel();
  });
  EXPECT_EQ(session.Run({}, {}, {put}, options).status().code(),
            StatusCode::kCancelled);
  canceller.join();
  EXPECT_THAT(FloatsIn(session.Run({two})), ElementsAre(1, 2));
  EXPECT_EQ(SizeIn(session, size), 0);
}

TEST_P(QueueStepsTest, AFailureOfAnotherOpGivesBackWhatWasTaken) {
  const QueueNodes q = Numbers();
  Node* const put = q.Enqueue({Constant(Tensor::Vector<float>({1, 2}))}, true);
  const Output x = Placeholder<float>({}, "x");
  const Output three = q.DequeueMany(Constant(3));
  const Output bad =
      Build("CheckNumerics", {ops::Log(x)}, {{"message", "negative"}});
  const Output two = q.DequeueMany(Constant(2));
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({put}).ok());
  EXPECT_EQ(
      session.Run({{x, Tensor::Scalar(-1.0f)}}, std::vector<Output>{three, bad})
          .status()
          .code(),
      StatusCode::kInvalidArgument);
  EXPECT_THAT(FloatsIn(session.Run({two})), ElementsAre(1, 2));
}

TEST_P(QueueStepsTest, ClosingEndsTheStepsThatWait) {
  const QueueNodes q = Numbers(1);
  Node* const put = q.Enqueue({Constant(1.0f)});
  const Output take = q.Dequeue();
  Node* const close = q.Close();
  Node* const cancel = q.Close(true);
  Session session(graph_);
  std::vector<std::thread> steps;
  for (int i = 0; i < 3; ++i)
    steps.emplace_back([&] {
      const Status s = session.Run(take).status();
      EXPECT_EQ(s.code(), StatusCode::kOutOfRange) << s;
    });
  ASSERT_TRUE(session.RunTargets({close}).ok());
  for (std::thread& t : steps) t.join();
  EXPECT_EQ(session.RunTargets({close}).code(), StatusCode::kCancelled);
  EXPECT_TRUE(session.RunTargets({cancel}).ok());
  EXPECT_EQ(session.RunTargets({put}).code(), StatusCode::kCancelled);
}

// ---- Steps that wait --------------------------------------------------------

// A step may read a handle that is a reference: its container and name.
TEST(QueueHandlesTest, AReferenceIsReadAsContainerAndName) {
  Graph graph;
  const WithGraph use(graph);
  const QueueNodes q = QueueNodes::Floats(3, "", "shared");
  const Output table = Build("HashTable", {},
                             {{"key_dtype", DType::kString},
                              {"value_dtype", DType::kInt64},
                              {"container", "box"}},
                             "words");
  const Output reader = Build("WholeFileReader", {}, {}, "reader");
  const Output rank = ops::Shape(ops::Identity(q.handle));
  EXPECT_EQ(q.handle.shape(), PartialShape({2}));
  Session session(graph);
  const auto got = session.Run({q.handle, table, reader, rank});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].ToVector<std::string>(),
              ElementsAre("localhost", "shared"));
  EXPECT_THAT((*got)[1].ToVector<std::string>(), ElementsAre("box", "words"));
  EXPECT_THAT((*got)[2].ToVector<std::string>(),
              ElementsAre("localhost", "reader"));
  EXPECT_THAT((*got)[3].ToVector<int32_t>(), ElementsAre(2));
}

class QueueWaitsTest : public ::testing::Test {
 protected:
  QueueWaitsTest() : use_(graph_) {}
  // `stats`: QueueStats of the queue.
  static void WaitForDequeue(Session& session, Output stats) {
    constexpr int kWaitingDequeues = 5;
    for (int64_t waits = 0; waits == 0;) {
      const auto now = session.Run(stats);
      waits = now.ok() ? now->data<int64_t>()[kWaitingDequeues] : 1;
    }
  }
  Graph graph_;
  WithGraph use_;
};

TEST_F(QueueWaitsTest, StepsThatWaitHoldNoThreadAndAreServedInOrder) {
  const QueueNodes q = QueueNodes::Floats();
  const Output x = Placeholder<float>({}, "x");
  Output taken;
  {
    ControlDependencies after({x.node});
    taken = q.Dequeue();
  }
  const Output negated = -x;
  const Output y = Placeholder<float>({}, "y");
  Node* const put = q.Enqueue({y});
  Session session(graph_);
  std::vector<std::unique_ptr<Session::PartialRun>> runs;
  const auto begin = [&] {
    auto run = session.StartPartialRun({x}, {negated, taken});
    ASSERT_TRUE(run.ok()) << run.status();
    runs.push_back(*std::move(run));
    ASSERT_TRUE(runs.back()->Run({{x, Tensor::Scalar(1.0f)}}, {negated}).ok());
  };
  begin();  // (Whatever starts threads has done so.)
  const size_t threads = NumThreads();
  for (int i = 1; i < 100; ++i) begin();
  EXPECT_LE(NumThreads(), threads);
  for (float i = 0; i < 100; ++i)
    ASSERT_TRUE(session.RunTargets({put}, {{y, Tensor::Scalar(i)}}).ok());
  for (size_t i = 0; i < 100; ++i)
    EXPECT_THAT(FloatsIn(runs[i]->Run({}, {taken})),
                ElementsAre(static_cast<float>(i)));
}

TEST_F(QueueWaitsTest, ASessionThatIsClosedEndsWhatWaits) {
  const QueueNodes q = QueueNodes::Floats();
  const Output take = q.Dequeue();
  Session session(graph_);
  std::thread step([&] { EXPECT_FALSE(session.Run(take).ok()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_TRUE(session.Close().ok());
  step.join();
}

// A thread that enqueues drives the steps that it wakes only if they are short.
TEST_F(QueueWaitsTest, AStepThatIsLongAfterItsWaitRunsOnItsOwnThread) {
  const QueueNodes q = QueueNodes::Floats(1);
  const Output x = Placeholder<float>({});
  Node* const put = q.Enqueue({x});
  const Output stats = ops::QueueStats(q.handle);
  constexpr const char* kToken = "long after its wait";
  const Output used = Build("PyFunc", {q.Dequeue()},
                            {{"token", kToken},
                             {"Tin", AttrValue::Types{DType::kFloat}},
                             {"Tout", AttrValue::Types{DType::kFloat}}});
  Session session(graph_);
  std::atomic<bool> done = false;
  std::atomic<int> in_a_row = 0;  // Steps on the thread that called them.
  std::atomic<int> steps = 0;
  std::thread consumer([&] {
    const std::thread::id own = std::this_thread::get_id();
    AddHostFunction(kToken, [&, own](std::vector<Tensor> args, const auto&) {
      in_a_row = std::this_thread::get_id() == own ? in_a_row + 1 : 0;
      ++steps;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return args;
    });
    for (float i = 0; !done; ++i)
      EXPECT_THAT(FloatsIn(session.Run({used})), ElementsAre(i));
  });
  const auto give = [&](int i) {
    const Status s =
        session.RunTargets({put}, {{x, Tensor::Scalar(static_cast<float>(i))}});
    EXPECT_TRUE(s.ok()) << s;
  };
  // How long they take is known after the first. A thread that has registered
  // its wait, but does not sleep yet, may run any one where it should not, or
  // keep it: so several in a row, and as many trials as a busy machine needs.
  constexpr int kInARow = 10, kMost = 3000;
  int given = 0;
  for (; in_a_row < kInARow && given < kMost; ++given) {
    WaitForDequeue(session, stats);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    give(given);
  }
  EXPECT_GE(in_a_row, kInARow) << "of " << steps << " steps";
  done = true;
  give(given);  // (It may wait.)
  consumer.join();
  RemoveHostFunction(kToken);
}

// What a deadline wakes is left to the thread that waits for it, if that thread
// drives another step.
TEST_F(QueueWaitsTest, AStepWithinAWokenStepEndsAtItsDeadline) {
  const QueueNodes q = QueueNodes::Floats(1), none = QueueNodes::Floats(1);
  Node* const put = q.Enqueue({Constant(1.0f)});
  const Output never = none.Dequeue();
  const Output stats = ops::QueueStats(q.handle);
  constexpr const char* kToken = "a step within a woken step";
  const Output used = Build("PyFunc", {q.Dequeue()},
                            {{"token", kToken},
                             {"Tin", AttrValue::Types{DType::kFloat}},
                             {"Tout", AttrValue::Types{DType::kFloat}}});
  Session session(graph_);
  Status inner;
  AddHostFunction(kToken, [&](std::vector<Tensor> args, const auto&) {
    RunOptions late;
    late.timeout_ms = 20;
    inner = session.Run({}, {never}, {}, late).status();
    return args;
  });
  std::thread consumer(
      [&] { EXPECT_THAT(FloatsIn(session.Run({used})), ElementsAre(1)); });
  WaitForDequeue(session, stats);
  const Status s = session.RunTargets({put});  // Drives the consumer's step.
  EXPECT_TRUE(s.ok()) << s;
  consumer.join();
  EXPECT_EQ(inner.code(), StatusCode::kDeadlineExceeded) << inner;
  RemoveHostFunction(kToken);
}

TEST_F(QueueWaitsTest, OneStepMayEnqueueWhatItDequeues) {
  const QueueNodes q = QueueNodes::Floats(1);
  const Output take = q.Dequeue();
  Node* const put = q.Enqueue({Constant(5.0f)});
  for (const uint64_t seed : {0, 1, 2, 3, 4, 5}) {
    SessionOptions options;
    options.scheduler_seed = seed;
    Session session(graph_, options);
    for (int i = 0; i < 20; ++i)
      EXPECT_THAT(FloatsIn(session.Run({}, {take}, {put})), ElementsAre(5));
  }
}

TEST_F(QueueWaitsTest, AQueueWorksInLoopsAndConditionals) {
  const QueueNodes q = QueueNodes::Floats(3);
  const Output n = Placeholder<float>({}, "n");
  const Output produced = While(
      Constant(0.0f), [&](Output i) { return i < n; },
      [&](Output i) {
        ControlDependencies after({q.Enqueue({i})});
        return i + 1.0f;
      });
  const auto [steps, sum] = While(
      std::pair(Constant(0.0f), Constant(0.0f)),
      [&](Output i, Output) { return i < n; },
      [&](Output i, Output sum) {
        // (The sum keeps the iterations in order.)
        const Output even = Build(
            "Equal", {ops::FloorMod(i + sum * 0.0f, 2.0f), Constant(0.0f)});
        const Output got = Cond(
            even, [&] { return q.Dequeue(); },
            [&] { return q.Dequeue() * 10.0f; });
        return std::pair(i + 1.0f, sum + got);
      });
  for (const uint64_t seed : {0, 1, 2, 3}) {
    SessionOptions options;
    options.scheduler_seed = seed;
    Session session(graph_, options);
    // Both loops in one step: each waits for the other.
    const auto got = session.Run({{n, Tensor::Scalar(20.0f)}},
                                 std::vector<Output>{produced, sum, steps});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ((*got)[1].scalar<float>(), 90 + 10 * 100);
    EXPECT_EQ(SizeIn(session, q.Size()), 0);
  }
}

TEST_F(QueueWaitsTest, AQueueIsSharedByDevices) {
  QueueNodes q;
  Node* put = nullptr;
  Output take;
  {
    DeviceScope on("/cpu:1");
    q = QueueNodes::Floats(2);
    take = q.Dequeue();
  }
  const Output x = Placeholder<float>({}, "x");
  Output twice;
  {
    DeviceScope on("/cpu:0");
    twice = x * 2.0f;
  }
  // (The queue decides where its ops run.)
  put = q.Enqueue({twice});
  Output sum;
  {
    DeviceScope on("/cpu:0");
    sum = take + 1.0f;
  }
  SessionOptions options;
  options.devices = CpuDevices(2);
  Session session(graph_, options);
  for (float i = 0; i < 20; ++i) {
    std::thread consumer([&] {
      EXPECT_THAT(FloatsIn(session.Run({sum})), ElementsAre(2 * i + 1));
    });
    const Status s = session.RunTargets({put}, {{x, Tensor::Scalar(i)}});
    EXPECT_TRUE(s.ok()) << s;
    if (!s.ok()) (void)session.Close();
    consumer.join();
  }
}

// ---- Names ------------------------------------------------------------------

TEST(QueueNamesTest, SessionsShareAQueueByItsName) {
  Graph producer, consumer;
  SessionOptions options;
  options.resources = std::make_shared<ResourceManager>();
  Node* put = nullptr;
  Output take;
  {
    WithGraph use(producer);
    put = QueueNodes::Floats(4, "V2", "shared").Enqueue({Constant(3.0f)});
  }
  {
    WithGraph use(consumer);
    take = QueueNodes::Floats(4, "", "shared").Dequeue();
  }
  Session a(producer, options), b(consumer, options);
  std::thread waits(
      [&] { EXPECT_THAT(FloatsIn(b.Run({take})), ElementsAre(3)); });
  EXPECT_TRUE(a.RunTargets({put}).ok());
  waits.join();
}

TEST(QueueNamesTest, OneNameIsOneDeclaration) {
  Graph graph;
  WithGraph use(graph);
  const PartialShape scalar((Shape()));
  const auto make = [&](const std::string& kind, DType type, PartialShape shape,
                        int64_t capacity, AttrMap attrs) {
    attrs["shared_name"] = "z";
    return QueueNodes::Make(kind, "V2", {type}, {std::move(shape)}, capacity,
                            std::move(attrs));
  };
  const Output first = make("FIFOQueue", DType::kFloat, scalar, 2, {}).Size();
  const auto refuses = [&](const QueueNodes& q, const std::string& text) {
    Session session(graph);
    EXPECT_EQ(SizeIn(session, first), 0);
    const Status s = session.Run(q.Size()).status();
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
    EXPECT_THAT(s.ToString(), HasSubstr(text));
  };
  refuses(make("FIFOQueue", DType::kFloat, scalar, 3, {}),
          "Shared queue 'z' has capacity 2 but requested capacity 3");
  refuses(make("FIFOQueue", DType::kInt32, scalar, 2, {}),
          "has component types [float] but requested component types [int32]");
  refuses(make("FIFOQueue", DType::kFloat, PartialShape({2}), 2, {}),
          "has component shapes [[]] but requested component shapes [[2]]");
  refuses(make("RandomShuffleQueue", DType::kFloat, scalar, 2, {}),
          "Expected RandomShuffleQueue, found FIFOQueue");
}

// ---- Threads ----------------------------------------------------------------

// Steps of eight threads on two queues, in the order from one to the other,
// with steps that are cancelled or late: no element is lost or doubled.
TEST(QueueStepsThreadsTest, StepsThatEndEarlyLoseNoElement) {
  const bool full = std::getenv("SLUICE_TEST_FULL") != nullptr;
  const int steps = full ? 2000 : 150;
  Graph graph;
  WithGraph use(graph);
  const QueueNodes q = QueueNodes::Floats(4);
  const Output x = Placeholder<float>({}, "x");
  Node* const put = q.Enqueue({x});
  const Output n = Placeholder<int32_t>({}, "n");
  const Output take = q.DequeueMany(n), rest = q.DequeueMany(n, true);
  Node* const close = q.Close();
  Session session(graph);
  std::mutex mu;
  std::multiset<float> taken, entered, perhaps;
  const auto work = [&](int t) {
    std::mt19937 rng(static_cast<uint32_t>(t));
    for (int i = 0; i < steps; ++i) {
      Cancellation cancellation;
      RunOptions options;
      options.cancellation = &cancellation;
      if (rng() % 2 == 0) options.timeout_ms = 1 + rng() % 3;
      std::thread canceller([&cancellation, wait = rng() % 1500] {
        std::this_thread::sleep_for(std::chrono::microseconds(wait));
        cancellation.Cancel();
      });
      if (t % 2 == 0) {
        const float v = static_cast<float>(t * steps + i);
        const Status s =
            session.Run({{x, Tensor::Scalar(v)}}, {}, {put}, options).status();
        std::lock_guard<std::mutex> lock(mu);
        (s.ok() ? entered : perhaps).insert(v);
      } else {
        const auto got = session.Run(
            {{n, Tensor::Scalar(static_cast<int32_t>(1 + rng() % 5))}}, {take},
            {}, options);
        std::lock_guard<std::mutex> lock(mu);
        for (int64_t e = 0; got.ok() && e < (*got)[0].num_elements(); ++e)
          taken.insert((*got)[0].data<float>()[e]);
      }
      canceller.join();
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
  ASSERT_TRUE(session.RunTargets({close}).ok());
  const auto left = session.Run({{n, Tensor::Scalar(100)}}, rest);
  for (int64_t e = 0; left.ok() && e < left->num_elements(); ++e)
    taken.insert(left->data<float>()[e]);
  // (A step that was cancelled after its enqueue has entered its element; one
  // that was cancelled after its dequeue has taken some.)
  for (const float v : taken) {
    EXPECT_EQ(taken.count(v), 1u) << v;
    EXPECT_EQ(entered.count(v) + perhaps.count(v), 1u) << v;
  }
}

}  // namespace
}  // namespace sluice
