// Emulated accelerators: streams, memory, copies, and their effect.
#include "exec/devices/emulated_device.h"

#include <cmath>
#include <thread>

#include "client/control/control_flow.h"
#include "client/nn/optimizers.h"
#include "client/testing/client_test_util.h"
#include "client/variables.h"
#include "exec/core/kernel.h"
#include "graph/shape_context.h"
#include "session/testing/partition_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Vars = std::vector<Output>;

constexpr int64_t kKernel = 1000;
constexpr int64_t kCopy = 300;

// Device 0 is the CPU, device 1 and on are emulated, in virtual time: a kernel
// takes 1000 ns and a copy 300, whatever their size. The devices have what they
// computed only when it is done: work that runs too early, or whose memory is
// reused too early, gives NaN.
class EmulatedDeviceTest : public ::testing::Test {
 protected:
  EmulatedDeviceTest() : use_(graph_) {
    options_.kernel_ns = kKernel;
    options_.copy_ns = kCopy;
    options_.flops_per_s = options_.bytes_per_s = 1e18;
    options_.copy_bytes_per_s = options_.peer_bytes_per_s = 1e18;
    options_.peer_ns = kCopy;
    options_.record = options_.late = true;
  }
  static DeviceScope OnDevice(int d) { return DeviceScope(TestDeviceName(d)); }

  // Nodes without a requested device are on device 1.
  Result<std::vector<Tensor>> Run(const Feeds& feeds, const Vars& fetches) {
    StepSignature s;
    std::vector<Tensor> values;
    for (const auto& [o, t] : feeds) {
      s.feeds.push_back(o);
      values.push_back(t);
    }
    s.fetches = fetches;
    if (cut_ == nullptr) {
      CutStep::Options o;
      o.own_memory = true;
      o.emulated = options_;
      o.clock = clock_;
      o.optimize = false;
      o.place = [](Graph* g) {
        for (const auto& n : g->nodes())
          if (n->device().empty()) g->SetDevice(n.get(), TestDeviceName(1));
      };
      SLUICE_ASSIGN_OR_RETURN(cut_, CutStep::Make(graph_, s, o));
    }
    size_t untaken = 99;
    auto out = cut_->Run(values, 0, &untaken);
    if (out.ok()) {
      EXPECT_EQ(untaken, 0u);
    }
    return out;
  }
  static std::vector<StreamEvent> Of(const std::vector<StreamEvent>& all,
                                     int stream) {
    std::vector<StreamEvent> out;
    for (const StreamEvent& e : all)
      if (e.stream == stream) out.push_back(e);
    return out;
  }
  static int Overlaps(const std::vector<StreamEvent>& a,
                      const std::vector<StreamEvent>& b) {
    int n = 0;
    for (const StreamEvent& x : a)
      n += std::any_of(b.begin(), b.end(), [&](const StreamEvent& y) {
        return x.start_ns < y.end_ns && y.start_ns < x.end_ns;
      });
    return n;
  }
  static Tensor Ones(int64_t n) {
    Tensor t(DType::kFloat, Shape({n, n}));
    std::fill_n(t.data<float>(), n * n, 1.0f);
    return t;
  }

  Graph graph_;
  const WithGraph use_;
  EmulatedDeviceOptions options_;
  std::shared_ptr<VirtualClock> clock_ = std::make_shared<VirtualClock>();
  std::unique_ptr<CutStep> cut_;
};

TEST_F(EmulatedDeviceTest, KernelsRunSequentiallyBeforeResultCopy) {
  const Output x = Placeholder<float>({2, 2}, "x");
  Output y = x;
  for (int i = 0; i < 3; ++i) y = ops::MatMul(y, x);
  const auto out = Run({{x, Ones(2)}}, {y});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].ToVector<float>(), (std::vector<float>(4, 8.0f)));
  const std::vector<StreamEvent> all = cut_->emulated(1)->Timeline();
  const auto compute = Of(all, EmulatedDevice::kCompute);
  ASSERT_EQ(compute.size(), 3u);
  // The feed arrives, then three kernels run, then the result is copied.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(compute[static_cast<size_t>(i)].start_ns, kCopy + i * kKernel);
    EXPECT_EQ(compute[static_cast<size_t>(i)].end_ns,
              kCopy + (i + 1) * kKernel);
  }
  const auto back = Of(all, EmulatedDevice::kToHost);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].start_ns, kCopy + 3 * kKernel);
  EXPECT_EQ(back[0].bytes, 16);
  EXPECT_EQ(clock_->Now(), 2 * kCopy + 3 * kKernel);
  EXPECT_EQ(cut_->emulated(1)->BusyNs(EmulatedDevice::kCompute), 3 * kKernel);
  EXPECT_EQ(cut_->emulated(1)->allocator()->stats().live_bytes, 0);
}

