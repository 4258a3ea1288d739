#include "client/nn/large_softmax.h"

#include <cmath>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
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

// ---- Beside TensorFlow ------------------------------------------------------

// The same weights, inputs and samples as in the recorded calls of
// tf.nn.sampled_softmax_loss and tf.nn.nce_loss 2.21.
class LargeSoftmaxTest : public ::testing::Test {
 protected:
  static constexpr int64_t kClasses = 12, kDepth = 3, kBatch = 4;

  static float Weight(int64_t c, int64_t d) {
    return 0.1f * static_cast<float>((c * kDepth + d) * 7 % 13 - 6);
  }
  static float Bias(int64_t c) {
    return 0.1f * static_cast<float>(c * 5 % 11 - 5);
  }
  static Tensor Inputs() {
    std::vector<float> h;
    for (int64_t i = 0; i < kBatch * kDepth; ++i)
      h.push_back(0.2f * static_cast<float>(i * 3 % 7 - 3));
    return Tensor::Of<float>({kBatch, kDepth}, h);
  }
  struct Tables {
    std::vector<Var> weights, biases;
  };
  static Tables InParts(int64_t count, PartitionStrategy strategy,
                        const std::vector<std::string>& devices = {""}) {
    Tables t;
    for (int64_t p = 0; p < count; ++p) {
      std::vector<float> w, b;
      for (int64_t c = 0; c < kClasses; ++c) {
        if (strategy == PartitionStrategy::kMod ? c % count != p
                                                : c * count / kClasses != p)
          continue;
        for (int64_t d = 0; d < kDepth; ++d) w.push_back(Weight(c, d));
        b.push_back(Bias(c));
      }
      const DeviceScope on(devices[static_cast<size_t>(p) % devices.size()]);
      const auto rows = static_cast<int64_t>(b.size());
      t.weights.emplace_back(Constant(Tensor::Of<float>({rows, kDepth}, w)),
                             "w");
      t.biases.emplace_back(Constant(Tensor::Vector<float>(b)), "b");
    }
    return t;
  }
  Result<Tensor> Run(const Output& y, int devices = 1) {
    SessionOptions options;
    options.devices = CpuDevices(devices);
    Session session(graph_, options);
    SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
    return session.Run({}, y);
  }
  void ExpectNear(const Output& y, const std::vector<float>& want,
                  int devices = 1) {
    const Result<Tensor> got = Run(y, devices);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->num_elements(), static_cast<int64_t>(want.size()));
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got->flat<float>()[i], want[i], 2e-6f) << i;
  }
  // The softmax cross-entropy of each example, in double precision.
  static std::vector<float> Exact(const std::vector<int64_t>& labels) {
    const Tensor h = Inputs();
    std::vector<float> losses;
    for (int64_t i = 0; i < kBatch; ++i) {
      double sum = 0, own = 0;
      for (int64_t c = 0; c < kClasses; ++c) {
        double score = Bias(c);
        for (int64_t d = 0; d < kDepth; ++d)
          score += h.flat<float>()[static_cast<size_t>(i * kDepth + d)] *
                   Weight(c, d);
        sum += std::exp(score);
        if (c == labels[static_cast<size_t>(i)]) own = score;
      }
      losses.push_back(static_cast<float>(std::log(sum) - own));
    }
    return losses;
  }

  Graph graph_;
  const WithGraph use_{graph_};
};

