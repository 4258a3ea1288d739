// TensorStores as users see them.
#include "client/control/tensor_store.h"

#include <malloc.h>

#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include "base/sanitizers.h"
#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/testing/client_test_util.h"
#include "exec/devices/emulated_device.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class TensorStoreTest : public ClientTest {
 protected:
  Status ErrorOf(const std::vector<Output>& fetches, const Feeds& feeds = {},
                 const RunOptions& options = {}) {
    Session session(graph_);
    return session.Run(feeds, fetches, {}, options).status();
  }
};

TEST_F(TensorStoreTest, ReadsWaitForTheWriteOfTheirKey) {
  const TensorStore s(DType::kFloat);
  const Output before = s.Read(2);  // Built, and ready, before the write.
  s.Write(2, before.valid() ? s.Read(-7) * 3.0f : Output());
  s.Write(-7, Constant(1.5f));
  const Output after = s.Read(2);
  EXPECT_EQ(Eval(before + after).scalar<float>(), 9.0f);
}

TEST_F(TensorStoreTest, KeysMayBeStrings) {
  const TensorStore s(DType::kInt32, {.key_dtype = DType::kString});
  const Output both =
      s.ReadMany(Constant(Tensor::Vector<std::string>({"left", "right"})));
  s.Write("right", 4);
  s.Write("left", 3);
  EXPECT_THAT(Values<int32_t>(both), ElementsAre(3, 4));
  EXPECT_THAT(Values<int32_t>(s.Read("right")), ElementsAre(4));
}

TEST_F(TensorStoreTest, TellsWhatIsWritten) {
  const TensorStore s(DType::kFloat);
  const Output a = s.Write(9, 1.0f), b = s.Write(-3, 2.0f);
  const ControlDependencies after({a.node, b.node});
  const Output has = s.Has(9), has_not = s.Has(4);
  const Output size = s.Size(), keys = s.Keys();
  EXPECT_TRUE(Eval(has).scalar<bool>());
  EXPECT_FALSE(Eval(has_not).scalar<bool>());
  EXPECT_EQ(Eval(size).scalar<int64_t>(), 2);
  EXPECT_THAT(Values<int64_t>(keys), ElementsAre(-3, 9));
}

TEST_F(TensorStoreTest, StepsDoNotShareAStore) {
  const TensorStore s(DType::kFloat);
  s.Write(0, 1.0f);
  const Output y = s.Read(0);
  Session session(graph_);
  for (int i = 0; i < 3; ++i) {
    const Result<Tensor> t = session.Run({}, y);
    ASSERT_TRUE(t.ok()) << t.status();
  }
}

