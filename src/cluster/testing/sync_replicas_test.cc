// Synchronous replicas: their updates equal those of one large batch, and go on
// when workers, the chief or a task with variables are lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "client/device_placement.h"
#include "cluster/testing/child_process_test_util.h"
#include "cluster/testing/cluster_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTableRows = 12, kTableDepth = 3, kWorkerBatch = 4;

// A worker's ids and targets of a step: functions of both numbers.
struct Examples {
  Tensor ids{DType::kInt32, {kWorkerBatch}};
  Tensor targets{DType::kFloat, {kWorkerBatch}};
};
Examples ExamplesOf(int64_t worker, int64_t step) {
  Examples e;
  for (int64_t i = 0; i < kWorkerBatch; ++i) {
    const int64_t k = worker * 131 + step * 17 + i * 7;
    e.ids.flat<int32_t>()[i] = static_cast<int32_t>(k * k % kTableRows);
    e.targets.flat<float>()[i] = static_cast<float>(k % 5) - 2;
  }
  return e;
}

// A model with a sparse and two dense gradients. In a worker's graph on several
// tasks, with variables on those of "ps".
struct Model {
  explicit Model(int64_t batch) {
    ids = Placeholder<int32_t>({batch}, "ids");
    targets = Placeholder<float>({batch}, "targets");
    Tensor rows(DType::kFloat, {kTableRows, kTableDepth});
    for (int64_t i = 0; i < rows.num_elements(); ++i)
      rows.flat<float>()[i] = static_cast<float>(i % 7) / 7 - 0.4f;
    table = Var(Constant(rows), "table");
    w = Var(Constant(Tensor::Vector<float>({0.5f, -0.25f, 1})), "w");
    b = Var(Constant(0.125f), "b");
    VarOptions counter;
    counter.trainable = false;
    step = Var(Constant(Tensor::Scalar<int64_t>(0)), "global_step", counter);
    const auto read = [&] {
      const ColocateWith there(table.handle().node);
      return ops::ResourceGather(table.handle(), ids, DType::kFloat);
    };
    const Output guess = ops::Sum(read() * w, {1}) + b;
    loss = ops::Mean(ops::Square(guess - targets), {0});
  }
  Feeds FeedsOf(const Examples& e) const {
    return {{ids, e.ids}, {targets, e.targets}};
  }
  std::vector<Output> Values() const { return {table, w, b, step}; }

  Output ids, targets, loss;
  Var table, w, b, step;
};

class SyncReplicasTest : public ::testing::Test {
 protected:
  SyncReplicasTest() {
    folder_ = ::testing::TempDir() + "sync_replicas" +
              std::to_string(getpid()) + "_" + std::to_string(folders_++);
  }
  ~SyncReplicasTest() override { std::filesystem::remove_all(folder_); }

  struct How {
    SyncReplicasOptions sync;
    int64_t last_step = 10;
    bool checkpoints = false;
    // Called before each step; an error ends the worker as if it were killed.
    std::function<Status(int worker, int64_t step)> before = nullptr;
    // Likewise; whether the worker ends its run in order.
    std::function<bool(int worker, int64_t step)> leaves = nullptr;
  };
  static constexpr int kReplicaWorkers = 3;

  // Trains with all workers; those that return Aborted are started again,
  // except for gone_.
  void Train(const How& how) {
    std::vector<Status> status(kReplicaWorkers);
    std::vector<std::thread> workers;
    for (int i = 0; i < kReplicaWorkers; ++i)
      workers.emplace_back([&, i] {
        Status& s = status[static_cast<size_t>(i)];
        do s = Work(how, i);
        while (s.code() == StatusCode::kAborted && gone_ != i);
        if (gone_ == i) s = OkStatus();
      });
    for (std::thread& t : workers) t.join();
    for (const Status& s : status) EXPECT_TRUE(s.ok()) << s << "\n" << log_;
  }

