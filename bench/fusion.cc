// Elementwise chains over large arrays, fused (in blocks) and node by node.
#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

constexpr int64_t kElements = 1'000'000;

// Microseconds per step that computes `y`.
Result<double> ChainUs(Graph& g, Output x, Output y, bool fusion) {
  SessionOptions options;
  options.fusion = fusion;
  Session session(g, options);
  Tensor in(DType::kFloat, Shape({kElements}));
  for (int64_t i = 0; i < kElements; ++i)
    in.data<float>()[i] = static_cast<float>(i % 1000) * 0.006f - 3.f;
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({x}, {y}));
  constexpr int kSteps = 20;
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, [&]() -> Status {
                            for (int i = 0; i < kSteps; ++i)
                              SLUICE_RETURN_IF_ERROR(step.Run({in}).status());
                            return OkStatus();
                          }));
  return s / kSteps * 1e6;
}

// BERT's Gaussian error linear unit: nine operations.
Result<double> GeluUs(bool fusion) {
  Graph g;
  WithGraph use(g);
  const Output x = Placeholder<float>({kElements});
  const Output y =
      0.5f * x * (1.f + ops::Tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  return ChainUs(g, x, y, fusion);
}

// Cheap operations, bound by memory bandwidth.
Result<double> PolynomialUs(bool fusion) {
  Graph g;
  WithGraph use(g);
  const Output x = Placeholder<float>({kElements});
  Output y = x * 0.1f + 1.f;
  for (int i = 0; i < 4; ++i) y = y * x + 0.5f;
  return ChainUs(g, x, y, fusion);
}

SLUICE_BENCH("fusion.gelu.1M_us") { return GeluUs(true); }
SLUICE_BENCH("fusion.gelu.1M.unfused_us") { return GeluUs(false); }
SLUICE_BENCH("fusion.polynomial.1M_us") { return PolynomialUs(true); }
SLUICE_BENCH("fusion.polynomial.1M.unfused_us") { return PolynomialUs(false); }

}  // namespace
}  // namespace sluice::bench
