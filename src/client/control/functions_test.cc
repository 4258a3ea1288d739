// Functions from C++: calls, recursion at run time, gradients.
#include "client/control/functions.h"

#include <cmath>
#include <thread>

#include "client/control/control_flow.h"
#include "client/testing/function_test_util.h"
#include "graph/device_scope.h"
#include "graph/function.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FunctionsTest : public FunctionTest {
 protected:
  static Function Fib() {
    return DefineFunction(
        "fib", {kI}, {kI}, [](const Function& fib, const Args& a) {
          const Output n = a[0];
          return Cond(
              n < 2, [&] { return n; },
              [&] { return fib({n - 1})[0] + fib({n - 2})[0]; });
        });
  }
  // n + (n - 1) + ... + 1
  static Function Sum() {
    return DefineFunction(
        "sum", {kI}, {kI}, [](const Function& sum, const Args& a) {
          const Output n = a[0];
          return Cond(
              n < 1, [&] { return n; }, [&] { return sum({n - 1})[0] + n; });
        });
  }
  static SessionOptions SeededOptions(uint64_t seed) {
    SessionOptions options;
    options.scheduler_seed = seed;
    return options;
  }
  // Recurses forever.
  static Function Endless() {
    return DefineFunction(
        "endless", {kF}, {kF},
        [](const Function& f, const Args& a) { return f({a[0] + 1})[0] * 2; });
  }
};

// ---- Definitions ------------------------------------------------------------

TEST_F(FunctionsTest, DefinitionIsInLibraryAndCallsAreNodes) {
  const Function f = DefineFunction("scaled", {kF, kF},
                                    [](const Args& a) { return a[0] * a[1]; });
  EXPECT_EQ(graph_.functions().count("scaled"), 1u);
  const Output x = In<float>("x");
  const Output y = f({x, Constant(3.f)})[0];
  EXPECT_EQ(y.node->op_name(), "PartitionedCall");
  EXPECT_EQ(y.node->name(), "scaled");
  EXPECT_EQ(Value<float>(y, {Fed(x, 2.f)}), 6.f);
}

TEST_F(FunctionsTest, GraphDefsCarryRecursiveFunctions) {
  const Output n = In<int32_t>("n");
  const Output y = Fib()({n})[0];
  Graph again;
  const Result<std::string> bytes = ExportGraphDef(graph_);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const Status s = ImportGraphDef(*bytes, again);
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_EQ(again.functions(), graph_.functions());
  Session session(again);
  const auto got = session.RunByName({{"n", Tensor::Scalar(10)}}, {y.name()});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].scalar<int32_t>(), 55);
}

TEST_F(FunctionsTest, InvalidDefinitionsAreErrors) {
  Graph other;
  Output elsewhere;
  {
    const WithGraph use(other);
    elsewhere = In<float>("elsewhere");
  }
  DefineFunction("f", {kF}, [&](const Args&) { return elsewhere; });
  EXPECT_THAT(BuildErrorOf(),
              AllOf(HasSubstr("function 'f': "), HasSubstr("of another graph"),
                    HasSubstr("'elsewhere'")));
  graph_.ClearErrors();
  DefineFunction("g", {kF}, {kI},
                 [](const Function&, const Args& a) { return a[0]; });
  EXPECT_THAT(BuildErrorOf(),
              HasSubstr("expected (int32) as declared, got (float)"));
  graph_.ClearErrors();
  DefineFunction("h", {kF}, [](const Args& a) { return a[0]; });
  DefineFunction("h", {kF}, [](const Args& a) { return a[0] + 1; });
  EXPECT_THAT(BuildErrorOf(), HasSubstr("one definition of 'h'"));
  graph_.ClearErrors();
  DefineFunction("Add", {kF}, [](const Args& a) { return a[0]; });
  EXPECT_THAT(BuildErrorOf(), HasSubstr("a name that no op has, got 'Add'"));
  graph_.ClearErrors();
  const Function later = DeclareFunction("later", {kF}, {kF});
  const Output y = later({Constant(1.f)})[0];
  EXPECT_THAT(ErrorOf(y),
              HasSubstr("function 'later': expected to be defined"));
}

TEST_F(FunctionsTest, FailedFunctionsReturnDeclaredNumberOfNullResults) {
  const auto broken = [](const Args& a) {
    const Output bad = ops::MatMul(a[0], a[0]);
    return std::vector<Output>{bad, a[0]};
  };
  FunctionOptions scalar;
  scalar.arg_shapes = {PartialShape::Scalar()};
  const Function f = DefineFunction("f", {kF}, broken, scalar);
  const Function g = DefineFunction(
      "g", {kF}, {kF, kF},
      [&](const Function&, const Args& a) { return broken(a); }, scalar);
  for (const Function& failed : {f, g}) {
    const CallResults y = failed({Constant(1.f)});
    ASSERT_EQ(y.size(), 2u);
    for (const Output& o : y) {
      EXPECT_FALSE(o.valid());
      EXPECT_THAT(ErrorOf(o), AllOf(HasSubstr("function '" + failed.name()),
                                    HasSubstr("MatMul")));
    }
  }
  EXPECT_EQ(Value<float>(Constant(3.f)), 3.f);  // Unaffected nodes still run.
}

