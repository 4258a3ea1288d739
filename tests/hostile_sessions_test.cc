// Hostile calls of the functions for running graphs: sessions, their devices,
// quantization.
#include <limits>

#include "tests/hostile_calls_test_util.h"

namespace sluice {
namespace {

struct Feed {
  Tensor value;
  std::string message;
};

// Invalid feeds of an edge of two floats.
std::vector<Feed> BadFeeds() {
  return {{Tensor(), "got none"},
          {Tensor(DType::kFloat, {-1, 2}), "got [-1,2]"},
          {Tensor::Of<float>({2}, {1, 2, 3}), "got 3"},
          {Tensor::Vector<double>({1, 2}), "double"},
          {Tensor::Vector<std::string>({"a", "b"}), "string"},
          {Tensor::Vector<float>({1, 2, 3}), "[3]"},
          {Tensor::Scalar(1.0f), "[]"}};
}

HOSTILE(StepsOfNothing,
        "Session::Session Session::Run Session::RunTargets Session::RunByName "
        "Session::MakeCallable Session::Callable::Run "
        "Session::Callable::RunInto Session::StartPartialRun "
        "Session::RunAsync Session::Callable::RunAsync "
        "Session::PartialRun::Run Session::graph Session::resources "
        "Session::ListDevices Session::Reset Session::Close "
        "RunMetadata::ChromeTrace") {
  Graph g;
  const WithGraph use(g);
  const Output x = Placeholder<float>({2}, "x"), y = x + x;
  Session session(g);
  EXPECT_EQ(&session.graph(), &g);
  const Tensor two = Tensor::Vector<float>({1, 2});
  const std::vector<Output> bad = {Output(), Output(nullptr, 4), Elsewhere(),
                                   Output(y.node, 3), Output(y.node, -1)};
  for (const Output& o : bad) {
    ExpectRefused(session.Run(o), "expected");
    ExpectRefused(session.Run({{x, two}}, {y, o}), "expected");
    ExpectRefused(session.Run({{o, two}}, y), "expected");
    ExpectRefused(session.MakeCallable({o}, {y}), "expected");
    ExpectRefused(session.MakeCallable({x}, {o}), "expected");
    ExpectRefused(session.StartPartialRun({o}, {y}), "expected");
    ExpectRefused(session.StartPartialRun({x}, {o}), "expected");
  }
  for (Node* n : {static_cast<Node*>(nullptr), Elsewhere().node}) {
    ExpectRefused(session.RunTargets({n}), "expected");
    ExpectRefused(session.Run({{x, two}}, y, {n}), "expected");
    ExpectRefused(session.MakeCallable({x}, {y}, {n}), "expected");
    ExpectRefused(session.StartPartialRun({x}, {y}, {n}), "expected");
  }
  EXPECT_TRUE(session.Run(std::vector<Output>{})->empty());
  EXPECT_TRUE(session.RunTargets({}).ok());
  ExpectRefused(session.Run({{x, two}, {x, two}}, y), "");
  for (const Feed& feed : BadFeeds()) {
    ExpectRefused(session.Run({{x, feed.value}}, y), feed.message);
    ExpectRefused(session.RunByName({{"x", feed.value}}, {y.name()}),
                  feed.message);
    ExpectRefused(session.MakeCallable({x}, {y})->Run({feed.value}),
                  feed.message);
    auto run = session.StartPartialRun({x}, {y});
    ASSERT_TRUE(run.ok());
    ExpectRefused((*run)->Run({{x, feed.value}}, {y}), feed.message);
  }
  for (const char* name : {"", ":", "no", "x:1", "x:-1", "x:y", "^x",
                           "x:99999999999999999999", "\n"}) {
    EXPECT_FALSE(session.RunByName({{name, two}}, {y.name()}).ok()) << name;
    EXPECT_FALSE(session.RunByName({}, {name}).ok()) << name;
    EXPECT_FALSE(session.RunByName({}, {}, {name}).ok()) << name;
  }
  ExpectRefused(Session::Callable().Run(), "");
  ExpectRefused(Session::Callable().Run({two, Tensor()}), "");
  const auto callable = session.MakeCallable({x}, {y});
  ASSERT_TRUE(callable.ok());
  ExpectRefused(callable->Run(), "expected 1, got 0");
  ExpectRefused(callable->Run({two, two}), "expected 1, got 2");
  std::vector<Tensor> results = {two, two};
  ExpectRefused(Session::Callable().RunInto({}, {}), "");
  ExpectRefused(callable->RunInto({}, {results.data(), 1}),
                "expected 1, got 0");
  ExpectRefused(callable->RunInto({&two, 1}, results),
                "results: expected room for 1, got 2");
  ExpectRefused(callable->RunInto({&two, 1}, {}),
                "results: expected room for 1, got 0");
  int told = 0;
  const Session::Done refused = [&told](const Result<std::vector<Tensor>>& r) {
    ++told;
    ExpectRefused(r, "expected");
  };
  for (const Output& o : bad) {
    session.RunAsync({{x, two}}, {y, o}, {}, refused);
    session.RunAsync({{o, two}}, {y}, {}, refused);
  }
  session.RunAsync({{x, two}}, {y}, {nullptr}, refused);
  for (const Feed& feed : BadFeeds())
    callable->RunAsync({&feed.value, 1}, refused);
  callable->RunAsync({}, refused);
  Session::Callable().RunAsync({}, refused);
  EXPECT_EQ(static_cast<size_t>(told), 2 * bad.size() + BadFeeds().size() + 3);
  // Without a function to call there is nothing to tell.
  session.RunAsync({{x, two}}, {y}, {}, nullptr);
  callable->RunAsync({&two, 1}, nullptr);
  auto run = session.StartPartialRun({x}, {y});
  ASSERT_TRUE(run.ok());
  EXPECT_FALSE((*run)->Run({}, {y}).ok());
  EXPECT_FALSE((*run)->Run({{Output(), two}}, {}).ok());
  EXPECT_FALSE((*run)->Run({}, {Output()}).ok());
  EXPECT_FALSE((*run)->Run({}, {Elsewhere()}).ok());

  EXPECT_TRUE(session.Reset({"", "no such container"}).ok());
  EXPECT_TRUE(session.ListDevices().ok());
  (void)session.resources();
  EXPECT_FALSE(RunMetadata().ChromeTrace().empty());
  EXPECT_TRUE(session.Close().ok());
  (void)session.Close();
  EXPECT_FALSE(session.Run({{x, two}}, y).ok());
  EXPECT_FALSE(callable->Run({two}).ok());
  callable->RunAsync({&two, 1}, refused);
  EXPECT_FALSE((*run)->Run({{x, two}}, {y}).ok());
}

HOSTILE(OptionsOfRubbish,
        "Session::Session Session::Run Cancellation::Cancel "
        "Cancellation::cancelled Cancellation::Register "
        "Cancellation::Deregister") {
  Graph g;
  const WithGraph use(g);
  const Output y = ops::Neg(Constant(1.0f));
  for (const int n : {INT_MIN, -7, INT_MAX}) {
    SessionOptions options;
    options.inter_op_threads = n;
    Session s(g, options);
    (void)s.Run(y).status();
    options = SessionOptions();
    options.intra_op_threads = n;
    Session t(g, options);
    (void)t.Run(y).status();
    options = SessionOptions();
    options.max_call_depth = n;
    Session u(g, options);
    EXPECT_TRUE(u.Run(y).ok());
  }
  {
    SessionOptions options;
    options.devices = {nullptr};
    Session s(g, options);
    ExpectRefused(s.Run(y), "devices[0]: expected a device, got none");
    EXPECT_FALSE(s.ListDevices().ok());
    EXPECT_FALSE(s.MakeCallable({}, {y}).ok());
    EXPECT_FALSE(s.StartPartialRun({}, {y}).ok());
  }
  for (const char* target : {"", "garbage", "grpc://", "grpc://:", "grpc://a:x",
                             "grpc://127.0.0.1:99999999"}) {
    Session s(target, g);
    EXPECT_FALSE(s.Run(y).ok()) << target;
    EXPECT_FALSE(s.ListDevices().ok()) << target;
    EXPECT_FALSE(s.Reset().ok()) << target;
    EXPECT_FALSE(s.MakeCallable({}, {y}).ok()) << target;
    (void)s.resources();
    (void)s.Close();
  }
  Session session(g);
  RunMetadata metadata;
  for (const int64_t ms : {INT64_MIN, int64_t{-1}, INT64_MAX}) {
    RunOptions options;
    options.timeout_ms = ms;
    (void)session.Run({}, {y}, {}, options, &metadata).status();
  }
  Cancellation cancelled;
  const auto id = cancelled.Register([] {});
  (void)id;
  cancelled.Cancel();
  cancelled.Cancel();
  EXPECT_TRUE(cancelled.cancelled());
  RunOptions options;
  options.cancellation = &cancelled;
  EXPECT_FALSE(session.Run({}, {y}, {}, options).ok());
}

HOSTILE(DevicesOfRubbish,
        "ParseEmulatedDevice EmulatedDevices EmulatedDevice::EmulatedDevice "
        "CpuDevices RegisterDeviceType HasKernel") {
  for (const char* text :
       {"garbage", "=", "memory=", "memory=-1", "memory=1e99", "kernel_us=nan",
        "kernel_us=-1", "copy_us=inf", "_us=3", "memory=1G=2"})
    EXPECT_FALSE(ParseEmulatedDevice(text).ok()) << text;
  EXPECT_EQ(EmulatedDevices(INT_MIN).size(), 1u);
  EXPECT_TRUE(CpuDevices(INT_MIN).size() <= 1u);
  Graph g;
  const WithGraph use(g);
  const DeviceScope scope("/device:EMU:0");
  const Output y = ops::Neg(Placeholder<float>({}));
  EmulatedDeviceOptions weird;
  weird.memory_bytes = INT64_MIN;
  weird.kernel_ns = -5;
  weird.flops_per_s = 0;
  weird.bytes_per_s = -1;
  weird.copy_bytes_per_s = std::numeric_limits<double>::quiet_NaN();
  SessionOptions options;
  options.devices = EmulatedDevices(1, weird);
  Session session(g, options);
  (void)session.Run({{Output(y.node->input(0)), Tensor::Scalar(1.0f)}}, y)
      .status();
}

HOSTILE(QuantizedNothing, "Freeze Quantize InferenceGraph::constant_bytes") {
  Graph g;
  const WithGraph use(g);
  const Output x = Placeholder<float>({1, 2});
  const Output y = ops::MatMul(x, Tensor::Of<float>({2, 2}, {1, 2, 3, 4}));
  Session session(g);
  EXPECT_EQ(InferenceGraph().constant_bytes(), 0);
  for (const Output& o : {Output(), Elsewhere(), Output(y.node, 5)}) {
    EXPECT_FALSE(Freeze(session, {x}, {o}).ok());
    EXPECT_FALSE(Freeze(session, {o}, {y}).ok());
  }
  (void)Freeze(session, {}, {}).status();
  (void)Freeze(session, {x, x}, {y, y}).status();
  const Result<InferenceGraph> frozen = Freeze(session, {x}, {y});
  ASSERT_TRUE(frozen.ok());
  const Tensor row = Tensor::Of<float>({1, 2}, {1, 2});
  EXPECT_FALSE(Quantize(*frozen, {}).ok());
  EXPECT_FALSE(Quantize(*frozen, {{}}).ok());
  EXPECT_FALSE(Quantize(*frozen, {{row, row}}).ok());
  EXPECT_FALSE(Quantize(*frozen, {{Tensor()}}).ok());
  EXPECT_FALSE(Quantize(*frozen, {{Tensor(DType::kFloat, {-1})}}).ok());
  EXPECT_FALSE(Quantize(*frozen, {{Tensor::Scalar<int32_t>(1)}}).ok());
  EXPECT_FALSE(Quantize(InferenceGraph(), {{row}}).ok());
  for (const double p :
       {-1.0, 0.0, 7.0, std::numeric_limits<double>::quiet_NaN()})
    (void)Quantize(*frozen, {{row}}, {.percentile = p}).status();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  (void)Quantize(*frozen, {{Tensor::Of<float>({1, 2}, {nan, nan})}}).status();
  (void)Quantize(*frozen, {{row}}, {.keep_float = {"", "no such"}}).status();
}

}  // namespace
}  // namespace sluice
