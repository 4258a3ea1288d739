// Whole steps: feeds, fetches, cancellation, deadlines and sharing.
#include "session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <random>
#include <thread>

namespace sluice {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Tensor F(float v) { return Tensor::Scalar<float>(v); }
Tensor I(int32_t v) { return Tensor::Scalar<int32_t>(v); }
Tensor B(bool v) { return Tensor::Scalar<bool>(v); }

// A short notation for graphs, and steps over them. Op names are TensorFlow's.
class SessionTest : public ::testing::Test {
 protected:
  SessionTest() : use_(graph_) {}

  Output Op(const std::string& op, std::vector<Output> in, AttrMap attrs = {}) {
    return Build(op, std::move(in), std::move(attrs));
  }
  Output Placeholder(const std::string& name, DType t = DType::kFloat,
                     PartialShape shape = PartialShape::Unknown()) {
    return Build("Placeholder", {}, {{"dtype", t}, {"shape", shape}}, name);
  }
  Output Add(Output a, Output b) { return Op("AddV2", {a, b}); }
  Output Mul(Output a, Output b) { return Op("Mul", {a, b}); }
  Output Enter(Output o, const std::string& frame, int parallel = 10,
               bool constant = false) {
    return Op("Enter", {o},
              {{"frame_name", frame},
               {"is_constant", constant},
               {"parallel_iterations", parallel}});
  }
  Output OpenMerge(Output first) {
    NodeSpec s;
    s.op = "Merge";
    s.name = graph_.UniqueName("Merge");
    s.inputs = {first, Output()};
    s.pending_input_types = {first.dtype(), first.dtype()};
    Result<Node*> n = graph_.AddNode(std::move(s));
    EXPECT_TRUE(n.ok()) << n.status();
    return n.ok() ? Output(*n) : Output();
  }
  void Close(Output merge, Output next) {
    Output n = Op("NextIteration", {next});
    const Status s = graph_.SetBackEdge(merge.node, 1, n);
    EXPECT_TRUE(s.ok()) << s;
  }
  // vars = body(vars) while cond(vars), from the five primitives.
  template <typename Cond, typename Body>
  std::vector<Output> While(const std::string& frame, std::vector<Output> init,
                            Cond cond, Body body, int parallel = 10) {
    std::vector<Output> merges, inside, done;
    for (Output o : init)
      merges.push_back(OpenMerge(Enter(o, frame, parallel)));
    Output go = Op("LoopCond", {cond(merges)});
    for (Output m : merges) {
      Node* sw = Op("Switch", {m, go}).node;
      inside.push_back(Output(sw, 1));
      done.push_back(Op("Exit", {Output(sw, 0)}));
    }
    const std::vector<Output> next = body(inside);
    for (size_t i = 0; i < merges.size(); ++i) Close(merges[i], next[i]);
    return done;
  }
  // A constant of the loop that contains `inside`.
  Output Loop(Output inside, Tensor t) {
    ControlDependencies after({inside.node});
    return Constant(std::move(t));
  }
  // for (;;): a step that ends only when it is cancelled.
  Output Forever(const std::string& frame = "forever") {
    Output m = OpenMerge(Enter(Constant(I(0)), frame));
    Node* sw =
        Op("Switch",
           {m, Op("LoopCond", {Op("GreaterEqual", {m, Constant(I(0))})})})
            .node;
    Close(m, Mul(Output(sw, 1), Constant(I(1))));
    return Op("Exit", {Output(sw, 0)});
  }
  Output Variable(const std::string& name, DType t, PartialShape shape) {
    return Build("VariableV2", {}, {{"dtype", t}, {"shape", shape}}, name);
  }

  Tensor Eval(Output o, const Feeds& feeds = {}) {
    Result<Tensor> t = session_.Run(feeds, o);
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() ? *t : Tensor();
  }
  std::string Error(Output o, const Feeds& feeds = {}) {
    const Status s = session_.Run(feeds, o).status();
    EXPECT_FALSE(s.ok());
    return s.ToString();
  }
  void RunNode(Node* n, const Feeds& feeds = {}) {
    const Status s = session_.RunTargets({n}, feeds);
    ASSERT_TRUE(s.ok()) << s;
  }

  Graph graph_;
  WithGraph use_;
  Session session_{graph_};
};

// ---- Feeding and fetching ---------------------------------------------------

TEST_F(SessionTest, FeedingAnInnerEdgeSkipsItsProducer) {
  Output x = Placeholder("x");
  Output y = Op("Neg", {x});
  EXPECT_EQ(Eval(Add(y, y), {{y, F(4)}}).scalar<float>(), 8);
}

TEST_F(SessionTest, FetchOfFedEdgeReturnsTheFeed) {
  Output y = Op("Neg", {Constant(F(1))});
  EXPECT_EQ(Eval(y, {{y, F(9)}}).scalar<float>(), 9);
}

TEST_F(SessionTest, EdgeMayBeFetchedTwice) {
  Output y = Op("Neg", {Constant(F(1))});
  auto out = session_.Run({y, y});
  ASSERT_TRUE(out.ok()) << out.status();
  ASSERT_EQ(out->size(), 2u);
  EXPECT_EQ((*out)[0].scalar<float>(), -1);
  EXPECT_EQ((*out)[1].scalar<float>(), -1);
}

TEST_F(SessionTest, SingleFetchWithTargetsReturnsOneTensor) {
  Output v = Variable("v", DType::kFloat, PartialShape({}));
  Node* assign = Op("Assign", {v, Constant(F(3))}).node;
  const Result<Tensor> two = session_.Run({}, Constant(F(2)), {assign});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->scalar<float>(), 2);
  EXPECT_EQ(Eval(Op("Identity", {v})).scalar<float>(), 3);
}