TEST_F(EmulatedDeviceTest, HostRunsLoopAheadOfDevice) {
  const Output x = Placeholder<float>({2, 2}, "x");
  const auto [i, y] = While(
      std::tuple{0, x}, [](Output i, Output) { return i < 50; },
      [](Output i, Output y) {
        return std::tuple{i + 1, ops::Tanh(y)};
      });
  const auto out = Run({{x, Ones(2)}}, {y, i});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[1].scalar<int32_t>(), 50);
  // It handles neither the counter nor the predicate, and nothing waits in
  // between.
  EXPECT_EQ(cut_->Count("_CopyFromDevice"), 1);
  const auto compute =
      Of(cut_->emulated(1)->Timeline(), EmulatedDevice::kCompute);
  ASSERT_EQ(compute.size(), 50u);
  EXPECT_EQ(compute.back().end_ns - compute.front().start_ns, 50 * kKernel);
}

TEST_F(EmulatedDeviceTest, PredicateOfDeviceValueWaitsForCopy) {
  const Output x = Placeholder<float>({2}, "x");
  const Output y = While(
      Vars{x}, [](Vars v) { return ops::Sum(v[0], {0}) < 20.f; },
      [](Vars v) -> Vars { return {v[0] * 2.f}; })[0];
  const auto out = Run({{x, Tensor::Vector<float>({1, 2})}}, {y});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].ToVector<float>(), (std::vector<float>{8, 16}));
  // Four predicates and the result.
  EXPECT_EQ(Of(cut_->emulated(1)->Timeline(), EmulatedDevice::kToHost).size(),
            5u);
}

TEST_F(EmulatedDeviceTest, ConstantIsCopiedOnce) {
  const Output x = Placeholder<float>({4}, "x");
  const Output y = x + Constant(Tensor::Vector<float>({1, 2, 3, 4}));
  for (int step = 0; step < 3; ++step) {
    const auto out = Run({{x, Tensor::Vector<float>({1, 1, 1, 1})}}, {y});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].ToVector<float>(), (std::vector<float>{2, 3, 4, 5}));
  }
  EXPECT_EQ(Of(cut_->emulated(1)->Timeline(), EmulatedDevice::kFromHost).size(),
            4u);
}

TEST_F(EmulatedDeviceTest, CopiesOverlapWithKernels) {
  // Device 1 passes on each of its results while it computes the next one.
  options_.copy_ns = options_.peer_ns = kKernel;
  const Output x = Placeholder<float>({2, 2}, "x");
  Vars there;
  Output y = x;
  for (int i = 0; i < 6; ++i) {
    y = ops::Tanh(y);
    const DeviceScope on = OnDevice(2);
    there.push_back(ops::Exp(y));
  }
  const auto out = Run({{x, Ones(2)}}, there);
  ASSERT_TRUE(out.ok()) << out.status();
  // A queue that is filled at once waits for all of it; a device that is fed by
  // others overlaps computing and copying.
  const auto all = cut_->emulated(2)->Timeline();
  EXPECT_GE(Overlaps(Of(all, EmulatedDevice::kPeer),
                     Of(all, EmulatedDevice::kCompute)),
            4);
  EXPECT_GE(Overlaps(Of(all, EmulatedDevice::kToHost),
                     Of(all, EmulatedDevice::kCompute)),
            4);
}

