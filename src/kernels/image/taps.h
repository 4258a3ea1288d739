// Where each element of a resampled row or column comes from. Resampling an
// image is separable: rows are weighed first, then columns.
#ifndef SLUICE_KERNELS_IMAGE_TAPS_H_
#define SLUICE_KERNELS_IMAGE_TAPS_H_

#include <cstdint>
#include <vector>

namespace sluice::image {

// Element i of the output is the sum of weight[k] * in[index[k]] for k in
// [first[i], first[i + 1]). Indices are valid.
struct Taps {
  std::vector<int64_t> first{0};
  std::vector<int64_t> index;
  std::vector<float> weight;

  int64_t outputs() const { return static_cast<int64_t>(first.size()) - 1; }
  void Add(int64_t from, float w) {
    index.push_back(from);
    weight.push_back(w);
  }
  // Ends the list of the current output.
  void End() { first.push_back(static_cast<int64_t>(index.size())); }
};

// The taps of the gradient: output and input exchanged. In the order of the
// outputs of `taps`.
Taps Transposed(const Taps& taps, int64_t inputs);

// The position in the input of the centre of output pixel i.
inline float SourceOf(int64_t i, float scale, bool half_pixel_centers) {
  const auto at = static_cast<float>(i);
  // (Pixel i has its centre at i + 0.5.)
  return half_pixel_centers ? (at + 0.5f) * scale - 0.5f : at * scale;
}

// Two pixels, and where between them an output lies: lower + (upper - lower) *
// lerp.
struct Between {
  int64_t lower, upper;
  float lerp;
};
std::vector<Between> BilinearPositions(int64_t out, int64_t in, float scale,
                                       bool half_pixel_centers);
// The same as taps.
Taps BilinearTaps(int64_t out, int64_t in, float scale,
                  bool half_pixel_centers);

// Cubic convolution of four pixels, from a table of 1,024 steps as in
// TensorFlow. With half-pixel centres the coefficients are those of Keys
// (a = -0.5), and pixels outside have no weight; else a = -0.75, and they
// repeat the edge.
Taps BicubicTaps(int64_t out, int64_t in, float scale, bool half_pixel_centers);

// Averages over the interval that an output covers.
Taps AreaTaps(int64_t out, int64_t in, float scale);

// The filters of ScaleAndTranslate.
enum class Filter {
  kLanczos1,
  kLanczos3,
  kLanczos5,
  kGaussian,
  kBox,
  kTriangle,
  kKeysCubic,
  kMitchellCubic,
};

// Output i is `filter` around the input position (i + 0.5 - translation) /
// scale, whose weights are scaled to a sum of 1; it is zero where the position
// is outside. `antialias`: the filter is widened where the image shrinks.
// REQUIRES: scale > 0.
Taps FilterTaps(Filter filter, int64_t out, int64_t in, float scale,
                float translation, bool antialias);

// The number of taps that FilterTaps makes, at most.
double MaxFilterTaps(Filter filter, int64_t out, int64_t in, float scale,
                     bool antialias);

}  // namespace sluice::image

#endif  // SLUICE_KERNELS_IMAGE_TAPS_H_
