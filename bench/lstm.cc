// One LSTM layer over sequences, as a loop in the graph (dynamic) and unrolled
// (static): outputs, and the gradients of the weights. Same workload as the
// peers' script.
#include <random>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

struct Layer {
  int64_t batch, steps, units;
};

Tensor Normal(const Shape& shape, float scale, uint64_t seed) {
  Tensor t(DType::kFloat, shape);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, scale);
  for (float& v : t.flat<float>()) v = normal(random);
  return t;
}

Result<double> LstmMs(const Layer& l, bool dynamic, bool gradients) {
  Graph g;
  WithGraph use(g);
  Output x = Placeholder<float>({l.steps, l.batch, l.units});
  const Tensor kernel = Normal({2 * l.units, 4 * l.units}, .05f, 1);
  RnnCell cell = LstmCell(l.units, {.initializer = [&](const Shape&, DType) {
                            return Constant(kernel);
                          }});
  Output y;
  if (dynamic) {
    y = DynamicRnn(cell, x, {.time_major = true}).outputs;
  } else {
    y = ops::Pack(StaticRnn(cell, ops::Unpack(x, l.steps)).outputs);
  }
  Output loss = ops::Sum(y * y, {0, 1, 2});
  std::vector<Output> fetches = {loss};
  if (gradients) {
    std::vector<GradTarget> weights;
    for (const Var& v : cell.variables()) weights.emplace_back(v);
    fetches = Grad({loss}, weights);
  }
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({x}, fetches));
  const Tensor rows = Normal({l.steps, l.batch, l.units}, 1, 2);
  SLUICE_ASSIGN_OR_RETURN(const double s,
                          Best(5, [&] { return step.Run({rows}).status(); }));
  return s * 1e3;
}

constexpr Layer kMiddle = {32, 100, 256}, kSmall = {1, 100, 64},
                kLarge = {64, 50, 512};

SLUICE_BENCH("lstm.B32.T100.U256.dynamic.fwd_ms") {
  return LstmMs(kMiddle, true, false);
}
SLUICE_BENCH("lstm.B32.T100.U256.dynamic.fwdbwd_ms") {
  return LstmMs(kMiddle, true, true);
}
SLUICE_BENCH("lstm.B32.T100.U256.static.fwd_ms") {
  return LstmMs(kMiddle, false, false);
}
SLUICE_BENCH("lstm.B32.T100.U256.static.fwdbwd_ms") {
  return LstmMs(kMiddle, false, true);
}
SLUICE_BENCH("lstm.B1.T100.U64.dynamic.fwd_ms") {
  return LstmMs(kSmall, true, false);
}
SLUICE_BENCH("lstm.B1.T100.U64.dynamic.fwdbwd_ms") {
  return LstmMs(kSmall, true, true);
}
SLUICE_BENCH("lstm.B1.T100.U64.static.fwd_ms") {
  return LstmMs(kSmall, false, false);
}
SLUICE_BENCH("lstm.B1.T100.U64.static.fwdbwd_ms") {
  return LstmMs(kSmall, false, true);
}
SLUICE_BENCH("lstm.B64.T50.U512.dynamic.fwd_ms") {
  return LstmMs(kLarge, true, false);
}
SLUICE_BENCH("lstm.B64.T50.U512.dynamic.fwdbwd_ms") {
  return LstmMs(kLarge, true, true);
}
SLUICE_BENCH("lstm.B64.T50.U512.static.fwd_ms") {
  return LstmMs(kLarge, false, false);
}
SLUICE_BENCH("lstm.B64.T50.U512.static.fwdbwd_ms") {
  return LstmMs(kLarge, false, true);
}

}  // namespace
}  // namespace sluice::bench
