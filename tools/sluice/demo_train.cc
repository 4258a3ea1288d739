#include "tools/sluice/demo_train.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>

#include "absl/strings/str_format.h"
#include "tools/sluice/demo_input.h"

namespace sluice::demo {
namespace {

double SecondsSince(int64_t start_ns) {
  return static_cast<double>(NowNs() - start_ns) * 1e-9;
}

// 12345678 as "12,345,678".
std::string Grouped(double v) {
  std::string s = absl::StrFormat("%.0f", v);
  for (size_t i = s.size(); i > 3; i -= 3) s.insert(i - 3, ",");
  return s;
}

// Shows progress: a bar on a terminal, else a line from time to time.
class Progress {
 public:
  Progress(const TrainOptions& options, int64_t steps)
      : options_(options), steps_(steps) {}

  void Update(int epoch, int64_t step, double loss, double accuracy,
              double images_per_second) {
    const int percent = static_cast<int>(100 * step / steps_);
    if (options_.terminal) {
      if (NowNs() - shown_ns_ < 50'000'000 && step != steps_) return;
      shown_ns_ = NowNs();
      constexpr int kWidth = 30;
      const int full = static_cast<int>(kWidth * step / steps_);
      std::printf(
          "\r  epoch %d/%d [%s%s] %3d%%  loss %.3f  accuracy %4.1f%%  "
          "%s images/s \033[K",
          epoch + 1, options_.epochs, std::string(full, '=').c_str(),
          std::string(kWidth - full, ' ').c_str(), percent, loss,
          100 * accuracy, Grouped(images_per_second).c_str());
      std::fflush(stdout);
    } else if (percent >= next_percent_) {
      next_percent_ = percent + 50;
      std::printf(
          "  epoch %d/%d %3d%%  loss %.3f  accuracy %4.1f%%  %s "
          "images/s\n",
          epoch + 1, options_.epochs, percent, loss, 100 * accuracy,
          Grouped(images_per_second).c_str());
      std::fflush(stdout);
    }
  }
  void Epoch(int epoch, double loss, double test_accuracy) {
    std::printf("%s  epoch %d/%d  loss %.3f  test accuracy %.2f%%\n",
                options_.terminal ? "\r\033[K" : "", epoch + 1, options_.epochs,
                loss, 100 * test_accuracy);
    std::fflush(stdout);
    next_percent_ = 50;
  }

 private:
  const TrainOptions& options_;
  const int64_t steps_;
  int64_t shown_ns_ = 0;
  int next_percent_ = 50;
};

// An average over the last steps, initialized to the first value.
struct Smooth {
  double value = 0;
  bool any = false;
  void Add(double v) {
    value = any ? 0.98 * value + 0.02 * v : v;
    any = true;
  }
};

class Trainer {
 public:
  Trainer(ModelFn* build, const ImageData& data, const TrainOptions& options)
      : data_(data), options_(options), use_(graph_), session_(graph_) {
    SetRandomSeed(static_cast<int64_t>(options.seed));
    if (!options.pipeline) {
      model_ = build(FedInputs());
      return;
    }
    pipeline_ = BatchPipeline(data.train.count(), options.batch, options.epochs,
                              options.seed);
    model_ = build(pipeline_.Next());
  }

  Result<Training> Run() {
    SLUICE_RETURN_IF_ERROR(graph_.status());
    result_.title = options_.title;
    result_.nodes = graph_.num_nodes();
    for (const Var& v : TrainableVariables())
      result_.parameters += static_cast<int>(v.shape().num_elements());
    std::printf("%s: %s parameters, %d nodes\n", options_.title.c_str(),
                Grouped(result_.parameters).c_str(), result_.nodes);
    SLUICE_RETURN_IF_ERROR(session_.RunTargets({model_.initialize}));
    std::vector<Output> feeds;
    if (!options_.pipeline) feeds = {model_.images, model_.labels};
    SLUICE_ASSIGN_OR_RETURN(
        const Session::Callable step,
        session_.MakeCallable(feeds, {model_.loss, model_.accuracy},
                              {model_.train}));
    if (options_.pipeline)
      SLUICE_RETURN_IF_ERROR(pipeline_.Start(session_, data_.train));
    for (int epoch = 0; epoch < options_.epochs; ++epoch)
      SLUICE_RETURN_IF_ERROR(RunEpoch(epoch, step));
    pipeline_.Stop();
    SLUICE_RETURN_IF_ERROR(TraceStep());
    if (options_.int8) {
      SLUICE_ASSIGN_OR_RETURN(result_.int8,
                              MeasureInt8(session_, model_, data_));
    }
    const double images = static_cast<double>(data_.train.count()) *
                          static_cast<double>(options_.epochs);
    result_.images_per_second = images / result_.seconds;
    result_.step_us = 1e6 * result_.seconds / static_cast<double>(steps_);
    result_.final_accuracy = result_.test_accuracy.back().value;
    return std::move(result_);
  }