TEST_F(EmulatedDeviceTest, DevicesCopyFromEachOtherWithoutTheHost) {
  const Output x = Placeholder<float>({2, 2}, "x");
  const Output scale = Placeholder<float>(PartialShape::Scalar(), "scale");
  const Output y = ops::MatMul(x, x) * scale;
  Output z;
  {
    const DeviceScope on = OnDevice(2);
    z = ops::MatMul(y, y) + ops::Sum(y, {0, 1});
  }
  const Feeds feeds = {{x, Ones(2)}, {scale, Tensor::Scalar(2.0f)}};
  const std::vector<float> want(4, 48.0f);
  const auto out = Run(feeds, {z});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].ToVector<float>(), want);
  EXPECT_EQ(cut_->Count("_CopyFromPeer"), 1);
  EXPECT_EQ(Of(cut_->emulated(1)->Timeline(), EmulatedDevice::kToHost).size(),
            0u);
  const auto all = cut_->emulated(2)->Timeline();
  EXPECT_EQ(Of(all, EmulatedDevice::kFromHost).size(), 0u);
  const auto copies = Of(all, EmulatedDevice::kPeer);
  ASSERT_EQ(copies.size(), 1u);
  // The feed, two kernels, then the copy: the host takes no part.
  EXPECT_EQ(copies[0].start_ns, kCopy + 2 * kKernel);
  EXPECT_EQ(copies[0].bytes, 16);
  for (int d : {1, 2})
    EXPECT_EQ(cut_->emulated(d)->allocator()->stats().live_bytes, 0);

  cut_.reset();
  options_.peer_bytes_per_s = 0;  // They are not connected.
  const auto again = Run(feeds, {z});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)[0].ToVector<float>(), want);
  EXPECT_EQ(cut_->Count("_CopyFromPeer"), 0);
  EXPECT_EQ(Of(cut_->emulated(1)->Timeline(), EmulatedDevice::kToHost).size(),
            1u);
}

TEST_F(EmulatedDeviceTest, ValuesGoRoundALoopOfDevices) {
  const Output x = Placeholder<float>({2, 2}, "x");
  const auto [i, y] = While(
      std::tuple{0, x}, [](Output i, Output) { return i < 20; },
      [](Output i, Output y) {
        Output there;
        {
          const DeviceScope on = OnDevice(2);
          there = ops::Tanh(y);
        }
        return std::tuple{i + 1, ops::MatMul(there, there)};
      });
  const Output g = Grad(ops::Sum(y, {0, 1}), x);
  SessionOptions plain;
  plain.soft_placement = true;
  const auto want = Session(graph_, plain).Run({{x, Ones(2)}}, {y, g});
  ASSERT_TRUE(want.ok()) << want.status();
  const auto out = Run({{x, Ones(2)}}, {y, g});
  ASSERT_TRUE(out.ok()) << out.status();
  for (size_t k : {0u, 1u})
    for (size_t e = 0; e < 4; ++e)
      EXPECT_FLOAT_EQ((*out)[k].ToVector<float>()[e],
                      (*want)[k].ToVector<float>()[e]);
  EXPECT_GE(Of(cut_->emulated(2)->Timeline(), EmulatedDevice::kPeer).size(),
            20u);
}

// The product still runs when a copy of the host's value begins. The host has
// dropped the product's input, of the same size, when it issued the product.
TEST_F(EmulatedDeviceTest, MemoryThatAKernelReadsIsNotGivenToACopy) {
  options_.op_ns["MatMul"] = 100 * kKernel;
  const Output x = Placeholder<float>({16, 16}, "x");
  const Output a = Placeholder<float>({16, 16}, "a");
  const Output there = ops::Exp(a);
  Output here, product;
  {
    const DeviceScope on = OnDevice(0);
    here = ops::Exp(there);
  }
  {
    const ControlDependencies after({there.node});
    product = ops::MatMul(x, x);
  }
  const Output sum = product + here;
  const Feeds feeds = {{a, *Tensor::Zeros(DType::kFloat, Shape({16, 16}))},
                       {x, Ones(16)}};
  const auto out = Run(feeds, {sum});
  ASSERT_TRUE(out.ok()) << out.status();
  for (const float v : (*out)[0].ToVector<float>())
    EXPECT_FLOAT_EQ(v, 16 + std::exp(1.0f));
  // The copy did begin while the product ran.
  const auto all = cut_->emulated(1)->Timeline();
  const auto in = Of(all, EmulatedDevice::kFromHost);
  ASSERT_EQ(in.size(), 3u);
  int during = 0;
  for (const StreamEvent& e : Of(all, EmulatedDevice::kCompute))
    during += e.end_ns - e.start_ns == 100 * kKernel &&
              e.start_ns < in[2].start_ns && in[2].end_ns < e.end_ns;
  EXPECT_EQ(during, 1);
}

