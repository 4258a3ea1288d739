// TensorStores as users see them.
#include "client/control/tensor_store.h"

#include <atomic>
#include <cmath>
#include <thread>

#include "client/control/control_flow.h"
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
