// Hostile calls of the functions for writing models: variables, gradients,
// control flow, functions, arrays, recurrent networks. (Optimizers:
// hostile_training_test.cc.)
#include <limits>
#include <tuple>

#include "sluice/cluster.h"
#include "tests/hostile_calls_test_util.h"

namespace sluice {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

InitializerFn InitializerOfNothing() {
  return [](const Shape&, DType) { return Output(); };
}

// ---- Values and variables ---------------------------------------------------

HOSTILE(ShapesOfInitializers,
        "Zeros Ones Filled RandomUniform RandomNormal TruncatedNormal "
        "init::Zeros init::Ones init::Constant init::RandomUniform "
        "init::RandomNormal init::TruncatedNormal init::GlorotUniform "
        "SetRandomSeed SeedsFor GetVariable") {
  const std::vector<std::function<Output(const Shape&, DType)>> makers = {
      [](const Shape& s, DType t) { return Zeros(s, t); },
      [](const Shape& s, DType t) { return Ones(s, t); },
      [](const Shape& s, DType t) { return Filled(s, ScalarOf(t, 1)); },
      [](const Shape& s, DType t) {
        return RandomUniform(s, 0, 1, {t, {}});
      },
      [](const Shape& s, DType t) {
        return RandomNormal(s, 0, 1, {t, {}});
      },
      [](const Shape& s, DType t) {
        return TruncatedNormal(s, 0, 1, {t, {}});
      },
      init::Zeros(),
      init::Ones(),
      init::Constant(1),
      init::RandomUniform(),
      init::RandomNormal(),
      init::TruncatedNormal(),
      init::GlorotUniform()};
  for (const auto& make : makers) {
    for (const Shape& bad :
         {Shape({-1, 2}), Shape({kHuge, 8}), Shape(std::vector<int64_t>(9, 1))})
      ExpectRecorded("shape: expected",
                     [&] { EXPECT_NULL(make(bad, DType::kFloat)); });
    for (const DType t :
         {DType::kInvalid, DType::kResource, static_cast<DType>(99)})
      EXPECT_FALSE(RecordedBy([&] { EXPECT_NULL(make({2}, t)); }).ok());
    for (const DType t : {DType::kString, DType::kInt32, DType::kBool})
      (void)RecordedBy([&] { (void)make({2}, t); });
    ExpectRecorded("variable 'w': shape: expected", [&] {
      EXPECT_NULL(GetVariable("w", {-1, 2}, make));
    });
    // Too large for memory: an error of the step.
    Graph g;
    const WithGraph use(g);
    Session session(g);
    EXPECT_FALSE(session.Run(make({kHuge / 4}, DType::kFloat)).ok());
  }
  ExpectRecorded("expected an initial value, got none", [] {
    EXPECT_NULL(GetVariable("w", {2}, InitializerOfNothing()));
  });
  (void)RecordedBy([] {
    (void)RandomUniform({2}, kNan, kNan);
    (void)RandomUniform({2}, 5, -5, {DType::kInt32, INT64_MIN});
    (void)RandomNormal({2}, kNan, -1);
  });
  for (const int64_t seed : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX})
    EXPECT_TRUE(RecordedBy([&] {
                  SetRandomSeed(seed);
                  const auto seeds = SeedsFor(seed);
                  EXPECT_TRUE(seeds.first != 0 || seeds.second != 0);
                  EXPECT_GE(SeedsFor(std::nullopt).first, 0);
                }).ok());
}

HOSTILE(AxesOfWhatIsNoOutput, "AllAxes") {
  (void)RecordedBy([] {
    EXPECT_NULL(AllAxes(Output()));
    EXPECT_NULL(AllAxes(Output(Constant(1.0f).node, 5)));
    EXPECT_NULL(ops::Sum(Elsewhere(), AllAxes(Elsewhere())));
  });
}

