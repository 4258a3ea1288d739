// Which advertisement is clicked, by a wide and a deep model trained together
// (Cheng et al., 2016), on made data. Some pairs of an interest of the user and
// an advertisement are clicked more often: the wide part has a weight for each.
// Some are clicked more by all users: the deep part learns it from embeddings.
#include <cmath>
#include <cstdio>
#include <random>

#include "sluice/sluice.h"
using namespace sluice;

constexpr int kInterests = 40, kAds = 30, kBatch = 256, kBuckets = 5000;

struct Batch {
  std::vector<int64_t> at, interests, ads;
  std::vector<float> clicked;
};
Batch MakeBatch(std::mt19937* random) {
  Batch batch;
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < kBatch; ++i) {
    const auto ad = static_cast<int64_t>((*random)() % kAds);
    const auto several = static_cast<int64_t>(1 + (*random)() % 3);
    double score = ad % 5 == 0 ? 1.5 : -1.5;
    for (int64_t k = 0; k < several; ++k) {
      const auto interest = static_cast<int64_t>((*random)() % kInterests);
      batch.at.insert(batch.at.end(), {i, k});
      batch.interests.push_back(interest);
      score += (interest * 31 + ad * 17) % 7 == 0 ? 3 : -1;
    }
    batch.ads.push_back(ad);
    batch.clicked.push_back(uniform(*random) < 1 / (1 + std::exp(-2 * score)));
  }
  return batch;
}

Output Layer(Output x, const char* name, int64_t units) {
  const NameScope scope(name);
  Output product = ops::MatMul(x, GetVariable("w", {x.shape().dim(1), units}));
  return product + GetVariable("b", {units}, init::Zeros());
}

int main() {
  SetRandomSeed(1);
  Output at = Placeholder<int64_t>({-1, 2});  // The example of an interest.
  Output interests = Placeholder<int64_t>({-1});
  Output ads = Placeholder<int64_t>({kBatch});
  Output clicked = Placeholder<float>({kBatch});
  Output ad_at = ops::Where(ops::Fill({kBatch, 1}, true));
  Output sizes = Constant(Tensor::Vector<int64_t>({kBatch, 3}));

  // Wide: a weight for each pair of an interest and an advertisement, by hash.
  auto pairs =
      ops::SparseCross({at, ad_at}, {interests, ads}, {sizes, sizes}, {}, true,
                       kBuckets, 956888297470, DType::kInt64, DType::kInt64);
  Var weights = GetVariable("wide", {kBuckets, 1}, init::Zeros());
  Output wide = EmbeddingLookupSparse(
      weights, {pairs.output_indices, pairs.output_values, pairs.output_shape},
      {}, {.combiner = Combiner::kSum});
  // Deep: layers over what the interests have in common, and the advertisement.
  Output user = EmbeddingLookupSparse(GetVariable("user", {kInterests, 8}),
                                      {at, interests, sizes});
  Output ad = EmbeddingLookup(GetVariable("ad", {kAds, 8}), ads);
  Output a = ops::Relu(Layer(ops::ConcatV2({user, ad}, 1), "a", 32));
  Output deep = Layer(ops::Relu(Layer(a, "b", 16)), "c", 1);

  Output score = ops::Reshape(wide + deep, {kBatch});
  Output loss = SigmoidCrossEntropy(clicked, score);
  std::vector<Var> others = TrainableVariables();
  std::erase_if(others, [&](const Var& v) { return v.SameAs(weights); });
  Node* train =
      Group({FtrlOptimizer(1.0).Minimize(loss, {.variables = {weights}}),
             AdagradOptimizer(0.2).Minimize(loss, {.variables = others})});
  Output guess = ops::Cast(score > 0, DType::kFloat);
  Output wrong = ops::Mean(ops::Abs(guess - clicked), 0);

  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  std::mt19937 random(1);
  float errors = 0.5f;  // The mean of the last steps.
  for (int step = 0; step <= 1000 && status.ok(); ++step) {
    const Batch batch = MakeBatch(&random);
    const auto n = static_cast<int64_t>(batch.interests.size());
    const Feeds feeds = {{at, Tensor::Of<int64_t>({n, 2}, batch.at)},
                         {interests, Tensor::Vector<int64_t>(batch.interests)},
                         {ads, Tensor::Vector<int64_t>(batch.ads)},
                         {clicked, Tensor::Vector<float>(batch.clicked)}};
    // (Before it learns from them: what it does for examples that are new.)
    const auto out = session.Run(feeds, {loss, wrong});
    if (status = out.status(); !status.ok()) break;
    status = session.RunTargets({train}, feeds);
    errors += 0.05f * ((*out)[1].scalar<float>() - errors);
    if (step % 200 == 0)
      std::printf("step %4d: loss %.3f, %.0f%% wrong\n", step,
                  (*out)[0].scalar<float>(), 100 * errors);
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() && errors < 0.15f ? 0 : 1;
}
