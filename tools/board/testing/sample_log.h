// A log with something for each tab of the board.
#ifndef SLUICE_TOOLS_BOARD_TESTING_SAMPLE_LOG_H_
#define SLUICE_TOOLS_BOARD_TESTING_SAMPLE_LOG_H_

#include <string>

#include "base/status.h"

namespace sluice::board {

// Writes the runs "baseline" and "wide" below the folder: scalars of 400 steps,
// histograms, images, sounds, texts, an embedding with labels, a graph with a
// loop, a conditional, a function and gradients, and a profiled step of it.
Status WriteSampleLog(const std::string& folder);

}  // namespace sluice::board

#endif  // SLUICE_TOOLS_BOARD_TESTING_SAMPLE_LOG_H_
