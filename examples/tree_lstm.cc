// A Tree-LSTM (Tai, Socher and Manning 2015), which composes the sentiment of a
// sentence along its parse tree. The program says what happens at a node and
// where its children are: by a function that calls itself for them (calls), or
// by a loop through all nodes in any order, where each waits for what its
// children write to a store (store). It never thinks about batches: the session
// finds what can be computed together.
//
//   example_tree_lstm [binary|child_sum] [calls|store] [--file TRAIN TEST]
//
// Without files in the format of the Stanford Sentiment Treebank, it makes
// sentences up.
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>

#include "made_treebank.h"
#include "sluice/sluice.h"

using namespace sluice;

constexpr int kUnits = 16, kLabels = 5, kBatch = 20, kEpochs = 6;

// What happens at a node. Its state is a row: its memory, then its output.
struct Cell {
  const bool child_sum;
  Var leaf, inner, inner_bias, forget, forget_bias;

  Cell(bool child_sum, int words) : child_sum(child_sum) {
    const int rows = child_sum ? kUnits : 2 * kUnits, gates = child_sum ? 3 : 5;
    leaf = GetVariable("leaf", {words, 2 * kUnits}, init::RandomNormal(0, 0.5));
    inner = GetVariable("inner", {rows, gates * kUnits});
    inner_bias = GetVariable("inner_bias", {gates * kUnits}, init::Zeros());
    forget = GetVariable("forget", {kUnits, kUnits});
    forget_bias = GetVariable("forget_bias", {kUnits}, init::Ones());
  }
  static Output State(Output memory, Output gate) {
    return ops::ConcatV2({memory, ops::Sigmoid(gate) * ops::Tanh(memory)}, 1);
  }
  Output Leaf(Output word) const {
    const auto part =
        ops::Split(1, ops::GatherV2(leaf, ops::ExpandDims(word, 0), 0), 2);
    return State(part[0], part[1]);
  }
  Output Inner(Output left, Output right) const {
    const auto l = ops::Split(1, left, 2), r = ops::Split(1, right, 2);
    if (child_sum) {  // As for any number of children, in any order.
      const auto gate =
          ops::Split(1, ops::MatMul(l[1] + r[1], inner) + inner_bias, 3);
      Output memory = ops::Sigmoid(gate[0]) * ops::Tanh(gate[1]);
      for (const auto& child : {l, r})
        memory = memory +
                 child[0] *
                     ops::Sigmoid(ops::MatMul(child[1], forget) + forget_bias);
      return State(memory, gate[2]);
    }
    const auto gate = ops::Split(
        1, ops::MatMul(ops::ConcatV2({l[1], r[1]}, 1), inner) + inner_bias, 5);
    return State(ops::Sigmoid(gate[0]) * ops::Tanh(gate[1]) +
                     ops::Sigmoid(gate[2]) * l[0] +
                     ops::Sigmoid(gate[3]) * r[0],
                 gate[4]);
  }
};

// The trees of a step: all nodes of the treebank as columns, and which of them
// are the roots, and the nodes, of the step's sentences.
struct Trees {
  Output left = Placeholder<int32_t>({-1}), right = Placeholder<int32_t>({-1});
  Output word = Placeholder<int32_t>({-1}), label = Placeholder<int32_t>({-1});
  Output roots = Placeholder<int32_t>({-1}), nodes = Placeholder<int32_t>({-1});
};

Output Loss(Output state, Output out, Output label) {
  Output logits = ops::MatMul(ops::Slice(state, {0, kUnits}, {-1, -1}), out);
  return ops::SparseSoftmaxCrossEntropyWithLogits(logits, label).loss;
}

// The states of the roots, [roots, 2 * kUnits], and the loss over all nodes.
std::pair<Output, Output> ByCalls(const Cell& cell, const Trees& t,
                                  Output out) {
  const DType i32 = DType::kInt32, f32 = DType::kFloat;
  const Function tree = DefineFunction(
      "tree", {i32}, {f32, f32},
      [&](const Function& self, const std::vector<Output>& args) {
        Output node = args[0], child = ops::GatherV2(t.left, node, 0);
        auto [state, loss] = Cond(
            child < 0,
            [&] {
              return std::tuple{cell.Leaf(ops::GatherV2(t.word, node, 0)),
                                Constant(0.0f)};
            },
            [&] {
              const auto l = self({child}),
                         r = self({ops::GatherV2(t.right, node, 0)});
              return std::tuple{cell.Inner(l[0], r[0]), l[1] + r[1]};
            });
        Output label = ops::GatherV2(t.label, ops::ExpandDims(node, 0), 0);
        return std::vector{state, loss + ops::Sum(Loss(state, out, label), 0)};
      },
      {.arg_shapes = {{}}, .result_shapes = {{1, 2 * kUnits}, {}}});
  const auto [states, losses] = MapFn(
      [&](Output root) {
        const auto results = tree({root});
        return std::pair{ops::Squeeze(results[0], {.squeeze_dims = {0}}),
                         results[1]};
      },
      t.roots, {.parallel_iterations = 1000});
  return {states, ops::Sum(losses, 0)};
}

