#include "graph/frames.h"

#include "client/control/loops.h"
#include "gmock/gmock.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class FramesTest : public ::testing::Test {
 protected:
  FramesTest() : use_(graph_) {}

  static Output Input(DType t = DType::kFloat) {
    return Build("Placeholder", {},
                 {{"dtype", t}, {"shape", PartialShape::Scalar()}});
  }
  static Output Enter(Output o, const std::string& frame, bool constant = false,
                      int64_t parallel = 10) {
    return Build("Enter", {o},
                 {{"frame_name", frame},
                  {"is_constant", constant},
                  {"parallel_iterations", parallel}});
  }
  Result<Frames> Find() {
    SLUICE_ASSIGN_OR_RETURN(order_, TopologicalOrder(graph_));
    return Frames::Of(graph_, order_);
  }

  Graph graph_;
  WithGraph use_;
  std::vector<Node*> order_;
};

TEST_F(FramesTest, GraphWithoutLoopsHasOnlyTheRootFrame) {
  const Output x = Input(), y = Build("Neg", {x});
  const Result<Frames> frames = Find();
  ASSERT_TRUE(frames.ok()) << frames.status();
  EXPECT_EQ(frames->size(), 1);
  EXPECT_EQ(frames->frame_of(y.node), 0);
  EXPECT_EQ((*frames)[0].kind, GraphFrame::Kind::kRoot);
  EXPECT_EQ((*frames)[0].nodes.size(), 2u);
  EXPECT_EQ(frames->Describe(0), "the root");
}

TEST_F(FramesTest, EntersRunOutsideAndExitsInsideTheirLoop) {
  const Output enter = Enter(Input(), "outer");
  const Output inner = Enter(enter, "inner");
  const Output exit = Build("Exit", {inner}), last = Build("Exit", {exit});
  const Result<Frames> frames = Find();
  ASSERT_TRUE(frames.ok()) << frames.status();
  ASSERT_EQ(frames->size(), 3);
  EXPECT_EQ(frames->frame_of(enter.node), 0);
  EXPECT_EQ(frames->output_frame(enter.node), 1);
  EXPECT_EQ(frames->frame_of(inner.node), 1);
  EXPECT_EQ(frames->frame_of(exit.node), 2);
  EXPECT_EQ(frames->output_frame(exit.node), 1);
  EXPECT_EQ(frames->output_frame(last.node), 0);
  const GraphFrame& f = (*frames)[2];
  EXPECT_TRUE(f.is_loop());
  EXPECT_FALSE(f.repeats());
  EXPECT_EQ(f.parent, 1);
  EXPECT_EQ(f.depth, 2);
  EXPECT_EQ(f.parallel_iterations, 10);
  EXPECT_EQ(f.first, inner.node);
  EXPECT_EQ(f.exits, std::vector<const Node*>{exit.node});
  EXPECT_EQ(frames->Describe(2),
            absl::StrCat("frame 'inner' (entered at '", inner.node->name(),
                         "') in frame 'outer' (entered at '",
                         enter.node->name(), "')"));
}

TEST_F(FramesTest, LoopsOfEqualNameInDifferentFramesAreDifferent) {
  const Output x = Input();
  const Output a = Enter(Enter(x, "a"), "loop"), b = Enter(x, "loop");
  const Output c = Enter(x, "loop", true);
  const Result<Frames> frames = Find();
  ASSERT_TRUE(frames.ok()) << frames.status();
  EXPECT_NE(frames->output_frame(a.node), frames->output_frame(b.node));
  EXPECT_EQ(frames->output_frame(c.node), frames->output_frame(b.node));
}

TEST_F(FramesTest, AConstantWithoutControlInputsIsReadInAnyFrame) {
  const Output one = Constant(1.0f);
  const Output sum = Build("AddV2", {Enter(Input(), "loop"), one});
  const Result<Frames> frames = Find();
  ASSERT_TRUE(frames.ok()) << frames.status();
  EXPECT_TRUE(IsFloatingConstant(*one.node));
  EXPECT_EQ(frames->frame_of(sum.node), 1);
}

TEST_F(FramesTest, InputsFromTwoFramesAreAnErrorThatNamesBoth) {
  const Output x = Input(), in = Enter(x, "loop");
  const Output sum = Build("AddV2", {in, x});
  const Status s = Find().status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(s.message()),
      HasSubstr(absl::StrCat(
          "frames: expected all inputs from one frame, got '", in.node->name(),
          "' in frame 'loop' (entered at '", in.node->name(), "') and '",
          x.node->name(), "' in the root; node '", sum.node->name(), "'")));
}

TEST_F(FramesTest, AnExitOutsideALoopIsAnError) {
  Build("Exit", {Input()});
  EXPECT_THAT(std::string(Find().status().message()),
              HasSubstr("Exit: expected to be inside a frame, got the root"));
}

TEST_F(FramesTest, BackEdgeIsNotAnInputOfItsMerge) {
  const Output x = Input();
  const Output merge = OpenMerge(Enter(x, "loop"));
  CloseMerge(merge, Build("NextIteration", {merge}));
  const Result<Frames> frames = Find();
  ASSERT_TRUE(frames.ok()) << frames.status();
  EXPECT_EQ(frames->frame_of(merge.node), 1);
  EXPECT_TRUE((*frames)[1].repeats());
  EXPECT_TRUE(frames->CheckBackEdges(order_).ok());
}

TEST_F(FramesTest, AnOpenBackEdgeIsFoundByTheCheck) {
  OpenMerge(Enter(Input(), "loop"));
  const Result<Frames> frames = Find();
  ASSERT_TRUE(frames.ok()) << frames.status();
  EXPECT_THAT(std::string(frames->CheckBackEdges(order_).message()),
              HasSubstr("expected every input connected, got an open back"));
}

TEST_F(FramesTest, ABackEdgeFromAnotherFrameIsFoundByTheCheck) {
  const Output x = Input();
  const Output merge = OpenMerge(Enter(x, "loop"));
  CloseMerge(merge, Build("NextIteration", {Enter(x, "other")}));
  const Result<Frames> frames = Find();
  ASSERT_TRUE(frames.ok()) << frames.status();
  EXPECT_THAT(std::string(frames->CheckBackEdges(order_).message()),
              HasSubstr("expected the NextIteration of a Merge in its frame"));
}

TEST_F(FramesTest, AliasesResolveToTheirInput) {
  const Output x = Input();
  const Output a = Build("Identity", {x}), b = Build("Identity", {a});
  EXPECT_TRUE(ResolveAlias(b).SameAs(x));
  const ControlDependencies after({Input().node});
  const Output waits = Build("Identity", {x});
  EXPECT_FALSE(IsAlias(*waits.node));
  EXPECT_TRUE(ResolveAlias(waits).SameAs(waits));
}

}  // namespace
}  // namespace sluice
