#include "graph/device_scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "graph/graph.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DeviceScopeTest : public ::testing::Test {
 protected:
  DeviceScopeTest() : use_(graph_) {}
  static Node* Const() { return Constant<float>(1).node; }
  static std::string Device() { return Const()->device(); }
  static AttrValue::Strings Groups(const Node* n) {
    return n->AttrOr<AttrValue::Strings>("_class", {});
  }

  Graph graph_;
  WithGraph use_;
};

TEST_F(DeviceScopeTest, InnerScopesOverridePartByPart) {
  const DeviceScope a("/job:ps/task:1/cpu:1");
  {
    const DeviceScope b("/job:worker");
    EXPECT_EQ(Device(), "/job:worker/task:1/device:CPU:1");
    {
      const DeviceScope c("/gpu");
      EXPECT_EQ(Device(), "/job:worker/task:1/device:GPU:1");
    }
    EXPECT_EQ(Device(), "/job:worker/task:1/device:CPU:1");
    const DeviceScope nothing("");
    EXPECT_EQ(Device(), "/job:worker/task:1/device:CPU:1");
  }
  EXPECT_EQ(Device(), "/job:ps/task:1/device:CPU:1");
}

// TensorFlow's results for nested tf.device scopes, one of which is lambda op:
// '/job:' + (op.device or 'none')[-1].
TEST_F(DeviceScopeTest, FunctionSeesAndReplacesInnerScopes) {
  std::vector<std::string> seen;
  const DeviceScope outer("/job:outer/task:7");
  const DeviceFunctionScope function([&](const Node* n) {
    seen.push_back(n->op_name() + " " + n->device());
    return n->device().empty() ? std::string("/job:none") : "/cpu:0";
  });
  EXPECT_EQ(Device(), "/job:none/task:7");
  {
    const DeviceScope inner("/gpu:3");
    EXPECT_EQ(Device(), "/job:outer/task:7/device:CPU:0");
    const DeviceFunctionScope last(
        [](const Node* n) { return n->device() + "/task:1"; });
    const DeviceScope innermost("/job:in");
    EXPECT_EQ(Device(), "/job:outer/task:7/device:CPU:0");
  }
  EXPECT_EQ(Device(), "/job:none/task:7");
  EXPECT_THAT(seen, ElementsAre("Const ", "Const /device:GPU:3",
                                "Const /job:in/task:1/device:GPU:3", "Const "));
}

TEST_F(DeviceScopeTest, FunctionSeesTheCompleteNode) {
  const Output x = Constant<int32_t>(1);
  Node* const before = Const();
  const ControlDependencies after({before});
  const DeviceFunctionScope function([&](const Node* n) {
    // (The type is inferred.)
    return n->num_inputs() == 1 && n->input(0).SameAs(x) &&
                   n->TypeAttr("T") == DType::kInt32 &&
                   n->output_type(0) == DType::kInt32 &&
                   n->control_inputs() == std::vector<Node*>{before}
               ? "/cpu:1"
               : "";
  });
  EXPECT_EQ(BuildNode("Identity", {x}, {})->device(), "/device:CPU:1");
  EXPECT_EQ(Device(), "");
}

TEST_F(DeviceScopeTest, FunctionResultIsValidated) {
  const DeviceFunctionScope function(
      [](const Node*) { return "/job:a/task:b"; });
  EXPECT_EQ(Const(), nullptr);
  EXPECT_THAT(std::string(graph_.status().message()),
              testing::AllOf(HasSubstr("'task:b'"), HasSubstr("(Const) at")));
}

TEST_F(DeviceScopeTest, DeviceOfNewNodeMatchesNextNode) {
  EXPECT_EQ(*DeviceOfNewNode(), "");
  const DeviceFunctionScope function(
      [](const Node* n) { return n->device() + "/job:b"; });
  const DeviceScope inner("/cpu:1");
  EXPECT_EQ(*DeviceOfNewNode(), "/job:b/device:CPU:1");
  EXPECT_EQ(*DeviceOfNewNode(), Device());
  const DeviceFunctionScope wrong([](const Node*) { return "/task:x"; });
  EXPECT_FALSE(DeviceOfNewNode().ok());
}

