// A Q-learning agent whose whole episode is one graph: it acts, the environment
// steps, transitions go into a replay memory, some steps learn from it and some
// update the target network. Beside it the same agent driven from the client,
// one Run for each of these, as is usual.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

// A corridor: from its left end to the reward at its right one. Actions: 0
// left, 1 right. An episode ends at the reward, or after kLongest steps.
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
  // The best action of one cell, or now and then any.
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
  // From transitions among the first `size` of the memory.
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
  // Two networks of one shape.
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

// The environment and everything around it, from step number `start` of all
// episodes on; how many steps the episode took.
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
        // Bumps into the wall teach nothing: they are not remembered.
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

}  // namespace

int main() {
  SetRandomSeed(1);
  Agent agent;
  Output start = Placeholder<int32_t>(PartialShape::Scalar());
  Output steps = Episode(&agent, start);
  // The parts by themselves, for the client.
  Output cell = Placeholder<int32_t>(PartialShape::Scalar());
  Output row = Placeholder<int32_t>({4});
  Output action = agent.Act(cell);
  Node* remember = agent.Remember(start % kMemory, row);
  Node* learn = agent.Learn(ops::Minimum(start + 1, kMemory));
  Node* update = agent.UpdateTarget();
  Node* init = GlobalVariablesInitializer();

  double us[2];
  for (const bool in_graph : {true, false}) {
    Session session;
    Status status = session.RunTargets({init});
    int total = 0, recent = 0;
    double seconds = 0;
    for (int episode = 1; episode <= kEpisodes && status.ok(); ++episode) {
      const double started = Seconds();
      int t = 0;
      if (in_graph) {
        const auto out = session.Run({{start, Tensor::Scalar(total)}}, steps);
        status = out.status();
        if (status.ok()) t = out->scalar<int32_t>();
      } else {
        for (int at = 0; t < kLongest && at < kCells - 1 && status.ok(); ++t) {
          const int now = total + t;
          const auto a = session.Run({{cell, Tensor::Scalar(at)}}, action);
          status = a.status();
          if (!status.ok()) break;
          const int next = std::max(at + 2 * a->scalar<int32_t>() - 1, 0);
          const Feeds feeds = {
              {start, Tensor::Scalar(now)},
              {row, Tensor::Vector<int32_t>(
                        {at, a->scalar<int32_t>(), next, next == kCells - 1})}};
          if (next != at) status = session.RunTargets({remember}, feeds);
          if (status.ok() && now % kLearnEvery == 0)
            status = session.RunTargets({learn}, feeds);
          if (status.ok() && now % kTargetEvery == 0)
            status = session.RunTargets({update});
          at = next;
        }
      }
      // (The first episode also prepares the graph.)
      if (episode > 1) seconds += Seconds() - started;
      if (episode > 1) total += t;
      recent += t;
      if (episode % 40 != 0) continue;
      std::printf("%s: episodes %3d to %3d took %.1f steps\n",
                  in_graph ? "one graph" : "client   ", episode - 39, episode,
                  recent / 40.0);
      recent = 0;
    }
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      return 1;
    }
    us[in_graph ? 0 : 1] = seconds / total * 1e6;
  }
  std::printf(
      "a step takes %.1f us in one graph, %.1f us from the client: "
      "%.1f times as fast\n",
      us[0], us[1], us[1] / us[0]);
  return 0;
}
