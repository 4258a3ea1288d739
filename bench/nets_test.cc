// The networks match the published ones in shapes and parameters, and they
// learn.
#include <cmath>
#include <random>

#include "bench/networks/language_model.h"
#include "bench/networks/networks.h"
#include "client/nn/large_softmax.h"
#include "gtest/gtest.h"

namespace sluice::bench {
namespace {

using Shapes = std::vector<std::pair<std::string, PartialShape>>;

// Checks the image sizes layer by layer, with a batch of two.
void ExpectLayers(const Network& net, const Shapes& want) {
  ASSERT_EQ(net.layers.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(net.layers[i].first, want[i].first);
    EXPECT_EQ(net.layers[i].second.shape().ToString(),
              want[i].second.ToString())
        << want[i].first;
  }
  EXPECT_EQ(net.loss.shape().ToString(), "[]");
}

class NetworksTest : public ::testing::Test {
 protected:
  // The library counts trainable parameters: weights, biases, scales and
  // offsets, not the moving averages of batch normalisation.
  void ExpectParameters(int64_t want) {
    EXPECT_EQ(TrainableParameters(), want);
    EXPECT_TRUE(graph_.status().ok()) << graph_.status().ToString();
  }

  Graph graph_;
  const WithGraph use_{graph_};
};

TEST_F(NetworksTest, BuildsLeNet) {
  ExpectLayers(LeNet({.batch = 2}), {{"conv1", {2, 28, 28, 32}},
                                     {"pool1", {2, 14, 14, 32}},
                                     {"conv2", {2, 14, 14, 64}},
                                     {"pool2", {2, 7, 7, 64}},
                                     {"dense1", {2, 512}},
                                     {"logits", {2, 10}}});
  ExpectParameters(1663370);
}

TEST_F(NetworksTest, AlexNetHas61MillionParameters) {
  ExpectLayers(AlexNet({.batch = 2}), {{"conv1", {2, 55, 55, 64}},
                                       {"pool1", {2, 27, 27, 64}},
                                       {"conv2", {2, 27, 27, 192}},
                                       {"pool2", {2, 13, 13, 192}},
                                       {"conv3", {2, 13, 13, 384}},
                                       {"conv4", {2, 13, 13, 256}},
                                       {"conv5", {2, 13, 13, 256}},
                                       {"pool5", {2, 6, 6, 256}},
                                       {"dense1", {2, 4096}},
                                       {"dense2", {2, 4096}},
                                       {"logits", {2, 1000}}});
  ExpectParameters(61100840);
}

TEST_F(NetworksTest, OverfeatHas146MillionParameters) {
  ExpectLayers(Overfeat({.batch = 2}), {{"conv1", {2, 56, 56, 96}},
                                        {"pool1", {2, 28, 28, 96}},
                                        {"conv2", {2, 24, 24, 256}},
                                        {"pool2", {2, 12, 12, 256}},
                                        {"conv3", {2, 12, 12, 512}},
                                        {"conv4", {2, 12, 12, 1024}},
                                        {"conv5", {2, 12, 12, 1024}},
                                        {"pool5", {2, 6, 6, 1024}},
                                        {"dense1", {2, 3072}},
                                        {"dense2", {2, 4096}},
                                        {"logits", {2, 1000}}});
  ExpectParameters(145920872);
}

TEST_F(NetworksTest, VggAHas133MillionParameters) {
  ExpectLayers(VggA({.batch = 2}), {{"conv1", {2, 224, 224, 64}},
                                    {"pool1", {2, 112, 112, 64}},
                                    {"conv2", {2, 112, 112, 128}},
                                    {"pool2", {2, 56, 56, 128}},
                                    {"conv3", {2, 56, 56, 256}},
                                    {"conv4", {2, 56, 56, 256}},
                                    {"pool3", {2, 28, 28, 256}},
                                    {"conv5", {2, 28, 28, 512}},
                                    {"conv6", {2, 28, 28, 512}},
                                    {"pool4", {2, 14, 14, 512}},
                                    {"conv7", {2, 14, 14, 512}},
                                    {"conv8", {2, 14, 14, 512}},
                                    {"pool5", {2, 7, 7, 512}},
                                    {"dense1", {2, 4096}},
                                    {"dense2", {2, 4096}},
                                    {"logits", {2, 1000}}});
  ExpectParameters(132863336);
}

TEST_F(NetworksTest, GoogLeNetHas7MillionParameters) {
  ExpectLayers(GoogLeNet({.batch = 2}), {{"conv1", {2, 112, 112, 64}},
                                         {"pool1", {2, 56, 56, 64}},
                                         {"conv2", {2, 56, 56, 64}},
                                         {"conv3", {2, 56, 56, 192}},
                                         {"pool3", {2, 28, 28, 192}},
                                         {"3a", {2, 28, 28, 256}},
                                         {"3b", {2, 28, 28, 480}},
                                         {"pool4", {2, 14, 14, 480}},
                                         {"4a", {2, 14, 14, 512}},
                                         {"4b", {2, 14, 14, 512}},
                                         {"4c", {2, 14, 14, 512}},
                                         {"4d", {2, 14, 14, 528}},
                                         {"4e", {2, 14, 14, 832}},
                                         {"pool5", {2, 7, 7, 832}},
                                         {"5a", {2, 7, 7, 832}},
                                         {"5b", {2, 7, 7, 1024}},
                                         {"pool6", {2, 1024}},
                                         {"logits", {2, 1000}}});
  ExpectParameters(6998552);
}

TEST_F(NetworksTest, InceptionV3Has24MillionParameters) {
  ExpectLayers(InceptionV3({.batch = 2}),
               {{"conv1", {2, 149, 149, 32}}, {"conv2", {2, 147, 147, 32}},
                {"conv3", {2, 147, 147, 64}}, {"pool1", {2, 73, 73, 64}},
                {"conv4", {2, 73, 73, 80}},   {"conv5", {2, 71, 71, 192}},
                {"pool2", {2, 35, 35, 192}},  {"5b", {2, 35, 35, 256}},
                {"5c", {2, 35, 35, 288}},     {"5d", {2, 35, 35, 288}},
                {"6a", {2, 17, 17, 768}},     {"6b", {2, 17, 17, 768}},
                {"6c", {2, 17, 17, 768}},     {"6d", {2, 17, 17, 768}},
                {"6e", {2, 17, 17, 768}},     {"7a", {2, 8, 8, 1280}},
                {"7b", {2, 8, 8, 2048}},      {"7c", {2, 8, 8, 2048}},
                {"pool3", {2, 2048}},         {"logits", {2, 1000}}});
  ExpectParameters(23834568);
}

TEST_F(NetworksTest, InceptionV3AddsAuxiliaryClassifierOnRequest) {
  InceptionV3({.batch = 2, .auxiliary = true});
  ExpectParameters(27161264);
}

TEST_F(NetworksTest, ResNet50Has26MillionParameters) {
  ExpectLayers(ResNet50({.batch = 2}), {{"conv1", {2, 112, 112, 64}},
                                        {"pool1", {2, 56, 56, 64}},
                                        {"stage2", {2, 56, 56, 256}},
                                        {"stage3", {2, 28, 28, 512}},
                                        {"stage4", {2, 14, 14, 1024}},
                                        {"stage5", {2, 7, 7, 2048}},
                                        {"pool5", {2, 2048}},
                                        {"logits", {2, 1000}}});
  ExpectParameters(25557032);
}

TEST_F(NetworksTest, LanguageModelHasTwoWordTablesAndAnLstm) {
  const LanguageModelNetwork net = LanguageModel();
  EXPECT_EQ(net.hidden.shape().dim(2), 512);
  // Embedding, softmax and its bias, the cell.
  ExpectParameters(40000 * 512 + 40000 * 512 + 40000 + (1024 * 2048 + 2048));
}

// ---- Training ---------------------------------------------------------------

struct SmallNetwork {
  const char* name;
  Network (*build)(const NetworkOptions&);
  int64_t size;
  double width, rate;
  int steps = 60;
  bool auxiliary = false;
};

class SmallNetworkTest : public ::testing::TestWithParam<SmallNetwork> {};

TEST_P(SmallNetworkTest, LearnsABatch) {
  constexpr int64_t kBatch = 8, kClasses = 4;
  const SmallNetwork& p = GetParam();
  Graph g;
  const WithGraph use(g);
  SetRandomSeed(4);
  const Network net = p.build({.batch = kBatch,
                               .size = p.size,
                               .classes = kClasses,
                               .width = p.width,
                               .auxiliary = p.auxiliary});
  Node* train = net.Train(p.rate);
  ASSERT_TRUE(g.status().ok()) << g.status().ToString();
  Session session(g);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  Tensor images(DType::kFloat, *net.images.shape().ToShape());
  Tensor labels(DType::kInt32, {kBatch});
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (float& v : images.flat<float>()) v = normal(random);
  for (int i = 0; i < kBatch; ++i) labels.data<int32_t>()[i] = i % kClasses;
  const Feeds feeds = {{net.images, images}, {net.labels, labels}};
  float first = 0, last = 0;
  for (int step = 0; step <= p.steps; ++step) {
    const auto out = session.Run(feeds, {net.loss}, {train});
    ASSERT_TRUE(out.ok()) << out.status().ToString();
    last = (*out)[0].scalar<float>();
    ASSERT_TRUE(std::isfinite(last)) << "step " << step;
    if (step == 0) first = last;
  }
  EXPECT_LT(last, 0.85f * first);
}

INSTANTIATE_TEST_SUITE_P(
    Networks, SmallNetworkTest,
    ::testing::Values(SmallNetwork{"LeNet", LeNet, 28, 0.25, 0.02},
                      SmallNetwork{"AlexNet", AlexNet, 63, 0.125, 0.02},
                      SmallNetwork{"Overfeat", Overfeat, 71, 0.0625, 0.02},
                      SmallNetwork{"VggA", VggA, 32, 0.125, 0.02},
                      SmallNetwork{"GoogLeNet", GoogLeNet, 32, 0.5, 0.02, 100},
                      SmallNetwork{"InceptionV3", InceptionV3, 75, 0.125, 0.05},
                      SmallNetwork{"ResNet50", ResNet50, 32, 0.125, 0.05}),
    [](const auto& info) { return info.param.name; });

TEST(SmallLanguageModelTest, LearnsABatchWithEitherSoftmax) {
  for (const int64_t sampled : {0, 16}) {
    Graph g;
    const WithGraph use(g);
    SetRandomSeed(3);
    const LanguageModelNetwork net = LanguageModel({.batch = 4,
                                                    .steps = 6,
                                                    .vocabulary = 100,
                                                    .embedding = 16,
                                                    .units = 16,
                                                    .sampled = sampled});
    Node* train = net.Train(1);
    Session session(g);
    ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    Tensor words(DType::kInt32, {4, 7});
    for (int i = 0; i < 28; ++i) words.data<int32_t>()[i] = i * 37 % 100;
    float first = 0, last = 0;
    for (int step = 0; step <= 80; ++step) {
      const auto out = session.Run({{net.words, words}}, {net.loss}, {train});
      ASSERT_TRUE(out.ok()) << out.status().ToString();
      last = (*out)[0].scalar<float>();
      if (step == 0) first = last;
    }
    EXPECT_NEAR(first, std::log(100.0f), 0.2f);
    EXPECT_LT(last, 0.6f * first) << sampled << " classes sampled";
  }
}

}  // namespace
}  // namespace sluice::bench
