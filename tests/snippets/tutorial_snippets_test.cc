// The C++ programs of docs/tutorials: each prints what its page shows.
// (Python's are in python/tests/test_snippets.py, clusters' in
// cluster_snippets_test.cc.)
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>

#include "sluice/op.h"
#include "snippets/docs/tutorials/first-graph.md/1.inc"
#include "tests/snippets/snippets_test_util.h"

namespace sluice {
namespace {

using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStdout;

TEST_F(SnippetTest, TutorialFirstGraph) {
  CaptureStdout();
#include "snippets/docs/tutorials/first-graph.md/2.inc"
#include "snippets/docs/tutorials/first-graph.md/3.inc"
  const std::string shown1 =
#include "snippets/docs/tutorials/first-graph.md/4.inc"
      ;
  EXPECT_EQ(GetCapturedStdout(), shown1);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  Graph other;  // (A fixture's graph has no errors.)
  const WithGraph use(other);
  CaptureStdout();
  {
    Output x = Placeholder<float>({-1, 2});
    Session session(other);
#include "snippets/docs/tutorials/first-graph.md/5.inc"
  }
  const std::string shown2 =
#include "snippets/docs/tutorials/first-graph.md/6.inc"
      ;
  EXPECT_EQ(GetCapturedStdout(), shown2);
}

TEST_F(SnippetTest, TutorialTrainingLoop) {
  const InScratchFolder folder;
  CaptureStdout();
#include "snippets/docs/tutorials/training-loop.md/1.inc"
#include "snippets/docs/tutorials/training-loop.md/2.inc"
#include "snippets/docs/tutorials/training-loop.md/3.inc"
  const std::string shown3 =
#include "snippets/docs/tutorials/training-loop.md/4.inc"
      ;
  EXPECT_EQ(GetCapturedStdout(), shown3);
  // It has learned what it was shown.
  Session session(graph);
  Saver saver;
  ASSERT_TRUE(saver.Restore(session, "circle/model.ckpt-500").ok());
  const Result<Feeds> unseen = batch(1000);
  ASSERT_TRUE(unseen.ok());
  const Result<Tensor> error = session.Run(*unseen, loss);
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LT(error->scalar<float>(), 0.4f);
}

TEST_F(SnippetTest, TutorialLoopsAndGradients) {
  const auto program = []() -> Status {
    CaptureStdout();
#include "snippets/docs/tutorials/loops-and-gradients.md/1.inc"
#include "snippets/docs/tutorials/loops-and-gradients.md/2.inc"
    const std::string shown4 =
#include "snippets/docs/tutorials/loops-and-gradients.md/3.inc"
        ;
    EXPECT_EQ(GetCapturedStdout(), shown4);
    CaptureStdout();
#include "snippets/docs/tutorials/loops-and-gradients.md/4.inc"
    const std::string shown5 =
#include "snippets/docs/tutorials/loops-and-gradients.md/5.inc"
        ;
    EXPECT_EQ(GetCapturedStdout(), shown5);
    return OkStatus();
  };
  const Status status = program();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SnippetTest, TutorialTrees) {
  const auto program = []() -> Status {
    CaptureStdout();
#include "snippets/docs/tutorials/trees.md/1.inc"
    const std::string shown8 =
#include "snippets/docs/tutorials/trees.md/2.inc"
        ;
    EXPECT_EQ(GetCapturedStdout(), shown8);
    CaptureStdout();
#include "snippets/docs/tutorials/trees.md/3.inc"
#include "snippets/docs/tutorials/trees.md/4.inc"
    const std::string shown9 =
#include "snippets/docs/tutorials/trees.md/5.inc"
        ;
    EXPECT_EQ(GetCapturedStdout(), shown9);
    EXPECT_TRUE(status.ok()) << status;
    CaptureStdout();
#include "snippets/docs/tutorials/trees.md/6.inc"
    const std::string shown10 =
#include "snippets/docs/tutorials/trees.md/7.inc"
        ;
    EXPECT_EQ(GetCapturedStdout(), shown10);
    return OkStatus();
  };
  const Status status = program();
  EXPECT_TRUE(status.ok()) << status;
}

#include "snippets/docs/tutorials/own-op.md/1.inc"
#include "snippets/docs/tutorials/own-op.md/2.inc"

TEST_F(SnippetTest, TutorialOwnOp) {
  const auto program = []() -> Status {
    CaptureStdout();
#include "snippets/docs/tutorials/own-op.md/3.inc"
    const std::string shown6 =
#include "snippets/docs/tutorials/own-op.md/4.inc"
        ;
    EXPECT_EQ(GetCapturedStdout(), shown6);
    return OkStatus();
  };
  const Status status = program();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SnippetTest, TutorialOwnOpInC) {
  const std::string library = SLUICE_OP_IN_C;  // Its path in the build.
  const InScratchFolder folder;
  std::error_code failed;
  std::filesystem::create_symlink(library, "custom_op_in_c.so", failed);
  ASSERT_FALSE(failed) << failed.message();
  const auto program = []() -> Status {
    CaptureStdout();
#include "snippets/docs/tutorials/own-op-in-c.md/6.inc"
    const std::string shown7 =
#include "snippets/docs/tutorials/own-op-in-c.md/7.inc"
        ;
    EXPECT_EQ(GetCapturedStdout(), shown7);
    return OkStatus();
  };
  const Status status = program();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SnippetTest, TutorialFromTensorFlow) {
  const InScratchFolder scratch;
  const std::string folder = ".";
  {
    Output x = Placeholder<float>({-1, 3});
    Var w(Ones({3, 1}), "w");
    Output y = ops::MatMul(x, w);
    Session session(graph);
    ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    const auto predict = PredictSignature({{"x", x}}, {{"y", y}});
    ASSERT_TRUE(predict.ok()) << predict.status();
    SavedModelBuilder builder("exported");
    const Status status = builder.AddMetaGraphAndVariables(
        session,
        {.tags = {kServeTag}, .signatures = {{kDefaultSignature, *predict}}});
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(builder.Save().ok());
  }
  const auto program = [&]() -> Status {
    CaptureStdout();
#include "snippets/docs/tutorials/from-tensorflow-1.md/3.inc"
    EXPECT_EQ(GetCapturedStdout(), "[1,1]\n");
    return OkStatus();
  };
  const Status status = program();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SnippetTest, TutorialFromPyTorch) {
  const auto program = []() -> Status {
    CaptureStdout();
#include "snippets/docs/tutorials/from-pytorch.md/3.inc"
    const std::string shown7 =
#include "snippets/docs/tutorials/from-pytorch.md/4.inc"
        ;
    EXPECT_EQ(GetCapturedStdout(), shown7);
    return OkStatus();
  };
  const Status status = program();
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace sluice
