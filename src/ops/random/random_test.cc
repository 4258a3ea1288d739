#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "client/autodiff/gradients.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "io/file.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// Runs one op in a separate graph.
Result<std::vector<Tensor>> RunRandom(const std::string& op,
                                      const std::vector<Tensor>& inputs,
                                      AttrMap attrs = {}) {
  Graph g;
  WithGraph use(g);
  std::vector<Output> outputs;
  for (const Tensor& t : inputs)
    outputs.push_back(Build("_Arg", {}, {{"T", t.dtype()}, {"index", 0}}));
  Node* n = BuildNode(op, outputs, std::move(attrs));
  if (n == nullptr) return g.status();
  return RunKernel(*n, inputs);
}

template <typename T>
std::vector<T> Values(const Result<std::vector<Tensor>>& r, size_t i = 0) {
  EXPECT_TRUE(r.ok()) << r.status();
  return r.ok() ? (*r)[i].ToVector<T>() : std::vector<T>();
}

Tensor Int32s(std::initializer_list<int32_t> v) {
  return Tensor::Vector<int32_t>(v);
}
Tensor Longs(std::initializer_list<int64_t> v) {
  return Tensor::Vector<int64_t>(v);
}

AttrMap Seeds(AttrMap more = {}) {
  more["seed"] = 7;
  more["seed2"] = 11;
  return more;
}

// The numbers below were recorded from TensorFlow 2.21.

TEST(Random, UniformsMatchTensorFlowForEqualSeeds) {
  EXPECT_THAT(Values<float>(RunRandom("RandomUniform", {Int32s({3})},
                                      Seeds({{"dtype", DType::kFloat}}))),
              ElementsAre(0x1.7be2800000000p-6f, 0x1.9780400000000p-4f,
                          0x1.23648c0000000p-1f));
  EXPECT_THAT(Values<double>(RunRandom("RandomUniform", {Int32s({3})},
                                       Seeds({{"dtype", DType::kDouble}}))),
              ElementsAre(0x1.7be2a5465e010p-3, 0x1.1b2479c958ffap-1,
                          0x1.7402e7d46ed5cp-1));
}

TEST(Random, NormalsMatchTensorFlowForEqualSeeds) {
  EXPECT_THAT(Values<float>(RunRandom("RandomStandardNormal", {Int32s({3})},
                                      Seeds({{"dtype", DType::kFloat}}))),
              ElementsAre(0x1.9b08d80000000p+0f, 0x1.1ccb4e0000000p+1f,
                          -0x1.12731c0000000p-1f));
  EXPECT_THAT(Values<float>(RunRandom("TruncatedNormal", {Int32s({6})},
                                      Seeds({{"dtype", DType::kFloat}}))),
              ElementsAre(0x1.9b08d80000000p+0f, -0x1.12731c0000000p-1f,
                          -0x1.d53f7a0000000p-1f, 0x1.37dfde0000000p+0f,
                          0x1.0d9b860000000p+0f, 0x1.67e2f80000000p-3f));
}

TEST(Random, IntegersMatchTensorFlowForEqualSeeds) {
  EXPECT_THAT(
      Values<int32_t>(RunRandom("RandomUniformInt",
                                {Int32s({6}), Tensor::Scalar<int32_t>(-5),
                                 Tensor::Scalar<int32_t>(1000)},
                                Seeds())),
      ElementsAre(903, 579, 802, 412, 717, 782));
  EXPECT_THAT(
      Values<int64_t>(RunRandom("RandomUniformInt",
                                {Int32s({3}), Tensor::Scalar<int64_t>(-5),
                                 Tensor::Scalar<int64_t>(1000)},
                                Seeds())),
      ElementsAre(812, 694, 424));
}

TEST(Random, ShuffleMatchesTensorFlowForEqualSeeds) {
  EXPECT_THAT(Values<int64_t>(RunRandom(
                  "RandomShuffle", {Longs({0, 1, 2, 3, 4, 5, 6, 7})}, Seeds())),
              ElementsAre(5, 3, 0, 2, 7, 6, 1, 4));
  EXPECT_THAT(
      Values<std::string>(RunRandom(
          "RandomShuffle",
          {Tensor::Of<std::string>(Shape({4, 1}), {"a", "b", "c", "d"})},
          Seeds())),
      ::testing::UnorderedElementsAre("a", "b", "c", "d"));
}

