// Neural-network ops against values recorded from TensorFlow 2.21, and
// gradients against finite differences.
#include <numeric>
#include <optional>

#include "exec/batching/batch_form.h"
#include "ops/math/test_util.h"

namespace sluice {
namespace {

using IntList = AttrValue::Ints;

// 1, 2, ... in an image of one channel.
Tensor Image(int64_t h, int64_t w) {
  Tensor t(DType::kFloat, Shape({1, h, w, 1}));
  std::iota(t.flat<float>().begin(), t.flat<float>().end(), 1.0f);
  return t;
}

Tensor Filter() {
  return Tensor::Of<float>({3, 3, 1, 1}, {1, 0, -1, 2, .5, -2, 1, 1, -.5});
}

TEST(Conv2D, MatchesRecordedValues) {
  const AttrValue two = IntList{1, 2, 2, 1}, one = IntList{1, 1, 1, 1};
  ExpectOp<float>("Conv2D", {Image(4, 4), Filter()},
                  {{"strides", two}, {"padding", "SAME"}}, Shape({1, 2, 2, 1}),
                  {10.5, 44, 1, 49});
  ExpectOp<float>("Conv2D", {Image(4, 4), Filter()},
                  {{"strides", one}, {"padding", "VALID"}}, Shape({1, 2, 2, 1}),
                  {10.5, 12.5, 18.5, 20.5});
  ExpectOp<float>("Conv2D", {Image(4, 4), Filter()},
                  {{"strides", two},
                   {"padding", "EXPLICIT"},
                   {"explicit_paddings", IntList{0, 0, 1, 0, 0, 2, 0, 0}}},
                  Shape({1, 2, 2, 1}), {4.5, 23, 18.5, 66});
}

TEST(Conv2D, RejectsMismatchedShapes) {
  const Tensor two_channels(DType::kFloat, Shape({3, 3, 2, 1}));
  ExpectInvalid("Conv2D", {Image(4, 4), two_channels},
                {{"strides", IntList{1, 1, 1, 1}}, {"padding", "SAME"}},
                "channels");
  ExpectInvalid("Conv2D", {Image(4, 4), Filter()},
                {{"strides", IntList{2, 1, 1, 1}}, {"padding", "SAME"}},
                "strides");
}

TEST(Conv2D, GradientsMatchDifferences) {
  Tensor x(DType::kDouble, Shape({1, 4, 3, 2}));
  Tensor f(DType::kDouble, Shape({2, 2, 2, 1}));
  for (int64_t i = 0; i < x.num_elements(); ++i)
    x.data<double>()[i] = 0.1 * static_cast<double>(i * i % 7) - 0.2;
  for (int64_t i = 0; i < f.num_elements(); ++i)
    f.data<double>()[i] = 0.3 * static_cast<double>(i % 3) - 0.25;
  for (const char* op : {"Conv2D", "DepthwiseConv2dNative"})
    ExpectGradients(op, {x, f},
                    {{"strides", IntList{1, 2, 1, 1}}, {"padding", "SAME"}});
}

TEST(LayerNorm, RejectsMismatchedShapes) {
  const auto zeros = [](std::initializer_list<int64_t> dims) {
    return *Tensor::Zeros(DType::kFloat, Shape(dims));
  };
  const Tensor x = zeros({2, 3, 4}), row = zeros({4});
  ExpectInvalid("LayerNorm", {x, zeros({3}), zeros({3})}, {},
                "gamma: expected the last dimensions of x, [2,3,4], got [3]");
  ExpectInvalid("LayerNorm", {x, row, zeros({4})}, {{"dims", 2}}, "gamma");
  ExpectInvalid("LayerNorm", {x, row, zeros({1})}, {}, "gamma");
  ExpectInvalid("LayerNorm", {row, zeros({1, 4}), zeros({1, 4})}, {{"dims", 2}},
                "gamma: expected the last dimensions of x, [4], got [1,4]");
  const Tensor moments = zeros({2, 3, 1});
  ExpectInvalid("LayerNormGrad", {zeros({2, 3, 5}), x, row, moments, moments},
                {}, "dy: expected the shape of x, [2,3,4], got [2,3,5]");
  ExpectInvalid("LayerNormGrad", {x, x, row, zeros({2, 3}), moments}, {},
                "[2,3]");
}

TEST(LayerNorm, RejectsDimsThatNoShapeHas) {
  const auto any = [](const char* name) {
    return Build("Placeholder", {}, {{"dtype", DType::kFloat}}, name);
  };
  for (const int64_t dims :
       {int64_t{9}, int64_t{INT32_MAX}, int64_t{1} << 32, INT64_MAX}) {
    Graph g;
    const WithGraph use(g);
    const Output x = any("x"), row = any("row");
    EXPECT_EQ(BuildNode("LayerNorm", {x, row, row}, {{"dims", dims}}), nullptr);
    EXPECT_THAT(std::string(g.status().message()),
                testing::HasSubstr("dims: expected 1 to 8, got " +
                                   std::to_string(dims)));
    Graph of_gradient;
    const WithGraph also(of_gradient);
    const Output y = any("y"), scale = any("scale");
    EXPECT_EQ(BuildNode("LayerNormGrad", {y, y, scale, scale, scale},
                        {{"dims", dims}}),
              nullptr);
    EXPECT_THAT(std::string(of_gradient.status().message()),
                testing::HasSubstr("dims: expected 1 to 8"));
  }
}

// What the static shapes do not say is checked by the kernels.
TEST(LayerNorm, RunsOnlyOnGammaOfRankDims) {
  Graph g;
  const WithGraph use(g);
  const auto any = [](const char* name) {
    return Build("Placeholder", {}, {{"dtype", DType::kFloat}}, name);
  };
  const Output x = any("x"), gamma = any("gamma"), mean = any("mean");
  const Output y = Build("LayerNorm", {x, gamma, gamma}, {{"dims", 1}});
  const Output dx = Build("LayerNormGrad", {x, x, gamma, mean, mean});
  ASSERT_TRUE(g.status().ok()) << g.status();
  Session session(g);
  const auto zeros = [](std::initializer_list<int64_t> dims) {
    return *Tensor::Zeros(DType::kFloat, Shape(dims));
  };
  const auto run = [&](const Output& fetch, const Tensor& row) {
    return session
        .Run({{x, zeros({2, 3, 4})}, {gamma, row}, {mean, zeros({2, 3, 1})}},
             {fetch})
        .status();
  };
  EXPECT_TRUE(run(y, zeros({4})).ok());
  EXPECT_TRUE(run(dx, zeros({4})).ok());
  for (const Output& fetch : {y, dx}) {
    const Status s = run(fetch, zeros({3, 4}));
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
    EXPECT_THAT(
        std::string(s.message()),
        testing::HasSubstr("gamma: expected rank 1, the attribute 'dims', got "
                           "[3,4]"));
  }
}

TEST(LayerNorm, OnlyValidInstancesAreBatched) {
  Graph g;
  const WithGraph use(g);
  const Output any = Build("Placeholder", {}, {{"dtype", DType::kFloat}});
  Node* const n = BuildNode("LayerNorm", {any, any, any}, {{"dims", 2}});
  ASSERT_NE(n, nullptr) << g.status();
  Kernel kernel;
  ASSERT_TRUE(n->op().kernel(*n, &kernel).ok());
  const std::optional<BatchForm> form = FindBatchForm(*n, kernel);
  ASSERT_TRUE(form.has_value());
  const Tensor row = *Tensor::Zeros(DType::kFloat, Shape({2, 4}));
  std::vector<Tensor> valid = {*Tensor::Zeros(DType::kFloat, Shape({3, 2, 4})),
                               row, row};
  EXPECT_TRUE(form->accepts(valid));
  // (Two of these would be a valid batch.)
  std::vector<Tensor> flat = {*Tensor::Zeros(DType::kFloat, Shape({4})), row,
                              row};
  EXPECT_FALSE(form->accepts(flat));
}

TEST(Pool, MatchesRecordedValues) {
  const AttrMap attrs = {{"ksize", IntList{1, 3, 3, 1}},
                         {"strides", IntList{1, 2, 2, 1}},
                         {"padding", "SAME"}};
  ExpectOp<float>("MaxPool", {Image(4, 4)}, attrs, Shape({1, 2, 2, 1}),
                  {11, 12, 15, 16});
  ExpectOp<float>("AvgPool", {Image(4, 4)}, attrs, Shape({1, 2, 2, 1}),
                  {6, 7.5, 12, 13.5});
  Tensor x(DType::kDouble, Shape({1, 4, 3, 1}));
  for (int64_t i = 0; i < x.num_elements(); ++i)
    x.data<double>()[i] = static_cast<double>(i * 5 % 12);
  ExpectGradients("MaxPool", {x}, attrs);
  ExpectGradients("AvgPool", {x}, attrs);
}

template <typename T>
void ExpectIntegerPoolGradients() {
  const AttrMap attrs = {{"ksize", IntList{1, 1, 2, 1}},
                         {"strides", IntList{1, 1, 1, 1}},
                         {"padding", "VALID"}};
  const Tensor x = Tensor::Of<T>({1, 1, 4, 1}, {1, 3, 3, 2});
  const Tensor y = Tensor::Of<T>({1, 1, 3, 1}, {3, 3, 3});
  // The first largest element gets it; overlapping windows add up and wrap
  // around.
  const T most = std::numeric_limits<T>::max();
  ExpectOp<T>("MaxPoolGrad", {x, y, Tensor::Of<T>({1, 1, 3, 1}, {7, most, 5})},
              attrs, x.shape(),
              {0, static_cast<T>(std::numeric_limits<T>::min() + 6), 5, 0});
  ExpectOp<T>("MaxPoolGradGrad",
              {x, y, Tensor::Of<T>({1, 1, 4, 1}, {2, 6, 4, 8})}, attrs,
              y.shape(), {6, 6, 4});
}

TEST(Pool, SupportsIntegerGradients) {
  ExpectIntegerPoolGradients<int8_t>();
  ExpectIntegerPoolGradients<int16_t>();
  ExpectIntegerPoolGradients<int32_t>();
  ExpectIntegerPoolGradients<int64_t>();
  ExpectIntegerPoolGradients<uint8_t>();
  ExpectIntegerPoolGradients<uint16_t>();
  ExpectIntegerPoolGradients<uint32_t>();
  ExpectIntegerPoolGradients<uint64_t>();
}

TEST(CrossEntropy, MatchesRecordedValues) {
  const Tensor logits = Tensor::Of<float>({2, 3}, {1, 2, 3, 0, -1, 5});
  ExpectNear<float>("SparseSoftmaxCrossEntropyWithLogits",
                    {logits, Tensor::Vector<int64_t>({2, 0})}, {},
                    {0.40760595f, 5.0091743f}, 1e-6);
  const Tensor labels = Tensor::Of<float>({2, 3}, {.2f, .3f, .5f, 1, 0, 0});
  const auto both = RunOpAll("SoftmaxCrossEntropyWithLogits", {logits, labels});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_NEAR((*both)[0].data<float>()[0], 1.1076059f, 1e-6);
  EXPECT_NEAR((*both)[1].data<float>()[3], -0.99332356f, 1e-6);
}

TEST(CrossEntropy, OneRowOfLabelsIsBroadcast) {
  const Tensor logits = Tensor::Of<float>({2, 3}, {1, 2, 3, 0, -1, 5});
  for (const Shape& shape : {Shape({3}), Shape({1, 3})}) {
    const Tensor labels =
        Tensor::Vector<float>({.2f, .3f, .5f}).Reshaped(shape).value();
    const auto both =
        RunOpAll("SoftmaxCrossEntropyWithLogits", {logits, labels});
    ASSERT_TRUE(both.ok()) << both.status();
    EXPECT_NEAR((*both)[0].data<float>()[0], 1.1076059f, 1e-6);
    EXPECT_NEAR((*both)[0].data<float>()[1], 2.8091743f, 1e-6);
  }
  ExpectInvalid("SoftmaxCrossEntropyWithLogits",
                {Tensor::Vector<float>({1, 2}), Tensor::Vector<float>({0, 1})},
                {}, "broadcast to [batch, classes], got [2]");
}

TEST(CrossEntropy, ErrorNamesLabelOutOfRange) {
  const Tensor logits = Tensor::Of<float>({2, 3}, {1, 2, 3, 0, -1, 5});
  ExpectInvalid("SparseSoftmaxCrossEntropyWithLogits",
                {logits, Tensor::Vector<int64_t>({0, 3})}, {},
                "in [0, 3), got 3 in row 1");
  ExpectInvalid("SparseSoftmaxCrossEntropyWithLogits",
                {logits, Tensor::Vector<int64_t>({0})}, {}, "a vector of 2");
}

TEST(CrossEntropy, GradientsMatchDifferences) {
  const Tensor logits = Tensor::Of<double>({2, 3}, {1, 2, 3, 0, -1, 2});
  ExpectGradients("SoftmaxCrossEntropyWithLogits",
                  {logits, Tensor::Of<double>({2, 3}, {.2, .3, .5, 1, 0, 0})});
  ExpectGradients("SparseSoftmaxCrossEntropyWithLogits",
                  {logits, Tensor::Vector<int32_t>({2, 0})});
  ExpectGradients("Softmax", {logits});
  ExpectGradients("LogSoftmax", {logits});
}

TEST(Bias, AddsToChannelsOfEitherLayout) {
  const Tensor x = Tensor::Of<float>({1, 2, 1, 2}, {1, 2, 3, 4});
  const Tensor b = Tensor::Vector<float>({10, 20});
  ExpectOp<float>("BiasAdd", {x, b}, {}, x.shape(), {11, 22, 13, 24});
  ExpectOp<float>("BiasAdd", {x, b}, {{"data_format", "NCHW"}}, x.shape(),
                  {11, 12, 23, 24});
  ExpectOp<float>("BiasAddGrad", {x}, {{"data_format", "NCHW"}}, Shape({2}),
                  {3, 7});
  ExpectInvalid("BiasAdd", {x, Tensor::Vector<float>({1})}, {},
                "a vector of 2");
}

TEST(MaxPool, PoolsAdjacentChannels) {
  const AttrMap attrs{{"ksize", AttrValue::Ints{1, 1, 1, 2}},
                      {"strides", AttrValue::Ints{1, 1, 1, 2}},
                      {"padding", "SAME"}};
  const Tensor x = Tensor::Of<float>({1, 1, 2, 4}, {1, 5, -2, -3, 4, 2, 0, 7});
  ExpectOp<float>("MaxPool", {x}, attrs, Shape({1, 1, 2, 2}), {5, -2, 4, 7});
  const auto sizes = Tensor::Vector<int32_t>({1, 1, 1, 2});
  ExpectOp<float>("MaxPoolV2", {x, sizes, sizes}, {{"padding", "VALID"}},
                  Shape({1, 1, 2, 2}), {5, -2, 4, 7});
  AttrMap first = attrs;
  first["data_format"] = "NCHW";
  first["ksize"] = first["strides"] = AttrValue::Ints{1, 2, 1, 1};
  const Tensor planes =
      Tensor::Of<float>({1, 4, 1, 2}, {1, 4, 5, 2, -2, 0, -3, 7});
  ExpectOp<float>("MaxPool", {planes}, first, Shape({1, 2, 1, 2}),
                  {5, 4, -2, 7});
  ExpectOp<float>("MaxPool", {Tensor(DType::kFloat, Shape({0, 1, 2, 4}))},
                  attrs, Shape({0, 1, 2, 2}), {});
}

TEST(MaxPool, RejectsOverlappingOrLeftoverChannels) {
  const Tensor x(DType::kFloat, Shape({1, 2, 2, 4}));
  const auto pool = [&](AttrValue::Ints ksize, AttrValue::Ints strides,
                        const std::string& message,
                        const std::string& op = "MaxPool") {
    ExpectInvalid(op, {x},
                  {{"ksize", ksize},
                   {"strides", strides},
                   {"padding", "SAME"},
                   {"T", DType::kFloat}},
                  message);
  };
  pool({1, 1, 1, 2}, {1, 1, 1, 1}, "their stride");
  pool({1, 1, 1, 3}, {1, 1, 1, 3}, "a multiple of the window of 3");
  pool({1, 2, 1, 2}, {1, 2, 1, 2}, "got both");
  pool({1, 1, 1, 2}, {1, 1, 1, 2}, "1 for the batch and the channels",
       "AvgPool");
}

TEST(BatchNorm, MatchesRecordedValues) {
  Tensor x(DType::kFloat, Shape({1, 2, 2, 2}));
  for (int i = 0; i < 8; ++i) x.data<float>()[i] = static_cast<float>(i * i);
  const Tensor none = Tensor::Vector<float>({});
  const auto got = RunOpAll("FusedBatchNormV3",
                            {x, Tensor::Vector<float>({1, 2}),
                             Tensor::Vector<float>({0, 1}), none, none},
                            {{"epsilon", 0.001f}});
  ASSERT_TRUE(got.ok()) << got.status();
  const std::vector<float> want = {-0.99999744f, -1.1821756f, -0.7142839f,
                                   -0.30930543f, 0.14285678f, 1.4364351f,
                                   1.5714245f,   4.055046f};
  for (int i = 0; i < 8; ++i)
    EXPECT_NEAR((*got)[0].data<float>()[i], want[static_cast<size_t>(i)], 1e-5);
  EXPECT_NEAR((*got)[2].data<float>()[0], 261.33334f, 1e-3);
  EXPECT_NEAR((*got)[4].data<float>()[0], 196.0f, 1e-3);
  EXPECT_EQ((*got)[5].shape(), Shape());  // (It is there for GPUs.)
}

TEST(Activation, GradientsOfBothOrdersMatchDifferences) {
  const Tensor x = Tensor::Of<double>({2, 3}, {-2, -0.7, 0.3, 1.1, 2.5, -0.1});
  const Tensor dy = Tensor::Of<double>({2, 3}, {1, 0.5, -1, 2, 0.7, -0.3});
  for (const char* op : {"Relu", "Relu6", "Elu", "Selu", "LeakyRelu",
                         "Softplus", "Softsign", "Sigmoid", "Tanh"})
    ExpectGradients(op, {x});
  for (const char* op : {"ReluGrad", "Relu6Grad", "EluGrad", "SeluGrad",
                         "LeakyReluGrad", "SoftplusGrad", "SoftsignGrad"})
    ExpectGradients(op, {dy, x});
  for (const char* op : {"SigmoidGrad", "TanhGrad"})
    ExpectGradients(op, {x, dy});
}

TEST(Lrn, MatchesRecordedValues) {
  ExpectNear<float>(
      "LRN", {Tensor::Of<float>({1, 1, 1, 4}, {1, 2, 3, 4})},
      {{"depth_radius", 1}, {"bias", 1.0f}, {"alpha", 0.5f}, {"beta", 0.75f}},
      {0.39079496f, 0.4204482f, 0.38403648f, 0.5679494f}, 1e-6);
}

// Floats are computed by vectors of channels, doubles one by one.
TEST(Dilation, OfFloatsMatchesDoubles) {
  const auto of = [](Shape shape, uint32_t seed, auto like) {
    using T = decltype(like);
    Tensor t(DTypeOf<T>(), shape);
    for (T& v : t.flat<T>())  // (Exact, with many ties.)
      v = static_cast<T>((seed = seed * 1664525 + 1013904223) >> 30);
    return t;
  };
  const AttrMap attrs{{"strides", AttrValue::Ints{1, 2, 1, 1}},
                      {"rates", AttrValue::Ints{1, 1, 2, 1}},
                      {"padding", "SAME"}};
  for (const int64_t channels : {3, 8, 19}) {
    const Shape in({2, 5, 6, channels}), filter({2, 3, channels}),
        out({2, 3, 6, channels});
    const auto run = [&](const char* op, auto like) {
      std::vector<Tensor> args{of(in, 1, like), of(filter, 2, like)};
      if (std::string(op) != "Dilation2D") args.push_back(of(out, 3, like));
      const auto y = RunOp(op, args, attrs);
      EXPECT_TRUE(y.ok()) << y.status();
      const auto flat = y->template flat<decltype(like)>();
      return std::vector<double>(flat.begin(), flat.end());
    };
    for (const char* op :
         {"Dilation2D", "Dilation2DBackpropInput", "Dilation2DBackpropFilter"})
      EXPECT_EQ(run(op, 0.0f), run(op, 0.0)) << op << ", " << channels;
  }
}

// TensorFlow's values. Their sums of probabilities are floats.
TEST(CtcLoss, OfDoublesRoundsAsTensorFlowDoes) {
  const Tensor inputs = Tensor::Of<double>(
      {5, 2, 3}, {-2.526, -1.302, -2.814, -0.924, 2.01,  -1.398, -0.414, 2.388,
                  2.022,  0.456,  0.636,  1.674,  0.84,  -2.976, 2.928,  -2.334,
                  1.062,  -2.058, 0.894,  -0.342, 2.568, -1.524, -2.34,  2.868,
                  0.642,  -2.046, -1.104, 2.52,   2.4,   0.798});
  ExpectNear<double>(
      "CTCLoss",
      {inputs,
       Tensor::Of<int64_t>({6, 2}, {0, 0, 0, 1, 0, 2, 0, 3, 1, 0, 1, 1}),
       Tensor::Vector<int32_t>({0, 0, 1, 1, 1, 0}),
       Tensor::Vector<int32_t>({5, 3})},
      {{"preprocess_collapse_repeated", true}},
      {4.123531701914894, 3.3357318832979694}, 1e-9);
}

TEST(CrossEntropy, OfNoClassesIsZero) {
  const Tensor none = *Tensor::Zeros(DType::kFloat, Shape({2, 0}));
  ExpectOp<float>("SoftmaxCrossEntropyWithLogits", {none, none}, {}, Shape({2}),
                  {0, 0});
}

TEST(Lrn, RejectsInvalidRadius) {
  const Tensor x = *Tensor::Zeros(DType::kFloat, Shape({1, 1, 1, 4}));
  for (const int64_t radius : {int64_t{-1}, INT64_MIN, int64_t{1} << 31})
    ExpectInvalid("LRN", {x}, {{"depth_radius", radius}}, "in [0, 2^31)");
}

}  // namespace
}  // namespace sluice
