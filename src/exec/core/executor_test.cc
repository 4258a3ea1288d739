// Compares steps with plain C++, in random orders of the ready nodes.
#include "exec/core/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/op_def.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// One graph of primitives, run as a plan without a session.
class ExecutorTest : public ::testing::Test {
 protected:
  ExecutorTest() : graph_(std::make_shared<Graph>()), use_(*graph_) {}

  static Output Op(const std::string& op, std::vector<Output> in,
                   AttrMap attrs = {}) {
    return Build(op, std::move(in), std::move(attrs));
  }
  Output Arg(DType t) {
    return Op("_Arg", {}, {{"T", t}, {"index", int64_t{num_args_++}}});
  }
  void Retval(Output o) {
    BuildNode("_Retval", {o}, {{"index", int64_t{num_retvals_++}}});
  }
  static Output At(Output where, int32_t v) {
    ControlDependencies after({where.node});
    return Constant(Tensor::Scalar<int32_t>(v));
  }
  Output Enter(Output o, const std::string& frame, int parallel,
               bool constant) {
    return Op("Enter", {o},
              {{"frame_name", frame},
               {"is_constant", constant},
               {"parallel_iterations", parallel}});
  }
  template <typename Cond, typename Body>
  std::vector<Output> While(const std::string& frame, int parallel,
                            std::vector<Output> init, Cond cond, Body body) {
    std::vector<Output> merges, inside, done;
    for (Output o : init) {
      NodeSpec s;
      s.op = "Merge";
      s.inputs = {Enter(o, frame, parallel, false), Output()};
      s.pending_input_types = {o.dtype(), o.dtype()};
      Result<Node*> n = graph_->AddNode(std::move(s));
      EXPECT_TRUE(n.ok()) << n.status();
      merges.push_back(Output(*n));
    }
    Output go = Op("LoopCond", {cond(merges)});
    for (Output m : merges) {
      Node* sw = Op("Switch", {m, go}).node;
      inside.push_back(Output(sw, 1));
      done.push_back(Op("Exit", {Output(sw, 0)}));
    }
    const std::vector<Output> next = body(inside);
    for (size_t i = 0; i < merges.size(); ++i) {
      const Status s = graph_->SetBackEdge(merges[i].node, 1,
                                           Op("NextIteration", {next[i]}));
      EXPECT_TRUE(s.ok()) << s;
    }
    return done;
  }
  template <typename Then, typename Else>
  static Output Cond(Output p, Output x, Then then, Else otherwise) {
    Node* sw = Op("Switch", {x, p}).node;
    return Op("Merge", {otherwise(Output(sw, 0)), then(Output(sw, 1))});
  }

  void Compile() {
    ASSERT_TRUE(graph_->status().ok()) << graph_->status();
    auto plan =
        Plan::Build(graph_, [](const Node& n, std::shared_ptr<Kernel>* k) {
          *k = std::make_shared<Kernel>();
          return n.op().kernel(n, k->get());
        });
    ASSERT_TRUE(plan.ok()) << plan.status();
    execution_ = std::make_unique<Execution>(*plan);
  }
  // Runs one step; returns the fetched values, or its error.
  Result<std::vector<Tensor>> Step(std::vector<Tensor> feeds,
                                   uint64_t seed = 0) {
    ExecuteOptions o;
    o.scheduler_seed = seed;
    o.step.resources = &resources_;
    execution_->Start(o);
    std::vector<uint32_t> args(feeds.size());
    for (uint32_t i = 0; i < args.size(); ++i) args[i] = i;
    Status s = execution_->Run(args, feeds);
    std::vector<Tensor> out;
    for (uint32_t i = 0; s.ok() && i < execution_->plan().retvals.size(); ++i) {
      if (!execution_->result(i).valid()) s = execution_->MissingResult(i);
      out.push_back(execution_->result(i));
    }
    execution_->Finish();
    if (!s.ok()) return s;
    return out;
  }

  // while (i < n) { s = 0; for (j = 0; j < i; ++j) s += j % 2 ? k * j
  //   : (j % 3 == 0 && j > 2 ? -j : 1); total += s; ++i }
  void NestedLoops(int parallel) {
    Output n = Arg(DType::kInt32), k = Arg(DType::kInt32);
    Output zero = Constant(Tensor::Scalar<int32_t>(0));
    Output limit = Enter(n, "outer", parallel, true);
    Output factor = Enter(k, "outer", parallel, true);
    auto out = While(
        "outer", parallel, {zero, zero},
        [&](auto v) {
          return Op("Less", {v[0], limit});
        },
        [&](auto v) {
          Output bound = Enter(v[0], "inner", parallel, true);
          Output mul = Enter(factor, "inner", parallel, true);
          auto in = While(
              "inner", parallel, {At(v[0], 0), At(v[0], 0)},
              [&](auto w) {
                return Op("Less", {w[0], bound});
              },
              [&](auto w) { return Body(w, mul); });
          return std::vector<Output>{Op("AddV2", {v[0], At(v[0], 1)}),
                                     Op("AddV2", {v[1], in[1]})};
        });
    Retval(out[0]);
    Retval(out[1]);
    Compile();
  }
  std::vector<Output> Body(const std::vector<Output>& w, Output mul) {
    Output j = w[0];
    Output odd = Op("Equal", {Op("FloorMod", {j, At(j, 2)}), At(j, 1)});
    Output term = Cond(
        odd, j,
        [&](Output x) {
          return Op("Mul", {x, mul});
        },
        [&](Output x) {
          Output third = Op("Equal", {Op("FloorMod", {x, At(x, 3)}), At(x, 0)});
          Output both = Op("LogicalAnd", {third, Op("Greater", {x, At(x, 2)})});
          return Cond(
              both, x, [](Output y) { return Op("Neg", {y}); },
              [](Output y) { return Op("OnesLike", {y}); });
        });
    return {Op("AddV2", {j, At(j, 1)}), Op("AddV2", {w[1], term})};
  }
  static int32_t Plain(int32_t n, int32_t k) {
    int32_t total = 0;
    for (int32_t i = 0; i < n; ++i)
      for (int32_t j = 0; j < i; ++j)
        total += j % 2 == 1 ? k * j : (j % 3 == 0 && j > 2 ? -j : 1);
    return total;
  }
  static std::vector<Tensor> Ints(int32_t a, int32_t b) {
    return {Tensor::Scalar<int32_t>(a), Tensor::Scalar<int32_t>(b)};
  }

