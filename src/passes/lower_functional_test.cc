// The lowered form of functional nodes, and its results.
#include "passes/lower_functional.h"

#include "client/control/functions.h"
#include "client/control/loops.h"
#include "client/testing/function_test_util.h"
#include "graph/function.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class LowerTest : public FunctionTest {
 protected:
  float Number(Output o, const Feeds& feeds = {}) {
    return Value<float>(o, feeds);
  }
  Node* If(Output pred, const Args& args, const Function& t, const Function& f,
           AttrValue::Types out = {kF}, const char* op = "If") {
    return BuildNode(
        op, Join({pred}, args),
        {{"then_branch", t.ref()}, {"else_branch", f.ref()}, {"Tout", out}},
        "cond");
  }
  Node* Case(Output index, const Args& args, const std::vector<Function>& fs) {
    AttrValue::Functions refs;
    for (const Function& f : fs) refs.push_back(f.ref());
    return BuildNode("Case", Join({index}, args),
                     {{"branches", refs}, {"Tout", AttrValue::Types{kF}}},
                     "switch_case");
  }
  Node* While(const Args& args, const Function& cond, const Function& body,
              AttrMap more = {}) {
    more["cond"] = cond.ref();
    more["body"] = body.ref();
    return BuildNode("While", args, std::move(more), "loop");
  }
  Node* For(int start, int limit, int delta, const Args& args,
            const Function& body) {
    return BuildNode(
        "For", Join({Constant(start), Constant(limit), Constant(delta)}, args),
        {{"body", body.ref()}}, "for");
  }
  static Args Join(Args a, const Args& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  // x + c
  static Function Adder(const std::string& name, float c) {
    return DefineFunction(name, {kF}, [c](const Args& a) { return a[0] + c; });
  }
  static int CountRole(const Graph& g, OpRole role) {
    int n = 0;
    for (const auto& node : g.nodes()) n += node->op().role == role ? 1 : 0;
    return n;
  }
};

// ---- Calls ------------------------------------------------------------------

TEST_F(LowerTest, CallIsReplacedByItsBody) {
  const Function f = DefineFunction("f", {kF, kF}, [](const Args& a) {
    return Args{a[0] * a[1], a[0] - 1};
  });
  const Output x = In<float>("x");
  const Args y = f({x, Constant(3.f)});
  EXPECT_EQ(y[0].shape().rank(), 0);
  EXPECT_EQ(Number(y[0], {Fed(x, 5.f)}), 15.f);
  EXPECT_EQ(Number(y[1] + y[0], {Fed(x, 5.f)}), 19.f);

  const Result<std::vector<Node*>> effects = LowerFunctional(&graph_, Graph());
  ASSERT_TRUE(effects.ok()) << effects.status();
  EXPECT_TRUE(effects->empty());
  EXPECT_EQ(CountRole(graph_, OpRole::kFunctional), 0);
  EXPECT_NE(graph_.FindNode("f/Mul"), nullptr);
  EXPECT_EQ(graph_.FindNode("f")->op_name(), "NoOp");
}

TEST_F(LowerTest, CallsNest) {
  const Function inner = Adder("inner", 1);
  const Function outer = DefineFunction("outer", {kF}, [&](const Args& a) {
    return inner({inner({a[0]})[0] * 2})[0];
  });
  const Output x = In<float>("x");
  EXPECT_EQ(Number(outer({x})[0], {Fed(x, 3.f)}), 9.f);
}

TEST_F(LowerTest, ResultsMayBeArgumentsOrConstants) {
  const Function f = DefineFunction("f", {kF, kF}, [](const Args& a) {
    return Args{a[1], Constant(7.f), a[1]};
  });
  const Output x = In<float>("x");
  const Args y = f({x, x * 2});
  EXPECT_EQ(Number(y[0], {Fed(x, 3.f)}), 6.f);
  EXPECT_EQ(Number(y[1]), 7.f);
  EXPECT_EQ(Number(y[2], {Fed(x, 3.f)}), 6.f);
}

TEST_F(LowerTest, NewNamesAvoidNamesOfTheWholeGraph) {
  const Function f = Adder("f", 1);
  const Output x = In<float>("x");
  const Output other = Build("Neg", {x}, {}, "f/Add");
  const Output y = f({x})[0];
  EXPECT_EQ(Number(y, {Fed(x, 1.f)}), 2.f);
  EXPECT_EQ(Number(y + other, {Fed(x, 1.f)}), 1.f);
}

