// Runs a model over the images and records how it learns.
#ifndef SLUICE_TOOLS_SLUICE_DEMO_TRAIN_H_
#define SLUICE_TOOLS_SLUICE_DEMO_TRAIN_H_

#include <optional>
#include <string>
#include <vector>

#include "tools/sluice/demo_data.h"
#include "tools/sluice/demo_int8.h"
#include "tools/sluice/demo_models.h"

namespace sluice::demo {

struct TrainOptions {
  std::string title;
  int epochs = 1;
  int batch = 100;
  uint64_t seed = 1;
  bool terminal = false;  // A progress bar instead of lines.
  bool int8 = false;      // Quantize it after training.
  // Whether a pipeline (Dataset) makes the batches beside the steps, instead of
  // the trainer, which feeds them.
  bool pipeline = false;
};

struct Point {
  double epoch, value;
};

// The results.
struct Training {
  std::string title;
  int parameters = 0;
  int nodes = 0;
  std::vector<Point> loss;            // Over batches, averaged.
  std::vector<Point> train_accuracy;  // Over batches, averaged.
  std::vector<Point> test_accuracy;   // After each epoch.
  double final_accuracy = 0;
  double seconds = 0;  // Training only.
  double images_per_second = 0;
  double step_us = 0;
  std::vector<uint8_t> guesses;      // For the test images.
  std::vector<float> probabilities;  // The model's confidence in its guess.
  std::string trace;                 // One step, for chrome://tracing.
  std::optional<Int8Figures> int8;   // If requested.
};

using ModelFn = Model(const ModelInputs&);

// Builds the model in a new graph, trains and tests it. Prints progress to
// standard output.
Result<Training> Train(ModelFn* build, const ImageData& data,
                       const TrainOptions& options);

}  // namespace sluice::demo

#endif  // SLUICE_TOOLS_SLUICE_DEMO_TRAIN_H_
