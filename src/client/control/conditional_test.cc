// Conditionals as the client builds them, run by a session.
#include <array>
#include <tuple>

#include "client/testing/control_flow_test_util.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(ControlFlowTest, OnlyTheChosenBranchRuns) {
  const Output x = In<float>("x");
  const Output y = Cond(
      x < 0, [&] { return -x; }, [&] { return x * 2; });
  EXPECT_EQ(Value<float>(y, {{x, -3.0f}}), 3);
  EXPECT_EQ(Value<float>(y, {{x, 3.0f}}), 6);
  const Output z = Cond(
      x < 0,
      [&] {
        const ControlDependencies after({ops::Abort({.error_msg = "ran"})});
        return ops::Identity(x);
      },
      [&] { return x; });
  EXPECT_EQ(Value<float>(z, {{x, 3.0f}}), 3);
}

TEST_F(ControlFlowTest, CapturedTensorHasOneSwitchPerConditional) {
  const Output x = In<float>("x");
  const Output p = In<bool>("p");
  const int before = CountOps("Switch");
  auto [a, b] = Cond(
      p,
      [&] {
        return std::tuple{x + 1, x * x};
      },
      [&] {
        return std::tuple{x, -x};
      });
  // One for x, one for the pivots.
  EXPECT_EQ(CountOps("Switch") - before, 2);
  EXPECT_EQ(CountOps("Merge"), 2);
  EXPECT_EQ(Value<float>(a, {{x, 3.0f}, {p, true}}), 4);
  EXPECT_EQ(Value<float>(b, {{x, 3.0f}, {p, true}}), 9);
  EXPECT_EQ(Value<float>(a, {{x, 3.0f}, {p, false}}), 3);
  EXPECT_EQ(Value<float>(b, {{x, 3.0f}, {p, false}}), -3);
}

TEST_F(ControlFlowTest, BranchesMayReturnNumbersConstantsAndPredicate) {
  const Output p = In<bool>("p");
  const Output x = Constant(std::int64_t{7});
  const Output number = Cond(
      p, [&] { return x; }, [] { return 1; });
  EXPECT_EQ(Value<int64_t>(number, {{p, false}}), 1);
  EXPECT_EQ(Value<int64_t>(number, {{p, true}}), 7);
  const Output both = Cond(
      p, [] { return 2.5; }, [] { return 1; });
  EXPECT_EQ(Value<float>(both, {{p, true}}), 2.5f);
  const Output same = Cond(
      p, [&] { return p; }, [&] { return ops::LogicalNot(p); });
  EXPECT_TRUE(Value<bool>(same, {{p, true}}));
  EXPECT_TRUE(Value<bool>(same, {{p, false}}));
}

TEST_F(ControlFlowTest, ResultsKeepStructureOfBranchResults) {
  const Output p = In<bool>("p");
  const Output x = Constant(2.0f);
  const std::vector<Output> list = Cond(
      p,
      [&] {
        return std::vector<Output>{x, x + 1};
      },
      [&] {
        return std::vector<Output>{x + 1, x};
      });
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(Value<float>(list[1], {{p, true}}), 3);
  const std::array<Output, 2> pair = Cond(
      p,
      [&] {
        return std::array<Output, 2>{x, x + 1};
      },
      [&] {
        return std::array<Output, 2>{x + 1, x};
      });
  EXPECT_EQ(Value<float>(pair[0], {{p, false}}), 3);
  const std::tuple<Output, std::vector<Output>> nested = Cond(
      p,
      [&] {
        return std::tuple{x, std::vector<Output>{x}};
      },
      [&] {
        return std::tuple{x, std::vector<Output>{x * x}};
      });
  EXPECT_EQ(Value<float>(std::get<1>(nested)[0], {{p, false}}), 4);
}

TEST_F(ControlFlowTest, BranchesMayHaveOnlySideEffects) {
  const Output p = In<bool>("p");
  const Var v(1.0f, "v");
  Node* update = Cond(
      p, [&] { return v.AssignAdd(10.0f); }, [&] { return v.AssignSub(1.0f); });
  Initialize();
  Step(update, {{p, true}});
  EXPECT_EQ(Value<float>(v), 11);
  Step(update, {{p, false}});
  Step(update, {{p, false}});
  EXPECT_EQ(Value<float>(v), 9);
}

TEST_F(ControlFlowTest, BranchesMayAssignOuterReferenceVariables) {
  const Output p = In<bool>("p");
  const Var v(1.0f, "v", {.reference = true});
  const Output y = Cond(
      p,
      [&] {
        return Build("AssignAdd", {v.handle(), Constant(2.0f)});
      },
      [&] { return v.handle(); });
  EXPECT_EQ(CountOps("RefSwitch"), 1);
  Initialize();
  EXPECT_EQ(Value<float>(y, {{p, false}}), 1);
  EXPECT_EQ(Value<float>(y, {{p, true}}), 3);
  EXPECT_EQ(Value<float>(y, {{p, false}}), 3);
}

TEST_F(ControlFlowTest, ConditionalStartsAfterOuterControlDependencies) {
  const Output p = In<bool>("p");
  const Var v(1.0f, "v");
  Node* first = v.Assign(5.0f);
  Output y;
  {
    const ControlDependencies after({first});
    y = Cond(
        p, [&] { return v.Read(); }, [&] { return v.Read() * 2; });
  }
  Initialize();
  EXPECT_EQ(Value<float>(y, {{p, true}}), 5);
  Initialize();
  EXPECT_EQ(Value<float>(y, {{p, false}}), 10);
}