HOSTILE(VariablesThatAreNone,
        "Var::Var Var::FromHandle Var::SameAs Var::valid Var::name Var::dtype "
        "Var::shape Var::is_reference Var::handle Var::initializer "
        "Var::initial_value Var::Read Var::value Var::Assign Var::AssignAdd "
        "Var::AssignSub Var::IsInitialized VariableType VariableShapeOf "
        "GlobalVariables TrainableVariables VariablesIn Group "
        "VariablesInitializer GlobalVariablesInitializer Placeholder "
        "GetVariable") {
  (void)RecordedBy([] {
    for (const Var& v :
         {Var(), Var::FromHandle(Output()), Var::FromHandle(Constant(1.0f))}) {
      EXPECT_NULL(v);
      EXPECT_TRUE(v.SameAs(Var()));
      EXPECT_EQ(v.name(), "");
      EXPECT_EQ(v.dtype(), DType::kInvalid);
      EXPECT_FALSE(v.shape().rank_known() || v.is_reference());
      for (const Output& o : {v.handle(), v.initial_value(), v.Read(),
                              v.value(), v.IsInitialized()})
        EXPECT_NULL(o);
      EXPECT_EQ(v.initializer(), nullptr);
      EXPECT_EQ(v.Assign(1), nullptr);
      EXPECT_EQ(v.AssignAdd(Tensor()), nullptr);
      EXPECT_EQ(v.AssignSub(Output()), nullptr);
      EXPECT_NULL(v + 1);
    }
    EXPECT_EQ(VariableType(Output()), DType::kInvalid);
    EXPECT_EQ(VariableType(Constant(1.0f)), DType::kInvalid);
    EXPECT_EQ(VariableType(Output(Constant(1.0f).node, 5)), DType::kInvalid);
    EXPECT_FALSE(VariableShapeOf(Output()).rank_known());
    EXPECT_TRUE(VariablesIn("").empty() && GlobalVariables().empty() &&
                TrainableVariables().empty());
    EXPECT_NE(GlobalVariablesInitializer(), nullptr);
    EXPECT_NE(Group({}), nullptr);
  });
  ExpectRecorded("expected an initial value, got none",
                 [] { EXPECT_NULL(Var(Output(), "v")); });
  ExpectRecorded("", [] { EXPECT_NULL(Var(Tensor(), "v")); });
  ExpectRecorded("got [-1,2]", [] {
    EXPECT_NULL(Var(Tensor(DType::kFloat, {-1, 2}), "v"));
  });
  ExpectRecorded("", [] { EXPECT_NULL(Var(Elsewhere(), "v")); });
  ExpectRecorded("", [] { EXPECT_NULL(Var(1.0f, "a b")); });
  ExpectRecorded("", [] {
    const Var v(1.0f, "v");
    EXPECT_EQ(v.Assign("text"), nullptr);
  });
  ExpectRecorded("", [] {
    const Var v(1.0f, "v");
    EXPECT_EQ(v.Assign(Tensor()), nullptr);
  });
  ExpectRecorded("", [] {
    (void)GetVariable("v", {2});
    EXPECT_NULL(GetVariable("v", {3}));
  });
  ExpectRecorded("", [] {
    EXPECT_NULL(GetVariable("", {2}, init::Zeros(), DType::kString));
  });
  (void)RecordedBy([] { (void)Group({nullptr}); });
  (void)RecordedBy([] { (void)VariablesInitializer({Var(), Var()}); });
  (void)RecordedBy([] { (void)Group({Elsewhere().node}); });
  for (const PartialShape& bad :
       {PartialShape({-2, 2}), PartialShape(Shape({-1, 2})),
        PartialShape::OfRank(9), PartialShape::OfRank(-1)})
    ExpectRecorded("attribute 'shape'", [&] {
      EXPECT_NULL(Placeholder<float>(bad));
      EXPECT_NULL(Placeholder(DType::kFloat, bad));
    });
  for (const DType t : {DType::kInvalid, static_cast<DType>(99)})
    EXPECT_FALSE(RecordedBy([&] { EXPECT_NULL(Placeholder(t)); }).ok());
}

HOSTILE(OperatorsOnNothing,
        "operator+ operator- operator* operator/ operator% operator< "
        "operator<= operator> operator>= operator== operator!= operator&& "
        "operator|| operator!") {
  using Binary = Output (*)(const Operand&, const Operand&);
  for (const Binary op :
       {static_cast<Binary>(&operator+), static_cast<Binary>(&operator-),
        &operator*, &operator/, &operator%, &operator<, &operator<=,
        &operator>, &operator>=, &operator==, &operator!=, &operator&&,
        &operator||}) {
    (void)RecordedBy([&] {
      EXPECT_NULL(op(Output(), Output()));
      EXPECT_NULL(op(Output(), 1));
      EXPECT_NULL(op(1.5f, Output()));
    });
    for (const Operand& bad :
         {Operand(Tensor()), Operand(Tensor(DType::kFloat, {-1})),
          Operand(Elsewhere()), Operand(Output(Elsewhere().node, 9))})
      EXPECT_FALSE(RecordedBy([&] {
                     EXPECT_NULL(op(bad, Constant(1.0f)));
                     EXPECT_NULL(op(Constant(1.0f), bad));
                     EXPECT_NULL(op(bad, bad));
                   }).ok());
    EXPECT_FALSE(
        RecordedBy([&] { EXPECT_NULL(op(Constant(1.0f), "text")); }).ok());
  }
  (void)RecordedBy([] { EXPECT_NULL(-Output()); });
  (void)RecordedBy([] { EXPECT_NULL(!Output()); });
  ExpectRecorded("", [] { EXPECT_NULL(!Operand(Tensor())); });
  ExpectRecorded("", [] { EXPECT_NULL(!Operand(1)); });
  ExpectRecorded("", [] { EXPECT_NULL(-Operand(Tensor())); });
  ExpectRecorded("", [] { EXPECT_NULL(-Operand("text")); });
}

// ---- Gradients --------------------------------------------------------------

