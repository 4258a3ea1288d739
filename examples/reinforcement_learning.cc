// A Q-learning agent with a whole episode in one graph: it acts, the
// environment steps, transitions are written to a replay memory, some steps
// learn from it and some update the target network. For comparison, the same
// agent driven by the client, with one Run for each of these, as is usual.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

// A corridor from the left end to the reward at the right end. Actions: 0 left,
// 1 right. An episode ends at the reward, or after kLongest steps.
constexpr int kCells = 12, kHidden = 24, kMemory = 512, kBatch = 16;
constexpr int kLongest = 60, kEpisodes = 120, kLearnEvery = 4,
              kTargetEvery = 40;

double Seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

class Agent {
 public:
  // Expected returns of both actions, [n, 2].
  Output Q(Output cells, const char* net) const {
    NameScope scope("q");
    Output x = ops::OneHot(cells, kCells, 1.0f, 0.0f);
    const bool target = net[0] == 't';
    const Var* v = target ? target_ : online_;
    return ops::MatMul(ops::Tanh(ops::MatMul(x, v[0]) + v[1]), v[2]);
  }
  // The best action in a cell, or sometimes a random one (epsilon-greedy).
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
    return optimizer_.Minimize(
        ops::Mean(error * error, 0),
        {.variables = {online_[0], online_[1], online_[2]}});
  }
  Node* UpdateTarget() const {
    std::vector<Node*> copies;
    for (int i = 0; i < 3; ++i) copies.push_back(target_[i].Assign(online_[i]));
    return Group(copies);
  }

 private:
  // Two networks of the same shape.
  static Var Weight(const char* net, const char* name, const Shape& shape) {
    return GetVariable(absl::StrCat(net, "/", name), shape);
  }
  const Var online_[3] = {Weight("online", "w1", {kCells, kHidden}),
                          Weight("online", "b", {kHidden}),
                          Weight("online", "w2", {kHidden, 2})};
  const Var target_[3] = {Weight("target", "w1", {kCells, kHidden}),
                          Weight("target", "b", {kHidden}),
                          Weight("target", "w2", {kHidden, 2})};
  const Var memory_ = GetVariable("memory", {kMemory, 4}, init::Zeros(),
                                  DType::kInt32, {.trainable = false});
  AdagradOptimizer optimizer_{0.1, 1e-3};
};

// One episode, starting at step number `start` of all episodes; returns its
// number of steps.
Output Episode(Agent* agent, Output start) {
  auto last = While(
      std::tuple{0, 0, false},
      [](Output t, Output, Output done) {
        return ops::LogicalAnd(t < kLongest, ops::LogicalNot(done));
      },
      [&](Output t, Output cell, Output) {
        Output action = agent->Act(cell);
        Output next = ops::ClipByValue(cell + 2 * action - 1, 0, kCells - 1);
        Output done = ops::Equal(next, kCells - 1);
        Output now = start + t;
        Output row =
            ops::Pack({cell, action, next, ops::Cast(done, DType::kInt32)});
        // Bumps into the wall teach nothing and are not stored.
        Node* remembered = Cond(
            ops::NotEqual(cell, next),
            [&] { return agent->Remember(now % kMemory, row); },
            [] { return BuildNode("NoOp", {}); });
        ControlDependencies after_that({remembered});
        Node* learned = Cond(
            ops::Equal(now % kLearnEvery, 0),
            [&] { return agent->Learn(ops::Minimum(now + 1, kMemory)); },
            [] { return BuildNode("NoOp", {}); });
        ControlDependencies and_that({learned});
        Node* updated = Cond(
            ops::Equal(now % kTargetEvery, 0),
            [&] { return agent->UpdateTarget(); },
            [] { return BuildNode("NoOp", {}); });
        ControlDependencies at_last({updated});
        return std::tuple{t + 1, ops::Identity(next), ops::Identity(done)};
      },
      {.parallel_iterations = 1, .back_prop = false, .name = "episode"});
  return std::get<0>(last);
}

// The same from the client, with a Run for each of the agent's operations.
class ClientAgent {
 public:
  explicit ClientAgent(Agent* agent)
      : action_(agent->Act(cell_)),
        remember_(agent->Remember(now_ % kMemory, row_)),
        learn_(agent->Learn(ops::Minimum(now_ + 1, kMemory))),
        update_(agent->UpdateTarget()) {}

  Result<int> Episode(Session& session, int start) const {
    int steps = 0;
    for (int cell = 0; steps < kLongest && cell < kCells - 1; ++steps) {
      const int now = start + steps;
      SLUICE_ASSIGN_OR_RETURN(
          const Tensor action,
          session.Run({{cell_, Tensor::Scalar(cell)}}, action_));
      const int a = action.scalar<int32_t>();
      const int next = std::max(cell + 2 * a - 1, 0);
      const Feeds feeds = {
          {now_, Tensor::Scalar(now)},
          {row_, Tensor::Vector<int32_t>({cell, a, next, next == kCells - 1})}};
      std::vector<Node*> due;  // In this order, one by one.
      if (next != cell) due.push_back(remember_);
      if (now % kLearnEvery == 0) due.push_back(learn_);
      if (now % kTargetEvery == 0) due.push_back(update_);
      for (Node* node : due)
        SLUICE_RETURN_IF_ERROR(session.RunTargets({node}, feeds));
      cell = next;
    }
    return steps;
  }

 private:
  const Output now_ = Placeholder<int32_t>({}),
               cell_ = Placeholder<int32_t>({});
  const Output row_ = Placeholder<int32_t>({4});
  const Output action_;
  Node *const remember_, *const learn_, *const update_;
};

// Trains for all episodes and prints the progress; returns microseconds per
// step. `episode` runs one episode from a step number on.
template <typename Fn>
Result<double> Train(const char* name, Session& session, Node* init,
                     const Fn& episode) {
  SLUICE_RETURN_IF_ERROR(session.RunTargets({init}));
  int total = 0, recent = 0, timed = 0;
  double seconds = 0;
  for (int i = 1; i <= kEpisodes; ++i) {
    const double started = Seconds();
    SLUICE_ASSIGN_OR_RETURN(const int steps, episode(session, total));
    total += steps;
    recent += steps;
    if (i > 1) {  // (The first one includes compilation.)
      seconds += Seconds() - started;
      timed += steps;
    }
    if (i % 40 != 0) continue;
    std::printf("%s: episodes %3d to %3d took %.1f steps\n", name, i - 39, i,
                recent / 40.0);
    recent = 0;
  }
  return seconds / timed * 1e6;
}

}  // namespace

int main() {
  SetRandomSeed(1);
  Agent agent;
  Output start = Placeholder<int32_t>({});
  Output steps = Episode(&agent, start);
  ClientAgent client(&agent);
  Node* init = GlobalVariablesInitializer();

  Session one, other;
  const auto in_graph =
      Train("one graph", one, init, [&](Session& s, int now) -> Result<int> {
        SLUICE_ASSIGN_OR_RETURN(const Tensor n,
                                s.Run({{start, Tensor::Scalar(now)}}, steps));
        return n.scalar<int32_t>();
      });
  const auto from_client =
      Train("client   ", other, init,
            [&](Session& s, int now) { return client.Episode(s, now); });
  if (!in_graph.ok() || !from_client.ok()) {
    std::fprintf(stderr, "%s\n%s\n", in_graph.status().ToString().c_str(),
                 from_client.status().ToString().c_str());
    return 1;
  }
  std::printf(
      "a step takes %.1f us in one graph, %.1f us from the client: "
      "%.1f times as fast\n",
      *in_graph, *from_client, *from_client / *in_graph);
  return 0;
}