TEST_F(LowerTest, DependentsOfCallWaitForEffectsOfBody) {
  const Var v(0.f);
  const Function f =
      DefineFunction("f", {DType::kResource, kF}, [](const Args& a) {
        BuildNode("AssignAddVariableOp", {a[0], a[1]});
        return a[1] * 2;
      });
  const Args y = f({v.handle(), Constant(4.f)});
  EXPECT_EQ(y[0].node->op_name(), "StatefulPartitionedCall");
  Output after;
  {
    const ControlDependencies wait({y[0].node});
    after = v.Read();
  }
  Initialize();
  EXPECT_EQ(Number(after), 4.f);
  EXPECT_EQ(Number(after), 8.f);
  RunNode(y[0].node);  // As a target.
  EXPECT_EQ(Number(v.Read()), 12.f);
  EXPECT_EQ(Number(y[0]), 8.f);  // For its result.
  EXPECT_EQ(Number(v.Read()), 16.f);
}

TEST_F(LowerTest, BodyWaitsForControlInputsOfCall) {
  const Var v(1.f);
  const Function f = DefineFunction("f", {DType::kResource}, [](const Args& a) {
    return Build("ReadVariableOp", {a[0]}, {{"dtype", kF}});
  });
  Node* assign = BuildNode("AssignVariableOp", {v.handle(), Constant(9.f)});
  Output y;
  {
    const ControlDependencies wait({assign});
    y = f({v.handle()})[0];
  }
  Initialize();
  EXPECT_EQ(Number(y), 9.f);
}

TEST_F(LowerTest, LibraryFunctionsCanBeUsedAsOps) {
  const char text[] =
      "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: "
      "DT_INT32 } } attr { key: 'shape' value { shape { } } } } "
      "node { name: 'y' op: 'Twice' input: 'x' attr { key: 'T' value { type: "
      "DT_INT32 } } } "
      "node { name: 'z' op: 'PartitionedCall' input: 'x' input: 'x' attr { "
      "key: "
      "'Tin' value { list { type: [DT_INT32, DT_INT32] } } } attr { key: "
      "'Tout' "
      "value { list { type: DT_INT32 } } } attr { key: 'f' value { func { "
      "name: "
      "'Total' attr { key: 'N' value { i: 2 } } } } } } "
      "library { function { signature { name: 'Twice' input_arg { name: 'a' "
      "type_attr: 'T' } output_arg { name: 'r' type_attr: 'T' } attr { name: "
      "'T' type: 'type' } } "
      "node_def { name: 's' op: 'AddV2' input: 'a' input: 'a' attr { key: 'T' "
      "value { placeholder: 'T' } } } ret { key: 'r' value: 's:z:0' } } "
      "function { signature { name: 'Total' input_arg { name: 'a' type: "
      "DT_INT32 number_attr: 'N' } output_arg { name: 'r' type: DT_INT32 } "
      "attr { name: 'N' type: 'int' has_minimum: true minimum: 1 } } "
      "node_def { name: 's' op: 'AddN' input: 'a' attr { key: 'N' value { "
      "placeholder: 'N' } } attr { key: 'T' value { type: DT_INT32 } } } "
      "node_def { name: 't' op: 'AddV2' input: 's:sum:0' input: 'a:1' attr { "
      "key: 'T' value { type: DT_INT32 } } } ret { key: 'r' value: 't:z' } } }";
  const Result<std::string> bytes = ParseTextGraphDef(text);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const Status s = ImportGraphDef(*bytes, graph_);
  ASSERT_TRUE(s.ok()) << s;
  const Output x(graph_.FindNode("x"));
  EXPECT_THAT(Values<int32_t>(Output(graph_.FindNode("y")), {Fed(x, 21)}),
              ElementsAre(42));
  EXPECT_THAT(Values<int32_t>(Output(graph_.FindNode("z")), {Fed(x, 5)}),
              ElementsAre(15));
  // An export and import preserves them.
  Graph again;
  ASSERT_TRUE(ImportGraphDef(*ExportGraphDef(graph_), again).ok());
  EXPECT_EQ(again.FindNode("y")->op_name(), "Twice");
}

// ---- Conditionals -----------------------------------------------------------

