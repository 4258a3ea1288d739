// Training and test images: Fashion-MNIST or synthetic ones.
#ifndef SLUICE_TOOLS_SLUICE_DEMO_DATA_H_
#define SLUICE_TOOLS_SLUICE_DEMO_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace sluice::demo {

inline constexpr int kSide = 28;
inline constexpr int kPixels = kSide * kSide;
inline constexpr int kClasses = 10;

// Grey images of 28 x 28 pixels, stored consecutively, and their classes.
struct ImageSet {
  std::vector<uint8_t> pixels, labels;
  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  const uint8_t* image(int64_t i) const { return pixels.data() + i * kPixels; }
};

struct ImageData {
  std::string name;
  std::vector<std::string> classes;
  ImageSet train, test;
};

inline constexpr const char* kFashionMnistDir =
    "/usr/share/datasets/fashion-mnist";

// The four files train-images-idx3-ubyte.gz and so on, as in Debian's package
// dataset-fashion-mnist. NotFound if one is missing.
Result<ImageData> LoadFashionMnist(const std::string& dir);

// Ten blurred patterns, shifted, dimmed and noisy; equal for equal seeds.
ImageData MakeImages(uint64_t seed, int train = 12000, int test = 2000);

}  // namespace sluice::demo

#endif  // SLUICE_TOOLS_SLUICE_DEMO_DATA_H_
