// K-means as one run: k-means++ draws the first centres, and a loop of Lloyd's
// steps ends when no point changes its cluster.
#include <cmath>
#include <cstdio>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

constexpr int kPoints = 3000, kClusters = 5;

// The squared distance of each point [n, 2] to each centre [k, 2], [n, k].
Output Distances(Output points, Output centres) {
  Output cross = ops::MatMul(points, centres, {.transpose_b = true});
  return ops::Sum(ops::Square(points), 1, {.keep_dims = true}) - 2 * cross +
         ops::Sum(ops::Square(centres), 1);
}

// Centres [k, 2]: each next one is a point, drawn with a probability
// proportional to its squared distance from the centres so far (Arthur and
// Vassilvitskii, 2007).
Output FirstCentres(Output points) {
  Output first = ops::RandomUniformInt({1}, 0, kPoints);
  return std::get<1>(While(
      std::tuple{1, ops::GatherV2(points, first, 0)},
      [](Output count, Output) { return count < kClusters; },
      [&](Output count, Output centres) {
        Output nearest =
            ops::Maximum(ops::Min(Distances(points, centres), 1), 1e-12f);
        Output drawn =
            ops::Multinomial(ops::ExpandDims(ops::Log(nearest), 0), 1);
        Output row = ops::GatherV2(points, ops::Reshape(drawn, {1}), 0);
        return std::tuple{count + 1, ops::ConcatV2({centres, row}, 0)};
      },
      {.shape_invariants = {PartialShape({}), PartialShape({-1, 2})}}));
}

int main() {
  SetRandomSeed(3);
  Output points = Placeholder<float>({kPoints, 2});
  auto [steps, centres, cluster, changed] = While(
      std::tuple{0, ops::EnsureShape(FirstCentres(points), {kClusters, 2}),
                 ops::Fill({kPoints}, -1), true},
      [](Output, Output, Output, Output changed) { return changed; },
      [&](Output step, Output centres, Output before, Output) {
        Output now = ops::ArgMin(Distances(points, centres), 1,
                                 {.output_type = DType::kInt32});
        Output sums = ops::UnsortedSegmentSum(points, now, kClusters);
        Output sizes = ops::UnsortedSegmentSum(ops::Fill({kPoints, 1}, 1.0f),
                                               now, kClusters);
        // An empty cluster keeps its centre.
        Output moved = ops::SelectV2(sizes > 0.0f,
                                     sums / ops::Maximum(sizes, 1.0f), centres);
        return std::tuple{step + 1, moved, now,
                          ops::Any(ops::NotEqual(now, before), 0)};
      });
  Output spread = ops::Mean(ops::Min(Distances(points, centres), 1), 0);

  // Five clouds around a circle, which overlap.
  std::mt19937 random(1);
  std::normal_distribution<float> noise(0, 1);
  Tensor data(DType::kFloat, {kPoints, 2});
  for (int i = 0; i < kPoints; ++i) {
    const double angle = 2 * M_PI * (i % kClusters) / kClusters;
    data.data<float>()[2 * i] = 5 * std::cos(angle) + noise(random);
    data.data<float>()[2 * i + 1] = 5 * std::sin(angle) + noise(random);
  }
  Session session;
  const auto result = session.Run({{points, data}}, {steps, centres, spread});
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    return 1;
  }
  const float* at = (*result)[1].data<float>();
  for (int k = 0; k < kClusters; ++k)
    std::printf("centre (%6.2f, %6.2f)\n", at[2 * k], at[2 * k + 1]);
  const float mean = (*result)[2].scalar<float>();
  std::printf("%d steps; the mean squared distance is %.3f\n",
              (*result)[0].scalar<int32_t>(), mean);
  return mean < 2.5f ? 0 : 1;
}