TEST_F(EmulatedDeviceTest, ScalarsAreInTheMemoryOfTheDevice) {
  const Output x = Placeholder<float>(PartialShape::Scalar(), "x");
  const Output y = ops::Exp(x) * 2.0f;
  const auto out = Run({{x, Tensor::Scalar(0.0f)}}, {y});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), 2.0f);
  // The feed, in whose place the results are, and the constant, which stays.
  const AllocatorStats stats = cut_->emulated(1)->allocator()->stats();
  EXPECT_GE(stats.allocations, 2);
  EXPECT_EQ(stats.live_bytes, 64);
}

TEST_F(EmulatedDeviceTest, OutOfMemoryErrorGivesDetails) {
  options_.memory_bytes = 100'000;
  const Output x = Placeholder<float>({100, 100}, "x");
  const Output y = ops::MatMul(x, x, {.name = "y"});
  const Output z = ops::MatMul(y, x, {.name = "z"}) + y;
  const auto out = Run({{x, Ones(100)}}, {z});
  ASSERT_EQ(out.status().code(), StatusCode::kResourceExhausted);
  const std::string message(out.status().message());
  EXPECT_THAT(message, HasSubstr("'z' (MatMul)"));
  EXPECT_THAT(message, HasSubstr("got a request for 40960"));
  EXPECT_THAT(message, HasSubstr("at most 18080 more bytes"));
  EXPECT_THAT(message, HasSubstr(TestDeviceName(1)));
  // All memory is released, and the next step reuses it.
  const AllocatorStats stats = cut_->emulated(1)->allocator()->stats();
  EXPECT_EQ(stats.live_bytes, 0);
  EXPECT_EQ(stats.peak_bytes, 2 * 40960);
  EXPECT_EQ(Run({{x, Ones(100)}}, {z}).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(cut_->emulated(1)->allocator()->stats().live_bytes, 0);
}

// A loop whose gradient needs the value of every iteration.
Output GradientOfLoop(const Output& x, const Output& w, int iterations,
                      bool swap) {
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < iterations; },
      [&](Output i, Output y) {
        return std::tuple{i + 1, ops::Tanh(ops::MatMul(y, w))};
      },
      {.parallel_iterations = 4, .swap_memory = swap});
  return Grad(ops::Sum(y, {0, 1}), w);
}

TEST_F(EmulatedDeviceTest, SwapMemoryLetsLargeLoopRun) {
  constexpr int kIterations = 100;
  // (The device compares all its memory after each kernel.)
  constexpr int kSize = 32;
  options_.memory_bytes = 40 * kSize * kSize * 4;
  const Output x = Placeholder<float>({kSize, kSize}, "x");
  const Output w = Placeholder<float>({kSize, kSize}, "w");
  const Output kept = GradientOfLoop(x, w, kIterations, false);
  const Output swapped = GradientOfLoop(x, w, kIterations, true);
  Tensor value = Ones(kSize), unit = Ones(kSize);
  for (int i = 0; i < kSize * kSize; ++i) {
    value.data<float>()[i] = 0.01f * static_cast<float>(i % 7);
    unit.data<float>()[i] = i % (kSize + 1) == 0 ? 1.0f : 0.0f;
  }
  const Feeds feeds = {{x, value}, {w, unit}};
  // (A product that is added to in place may round differently, and the cut
  // step has none.)
  SessionOptions plain;
  plain.common_subexpressions = false;
  const auto want = Session(graph_, plain).Run(feeds, kept);
  ASSERT_TRUE(want.ok()) << want.status();
  options_.late = false;
  const auto without = Run(feeds, {kept});
  EXPECT_EQ(without.status().code(), StatusCode::kResourceExhausted)
      << without.status();
  // (Constants stay there.)
  EXPECT_LE(cut_->emulated(1)->allocator()->stats().live_bytes, 1024);
  cut_.reset();
  options_.late = true;
  const auto with = Run(feeds, {swapped});
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_TRUE((*with)[0].Identical(*want));
  const auto all = cut_->emulated(1)->Timeline();
  const auto compute = Of(all, EmulatedDevice::kCompute),
             out = Of(all, EmulatedDevice::kToHost),
             in = Of(all, EmulatedDevice::kFromHost);
  EXPECT_GT(out.size(), 50u);
  EXPECT_GE(in.size(), out.size()) << "what goes comes back";
  // Copies overlap with the kernels, except for those of feeds and result.
  EXPECT_GE(Overlaps(out, compute) + 3, static_cast<int>(out.size()));
  EXPECT_GE(Overlaps(in, compute) + 3, static_cast<int>(in.size()));
  // Their cost is hidden.
  int64_t busy = 0;
  for (const StreamEvent& e : compute) busy += e.end_ns - e.start_ns;
  EXPECT_LE(compute.back().end_ns - compute.front().start_ns, busy * 11 / 10);
}