TEST_F(TensorStoreTest, SecondWriteNamesBothWriters) {
  const TensorStore s(DType::kFloat);
  const Output x = Placeholder<int64_t>({}, "x");
  const Output first = s.Write(1, 1.0f);
  const Output second = s.Write(x, 2.0f);
  const Status error = ErrorOf({s.Read(1)}, {{x, Tensor::Scalar<int64_t>(1)}});
  EXPECT_EQ(error.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(
      std::string(error.message()),
      AllOf(HasSubstr("key 1"), HasSubstr(first.node->name()),
            HasSubstr(second.node->name()), HasSubstr("tensor_store_test.cc")));
}

TEST_F(TensorStoreTest, DeadlockNamesKeysAndNodes) {
  const TensorStore s(DType::kFloat, {.name = "states"});
  const Output x = s.Read(5), y = s.Read(6);
  s.Write(6, s.Read(5) * 2.0f);
  const Status error = ErrorOf({x, y});
  EXPECT_EQ(error.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(error.message()),
      AllOf(HasSubstr("deadlock"), HasSubstr("key 5"), HasSubstr("key 6"),
            HasSubstr("'states'"), HasSubstr(x.node->name()),
            HasSubstr(y.node->name()), HasSubstr("tensor_store_test.cc")));
}

TEST_F(TensorStoreTest, DeadlockInALoopNamesTheIteration) {
  const TensorStore s(DType::kFloat);
  s.Write(10, 1.0f);
  const auto chain = [&](int parallel) {
    const auto [i] = While(
        std::tuple{0}, [&](Output i) { return i < 10; },
        [&](Output i) {
          s.Write(i, s.Read(i + 1));
          return std::tuple{i + 1};
        },
        {.parallel_iterations = parallel});
    return i;
  };
  chain(2);
  const Status error = ErrorOf({s.Read(0)});
  EXPECT_THAT(std::string(error.message()),
              AllOf(HasSubstr("deadlock"), HasSubstr("key 2"),
                    HasSubstr("iteration 1")));
}

TEST_F(TensorStoreTest, AllIterationsAtOnce) {
  const TensorStore s(DType::kFloat);
  s.Write(100, 1.0f);
  While(
      std::tuple{0}, [&](Output i) { return i < 100; },
      [&](Output i) {
        s.Write(i, s.Read(i + 1) + 1.0f);
        return std::tuple{i + 1};
      },
      {.parallel_iterations = 101});
  EXPECT_EQ(Eval(s.Read(0)).scalar<float>(), 101.0f);
}

TEST_F(TensorStoreTest, SharedStoreIsReadByLaterAndWaitingSteps) {
  const TensorStore s(DType::kFloat, {.shared_name = "kept"});
  const Output k = Placeholder<int64_t>({}, "k"),
               v = Placeholder<float>({}, "v");
  const Output written = s.Write(k, v), y = s.Read(k);
  Session session(graph_);
  const auto at = [&](int64_t key) {
    return std::pair<Output, Tensor>{k, Tensor::Scalar<int64_t>(key)};
  };
  Result<Tensor> waiting = Tensor();
  std::thread reader([&] { waiting = session.Run({at(1)}, y); });
  ASSERT_TRUE(session.Run({at(0), {v, Tensor::Scalar(5.0f)}}, written).ok());
  EXPECT_EQ(session.Run({at(0)}, y)->scalar<float>(), 5.0f);
  ASSERT_TRUE(session.Run({at(1), {v, Tensor::Scalar(7.0f)}}, written).ok());
  reader.join();
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  EXPECT_EQ(waiting->scalar<float>(), 7.0f);
}

TEST_F(TensorStoreTest, DeadlinesAndCancellationEndReadsOfASharedStore) {
  const TensorStore s(DType::kFloat, {.shared_name = "kept"});
  const Output y = s.Read(3);
  Status error = ErrorOf({y}, {}, {.timeout_ms = 20});
  EXPECT_EQ(error.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(error.message()), HasSubstr(y.node->name()));
  Cancellation cancellation;
  std::thread canceller([&] { cancellation.Cancel(); });
  error = ErrorOf({y}, {}, {.cancellation = &cancellation});
  canceller.join();
  EXPECT_EQ(error.code(), StatusCode::kCancelled);
}

// Of many reads that wait for one key, some end before it is written.
TEST_F(TensorStoreTest, CancelledReadsLeaveTheOthersWaiting) {
  const TensorStore s(DType::kFloat, {.shared_name = "kept"});
  const Output v = Placeholder<float>({}, "v"), written = s.Write(7, v);
  std::vector<Output> reads;
  for (int i = 0; i < 50; ++i) reads.push_back(s.Read(7));
  Session session(graph_);
  Cancellation cancellation;
  std::vector<std::thread> threads;
  std::atomic<int> cancelled{0}, read{0};
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      RunOptions options;
      if (t % 2 == 0) options.cancellation = &cancellation;
      const auto got = session.Run({}, reads, {}, options);
      if (got.status().code() == StatusCode::kCancelled) ++cancelled;
      if (got.ok() && got->back().scalar<float>() == 3.0f) ++read;
    });
  cancellation.Cancel();
  for (size_t t = 0; t < 6; t += 2) threads[t].join();
  EXPECT_EQ(cancelled, 3);
  EXPECT_TRUE(session.Run({{v, Tensor::Scalar(3.0f)}}, written).ok());
  for (size_t t = 1; t < 6; t += 2) threads[t].join();
  EXPECT_EQ(read, 3);
}

