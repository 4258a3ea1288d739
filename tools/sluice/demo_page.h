// The demo's result page: one self-contained HTML file.
#ifndef SLUICE_TOOLS_SLUICE_DEMO_PAGE_H_
#define SLUICE_TOOLS_SLUICE_DEMO_PAGE_H_

#include <string>
#include <vector>

#include "tools/sluice/demo_text.h"
#include "tools/sluice/demo_train.h"

namespace sluice::demo {

// Learning curves, figures, and test images with each network's predictions;
// the language model's text, if there is one.
std::string MakePage(const ImageData& data,
                     const std::vector<Training>& trainings,
                     const TextTraining* text = nullptr);

// A grey image as a PNG file.
std::string EncodePng(const uint8_t* pixels, int width, int height);

}  // namespace sluice::demo

#endif  // SLUICE_TOOLS_SLUICE_DEMO_PAGE_H_
