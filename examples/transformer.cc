// A small transformer (Vaswani et al., 2017) learns to sort sequences: it reads
// one, and writes its numbers in order, each after those that it wrote before.
//
//   example_transformer [STEPS]
#include <cstdio>
#include <cstdlib>

#include "sluice/sluice.h"

using namespace sluice;

constexpr int kBatch = 64, kLength = 8, kNumbers = 16, kModel = 32, kHeads = 2;

// The rows of a table for words, and of another for their places.
Output Embedded(Output words) {
  return Embedding(words, kNumbers + 1, kModel) +
         GetVariable("places", {kLength, kModel}, init::RandomNormal(0, 0.1));
}

// Each of these adds to its input what it computes of it.
Output Attended(Output h, const MultiHeadAttentionOptions& options) {
  return h + MultiHeadAttention(LayerNorm(h), kHeads, kModel / kHeads, options);
}
Output Thought(Output h) {
  const Output inner = Dense(LayerNorm(h), 4 * kModel, {.activation = Gelu});
  return h + Dense(inner, kModel);
}

// The logits of each number of the result, from the sequence and the numbers
// before.
Output Transformer(Output sequence, Output before) {
  const VariableScope scope("transformer", {.reuse = Reuse::kAuto});
  Output memory;
  {
    const VariableScope reader("reader");
    memory = LayerNorm(Thought(Attended(Embedded(sequence), {})));
  }
  const VariableScope writer("writer");
  Output h = Attended(Embedded(before), {.causal = true});
  h = Thought(Attended(h, {.value = memory}));
  return Dense(LayerNorm(h), kNumbers);
}

Status Train(int steps) {
  SetRandomSeed(1);
  // New sequences in each step.
  const Output sequence =
      ops::RandomUniformInt({kBatch, kLength}, 0, kNumbers, {.seed = 3});
  const Output sorted = -ops::TopKV2(-sequence, kLength).values;
  // What comes before each number; before the first, a word of its own.
  const Output start = Filled({kBatch, 1}, kNumbers);
  const auto before = [&](Output words) {
    return ops::Concat(
        1, {start, ops::Slice(words, {0, 0}, {kBatch, kLength - 1})});
  };
  const Output logits = Transformer(sequence, before(sorted));
  const Output loss = SparseSoftmaxCrossEntropy(
      ops::Reshape(sorted, {-1}), ops::Reshape(logits, {-1, kNumbers}));
  Node* train = AdamOptimizer(3e-3).Minimize(loss);

  // After training: number by number, each after the model's own.
  const auto [i, written] = While(
      std::tuple{0, Filled({kBatch, kLength}, 0)},
      [](Output i, Output) { return i < kLength; },
      [&](Output i, Output words) {
        const Output next = Transformer(sequence, before(words));
        return std::tuple{i + 1,
                          ops::ArgMax(next, 2, {.output_type = DType::kInt32})};
      });
  const Output right = ops::All(written == sorted, 1);
  const Output share = ops::Mean(ops::Cast(right, DType::kFloat), 0);

  Session session;
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  for (int step = 1; step <= steps; ++step) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out,
                            session.Run({}, {loss}, {train}));
    if (step % 100 == 0)
      std::printf("step %3d: loss %.3f\n", step, out[0].scalar<float>());
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> shown,
                          session.Run({sequence, written, share}));
  const auto print = [](const char* what, const Tensor& rows) {
    std::printf("%s", what);
    for (size_t k = 0; k < kLength; ++k)
      std::printf(" %d", rows.flat<int32_t>()[k]);
  };
  print("read", shown[0]);
  print(", wrote", shown[1]);
  const float sorted_share = shown[2].scalar<float>();
  std::printf("; right: %.0f%% of sequences\n", 100 * sorted_share);
  return sorted_share > 0.5f ? OkStatus() : Internal("expected half or more");
}

int main(int argc, char** argv) {
  const Status status = Train(argc > 1 ? std::atoi(argv[1]) : 400);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