TEST_F(TensorStoreTest, ManyReadersAndWritersOfASharedStore) {
  const TensorStore s(DType::kInt64, {.shared_name = "kept"});
  const Output k = Placeholder<int64_t>({}, "k");
  const Output written = s.Write(k, k * k), y = s.Read(k);
  Session session(graph_);
  constexpr int64_t kKeys = 200;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < kKeys; ++i) {
        const Feeds feeds = {{k, Tensor::Scalar<int64_t>(i)}};
        const Result<Tensor> r = session.Run(feeds, t == 0 ? written : y);
        if (!r.ok() || (t != 0 && r->scalar<int64_t>() != i * i)) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(TensorStoreTest, WrongTypesAndShapesAreErrors) {
  const TensorStore s(DType::kFloat, {.element_shape = {2}});
  s.Write(0, Constant(Tensor(DType::kFloat, Shape({3}))));
  EXPECT_THAT(std::string(ErrorOf({s.Read(0)}).message()),
              AllOf(HasSubstr("[2]"), HasSubstr("[3]")));
  s.Write(1, Constant<int32_t>(1));
  EXPECT_THAT(std::string(graph_.status().message()),
              AllOf(HasSubstr("float"), HasSubstr("int32")));
}

TEST_F(TensorStoreTest, AStepWithoutReadsRunsNoWrites) {
  const TensorStore s(DType::kFloat);
  const Output unfed = Placeholder<float>({}, "unfed");
  s.Write(0, unfed);
  EXPECT_EQ(Eval(Constant(1.0f)).scalar<float>(), 1.0f);
  EXPECT_THAT(std::string(ErrorOf({s.Read(0)}).message()), HasSubstr("unfed"));
}

TEST_F(TensorStoreTest, ADeadlockOfManyReadsNamesAFew) {
  const TensorStore s(DType::kFloat);
  std::vector<Output> reads;
  for (int i = 0; i < 40; ++i) reads.push_back(s.Read(i));
  EXPECT_THAT(std::string(ErrorOf(reads).message()),
              AllOf(HasSubstr("deadlock"), HasSubstr("and 24 more")));
}

TEST_F(TensorStoreTest, SharedStoreTellsWhatAllStepsHaveWritten) {
  const TensorStore s(DType::kFloat, {.shared_name = "kept"});
  const Output k = Placeholder<int64_t>({}, "k"),
               v = Placeholder<float>({}, "v");
  const Output written = s.Write(k, v);
  const Output has = s.Has(k), size = s.Size(), keys = s.Keys();
  Session session(graph_);
  const auto at = [&](int64_t key) {
    return std::pair<Output, Tensor>{k, Tensor::Scalar<int64_t>(key)};
  };
  EXPECT_EQ(session.Run({}, size)->scalar<int64_t>(), 0);
  for (const int64_t key : {7, -2, 5})
    ASSERT_TRUE(
        session.Run({at(key), {v, Tensor::Scalar(1.0f)}}, written).ok());
  EXPECT_EQ(session.Run({}, size)->scalar<int64_t>(), 3);
  EXPECT_THAT(session.Run({}, keys)->ToVector<int64_t>(),
              ElementsAre(-2, 5, 7));
  EXPECT_TRUE(session.Run({at(7)}, has)->scalar<bool>());
  EXPECT_FALSE(session.Run({at(8)}, has)->scalar<bool>());
  EXPECT_EQ(
      session.Run({at(7), {v, Tensor::Scalar(1.0f)}}, written).status().code(),
      StatusCode::kAlreadyExists);
  ASSERT_TRUE(session.Reset().ok());
  EXPECT_EQ(session.Run({}, size)->scalar<int64_t>(), 0);
}

// Reads of one step that wait for writes of others, by several keys.
TEST_F(TensorStoreTest, ReadManyOfASharedStoreWaitsForSeveralSteps) {
  const TensorStore s(DType::kFloat,
                      {.key_dtype = DType::kString, .shared_name = "kept"});
  const Output k = Placeholder<std::string>({}, "k"),
               v = Placeholder<float>({}, "v");
  const Output written = s.Write(k, v);
  const Output all =
      s.ReadMany(Constant(Tensor::Vector<std::string>({"c", "a", "b"})));
  Session session(graph_);
  Result<Tensor> got = Tensor();
  std::thread reader([&] { got = session.Run({}, all); });
  float value = 1;
  for (const char* key : {"b", "c", "a"}) {
    const Status wrote = session
                             .Run({{k, Tensor::Scalar(std::string(key))},
                                   {v, Tensor::Scalar(value++)}},
                                  written)
                             .status();
    EXPECT_TRUE(wrote.ok()) << wrote;
  }
  reader.join();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->ToVector<float>(), ElementsAre(2, 3, 1));
}

