#include "client/nn/layers.h"

#include <algorithm>
#include <cmath>

#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/nn/attention.h"
#include "client/nn/convolutions.h"
#include "client/nn/normalization.h"
#include "client/nn/pooling.h"
#include "client/testing/gradient_test_util.h"
#include "client/types_and_shapes.h"
#include "client/variable_scope.h"

namespace sluice {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LayersTest : public GradientTest {
 protected:
  std::string Error() const { return graph_.status().ToString(); }

  static Tensor Random(const Shape& shape, uint32_t seed) {
    Tensor t(DType::kDouble, shape);
    uint64_t state = seed * 2654435761u + 1;
    for (double& v : t.flat<double>()) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      v = static_cast<double>(state >> 40) / (1 << 23) - 1;
    }
    return t;
  }

  // Gradients by x and by all variables, against finite differences.
  void ExpectLayerGradients(const std::function<Output(Output)>& layer,
                            const Shape& shape) {
    const Output x = Placeholder<double>(PartialShape(shape));
    Feeds feeds = {{x, Random(shape, 1)}};
    uint32_t seed = 2;
    const Output y = layer(x);
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    std::vector<Node*> assign;
    for (const Var& v : GlobalVariables())
      assign.push_back(v.Assign(Random(*v.shape().ToShape(), seed++)));
    const Output sum = SumOf(y * y * 0.5);
    std::vector<GradTarget> targets = {x};
    for (const Var& v : TrainableVariables()) targets.push_back(v.handle());
    const std::vector<Output> gradients = Grad({sum}, targets);
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    for (const Var& v : GlobalVariables())
      if (v.name().find("variance") != std::string::npos)
        assign.push_back(v.Assign(Filled(*v.shape().ToShape(), Constant(1.5))));
    Session session(graph_);
    for (Node* a : assign) ASSERT_TRUE(session.RunTargets({a}).ok());
    const auto value = [&](const Output& o, const Tensor& fed) {
      const Result<Tensor> t = session.Run(Feeds{{x, fed}}, o);
      EXPECT_TRUE(t.ok()) << t.status();
      return t.ok() ? *t : Tensor::Scalar<double>(NAN);
    };
    const double h = 1e-5;
    const auto expect = [&](double numeric, double got, const std::string& of) {
      EXPECT_NEAR(got, numeric, 1e-5 * std::max(1.0, std::fabs(numeric))) << of;
    };
    const Tensor at = feeds[0].second;
    const std::vector<double> dx = value(gradients[0], at).ToVector<double>();
    for (size_t i = 0; i < dx.size(); i += 3) {
      double f[2];
      for (int side : {0, 1}) {
        Tensor moved(DType::kDouble, shape);
        std::copy_n(at.flat<double>().begin(), dx.size(),
                    moved.flat<double>().begin());
        moved.flat<double>()[i] += side == 0 ? -h : h;
        f[side] = value(sum, moved).scalar<double>();
      }
      expect((f[1] - f[0]) / (2 * h), dx[i], "x " + std::to_string(i));
    }
    size_t g = 1;
    for (const Var& v : TrainableVariables()) {
      const Shape s = *v.shape().ToShape();
      const std::vector<double> dv =
          value(gradients[g++], at).ToVector<double>();
      const std::vector<double> start = value(v, at).ToVector<double>();
      const Output fed = Placeholder<double>(PartialShape(s));
      Node* const set = v.Assign(fed);
      for (size_t i = 0; i < dv.size(); i += 2) {
        double f[2];
        for (int side : {0, 1}) {
          std::vector<double> moved = start;
          moved[i] += side == 0 ? -h : h;
          ASSERT_TRUE(
              session
                  .RunTargets({set}, Feeds{{fed, Tensor::Of<double>(s, moved)}})
                  .ok());
          f[side] = value(sum, at).scalar<double>();
        }
        expect((f[1] - f[0]) / (2 * h), dv[i],
               v.name() + " " + std::to_string(i));
      }
      ASSERT_TRUE(
          session.RunTargets({set}, Feeds{{fed, Tensor::Of<double>(s, start)}})
              .ok());
    }
  }
};

