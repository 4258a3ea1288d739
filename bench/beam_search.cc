// A beam-search decoder with early exits: each sentence has a loop of its own,
// which ends when its best hypothesis ends. bench/structure_peers.py has the
// same in PyTorch. Counted in words: how long the sentences are depends on
// random weights, which differ there.
#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "bench.h"
#include "exec/core/trace.h"
#include "sluice/sluice.h"

namespace sluice::bench {
namespace {

constexpr int kBeamSentences = 32, kBeamUnits = 128, kBeamWords = 1000,
              kBeamWidth = 4, kBeamMostWords = 20;

Output BeamParameter(const Shape& shape, uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0, scale);
  Tensor t(DType::kFloat, shape);
  for (float& f : t.flat<float>()) f = draw(random);
  return Constant(t);
}

Result<double> WordsPerSecond(bool batched) {
  constexpr int kU = kBeamUnits, kK = kBeamWidth, kV = kBeamWords;
  Graph g;
  WithGraph use(g);
  Var table(BeamParameter({kV, kU}, 1, 0.5f)),
      w(BeamParameter({2 * kU, kU}, 2, 0.15f)), b(Zeros({kU})),
      out(BeamParameter({kU, kV}, 3, 0.3f));
  const Output states = Placeholder<float>({kBeamSentences, 1, kU});
  const Output table_value = table.value(), w_value = w.value(),
               b_value = b.value(), out_value = out.value();
  const TensorArray each =
      TensorArray(DType::kFloat, kBeamSentences).Unstack(states);
  const DType f32 = DType::kFloat, i32 = DType::kInt32;
  const auto [i, scores, lengths] = While(
      std::tuple{0, TensorArray(f32, kBeamSentences),
                 TensorArray(i32, kBeamSentences)},
      [](Output i, const TensorArray&, const TensorArray&) {
        return i < kBeamSentences;
      },
      [&](Output i, const TensorArray& scores, const TensorArray& lengths) {
        const Output first =
            ops::Tile(each.Read(i), Constant(Tensor::Vector<int32_t>({kK, 1})));
        // At first all hypotheses are the same, so only one counts.
        const Output start =
            Constant(Tensor::Of<float>({kK, 1}, {0.f, -1e9f, -1e9f, -1e9f}));
        const auto [n, h, words, best] = While(
            std::tuple{0, first,
                       Constant(Tensor::Vector<int32_t>({1, 1, 1, 1})), start},
            [](Output n, Output, Output words, Output) {
              // Word 0 ends a sentence.
              return ops::LogicalAnd(
                  n < kBeamMostWords,
                  ops::NotEqual(ops::GatherV2(words, 0, 0), 0));
            },
            [&](Output n, Output h, Output words, Output best) {
              const Output x = ops::GatherV2(table_value, words, 0);
              const Output next = ops::Tanh(ops::BiasAdd(
                  ops::MatMul(ops::ConcatV2({x, h}, 1), w_value), b_value));
              const Output all =
                  ops::LogSoftmax(ops::MatMul(next, out_value)) + best;
              const Output flat = Constant(Tensor::Vector<int32_t>({kK * kV}));
              const auto top = ops::TopKV2(ops::Reshape(all, flat), kK);
              return std::tuple{
                  n + 1, ops::GatherV2(next, ops::FloorDiv(top.indices, kV), 0),
                  ops::FloorMod(top.indices, kV),
                  ops::ExpandDims(top.values, 1)};
            });
        return std::tuple{i + 1, scores.Write(i, ops::Squeeze(best)),
                          lengths.Write(i, n)};
      },
      {.parallel_iterations = kBeamSentences, .batch = batched});
  const std::vector<Output> fetches = {scores.Stack(), lengths.Stack()};
  SLUICE_RETURN_IF_ERROR(g.status());
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({states}, fetches));
  std::mt19937 random(5);
  std::normal_distribution<float> draw(0, 1);
  double best = 0;
  for (int turn = 0; turn < 5; ++turn) {
    Tensor fed(f32, Shape({kBeamSentences, 1, kU}));
    for (float& f : fed.flat<float>()) f = draw(random);
    const int64_t start = NowNs();
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> got, step.Run({fed}));
    const double s = static_cast<double>(NowNs() - start) * 1e-9;
    const auto each_length = got[1].flat<int32_t>();
    const int words =
        std::accumulate(each_length.begin(), each_length.end(), 0);
    if (turn > 0) best = std::max(best, words / s);
  }
  return best;
}

SLUICE_BENCH("beam_search.U128.V1000.K4.B32.words_per_s") {
  return WordsPerSecond(true);
}
SLUICE_BENCH("beam_search.U128.V1000.K4.B32.one_by_one.words_per_s") {
  return WordsPerSecond(false);
}

}  // namespace
}  // namespace sluice::bench