// A step that has run before runs the writes that were added since.
TEST_F(TensorStoreTest, StepsSeeWritesThatAreAddedLater) {
  const TensorStore s(DType::kFloat), other(DType::kFloat);
  const Output k = Placeholder<int64_t>({}, "k");
  const Output y = s.Read(k);
  s.Write(0, 2.0f);
  int compiled = 0;
  SessionOptions options;
  options.placement_log = [&compiled](const std::string&) { ++compiled; };
  Session session(graph_, options);
  const auto at = [&](int64_t key) {
    return Feeds{{k, Tensor::Scalar<int64_t>(key)}};
  };
  auto callable = session.MakeCallable({k}, {y});
  ASSERT_TRUE(callable.ok());
  EXPECT_EQ(session.Run(at(0), y)->scalar<float>(), 2.0f);
  EXPECT_FALSE(session.Run(at(1), y).ok());
  EXPECT_EQ(compiled, 1);
  s.Write(1, 3.0f);
  EXPECT_EQ(session.Run(at(1), y)->scalar<float>(), 3.0f);
  EXPECT_EQ(compiled, 2);
  const auto called =
      callable->Run(std::vector<Tensor>{Tensor::Scalar<int64_t>(1)});
  ASSERT_TRUE(called.ok()) << called.status();
  EXPECT_EQ((*called)[0].scalar<float>(), 3.0f);
  // Not for what it does not read.
  other.Write(0, 1.0f);
  EXPECT_EQ(session.Run(at(1), y)->scalar<float>(), 3.0f);
  EXPECT_EQ(compiled, 2);
  // A write within a loop, and one in a function.
  While(
      std::tuple{2}, [](Output i) { return i < 4; },
      [&](Output i) {
        s.Write(i, ops::Cast(i, DType::kFloat));
        return std::tuple{i + 1};
      });
  EXPECT_EQ(session.Run(at(3), y)->scalar<float>(), 3.0f);
  DefineFunction("put", {DType::kFloat}, [&](const std::vector<Output>& a) {
    return s.Write(9, a[0]);
  })({Constant(8.0f)});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(session.Run(at(9), y)->scalar<float>(), 8.0f);
  EXPECT_EQ(compiled, 4);
  auto run = session.StartPartialRun({k}, {y});
  ASSERT_TRUE(run.ok()) << run.status();
  const auto staged = (*run)->Run(at(9), {y});
  ASSERT_TRUE(staged.ok()) << staged.status();
  EXPECT_EQ((*staged)[0].scalar<float>(), 8.0f);
}