TEST_F(LayersTest, DenseHasItsGradients) {
  ExpectLayerGradients(
      [](Output x) { return Dense(x, 3, {.activation = ops::Tanh}); },
      {2, 3, 4});
}

TEST_F(LayersTest, BatchNormHasItsGradients) {
  ExpectLayerGradients([](Output x) { return BatchNorm(x, true); }, {5, 3});
}

TEST_F(LayersTest, BatchNormOfInferenceHasItsGradients) {
  ExpectLayerGradients(
      [](Output x) { return BatchNorm(x, false, {.axis = 1}); }, {2, 3, 2});
}

TEST_F(LayersTest, LayerNormHasItsGradients) {
  ExpectLayerGradients([](Output x) { return LayerNorm(x, {.first_axis = 1}); },
                       {2, 3, 4});
}

TEST_F(LayersTest, LayerNormIsOneOpOrThoseOfTensorFlow) {
  const Output x = Placeholder<float>({2, 3, 4});
  const auto gradients_of = [&](bool fused) {
    const VariableScope scope(fused ? "fused" : "plain");
    const Output y = LayerNorm(x, {.first_axis = 1,
                                   .beta_initializer = init::Constant(0.5),
                                   .gamma_initializer = init::Constant(2),
                                   .fused = fused});
    std::vector<GradTarget> targets = {x};
    for (const Var& v : TrainableVariables())
      if (v.name().starts_with(scope.name() + "/"))
        targets.push_back(v.handle());
    std::vector<Output> all = Grad({SumOf(y * y * y)}, targets);
    all.push_back(y);
    return all;
  };
  const auto own_ops = [&] {
    return std::count_if(
        graph_.nodes().begin(), graph_.nodes().end(),
        [](const auto& n) { return n->op().name.starts_with("LayerNorm"); });
  };
  const std::vector<Output> plain = gradients_of(false);
  EXPECT_EQ(own_ops(), 0);
  const std::vector<Output> fused = gradients_of(true);
  EXPECT_EQ(own_ops(), 2);  // And its gradient.
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  ASSERT_EQ(plain.size(), 4u);
  ASSERT_EQ(fused.size(), 4u);
  Initialize();
  Tensor fed(DType::kFloat, {2, 3, 4});
  const Tensor drawn = Random({2, 3, 4}, 9);
  std::copy_n(drawn.data<double>(), 24, fed.data<float>());
  for (size_t i = 0; i < 4; ++i) {
    const std::vector<float> want = Values<float>(plain[i], {{x, fed}}),
                             got = Values<float>(fused[i], {{x, fed}});
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k)
      EXPECT_NEAR(got[k], want[k], 1e-4 * (1 + std::fabs(want[k])))
          << i << ' ' << k;
  }
}

// 1e-7 is no float.
TEST_F(LayersTest, LayerNormOfDoublesKeepsItsEpsilon) {
  const Output x = Constant(Tensor::Of<double>({1, 2}, {1e-4, -1e-4}));
  const Output y = LayerNorm(x, {.epsilon = 1e-7});
  Initialize();
  EXPECT_NEAR(Values<double>(y)[0], 1e-4 / std::sqrt(1e-8 + 1e-7), 1e-12);
}

TEST_F(LayersTest, AttentionHasItsGradients) {
  ExpectLayerGradients(
      [](Output x) { return MultiHeadAttention(x, 2, 3, {.causal = true}); },
      {2, 4, 3});
}

TEST_F(LayersTest, AttentionToAnotherSequenceHasItsGradients) {
  ExpectLayerGradients(
      [](Output x) {
        const Output memory = Constant(Random({2, 5, 4}, 77));
        return MultiHeadAttention(
            x, 2, 2, {.value = memory, .key = memory * 0.5, .value_size = 3});
      },
      {2, 3, 3});
}

