// Compares a trained network of the demo in int8 with the float one: accuracy,
// size and speed.
#ifndef SLUICE_TOOLS_SLUICE_DEMO_INT8_H_
#define SLUICE_TOOLS_SLUICE_DEMO_INT8_H_

#include "tools/sluice/demo_data.h"
#include "tools/sluice/demo_models.h"

namespace sluice::demo {

struct InferenceFigures {
  double accuracy = 0;  // On the test images.
  int64_t bytes = 0;    // Size of the frozen GraphDef.
  double images_per_second = 0;
};

struct Int8Figures {
  InferenceFigures before, after;
};

// Freezes the session's trained model, quantizes it with some of the training
// images for calibration, and measures both alternately.
Result<Int8Figures> MeasureInt8(Session& session, const Model& model,
                                const ImageData& data);

}  // namespace sluice::demo

#endif  // SLUICE_TOOLS_SLUICE_DEMO_INT8_H_
