// Loops as the client builds them, run by a session.
#include <array>
#include <cmath>
#include <tuple>

#include "client/control/tensor_array.h"
#include "client/testing/control_flow_test_util.h"
#include "graph/frames.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ControlFlowTest, ALoopRunsUntilItsConditionFails) {
  auto [i, total] = While(
      std::tuple{0, 1.0f}, [&](Output i, Output) { return i < 10; },
      [&](Output i, Output x) {
        return std::tuple{i + 1, x * 2};
      });
  EXPECT_EQ(Value<int>(i), 10);
  EXPECT_EQ(Value<float>(total), 1024);
}

TEST_F(ControlFlowTest, LoopsNestThreeDeepAndCaptureThroughAllLevels) {
  const Output w = In<float>("w");
  const Output n = In<int>("n");
  const auto count = [&](auto body) {
    return [&n, body](Output x) {
      auto [i, y] = While(
          std::tuple{0, x}, [&](Output i, Output) { return i < n; },
          [&](Output i, Output v) {
            return std::tuple{i + 1, body(v)};
          });
      return y;
    };
  };
  const Output y = count(count(count([&](Output v) {
    return Cond(
        v > 100, [&] { return v + 2 * w; }, [&] { return v + w; });
  })))(Constant(0.0f));
  EXPECT_EQ(Value<float>(y, {{w, 1.5f}, {n, 3}}), 40.5f);
  EXPECT_EQ(Value<float>(y, {{w, 10.f}, {n, 3}}), 11 * 10 + 16 * 20);
  EXPECT_EQ(Value<float>(y, {{w, 1.5f}, {n, 0}}), 0);
}

TEST_F(ControlFlowTest, LoopVariablesMayHaveAnyStructure) {
  const Output one = While(
      Constant(1), [](Output x) { return x < 100; },
      [](Output x) { return x * 3; });
  EXPECT_EQ(Value<int>(one), 243);
  const std::vector<Output> list = While(
      std::vector<Output>{Constant(0), Constant(1)},
      [](const std::vector<Output>& v) { return v[1] < 50; },
      [](const std::vector<Output>& v) {
        return std::vector<Output>{v[1], v[0] + v[1]};
      });
  EXPECT_EQ(Value<int>(list[0]), 34);
  EXPECT_EQ(Value<int>(list[1]), 55);
  const auto [i, rest] = While(
      std::tuple{0, std::pair{2.0f, std::array<Output, 1>{Constant(1.0f)}}},
      [](Output i, const auto&) { return i < 3; },
      [](Output i, const auto& rest) {
        const auto& [a, b] = rest;
        return std::tuple{i + 1,
                          std::pair{a + b[0], std::array<Output, 1>{b[0] * 2}}};
      });
  EXPECT_EQ(Value<float>(rest.first), 9);
  EXPECT_EQ(Value<float>(rest.second[0]), 8);
}

TEST_F(ControlFlowTest, LoopVariablesMayHaveAnyType) {
  const auto [i, text, flag, x] = While(
      std::tuple{0, "a", Constant(false), Constant(1.5)},
      [](Output i, Output, Output, Output) { return i < 3; },
      [](Output i, Output text, Output flag, Output x) {
        return std::tuple{i + 1, text + "b", ops::LogicalNot(flag), x * x};
      });
  EXPECT_EQ(Value<std::string>(text), "abbb");
  EXPECT_TRUE(Value<bool>(flag));
  EXPECT_DOUBLE_EQ(Value<double>(x), 25.62890625);
}

TEST_F(ControlFlowTest, LoopOfZeroIterationsReturnsInitialValues) {
  const auto [i, x] = While(
      std::tuple{5, 2.5f}, [](Output i, Output) { return i < 0; },
      [](Output i, Output x) {
        return std::tuple{i + 1, x * 2};
      });
  EXPECT_EQ(Value<int>(i), 5);
  EXPECT_EQ(Value<float>(x), 2.5f);
}

