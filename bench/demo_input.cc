// The training loops of `sluice demo`, with batches that a pipeline makes and
// with batches that the client makes and feeds.
#include "tools/sluice/demo_input.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

// A network in training. Both kinds gather the same number of images, convert
// them and take a step.
class DemoTraining {
 public:
  DemoTraining(demo::Model (*build)(const demo::ModelInputs&), int batch,
               bool piped, const demo::ImageSet& images)
      : batch_(batch), piped_(piped), images_(images) {
    const WithGraph use(graph_);
    if (piped) {
      pipeline_ = demo::BatchPipeline(images.count(), batch, 1 << 20, 1);
      model_ = build(pipeline_.Next());
    } else {
      model_ = build(demo::FedInputs());
      order_.resize(static_cast<size_t>(images.count()));
      std::iota(order_.begin(), order_.end(), 0);
      std::shuffle(order_.begin(), order_.end(), std::mt19937_64(1));
    }
  }
  ~DemoTraining() { pipeline_.Stop(); }
  DemoTraining(const DemoTraining&) = delete;

  Status Begin() {
    SLUICE_RETURN_IF_ERROR(session_.RunTargets({model_.initialize}));
    std::vector<Output> feeds;
    if (!piped_) feeds = {model_.images, model_.labels};
    SLUICE_ASSIGN_OR_RETURN(
        step_, session_.MakeCallable(feeds, {model_.loss, model_.accuracy},
                                     {model_.train}));
    return piped_ ? pipeline_.Start(session_, images_) : OkStatus();
  }
  Status Steps(int count) {
    for (; count > 0; --count) {
      std::vector<Tensor> feeds;
      if (!piped_) {
        if (next_ + batch_ > images_.count()) next_ = 0;
        const demo::Batch b = demo::MakeBatch(
            images_, &order_[static_cast<size_t>(next_)], batch_);
        feeds = {b.images, b.labels};
        next_ += batch_;
      }
      SLUICE_RETURN_IF_ERROR(step_.Run(feeds).status());
    }
    return OkStatus();
  }

 private:
  const int64_t batch_;
  const bool piped_;
  const demo::ImageSet& images_;
  Graph graph_;
  Session session_{graph_};
  demo::BatchPipeline pipeline_;
  demo::Model model_;
  Session::Callable step_;
  std::vector<int64_t> order_;
  int64_t next_ = 0;
};

// The rate of a training that a pipeline feeds, in percent of that of one that
// the client feeds.
Result<double> PipelineSpeed(demo::Model (*build)(const demo::ModelInputs&),
                             int batch, int steps) {
  const demo::ImageData data = demo::MakeImages(1, 12000, 10);
  DemoTraining piped(build, batch, true, data.train);
  DemoTraining fed(build, batch, false, data.train);
  SLUICE_RETURN_IF_ERROR(piped.Begin());
  SLUICE_RETURN_IF_ERROR(fed.Begin());
  const auto turn = [steps](DemoTraining& training) {
    return [&training, steps] { return training.Steps(steps); };
  };
  return PercentByTurns(41, turn(fed), turn(piped));
}

SLUICE_BENCH("demo.classifier.pipeline_speed.percent") {
  return PipelineSpeed(demo::BuildClassifier, 100, 100);
}
SLUICE_BENCH("demo.convnet.pipeline_speed.percent") {
  return PipelineSpeed(demo::BuildConvNet, 50, 30);
}

}  // namespace
}  // namespace sluice::bench
