// Regions give the same results as their separate nodes: the same numbers, the
// same errors, and the same end of a step.
#include "exec/fusion/regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/control/loops.h"
#include "client/operators.h"
#include "passes/lower_functional.h"
#include "passes/passes.h"
#include "session/session.h"
#include "session/testing/same_bits_test_util.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using namespace ops;  // NOLINT: a program of the graph reads like one.

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Output FeedOf(DType t, PartialShape shape = PartialShape::Scalar()) {
  return Build("Placeholder", {}, {{"dtype", t}, {"shape", shape}});
}
Output Int(int v) { return Constant<int32_t>(v); }

class RegionsTest : public ::testing::Test {
 protected:
  RegionsTest() : use_(graph_) {}

  // Runs with regions and without, and expects the same.
  std::vector<Tensor> Both(const Feeds& feeds,
                           const std::vector<Output>& fetches) {
    SessionOptions off;
    off.regions = false;
    return SameBits(graph_, off, feeds, fetches);
  }
  Status Error(const Feeds& feeds, const Output& fetch,
               RunOptions options = {}) {
    Session session(graph_);
    return session.Run(feeds, std::vector<Output>{fetch}, {}, options).status();
  }

  // The ops of the plan's graph, once regions are formed.
  std::multiset<std::string> OpsOf(const std::vector<Output>& feeds,
                                   const std::vector<Output>& fetches) {
    auto pruned = Prune(graph_, {feeds, fetches, {}});
    EXPECT_TRUE(pruned.ok()) << pruned.status();
    return Formed(pruned->get());
  }
  static std::multiset<std::string> Formed(Graph* g) {
    auto formed =
        FormRegions(g,
                    [](const Node& n) -> Result<std::shared_ptr<Kernel>> {
                      auto k = std::make_shared<Kernel>();
                      SLUICE_RETURN_IF_ERROR(n.op().kernel(n, k.get()));
                      return k;
                    },
                    {});
    EXPECT_TRUE(formed.ok()) << formed.status();
    const auto gone = DropUnread(g, {});
    std::multiset<std::string> ops;
    for (const auto& n : g->nodes()) ops.insert(n->op_name());
    return ops;
  }

  Graph graph_;
  WithGraph use_;
};

TEST_F(RegionsTest, ScalarChainBecomesOneNode) {
  const Output x = FeedOf(DType::kFloat);
  Output y = x;
  for (int i = 0; i < 20; ++i) y = y + x;
  const auto ops = OpsOf({x}, {y});
  EXPECT_EQ(ops.count("_Region"), 1u);
  EXPECT_EQ(ops.count("AddV2"), 0u);
  EXPECT_EQ(Both({{x, Tensor::Scalar(2.f)}}, {y})[0].scalar<float>(), 42.f);
}

// What waits for a product waits for the one before it too.
TEST_F(RegionsTest, SlowNodesInARowCountAsTheLastOne) {
  const Output x = FeedOf(DType::kFloat, {-1, -1});
  const Output first = MatMul(x, x), second = MatMul(first, x);
  const Output y = Neg(first + second) + Neg(second);
  const auto ops = OpsOf({x}, {y});
  EXPECT_EQ(ops.count("_Region"), 1u);
  EXPECT_EQ(ops.count("MatMul"), 2u);
  EXPECT_EQ(ops.count("Neg"), 0u);
  const Tensor two = Tensor::Of<float>({1, 1}, {2});
  EXPECT_EQ(Both({{x, two}}, {y})[0].raw<float>()[0], -20);
}

TEST_F(RegionsTest, CheapLoopBecomesOneNode) {
  const Output n = FeedOf(DType::kInt32);
  const std::vector<Output> out = While(
      std::vector<Output>{Int(0), Int(0)},
      [&](const std::vector<Output>& v) { return Less(v[0], n); },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{v[0] + 1, v[1] + v[0]};
      });
  const auto ops = OpsOf({n}, {out[1]});
  EXPECT_EQ(ops.count("_Region"), 1u);
  EXPECT_EQ(ops.count("Merge"), 0u);
  EXPECT_EQ(Both({{n, Tensor::Scalar(10)}}, {out[1]})[0].scalar<int>(), 45);
  EXPECT_EQ(Both({{n, Tensor::Scalar(0)}}, {out[0]})[0].scalar<int>(), 0);
}