TEST_F(FunctionsTest, ResultIndexPastTheEndIsAnError) {
  const Function f =
      DefineFunction("f", {kF}, [](const Args& a) { return a[0]; });
  const auto told = [this](const Function& of) {
    const Output y = of({Constant(1.f)})[3];
    EXPECT_FALSE(y.valid());
    return ErrorOf(y);
  };
  EXPECT_THAT(told(f), HasSubstr("'f': expected a result below 1, got 3"));
  // Where there is none to call, that is the error.
  EXPECT_THAT(told(Function()), HasSubstr("got an empty one"));
  EXPECT_THAT(told(Function("none_such", false)),
              AllOf(HasSubstr("none_such"), Not(HasSubstr("result below"))));
}

// ---- Captures ---------------------------------------------------------------

TEST_F(FunctionsTest, BodiesCaptureOutputsAndVariables) {
  const Output x = In<float>("x"), k = In<float>("k");
  const Var v(10.f, "v");
  const Function f = DefineFunction(
      "f", {kF}, [&](const Args& a) { return a[0] * k + v * v; });
  EXPECT_EQ(f.captures().size(), 2u);  // Each once.
  const Output y = f({x})[0] + f({x + 1})[0];
  Initialize();
  EXPECT_EQ(Value<float>(y, {Fed(x, 2.f), Fed(k, 3.f)}), 6 + 9 + 200.f);
  const std::vector<Output> slopes = Grad({y}, {x, k, v});
  EXPECT_EQ(Value<float>(slopes[0], {Fed(x, 2.f), Fed(k, 3.f)}), 6.f);
  EXPECT_EQ(Value<float>(slopes[1], {Fed(x, 2.f), Fed(k, 3.f)}), 5.f);
  EXPECT_EQ(Value<float>(slopes[2], {Fed(x, 2.f), Fed(k, 3.f)}), 40.f);
}

TEST_F(FunctionsTest, BodiesReadAndUpdateVariablesAtEachCall) {
  for (const bool reference : {false, true}) {
    const std::string n = reference ? "ref" : "resource";
    const Var v(1.f, n, {.reference = reference});
    const Function read = DefineFunction(
        "read_" + n, {kF}, [&](const Args& a) { return v + a[0]; });
    Initialize();
    EXPECT_EQ(Value<float>(read({Constant(1.f)})[0]), 2.f);
    RunNode(v.Assign(5.f));
    EXPECT_EQ(Value<float>(read({Constant(1.f)})[0]), 6.f);
    const Function add = DefineFunction("add_" + n, {kF}, [&](const Args& a) {
      const ControlDependencies after({v.AssignAdd(a[0])});
      return ops::Identity(a[0]);
    });
    const Output added = add({Constant(2.f)})[0];
    if (reference) {  // Its value is captured, which nothing can assign to.
      EXPECT_THAT(ErrorOf(added),
                  AllOf(HasSubstr("function 'add_ref'"),
                        HasSubstr("hint: the body of a function has only the "
                                  "value of the reference variable 'ref'")));
    } else {
      EXPECT_EQ(Value<float>(added), 2.f);
      EXPECT_EQ(Value<float>(v.value()), 7.f);
    }
  }
}

TEST_F(FunctionsTest, BodiesCaptureWithinLoopsAndConditionals) {
  const Output n = In<int32_t>("n"), k = In<float>("k"), p = k > 0;
  const Function f = DefineFunction("f", {kF}, [&](const Args& a) {
    const auto [i, y] = While(
        std::tuple{0, a[0]}, [&](Output i, Output) { return i < n; },
        [&](Output i, Output x) {
          return std::tuple{i + 1,
                            Cond(
                                p, [&] { return x * k; }, [&] { return k; })};
        },
        {.maximum_iterations = n});
    return y;
  });
  const Output x = In<float>("x");
  const Output y = f({x})[0], dk = Grad(y, k);
  const Feeds feeds = {Fed(n, 3), Fed(x, 5.f), Fed(k, 2.f)};
  EXPECT_EQ(Value<float>(y, feeds), 40.f);
  EXPECT_EQ(Value<float>(dk, feeds), 60.f);
  EXPECT_EQ(Value<float>(y, {Fed(n, 3), Fed(x, 5.f), Fed(k, -2.f)}), -2.f);
}

TEST_F(FunctionsTest, BodiesKnowTypeAndShapeOfCapturedVariables) {
  const Var v(2.f, "v"), w(Zeros({2, 3}), "w");
  const Function f = DefineFunction(
      "f", {kF},
      [&](const Args& a) {
        EXPECT_EQ(w.Read().shape(), PartialShape({2, 3}));
        const auto [i, y] = While(
            std::tuple{0, a[0]}, [](Output i, Output) { return i < 3; },
            [&](Output i, Output y) {
              EXPECT_EQ(v.Read().shape(), PartialShape({}));
              return std::tuple{
                  i + 1, Cond(
                             y > 0, [&] { return y * v; }, [&] { return y; })};
            });
        return y;
      },
      {.arg_shapes = {PartialShape({})}});
  const Output y = f({Constant(1.f)})[0], dv = Grad(y, v);
  Initialize();
  EXPECT_EQ(Value<float>(y), 8.f);
  EXPECT_EQ(Value<float>(dv), 12.f);
}

