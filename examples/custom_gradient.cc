// A custom gradient: rounds in the forward pass and passes gradients straight
// through in the backward pass, as in the training of quantized networks.
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

// Round, whose true gradient is zero wherever it exists.
Output RoundStraightThrough(const Output& x) {
  const GradientOverride use("Round", "StraightThrough");
  return ops::Round(x);
}

int main() {
  Status status = RegisterGradient("StraightThrough", [](GradContext& c) {
    c.grads[0] = c.dy[0];
    return OkStatus();
  });
  Output x = Placeholder<float>({-1});
  Output y = RoundStraightThrough(x);
  Output z = y * y;

  Session session;
  const auto out =
      session.Run({{x, Tensor::Vector<float>({0.4f, 1.6f})}}, {z, Grad(z, x)});
  if (!status.ok() || !out.ok()) {
    std::fprintf(stderr, "%s%s\n", status.ToString().c_str(),
                 out.status().ToString().c_str());
    return 1;
  }
  std::printf("z  = %s\ndz = %s\n", (*out)[0].ToString().c_str(),
              (*out)[1].ToString().c_str());  // [0 4], [0 4]
  return 0;
}