// (On the host, such rows would be copied into memory that no device counts.)
TEST_F(EmulatedDeviceTest, SmallSavedValuesCountAsDeviceMemory) {
  options_.memory_bytes = 200'000;
  const Output x = Placeholder<float>({8, 8}, "x");
  const Output w = Placeholder<float>({8, 8}, "w");
  const Feeds feeds = {{x, Ones(8)}, {w, Ones(8)}};
  const auto much = Run(feeds, {GradientOfLoop(x, w, 2000, false)});
  EXPECT_EQ(much.status().code(), StatusCode::kResourceExhausted)
      << much.status();
  cut_.reset();
  const auto little = Run(feeds, {GradientOfLoop(x, w, 200, false)});
  EXPECT_TRUE(little.ok()) << little.status();
  EXPECT_LE(cut_->emulated(1)->allocator()->stats().live_bytes, 1024);
}

// A pipeline of 8 devices, each of which keeps a state between iterations; the
// results of the last one are summed on the CPU.
int64_t PipelineNs(int parallel_iterations) {
  constexpr int kDevices = 8, kIterations = 40;
  Graph graph;
  const WithGraph use(graph);
  const DeviceScope first(TestDeviceName(0));
  Vars init = {Constant(int32_t{0}), Constant(0.0f)};
  for (int d = 0; d < kDevices; ++d)
    init.push_back(Constant(Tensor::Of<float>({2, 2}, {1, 0, 0, 1})));
  const Vars last = While(
      init, [](Vars v) { return v[0] < kIterations; },
      [](Vars v) {
        Vars next = {v[0] + 1};
        Output passed = v[2];
        for (int d = 0; d < kDevices; ++d) {
          const DeviceScope there(TestDeviceName(d + 1));
          passed = ops::MatMul(v[static_cast<size_t>(d) + 2], passed);
          next.push_back(passed);
        }
        const Output sum = v[1] + ops::Sum(passed, {0, 1});
        next.insert(next.begin() + 1, sum);
        return next;
      },
      {.parallel_iterations = parallel_iterations});
  CutStep::Options o;
  o.own_memory = true;
  o.emulated.op_ns["MatMul"] = 10 * kKernel;
  o.emulated.copy_ns = o.emulated.peer_ns = kKernel;
  o.emulated.late = true;
  o.clock = std::make_shared<VirtualClock>();
  o.place = [](Graph* g) {
    PlacementOptions options;
    for (int d = 0; d <= kDevices; ++d)
      options.devices.push_back(
          {*DeviceName::Parse(TestDeviceName(d)), nullptr});
    const Status s = Place(g, options);
    ASSERT_TRUE(s.ok()) << s;
  };
  auto cut = CutStep::Make(graph, {{}, {last[1]}, {}}, o);
  EXPECT_TRUE(cut.ok()) << cut.status();
  if (!cut.ok()) return 0;
  size_t untaken = 0;
  const auto out = (*cut)->Run({}, 0, &untaken);
  EXPECT_TRUE(out.ok()) << out.status();
  if (out.ok()) {
    EXPECT_EQ((*out)[0].scalar<float>(), 2.0f * kIterations);
  }
  return o.clock->Now();
}

TEST(EmulatedDevices, ParallelIterationsHideLatency) {
  const int64_t one = PipelineNs(1), four = PipelineNs(4),
                many = PipelineNs(32);
  EXPECT_GE(one, 5 * many);
  EXPECT_GE(one, 2 * four);
  // The devices are then always busy, except while the pipeline fills.
  EXPECT_LE(many, (40 + 12) * 10 * kKernel);
  EXPECT_EQ(PipelineNs(8), PipelineNs(8)) << "one program, one time";
}

// ---- What ops declare
// ---------------------------------------------------------