TEST_F(LayersTest, LayersAreNamedAfterTheirKind) {
  const Output x = Zeros({2, 8, 8, 3});
  Output h = Conv2D(Conv2D(x, 4, 3), 4, 3);
  h = BatchNorm(h, true);
  h = Dense(Dense(Flatten(h), 5), 5, {.name = "logits"});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  std::vector<std::string> names;
  for (const Var& v : TrainableVariables()) names.push_back(v.name());
  EXPECT_THAT(names,
              ElementsAre("conv2d/kernel", "conv2d/bias", "conv2d_1/kernel",
                          "conv2d_1/bias", "batch_normalization/gamma",
                          "batch_normalization/beta", "dense/kernel",
                          "dense/bias", "logits/kernel", "logits/bias"));
}

TEST_F(LayersTest, ModelsShareTheirLayersThroughAScope) {
  const auto model = [](Output x) {
    const VariableScope scope("model", {.reuse = Reuse::kAuto});
    return Dense(Dense(x, 4), 2);
  };
  const Output x = RandomUniform({3, 5}, 0, 1, {.seed = 1});
  const Output fixed = Constant(Eval(x));
  const Output a = model(fixed), b = model(fixed);
  EXPECT_EQ(GlobalVariables().size(), 4u);
  Initialize();
  EXPECT_EQ(Values<float>(a), Values<float>(b));
}

TEST_F(LayersTest, ChannelsFirstIsTheSameOnTransposedImages) {
  const auto first = [](const Output& x) {
    std::vector<int32_t> order(static_cast<size_t>(x.shape().rank()));
    for (size_t i = 2; i < order.size(); ++i)
      order[i] = static_cast<int32_t>(i) - 1;
    order[1] = x.shape().rank() - 1;
    return ops::Transpose(x, IntVector(order));
  };
  constexpr DataFormat kFirst = DataFormat::kChannelsFirst;
  using Build = std::function<Output(Output, DataFormat)>;
  const std::vector<std::pair<int, Build>> layers = {
      {1,
       [](Output x, DataFormat f) { return Conv1D(x, 3, 2, {.format = f}); }},
      {2,
       [](Output x, DataFormat f) { return Conv2D(x, 3, 2, {.format = f}); }},
      {3,
       [](Output x, DataFormat f) { return Conv3D(x, 3, 2, {.format = f}); }},
      {2,
       [](Output x, DataFormat f) {
         return Conv2DTranspose(x, 3, 3, {.strides = 2, .format = f});
       }},
      {3,
       [](Output x, DataFormat f) {
         return Conv3DTranspose(x, 3, 3, {.strides = 2, .format = f});
       }},
      {1,
       [](Output x, DataFormat f) { return MaxPooling(x, 2, {.format = f}); }},
      {2, [](Output x,
             DataFormat f) { return AveragePooling(x, 2, {.format = f}); }},
      {3,
       [](Output x, DataFormat f) { return MaxPooling(x, 2, {.format = f}); }},
      {2, [](Output x, DataFormat f) {
         return BatchNorm(x, true, {.axis = f == kFirst ? 1 : 3});
       }}};
  for (size_t i = 0; i < layers.size(); ++i) {
    SCOPED_TRACE("layer " + std::to_string(i));
    const auto& [n, build] = layers[i];
    const Shape shape = n == 1   ? Shape({2, 5, 3})
                        : n == 2 ? Shape({2, 4, 5, 3})
                                 : Shape({2, 3, 4, 5, 3});
    const Output x = ops::Cast(
        Constant(Random(shape, static_cast<uint32_t>(i))), DType::kFloat);
    const VariableScope scope("layer" + std::to_string(i),
                              {.reuse = Reuse::kAuto});
    Output last, swapped;
    {
      const VariableScope s("part");
      last = first(build(x, {}));
    }
    {
      const VariableScope s("part");
      swapped = build(first(x), kFirst);
    }
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    Initialize();
    const std::vector<float> a = Values<float>(last),
                             b = Values<float>(swapped);
    ASSERT_EQ(a.size(), b.size());
    for (size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-5);
  }
}

