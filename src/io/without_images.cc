// In the place of the image formats in builds without them (SLUICE_MINIMAL).
// What else calls them (src/summary) gets an error.
#include "io/image_png.h"

namespace sluice {

Result<std::string> EncodePng(const Tensor&, int) {
  return Unimplemented(
      "PNG: expected a build with images, got one without (SLUICE_MINIMAL)");
}

}  // namespace sluice
