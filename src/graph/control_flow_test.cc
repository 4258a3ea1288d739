// Contexts of nodes and values, captures, and loops that are extended after
// they were built.
#include "graph/control_flow.h"

#include "gmock/gmock.h"
#include "graph/builder.h"
#include "graph/frames.h"
#include "graph/graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ContextTest : public ::testing::Test {
 protected:
  ContextTest() : use_(graph_) {}

  static Output Input(DType t = DType::kFloat) {
    return Build("Placeholder", {},
                 {{"dtype", t}, {"shape", PartialShape::Scalar()}});
  }
  Conditional* MakeCond(Output pred) {
    Conditional* c = graph_.control_flow().NewConditional(
        "cond", pred, CurrentContext(), InLoopCondition());
    c->AddPivots();
    return c;
  }
  // while (i < limit) with one int32 variable, left open.
  WhileContext* MakeLoop(const std::string& name, Output init) {
    WhileContext* w = graph_.control_flow().NewWhile(
        name, name, CurrentContext(), InLoopCondition());
    w->OpenVariable(init, "i");
    {
      const ContextScope in_condition(w, true);
      w->SetCondition(Build(
          "Less", {Output(w->variables()[0].merge), Constant(int32_t{10})}));
    }
    return w;
  }
  void Close(WhileContext* w) {
    const ContextScope in_body(w);
    const Output i = w->variables()[0].body_value;
    w->CloseVariable(0, Build("AddV2", {i, Constant(int32_t{1})}));
  }

  Graph graph_;
  WithGraph use_;
};

TEST_F(ContextTest, ConstructingAContextAddsNoNode) {
  const Output p = Input(DType::kBool);
  const int before = graph_.num_nodes();
  Conditional* c = graph_.control_flow().NewConditional("c", p, nullptr);
  WhileContext* w =
      graph_.control_flow().NewWhile("w", "frame", c->branch(1), false);
  EXPECT_EQ(graph_.num_nodes(), before);
  EXPECT_EQ(w->frame_name(), "frame");
  EXPECT_EQ(c->branch(0)->conditional(), c);
  EXPECT_EQ(c->branch(0)->branch(), 0);
}

TEST_F(ContextTest, NodesAndValuesKnowTheirContext) {
  const Output p = Input(DType::kBool), x = Input();
  Conditional* c = MakeCond(p);
  Output y;
  WhileContext* w = nullptr;
  {
    const ContextScope branch(c->branch(1));
    y = Build("Neg", {x});
    w = MakeLoop("w", Constant(int32_t{0}));
    Close(w);
  }
  const LoopVariable& v = w->variables()[0];
  EXPECT_EQ(ContextOf(x), nullptr);
  EXPECT_EQ(ContextOf(y), c->branch(1));
  EXPECT_EQ(w->outer(), c->branch(1));
  for (const Node* n : {v.enter, v.merge, v.switch_node, v.next, v.exit,
                        v.body_value.node, w->loop_cond()})
    EXPECT_EQ(ContextOf(n), w) << n->name();
  // A loop's result belongs to the context around the loop.
  EXPECT_EQ(ContextOf(Output(v.exit)), c->branch(1));
  EXPECT_EQ(ControlContextOf(v.exit), c->branch(1));
  // A conditional's Switch runs outside of it; its outputs belong to the
  // branches.
  Node* sw = c->switches().at(x);
  EXPECT_EQ(ContextOf(sw), nullptr);
  EXPECT_EQ(ContextOf(Output(sw, 0)), c->branch(0));
  EXPECT_EQ(ContextOf(Output(sw, 1)), c->branch(1));
  EXPECT_TRUE(y.node->input(0).SameAs(Output(sw, 1)));
  // So does its Merge.
  Node* merge = c->AddMerge(x, y);
  EXPECT_EQ(ContextOf(Output(merge)), nullptr);
  EXPECT_EQ(graph_.control_flow().ConditionalOf(merge), c);
  EXPECT_EQ(graph_.control_flow().ConditionalOf(sw), c);
  EXPECT_EQ(graph_.control_flow().ConditionalOf(v.switch_node), nullptr);
  EXPECT_TRUE(merge->input(0).SameAs(Output(sw, 0)));
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
}