// A function that calls itself runs in a frame of its own; what is cheap in it
// and around it is planned ahead as elsewhere.
TEST_F(RegionsTest, AreFormedInStepsWithRecursiveCalls) {
  const Output n = FeedOf(DType::kInt32);
  const Function triangle =
      DefineFunction("triangle", {DType::kInt32}, {DType::kInt32},
                     [](const Function& self, const std::vector<Output>& a) {
                       return Cond(
                           a[0] < 1, [&] { return Int(0); },
                           [&] {
                             const auto [i, sum] = While(
                                 std::tuple{Int(0), Int(0)},
                                 [&](Output i, Output) { return i < a[0]; },
                                 [](Output i, Output sum) {
                                   return std::tuple{i + 1, sum + i};
                                 });
                             return sum + self({a[0] - 1})[0];
                           });
                     },
                     {.arg_shapes = {PartialShape::Scalar()}});
  const Output y = triangle({n})[0] * 2 + n - 1;
  auto pruned = Prune(graph_, {{n}, {y}, {}});
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  ASSERT_TRUE(LowerFunctional(pruned->get(), graph_).ok());
  const auto ops = Formed(pruned->get());
  EXPECT_EQ(ops.count("_Call"), 2u);
  EXPECT_GE(ops.count("_Region"), 2u);  // The loop, and what follows the call.
  EXPECT_EQ(ops.count("NextIteration"), 0u);
  EXPECT_EQ(Both({{n, Tensor::Scalar(5)}}, {y})[0].scalar<int>(), 44);
}

// A branch reads what its loop or its recursion holds anyway past the Switch;
// one Switch still tells that the branch is taken.
TEST_F(RegionsTest, BranchesReadHeldValuesPastTheirSwitches) {
  const Output x = FeedOf(DType::kFloat, {2, 2}),
               w = FeedOf(DType::kFloat, {2, 2}), n = FeedOf(DType::kInt32);
  const DType f32 = DType::kFloat;
  const Function power = DefineFunction(
      "power", {f32, f32, DType::kInt32}, {f32},
      [](const Function& self, const std::vector<Output>& a) {
        return Cond(
            a[2] < 1, [&] { return a[0]; },
            [&] {
              return self({MatMul(a[0], a[1]), a[1], a[2] - 1})[0];
            });
      },
      {.arg_shapes = {PartialShape({2, 2}), PartialShape({2, 2}),
                      PartialShape::Scalar()}});
  const auto [i, sum] = While(
      std::tuple{Int(0), x}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output sum) {
        return std::tuple{i + 1, Cond(
                                     Equal(FloorMod(i, Int(2)), Int(0)),
                                     [&] { return MatMul(sum, w) + w; },
                                     [&] { return sum - w; })};
      });
  const Output y = power({x, w, n})[0];
  auto pruned = Prune(graph_, {{x, w, n}, {y, sum}, {}});
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  Graph* const g = pruned->get();
  ASSERT_TRUE(LowerFunctional(g, graph_).ok());
  const auto switches = [&] {
    return std::count_if(
        g->nodes().begin(), g->nodes().end(),
        [](const auto& node) { return node->op_name() == "Switch"; });
  };
  const auto before = switches();
  ASSERT_TRUE(SkipSwitches(g).ok());
  const auto gone = DropUnread(g, {});
  // In the function that of w, which the product and the call read; in the loop
  // those of w in both branches, which are two outputs of one Switch.
  EXPECT_EQ(before - switches(), 2);
  const Feeds feeds = {{x, Tensor::Of<float>({2, 2}, {1, 2, 3, 4})},
                       {w, Tensor::Of<float>({2, 2}, {0, 1, 1, 1})},
                       {n, Tensor::Scalar(3)}};
  const auto values = Both(feeds, {y, sum});
  EXPECT_TRUE(values[0].Identical(Tensor::Of<float>({2, 2}, {5, 8, 11, 18})));
}