TEST_F(LayersTest, GlobalPoolingAndFlattenKnowChannelsFirst) {
  const Output x =
      Constant(Tensor::Of<float>({1, 2, 2, 1}, {1, 2, 30, 40}));  // 2 channels.
  constexpr DataFormat kFirst = DataFormat::kChannelsFirst;
  EXPECT_THAT(Values<float>(GlobalMaxPooling(x, kFirst)), ElementsAre(2, 40));
  EXPECT_THAT(Values<float>(GlobalAveragePooling(x, kFirst)),
              ElementsAre(1.5f, 35));
  EXPECT_THAT(Values<float>(Flatten(x, kFirst)), ElementsAre(1, 30, 2, 40));
  EXPECT_THAT(Values<float>(Flatten(x)), ElementsAre(1, 2, 30, 40));
}

TEST_F(LayersTest, SizesOfABatchMayBeUnknown) {
  const Output x = Placeholder<float>({-1, -1, 4});
  const Output images = Placeholder<float>({-1, -1, -1, 3});
  const std::vector<Output> ys = {
      Dense(x, 3),
      MultiHeadAttention(x, 2, 2, {.causal = true}),
      Conv2DTranspose(images, 2, 3, {.strides = 2}),
      Flatten(x),
      BatchNorm(images, true),
      LayerNorm(x),
      Dropout(x, 0.5, true, {.noise_shape = {-1, 1, -1}})};
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Initialize();
  const Feeds feeds = {{x, *Tensor::Zeros(DType::kFloat, {2, 3, 4})},
                       {images, *Tensor::Zeros(DType::kFloat, {2, 4, 5, 3})}};
  std::vector<std::string> shapes;
  for (const Output& y : ys)
    shapes.push_back(Eval(y, feeds).shape().ToString());
  EXPECT_THAT(shapes, ElementsAre("[2,3,3]", "[2,3,4]", "[2,9,11,2]", "[2,12]",
                                  "[2,4,5,3]", "[2,3,4]", "[2,3,4]"));
}

TEST_F(LayersTest, DropoutKeepsTheMean) {
  const Output x = Ones({200, 100});
  const std::vector<float> y =
      Values<float>(Dropout(x, 0.25, true, {.seed = 5}));
  double sum = 0;
  for (const float v : y) {
    EXPECT_TRUE(v == 0 || std::fabs(v - 4.0f / 3) < 1e-6f) << v;
    sum += v;
  }
  EXPECT_NEAR(sum / 20000, 1, 0.02);
  EXPECT_THAT(Values<float>(Dropout(x, 0.25, false)), Each(1));
}

TEST_F(LayersTest, AStepDecidesWhetherDropoutTrains) {
  const Output training = Placeholder<bool>({});
  const Output y = Dropout(Ones({100}), 0.9, training, {.seed = 5});
  EXPECT_THAT(Values<float>(y, {{training, Tensor::Scalar<bool>(false)}}),
              Each(1));
  EXPECT_THAT(Values<float>(y, {{training, Tensor::Scalar<bool>(true)}}),
              ::testing::Contains(0));
}

TEST_F(LayersTest, InferenceMovesNoAverages) {
  const Output training = Placeholder<bool>({});
  const Output x = Constant(Tensor::Of<float>({2, 1}, {4, 6}));
  (void)BatchNorm(x, false);
  EXPECT_TRUE(UpdateOps().empty());
  (void)BatchNorm(x, training, {.momentum = 0.5, .name = "bn"});
  ASSERT_EQ(UpdateOps().size(), 2u);
  Initialize();
  const Var mean = Var::FromHandle(Output(graph_.FindNode("bn/moving_mean")));
  Node* const update = Group(UpdateOps());
  RunNode(update, {{training, Tensor::Scalar<bool>(false)}});
  EXPECT_THAT(Values<float>(mean), ElementsAre(0));
  RunNode(update, {{training, Tensor::Scalar<bool>(true)}});
  EXPECT_THAT(Values<float>(mean), ElementsAre(2.5f));
}

