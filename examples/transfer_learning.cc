// Transfer learning: the layers of a network that TensorFlow trained on other
// classes are read from its checkpoint, and a new last layer learns three new
// classes from forty examples of each.
//
//   transfer_learning examples/checkpoints/shapes
#include <cstdio>
#include <random>
#include <string>

#include "sluice/sluice.h"

using namespace sluice;

constexpr int kSize = 12, kClasses = 3, kTrained = 120, kTested = 600;

// A T, an L and a U, on 5 x 5 pixels.
constexpr const char* kShapes[kClasses] = {"#####..#....#....#....#..",
                                           "#....#....#....#....#####",
                                           "#...##...##...##...######"};

// Noisy images [count, 12, 12, 1] with a shape anywhere, and their classes.
std::pair<Tensor, Tensor> Draw(int count, std::mt19937* random) {
  std::normal_distribution<float> noise(0, 0.3f);
  Tensor images(DType::kFloat, {count, kSize, kSize, 1});
  Tensor classes(DType::kInt32, {count});
  for (int i = 0; i < count; ++i) {
    float* image = images.data<float>() + i * kSize * kSize;
    for (int p = 0; p < kSize * kSize; ++p) image[p] = noise(*random);
    const int shape = i % kClasses;
    const unsigned at = (*random)() % 8 * kSize + (*random)() % 8;
    for (int p = 0; p < 25; ++p)
      if (kShapes[shape][p] == '#') image[at + p / 5 * kSize + p % 5] += 1;
    classes.data<int32_t>()[i] = shape;
  }
  return {images, classes};
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: transfer_learning CHECKPOINT\n");
    return 2;
  }
  SetRandomSeed(1);
  Output images = Placeholder<float>({-1, kSize, kSize, 1});
  Output classes = Placeholder<int32_t>({-1});
  const auto convolved = [](Output x, int64_t filters, const char* name) {
    return MaxPooling(
        Conv2D(
            x, filters, 3,
            {.padding = Padding::kSame, .activation = ops::Relu, .name = name}),
        2);
  };
  Output h = convolved(convolved(images, 8, "conv1"), 16, "conv2");
  h = Dense(Flatten(h), 32, {.activation = ops::Relu, .name = "features"});
  Saver pretrained;  // Of the variables so far, which the checkpoint has.
  Output logits = Dense(h, kClasses, {.name = "head"});
  Output loss = SparseSoftmaxCrossEntropy(classes, logits);
  Output right = ops::Equal(
      ops::ArgMax(logits, 1, {.output_type = DType::kInt32}), classes);
  Output accuracy = ops::Mean(ops::Cast(right, DType::kFloat), 0);
  Node* train = AdamOptimizer(0.01).Minimize(
      loss, {.variables = TrainableVariables("head")});
  Node* init = GlobalVariablesInitializer();

  std::mt19937 random(1);
  const auto [few, few_classes] = Draw(kTrained, &random);
  const auto [many, many_classes] = Draw(kTested, &random);
  float reached[2] = {};
  for (const bool transfer : {false, true}) {
    Session session;
    Status status = session.RunTargets({init});
    if (status.ok() && transfer) status = pretrained.Restore(session, argv[1]);
    for (int step = 0; step < 300 && status.ok(); ++step)
      status =
          session.RunTargets({train}, {{images, few}, {classes, few_classes}});
    const auto tested =
        session.Run({{images, many}, {classes, many_classes}}, accuracy);
    if (!status.ok() || !tested.ok()) {
      std::fprintf(stderr, "%s\n%s\n", status.ToString().c_str(),
                   tested.status().ToString().c_str());
      return 1;
    }
    reached[transfer] = tested->scalar<float>();
    std::printf("%s: accuracy %.3f\n",
                transfer ? "on TensorFlow's features" : "on random features",
                reached[transfer]);
  }
  return reached[1] > reached[0] ? 0 : 1;
}
