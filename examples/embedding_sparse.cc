// Word embeddings with sparse updates: a step reads and writes only the rows of
// the words in its batch, however large the vocabulary is.
#include <cstdio>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

constexpr int kWords = 50000, kWidth = 32, kBatch = 64;

int main() {
  // Learns that word w is followed by word w + 1.
  Output word = Placeholder<int32_t>({kBatch});
  Output next = Placeholder<int32_t>({kBatch});
  Var in = GetVariable("in", {kWords, kWidth}, init::RandomNormal(0, 0.3));
  Var out = GetVariable("out", {kWords, kWidth}, init::RandomNormal(0, 0.3));
  Output a = ops::GatherV2(in, word, 0), b = ops::GatherV2(out, next, 0);
  // Scores every word of the batch against every next word; its own next word
  // should win.
  Output scores = ops::MatMul(a, b, {.transpose_b = true});
  Output own = ops::Range(0, kBatch, 1);
  Output loss =
      ops::Mean(ops::SparseSoftmaxCrossEntropyWithLogits(scores, own).loss, 0);
  AdagradOptimizer optimizer(0.5);
  Node* train = optimizer.Minimize(loss);

  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  std::mt19937 random(1);
  for (int step = 0; step <= 2000 && status.ok(); ++step) {
    Tensor words(DType::kInt32, {kBatch}), nexts(DType::kInt32, {kBatch});
    for (int i = 0; i < kBatch; ++i) {
      words.flat<int32_t>()[i] = static_cast<int32_t>(random() % 500);
      nexts.flat<int32_t>()[i] = words.flat<int32_t>()[i] + 1;
    }
    auto result = session.Run({{word, words}, {next, nexts}}, {loss}, {train});
    status = result.status();
    if (status.ok() && step % 400 == 0)
      std::printf("step %4d: loss %.3f\n", step, (*result)[0].scalar<float>());
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
