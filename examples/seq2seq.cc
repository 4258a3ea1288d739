// Sequence to sequence with attention: it reads a word and learns to write it
// backwards. To generate the output, a loop in the graph feeds each letter back
// and stops as soon as every word of the batch has ended.
#include <cstdio>
#include <random>
#include <string>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

// Letters are 2, 3, ...; 0 begins a word, 1 ends it (and pads it).
constexpr int kBegin = 0, kEnd = 1, kSymbols = 2 + 26;
constexpr int kBatch = 32, kLongest = 8, kUnits = 48, kSteps = 900;

struct Model {
  Var embedding = GetVariable("embedding", {kSymbols, 16});
  Var keys = GetVariable("keys", {2 * kUnits, kUnits});
  Var out = GetVariable("out", {3 * kUnits, kSymbols});
  RnnCell forward = GruCell(kUnits), backward = GruCell(kUnits);
  RnnCell decoder = GruCell(kUnits);

  Output Embed(Output letters) const {
    return ops::GatherV2(embedding, letters, 0);
  }
  // The decoder's attention memory, one row per letter, and its initial state.
  struct Read {
    Output rows, keys, mask;  // [batch, time, ...].
    RnnState state;
  };
  Read Encode(Output letters, Output lengths) const {
    BidirectionalRnnResult r =
        BidirectionalDynamicRnn(forward, backward, Embed(letters),
                                {.sequence_length = Operand(lengths)});
    Read read;
    read.rows = ops::ConcatV2({r.forward.outputs, r.backward.outputs}, 2);
    Output flat = ops::Reshape(read.rows, {-1, 2 * kUnits});
    read.keys = ops::Reshape(ops::MatMul(flat, keys), {-1, kLongest, kUnits});
    Output beyond = ops::GreaterEqual(ops::Range(0, kLongest, 1),
                                      ops::ExpandDims(lengths, 1));
    read.mask = ops::Cast(beyond, DType::kFloat) * -1e9f;
    read.state = r.backward.state;
    return read;
  }
  // The decoder with attention: scores of the next letter.
  RnnCell Attending(const Read& read) const {
    return FunctionCell(
        kSymbols, {kUnits}, [this, read](Output x, const RnnState& s) {
          RnnStep step = decoder(x, s);
          Output match =
              ops::Sum(read.keys * ops::ExpandDims(step.output, 1), 2);
          Output weights = ops::ExpandDims(ops::Softmax(match + read.mask), 2);
          Output seen = ops::Sum(read.rows * weights, 1);
          Output both = ops::ConcatV2({step.output, seen}, 1);
          return RnnStep{ops::MatMul(both, out), step.state};
        });
  }
  // Each letter of `reversed` is predicted from those before it.
  Output Loss(const Read& read, Output lengths, Output reversed) const {
    Output letters_before = ops::Slice(reversed, {0, 0}, {-1, kLongest});
    Output before =
        ops::ConcatV2({ops::ExpandDims(Begin(lengths), 1), letters_before}, 1);
    RnnResult taught = DynamicRnn(
        Attending(read), Embed(before),
        {.sequence_length = Operand(lengths + 1), .initial_state = read.state});
    Output losses = ops::SparseSoftmaxCrossEntropyWithLogits(
                        ops::Reshape(taught.outputs, {-1, kSymbols}),
                        ops::Reshape(reversed, {-1}))
                        .loss;
    // Padding does not count.
    Output counts = ops::Cast(ops::LessEqual(ops::Range(0, kLongest + 1, 1),
                                             ops::ExpandDims(lengths, 1)),
                              DType::kFloat);
    return ops::Sum(losses * ops::Reshape(counts, {-1}), 0) /
           ops::Sum(counts, {0, 1});
  }
  // Greedy decoding until all words have ended: [batch, time].
  Output Write(const Read& read, Output lengths) const {
    const RnnCell cell = Attending(read);
    const TensorArray nothing(DType::kInt32, 0, {.dynamic_size = true});
    auto written = While(
        std::tuple{0, Begin(lengths), read.state,
                   ops::Fill(ops::Shape(lengths), false), nothing},
        [](Output t, Output, RnnState, Output ended, TensorArray) {
          return ops::LogicalAnd(t < 2 * kLongest,
                                 ops::LogicalNot(ops::All(ended, 0)));
        },
        [&](Output t, Output letter, RnnState state, Output ended,
            TensorArray so_far) {
          RnnStep step = cell(Embed(letter), state);
          Output best =
              ops::ArgMax(step.output, 1, {.output_type = DType::kInt32});
          Output next = ops::SelectV2(ended, kEnd, best);
          return std::tuple{t + 1, next, step.state, ops::Equal(next, kEnd),
                            so_far.Write(t, next)};
        },
        {.back_prop = false, .name = "write"});
    return ops::Transpose(std::get<4>(written).Stack(), {1, 0});
  }
  static Output Begin(Output lengths) {
    return ops::Fill(ops::Shape(lengths), kBegin);
  }
};