TEST(Random, MultinomialMatchesTensorFlowForEqualSeeds) {
  const Tensor logits =
      Tensor::Of<float>(Shape({2, 3}), {0, 1, 2, 2, 0, -1e30f});
  const Tensor seven = Tensor::Scalar<int32_t>(7);
  EXPECT_THAT(
      Values<int64_t>(RunRandom("Multinomial", {logits, seven}, Seeds())),
      ElementsAre(1, 2, 2, 2, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(Values<int64_t>(RunRandom("StatelessMultinomial",
                                        {logits, seven, Longs({3, 4})})),
              ElementsAre(2, 2, 1, 2, 2, 2, 1, 0, 0, 0, 0, 0, 0, 0));
}

TEST(Random, MultinomialDrawsTheSameOnAnyNumberOfThreads) {
  constexpr int64_t kRows = 300, kClasses = 70;
  Tensor logits(DType::kFloat, Shape({kRows, kClasses}));
  for (int64_t i = 0; i < logits.num_elements(); ++i)
    logits.flat<float>()[i] = static_cast<float>(i * 7 % 31) / 9;
  for (const int samples : {1, 2, 3, 5}) {
    const auto draw = [&](int threads) {
      const ScopedIntraOpThreads some(threads);
      return Values<int64_t>(
          RunRandom("StatelessMultinomial",
                    {logits, Tensor::Scalar<int32_t>(samples), Longs({3, 4})}));
    };
    EXPECT_EQ(draw(1), draw(3)) << samples;
  }
}

TEST(Random, GammasMatchTensorFlowForEqualSeeds) {
  const Result<std::vector<Tensor>> r =
      RunRandom("RandomGamma",
                {Int32s({4}), Tensor::Vector<float>({.5f, 1, 3})}, Seeds());
  const std::vector<float> want = {
      0x1.fa29b2p-5f, 0x1.57e0e4p+0f, 0x1.fda698p+1f, 0x1.17623ap-2f,
      0x1.c0094ap-3f, 0x1.e50304p-1f, 0x1.26b71p-6f,  0x1.6c216ep-1f,
      0x1.c214c2p-1f, 0x1.6f2ecp-3f,  0x1.e68b74p-4f, 0x1.876cp+2f};
  EXPECT_THAT(Values<float>(r), ElementsAreArray(want));
}

// The mean of a gamma sample is alpha: its derivative by alpha is one.
TEST(Random, GammasHaveGradientsForAlpha) {
  Graph g;
  WithGraph use(g);
  constexpr int kSamples = 20'000;
  const Output alpha = Constant(Tensor::Vector<double>({.5, 1, 3}));
  const Output y = Build("RandomGamma",
                         {Constant(Int32s({2, kSamples / 2})), alpha}, Seeds());
  const Output slope =
      Grad(Build("Square", {y}), alpha);  // The mean is alpha (alpha + 1).
  Session session;
  const auto got = session.Run({}, {slope});
  ASSERT_TRUE(got.ok()) << got.status();
  const std::vector<double> v = got->ToVector<double>();
  EXPECT_NEAR(v[0] / kSamples, 2, 0.15);
  EXPECT_NEAR(v[1] / kSamples, 3, 0.15);
  EXPECT_NEAR(v[2] / kSamples, 7, 0.15);
}

TEST(Random, PoissonsMatchTensorFlowForEqualSeeds) {
  EXPECT_THAT(
      Values<int64_t>(RunRandom(
          "RandomPoissonV2",
          {Int32s({4}), Tensor::Vector<float>({.5f, 4, 30, 100})}, Seeds())),
      ElementsAre(0, 6, 22, 102, 0, 5, 30, 93, 0, 3, 29, 105, 1, 1, 36, 102));
}

TEST(Random, PoissonsTerminateForNonFiniteRates) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> v = Values<float>(
      RunRandom("RandomPoissonV2",
                {Int32s({1}), Tensor::Vector<float>({NAN, inf, -inf, -1})},
                Seeds({{"dtype", DType::kFloat}})));
  ASSERT_EQ(v.size(), 4u);
  EXPECT_TRUE(std::isnan(v[0]));
  EXPECT_EQ(v[1], inf);
}

TEST(Random, StatelessOpsMatchTensorFlow) {
  const Tensor seed = Longs({3, 4});
  EXPECT_THAT(
      Values<float>(RunRandom("StatelessRandomUniform", {Int32s({3}), seed})),
      ElementsAre(0x1.f240b00000000p-3f, 0x1.f78e240000000p-1f,
                  0x1.c36a200000000p-3f));
  EXPECT_THAT(
      Values<float>(RunRandom("StatelessRandomNormal", {Int32s({3}), seed})),
      ElementsAre(-0x1.64376c0000000p-3f, 0x1.ac1f700000000p+0f,
                  0x1.6486b80000000p-2f));
  EXPECT_THAT(
      Values<float>(RunRandom("StatelessTruncatedNormal", {Int32s({3}), seed})),
      ElementsAre(-0x1.64376c0000000p-3f, 0x1.ac1f700000000p+0f,
                  0x1.6486b80000000p-2f));
  EXPECT_THAT(
      Values<int32_t>(RunRandom("StatelessRandomUniformInt",
                                {Int32s({5}), seed, Tensor::Scalar<int32_t>(0),
                                 Tensor::Scalar<int32_t>(100)})),
      ElementsAre(63, 97, 62, 99, 47));
}

TEST(Random, KeysAndCountersMatchTensorFlow) {
  const auto r = RunRandom("StatelessRandomGetKeyCounter", {Longs({3, 4})});
  EXPECT_THAT(Values<uint64_t>(r, 0), ElementsAre(5186321457711525117u));
  EXPECT_THAT(Values<uint64_t>(r, 1), ElementsAre(0u, 2956673722964415482u));
  EXPECT_THAT(
      Values<float>(RunRandom(
          "StatelessRandomUniformV2",
          {Int32s({3}), Tensor::Vector<uint64_t>({7}),
           Tensor::Vector<uint64_t>({1, 2}), Tensor::Scalar<int32_t>(1)})),
      ElementsAre(0x1.a012200000000p-4f, 0x1.ba35c40000000p-1f,
                  0x1.5a1f140000000p-1f));
}

TEST(Random, UnseededNodesDrawDifferentNumbers) {
  const AttrMap attrs = {{"dtype", DType::kDouble}};
  EXPECT_NE(Values<double>(RunRandom("RandomUniform", {Int32s({4})}, attrs)),
            Values<double>(RunRandom("RandomUniform", {Int32s({4})}, attrs)));
}

TEST(Random, AcceptsEmptyAndScalarShapes) {
  const AttrMap attrs = {{"dtype", DType::kFloat}};
  EXPECT_THAT(
      Values<float>(RunRandom("RandomUniform", {Int32s({3, 0})}, attrs)),
      ElementsAre());
  EXPECT_EQ(
      Values<float>(RunRandom("RandomUniform", {Int32s({})}, attrs)).size(),
      1u);
  EXPECT_THAT(Values<float>(RunRandom("RandomShuffle",
                                      {Tensor(DType::kFloat, Shape({0, 3}))})),
              ElementsAre());
}

TEST(Random, BadShapesAndBoundsAreErrors) {
  const AttrMap attrs = {{"dtype", DType::kFloat}};
  EXPECT_EQ(RunRandom("RandomUniform", {Int32s({-1})}, attrs).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(RunRandom("RandomUniform",
                      {Longs({int64_t{1} << 40, int64_t{1} << 40})}, attrs)
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(RunRandom("RandomUniformInt",
                                    {Int32s({2}), Tensor::Scalar<int32_t>(5),
                                     Tensor::Scalar<int32_t>(5)})
                              .status()
                              .message()),
              HasSubstr("Need minval < maxval, got 5 >= 5"));
  EXPECT_EQ(RunRandom("StatelessRandomUniform", {Int32s({2}), Longs({1, 2, 3})})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

TEST(Random, LearnedSamplerFollowsObservedFrequencies) {
  Graph g;
  WithGraph use(g);
  const Tensor classes = Tensor::Of<int64_t>(Shape({3, 1}), {2, 2, 0});
  Node* n = BuildNode("LearnedUnigramCandidateSampler", {Constant(classes)},
                      Seeds({{"num_true", 1},
                             {"num_sampled", 4},
                             {"unique", false},
                             {"range_max", 5}}));
  ASSERT_NE(n, nullptr) << g.status();
  Session session(g);
  for (const auto& [two, zero] : {std::pair{4 * 1 / 5.f, 4 * 1 / 5.f},
                                  std::pair{4 * 3 / 8.f, 4 * 2 / 8.f},
                                  std::pair{4 * 5 / 11.f, 4 * 3 / 11.f}}) {
    const Result<Tensor> count = session.Run({}, Output(n, 1));
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_FLOAT_EQ(count->data<float>()[0], two);
    EXPECT_FLOAT_EQ(count->data<float>()[1], two);
    EXPECT_FLOAT_EQ(count->data<float>()[2], zero);
  }
}

TEST(Random, CropsMatchTensorFlowOverSteps) {
  Graph g;
  WithGraph use(g);
  Tensor image(DType::kFloat, Shape({10, 12, 1}));
  for (int i = 0; i < 120; ++i) image.data<float>()[i] = static_cast<float>(i);
  Node* n = BuildNode("RandomCrop", {Constant(image), Constant(Longs({1, 1}))},
                      Seeds());
  ASSERT_NE(n, nullptr) << g.status();
  Session session(g);
  for (float want : {53, 35, 30, 15}) {
    const Result<Tensor> crop = session.Run({}, Output(n, 0));
    ASSERT_TRUE(crop.ok()) << crop.status();
    EXPECT_EQ(crop->shape(), Shape({1, 1, 1}));
    EXPECT_EQ(crop->data<float>()[0], want);
  }
  EXPECT_EQ(
      RunRandom("RandomCrop", {image, Longs({11, 1})}, Seeds()).status().code(),
      StatusCode::kFailedPrecondition);
  for (const Tensor& size : {Longs({-1, 1}), Longs({1})})
    EXPECT_EQ(RunRandom("RandomCrop", {image, size}, Seeds()).status().code(),
              StatusCode::kInvalidArgument);
}

TEST(Random, FixedSamplerReadsWeightsFromFile) {
  const std::string path = testing::TempDir() + "random_test_vocabulary";
  ASSERT_TRUE(WriteFile(path, "a,1\nb,x,3\n\nc,0\n").ok());
  const Tensor classes = Tensor::Of<int64_t>(Shape({1, 2}), {1, 2});
  AttrMap attrs = Seeds({{"num_true", 2},
                         {"num_sampled", 2},
                         {"unique", true},
                         {"range_max", 3},
                         {"vocab_file", path}});
  const auto got = RunRandom("FixedUnigramCandidateSampler", {classes}, attrs);
  EXPECT_THAT(Values<int64_t>(got), testing::UnorderedElementsAre(0, 1));
  EXPECT_EQ(Values<float>(got, 1)[1], 0);  // Never drawn.
  attrs["num_sampled"] = 3;                // Two can be.
  EXPECT_EQ(RunRandom("FixedUnigramCandidateSampler", {classes}, attrs)
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(WriteFile(path, "a,1\nb,x\nc,0\n").ok());
  EXPECT_THAT(
      std::string(RunRandom("FixedUnigramCandidateSampler", {classes}, attrs)
                      .status()
                      .message()),
      HasSubstr("got 'b,x'"));
}

// (In family array, which has no other op that reads a file.)
TEST(Random, ImmutableConstReadsStartOfFile) {
  const std::string path = testing::TempDir() + "random_test_bytes";
  ASSERT_TRUE(WriteFile(path, std::string("\1\0\0\0\2\0\0\0rest", 12)).ok());
  AttrMap attrs = {{"dtype", DType::kInt32},
                   {"shape", PartialShape({2, 1})},
                   {"memory_region_name", path}};
  const auto got = RunRandom("ImmutableConst", {}, attrs);
  EXPECT_THAT(Values<int32_t>(got), ElementsAre(1, 2));
  EXPECT_EQ((*got)[0].shape(), Shape({2, 1}));
  attrs["shape"] = PartialShape({int64_t{1} << 30, 1 << 20});
  EXPECT_THAT(
      std::string(RunRandom("ImmutableConst", {}, attrs).status().message()),
      HasSubstr("got 12 bytes"));
  attrs["dtype"] = DType::kString;
  EXPECT_FALSE(RunRandom("ImmutableConst", {}, attrs).ok());
}

}  // namespace
}  // namespace sluice
