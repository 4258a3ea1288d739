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
  bool terminal = false;  // A bar that moves, instead of lines.
  bool int8 = false;      // Quantise it when it is trained.
};

struct Point {
  double epoch, value;
};

// What came of it.
struct Training {
  std::string title;
  int parameters = 0;
  int nodes = 0;
  std::vector<Point> loss;            // Of the batches, averaged.
  std::vector<Point> train_accuracy;  // Of the batches, averaged.
  std::vector<Point> test_accuracy;   // After each epoch.
  double final_accuracy = 0;
  double seconds = 0;  // Of training alone.
  double images_per_second = 0;
  double step_us = 0;
  std::vector<uint8_t> guesses;      // Of the test images.
  std::vector<float> probabilities;  // That the guess is right, says the model.
  std::string trace;                 // One step, for chrome://tracing.
  std::optional<Int8Figures> int8;   // If asked for.
};

// Builds the model in a graph of its own, trains and tests it. Prints progress
// on standard output.
Result<Training> Train(Model (*build)(), const ImageData& data,
                       const TrainOptions& options);

}  // namespace sluice::demo

#endif  // SLUICE_TOOLS_SLUICE_DEMO_TRAIN_H_
