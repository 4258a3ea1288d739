// A residual network with batch normalisation (He et al., 2016) learns images
// of clothes: Fashion-MNIST's (Debian's package dataset-fashion-mnist) or, if
// it is not installed, synthetic ones. A Saver writes a checkpoint every 50
// steps: killed and started again, the program goes on from the latest.
//   example_residual_network [STEPS FOLDER]  # The folder of the checkpoints.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "sluice/sluice.h"

using namespace sluice;

// The bytes of images and of labels.
Dataset Images() {
  const std::string path = "/usr/share/datasets/fashion-mnist/train-";
  const auto bytes = [&](const std::string& file, int size, int header) {
    return Dataset::FixedLengthRecords(
               (path + file).c_str(), size,
               {.header_bytes = header, .compression = "GZIP"})
        .Map([](Output record) {
          return ops::DecodeRaw(record, DType::kUint8);
        });
  };
  if (std::filesystem::exists(path + "images-idx3-ubyte.gz"))
    return Dataset::Zip(bytes("images-idx3-ubyte.gz", 28 * 28, 16),
                        bytes("labels-idx1-ubyte.gz", 1, 8));
  std::printf("(no Fashion-MNIST: synthetic images)\n");
  return Dataset::Range(int64_t{5000}).Map([](Output i) {
    const Output label = ops::Cast(ops::Reshape(i % 10, {1}), DType::kUint8);
    const Output row = ops::Cast(ops::Range(0, 784, 1) / 79, DType::kUint8);
    return std::array{ops::Cast(row == label, DType::kUint8) * 200, label};
  });
}

// Two convolutions, whose result is added to what they are given.
Output Block(Output x, int64_t filters, int64_t stride, bool training) {
  ConvOptions conv = {.strides = stride, .padding = Padding::kSame};
  conv.use_bias = false;
  const BatchNormOptions norm = {.momentum = 0.9};
  Output h = BatchNorm(Conv2D(x, filters, 3, conv), training, norm);
  if (stride > 1) x = Conv2D(x, filters, 1, conv);
  conv.strides = 1;
  h = BatchNorm(Conv2D(ops::Relu(h), filters, 3, conv), training, norm);
  return ops::Relu(h + x);
}

Output Network(Output images, bool training) {
  const VariableScope scope("network", {.reuse = Reuse::kAuto});
  Output h = Conv2D(images, 8, 3, {.strides = 2, .activation = ops::Relu});
  h = Block(h, 8, 1, training);
  h = Block(h, 16, 2, training);
  return Dense(GlobalAveragePooling(Block(h, 32, 2, training)), 10);
}

Status Train(int steps, const std::string& folder) {
  SetRandomSeed(1);
  DatasetIterator input =
      Images().Repeat().Shuffle(2000, 1).Batch(100).Prefetch(4).MakeIterator();
  const std::vector<Output> batch = input.Next();
  const Output x = ops::Reshape(ops::Cast(batch[0], DType::kFloat) / 255.0f,
                                {-1, 28, 28, 1});
  const Output y = ops::Cast(ops::Reshape(batch[1], {-1}), DType::kInt64);
  const Output loss = SparseSoftmaxCrossEntropy(y, Network(x, true));
  const Output found = ops::ArgMax(Network(x, false), 1) == y;
  const Output right = ops::Mean(ops::Cast(found, DType::kFloat), 0);
  Var step(Constant(int64_t{0}), "global_step", {.trainable = false});
  Node* update = AdamOptimizer(3e-3).Minimize(loss, {.global_step = step});
  Node* train = Group({update, Group(UpdateOps())});
  Saver saver;
  Session session;
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  if (const Result<std::string> latest = LatestCheckpoint(folder); latest.ok())
    SLUICE_RETURN_IF_ERROR(saver.Restore(session, *latest));
  SLUICE_RETURN_IF_ERROR(input.Start(session));
  SLUICE_ASSIGN_OR_RETURN(const Tensor first, session.Run(step));
  for (int64_t i = first.scalar<int64_t>() + 1; i <= steps; ++i) {
    SLUICE_RETURN_IF_ERROR(session.RunTargets({train}));
    if (i % 50 != 0) continue;
    SLUICE_RETURN_IF_ERROR(saver.Save(session, folder + "/model", i).status());
    SLUICE_ASSIGN_OR_RETURN(const Tensor now, session.Run(loss));
    std::printf("step %3d: loss %.3f\n", int(i), now.scalar<float>());
  }
  SLUICE_ASSIGN_OR_RETURN(const Tensor share, session.Run(right));
  std::printf("%.0f%% are right\n", 100 * share.scalar<float>());
  input.Stop();
  SLUICE_RETURN_IF_ERROR(input.Join());
  return share.scalar<float>() > 0.6f ? OkStatus() : Internal("expected 60%");
}

int main(int argc, char** argv) {
  const std::string folder = argc > 2 ? argv[2] : "residual_network.ckpt";
  if (argc <= 2) std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const Status status = Train(argc > 1 ? std::atoi(argv[1]) : 250, folder);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
