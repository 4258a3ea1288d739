// Bilinear resizing of images with three channels to 224 x 224.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/parallel.h"
#include "kernels/image/resample.h"

namespace sluice::image {
namespace {

// `in`: bytes (a decoded file) or floats.
template <typename T>
void Bilinear224(benchmark::State& state) {
  const ScopedIntraOpThreads threads(static_cast<int>(state.range(0)));
  const int64_t side = state.range(1);
  const std::vector<T> in(static_cast<size_t>(side * side * 3), T{7});
  std::vector<float> out(224 * 224 * 3);
  for (auto _ : state) {
    const auto at = BilinearPositions(224, side, static_cast<float>(side) / 224,
                                      /*half_pixel_centers=*/true);
    ResampleBilinear(DTypeOf<T>(), in.data(), {1, side, side, 3}, at, at,
                     out.data());
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_TEMPLATE(Bilinear224, float)
    ->ArgNames({"threads", "side"})
    ->UseRealTime()
    ->ArgsProduct({{1, 2}, {112, 224, 256, 500}});
BENCHMARK_TEMPLATE(Bilinear224, uint8_t)
    ->ArgNames({"threads", "side"})
    ->UseRealTime()
    ->ArgsProduct({{1, 2}, {112, 224, 256, 500}});

}  // namespace
}  // namespace sluice::image
