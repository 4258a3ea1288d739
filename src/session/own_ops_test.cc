// User-defined ops: their mistakes are reported with their node, wherever they
// run; correct ones work like other ops.
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "client/control/control_flow.h"
#include "client/operators.h"
#include "client/variables.h"
#include "exec/core/kernel.h"
#include "exec/fusion/block_form.h"
#include "gmock/gmock.h"
#include "graph/device_scope.h"
#include "graph/shape_context.h"
#include "gtest/gtest.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Makes the mistake given by attribute "how".
class BadKernel {
 public:
  explicit BadKernel(const Node& n) : how_(n.AttrOr<std::string>("how", "")) {}
  Status Run(KernelContext& ctx) const {
    if (how_ == "throws") throw std::runtime_error("out of ideas");
    if (how_ == "throws a number") throw 7;
    if (how_ == "another type") {
      ctx.set_output(0, Tensor::Scalar(int32_t{1}));
    } else if (how_ == "another shape") {
      ctx.set_output(0, Tensor::Vector<float>({1, 2}));
    } else if (how_ != "forgets") {
      ctx.set_output(0, ctx.input(0));
    }
    if (how_ == "one more") ctx.set_output(1, ctx.input(0));
    return OkStatus();
  }
  const std::string how_;
};

SLUICE_OP(OwnOpsTestBad)
    .Input("x: float")
    .Output("y: float")
    .Attr("how: string")
    .Shape(UnchangedShape)
    .Kernel(CpuState<BadKernel>());

// The same, async.
void StartBad(KernelContext& ctx, DoneFn done) {
  const auto& kernel = ctx.state<BadKernel>();
  if (kernel.how_ == "drops done") return;
  if (kernel.how_ == "throws") throw std::runtime_error("out of ideas");
  const bool again = kernel.how_ == "calls done again";
  std::thread([&ctx, &kernel, done, again] {
    const Status s = kernel.Run(ctx);
    done(s);  // After this the context and the kernel may be destroyed.
    if (again) done(s);
  }).detach();
}

SLUICE_OP(OwnOpsTestBadAsync)
    .Input("x: float")
    .Output("y: float")
    .Attr("how: string")
    .Shape(UnchangedShape)
    .Kernel([](const Node& n, Kernel* k) {
      k->state = std::make_shared<BadKernel>(n);
      k->run_async = StartBad;
      return OkStatus();
    });

class OwnOpsTest : public ::testing::Test {
 protected:
  OwnOpsTest() : use_(graph_) {}
  Graph graph_;
  WithGraph use_;
};

const std::vector<std::pair<std::string, std::string>>& Mistakes() {
  static const auto* const all =
      new std::vector<std::pair<std::string, std::string>>{
          {"forgets", "kernel: expected float as output 0 ('y'), got none"},
          {"another type",
           "kernel: expected float as output 0 ('y'), got int32"},
          {"another shape",
           "kernel: expected shape [] as output 0 ('y'), as its shape function "
           "infers, got [2]"},
          {"one more", "kernel: expected 1 output, got an output 1"},
          {"throws", "kernel: expected no exception, got 'out of ideas'"},
          {"throws a number", "kernel: expected no exception, got one"},
      };
  return *all;
}

std::vector<SessionOptions> AllKindsOfSession() {
  std::vector<SessionOptions> all(6);
  all[1].regions = false;
  all[2].constant_folding = false;
  all[3].fusion = all[3].regions = false;
  all[4].scheduler_seed = 17;
  all[5].devices = CpuDevices(2);
  return all;
}

