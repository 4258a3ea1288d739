// Deep Q-learning as in EuroSys'18, section 6.5: the agent of the example with
// each episode as one step, and the same agent driven by the client, with a
// step for each of its operations.
#include "examples/q_learning.h"

#include <algorithm>

#include "bench.h"
#include "timing.h"

namespace sluice::bench {
namespace {

using q_learning::kCells;
using q_learning::kLearnEvery;
using q_learning::kLongest;
using q_learning::kMemory;
using q_learning::kTargetEvery;

constexpr int kEpisodes = 120;

// What runs one episode from a step number on, and returns its steps.
using EpisodeFn = std::function<Result<int>(int start)>;

// Steps per second over all episodes but the first, which includes
// compilation.
Result<double> StepsPerSecond(Session* session, Node* init,
                              const EpisodeFn& episode) {
  SLUICE_RETURN_IF_ERROR(session->RunTargets({init}));
  SLUICE_ASSIGN_OR_RETURN(int total, episode(0));
  const int first = total;
  const int64_t started = NowNs();
  for (int i = 1; i < kEpisodes; ++i) {
    SLUICE_ASSIGN_OR_RETURN(const int steps, episode(total));
    total += steps;
  }
  return (total - first) / (static_cast<double>(NowNs() - started) * 1e-9);
}

class ClientAgent {
 public:
  ClientAgent(q_learning::Agent* agent, Session* session)
      : session_(session),
        action_(agent->Act(cell_)),
        remember_(agent->Remember(now_ % kMemory, row_)),
        learn_(agent->Learn(ops::Minimum(now_ + 1, kMemory))),
        update_(agent->UpdateTarget()) {}

  Result<int> Episode(int start) const {
    int steps = 0;
    for (int cell = 0; steps < kLongest && cell < kCells - 1; ++steps) {
      const int now = start + steps;
      SLUICE_ASSIGN_OR_RETURN(
          const Tensor action,
          session_->Run({{cell_, Tensor::Scalar(cell)}}, action_));
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
        SLUICE_RETURN_IF_ERROR(session_->RunTargets({node}, feeds));
      cell = next;
    }
    return steps;
  }

 private:
  Session* const session_;
  const Output now_ = Placeholder<int32_t>({}),
               cell_ = Placeholder<int32_t>({});
  const Output row_ = Placeholder<int32_t>({4});
  const Output action_;
  Node *const remember_, *const learn_, *const update_;
};

SLUICE_BENCH("dqn.in_graph.steps_per_s") {
  Graph g;
  const WithGraph use(g);
  SetRandomSeed(1);
  q_learning::Agent agent;
  const Output start = Placeholder<int32_t>({});
  const Output steps = q_learning::Episode(&agent, start);
  Session session(g);
  return StepsPerSecond(
      &session, GlobalVariablesInitializer(), [&](int now) -> Result<int> {
        SLUICE_ASSIGN_OR_RETURN(
            const Tensor n, session.Run({{start, Tensor::Scalar(now)}}, steps));
        return n.scalar<int32_t>();
      });
}
SLUICE_BENCH("dqn.client.steps_per_s") {
  Graph g;
  const WithGraph use(g);
  SetRandomSeed(1);
  q_learning::Agent agent;
  Session session(g);
  const ClientAgent client(&agent, &session);
  return StepsPerSecond(&session, GlobalVariablesInitializer(),
                        [&](int now) { return client.Episode(now); });
}

}  // namespace
}  // namespace sluice::bench
