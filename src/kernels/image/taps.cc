#include "kernels/image/taps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace sluice::image {
namespace {

int64_t Clamped(int64_t i, int64_t size) {
  return std::min(size - 1, std::max(int64_t{0}, i));
}

// ---- Bicubic ----------------------------------------------------------------

constexpr int kSteps = 1024;

// The weights of pixels at distance x and 1 + x, for x = i / kSteps.
struct CubicTable {
  std::array<float, kSteps + 1> near, far;

  explicit CubicTable(double a) {
    for (int i = 0; i <= kSteps; ++i) {
      const auto x = static_cast<float>(static_cast<double>(i) / kSteps);
      const double d = x, e = d + 1;
      near[static_cast<size_t>(i)] =
          static_cast<float>(((a + 2) * d - (a + 3)) * d * d + 1);
      far[static_cast<size_t>(i)] =
          static_cast<float>(((a * e - 5 * a) * e + 8 * a) * e - 4 * a);
    }
  }
};

// True for a sum by which weights can be divided.
bool IsDivisor(float sum) {
  return std::abs(sum) >= 1000.0f * std::numeric_limits<float>::min();
}

// ---- Filters ----------------------------------------------------------------

float Radius(Filter f) {
  switch (f) {
    case Filter::kLanczos1:
    case Filter::kBox:
    case Filter::kTriangle:
      return 1;
    case Filter::kGaussian:
      return 1.5f;
    case Filter::kKeysCubic:
    case Filter::kMitchellCubic:
      return 2;
    case Filter::kLanczos3:
      return 3;
    case Filter::kLanczos5:
      return 5;
  }
  return 0;
}

float Lanczos(float x, float radius) {
  constexpr float kPi = 3.14159265359f;
  if (x > radius) return 0;
  if (x <= 1e-3f) return 1;  // The limit of sin(x) / x.
  return radius * std::sin(kPi * x) * std::sin(kPi * x / radius) /
         (kPi * kPi * x * x);
}

// REQUIRES: x >= 0.
float Weigh(Filter f, float x) {
  switch (f) {
    case Filter::kLanczos1:
    case Filter::kLanczos3:
    case Filter::kLanczos5:
      return Lanczos(x, Radius(f));
    case Filter::kGaussian: {
      // Three standard deviations within the radius.
      const double sigma = 0.5;
      return x >= 1.5f ? 0
                       : static_cast<float>(std::exp(-static_cast<double>(x) *
                                                     x / (2 * sigma * sigma)));
    }
    case Filter::kBox:
      return x < 0.5f ? 1 : x == 0.5f ? 0.5f : 0;
    case Filter::kTriangle:
      return x < 1 ? 1 - x : 0;
    case Filter::kKeysCubic:
      if (x >= 2) return 0;
      if (x >= 1) return ((-0.5f * x + 2.5f) * x - 4.0f) * x + 2.0f;
      return ((1.5f * x - 2.5f) * x) * x + 1.0f;
    case Filter::kMitchellCubic:
      if (x >= 2) return 0;
      if (x >= 1)
        return (((-7.0f / 18.0f) * x + 2.0f) * x - 10.0f / 3.0f) * x +
               16.0f / 9.0f;
      return (((7.0f / 6.0f) * x - 2.0f) * x) * x + 8.0f / 9.0f;
  }
  return 0;
}

float FilterScale(float inverse_scale, bool antialias) {
  return antialias ? std::max(inverse_scale, 1.0f) : 1.0f;
}

// v as an index within the input; v may be infinite.
int64_t IndexOf(float v, int64_t size) {
  if (!(v > 0)) return 0;
  return v >= static_cast<float>(size) ? size - 1
                                       : Clamped(static_cast<int64_t>(v), size);
}

}  // namespace

Taps Transposed(const Taps& taps, int64_t inputs) {
  Taps t;
  t.first.assign(static_cast<size_t>(inputs) + 1, 0);
  t.index.resize(taps.index.size());
  t.weight.resize(taps.index.size());
  // Counts, then ends, then (as each list is filled from its end) starts.
  for (const int64_t i : taps.index) ++t.first[static_cast<size_t>(i)];
  int64_t end = 0;
  for (int64_t& n : t.first) n = end += n;
  for (int64_t o = taps.outputs() - 1; o >= 0; --o) {
    const auto begin = static_cast<size_t>(taps.first[static_cast<size_t>(o)]);
    auto k = static_cast<size_t>(taps.first[static_cast<size_t>(o) + 1]);
    while (k-- > begin) {
      const auto at =
          static_cast<size_t>(--t.first[static_cast<size_t>(taps.index[k])]);
      t.index[at] = o;
      t.weight[at] = taps.weight[k];
    }
  }
  return t;
}