TEST_F(SessionTest, FetchedNodeWithoutOutputsRuns) {
  const AttrMap kind = {{"dtype", DType::kFloat}, {"shape", PartialShape({})}};
  const Output v = Build("VarHandleOp", {}, kind, "v");
  const auto update = [v](const char* op, Output value) {
    return BuildNode(op, {v, value}, {{"dtype", DType::kFloat}});
  };
  const Output x = Placeholder("x");
  Node* assign = update("AssignVariableOp", x);
  Node* add = update("AssignAddVariableOp", Constant(F(1)));
  const Output two = Constant(F(2));
  const auto value = [&] {
    return Eval(Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}))
        .scalar<float>();
  };

  const Result<Tensor> alone = session_.Run({{x, F(3)}}, assign);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_FALSE(alone->valid());
  EXPECT_EQ(value(), 3);
  ASSERT_TRUE(session_.Run(add).ok());
  ASSERT_TRUE(session_.Run({add}).ok());
  EXPECT_EQ(value(), 5);

  // Values keep their positions.
  const auto check = [&](const Result<std::vector<Tensor>>& out) {
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_EQ(out->size(), 3u);
    EXPECT_FALSE((*out)[0].valid());
    EXPECT_EQ((*out)[1].scalar<float>(), 2);
    EXPECT_FALSE((*out)[2].valid());
  };
  check(session_.Run({{x, F(7)}}, {assign, two, assign}));
  EXPECT_EQ(value(), 7);
  check(session_.RunByName({}, {add->name(), two.name(), add->name()}));
  EXPECT_EQ(value(), 8);
  auto callable = session_.MakeCallable({}, {add, two, add});
  ASSERT_TRUE(callable.ok()) << callable.status();
  check(callable->Run());
  RunOptions traced;
  traced.trace = true;
  RunMetadata metadata;
  check(callable->Run(std::initializer_list<Tensor>{}, traced, &metadata));
  EXPECT_EQ(value(), 10);
}

TEST_F(SessionTest, PartialRunAcceptsNodeWithoutOutputsOnlyAsTarget) {
  const Output x = Placeholder("x");
  Node* noop = BuildNode("NoOp", {});
  EXPECT_THAT(
      session_.StartPartialRun({x}, {x, noop}).status().ToString(),
      HasSubstr("fetches[1]: expected an output, got 'NoOp', which has none"));
  EXPECT_TRUE(session_.StartPartialRun({x}, {x}, {noop}).ok());
}

TEST_F(SessionTest, NullFetchErrorGivesItsIndex) {
  const Output x = Constant(F(1));
  EXPECT_THAT(session_.Run({}, {x, Output()}).status().ToString(),
              HasSubstr("fetches[1]: expected an output, got none"));
  EXPECT_THAT(session_.Run({}, {x}, {nullptr}).status().ToString(),
              HasSubstr("targets[0]: expected a node, got none"));
}

TEST_F(SessionTest, TheErrorThatMadeATargetNullComesFirst) {
  const Output x = Constant(F(1));
  for (int i = 0; i < 8; ++i)
    Build("Neg", {x}, {{"T", DType::kString}}, absl::StrCat("output_", i));
  Node* const made = BuildNode("Neg", {x}, {{"T", DType::kString}}, "own");
  for (int i = 8; i < 16; ++i)
    Build("Neg", {x}, {{"T", DType::kString}}, absl::StrCat("output_", i));
  ASSERT_EQ(made, nullptr);
  EXPECT_THAT(std::string(session_.Run({}, {}, {made}).status().message()),
              AllOf(ContainsRegex("while the graph was built: [^;]*; node "
                                  "'own' .*node 'output_0'"),
                    HasSubstr("and 12 more")));
  // Nodes that wait for it fail with its error.
  Node* const after = [&] {
    const ControlDependencies wait({made});
    return BuildNode("NoOp", {});
  }();
  ASSERT_EQ(after, nullptr);
  EXPECT_THAT(std::string(graph_.errors().back().message()),
              AllOf(HasSubstr("got a null one; after an earlier error"),
                    HasSubstr("node 'own'")));
}

TEST_F(SessionTest, AnOutputThatANodeDoesNotHaveIsToldWithThoseItHas) {
  const Output x = Constant(F(1));
  Build("Neg", {x}, {}, "one");
  Build("Split", {Constant(I(0)), Constant(Tensor::Vector<float>({1, 2}))},
        {{"num_split", int64_t{2}}}, "two");
  EXPECT_THAT(graph_.FindOutput("one:3").status().ToString(),
              HasSubstr("expected output 0 (the op has one output) of node "
                        "'one'"));
  EXPECT_THAT(graph_.FindOutput("two:3").status().ToString(),
              HasSubstr("expected output 0 to 1 of node 'two'"));
  Build("Neg", {Output(x.node, 1)});
  EXPECT_THAT(graph_.errors().back().ToString(),
              HasSubstr("input 0: expected output 0 (the op has one output) "
                        "of 'Const', got 1"));
}