  // Elastic, with a worker that is killed at its first step from `from_step` on
  // and does not come back.
  void TrainWithALoss(int64_t from_step) {
    Train({.sync = {.replicas = kReplicaWorkers,
                    .elastic =
                        ElasticOptions{.least = 2, .lost_after_seconds = 0.5}},
           .last_step = 20,
           .before = [&](int worker, int64_t step) {
             if (worker == 0 && step == 10) {
               EXPECT_TRUE(BecomesTrue([&] { return gone_ == 2; }));
             }
             if (worker != 2 || step < from_step) return OkStatus();
             cluster_.StopTask("worker", 2);
             gone_ = 2;
             return Aborted("killed");
           }});
    EXPECT_EQ(values_.back().scalar<int64_t>(), 20);
    EXPECT_EQ(present_, 2);
  }

  // Trains as one worker, by a TrainingSession.
  Status Work(const How& how, int worker) {
    Graph graph;
    const WithGraph use(graph);
    const std::string me = absl::StrCat("/job:worker/task:", worker);
    const DeviceFunctionScope devices(
        ReplicaDeviceSetter({.ps_tasks = 2, .worker_device = me}));
    const Model model(kWorkerBatch);
    GradientDescentOptimizer sgd(0.1);
    SyncReplicasOptions sync = how.sync;
    if (sync.elastic) sync.elastic->worker = worker;
    SyncReplicas replicas(sgd, sync);
    Node* const train =
        replicas.Minimize(model.loss, {.global_step = model.step});
    if (train == nullptr) return graph.status();
    TrainingOptions options;
    options.target = cluster_.target("worker", worker);
    options.session_options.device_filters = {"/job:ps", me};
    options.is_chief = worker == 0;
    options.last_step = how.last_step;
    options.hooks = {replicas.Hook(options.is_chief)};
    options.max_wait_seconds = 60;
    options.retry_seconds = 0.05;
    options.max_retries = 1000;
    if (how.checkpoints) {
      options.folder = folder_;
      options.save = {.steps = 2};
    }
    options.log = [this, worker](const std::string& line) {
      std::lock_guard<std::mutex> lock(mu_);
      log_ += absl::StrCat("worker ", worker, ": ", line, "\n");
    };
    auto session = TrainingSession::Start(options, graph);
    SLUICE_RETURN_IF_ERROR(session.status());
    while (!(*session)->ShouldStop()) {
      const int64_t step = (*session)->step();
      if (how.before) SLUICE_RETURN_IF_ERROR(how.before(worker, step));
      if (how.leaves && how.leaves(worker, step)) break;
      if (sync.elastic && worker == 0) {
        SLUICE_ASSIGN_OR_RETURN(Session* const s, (*session)->session());
        // (A server may be lost.)
        if (const auto n = s->Run(replicas.present()); n.ok()) {
          most_present_ = std::max<int>(most_present_, n->scalar<int32_t>());
          present_ = n->scalar<int32_t>();
        }
      }
      Examples examples = ExamplesOf(worker, step);
      if (std::pair<int, int64_t>(worker, step) == poison_)
        examples.targets.flat<float>()[0] = 1e20f;
      if (!(*session)->RunStep({train}, model.FeedsOf(examples)).ok()) break;
      ++steps_of_[static_cast<size_t>(worker)];
    }
    if (worker == 0) {
      SLUICE_ASSIGN_OR_RETURN(Session* const s, (*session)->session());
      SLUICE_ASSIGN_OR_RETURN(values_, s->Run(model.Values()));
    }
    return (*session)->Close();
  }

