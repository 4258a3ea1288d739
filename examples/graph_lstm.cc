// A Graph-LSTM that learns whether a path leads from a marked node to the last.
//
// A loop runs through the nodes of a graph, in any order. Each node sums up the
// states of its predecessors, which it reads from a store: all iterations start
// at once, and each waits for just its predecessors. The graphs are random and
// directed; those of the test are new.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <set>

#include "sluice/sluice.h"

using namespace sluice;

constexpr int kUnits = 8, kNodes = 12, kSteps = 2000, kTests = 300;

// A graph of random edges: row n of `from` has two predecessors of node n, with
// repetition, in an order of the nodes that the numbers do not tell. Node -1 is
// the beginning. The mark of a node is 1 or -1.
Feeds RandomGraph(std::mt19937& random, Output from, Output mark, Output last,
                  Output label) {
  std::vector<int64_t> order(kNodes), edges(2 * kNodes);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (size_t k = 0; k < kNodes; ++k)
    for (size_t e = 0; e < 2; ++e) {
      const size_t p = random() % (k + 1);
      edges[2 * static_cast<size_t>(order[k]) + e] = p == 0 ? -1 : order[p - 1];
    }
  std::vector<float> marks(kNodes, -1);
  std::set<int64_t> reached = {order[random() % (kNodes - 1)]};
  marks[static_cast<size_t>(*reached.begin())] = 1;
  for (const int64_t n : order)
    if (const auto e = edges.begin() + 2 * n;
        reached.count(e[0]) + reached.count(e[1]) > 0)
      reached.insert(n);
  const int64_t end = order.back();
  const float is_reached = reached.count(end) > 0 ? 1.0f : 0.0f;
  return {{from, Tensor::Of<int64_t>(Shape({kNodes, 2}), edges)},
          {mark, Tensor::Of<float>(Shape({kNodes, 1}), marks)},
          {last, Tensor::Scalar<int64_t>(end)},
          {label, Tensor::Scalar(is_reached)}};
}

int main() {
  SetRandomSeed(1);
  Output from = Placeholder<int64_t>({-1, 2}, "from");
  Output mark = Placeholder<float>({-1, 1}, "mark");
  Output last = Placeholder<int64_t>({}, "last");
  Output label = Placeholder<float>({}, "label");
  Output wx = GetVariable("wx", {1, 4 * kUnits}, init::GlorotUniform());
  Output wh = GetVariable("wh", {kUnits, 4 * kUnits}, init::GlorotUniform());
  Output out = GetVariable("out", {kUnits, 1}, init::GlorotUniform());

  // Row 0 of an element is the node's output, row 1 its memory.
  TensorStore states(DType::kFloat, {.element_shape = {2, kUnits}});
  states.Write(-1, ops::Fill({2, kUnits}, 0.0f));
  Output n = ops::GatherV2(ops::Shape(mark), 0, 0);
  While(
      std::tuple{0}, [&](Output i) { return i < n; },
      [&](Output i) {
        Output before = states.ReadMany(ops::GatherV2(from, i, 0));
        Output sum = ops::Sum(before, 0);
        Output h = ops::Slice(sum, {0, 0}, {1, kUnits});
        Output c = ops::Slice(sum, {1, 0}, {1, kUnits});
        Output x = ops::ExpandDims(ops::GatherV2(mark, i, 0), 0);
        auto gate = ops::Split(1, ops::MatMul(x, wx) + ops::MatMul(h, wh), 4);
        Output memory = ops::Sigmoid(gate[0]) * c * 0.5f +
                        ops::Sigmoid(gate[1]) * ops::Tanh(gate[2]);
        Output state = ops::Sigmoid(gate[3]) * ops::Tanh(memory);
        states.Write(i, ops::ConcatV2({state, memory}, 0));
        return std::tuple{i + 1};
      },
      {.parallel_iterations = 1000});

  Output root = ops::Slice(states.Read(last), {0, 0}, {1, kUnits});
  Output logit = ops::Squeeze(ops::MatMul(root, out));
  Output loss = ops::Softplus(logit) - label * logit;
  Node* train = AdamOptimizer(0.01f).Minimize(loss);

  Output right = ops::Equal(logit > 0.0f, label > 0.0f);
  Session session;
  session.RunTargets({GlobalVariablesInitializer()}).IgnoreError();
  std::mt19937 random(1);
  float mean = 0.0f;
  int correct = 0;
  for (int step = 1; step <= kSteps + kTests; ++step) {
    const Feeds feeds = RandomGraph(random, from, mark, last, label);
    const bool test = step > kSteps;
    const Result<Tensor> got =
        test ? session.Run(feeds, right) : session.Run(feeds, loss, {train});
    if (!got.ok()) {
      std::fprintf(stderr, "%s\n", got.status().ToString().c_str());
      return 1;
    }
    if (test) {
      correct += got->scalar<bool>() ? 1 : 0;
      continue;
    }
    mean += got->scalar<float>() / 200;
    if (step % 200 != 0) continue;
    std::printf("step %4d: loss %.3f\n", step, mean);
    mean = 0.0f;
  }
  std::printf("accuracy %.3f on new graphs\n",
              correct / static_cast<double>(kTests));
}
