// Beam search in the graph, with an exit of its own for each sample.
//
// A decoder learns to spell words, several for each topic. The likeliest word
// of a topic begins with a letter that most of its words do not begin with, so
// taking the likeliest letter at each step misses it. A loop searches for it
// with a beam of hypotheses, and ends as soon as none can overtake the best
// finished one. Each sample has its own loop: the program never thinks about
// batches.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

constexpr int kTopics = 20, kLetters = 8, kLongest = 10, kUnits = 32, kEnd = 0;
constexpr int kWords = 7, kBatch = 100, kSteps = 300;
constexpr float kImpossible = -INFINITY;

struct Decoder {
  RnnCell cell = GruCell(kUnits);
  Var topics = GetVariable("topics", {kTopics, kUnits});
  Var letters = GetVariable("letters", {1 + kLetters, kUnits});
  Var out = GetVariable("out", {kUnits, 1 + kLetters});

  // The log probabilities of the next letter after `letter`; moves the state
  // on.
  Output Next(Output letter, Output* state) const {
    *state = cell(ops::GatherV2(letters, letter, 0), {*state}).output;
    return ops::LogSoftmax(ops::MatMul(*state, out));
  }

  // The likeliest word of a topic (padded), and the number of steps.
  std::tuple<Output, Output> Search(Output topic, int width) const {
    Tensor one(DType::kFloat, {width});  // All hypotheses begin alike.
    std::fill_n(one.data<float>(), width, kImpossible);
    one.data<float>()[0] = 0;
    Output first = ops::GatherV2(
        topics, ops::Tile(ops::ExpandDims(topic, 0), IntVector({width})), 0);
    const auto [steps, last, states, scores, found, word, score] = While(
        std::tuple{0, Zeros({width}, DType::kInt32), first, one,
                   Zeros({width, kLongest + 1}, DType::kInt32),
                   Zeros({kLongest + 1}, DType::kInt32), kImpossible},
        [](Output t, Output, Output, Output scores, Output, Output,
           Output score) {
          return ops::LogicalAnd(t <= kLongest, ops::Max(scores, 0) > score);
        },
        [&](Output t, Output last, Output states, Output scores, Output found,
            Output word, Output score) {
          Output guess = Next(last, &states);
          Output total = ops::ExpandDims(scores, 1) + guess;
          // A hypothesis that ends here may be the best so far.
          Output ends = ops::GatherV2(total, kEnd, 1);
          Output best = ops::ArgMax(ends, 0), most = ops::Max(ends, 0);
          word = Cond(
              most > score, [&] { return ops::GatherV2(found, best, 0); },
              [&] { return word; });
          // The best ones that go on.
          Output going =
              ops::Reshape(ops::Slice(total, {0, 1}, {width, kLetters}), {-1});
          const auto top = ops::TopKV2(going, width);
          Output from = ops::FloorDiv(top.indices, kLetters);
          last = ops::FloorMod(top.indices, kLetters) + 1;
          found = ops::GatherV2(found, from, 0) +
                  ops::ExpandDims(last, 1) * ops::OneHot(t, kLongest + 1, 1, 0);
          return std::tuple{
              t + 1, last, ops::GatherV2(states, from, 0), top.values,
              found, word, ops::Maximum(most, score)};
        },
        {.name = "search"});
    return {word, steps};
  }
};

// The words of the topics, padded with kEnd: for each topic a likely one, and
// others that share another first letter.
struct Lexicon {
  std::mt19937 random{1};
  std::vector<int32_t> spelled;

  int Draw(int below) {
    return static_cast<int>(random() % static_cast<uint32_t>(below));
  }
  const int32_t* Word(int topic, int i) const {
    return &spelled[static_cast<size_t>((topic * kWords + i) * (kLongest + 1))];
  }
  Lexicon() {
    for (int topic = 0; topic < kTopics; ++topic) {
      const int likely = Draw(kLetters),
                other = likely + 1 + Draw(kLetters - 1);
      for (int i = 0; i < kWords; ++i) {
        std::vector<int32_t> word(kLongest + 1, kEnd);
        word[0] = 1 + (i == 0 ? likely : other) % kLetters;
        word[1] = 1 + i;  // (All are different.)
        for (size_t t = 2; t < static_cast<size_t>(3 + Draw(kLongest - 2)); ++t)
          word[t] = 1 + Draw(kLetters);
        spelled.insert(spelled.end(), word.begin(), word.end());
      }
    }
  }
};

int main() {
  SetRandomSeed(1);
  const Decoder decoder;
  // Learning: the probability of the letters of words.
  Output topic = Placeholder<int32_t>({kBatch});
  Output words = Placeholder<int32_t>({kBatch, kLongest + 1});
  Output state = ops::GatherV2(decoder.topics, topic, 0);
  Output before = ops::ZerosLike(topic), loss = Constant(0.0f);
  for (int t = 0; t <= kLongest; ++t) {
    Output guess = decoder.Next(before, &state);
    before = ops::GatherV2(words, t, 1);
    loss =
        loss - ops::Sum(guess * ops::OneHot(before, 1 + kLetters, 1.0f, 0.0f),
                        {0, 1}) /
                   float{kBatch};
  }
  Node* train = AdamOptimizer(0.01f).Minimize(loss);

  const auto searched = [&](int width) {
    return MapFn([&](Output topic) { return decoder.Search(topic, width); },
                 ops::Range(0, kTopics, 1), {.parallel_iterations = kTopics});
  };
  const auto [greedy, greedy_steps] = searched(1);
  const auto [beam, beam_steps] = searched(4);

  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  Lexicon lexicon;
  for (int step = 0; step <= kSteps && status.ok(); ++step) {
    Tensor topics(DType::kInt32, {kBatch});
    Tensor sample(DType::kInt32, {kBatch, kLongest + 1});
    for (int i = 0; i < kBatch; ++i) {
      const int chosen = topics.data<int32_t>()[i] = lexicon.Draw(kTopics);
      // Every other word has a tenth of the probability.
      const int word = std::max(0, lexicon.Draw(10) - 3);
      std::copy_n(lexicon.Word(chosen, word), kLongest + 1,
                  sample.data<int32_t>() + i * (kLongest + 1));
    }
    const auto out =
        session.Run({{topic, topics}, {words, sample}}, loss, {train});
    status = out.status();
    if (status.ok() && step % 100 == 0)
      std::printf("step %3d: loss %.3f\n", step, out->scalar<float>());
  }
  for (const bool wide : {false, true}) {
    if (!status.ok()) break;
    const auto out =
        session.Run({wide ? beam : greedy, wide ? beam_steps : greedy_steps});
    if (status = out.status(); !status.ok()) break;
    int right = 0;
    for (int t = 0; t < kTopics; ++t)
      right += std::equal(lexicon.Word(t, 0), lexicon.Word(t, 1),
                          (*out)[0].data<int32_t>() + t * (kLongest + 1));
    const auto steps = (*out)[1].flat<int32_t>();
    std::printf(
        "%s: the likeliest word of %d in %d topics, in %d to %d steps\n",
        wide ? "a beam of 4" : "the likeliest letters", right, kTopics,
        *std::min_element(steps.begin(), steps.end()),
        *std::max_element(steps.begin(), steps.end()));
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
