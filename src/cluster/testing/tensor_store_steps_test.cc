// TensorStores of one task that the nodes of others write and read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/autodiff/gradients.h"
#include "client/control/control_flow.h"
#include "client/control/tensor_store.h"
#include "cluster/local_cluster.h"
#include "cluster/testing/cluster_test_util.h"
#include "graph/device_scope.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

class ClusterStoreTest : public ::testing::Test {
 protected:
  ClusterStoreTest() : cluster_({{"ps", 1}, {"worker", 2}}), use_(graph_) {}

  TestCluster cluster_;
  Graph graph_;
  const WithGraph use_;
};

TEST_F(ClusterStoreTest, TasksReadAndWriteAStoreOfAnother) {
  const Output x = Placeholder<float>({}, "x");
  TensorStore s;
  {
    const DeviceScope on("/job:ps/task:0");
    s = TensorStore(DType::kFloat);
  }
  Output y;
  {
    const DeviceScope on("/job:worker/task:0");
    const Output h = ops::Sin(x);
    const DeviceScope home("/job:ps/task:0");
    s.Write(0, h);
    y = s.Read(1);
  }
  {
    const DeviceScope on("/job:worker/task:1");
    const Output in = [&] {
      const DeviceScope home("/job:ps/task:0");
      return s.Read(0);
    }();
    const Output out = in * in;
    const DeviceScope home("/job:ps/task:0");
    s.Write(1, out);
  }
  const Output g = Grad(y, x);
  Session session(cluster_.target("worker", 0), graph_);
  for (int i = 0; i < 3; ++i) {
    const Result<std::vector<Tensor>> got =
        session.Run({{x, Tensor::Scalar(0.5f)}}, {y, g});
    ASSERT_TRUE(got.ok()) << got.status();
    const float v = std::sin(0.5f);
    EXPECT_NEAR((*got)[0].scalar<float>(), v * v, 1e-6);
    EXPECT_NEAR((*got)[1].scalar<float>(), 2 * v * std::cos(0.5f), 1e-6);
  }
}

}  // namespace
}  // namespace sluice