TEST_F(TensorStoreTest, FunctionsReadAndWrite) {
  const TensorStore s(DType::kFloat);
  const Output x = Placeholder<float>({}, "x");
  // Its read is before its write, and waits for another call's.
  const Function next = DefineFunction("next", {DType::kInt64, DType::kFloat},
                                       [&](const std::vector<Output>& a) {
                                         const Output before = s.Read(a[0]);
                                         const Output after = before * a[1];
                                         s.Write(a[0] + int64_t{1}, after);
                                         return after;
                                       });
  const auto number = [](int64_t n) { return Constant(n); };
  next({number(2), x});  // Not fetched, but what it writes is read.
  next({number(0), x});
  const Output y = next({number(1), x})[0];
  const Output last = s.Read(3);
  s.Write(0, 1.0f);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const Feeds feeds = {{x, Tensor::Scalar(3.0f)}};
  EXPECT_EQ(Eval(y, feeds).scalar<float>(), 9.0f);
  EXPECT_EQ(Eval(last, feeds).scalar<float>(), 27.0f);
}

TEST_F(TensorStoreTest, RecursiveFunctionsReadAndWrite) {
  const TensorStore s(DType::kInt64);
  // Writes n, n - 1, ..., 1; each as the one above it and its own number.
  const Function fill =
      DefineFunction("fill", {DType::kInt64}, {DType::kInt64},
                     [&](const Function& self, const std::vector<Output>& a) {
                       const Output n = a[0];
                       return Cond(
                           n < int64_t{1}, [&] { return n; },
                           [&] {
                             s.Write(n, n + s.Read(n + int64_t{1}));
                             return self({n - int64_t{1}})[0];
                           });
                     });
  const Output n = Placeholder<int64_t>({}, "n");
  const Output end = fill({n})[0];
  const Output sum = s.Read(1);
  s.Write(n + int64_t{1}, int64_t{0});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  for (const uint64_t seed : {0, 1, 2}) {
    SessionOptions options;
    options.scheduler_seed = seed;
    Session session(graph_, options);
    const auto got = session.Run({{n, Tensor::Scalar<int64_t>(20)}}, sum);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->scalar<int64_t>(), 210);
  }
  EXPECT_TRUE(end.valid());
}

// A loop in a function, of which nothing depends on the last state.
TEST_F(TensorStoreTest, FunctionsMayWriteAStoreInALoop) {
  const Function f =
      DefineFunction("f", {DType::kFloat}, [&](const std::vector<Output>& a) {
        const TensorStore s(DType::kFloat);
        While(
            std::tuple{0}, [](Output i) { return i < 5; },
            [&](Output i) {
              s.Write(i, s.Read(i + 1) * 2.0f);
              return std::tuple{i + 1};
            });
        s.Write(5, a[0]);
        return s.Read(0);
      });
  const Output y = f({Constant(1.0f)})[0] + f({Constant(2.0f)})[0];
  EXPECT_EQ(Eval(y).scalar<float>(), 96.0f);
}

// ---- Handles ----------------------------------------------------------------

TEST_F(TensorStoreTest, HandlesMayPassThroughIdentities) {
  const TensorStore s(DType::kFloat), other(DType::kFloat);
  const Output passed(
      BuildNode("IdentityN", {other.handle(), s.handle()},
                {{"T", AttrValue::Types{DType::kResource, DType::kResource}}}),
      1);
  const Output y = TensorStore::FromHandle(passed, DType::kFloat).Read(0);
  s.Write(0, 4.0f);
  other.Write(0, Placeholder<float>({}, "unfed"));
  EXPECT_EQ(Eval(y).scalar<float>(), 4.0f);
}