TEST_F(ContextTest, ContextTreeAnswersContainmentQueries) {
  ControlFlow& flow = graph_.control_flow();
  const Output p = Input(DType::kBool);
  WhileContext* a = flow.NewWhile("a", "a", nullptr);
  Conditional* c = flow.NewConditional("c", p, a);
  WhileContext* b = flow.NewWhile("b", "b", c->branch(0));
  WhileContext* d = flow.NewWhile("d", "d", c->branch(1), false);
  EXPECT_TRUE(IsInside(b, a));
  EXPECT_TRUE(IsInside(b, b));
  EXPECT_TRUE(IsInside(b, nullptr));
  EXPECT_TRUE(IsInside(nullptr, nullptr));
  EXPECT_FALSE(IsInside(nullptr, a));
  EXPECT_FALSE(IsInside(a, b));
  EXPECT_FALSE(IsInside(d, b));
  EXPECT_EQ(InnermostWhile(b), b);
  EXPECT_EQ(InnermostWhile(c->branch(0)), a);
  EXPECT_EQ(InnermostWhile(nullptr), nullptr);
  EXPECT_EQ(OutermostWhile(b), a);
  EXPECT_EQ(OutermostWhile(nullptr), nullptr);
  EXPECT_EQ(CommonContext(b, d), a);
  EXPECT_EQ(CommonContext(b, c->branch(0)), c->branch(0));
  EXPECT_EQ(CommonContext(b, nullptr), nullptr);
}

TEST_F(ContextTest, EveryNodeOfALoopVariableKnowsItsIndex) {
  WhileContext* w = MakeLoop("w", Constant(int32_t{0}));
  const int second = w->OpenVariable(Input(), "x");
  EXPECT_EQ(second, 1);
  Close(w);
  const LoopVariable& v = w->variables()[1];
  EXPECT_EQ(w->VariableOf(v.enter), 1);
  EXPECT_EQ(w->VariableOf(v.merge), 1);
  EXPECT_EQ(w->VariableOf(v.switch_node), 1);
  EXPECT_EQ(w->VariableOf(v.exit), 1);
  EXPECT_EQ(w->VariableOf(v.body_value.node), 1);
  EXPECT_EQ(w->VariableOf(w->variables()[0].next), 0);
  EXPECT_EQ(w->VariableOf(w->loop_cond()), -1);
}

TEST_F(ContextTest, ContextsCanBeFilledFromExistingNodes) {
  // The nodes of a loop and a conditional, without contexts.
  const Output n = Constant(int32_t{10}), p = Input(DType::kBool);
  const auto enter = [](Output x, bool constant) {
    return Build("Enter", {x},
                 {{"frame_name", "f"}, {"is_constant", constant}});
  };
  LoopVariable v;
  v.enter = enter(Constant(int32_t{0}), false).node;
  Node* limit = enter(n, true).node;
  NodeSpec spec;
  spec.op = "Merge";
  spec.inputs = {Output(v.enter), Output()};
  spec.pending_input_types = {DType::kInt32, DType::kInt32};
  v.merge = *graph_.AddNode(std::move(spec));
  Node* go =
      BuildNode("LoopCond", {Build("Less", {Output(v.merge), Output(limit)})});
  v.switch_node = BuildNode("Switch", {Output(v.merge), Output(go)});
  v.body_value = Output(v.switch_node, 1);
  v.exit = BuildNode("Exit", {Output(v.switch_node, 0)});
  Node* sw = BuildNode("Switch", {n, p});

  WhileContext* w = graph_.control_flow().NewWhile("f", "f", nullptr);
  w->AdoptVariable(v);
  w->AdoptConstant(limit);
  w->AdoptLoopCond(go);
  for (const Node* node : {v.enter, v.merge, v.switch_node, v.exit, limit, go})
    graph_.control_flow().SetContext(node, w);
  Conditional* c = graph_.control_flow().NewConditional("c", p, nullptr);
  c->AdoptSwitch(sw);

  EXPECT_EQ(ContextOf(Output(v.exit)), nullptr);
  EXPECT_TRUE(w->body_pivot().SameAs(v.body_value));
  EXPECT_TRUE(w->condition_pivot().SameAs(Output(v.merge)));
  EXPECT_EQ(ContextOf(Output(sw, 1)), c->branch(1));
  const int before = graph_.num_nodes();
  // Captures are cached.
  EXPECT_TRUE((*Capture(w, n)).SameAs(Output(limit)));
  EXPECT_TRUE((*Capture(c->branch(0), n)).SameAs(Output(sw, 0)));
  EXPECT_EQ(graph_.num_nodes(), before);
}

