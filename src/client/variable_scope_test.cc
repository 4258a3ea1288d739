#include "client/variable_scope.h"

#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/nn/layers.h"
#include "client/nn/rnn_cells.h"
#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VariableScopeTest : public ClientTest {
 protected:
  static std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const Var& v : GlobalVariables()) names.push_back(v.name());
    return names;
  }
  std::string Error() const { return std::string(graph_.status().message()); }
};

TEST_F(VariableScopeTest, NamesVariablesAfterVariableScopesOnly) {
  const NameScope tower("tower");
  const VariableScope outer("model");
  const NameScope names("part");
  const VariableScope inner("layer");
  const Var w = GetVariable("w", {2});
  EXPECT_EQ(w.name(), "model/layer/w");
  EXPECT_EQ(inner.name(), "model/layer");
  EXPECT_EQ(ops::Identity(w).node->name(), "tower/model/part/layer/Identity");
}

TEST_F(VariableScopeTest, EveryReadOfASharedVariableIsOfTheSameOne) {
  const auto model = [] {
    const VariableScope scope("model", {.reuse = Reuse::kAuto});
    return GetVariable("w", {2}, init::Ones());
  };
  const Var a = model(), b = model();
  EXPECT_TRUE(a.valid() && a.SameAs(b));
  EXPECT_THAT(Names(), ElementsAre("model/w"));
}

TEST_F(VariableScopeTest, ByDefaultVariablesAreNew) {
  {
    const VariableScope scope("m");
    (void)GetVariable("w", {2});
  }
  const VariableScope scope("m");
  const int line = __LINE__ + 1;
  EXPECT_FALSE(GetVariable("w", {2}).valid());
  EXPECT_THAT(Error(), HasSubstr("variable 'm/w': expected a new one"));
  EXPECT_THAT(graph_.status().ToString(), HasSubstr(Here(line, __FILE__)));
}

TEST_F(VariableScopeTest, ReusedVariablesMustExist) {
  {
    const VariableScope scope("m");
    (void)GetVariable("w", {2});
  }
  const VariableScope scope("m", {.reuse = Reuse::kAlways});
  const VariableScope inherits("");
  EXPECT_TRUE(GetVariable("w", {2}).valid());
  EXPECT_FALSE(GetVariable("v", {2}).valid());
  EXPECT_THAT(Error(),
              HasSubstr("variable 'm/v': expected one that exists, got none"));
}

TEST_F(VariableScopeTest, WithoutAScopeNameScopesStillShare) {
  const NameScope names("a");
  EXPECT_TRUE(GetVariable("w", {2}).SameAs(GetVariable("w", {2})));
  EXPECT_THAT(Names(), ElementsAre("a/w"));
}

TEST_F(VariableScopeTest, UniqueNamesCountAgainInAReopenedScope) {
  for (int i = 0; i < 2; ++i) {
    const VariableScope model("model", {.reuse = Reuse::kAuto});
    for (int layer = 0; layer < 3; ++layer) {
      const VariableScope scope("dense", {.unique = true});
      (void)GetVariable("kernel", {2});
    }
  }
  EXPECT_THAT(Names(), ElementsAre("model/dense/kernel", "model/dense_1/kernel",
                                   "model/dense_2/kernel"));
}

TEST_F(VariableScopeTest, OutermostUniqueNamesDifferWhateverTheNameScope) {
  const auto layer = [] {
    const VariableScope scope("dense", {.unique = true});
    (void)GetVariable("kernel", {2});
  };
  layer();
  {
    const NameScope names("tower");
    layer();
    layer();
  }
  layer();
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_THAT(Names(), ElementsAre("dense/kernel", "dense_1/kernel",
                                   "dense_2/kernel", "dense_3/kernel"));
}

TEST_F(VariableScopeTest, ScopesHaveDefaultsForWhatIsLeftOpen) {
  const VariableScope outer(
      "a", {.initializer = init::Constant(3), .dtype = DType::kDouble});
  const VariableScope inner("b", {.initializer = init::Constant(4)});
  const Var w = GetVariable("w", {2});
  const Var v = GetVariable("v", {2}, init::Ones(), DType::kFloat);
  Initialize();
  EXPECT_THAT(Values<double>(w), ElementsAre(4, 4));
  EXPECT_THAT(Values<float>(v), ElementsAre(1, 1));
}

TEST_F(VariableScopeTest, VariablesOfIntegersStartAtZero) {
  const Var n = GetVariable("n", {2}, nullptr, DType::kInt64);
  Initialize();
  EXPECT_THAT(Values<int64_t>(n), ElementsAre(0, 0));
}

