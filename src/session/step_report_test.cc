// What a step tells of itself: its trace, its memory, its partitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/graphdef.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StepReportTest : public ::testing::Test {
 protected:
  StepReportTest() : use_(graph_) {}

  static Output Placeholder(const std::string& name) {
    return Build("Placeholder", {},
                 {{"dtype", DType::kFloat}, {"shape", PartialShape::Unknown()}},
                 name);
  }

  Graph graph_;
  WithGraph use_;
  Session session_{graph_};
};

TEST_F(StepReportTest, ATracedStepTellsOfEveryKernelAndItsTraceIsJson) {
  Output x = Placeholder("x");
  Output y =
      Build("Neg", {Build("Exp", {x}, {}, "scope/\"odd\"")}, {}, "minus");
  if (!y.valid()) {  // Names may not hold quotes.
    graph_.ClearErrors();
    y = Build("Neg", {Build("Exp", {x}, {}, "power")}, {}, "minus");
  }
  RunOptions o;
  o.trace = true;
  RunMetadata m;
  const Tensor v = Tensor::Vector<float>(std::vector<float>(1000, 1.f));
  SessionOptions options;
  options.fusion = false;  // (These would be one node.)
  Session session(graph_, options);
  auto out = session.Run({{x, v}}, {y}, {}, o, &m);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_GE(m.wall_ns, 0);
  EXPECT_GE(m.peak_bytes, 4000);
  EXPECT_GE(m.step_peak_bytes, 4000);
  std::vector<std::string> ops;
  for (const TraceEvent& e : m.events) {
    ops.push_back(e.op);
    EXPECT_LE(e.start_ns, e.end_ns);
  }
  EXPECT_THAT(ops, ElementsAre("Exp", "Neg"));
  const auto json = nlohmann::json::parse(m.ChromeTrace(), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_THAT(m.ChromeTrace(), HasSubstr("minus"));
}

TEST_F(StepReportTest, AStepTellsItsPartitionsIfAsked) {
  const Output x = Placeholder("x");
  const Output y = Build("Neg", {x}, {}, "minus");
  RunOptions o;
  RunMetadata m;
  ASSERT_TRUE(
      session_.Run({{x, Tensor::Scalar<float>(1)}}, {y}, {}, o, &m).ok());
  EXPECT_TRUE(m.partition_graphs.empty());
  o.partition_graphs = true;
  ASSERT_TRUE(
      session_.Run({{x, Tensor::Scalar<float>(1)}}, {y}, {}, o, &m).ok());
  ASSERT_EQ(m.partition_graphs.size(), 1u);
  const auto text = PrintTextGraphDef(m.partition_graphs[0]);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("name: \"minus\""));
  EXPECT_THAT(*text, HasSubstr("task:0/device:CPU:0"));
}

TEST_F(StepReportTest, AStepsPeakLeavesOutWhatWasThereBefore) {
  const Tensor before = *Tensor::Make(DType::kFloat, {1 << 20});
  Output x = Placeholder("x");
  Output y = Build("Exp", {x});
  RunMetadata m;
  const Tensor v = Tensor::Vector<float>(std::vector<float>(1000, 1.f));
  auto out = session_.Run({{x, v}}, {y}, {}, {}, &m);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_GE(m.peak_bytes, 4 << 20);
  EXPECT_GE(m.step_peak_bytes, 4000);
  EXPECT_LT(m.step_peak_bytes, 1 << 20);
  EXPECT_EQ(before.num_elements(), 1 << 20);
}

TEST_F(StepReportTest, ATraceShowsKernelsThatWait) {
  Output mutex = Build("MutexV2", {});
  Output lock = Build("MutexLock", {mutex}, {}, "lock");
  RunOptions o;
  o.trace = true;
  RunMetadata m;
  auto out = session_.Run({}, {lock}, {}, o, &m);
  ASSERT_TRUE(out.ok()) << out.status();
  const auto event =
      std::find_if(m.events.begin(), m.events.end(),
                   [](const TraceEvent& e) { return e.node == "lock"; });
  ASSERT_NE(event, m.events.end());
  EXPECT_EQ(event->op, "MutexLock");
  EXPECT_LE(event->start_ns, event->end_ns);
}

}  // namespace
}  // namespace sluice