TEST_F(OwnOpsTest, KernelErrorNamesItsNode) {
  const Output x = Placeholder<float>({});
  const Feeds feeds = {{x, Tensor::Scalar(1.0f)}};
  for (const auto& [how, want] : Mistakes()) {
    const auto bad = [&how = how](const Output& in, const std::string& name) {
      return Build("OwnOpsTestBad", {in}, {{"how", how}}, name);
    };
    const std::string suffix = std::to_string(graph_.num_nodes());
    const std::string folded = "folded" + suffix, fed = "fed" + suffix;
    const Output of_fed = bad(x * 2, fed) + 1;
    const Output of_constant = bad(Constant(2.0f), folded) + x;
    const Output in_loop = While(
        x, [](Output v) { return v < 10; },
        [&](Output v) { return bad(v * 2, "looped") + 1; });
    const Output in_branch = Cond(
        x < 2, [&] { return bad(x, "taken") * 2; }, [&] { return x; });
    Output elsewhere;
    {
      const DeviceScope second("/device:CPU:1");
      elsewhere = bad(x, "elsewhere");
    }
    for (const SessionOptions& options : AllKindsOfSession()) {
      SCOPED_TRACE(how);
      Session session(graph_, options);
      const auto told = [&, want = want](Output y, const std::string& node) {
        const Status s = session.Run(feeds, y).status();
        EXPECT_EQ(s.code(), StatusCode::kInternal) << s;
        EXPECT_THAT(std::string(s.message()),
                    AllOf(HasSubstr(want), HasSubstr("node '" + node),
                          HasSubstr(" (OwnOpsTestBad) at "),
                          HasSubstr("own_ops_test.cc:")));
      };
      told(of_fed, fed);
      told(of_fed.node->input(0), fed);  // The fetch itself.
      told(of_constant, folded);
      told(in_loop, "while");
      told(in_branch, "cond");
      if (options.devices.size() == 2) told(elsewhere, "elsewhere");
      auto partial = session.StartPartialRun({x}, {of_fed});
      ASSERT_TRUE(partial.ok()) << partial.status();
      EXPECT_THAT(
          std::string((*partial)->Run(feeds, {of_fed}).status().message()),
          HasSubstr(want));
    }
  }
}

TEST_F(OwnOpsTest, AsyncKernelErrorNamesItsNode) {
  std::vector<std::pair<std::string, std::string>> mistakes = Mistakes();
  std::erase_if(mistakes, [](const auto& m) {  // (Not on its own threads.)
    return m.first == "throws a number";
  });
  mistakes.emplace_back("drops done", "kernel: expected a call of done");
  const Output x = Placeholder<float>({});
  for (const auto& [how, want] : mistakes) {
    const std::string name = "bad" + std::to_string(graph_.num_nodes());
    const Output y = Build("OwnOpsTestBadAsync", {x}, {{"how", how}}, name) + 1;
    Session session(graph_);
    const Status s = session.Run({{x, Tensor::Scalar(1.0f)}}, y).status();
    EXPECT_EQ(s.code(), StatusCode::kInternal) << s;
    EXPECT_THAT(
        std::string(s.message()),
        AllOf(HasSubstr(want),
              HasSubstr("node '" + name + "' (OwnOpsTestBadAsync) at ")));
  }
}

TEST_F(OwnOpsTest, SecondCallOfDoneIsIgnored) {
  const Output x = Placeholder<float>({});
  Output y = x;
  for (int i = 0; i < 10; ++i)
    y = Build("OwnOpsTestBadAsync", {y}, {{"how", "calls done again"}});
  Session session(graph_);
  for (int step = 0; step < 20; ++step) {
    const Result<Tensor> got = session.Run({{x, Tensor::Scalar(3.0f)}}, y);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->scalar<float>(), 3.0f);
  }
}

// ---- Forms of a kernel ------------------------------------------------------