TEST_F(ControlFlowTest, MaximumIterationsBoundTheLoop) {
  const Output n = In<int64_t>("n");
  for (const WhileOptions& options : {WhileOptions{.maximum_iterations = 7},
                                      WhileOptions{.maximum_iterations = n}}) {
    const Output x = While(
        Constant(0), [](Output) { return Constant(true); },
        [](Output x) { return x + 2; }, options);
    EXPECT_EQ(Value<int>(x, {{n, int64_t{7}}}), 14);
  }
  const Output stops = While(
      Constant(0), [](Output x) { return x < 6; },
      [](Output x) { return x + 2; }, {.maximum_iterations = 100});
  EXPECT_EQ(Value<int>(stops), 6);
  const Output none = While(
      Constant(3), [](Output) { return Constant(true); },
      [](Output x) { return x + 2; }, {.maximum_iterations = 0});
  EXPECT_EQ(Value<int>(none), 3);
}

TEST_F(ControlFlowTest, ACapturedTensorEntersALoopOnce) {
  const Output w = In<float>("w");
  const Output y = While(
      Constant(1.0f), [&](Output x) { return x < w; },
      [&](Output x) { return (x + w) * w + w; });
  int constants = 0;
  for (const auto& n : graph_.nodes()) constants += IsConstantEnter(*n);
  EXPECT_EQ(constants, 1);
  EXPECT_EQ(Value<float>(y, {{w, 2.0f}}), 8);
}

TEST_F(ControlFlowTest, BodyOfConstantsAndCapturesRunsOncePerIteration) {
  const Output w = In<float>("w");
  const Var count(0.0f, "count");
  const auto [i, last] = While(
      std::tuple{0, 0.0f}, [](Output i, Output) { return i < 4; },
      [&](Output i, Output) {
        // Depends on no loop variable.
        const ControlDependencies counted({count.AssignAdd(w)});
        return std::tuple{i + 1, count.Read()};
      });
  Initialize();
  EXPECT_EQ(Value<float>(last, {{w, 2.0f}}), 8);
  EXPECT_EQ(Value<float>(count), 8);
}

TEST_F(ControlFlowTest, BodyMayReturnConstantOrCapture) {
  const Output w = In<float>("w");
  const auto [i, a, b] = While(
      std::tuple{0, 1.0f, 2.0f}, [](Output i, Output, Output) { return i < 2; },
      [&](Output i, Output, Output) {
        return std::tuple{i + 1, w, 7.0f};
      });
  EXPECT_EQ(Value<float>(a, {{w, 3.0f}}), 3);
  EXPECT_EQ(Value<float>(b, {{w, 3.0f}}), 7);
}

TEST_F(ControlFlowTest, CapturedConditionIsLoopInvariant) {
  const Output p = In<bool>("p");
  const Output x = While(
      Constant(1), [&](Output) { return p; }, [](Output x) { return x + 1; },
      {.maximum_iterations = 3});
  EXPECT_EQ(Value<int>(x, {{p, false}}), 1);
  EXPECT_EQ(Value<int>(x, {{p, true}}), 4);
  const Output never = While(
      Constant(1), [&](Output) { return p; }, [](Output x) { return x + 1; });
  EXPECT_EQ(Value<int>(never, {{p, false}}), 1);
}

TEST_F(ControlFlowTest, ShapesMayVaryWithinShapeInvariants) {
  const auto [i, x] = While(
      std::tuple{0, ops::Fill(IntVector({1}), 1.0f)},
      [](Output i, Output) { return i < 3; },
      [](Output i, Output x) {
        return std::tuple{i + 1, ops::ConcatV2({x, x}, 0)};
      },
      {.shape_invariants = {{}, {-1}}});
  EXPECT_EQ(x.shape().ToString(), "[?]");
  EXPECT_EQ(Eval(x).shape().ToString(), "[8]");
}