TEST_F(FunctionsTest, VariablesCreatedInBodyBelongToOuterGraph) {
  const Function inner = DefineFunction("inner", {kF}, [](const Args& a) {
    return a[0] * GetVariable("w", {}, init::Constant(3));
  });
  const Function f = DefineFunction("f", {kF}, [&](const Args& a) {
    const NameScope layer("layer");
    const Var w = GetVariable("w", {}, init::Constant(2));
    EXPECT_TRUE(GetVariable("w", {}).SameAs(w));
    const Function nested = DefineFunction(
        "nested", {kF}, [](const Args& x) { return x[0] + Var(5.f, "v"); });
    const auto [i, y] = While(
        std::tuple{0, a[0]}, [](Output i, Output) { return i < 2; },
        [&](Output i, Output y) {
          return std::tuple{i + 1, y * w * GetVariable("k", {}, init::Ones())};
        });
    return nested({inner({y})[0]})[0];
  });
  std::vector<std::string> names;
  for (const Var& v : TrainableVariables()) names.push_back(v.name());
  EXPECT_THAT(names, ElementsAre("inner/w", "f/layer/w", "f/nested/v",
                                 "f/layer/while/k"));
  const Output y = f({Constant(1.f)})[0] + f({Constant(10.f)})[0];
  Initialize();
  EXPECT_EQ(Value<float>(y), 11 * 4 * 3 + 10.f);
  const Var w = TrainableVariables()[1];
  EXPECT_EQ(Value<float>(Grad(y, w)), 11 * 2 * 2 * 3.f);
  RunNode(w.Assign(1.f));
  EXPECT_EQ(Value<float>(y), 11 * 3 + 10.f);  // No call assigns it.

  // What is not known before a call begins no variable.
  DefineFunction("of_argument", {kF},
                 [](const Args& a) { return Var(a[0], "v").Read(); });
  EXPECT_THAT(BuildErrorOf(),
              AllOf(HasSubstr("variable 'v': expected an initial value from "
                              "outside of function 'of_argument', got"),
                    HasSubstr("function 'of_argument'")));
  graph_.ClearErrors();
  const Output bad = DefineFunction("bad", {kF}, [](const Args& a) {
    return a[0] * GetVariable("w", {-3});
  })({Constant(1.f)})[0];
  EXPECT_THAT(ErrorOf(bad), AllOf(HasSubstr("function 'bad'"),
                                  HasSubstr("expected dimensions >= 0")));
}

TEST_F(FunctionsTest, VariablesThatABodyMakesGetTheDevicesAroundThem) {
  const auto device = [](const char* name) {
    return GetVariable(name, {}, init::Ones()).handle().node->device();
  };
  const DeviceScope job("/job:a");
  DefineFunction("f", {kF}, [&](const Args& a) {
    EXPECT_EQ(device("plain"), "/job:a");
    {
      const DeviceScope cpu("/device:CPU:1");
      EXPECT_EQ(device("filled_in"), "/job:a/device:CPU:1");
      const DeviceScope other("/job:b");
      EXPECT_EQ(device("replaced"), "/job:b/device:CPU:1");
      DefineFunction("nested", {kF}, [&](const Args& b) {
        const DeviceScope task("/task:2");
        EXPECT_EQ(device("nested"), "/job:b/task:2/device:CPU:1");
        return b[0];
      });
    }
    {
      const DeviceScope task("/task:1");
      const DeviceFunctionScope choose([](Node* node) {
        return node->device().empty() ? "/device:CPU:2" : node->device();
      });
      EXPECT_EQ(device("chosen"), "/job:a/task:1/device:CPU:2");
      const DeviceScope cpu("/device:CPU:3");
      EXPECT_EQ(device("seen"), "/job:a/task:1/device:CPU:3");
    }
    EXPECT_EQ(Var(1.f, "v").initializer()->device(), "/job:a");
    return a[0];
  });
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(device("outside"), "/job:a");
}

TEST_F(FunctionsTest, CallsInLoopsAndConditionalsPassCaptures) {
  const Output k = In<float>("k");
  const Function f =
      DefineFunction("f", {kF}, [&](const Args& a) { return a[0] * k; });
  const auto [i, x] = While(
      std::tuple{0, Constant(1.f)}, [](Output i, Output) { return i < 3; },
      [&](Output i, Output x) {
        return std::tuple{
            i + 1, Cond(
                       i == 1, [&] { return x; }, [&] { return f({x})[0]; })};
      });
  EXPECT_EQ(Value<float>(x, {Fed(k, 3.f)}), 9.f);
  EXPECT_EQ(Value<float>(Grad(x, k), {Fed(k, 3.f)}), 6.f);
}

TEST_F(FunctionsTest, RecursiveCallsPassCaptures) {
  const Output n = In<int32_t>("n"), k = In<float>("k");
  const Function power = DefineFunction(
      "power", {kI}, {kF}, [&](const Function& self, const Args& a) {
        return Cond(
            a[0] <= 0, [&] { return Constant(1.f); },
            // (Called before the capture, and after it.)
            [&] { return self({a[0] - 1})[0] * k + 0 * self({a[0] - 2})[0]; });
      });
  EXPECT_EQ(power.captures().size(), 1u);
  const Output y = power({n})[0];
  EXPECT_EQ(Value<float>(y, {Fed(n, 5), Fed(k, 2.f)}), 32.f);
  EXPECT_EQ(Value<float>(Grad(y, k), {Fed(n, 5), Fed(k, 2.f)}), 80.f);
}

TEST_F(FunctionsTest, NestedBodiesCaptureThroughOuterBodies) {
  const Output x = In<float>("x"), k = In<float>("k");
  const Function outer = DefineFunction("outer", {kF}, [&](const Args& a) {
    const Function inner = DefineFunction(
        "inner", {kF}, [&](const Args& b) { return b[0] * k + a[0]; });
    return inner({a[0] + 1})[0];
  });
  const Output y = outer({x})[0];
  EXPECT_EQ(Value<float>(y, {Fed(x, 2.f), Fed(k, 10.f)}), 32.f);
  const Function caller = DefineFunction(
      "caller", {kF}, [&](const Args& a) { return outer({a[0]})[0] * 2; });
  EXPECT_EQ(Value<float>(caller({x})[0], {Fed(x, 2.f), Fed(k, 10.f)}), 64.f);
}

