// Tables in parts on several tasks: rows and sums travel, not tables.
#include <gtest/gtest.h>

#include <cmath>

#include "cluster/testing/cluster_test_util.h"
#include "cluster/transport/grpc/transport.h"

namespace sluice {
namespace {

class EmbeddingStepsTest : public ::testing::Test {
 protected:
  EmbeddingStepsTest()
      : use_(graph_),
        cluster_({{"ps", 2}, {"worker", 1}}, [this](TransportOptions o) {
          o.local_shortcut = false;
          GrpcTransportOptions grpc;
          static_cast<TransportOptions&>(grpc) = std::move(o);
          auto transport = std::make_unique<GrpcTransport>(std::move(grpc));
          transports_.push_back(transport.get());
          return transport;
        }) {}

  int64_t BytesSent() const {
    int64_t sum = 0;
    for (const Transport* t : transports_) sum += t->stats().bytes_sent;
    return sum;
  }
  // The bytes between the tasks in a step that has run before.
  int64_t BytesOfStep(Session& session, Node* target) {
    EXPECT_TRUE(session.RunTargets({target}).ok());
    const int64_t before = BytesSent();
    const Status s = session.RunTargets({target});
    EXPECT_TRUE(s.ok()) << s;
    return BytesSent() - before;
  }

  const PartitionedVarOptions over_ps_ = {
      .devices = {"/job:ps/task:0", "/job:ps/task:1"}};
  Graph graph_;
  const WithGraph use_;
  std::vector<Transport*> transports_;  // Of the cluster.
  TestCluster cluster_;
};

TEST_F(EmbeddingStepsTest, RowsOfTablesTravelAndNotTables) {
  const DeviceScope on("/job:worker/task:0");
  // 12.8 MB.
  const PartitionedVar table =
      GetPartitionedVariable("table", {50000, 64}, FixedSizePartitioner(2),
                             init::Ones(), DType::kFloat, over_ps_);
  const Output rows = EmbeddingLookup(
      table, Constant(Tensor::Vector<int32_t>({0, 24999, 25000, 49999, 0})));
  AdagradOptimizer adagrad(0.5);
  Node* const train = adagrad.Minimize(ops::Sum(ops::Square(rows), {0, 1}));
  ASSERT_NE(train, nullptr) << graph_.status();
  Session session(cluster_.target("worker", 0), graph_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  EXPECT_LT(BytesOfStep(session, train), 100'000);
  const Result<Tensor> after = session.Run(rows);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_LT(after->flat<float>()[64], 1.0f);
  EXPECT_EQ(after->flat<float>()[0], after->flat<float>()[4 * 64]);
}

TEST_F(EmbeddingStepsTest, ScoresOfAFullSoftmaxStayWithTheirPart) {
  const DeviceScope on("/job:worker/task:0");
  constexpr int kBatch = 16, kDepth = 8, kClasses = 20000;
  const auto table = [&](const char* name, const Shape& shape) {
    return GetPartitionedVariable(name, shape, FixedSizePartitioner(2),
                                  init::RandomUniform(), DType::kFloat,
                                  over_ps_);
  };
  const PartitionedVar w = table("w", {kClasses, kDepth});
  const PartitionedVar b = table("b", {kClasses});
  std::vector<int32_t> labels(kBatch);
  for (int i = 0; i < kBatch; ++i)
    labels[static_cast<size_t>(i)] = i * kClasses / kBatch;
  const Output loss =
      ops::Mean(FullSoftmaxLoss(w, b, Tensor::Vector<int32_t>(labels),
                                RandomUniform({kBatch, kDepth})),
                0);
  GradientDescentOptimizer sgd(1.0);
  Node* const train = sgd.Minimize(loss, {.colocate = true});
  ASSERT_NE(train, nullptr) << graph_.status();
  Session session(cluster_.target("worker", 0), graph_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  // The scores are 1.3 MB, and the weights 0.6 MB.
  EXPECT_LT(BytesOfStep(session, train), 100'000);
  const Result<Tensor> before = session.Run(loss);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_NEAR(before->scalar<float>(), std::log(kClasses), 1);
}

}  // namespace
}  // namespace sluice