TEST_F(SessionTest, OneOutputMayBeFedWhileOthersAreComputed) {
  Node* split = BuildNode(
      "Split", {Constant(I(0)), Constant(Tensor::Vector<float>({1, 2, 3, 4}))},
      {{"num_split", int64_t{2}}});
  Output sum = Add(Output(split, 0), Output(split, 1));
  Tensor t = Eval(sum, {{Output(split, 1), Tensor::Vector<float>({10, 20})}});
  EXPECT_THAT(t.ToVector<float>(), ElementsAre(11, 22));
}

TEST_F(SessionTest, FeedingAnEdgeTwiceIsAnError) {
  Output x = Placeholder("x");
  EXPECT_THAT(Error(Op("Neg", {x}), {{x, F(1)}, {x, F(2)}}),
              AllOf(HasSubstr("'x:0'"), HasSubstr("twice")));
}

TEST_F(SessionTest, UnfedPlaceholderErrorNamesClientLine) {
  Output x = Placeholder("pixels");
  EXPECT_THAT(Error(Op("Neg", {x})),
              AllOf(HasSubstr("'pixels'"), HasSubstr("session_test.cc:")));
}

TEST_F(SessionTest, WrongFeedErrorGivesExpectedTypeOrShape) {
  Output x = Placeholder("x", DType::kFloat, PartialShape({-1, 3}));
  Output y = Op("Neg", {x});
  EXPECT_THAT(
      Error(y, {{x, I(1)}}),
      AllOf(HasSubstr("'x:0'"), HasSubstr("float"), HasSubstr("int32")));
  EXPECT_THAT(Error(y, {{x, Tensor::Of<float>({1, 2}, {1, 2})}}),
              AllOf(HasSubstr("[?,3]"), HasSubstr("[1,2]")));
  EXPECT_THAT(Error(y, {{x, F(1)}}), HasSubstr("[?,3]"));
  EXPECT_THAT(Error(y, {{x, Tensor()}}), HasSubstr("'x:0'"));
  EXPECT_EQ(Eval(y, {{x, Tensor::Of<float>({0, 3}, {})}}).num_elements(), 0);
}

TEST_F(SessionTest, UnknownNameErrorListsNearestNames) {
  Build("Neg", {Constant(F(1))}, {}, "logits");
  EXPECT_THAT(session_.RunByName({}, {"logit:0"}).status().ToString(),
              AllOf(HasSubstr("'logit'"), HasSubstr("nearest: logits")));
  EXPECT_FALSE(session_.RunByName({}, {"logits:1"}).ok());
  EXPECT_FALSE(session_.RunByName({}, {}, {"logit"}).ok());
}

TEST_F(SessionTest, FetchIndexMustNameAnOutput) {
  Output y = Op("Neg", {Constant(F(1))});
  Node* noop = BuildNode("NoOp", {});
  EXPECT_THAT(Error(Output(y.node, 1)), HasSubstr("expected one of 1 outputs"));
  EXPECT_FALSE(session_.Run({}, Output(y.node, -1)).ok());
  EXPECT_THAT(Error(Output(noop, 1)), HasSubstr("expected one of 0 outputs"));
  EXPECT_THAT(session_.Run({{noop, F(1)}}, y).status().ToString(),
              HasSubstr("feeds[0]: expected an output, got 'NoOp', which has "
                        "none; node 'NoOp'"));
  EXPECT_THAT(graph_.FindOutput("NoOp").status().ToString(),
              HasSubstr("expected a node with outputs, got 'NoOp'"));
  EXPECT_FALSE(session_.Run({}, Output()).ok());
  EXPECT_FALSE(session_.RunTargets({nullptr}).ok());
}

