// Training steps on 32 rows of tables of very different sizes, as in the peers'
// script (training_peers.py): a step should cost the same whatever the size.
#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <string>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

constexpr int64_t kWidth = 64, kRead = 32, kMega = int64_t{1} << 20;

// The memory that the system can give without swapping.
int64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (int64_t kb = 0; file >> key >> kb; std::getline(file, unit))
    if (key == "MemAvailable:") return kb * 1024;
  return INT64_MAX;
}

enum class Rule { kSgd, kAdagrad };

// The time of a step in us, with `megabytes` in the table and its slots.
Result<double> SparseStepUs(int64_t megabytes, Rule rule) {
  const int64_t bytes = megabytes * kMega;
  const int64_t available = AvailableBytes();
  if (bytes + bytes / 20 > available)
    return ResourceExhausted("expected ", bytes / kMega,
                             " MB of free memory and some more, got ",
                             available / kMega);
  Graph g;
  const WithGraph use(g);
  SetRandomSeed(5);
  const int64_t rows = bytes / (kWidth * 4) / (rule == Rule::kSgd ? 1 : 2);
  const Output ids = Placeholder<int32_t>({kRead});
  const Var table(RandomUniform({rows, kWidth}, -0.1, 0.1), "table");
  const Output h = EmbeddingLookup(table, ids);
  std::unique_ptr<Optimizer> optimizer;
  if (rule == Rule::kSgd)
    optimizer = std::make_unique<GradientDescentOptimizer>(0.1);
  else
    optimizer = std::make_unique<AdagradOptimizer>(0.1);
  Node* const train = optimizer->Minimize(ops::Mean(ops::Square(h), {0, 1}));
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({ids}, {}, {train}));
  // Rows of the whole table, which no step before has read.
  std::mt19937_64 random(11);
  std::vector<Tensor> batches;
  for (int i = 0; i < 2000; ++i) {
    Tensor t(DType::kInt32, {kRead});
    for (int32_t& v : t.flat<int32_t>())
      v = static_cast<int32_t>(random() % static_cast<uint64_t>(rows));
    batches.push_back(t);
  }
  size_t next = 0;
  constexpr size_t kSteps = 200;
  SLUICE_ASSIGN_OR_RETURN(
      const double s,
      Best(static_cast<int>(batches.size() / kSteps) - 1, [&]() -> Status {
        for (size_t i = 0; i < kSteps; ++i, ++next)
          SLUICE_RETURN_IF_ERROR(step.Run({batches[next]}).status());
        return OkStatus();
      }));
  return s / static_cast<double>(kSteps) * 1e6;
}

SLUICE_BENCH("embedding.sparse_step.10MB.us") {
  return SparseStepUs(10, Rule::kSgd);
}
SLUICE_BENCH("embedding.sparse_step.1GB.us") {
  return SparseStepUs(1000, Rule::kSgd);
}
SLUICE_BENCH("embedding.sparse_step.10GB.us") {
  return SparseStepUs(10000, Rule::kSgd);
}
// (The sizes are those of the table and its accumulator together.)
SLUICE_BENCH("embedding.sparse_step.adagrad.10MB.us") {
  return SparseStepUs(10, Rule::kAdagrad);
}
SLUICE_BENCH("embedding.sparse_step.adagrad.1GB.us") {
  return SparseStepUs(1000, Rule::kAdagrad);
}
SLUICE_BENCH("embedding.sparse_step.adagrad.10GB.us") {
  return SparseStepUs(10000, Rule::kAdagrad);
}

}  // namespace
}  // namespace sluice::bench