TEST_F(ContextTest, CapturesAreCreatedOnceAtEveryDepth) {
  const Output x = Input(), p = Input(DType::kBool);
  WhileContext* a = MakeLoop("a", Constant(int32_t{0}));
  Conditional* c = nullptr;
  WhileContext* b = nullptr;
  Output first, second;
  {
    const ContextScope in_a(a);
    c = MakeCond(Build("Identity", {p}));
    const ContextScope in_branch(c->branch(0));
    b = MakeLoop("b", Constant(int32_t{0}));
    const ContextScope in_b(b);
    first = Build("Neg", {x});
  }
  {
    const ContextScope in_b(b);
    second = Build("Exp", {x});
  }
  EXPECT_TRUE(first.node->input(0).SameAs(second.node->input(0)));
  ASSERT_EQ(a->constants().count(x), 1u);
  const Output in_a(a->constants().at(x));
  ASSERT_EQ(c->switches().count(in_a), 1u);
  const Output in_c(c->switches().at(in_a), 0);
  ASSERT_EQ(b->constants().count(in_c), 1u);
  EXPECT_TRUE(first.node->input(0).SameAs(Output(b->constants().at(in_c))));
  EXPECT_TRUE(b->constants().at(in_c)->BoolAttr("is_constant"));
}

TEST_F(ContextTest, NodesThatDependOnNoVariableWaitForThePivot) {
  const Output x = Input();
  WhileContext* w = MakeLoop("w", Constant(int32_t{0}));
  Node *constant, *invariant, *held;
  {
    const ContextScope in_body(w);
    constant = Constant(1.0f).node;
    invariant = Build("Neg", {x}).node;
    held = Build("Neg", {Output(invariant)}).node;
  }
  EXPECT_THAT(constant->control_inputs(),
              ::testing::ElementsAre(w->body_pivot().node));
  EXPECT_THAT(invariant->control_inputs(),
              ::testing::ElementsAre(w->body_pivot().node));
  EXPECT_TRUE(held->control_inputs().empty());
  {
    const ContextScope in_condition(w, true);
    constant = Constant(1.0f).node;
  }
  EXPECT_THAT(constant->control_inputs(),
              ::testing::ElementsAre(w->condition_pivot().node));
  Conditional* c = MakeCond(Input(DType::kBool));
  {
    const ContextScope in_branch(c->branch(1));
    constant = Constant(1.0f).node;
    invariant = Build("Neg", {x}).node;
  }
  EXPECT_THAT(constant->control_inputs(),
              ::testing::ElementsAre(c->branch(1)->pivot.node));
  EXPECT_TRUE(invariant->control_inputs().empty());
}

TEST_F(ContextTest, OuterControlDependenciesDoNotEnterContexts) {
  const Output x = Input();
  Node* before = Input().node;
  WhileContext* w = MakeLoop("w", Constant(int32_t{0}));
  const ControlDependencies after({before});
  {
    const ContextScope in_body(w);
    EXPECT_TRUE(CurrentControlDependencies().empty());
    Node* n = Build("Neg", {w->body_pivot()}).node;
    EXPECT_TRUE(n->control_inputs().empty());
    // A variable opened inside the loop enters through a loop constant.
    const ControlDependencies within({before});
    Node* m = Build("Neg", {w->body_pivot()}).node;
    ASSERT_EQ(m->control_inputs().size(), 1u);
    const Node* enter = m->control_inputs()[0];
    EXPECT_TRUE(IsConstantEnter(*enter));
    EXPECT_THAT(enter->input(0).node->control_inputs(),
                ::testing::ElementsAre(before));
    Node* again = Build("Neg", {w->body_pivot()}).node;
    EXPECT_EQ(again->control_inputs()[0], enter);
  }
  Node* n = Build("Neg", {x}).node;
  EXPECT_THAT(n->control_inputs(), ::testing::ElementsAre(before));
}