TEST_F(ControlFlowTest, LoopStartsAfterOuterControlDependencies) {
  const Var v(1.0f, "v");
  Node* first = v.Assign(5.0f);
  Output y;
  {
    const ControlDependencies after({first});
    y = std::get<1>(While(
        std::tuple{0, 0.0f}, [](Output i, Output) { return i < 3; },
        [&](Output i, Output x) {
          return std::tuple{i + 1, x + v.Read()};
        }));
  }
  Initialize();
  EXPECT_EQ(Value<float>(y), 15);
}

TEST_F(ControlFlowTest, ControlDependenciesOnOuterNodesHoldInsideALoop) {
  const Var v(1.0f, "v");
  Node* first = v.Assign(5.0f);
  // Opened inside, two loops deep: the loops need not wait, their nodes must.
  const Output y = std::get<1>(While(
      std::tuple{0, 0.0f}, [](Output i, Output) { return i < 2; },
      [&](Output i, Output x) {
        auto [j, z] = While(
            std::tuple{0, x}, [](Output j, Output) { return j < 2; },
            [&](Output j, Output x) {
              const ControlDependencies after({first});
              return std::tuple{j + 1, x + v.Read()};
            });
        return std::tuple{i + 1, z};
      }));
  Initialize();
  EXPECT_EQ(Value<float>(y), 20);
}

TEST_F(ControlFlowTest, ControlDependenciesOrderNodesWithinABody) {
  const Var v(1.0f, "v");
  const auto [i, sum] = While(
      std::tuple{0, 0.0f}, [](Output i, Output) { return i < 4; },
      [&](Output i, Output sum) {
        const ControlDependencies after({sum.node});
        Node* doubled = v.Assign(v.Read() * 2);
        const ControlDependencies then({doubled});
        return std::tuple{i + 1, sum + v.Read()};
      });
  Initialize();
  EXPECT_EQ(Value<float>(sum), 2 + 4 + 8 + 16);
}

TEST_F(ControlFlowTest, ResourceAndReferenceVariablesAreUpdatedInBodies) {
  for (const bool reference : {false, true}) {
    const Var v(1.0f, "v", {.reference = reference});
    const Output n = While(
        Constant(0), [](Output i) { return i < 5; },
        [&](Output i) {
          const ControlDependencies after({i.node});
          const ControlDependencies updated({v.AssignAdd(2.0f)});
          return ops::AddV2(i, 1);
        });
    Initialize();
    EXPECT_EQ(Value<int>(n), 5);
    EXPECT_EQ(Value<float>(v), 11);
  }
  EXPECT_GE(CountOps("RefEnter"), 1);
}

// As in TensorFlow's Python: a reference is read by one Identity, outside.
TEST_F(ControlFlowTest, ReadAfterLoopSeesItsAssignments) {
  const Var v(1.0f, "v", {.reference = true});
  const Var w(0.0f, "w", {.reference = true});
  const Var kept(5.0f, "kept", {.reference = true});
  const Output v_read = v.Read(), kept_read = kept.Read();
  const auto add = [&](Output i) {
    const ControlDependencies updated({v.AssignAdd(2.0f)});
    const ControlDependencies added({w.AssignAdd(v_read * 10 + kept_read)});
    return ops::AddV2(i, 1);
  };
  const auto thrice = [](Output i) { return i < 3; };
  const Output n = While(Constant(0), thrice, add);
  const Output nested = While(Constant(0), thrice, [&](Output i) {
    const ControlDependencies before({i.node});
    const ControlDependencies inner({While(Constant(0), thrice, add).node});
    return ops::AddV2(i, 1);
  });
  const Output branches = While(Constant(0), thrice, [&](Output i) {
    const ControlDependencies updated({v.AssignAdd(2.0f)});
    const Output ten = Cond(
        i < 5, [&] { return v_read * 10; }, [&] { return v_read; });
    const ControlDependencies added({w.AssignAdd(ten)});
    return ops::AddV2(i, 1);
  });
  Initialize();
  EXPECT_EQ(Value<int>(n), 3);
  EXPECT_EQ(Value<float>(w), (3 + 5 + 7) * 10 + 3 * 5);
  Initialize();
  EXPECT_EQ(Value<int>(nested), 3);
  EXPECT_EQ(Value<float>(w), (3 + 19) * 9 / 2 * 10 + 9 * 5);
  Initialize();
  EXPECT_EQ(Value<int>(branches), 3);
  EXPECT_EQ(Value<float>(w), (3 + 5 + 7) * 10);
}

