// Traits of ops: an op of the program is treated as it declares, whatever its
// name. (Traits that one pass alone uses are tested with that pass.)
#include <atomic>
#include <map>

#include "client/control/functions.h"
#include "exec/core/kernel.h"
#include "graph/graphdef.h"
#include "graph/shape_context.h"
#include "session/testing/fusion_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// ---- Kinds ------------------------------------------------------------------

// x + y for a matrix x and a vector y of its rows' length.
Status RunPlusVector(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &y = ctx.input(1);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, x.dtype(), x.shape()));
  const auto a = x.flat<float>(), b = y.flat<float>();
  const auto sum = ctx.output(0).flat<float>();
  for (size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i % b.size()];
  return OkStatus();
}
OpDefBuilder PlusVector(const char* name) {
  return OpDefBuilder(name)
      .Input("x: float")
      .Input("y: float")
      .Output("z: float")
      .Shape([](ShapeContext& c) -> Status {
        c.set_output(0, c.input(0));
        return OkStatus();
      })
      .Kernel(Cpu(RunPlusVector));
}
const OpRegistrar kPluses[] = {
    PlusVector("OwnOpsTestPlus").Kind(OpKind::kAdd),
    PlusVector("OwnOpsTestOtherPlus"),
};

using OpKinds = FusionTest;

TEST_F(OpKinds, AProductIsFusedWithAnOwnOpOfTheKindOfAdd) {
  const Output x = Feed(DType::kFloat, {4, 3}), w = Feed(DType::kFloat, {3, 5}),
               b = Feed(DType::kFloat, {5});
  const Feeds feeds = {
      {x, Random({4, 3})}, {w, Random({3, 5})}, {b, Random({5})}};
  for (const bool of_kind : {true, false}) {
    const Output y = Build(
        "Identity", {Build(of_kind ? "OwnOpsTestPlus" : "OwnOpsTestOtherPlus",
                           {Build("MatMul", {x, w}), b})});
    Both(feeds, {y});
    const std::string nodes = Nodes(feeds, {y});
    const std::string fused = "(_FusedMatMul)";
    if (of_kind) {
      EXPECT_THAT(nodes, HasSubstr(fused));
    } else {
      EXPECT_THAT(nodes, Not(HasSubstr(fused)));
    }
  }
}

// ---- Facts ------------------------------------------------------------------

class OpFactsTest : public ::testing::Test {
 protected:
  OpFactsTest() : use_(graph_) {}
  Graph graph_;
  WithGraph use_;
};

// Returns how often this kernel has run.
class CountingKernel {
 public:
  explicit CountingKernel(const Node&) {}
  Status Run(KernelContext& ctx) {
    ctx.set_output(0, Tensor::Scalar<int32_t>(++runs_));
    return OkStatus();
  }

 private:
  std::atomic<int32_t> runs_{0};
};
OpDefBuilder CountingOp(const char* name) {
  return OpDefBuilder(name)
      .Output("runs: int32")
      .Shape(ScalarShape)
      .Kernel(CpuState<CountingKernel>());
}
const OpRegistrar kCountingOps[] = {
    CountingOp("OwnOpsTestCounts").Stateful({.has_identity = true}),
    CountingOp("OwnOpsTestCountsAgain").Stateful(kDiffersEachTime),
};

TEST_F(OpFactsTest, ANodeWithAnIdentityKeepsItsKernelFromPlanToPlan) {
  const Output counts = Build("OwnOpsTestCounts", {}),
               again = Build("OwnOpsTestCountsAgain", {});
  Session session(graph_);
  for (int32_t plan = 1; plan <= 3; ++plan) {
    const Output other = Constant(plan);  // Another signature, another plan.
    const auto got = session.Run({}, {counts, again, other});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ((*got)[0].scalar<int32_t>(), plan);
    EXPECT_EQ((*got)[1].scalar<int32_t>(), 1);
  }
}

// Counts the runs of each op.
std::atomic<int> effect_runs, owner_runs;
OpDefBuilder SourceOp(const char* name, std::atomic<int>* runs) {
  return OpDefBuilder(name)
      .Output("y: float")
      .Shape(ScalarShape)
      .Kernel([runs](const Node&, Kernel* k) {
        k->state = std::shared_ptr<std::atomic<int>>(runs, [](auto*) {});
        k->run = [](KernelContext& ctx) -> Status {
          ++ctx.state<std::atomic<int>>();
          ctx.set_output(0, Tensor::Scalar(1.0f));
          return OkStatus();
        };
        return OkStatus();
      });
}
const OpRegistrar kSourceOps[] = {
    SourceOp("OwnOpsTestEffect", &effect_runs).Stateful(),
    SourceOp("OwnOpsTestOwner", &owner_runs).Stateful(kOwnsState),
};

TEST_F(OpFactsTest, AFunctionRunsWhatHasEffectsEvenIfNothingReadsIt) {
  effect_runs = owner_runs = 0;
  const Function f =
      DefineFunction("f", {DType::kFloat}, [](const std::vector<Output>& args) {
        Build("OwnOpsTestEffect", {});
        Build("OwnOpsTestOwner", {});
        return FunctionResults(args[0]);
      });
  const Output y = f({Constant(2.0f)})[0];
  Session session(graph_);
  const auto got = session.Run(y);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->scalar<float>(), 2.0f);
  EXPECT_EQ(effect_runs, 1);
  EXPECT_EQ(owner_runs, 0);
}

SLUICE_OP(OwnOpsTestBlocks)
    .Output("y: float")
    .Stateful()
    .Waits()
    .Shape(ScalarShape)
    .Kernel(Cpu([](KernelContext& ctx) -> Status {
      ctx.set_output(0, Tensor::Scalar(1.0f));
      return OkStatus();
    }));

TEST_F(OpFactsTest, AnOpThatWaitsNeedsAnAsyncKernel) {
  Session session(graph_);
  const auto got = session.Run(Build("OwnOpsTestBlocks", {}));
  EXPECT_EQ(got.status().code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(got.status().message()),
              HasSubstr("expected run_async of an op that waits, got run"));
}

TEST_F(OpFactsTest, TheFlagOfTensorFlowDoesNotDependOnTheFacts) {
  for (const char* op :
       {"RandomUniform", "GuaranteeConst", "TensorArrayV3", "AssignVariableOp",
        "StatelessRandomGetAlg", "OwnOpsTestOwner"}) {
    const OpDef* const def = OpRegistry::Global()->Find(op);
    ASSERT_NE(def, nullptr) << op;
    EXPECT_TRUE(def->stateful) << op;
  }
  // In TensorFlow the op that assigns through a reference is not stateful.
  EXPECT_FALSE(OpRegistry::Global()->Find("Assign")->stateful);
}

}  // namespace
}  // namespace sluice
