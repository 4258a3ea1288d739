// Bodies that are placed on tasks of a cluster when they run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "client/control/scheduled.h"
#include "cluster/testing/cluster_test_util.h"
#include "exec/core/trace.h"

namespace sluice {
namespace {

// The default home names no task, and no device scope does: placement chooses.
TEST(ScheduledSteps, RunOnAllTasksWithoutADeviceScope) {
  TestCluster cluster({{"worker", 3}});
  std::vector<std::string> tasks;
  for (int i = 0; i < 3; ++i)
    tasks.push_back(absl::StrCat("/job:worker/task:", i, "/device:CPU:0"));
  Graph graph;
  const WithGraph use(graph);
  const Output x = Placeholder<float>({-1, 8}, "x");
  const auto model = [&](bool scheduled) {
    const auto body = [](Output r) {
      return ops::Sin(
          ops::MatMul(r, GetVariable("w", {8, 8}, init::Constant(0.125))));
    };
    const auto layer = [&](Output r) {
      return scheduled ? Scheduled(tasks, r, body, {.policy = "least_loaded"})
                       : body(r);
    };
    std::vector<Output> out;
    for (int i = 0; i < 3; ++i) out.push_back(layer(x));
    {
      const DeviceScope last("/job:worker/task:2");
      out.push_back(ops::Tanh(layer(out[0])));
    }
    const auto [i, v] = While(
        std::tuple{0, x}, [](Output i, Output) { return i < 5; },
        [&](Output i, Output v) {
          const auto sine = [](Output r) { return ops::Sin(r); };
          return std::tuple{i + 1,
                            scheduled ? Scheduled(tasks, v, sine) : sine(v)};
        });
    out.push_back(v);
    out.push_back(Grad(v, x));
    return out;
  };
  std::vector<Output> all = model(true);
  const size_t n = all.size();
  for (const Output& o : model(false)) all.push_back(o);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  Session session(cluster.target("worker", 0), graph);
  Status s = session.RunTargets({GlobalVariablesInitializer()});
  ASSERT_TRUE(s.ok()) << s;
  Tensor rows(DType::kFloat, {2, 8});
  for (size_t i = 0; i < 16; ++i)
    rows.flat<float>()[i] = 0.25f * static_cast<float>(i);
  RunOptions traced;
  traced.trace = true;
  for (int times = 0; times < 3; ++times) {
    RunMetadata metadata;
    const auto out = session.Run({{x, rows}}, all, {}, traced, &metadata);
    ASSERT_TRUE(out.ok()) << out.status();
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < 16; ++k)
        EXPECT_NEAR((*out)[i].flat<float>()[k], (*out)[n + i].flat<float>()[k],
                    1e-5)
            << "output " << i;
    std::map<std::string, int> decided;
    for (const TraceEvent& e : metadata.events)
      if (e.op == "Schedule") ++decided[e.peer];
    EXPECT_FALSE(decided.empty());
  }
}

}  // namespace
}  // namespace sluice