TEST_F(ControlFlowTest, LoopInBranchRunsOnlyIfBranchIsTaken) {
  const Output p = In<bool>("p");
  const Output x = In<float>("x");
  const Output y = Cond(
      p,
      [&] {
        return std::get<1>(While(
            std::tuple{0, x}, [](Output i, Output) { return i < 3; },
            [&](Output i, Output v) {
              return std::tuple{i + 1, v * x};
            }));
      },
      [&] { return x; });
  EXPECT_EQ(Value<float>(y, {{p, true}, {x, 2.0f}}), 16);
  EXPECT_EQ(Value<float>(y, {{p, false}, {x, 2.0f}}), 2);
}

TEST_F(ControlFlowTest, InnerLoopOfOnlyCapturesRunsInEveryIteration) {
  const Output x = In<float>("x");
  const Output n = In<int>("n");
  const Var runs(0.0f, "runs");
  const auto [i, y] = While(
      std::tuple{0, 0.0f}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output y) {
        // Begins with a constant of the outer loop.
        const Output z = While(
            x, [&](Output v) { return v < 10; },
            [&](Output v) {
              const ControlDependencies counted({runs.AssignAdd(1.0f)});
              return v * x;
            });
        return std::tuple{i + 1, y + z};
      });
  Initialize();
  EXPECT_EQ(Value<float>(y, {{x, 2.0f}, {n, 3}}), 48);
  EXPECT_EQ(Value<float>(runs), 9);
}

TEST_F(ControlFlowTest, DeviceAndNameScopesApplyInsideLoops) {
  const NameScope scope("model");
  Node* inner = nullptr;
  const Output y = While(
      Constant(0), [](Output x) { return x < 3; },
      [&](Output x) {
        const NameScope layer("layer");
        const DeviceScope device("/cpu:0");
        const Output next = x + 1;
        inner = next.node;
        return next;
      },
      {.name = "steps"});
  EXPECT_EQ(inner->name().substr(0, 18), "model/steps/layer/");
  EXPECT_EQ(inner->device(), "/device:CPU:0");
  EXPECT_EQ(y.node->name(), "model/steps/Exit");
  EXPECT_EQ(y.node->device(), "");
  EXPECT_EQ(Value<int>(y), 3);
}

