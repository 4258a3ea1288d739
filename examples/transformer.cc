// A small transformer (Vaswani et al., 2017) learns to sort sequences: it reads
// one, and writes its numbers in order, each after those that it wrote before.
//
//   example_transformer [STEPS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

constexpr int64_t kBatch = 64, kLength = 8, kNumbers = 16, kModel = 32;
constexpr int64_t kHeads = 2, kStart = kNumbers;  // The word before the first.

// The rows of a table for words and for their places.
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

// The logits of each word of the sorted sequence, from the sequence and the
// words before.
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

struct Batch {
  Tensor sequence{DType::kInt32, {kBatch, kLength}};
  Tensor before{DType::kInt32, {kBatch, kLength}};
  Tensor sorted{DType::kInt32, {kBatch, kLength}};
};

Batch Draw(std::mt19937* random) {
  Batch b;
  for (int64_t row = 0; row < kBatch; ++row) {
    int32_t* x = b.sequence.flat<int32_t>().data() + row * kLength;
    int32_t* y = b.sorted.flat<int32_t>().data() + row * kLength;
    int32_t* z = b.before.flat<int32_t>().data() + row * kLength;
    for (int64_t i = 0; i < kLength; ++i)
      x[i] = y[i] = static_cast<int32_t>((*random)() % kNumbers);
    std::sort(y, y + kLength);
    z[0] = kStart;
    std::copy(y, y + kLength - 1, z + 1);
  }
  return b;
}

Status Train(int steps) {
  SetRandomSeed(1);
  const Output sequence = Placeholder<int32_t>({kBatch, kLength}),
               before = Placeholder<int32_t>({kBatch, kLength}),
               sorted = Placeholder<int32_t>({kBatch, kLength});
  const Output logits = Transformer(sequence, before);
  const Output loss =
      SparseSoftmaxCrossEntropy(ops::Reshape(sorted, {-1}),
                                ops::Reshape(logits, {int64_t{-1}, kNumbers}));
  const Output words = ops::ArgMax(logits, 2, {.output_type = DType::kInt32});
  Node* train = AdamOptimizer(3e-3).Minimize(loss);
  Session session;
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  std::mt19937 random(7);
  for (int i = 1; i <= steps; ++i) {
    const Batch b = Draw(&random);
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<Tensor> out,
        session.Run(
            {{sequence, b.sequence}, {before, b.before}, {sorted, b.sorted}},
            {loss}, {train}));
    if (i % 100 == 0)
      std::printf("step %3d: loss %.3f\n", i, out[0].scalar<float>());
  }
  // Unseen sequences, sorted word by word, each after the model's own.
  const Batch b = Draw(&random);
  Tensor written = b.before;
  std::vector<int32_t> got;
  for (int64_t i = 0; i < kLength; ++i) {
    SLUICE_ASSIGN_OR_RETURN(
        const Tensor next,
        session.Run({{sequence, b.sequence}, {before, written}}, words));
    got = next.ToVector<int32_t>();
    written = Tensor(DType::kInt32, {kBatch, kLength});
    for (int64_t k = 0; k < kBatch * kLength; ++k)
      written.flat<int32_t>()[static_cast<size_t>(k)] =
          k % kLength == 0 ? kStart : got[static_cast<size_t>(k - 1)];
  }
  int right = 0;
  const std::vector<int32_t> want = b.sorted.ToVector<int32_t>();
  for (auto row = 0; row < kBatch; ++row)
    right += std::equal(want.begin() + row * kLength,
                        want.begin() + (row + 1) * kLength,
                        got.begin() + row * kLength);
  std::printf("%d of %d unseen sequences are sorted\n", right,
              static_cast<int>(kBatch));
  return right > kBatch / 2 ? OkStatus() : Internal("expected more than half");
}

int main(int argc, char** argv) {
  const Status status = Train(argc > 1 ? std::atoi(argv[1]) : 600);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