TEST_F(LowerTest, OnlyTheTakenBranchRuns) {
  const Var t(0.f), f(0.f);
  const auto branch = [](int which) {
    return [which](const Args& a) {
      BuildNode("AssignAddVariableOp",
                {a[static_cast<size_t>(which)], Constant(1.f)});
      return which == 0 ? a[2] + 1 : a[2] * 10;
    };
  };
  const std::vector<DType> types = {DType::kResource, DType::kResource, kF};
  const Function then_fn = DefineFunction("then_fn", types, branch(0));
  const Function else_fn = DefineFunction("else_fn", types, branch(1));
  const Output p = In<bool>("p"), x = In<float>("x");
  Node* n = If(p, {t.handle(), f.handle(), x}, then_fn, else_fn);
  Initialize();
  EXPECT_EQ(Number(Output(n), {Fed(p, true), Fed(x, 3.f)}), 4.f);
  EXPECT_EQ(Number(Output(n), {Fed(p, false), Fed(x, 3.f)}), 30.f);
  RunNode(n, {Fed(p, false), Fed(x, 3.f)});
  EXPECT_EQ(Number(t.Read()), 1.f);
  EXPECT_EQ(Number(f.Read()), 2.f);
  Output after;
  {
    const ControlDependencies wait({n});
    after = f.Read();
  }
  EXPECT_EQ(Number(after, {Fed(p, false), Fed(x, 3.f)}), 3.f);
  EXPECT_EQ(Number(after, {Fed(p, true), Fed(x, 3.f)}), 3.f);
}

TEST_F(LowerTest, ConstantsInUntakenBranchDoNotRun) {
  // Dividing fails, so it must not run in the branch that is not taken.
  const Function bad = DefineFunction("bad", {kI}, [](const Args&) {
    return Build("FloorDiv", {Constant(1), Constant(0)});
  });
  const Function good =
      DefineFunction("good", {kI}, [](const Args& a) { return Args{a[0]}; });
  const Output p = In<bool>("p"), x = In<int32_t>("x");
  Node* n = If(p, {x}, bad, good, {kI});
  EXPECT_THAT(Values<int32_t>(Output(n), {Fed(p, false), Fed(x, 8)}),
              ElementsAre(8));
  EXPECT_THAT(ErrorOf(Output(n), {Fed(p, true), Fed(x, 8)}),
              HasSubstr("cond/then/FloorDiv"));
}

TEST_F(LowerTest, NonBooleanPredicatesFollowTruthiness) {
  const Function t = Adder("t", 1), f = Adder("f", 2);
  const Output x = Constant(0.f);
  const auto run = [&](Tensor pred) {
    return Number(Output(If(Constant(std::move(pred)), {x}, t, f)));
  };
  EXPECT_EQ(run(Tensor::Scalar(3)), 1.f);
  EXPECT_EQ(run(Tensor::Scalar(0)), 2.f);
  EXPECT_EQ(run(Tensor::Scalar(0.5f)), 1.f);
  EXPECT_EQ(run(Tensor::Scalar<std::string>("")), 2.f);
  EXPECT_EQ(run(Tensor::Scalar<std::string>("x")), 1.f);
  EXPECT_EQ(run(Tensor::Vector<int32_t>({0})), 1.f);
  EXPECT_EQ(run(Tensor::Vector<int32_t>({})), 2.f);
}

TEST_F(LowerTest, CaseTakesLastBranchForIndexOutOfRange) {
  const Function a = Adder("a", 1), b = Adder("b", 2), c = Adder("c", 3);
  const Output i = In<int32_t>("i");
  for (const auto& [branches, last] :
       {std::pair{std::vector<Function>{a, b, c}, 3.f},
        std::pair{std::vector<Function>{a, b}, 2.f},
        std::pair{std::vector<Function>{a}, 1.f}}) {
    const Output y(Case(i, {Constant(0.f)}, branches));
    for (int32_t k : {-2, -1, 0, 1, 2, 3, 100}) {
      const auto n = static_cast<int32_t>(branches.size());
      const float want = k < 0 || k >= n ? last : static_cast<float>(k + 1);
      EXPECT_EQ(Number(y, {Fed(i, k)}), want) << k;
    }
  }
}

