// Gradients of ops without a double kernel, and of ops with an output without a
// gradient, against finite differences.
#include "client/autodiff/gradients.h"

#include <cmath>
#include <random>

#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "gtest/gtest.h"
#include "session/session.h"

namespace sluice {
namespace {

constexpr uint32_t kGradSeed = 97;

Tensor DrawUnit(std::mt19937* rng, const Dims& dims) {
  std::uniform_real_distribution<float> draw(-1, 1);
  Tensor t(DType::kFloat, *Shape::Make({dims.data(), dims.size()}));
  for (float& v : t.flat<float>()) v = draw(*rng);
  return t;
}

// The sum of `weights` * output `which` of the node with these inputs.
double WeightedSum(const Node& n, const std::vector<Tensor>& inputs, int which,
                   const Tensor& weights) {
  const auto out = RunKernel(n, inputs);
  EXPECT_TRUE(out.ok()) << out.status();
  double sum = 0;
  for (int64_t i = 0; out.ok() && i < weights.num_elements(); ++i)
    sum += static_cast<double>(weights.data<float>()[i]) *
           static_cast<double>(
               (*out)[static_cast<size_t>(which)].data<float>()[i]);
  return sum;
}

// The gradients of output `which` for all float inputs. `h`: the difference.
void ExpectFloatGradients(const char* op, std::vector<Tensor> inputs,
                          const AttrMap& attrs, int which, double h,
                          std::mt19937* rng) {
  SCOPED_TRACE(testing::Message() << op << ", seed " << kGradSeed);
  Graph g;
  WithGraph use(g);
  std::vector<Output> in;
  for (const Tensor& t : inputs) in.push_back(Constant(t));
  Node* n = BuildNode(op, in, attrs);
  ASSERT_NE(n, nullptr) << g.status();
  const auto out = RunKernel(*n, inputs);
  ASSERT_TRUE(out.ok()) << out.status();
  const Shape shape = (*out)[static_cast<size_t>(which)].shape();
  const Tensor weights =
      DrawUnit(rng, Dims(shape.dims().begin(), shape.dims().end()));
  std::vector<Output> ys{Output(n, which)};
  std::vector<GradTarget> xs;
  std::vector<size_t> places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != DType::kFloat) continue;
    xs.push_back(in[i]);
    places.push_back(i);
  }
  GradientOptions options;
  options.grad_ys = {Constant(weights)};
  const auto grads = Gradients(ys, xs, options);
  ASSERT_TRUE(grads.ok()) << grads.status();
  Session session(g);
  for (size_t x = 0; x < xs.size(); ++x) {
    if (!(*grads)[x]) continue;
    const Result<Tensor> got =
        session.Run({}, Densify((*grads)[x], xs[x].output));
    ASSERT_TRUE(got.ok()) << got.status();
    for (int64_t k = 0; k < got->num_elements(); ++k) {
      double side[2];
      for (int s = 0; s < 2; ++s) {
        std::vector<Tensor> moved = inputs;
        Tensor& t = moved[places[x]];
        t = *t.Clone();
        t.data<float>()[k] += static_cast<float>(s == 0 ? h : -h);
        side[s] = WeightedSum(*n, moved, which, weights);
      }
      EXPECT_NEAR(static_cast<double>(got->data<float>()[k]),
                  (side[0] - side[1]) / (2 * h), 2e-3)
          << "input " << places[x] << ", element " << k;
    }
  }
}

std::vector<Tensor> LstmInputs(std::mt19937* rng) {
  std::vector<Tensor> in{Tensor::Scalar<int64_t>(2)};
  for (const Dims& dims : {Dims{3, 2, 3}, Dims{2, 2}, Dims{2, 2}, Dims{5, 8},
                           Dims{2}, Dims{2}, Dims{2}, Dims{8}})
    in.push_back(DrawUnit(rng, dims));
  return in;
}

