// The demo's language model: an LSTM learns a text character by character, then
// writes by itself.
#ifndef SLUICE_TOOLS_SLUICE_DEMO_TEXT_H_
#define SLUICE_TOOLS_SLUICE_DEMO_TEXT_H_

#include <string>
#include <vector>

#include "sluice/sluice.h"
#include "tools/sluice/demo_train.h"

namespace sluice::demo {

// A licence that every Debian system carries.
inline constexpr const char* kText = "/usr/share/common-licenses/GPL-3";

struct TextOptions {
  std::string path = kText;
  int steps = 600;
  int units = 128;
  uint64_t seed = 1;
  bool terminal = false;
};

// What came of it.
struct TextTraining {
  std::string path;
  int64_t characters = 0;  // Of the text.
  int parameters = 0;
  int nodes = 0;
  std::vector<Point> bits;  // Per character, by step; averaged.
  double final_bits = 0;
  double seconds = 0;  // Of training alone.
  double characters_per_second = 0;
  double step_ms = 0;
  // Written by the model, after a part of the training and after all of it.
  std::string first_words, last_words;
  double written_per_second = 0;
};

// Trains on the text and lets the model write. Prints progress on standard
// output. InvalidArgument if the text is too short to learn from.
Result<TextTraining> TrainOnText(const TextOptions& options);

}  // namespace sluice::demo

#endif  // SLUICE_TOOLS_SLUICE_DEMO_TEXT_H_
