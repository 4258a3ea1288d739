// Wrong ranks, zero and huge sizes, negative and overflowing attributes,
// indices out of range, mismatched types: every op with samples returns an
// error, or a result that agrees with its declaration. op_fuzz.cc draws the
// same from bytes. Sizes that this draw does not reach have tests of their own.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "graph/graph.h"
#include "ops/testing/hostile_inputs_test_util.h"

namespace sluice {
namespace {

constexpr int kTries = 60;

TEST(HostileInputs, GiveErrorsOrDeclaredOutputs) {
  const char* given = std::getenv("SLUICE_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 20261122;
  const char* only = std::getenv("SLUICE_OP");
  RecordProperty("seed", std::to_string(seed));
  const hostile::LittleMemory little;
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (only != nullptr && op->name != only) continue;
    const std::vector<op_instances::Instance> all = hostile::Victims(*op);
    if (all.empty()) continue;
    if (given != nullptr) std::fprintf(stderr, "%s\n", op->name.c_str());
    std::mt19937_64 random(seed);
    const hostile::Draw draw = [&](uint64_t n) { return random() % n; };
    for (int i = 0; i < kTries; ++i) {
      const std::string what = hostile::DrawAndTry(all, draw);
      EXPECT_EQ(what, "") << "try " << i << " of seed " << seed;
      if (!what.empty()) break;
    }
  }
}

Result<std::vector<Tensor>> RunOnConstants(const std::string& op,
                                           const std::vector<Tensor>& inputs,
                                           const AttrMap& attrs) {
  Graph g;
  WithGraph use(g);
  std::vector<Output> constants;
  for (const Tensor& t : inputs)
    constants.push_back(op_instances::InputNode(t, /*constant=*/true));
  Node* const n = BuildNode(op, constants, attrs);
  if (n == nullptr) return g.status();
  return RunKernel(*n, inputs);
}

TEST(CombinedNonMaxSuppression, TakesAnyNumberOfClassesWithoutBoxes) {
  const auto got = RunOnConstants(
      "CombinedNonMaxSuppression",
      {Tensor(DType::kFloat, {1, 0, 1, 4}),
       Tensor(DType::kFloat, {1, 0, int64_t{1} << 40}),
       Tensor::Scalar(std::numeric_limits<int32_t>::max()),
       Tensor::Scalar(int32_t{3}), Tensor::Scalar(0.5f), Tensor::Scalar(0.f)},
      {{"pad_per_class", true}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].shape().ToString(), "[1,3,4]");
  EXPECT_EQ((*got)[3].ToVector<int32_t>(), std::vector<int32_t>{0});
}

TEST(NonMaxSuppression, PadsNoMoreThanThereIsMemoryFor) {
  const hostile::LittleMemory little;
  std::vector<Tensor> inputs = {
      *Tensor::Zeros(DType::kFloat, {1, 4}), Tensor::Vector<float>({0.5f}),
      Tensor::Scalar(std::numeric_limits<int32_t>::max()), Tensor::Scalar(0.5f),
      Tensor::Scalar(0.f)};
  const AttrMap padded = {{"pad_to_max_output_size", true}};
  EXPECT_EQ(
      RunOnConstants("NonMaxSuppressionV4", inputs, padded).status().code(),
      StatusCode::kResourceExhausted);
  inputs.push_back(Tensor::Scalar(0.f));  // soft_nms_sigma
  EXPECT_EQ(
      RunOnConstants("NonMaxSuppressionV5", inputs, padded).status().code(),
      StatusCode::kResourceExhausted);
  // Small ones are filled with zeros.
  inputs[2] = Tensor::Scalar(int32_t{3});
  const auto got = RunOnConstants("NonMaxSuppressionV5", inputs, padded);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].ToVector<int32_t>(), (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ((*got)[1].ToVector<float>(), (std::vector<float>{0.5f, 0, 0}));
  EXPECT_EQ((*got)[2].scalar<int32_t>(), 1);
}

}  // namespace
}  // namespace sluice