TEST_F(VariableScopeTest, RegularizersAddOneLossForEachVariable) {
  const Regularizer twice = [](Output w) { return ops::Sum(w, {0}) * 2; };
  for (int i = 0; i < 2; ++i) {
    const VariableScope scope("m",
                              {.reuse = Reuse::kAuto, .regularizer = twice});
    (void)GetVariable("w", {3}, init::Ones());
    VarOptions other;
    other.regularizer = [](Output w) { return ops::Sum(w, {0}); };
    (void)GetVariable("v", {3}, init::Ones(), DType::kFloat, other);
  }
  EXPECT_EQ(RegularizationLosses().size(), 2u);
  Initialize();
  EXPECT_EQ(Eval(RegularizationLoss()).scalar<float>(), 9);
}

TEST_F(VariableScopeTest, WithoutRegularizersTheLossIsZero) {
  EXPECT_EQ(Eval(RegularizationLoss()).scalar<float>(), 0);
}

TEST_F(VariableScopeTest, GettersChangeRequestsInnermostFirst) {
  std::vector<std::string> calls;
  const auto getter = [&](const std::string& name) {
    return
        [&calls, name](const VariableRequest& r,
                       const std::function<Var(const VariableRequest&)>& next) {
          calls.push_back(name + " " + r.name);
          VariableRequest changed = r;
          changed.name += "_" + name;
          changed.options.trainable = false;
          return next(changed);
        };
  };
  const VariableScope outer("a", {.getter = getter("outer")});
  const VariableScope inner("b", {.getter = getter("inner")});
  EXPECT_EQ(GetVariable("w", {2}).name(), "a/b/w_inner_outer");
  EXPECT_THAT(calls, ElementsAre("inner a/b/w", "outer a/b/w_inner"));
  EXPECT_TRUE(TrainableVariables().empty());
}

TEST_F(VariableScopeTest, VariablesOfAScopeAreListed) {
  for (const char* name : {"g", "generator", "discriminator"}) {
    const VariableScope scope(name);
    (void)GetVariable("w", {2});
  }
  ASSERT_EQ(TrainableVariables("g").size(), 1u);
  EXPECT_EQ(TrainableVariables("g")[0].name(), "g/w");
  EXPECT_EQ(GlobalVariables("").size(), 3u);
}

TEST_F(VariableScopeTest, FunctionsAndLoopsShareTheScopeAround) {
  const VariableScope scope("model", {.reuse = Reuse::kAuto});
  const auto add = [](Output x) {
    const VariableScope inner("add");
    return x + GetVariable("w", {}, init::Ones());
  };
  const Output outside = add(Constant(1.0f));
  const Function f = DefineFunction(
      "f", {DType::kFloat},
      [&](const std::vector<Output>& args) { return add(args[0]); });
  const Output called = f({Constant(2.0f)})[0];
  const Output looped = std::get<0>(While(
      std::tuple{0.0f}, [](Output x) { return x < 3; },
      [&](Output x) { return std::tuple{add(x)}; }));
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_THAT(Names(), ElementsAre("model/add/w"));
  Initialize();
  EXPECT_EQ(Eval(outside).scalar<float>(), 2);
  EXPECT_EQ(Eval(called).scalar<float>(), 3);
  EXPECT_EQ(Eval(looped).scalar<float>(), 3);
}

TEST_F(VariableScopeTest, UniqueNamesOfFunctionsAreThoseOfTheGraphAround) {
  for (const char* name : {"f", "g"})
    (void)DefineFunction(name, {DType::kFloat},
                         [](const std::vector<Output>& args) {
                           return Dense(ops::Reshape(args[0], {1, 1}), 1);
                         });
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_THAT(Names(), ElementsAre("dense/kernel", "dense/bias",
                                   "dense_1/kernel", "dense_1/bias"));
}

TEST_F(VariableScopeTest, CellsOfAScopeHaveScopesOfTheirOwn) {
  const auto model = [](Output x) {
    const VariableScope scope("model", {.reuse = Reuse::kAuto});
    const RnnCell a = GruCell(2), b = GruCell(2);
    return b(a(x, {Zeros({1, 2})}).output, {Zeros({1, 2})}).output;
  };
  (void)model(Ones({1, 3}));
  (void)model(Ones({1, 3}));
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_THAT(Names(), ElementsAre("model/gru_cell/gates/kernel",
                                   "model/gru_cell/gates/bias",
                                   "model/gru_cell/candidate/kernel",
                                   "model/gru_cell/candidate/bias",
                                   "model/gru_cell_1/gates/kernel",
                                   "model/gru_cell_1/gates/bias",
                                   "model/gru_cell_1/candidate/kernel",
                                   "model/gru_cell_1/candidate/bias"));
}