  // The values after training by one process, whose batch is that of all
  // workers.
  static std::vector<Tensor> Alone(int64_t workers, int64_t steps) {
    Graph graph;
    const WithGraph use(graph);
    const Model model(kWorkerBatch * workers);
    GradientDescentOptimizer sgd(0.1);
    Node* const train = sgd.Minimize(model.loss, {.global_step = model.step});
    Session session(graph);
    EXPECT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    for (int64_t step = 0; step < steps; ++step) {
      Examples all;
      all.ids = Tensor(DType::kInt32, {kWorkerBatch * workers});
      all.targets = Tensor(DType::kFloat, {kWorkerBatch * workers});
      for (int64_t i = 0; i < workers; ++i) {
        const Examples e = ExamplesOf(i, step);
        for (int64_t k = 0; k < kWorkerBatch; ++k) {
          all.ids.flat<int32_t>()[i * kWorkerBatch + k] =
              e.ids.flat<int32_t>()[k];
          all.targets.flat<float>()[i * kWorkerBatch + k] =
              e.targets.flat<float>()[k];
        }
      }
      const Status s = session.RunTargets({train}, model.FeedsOf(all));
      EXPECT_TRUE(s.ok()) << s;
    }
    auto values = session.Run(model.Values());
    EXPECT_TRUE(values.ok()) << values.status();
    return *std::move(values);
  }

  void ExpectNear(const std::vector<Tensor>& got,
                  const std::vector<Tensor>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i + 1 < got.size(); ++i)
      for (int64_t k = 0; k < got[i].num_elements(); ++k)
        EXPECT_NEAR(got[i].flat<float>()[k], want[i].flat<float>()[k], 1e-5)
            << "variable " << i << ", element " << k;
    EXPECT_EQ(got.back().scalar<int64_t>(), want.back().scalar<int64_t>());
  }

  TestCluster cluster_{{{"ps", 2}, {"worker", kReplicaWorkers}}};
  std::atomic<int> gone_{-1};  // A worker that is not started again.
  std::array<std::atomic<int>, kReplicaWorkers> steps_of_{};
  std::atomic<bool> left_{false};
  std::atomic<int> present_{0}, most_present_{0};  // As the chief has seen it.
  // The worker and the step that have an example with a huge gradient.
  std::pair<int, int64_t> poison_ = {-1, -1};
  static inline int folders_ = 0;
  std::string folder_;
  std::mutex mu_;
  std::string log_;             // GUARDED_BY(mu_)
  std::vector<Tensor> values_;  // Of the chief, after training.
};

TEST_F(SyncReplicasTest, UpdatesEqualThoseOfOneLargeBatch) {
  Train({.sync = {.replicas = kReplicaWorkers}, .last_step = 12});
  ExpectNear(values_, Alone(kReplicaWorkers, 12));
}

// A worker's step and its servers exchange values only: a token without one
// would be a message of its own.
TEST(SyncReplicasGraphTest, NoControlEdgeConnectsWorkerAndServers) {
  for (const bool elastic : {false, true}) {
    Graph graph;
    const WithGraph use(graph);
    const DeviceFunctionScope devices(ReplicaDeviceSetter(
        {.ps_tasks = 2, .worker_device = "/job:worker/task:1"}));
    const Model model(kWorkerBatch);
    GradientDescentOptimizer sgd(0.1);
    SyncReplicasOptions sync = {.replicas = 3};
    if (elastic) sync.elastic = ElasticOptions{.worker = 1, .least = 2};
    SyncReplicas replicas(sgd, sync);
    const Node* const train =
        replicas.Minimize(model.loss, {.global_step = model.step});
    ASSERT_NE(train, nullptr) << graph.status();
    const auto on_worker = [](const Node& n) {
      return n.device().find("worker") != std::string::npos;
    };
    EXPECT_TRUE(on_worker(*train));
    std::set<const Node*> seen;
    std::vector<const Node*> open = {train};
    size_t servers = 0;
    while (!open.empty()) {
      const Node* const n = open.back();
      open.pop_back();
      if (!seen.insert(n).second) continue;
      servers += !on_worker(*n);
      for (const Output& in : n->inputs()) open.push_back(in.node);
      for (const Node* before : n->control_inputs()) {
        open.push_back(before);
        EXPECT_EQ(on_worker(*before), on_worker(*n))
            << before->name() << " before " << n->name();
      }
    }
    EXPECT_GT(servers, 10u);
  }
}