// Multiplies by attribute "by": by its kernel, in blocks and as a scalar.
struct Scale {
  explicit Scale(const Node& n) : by(n.AttrOr<float>("by", 0)) {}
  const float by;
  static inline std::atomic<int> runs{0}, blocks{0}, scalars{0};
};
Status RunScale(KernelContext& ctx) {
  ++Scale::runs;
  const Tensor x = ctx.input(0);
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, x.dtype(), x.shape()));
  const auto from = x.flat<float>();
  const auto to = ctx.output(0).flat<float>();
  for (size_t i = 0; i < from.size(); ++i)
    to[i] = from[i] * ctx.state<Scale>().by;
  return OkStatus();
}
bool ScaleScalar(uint64_t* registers, Tensor*, const ScalarPlaces& at) {
  ++Scale::scalars;
  float x;
  std::memcpy(&x, registers + at.in[0], sizeof(x));
  x *= static_cast<const Scale*>(at.state)->by;
  std::memcpy(registers + at.out, &x, sizeof(x));
  return true;
}
bool ScaleBlock(const void* state, const void* const* in, uint32_t, void* out,
                int64_t n) {
  ++Scale::blocks;
  const auto* x = static_cast<const float*>(in[0]);
  auto* y = static_cast<float*>(out);
  for (int64_t i = 0; i < n; ++i)
    y[i] = x[i] * static_cast<const Scale*>(state)->by;
  return true;
}
SLUICE_OP(OwnOpsTestScale)
    .Input("x: float")
    .Output("y: float")
    .Attr("by: float")
    .Shape(UnchangedShape)
    .Kernel([](const Node& n, Kernel* k) {
      k->state = std::make_shared<Scale>(n);
      k->run = RunScale;
      k->scalar = ScaleScalar;
      return OkStatus();
    });
const BlockFormRegistrar scale_form(
    [](const Node&, const Kernel& k) -> std::optional<BlockForm> {
      if (k.run != RunScale) return std::nullopt;
      return BlockForm{.fn = ScaleBlock};
    });

TEST_F(OwnOpsTest, KernelKeepsItsStateInEveryExecutionMode) {
  const auto scale = [](Output x, float by) {
    return Build("OwnOpsTestScale", {x}, {{"by", by}});
  };
  const Output rows = Placeholder<float>({1 << 16});
  const Output many = scale(scale(rows + 1, 3) * 2, 5);
  Tensor ones = *Tensor::Make(DType::kFloat, Shape({1 << 16}));
  for (float& f : ones.flat<float>()) f = 1;
  const Output x = Placeholder<float>({});
  const Output once = scale(x + 1, 3);
  const Output looped = While(
      x, [](Output v) { return v < 100; },
      [&](Output v) { return scale(v, 7) + 1; });
  for (const SessionOptions& options : AllKindsOfSession()) {
    Session session(graph_, options);
    Scale::runs = Scale::blocks = Scale::scalars = 0;
    Result<Tensor> got = session.Run({{rows, ones}}, many);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT(got->ToVector<float>(), Each(60));
    EXPECT_EQ(Scale::blocks > 0, options.fusion);
    EXPECT_EQ(Scale::runs > 0, !options.fusion);
    for (const auto& [y, want] : {std::pair(once, 6.0f), {looped, 400.0f}}) {
      got = session.Run({{x, Tensor::Scalar(1.0f)}}, y);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(got->scalar<float>(), want);
    }
    EXPECT_EQ(Scale::scalars > 0,
              options.regions && options.scheduler_seed == 0);
  }
}

// ---- Declarations -----------------------------------------------------------

namespace first {
SLUICE_OP(OwnOpsTestTwice).Output("y: float").Shape(ScalarShape);
}  // namespace first
namespace second {
SLUICE_OP(OwnOpsTestTwice).Output("y: int32").Shape(ScalarShape);
}  // namespace second
SLUICE_OP(OwnOpsTestMisspelt).Input("x: flaot");
SLUICE_OP(OwnOpsTestBadDefault).Attr("n: int >= 2 = 1").Shape(NoOutputs);
SLUICE_OP(OwnOpsTestNoKernel).Output("y: float").Shape(ScalarShape);
SLUICE_OP(OwnOpsTestEmptyKernel)
    .Output("y: float")
    .Shape(ScalarShape)
    .Kernel([](const Node&, Kernel*) { return OkStatus(); });
SLUICE_OP(OwnOpsTestThrowingMaker)
    .Output("y: float")
    .Shape(ScalarShape)
    .Kernel([](const Node&, Kernel*) -> Status {
      throw std::runtime_error("out of kernels");
    });
template <typename T>
struct Zero {
  static Status Run(KernelContext& ctx) {
    ctx.set_output(0, Tensor::Scalar(T{}));
    return OkStatus();
  }
};
SLUICE_OP(OwnOpsTestFewTypes)
    .Output("y: T")
    .Attr("T: {float, double, int32}")
    .Shape(ScalarShape)
    .Kernel(CpuFor<Zero, float, double>("T"));
