// sluice show: boxes, devices, their colours and the edges between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "client/control/functions.h"
#include "graph/graph.h"
#include "inspect/graph_boxes.h"
#include "sluice/sluice.h"
#include "tools/sluice/show_devices.h"
#include "tools/sluice/show_dot.h"

namespace sluice::cli {
namespace {

using show::Boxes;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPs[] = "/job:ps/replica:0/task:0/device:CPU:0";
constexpr char kWorker[] = "/job:worker/replica:0/task:1/device:CPU:0";

class ShowTest : public ::testing::Test {
 protected:
  ShowTest() : use_(graph_) {}
  Output On(const std::string& device, const std::function<Output()>& make) {
    DeviceScope on(device);
    return make();
  }
  Graph graph_;
  WithGraph use_;
};

TEST_F(ShowTest, ShowsOneTransferPerTensorAndDestination) {
  Output x = On(kPs, [] { return Output(Placeholder<float>({2, 3}, "x")); });
  Output a = On(kWorker, [&] { return Output(ops::Neg(x)); });
  Output b = On(kWorker, [&] { return Output(ops::Exp(x)); });
  Output back = On(kPs, [&] { return Output(a + b); });
  const ShowDevices d(graph_, false);
  ASSERT_TRUE(d.any());
  ASSERT_EQ(d.crossings().size(), 3u);
  const Crossing* c = d.Find(x.node, 0, a.node);
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c, d.Find(x.node, 0, b.node));
  EXPECT_EQ(c->readers, 2);
  EXPECT_EQ(DescribeCrossing(*c), "float[2,3] 24 B");
  EXPECT_EQ(d.Find(x.node, 0, back.node), nullptr);
  EXPECT_TRUE(d.Crosses(a.node, back.node));
  EXPECT_NE(d.Fill(*x.node), d.Fill(*a.node));
  EXPECT_EQ(d.Fill(*x.node), d.Fill(*back.node));
  EXPECT_EQ(d.ShortName(kWorker), "worker:1 CPU:0");
  EXPECT_THAT(d.Legend(), HasSubstr("ps:0 CPU:0</b>  2 nodes"));
  EXPECT_THAT(d.Table(), HasSubstr("crossing: 3 values, 72 B"));
  EXPECT_THAT(d.Table(), HasSubstr("x:0  float[2,3] 24 B  ps:0 CPU:0 -> "
                                   "worker:1 CPU:0  (2 readers)"));
}

TEST_F(ShowTest, ShowsSignalsAndTransfersOfUnknownSize) {
  Output x = On(kPs, [] { return Output(Placeholder<float>({-1}, "x")); });
  Output y;
  {
    ControlDependencies after({x.node});
    y = On(kWorker, [] { return Output(Placeholder<float>({}, "y")); });
  }
  Output z = On(kWorker, [&] { return Output(ops::Neg(x)); });
  const ShowDevices d(graph_, false);
  EXPECT_NE(d.Find(x.node, -1, y.node), nullptr);
  EXPECT_EQ(d.Find(x.node, 0, z.node)->bytes, -1);
  EXPECT_THAT(d.Table(), HasSubstr("1 value, 1 of unknown size; 1 signal"));
  EXPECT_THAT(d.Table(), HasSubstr("  ^x  ps:0"));
}

TEST_F(ShowTest, GraphWithoutDevicesHasNoTransfers) {
  Output x = Placeholder<float>({}, "x");
  const ShowDevices d(graph_, false);
  EXPECT_FALSE(d.any());
  EXPECT_EQ(d.Find(x.node, 0, x.node), nullptr);
}

TEST_F(ShowTest, PlacesGraphOnLocalDevices) {
  Output x = Placeholder<float>({}, "x");
  Output y = On("/cpu:1", [&] { return Output(ops::Neg(x)); });
  Output z = On("/gpu:0", [&] { return Output(ops::Exp(y)); });
  ASSERT_TRUE(PlaceForShow(*DevicesForShow("", "cpu=2,gpu=1"), &graph_).ok());
  const ShowDevices d(graph_, false);
  EXPECT_EQ(d.ShortName(y.node->device()), "CPU:1");
  EXPECT_EQ(d.ShortName(z.node->device()), "GPU:0");
  EXPECT_TRUE(d.Crosses(y.node, z.node));
  EXPECT_THAT(d.Table(), Not(HasSubstr("no device")));
  EXPECT_EQ(DevicesForShow("", "3")->size(), 3u);
  for (const char* wrong :
       {"", ",", "0", "cpu", "cpu=0", "cpu=-1", "cpu=1025", "=1", "cpu=x",
        "cpu=1=1", "bogus=2", "job=1", "cpu:0=1", " cpu=1", "cpu=1,", "*=1"}) {
    const Status s = DevicesForShow("", wrong).status();
    EXPECT_THAT(std::string(s.message()), HasSubstr("TYPE=COUNT")) << wrong;
  }
  EXPECT_THAT(std::string(DevicesForShow("", "cpu=1,CPU=2").status().message()),
              HasSubstr("each type once, got 'CPU=2' too"));
}

TEST_F(ShowTest, DevicesHaveDistinctColors) {
  std::vector<Output> nodes;
  for (int i = 0; i < 40; ++i)
    nodes.push_back(
        On("/job:w/replica:0/task:" + std::to_string(i) + "/device:CPU:0",
           [] { return Output(Placeholder<float>({})); }));
  const ShowDevices d(graph_, false);
  std::set<std::string> fills, lines;
  for (const Output& o : nodes) {
    fills.insert(d.Fill(*o.node));
    lines.insert(d.Line(*o.node));
  }
  EXPECT_EQ(fills.size(), 40u);
  EXPECT_EQ(lines.size(), 40u);
}

// ---- Functional nodes -------------------------------------------------------

using Values = std::vector<Output>;

class ShowFunctionsTest : public ShowTest {
 protected:
  static constexpr DType kF = DType::kFloat;