HOSTILE(GradientsOfNothing,
        "Gradients Grad GradTarget::GradTarget Densify SumGradients "
        "RegisterGradient FindGradient") {
  Graph g;
  const WithGraph use(g);
  const Output x = Placeholder<float>({2}), y = x * x;
  EXPECT_FALSE(Gradients({}, {}).ok() && Gradients({}, {})->size() != 0);
  EXPECT_FALSE(Gradients({Output()}, {x}).ok());
  EXPECT_FALSE(Gradients({y}, {Output()}).ok());
  EXPECT_FALSE(Gradients({y}, {Var()}).ok());
  EXPECT_FALSE(Gradients({y}, {Elsewhere()}).ok());
  EXPECT_FALSE(Gradients({Elsewhere()}, {x}).ok());
  EXPECT_FALSE(Gradients({Output(y.node, 4)}, {x}).ok());
  EXPECT_FALSE(Gradients({y}, {Output(x.node, -4)}).ok());
  EXPECT_FALSE(Gradients({y}, {x}, {.grad_ys = {Elsewhere()}}).ok());
  EXPECT_FALSE(Gradients({y}, {x}, {.grad_ys = {Constant(int32_t{1})}}).ok());
  (void)Gradients({y}, {x}, {.grad_ys = {Gradient(), Gradient(), y}}).status();
  (void)Gradients({y}, {x},
                  {.grad_ys = {Gradient::Slices(Output(), y, Output())}})
      .status();
  (void)Gradients({y}, {x}, {.stop_gradients = {Output(), Elsewhere()}})
      .status();
  (void)Gradients({y}, {x}, {.name = "a b"}).status();
  const auto of_string =
      Gradients({Constant(Tensor::Scalar<std::string>("a"))}, {x});
  ASSERT_TRUE(of_string.ok()) << of_string.status();
  EXPECT_FALSE((*of_string)[0]);  // It does not depend on x.
  ExpectRecorded("", [] {
    const Output one = Constant(1.0f);
    EXPECT_NULL(Grad(one, Output()));
    EXPECT_NULL(Grad(Output(), one));
    for (const Output& o : Grad({Output()}, {Var(), Output()})) EXPECT_NULL(o);
  });
  EXPECT_NULL(Densify(Gradient()));
  (void)Densify(Gradient::Slices(Output(), y, Output()));
  (void)Densify(Gradient::Slices(Output(), y, Output()), Elsewhere());
  EXPECT_NULL(SumGradients({}));
  EXPECT_NULL(SumGradients({Gradient(), Gradient()}));
  (void)SumGradients({Gradient(y), Gradient::Slices(Output(), y, Output())});
  EXPECT_FALSE(RegisterGradient("", nullptr).ok());
  EXPECT_FALSE(
      RegisterGradient("Neg", [](GradContext&) { return OkStatus(); }).ok());
  EXPECT_TRUE(FindGradient(*BuildNode("NoOp", {})).ok() ||
              !FindGradient(*BuildNode("NoOp", {})).ok());
  // A user's function that sets too few or too many gradients, or invalid ones.
  for (int kind = 0; kind < 4; ++kind) {
    const std::string name = absl::StrCat("HostileGradient", kind);
    ASSERT_TRUE(RegisterGradient(name, [kind](GradContext& c) {
                  if (kind == 0) c.grads.clear();
                  if (kind == 1) c.grads.resize(9, Gradient(c.dy[0]));
                  if (kind == 2) c.grads[0] = Gradient(Elsewhere());
                  if (kind == 3) return NotFound("none");
                  return OkStatus();
                }).ok());
    Graph there;
    const WithGraph build(there);
    const Output in = Placeholder<float>({2});
    Output out;
    {
      const GradientOverride with("Neg", name);
      out = ops::Neg(in);
    }
    EXPECT_FALSE(Gradients({out}, {in}).ok()) << kind;
  }
}

// ---- Structures, loops and branches -----------------------------------------

HOSTILE(BranchesOfNothing, "Cond Case CallWith Flattened Unflattened") {
  const auto one = [] { return Constant(1.0f); };
  ExpectRecorded("expected a function, got an empty one", [&] {
    EXPECT_NULL(Cond(Placeholder<bool>({}), std::function<Output()>(), one));
  });
  ExpectRecorded("expected a function, got an empty one", [&] {
    EXPECT_NULL(Cond(Placeholder<bool>({}), one, std::function<Output()>()));
  });
  (void)RecordedBy([&] { EXPECT_NULL(Cond(Output(), one, one)); });
  for (const Operand& pred :
       {Operand(Tensor()), Operand("text"), Operand(Elsewhere()),
        Operand(Tensor::Vector<bool>({true}))})
    ExpectRecorded("", [&] { EXPECT_NULL(Cond(pred, one, one)); });
  EXPECT_FALSE(RecordedBy([&] {
                 (void)Cond(Placeholder<bool>({}), one,
                            [] { return Constant(int32_t{1}); });
               }).ok());
  EXPECT_FALSE(RecordedBy([&] {
                 (void)Cond(
                     Placeholder<bool>({}),
                     [&] { return std::vector<Output>{one()}; },
                     [&] {
                       return std::vector<Output>{one(), one()};
                     });
               }).ok());
  (void)RecordedBy([&] {
    EXPECT_TRUE(Cond(
                    Placeholder<bool>({}), [] { return std::vector<Output>(); },
                    [] { return std::vector<Output>(); })
                    .empty());
  });
  (void)RecordedBy([&] {
    (void)Cond(
        Placeholder<bool>({}), [] { return Output(); },
        [] { return Elsewhere(); });
  });
  const auto no_node = [] { return static_cast<Node*>(nullptr); };
  (void)RecordedBy([&] {
    EXPECT_EQ(Cond(Placeholder<bool>({}), no_node, no_node), nullptr);
  });
  (void)RecordedBy([&] { (void)Cond(Placeholder<bool>({}), one, one, "a b"); });
  (void)RecordedBy([&] { EXPECT_NULL(Case<Output>({})); });
  (void)RecordedBy([&] { EXPECT_TRUE(Case<Output>({}, one).valid()); });
  (void)RecordedBy([&] { EXPECT_EQ(Case<Node*>({}), nullptr); });
  (void)RecordedBy([&] { (void)Case<Output>({{Output(), one}}, one); });
  EXPECT_FALSE(RecordedBy([&] {
                 (void)Case<Output>({{Placeholder<bool>({}), nullptr}}, one);
               }).ok());
}