TEST_F(FunctionsTest, BodiesMayDifferentiateWithRespectToCaptures) {
  const Output x = In<float>("x"), k = In<float>("k");
  const Var v(3.f, "v");
  const Function f = DefineFunction("f", {kF}, [&](const Args& a) {
    const Output y = a[0] * v * v * k;
    return std::vector<Output>{Grad(y, v), Grad(y, k)};
  });
  Initialize();
  const CallResults g = f({x});
  EXPECT_EQ(Value<float>(g[0], {Fed(x, 2.f), Fed(k, 5.f)}), 60.f);
  EXPECT_EQ(Value<float>(g[1], {Fed(x, 2.f), Fed(k, 5.f)}), 18.f);
}

TEST_F(FunctionsTest, GraphDefsCarryCaptures) {
  const Output x = In<float>("x"), k = In<float>("k");
  const Function f =
      DefineFunction("f", {kF}, [&](const Args& a) { return a[0] * k; });
  const Output y = f({x})[0];
  Graph again;
  const Result<std::string> bytes = ExportGraphDef(graph_);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  ASSERT_TRUE(ImportGraphDef(*bytes, again).ok());
  Session session(again);
  const auto got = session.RunByName(
      {{"x", Tensor::Scalar(2.f)}, {"k", Tensor::Scalar(4.f)}}, {y.name()});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].scalar<float>(), 8.f);
}

TEST_F(FunctionsTest, CapturesInBodyDefinedAfterACallAreErrors) {
  const Output k = In<float>("k");
  const Function later = DeclareFunction("later", {kF}, {kF});
  const Output early = later({k})[0];
  DefineBody(later, [&](const Args& a) { return a[0] * k; });
  EXPECT_THAT(BuildErrorOf(),
              AllOf(HasSubstr("function 'later': expected no captures"),
                    HasSubstr("pass it as an argument")));
  EXPECT_FALSE(later({k})[0].valid());
  EXPECT_THAT(ErrorOf(early), HasSubstr("'later'"));
}

TEST_F(FunctionsTest, WrongArgumentsErrorShowsSignature) {
  const Function f =
      DefineFunction("f", {kF, kI}, [](const Args& a) { return a[0] * 2; },
                     {.arg_shapes = {PartialShape({2})}});
  const std::string signature = "f(arg_0: float[2], arg_1: int32) -> (float)";
  const Output x = Placeholder<float>({2}, "x"), n = In<int32_t>("n");
  const int line = __LINE__ + 2;
  const auto told = [&](const std::vector<Output>& args) {
    const std::vector<Output> results = f(args);
    EXPECT_EQ(results.size(), 1u);
    for (const Output& o : results) EXPECT_EQ(o.node, nullptr);
    const std::string error = BuildErrorOf();
    graph_.ClearErrors();
    EXPECT_THAT(error, HasSubstr("; at "));
    EXPECT_THAT(error, HasSubstr(Here(line, __FILE__)));
    return error;
  };
  EXPECT_THAT(told({x}), HasSubstr("call of 'f': expected 2 arguments for " +
                                   signature + ", got 1"));
  EXPECT_THAT(told({x, n, n}), HasSubstr("for " + signature + ", got 3"));
  EXPECT_THAT(told({x, x}), HasSubstr("expected int32 as argument 1 of " +
                                      signature + ", got float from 'x:0'"));
  const Output wide = Placeholder<float>({3}, "wide");
  EXPECT_THAT(told({wide, n}),
              HasSubstr("expected shape [2] as argument 0 of " + signature +
                        ", got [3] from 'wide:0'"));
  EXPECT_NE(f({Placeholder<float>(), n})[0].node, nullptr);
  EXPECT_EQ(BuildErrorOf(), "");
  // A captured value is not an argument of the caller.
  const Var v(2.0f, "v");
  const Function h =
      DefineFunction("h", {kF}, [&](const Args& a) { return a[0] * x + v; });
  EXPECT_EQ(h.captures().size(), 2u);
  h({n});
  EXPECT_THAT(BuildErrorOf(),
              HasSubstr("expected float as argument 0 of h(arg_0: float) -> "
                        "(float), got int32"));
  graph_.ClearErrors();
  h({x, x});
  EXPECT_THAT(BuildErrorOf(),
              HasSubstr("expected 1 argument for h(arg_0: float) -> (float), "
                        "got 2"));
  graph_.ClearErrors();
  h({});
  EXPECT_THAT(BuildErrorOf(), HasSubstr("-> (float), got 0"));
  graph_.ClearErrors();
  // The same within a body, its own or another function's.
  DefineFunction("g", {kF}, [&](const Args& a) { return f({a[0]})[0]; });
  EXPECT_THAT(BuildErrorOf(),
              HasSubstr("expected 2 arguments for " + signature));
  graph_.ClearErrors();
  DefineFunction("r", {kF}, {kF}, [](const Function& r, const Args& a) {
    return r({a[0], a[0]});
  });
  EXPECT_THAT(BuildErrorOf(),
              HasSubstr("expected 1 argument for r(arg_0: float) -> (float), "
                        "got 2"));
}