SLUICE_OP(OwnOpsTestShape)
    .Input("x: float")
    .Output("y: float")
    .Attr("how: string")
    .Shape([](ShapeContext& c) -> Status {
      const auto how = c.node().AttrOr<std::string>("how", "");
      if (how == "throws") throw std::runtime_error("out of shapes");
      if (how == "one more") c.set_output(1, c.input(0));
      return how == "error" ? InvalidArgument("x: expected a prime, got 4")
                            : OkStatus();
    });

// (Every op that is not the library's own is checked on every run.)
TEST_F(OwnOpsTest, OnlyBuiltInOpsAreMarkedAsOwn) {
  for (const OpDef* op : OpRegistry::Global()->All())
    EXPECT_EQ(op->own, op->name.rfind("OwnOpsTest", 0) != 0) << op->name;
}

TEST_F(OwnOpsTest, InvalidDeclarationFailsAtBuildTime) {
  const auto told = [](const std::string& op, AttrMap attrs = {},
                       std::vector<Output> inputs = {}) {
    Graph graph;
    const WithGraph use(graph);
    if (op == "OwnOpsTestShape") inputs = {Placeholder<float>({2})};
    EXPECT_EQ(Build(op, inputs, std::move(attrs), "bad").node, nullptr);
    const std::string message(graph.status().message());
    EXPECT_THAT(message, HasSubstr("node 'bad' (" + op + ") at "));
    return message;
  };
  EXPECT_THAT(told("OwnOpsTestTwice"),
              HasSubstr("op 'OwnOpsTestTwice': expected one declaration"));
  EXPECT_THAT(told("OwnOpsTestMisspelt"),
              HasSubstr("declaration 'x: flaot': unknown type"));
  EXPECT_THAT(told("OwnOpsTestBadDefault"), HasSubstr("attribute 'n'"));
  EXPECT_THAT(told("OwnOpsTestShape", {{"how", "throws"}}),
              HasSubstr("shape function: expected no exception, got 'out of "
                        "shapes'"));
  EXPECT_THAT(told("OwnOpsTestShape", {{"how", "one more"}}),
              HasSubstr("shape function: expected one of 1 outputs"));
  EXPECT_THAT(told("OwnOpsTestShape", {{"how", "error"}}),
              HasSubstr("x: expected a prime, got 4"));
}

TEST_F(OwnOpsTest, KernelCreationErrorNamesItsNode) {
  const auto told = [](const std::string& op, AttrMap attrs = {}) {
    Graph graph;
    const WithGraph use(graph);
    const Output y = Build(op, {}, std::move(attrs), "bad");
    EXPECT_TRUE(graph.status().ok()) << graph.status();
    const std::string message(Session(graph).Run(y).status().message());
    EXPECT_THAT(message, HasSubstr("node 'bad' (" + op + ") at "));
    return message;
  };
  EXPECT_THAT(told("OwnOpsTestNoKernel"),
              HasSubstr("no kernel: expected an op that declares one"));
  EXPECT_THAT(told("OwnOpsTestEmptyKernel"),
              HasSubstr("expected one of run and run_async, got neither"));
  EXPECT_THAT(told("OwnOpsTestThrowingMaker"),
              HasSubstr("kernel maker: expected no exception, got 'out of "
                        "kernels'"));
  EXPECT_THAT(told("OwnOpsTestFewTypes", {{"T", DType::kInt32}}),
              HasSubstr("expected a type that OwnOpsTestFewTypes computes "
                        "(float, double), got int32"));
}

// ---- Passes -----------------------------------------------------------------

TEST_F(OwnOpsTest, FoldedNodeErrorNamesOriginalOp) {
  Output sum;
  {
    const DeviceScope nowhere("/job:nowhere");
    sum = ops::AddV2(Output(Constant(1.0f)), Output(Constant(2.0f)),
                     {.name = "sum"});
  }
  Session session(graph_);
  EXPECT_THAT(std::string(session.Run(sum).status().message()),
              HasSubstr("node 'sum' (AddV2) at "));
}

}  // namespace
}  // namespace sluice