TEST_F(ContextTest, CaptureHookMayReplaceValues) {
  const Output x = Input(), y = Input();
  WhileContext* w = MakeLoop("w", Constant(int32_t{0}));
  Output instead;
  {
    const ContextScope in_body(w);
    instead = Build("Neg", {y});
  }
  std::vector<Output> asked;
  w->capture_hook = [&](Output v) {
    asked.push_back(v);
    return v.SameAs(x) ? instead : Output();
  };
  const ContextScope in_body(w);
  EXPECT_TRUE(Build("Exp", {x}).node->input(0).SameAs(instead));
  EXPECT_TRUE(
      Build("Exp", {y}).node->input(0).SameAs(Output(w->constants().at(y))));
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_TRUE(asked[0].SameAs(x));
  EXPECT_TRUE(asked[1].SameAs(y));
}

TEST_F(ContextTest, LoopValueCannotBeUsedOutside) {
  WhileContext* w = MakeLoop("w", Constant(int32_t{0}));
  const Output inside = w->body_pivot();
  const Result<Output> r = Capture(nullptr, inside);
  EXPECT_THAT(std::string(r.status().message()),
              AllOf(HasSubstr("expected one from outside of loops"),
                    HasSubstr("got 'w/Identity:0' of loop 'w'")));
  WhileContext* v = MakeLoop("v", Constant(int32_t{0}));
  EXPECT_THAT(std::string(Capture(v, inside).status().message()),
              HasSubstr("or of loop 'v' or around it, got 'w/Identity:0'"));
  EXPECT_THAT(
      std::string(CaptureControl(nullptr, inside.node).status().message()),
      HasSubstr("control input: expected one from outside of loops"));
  // A value of a branch may be dead, but it is of the same frame.
  Conditional* c = MakeCond(Input(DType::kBool));
  Output in_branch;
  {
    const ContextScope branch(c->branch(0));
    in_branch = Constant(1.0f);
  }
  EXPECT_TRUE(Capture(nullptr, in_branch)->SameAs(in_branch));
}

TEST_F(ContextTest, ReferencesAreCapturedAsReferences) {
  const Output v =
      Build("VariableV2", {},
            {{"dtype", DType::kFloat}, {"shape", PartialShape::Scalar()}});
  WhileContext* w = MakeLoop("w", Constant(int32_t{0}));
  Conditional* c = MakeCond(Input(DType::kBool));
  const Output entered = *Capture(w, v);
  EXPECT_EQ(entered.node->op_name(), "RefEnter");
  EXPECT_TRUE(IsRef(entered.dtype()));
  const Output switched = *Capture(c->branch(0), v);
  EXPECT_EQ(switched.node->op_name(), "RefSwitch");
  EXPECT_TRUE(IsRef(switched.dtype()));
}

TEST_F(ContextTest, LoopVariableMustKeepTypeAndShape) {
  WhileContext* w = MakeLoop("w", Constant(int32_t{0}));
  const int x = w->OpenVariable(Input(), "x");
  EXPECT_FALSE(w->CloseVariable(x, Output(w->variables()[0].body_value)));
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("loop 'w': x: expected float from the body"));
  graph_.ClearErrors();
  EXPECT_FALSE(w->CloseVariable(x, Constant(Tensor::Vector<float>({1, 2}))));
  EXPECT_THAT(
      std::string(graph_.status().message()),
      AllOf(HasSubstr("loop 'w': x: expected shape []"), HasSubstr("got [2]")));
  graph_.ClearErrors();
  EXPECT_TRUE(w->CloseVariable(x, Constant(1.0f)));
  EXPECT_EQ(w->OpenVariable(Input(), "y", PartialShape({2})), -1);
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("loop 'w': y: expected an initial value that fits its "
                        "shape invariant [2], got shape []"));
}

}  // namespace
}  // namespace sluice