HOSTILE(LoopsOfNothing, "While OpenMerge CloseMerge") {
  const auto less = [](Output i) { return i < 10; };
  const auto next = [](Output i) { return i + 1; };
  using Fn = std::function<Output(Output)>;
  ExpectRecorded("an empty one", [&] { (void)While(0, Fn(), next); });
  ExpectRecorded("an empty one", [&] { (void)While(0, less, Fn()); });
  (void)RecordedBy([&] { EXPECT_NULL(While(Output(), less, next)); });
  for (const Operand& init : {Operand(Tensor()), Operand(Elsewhere()),
                              Operand(Tensor(DType::kInt32, {-1}))})
    EXPECT_FALSE(
        RecordedBy([&] { EXPECT_NULL(While(init, less, next)); }).ok());
  (void)RecordedBy([&] {
    (void)While(
        0, [](Output) { return Output(); }, next);
  });
  (void)RecordedBy(
      [&] { (void)While(0, less, [](Output) { return Output(); }); });
  EXPECT_FALSE(RecordedBy([&] { (void)While(0, next, next); }).ok());
  EXPECT_FALSE(RecordedBy([&] {
                 (void)While(0, less, [](Output) { return 1.5f; });
               }).ok());
  EXPECT_FALSE(RecordedBy([&] {
                 (void)While(0, less, [](Output) { return Elsewhere(); });
               }).ok());
  using Many = std::vector<Output>;
  for (const size_t n : {0, 1, 3})
    EXPECT_FALSE(RecordedBy([&] {
                   const Many made = While(
                       Many{Constant(0), Constant(0)},
                       [](const Many& v) { return v[0] < 3; },
                       [&](const Many& v) { return Many(n, v[0]); });
                   EXPECT_EQ(made.size(), 2u);
                 }).ok());
  (void)RecordedBy([&] {
    (void)While(
        Many(), [](const Many&) { return Constant(false); },
        [](const Many& v) { return v; });
  });
  for (const int n : {INT_MIN, -1, 0})
    (void)RecordedBy(
        [&] { (void)While(0, less, next, {.parallel_iterations = n}); });
  for (const Operand& most :
       {Operand(Tensor()), Operand("text"), Operand(Elsewhere())})
    EXPECT_FALSE(RecordedBy([&] {
                   (void)While(0, less, next, {.maximum_iterations = most});
                 }).ok());
  for (const PartialShape& shape :
       {PartialShape({-2}), PartialShape::OfRank(9), PartialShape({3})})
    EXPECT_FALSE(RecordedBy([&] {
                   (void)While(0, less, next, {.shape_invariants = {shape}});
                 }).ok());
  EXPECT_FALSE(RecordedBy([&] {
                 (void)While(0, less, next,
                             {.shape_invariants = {PartialShape::Scalar(),
                                                   PartialShape::Scalar()}});
               }).ok());
  (void)RecordedBy([] { EXPECT_NULL(OpenMerge(Output())); });
  EXPECT_FALSE(RecordedBy([] { EXPECT_NULL(OpenMerge(Tensor())); }).ok());
  (void)RecordedBy([] { CloseMerge(Output(), Output()); });
  EXPECT_FALSE(RecordedBy([] { CloseMerge(Constant(1), Constant(1)); }).ok());
  EXPECT_FALSE(RecordedBy([] { CloseMerge(Elsewhere(), Constant(1)); }).ok());
  EXPECT_FALSE(RecordedBy([] {
                 const Output m = OpenMerge(ops::Enter(0, "f"));
                 CloseMerge(m, ops::NextIteration(m));
                 CloseMerge(m, ops::NextIteration(m));
               }).ok());
  EXPECT_FALSE(RecordedBy([] {
                 const Output m = OpenMerge(ops::Enter(0, "f"));
                 CloseMerge(Output(m.node, 6), Elsewhere());
               }).ok());
}

