// TensorFlow 1's way to read files: a queue of file names, a reader, and a
// queue of batches, filled by queue runners until the data ends. (Datasets do
// this in a few lines: input_pipeline.cc.)
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int kFiles = 3, kRecords = 100, kBatch = 20;

// Examples of a line y = 2 x + 1.
Status WriteFiles(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    SLUICE_ASSIGN_OR_RETURN(auto writer, RecordWriter::Open(file));
    for (int i = 0; i < kRecords; ++i) {
      const float x = static_cast<float>(i) / kRecords;
      SLUICE_ASSIGN_OR_RETURN(const std::string record,
                              MakeExample({{"x", Tensor::Scalar(x)},
                                           {"y", Tensor::Scalar(2 * x + 1)}}));
      SLUICE_RETURN_IF_ERROR(writer->Write(record));
    }
    SLUICE_RETURN_IF_ERROR(writer->Close());
  }
  return OkStatus();
}

Status ReadAndTrain(const std::vector<std::string>& files) {
  // 1. The queue of file names: each of them, ten times.
  const Output epochs = ops::Tile(Tensor::Vector<std::string>(files), {10});
  const Queue names = Queue::Fifo({{DType::kString, {}}});
  Node* const fill = names.EnqueueMany({epochs});
  Node* const no_more = names.Close();

  // 2. The reader takes a name when it has no records left.
  const Output record =
      ops::ReaderReadV2(ops::TFRecordReaderV2(), names.handle()).value;
  const std::vector<Output> example =
      ops::ParseSingleExample(
          record, {Tensor::Vector<float>({}), Tensor::Vector<float>({})},
          /*num_sparse=*/0, /*sparse_keys=*/{}, {"x", "y"},
          /*sparse_types=*/{}, {Shape(), Shape()})
          .dense_values;

  // 3. The queue of examples, filled by two threads, from which batches leave.
  const Queue examples =
      Queue::Shuffling({{DType::kFloat, {}}, {DType::kFloat, {}}},
                       {.capacity = 200, .min_after_dequeue = 50, .seed = 1});
  Node* const put = examples.Enqueue({example[0], example[1]});
  const std::vector<Output> batch = examples.DequeueMany(kBatch);

  Var w(Constant(0.0f), "w"), b(Constant(0.0f), "b");
  const Output loss = ops::Mean(ops::Square(batch[0] * w + b - batch[1]), 0);
  Node* const train = GradientDescentOptimizer(0.5).Minimize(loss);

  Session session;
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_RETURN_IF_ERROR(session.RunTargets({fill}));
  SLUICE_RETURN_IF_ERROR(session.RunTargets({no_more}));
  Coordinator coordinator;
  SLUICE_RETURN_IF_ERROR(
      StartQueueRunner({.enqueue = {put, put}, .close = examples.Close()},
                       session, &coordinator));
  int steps = 0;
  Status status;
  while ((status = session.RunTargets({train})).ok()) ++steps;
  coordinator.RequestStop();
  SLUICE_RETURN_IF_ERROR(coordinator.Join());  // The threads' first error.
  if (status.code() != StatusCode::kOutOfRange) return status;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> line,
                          session.Run(std::vector<Output>{w.Read(), b.Read()}));
  if (steps != 10 * kFiles * kRecords / kBatch)
    return Internal("expected a step for each batch, got ", steps);
  std::printf("%d steps, until the files ended: y = %.2f x + %.2f\n", steps,
              line[0].scalar<float>(), line[1].scalar<float>());
  return OkStatus();
}

}  // namespace

int main() {
  const auto folder = std::filesystem::temp_directory_path() / "sluice_readers";
  std::filesystem::create_directories(folder);
  std::vector<std::string> files;
  for (int i = 0; i < kFiles; ++i)
    files.push_back(folder / (std::to_string(i) + ".tfrecord"));
  Status status = WriteFiles(files);
  if (status.ok()) status = ReadAndTrain(files);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