TEST_F(ControlFlowTest, InvalidLoopsReportTheUsersLine) {
  const Output x = Constant(1.0f), i = Constant(0);
  const Output v = ops::Fill(IntVector({2}), 1.0f);
  const auto less = [](Output i, Output) { return i < 3; };
  using Two = std::tuple<Output, Output>;
  int line = 0;
  struct Wrong {
    std::function<void()> build;
    std::vector<std::string> says;
  };
  const Wrong wrongs[] = {
      {[&] {
         line = __LINE__ + 1;
         While(Two{i, x}, less, [&](Output i, Output) { return Two{i, i}; });
       },
       {"loop variable 1", "expected float", "got int32"}},
      {[&] {
         line = __LINE__ + 1;
         While(Two{i, v}, less, [&](Output i, Output v) {
           return Two{i, ops::ConcatV2({v, v}, 0)};
         });
       },
       {"loop variable 1", "expected shape [2]", "got [4]"}},
      {[&] {
         line = __LINE__ + 1;
         While(Two{i, v}, less,
               [&](Output i, Output v) {
                 return Two{i, v};
               },
               {.shape_invariants = {{}, {3}}});
       },
       {"loop variable 1", "shape invariant [3]", "got shape [2]"}},
      {[&] {
         line = __LINE__ + 1;
         While(Two{i, v}, less,
               [&](Output i, Output v) {
                 return Two{i, v};
               },
               {.shape_invariants = {{}}});
       },
       {"expected 2 shape invariants, got 1"}},
      {[&] {
         line = __LINE__ + 1;
         While(
             std::vector<Output>{i, x},
             [](const std::vector<Output>& v) { return v[0] < 3; },
             [](const std::vector<Output>& v) {
               return std::vector<Output>{v[0]};
             });
       },
       {"expected 2 values from the body", "got 1", "loop variable 1"}},
      {[&] {
         line = __LINE__ + 1;
         While(
             Two{i, x}, [](Output i, Output) { return i; },
             [](Output i, Output x) {
               return Two{i, x};
             });
       },
       {"expected a condition that is a boolean scalar",
        "got int32 of shape []"}},
      {[&] {
         line = __LINE__ + 1;
         While(
             Two{i, v}, [](Output, Output v) { return v < 3; },
             [](Output i, Output x) {
               return Two{i, x};
             });
       },
       {"expected a condition that is a boolean scalar",
        "got bool of shape [2]"}},
      {[&] {
         line = __LINE__ + 1;
         While(
             std::vector<Output>{},
             [](const std::vector<Output>&) { return Constant(false); },
             [](const std::vector<Output>& v) { return v; });
       },
       {"expected at least one loop variable, got none"}},
      {[&] {
         line = __LINE__ + 1;
         While(
             i, [](Output i) { return i < 3; }, [](Output i) { return i; },
             {.parallel_iterations = 0});
       },
       {"expected parallel_iterations of at least 1, got 0"}},
      {[&] {
         line = __LINE__ + 1;
         While(
             i, [](Output i) { return i < 3; }, [](Output i) { return i; },
             {.maximum_iterations = x});
       },
       {"expected maximum_iterations that is an int32 or int64 scalar",
        "got float of shape []"}},
  };
  for (const Wrong& w : wrongs) {
    w.build();
    for (const std::string& s : w.says)
      EXPECT_THAT(BuildErrorOf(), HasSubstr(s));
    EXPECT_THAT(BuildErrorOf(), HasSubstr("loop 'while"));
    EXPECT_THAT(BuildErrorOf(), HasSubstr(Here(line, __FILE__)));
    EXPECT_THAT(ErrorOf(graph_.Failure()), HasSubstr(w.says[0]));
    graph_.ClearErrors();
  }
}

TEST_F(ControlFlowTest, LoopValueCannotBeUsedOutsideTheLoop) {
  Output inside;
  const Output n = While(
      Constant(0), [](Output i) { return i < 3; },
      [&](Output i) {
        inside = i + 1;
        return inside;
      });
  const int line = __LINE__ + 1;
  const Output wrong = ops::AddV2(inside, n);
  EXPECT_FALSE(wrong.valid());
  EXPECT_THAT(
      BuildErrorOf(),
      AllOf(HasSubstr("expected one from outside of loops"),
            HasSubstr("of loop 'while'"), HasSubstr(Here(line, __FILE__))));
  graph_.ClearErrors();
  const Output other = While(
      Constant(0), [](Output i) { return i < 3; },
      [&](Output i) { return i + inside; });
  EXPECT_FALSE(other.valid());
  EXPECT_THAT(BuildErrorOf(), HasSubstr("of loop 'while'"));
  graph_.ClearErrors();
  EXPECT_EQ(Value<int>(n), 3);
}