TEST_F(SyncReplicasTest, EachWorkerContributesSeveralGradientsIfAsked) {
  Train({.sync = {.replicas = kReplicaWorkers,
                  .to_aggregate = 2 * kReplicaWorkers}});
  EXPECT_EQ(values_.back().scalar<int64_t>(), 10);
}

TEST_F(SyncReplicasTest, GradientsOfASlowBackupWorkerAreDropped) {
  std::atomic<bool> late{false};
  poison_ = {2, 0};
  Train({.sync = {.replicas = kReplicaWorkers, .to_aggregate = 2},
         .before = [&](int worker, int64_t step) {
           if (worker == 0 && step >= 5) late = true;
           if (worker == 2 && step == 0) {
             EXPECT_TRUE(BecomesTrue([&] { return late.load(); }));
           }
           return OkStatus();
         }});
  EXPECT_EQ(values_.back().scalar<int64_t>(), 10);
  for (const float x : values_[1].flat<float>()) EXPECT_LT(std::abs(x), 100);
}

TEST_F(SyncReplicasTest, ALostBackupWorkerStopsNothing) {
  Train({.sync = {.replicas = kReplicaWorkers, .to_aggregate = 2},
         .before = [&](int worker, int64_t step) {
           if (worker != 2 || step < 4) return OkStatus();
           cluster_.StopTask("worker", 2);
           gone_ = 2;
           return Aborted("killed");
         }});
  EXPECT_EQ(values_.back().scalar<int64_t>(), 10);
}

TEST_F(SyncReplicasTest, AWorkerThatIsStartedAgainTakesPartAgain) {
  std::atomic<bool> killed{false};
  Train({.sync = {.replicas = kReplicaWorkers},
         .before = [&](int worker, int64_t step) {
           if (worker != 2 || step < 4 || killed.exchange(true))
             return OkStatus();
           cluster_.StopTask("worker", 2);
           cluster_.StartTask("worker", 2);
           return Aborted("killed");
         }});
  EXPECT_EQ(values_.back().scalar<int64_t>(), 10);
}

// ---- Elastic ----------------------------------------------------------------

TEST_F(SyncReplicasTest, ElasticUpdatesOfAllEqualThoseOfOneLargeBatch) {
  Train({.sync = {.replicas = kReplicaWorkers,
                  .elastic = ElasticOptions{.least = kReplicaWorkers,
                                            .lost_after_seconds = 1000}},
         .last_step = 12});
  ExpectNear(values_, Alone(kReplicaWorkers, 12));
}

TEST_F(SyncReplicasTest, ElasticTrainingGoesOnWithoutALostWorker) {
  TrainWithALoss(/*from_step=*/4);
}

// Before it has added a gradient, so that nothing but its joining is known.
TEST_F(SyncReplicasTest, ElasticTrainingGoesOnWithoutAWorkerLostAtItsStart) {
  TrainWithALoss(/*from_step=*/0);
}

TEST_F(SyncReplicasTest, ElasticTrainingWaitsForNoWorkerThatHasLeft) {
  Train({.sync = {.replicas = kReplicaWorkers,
                  .elastic =
                      ElasticOptions{.least = 2, .lost_after_seconds = 1000}},
         .last_step = 20,
         .before =
             [&](int worker, int64_t step) {
               if (worker == 0 && step == 10) {
                 EXPECT_TRUE(BecomesTrue([&] { return left_.load(); }));
               }
               return OkStatus();
             },
         .leaves =
             [&](int worker, int64_t step) {
               if (worker != 2 || step < 4) return false;
               left_ = true;
               return true;
             }});
  EXPECT_EQ(values_.back().scalar<int64_t>(), 20);
  EXPECT_EQ(present_, 2);
}

