// A loop built from the five primitives: Euclid's greatest common divisor.
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

int main() {
  Output x = Placeholder<int32_t>({}), y = Placeholder<int32_t>({});
  // Two loop variables: Enter brings their tokens into the frame, Merge starts
  // each iteration, Switch sends them on or out, NextIteration back.
  Output a = OpenMerge(ops::Enter(x, "gcd"), "a");
  Output b = OpenMerge(ops::Enter(y, "gcd"), "b");
  Output go_on = ops::LoopCond(ops::NotEqual(b, 0));
  auto [a_out, a_in] = ops::Switch(a, go_on);
  auto [b_out, b_in] = ops::Switch(b, go_on);
  CloseMerge(a, ops::NextIteration(b_in));
  CloseMerge(b, ops::NextIteration(a_in % b_in));
  Output gcd = ops::Exit(a_out);

  Session session;
  for (auto [p, q] : {std::pair{48, 18}, {17, 5}, {0, 7}, {1071, 462}}) {
    const auto result = session.Run(
        {{x, Tensor::Scalar<int32_t>(p)}, {y, Tensor::Scalar<int32_t>(q)}},
        gcd);
    if (!result.ok()) {
      std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
      return 1;
    }
    std::printf("gcd(%d, %d) = %d\n", p, q, result->scalar<int32_t>());
  }
  return 0;
}
