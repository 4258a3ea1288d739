#include "client/nn/sampled_softmax.h"

#include <cmath>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

Tensor SampledSoftmaxNormal(const Shape& shape, uint64_t seed) {
  Tensor t(DType::kFloat, shape);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (float& v : t.flat<float>()) v = normal(random);
  return t;
}

class SampledSoftmaxTest : public ::testing::Test {
 protected:
  static constexpr int kClasses = 12, kDepth = 3, kBatch = 4;

  Tensor Run(Output y) {
    Session session(graph_);
    EXPECT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    Result<Tensor> out = session.Run({}, y);
    EXPECT_TRUE(out.ok()) << out.status().ToString();
    return out.ok() ? *out : Tensor();
  }

  Graph graph_;
  const WithGraph use_{graph_};
  const Tensor weights_ = SampledSoftmaxNormal({kClasses, kDepth}, 1);
  const Tensor biases_ = SampledSoftmaxNormal({kClasses}, 2);
  const Tensor inputs_ = SampledSoftmaxNormal({kBatch, kDepth}, 3);
  const Tensor labels_ = Tensor::Vector<int64_t>({0, 3, 11, 3});
  const Var w_{Constant(weights_), "w"}, b_{Constant(biases_), "b"};
};

TEST_F(SampledSoftmaxTest, SamplingAllClassesGivesCorrectedSoftmax) {
  // All classes are drawn: each is expected once (according to the sampler,
  // with a probability close to one), so after removing true classes from the
  // samples the estimate is the loss itself.
  const Tensor loss = Run(SampledSoftmaxLoss(
      w_, b_, Constant(labels_), Constant(inputs_), kClasses, {.seed = 7}));
  const std::pair<int64_t, int64_t> seeds = SeedsFor(7);
  const auto counts = ops::LogUniformCandidateSampler(
      ops::Reshape(Constant(labels_), {-1, 1}), 1, kClasses, true, kClasses,
      {.seed = seeds.first, .seed2 = seeds.second});
  Session session(graph_);
  const auto drawn = session.Run(
      {}, {counts.sampled_candidates, counts.sampled_expected_count});
  ASSERT_TRUE(drawn.ok());
  std::vector<float> expected(kClasses);
  for (int i = 0; i < kClasses; ++i)
    expected[static_cast<size_t>((*drawn)[0].data<int64_t>()[i])] =
        (*drawn)[1].data<float>()[i];
  for (int row = 0; row < kBatch; ++row) {
    double sum = 0, own = 0;
    for (int c = 0; c < kClasses; ++c) {
      double score = biases_.data<float>()[c];
      for (int d = 0; d < kDepth; ++d)
        score += inputs_.data<float>()[row * kDepth + d] *
                 weights_.data<float>()[c * kDepth + d];
      score -= std::log(expected[static_cast<size_t>(c)]);
      sum += std::exp(score);
      if (c == labels_.data<int64_t>()[row]) own = score;
    }
    EXPECT_NEAR(loss.data<float>()[row], std::log(sum) - own, 1e-4) << row;
  }
}

TEST_F(SampledSoftmaxTest, MatchesTensorFlowForEqualSeeds) {
  // Recorded from tf.nn.sampled_softmax_loss 2.21 with
  // log_uniform_candidate_sampler(seed=7).
  Tensor w(DType::kFloat, {kClasses, kDepth});
  Tensor h(DType::kFloat, {kBatch, kDepth});
  for (int i = 0; i < kClasses * kDepth; ++i)
    w.data<float>()[i] = 0.05f * static_cast<float>(i);
  for (int i = 0; i < kBatch * kDepth; ++i)
    h.data<float>()[i] = 0.1f * static_cast<float>(i);
  const Var weights(Constant(w)), biases(Zeros({kClasses}));
  const std::vector<float> want[] = {
      {2.8632889f, 3.2405767f, 1.4881396f, 4.7323174f},
      {2.804514f, 3.2006488f, 1.2322246f, 4.7234726f}};
  for (const bool remove : {false, true}) {
    const Tensor loss = Run(SampledSoftmaxLoss(
        weights, biases, Constant(labels_), Constant(h), kClasses,
        {.remove_accidental_hits = remove, .seed = 7}));
    for (int i = 0; i < kBatch; ++i)
      EXPECT_NEAR(loss.data<float>()[i], want[remove][static_cast<size_t>(i)],
                  1e-5f);
  }
}

TEST_F(SampledSoftmaxTest, AccidentalHitsCountOnlyOnRequest) {
  // With all classes drawn, a hit that is kept is in addition to the example's
  // true class.
  const auto loss = [&](bool remove) {
    return Run(SampledSoftmaxLoss(
        w_, b_, Constant(labels_), Constant(inputs_), kClasses,
        {.remove_accidental_hits = remove, .seed = 7}));
  };
  const Tensor removed = loss(true), kept = loss(false);
  for (int row = 0; row < kBatch; ++row)
    EXPECT_GT(kept.data<float>()[row], removed.data<float>()[row] + 1e-3f);
}

TEST_F(SampledSoftmaxTest, GradientsAreSparseRowsOfSampledClasses) {
  const Output loss =
      ops::Sum(SampledSoftmaxLoss(w_, b_, Constant(labels_), Constant(inputs_),
                                  2, {.seed = 7}),
               0);
  const Result<std::vector<Gradient>> g = Gradients({loss}, {w_, b_});
  ASSERT_TRUE(g.ok()) << g.status().ToString();
  for (const Gradient& one : *g) {
    EXPECT_FALSE(one.dense.valid());
    EXPECT_EQ(Run(one.indices).num_elements(), kBatch + 2);
  }
}

TEST_F(SampledSoftmaxTest, GradientsMatchTheLoss) {
  Output h = Placeholder<float>({kBatch, kDepth});
  const Output loss = ops::Sum(
      SampledSoftmaxLoss(w_, b_, Constant(labels_), h, 5, {.seed = 7}), 0);
  const Output dh = Grad(loss, h);
  // Each step draws different classes; another session draws the same ones
  // first.
  const auto at = [&](const Tensor& x, Output y) {
    Session session(graph_);
    EXPECT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    return *session.Run({{h, x}}, y);
  };
  const Tensor analytic = at(inputs_, dh);
  for (int i = 0; i < kBatch * kDepth; ++i) {
    constexpr float kStep = 1e-2f;
    Tensor up = *inputs_.Clone(), down = *inputs_.Clone();
    up.data<float>()[i] += kStep;
    down.data<float>()[i] -= kStep;
    const float slope =
        (at(up, loss).scalar<float>() - at(down, loss).scalar<float>()) /
        (2 * kStep);
    EXPECT_NEAR(analytic.data<float>()[i], slope, 2e-2) << i;
  }
}

}  // namespace
}  // namespace sluice
