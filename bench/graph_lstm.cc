// A Graph-LSTM over random directed graphs without cycles: a loop over all
// nodes of all graphs, in no order, whose iterations wait for the states of
// their predecessors in a TensorStore. bench/structure_peers.py has the same in
// PyTorch.
#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

constexpr int kDagCount = 16, kDagNodes = 30, kDagUnits = 128, kDagWords = 1000,
              kDagPredecessors = 3;
constexpr int kAllDagNodes = kDagCount * kDagNodes;

// The nodes of all graphs, numbered at random. A predecessor that is not there
// is node kAllDagNodes, whose state is zero.
struct RandomDags {
  std::vector<int64_t> predecessors;  // [kAllDagNodes, kDagPredecessors]
  std::vector<int32_t> word;
  std::vector<int64_t> last;  // The last node of each graph.

  explicit RandomDags(uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<int64_t> number(kAllDagNodes);
    for (int i = 0; i < kAllDagNodes; ++i) number[static_cast<size_t>(i)] = i;
    std::shuffle(number.begin(), number.end(), random);
    predecessors.assign(static_cast<size_t>(kAllDagNodes) * kDagPredecessors,
                        kAllDagNodes);
    word.resize(kAllDagNodes);
    for (int graph = 0; graph < kDagCount; ++graph)
      for (int i = 0; i < kDagNodes; ++i) {
        const auto at = static_cast<size_t>(graph * kDagNodes + i);
        const auto node = static_cast<size_t>(number[at]);
        word[node] = static_cast<int32_t>(random() % kDagWords);
        const int count =
            std::min(i, 1 + static_cast<int>(random() % kDagPredecessors));
        for (int k = 0; k < count; ++k)
          predecessors[node * kDagPredecessors + static_cast<size_t>(k)] =
              number[at - 1 - random() % static_cast<unsigned>(i)];
        if (i + 1 == kDagNodes) last.push_back(number[at]);
      }
  }
};

Output DagParameter(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0, 0.1f);
  Tensor t(DType::kFloat, shape);
  for (float& f : t.flat<float>()) f = draw(random);
  return Constant(t);
}

Result<double> GraphsPerSecond(bool gradient, bool batched) {
  constexpr int kU = kDagUnits;
  Graph g;
  WithGraph use(g);
  Var table(DagParameter({kDagWords, kU}, 1)),
      w(DagParameter({2 * kU, 3 * kU}, 2)), b(Zeros({3 * kU})),
      w_f(DagParameter({kU, kU}, 3)), u_f(DagParameter({kU, kU}, 4));
  const Output predecessors =
                   Placeholder<int64_t>({kAllDagNodes, kDagPredecessors}),
               word = Placeholder<int32_t>({kAllDagNodes}),
               last = Placeholder<int64_t>({kDagCount});
  const Output table_value = table.value(), w_value = w.value(),
               b_value = b.value(), w_f_value = w_f.value(),
               u_f_value = u_f.value();
  const TensorStore hs(DType::kFloat, {.element_shape = PartialShape({kU})}),
      cs(DType::kFloat, {.element_shape = PartialShape({kU})});
  hs.Write(int64_t{kAllDagNodes}, Zeros({kU}));
  cs.Write(int64_t{kAllDagNodes}, Zeros({kU}));
  While(
      std::tuple{0}, [](Output i) { return i < kAllDagNodes; },
      [&](Output i) {
        const Output keys = ops::GatherV2(predecessors, i, 0);
        const Output h = hs.ReadMany(keys), c = cs.ReadMany(keys);
        const Output x = ops::ExpandDims(
            ops::GatherV2(table_value, ops::GatherV2(word, i, 0), 0), 0);
        ops::SumAttrs keep;
        keep.keep_dims = true;
        const auto gates = ops::Split(
            1,
            ops::BiasAdd(
                ops::MatMul(ops::ConcatV2({x, ops::Sum(h, 0, keep)}, 1),
                            w_value),
                b_value),
            3);
        const Output forget =
            ops::Sigmoid(ops::MatMul(h, u_f_value) + ops::MatMul(x, w_f_value));
        const Output next_c = ops::Sigmoid(gates[0]) * ops::Tanh(gates[1]) +
                              ops::Sum(forget * c, 0, keep);
        const Output next_h = ops::Sigmoid(gates[2]) * ops::Tanh(next_c);
        const Output flat = Constant(Tensor::Vector<int32_t>({kU}));
        const Output key = ops::Cast(i, DType::kInt64);
        hs.Write(key, ops::Reshape(next_h, flat));
        cs.Write(key, ops::Reshape(next_c, flat));
        return std::tuple{i + 1};
      },
      {.parallel_iterations = kAllDagNodes + 1, .batch = batched});
  const Output loss =
      ops::Sum(hs.ReadMany(last), Constant(Tensor::Vector<int32_t>({0, 1})));
  std::vector<Output> fetches = {loss};
  if (gradient)
    for (const Output& dp :
         Grad({loss}, {table_value, w_value, b_value, w_f_value, u_f_value}))
      fetches.push_back(ops::Identity(dp));
  SLUICE_RETURN_IF_ERROR(g.status());
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_ASSIGN_OR_RETURN(
      Session::Callable step,
      session.MakeCallable({predecessors, word, last}, fetches));
  // Other graphs in each step: nothing is kept per structure.
  uint32_t seed = 0;
  SLUICE_ASSIGN_OR_RETURN(
      const double s, Best(4, [&]() -> Status {
        const RandomDags dags(++seed);
        SLUICE_ASSIGN_OR_RETURN(
            const Tensor before,
            Tensor::Vector<int64_t>(dags.predecessors)
                .Reshaped(Shape({kAllDagNodes, kDagPredecessors})));
        return step
            .Run({before, Tensor::Vector<int32_t>(dags.word),
                  Tensor::Vector<int64_t>(dags.last)})
            .status();
      }));
  return kDagCount / s;
}

SLUICE_BENCH("graphlstm.N30.U128.B16.graphs_per_s") {
  return GraphsPerSecond(true, true);
}
SLUICE_BENCH("graphlstm.N30.U128.B16.one_by_one.graphs_per_s") {
  return GraphsPerSecond(true, false);
}
SLUICE_BENCH("graphlstm.N30.U128.B16.fwd.graphs_per_s") {
  return GraphsPerSecond(false, true);
}
SLUICE_BENCH("graphlstm.N30.U128.B16.fwd.one_by_one.graphs_per_s") {
  return GraphsPerSecond(false, false);
}

}  // namespace
}  // namespace sluice::bench
