// The matrix products of the classifier of Figure 1 and all the heavy kernels
// of a LeNet training step (28x28x1, 5x5 convolutions to 32 and 64 channels,
// 2x2 pooling, 512, 10), batch 64.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/parallel.h"
#include "kernels/dnn/conv.h"
#include "kernels/dnn/matmul.h"
#include "kernels/dnn/pool.h"

namespace sluice::dnn {
namespace {

void GemmFloat(benchmark::State& state) {
  const ScopedIntraOpThreads threads(static_cast<int>(state.range(0)));
  GemmShape s{state.range(1), state.range(2), state.range(3)};
  if (state.range(4) & 1) s.trans_a = Trans::kTranspose;
  if (state.range(4) & 2) s.trans_b = Trans::kTranspose;
  std::vector<float> a(s.m * s.k, 1.0f), b(s.k * s.n, 0.5f), c(s.m * s.n);
  for (auto _ : state) Gemm(s, a.data(), b.data(), c.data());
  state.counters["flops"] =
      benchmark::Counter(2.0 * static_cast<double>(s.m * s.n * s.k),
                         benchmark::Counter::kIsIterationInvariantRate,
                         benchmark::Counter::OneK::kIs1000);
}
BENCHMARK(GemmFloat)
    ->ArgNames({"threads", "m", "n", "k", "trans"})
    ->UseRealTime()
    ->ArgsProduct({{1, 2}, {2}, {2}, {2}, {0}})
    ->ArgsProduct({{1, 2}, {8}, {8}, {8}, {0}})
    ->ArgsProduct({{1, 2}, {16}, {16}, {16}, {0, 2}})
    ->ArgsProduct({{1, 2}, {32}, {32}, {32}, {0, 2}})
    ->ArgsProduct({{1, 2}, {64}, {100}, {784}, {0}})
    ->ArgsProduct({{1, 2}, {64}, {10}, {100}, {0}})
    ->ArgsProduct({{1, 2}, {784}, {100}, {64}, {1}})
    ->ArgsProduct({{1, 2}, {100}, {10}, {64}, {1}})
    ->ArgsProduct({{1, 2}, {64}, {100}, {10}, {2}})
    ->ArgsProduct({{1, 2}, {64}, {3136}, {512}, {2}})
    ->ArgsProduct({{1, 2}, {1024}, {1024}, {1024}, {0}});

ConvGeometry LeNetConv(int layer) {
  const WindowDim d{layer == 1 ? 28 : 14, 5, 1, 1, 2, 2};
  const int64_t in = layer == 1 ? 1 : 32;
  return {Layout::kNhwc, 64, in, in, layer == 1 ? 32 : 64, d, d};
}
PoolGeometry LeNetPool(int layer) {
  const WindowDim d{layer == 1 ? 28 : 14, 2, 2};
  return {Layout::kNhwc, 64, layer == 1 ? 32 : 64, d, d};
}

void LeNetConvolution(benchmark::State& state) {
  const ScopedIntraOpThreads threads(static_cast<int>(state.range(0)));
  const ConvGeometry s = LeNetConv(static_cast<int>(state.range(1)));
  const auto plan = *ConvPlan<float>::Make(s);
  std::vector<float> in(s.in_size(), 1.0f), filter(s.filter_size(), 0.5f),
      out(s.out_size(), 1.0f);
  for (auto _ : state) {
    const Status done =
        state.range(2) == 0
            ? plan->Forward(in.data(), filter.data(), out.data())
        : state.range(2) == 1
            ? plan->BackwardData(filter.data(), out.data(), in.data())
            : plan->BackwardFilter(in.data(), out.data(), filter.data());
    if (!done.ok()) state.SkipWithError("failed");
  }
}
BENCHMARK(LeNetConvolution)
    ->ArgNames({"threads", "layer", "pass"})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->ArgsProduct({{1, 2}, {1, 2}, {0, 1, 2}});

void LeNetPooling(benchmark::State& state) {
  const ScopedIntraOpThreads threads(static_cast<int>(state.range(0)));
  const PoolGeometry s = LeNetPool(static_cast<int>(state.range(1)));
  std::vector<float> in(s.in_size(), 1.0f), out(s.out_size()),
      d_in(s.in_size());
  for (auto _ : state) {
    if (state.range(2) == 0) {
      MaxPool(s, in.data(), out.data());
    } else {
      MaxPoolGrad(s, in.data(), out.data(), d_in.data());
    }
  }
}
BENCHMARK(LeNetPooling)
    ->ArgNames({"threads", "layer", "pass"})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->ArgsProduct({{1, 2}, {1, 2}, {0, 1}});

// The whole step except the elementwise work (biases, rectifiers, the loss, the
// weight update).
void LeNetStep(benchmark::State& state) {
  const ScopedIntraOpThreads threads(static_cast<int>(state.range(0)));
  const ConvGeometry c1 = LeNetConv(1), c2 = LeNetConv(2);
  const PoolGeometry p1 = LeNetPool(1), p2 = LeNetPool(2);
  const auto conv1 = *ConvPlan<float>::Make(c1);
  const auto conv2 = *ConvPlan<float>::Make(c2);
  const auto image = [](int64_t n) {
    std::vector<float> v(n);
    for (int64_t i = 0; i < n; ++i) v[i] = static_cast<float>(i % 17) * 0.01f;
    return v;
  };
  std::vector<float> x = image(c1.in_size()), f1 = image(c1.filter_size()),
                     y1 = image(c1.out_size()), z1 = image(p1.out_size()),
                     f2 = image(c2.filter_size()), y2 = image(c2.out_size()),
                     z2 = image(p2.out_size()), w3 = image(3136 * 512),
                     h3 = image(64 * 512), w4 = image(512 * 10),
                     h4 = image(64 * 10);
  std::vector<float> df1 = f1, dy1 = y1, dz1 = z1, df2 = f2, dy2 = y2, dz2 = z2,
                     dw3 = w3, dh3 = h3, dw4 = w4;
  constexpr Trans kNone = Trans::kNone, kTrans = Trans::kTranspose;
  for (auto _ : state) {
    bool ok = conv1->Forward(x.data(), f1.data(), y1.data()).ok();
    MaxPool(p1, y1.data(), z1.data());
    ok &= conv2->Forward(z1.data(), f2.data(), y2.data()).ok();
    MaxPool(p2, y2.data(), z2.data());
    Gemm<float>({64, 512, 3136}, z2.data(), w3.data(), h3.data());
    Gemm<float>({64, 10, 512}, h3.data(), w4.data(), h4.data());
    Gemm<float>({512, 10, 64, kTrans}, h3.data(), h4.data(), dw4.data());
    Gemm<float>({64, 512, 10, kNone, kTrans}, h4.data(), w4.data(), dh3.data());
    Gemm<float>({3136, 512, 64, kTrans}, z2.data(), dh3.data(), dw3.data());
    Gemm<float>({64, 3136, 512, kNone, kTrans}, dh3.data(), w3.data(),
                dz2.data());
    MaxPoolGrad(p2, y2.data(), dz2.data(), dy2.data());
    ok &= conv2->BackwardFilter(z1.data(), dy2.data(), df2.data()).ok();
    ok &= conv2->BackwardData(f2.data(), dy2.data(), dz1.data()).ok();
    MaxPoolGrad(p1, y1.data(), dz1.data(), dy1.data());
    ok &= conv1->BackwardFilter(x.data(), dy1.data(), df1.data()).ok();
    if (!ok) state.SkipWithError("failed");
  }
}
BENCHMARK(LeNetStep)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace sluice::dnn
