// A step's own reports: its trace, its memory, its partitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/graphdef.h"
#include "graph/proto/cost_graph.pb.h"
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

TEST_F(StepReportTest, TraceIsJsonAndListsEveryKernel) {
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
  options.fusion = false;  // (These would become one node.)
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

TEST_F(StepReportTest, PartitionGraphsAreReturnedOnRequest) {
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

TEST_F(StepReportTest, CostModelIsReportedAtTheGivenInterval) {
  const Output x = Placeholder("x");
  const Output y = Build("Exp", {x}, {}, "power");
  const Output z =
      Build("Reshape",
            {y, Build("Const", {},
                      {{"dtype", DType::kInt32},
                       {"value", Tensor::Vector<int32_t>({10, 100})}},
                      "shape")},
            {}, "z");
  SessionOptions options;
  options.cost_model_every = 3;
  options.cost_model_after = 1;
  Session session(graph_, options);
  const Tensor v = Tensor::Vector<float>(std::vector<float>(1000, 1.f));
  auto callable = session.MakeCallable({x}, {z});
  ASSERT_TRUE(callable.ok()) << callable.status();
  std::vector<int> told;
  for (int i = 0; i < 9; ++i) {
    RunMetadata m;
    RunOptions run;
    run.trace = i % 2 == 1;  // (Traced runs count too.)
    // (Prepared steps count as the same step.)
    const auto out = i < 5 ? session.Run({{x, v}}, {z}, {}, run, &m)
                           : callable->Run(std::vector<Tensor>{v}, run, &m);
    ASSERT_TRUE(out.ok()) << out.status();
    if (m.cost_graph.empty()) continue;
    told.push_back(i);
    EXPECT_FALSE(m.events.empty());
    proto::CostGraphDef costs;
    ASSERT_TRUE(costs.ParseFromString(m.cost_graph));
    const proto::CostGraphDef::Node* power = nullptr;
    const proto::CostGraphDef::Node* shaped = nullptr;
    for (const auto& n : costs.node()) {
      if (n.name() == "power") power = &n;
      if (n.name() == "z") shaped = &n;
    }
    ASSERT_TRUE(power != nullptr && shaped != nullptr);
    EXPECT_THAT(power->device(), HasSubstr("task:0/device:CPU:0"));
    EXPECT_GE(power->compute_cost(), 1);
    EXPECT_FALSE(power->inaccurate());
    ASSERT_EQ(power->output_info_size(), 1);
    EXPECT_EQ(power->output_info(0).size(), 4000);
    EXPECT_EQ(power->output_info(0).shape().dim(0).size(), 1000);
    EXPECT_EQ(power->output_info(0).dtype(), proto::DT_FLOAT);
    EXPECT_EQ(power->output_info(0).alias_input_port(), -1);
    EXPECT_LT(power->temporary_memory_size(), 4000);  // (Sizes are rounded.)
    ASSERT_GE(shaped->input_info_size(), 1);
    EXPECT_EQ(shaped->input_info(0).preceding_node(), power->id());
    EXPECT_EQ(costs.node(power->id()).name(), "power");
    ASSERT_EQ(shaped->output_info_size(), 1);
    EXPECT_EQ(shaped->output_info(0).alias_input_port(), 0);
  }
  EXPECT_THAT(told, ElementsAre(3, 6));
}

TEST_F(StepReportTest, StepPeakExcludesEarlierAllocations) {
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

TEST_F(StepReportTest, TraceShowsWaitingKernels) {
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
