// Programs as someone new to clusters writes them from sluice/cluster.h and
// docs/clusters.md alone; C++ loops compute the same beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cluster/testing/child_process_test_util.h"
#include "sluice/cluster.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// ---- Data-parallel training in a loop ---------------------------------------

constexpr int64_t kReplicas = 2, kExamples = 24, kFeatures = 3;
constexpr int kEpochs = 40;
constexpr float kLearningRate = 0.5f;

// Each replica's examples, the same in both programs.
struct ReplicaData {
  explicit ReplicaData(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < kExamples; ++i) {
      float score = 0.3f;
      for (int64_t f = 0; f < kFeatures; ++f) {
        features.push_back(normal(random));
        score += features.back() * static_cast<float>(f - 1);
      }
      labels.push_back(score > 0 ? 1.0f : 0.0f);
    }
  }
  std::vector<float> features, labels;
};

// Logistic regression: the mean loss after each update, then the weights.
std::vector<float> LogisticInPlainLoops(const std::vector<ReplicaData>& data) {
  std::vector<float> results;
  std::array<double, kFeatures> w = {};
  double b = 0;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    std::array<double, kFeatures> dw = {};
    double db = 0, loss = 0;
    for (const ReplicaData& d : data)
      for (size_t i = 0; i < kExamples; ++i) {
        const float* const x = d.features.data() + i * kFeatures;
        double score = b;
        for (size_t f = 0; f < kFeatures; ++f) score += w[f] * x[f];
        const double p = 1 / (1 + std::exp(-score));
        loss -= std::log(d.labels[i] > 0.5f ? p : 1 - p);
        for (size_t f = 0; f < kFeatures; ++f)
          dw[f] += (p - d.labels[i]) * x[f];
        db += p - d.labels[i];
      }
    constexpr double count = kReplicas * kExamples;
    for (size_t f = 0; f < kFeatures; ++f)
      w[f] -= kLearningRate * dw[f] / count;
    b -= kLearningRate * db / count;
    results.push_back(static_cast<float>(loss / count));
  }
  for (const double x : w) results.push_back(static_cast<float>(x));
  results.push_back(static_cast<float>(b));
  return results;
}

