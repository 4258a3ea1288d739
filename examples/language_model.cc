// A character language model: an LSTM learns a text file, then generates text
// in a loop inside the graph that samples each character from the model's
// distribution and feeds it back.
//
//   example_language_model [FILE [STEPS]]
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int kBatch = 32, kLength = 40, kUnits = 128, kSymbols = 128;

// Random pieces of kLength + 1 characters of the text.
Tensor Pieces(const std::string& text, std::mt19937* random) {
  Tensor t(DType::kInt32, {kBatch, kLength + 1});
  for (int i = 0; i < kBatch; ++i) {
    const size_t from = (*random)() % (text.size() - kLength);
    for (int k = 0; k <= kLength; ++k)
      t.data<int32_t>()[i * (kLength + 1) + k] =
          text[from + static_cast<size_t>(k)] & (kSymbols - 1);
  }
  return t;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path =
      argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3";
  const int steps = argc > 2 ? std::atoi(argv[2]) : 400;
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() <= kLength) {
    std::fprintf(stderr, "%s: expected a text of more than %d characters\n",
                 path.c_str(), kLength);
    return 1;
  }

  // The model: from a character's vector to scores of the next character.
  SetRandomSeed(1);
  Var embedding = GetVariable("embedding", {kSymbols, 64});
  Var w = GetVariable("w", {kUnits, kSymbols});
  Var b = GetVariable("b", {kSymbols}, init::Zeros());
  RnnCell cell = LstmCell(kUnits);
  auto scores = [&](Output h) { return ops::MatMul(h, w) + b; };

  // Training: [batch, time] characters predict those that follow them.
  Output pieces = Placeholder<int32_t>({kBatch, kLength + 1});
  Output from = ops::Slice(pieces, {0, 0}, {kBatch, kLength});
  Output to = ops::Slice(pieces, {0, 1}, {kBatch, kLength});
  RnnResult rnn = DynamicRnn(cell, ops::GatherV2(embedding, from, 0));
  Output flat = ops::Reshape(rnn.outputs, {kBatch * kLength, kUnits});
  Output loss = ops::Mean(ops::SparseSoftmaxCrossEntropyWithLogits(
                              scores(flat), ops::Reshape(to, {-1}))
                              .loss,
                          0);
  Node* train = AdagradOptimizer(0.1, 1e-5).Minimize(loss);

  // Generation: the requested number of characters, one per iteration.
  Output first = Placeholder<int32_t>(PartialShape::Scalar());
  Output count = Placeholder<int32_t>(PartialShape::Scalar());
  auto [n, last, state, written] = While(
      std::tuple{0, ops::Reshape(first, {1}), cell.ZeroState(1),
                 TensorArray(DType::kInt32, count)},
      [&](Output n, auto...) { return n < count; },
      [&](Output n, Output c, RnnState state, TensorArray so_far) {
        RnnStep step = cell(ops::GatherV2(embedding, c, 0), state);
        // (Sharpens the model's distribution slightly.)
        Output next =
            ops::Reshape(ops::Multinomial(scores(step.output) / 0.7f, 1,
                                          {.output_dtype = DType::kInt32}),
                         {1});
        return std::tuple{n + 1, next, step.state, so_far.Write(n, next)};
      },
      {.back_prop = false, .name = "write"});
  Output characters = ops::Reshape(written.Stack(), {-1});

  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  std::mt19937 random(1);
  for (int step = 0; step <= steps && status.ok(); ++step) {
    const auto out =
        session.Run({{pieces, Pieces(text, &random)}}, {loss}, {train});
    status = out.status();
    if (status.ok() && step % 50 == 0)
      std::printf("step %4d: %.3f bits per character\n", step,
                  (*out)[0].scalar<float>() / std::log(2.0f));
  }
  const auto out = session.Run({{first, Tensor::Scalar<int32_t>('\n')},
                                {count, Tensor::Scalar<int32_t>(400)}},
                               characters);
  if (!status.ok() || !out.ok()) {
    std::fprintf(stderr, "%s\n%s\n", status.ToString().c_str(),
                 out.status().ToString().c_str());
    return 1;
  }
  std::printf("It writes:\n");
  for (const int32_t c : out->flat<int32_t>())
    std::putchar(c >= ' ' || c == '\n' ? c : '?');
  std::printf("\n");
  return 0;
}