std::vector<Between> BilinearPositions(int64_t out, int64_t in, float scale,
                                       bool half_pixel_centers) {
  std::vector<Between> all(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const float at = SourceOf(i, scale, half_pixel_centers);
    const float below = std::floor(at);
    // (Float may round a position past the last pixel.)
    all[static_cast<size_t>(i)] = {
        Clamped(static_cast<int64_t>(below), in),
        Clamped(static_cast<int64_t>(std::ceil(at)), in), at - below};
  }
  return all;
}

Taps BilinearTaps(int64_t out, int64_t in, float scale,
                  bool half_pixel_centers) {
  Taps t;
  for (const Between& b :
       BilinearPositions(out, in, scale, half_pixel_centers)) {
    t.Add(b.lower, 1.0f - b.lerp);
    t.Add(b.upper, b.lerp);
    t.End();
  }
  return t;
}

Taps BicubicTaps(int64_t out, int64_t in, float scale,
                 bool half_pixel_centers) {
  static const CubicTable keys(-0.5), sharper(-0.75);
  const CubicTable& table = half_pixel_centers ? keys : sharper;
  Taps t;
  for (int64_t i = 0; i < out; ++i) {
    const float at = SourceOf(i, scale, half_pixel_centers);
    const float below = std::floor(at);
    const auto from = static_cast<int64_t>(below);
    const auto step = static_cast<size_t>(std::lrint((at - below) * kSteps));
    float weights[] = {table.far[step], table.near[step],
                       table.near[kSteps - step], table.far[kSteps - step]};
    float sum = 0;
    for (int k = 0; half_pixel_centers && k < 4; ++k) {
      if (from + k - 1 != Clamped(from + k - 1, in)) weights[k] = 0;
      sum += weights[k];
    }
    if (half_pixel_centers && IsDivisor(sum))
      for (float& w : weights) w *= 1.0f / sum;
    for (int k = 0; k < 4; ++k) t.Add(Clamped(from + k - 1, in), weights[k]);
    t.End();
  }
  return t;
}

Taps AreaTaps(int64_t out, int64_t in, float scale) {
  Taps t;
  for (int64_t i = 0; i < out; ++i) {
    if (scale == 0) {  // One pixel, with aligned corners.
      t.Add(0, 1);
      t.End();
      continue;
    }
    const float begin = static_cast<float>(i) * scale;
    const float end = static_cast<float>(i + 1) * scale;
    const auto last = static_cast<int64_t>(std::ceil(end));
    for (auto k = static_cast<int64_t>(std::floor(begin)); k < last; ++k) {
      const auto at = static_cast<float>(k);
      float covered = 1;
      if (at < begin)
        covered = at + 1 > end ? scale : at + 1 - begin;
      else if (at + 1 > end)
        covered = end - at;
      t.Add(Clamped(k, in), covered / scale);
    }
    t.End();
  }
  return t;
}

double MaxFilterTaps(Filter filter, int64_t out, int64_t in, float scale,
                     bool antialias) {
  const double reach =
      std::ceil(Radius(filter) * FilterScale(1.0f / scale, antialias));
  return static_cast<double>(out) *
         std::min(2 * reach + 1, static_cast<double>(in));
}

Taps FilterTaps(Filter filter, int64_t out, int64_t in, float scale,
                float translation, bool antialias) {
  const auto inverse = static_cast<float>(1.0 / scale);
  const float shift = -inverse * translation;
  const float widen = FilterScale(inverse, antialias);
  const float reach = Radius(filter) * widen;
  const float narrow = 1.0f / widen;
  Taps t;
  for (int64_t i = 0; i < out; ++i) {
    const float at = (static_cast<float>(i) + 0.5f) * inverse + shift;
    // (Also false for NaN.)
    if (at >= 0 && at <= static_cast<float>(in)) {
      const int64_t begin = IndexOf(std::ceil(at - reach - 0.5f), in);
      const int64_t end = IndexOf(std::floor(at + reach - 0.5f), in) + 1;
      const size_t first = t.weight.size();
      float sum = 0;
      for (int64_t k = begin; k < end; ++k) {
        const float distance = static_cast<float>(k) + 0.5f - at;
        t.Add(k, Weigh(filter, std::abs(distance * narrow)));
        sum += t.weight.back();
      }
      if (IsDivisor(sum)) {
        for (size_t k = first; k < t.weight.size(); ++k)
          t.weight[k] *= 1.0f / sum;
      } else {
        t.index.resize(first);
        t.weight.resize(first);
      }
    }
    t.End();
  }
  return t;
}

}  // namespace sluice::image