// The slower of two contributes to each update, though a third could be there.
TEST_F(SyncReplicasTest, ElasticUpdatesHaveOneGradientOfEachThatIsThere) {
  Train({.sync = {.replicas = kReplicaWorkers,
                  .elastic =
                      ElasticOptions{.least = 2, .lost_after_seconds = 1000}},
         .last_step = 12,
         .before =
             [&](int worker, int64_t step) {
               if (worker == 0 && step == 0) {
                 EXPECT_TRUE(BecomesTrue([&] { return left_.load(); }));
               }
               if (worker == 1)
                 std::this_thread::sleep_for(std::chrono::milliseconds(5));
               return OkStatus();
             },
         .leaves =
             [&](int worker, int64_t) {
               if (worker == 2) left_ = true;
               return worker == 2;
             }});
  ExpectNear(values_, Alone(2, 12));
}

TEST_F(SyncReplicasTest, AWorkerJoinsElasticTraining) {
  std::atomic<int64_t> at{0};
  Train({.sync = {.replicas = kReplicaWorkers,
                  .elastic = ElasticOptions{.lost_after_seconds = 0.5}},
         .last_step = 200,
         .before = [&](int worker, int64_t step) {
           if (worker == 0) at = step;
           // (It has joined, is late, and so counts as lost until it comes.)
           if (worker == 2 && steps_of_[2] == 0) {
             EXPECT_TRUE(BecomesTrue([&] { return at > 5; }));
           }
           // The others wait until it is there.
           if (worker != 2 && step == 100) {
             EXPECT_TRUE(BecomesTrue([&] { return steps_of_[2] > 0; }));
           }
           return OkStatus();
         }});
  EXPECT_EQ(values_.back().scalar<int64_t>(), 200);
  EXPECT_EQ(most_present_, 3);
  EXPECT_GT(steps_of_[2], 1);
}

SyncReplicasOptions MayBeElastic(bool elastic) {
  SyncReplicasOptions options{.replicas = 3};
  if (elastic) options.elastic = ElasticOptions{.lost_after_seconds = 0.5};
  return options;
}

class LostChiefTest : public SyncReplicasTest,
                      public ::testing::WithParamInterface<bool> {};

TEST_P(LostChiefTest, IsStartedAgainAndFreesTheOthers) {
  std::atomic<bool> killed{false};
  Train({.sync = MayBeElastic(GetParam()),
         .checkpoints = true,
         .before = [&](int worker, int64_t step) {
           if (worker != 0 || step < 5 || killed.exchange(true))
             return OkStatus();
           return Aborted("killed");
         }});
  EXPECT_EQ(values_.back().scalar<int64_t>(), 10);
  EXPECT_THAT(log_, HasSubstr("training: restored"));
}

INSTANTIATE_TEST_SUITE_P(OrElastic, LostChiefTest, ::testing::Bool());

// The loss of the task with the global step and the tokens, and of another.
class LostServerTest
    : public SyncReplicasTest,
      public ::testing::WithParamInterface<std::tuple<int, bool>> {};

TEST_P(LostServerTest, IsRestoredFromTheCheckpoint) {
  const auto [server, elastic] = GetParam();
  std::atomic<bool> killed{false};
  const int killer = elastic ? 0 : 1;
  Train({.sync = MayBeElastic(elastic),
         .checkpoints = true,
         .before = [&, server = server](int worker, int64_t step) {
           // (In elastic training the chief may be alone.)
           if (worker != killer || step < 5 || killed.exchange(true))
             return OkStatus();
           cluster_.StopTask("ps", server);
           cluster_.StartTask("ps", server);
           return OkStatus();
         }});
  EXPECT_EQ(values_.back().scalar<int64_t>(), 10);
  EXPECT_THAT(log_, HasSubstr("training: restored"));
}
INSTANTIATE_TEST_SUITE_P(Each, LostServerTest,
                         ::testing::Combine(::testing::Values(0, 1),
                                            ::testing::Bool()));