// The name of another program's op tells a device nothing.
OpDefBuilder DeviceTraitOp(const char* name) {
  return OpDefBuilder(name)
      .Input("x: float")
      .Input("positions: int32")
      .Output("y: float")
      .Shape([](ShapeContext& c) -> Status {
        c.set_output(0, c.input(0));
        return OkStatus();
      })
      .Kernel(Cpu([](KernelContext& ctx) -> Status {
        ctx.set_output(0, ctx.input(0));
        return OkStatus();
      }));
}
const OpRegistrar kDeviceTraitOps[] = {
    DeviceTraitOp("OwnOpsTestOnDevice"),
    DeviceTraitOp("OwnOpsTestHostInput").HostInput("positions"),
    DeviceTraitOp("OwnOpsTestNoElements").TouchesNoElements(),
    DeviceTraitOp("OwnOpsTestHostOnly").HostOnly(),
    DeviceTraitOp("OwnOpsTestNoSuchInput").HostInput("position"),
};

class DeviceTraits : public EmulatedDeviceTest {
 protected:
  Result<std::vector<Tensor>> RunOp(const char* op) {
    const Output x = Placeholder<float>({2}, "x");
    const Output y =
        Build(op, {x, Constant(Tensor::Vector<int32_t>({1, 2, 3}))});
    return Run({{x, Tensor::Vector<float>({4, 5})}}, {y});
  }
  size_t Kernels() {
    return Of(cut_->emulated(1)->Timeline(), EmulatedDevice::kCompute).size();
  }
};

TEST_F(DeviceTraits, AnInputIsCopiedThere) {
  ASSERT_TRUE(RunOp("OwnOpsTestOnDevice").ok());
  EXPECT_EQ(cut_->Count("_CopyToDevice"), 2);
  EXPECT_EQ(Kernels(), 1u);
}
TEST_F(DeviceTraits, AHostInputIsNotCopiedThere) {
  ASSERT_TRUE(RunOp("OwnOpsTestHostInput").ok());
  EXPECT_EQ(cut_->Count("_CopyToDevice"), 1);
}
TEST_F(DeviceTraits, AnOpThatTouchesNoElementsTakesNoTime) {
  ASSERT_TRUE(RunOp("OwnOpsTestNoElements").ok());
  EXPECT_EQ(Kernels(), 0u);
}
TEST_F(DeviceTraits, AnOpOfTheHostHasNoKernelThere) {
  const auto out = RunOp("OwnOpsTestHostOnly");
  EXPECT_EQ(out.status().code(), StatusCode::kUnimplemented) << out.status();
  EXPECT_THAT(std::string(out.status().message()),
              HasSubstr("devices compute, got OwnOpsTestHostOnly"));
}
TEST_F(DeviceTraits, AHostInputThatTheOpLacksIsAnErrorOfTheDeclaration) {
  const auto op = OpRegistry::Global()->Lookup("OwnOpsTestNoSuchInput");
  EXPECT_EQ(op.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(op.status().message()),
              HasSubstr("'position': HostInput: there is no input"));
}

// ---- In a session, in real time ---------------------------------------------

class EmulatedSession : public EmulatedDeviceTest {
 protected:
  Session& Open(bool with_cpu = true) {
    options_.kernel_ns = options_.copy_ns = 10;
    options_.late = false;
    SessionOptions o;
    o.devices = EmulatedDevices(2, options_);
    if (!with_cpu) o.devices.erase(o.devices.begin());
    o.soft_placement = soft_;
    device_ = static_cast<EmulatedDevice*>(o.devices[with_cpu ? 1 : 0].get());
    session_.emplace(graph_, o);
    return *session_;
  }
  bool soft_ = false;
  EmulatedDevice* device_ = nullptr;
  std::optional<Session> session_;
};

TEST_F(EmulatedSession, VariablesLiveAndTrainOnDevice) {
  const DeviceScope on("/device:EMU:0");
  Var w = GetVariable("w", {3, 1}, init::Zeros());
  const Output x = Placeholder<float>({4, 3}, "x");
  const Output loss = ops::Mean(ops::Square(ops::MatMul(x, w) - 1.0f), {0, 1});
  Node* const train = GradientDescentOptimizer(0.1).Minimize(loss);
  Session& session = Open();
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  EXPECT_EQ(device_->allocator()->stats().live_bytes, 64);
  Tensor rows(DType::kFloat, Shape({4, 3}));
  for (int i = 0; i < 12; ++i)
    rows.data<float>()[i] = static_cast<float>(i % 5) / 5;
  float first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    const auto out = session.Run({{x, rows}}, loss, {train});
    ASSERT_TRUE(out.ok()) << out.status();
    (step == 0 ? first : last) = out->scalar<float>();
  }
  EXPECT_LT(last, first / 2);
  EXPECT_GT(device_->BusyNs(EmulatedDevice::kCompute), 0);
}

