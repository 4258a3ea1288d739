// A loop whose length depends on the data: square roots by Newton's method, in
// as many steps as each number needs, and a conditional around it.
#include <cmath>
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

// Returns x such that x * x is a, to relative accuracy `tolerance`, and the
// number of steps.
std::pair<Output, Output> Newton(Output a, float tolerance) {
  auto [steps, x] = While(
      std::tuple{0, a},
      [&](Output, Output x) { return ops::Abs(x * x - a) > tolerance * a; },
      [&](Output steps, Output x) {
        return std::tuple{steps + 1, (x + a / x) / 2};
      },
      {.maximum_iterations = 100, .name = "newton"});
  return {x, steps};
}

}  // namespace

int main() {
  // A negative number, which has no root, gives NaN and starts no loop.
  Output a = Placeholder<float>({});
  auto [root, steps] = Cond(
      a < 0,
      [] {
        return std::pair{Constant(NAN), Constant(0)};
      },
      [&] { return Newton(a, 1e-6f); });

  Session session;
  for (const float value : {2.0f, 1e-6f, 1e6f, 0.0f, -1.0f}) {
    const auto result =
        session.Run({{a, Tensor::Scalar(value)}}, {root, steps});
    if (!result.ok()) {
      std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
      return 1;
    }
    std::printf("sqrt(%g) = %.6g after %d steps\n", value,
                (*result)[0].scalar<float>(), (*result)[1].scalar<int32_t>());
  }
  return 0;
}