  std::string Text(int most = 1000) {
    const auto boxes = Boxes::Of(&graph_, {.most = most});
    EXPECT_TRUE(boxes.ok()) << boxes.status();
    left_out_ = (*boxes)->left_out();
    std::string text;
    show::Print((*boxes)->whole(), 0, &text);
    return text;
  }
  std::string Drawn() {
    const auto boxes = Boxes::Of(&graph_, {.most = 1000});
    EXPECT_TRUE(boxes.ok()) << boxes.status();
    return Dot(**boxes, ShowDevices(graph_, false), false);
  }
  Function Double() {
    return DefineFunction("double", {kF}, [](const Values& a) {
      return Output(ops::AddV2(a[0], a[0], {.name = "sum"}));
    });
  }
  // A loop with a conditional in its body, as TensorFlow 2 writes them.
  Output Loop() {
    x_ = Placeholder<float>({}, "x");
    const Function twice = Double();
    const Function negate = DefineFunction("negate", {kF}, [](const Values& a) {
      return Output(ops::Neg(a[0], {.name = "minus"}));
    });
    const Function cond = DefineFunction("cond", {kF}, [](const Values& a) {
      return Output(ops::Less(a[0], Constant(9.f), {.name = "less"}));
    });
    const Function body = DefineFunction("body", {kF}, [&](const Values& a) {
      const Output p = ops::Less(a[0], Constant(0.f), {.name = "below"});
      return sluice::Build("StatelessIf", {p, a[0]},
                           {{"then_branch", negate.ref()},
                            {"else_branch", twice.ref()},
                            {"Tout", AttrValue::Types{kF}}},
                           "choice");
    });
    return sluice::Build("StatelessWhile", {x_},
                         {{"cond", cond.ref()}, {"body", body.ref()}}, "loop");
  }
  // The node with this label: its name in the drawing.
  static std::string IdOf(const std::string& dot, const std::string& label) {
    const size_t at = dot.find(" [label=\"" + label);
    if (at == std::string::npos) return "no " + label;
    const size_t line = dot.rfind('\n', at) + 1;
    return dot.substr(line, at - line);
  }
  static std::string Edge(const std::string& dot, const std::string& from,
                          const std::string& to) {
    return "\n" + IdOf(dot, from) + " -> " + IdOf(dot, to) + " [";
  }

