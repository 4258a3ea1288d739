// Figure 2 of "TensorFlow: A system for large-scale machine learning"
// (OSDI'16): reading, decoding and distorting, training and checkpointing run
// concurrently, and meet in queues and variables.
//
// The images are Fashion-MNIST's (Debian's package dataset-fashion-mnist) or,
// if it is not installed, synthetic. They are first written to TFRecord files
// of PNGs.
//
//   example_input_pipeline [folder of train-images-idx3-ubyte.gz ...]
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int kImages = 6000, kShards = 4, kSide = 28, kSteps = 600;

struct Images {
  std::string pixels, labels;  // kSide * kSide bytes and one byte for each.
};

// The bytes of a gzip file after its header, at most `count`; "" if there is no
// such file.
std::string Unpack(const std::string& path, size_t header, size_t count) {
  Result<std::unique_ptr<ByteSource>> file = OpenFileSource(path);
  if (!file.ok()) return "";
  auto source =
      MakeInflatingSource(*std::move(file), RecordCompression::kGzip, path);
  std::string bytes(header + count, '\0');
  size_t done = 0;
  while (source.ok() && done < bytes.size()) {
    const Result<size_t> n =
        (*source)->Read(bytes.data() + done, bytes.size() - done);
    if (!n.ok() || *n == 0) return "";
    done += *n;
  }
  return bytes.substr(header);
}

Images LoadImages(const std::string& folder) {
  Images images;
  images.pixels = Unpack(folder + "/train-images-idx3-ubyte.gz", 16,
                         size_t{kImages} * kSide * kSide);
  images.labels = Unpack(folder + "/train-labels-idx1-ubyte.gz", 8, kImages);
  if (!images.pixels.empty() && !images.labels.empty()) return images;
  std::printf("(no Fashion-MNIST in %s: synthetic images)\n", folder.c_str());
  std::mt19937 random(1);
  images = {};
  for (int i = 0; i < kImages; ++i) {
    const int label = i % 10;
    images.labels.push_back(static_cast<char>(label));
    for (int p = 0; p < kSide * kSide; ++p)
      images.pixels.push_back(static_cast<char>(
          random() % 128 + (p / (kSide * kSide / 10 + 1) == label ? 80 : 0)));
  }
  return images;
}

// Writes shards of Examples with the features "image", a PNG, and "label".
Status WriteShards(const Images& images, const std::string& folder) {
  Graph graph;
  const WithGraph use(graph);
  const Output pixels = Placeholder<uint8_t>({kSide, kSide, 1});
  Session session(graph);
  SLUICE_ASSIGN_OR_RETURN(
      const Session::Callable encode,
      session.MakeCallable({pixels}, {ops::EncodePng(pixels)}));
  constexpr int kBytes = kSide * kSide;
  for (int shard = 0; shard < kShards; ++shard) {
    SLUICE_ASSIGN_OR_RETURN(
        auto writer, RecordWriter::Open(folder + "/images-" +
                                        std::to_string(shard) + ".tfrecord"));
    for (int i = shard; i < kImages; i += kShards) {
      Tensor image(DType::kUint8, {kSide, kSide, 1});
      std::copy_n(images.pixels.begin() + i * kBytes, kBytes,
                  image.flat<uint8_t>().begin());
      SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> png,
                              encode.Run({image}));
      SLUICE_ASSIGN_OR_RETURN(
          const std::string record,
          MakeExample({{"image", png[0]},
                       {"label", Tensor::Scalar<int64_t>(
                                     images.labels[static_cast<size_t>(i)])}}));
      SLUICE_RETURN_IF_ERROR(writer->Write(record));
    }
    SLUICE_RETURN_IF_ERROR(writer->Close());
  }
  return OkStatus();
}