TEST_F(LayersTest, HalfInputsHaveFloatStatistics) {
  const Output x = ops::Cast(Ones({2, 4, 4, 3}), DType::kHalf);
  const Output y = BatchNorm(x, true), z = LayerNorm(x);
  EXPECT_EQ(y.dtype(), DType::kHalf);
  EXPECT_EQ(z.dtype(), DType::kHalf);
  for (const Var& v : GlobalVariables()) EXPECT_EQ(v.dtype(), DType::kFloat);
  Initialize();
  EXPECT_EQ(Eval(z).shape(), Shape({2, 4, 4, 3}));
  EXPECT_EQ(Eval(y).shape(), Shape({2, 4, 4, 3}));
}

TEST_F(LayersTest, LayersOfALoopTrain) {
  const Output x = Constant(Tensor::Of<float>({1, 2}, {1, -1}));
  SetRandomSeed(1);  // Before the initialisers that take it.
  const VariableScope scope("m", {.reuse = Reuse::kAuto});
  const auto [i, h] = While(
      std::tuple{0, x}, [](Output i, Output) { return i < 3; },
      [](Output i, Output h) {
        const VariableScope body("body");
        return std::tuple{
            i + 1, Dense(h, 2, {.activation = ops::Tanh, .name = "step"})};
      });
  const Output loss = ops::Sum(h * h, {0, 1});
  Node* train = GradientDescentOptimizer(0.5).Minimize(loss);
  ASSERT_NE(train, nullptr) << graph_.status();
  Initialize();
  const float before = Eval(loss).scalar<float>();
  for (int k = 0; k < 20; ++k) RunNode(train);
  EXPECT_LT(Eval(loss).scalar<float>(), before);
}

