// Trains the agent of q_learning.h: a run of one node is an episode. (`sluice
// bench --filter dqn` compares it with an agent that the client drives.)
#include <cstdio>

#include "q_learning.h"

using namespace sluice;

int main() {
  SetRandomSeed(1);
  q_learning::Agent agent;
  Output start = Placeholder<int32_t>({});
  Output steps = q_learning::Episode(&agent, start);
  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  int total = 0, recent = 0;
  for (int episode = 1; episode <= 120 && status.ok(); ++episode) {
    const auto taken = session.Run({{start, Tensor::Scalar(total)}}, steps);
    if (status = taken.status(); !status.ok()) break;
    total += taken->scalar<int32_t>();
    recent += taken->scalar<int32_t>();
    if (episode % 40 != 0) continue;
    std::printf("episodes %3d to %3d took %.1f steps\n", episode - 39, episode,
                recent / 40.0);
    recent = 0;
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
