#include "passes/properties.h"

#include "client/control/loops.h"
#include "gmock/gmock.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class PropertiesTest : public ::testing::Test {
 protected:
  PropertiesTest() : use_(graph_) {}
  std::string Breach(StepProperties p) const {
    return std::string(CheckProperties(graph_, p).message());
  }
  Graph graph_;
  WithGraph use_;
};

TEST_F(PropertiesTest, OrdinaryGraphIsConnectedAndLowered) {
  Build("Neg", {Constant(1.0f)});
  EXPECT_TRUE(CheckProperties(graph_, kConnected | kLowered).ok());
}

TEST_F(PropertiesTest, AnOpenBackEdgeIsNotConnected) {
  OpenMerge(Build("Enter", {Constant(1.0f)}, {{"frame_name", "loop"}}));
  EXPECT_THAT(Breach(kConnected),
              HasSubstr("connected: expected a node of the graph as input 1"));
}

TEST_F(PropertiesTest, NodesWithoutADeviceAreNotPlaced) {
  const Output x = Constant(1.0f);
  EXPECT_THAT(Breach(kPlaced), HasSubstr("placed: expected a device"));
  graph_.SetDevice(x.node, "/device:CPU:0");
  EXPECT_EQ(Breach(kPlaced | kOneDevice), "");
  graph_.SetDevice(Build("Neg", {x}).node, "/device:CPU:1");
  EXPECT_THAT(Breach(kOneDevice), HasSubstr("one device: expected "
                                            "/device:CPU:0, got "
                                            "/device:CPU:1"));
}

TEST_F(PropertiesTest, AnArgumentOfTheStepIsNoTransfer) {
  Build("_Arg", {},
        {{"T", DType::kFloat}, {"index", 0}, {"function", std::string("f")}});
  EXPECT_EQ(Breach(kOpenEnds), "");
  Build("_Arg", {}, {{"T", DType::kFloat}, {"index", 0}});
  EXPECT_THAT(Breach(kOpenEnds),
              HasSubstr("open ends: expected transfers instead of _Arg"));
}

}  // namespace
}  // namespace sluice