// One process adds gradients of several workers, one after the other.
class GradientsOfReplicasTest : public ::testing::Test {
 protected:
  GradientsOfReplicasTest() : use_(graph_) {
    gradient_ = Placeholder<float>({});
    VarOptions counter;
    counter.trainable = false;
    step_ = Var(Constant(Tensor::Scalar<int64_t>(0)), "step", counter);
    dense_ = Var(Constant(0.0f), "dense");
    rows_ = Var(Zeros({3, 1}), "rows");
    train_ = replicas_.ApplyGradients(
        {{Gradient(gradient_), dense_},
         {Gradient::Slices(Constant(Tensor::Vector<int32_t>({1})),
                           ops::Reshape(gradient_, {1, 1}), Output()),
          rows_}},
        {.global_step = step_});
    put_ = replicas_.PutTokens(10);
    session_ = std::make_unique<Session>(graph_);
    Run(GlobalVariablesInitializer());
    Run(VariablesInitializer(VariablesIn(kLocalVariables)));
    Run(replicas_.chief_init());
  }
  void Run(Node* node, float gradient = 0) {
    const Status s =
        session_->RunTargets({node}, {{gradient_, Tensor::Scalar(gradient)}});
    ASSERT_TRUE(s.ok()) << s;
  }
  void ExpectValues(float dense, float row) {
    const auto out = session_->Run({}, {dense_, rows_});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].scalar<float>(), dense);
    EXPECT_EQ((*out)[1].flat<float>()[1], row);
    EXPECT_EQ((*out)[1].flat<float>()[0], 0);
  }

  Graph graph_;
  const WithGraph use_;
  GradientDescentOptimizer sgd_{1};
  SyncReplicas replicas_{sgd_, {.replicas = 3, .to_aggregate = 2}};
  Output gradient_;
  Var step_, dense_, rows_;
  Node *train_ = nullptr, *put_ = nullptr;
  std::unique_ptr<Session> session_;
};

TEST_F(GradientsOfReplicasTest, MeansAreOverAllThatHaveCome) {
  Run(put_);
  for (const float g : {1.0f, 2.0f, 3.0f}) Run(train_, g);
  Run(replicas_.update());
  ExpectValues(-2, -2);
}

TEST_F(GradientsOfReplicasTest, LabelsOfOtherStepsAreDropped) {
  Run(put_);
  for (const float g : {1.0f, 1.0f}) Run(train_, g);
  Run(replicas_.update());  // Step 1.
  Run(put_);
  Run(replicas_.local_step().Assign(0));
  Run(train_, 1000);  // Of the step before. Then the local step is 1.
  // As if the variables had been restored after the label was taken.
  Run(replicas_.local_step().Assign(5));
  Run(train_, 1000);
  for (const float g : {1.0f, 1.0f}) Run(train_, g);
  Run(replicas_.update());
  ExpectValues(-2, -2);
}

// Each worker adds its number, from 1, to a variable of its own.
TEST(PeriodicAveragingTest, WorkersGoOnWithTheMeanOfTheirValues) {
  TestCluster cluster({{"ps", 2}, {"worker", 3}});
  std::vector<Status> status(3);
  std::vector<float> mine(3), average(3);
  std::vector<std::thread> workers;
  const auto work = [&](size_t worker) -> Status {
    Graph graph;
    const WithGraph use(graph);
    const std::string me = absl::StrCat("/job:worker/task:", worker);
    const DeviceFunctionScope devices(
        ReplicaDeviceSetter({.ps_tasks = 2, .worker_device = me}));
    const auto local = [&] {
      const DeviceScope on(me);
      VarOptions options;
      options.collections = {kLocalVariables};
      return Var(Constant(0.0f), "w", options);
    };
    const Var w = local();
    Node* const train = w.AssignAdd(static_cast<float>(worker + 1));
    PeriodicAveraging averaging({w}, {.replicas = 3}, /*every=*/4);
    TrainingOptions options;
    options.target = cluster.target("worker", static_cast<int>(worker));
    options.session_options.device_filters = {"/job:ps", me};
    options.is_chief = worker == 0;
    options.retry_seconds = 0.05;
    options.log = [](const std::string&) {};
    options.hooks = {averaging.Hook(options.is_chief), StopAfterStepsHook(10)};
    SLUICE_ASSIGN_OR_RETURN(auto training,
                            TrainingSession::Start(options, graph));
    while (!training->ShouldStop())
      SLUICE_RETURN_IF_ERROR(training->RunStep({train}));
    SLUICE_ASSIGN_OR_RETURN(Session* const session, training->session());
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<Tensor> out,
        session->Run({}, {w, averaging.averages()[0], averaging.rounds()}));
    mine[worker] = out[0].scalar<float>();
    average[worker] = out[1].scalar<float>();
    EXPECT_EQ(out[2].scalar<int64_t>(), 2);
    return training->Close();
  };
  for (size_t i = 0; i < 3; ++i)
    workers.emplace_back([&, i] { status[i] = work(i); });
  for (std::thread& t : workers) t.join();
  for (const Status& s : status) EXPECT_TRUE(s.ok()) << s;
  // (1 + 2 + 3) / 3 a step until step 8; two more steps alone.
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(average[i], 16);
    EXPECT_EQ(mine[i], 16 + 2 * static_cast<float>(i + 1));
  }
}