TEST_F(SessionTest, EmptyCallableIsAnError) {
  const Session::Callable empty;
  const Status s = empty.Run({}).status();
  EXPECT_EQ(s.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(s.ToString(), HasSubstr("MakeCallable"));
  EXPECT_FALSE(session_.MakeCallable({}, {Output()}).ok());
  EXPECT_FALSE(session_.MakeCallable({Output()}, {}).ok());
  EXPECT_FALSE(session_.StartPartialRun({Output()}, {}).ok());
  EXPECT_FALSE(session_.StartPartialRun({}, {}, {nullptr}).ok());
}

TEST_F(SessionTest, CycleInUnusedPartIsIgnored) {
  Output y = Op("Neg", {Constant(F(1))});
  Node* a = BuildNode("NoOp", {});
  Node* b = BuildNode("NoOp", {});
  ASSERT_TRUE(graph_.AddControlEdge(a, b).ok());
  ASSERT_TRUE(graph_.AddControlEdge(b, a).ok());
  EXPECT_EQ(Eval(y).scalar<float>(), -1);
  EXPECT_THAT(session_.RunTargets({a}).ToString(), HasSubstr("cycle"));
}

TEST_F(SessionTest, EdgeOfAnotherGraphIsAnErrorDespiteEqualId) {
  Output mine = Op("Neg", {Constant(F(1))});
  Eval(mine);
  Graph other;
  WithGraph use(other);
  Output theirs = Build("Neg", {Constant(F(2))});
  ASSERT_EQ(theirs.node->id(), mine.node->id());
  EXPECT_THAT(Error(theirs), HasSubstr("another"));
  for (int i = 0; i < 100; ++i) theirs = Build("Neg", {theirs});
  EXPECT_THAT(session_.RunTargets({theirs.node}).ToString(),
              HasSubstr("another"));
}

TEST_F(SessionTest, UntakenBranchCannotBeFetched) {
  Node* sw =
      Op("Switch", {Constant(F(3)), Placeholder("p", DType::kBool)}).node;
  Output p = Output(graph_.FindNode("p"));
  EXPECT_EQ(Eval(Output(sw, 1), {{p, B(true)}}).scalar<float>(), 3);
  EXPECT_THAT(Error(Output(sw, 1), {{p, B(false)}}), HasSubstr("not taken"));
}

TEST_F(SessionTest, AnEdgeInsideALoopCannotBeFetched) {
  Output inside;
  auto out = While(
      "loop", {Constant(I(0))},
      [&](auto v) {
        return Op("Less", {v[0], Constant(I(3))});
      },
      [&](auto v) {
        inside = Add(v[0], Constant(I(1)));
        return std::vector<Output>{inside};
      });
  EXPECT_EQ(Eval(out[0]).scalar<int32_t>(), 3);
  // (By its own name, whatever regions were formed.)
  EXPECT_THAT(Error(inside), AllOf(HasSubstr("'" + inside.name() + "'"),
                                   HasSubstr("loop"), HasSubstr("Exit")));
  EXPECT_EQ(Eval(out[0]).scalar<int32_t>(), 3);
}

TEST_F(SessionTest, TheGraphMayGrowBetweenSteps) {
  Output x = Placeholder("x");
  Output y = Op("Neg", {x});
  EXPECT_EQ(Eval(y, {{x, F(1)}}).scalar<float>(), -1);
  for (int i = 0; i < 50; ++i) {
    y = Op("Neg", {y});
    EXPECT_EQ(Eval(y, {{x, F(1)}}).scalar<float>(), i % 2 == 0 ? 1 : -1);
  }
}

// ---- Errors -----------------------------------------------------------------

TEST_F(SessionTest, IntegerDivisionByZeroNamesTheNode) {
  Output x = Placeholder("x", DType::kInt32);
  const Status s =
      session_
          .Run({{x, I(0)}}, Build("FloorDiv", {Constant(I(1)), x}, {}, "ratio"))
          .status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(s.ToString(), AllOf(HasSubstr("'ratio'"), HasSubstr("zero")));
}

TEST_F(SessionTest, MissingKernelErrorNamesTheNode) {
  // Declared for integers, as in TensorFlow, but without such a kernel.
  Output x = Placeholder("x", DType::kInt32);
  Output y = Build("Reciprocal", {x}, {}, "inverse");
  for (Output fetch : {y, Add(y, x)}) {
    const Status s = session_.Run({{x, I(2)}}, fetch).status();
    EXPECT_EQ(s.code(), StatusCode::kUnimplemented) << s;
    EXPECT_THAT(s.ToString(),
                AllOf(HasSubstr("'inverse'"), HasSubstr("int32")));
  }
}

TEST_F(SessionTest, StepRunsAgainWithoutLeaksAfterErrorInNestedLoop) {
  Output bad_at = Placeholder("bad_at", DType::kInt32);
  Output one = Op(
      "Fill", {Constant(Tensor::Vector<int32_t>({1024})), Placeholder("one")});
  // The inner loop of outer iteration i divides by bad_at - i.
  auto out = While(
      "outer", {Constant(I(0)), one},
      [&](auto v) {
        return Op("Less", {v[0], Constant(I(20))});
      },
      [&](auto v) {
        Output bad = Enter(bad_at, "outer", 10, true);
        auto in = While(
            "inner", {Loop(v[0], I(0)), v[1], Op("Sub", {bad, v[0]})},
            [&](auto w) {
              return Op("Less", {w[0], Constant(I(10))});
            },
            [&](auto w) {
              Output step = Op("FloorDiv", {w[2], w[2]});
              return std::vector<Output>{
                  Add(w[0], step),
                  Add(w[1], Op("Cast", {step}, {{"DstT", DType::kFloat}})),
                  w[2]};
            });
        return std::vector<Output>{Add(v[0], Constant(I(1))), in[1]};
      });
  const Output p = Output(graph_.FindNode("one"));
  const int64_t before = Allocator::Cpu()->stats().live_bytes;
  for (int round = 0; round < 5; ++round) {
    const Status s =
        session_.Run({{bad_at, I(5 + round)}, {p, F(1)}}, out[1]).status();
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(s.ToString(),
                AllOf(HasSubstr("FloorDiv"), HasSubstr("frame 'inner'")));
    EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, before);
    EXPECT_EQ(
        Eval(out[1], {{bad_at, I(-1)}, {p, F(1)}}).ToVector<float>()[1023],
        201);
    EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, before);
  }
}

TEST_F(SessionTest, FailedKernelLeaksNoMemory) {
  Output x = Placeholder("x", DType::kInt32);
  Output big = Op("Fill", {Constant(Tensor::Vector<int32_t>({5000})), x});
  Output y = Op("FloorDiv", {big, x});
  const int64_t before = Allocator::Cpu()->stats().live_bytes;
  EXPECT_FALSE(session_.Run({{x, I(0)}}, y).ok());
  EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, before);
}