TEST_F(LowerTest, ConditionalsNest) {
  const Function one = Adder("one", 1), two = Adder("two", 2);
  const Function inner = DefineFunction(
      "inner", {DType::kBool, kF},
      [&](const Args& a) { return Output(If(a[0], {a[1]}, one, two)); });
  const Function zero = DefineFunction(
      "zero", {DType::kBool, kF}, [](const Args& a) { return Args{a[1]}; });
  const Output p = In<bool>("p"), q = In<bool>("q");
  const Output y(If(p, {q, Constant(10.f)}, inner, zero));
  EXPECT_EQ(Number(y, {Fed(p, true), Fed(q, true)}), 11.f);
  EXPECT_EQ(Number(y, {Fed(p, true), Fed(q, false)}), 12.f);
  EXPECT_EQ(Number(y, {Fed(p, false), Fed(q, false)}), 10.f);
}

// ---- Loops ------------------------------------------------------------------

class LowerLoopTest : public LowerTest {
 protected:
  // i < n; (i + 1, n, x * i + b, b)
  const std::vector<DType> types_ = {kI, kI, kF, kF};
  Function cond_ =
      DefineFunction("cond", types_, [](const Args& a) { return a[0] < a[1]; });
  Function body_ = DefineFunction("body", types_, [](const Args& a) {
    return Args{a[0] + 1, a[1],
                a[2] * Build("Cast", {a[0]}, {{"DstT", kF}}) + a[3], a[3]};
  });
  float Expect(int n, float b) {
    float x = 1;
    for (int i = 0; i < n; ++i) x = x * static_cast<float>(i) + b;
    return x;
  }
};

TEST_F(LowerLoopTest, WhileRunsAsLongAsConditionHolds) {
  const Output n = In<int32_t>("n"), b = In<float>("b");
  Node* loop = While({Constant(0), n, Constant(1.f), b}, cond_, body_);
  for (int count : {0, 1, 2, 7}) {
    const Feeds feeds = {Fed(n, count), Fed(b, 0.5f)};
    EXPECT_EQ(Number(Output(loop, 2), feeds), Expect(count, 0.5f));
    EXPECT_THAT(Values<int32_t>(Output(loop, 0), feeds), ElementsAre(count));
    EXPECT_THAT(Values<int32_t>(Output(loop, 1), feeds), ElementsAre(count));
    EXPECT_EQ(Number(Output(loop, 3), feeds), 0.5f);
  }
  // Unchanged loop variables become loop constants.
  ASSERT_TRUE(LowerFunctional(&graph_, Graph()).ok());
  int constants = 0;
  for (const auto& node : graph_.nodes())
    constants += node->op_name() == "Enter" && node->BoolAttr("is_constant");
  EXPECT_EQ(constants, 2);
}

TEST_F(LowerLoopTest, WhilesNest) {
  const Output n = In<int32_t>("n"), b = In<float>("b");
  const Function outer = DefineFunction("outer", types_, [&](const Args& a) {
    Node* in = While({Constant(0), a[1], a[2], a[3]}, cond_, body_);
    return Args{a[0] + 1, a[1], Output(in, 2), a[3]};
  });
  Node* loop = While({Constant(0), n, Constant(1.f), b}, cond_, outer);
  float want = 1;
  for (int k = 0; k < 3; ++k)
    for (int i = 0; i < 3; ++i) want = want * static_cast<float>(i) + 2.f;
  EXPECT_EQ(Number(Output(loop, 2), {Fed(n, 3), Fed(b, 2.f)}), want);
}

TEST_F(LowerLoopTest, ChangingShapesBecomeUnknown) {
  const Function more = DefineFunction("more", {kF, kI}, [](const Args& a) {
    return Args{Build("ConcatV2", {a[0], a[0], Constant(0)}), a[1] + 1};
  });
  const Function few = DefineFunction(
      "few", {kF, kI}, [](const Args& a) { return a[1] < Constant(3); });
  Node* loop =
      While({Constant(Tensor::Vector<float>({1, 2})), Constant(0)}, few, more);
  EXPECT_EQ(Output(loop).shape().ToString(), "[?]");
  EXPECT_EQ(Output(loop, 1).shape().rank(), 0);
  EXPECT_THAT(Values<int32_t>(Build("Shape", {Output(loop)})), ElementsAre(16));
}