// A batch of words and the reversed words.
struct Batch {
  Tensor words = Tensor(DType::kInt32, {kBatch, kLongest});
  Tensor lengths = Tensor(DType::kInt32, {kBatch});
  Tensor reversed = Tensor(DType::kInt32, {kBatch, kLongest + 1});
};

Batch Draw(std::mt19937* random) {
  Batch batch;
  for (int i = 0; i < kBatch; ++i) {
    const int n = 1 + static_cast<int>((*random)() % kLongest);
    batch.lengths.data<int32_t>()[i] = n;
    int32_t* word = batch.words.data<int32_t>() + i * kLongest;
    int32_t* back = batch.reversed.data<int32_t>() + i * (kLongest + 1);
    for (int t = 0; t < kLongest; ++t)
      word[t] = t < n ? 2 + static_cast<int32_t>((*random)() % 26) : kEnd;
    for (int t = 0; t <= kLongest; ++t)
      back[t] = t < n ? word[n - 1 - t] : kEnd;
  }
  return batch;
}

// Row `i` of `letters`, up to the end of the word.
std::string Word(const Tensor& letters, int i) {
  const int n = static_cast<int>(letters.dim(1));
  const int32_t* p = letters.data<int32_t>() + i * n;
  std::string s;
  for (int t = 0; t < n && p[t] >= 2; ++t)
    s += static_cast<char>('a' + p[t] - 2);
  return s;
}

}  // namespace

int main() {
  SetRandomSeed(1);
  const Model model;
  Output words = Placeholder<int32_t>({-1, kLongest});
  Output lengths = Placeholder<int32_t>({-1});
  Output reversed = Placeholder<int32_t>({-1, kLongest + 1});
  Model::Read read = model.Encode(words, lengths);
  Output loss = model.Loss(read, lengths, reversed);
  Output written = model.Write(read, lengths);
  Node* train = AdagradOptimizer(0.1, 1e-5).Minimize(loss);

  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  std::mt19937 random(1);
  for (int step = 0; step <= kSteps && status.ok(); ++step) {
    const Batch b = Draw(&random);
    const auto out = session.Run(
        {{words, b.words}, {lengths, b.lengths}, {reversed, b.reversed}}, loss,
        {train});
    status = out.status();
    if (status.ok() && step % 150 == 0)
      std::printf("step %3d: loss %.4f\n", step, out->scalar<float>());
  }
  const Batch fresh = Draw(&random);
  const auto out =
      session.Run({{words, fresh.words}, {lengths, fresh.lengths}}, written);
  if (!status.ok() || !out.ok()) {
    std::fprintf(stderr, "%s\n%s\n", status.ToString().c_str(),
                 out.status().ToString().c_str());
    return 1;
  }
  int right = 0;
  for (int i = 0; i < kBatch; ++i) {
    right += Word(*out, i) == Word(fresh.reversed, i);
    if (i < 5)
      std::printf("%-8s -> %s\n", Word(fresh.words, i).c_str(),
                  Word(*out, i).c_str());
  }
  std::printf(
      "%d of %d new words are right; the writing stopped after %d of at "
      "most %d letters\n",
      right, kBatch, static_cast<int>(out->dim(1)), 2 * kLongest);
  return 0;
}