TEST_F(SessionTest, UninitializedVariableIsNamed) {
  Output v = Variable("weights", DType::kFloat, PartialShape({2}));
  EXPECT_THAT(Error(Op("Identity", {v})), HasSubstr("weights"));
  EXPECT_THAT(Error(v), HasSubstr("node 'weights' (VariableV2)"));
}

TEST_F(SessionTest, ReferenceIsReadAtExitAndNextIteration) {
  Output v = Variable("weights", DType::kFloat, PartialShape({1000}));
  Output two =
      Op("Fill", {Constant(Tensor::Vector<int32_t>({1000})), Constant(F(2))});
  ASSERT_TRUE(session_.Run({}, Op("Assign", {v, two})).ok());
  const auto enter = [&](const std::string& name) {
    return Op("RefEnter", {v}, {{"frame_name", name}, {"is_constant", true}});
  };
  EXPECT_EQ(Eval(Op("Exit", {enter("nothing")})).data<float>()[999], 2);
  Output yes = Variable("yes", DType::kBool, PartialShape({}));
  ASSERT_TRUE(session_.Run({}, Op("Assign", {yes, Constant(B(true))})).ok());
  Node* branch = BuildNode("Switch", {v, yes});
  EXPECT_EQ(Eval(Op("Neg", {Output(branch, 1)})).data<float>()[999], -2);
  const Output ref = enter("loop");
  Output i = OpenMerge(Enter(Constant(I(0)), "loop"));
  Output x = OpenMerge(Enter(Placeholder("x"), "loop"));
  Output go = Op("LoopCond", {Op("Less", {i, Constant(I(3))})});
  Node* turn = BuildNode("Switch", {i, go});
  Node* out = BuildNode("Switch", {x, go});
  Close(i, Add(Output(turn, 1), Constant(I(1))));
  Close(x, Output(BuildNode("RefSwitch", {ref, go}), 1));
  const Tensor last =
      Eval(Op("Exit", {Output(out, 0)}), {{*graph_.FindOutput("x"), F(1)}});
  EXPECT_EQ(last.num_elements(), 1000);
  EXPECT_EQ(last.data<float>()[999], 2);
}

TEST_F(SessionTest, OnlyDependentsOfInvalidNodeFailWithItsError) {
  const Output one = Constant(F(1));
  const Output product = Op("MatMul", {one, one});
  const Output unknown = Op("NoSuchOp", {one});
  EXPECT_FALSE(product.valid());
  EXPECT_FALSE(unknown.valid());
  EXPECT_EQ(Eval(one).scalar<float>(), 1);
  EXPECT_THAT(Error(product), HasSubstr("MatMul"));
  EXPECT_THAT(Error(unknown), HasSubstr("NoSuchOp"));
  // Nodes built on them fail for the same reason.
  EXPECT_THAT(Error(Op("Neg", {Op("Neg", {product})})), HasSubstr("MatMul"));
  EXPECT_THAT(Error(Op("Add", {one, unknown})), HasSubstr("NoSuchOp"));
  EXPECT_EQ(graph_.errors().size(), 2u);
  // A null target has no record of its error: all errors are reported.
  const std::string target(session_.RunTargets({nullptr}).message());
  EXPECT_THAT(target, HasSubstr("MatMul"));
  EXPECT_THAT(target, HasSubstr("NoSuchOp"));
  graph_.ClearErrors();
  EXPECT_THAT(std::string(session_.RunTargets({nullptr}).message()),
              HasSubstr("targets[0]: expected a node, got none"));
}

TEST_F(SessionTest, ControlAndDeviceDependentsOfInvalidNodeFail) {
  const Output one = Constant(F(1));
  Node* const bad = BuildNode("NoSuchOp", {one});
  Output after, on;
  {
    const ControlDependencies wait({bad});
    after = Op("Neg", {one});
  }
  {
    const DeviceScope device("/no/such:device:name");
    on = Op("Neg", {one});
  }
  EXPECT_THAT(Error(after), HasSubstr("NoSuchOp"));
  EXPECT_THAT(Error(on), HasSubstr("/no/such:device:name"));
  EXPECT_EQ(Eval(Op("Neg", {one})).scalar<float>(), -1);
}

TEST_F(SessionTest, CallableStoresResultsInTheCallersTensors) {
  const Output x = Placeholder("x");
  const Output y = Op("Neg", {x});
  Node* const nothing = BuildNode("NoOp", {});
  auto callable = session_.MakeCallable({x}, {y, Output(nothing), x});
  ASSERT_TRUE(callable.ok()) << callable.status();
  const Tensor one = Tensor::Vector<float>({1, 2});
  std::vector<Tensor> results = {F(7), F(7), F(7)};
  const Tensor before = results[0];
  ASSERT_TRUE(callable->RunInto({&one, 1}, results).ok());
  EXPECT_TRUE(results[0].Identical(Tensor::Vector<float>({-1, -2})));
  EXPECT_FALSE(results[1].valid());  // A node without outputs.
  EXPECT_TRUE(results[2].Identical(one));
  EXPECT_TRUE(before.Identical(F(7)));
  // On an error they stay.
  const Tensor wrong = Tensor::Vector<int32_t>({1});
  EXPECT_FALSE(callable->RunInto({&wrong, 1}, results).ok());
  EXPECT_TRUE(results[0].Identical(Tensor::Vector<float>({-1, -2})));
  const std::vector<Tensor> same = *callable->Run({one});
  for (size_t i = 0; i < same.size(); ++i)
    EXPECT_EQ(same[i].valid(), results[i].valid());
}

