// Adam on an embedding of which each step reads some rows, as in the peers'
// script (training_peers.py): 20,000 rows of 64, 512 ids.
#include <random>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

constexpr int64_t kWords = 20000, kUnits = 64, kIds = 512;

// The time of a step in us. Ids are drawn anew for each step of a round, so
// that in time all rows have moments.
Result<double> AdamStepUs(AdamRows rows) {
  Graph g;
  const WithGraph use(g);
  SetRandomSeed(5);
  const Output ids = Placeholder<int32_t>({kIds});
  const Var table(RandomNormal({kWords, kUnits}), "table");
  const Output h = ops::GatherV2(table, ids, 0);
  AdamOptimizer adam(1e-3, {.rows = rows});
  Node* train = adam.Minimize(ops::Mean(ops::Square(h), {0, 1}));
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({ids}, {}, {train}));
  std::mt19937_64 random(11);
  std::vector<Tensor> batches;
  for (int i = 0; i < 200; ++i) {
    Tensor t(DType::kInt32, {kIds});
    for (int32_t& v : t.flat<int32_t>())
      v = static_cast<int32_t>(random() % static_cast<uint64_t>(kWords));
    batches.push_back(t);
  }
  SLUICE_ASSIGN_OR_RETURN(
      const double s, Best(3, [&]() -> Status {
        for (const Tensor& batch : batches)
          SLUICE_RETURN_IF_ERROR(step.Run({batch}).status());
        return OkStatus();
      }));
  return s / static_cast<double>(batches.size()) * 1e6;
}

SLUICE_BENCH("embedding.adam.20000x64.us") {
  return AdamStepUs(AdamRows::kAll);
}
SLUICE_BENCH("embedding.adam_tensorflow_ops.20000x64.us") {
  return AdamStepUs(AdamRows::kAllByTensorFlowOps);
}
SLUICE_BENCH("embedding.lazy_adam.20000x64.us") {
  return AdamStepUs(AdamRows::kLazy);
}

}  // namespace
}  // namespace sluice::bench