TEST_F(LowerLoopTest, EffectsOfIterationPrecedeTheNext) {
  // v = v * 2 + i, from a handle that is an unchanged loop variable.
  const Var v(1.f);
  const Function step =
      DefineFunction("step", {DType::kResource, kF}, [](const Args& a) {
        const Output now = Build("ReadVariableOp", {a[0]}, {{"dtype", kF}});
        BuildNode("AssignVariableOp", {a[0], now * 2 + a[1]});
        return Args{a[0], a[1] + 1};
      });
  const Function few =
      DefineFunction("few", {DType::kResource, kF},
                     [](const Args& a) { return a[1] < Constant(4.f); });
  Node* loop = While({v.handle(), Constant(0.f)}, few, step);
  Initialize();
  RunNode(loop);
  EXPECT_EQ(Number(v.Read()), 27.f);
}

TEST_F(LowerLoopTest, LoopMayDependOnlyOnState) {
  const Var v(1.f);
  const Function step =
      DefineFunction("step", {DType::kResource}, [](const Args& a) {
        const Output now = Build("ReadVariableOp", {a[0]}, {{"dtype", kF}});
        BuildNode("AssignVariableOp", {a[0], now * 2});
        return Args{a[0]};
      });
  const Function few =
      DefineFunction("few", {DType::kResource}, [](const Args& a) {
        return Build("ReadVariableOp", {a[0]}, {{"dtype", kF}}) < 100;
      });
  Node* loop = While({v.handle()}, few, step);
  Initialize();
  RunNode(loop);
  EXPECT_EQ(Number(v.Read()), 128.f);
}

TEST_F(LowerLoopTest, ForCountsInEitherDirection) {
  // x = x * 3 + i
  const Function body = DefineFunction("for_body", {kI, kF}, [](const Args& a) {
    return a[1] * 3 + Build("Cast", {a[0]}, {{"DstT", kF}});
  });
  const auto run = [&](int start, int limit, int delta) {
    return Number(Output(For(start, limit, delta, {Constant(1.f)}, body)));
  };
  const auto want = [](int start, int limit, int delta) {
    float x = 1;
    for (int i = start; delta > 0 ? i < limit : i > limit; i += delta)
      x = x * 3 + static_cast<float>(i);
    return x;
  };
  EXPECT_EQ(run(1, 6, 1), want(1, 6, 1));
  EXPECT_EQ(run(1, 6, 2), want(1, 6, 2));
  EXPECT_EQ(run(6, 1, -1), want(6, 1, -1));
  EXPECT_EQ(run(5, -5, -3), want(5, -5, -3));
  EXPECT_EQ(run(2, 2, 1), 1.f);
  EXPECT_EQ(run(2, 2, 0), 1.f);
  EXPECT_THAT(ErrorOf(Output(For(1, 6, -1, {Constant(1.f)}, body))),
              HasSubstr("expected delta to lead from start to limit"));
  EXPECT_THAT(ErrorOf(Output(For(1, 6, 0, {Constant(1.f)}, body))),
              HasSubstr("expected delta"));
}

TEST_F(LowerLoopTest, CallMayAppearInPrimitiveLoop) {
  // In the body of a loop of primitives, a call that is tied to the loop only
  // by its argument.
  const Function f = DefineFunction("f", {kF}, [](const Args& a) {
    return a[0] +
           Build("RandomUniform", {Constant(Tensor::Vector<int32_t>({}))},
                 {{"dtype", kF}}) *
               0 +
           1;
  });
  const Output i = OpenMerge(ops::Enter(Constant(0.f), "loop"));
  auto [done, again] = ops::Switch(i, ops::LoopCond(i < 3));
  CloseMerge(i, ops::NextIteration(f({again})[0]));
  EXPECT_EQ(Number(ops::Exit(done)), 3.f);
}

// ---- Errors -----------------------------------------------------------------