TEST_F(LayersTest, ErrorsNameTheLayerTheRuleAndTheLine) {
  const Output x = Zeros({2, 3}), image = Zeros({2, 4, 4, 3});
  struct Case {
    std::string message;
    std::function<Output()> build;
  };
  const std::vector<Case> cases = {
      {"Dense: expected an input of rank 2 to 8, got float[3]",
       [] { return Dense(Zeros({3}), 2); }},
      {"Dense: expected units from 1 to 2147483647, got 0",
       [&] { return Dense(x, 0); }},
      {"Dense: expected an input of a floating type, got int32",
       [] {
         return Dense(Zeros({2, 3}, DType::kInt32), 2);
       }},
      {"Dense: expected an input whose dimension 1 is known when the graph is "
       "built, got [2,?]",
       [] {
         return Dense(Placeholder<float>({2, -1}), 2);
       }},
      {"Conv2D: expected an input of rank 4, got float[2,3]",
       [&] { return Conv2D(x, 2, 3); }},
      {"Conv2D: expected 1 or 2 strides, got 3",
       [&] {
         return Conv2D(image, 2, 3, {.strides = {1, 2, 3}});
       }},
      {"Conv2D: expected strides or dilations of 1, got more of both",
       [&] { return Conv2D(image, 2, 3, {.strides = 2, .dilations = 2}); }},
      {"Conv2DTranspose: expected no dilations, got 2",
       [&] { return Conv2DTranspose(image, 2, 3, {.dilations = 2}); }},
      {"MaxPooling: expected an input of rank 3 to 5, got float[2,3]",
       [&] { return MaxPooling(x, 2); }},
      {"AveragePooling: expected window sizes from 1 to 2147483647, got -1",
       [&] { return AveragePooling(image, -1); }},
      {"BatchNorm: expected an axis from -2 to 1, got 2",
       [&] { return BatchNorm(x, true, {.axis = 2}); }},
      {"BatchNorm: expected `training` to be a bool scalar, got int32",
       [&] { return BatchNorm(x, 1); }},
      {"BatchNorm: expected a momentum in [0, 1], got 2",
       [&] { return BatchNorm(x, true, {.momentum = 2}); }},
      {"LayerNorm: expected a first axis from -2 to 1, got -3",
       [&] { return LayerNorm(x, {.first_axis = -3}); }},
      {"Dropout: expected a rate in [0, 1), got 1",
       [&] { return Dropout(x, 1, true); }},
      {"Dropout: expected a noise shape of rank 2, got rank 1",
       [&] { return Dropout(x, 0.5, true, {.noise_shape = {2}}); }},
      {"Embedding: expected ids of type int32 or int64, got float",
       [&] { return Embedding(x, 10, 4); }},
      {"MultiHeadAttention: expected an input of rank 3, got float[2,3]",
       [&] { return MultiHeadAttention(x, 2, 3); }},
      {"MultiHeadAttention: expected a mask of type bool and rank 2 to 4, got "
       "float[2,3]",
       [&] {
         return MultiHeadAttention(Zeros({2, 3, 4}), 2, 3, {.mask = x});
       }},
      {"DepthwiseConv2D: expected strides that are the same, got 1 and 2",
       [&] {
         return DepthwiseConv2D(image, 2, {.strides = {1, 2}});
       }},
      {"SeparableConv2D: expected depth_multiplier from 1 to 2147483647, got 0",
       [&] { return SeparableConv2D(image, 2, 2, {.depth_multiplier = 0}); }},
      {"BatchNorm: expected limits of renorm with min_r <= max_r, got 2 and 1",
       [&] {
         return BatchNorm(
             x, true, {.renorm = RenormOptions{.min_r = 2.0, .max_r = 1.0}});
       }},
      {"constraint of variable 'dense/kernel'",
       [&] {
         return Dense(x, 3, {.kernel_constraint = [&](Output w) {
                        return w * ops::Sum(x, {0, 1});
                      }});
       }},
      {"Flatten: expected an input of known rank from 1 on, got []",
       [] { return Flatten(Constant(1.0f)); }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    const size_t before = graph_.errors().size();
    EXPECT_FALSE(c.build().valid());
    ASSERT_GT(graph_.errors().size(), before);
    const std::string error = graph_.errors().back().ToString();
    EXPECT_THAT(error, HasSubstr(c.message));
    EXPECT_THAT(error, HasSubstr("layers_test.cc:"));
  }
}

TEST_F(LayersTest, IdsOutOfRangeFailTheStep) {
  const Output ids = Placeholder<int32_t>({2});
  const Output y = Embedding(ids, 10, 4);
  Initialize();
  const Status s =
      session_.Run(Feeds{{ids, Tensor::Vector<int32_t>({3, 10})}}, y).status();
  EXPECT_THAT(s.ToString(), HasSubstr("10"));
  EXPECT_FALSE(s.ok());
}

TEST_F(LayersTest, AveragesStayFiniteInAStepThatDoesNotTrain) {
  const Output training = Placeholder<bool>({});
  const float nan = std::nanf("");
  (void)BatchNorm(Constant(Tensor::Of<float>({2, 1}, {nan, 1})), training,
                  {.name = "plain"});
  (void)BatchNorm(Filled({1, 2, 2, 1}, nan), training, {.name = "fused"});
  Initialize();
  ASSERT_EQ(UpdateOps().size(), 4u);
  RunNode(Group(UpdateOps()), {{training, Tensor::Scalar<bool>(false)}});
  for (const char* name : {"plain/moving_mean", "fused/moving_mean"})
    EXPECT_THAT(Values<float>(Var::FromHandle(graph_.FindNode(name))),
                ElementsAre(0))
        << name;
}

TEST_F(LayersTest, AveragesOfBodiesBranchesAndLoopsMoveWithTheResult) {
  const Output x = Constant(Tensor::Of<float>({2, 1}, {4, 6}));
  const auto layer = [](const Output& in, const char* name) {
    return BatchNorm(in, true, {.momentum = 0.5, .name = name});
  };
  const auto mean = [&](const std::string& name) {
    return Values<float>(
        Var::FromHandle(graph_.FindNode(name + "/moving_mean")));
  };
  const Output taken = Placeholder<bool>({});
  const Output branch = Cond(
      taken, [&] { return layer(x, "branch"); }, [&] { return x * 1; });
  const Function f = DefineFunction(
      "f", {DType::kFloat}, [&](const std::vector<Output>& args) {
        return layer(Shaped(args[0], {2, 1}, {}), "body");
      });
  const Output called = f({x})[0];
  const VariableScope scope("m", {.reuse = Reuse::kAuto});
  const auto [i, h] = While(
      std::tuple{0, x}, [](Output n, Output) { return n < 2; },
      [&](Output n, Output) {
        return std::tuple{n + 1, layer(x, "loop")};
      });
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_TRUE(UpdateOps().empty());
  Initialize();
  (void)Eval(branch, {{taken, Tensor::Scalar<bool>(false)}});
  EXPECT_THAT(mean("branch"), ElementsAre(0));
  (void)Eval(branch, {{taken, Tensor::Scalar<bool>(true)}});
  EXPECT_THAT(mean("branch"), ElementsAre(2.5f));
  (void)Eval(called);
  std::string body;
  for (const Var& v : GlobalVariables())
    if (v.name().ends_with("body/moving_mean")) body = v.name();
  EXPECT_THAT(Values<float>(Var::FromHandle(graph_.FindNode(body))),
              ElementsAre(2.5f));
  (void)Eval(h);
  EXPECT_THAT(mean("m/loop"), ElementsAre(3.75f));
}

TEST_F(LayersTest, FunctionsAsActivationsGetTheRankOfTheResult) {
  std::vector<PartialShape> seen;
  const Activation note = [&](const Output& y) {
    seen.push_back(y.shape());
    return y * 2;
  };
  (void)Dense(Ones({2, 3, 4}), 5, {.activation = note});
  (void)Conv1D(Ones({2, 6, 4}), 5, 3, {.activation = note});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_THAT(seen,
              ElementsAre(PartialShape({2, 3, 5}), PartialShape({2, 4, 5})));
}

TEST_F(LayersTest, EmbeddingReadsOnlyTheRowsOfItsIds) {
  const Output y = Embedding(Constant(Tensor::Vector<int32_t>({3, 1})), 10, 4);
  ASSERT_TRUE(y.valid()) << graph_.status();
  EXPECT_EQ(y.node->op_name(), "ResourceGather");
}

TEST_F(LayersTest, AttentionTakesOneBatchOnly) {
  const Output other = Ones({5, 3, 4});
  const auto expect = [&](const MultiHeadAttentionOptions& o,
                          const std::string& rule) {
    Graph g;
    const WithGraph use(g);
    const Output query = Ones({2, 3, 4});
    MultiHeadAttentionOptions own = o;
    if (o.value.valid()) own.value = Ones({5, 3, 4});
    if (o.mask.valid()) own.mask = Filled(*o.mask.shape().ToShape(), true);
    EXPECT_FALSE(MultiHeadAttention(query, 2, 4, own).valid());
    EXPECT_THAT(g.status().ToString(), HasSubstr(rule));
  };
  expect({.value = other}, "query, key and value of one batch");
  expect({.mask = Filled({5, 3, 3}, true)},
         "a mask that broadcasts to the scores, [2,2,3,3], got [5,3,3]");
  expect({.mask = Filled({2, 3, 3, 3}, true)}, "got [2,3,3,3]");
  // A batch that is known in the step only.
  const Output x = Placeholder<float>({-1, 3, 4});
  const Output mask = Placeholder<bool>({-1, 3, 3});
  const Output y = MultiHeadAttention(x, 2, 4, {.mask = mask});
  ASSERT_TRUE(y.valid()) << graph_.status();
  EXPECT_EQ(y.shape(), PartialShape({-1, 3, 4}));
  Initialize();
  const auto run = [&](int64_t batch) {
    return session_
        .Run(Feeds{{x, Tensor(DType::kFloat, {1, 3, 4})},
                   {mask, Tensor(DType::kBool, {batch, 3, 3})}},
             y)
        .status();
  };
  EXPECT_TRUE(run(1).ok()) << run(1);
  EXPECT_FALSE(run(2).ok());
}

}  // namespace
}  // namespace sluice
