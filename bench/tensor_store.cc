// What a TensorStore costs.
#include <tuple>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

constexpr int kPairs = 20'000;

// Seconds of a loop that adds up a number per iteration, which it may write to
// a store and read from it.
Result<double> StoreLoopSeconds(bool stored) {
  Graph g;
  WithGraph use(g);
  const TensorStore store(DType::kFloat,
                          {.element_shape = PartialShape::Scalar()});
  const Output one = Placeholder<float>({}, "one");
  const auto [i, sum] = While(
      std::tuple{0, Constant(0.0f)},
      [](Output i, Output) { return i < kPairs; },
      [&](Output i, Output sum) {
        Output x = one;
        if (stored) {
          const Output key = ops::Cast(i, DType::kInt64);
          store.Write(key, one);
          x = store.Read(key);
        }
        return std::tuple{i + 1, sum + x};
      });
  SLUICE_RETURN_IF_ERROR(g.status());
  // (The other nodes run as they do beside the store's: one by one.)
  SessionOptions options;
  options.regions = false;
  Session session(g, options);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({one}, {sum}));
  const std::vector<Tensor> fed = {Tensor::Scalar(1.0f)};
  return Best(5, [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out, step.Run(fed));
    return out[0].scalar<float>() == static_cast<float>(kPairs)
               ? OkStatus()
               : Internal("tensorstore: wrong sum");
  });
}

// A write and a read of one key, with the conversion of the key.
SLUICE_BENCH("tensorstore.pair_ns") {
  SLUICE_ASSIGN_OR_RETURN(const double with, StoreLoopSeconds(true));
  SLUICE_ASSIGN_OR_RETURN(const double without, StoreLoopSeconds(false));
  return (with - without) / kPairs * 1e9;
}

}  // namespace
}  // namespace sluice::bench