TEST_F(ControlFlowTest, CaseTakesFirstBranchWhosePredicateHolds) {
  const Output x = In<int>("x");
  const auto number = [](int v) {
    return std::function<Output()>([v] { return Constant(v); });
  };
  const Output y = Case<Output>(
      {{x < 10, number(1)}, {x < 20, number(2)}, {x < 30, number(3)}},
      number(4));
  for (const auto& [in, out] :
       {std::pair{5, 1}, std::pair{15, 2}, std::pair{25, 3}, std::pair{35, 4}})
    EXPECT_EQ(Value<int>(y, {{x, in}}), out) << in;
}

TEST_F(ControlFlowTest, CaseWithoutDefaultFailsIfNoPredicateHolds) {
  const Output x = In<int>("x");
  const auto number = [](int v) {
    return std::function<Output()>([v] { return Constant(v); });
  };
  const Output y = Case<Output>({{x < 10, number(1)}, {x < 20, number(2)}});
  EXPECT_EQ(Value<int>(y, {{x, 15}}), 2);
  EXPECT_EQ(Value<int>(y, {{x, 5}}), 1);
  EXPECT_THAT(ErrorOf(y, {{x, 25}}), HasSubstr("expected a predicate to hold"));
  const Output one = Case<Output>({{x < 10, number(1)}});
  EXPECT_EQ(Value<int>(one, {{x, 5}}), 1);
  EXPECT_THAT(ErrorOf(one, {{x, 25}}),
              HasSubstr("expected a predicate to hold"));
}

TEST_F(ControlFlowTest, ExclusiveCaseFailsIfTwoPredicatesHold) {
  const Output x = In<int>("x");
  const auto number = [](int v) {
    return std::function<Output()>([v] { return Constant(v); });
  };
  const Output y =
      Case<Output>({{x < 10, number(1)}, {x < 20, number(2)}}, number(3), true);
  EXPECT_EQ(Value<int>(y, {{x, 15}}), 2);
  EXPECT_EQ(Value<int>(y, {{x, 25}}), 3);
  EXPECT_THAT(ErrorOf(y, {{x, 5}}),
              HasSubstr("expected at most one predicate to hold"));
}

TEST_F(ControlFlowTest, MismatchedBranchesReportTheUsersLine) {
  const Output p = Constant(true), x = Constant(1.0f), i = Constant(1);
  struct Wrong {
    std::function<Output()> build;
    std::string says;
  };
  int line = 0;
  const Wrong wrongs[] = {
      {[&] {
         line = __LINE__ + 1;
         return Cond(
             i, [&] { return x; }, [&] { return x; });
       },
       "expected a predicate that is a boolean scalar, got int32 of shape []"},
      {[&] {
         line = __LINE__ + 1;
         return Cond(
             ops::Pack({p, p}), [&] { return x; }, [&] { return x; });
       },
       "expected a predicate that is a boolean scalar, got bool of shape [2]"},
      {[&] {
         line = __LINE__ + 1;
         return Cond(
             p, [&] { return x; }, [&] { return i; });
       },
       "expected values of one type as result 0, got float of shape [] where "
       "it holds and int32 of shape [] where not"},
      {[&] {
         line = __LINE__ + 1;
         return Cond(
             p,
             [&] {
               return std::vector<Output>{x, x};
             },
             [&] { return std::vector<Output>{x}; })[0];
       },
       "expected as many values from both branches, got 2 where it holds and "
       "1 where not"},
      {[&] {
         line = __LINE__ + 1;
         return Cond(
             p, [&] { return x; }, [&] { return Output(); });
       },
       "expected an output as value 0, got none"},
  };
  for (const Wrong& w : wrongs) {
    EXPECT_FALSE(w.build().valid());
    EXPECT_THAT(BuildErrorOf(), HasSubstr(w.says));
    EXPECT_THAT(BuildErrorOf(), HasSubstr("cond"));
    EXPECT_THAT(BuildErrorOf(), HasSubstr(Here(line, __FILE__)));
    EXPECT_THAT(ErrorOf(graph_.Failure()), HasSubstr(w.says));
    graph_.ClearErrors();
  }
}

TEST_F(ControlFlowTest, CaseRejectsNonBooleanPredicatesAndNoBranches) {
  const Output x = Constant(1.0f);
  const std::function<Output()> f = [&] { return x; };
  int line = __LINE__ + 1;
  EXPECT_FALSE(Case<Output>({{x, f}}, f).valid());
  EXPECT_THAT(BuildErrorOf(),
              AllOf(HasSubstr("expected predicate 0 to be a boolean scalar, "
                              "got float of shape []"),
                    HasSubstr(Here(line, __FILE__))));
  graph_.ClearErrors();
  line = __LINE__ + 1;
  EXPECT_FALSE(Case<Output>({}).valid());
  EXPECT_THAT(BuildErrorOf(), AllOf(HasSubstr("expected a branch, got none"),
                                    HasSubstr(Here(line, __FILE__))));
}

TEST_F(ControlFlowTest, NodesAndResultsCanBeAddedToBuiltBranch) {
  const Output p = In<bool>("p"), x = In<float>("x"), late = In<float>("l");
  Output inner;
  const Output y = Cond(
      p,
      [&] {
        inner = ops::Exp(x);
        return inner;
      },
      [&] { return x; });
  Conditional* c = graph_.control_flow().ConditionalOf(y.node);
  ASSERT_NE(c, nullptr);
  Output more;
  {
    const ContextScope branch(c->branch(1));
    more = inner * 0 + late * 2;
  }
  const Output merged = Output(c->AddMerge(late, more));
  EXPECT_EQ(Value<float>(merged, {{p, true}, {x, 1.0f}, {late, 3.0f}}), 6);
  EXPECT_EQ(Value<float>(merged, {{p, false}, {x, 1.0f}, {late, 3.0f}}), 3);
}

}  // namespace
}  // namespace sluice
