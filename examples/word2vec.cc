// Word vectors from the company that words keep (word2vec): a word is to tell
// the words of its sentence from others, by noise-contrastive estimation. The
// text is made: each sentence is about one of 20 topics, which has 10 words of
// its own. The nearest neighbours of a word should then be of its topic.
#include <cstdio>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

constexpr int kTopics = 20, kEach = 10, kWords = kTopics * kEach;
constexpr int kWidth = 32, kBatch = 128, kNoise = 16;

int main() {
  SetRandomSeed(1);
  Output word = Placeholder<int32_t>({kBatch});
  Output beside = Placeholder<int32_t>({kBatch});
  Var vectors =
      GetVariable("vectors", {kWords, kWidth}, init::RandomUniform(-1, 1));
  Var w = GetVariable("w", {kWords, kWidth}, init::TruncatedNormal(0, 0.2));
  Var b = GetVariable("b", {kWords}, init::Zeros());
  Output loss = ops::Mean(NceLoss(w, b, beside, EmbeddingLookup(vectors, word),
                                  kNoise, {.sampler = UniformClassSampler()}),
                          0);
  Node* train = AdagradOptimizer(1.0).Minimize(loss);
  // The two nearest by the cosine, of which one is the word itself.
  Output units = EmbeddingLookup(vectors, ops::Range(0, kWords, 1));
  units =
      units * ops::Rsqrt(ops::Sum(ops::Square(units), 1, {.keep_dims = true}));
  Output nearest =
      ops::TopKV2(ops::MatMul(units, units, {.transpose_b = true}), 2).indices;

  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  std::mt19937 random(1);
  for (int step = 0; step <= 2000 && status.ok(); ++step) {
    Tensor words(DType::kInt32, {kBatch}), others(DType::kInt32, {kBatch});
    for (size_t i = 0; i < kBatch; ++i) {  // Two words of one sentence.
      const auto topic = static_cast<int>(random() % kTopics) * kEach;
      words.flat<int32_t>()[i] = topic + static_cast<int>(random() % kEach);
      others.flat<int32_t>()[i] = topic + static_cast<int>(random() % kEach);
    }
    auto out = session.Run({{word, words}, {beside, others}}, {loss}, {train});
    status = out.status();
    if (status.ok() && step % 400 == 0)
      std::printf("step %4d: loss %.3f\n", step, (*out)[0].scalar<float>());
  }
  const Result<Tensor> found = session.Run(nearest);
  if (status.ok()) status = found.status();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  int right = 0;
  for (int i = 0; i < kWords; ++i) {
    const int32_t* const two = found->data<int32_t>() + 2 * i;
    right += (two[0] == i ? two[1] : two[0]) / kEach == i / kEach;
  }
  std::printf("nearest word is of the same topic: %.0f%%\n",
              100.0 * right / kWords);
  return right > 0.9 * kWords ? 0 : 1;
}