TEST_F(EmulatedSession, FeedsAndFetchesAreCopiedWithoutCpuDevice) {
  const Output x = Placeholder<float>({2}, "x");
  const Output y = x * Constant(Tensor::Vector<float>({2, 3}));
  Session& session = Open(false);
  const auto out = session.Run({{x, Tensor::Vector<float>({1, 2})}}, y);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->ToVector<float>(), (std::vector<float>{2, 6}));
  EXPECT_EQ(Of(device_->Timeline(), EmulatedDevice::kToHost).size(), 1u);
  const auto staged = session.StartPartialRun({x}, {y});
  EXPECT_EQ(staged.status().code(), StatusCode::kUnimplemented);
}

TEST_F(EmulatedSession, StringsStayOnTheHost) {
  const Output x = Placeholder<std::string>(PartialShape::Scalar(), "x");
  Output y;
  {
    const DeviceScope on("/device:EMU:0");
    y = ops::StringJoin({x, x});
  }
  const Feeds feeds = {{x, Tensor::Scalar<std::string>("a")}};
  EXPECT_EQ(Open().Run(feeds, y).status().code(), StatusCode::kInvalidArgument);
  session_.reset();
  soft_ = true;
  const auto out = Open().Run(feeds, y);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->scalar<std::string>(), "aa");
}

TEST_F(EmulatedSession, CancelledStepLeavesNothingOnDevice) {
  options_.op_ns["Tanh"] = int64_t{3600} * 1'000'000'000;
  const DeviceScope on("/device:EMU:0");
  const Output x = Placeholder<float>({100, 100}, "x");
  const Output y = ops::Tanh(x);
  const Output z = y + 1.0f;
  Session& session = Open();
  const auto late = session.Run({{x, Ones(100)}}, {z}, {}, {.timeout_ms = 20});
  EXPECT_EQ(late.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(device_->allocator()->stats().live_bytes, 64) << "the constant";
  std::thread closes([&] { (void)session.Close(); });
  const auto out = session.Run({{x, Ones(100)}}, {z});
  EXPECT_FALSE(out.ok());
  closes.join();
  EXPECT_EQ(device_->allocator()->stats().live_bytes, 64);
}

TEST_F(EmulatedSession, TargetStepWaitsForDevice) {
  options_.op_ns["AssignAdd"] = 3'000'000;
  const DeviceScope on("/device:EMU:0");
  const Output v =
      Build("VariableV2", {},
            {{"dtype", DType::kFloat}, {"shape", PartialShape({2})}}, "v");
  const Output one = Constant(Tensor::Vector<float>({1, 1}));
  const Output set = Build("Assign", {v, one}, {}, "set");
  const Output add = Build("AssignAdd", {v, one}, {}, "add");
  Node* done = nullptr;
  {
    const ControlDependencies after({add.node});
    const DeviceScope host("/device:CPU:0");
    done = BuildNode("NoOp", {}, {}, "done");
  }
  Session& session = Open();
  ASSERT_TRUE(session.RunTargets({set.node}).ok());
  ASSERT_TRUE(session.RunTargets({done}).ok());
  EXPECT_GE(EmulatedClock::RealTime()->Now(),
            device_->Position(EmulatedDevice::kCompute));
}

TEST(EmulatedDevices, OptionsAreParsed) {
  const auto o = ParseEmulatedDevice(
      "memory=1.5M,kernel_us=2,tflops=1,gbytes_per_s=3,copy_us=4,"
      "copy_gbytes_per_s=5,peer_us=6,peer_gbytes_per_s=0,MatMul_us=6.5");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->memory_bytes, 3 << 19);
  EXPECT_EQ(o->kernel_ns, 2000);
  EXPECT_EQ(o->flops_per_s, 1e12);
  EXPECT_EQ(o->copy_ns, 4000);
  EXPECT_EQ(o->op_ns.at("MatMul"), 6500);
  EXPECT_EQ(o->peer_ns, 6000);
  EXPECT_EQ(o->peer_bytes_per_s, 0);
  for (const char* bad : {"memory=0", "memory=x", "tflops=-1", "kernel_us=nan",
                          "what=1", "copy_us", "peer_gbytes_per_s=-1"})
    EXPECT_EQ(ParseEmulatedDevice(bad).status().code(),
              StatusCode::kInvalidArgument)
        << bad;
}

}  // namespace
}  // namespace sluice