TEST_F(SessionTest, DestroyedGraphIsDetected) {
  auto graph = std::make_unique<Graph>();
  Output x, y;
  {
    const WithGraph use(*graph);
    x = Op("Placeholder", {}, {{"dtype", DType::kFloat}});
    y = Op("Neg", {x});
  }
  Session session(*graph);
  const auto callable = session.MakeCallable({x}, {y});
  ASSERT_TRUE(callable.ok()) << callable.status();
  auto partial = session.StartPartialRun({x}, {y});
  ASSERT_TRUE(partial.ok()) << partial.status();
  graph.reset();
  const std::vector<Status> all = {session.Run({{x, F(1)}}, y).status(),
                                   session.RunByName({}, {"Neg"}).status(),
                                   session.RunTargets({y.node}),
                                   session.MakeCallable({x}, {y}).status(),
                                   session.StartPartialRun({x}, {y}).status(),
                                   callable->Run({F(1)}).status(),
                                   (*partial)->Run({{x, F(1)}}, {y}).status()};
  for (const Status& s : all) {
    EXPECT_EQ(s.code(), StatusCode::kFailedPrecondition) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("destroyed"));
  }
}

// ---- Ends of steps ----------------------------------------------------------

TEST_F(SessionTest, EndlessLoopEndsAtDeadlineAndSessionContinues) {
  Output never = Forever();
  Output y = Constant(F(1));
  for (int round = 0; round < 3; ++round) {
    RunOptions o;
    o.timeout_ms = 20;
    const Status s = session_.Run({}, {never}, {}, o).status();
    EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
    EXPECT_THAT(s.ToString(), HasSubstr("forever"));
    EXPECT_EQ(Eval(y).scalar<float>(), 1);
  }
}

TEST_F(SessionTest, AStepThatEndsInTimeKeepsItsResult) {
  RunOptions o;
  o.timeout_ms = 600'000;
  const Output x = Placeholder("x");
  auto out = session_.Run({{x, F(1)}}, {Op("Neg", {x})}, {}, o);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), -1);
}

TEST_F(SessionTest, MutexStaysUsableAfterDeadline) {
  Output mutex = Op("MutexV2", {});
  Output first = Build("MutexLock", {mutex}, {}, "first");
  Output second;
  {
    ControlDependencies after({first.node});
    second = Build("MutexLock", {mutex}, {}, "second");
  }
  // `first` is consumed only after `second`: a deadlock.
  Node* consume;
  {
    ControlDependencies after({second.node});
    consume = BuildNode("ConsumeMutexLock", {first});
  }
  RunOptions o;
  o.timeout_ms = 20;
  for (int round = 0; round < 3; ++round) {
    const Status s = session_.Run({}, {}, {consume}, o).status();
    EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
  }
  RunNode(BuildNode("ConsumeMutexLock", {Op("MutexLock", {mutex})}));
}

TEST_F(SessionTest, CloseEndsRunningStepsAndRefusesNewOnes) {
  Output never = Forever();
  Output mutex = Op("MutexV2", {});
  Output held = Op("MutexLock", {mutex});
  Output blocked;
  {
    ControlDependencies after({held.node});
    blocked = Op("MutexLock", {mutex});
  }
  Node* consume;
  {
    ControlDependencies after({blocked.node});
    consume = BuildNode("ConsumeMutexLock", {held});
  }
  auto callable = session_.MakeCallable({}, {Constant(F(1))});
  ASSERT_TRUE(callable.ok());
  std::atomic<int> cancelled{0}, started{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      ++started;
      const Status s = i % 2 == 0 ? session_.Run({}, never).status()
                                  : session_.RunTargets({consume});
      // A step that starts after Close is rejected.
      if (s.code() == StatusCode::kCancelled ||
          s.code() == StatusCode::kFailedPrecondition)
        ++cancelled;
    });
  while (started < 4) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(session_.Close().ok());
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(cancelled, 4);
  EXPECT_EQ(session_.Run(Constant(F(1))).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(callable->Run().status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(SessionTest, EveryMethodButCloseFailsAfterClose) {
  Output x = Op("Placeholder", {}, {{"dtype", DType::kFloat}});
  Output y = Op("Neg", {x});
  const std::vector<Tensor> one = {F(1)};
  auto callable = session_.MakeCallable({x}, {y});
  ASSERT_TRUE(callable.ok()) << callable.status();
  auto partial = session_.StartPartialRun({x}, {y});
  ASSERT_TRUE(partial.ok()) << partial.status();
  EXPECT_TRUE(session_.Close().ok());
  RunOptions traced;
  traced.trace = true;
  const std::vector<std::pair<const char*, Status>> all = {
      {"Run", session_.Run({{x, F(1)}}, y).status()},
      {"RunTargets", session_.RunTargets({y.node}, {{x, F(1)}})},
      {"RunByName", session_.RunByName({{"no such", F(1)}}, {}).status()},
      {"MakeCallable", session_.MakeCallable({x}, {y}).status()},
      {"StartPartialRun", session_.StartPartialRun({x}, {y}).status()},
      {"Reset", session_.Reset()},
      {"ListDevices", session_.ListDevices().status()},
      {"Callable::Run", callable->Run(one).status()},
      // (Not the error of its feeds, which are invalid too.)
      {"Callable::Run without feeds", callable->Run().status()},
      {"Callable::Run, traced", callable->Run(one, traced).status()},
      {"PartialRun::Run", (*partial)->Run({{x, F(1)}}, {y}).status()},
      {"PartialRun::Run of nothing", (*partial)->Run({}, {}).status()},
  };
  for (const auto& [method, status] : all) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition)
        << method << ": " << status;
    EXPECT_EQ(status.message(),
              "session: expected an open one, got a closed one")
        << method;
  }
  EXPECT_TRUE(session_.Close().ok());
}