// Results of a function that no call's readers need are not computed; effects
// stay.
TEST_F(RegionsTest, UnreadResultsOfFunctionsAreLeftOut) {
  const Output n = FeedOf(DType::kInt32);
  const auto define = [&](const std::string& name, bool effect) {
    return DefineFunction(
        name, {DType::kInt32}, {DType::kInt32, DType::kFloat},
        [effect](const Function& self, const std::vector<Output>& a) {
          const auto [sum, other] = Cond(
              a[0] < 1,
              [&] {
                return std::tuple{Int(0), Constant(1.f)};
              },
              [&] {
                const auto inner = self({a[0] - 1});
                Output cosine = Cos(inner[1]);
                if (effect) cosine = Build("Print", {cosine, cosine});
                return std::tuple{inner[0] + a[0], cosine};
              });
          return std::vector<Output>{sum, other};
        },
        {.arg_shapes = {PartialShape::Scalar()},
         .result_shapes = {PartialShape::Scalar(), PartialShape::Scalar()}});
  };
  for (const bool effect : {false, true}) {
    const Output y = define(effect ? "prints" : "pure", effect)({n})[0];
    auto pruned = Prune(graph_, {{n}, {y}, {}});
    ASSERT_TRUE(pruned.ok()) << pruned.status();
    Graph* const g = pruned->get();
    ASSERT_TRUE(LowerFunctional(g, graph_).ok());
    const auto dropped = DropUnreadResults(g, {});
    ASSERT_TRUE(dropped.ok()) << dropped.status();
    EXPECT_EQ(
        std::any_of(dropped->begin(), dropped->end(),
                    [](const auto& node) { return node->op_name() == "Cos"; }),
        !effect);
    EXPECT_EQ(Both({{n, Tensor::Scalar(4)}}, {y})[0].scalar<int>(), 10);
  }
}

// A ControlTrigger fires in every iteration, also in the last, and still orders
// what is before and after it within one.
TEST_F(RegionsTest, AControlTriggerOrdersTheBodyOfALoop) {
  const Output n = FeedOf(DType::kInt32);
  const Output handle =
      Build("VarHandleOp", {},
            {{"dtype", DType::kInt32}, {"shape", PartialShape::Scalar()}});
  const auto [i, sum] = While(
      std::tuple{Int(0), Int(0)}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output sum) {
        const Output odd = i * 2 + 1;
        Node* const written = BuildNode("AssignVariableOp", {handle, odd});
        Node* trigger = nullptr;
        {
          const ControlDependencies after({written});
          trigger = BuildNode("ControlTrigger", {});
        }
        // (By `odd` the read is of the body, not of each iteration.)
        const ControlDependencies after({trigger, odd.node});
        const Output read =
            Build("ReadVariableOp", {handle}, {{"dtype", DType::kInt32}});
        return std::tuple{i + 1, sum + read};
      },
      {.parallel_iterations = 1});
  ASSERT_TRUE(sum.valid()) << graph_.status();
  EXPECT_EQ(OpsOf({n}, {sum}).count("NextIteration"), 0u);
  // 1 + 3 + ... + 19.
  EXPECT_EQ(Both({{n, Tensor::Scalar(10)}}, {sum})[0].scalar<int>(), 100);
}

// A loop constant that is dead where the loop runs makes only its readers dead.
TEST_F(RegionsTest, ADeadLoopConstantDoesNotEndALoop) {
  const Output p = FeedOf(DType::kBool), x = FeedOf(DType::kInt32);
  const Output dead(Build("Switch", {x, p}).node, 1);
  const auto enter = [](Output o, bool constant) {
    return Build("Enter", {o},
                 {{"frame_name", "loop"}, {"is_constant", constant}});
  };
  const Output a = OpenMerge(enter(x, false));
  const Output again = Build("LoopCond", {a < 0});
  const Output s = Build("Switch", {a, again});
  CloseMerge(a,
             Build("NextIteration", {Output(s.node, 1) + enter(dead, true)}));
  const Output out = Build("Exit", {s});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const Feeds feeds = {{p, Tensor::Scalar(false)}, {x, Tensor::Scalar(5)}};
  EXPECT_EQ(Both(feeds, {out})[0].scalar<int>(), 5);
}

// A node must not wait for a slow one that it does not need.
TEST_F(RegionsTest, NodesBehindDifferentSlowNodesAreNotJoined) {
  const Output x = FeedOf(DType::kFloat, PartialShape({200, 200}));
  const Output early = Neg(Abs(Sum(x, {0, 1})));
  const Output a = MatMul(x, x), b = MatMul(x, a);
  const Output on_a = Neg(Abs(Squeeze(Slice(a, {0, 0}, {1, 1}))));
  const Output on_b = Neg(Abs(Squeeze(Slice(b, {0, 0}, {1, 1}))));
  const auto ops = OpsOf({x}, {early, on_a, on_b});
  EXPECT_GE(ops.count("_Region"), 2u);
  EXPECT_EQ(ops.count("MatMul"), 2u);
}

