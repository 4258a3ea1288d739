// The examples in the headers for input pipelines and their files, and of logs.
#include <filesystem>

#include "tests/snippets/snippets_test_util.h"

namespace sluice {
namespace {

TEST_F(SnippetTest, Queues) {
  const Tensor image = *Tensor::Zeros(DType::kFloat, {784});
  const Tensor label = Tensor::Scalar<int32_t>(3);
#include "snippets/src/data/queue.h/1.inc"
  Session session(graph);
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(session.RunTargets({put}).ok());
  const auto got = session.Run(batch);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].shape(), Shape({32, 784}));
}

TEST_F(SnippetTest, HashTables) {
#include "snippets/src/data/hash_table.h/1.inc"
  ASSERT_TRUE(filled.ok()) << filled;
  ASSERT_TRUE(eight.ok()) << eight.status();
  EXPECT_EQ(eight->scalar<int32_t>(), 8);
}

TEST_F(SnippetTest, Barriers) {
#include "snippets/src/data/barrier.h/1.inc"
  Session session(graph);
  ASSERT_TRUE(session.RunTargets({image}).ok());
  ASSERT_TRUE(session.RunTargets({label}).ok());
  const auto got = session.Run(first.values);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].shape(), Shape({1, 2}));
}

TEST_F(SnippetTest, Coordinators) {
  const Queue queue = Queue::Fifo({{DType::kFloat, {}}});
  Node* const enqueue = queue.Enqueue({1.0f});
  const Output dequeue = queue.Dequeue()[0];
  Session session(graph);
#include "snippets/src/data/coordinator.h/1.inc"
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(first_error.ok()) << first_error;
}

Output Decode(Output record) { return ops::DecodeRaw(record, DType::kUint8); }

TEST_F(SnippetTest, Datasets) {
  const InScratchFolder folder;
  for (const char* name : {"train-0.tfrecord", "train-1.tfrecord"}) {
    auto writer = *RecordWriter::Open(name);
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(writer->Write("abc").ok());
    ASSERT_TRUE(writer->Close().ok());
  }
#include "snippets/src/data/dataset.h/1.inc"
  Session session(graph);
  ASSERT_TRUE(images.Start(session).ok());
  const auto got = session.Run(batch);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].shape(), Shape({64, 3}));
}

TEST_F(SnippetTest, DatasetIterators) {
  int64_t total = 0;
#include "snippets/src/data/dataset_iterator.h/1.inc"
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(total, 99 * 100 / 2);
}

#include "snippets/src/summary/event_writer.h/1.inc"

TEST_F(SnippetTest, EventFiles) {
  const InScratchFolder folder;
  const Status logged = Log("logs");
  EXPECT_TRUE(logged.ok()) << logged;
  EXPECT_FALSE(std::filesystem::is_empty("logs"));
}

TEST_F(SnippetTest, ProfiledSteps) {
  const InScratchFolder folder;
  const auto log = *EventWriter::Open("logs");
  const Output loss = Constant(1.0f) + 2.0f;
  Session session(graph);
  const auto profile = [&]() -> Status {
#include "snippets/src/session/step_stats.h/1.inc"
    EXPECT_EQ(out[0].scalar<float>(), 3.0f);
    return OkStatus();
  };
  const Status profiled = profile();
  EXPECT_TRUE(profiled.ok()) << profiled;
}

#include "snippets/src/io/records.h/1.inc"

TEST_F(SnippetTest, FilesOfRecords) {
  const InScratchFolder folder;
  auto writer = *RecordWriter::Open("a");
  const std::string png = "not really";
#include "snippets/src/io/make_example.h/1.inc"
  ASSERT_TRUE(record.ok()) << record.status();
  ASSERT_TRUE(writer->Write(*record).ok());
  ASSERT_TRUE(writer->Close().ok());
  const Status copied = Copy("a", "b");
  ASSERT_TRUE(copied.ok()) << copied;
  auto reader = *RecordReader::Open("b");
  std::string_view bytes;
  ASSERT_TRUE(reader->Read(&bytes).ok());
  EXPECT_EQ(bytes, *record);
}

#include "snippets/docs/board.md/2.inc"

TEST_F(SnippetTest, Logs) {
  const InScratchFolder folder;
  const Var x({1.0f, 2.0f}, "x");
  const Output loss = ops::Mean(x * x, {0});
  Node* const train = GradientDescentOptimizer(0.1).Minimize(loss);
  Session session(graph);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  const Status logged = Train(session, graph, loss, train, "logs/run1");
  ASSERT_TRUE(logged.ok()) << logged;
  int64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator("logs/run1"))
    bytes += static_cast<int64_t>(file.file_size());
  EXPECT_GT(bytes, 100 * 30);
}

}  // namespace
}  // namespace sluice