HOSTILE(RowsOfNothing, "MapFn FoldL FoldR Scan") {
  const auto same = [](Output x) { return x; };
  const auto add = [](Output a, Output b) { return a + b; };
  using Fn = std::function<Output(Output)>;
  using Fn2 = std::function<Output(Output, Output)>;
  const Tensor rows = Tensor::Vector<float>({1, 2, 3});
  const Tensor scalar = Tensor::Scalar(1.0f);
  ExpectRecorded("an empty one", [&] { (void)MapFn(Fn(), rows); });
  ExpectRecorded("an empty one", [&] { (void)FoldL(Fn2(), rows); });
  ExpectRecorded("an empty one", [&] { (void)FoldR(Fn2(), rows, 0.0f); });
  ExpectRecorded("an empty one", [&] { (void)Scan(Fn2(), rows); });
  for (const Operand& bad :
       {Operand(scalar), Operand(Tensor()), Operand(Elsewhere())}) {
    EXPECT_FALSE(RecordedBy([&] { EXPECT_NULL(MapFn(same, bad)); }).ok());
    EXPECT_FALSE(RecordedBy([&] { EXPECT_NULL(FoldL(add, bad)); }).ok());
    EXPECT_FALSE(RecordedBy([&] { EXPECT_NULL(FoldR(add, bad)); }).ok());
    EXPECT_FALSE(RecordedBy([&] { EXPECT_NULL(Scan(add, bad)); }).ok());
  }
  (void)RecordedBy([&] { EXPECT_NULL(MapFn(same, Output())); });
  using Many = std::vector<Output>;
  const auto first = [](const Many& v) { return v.at(0); };
  (void)first;
  EXPECT_FALSE(RecordedBy([&] {
                 (void)MapFn([](const Many&) { return Many(); }, Many());
               }).ok());
  EXPECT_FALSE(RecordedBy([&] {
                 (void)MapFn(same, rows, {.dtypes = {DType::kInt32}});
               }).ok());
  EXPECT_NULL(
      RecordedBy([&] {
        (void)MapFn(same, rows, {.dtypes = {DType::kFloat, DType::kFloat}});
      }).ok());
  (void)RecordedBy([&] {
    (void)MapFn(same, rows, {.parallel_iterations = -5, .name = "a b"});
  });
  (void)RecordedBy([&] { (void)MapFn([](Output) { return Output(); }, rows); });
  EXPECT_FALSE(RecordedBy([&] {
                 (void)FoldL([](Output, Output) { return "text"; }, rows, 0.f);
               }).ok());
  // No rows: without a first value, an error of the step.
  Graph g;
  const WithGraph use(g);
  Session session(g);
  const Tensor none(DType::kFloat, {0});
  EXPECT_FALSE(session.Run(FoldL(add, none)).ok());
  EXPECT_TRUE(session.Run(FoldL(add, none, 0.0f)).ok());
}

HOSTILE(FunctionsOfNothing,
        "Function::Function Function::name Function::ref Function::operator() "
        "FunctionResults::FunctionResults DefineFunction DeclareFunction "
        "DefineBody CallResults::CallResults CallResults::operator[] "
        "Function::captures") {
  const auto same = [](const std::vector<Output>& args) { return args; };
  ExpectRecorded("", [] {
    for (const Output& o : Function()({})) EXPECT_NULL(o);
  });
  ExpectRecorded("", [] {
    for (const Output& o : Function("no_such", false)({Constant(1)}))
      EXPECT_NULL(o);
  });
  EXPECT_EQ(Function().name(), "");
  EXPECT_EQ(Function().ref().name, "");
  EXPECT_EQ(FunctionResults({}).outputs.size(), 0u);
  EXPECT_TRUE(Function().captures().empty());
  for (const size_t i : {size_t{0}, size_t{1}, ~size_t{0}})
    ExpectRecorded("expected a result below 0",
                   [&] { EXPECT_NULL(CallResults({}, "f", {})[i]); });
  const auto ends = [](const char* name, const auto& define) {
    ExpectRecorded("got none", [&] {
      for (const Output& o : define(name)({Constant(1.0f)})) EXPECT_NULL(o);
    });
  };
  ends("f", [](const char* name) {
    return DefineFunction(name, {DType::kFloat}, FunctionBuilder());
  });
  ends("g", [](const char* name) {
    return DefineFunction(name, {DType::kFloat}, {DType::kFloat},
                          RecursiveBuilder());
  });
  ends("h", [](const char* name) {
    const Function f = DeclareFunction(name, {DType::kFloat}, {DType::kFloat});
    DefineBody(f, nullptr);
    return f;
  });
  for (const char* name : {"", "a b", "\n"})
    (void)RecordedBy(
        [&] { (void)DefineFunction(name, {DType::kFloat}, same); });
  for (const DType t : {DType::kInvalid, static_cast<DType>(99)}) {
    ExpectRecorded("", [&] { (void)DefineFunction("f", {t}, same); });
    (void)RecordedBy([&] { (void)DeclareFunction("f", {}, {t}); });
  }
  EXPECT_FALSE(RecordedBy([&] {
                 (void)DefineFunction("f", {}, [](const auto&) {
                   return FunctionResults(Elsewhere());
                 });
               }).ok());
  EXPECT_FALSE(RecordedBy([&] {
                 (void)DefineFunction("f", {}, [](const auto&) {
                   return FunctionResults(Output());
                 });
               }).ok());
  EXPECT_FALSE(RecordedBy([&] { DefineBody(Function(), same); }).ok());
  EXPECT_FALSE(RecordedBy([&] {
                 DefineBody(DeclareFunction("f", {}, {DType::kFloat}), same);
               }).ok());
  EXPECT_FALSE(RecordedBy([&] {
                 const Function f = DefineFunction("f", {DType::kFloat}, same);
                 for (const Output& o : f({})) EXPECT_NULL(o);
               }).ok());
  EXPECT_FALSE(RecordedBy([&] {
                 const Function f = DefineFunction("f", {DType::kFloat}, same);
                 for (const Output& o : f({Constant(int32_t{1})}))
                   EXPECT_NULL(o);
               }).ok());
  (void)RecordedBy([&] {
    (void)DefineFunction("f", {DType::kFloat}, same);
    (void)DefineFunction("f", {DType::kFloat}, same);
  });
  EXPECT_FALSE(RecordedBy([&] {
                 (void)DefineFunction(
                     "f", {DType::kFloat}, same,
                     {.arg_shapes = {PartialShape({-2}), PartialShape({1})}});
               }).ok());
}

// ---- Arrays and networks ----------------------------------------------------

