// The memory of a training step of an LSTM, beyond the values saved for its
// gradients.
#include <utility>
#include <vector>

#include "bench.h"
#include "sluice/sluice.h"

namespace sluice::bench {
namespace {

enum class Figure { kPeak, kSaved, kRatio };

double BytesOf(const Output& o) {
  auto n = static_cast<double>(DTypeSize(o.dtype()));
  for (int i = 0; i < o.shape().rank(); ++i)
    n *= static_cast<double>(o.shape().dim(i));
  return n;
}

// The bytes that the loops of `g` save for other loops per iteration. (A
// ControlTrigger waits for the writes.)
double SavedPerIteration(const Graph& g) {
  double bytes = 0;
  for (const auto& n : g.nodes()) {
    if (n->op_name() != "ControlTrigger") continue;
    for (const Node* c : n->control_inputs())
      if (c->op_name() == "TensorArrayWriteV3") bytes += BytesOf(c->input(2));
  }
  return bytes;
}

Result<double> LstmMemory(int64_t steps, Figure figure) {
  constexpr int64_t kBatch = 32, kUnits = 256;
  Graph g;
  WithGraph use(g);
  const Output x = Placeholder<float>({steps, kBatch, kUnits});
  RnnCell cell = LstmCell(kUnits);
  const Output y = DynamicRnn(cell, x, {.time_major = true}).outputs;
  std::vector<GradTarget> weights;
  for (const Var& v : cell.variables()) weights.emplace_back(v);
  const std::vector<Output> fetches =
      Grad({ops::Sum(y * y, {0, 1, 2})}, weights);
  SLUICE_RETURN_IF_ERROR(g.status());
  const double saved = SavedPerIteration(g) * static_cast<double>(steps);
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  Tensor rows(DType::kFloat, Shape({steps, kBatch, kUnits}));
  for (float& v : rows.flat<float>()) v = .1f;
  RunMetadata m;
  for (int run = 0; run < 2; ++run)  // The first run includes compilation.
    SLUICE_RETURN_IF_ERROR(
        session.Run({{x, rows}}, fetches, {}, {}, &m).status());
  const auto peak = static_cast<double>(m.step_peak_bytes);
  return figure == Figure::kPeak    ? peak
         : figure == Figure::kSaved ? saved
                                    : peak / saved;
}

#define LSTM_MEMORY(T)                                  \
  SLUICE_BENCH("lstm.memory.T" #T ".step_peak_bytes") { \
    return LstmMemory(T, Figure::kPeak);                \
  }                                                     \
  SLUICE_BENCH("lstm.memory.T" #T ".saved_bytes") {     \
    return LstmMemory(T, Figure::kSaved);               \
  }                                                     \
  SLUICE_BENCH("lstm.memory.T" #T ".times_saved") {     \
    return LstmMemory(T, Figure::kRatio);               \
  }
LSTM_MEMORY(25)
LSTM_MEMORY(50)
LSTM_MEMORY(100)
LSTM_MEMORY(200)
#undef LSTM_MEMORY

}  // namespace
}  // namespace sluice::bench