TEST(NnGradients, BlockLstmMatchesDifferences) {
  std::mt19937 rng(kGradSeed);
  for (const char* op : {"BlockLSTM", "BlockLSTMV2"})
    for (const int output : {1, 6})
      for (const bool peephole : {false, true})
        ExpectFloatGradients(op, LstmInputs(&rng),
                             {{"use_peephole", peephole}, {"cell_clip", -1.0f}},
                             output, 1e-2, &rng);
}

TEST(NnGradients, MaxPool3dMatchesDifferencesToSecondOrder) {
  std::mt19937 rng(kGradSeed);
  const AttrMap attrs{{"ksize", AttrValue::Ints{1, 2, 2, 2, 1}},
                      {"strides", AttrValue::Ints{1, 2, 1, 2, 1}},
                      {"padding", "SAME"}};
  const Tensor in = DrawUnit(&rng, {1, 4, 3, 4, 2});
  ExpectFloatGradients("MaxPool3D", {in}, attrs, 0, 1e-4, &rng);
  Graph g;
  WithGraph use(g);
  const auto out =
      RunKernel(*BuildNode("MaxPool3D", {Constant(in)}, attrs), {in});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectFloatGradients("MaxPool3DGradGrad",
                       {in, (*out)[0], DrawUnit(&rng, {1, 4, 3, 4, 2})}, attrs,
                       0, 1e-4, &rng);
}

TEST(NnGradients, CtcLossMatchesDifferencesAndHasNoSecondOrder) {
  std::mt19937 rng(kGradSeed);
  const Tensor inputs = DrawUnit(&rng, {5, 2, 4});
  const Tensor indices =
      Tensor::Of<int64_t>(Shape({5, 2}), {0, 0, 0, 1, 1, 0, 1, 1, 1, 2});
  const Tensor values = Tensor::Vector<int32_t>({0, 1, 2, 2, 0});
  const Tensor lengths = Tensor::Vector<int32_t>({5, 4});
  ExpectFloatGradients("CTCLoss", {inputs, indices, values, lengths}, {}, 0,
                       1e-2, &rng);
  Graph g;
  WithGraph use(g);
  const Output x = Constant(inputs);
  Node* n = BuildNode(
      "CTCLoss", {x, Constant(indices), Constant(values), Constant(lengths)});
  const auto first = Gradients({Output(n, 0)}, {x});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Gradients({Densify((*first)[0], x)}, {x});
  EXPECT_FALSE(second.ok());
}

// Gradients of a function of y, the first output, and of their sum, by whose
// differences they are checked. `inputs`: those of the batch norm.
void ExpectSecondGradients(const char* op, const std::vector<Tensor>& inputs,
                           const AttrMap& attrs, std::mt19937* rng) {
  SCOPED_TRACE(testing::Message() << op << ", seed " << kGradSeed);
  Graph g;
  WithGraph use(g);
  std::vector<Output> in;
  Feeds feeds;
  for (const Tensor& t : inputs) {
    in.push_back(Build("Placeholder", {},
                       {{"dtype", t.dtype()}, {"shape", PartialShape()}}));
    feeds.emplace_back(in.back(), t);
  }
  Node* n = BuildNode(op, in, attrs);
  ASSERT_NE(n, nullptr) << g.status();
  const Output y(n, 0);
  const std::vector<GradTarget> xs{in[0], in[1], in[2]};
  const auto first = Gradients({Build("Mul", {y, Build("Square", {y})})}, xs);
  ASSERT_TRUE(first.ok()) << first.status();
  std::vector<Output> terms;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Tensor w = DrawUnit(rng, Dims(inputs[i].shape().dims().begin(),
                                        inputs[i].shape().dims().end()));
    const Output weighted = Build("Mul", {(*first)[i].dense, Constant(w)});
    terms.push_back(Build("Sum", {Build("Reshape", {weighted, IntVector({-1})}),
                                  IntVector({0})}));
  }
  const Output sum = Build("AddN", terms);
  const auto second = Gradients({sum}, xs);
  ASSERT_TRUE(second.ok()) << second.status();
  Session session(g);
  constexpr double kStep = 4e-3;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Result<Tensor> got = session.Run(feeds, (*second)[i].dense);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->shape(), inputs[i].shape());
    for (int64_t k = 0; k < got->num_elements(); ++k) {
      double side[2];
      for (int s = 0; s < 2; ++s) {
        Feeds moved = feeds;
        Tensor& t = moved[i].second;
        t = *t.Clone();
        t.data<float>()[k] += static_cast<float>(s == 0 ? kStep : -kStep);
        const Result<Tensor> value = session.Run(moved, sum);
        ASSERT_TRUE(value.ok()) << value.status();
        side[s] = static_cast<double>(value->scalar<float>());
      }
      const double want = (side[0] - side[1]) / (2 * kStep);
      EXPECT_NEAR(static_cast<double>(got->data<float>()[k]), want,
                  5e-3 * std::max(1.0, std::abs(want)))
          << "input " << i << ", element " << k;
    }
  }
}

