// How long a training step takes while a checkpoint is written beside it, and
// how long without one: a perceptron of eight layers of 1024 x 1024 under Adam,
// whose checkpoint has 100 MB.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

struct StepTimes {
  // Seconds. Of steps without a save, of those beside one, of the first of
  // these, and of whole saves.
  std::vector<double> usual, saving, first, saves;
};

Result<StepTimes> TimesOfSteps() {
  constexpr int64_t kUnits = 1024, kRows = 32;
  constexpr int kLayers = 8, kSaves = 10, kSteps = 40;
  Graph g;
  const WithGraph use(g);
  SetRandomSeed(1);
  const Output x = Constant(Tensor::Of<float>(
      {kRows, kUnits}, std::vector<float>(kRows * kUnits, 0.5f)));
  Output y = x;
  for (int i = 0; i < kLayers; ++i) {
    const Var w(RandomNormal({kUnits, kUnits}) * 0.03f, "w");
    y = ops::Tanh(ops::MatMul(y, w));
  }
  const Output loss = ops::Mean(y * y, {0, 1});
  AdamOptimizer optimizer(1e-4f);
  Node* const train = optimizer.Minimize(loss);
  Saver saver({.max_to_keep = 1});
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  struct Folder {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() /
        ("sluice_step_" + std::to_string(getpid()));
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  } folder;
  StepTimes times;
  const auto step = [&](std::vector<double>* to) -> Status {
    const int64_t start = NowNs();
    SLUICE_RETURN_IF_ERROR(session.RunTargets({train}));
    if (to != nullptr)
      to->push_back(static_cast<double>(NowNs() - start) * 1e-9);
    return OkStatus();
  };
  for (int i = 0; i < 5; ++i) SLUICE_RETURN_IF_ERROR(step(nullptr));
  for (int save = 0; save < kSaves; ++save) {
    for (int i = 0; i < kSteps; ++i) SLUICE_RETURN_IF_ERROR(step(&times.usual));
    // (The first step's time has that of the snapshot.)
    const int64_t start = NowNs();
    SLUICE_RETURN_IF_ERROR(
        saver.SaveAsync(session, (folder.path / "ckpt").string(), save));
    const double snapshot = static_cast<double>(NowNs() - start) * 1e-9;
    const size_t first = times.saving.size();
    std::optional<Result<std::string>> done;
    while (!done.has_value()) {
      SLUICE_RETURN_IF_ERROR(step(&times.saving));
      done = saver.FinishedSave();
    }
    SLUICE_RETURN_IF_ERROR(done->status());
    times.saving[first] += snapshot;
    times.first.push_back(times.saving[first]);
    times.saves.push_back(static_cast<double>(NowNs() - start) * 1e-9);
  }
  return times;
}

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

const Result<StepTimes>& Times() {
  static const auto* const times = new Result<StepTimes>(TimesOfSteps());
  return *times;
}

// A quantile of the steps beside a save, all from the snapshot until the files
// are on disk, against the same quantile of the usual ones.
Result<double> QuantileRatio(double q) {
  if (!Times().ok()) return Times().status();
  const auto quantile = [q](std::vector<double> values) {
    const auto at =
        values.begin() +
        static_cast<ptrdiff_t>(q * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), at, values.end());
    return *at;
  };
  return quantile(Times()->saving) / quantile(Times()->usual);
}

SLUICE_BENCH("checkpoint.step_while_saving.ratio") {
  if (!Times().ok()) return Times().status();
  return MeanOf(Times()->saving) / MeanOf(Times()->usual);
}

SLUICE_BENCH("checkpoint.step_while_saving.p50_ratio") {
  return QuantileRatio(0.5);
}
SLUICE_BENCH("checkpoint.step_while_saving.p99_ratio") {
  return QuantileRatio(0.99);
}

// The slowest step beside a save against the mean of the usual ones, and for
// comparison the slowest of these.
SLUICE_BENCH("checkpoint.step_while_saving.worst_ratio") {
  if (!Times().ok()) return Times().status();
  return *std::max_element(Times()->saving.begin(), Times()->saving.end()) /
         MeanOf(Times()->usual);
}
SLUICE_BENCH("checkpoint.step_while_saving.usual_worst_ratio") {
  if (!Times().ok()) return Times().status();
  return *std::max_element(Times()->usual.begin(), Times()->usual.end()) /
         MeanOf(Times()->usual);
}

// The mean of the first step after each snapshot, which finds all variables
// shared; its time includes that of taking the snapshot.
SLUICE_BENCH("checkpoint.step_while_saving.first_ratio") {
  if (!Times().ok()) return Times().status();
  return MeanOf(Times()->first) / MeanOf(Times()->usual);
}

SLUICE_BENCH("checkpoint.step_while_saving.usual_ms") {
  if (!Times().ok()) return Times().status();
  return MeanOf(Times()->usual) * 1e3;
}

// From the snapshot until the files are on disk.
SLUICE_BENCH("checkpoint.step_while_saving.save_ms") {
  if (!Times().ok()) return Times().status();
  return MeanOf(Times()->saves) * 1e3;
}

}  // namespace
}  // namespace sluice::bench