HOSTILE(ArraysOfNothing,
        "TensorArray::TensorArray TensorArray::FromHandle TensorArray::handle "
        "TensorArray::flow TensorArray::dtype TensorArray::element_shape "
        "TensorArray::Read TensorArray::Write TensorArray::Stack "
        "TensorArray::Gather TensorArray::Unstack TensorArray::Scatter "
        "TensorArray::Concat TensorArray::Split TensorArray::Size "
        "TensorArray::Identity TensorArray::Grad TensorArray::Close "
        "TensorArray::Flatten TensorArray::Unflatten Structure::Flatten "
        "Structure::Unflatten") {
  const auto use = [](const TensorArray& a, const Operand& v) {
    (void)a.handle();
    (void)a.flow();
    (void)a.dtype();
    (void)a.element_shape();
    (void)a.Read(v);
    (void)a.Write(v, v);
    (void)a.Stack();
    (void)a.Gather(v);
    (void)a.Unstack(v);
    (void)a.Scatter(v, v);
    Output lengths;
    (void)a.Concat(&lengths);
    (void)a.Concat(nullptr);
    (void)a.Split(v, v);
    (void)a.Size();
    (void)a.Identity();
    (void)a.Grad("");
    (void)a.Close();
    std::vector<Operand> parts;
    a.Flatten(&parts);
    ASSERT_EQ(parts.size(), 1u);
    const Output* next = &parts[0].output;
    (void)a.Unflatten(next);
  };
  for (const Operand& v :
       {Operand(Output()), Operand(Tensor()), Operand("text"),
        Operand(Elsewhere()), Operand(Tensor(DType::kInt32, {-1})),
        Operand(Tensor::Scalar<int64_t>(INT64_MIN))}) {
    (void)RecordedBy([&] { use(TensorArray(), v); });
    (void)RecordedBy([&] { use(TensorArray(DType::kFloat, v), v); });
    (void)RecordedBy([&] { use(TensorArray(DType::kFloat, 3), v); });
    (void)RecordedBy([&] { use(TensorArray(DType::kInvalid, 3), v); });
    (void)RecordedBy([&] { use(TensorArray(DType::kFloat, INT_MIN), v); });
    (void)RecordedBy([&] {
      use(TensorArray(DType::kFloat, 3,
                      {.element_shape = PartialShape({-7}), .name = "a b"}),
          v);
    });
    (void)RecordedBy([&] {
      const Output o = Constant(1.0f);
      use(TensorArray::FromHandle(Output(), Output()), v);
      use(TensorArray::FromHandle(o, o), v);
      use(TensorArray::FromHandle(Output(o.node, 4), o, DType::kInvalid), v);
      use(TensorArray::FromHandle(Elsewhere(), o, DType::kFloat), v);
    });
  }
  ExpectRecorded("", [] {
    EXPECT_NULL(TensorArray(DType::kFloat, 3, {.element_shape = {-7}}));
  });
  Graph g;
  const WithGraph there(g);
  Session session(g);
  for (const int n : {INT_MIN, -1, INT_MAX})
    (void)session.Run(TensorArray(DType::kFloat, n).Stack()).status();
  EXPECT_FALSE(session.Run(TensorArray(DType::kFloat, 2).Read(-5)).ok());
  EXPECT_FALSE(session.Run(TensorArray(DType::kFloat, 2).Read(INT_MAX)).ok());
}

HOSTILE(StoresOfNothing,
        "TensorStore::TensorStore TensorStore::FromHandle TensorStore::handle "
        "TensorStore::dtype TensorStore::Read TensorStore::ReadMany "
        "TensorStore::Write TensorStore::Has TensorStore::Size "
        "TensorStore::Keys") {
  const auto use = [](const TensorStore& s, const Operand& v) {
    (void)s.handle();
    (void)s.dtype();
    (void)s.Write(v, v);
    (void)s.Read(v);
    (void)s.ReadMany(v);
    (void)s.Has(v);
    (void)s.Size();
    (void)s.Keys();
  };
  for (const Operand& v :
       {Operand(Output()), Operand(Tensor()), Operand("text"),
        Operand(Elsewhere()), Operand(Tensor(DType::kInt32, {-1})),
        Operand(Tensor::Scalar<int64_t>(INT64_MIN))}) {
    (void)RecordedBy([&] { use(TensorStore(), v); });
    (void)RecordedBy([&] { use(TensorStore(DType::kFloat), v); });
    (void)RecordedBy([&] { use(TensorStore(DType::kInvalid), v); });
    (void)RecordedBy([&] {
      use(TensorStore(DType::kFloat, {.key_dtype = DType::kFloat}), v);
      use(TensorStore(DType::kFloat, {.element_shape = PartialShape({-7}),
                                      .shared_name = "a b",
                                      .name = "a b"}),
          v);
    });
    (void)RecordedBy([&] {
      const Output o = Constant(1.0f);
      use(TensorStore::FromHandle(Output(), DType::kFloat), v);
      use(TensorStore::FromHandle(o, DType::kFloat), v);
      use(TensorStore::FromHandle(Output(o.node, 4), DType::kInvalid), v);
      use(TensorStore::FromHandle(Elsewhere(), DType::kFloat), v);
    });
  }
  Graph g;
  const WithGraph there(g);
  Session session(g);
  EXPECT_FALSE(session.Run(TensorStore(DType::kFloat).Read(INT_MIN)).ok());
}