TEST(NnGradients, BatchNormGradientsMatchDifferences) {
  std::mt19937 rng(kGradSeed);
  struct Image {
    const char* format;
    Dims dims;
  };
  const Image images[] = {{"NHWC", {2, 2, 2, 3}},
                          {"NCHW", {2, 3, 2, 2}},
                          {"NDHWC", {2, 2, 2, 1, 3}},
                          {"NCDHW", {2, 3, 1, 2, 2}}};
  for (const char* op :
       {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
    for (const Image& image : images)
      for (const bool training : {true, false}) {
        if (image.dims.size() == 5 && !std::string(op).ends_with("V3"))
          continue;
        SCOPED_TRACE(testing::Message()
                     << image.format << (training ? ", training" : ""));
        const Tensor none = Tensor::Vector<float>({});
        ExpectSecondGradients(
            op,
            {DrawUnit(&rng, image.dims), Tensor::Vector<float>({0.7f, 1, -2}),
             DrawUnit(&rng, {3}),
             training ? none : Tensor::Vector<float>({0.1f, -0.2f, 0}),
             training ? none : Tensor::Vector<float>({0.5f, 1, 2})},
            {{"is_training", training},
             {"data_format", image.format},
             {"epsilon", 0.01f}},
            &rng);
      }
}

TEST(NnGradients, BatchNormGradientsMatchTensorFlow) {
  Graph g;
  WithGraph use(g);
  const Output x = Constant(
      Tensor::Of<float>(Shape({1, 2, 2, 2}), {0, 1, 2, 3, 4, 5, 6, 7}));
  const Output one = Constant(Tensor::Vector<float>({1, 1}));
  const Output zero = Constant(Tensor::Vector<float>({0, 0}));
  const Output none = Constant(Tensor::Vector<float>({}));
  const Output y = Build("FusedBatchNormV3", {x, one, zero, none, none},
                         {{"epsilon", 0.001f}});
  const Output dx = Grad(Build("Mul", {y, Build("Square", {y})}), x);
  const Output ddx = Grad(Build("Square", {dx}), x);
  ASSERT_TRUE(ddx.valid()) << g.status();
  Session session(g);
  const Result<Tensor> got = session.Run(ddx);
  ASSERT_TRUE(got.ok()) << got.status();
  const float want[] = {0.68995625f, 0.68995625f, 2.5326028f,   2.5326028f,
                        -2.5326028f, -2.5326028f, -0.68995625f, -0.68995625f};
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_NEAR(got->data<float>()[i], want[i], 2e-5) << i;
}

TEST(NnGradients, BatchNormMomentsAloneHaveNoGradient) {
  Graph g;
  WithGraph use(g);
  std::mt19937 rng(kGradSeed);
  const Output x = Constant(DrawUnit(&rng, {1, 2, 2, 1}));
  const Output one = Constant(Tensor::Vector<float>({1}));
  const Output none = Constant(Tensor::Vector<float>({}));
  Node* n = BuildNode("FusedBatchNormV3", {x, one, one, none, none});
  const auto grads = Gradients({Output(n, 1)}, {x});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_FALSE((*grads)[0]);
}

}  // namespace
}  // namespace sluice