TEST(NewClusterUser, TrainsOnTwoWorkersInOneLoop) {
  const std::vector<ReplicaData> data = {ReplicaData(1), ReplicaData(2)};
  auto cluster = LocalCluster::Start({{"ps", 1}, {"worker", kReplicas}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();

  Graph graph;
  const WithGraph use(graph);
  Var w, b;
  {
    const DeviceScope on("/job:ps/task:0");
    w = Var(Zeros({kFeatures, 1}), "w");
    b = Var(Zeros({}), "b");
  }
  std::vector<Output> features, labels;
  for (int r = 0; r < kReplicas; ++r) {
    const DeviceScope on(absl::StrCat("/job:worker/task:", r));
    features.push_back(Placeholder<float>({-1, kFeatures}));
    labels.push_back(Placeholder<float>({-1, 1}));
  }
  TensorArray losses(DType::kFloat, kEpochs,
                     {.element_shape = PartialShape({})});
  auto [epochs, curve] = While(
      std::tuple{0, losses},
      [](Output epoch, const TensorArray&) { return epoch < kEpochs; },
      [&](Output epoch, const TensorArray& losses) {
        const ControlDependencies each({epoch.node});
        Output wt = w.Read(), bt = b.Read();
        std::vector<Output> dw, db, loss;
        for (size_t r = 0; r < kReplicas; ++r) {
          const DeviceScope on(absl::StrCat("/job:worker/task:", r));
          Output logits = ops::MatMul(features[r], wt) + bt;
          // log(1 + exp(logits)) - labels * logits
          loss.push_back(ops::Mean(ops::Softplus(logits) - labels[r] * logits,
                                   IntVector({0, 1})));
          const std::vector<Output> grads = Grad({loss[r]}, {wt, bt});
          dw.push_back(grads[0]);
          db.push_back(grads[1]);
        }
        const DeviceScope on("/job:ps/task:0");
        const float rate = kLearningRate / kReplicas;
        Output mean = ops::AddN(loss) / static_cast<float>(kReplicas);
        const ControlDependencies updated({w.AssignSub(rate * ops::AddN(dw)),
                                           b.AssignSub(rate * ops::AddN(db)),
                                           mean.node});
        return std::tuple{epoch + 1, losses.Write(epoch, mean)};
      },
      {.parallel_iterations = 1, .name = "epochs"});
  Output all_losses = curve.Stack();

  Session session((*cluster)->target("worker", 0), graph);
  const Status init = session.RunTargets({GlobalVariablesInitializer()});
  ASSERT_TRUE(init.ok()) << init;
  Feeds feeds;
  for (size_t r = 0; r < kReplicas; ++r) {
    feeds.emplace_back(features[r], Tensor::Of<float>({kExamples, kFeatures},
                                                      data[r].features));
    feeds.emplace_back(labels[r],
                       Tensor::Of<float>({kExamples, 1}, data[r].labels));
  }
  const auto run = session.Run(feeds, {epochs, all_losses});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ((*run)[0].scalar<int32_t>(), kEpochs);
  // Another client, at another task, finds what was learnt.
  Session other((*cluster)->target("ps", 0), graph);
  const auto learnt = other.Run({w, b});
  ASSERT_TRUE(learnt.ok()) << learnt.status();

  const std::vector<float> wanted = LogisticInPlainLoops(data);
  for (size_t i = 0; i < kEpochs; ++i)
    EXPECT_NEAR((*run)[1].data<float>()[i], wanted[i], 1e-4) << i;
  for (size_t f = 0; f < kFeatures; ++f)
    EXPECT_NEAR((*learnt)[0].data<float>()[f], wanted[kEpochs + f], 1e-4) << f;
  EXPECT_NEAR((*learnt)[1].scalar<float>(), wanted.back(), 1e-4);
  EXPECT_LT(wanted[kEpochs - 1], 0.6f * wanted[0]);
}

// ---- A loop over two tasks, and its gradient --------------------------------

// Predators and prey: the numbers of both after `steps` steps of Euler's
// method, and the derivatives of their sum by both first numbers and by how
// much the prey grows.
struct PredatorsAndPrey {
  double prey, predators, by_prey, by_predators, by_growth;
};

constexpr double kEulerStep = 0.05, kCatch = 0.8, kDeath = 0.6;

PredatorsAndPrey InPlainSteps(double x, double y, double growth, int steps) {
  // Derivatives by {x, y, growth}, forwards.
  std::array<double, 3> dx = {1, 0, 0}, dy = {0, 1, 0};
  for (int i = 0; i < steps; ++i) {
    const std::array<double, 3> old = dx;
    for (size_t k = 0; k < 3; ++k) {
      dx[k] += kEulerStep * (growth * dx[k] + (k == 2 ? x : 0) -
                             kCatch * (dx[k] * y + x * dy[k]));
      dy[k] +=
          kEulerStep * (kCatch * (old[k] * y + x * dy[k]) - kDeath * dy[k]);
    }
    const double before = x;
    x += kEulerStep * (growth * x - kCatch * x * y);
    y += kEulerStep * (kCatch * before * y - kDeath * y);
  }
  return {x, y, dx[0] + dy[0], dx[1] + dy[1], dx[2] + dy[2]};
}

TEST(NewClusterUser, DifferentiatesALoopOverTwoTasks) {
  auto cluster = LocalCluster::Start({{"prey", 1}, {"predators", 1}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  Graph graph;
  const WithGraph use(graph);
  Output x = Placeholder<double>({}), y = Placeholder<double>({});
  Output growth = Placeholder<double>({}), steps = Placeholder<int32_t>({});
  auto [n, prey, predators] = While(
      std::tuple{0, x, y}, [&](Output i, Output, Output) { return i < steps; },
      [&](Output i, Output x, Output y) {
        Output more_prey, more_predators;
        {
          const DeviceScope on("/job:prey/task:0");
          more_prey = x + kEulerStep * (growth * x - kCatch * x * y);
        }
        {
          const DeviceScope on("/job:predators/task:0");
          more_predators = y + kEulerStep * (kCatch * x * y - kDeath * y);
        }
        return std::tuple{i + 1, more_prey, more_predators};
      },
      {.name = "years"});
  const std::vector<Output> slopes =
      Grad({prey, predators}, {x, y, growth}, {.colocate = true});

  Session session((*cluster)->target("predators", 0), graph);
  for (const int length : {0, 1, 7, 200}) {
    const auto got =
        session.Run({{x, Tensor::Scalar(1.2)},
                     {y, Tensor::Scalar(0.7)},
                     {growth, Tensor::Scalar(1.1)},
                     {steps, Tensor::Scalar<int32_t>(length)}},
                    {prey, predators, slopes[0], slopes[1], slopes[2], n});
    ASSERT_TRUE(got.ok()) << got.status();
    const PredatorsAndPrey wanted = InPlainSteps(1.2, 0.7, 1.1, length);
    EXPECT_NEAR((*got)[0].scalar<double>(), wanted.prey, 1e-9) << length;
    EXPECT_NEAR((*got)[1].scalar<double>(), wanted.predators, 1e-9) << length;
    EXPECT_NEAR((*got)[2].scalar<double>(), wanted.by_prey, 1e-9) << length;
    EXPECT_NEAR((*got)[3].scalar<double>(), wanted.by_predators, 1e-9)
        << length;
    EXPECT_NEAR((*got)[4].scalar<double>(), wanted.by_growth, 1e-9) << length;
    EXPECT_EQ((*got)[5].scalar<int32_t>(), length);
  }
}

// ---- Tasks that fail --------------------------------------------------------

TEST(NewClusterUser, ErrorNamesFailedNodeAndTask) {
  // Tasks of their own making, which can be lost one by one.
  const std::string worker = absl::StrCat("127.0.0.1:", UnusedPort());
  const std::string ps = absl::StrCat("127.0.0.1:", UnusedPort());
  const auto start = [&](const std::string& job) {
    TaskServerOptions options;
    options.cluster = absl::StrCat(R"({"worker": [")", worker,
                                   R"("], "ps": [")", ps, R"("]})");
    options.job = job;
    return TaskServer::Start(options);
  };
  auto worker_task = start("worker"), ps_task = start("ps");
  ASSERT_TRUE(worker_task.ok()) << worker_task.status();
  ASSERT_TRUE(ps_task.ok()) << ps_task.status();

  Graph graph;
  const WithGraph use(graph);
  Var table;
  Output row = Placeholder<int32_t>({});
  Output picked, sum, turns;
  {
    const DeviceScope on("/job:ps/task:0");
    table = Var(Constant(Tensor::Vector<float>({1, 2, 4})), "table");
    const NameScope name("lookup");
    picked = ops::GatherV2(table.Read(), row, 0);
  }
  {
    const DeviceScope on("/job:worker/task:0");
    sum = picked + 1.0f;
    // Takes as long as the tasks live.
    turns = While(
        Output(Constant(0)), [](Output i) { return i >= 0; },
        [&](Output i) {
          const DeviceScope on("/job:ps/task:0");
          return ops::Abs(i + 1) * 0;
        },
        {.name = "forever"});
  }
  Session session((*worker_task)->target(), graph);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  const auto good = session.Run({{row, Tensor::Scalar<int32_t>(2)}}, sum);
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->scalar<float>(), 5);

  // A kernel that fails: which node, of which line.
  const Status bad =
      session.Run({{row, Tensor::Scalar<int32_t>(3)}}, sum).status();
  EXPECT_EQ(bad.code(), StatusCode::kInvalidArgument) << bad;
  EXPECT_THAT(std::string(bad.message()),
              AllOf(HasSubstr("expected a value in [0, 3), got 3"),
                    HasSubstr("node 'lookup/GatherV2' (GatherV2) at "),
                    HasSubstr("new_user_test.cc:")));
  // That was the step's error, not the session's.
  EXPECT_TRUE(session.Run({{row, Tensor::Scalar<int32_t>(0)}}, sum).ok());

  // A task that is lost while a step runs on it.
  std::thread loses([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    (*ps_task)->Stop();
  });
  const Status lost = session.Run(turns).status();
  loses.join();
  EXPECT_THAT(lost.code(),
              AnyOf(StatusCode::kUnavailable, StatusCode::kAborted))
      << lost;
  EXPECT_THAT(std::string(lost.message()),
              HasSubstr("/job:ps/replica:0/task:0"));
  // So is every step of this session.
  const Status still =
      session.Run({{row, Tensor::Scalar<int32_t>(0)}}, sum).status();
  EXPECT_THAT(std::string(still.message()),
              HasSubstr("/job:ps/replica:0/task:0"));

  // Started again, a new session finds the task, but no variables.
  ps_task->reset();
  ps_task = start("ps");
  ASSERT_TRUE(ps_task.ok()) << ps_task.status();
  Session again((*worker_task)->target(), graph);
  const Status empty =
      again.Run({{row, Tensor::Scalar<int32_t>(0)}}, sum).status();
  EXPECT_EQ(empty.code(), StatusCode::kFailedPrecondition) << empty;
  EXPECT_THAT(std::string(empty.message()),
              AllOf(HasSubstr("variable 'table'"), HasSubstr("initializer")));
  ASSERT_TRUE(again.RunTargets({table.initializer()}).ok());
  EXPECT_TRUE(again.Run({{row, Tensor::Scalar<int32_t>(0)}}, sum).ok());
}

}  // namespace
}  // namespace sluice