TEST_F(SessionTest, CloseAtAnyMomentEndsTheStep) {
  Output never = Forever();
  for (int round = 0; round < 40; ++round) {
    Session s(graph_);
    auto run = s.MakeCallable({}, {never});
    ASSERT_TRUE(run.ok()) << run.status();
    std::thread t([&] { EXPECT_FALSE(run->Run().ok()); });
    for (std::atomic<int> i{0}; i < round * 3000; ++i) {
    }
    EXPECT_TRUE(s.Close().ok());
    t.join();
  }
}

// ---- Sharing ----------------------------------------------------------------

TEST_F(SessionTest, ConcurrentAdditionsAreAtomic) {
  constexpr int kThreads = 8, kSteps = 200, kSize = 4096;
  for (bool reference : {true, false}) {
    SCOPED_TRACE(reference);
    const PartialShape shape({kSize});
    Output v = reference ? Variable("v", DType::kInt32, shape)
                         : Op("VarHandleOp", {},
                              {{"dtype", DType::kInt32}, {"shape", shape}});
    Output zeros = Op(
        "Fill", {Constant(Tensor::Vector<int32_t>({kSize})), Constant(I(0))});
    Output ones = Op("OnesLike", {zeros});
    Node* add;
    Output read;
    if (reference) {
      RunNode(BuildNode("Assign", {v, zeros}));
      add = BuildNode("AssignAdd", {v, ones}, {{"use_locking", true}});
      read = Op("Identity", {v});
    } else {
      RunNode(BuildNode("AssignVariableOp", {v, zeros}));
      add = BuildNode("AssignAddVariableOp", {v, ones});
      read = Op("ReadVariableOp", {v}, {{"dtype", DType::kInt32}});
    }
    std::atomic<int> torn{0}, failed{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < kSteps; ++i) {
          if (!session_.RunTargets({add}).ok()) ++failed;
          if ((i + t) % 4 != 0) continue;
          Result<Tensor> now = session_.Run(read);
          if (!now.ok()) {
            ++failed;
            continue;
          }
          const int32_t* p = now->data<int32_t>();
          for (int k = 1; k < kSize; ++k)
            if (p[k] != p[0]) {
              ++torn;
              break;
            }
        }
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(failed, 0);
    EXPECT_EQ(torn, 0);
    EXPECT_EQ(Eval(read).ToVector<int32_t>()[kSize - 1], kThreads * kSteps);
  }
}

TEST_F(SessionTest, CompiledStepDoesNotWaitForCompilation) {
  const Output x = Placeholder("x");
  const Output y = Op("Neg", {x}), z = Add(x, x);
  const Feeds feeds = {{x, Tensor::Scalar<float>(3)}};
  Session* session = nullptr;
  std::future<Result<Tensor>> beside;
  bool ended_first = false;
  SessionOptions o;
  o.placement_log = [&](const std::string&) {  // In the middle of compiling.
    if (session == nullptr) return;
    beside =
        std::async(std::launch::async, [&] { return session->Run(feeds, y); });
    ended_first =
        beside.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  };
  Session s(graph_, o);
  ASSERT_TRUE(s.Run(feeds, y).ok());
  session = &s;
  ASSERT_TRUE(s.Run(feeds, z).ok());
  EXPECT_TRUE(ended_first);
  const Result<Tensor> out = beside.get();
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->scalar<float>(), -3);
}

TEST_F(SessionTest, CallableMayBeCalledFromSeveralThreads) {
  Output x = Placeholder("x");
  Output y = x;
  for (int i = 0; i < 10; ++i) y = Add(y, x);
  auto callable = session_.MakeCallable({x}, {y});
  ASSERT_TRUE(callable.ok()) << callable.status();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t, callable = *callable] {
      for (int i = 0; i < 300; ++i) {
        const float v = static_cast<float>(t * 1000 + i);
        auto out = callable.Run({F(v)});
        if (!out.ok() || (*out)[0].scalar<float>() != 11 * v) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(callable->Run({}).ok());
  EXPECT_FALSE(callable->Run({F(1), F(2)}).ok());
}

TEST_F(SessionTest, ConcurrentKernelsGiveEqualResults) {
  std::mt19937 random(7);
  std::vector<float> v(96 * 96);
  for (float& f : v) f = static_cast<float>(random() % 5);
  Output x = Placeholder("x");
  const Tensor value = *Tensor::Vector<float>(v).Reshaped({96, 96});
  std::vector<Output> products;
  for (int i = 0; i < 8; ++i)
    products.push_back(Op("MatMul", {Mul(x, Constant(F(float(i + 1)))), x}));
  Output sum = Op("AddN", products);
  SessionOptions alone;
  alone.inter_op_threads = 0;
  alone.intra_op_threads = 1;
  Session plain(graph_, alone);
  const Tensor want = *plain.Run({{x, value}}, sum);
  SessionOptions together;
  together.inter_op_threads = 4;
  Session pooled(graph_, together);
  for (int i = 0; i < 20; ++i) {
    Result<Tensor> got = pooled.Run({{x, value}}, sum);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->ToVector<float>(), want.ToVector<float>());
  }
}