// An image, moved by up to two pixels, as floats, and its label.
std::array<Output, 2> DecodeAndDistort(Output record) {
  const auto example = ops::ParseSingleExample(
      record, {Tensor::Vector<std::string>({}), Tensor::Vector<int64_t>({})},
      /*num_sparse=*/0, /*sparse_keys=*/{}, {"image", "label"},
      /*sparse_types=*/{}, {Shape(), Shape()});
  const Output image = ops::DecodePng(example.dense_values[0], {.channels = 1});
  const Output padded =
      ops::Pad(image, Tensor::Of<int32_t>({3, 2}, {2, 2, 2, 2, 0, 0}));
  const Output by = ops::RandomUniformInt({2}, 0, 5);
  const Output moved =
      ops::Slice(padded, ops::Concat(0, {by, {0}}), {kSide, kSide, 1});
  return {
      ops::Cast(ops::Reshape(moved, {kSide * kSide}), DType::kFloat) / 255.0f,
      example.dense_values[1]};
}

double Seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

Status Train(const std::string& folder) {
  // 1. The input pipeline.
  DatasetIterator input =
      Dataset::FromFiles((folder + "/images-*.tfrecord").c_str())
          .Interleave([](Output file) { return Dataset::TfRecords(file); },
                      kShards)
          .Map(DecodeAndDistort)
          .Shuffle(1000, /*seed=*/1)
          .Repeat()
          .Batch(100, {.drop_remainder = true})
          .Prefetch(4)
          .MakeIterator("input");
  const std::vector<Output> batch = input.Next();

  // 2. The model and its training.
  SetRandomSeed(1);
  Var w1 = GetVariable("w1", {kSide * kSide, 128}, init::GlorotUniform());
  Var w2 = GetVariable("w2", {128, 10}, init::GlorotUniform());
  Var b1(Zeros({128}), "b1"), b2(Zeros({10}), "b2");
  const Output hidden = ops::Relu(ops::MatMul(batch[0], w1) + b1);
  const Output logits = ops::MatMul(hidden, w2) + b2;
  const Output loss = ops::Mean(
      ops::SparseSoftmaxCrossEntropyWithLogits(logits, batch[1]).loss, 0);
  const Output right = ops::Mean(
      ops::Cast(ops::Equal(ops::ArgMax(logits, 1), batch[1]), DType::kFloat),
      0);
  Node* train = AdagradOptimizer(0.05).Minimize(loss);
  Node* init = GlobalVariablesInitializer();

  Session session;
  SLUICE_RETURN_IF_ERROR(session.RunTargets({init}));
  SLUICE_RETURN_IF_ERROR(input.Start(session));

  // 3. Beside it: the variables are written to a file every half second.
  Coordinator coordinator;
  int saved = 0;
  SLUICE_RETURN_IF_ERROR(coordinator.Start([&]() -> Status {
    while (!coordinator.WaitForStop(500)) {
      SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                              session.Run({w1, b1, w2, b2}));
      SLUICE_RETURN_IF_ERROR(
          WriteNpz(folder + "/variables.npz", {{"w1", values[0]},
                                               {"b1", values[1]},
                                               {"w2", values[2]},
                                               {"b2", values[3]}}));
      ++saved;
    }
    return OkStatus();
  }));

  SLUICE_ASSIGN_OR_RETURN(const Session::Callable step,
                          session.MakeCallable({}, {loss, right}, {train}));
  const double started = Seconds();
  float last = 0;
  for (int i = 1; i <= kSteps && !coordinator.ShouldStop(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out, step.Run());
    last += out[1].scalar<float>();
    if (i % 100 == 0) {
      std::printf("step %3d: loss %.3f, accuracy %.2f, %6.0f images/s\n  %s\n",
                  i, out[0].scalar<float>(), last / 100,
                  i * 100 / (Seconds() - started),
                  input.StatusLine(session).c_str());
      if (i < kSteps) last = 0;
    }
  }
  input.Stop();
  coordinator.RequestStop();
  SLUICE_RETURN_IF_ERROR(coordinator.Join());
  SLUICE_RETURN_IF_ERROR(input.Join());
  std::printf("the variables were written %d times\n", saved);
  if (last / 100 < 0.7f) return Internal("expected an accuracy of 0.7");
  return OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder =
      (std::filesystem::temp_directory_path() /
       ("sluice_input_pipeline_" + std::to_string(std::random_device()())))
          .string();
  std::filesystem::create_directories(folder);
  const Images images =
      LoadImages(argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist");
  Status status = WriteShards(images, folder);
  if (status.ok()) status = Train(folder);
  std::filesystem::remove_all(folder);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
