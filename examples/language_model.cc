// A word language model (OSDI'16, section 6.4): an LSTM learns a text file,
// with a softmax over all words or over a sample of them, then writes in a loop
// inside the graph, which draws each word and feeds it back. The tables of
// words are in two parts each (Figure 4).
//
//   example_language_model [FILE [STEPS [SAMPLED]]]  # 0 sampled words: all.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <random>

#include "sluice/sluice.h"
using namespace sluice;

constexpr int kBatch = 16, kLength = 20, kUnits = 128;

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3";
  const int steps = argc > 2 ? std::atoi(argv[2]) : 300;
  const int sampled = argc > 3 ? std::atoi(argv[3]) : 0;
  // The text as numbers of words: the most frequent word is 0, as samples by
  // the log-uniform distribution expect.
  std::ifstream file(path);
  std::map<std::string, int> count, number;
  std::vector<std::string> text, words;
  for (std::string word; file >> word; text.push_back(word))
    if (++count[word] == 1) words.push_back(word);
  std::ranges::stable_sort(words, std::greater(),
                           [&](const auto& w) { return count[w]; });
  for (const std::string& word : words)
    number.emplace(word, static_cast<int>(number.size()));
  const auto vocabulary = static_cast<int64_t>(words.size());
  if (text.size() <= kLength) return 1;

  SetRandomSeed(1);
  const auto table = [&](const char* name, const Shape& shape) {
    return GetPartitionedVariable(name, shape, FixedSizePartitioner(2));
  };
  const PartitionedVar embedding = table("embedding", {vocabulary, 64});
  const PartitionedVar w = table("w", {vocabulary, kUnits});
  const PartitionedVar b = table("b", {vocabulary});
  RnnCell cell = LstmCell(kUnits);

  // Training: [batch, time] words predict those that follow them.
  Output pieces = Placeholder<int32_t>({kBatch, kLength + 1});
  Output from = ops::Slice(pieces, {0, 0}, {kBatch, kLength});
  Output to = ops::Reshape(ops::Slice(pieces, {0, 1}, {kBatch, kLength}), {-1});
  Output outputs = DynamicRnn(cell, EmbeddingLookup(embedding, from)).outputs;
  Output h = ops::Reshape(outputs, {kBatch * kLength, kUnits});
  Output losses = sampled == 0 ? FullSoftmaxLoss(w, b, to, h)
                               : SampledSoftmaxLoss(w, b, to, h, sampled);
  Output loss = ops::Mean(losses, 0);
  Node* train = AdamOptimizer(0.005).Minimize(loss);

  // Writing: the requested number of words, one per iteration.
  Output first = Placeholder<int32_t>({1}), length = Placeholder<int32_t>({});
  Output all_w = w, all_b = b;  // Joined once, before the loop.
  auto [n, last, state, written] = While(
      std::tuple{0, first, cell.ZeroState(1),
                 TensorArray(DType::kInt32, length)},
      [&](Output n, auto...) { return n < length; },
      [&](Output n, Output word, RnnState state, TensorArray so_far) {
        RnnStep step = cell(EmbeddingLookup(embedding, word), state);
        Output scores =
            ops::MatMul(step.output, all_w, {.transpose_b = true}) + all_b;
        Output next = ops::Reshape(
            ops::Multinomial(scores / 0.7f, 1, {.output_dtype = DType::kInt32}),
            {1});
        return std::tuple{n + 1, next, step.state, so_far.Write(n, next)};
      },
      {.back_prop = false, .name = "write"});
  Output line = ops::Reshape(written.Stack(), {-1});

  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  std::mt19937 random(1);
  for (int step = 0; step <= steps && status.ok(); ++step) {
    Tensor batch(DType::kInt32, {kBatch, kLength + 1});
    int32_t* at = batch.data<int32_t>();
    for (int i = 0; i < kBatch; ++i) {
      size_t from_word = random() % (text.size() - kLength);
      for (int k = 0; k <= kLength; ++k) *at++ = number[text[from_word++]];
    }
    const auto out = session.Run({{pieces, batch}}, {loss}, {train});
    status = out.status();
    if (status.ok() && step % 50 == 0)
      std::printf("step %4d: loss %.3f\n", step, (*out)[0].scalar<float>());
  }
  const Feeds feeds = {{first, Tensor::Vector<int32_t>({0})},
                       {length, Tensor::Scalar<int32_t>(60)}};
  const Result<Tensor> out = session.Run(feeds, line);
  if (status.ok()) status = out.status();
  std::printf("%s\n", status.ok() ? "It writes:" : status.ToString().c_str());
  for (int i = 0; status.ok() && i < 60; ++i)
    std::printf("%s ", words[size_t(out->data<int32_t>()[i])].c_str());
  return status.ok() ? 0 : 1;
}