TEST_F(SessionTest, ControlEdgeOrdersReferenceReadAfterAssignment) {
  Output v = Variable("v", DType::kFloat, PartialShape({}));
  RunNode(BuildNode("Assign", {v, Constant(F(1))}));
  Node* set = BuildNode("Assign", {v, Constant(F(5))});
  Output after;
  {
    ControlDependencies wait({set});
    after = Add(Op("Identity", {v}), Constant(F(0)));
  }
  EXPECT_EQ(Eval(after).scalar<float>(), 5);
  // A value that was read before does not change, except for readers that wait
  // themselves.
  Output before = Op("Identity", {v});
  Output snapshot = Op("Neg", {before});
  Node* later;
  {
    ControlDependencies wait({before.node});
    later = BuildNode("Assign", {v, Constant(F(7))});
  }
  Output now;
  {
    ControlDependencies wait({later});
    now = Op("Neg", {before});
  }
  auto out = session_.Run({snapshot, now});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), -5);
  EXPECT_EQ((*out)[1].scalar<float>(), -7);
}

TEST_F(SessionTest, RandomStreamContinuesAcrossPlans) {
  Output r = Op(
      "RandomUniform", {Constant(Tensor::Vector<int32_t>({4}))},
      {{"dtype", DType::kFloat}, {"seed", int64_t{1}}, {"seed2", int64_t{2}}});
  Output through = Op("Identity", {r});
  const auto a = Eval(r).ToVector<float>();
  const auto b = Eval(Add(through, Constant(F(0)))).ToVector<float>();
  const auto c = Eval(r).ToVector<float>();
  EXPECT_NE(a, b);
  EXPECT_NE(b, c);
  Session again(graph_);
  EXPECT_EQ(again.Run(r)->ToVector<float>(), a);
  EXPECT_EQ(again.Run(r)->ToVector<float>(), b);
}

// ---- Partial runs -----------------------------------------------------------

TEST_F(SessionTest, APartialRunIsFedAndFetchedInStages) {
  Output x = Placeholder("x"), y = Placeholder("y");
  Output a = Op("Neg", {x}), b = Add(a, y);
  auto run = session_.StartPartialRun({x, y}, {a, b});
  ASSERT_TRUE(run.ok()) << run.status();
  auto first = (*run)->Run({{x, F(2)}}, {a});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)[0].scalar<float>(), -2);
  EXPECT_THAT((*run)->Run({}, {b}).status().ToString(), HasSubstr("'y:0'"));
  EXPECT_FALSE((*run)->Run({{x, F(3)}}, {}).ok());
  EXPECT_FALSE((*run)->Run({{y, F(3)}, {y, F(4)}}, {}).ok());
  EXPECT_FALSE((*run)->Run({{y, I(3)}}, {}).ok());
  EXPECT_FALSE((*run)->Run({}, {a}).ok());
  auto second = (*run)->Run({{y, F(10)}}, {b});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)[0].scalar<float>(), 8);
}

TEST_F(SessionTest, APartialRunMayOutliveItsSession) {
  Output x = Placeholder("x");
  Output y = Op("Neg", {x});
  std::unique_ptr<Session::PartialRun> run;
  {
    Session s(graph_);
    auto started = s.StartPartialRun({x}, {y});
    ASSERT_TRUE(started.ok());
    run = *std::move(started);
  }
  EXPECT_EQ(run->Run({{x, F(1)}}, {y}).status().code(),
            StatusCode::kFailedPrecondition);
}

// ---- Changes between steps
// ---------------------------------------------------

TEST_F(SessionTest, ChangedStatefulNodeRestarts) {
  const Output shape = Constant(Tensor::Vector<int32_t>({8}));
  const Output r =
      Op("RandomUniform", {shape}, {{"dtype", DType::kFloat}, {"seed", 3}});
  ASSERT_TRUE(session_.Run(r).ok());
  graph_.SetAttr(r.node, "seed", AttrValue(int64_t{4}));
  const Output y = Op("Neg", {r});
  Session fresh(graph_);
  const auto got = session_.Run(y), want = fresh.Run(y);
  ASSERT_TRUE(got.ok() && want.ok()) << got.status() << want.status();
  EXPECT_TRUE(got->Identical(*want));
}

TEST_F(SessionTest, InvalidOutputIndexIsAnError) {
  const Output x = Placeholder("x"), y = Op("Neg", {x}), z = Op("Exp", {x});
  ASSERT_TRUE(session_.Run({{x, F(1)}}, {y, z}).ok());
  for (const int index : {-1, 1, -(1 << 24), 1 << 24})
    EXPECT_THAT(
        std::string(session_.Run({{x, F(1)}}, {y, Output(z.node, index)})
                        .status()
                        .message()),
        HasSubstr("expected one of 1 outputs"));
}

}  // namespace
}  // namespace sluice