 private:
  // A batch of the training images, in the order `rows`.
  std::vector<Tensor> Fed(const int64_t* rows) const {
    const Batch b = MakeBatch(data_.train, rows, options_.batch);
    return {b.images, b.labels};
  }
  Status RunEpoch(int epoch, const Session::Callable& step) {
    std::vector<int64_t> order(static_cast<size_t>(data_.train.count()));
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 random(options_.seed * 1000 + static_cast<uint64_t>(epoch));
    std::shuffle(order.begin(), order.end(), random);
    const int64_t steps = data_.train.count() / options_.batch;
    Progress progress(options_, steps);
    for (int64_t i = 0; i < steps; ++i) {
      // Making a batch counts as training: a user pays for it too.
      const int64_t start = NowNs();
      std::vector<Tensor> feeds;
      if (!options_.pipeline)
        feeds = Fed(&order[static_cast<size_t>(i * options_.batch)]);
      SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out, step.Run(feeds));
      result_.seconds += SecondsSince(start);
      ++steps_;
      loss_.Add(out[0].scalar<float>());
      accuracy_.Add(out[1].scalar<float>());
      const double at =
          epoch + static_cast<double>(i + 1) / static_cast<double>(steps);
      if (steps_ % std::max<int64_t>(1, steps / 40) == 0) {
        result_.loss.push_back({at, loss_.value});
        result_.train_accuracy.push_back({at, accuracy_.value});
      }
      progress.Update(
          epoch, i + 1, loss_.value, accuracy_.value,
          static_cast<double>(steps_ * options_.batch) / result_.seconds);
    }
    SLUICE_RETURN_IF_ERROR(Test(epoch));
    progress.Epoch(epoch, loss_.value, result_.test_accuracy.back().value);
    return OkStatus();
  }

  Status Test(int epoch) {
    const ImageSet& set = data_.test;
    result_.guesses.clear();
    result_.probabilities.clear();
    int64_t right = 0;
    std::vector<int64_t> rows(1000);
    for (int64_t begin = 0; begin < set.count(); begin += 1000) {
      const int64_t count = std::min<int64_t>(1000, set.count() - begin);
      std::iota(rows.begin(), rows.end(), begin);
      const Batch b = MakeBatch(set, rows.data(), count);
      SLUICE_ASSIGN_OR_RETURN(
          const Tensor p,
          session_.Run({{model_.images, b.images}}, model_.probabilities));
      for (int64_t i = 0; i < count; ++i) {
        const float* row = p.data<float>() + i * kClasses;
        const auto guess = std::max_element(row, row + kClasses) - row;
        result_.guesses.push_back(static_cast<uint8_t>(guess));
        result_.probabilities.push_back(row[guess]);
        right += guess == set.labels[static_cast<size_t>(begin + i)];
      }
    }
    result_.test_accuracy.push_back(
        {epoch + 1.0,
         static_cast<double>(right) / static_cast<double>(set.count())});
    return OkStatus();
  }

  // (The images are fed: the pipeline has ended.)
  Status TraceStep() {
    SLUICE_ASSIGN_OR_RETURN(
        const Session::Callable step,
        session_.MakeCallable({model_.images, model_.labels},
                              {model_.loss, model_.accuracy}, {model_.train}));
    std::vector<int64_t> rows(static_cast<size_t>(options_.batch));
    std::iota(rows.begin(), rows.end(), 0);
    RunOptions run;
    run.trace = true;
    RunMetadata metadata;
    SLUICE_RETURN_IF_ERROR(step.Run(Fed(rows.data()), run, &metadata).status());
    result_.trace = metadata.ChromeTrace();
    return OkStatus();
  }

  const ImageData& data_;
  const TrainOptions& options_;
  Graph graph_;
  const WithGraph use_;
  Session session_;
  BatchPipeline pipeline_;  // Empty if batches are fed.
  Model model_;
  Training result_;
  Smooth loss_, accuracy_;
  int64_t steps_ = 0;
};

}  // namespace

Result<Training> Train(ModelFn* build, const ImageData& data,
                       const TrainOptions& options) {
  if (data.train.count() < options.batch)
    return InvalidArgument("images: expected at least ", options.batch,
                           ", got ", data.train.count());
  return Trainer(build, data, options).Run();
}

}  // namespace sluice::demo