TEST_F(TensorStoreTest, AConditionalMayChooseAStore) {
  const TensorStore s(DType::kFloat), other(DType::kFloat);
  const Output first = Placeholder<bool>({}, "first"),
               x = Placeholder<float>({}, "x");
  const Output chosen = Cond(
      first, [&] { return s.handle(); }, [&] { return other.handle(); });
  const TensorStore either = TensorStore::FromHandle(chosen, DType::kFloat);
  const Output y = either.Read(0);
  either.Write(1, x);
  const Output z = s.Read(0);
  s.Write(0, x * 2.0f);
  other.Write(0, x * 3.0f);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  for (const bool b : {false, true}) {
    const Feeds feeds = {{first, Tensor::Scalar(b)}, {x, Tensor::Scalar(1.0f)}};
    EXPECT_EQ(Eval(y, feeds).scalar<float>(), b ? 2.0f : 3.0f);
    EXPECT_EQ(Eval(z, feeds).scalar<float>(), 2.0f);
  }
  const Output g = Grad(y, x);
  for (const bool b : {false, true}) {
    const Feeds feeds = {{first, Tensor::Scalar(b)}, {x, Tensor::Scalar(1.0f)}};
    EXPECT_EQ(Eval(g, feeds).scalar<float>(), b ? 2.0f : 3.0f);
  }
}

// ---- Partial runs -----------------------------------------------------------

TEST_F(TensorStoreTest, StagesOfAPartialRunServeReadsOfEarlierOnes) {
  const Output x = Placeholder<float>({}, "x"), z = Placeholder<float>({}, "z");
  const TensorStore s(DType::kFloat);
  const Output a = s.Read(0), b = s.Read(1) + a;
  s.Write(0, x * 2.0f);
  s.Write(1, z * 3.0f);
  Session session(graph_);
  for (int round = 0; round < 3; ++round) {
    auto run = session.StartPartialRun({x, z}, {a, b});
    ASSERT_TRUE(run.ok()) << run.status();
    const auto first = (*run)->Run({{x, Tensor::Scalar(1.0f)}}, {a});
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ((*first)[0].scalar<float>(), 2.0f);
    const auto second = (*run)->Run({{z, Tensor::Scalar(5.0f)}}, {b});
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ((*second)[0].scalar<float>(), 17.0f);
  }
}

TEST_F(TensorStoreTest, AStageThatFetchesWhatNothingWritesIsADeadlock) {
  const Output x = Placeholder<float>({}, "x"), z = Placeholder<float>({}, "z");
  const TensorStore s(DType::kFloat);
  const Output a = s.Read(0) * x, b = a + z;
  Session session(graph_);
  auto run = session.StartPartialRun({x, z}, {a, b});
  ASSERT_TRUE(run.ok()) << run.status();
  const Status error = (*run)->Run({{x, Tensor::Scalar(1.0f)}}, {a}).status();
  EXPECT_THAT(std::string(error.message()),
              AllOf(HasSubstr("deadlock"), HasSubstr("key 0")));
}

// A partial run that is dropped, and one whose session is closed, while reads
// wait.
TEST_F(TensorStoreTest, ReadsThatWaitBetweenStagesEndWithTheRun) {
  const Output x = Placeholder<float>({}, "x"), z = Placeholder<float>({}, "z");
  const TensorStore s(DType::kFloat);
  const Output a = x * 2.0f, b = s.Read(1) + a;
  s.Write(1, z);
  for (const bool close : {false, true}) {
    Session session(graph_);
    auto run = session.StartPartialRun({x, z}, {a, b});
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE((*run)->Run({{x, Tensor::Scalar(1.0f)}}, {a}).ok());
    if (close) {
      ASSERT_TRUE(session.Close().ok());
    }
    run->reset();
  }
}

// ---- Memory -----------------------------------------------------------------

