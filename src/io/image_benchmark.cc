// Decoding of image files: PNG of 28 x 28, as in MNIST, and JPEG of 224 x 224,
// as in photographs.
#include <benchmark/benchmark.h>

#include <cmath>
#include <string>

#include "io/image_jpeg.h"
#include "io/image_png.h"

namespace sluice {
namespace {

// Smooth, with some noise.
Tensor BenchmarkPicture(int64_t side, int64_t channels) {
  Tensor t(DType::kUint8, Shape({side, side, channels}));
  uint32_t noise = 1;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    noise = noise * 1664525 + 1013904223;
    const auto x = static_cast<double>(i / channels % side);
    const auto y = static_cast<double>(i / channels / side);
    t.data<uint8_t>()[i] = static_cast<uint8_t>(
        110 + 90 * std::sin(x / 9) * std::cos(y / 13) + (noise >> 29));
  }
  return t;
}

void DecodePng28(benchmark::State& state) {
  const std::string file = *EncodePng(BenchmarkPicture(28, 1), -1);
  for (auto _ : state) benchmark::DoNotOptimize(DecodePng(file, {}));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(DecodePng28);

// The argument: how much smaller the result is.
void DecodeJpeg224(benchmark::State& state) {
  const std::string file = *EncodeJpeg(BenchmarkPicture(224, 3), {});
  JpegOptions options;
  options.ratio = static_cast<int>(state.range(0));
  options.fast_dct = true;
  for (auto _ : state) benchmark::DoNotOptimize(DecodeJpeg(file, options));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(DecodeJpeg224)->Arg(1)->Arg(2)->Arg(8);

}  // namespace
}  // namespace sluice