std::pair<Output, Output> ByStore(const Cell& cell, const Trees& t,
                                  Output out) {
  TensorStore states(DType::kFloat, {.element_shape = {1, 2 * kUnits}});
  Output n = ops::Size(t.nodes);
  While(
      std::tuple{0}, [&](Output i) { return i < n; },
      [&](Output i) {
        Output node = ops::GatherV2(t.nodes, i, 0);
        Output child = ops::GatherV2(t.left, node, 0);
        Output state = Cond(
            child < 0,
            [&] { return cell.Leaf(ops::GatherV2(t.word, node, 0)); },
            [&] {
              return cell.Inner(states.Read(child),
                                states.Read(ops::GatherV2(t.right, node, 0)));
            });
        states.Write(node, state);
        return std::tuple{i + 1};
      },
      {.parallel_iterations = 10000});
  const auto rows = [&](Output nodes) {
    return ops::Reshape(states.ReadMany(nodes), {-1, 2 * kUnits});
  };
  Output label = ops::GatherV2(t.label, t.nodes, 0);
  return {rows(t.roots), ops::Sum(Loss(rows(t.nodes), out, label), 0)};
}

// Feeds the sentences of these numbers; the order of their nodes is any.
Feeds Sentences(const Trees& t, const Treebank& bank,
                std::span<const size_t> numbers, std::mt19937* random) {
  std::vector<int32_t> roots, nodes;
  for (const size_t s : numbers) {
    roots.push_back(bank.roots[s]);
    for (int32_t n = s == 0 ? 0 : bank.roots[s - 1] + 1; n <= roots.back(); ++n)
      nodes.push_back(n);
  }
  std::shuffle(nodes.begin(), nodes.end(), *random);
  const auto vector = [](const std::vector<int32_t>& v) {
    return Tensor::Vector<int32_t>(v);
  };
  return {{t.left, vector(bank.left)}, {t.right, vector(bank.right)},
          {t.word, vector(bank.word)}, {t.label, vector(bank.label)},
          {t.roots, vector(roots)},    {t.nodes, vector(nodes)}};
}

Status Run(const std::vector<std::string>& args) {
  const auto has = [&](const char* name) {
    return std::find(args.begin(), args.end(), name) != args.end();
  };
  examples::TreebankMaker maker(1);
  const auto file = std::find(args.begin(), args.end(), "--file");
  const bool given = args.end() - file > 2;
  SLUICE_ASSIGN_OR_RETURN(
      const Treebank train,
      given ? ReadTreebank(file[1]) : ParseTreebank(maker.Next(600)));
  const TreebankOptions known = {.vocabulary = train.words};
  SLUICE_ASSIGN_OR_RETURN(const Treebank test,
                          given ? ReadTreebank(file[2], known)
                                : ParseTreebank(maker.Next(200), known));

  SetRandomSeed(1);
  const Trees trees;
  const Cell cell(has("child_sum"), static_cast<int>(train.words.size()) + 1);
  Output out = GetVariable("out", {kUnits, kLabels});
  const auto [roots, loss] =
      has("store") ? ByStore(cell, trees, out) : ByCalls(cell, trees, out);
  Output guess = ops::ArgMax(
      ops::MatMul(ops::Slice(roots, {0, kUnits}, {-1, -1}), out), 1);
  Output right = ops::Equal(ops::Cast(guess, DType::kInt32),
                            ops::GatherV2(trees.label, trees.roots, 0));
  Output accuracy = ops::Mean(ops::Cast(right, DType::kFloat), 0);
  Node* learn = AdamOptimizer(0.03f).Minimize(loss / float{kBatch});

  SessionOptions options;
  options.batch_frames = true;
  Session session(CurrentGraph(), options);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  std::mt19937 random(1);
  std::vector<size_t> order(train.roots.size()), all(test.roots.size());
  std::iota(order.begin(), order.end(), 0);
  std::iota(all.begin(), all.end(), 0);
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    for (size_t at = 0; at + kBatch <= order.size(); at += kBatch)
      SLUICE_RETURN_IF_ERROR(session.RunTargets(
          {learn}, Sentences(trees, train, std::span(order).subspan(at, kBatch),
                             &random)));
    SLUICE_ASSIGN_OR_RETURN(
        const Tensor value,
        session.Run(Sentences(trees, test, all, &random), accuracy));
    std::printf("epoch %2d: accuracy %.3f on unseen sentences\n", epoch,
                value.scalar<float>());
  }
  return OkStatus();
}

int main(int argc, char** argv) {
  const Status status = Run({argv + 1, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
