// Training steps on 32 rows of tables of very different sizes, as in the peers'
// script (training_peers.py): a step should cost the same whatever the size.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

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

// Steps on one table, with `megabytes` in it and its slots. Not copyable: its
// nodes are those of its graph.
class SparseSteps {
 public:
  SparseSteps(int64_t megabytes, Rule rule) {
    const WithGraph use(graph_);
    SetRandomSeed(5);
    rows_ = megabytes * kMega / (kWidth * 4) / (rule == Rule::kSgd ? 1 : 2);
    ids_ = Placeholder<int32_t>({kRead});
    const Var table(RandomUniform({rows_, kWidth}, -0.1, 0.1), "table");
    const Output h = EmbeddingLookup(table, ids_);
    std::unique_ptr<Optimizer> optimizer;
    if (rule == Rule::kSgd)
      optimizer = std::make_unique<GradientDescentOptimizer>(0.1);
    else
      optimizer = std::make_unique<AdagradOptimizer>(0.1);
    train_ = optimizer->Minimize(ops::Mean(ops::Square(h), {0, 1}));
    init_ = GlobalVariablesInitializer();
    session_ = std::make_unique<Session>(graph_);
  }
  SparseSteps(const SparseSteps&) = delete;

  Status Begin() {
    SLUICE_RETURN_IF_ERROR(session_->RunTargets({init_}));
    SLUICE_ASSIGN_OR_RETURN(step_,
                            session_->MakeCallable({ids_}, {}, {train_}));
    return OkStatus();
  }
  // The time of a step in us: the mean of a few, on rows of the whole table
  // that no step before has read.
  Result<double> Turn() {
    constexpr size_t kSteps = 200;
    std::vector<Tensor> batches;
    for (size_t i = 0; i < kSteps; ++i) {
      Tensor t(DType::kInt32, {kRead});
      for (int32_t& v : t.flat<int32_t>())
        v = static_cast<int32_t>(random_() % static_cast<uint64_t>(rows_));
      batches.push_back(t);
    }
    // (What making the batches has put out of the caches.)
    SLUICE_RETURN_IF_ERROR(step_.Run({batches[0]}).status());
    const int64_t start = NowNs();
    for (size_t i = 1; i < kSteps; ++i)
      SLUICE_RETURN_IF_ERROR(step_.Run({batches[i]}).status());
    return static_cast<double>(NowNs() - start) * 1e-3 /
           static_cast<double>(kSteps - 1);
  }

 private:
  Graph graph_;
  int64_t rows_ = 0;
  Output ids_;
  Node* train_ = nullptr;
  Node* init_ = nullptr;
  std::unique_ptr<Session> session_;
  Session::Callable step_;
  std::mt19937_64 random_{11};
};

constexpr int64_t kSizes[] = {10, 1000, 10000};

// The best turn of each size, in us; ResourceExhausted for one that does not
// fit beside the smaller ones. All tables exist at once and take turns, so that
// what else the machine does is the same for all.
Result<std::vector<Result<double>>> StepTimesOf(Rule rule) {
  int64_t bytes = 0;
  const int64_t available = AvailableBytes();
  std::vector<std::unique_ptr<SparseSteps>> tables;
  std::vector<Result<double>> best;
  for (const int64_t megabytes : kSizes) {
    bytes += megabytes * kMega;
    if (bytes + bytes / 20 > available) {
      best.push_back(ResourceExhausted("expected ", bytes / kMega,
                                       " MB of free memory and some more, got ",
                                       available / kMega));
      continue;
    }
    tables.push_back(std::make_unique<SparseSteps>(megabytes, rule));
    SLUICE_RETURN_IF_ERROR(tables.back()->Begin());
    best.push_back(1e300);
  }
  constexpr int kTurns = 40;
  for (int turn = 0; turn < kTurns; ++turn)
    for (size_t i = 0; i < tables.size(); ++i) {
      SLUICE_ASSIGN_OR_RETURN(const double us, tables[i]->Turn());
      if (turn > 0) best[i] = std::min(*best[i], us);
    }
  return best;
}

template <Rule rule>
Result<double> SparseStepUs(size_t size) {
  static const auto* const times =
      new Result<std::vector<Result<double>>>(StepTimesOf(rule));
  if (!times->ok()) return times->status();
  return (**times)[size];
}

SLUICE_BENCH("embedding.sparse_step.10MB.us") {
  return SparseStepUs<Rule::kSgd>(0);
}
SLUICE_BENCH("embedding.sparse_step.1GB.us") {
  return SparseStepUs<Rule::kSgd>(1);
}
SLUICE_BENCH("embedding.sparse_step.10GB.us") {
  return SparseStepUs<Rule::kSgd>(2);
}
// (The sizes are those of the table and its accumulator together.)
SLUICE_BENCH("embedding.sparse_step.adagrad.10MB.us") {
  return SparseStepUs<Rule::kAdagrad>(0);
}
SLUICE_BENCH("embedding.sparse_step.adagrad.1GB.us") {
  return SparseStepUs<Rule::kAdagrad>(1);
}
SLUICE_BENCH("embedding.sparse_step.adagrad.10GB.us") {
  return SparseStepUs<Rule::kAdagrad>(2);
}

}  // namespace
}  // namespace sluice::bench