TEST_F(FunctionsTest, FunctionalOpErrorShowsSignatureOfMismatchedFunction) {
  const Function f =
      DefineFunction("f", {kF}, [](const Args& a) { return a[0] * 2; });
  const Output x = In<float>("x"), n = In<int32_t>("n");
  const auto told = [&](const std::string& op, std::vector<Output> inputs,
                        AttrMap attrs) {
    EXPECT_EQ(BuildNode(op, std::move(inputs), std::move(attrs), op), nullptr);
    const std::string error = BuildErrorOf();
    graph_.ClearErrors();
    EXPECT_THAT(error, HasSubstr("; it is f(arg_0: float) -> (float); node "));
    return error;
  };
  const AttrValue::Types floats = {kF}, ints = {kI};
  EXPECT_THAT(told("If", {x > 0, n},
                   {{"then_branch", f.ref()},
                    {"else_branch", f.ref()},
                    {"Tout", floats}}),
              HasSubstr("attribute 'then_branch', function 'f': expected "
                        "arguments (float) as declared, got (int32)"));
  told("Case", {n, x},
       {{"branches", AttrValue::Functions{f.ref()}}, {"Tout", ints}});
  told("While", {n}, {{"cond", f.ref()}, {"body", f.ref()}});
  told("PartitionedCall", {n},
       {{"f", f.ref()}, {"Tin", ints}, {"Tout", floats}});
  told("SymbolicGradient", {x},
       {{"f", f.ref()}, {"Tin", floats}, {"Tout", floats}});
}

// ---- Recursion --------------------------------------------------------------

TEST_F(FunctionsTest, IndependentRecursiveCallsAreEvaluated) {
  const Output n = In<int32_t>("n");
  const Output y = Fib()({n})[0];
  for (const auto& [k, want] : {std::pair{0, 0}, {1, 1}, {2, 1}, {15, 610}})
    EXPECT_EQ(Value<int32_t>(y, {Fed(n, k)}), want);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Session random(graph_, SeededOptions(seed));
    const Result<Tensor> t = random.Run({Fed(n, 8)}, y);
    ASSERT_TRUE(t.ok()) << t.status() << " seed " << seed;
    EXPECT_EQ(t->scalar<int32_t>(), 21) << "seed " << seed;
  }
}

TEST_F(FunctionsTest, FunctionsCallEachOther) {
  // a(n, x) = n <= 0 ? -x : b(n - 1, x * x) + x, b = the same with cos.
  const Function a = DeclareFunction("ping", {kI, kF}, {kF});
  const Function b = DeclareFunction("pong", {kI, kF}, {kF});
  const auto body = [](const Function& next, bool square) {
    return [=](const Args& v) {
      return Cond(
          v[0] <= 0, [&] { return -v[1]; },
          [&] {
            return next({v[0] - 1, square ? v[1] * v[1] : ops::Cos(v[1])})[0] +
                   v[1];
          });
    };
  };
  DefineBody(a, body(b, true));
  DefineBody(b, body(a, false));
  const Output n = In<int32_t>("n"), x = In<float>("x");
  const Output y = a({n, x})[0];
  std::function<float(int, float, bool)> want = [&](int k, float v,
                                                    bool square) {
    return k <= 0 ? -v : want(k - 1, square ? v * v : std::cos(v), !square) + v;
  };
  for (int k : {0, 1, 2, 5})
    EXPECT_FLOAT_EQ(Value<float>(y, {Fed(n, k), Fed(x, 0.7f)}),
                    want(k, 0.7f, true));
}

TEST_F(FunctionsTest, RecursionDepth100000DoesNotUseTheStack) {
  const Output n = In<int32_t>("n");
  const Output y = Sum()({n})[0] % 1000;
  const int64_t depth = 100'000;
  const auto want = static_cast<int32_t>(
      static_cast<int32_t>(depth * (depth + 1) / 2) % 1000);
  Result<Tensor> got = NotFound("");
  // On a thread with little stack.
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 256 << 10);
  struct Job {
    Session* session;
    Feeds feeds;
    Output y;
    Result<Tensor>* got;
  } job{&session_, {Fed(n, static_cast<int32_t>(depth))}, y, &got};
  // Compiled before, on a thread of the usual size.
  EXPECT_EQ(Value<int32_t>(y, {Fed(n, 3)}), 6);
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, &attr,
                [](void* p) -> void* {
                  auto* j = static_cast<Job*>(p);
                  *j->got = j->session->Run(j->feeds, j->y);
                  return nullptr;
                },
                &job),
            0);
  pthread_join(thread, nullptr);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->scalar<int32_t>(), want);
}

