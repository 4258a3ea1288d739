// Summaries: what a logged scalar costs, and what logging costs training.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

// An event file in a folder that is removed again.
class ScratchLog {
 public:
  static Result<std::unique_ptr<ScratchLog>> Make() {
    auto log = std::make_unique<ScratchLog>();
    SLUICE_ASSIGN_OR_RETURN(log->writer_, EventWriter::Open(log->folder_));
    return log;
  }
  ~ScratchLog() {
    writer_.reset();
    std::filesystem::remove_all(folder_);
  }
  EventWriter& operator*() { return *writer_; }
  EventWriter* operator->() { return writer_.get(); }

 private:
  const std::string folder_ = (std::filesystem::temp_directory_path() /
                               ("sluice_bench_" + std::to_string(getpid())))
                                  .string();
  std::unique_ptr<EventWriter> writer_;
};

SLUICE_BENCH("summary.scalar.ns") {
  constexpr int kScalars = 100'000;
  SLUICE_ASSIGN_OR_RETURN(const auto log, ScratchLog::Make());
  SLUICE_ASSIGN_OR_RETURN(
      const double s, Best(5, [&] {
        for (int64_t i = 0; i < kScalars; ++i)
          SLUICE_RETURN_IF_ERROR((*log)->AddScalar("train/loss", 0.5, i));
        return (*log)->Flush();
      }));
  return s / kScalars * 1e9;
}

SLUICE_BENCH("summary.histogram.ns_per_element") {
  constexpr int64_t kElements = 1'000'000;
  Graph g;
  const WithGraph use(g);
  const Output values = RandomNormal({kElements});
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(const Tensor made, session.Run(values));
  SLUICE_ASSIGN_OR_RETURN(const auto log, ScratchLog::Make());
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, [&] {
                            return (*log)->AddHistogram("weights", made, 1);
                          }));
  return s / kElements * 1e9;
}

// A training step with ten scalars, made in the graph and logged every step,
// and how many percent longer it takes than without them. A step takes about a
// millisecond: some 10,000 scalars a second.
SLUICE_BENCH("summary.training_slowdown.percent") {
  constexpr int kSteps = 1000, kScalars = 10;
  Graph g;
  const WithGraph use(g);
  const Output x = Placeholder<float>({256, 784});
  const Output labels = Placeholder<int32_t>({256});
  const Var w1(RandomUniform({784, 256}, -0.05, 0.05), "w1");
  const Var w2(RandomUniform({256, 10}, -0.05, 0.05), "w2");
  const Output logits = ops::MatMul(ops::Relu(ops::MatMul(x, w1)), w2);
  const Output loss = ops::Mean(
      ops::SparseSoftmaxCrossEntropyWithLogits(logits, labels).loss, 0);
  Node* const train = GradientDescentOptimizer(0.1).Minimize(loss);
  std::vector<Output> parts;
  for (int i = 0; i < kScalars; ++i)
    parts.push_back(
        ops::ScalarSummary(("loss" + std::to_string(i)).c_str(), loss));
  const Output summary = ops::MergeSummary(parts);
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_ASSIGN_OR_RETURN(const auto log, ScratchLog::Make());
  const std::vector<Tensor> feeds = {*Tensor::Zeros(DType::kFloat, {256, 784}),
                                     *Tensor::Zeros(DType::kInt32, {256})};
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable plain,
                          session.MakeCallable({x, labels}, {loss}, {train}));
  SLUICE_ASSIGN_OR_RETURN(
      const Session::Callable logged,
      session.MakeCallable({x, labels}, {loss, summary}, {train}));
  int64_t step = 0;
  const auto run = [&](bool logs) {
    for (int i = 0; i < kSteps; ++i) {
      SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> got,
                              (logs ? logged : plain).Run(feeds));
      if (logs)
        SLUICE_RETURN_IF_ERROR(
            (*log)->AddSummary(got[1].scalar<std::string>(), step++));
    }
    return OkStatus();
  };
  // By turns: the machine's speed changes meanwhile.
  double without = 1e9, with = 1e9;
  for (int round = 0; round < 7; ++round) {
    SLUICE_ASSIGN_OR_RETURN(const double a,
                            Best(1, [&] { return run(false); }));
    SLUICE_ASSIGN_OR_RETURN(const double b, Best(1, [&] { return run(true); }));
    without = std::min(without, a);
    with = std::min(with, b);
  }
  return 100 * (with / without - 1);
}

}  // namespace
}  // namespace sluice::bench