HOSTILE(BodiesScheduledNowhere, "Scheduled RegisterSchedulePolicy") {
  const auto body = [](Output x) { return ops::Neg(x); };
  const std::vector<std::string> here = {"/device:CPU:0"};
  ExpectRecorded("at least one device", [&] {
    EXPECT_NULL(Scheduled(std::vector<std::string>(), Constant(1.0f), body));
  });
  ExpectRecorded("scheduled body", [&] {
    EXPECT_NULL(
        Scheduled(std::vector<std::string>{"", "x y"}, Constant(1.0f), body));
  });
  for (const Output& x : {Output(), Elsewhere()})
    (void)RecordedBy([&] { (void)Scheduled(here, x, body); });
  (void)RecordedBy([&] {
    (void)Scheduled(here, Constant(1.0f), std::function<Output(Output)>());
    (void)Scheduled(here, Constant(1.0f), [](Output) { return Output(); });
    (void)Scheduled(here, std::vector<Output>(),
                    [](const std::vector<Output>& v) { return v; });
  });
  for (const ScheduledOptions& o :
       {ScheduledOptions{.ns_per_row = -1},
        ScheduledOptions{.bytes_per_s = std::nan("")},
        ScheduledOptions{.rows_per_part = INT64_MIN},
        ScheduledOptions{.rows_per_part = INT64_MAX},
        ScheduledOptions{.home = "x y"}})
    ExpectRecorded("scheduled", [&] {
      EXPECT_NULL(Scheduled(here, Constant(1.0f), body, o));
    });
  // A scalar has no rows to cut.
  (void)RecordedBy([&] {
    EXPECT_NULL(Scheduled(here, Constant(1.0f), body, {.rows_per_part = 2}));
  });
  EXPECT_FALSE(RegisterSchedulePolicy("", nullptr).ok());
  EXPECT_FALSE(RegisterSchedulePolicy("nothing", nullptr).ok());
  EXPECT_FALSE(RegisterSchedulePolicy("", [](const ScheduleRequest&) {
                 return 0;
               }).ok());
  EXPECT_FALSE(RegisterSchedulePolicy("cost", [](const ScheduleRequest&) {
                 return 0;
               }).ok());
}