TEST_F(SyncReplicasTest, WhatIsNotPossibleIsAnError) {
  Graph graph;
  const WithGraph use(graph);
  const auto error = [](SyncReplicasOptions options, bool with_step) {
    Graph g;
    const WithGraph its(g);
    const Model model(kWorkerBatch);
    GradientDescentOptimizer sgd(0.1);
    SyncReplicas replicas(sgd, std::move(options));
    MinimizeOptions how;
    if (with_step) how.global_step = model.step;
    EXPECT_EQ(replicas.Minimize(model.loss, how), nullptr);
    return std::string(g.status().message());
  };
  EXPECT_THAT(error({.replicas = 0}, true),
              HasSubstr("expected at least one replica, got 0; at "));
  const auto elastic = [&error](ElasticOptions e, int64_t to_aggregate = 0,
                                bool discard = true) {
    return error({.replicas = 2,
                  .to_aggregate = to_aggregate,
                  .elastic = e,
                  .discard_old_tokens = discard},
                 true);
  };
  EXPECT_THAT(elastic({.worker = 2}),
              HasSubstr("expected elastic.worker from 0 to 1, got 2"));
  EXPECT_THAT(elastic({.least = 3}),
              HasSubstr("expected elastic.least from 1 to 2, got 3"));
  EXPECT_THAT(elastic({.lost_after_seconds = 0}),
              HasSubstr("expected elastic.lost_after_seconds above 0, got 0"));
  EXPECT_THAT(elastic({}, 3), HasSubstr("at most 2 gradients to aggregate"));
  EXPECT_THAT(elastic({}, 0, false), HasSubstr("expected discard_old_tokens"));
  EXPECT_THAT(error({.to_aggregate = -1}, true),
              HasSubstr("expected at least one gradient to aggregate"));
  EXPECT_THAT(error({.name = ""}, true), HasSubstr("expected a name"));
  EXPECT_THAT(error({}, false), HasSubstr("MinimizeOptions::global_step"));
  const Model model(kWorkerBatch);
  GradientDescentOptimizer sgd(0.1);
  SyncReplicas replicas(sgd, {});
  TrainingOptions options;
  options.hooks = {replicas.Hook(true)};
  EXPECT_THAT(
      std::string(TrainingSession::Start(options, graph).status().message()),
      HasSubstr("expected gradients to be applied in the run's graph"));
  ASSERT_NE(replicas.Minimize(model.loss, {.global_step = model.step}),
            nullptr);
  EXPECT_EQ(replicas.Minimize(model.loss, {.global_step = model.step}),
            nullptr);
  EXPECT_THAT(std::string(graph.status().message()),
              HasSubstr("expected gradients to be applied once"));
}

}  // namespace
}  // namespace sluice