TEST_F(ControlFlowTest, ErrorNamesTheLineThatCalledTheLibrary) {
  const AtLine at({"user.cc", 7});
  While(
      Constant(1), [](Output i) { return i < 3; },
      [](Output) { return Constant(1.0f); });
  EXPECT_THAT(BuildErrorOf(),
              AllOf(HasSubstr("loop variable 0"), HasSubstr("user.cc:7"),
                    Not(HasSubstr("control_flow_test.cc"))));
}

TEST_F(ControlFlowTest, FirstErrorInBodyIsReported) {
  const Output v = ops::Fill(IntVector({2}), 1.0f);
  const Output w = ops::Fill(IntVector({3}), 1.0f);
  int line = 0;
  const Output y = While(
      v, [](Output) { return Constant(true); },
      [&](Output v) {
        line = __LINE__ + 1;
        return ops::AddV2(v, w);
      });
  EXPECT_FALSE(y.valid());
  EXPECT_THAT(BuildErrorOf(), HasSubstr(Here(line, __FILE__)));
  EXPECT_THAT(BuildErrorOf(), HasSubstr("AddV2"));
}

TEST_F(ControlFlowTest, ConditionsMayContainLoopsAndConditionals) {
  const Output n = In<int>("n");
  const Output p = In<bool>("p");
  const Output i = While(
      Constant(0),
      [&](Output i) {
        // Counts to i, and from n, a constant of the outer loop, to n + i.
        const Output j = While(
            Constant(0), [&](Output j) { return j < i; },
            [](Output j) { return j + 1; });
        const Output k = While(
            n, [&](Output k) { return k < n + i; },
            [](Output k) { return k + 1; });
        return Cond(
            p, [&] { return j < 3; }, [&] { return k < 3; });
      },
      [](Output i) { return i + 1; });
  EXPECT_EQ(Value<int>(i, {{n, 1}, {p, true}}), 3);
  EXPECT_EQ(Value<int>(i, {{n, 1}, {p, false}}), 2);
  EXPECT_EQ(Value<int>(i, {{n, 5}, {p, false}}), 0);
}

TEST_F(ControlFlowTest, BodyMaySwapLoopVariables) {
  const auto [i, a, b] = While(
      std::tuple{0, 1.0f, 2.0f}, [](Output i, Output, Output) { return i < 3; },
      [](Output i, Output a, Output b) {
        return std::tuple{i + 1, b, a};
      });
  EXPECT_EQ(Value<float>(a), 2);
  EXPECT_EQ(Value<float>(b), 1);
}

TEST_F(ControlFlowTest, LoopsCarryEmptyTensorsAndNaN) {
  const Output none = Constant(*Tensor::Make(DType::kFloat, {0, 3}));
  const auto [i, x, y] = While(
      std::tuple{0, none, NAN}, [](Output i, Output, Output) { return i < 2; },
      [](Output i, Output x, Output y) {
        return std::tuple{i + 1, x * 2, y + 1};
      });
  EXPECT_EQ(Eval(x).shape().ToString(), "[0,3]");
  EXPECT_TRUE(std::isnan(Value<float>(y)));
  // Comparisons with NaN are false.
  const Output z = While(
      Constant(NAN), [](Output z) { return z < 10; },
      [](Output z) { return z + 1; });
  EXPECT_TRUE(std::isnan(Value<float>(z)));
}

TEST_F(ControlFlowTest, TensorArraysCanBeLoopVariablesAndBranchResults) {
  const Output p = In<bool>("p");
  const auto [i, rows] = While(
      std::tuple{0, TensorArray(DType::kInt32, 4)},
      [](Output i, const TensorArray&) { return i < 4; },
      [&](Output i, const TensorArray& rows) {
        return std::tuple{i + 1, Cond(
                                     p, [&] { return rows.Write(i, i * i); },
                                     [&] { return rows.Write(i, i); })};
      });
  const Output all = rows.Stack();
  EXPECT_THAT(Values<int>(all, {{p, Tensor::Scalar(true)}}),
              ElementsAre(0, 1, 4, 9));
  EXPECT_THAT(Values<int>(all, {{p, Tensor::Scalar(false)}}),
              ElementsAre(0, 1, 2, 3));
}