TEST_F(LargeSoftmaxTest, SampledLossesHaveTensorFlowsNumbers) {
  struct Case {
    bool nce, one, remove;
    std::vector<float> want;
  };
  const Case cases[] = {
      {false, true, false, {2.8388886f, 2.6899755f, 1.4379151f, 1.7131234f}},
      {false, true, true, {2.8388886f, 2.619679f, 1.4379151f, 1.5143045f}},
      {true, true, false, {6.3811827f, 6.7268586f, 6.0808716f, 6.1896482f}},
      {true, true, true, {6.3811827f, 6.0181799f, 6.0808716f, 4.8976302f}},
      {false, false, false, {2.5077348f, 2.7556534f, 1.9900067f, 2.2786851f}},
      {false, false, true, {2.3679619f, 2.6899755f, 1.8999538f, 2.2786851f}},
      {true, false, false, {6.9177456f, 7.4355378f, 7.4471869f, 7.3035398f}},
      {true, false, true, {5.9102564f, 6.7268591f, 6.5429101f, 7.3035398f}},
  };
  // A sampler of one's own: the same sample each time.
  const auto sampler = [](bool one) -> ClassSampler {
    return [=](const Output& labels, int64_t sampled, int64_t classes) {
      EXPECT_EQ(sampled, 5);
      EXPECT_EQ(classes, kClasses);
      EXPECT_EQ(labels.shape(), PartialShape({kBatch, one ? 1 : 2}));
      return SampledClasses{
          Constant(Tensor::Vector<int64_t>({1, 3, 8, 5, 10})),
          Constant(one ? Tensor::Of<float>({4, 1}, {.95f, .6f, .2f, .6f})
                       : Tensor::Of<float>({4, 2}, {.95f, .5f, .6f, .6f, .2f,
                                                    .9f, .4f, .7f})),
          Constant(Tensor::Vector<float>({.9f, .6f, .35f, .5f, .25f}))};
    };
  };
  for (const PartitionStrategy strategy :
       {PartitionStrategy::kDiv, PartitionStrategy::kMod})
    for (const int64_t count : {1, 3}) {
      const Tables t = InParts(count, strategy);
      for (const Case& c : cases) {
        SCOPED_TRACE(testing::Message() << count << c.nce << c.one << c.remove);
        const Output labels = Constant(
            c.one ? Tensor::Vector<int64_t>({0, 3, 11, 3})
                  : Tensor::Of<int64_t>({4, 2}, {0, 5, 3, 3, 11, 1, 7, 2}));
        const auto loss = c.nce ? NceLoss : SampledSoftmaxLoss;
        ExpectNear(loss(t.weights, t.biases, labels, Inputs(), 5,
                        {.remove_accidental_hits = c.remove,
                         .sampler = sampler(c.one),
                         .strategy = strategy},
                        CallerLoc()),
                   c.want);
      }
    }
}

TEST_F(LargeSoftmaxTest, FullSoftmaxIsExactWhereverThePartsAre) {
  const std::vector<int64_t> labels = {0, 3, 11, 6};
  for (const PartitionStrategy strategy :
       {PartitionStrategy::kDiv, PartitionStrategy::kMod})
    for (const int64_t count : {1, 2, 3, 4})
      for (const bool apart : {false, true}) {
        SCOPED_TRACE(testing::Message() << count << apart);
        const Tables t =
            apart ? InParts(count, strategy, {"/device:CPU:0", "/device:CPU:1"})
                  : InParts(count, strategy);
        const Output loss = FullSoftmaxLoss(
            t.weights, t.biases, Constant(Tensor::Vector<int64_t>(labels)),
            Inputs(), {.strategy = strategy});
        ASSERT_TRUE(loss.valid()) << graph_.status();
        ExpectNear(loss, Exact(labels), 2);
      }
}

TEST_F(LargeSoftmaxTest, GradientsOfPartsOnSeveralDevicesAreThoseOfOne) {
  const Tensor labels = Tensor::Vector<int32_t>({0, 3, 11, 6});
  const Tables whole = InParts(1, PartitionStrategy::kDiv);
  const Tables parts =
      InParts(3, PartitionStrategy::kDiv, {"/device:CPU:0", "/device:CPU:1"});
  std::vector<std::vector<float>> grads;
  for (const Tables* t : {&whole, &parts}) {
    const Output h = Constant(Inputs());
    const Output loss =
        ops::Sum(FullSoftmaxLoss(t->weights, t->biases, labels, h), 0);
    std::vector<Output> all;
    for (const std::vector<Var>& vars : {t->weights, t->biases})
      for (const Var& v : vars)
        all.push_back(ops::Reshape(Grad(loss, v, {.colocate = true}), {-1}));
    all.push_back(ops::Reshape(Grad(loss, h), {-1}));
    const Result<Tensor> got = Run(ops::ConcatV2(all, 0), 2);
    ASSERT_TRUE(got.ok()) << got.status();
    grads.emplace_back(got->flat<float>().begin(), got->flat<float>().end());
  }
  ASSERT_EQ(grads[0].size(), grads[1].size());
  for (size_t i = 0; i < grads[0].size(); ++i)
    EXPECT_NEAR(grads[0][i], grads[1][i], 2e-6f) << i;
}