// Steps that write other keys each time, in other orders, and of which some
// fail, keep nothing.
TEST_F(TensorStoreTest, MemoryIsFlatOverVariedSteps) {
  const TensorStore s(DType::kFloat);
  const Output n = Placeholder<int32_t>({}, "n"),
               first = Placeholder<int64_t>({}, "first"),
               asked = Placeholder<int64_t>({}, "asked"),
               v = Placeholder<float>(PartialShape({-1}), "v");
  const auto key = [&](const Output& i) {
    return first + ops::Cast(i, DType::kInt64) * int64_t{7919};
  };
  While(
      std::tuple{0}, [&](Output i) { return i < n; },
      [&](Output i) {
        s.Write(key(i), s.Read(key(i + 1)) * 0.5f);
        return std::tuple{i + 1};
      },
      {.parallel_iterations = 30});
  s.Write(key(n), v);
  const Output y = ops::Sum(s.Read(first), 0), other = s.Read(asked);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session(graph_);
  auto step = session.MakeCallable({n, first, asked, v}, {y, other});
  ASSERT_TRUE(step.ok()) << step.status();
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  int stuck = 0;
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      const auto count = static_cast<int32_t>(random() % 12);
      const auto begin = static_cast<int64_t>(random() % 1'000'000'007);
      // (Sometimes a key that nothing writes.)
      const int64_t at = begin + (random() % 8 == 0 ? 1 : 0);
      const Tensor row(DType::kFloat,
                       Shape({static_cast<int64_t>(1 + random() % 40)}));
      Tensor value = row;
      for (float& f : value.flat<float>()) f = 1;
      const auto got = step->Run(
          std::vector<Tensor>{Tensor::Scalar(count), Tensor::Scalar(begin),
                              Tensor::Scalar(at), std::move(value)});
      if (!got.ok()) {
        ASSERT_THAT(std::string(got.status().message()), HasSubstr("deadlock"));
        ++stuck;
      }
    }
  };
  const auto heap = [] {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<int64_t>(info.uordblks + info.hblkhd);
  };
  const int steps = kSanitized ? 1000 : 50'000;
  run(steps);
  const int64_t before = heap(), live = Allocator::Cpu()->stats().live_bytes;
  run(steps);
  EXPECT_GT(stuck, 0);
  EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, live);
  // (Half a byte a step: less than any object.)
  if (!kSanitized) {
    EXPECT_LT(heap() - before, steps / 2);
  }
}

// ---- Devices ----------------------------------------------------------------

// The store is at home on the host; both devices write and read it.
TEST_F(TensorStoreTest, IsReadAndWrittenAcrossDevices) {
  const Output x = Placeholder<float>({2}, "x");
  const TensorStore s(DType::kFloat, {.element_shape = {2}});
  Output y;
  {
    const DeviceScope on("/device:EMU:0");
    s.Write(0, x * x);
    y = ops::Sin(s.Read(1)) + x;
  }
  {
    const DeviceScope on("/device:EMU:1");
    s.Write(1, s.Read(0) * 0.5f);
  }
  const Output g = Grad(y, x);
  SessionOptions options;
  options.devices = EmulatedDevices(2);
  options.soft_placement = true;
  Session session(graph_, options);
  const Feeds feeds = {{x, Tensor::Vector<float>({1, 2})}};
  const Result<std::vector<Tensor>> got = session.Run(feeds, {y, g});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_NEAR((*got)[0].flat<float>()[1], std::sin(2.0) + 2, 1e-6);
  EXPECT_NEAR((*got)[1].flat<float>()[1], std::cos(2.0) * 2 + 1, 1e-6);
}

TEST_F(TensorStoreTest, DeadlockOverDevicesIsTold) {
  const Output x = Placeholder<float>({}, "x");
  const TensorStore s(DType::kFloat);
  Output y;
  {
    const DeviceScope on("/device:EMU:0");
    y = s.Read(1) * x;
  }
  {
    const DeviceScope on("/device:EMU:1");
    s.Write(0, y + 1.0f);
  }
  SessionOptions options;
  options.devices = EmulatedDevices(2);
  options.soft_placement = true;
  Session session(graph_, options);
  for (int i = 0; i < 3; ++i) {
    const Status error =
        session.Run({{x, Tensor::Scalar(1.0f)}}, s.Read(0)).status();
    EXPECT_THAT(
        std::string(error.message()),
        AllOf(HasSubstr("deadlock"), HasSubstr("key 0"), HasSubstr("key 1")));
  }
}

}  // namespace
}  // namespace sluice
