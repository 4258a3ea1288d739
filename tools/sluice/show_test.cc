// sluice show: devices, their colours and what crosses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "sluice/sluice.h"
#include "tools/sluice/show_devices.h"

namespace sluice::cli {
namespace {

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

TEST_F(ShowTest, OneTransferForEachTensorAndDestination) {
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

TEST_F(ShowTest, OrderAloneAndUnknownShapesCrossToo) {
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

TEST_F(ShowTest, WithoutDevicesThereIsNothingToShow) {
  Output x = Placeholder<float>({}, "x");
  const ShowDevices d(graph_, false);
  EXPECT_FALSE(d.any());
  EXPECT_EQ(d.Find(x.node, 0, x.node), nullptr);
}

TEST_F(ShowTest, PlacesAGraphOnDevicesOfThisProcess) {
  Output x = Placeholder<float>({}, "x");
  Output y = On("/cpu:1", [&] { return Output(ops::Neg(x)); });
  Output z = On("/gpu:0", [&] { return Output(ops::Exp(y)); });
  ASSERT_TRUE(PlaceForShow("", "cpu=2,gpu=1", &graph_).ok());
  const ShowDevices d(graph_, false);
  EXPECT_EQ(d.ShortName(y.node->device()), "CPU:1");
  EXPECT_EQ(d.ShortName(z.node->device()), "GPU:0");
  EXPECT_TRUE(d.Crosses(y.node, z.node));
  EXPECT_THAT(d.Table(), Not(HasSubstr("no device")));
  for (const char* wrong : {"", "cpu", "cpu=0", "=1", "cpu=x"}) {
    const Status s = PlaceForShow("", wrong, &graph_);
    EXPECT_THAT(std::string(s.message()), HasSubstr("TYPE=COUNT")) << wrong;
  }
}

TEST_F(ShowTest, ManyDevicesHaveColoursOfTheirOwn) {
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

}  // namespace
}  // namespace sluice::cli