TEST_F(RegionsTest, LoopVariablesAreUpdatedSimultaneously) {
  const Output n = FeedOf(DType::kInt32);
  // Fibonacci, and a rotation of three variables with one constant.
  const std::vector<Output> out = While(
      std::vector<Output>{Int(0), Int(0), Int(1), Int(7), Int(8), Int(9),
                          Int(5)},
      [&](const std::vector<Output>& v) { return Less(v[0], n); },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{v[0] + 1, v[2], v[1] + v[2], v[4],
                                   v[5],     v[3], v[6]};
      });
  const auto t = Both({{n, Tensor::Scalar(10)}}, out);
  EXPECT_EQ(t[1].scalar<int>(), 55);
  EXPECT_EQ(t[3].scalar<int>(), 8);
  EXPECT_EQ(t[6].scalar<int>(), 5);
}

TEST_F(RegionsTest, LoopTensorsAreNotOverwrittenWhileRead) {
  const Output n = FeedOf(DType::kInt32);
  const Output x = FeedOf(DType::kFloat, PartialShape({4}));
  const Output w = Mul(x, Constant(2.f));
  const std::vector<Output> out = While(
      std::vector<Output>{Int(0), x, w, x},
      [&](const std::vector<Output>& v) { return Less(v[0], n); },
      [&](const std::vector<Output>& v) {
        const Output next = Mul(v[1], v[1]) + w;
        return std::vector<Output>{v[0] + 1, next - v[2], v[3], v[2]};
      });
  const Tensor fed = Tensor::Vector<float>({0.1f, 0.2f, -0.3f, 0.4f});
  const Tensor copy = *fed.Clone();
  for (int steps : {0, 1, 2, 7})
    Both({{n, Tensor::Scalar(steps)}, {x, fed}}, out);
  EXPECT_TRUE(fed.Identical(copy));
}

// Also if the variable is read after the loop.
TEST_F(RegionsTest, LoopAccumulatorIsUpdatedInPlace) {
  const Output n = FeedOf(DType::kInt32);
  const Output x = FeedOf(DType::kFloat, PartialShape({4, 4}));
  const std::vector<Output> out = While(
      std::vector<Output>{Int(0), x, Neg(x)},
      [&](const std::vector<Output>& v) { return Less(v[0], n); },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{v[0] + 1, MatMulAdd(x, x, v[1]), v[2] + x};
      });
  const std::vector<Output> fetches = {out[1], out[2]};
  Tensor t(DType::kFloat, sluice::Shape({4, 4}));
  for (int i = 0; i < 16; ++i) t.data<float>()[i] = static_cast<float>(i % 5);
  Session session(graph_);
  const auto allocations = [&](int times) {
    const int64_t before = Allocator::Cpu()->stats().allocations;
    const auto got = session.Run({{n, Tensor::Scalar(times)}, {x, t}}, fetches);
    EXPECT_TRUE(got.ok()) << got.status();
    if (got.ok()) {
      EXPECT_EQ((*got)[1].data<float>()[3], static_cast<float>(3 * times - 3));
    }
    return Allocator::Cpu()->stats().allocations - before;
  };
  EXPECT_EQ(allocations(2), allocations(200));
  Both({{n, Tensor::Scalar(5)}, {x, t}}, fetches);
  Both({{n, Tensor::Scalar(0)}, {x, t}}, fetches);
}

TEST_F(RegionsTest, ConditionalsAndLoopsNest) {
  const Output n = FeedOf(DType::kInt32);
  const std::vector<Output> out = While(
      std::vector<Output>{Int(0), Int(0), Constant(1.f)},
      [&](const std::vector<Output>& v) { return Less(v[0], n); },
      [&](const std::vector<Output>& v) {
        const Output three = Equal(FloorMod(v[0], 3), 0);
        const Output five = Equal(FloorMod(v[0], 5), 0);
        const std::vector<Output> c = Cond(
            three,
            [&] {
              const Output inner = Cond(
                  five, [&] { return v[1] + 100; },
                  [&] {
                    return While(
                        std::vector<Output>{Int(0), v[1]},
                        [&](const std::vector<Output>& u) {
                          return Less(u[0], v[0]);
                        },
                        [&](const std::vector<Output>& u) {
                          return std::vector<Output>{u[0] + 1, u[1] + n};
                        })[1];
                  });
              return std::vector<Output>{inner, v[2]};
            },
            [&] {
              return std::vector<Output>{v[1] - 1, Mul(v[2], Constant(1.5f))};
            });
        return std::vector<Output>{v[0] + 1, c[0], c[1]};
      });
  EXPECT_EQ(OpsOf({n}, out).count("Switch"), 0u);
  for (int steps : {0, 1, 4, 17, 40}) Both({{n, Tensor::Scalar(steps)}}, out);
}