TEST_F(LargeSoftmaxTest, LargeScoresDoNotOverflow) {
  for (const bool apart : {false, true}) {
    Tables t = InParts(
        2, PartitionStrategy::kDiv,
        apart ? std::vector<std::string>{"/device:CPU:0", "/device:CPU:1"}
              : std::vector<std::string>{""});
    const Output loss = FullSoftmaxLoss(t.weights, t.biases,
                                        Tensor::Vector<int32_t>({0, 1, 2, 3}),
                                        Constant(Inputs()) * 1000.0f);
    const Result<Tensor> got = Run(loss, 2);
    ASSERT_TRUE(got.ok()) << got.status();
    for (const float x : got->flat<float>()) EXPECT_TRUE(std::isfinite(x)) << x;
  }
}

TEST_F(LargeSoftmaxTest, LabelsOutOfRangeAreErrors) {
  for (const int64_t bad : {-1, 12, -13, 1 << 20})
    for (const PartitionStrategy strategy :
         {PartitionStrategy::kDiv, PartitionStrategy::kMod})
      for (const bool apart : {false, true}) {
        const Tables t =
            apart ? InParts(2, strategy, {"/device:CPU:0", "/device:CPU:1"})
                  : InParts(2, strategy);
        const Tensor labels = Tensor::Vector<int64_t>({0, bad, 2, 3});
        const Status full =
            Run(FullSoftmaxLoss(t.weights, t.biases, labels, Inputs(),
                                {.strategy = strategy}),
                2)
                .status();
        EXPECT_EQ(full.code(), StatusCode::kInvalidArgument) << full;
        EXPECT_THAT(full.ToString(), testing::HasSubstr(std::to_string(bad)));
        const Status sampled =
            Run(SampledSoftmaxLoss(t.weights, t.biases, labels, Inputs(), 3,
                                   {.strategy = strategy}),
                2)
                .status();
        EXPECT_EQ(sampled.code(), StatusCode::kInvalidArgument) << sampled;
        EXPECT_THAT(sampled.ToString(),
                    testing::HasSubstr(std::to_string(bad)));
      }
}

TEST_F(LargeSoftmaxTest, AllClassesGiveTheFullLoss) {
  const Tables t = InParts(3, PartitionStrategy::kMod);
  ExpectNear(
      SampledSoftmaxLoss(
          t.weights, t.biases, Tensor::Vector<int64_t>({0, 3, 11, 6}), Inputs(),
          1, {.sampler = AllClasses(), .strategy = PartitionStrategy::kMod}),
      Exact({0, 3, 11, 6}));
}

TEST_F(LargeSoftmaxTest, EverySamplerGivesALossThatTrains) {
  const std::pair<const char*, ClassSampler> samplers[] = {
      {"uniform", UniformClassSampler({.seed = 1})},
      {"repeated", UniformClassSampler({.unique = false, .seed = 1})},
      {"log-uniform", LogUniformClassSampler({.seed = 2})},
      {"learned", LearnedUnigramClassSampler({.seed = 3})},
      {"fixed",
       FixedUnigramClassSampler({.unigrams = std::vector<float>(kClasses, 2.0f),
                                 .distortion = 0.75f,
                                 .seed = 4})},
      {"all", AllClasses()},
  };
  for (const auto& [name, sampler] : samplers)
    for (const bool nce : {false, true}) {
      SCOPED_TRACE(testing::Message() << name << nce);
      Graph g;
      const WithGraph use(g);
      const Tables t = InParts(2, PartitionStrategy::kDiv);
      const Tensor labels = Tensor::Vector<int32_t>({0, 3, 11, 6});
      const auto loss = nce ? NceLoss : SampledSoftmaxLoss;
      GradientDescentOptimizer sgd(0.5);
      Node* const train =
          sgd.Minimize(ops::Mean(loss(t.weights, t.biases, labels, Inputs(), 4,
                                      {.sampler = sampler}, CallerLoc()),
                                 0));
      ASSERT_NE(train, nullptr) << g.status();
      const Output full =
          ops::Mean(FullSoftmaxLoss(t.weights, t.biases, labels, Inputs()), 0);
      Session session(g);
      ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
      const float before = session.Run({}, full)->scalar<float>();
      for (int i = 0; i < 100; ++i)
        ASSERT_TRUE(session.RunTargets({train}).ok());
      EXPECT_LT(session.Run({}, full)->scalar<float>(), 0.7f * before);
    }
}

