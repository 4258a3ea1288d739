// Deep Q-learning whole in one graph (EuroSys'18, Figure 16): an agent acts,
// the environment steps, transitions are written to a replay memory, some steps
// learn from it and some update the target network.
#ifndef SLUICE_EXAMPLES_Q_LEARNING_H_
#define SLUICE_EXAMPLES_Q_LEARNING_H_

#include <tuple>

#include "sluice/sluice.h"

namespace sluice::q_learning {

// A corridor from the left end to the reward at the right end. Actions: 0 left,
// 1 right. An episode ends at the reward, or after kLongest steps.
constexpr int kCells = 12, kHidden = 24, kMemory = 512, kBatch = 16;
constexpr int kLongest = 60, kLearnEvery = 4, kTargetEvery = 40;

class Agent {
 public:
  Agent() {
    (void)Q(Zeros({1}, DType::kInt32), "online");  // Makes the variables.
    (void)Q(Zeros({1}, DType::kInt32), "target");
  }
  // The action in a cell: the best one, or sometimes a random one.
  Output Act(Output cell) const {
    return Cond(
        ops::RandomUniform(IntVector({}), DType::kFloat) < 0.3f,
        [] { return ops::RandomUniformInt(IntVector({}), 0, 2); },
        [&] {
          Output q = Q(ops::Reshape(cell, {1}), "online");
          return ops::Reshape(ops::ArgMax(q, 1, {.output_type = DType::kInt32}),
                              IntVector({}));
        });
  }
  // Row `at` of the memory: {cell, action, next cell, 1 at the reward}.
  Node* Remember(Output at, Output row) const {
    return ops::ResourceScatterUpdate(memory_.handle(), at, row);
  }
  // Learns from random transitions among the first `size` of the memory.
  Node* Learn(Output size) {
    Output rows = ops::ResourceGather(memory_.handle(),
                                      ops::RandomUniformInt({kBatch}, 0, size),
                                      DType::kInt32);
    std::vector<Output> c = ops::Unpack(rows, 4, {.axis = 1});
    Output reward = ops::Cast(c[3], DType::kFloat);
    Output later = ops::Max(Q(c[2], "target"), 1);
    Output wanted = ops::StopGradient(reward + 0.95f * (1 - reward) * later);
    Output taken = ops::OneHot(c[1], 2, 1.0f, 0.0f);
    Output error = ops::Sum(Q(c[0], "online") * taken, 1) - wanted;
    return optimizer_.Minimize(ops::Mean(error * error, 0),
                               {.variables = TrainableVariables("online")});
  }
  Node* UpdateTarget() const {
    const std::vector<Var> from = TrainableVariables("online");
    std::vector<Node*> copies;
    for (const Var& to : TrainableVariables("target"))
      copies.push_back(to.Assign(from[copies.size()]));
    return Group(copies);
  }

 private:
  // Expected returns of both actions, [n, 2].
  static Output Q(Output cells, const char* net) {
    const VariableScope scope(net, {.reuse = Reuse::kAuto});
    Output x = ops::OneHot(cells, kCells, 1.0f, 0.0f);
    Output h = Dense(x, kHidden, {.activation = ops::Tanh, .name = "hidden"});
    return Dense(h, 2, {.use_bias = false, .name = "returns"});
  }

  const Var memory_ = GetVariable("memory", {kMemory, 4}, init::Zeros(),
                                  DType::kInt32, {.trainable = false});
  AdagradOptimizer optimizer_{0.1, 1e-3};
};

// One episode, starting at step number `start` of all episodes; returns its
// number of steps.
inline Output Episode(Agent* agent, Output start) {
  // Each of these runs in the steps for which the condition holds.
  const auto sometimes = [](Output condition, auto build) {
    return Cond(condition, build, [] { return BuildNode("NoOp", {}); });
  };
  auto last = While(
      std::tuple{0, 0, false},
      [](Output t, Output, Output done) {
        return ops::LogicalAnd(t < kLongest, ops::LogicalNot(done));
      },
      [&](Output t, Output cell, Output) {
        Output action = agent->Act(cell);
        Output next = ops::ClipByValue(cell + 2 * action - 1, 0, kCells - 1);
        Output done = ops::Equal(next, kCells - 1), now = start + t;
        Output row =
            ops::Pack({cell, action, next, ops::Cast(done, DType::kInt32)});
        // Bumps into the wall teach nothing and are not stored.
        Node* remembered = sometimes(ops::NotEqual(cell, next), [&] {
          return agent->Remember(now % kMemory, row);
        });
        const ControlDependencies first({remembered});
        Node* learned = sometimes(ops::Equal(now % kLearnEvery, 0), [&] {
          return agent->Learn(ops::Minimum(now + 1, kMemory));
        });
        const ControlDependencies then({learned});
        Node* updated = sometimes(ops::Equal(now % kTargetEvery, 0),
                                  [&] { return agent->UpdateTarget(); });
        const ControlDependencies at_last({updated});
        return std::tuple{t + 1, ops::Identity(next), ops::Identity(done)};
      },
      {.parallel_iterations = 1, .back_prop = false, .name = "episode"});
  return std::get<0>(last);
}

}  // namespace sluice::q_learning

#endif  // SLUICE_EXAMPLES_Q_LEARNING_H_