TEST_F(FunctionsTest, EndlessRecursionIsAnError) {
  const Output y = Endless()({Constant(0.f)})[0];
  SessionOptions options;
  options.max_call_depth = 1000;
  Session session(graph_, options);
  const Status s = session.Run(y).status();
  EXPECT_EQ(s.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(s.message()), HasSubstr("at most 1000 nested calls"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("function 'endless'"));
  // The session remains usable.
  EXPECT_EQ(session.Run(Constant(2.f))->scalar<float>(), 2.f);
}

TEST_F(FunctionsTest, ErrorsNameTheNodeTheFunctionAndTheDepth) {
  int line = 0;
  const Function f = DefineFunction(
      "countdown", {kI}, {kI}, [&line](const Function& self, const Args& a) {
        const Output left = a[0];
        return Cond(
            left > 3, [&] { return self({left - 1})[0]; },
            [&] {
              line = __LINE__ + 1;
              return Build("FloorDiv", {left, left - left});
            });
      });
  const std::string e = ErrorOf(f({Constant(5)})[0]);
  EXPECT_THAT(e, HasSubstr("(FloorDiv)"));
  EXPECT_THAT(e, HasSubstr(Here(line, __FILE__)));
  EXPECT_THAT(e, HasSubstr("function 'countdown' at call depth 3"));
}

TEST_F(FunctionsTest, DeadlineStopsRecursion) {
  const Output n = In<int32_t>("n");
  const Output y = Fib()({n})[0];
  const auto run = session_.Run({Fed(n, 60)}, {y}, {}, {.timeout_ms = 50});
  EXPECT_EQ(run.status().code(), StatusCode::kDeadlineExceeded) << run.status();
  EXPECT_EQ(Value<int32_t>(y, {Fed(n, 10)}), 55);
}

TEST_F(FunctionsTest, ClosingTheSessionStopsRecursion) {
  const Output n = In<int32_t>("n");
  const Output y = Fib()({n})[0];
  Status s;
  std::thread step([&] { s = session_.Run({Fed(n, 60)}, y).status(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_TRUE(session_.Close().ok());
  step.join();
  EXPECT_TRUE(s.code() == StatusCode::kCancelled ||
              s.code() == StatusCode::kFailedPrecondition)
      << s;
}

TEST_F(FunctionsTest, RecursionAndLoopsNestInEachOther) {
  // total(n) = n <= 0 ? 0 : (sum of i < n) + total(n - 1), by a loop in it.
  const Function total = DefineFunction(
      "total", {kI}, {kI},
      [](const Function& self, const Args& a) {
        const Output n = a[0];
        return Cond(
            n <= 0, [&] { return Constant(0); },
            [&] {
              auto [i, s] = While(
                  std::tuple{0, 0}, [&](Output i, Output) { return i < n; },
                  [&](Output i, Output s) {
                    return std::tuple{i + 1, s + i};
                  });
              return s + self({n - 1})[0];
            });
      },
      {.result_shapes = {PartialShape::Scalar()}});
  auto [k, sums] = While(
      std::tuple{0, 0}, [&](Output k, Output) { return k < 5; },
      [&](Output k, Output sums) {
        return std::tuple{k + 1, sums + total({k})[0]};
      });
  // total: 0 0 1 4 10
  EXPECT_EQ(Value<int32_t>(sums), 15);
}

TEST_F(FunctionsTest, SideEffectsOfRecursiveCallsRun) {
  const Var v(0.f);
  const Function f =
      DefineFunction("count_down", {kI, DType::kResource}, {kI},
                     [](const Function& self, const Args& a) {
                       return Cond(
                           a[0] <= 0, [&] { return a[0]; },
                           [&] {
                             Node* add = BuildNode("AssignAddVariableOp",
                                                   {a[1], Constant(1.f)});
                             const ControlDependencies after({add});
                             return self({a[0] - 1, a[1]})[0];
                           });
                     },
                     {.stateful = true});
  Initialize();
  EXPECT_EQ(Value<int32_t>(f({Constant(7), v.handle()})[0]), 0);
  EXPECT_EQ(Value<float>(v.Read()), 7.f);
}

// A captured handle is a loop constant, which is alive in one iteration more.
TEST_F(FunctionsTest, SideEffectsInLoopsRunOncePerIteration) {
  const Var v(0.f);
  const Output x = In<float>("x"), n = In<int32_t>("n");
  const Function constant =
      DefineFunction("constant", {kF}, [&](const Args& a) {
        v.AssignAdd(Constant(1.f));
        return a[0] * 2;
      });
  const Function handle_first = DefineFunction(
      "handle_first", {DType::kResource, kF}, {kF},
      [](const Function&, const Args& a) {
        Node* add = BuildNode("AssignAddVariableOp", {a[0], Constant(10.f)});
        const ControlDependencies after({add});
        return std::vector<Output>{a[1] * 1};
      },
      {.stateful = true});
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output y) {
        return std::tuple{i + 1,
                          handle_first({v.handle(), constant({y})[0]})[0]};
      });
  Initialize();
  EXPECT_EQ(Value<float>(y, {Fed(n, 0), Fed(x, 5.f)}), 5.f);
  EXPECT_EQ(Value<float>(v.Read()), 0.f);
  EXPECT_EQ(Value<float>(y, {Fed(n, 3), Fed(x, 5.f)}), 40.f);
  EXPECT_EQ(Value<float>(v.Read()), 33.f);
}

// ---- Gradients --------------------------------------------------------------

class FunctionGradientTest : public FunctionsTest {
 protected:
  // Checks d y / d x at `at` against central differences.
  void CheckGradient(Output y, Output x, float at, const Feeds& more = {}) {
    const Output dx = Grad(y, x);
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    ASSERT_TRUE(dx.valid());
    const auto feeds = [&](float v) {
      Feeds f = more;
      f.push_back(Fed(x, v));
      return f;
    };
    const float h = 1e-2f;
    const float want =
        (Value<float>(y, feeds(at + h)) - Value<float>(y, feeds(at - h))) /
        (2 * h);
    EXPECT_NEAR(Value<float>(dx, feeds(at)), want, 2e-2 * (1 + std::abs(want)));
  }
  // x^n by n multiplications, one call each.
  static Function Power() {
    return DefineFunction("power", {kF, kI}, {kF},
                          [](const Function& self, const Args& a) {
                            return Cond(
                                a[1] <= 0, [&] { return ops::OnesLike(a[0]); },
                                [&] {
                                  return a[0] * self({a[0], a[1] - 1})[0];
                                });
                          });
  }
};

TEST_F(FunctionGradientTest, DifferentiatesCall) {
  const Function f = DefineFunction("f", {kF, kF}, [](const Args& a) {
    return Args{a[0] * a[1], ops::Sin(a[0])};
  });
  const Output x = In<float>("x");
  const Args y = f({x, x * 2});
  CheckGradient(y[0] + y[1], x, 0.7f);
}

TEST_F(FunctionGradientTest, UnusedArgumentHasNoGradient) {
  const Function f = DefineFunction(
      "f", {kF, kF}, [](const Args& a) { return Args{a[0] * 2.f}; });
  const Output x = In<float>("x"), y = In<float>("y");
  const Output z = f({x, y * 3.f})[0];
  const std::vector<Output> grads =
      Grad(std::vector<Output>{z}, std::vector<GradTarget>{x, y});
  EXPECT_EQ(Value<float>(grads[0], {Fed(x, 1.f)}), 2.f);
  EXPECT_FALSE(grads[1].valid());
  EXPECT_FALSE(Grad(ops::StopGradient(z), x).valid());
}

TEST_F(FunctionGradientTest, CallResultStaysFetchableAfterLowering) {
  const Function f =
      DefineFunction("f", {kF}, [](const Args& a) { return a[0] * a[0]; });
  const Output x = In<float>("x");
  const Output y = f({x})[0];
  const Output dx = Grad(y, x);
  EXPECT_EQ(Value<float>(y, {Fed(x, 3.f)}), 9.f);
  EXPECT_EQ(Value<float>(dx, {Fed(x, 3.f)}), 6.f);
  EXPECT_EQ(graph_.FindNode("f"), y.node);
  // Again, and of the gradient.
  EXPECT_EQ(Value<float>(Grad(y, x), {Fed(x, 3.f)}), 6.f);
  EXPECT_EQ(Value<float>(Grad(dx, x), {Fed(x, 3.f)}), 2.f);
}

TEST_F(FunctionGradientTest, DifferentiatesSymbolicGradient) {
  const Function f = DefineFunction("f", {kF, kI, kF}, [](const Args& a) {
    return Args{a[0] * a[0] * a[2], a[1]};
  });
  const Output x = In<float>("x");
  Node* g =
      BuildNode("SymbolicGradient",
                {x, Constant(3), Constant(5.f), Constant(1.f), Constant(0)},
                {{"f", f.ref()}, {"Tout", AttrValue::Types{kF, kI, kF}}});
  ASSERT_NE(g, nullptr) << graph_.status();
  EXPECT_EQ(Value<float>(Output(g, 0), {Fed(x, 2.f)}), 20.f);
  EXPECT_EQ(Value<int32_t>(Output(g, 1)), 0);
  EXPECT_EQ(Value<float>(Output(g, 2), {Fed(x, 2.f)}), 4.f);
}

TEST_F(FunctionGradientTest, DifferentiatesFunctionalConditionalsAndLoops) {
  const auto ref = [](const Function& f) { return AttrValue(f.ref()); };
  const Function square = DefineFunction(
      "square", {kF, kF}, [](const Args& a) { return a[0] * a[0] * a[1]; });
  const Function sine = DefineFunction(
      "sine", {kF, kF}, [](const Args& a) { return ops::Sin(a[0]) + a[1]; });
  const Function less = DefineFunction(
      "less", {kI, kI, kF, kF}, [](const Args& a) { return a[0] < a[1]; });
  const Function body =
      DefineFunction("body", {kI, kI, kF, kF}, [&](const Args& a) {
        const Output even = ops::Equal(a[0] % 2, 0);
        return Args{a[0] + 1, a[1],
                    Build("If", {even, a[2], a[3]},
                          {{"then_branch", ref(square)},
                           {"else_branch", ref(sine)},
                           {"Tout", AttrValue::Types{kF}}}),
                    a[3]};
      });
  const Function add = DefineFunction("add", {kI, kF}, [](const Args& a) {
    return a[1] * a[1] + ops::Cast(a[0], kF);
  });
  const Output x = In<float>("x"), n = In<int32_t>("n"), i = In<int32_t>("i");
  const Output loop(BuildNode("While", {Constant(0), n, x, x * 2},
                              {{"cond", ref(less)}, {"body", ref(body)}}),
                    2);
  const Output branch =
      Build("Case", {i, x, x + 1},
            {{"branches",
              AttrValue::Functions{square.ref(), sine.ref(), square.ref()}},
             {"Tout", AttrValue::Types{kF}}});
  const Output count = Build("For", {Constant(0), Constant(3), Constant(1), x},
                             {{"body", ref(add)}});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  for (int k : {0, 1, 2, 3}) CheckGradient(loop, x, 0.7f, {Fed(n, k)});
  for (int k : {0, 1, 2}) CheckGradient(branch, x, 0.7f, {Fed(i, k)});
  CheckGradient(count, x, 0.7f);
}

TEST_F(FunctionGradientTest, DifferentiatesCallInClientLoop) {
  const Function f = DefineFunction("f", {kF, kF}, [](const Args& a) {
    return Cond(
        a[0] < 1, [&] { return a[0] * a[1]; }, [&] { return ops::Sin(a[0]); });
  });
  const Output x = In<float>("x");
  auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 4; },
      [&](Output i, Output y) {
        return std::tuple{i + 1, f({y, x * 3})[0]};
      });
  CheckGradient(y, x, 0.4f);
}