TEST_F(DeviceScopeTest, ApplyDeviceScopesPlacesExistingNodes) {
  Node* const plain = Const();
  Node* const placed = [] {
    const DeviceScope scope("/cpu:1");
    return Const();
  }();
  const DeviceFunctionScope function(
      [](const Node* n) { return n->device() + "/job:b"; });
  const DeviceScope scope("/task:2/gpu:0");
  ASSERT_TRUE(ApplyDeviceScopes(plain).ok());
  ASSERT_TRUE(ApplyDeviceScopes(placed).ok());
  EXPECT_EQ(plain->device(), "/job:b/task:2/device:GPU:0");
  EXPECT_EQ(placed->device(), "/job:b/task:2/device:CPU:1");
  const DeviceFunctionScope wrong([](const Node*) { return "/task:x"; });
  EXPECT_FALSE(ApplyDeviceScopes(plain).ok());
}

TEST_F(DeviceScopeTest, NoDeviceScopeHidesOuterScopes) {
  Node* const n = Const();
  const DeviceScope outer("/job:a");
  const DeviceFunctionScope function([](const Node*) { return "/job:b"; });
  const ColocateWith with(n);
  {
    const NoDeviceScope none;
    EXPECT_EQ(Device(), "");
    EXPECT_TRUE(Groups(Const()).empty());
    const DeviceScope inner("/cpu:0");
    EXPECT_EQ(Device(), "/device:CPU:0");
  }
  EXPECT_THAT(Groups(Const()), ElementsAre("loc:@" + n->name()));
}

TEST_F(DeviceScopeTest, ColocatedNodesTakeDeviceAndGroup) {
  const auto on = [](const char* device) {
    const DeviceScope scope(device);
    return Const();
  };
  Node* const v = on("/job:ps/task:1");
  Node* const free = Const();
  const DeviceScope outer("/job:worker/gpu:0");
  {
    const ColocateWith with(v);
    Node* const n = Const();
    EXPECT_EQ(n->device(), "/job:ps/task:1");
    EXPECT_THAT(Groups(n), ElementsAre("loc:@" + v->name()));
    // The node's device takes precedence over scopes within, too.
    const DeviceScope inner("/cpu:0");
    EXPECT_EQ(Device(), "/job:ps/task:1");
    {
      const ColocateWith also(n);
      EXPECT_THAT(Groups(Const()), ElementsAre("loc:@" + v->name()));
      const ColocateWith third(free);
      Node* const of_both = Const();
      EXPECT_THAT(Groups(of_both),
                  ElementsAre("loc:@" + v->name(), "loc:@" + free->name()));
      EXPECT_EQ(of_both->device(), "/job:ps/task:1");
    }
    EXPECT_EQ(Device(), "/job:ps/task:1");
  }
  EXPECT_EQ(Device(), "/job:worker/device:GPU:0");
  {
    // A node without a device has no effect, and neither do the scopes around
    // it.
    const ColocateWith with(free);
    EXPECT_EQ(Device(), "");
    const DeviceScope inner("/cpu:0");
    EXPECT_EQ(Device(), "/device:CPU:0");
  }
  const ColocateWith nothing(nullptr);
  EXPECT_EQ(Device(), "/job:worker/device:GPU:0");
}

TEST_F(DeviceScopeTest, EachGraphHasItsOwnScopes) {
  const DeviceScope outer("/job:a");
  const DeviceFunctionScope function([](const Node*) { return "/job:b"; });
  Graph other;
  {
    const WithGraph use(other);
    EXPECT_EQ(Device(), "");
  }
  EXPECT_EQ(Device(), "/job:b");
}

}  // namespace
}  // namespace sluice