TEST_F(LargeSoftmaxTest, SampledClassesAreThoseOfTheLimit) {
  const Tables t = InParts(1, PartitionStrategy::kDiv);
  int64_t limit = 0;
  const ClassSampler sampler = [&](const Output& labels, int64_t sampled,
                                   int64_t classes) {
    limit = classes;
    return UniformClassSampler()(labels, sampled, classes);
  };
  EXPECT_TRUE(SampledSoftmaxLoss(
                  t.weights, t.biases, Tensor::Vector<int64_t>({0, 3, 1, 6}),
                  Inputs(), 3, {.sampler = sampler, .classes = 7})
                  .valid());
  EXPECT_EQ(limit, 7);
}

TEST_F(LargeSoftmaxTest, WeightsThatDoNotFitAreRefused) {
  const Tables one = InParts(1, PartitionStrategy::kDiv);
  const Tables two = InParts(2, PartitionStrategy::kDiv);
  const Tensor labels = Tensor::Vector<int64_t>({0, 3, 11, 6});
  EXPECT_FALSE(
      FullSoftmaxLoss(one.weights, two.biases, labels, Inputs()).valid());
  EXPECT_THAT(graph_.status().ToString(),
              testing::HasSubstr("expected as many rows and parts of weights "
                                 "and biases, got 12 in 1 of 'w' and 12 in 2"));
  EXPECT_FALSE(
      FullSoftmaxLoss(one.biases, one.weights, labels, Inputs()).valid());
  EXPECT_FALSE(
      NceLoss(one.weights, one.biases, labels, Inputs(), 3, {.classes = 13})
          .valid());
  EXPECT_FALSE(
      NceLoss(one.weights, one.biases, Placeholder<int64_t>(), Inputs(), 3)
          .valid());
}

TEST_F(LargeSoftmaxTest, LabelsAreVectorsOfIntegers) {
  for (const bool apart : {false, true}) {
    const Tables t = apart ? InParts(2, PartitionStrategy::kDiv,
                                     {"/device:CPU:0", "/device:CPU:1"})
                           : InParts(2, PartitionStrategy::kDiv);
    const auto expect = [&](const Output& loss, const std::string& rule) {
      EXPECT_FALSE(loss.valid());
      EXPECT_THAT(graph_.ErrorOf(loss)->ToString(), testing::HasSubstr(rule));
    };
    const Output halves = Constant(Tensor::Vector<float>({0.5f, 1, 2, 3}));
    const std::string type = "labels: expected type int32 or int64, got float";
    expect(FullSoftmaxLoss(t.weights, t.biases, halves, Inputs()), type);
    expect(SampledSoftmaxLoss(t.weights, t.biases, halves, Inputs(), 3), type);
    expect(NceLoss(t.weights, t.biases, halves, Inputs(), 3), type);
    expect(FullSoftmaxLoss(t.weights, t.biases,
                           Constant(Tensor(DType::kInt64, {4, 1})), Inputs()),
           "labels: expected shape [batch], got [4,1]");
  }
}

TEST_F(LargeSoftmaxTest, PartsWithoutClassesAddNothing) {
  const auto loss = [&](int64_t parts) {
    const VariableScope scope(absl::StrCat("of_", parts),
                              {.initializer = init::Ones()});
    std::vector<Var> weights, biases;
    for (int64_t p = 0; p < parts; ++p) {
      const DeviceScope device(absl::StrCat("/device:CPU:", p));
      const int64_t rows = p < 2 ? 1 : 0;
      weights.push_back(GetVariable(absl::StrCat("w", p), {rows, kDepth}));
      biases.push_back(GetVariable(absl::StrCat("b", p), {rows}));
    }
    return FullSoftmaxLoss(weights, biases,
                           Constant(Tensor::Vector<int32_t>({0, 1, 0, 1})),
                           Inputs());
  };
  const std::vector<float> want(4, std::log(2.0f));
  ExpectNear(loss(2), want, 3);
  ExpectNear(loss(3), want, 3);
}

TEST_F(LargeSoftmaxTest, ScoresAreOnTheDeviceOfTheirWeights) {
  const Tables t =
      InParts(2, PartitionStrategy::kDiv, {"/device:CPU:1", "/device:CPU:1"});
  (void)FullSoftmaxLoss(t.weights, t.biases,
                        Constant(Tensor::Vector<int64_t>({0, 1, 2, 3})),
                        Inputs());
  int products = 0;
  for (const auto& n : graph_.nodes())
    if (n->op_name() == "MatMul") {
      ++products;
      EXPECT_EQ(n->device(), "/device:CPU:1") << n->name();
    }
  EXPECT_EQ(products, 2);
}

}  // namespace
}  // namespace sluice