TEST_F(RegionsTest, ErrorNamesNodeLoopAndIteration) {
  const Output n = FeedOf(DType::kInt32);
  const std::vector<Output> out = While(
      std::vector<Output>{Int(-3), Int(0)},
      [&](const std::vector<Output>& v) { return Less(v[0], n); },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{
            v[0] + 1, Build("FloorDiv", {n, v[0]}, {}, "quotient")};
      });
  const Status s = Error({{n, Tensor::Scalar(9)}}, out[1]);
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), HasSubstr("division by zero"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("quotient' (FloorDiv)"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("regions_test.cc"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("iteration 3"));
  EXPECT_THAT(std::string(s.message()), ::testing::Not(HasSubstr("_Region")));
}

TEST_F(RegionsTest, EndlessLoopEndsAtDeadlineOrClose) {
  const Output n = FeedOf(DType::kInt32);
  const Output out = While(
      std::vector<Output>{Int(0)},
      [&](const std::vector<Output>&) { return Less(Int(0), n); },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{v[0] + 1};
      })[0];
  RunOptions options;
  options.timeout_ms = 30;
  const Status s = Error({{n, Tensor::Scalar(1)}}, out, options);
  EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("iteration"));

  Session session(graph_);
  std::thread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(session.Close().ok());
  });
  const Status closed = session.Run({{n, Tensor::Scalar(1)}}, out).status();
  closer.join();
  EXPECT_EQ(closed.code(), StatusCode::kCancelled) << closed;
}

TEST_F(RegionsTest, NonScalarPredicateIsAnError) {
  const Output p = FeedOf(DType::kBool, PartialShape::Unknown());
  const Output n = FeedOf(DType::kInt32);
  const std::vector<Output> out = While(
      std::vector<Output>{Int(0), Int(0)},
      [&](const std::vector<Output>& v) { return Less(v[0], n); },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{
            v[0] + 1, Cond(
                          p, [&] { return v[1] + 2; }, [&] { return v[1]; })};
      });
  const Feeds good = {{n, Tensor::Scalar(3)}, {p, Tensor::Scalar(true)}};
  EXPECT_EQ(Both(good, {out[1]})[0].scalar<int>(), 6);
  const Status s =
      Error({{n, Tensor::Scalar(3)}, {p, Tensor::Vector<bool>({true, false})}},
            out[1]);
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("bool scalar"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("regions_test.cc"));
}

TEST_F(RegionsTest, LoopVariablesMayChangeShape) {
  const Output n = FeedOf(DType::kInt32);
  WhileOptions options;
  options.shape_invariants = {PartialShape::Scalar(), PartialShape::Unknown()};
  const std::vector<Output> out = While(
      std::vector<Output>{Int(0), Constant(3.f)},
      [&](const std::vector<Output>& v) { return Less(v[0], n); },
      [&](const std::vector<Output>& v) {
        const Output row = Reshape(v[1], {-1});
        return std::vector<Output>{v[0] + 1,
                                   Build("ConcatV2", {row, row, Int(0)})};
      },
      options);
  EXPECT_EQ(Both({{n, Tensor::Scalar(4)}}, {out[1]})[0].num_elements(), 16);
  EXPECT_EQ(Both({{n, Tensor::Scalar(0)}}, {out[1]})[0].rank(), 0);
}

// ---- Dependencies of regions ------------------------------------------------

TEST_F(RegionsTest, ChainedConstantWaitsForTransitiveControlInputs) {
  const Output x = FeedOf(DType::kFloat);
  const Output first = Exp(Neg(x));
  Output a = first, b = first;
  for (int layer = 0; layer < 40; ++layer) {  // 2^40 paths back.
    ControlDependencies after({a.node, b.node});
    a = Constant(2.f);
    b = Constant(3.f);
  }
  const Output y = Neg(a) * first;
  const std::vector<Tensor> out =
      Both({{x, Tensor::Scalar<float>(0)}}, {y, first, a});
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].scalar<float>(), -2.f);
}