TEST_F(ControlFlowTest, ImportedLoopsGiveEqualResults) {
  const Output n = In<int>("n"), w = In<float>("w");
  const auto [i, y] = While(
      std::tuple{0, 0.0f}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output y) {
        const Output z = Cond(
            ops::Equal(ops::FloorMod(i, 2), 0),
            [&] {
              return std::get<1>(While(
                  std::tuple{0, w}, [&](Output j, Output) { return j < i; },
                  [&](Output j, Output v) {
                    return std::tuple{j + 1, v * w};
                  }));
            },
            [&] { return y + 6; });
        return std::tuple{i + 1, z + y};
      });
  const Output out = ops::Identity(y, {.name = "out"});
  const float expected = Value<float>(out, {{n, 7}, {w, 1.5f}});
  // As TensorFlow computes it from the same graph.
  EXPECT_FLOAT_EQ(expected, 99.7734375f);
  const Result<std::string> bytes = ExportGraphDef(graph_);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  Graph copy;
  ASSERT_TRUE(ImportGraphDef(*bytes, copy).ok());
  Session session(copy);
  const Result<Tensor> again =
      session.Run({{*copy.FindOutput("n"), Tensor::Scalar(7)},
                   {*copy.FindOutput("w"), Tensor::Scalar(1.5f)}},
                  *copy.FindOutput("out"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->scalar<float>(), expected);
}

// ---- Loops that grow after they were built ----------------------------------

TEST_F(ControlFlowTest, VariablesAndCapturesCanBeAddedToBuiltLoop) {
  const Output w = In<float>("w");
  const Output n = In<int>("n");
  Output square;
  const auto [i, x] = While(
      std::tuple{0, 1.0f}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output x) {
        square = x * x;
        return std::tuple{i + 1, square + 1};
      });
  WhileContext* loop = ContextOf(i.node)->AsWhile();
  ASSERT_NE(loop, nullptr);
  // A counter, and a sum of w times a value of the body.
  const int count = loop->OpenVariable(Constant(0), "count");
  const int sum = loop->OpenVariable(Constant(0.0f), "sum");
  const auto variable = [loop](int k) {
    return loop->variables()[static_cast<size_t>(k)];
  };
  {
    const ContextScope body(loop);
    ASSERT_TRUE(loop->CloseVariable(count, variable(count).body_value + 1));
    ASSERT_TRUE(
        loop->CloseVariable(sum, variable(sum).body_value + square * w));
  }
  EXPECT_EQ(Value<int>(variable(count).exit, {{w, 2.0f}, {n, 4}}), 4);
  // x is 1, 2, 5, 26.
  EXPECT_EQ(Value<float>(variable(sum).exit, {{w, 2.0f}, {n, 4}}),
            2 * (1 + 4 + 25 + 676));
  EXPECT_EQ(Value<float>(variable(sum).exit, {{w, 2.0f}, {n, 0}}), 0);
  EXPECT_EQ(Value<float>(x, {{w, 2.0f}, {n, 3}}), 26);
}

TEST_F(ControlFlowTest, VariableCreatedInBodyLivesOutsideTheLoop) {
  const Output y = While(
      Constant(1.0f), [](Output x) { return x < 10; },
      [](Output x) {
        const Var w = GetVariable("w", {}, init::Constant(3.0));
        return x * w;
      });
  Initialize();
  EXPECT_EQ(Value<float>(y), 27);
  While(
      Constant(1.0f), [](Output x) { return x < 10; },
      [](Output x) {
        const Var wrong(x, "wrong");
        return x + 1;
      });
  EXPECT_THAT(BuildErrorOf(),
              HasSubstr("variable 'wrong': expected an initial value from "
                        "outside of loops"));
}

}  // namespace
}  // namespace sluice
