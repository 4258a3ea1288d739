// The time per iteration must not depend on the number of iterations: loops of
// 10 to 100,000 iterations, forward and with gradient, of scalars, which
// compile to register regions, and of rows of eight.
#include <tuple>
#include <vector>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

enum class Body { kScalar, kRow };
enum class Pass { kForward, kGradient };

// y = tanh(y * w) + w, n times. n is fed, so the loop's length depends on data.
// The gradient with respect to w reads every y.
Result<double> LoopUsPerIter(Body body, Pass pass, int n) {
  Graph g;
  WithGraph use(g);
  const PartialShape shape =
      body == Body::kScalar ? PartialShape::Scalar() : PartialShape({8});
  const Output w = Placeholder<float>(shape);
  const Output length = Placeholder<int32_t>(PartialShape::Scalar());
  const auto [i, y] = While(
      std::tuple{0, ops::Identity(w)},
      [&](Output i, Output) { return i < length; },
      [&](Output i, Output y) {
        return std::tuple{i + 1, ops::Tanh(y * w) + w};
      });
  const Output result = pass == Pass::kForward ? y : Grad(y, w);
  SLUICE_RETURN_IF_ERROR(g.status());
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({w, length}, {result}));
  const std::vector<float> eight(8, .25f);
  const std::vector<Tensor> fed = {body == Body::kScalar
                                       ? Tensor::Scalar(.25f)
                                       : Tensor::Vector<float>(eight),
                                   Tensor::Scalar(int32_t{n})};
  const int runs = std::max(1, 100'000 / n);
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(3, [&]() -> Status {
                            for (int r = 0; r < runs; ++r)
                              SLUICE_RETURN_IF_ERROR(step.Run(fed).status());
                            return OkStatus();
                          }));
  return s / runs / n * 1e6;
}

#define LOOP_LENGTH(n)                                       \
  SLUICE_BENCH("while_scalar_fwd.n" #n ".us_per_iter") {     \
    return LoopUsPerIter(Body::kScalar, Pass::kForward, n);  \
  }                                                          \
  SLUICE_BENCH("while_scalar_grad.n" #n ".us_per_iter") {    \
    return LoopUsPerIter(Body::kScalar, Pass::kGradient, n); \
  }                                                          \
  SLUICE_BENCH("while_row_fwd.n" #n ".us_per_iter") {        \
    return LoopUsPerIter(Body::kRow, Pass::kForward, n);     \
  }                                                          \
  SLUICE_BENCH("while_row_grad.n" #n ".us_per_iter") {       \
    return LoopUsPerIter(Body::kRow, Pass::kGradient, n);    \
  }
LOOP_LENGTH(10)
LOOP_LENGTH(100)
LOOP_LENGTH(1000)
LOOP_LENGTH(10000)
LOOP_LENGTH(100000)
#undef LOOP_LENGTH

}  // namespace
}  // namespace sluice::bench