// Nodes in the innermost body that depend only on constants belong to the loop
// around the call.
TEST_F(FunctionGradientTest,
       DifferentiatesCallsInLoopsOfFunctionsWithConstants) {
  const FunctionOptions scalar = {.arg_shapes = {PartialShape::Scalar()}};
  const Function tripled = DefineFunction(
      "tripled", {kF},
      [](const Args& a) {
        return a[0] * Build("Sum", {Constant(Tensor::Vector<float>({1, 2})),
                                    Constant(0)});
      },
      scalar);
  const auto twice = [](const Function& f, const Output& x) {
    return std::get<1>(While(
        std::tuple(Output(Constant(0)), x),
        [](Output i, Output) { return i < 2; },
        [&](Output i, Output y) {
          const Output z = f({y})[0];
          EXPECT_TRUE(CurrentGraph().SetShape(z, PartialShape::Scalar()).ok());
          return std::tuple(i + 1, z);
        }));
  };
  const Function inner = DefineFunction(
      "inner", {kF}, [&](const Args& a) { return twice(tripled, a[0]); },
      scalar);
  const Output x = In<float>("x");
  const Output once = inner({x})[0];
  const Output nested = twice(inner, x);
  ASSERT_TRUE(nested.valid()) << graph_.status();
  EXPECT_EQ(Value<float>(once, {Fed(x, 2.f)}), 18);
  EXPECT_EQ(Value<float>(nested, {Fed(x, 2.f)}), 162);
  EXPECT_EQ(Value<float>(Grad(once, x), {Fed(x, 2.f)}), 9);
  EXPECT_EQ(Value<float>(Grad(nested, x), {Fed(x, 2.f)}), 81);
}