HOSTILE(NetworksOfNothing,
        "RnnCell::RnnCell RnnCell::output_size RnnCell::state_sizes "
        "RnnCell::IsMemory RnnCell::variables RnnCell::operator() "
        "RnnCell::ZeroState RnnCell::Open RnnCell::Kind::Kind "
        "RnnCell::Kind::output_size RnnCell::Kind::state_sizes "
        "RnnCell::Kind::IsMemory RnnCell::Kind::Open RnnCell::Kind::variables "
        "RnnCell::Kind::name BasicRnnCell GruCell LstmCell MultiRnnCell "
        "DropoutWrapper DeviceWrapper FunctionCell DynamicRnn StaticRnn "
        "BidirectionalDynamicRnn") {
  class Empty final : public RnnCell::Kind {
   public:
    Empty() : Kind("") {}
    int64_t output_size() const override { return 2; }
    std::vector<int64_t> state_sizes() const override { return {2}; }
    std::optional<RnnStepper> Open(int64_t, DType, bool, SourceLoc) override {
      return RnnStepper{};
    }
  };
  const auto step_of = [](size_t states) {
    return [states](Output x, const RnnState&) {
      return RnnStep{x, RnnState(states, x)};
    };
  };
  // (A cell keeps the weights of the graph that it was first used in.)
  using Maker = std::function<RnnCell()>;
  std::vector<Maker> makers = {
      [] { return RnnCell(); },
      [] { return RnnCell(nullptr); },
      [] { return RnnCell(std::make_shared<Empty>()); },
      [] { return MultiRnnCell({}); },
      [] {
        return MultiRnnCell({RnnCell(), RnnCell()});
      },
      [] { return DropoutWrapper(RnnCell(), {}); },
      [] { return DropoutWrapper(LstmCell(2), {.input_keep = -1.0}); },
      [] { return DropoutWrapper(LstmCell(2), {.output_keep = kNan}); },
      [] { return DropoutWrapper(LstmCell(2), {.state_keep = Tensor()}); },
      [] { return DropoutWrapper(LstmCell(2), {.state_keep = Elsewhere()}); },
      [] { return DeviceWrapper(RnnCell(), "garbage"); },
      [] { return DeviceWrapper(LstmCell(2), "garbage"); },
      [] { return FunctionCell(2, {2}, nullptr); },
      [&] { return FunctionCell(-1, {INT64_MIN}, step_of(1)); },
      [&] { return FunctionCell(2, {2}, step_of(0)); },
      [&] {
        return FunctionCell(2, {2, 2}, step_of(3));
      },
      [] { return LstmCell(2, {.initializer = InitializerOfNothing()}); },
      [] { return LstmCell(2, {.projection = INT64_MAX}); },
      [] { return BasicRnnCell(2, {.initializer = InitializerOfNothing()}); },
      [] { return GruCell(2, {.name = "a b"}); },
      [] {
        return BasicRnnCell(2, {.activation = [](Output) { return Output(); }});
      }};
  for (const int64_t units : {INT64_MIN, int64_t{-1}, INT64_MAX, kHuge / 4}) {
    makers.push_back([units] { return BasicRnnCell(units); });
    makers.push_back([units] { return GruCell(units); });
    makers.push_back([units] { return LstmCell(units); });
    makers.push_back([units] { return LstmCell(units, {.peepholes = true}); });
  }
  for (size_t i = 0; i < makers.size(); ++i) {
    const Maker& make = makers[i];
    (void)make().output_size();
    (void)make().IsMemory(SIZE_MAX);
    EXPECT_TRUE(make().variables().empty());
    const size_t states = make().state_sizes().size();
    const auto x = [] { return Placeholder<float>({3, 4}); };
    const auto xs = [] { return Placeholder<float>({3, 5, 4}); };
    (void)RecordedBy([&] {
      const RnnCell cell = make();
      (void)cell(x(), cell.ZeroState(3));
    });
    const Status many =
        RecordedBy([&] { (void)make()(x(), RnnState(7, x())); });
    EXPECT_FALSE(many.ok()) << i;
    (void)RecordedBy([&] { (void)make()(Output(), RnnState(states)); });
    (void)RecordedBy([&] { (void)make()(x(), RnnState(states)); });
    const Status no_x =
        RecordedBy([&] { (void)make()(Tensor(), RnnState(states)); });
    EXPECT_FALSE(no_x.ok()) << i;
    (void)RecordedBy(
        [&] { (void)make().ZeroState(Tensor(), DType::kInvalid); });
    (void)RecordedBy([&] { (void)make().ZeroState(INT_MIN); });
    for (const int64_t depth : {INT64_MIN, int64_t{-1}, INT64_MAX})
      for (const bool project : {false, true})
        (void)RecordedBy([&] {
          const auto stepper = make().Open(depth, DType::kInvalid, project);
          if (!stepper) return;
          (void)stepper->step(x(), {});
          (void)stepper->step(Output(), RnnState(states));
          if (stepper->project) (void)stepper->project(Output());
        });
    const Status dynamic =
        RecordedBy([&] { (void)DynamicRnn(make(), xs()).outputs; });
    EXPECT_FALSE(dynamic.ok()) << i;
    const Status unrolled =
        RecordedBy([&] { (void)StaticRnn(make(), {x()}).outputs.at(0); });
    EXPECT_FALSE(unrolled.ok()) << i;
    (void)RecordedBy(
        [&] { (void)BidirectionalDynamicRnn(make(), make(), xs()); });
  }
  Empty kind;
  EXPECT_TRUE(kind.name().empty() && kind.variables().empty());
  EXPECT_FALSE(kind.IsMemory(9));
  const auto good = [] { return LstmCell(2); };
  for (const Operand& bad :
       {Operand(Tensor()), Operand("text"), Operand(Elsewhere()),
        Operand(Tensor::Scalar(1.0f)), Operand(Tensor(DType::kFloat, {-1}))}) {
    EXPECT_FALSE(RecordedBy([&] { (void)DynamicRnn(good(), bad); }).ok());
    EXPECT_FALSE(RecordedBy([&] {
                   (void)BidirectionalDynamicRnn(good(), good(), bad);
                 }).ok());
    EXPECT_FALSE(RecordedBy([&] {
                   (void)DynamicRnn(LstmCell(2), Placeholder<float>({3, 5, 4}),
                                    {.sequence_length = bad});
                 }).ok());
  }
  EXPECT_FALSE(RecordedBy([&] { (void)StaticRnn(good(), {}); }).ok());
  (void)RecordedBy([&] { (void)StaticRnn(good(), {Output(), Output()}); });
  EXPECT_FALSE(
      RecordedBy([&] { (void)StaticRnn(good(), {Elsewhere()}); }).ok());
  for (const RnnState& state :
       {RnnState(1), RnnState(2), RnnState(2, Elsewhere()), RnnState(5)})
    EXPECT_FALSE(RecordedBy([&] {
                   (void)DynamicRnn(LstmCell(2), Placeholder<float>({3, 5, 4}),
                                    {.initial_state = state});
                 }).ok());
  (void)RecordedBy([&] {
    (void)DynamicRnn(LstmCell(2), Placeholder<float>({3, 5, 4}),
                     {.parallel_iterations = INT_MIN, .scope = "\n"});
  });
}

// ---- Devices ----------------------------------------------------------------

HOSTILE(PlacementsOfNothing,
        "RoundRobin LeastLoaded BytesOfState ReplicaDeviceSetter") {
  const auto placed = [](const ReplicaDeviceOptions& options) {
    return RecordedBy([&] {
      const DeviceFunctionScope scope(ReplicaDeviceSetter(options));
      (void)Var(1.0f, "v");
    });
  };
  EXPECT_TRUE(placed({.ps_tasks = INT_MIN}).ok());
  for (const TaskStrategy& strategy :
       {TaskStrategy(nullptr), RoundRobin(INT_MIN), RoundRobin(0),
        LeastLoaded(-1, nullptr),
        LeastLoaded(2, [](const Node&) { return kNan; })})
    EXPECT_TRUE(placed({.ps_tasks = 2, .strategy = strategy}).ok());
  EXPECT_NULL(
      placed({.ps_tasks = 2, .strategy = [](const Node&) { return INT_MIN; }})
          .ok());
  EXPECT_FALSE(placed({.ps_tasks = 2, .ps_device = "garbage"}).ok());
  EXPECT_FALSE(placed({.ps_tasks = 2, .worker_device = "garbage"}).ok());
  Graph g;
  const WithGraph use(g);
  EXPECT_EQ(BytesOfState(*BuildNode("NoOp", {})), 1);
}

}  // namespace
}  // namespace sluice