  Output x_;
  int left_out_ = 0;
};

TEST_F(ShowFunctionsTest, BodiesOfLoopsAndBranchesAreNestedBoxes) {
  ops::Exp(Loop(), {.name = "y"});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const std::string text = Text();
  const auto has = [&](const std::string& line) {
    EXPECT_THAT("\n" + text, HasSubstr("\n" + line));
  };
  has("x = Placeholder()");
  has("┌ while loop   (parallel_iterations 10)\n");
  has("│ loop = StatelessWhile[cond, body](x)");
  has("│ ┌ condition  cond(");
  has("│ │ less = Less(");
  has("│ │ return less\n│ └\n");
  has("│ ┌ body  body(");
  has("│ │ ┌ if below   (choice)  negate(");
  has("│ │ │ minus = Neg(");
  has("│ │ │ return minus\n│ │ └\n");
  has("│ │ ┌ if not below   (choice)  double(");
  has("│ │ │ sum = AddV2(");
  has("│ │ choice = StatelessIf[negate, double](below, ");
  has("│ │ return choice\n│ └\n└\n");
  has("y = Exp(loop)");
  EXPECT_EQ(left_out_, 0);
}

TEST_F(ShowFunctionsTest, EdgesOfDrawingPassThroughBoxes) {
  ops::Exp(Loop(), {.name = "y"});
  const std::string dot = Drawn();
  for (const char* label :
       {"while loop   (parallel_iterations 10)", "condition", "body",
        "if below   (choice)", "if not below   (choice)"})
    EXPECT_THAT(dot, HasSubstr("{\nlabel=\"" + std::string(label) + "\""));
  for (const auto& [from, to] :
       std::vector<std::pair<const char*, const char*>>{{"x", "loop"},
                                                        {"loop", "less"},
                                                        {"less", "loop"},
                                                        {"loop", "below"},
                                                        {"loop", "minus"},
                                                        {"loop", "sum"},
                                                        {"below", "choice"},
                                                        {"minus", "choice"},
                                                        {"sum", "choice"},
                                                        {"choice", "loop"},
                                                        {"loop", "y"}})
    EXPECT_THAT(dot, HasSubstr(Edge(dot, from, to)));
}

TEST_F(ShowFunctionsTest, EachCallHasItsOwnBox) {
  const Output x = Placeholder<float>({}, "x");
  const Function twice = Double();
  const auto call = [&](const Output& in, const std::string& name) {
    return sluice::Build("PartitionedCall", {in},
                         {{"f", twice.ref()}, {"Tout", AttrValue::Types{kF}}},
                         name);
  };
  ops::Exp(call(call(x, "one"), "two"), {.name = "y"});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("(one = PartitionedCall[double](x)"));
  EXPECT_THAT(text, HasSubstr("(two = PartitionedCall[double](one)"));
  EXPECT_THAT(text, HasSubstr("\n│ return sum\n└\n┌ call double("));
  const std::string dot = Drawn();
  EXPECT_THAT(dot, HasSubstr("{\nlabel=\"call double   (one)\""));
  EXPECT_THAT(dot, HasSubstr("{\nlabel=\"call double   (two)\""));
  // From one body to the other, and to the outside.
  const std::string first = IdOf(dot, "sum");
  EXPECT_THAT(dot, HasSubstr(IdOf(dot, "x") + " -> " + first));
  EXPECT_THAT(dot, HasSubstr("\n" + first + " -> p"));
  EXPECT_THAT(dot, HasSubstr(" -> " + IdOf(dot, "y") + " ["));
  EXPECT_THAT(dot, Not(HasSubstr("PartitionedCall\"")));
}

TEST_F(ShowFunctionsTest, RecursiveCallStaysANode) {
  const Function down = DefineFunction(
      "down", {kF}, {kF}, [](const Function& self, const Values& a) {
        return FunctionResults(self({a[0] - 1}));
      });
  const Output x = Placeholder<float>({}, "x");
  ops::Exp(down({x})[0]);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("┌ call down("));
  EXPECT_THAT(text, HasSubstr("│ down = PartitionedCall[down](Sub)"));
  EXPECT_THAT(text, Not(HasSubstr("│ ┌")));
  EXPECT_EQ(left_out_, 0);
}

TEST_F(ShowFunctionsTest, BodiesBeyondTheLimitStayFolded) {
  // Each uses the one before it twice: 2^40 nodes.
  Function f = Double();
  for (int i = 0; i < 40; ++i)
    f = DefineFunction("f" + std::to_string(i), {kF}, [f](const Values& a) {
      return FunctionResults(f(f(a)));
    });
  f({Placeholder<float>({}, "x")});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const std::string text = Text(500);
  EXPECT_GT(left_out_, 0);
  EXPECT_THAT(text, HasSubstr("┌ call f39("));
  EXPECT_THAT(text, HasSubstr("│ ┌ call f38("));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 2000);
}

TEST_F(ShowFunctionsTest, PlacedGraphsShowDevicesInBodies) {
  ops::Exp(Loop(), {.name = "y"});
  ASSERT_TRUE(show::LowerForShow(&graph_).ok());
  ASSERT_TRUE(PlaceForShow(*DevicesForShow("", "cpu=1"), &graph_).ok());
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("┌ while "));
  EXPECT_THAT(text, HasSubstr("│ ┌ if "));
  EXPECT_THAT(text, Not(HasSubstr("StatelessWhile")));
  EXPECT_THAT(text, Not(HasSubstr("StatelessIf")));
}

TEST_F(ShowFunctionsTest, BodiesShowShapesOfTheirArguments) {
  ops::Exp(Loop(), {.name = "y"});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("│ │ │ minus = Neg("));
  EXPECT_THAT(text, Not(HasSubstr("float<unknown>")));
}

// ---- Gradients --------------------------------------------------------------

