// The examples in the headers for checkpoints and savers.
#include <signal.h>

#include "tests/snippets/snippets_test_util.h"

namespace sluice {
namespace {

TEST_F(SnippetTest, Slices) {
#include "snippets/src/checkpoint/tensor_slice.h/1.inc"
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->shape, Shape({10, 20}));
  EXPECT_EQ(part->slice_shape, Shape({4, 20}));
}

TEST_F(SnippetTest, CheckpointsAreRead) {
  const std::string prefix = "tests/checkpoints/types";
  const auto read = [&]() -> Status {
#include "snippets/src/checkpoint/checkpoint_reader.h/1.inc"
    // (The checkpoint has other tensors.)
    EXPECT_EQ(bias.status().code(), StatusCode::kNotFound);
    return OkStatus();
  };
  EXPECT_TRUE(read().ok());
}

TEST_F(SnippetTest, LatestCheckpoints) {
  const InScratchFolder folder;
  const auto read = [&]() -> Status {
#include "snippets/src/checkpoint/state.h/1.inc"
    if (reader.ok()) {
      EXPECT_TRUE(reader->Has("w"));
    }
    return reader.status();
  };
  EXPECT_EQ(read().code(), StatusCode::kNotFound);
  const Var w(1.0, "w");
  Session session(graph);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  Saver saver;
  const Result<std::string> saved = saver.Save(session, "model/ckpt", 1);
  ASSERT_TRUE(saved.ok()) << saved.status();
  const Status found = read();
  EXPECT_TRUE(found.ok()) << found;
}

TEST_F(SnippetTest, Differences) {
  const std::string prefix = "tests/checkpoints/types";
  const auto compare = [&]() -> Status {
#include "snippets/src/train/checkpoint_difference.h/1.inc"
    EXPECT_EQ(difference.missing.size(), 1u);
    return OkStatus();
  };
  EXPECT_TRUE(compare().ok());
}

TEST_F(SnippetTest, WarmStarts) {
  const InScratchFolder folder;
  {
    Graph old;
    const WithGraph use(old);
    const Var old_w(2.0, "old/w"), old_b(3.0, "b");
    Session session(old);
    ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    ASSERT_TRUE(Saver().Save(session, "model/ckpt", 100).ok());
  }
  const Var w(0.0, "w"), b(0.0, "b");
  Session session(graph);
#include "snippets/src/train/warm_start.h/1.inc"
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(session.Run(w)->scalar<float>(), 2);
  EXPECT_EQ(session.Run(b)->scalar<float>(), 3);
}

TEST_F(SnippetTest, RunsInFolders) {
  const InScratchFolder folder;
  const auto take = [&]() -> Status {
#include "snippets/src/train/run_lock.h/1.inc"
    return OkStatus();
  };
  EXPECT_TRUE(take().ok());
}

TEST_F(SnippetTest, QueueRunners) {
  Session session;
#include "snippets/src/data/queue_runner.h/1.inc"
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(first_error.ok()) << first_error;
}

TEST_F(SnippetTest, Signals) {
  const auto wait = [&]() -> Status {
    const auto Work = [] { raise(SIGTERM); };
#include "snippets/src/train/signal_stop.h/1.inc"
    EXPECT_EQ((*asked)->name(), "SIGTERM");
    return OkStatus();
  };
  EXPECT_TRUE(wait().ok());
}

TEST_F(SnippetTest, TrainingSessions) {
  const InScratchFolder folder;
  const Var w(1.0, "w");
  const Output loss = w * w;
  GradientDescentOptimizer optimizer(0.1f);
  Node* const train = optimizer.Minimize(loss);
  const auto run = [&]() -> Status {
#include "snippets/src/train/training_session.h/1.inc"
  };
  const Status status = run();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(*LatestCheckpoint("model"), "model/model.ckpt-200");
}

TEST_F(SnippetTest, PeriodicAveraging) {
  const Var w(1.0f, "w");
  const std::vector<Var> mine = {w};
#include "snippets/src/train/periodic_averaging.h/1.inc"
  EXPECT_EQ(averaging.averages().size(), 1u);
}

TEST_F(SnippetTest, SyncReplicas) {
  const Var w(1.0f, "w");
  VarOptions counter;
  counter.trainable = false;
  const Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step", counter);
  const Output loss = w * w;
  const int worker = 0;
#include "snippets/src/train/sync_replicas.h/1.inc"
  EXPECT_NE(train, nullptr);
  EXPECT_TRUE(options.is_chief);
  const auto run = TrainingSession::Start(options);
  EXPECT_TRUE(run.ok()) << run.status();
}

TEST_F(SnippetTest, TrainingHooks) {
  const InScratchFolder folder;
  const Var w(1.0, "w");
  const Output loss = w * w;
#include "snippets/src/train/training_hooks.h/1.inc"
  const auto run = TrainingSession::Start(options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE((*run)->Train({}).ok());
  EXPECT_EQ((*run)->step(), 50);
}

namespace own_hook {
#include "snippets/src/train/training_hook.h/1.inc"
}  // namespace own_hook

TEST_F(SnippetTest, OwnHooks) {
  const Var w(1.0, "w");
  TrainingOptions options;
  options.hooks = {std::make_shared<own_hook::LossPrinter>(w * 0.001f)};
  const auto run = TrainingSession::Start(options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE((*run)->Train({}).ok());
  EXPECT_EQ((*run)->stop_reason(), "the loss is small");
}

TEST_F(SnippetTest, Savers) {
  const InScratchFolder folder;
#include "snippets/src/train/saver.h/1.inc"
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, "model/ckpt-100");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(*latest, *path);
}

TEST_F(SnippetTest, Signatures) {
  const Var w(Zeros({784, 10}), "w");
#include "snippets/src/deploy/signature.h/1.inc"
  ASSERT_TRUE(predict.ok()) << predict.status();
  EXPECT_EQ(predict->inputs.at("images").name, "x:0");
}

TEST_F(SnippetTest, MetaGraphs) {
  const Var w(1.0, "w");
  const Output loss = w * 2.0;
#include "snippets/src/deploy/meta_graph.h/1.inc"
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(copy.collections().at("losses").size(), 1u);
}

TEST_F(SnippetTest, SavedModels) {
  const InScratchFolder folder;
  const Output x = Placeholder<float>({-1}, "x");
  const Var w(3.0, "w");
  const Output y = x * w;
  Session session(graph);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  {
#include "snippets/src/deploy/saved_model_builder.h/1.inc"
    ASSERT_TRUE(status.ok()) << status;
  }
  const Tensor images = Tensor::Vector<float>({2});
  const auto run = [&]() -> Status {
#include "snippets/src/deploy/saved_model.h/1.inc"
    // (Its input has another name.)
    EXPECT_EQ(out.status().code(), StatusCode::kInvalidArgument);
    return OkStatus();
  };
  const Status status = run();
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace sluice