TEST_F(VariableScopeTest, PartitionerIsThatOfThePartsWithoutOne) {
  const VariableScope scope("m", {.initializer = init::Ones(),
                                  .partitioner = FixedSizePartitioner(2)});
  const VariableScope inner("part");
  const PartitionedVar two = GetPartitionedVariable("w", {4}, nullptr);
  const PartitionedVar four =
      GetPartitionedVariable("v", {4}, FixedSizePartitioner(4));
  EXPECT_EQ(two.name(), "m/part/w");
  EXPECT_EQ(two.parts().size(), 2u);
  EXPECT_EQ(four.parts().size(), 4u);
  EXPECT_EQ(GetVariable("u", {4}).shape(), PartialShape({4}));
  Initialize();
  EXPECT_THAT(Values<float>(two.Read()), ElementsAre(1, 1, 1, 1));
}

TEST_F(VariableScopeTest, ScopesOfAnotherGraphDoNotApply) {
  const VariableScope scope("m");
  Graph other;
  const WithGraph use(other);
  EXPECT_EQ(CurrentVariableScope(), nullptr);
  EXPECT_EQ(GetVariable("w", {2}).name(), "w");
}

TEST_F(VariableScopeTest, VariablesAreSharedWhoseNameANodeHas) {
  const auto model = [] {
    const VariableScope scope("bn", {.reuse = Reuse::kAuto});
    (void)ops::Mean(Ones({2}),
                    0);  // "bn/Mean": names differ in more than case.
    return std::pair(GetVariable("mean", {2}), GetVariable("mean_1", {2}));
  };
  const auto [mean, other] = model();
  const auto [again, other_again] = model();
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_NE(mean.name(), "bn/mean");
  EXPECT_TRUE(mean.SameAs(again));
  EXPECT_FALSE(mean.SameAs(other));
  EXPECT_TRUE(other.SameAs(other_again));
  {
    const VariableScope scope("bn", {.reuse = Reuse::kAlways});
    EXPECT_TRUE(GetVariable("mean", {2}).SameAs(mean));
  }
  const VariableScope scope("bn");
  EXPECT_FALSE(GetVariable("mean", {2}).valid());
  EXPECT_THAT(Error(), HasSubstr("expected a new one in its scope"));
}

TEST_F(VariableScopeTest, InitializersDoNotWaitForWhatIsAround) {
  const Var count(Constant(0), "count");
  Node* const update = count.AssignAdd(1);
  {
    const ControlDependencies after({update});
    (void)Dense(Ones({2, 3}), 4);
    (void)Var(1.5f, "v");
  }
  Initialize();
  EXPECT_EQ(Eval(count).scalar<int32_t>(), 0);
}

TEST_F(VariableScopeTest, GettersThatReturnNothingAreNamed) {
  const VariableScope outer(
      "outer",
      {.getter = [](const VariableRequest&, const auto&) { return Var(); }});
  const VariableScope inner("inner");
  const int line = __LINE__ + 1;
  EXPECT_FALSE(GetVariable("w", {2}).valid());
  EXPECT_THAT(Error(), HasSubstr("getter of variable scope 'outer': expected a "
                                 "variable, got none"));
  EXPECT_THAT(graph_.status().ToString(), HasSubstr(Here(line, __FILE__)));
}

TEST_F(VariableScopeTest, LossesOfSeveralTypesAreAddedInOne) {
  EXPECT_EQ(RegularizationLoss(DType::kDouble).dtype(), DType::kDouble);
  const VariableScope scope(
      "m", {.initializer = init::Ones(), .regularizer = L2Regularizer(1)});
  (void)GetVariable("a", {2}, nullptr, DType::kDouble);
  (void)GetVariable("b", {3});
  Initialize();
  EXPECT_EQ(Eval(RegularizationLoss()).scalar<double>(), 5);
  EXPECT_EQ(Eval(RegularizationLoss(DType::kFloat)).scalar<float>(), 5);
  (void)RegularizationLoss(DType::kInt32);
  EXPECT_THAT(Error(), HasSubstr("expected a floating type, got int32"));
}

}  // namespace
}  // namespace sluice