class ShowGradientsTest : public ShowTest {
 protected:
  std::string Text(bool gradients) {
    boxes_ = *Boxes::Of(&graph_, {.gradients = gradients});
    std::string text;
    show::Print(boxes_->whole(), 0, &text);
    return "\n" + text;
  }
  std::string Drawn(bool gradients) {
    boxes_ = *Boxes::Of(&graph_, {.gradients = gradients});
    return Dot(*boxes_, ShowDevices(graph_, false), false);
  }
  static int Count(const std::string& text, const std::string& part) {
    int n = 0;
    for (size_t at = text.find(part); at != std::string::npos;
         at = text.find(part, at + 1))
      ++n;
    return n;
  }
  std::unique_ptr<Boxes> boxes_;
};

TEST_F(ShowGradientsTest, GradientsAreOneBoxWithTheirResults) {
  const Output x = Placeholder<float>({2, 3}, "x");
  const Output y = ops::Tanh(ops::Exp(x, {.name = "inner"}), {.name = "y"});
  const Output dx = Grad(y, x);
  ops::Neg(dx, {.name = "down"});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const std::string folded = Text(false);
  EXPECT_THAT(folded, HasSubstr("\n┌ gradients   ("));
  EXPECT_THAT(folded, HasSubstr(" nodes, folded)\n│ gives " + dx.node->name() +
                                "  float[2,3]\n└\ndown = Neg("));
  EXPECT_THAT(folded, Not(HasSubstr("TanhGrad")));
  EXPECT_EQ(boxes_->shown(), 4);
  EXPECT_GT(boxes_->folded(), 1);
  const std::string open = Text(true);
  EXPECT_THAT(open, HasSubstr("TanhGrad("));
  EXPECT_THAT(open, HasSubstr("\n└\ndown = Neg("));
  EXPECT_EQ(boxes_->folded(), 0);
}

TEST_F(ShowGradientsTest, DrawingShowsGradientsAsOneNode) {
  const Output x = Placeholder<float>({}, "x");
  const Output y = ops::Tanh(ops::Exp(x, {.name = "inner"}), {.name = "y"});
  ops::Neg(Grad(y, x), {.name = "down"});
  const std::string dot = Drawn(false);
  EXPECT_THAT(dot, HasSubstr("shape=folder"));
  EXPECT_THAT(dot, Not(HasSubstr("TanhGrad")));
  const size_t at = dot.find(" [shape=folder");
  const size_t line = dot.rfind('\n', at) + 1;
  const std::string box = dot.substr(line, at - line);
  EXPECT_EQ(Count(dot, "\n" + box + " -> "), 1);  // To `down`.
  EXPECT_EQ(Count(dot, " -> " + box + " ["), 2);  // From y and from `inner`.
  EXPECT_THAT(dot, Not(HasSubstr(box + " -> " + box)));
  EXPECT_THAT(Drawn(true), HasSubstr("TanhGrad"));
}

TEST_F(ShowGradientsTest, EachGradientComputationAndLoopHasItsOwnBox) {
  const Output x = Placeholder<float>({}, "x");
  const Output y = While(
      x, [](Output v) { return v < 10; }, [](Output v) { return v * v; },
      {.name = "loop"});
  Grad(y, x);
  Grad(ops::Exp(x), x);
  Output named = x;
  {
    NameScope scope("gradients_of_mine");
    named = ops::Neg(x, {.name = "kept"});
  }
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const std::string folded = Text(false);
  EXPECT_THAT(folded, HasSubstr("\n┌ gradients   ("));
  EXPECT_THAT(folded, HasSubstr("\n┌ gradients_1   ("));
  EXPECT_THAT(folded, HasSubstr("\n┌ while loop"));
  EXPECT_EQ(Count(folded, "┌ while "), 1);  // Not the gradient's.
  EXPECT_THAT(folded, HasSubstr("\ngradients_of_mine/kept = Neg(x)"));
  const std::string open = Text(true);
  EXPECT_THAT(open, HasSubstr("\n│ ┌ while gradients/"));
}

TEST(ShowFormat, DependsOnFileExtension) {
  EXPECT_EQ(FormatOfFile("x.svg"), "svg");
  EXPECT_EQ(FormatOfFile("a.b/x.HTML"), "html");
  EXPECT_EQ(FormatOfFile("x.htm"), "html");
  EXPECT_EQ(FormatOfFile("x.svg.dot"), "dot");
  EXPECT_EQ(FormatOfFile("x.gv"), "dot");
  for (const char* other : {"", "x", "x.txt", "svg", "x.svg/y", "x."})
    EXPECT_EQ(FormatOfFile(other), "text") << other;
  for (const char* picture : {"x.png", "x.PDF"})
    EXPECT_EQ(FormatOfFile(picture), "") << picture;
}

}  // namespace
}  // namespace sluice::cli