TEST_F(FunctionGradientTest, DifferentiatesVariableReadInRecursion) {
  const Var w(1.5f);
  const Function f = DefineFunction(
      "f", {kI, DType::kResource}, {kF},
      [](const Function& self, const Args& a) {
        return Cond(
            a[0] <= 0, [&] { return Constant(1.f); },
            [&] {
              return Build("ReadVariableOp", {a[1]}, {{"dtype", kF}}) *
                     self({a[0] - 1, a[1]})[0];
            });
      });
  const Output y = f({Constant(3), w.handle()})[0];
  const Output dw = Grad(y, w);
  ASSERT_TRUE(dw.valid()) << graph_.status();
  Initialize();
  EXPECT_FLOAT_EQ(Value<float>(y), 3.375f);
  EXPECT_FLOAT_EQ(Value<float>(dw), 6.75f);
}

TEST_F(FunctionGradientTest, DifferentiatesRecursion) {
  const Output x = In<float>("x"), n = In<int32_t>("n");
  const Output y = Power()({x, n})[0];
  for (int k : {0, 1, 2, 5}) CheckGradient(y, x, 1.2f, {Fed(n, k)});
}

TEST_F(FunctionGradientTest, ComputesSecondOrderOfRecursion) {
  const Output x = In<float>("x"), n = In<int32_t>("n");
  const Output y = Power()({x, n})[0];
  const Output dx = Grad(y, x);
  const Output ddx = Grad(dx, x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_NEAR(Value<float>(dx, {Fed(x, 1.5f), Fed(n, 4)}), 13.5, 1e-4);
  EXPECT_NEAR(Value<float>(ddx, {Fed(x, 1.5f), Fed(n, 4)}), 27, 1e-3);
}

TEST_F(FunctionGradientTest, DifferentiatesTreeOfCalls) {
  // t(x, n) = n < 2 ? x * n : sin(t(x, n - 1)) * t(x, n - 2)
  const Function t = DefineFunction(
      "t", {kF, kI}, {kF}, [](const Function& self, const Args& a) {
        return Cond(
            a[1] < 2, [&] { return a[0] * (ops::Cast(a[1], kF) + 1); },
            [&] {
              return ops::Sin(self({a[0], a[1] - 1})[0]) *
                     self({a[0], a[1] - 2})[0];
            });
      });
  const Output x = In<float>("x"), n = In<int32_t>("n");
  const Output y = t({x, n})[0];
  for (int k : {1, 2, 4, 6}) CheckGradient(y, x, 0.8f, {Fed(n, k)});
}

TEST_F(FunctionGradientTest, DeclaredGradientsReturnOneForEachArgument) {
  const Output x = In<float>("x");
  DefineFunction("one", {kF, kF}, [](const Args& a) { return a[1] * 3.f; });
  DefineFunction("two", {kF, kF}, [](const Args& a) {
    return std::vector<Output>{a[0], a[1]};
  });
  DefineFunction("other", {kF, kF}, [](const Args& a) { return a[0] > 0.f; });
  const auto slope = [&](const std::string& gradient) {
    const Function f = DefineFunction(
        "f_" + gradient, {kF}, [](const Args& a) { return ops::Exp(a[0]); });
    graph_.function_gradients()["f_" + gradient] = gradient;
    return Grad(f({x})[0], x);
  };
  EXPECT_EQ(Value<float>(slope("one"), {Fed(x, 2.f)}), 3);
  EXPECT_THAT(ErrorOf(slope("two"), {Fed(x, 2.f)}),
              HasSubstr("gradient of function 'f_two': expected 'two' to "
                        "return 1 results, one for each argument, got 2"));
  EXPECT_THAT(ErrorOf(slope("other"), {Fed(x, 2.f)}),
              HasSubstr("expected 'other' to return float for argument 0, got "
                        "bool"));
}

}  // namespace
}  // namespace sluice