TEST_F(RegionsTest, LoopCondOutsideLoopKeepsDependencies) {
  const Output x = FeedOf(DType::kFloat);
  const Output p = Neg(x), q = Exp(p);
  Output condition;
  {
    ControlDependencies after({q.node});
    condition = LoopCond(Less(p, q));
  }
  const Output y = LogicalNot(LogicalNot(condition));
  EXPECT_TRUE(Both({{x, Tensor::Scalar<float>(1)}}, {y, q})[0].scalar<bool>());
}

TEST_F(RegionsTest, ArrayReadWaitsForWrites) {
  const Output x = FeedOf(DType::kFloat);
  Node* array = BuildNode("TensorArrayV3", {Int(2)},
                          {{"dtype", DType::kFloat},
                           {"element_shape", PartialShape::Scalar()},
                           {"clear_after_read", false}});
  const std::vector<Output> out = While(
      std::vector<Output>{Int(0), Output(array, 1)},
      [](const std::vector<Output>& v) { return v[0] < 2; },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{
            v[0] + 1, Build("TensorArrayWriteV3",
                            {Output(array, 0), v[0], Tanh(x * 3.f), v[1]})};
      });
  // (An unwritten item would be zero.)
  const Output item =
      Build("TensorArrayReadV3", {Output(array, 0), Int(0), out[1]},
            {{"dtype", DType::kFloat}});
  const Output y = Exp(Neg(item));
  EXPECT_LT(Both({{x, Tensor::Scalar<float>(1)}}, {y})[0].scalar<float>(),
            0.5f);
}

TEST_F(RegionsTest, FrameErrorsNameTheUsersNodes) {
  const Output x = FeedOf(DType::kFloat);
  Output inner, next;
  const std::vector<Output> out = While(
      std::vector<Output>{Int(0), x},
      [](const std::vector<Output>& v) { return v[0] < 3; },
      [&](const std::vector<Output>& v) {
        inner = v[1] * 2.f;
        next = v[0] + 1;
        return std::vector<Output>{next, inner + 1.f};
      });
  const std::pair<Output, Tensor> one = {x, Tensor::Scalar<float>(1)};
  const auto message = [](const Status& s) { return std::string(s.message()); };
  EXPECT_THAT(message(Error({one}, inner)), HasSubstr("got '" + inner.name()));
  EXPECT_THAT(message(Error({one, {inner, Tensor::Scalar<float>(1)}}, out[1])),
              HasSubstr("the fed '" + inner.name() + "' in the root"));
  // The loop's next value is fetched from outside.
  EXPECT_THAT(message(Error({one, {next, Tensor::Scalar(7)}}, out[1])),
              HasSubstr("NextIteration: expected to be inside a frame"));
}

TEST_F(RegionsTest, CancelledLoopReportsTheReason) {
  const Output zero = FeedOf(DType::kInt32);
  const std::vector<Output> out = While(
      std::vector<Output>{Int(0)},
      [](const std::vector<Output>& v) { return v[0] >= 0; },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{v[0] * zero};
      });
  Session session(graph_);
  Status s;
  std::thread step([&] {
    s = session.Run({{zero, Tensor::Scalar(0)}}, std::vector<Output>{out[0]})
            .status();
  });
  // There is no external sign that the step has begun. If it has not, it fails
  // because of that Close, too.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(session.Close().ok());
  step.join();
  EXPECT_THAT(std::string(s.message()), HasSubstr("session")) << s;
}

TEST_F(RegionsTest, FetchFromDeadLoopNamesTheFetchedNode) {
  const Output p = FeedOf(DType::kBool);
  const Output start = Switch(Int(0), p).output_true;
  const Output i = OpenMerge(Enter(start, "dead"));
  const Output limit = Enter(Int(3), "dead", {.is_constant = true});
  const auto [done, again] =
      Switch(i, Build("LoopCond", {Less(i, limit)}, {}, "go"));
  const Output one = Enter(Int(1), "dead", {.is_constant = true});
  CloseMerge(i, NextIteration(AddV2(again, one)));
  const Output e = Exit(done, {.name = "e"});
  EXPECT_THAT(OpsOf({p}, {e}), Contains("_Region"));
  const std::string says(
      Error({{p, Tensor::Scalar<bool>(false)}}, e).message());
  EXPECT_THAT(says, HasSubstr("got none from 'e:0', which lies in a branch"));
  EXPECT_THAT(says, HasSubstr("node 'e' (Exit)"));
  EXPECT_THAT(says, Not(HasSubstr("_Region")));
}

}  // namespace
}  // namespace sluice