  std::shared_ptr<Graph> graph_;
  WithGraph use_;
  ResourceManager resources_;
  std::unique_ptr<Execution> execution_;
  int num_args_ = 0, num_retvals_ = 0;
};

class ParallelLoops : public ExecutorTest,
                      public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(ParallelIterations, ParallelLoops,
                         ::testing::Values(1, 2, 32));

TEST_P(ParallelLoops, NestedLoopsAndConditionalsMatchPlainCode) {
  NestedLoops(GetParam());
  for (int32_t n : {0, 1, 2, 3, 17}) {
    auto out = Step(Ints(n, 3));
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].scalar<int32_t>(), n);
    EXPECT_EQ((*out)[1].scalar<int32_t>(), Plain(n, 3)) << n;
  }
}

TEST_P(ParallelLoops, ExecutionOrderDoesNotChangeResults) {
  NestedLoops(GetParam());
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    auto out = Step(Ints(9, -2), seed);
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_EQ((*out)[1].scalar<int32_t>(), Plain(9, -2));
  }
}

TEST_P(ParallelLoops, MemoryDoesNotGrowWithIterations) {
  Output n = Arg(DType::kInt32);
  Output x = Arg(DType::kFloat);
  Output limit = Enter(n, "loop", GetParam(), true);
  auto out = While(
      "loop", GetParam(), {Constant(Tensor::Scalar<int32_t>(0)), x},
      [&](auto v) {
        return Op("Less", {v[0], limit});
      },
      [&](auto v) {
        return std::vector<Output>{Op("AddV2", {v[0], At(v[0], 1)}),
                                   Op("Neg", {Op("Identity", {v[1]})})};
      });
  Retval(out[1]);
  Compile();
  const Tensor value = Tensor::Vector<float>(std::vector<float>(1024, 2.f));
  auto peak = [&](int32_t iterations) {
    const int64_t live = Allocator::Cpu()->stats().live_bytes;
    Allocator::Cpu()->ResetPeak();
    {
      auto got = Step({Tensor::Scalar<int32_t>(iterations), value});
      EXPECT_TRUE(got.ok()) << got.status();
      if (got.ok()) {
        EXPECT_EQ((*got)[0].data<float>()[0], 2);
      }
    }
    EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, live);
    return Allocator::Cpu()->stats().peak_bytes - live;
  };
  peak(10);
  EXPECT_LE(peak(100'000), int64_t{GetParam() + 3} * 4096 + 4096);
}

TEST_F(ExecutorTest, StepSucceedsAfterErrorInLoop) {
  Output n = Arg(DType::kInt32), d = Arg(DType::kInt32);
  Output limit = Enter(n, "loop", 4, true), by = Enter(d, "loop", 4, true);
  auto out = While(
      "loop", 4,
      {Constant(Tensor::Scalar<int32_t>(0)),
       Constant(Tensor::Scalar<int32_t>(0))},
      [&](auto v) {
        return Op("Less", {v[0], limit});
      },
      [&](auto v) {
        Output q = Op("FloorDiv", {At(v[0], 12), Op("Sub", {by, v[0]})});
        return std::vector<Output>{Op("AddV2", {v[0], At(v[0], 1)}),
                                   Op("AddV2", {v[1], q})};
      });
  Retval(out[1]);
  Compile();
  for (uint64_t seed = 0; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    auto bad = Step(Ints(8, static_cast<int32_t>(seed % 8)), seed);
    EXPECT_EQ(bad.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(
        bad.status().ToString(),
        ::testing::AllOf(HasSubstr("FloorDiv"), HasSubstr("frame 'loop'")));
    auto good = Step(Ints(3, 3), seed);
    ASSERT_TRUE(good.ok()) << good.status();
    EXPECT_EQ((*good)[0].scalar<int32_t>(), 4 + 6 + 12);
  }
}

TEST_F(ExecutorTest, CancellationBeforeRunIsNotLost) {
  Retval(Op("Neg", {Arg(DType::kFloat)}));
  Compile();
  ExecuteOptions o;
  execution_->Start(o);
  execution_->Cancel(Cancelled("enough"));
  const uint32_t arg = 0;
  const Tensor v = Tensor::Scalar<float>(1);
  EXPECT_EQ(execution_->Run({&arg, 1}, {&v, 1}).code(), StatusCode::kCancelled);
  execution_->Finish();
  execution_->Cancel(Cancelled("nothing runs"));
  auto out = Step({v});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), -1);
}

}  // namespace
}  // namespace sluice