TEST_F(LowerTest, MismatchedCallsAreRefused) {
  const Function f = Adder("adder", 1);
  Build("PartitionedCall", {Constant(1.f)},
        {{"f", FunctionRef{"addr", nullptr}}, {"Tout", AttrValue::Types{kF}}},
        "call");
  EXPECT_THAT(BuildErrorOf(), HasSubstr("got 'addr'; nearest: adder"));
  EXPECT_THAT(BuildErrorOf(), HasSubstr("node 'call'"));
  graph_.ClearErrors();
  Build("PartitionedCall", {Constant(1)},
        {{"f", f.ref()}, {"Tout", AttrValue::Types{kF}}});
  EXPECT_THAT(BuildErrorOf(),
              HasSubstr("expected arguments (float) as declared, "
                        "got (int32)"));
  graph_.ClearErrors();
  If(Constant(true), {Constant(1.f)}, f, f, {kI});
  EXPECT_THAT(BuildErrorOf(),
              HasSubstr("attribute 'then_branch', function 'adder': expected "
                        "results (int32) as the node returns, got (float)"));
  graph_.ClearErrors();
  While({Constant(1.f)}, Function("nothing", false), f);
  EXPECT_THAT(BuildErrorOf(), HasSubstr("attribute 'cond'"));
}

TEST_F(LowerTest, ErrorsInBodyNameItsLine) {
  const Function f = DefineFunction("f", {kI}, [](const Args& a) {
    return Args{Build("FloorDiv", {Constant(1), a[0]}), a[0]};
  });
  const int line = __LINE__ - 2;
  const Output x = In<int32_t>("x");
  EXPECT_THAT(ErrorOf(f({x})[0], {Fed(x, 0)}), HasSubstr(Here(line, __FILE__)));
}

TEST_F(LowerTest, ExponentialInliningIsRefused) {
  // Each calls the one before it eight times.
  Function f = Adder("f0", 1);
  for (int k = 1; k <= 12; ++k) {
    const Function callee = f;
    f = DefineFunction(absl::StrCat("f", k), {kF}, [&](const Args& a) {
      Output x = a[0];
      for (int i = 0; i < 8; ++i) x = callee({x})[0];
      return x;
    });
  }
  EXPECT_THAT(ErrorOf(f({Constant(1.f)})[0]),
              HasSubstr("nodes of inlined bodies"));
}

TEST_F(LowerTest, EndlessInstantiationIsRefused) {
  // f(g) calls f(h(g)).
  const char text[] =
      "node { name: 'x' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT "
      "} "
      "} attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { } "
      "float_val: 1 } } } } "
      "node { name: 'y' op: 'f' input: 'x' attr { key: 'g' value { func { "
      "name: "
      "'Neg' } } } } "
      "library { function { signature { name: 'f' input_arg { name: 'a' type: "
      "DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } attr { name: 'g' "
      "type: "
      "'func' } } node_def { name: 'c' op: 'f' input: 'a' attr { key: 'g' "
      "value { "
      "func { name: 'h' attr { key: 'g' value { placeholder: 'g' } } } } } } "
      "ret { "
      "key: 'r' value: 'c:r:0' } } }";
  const Result<std::string> bytes = ParseTextGraphDef(text);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const Status s = ImportGraphDef(*bytes, graph_);
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_THAT(ErrorOf(Output(graph_.FindNode("y"))),
              HasSubstr("at most 256 recursive functions"));
}

TEST_F(LowerTest, InliningLimitCountsBodiesOfOnlyCalls) {
  Function f = DefineFunction("f0", {kF}, [](const Args& a) { return a[0]; });
  for (int k = 1; k <= 60; ++k) {
    const Function callee = f;
    f = DefineFunction(absl::StrCat("f", k), {kF}, [&](const Args& a) {
      return callee({callee({a[0]})[0]})[0];
    });
  }
  EXPECT_THAT(ErrorOf(f({Constant(1.f)})[0]),
              HasSubstr("nodes of inlined bodies"));
}

TEST_F(LowerTest, NodeNamedLikeAnInlinedNodeIsIndependent) {
  const Output shape = Constant(Tensor::Vector<int32_t>({4}));
  const Function f = DefineFunction("f", {kI}, [](const Args& a) {
    return Build("RandomUniform", {a[0]}, {{"dtype", kF}, {"seed", 3}}, "r");
  });
  const Output y = f({shape})[0];
  EXPECT_EQ(Values<float>(y).size(), 4u);
  // In the step above the body's node had this name.
  const Output z = Build("RandomUniformInt", {shape, Constant(0), Constant(10)},
                         {{"seed", 3}}, y.node->name() + "/r");
  for (const int v : Values<int32_t>(z)) {
    EXPECT_GE(v, 0);
    EXPECT_LT(v, 10);
  }
}

}  // namespace
}  // namespace sluice
