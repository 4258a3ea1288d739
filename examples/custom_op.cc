// A custom op: declaration, kernel and gradient.
#include <algorithm>
#include <cstdio>

#include "sluice/op.h"
#include "sluice/sluice.h"

using namespace sluice;

// Reads its inputs, sets every output, keeps nothing.
Status RunBackwards(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, x.dtype(), x.shape()));
  const auto from = x.flat<float>();
  std::copy(from.rbegin(), from.rend(), ctx.output(0).flat<float>().begin());
  return OkStatus();
}

SLUICE_OP(Backwards)
    .Input("x: float")
    .Output("y: float")
    .Shape(UnchangedShape)
    .Kernel(Cpu(RunBackwards))
    .Grad([](GradContext& c) {
      c.grads[0] = Build("Backwards", {c.dy[0]});
      return OkStatus();
    })
    .Doc("The elements in reverse order.");

int main() {
  Output x = Placeholder<float>({-1});
  Output y = Build("Backwards", {x * x}) * Tensor::Vector<float>({1, 10, 100});

  Session session;
  const auto out =
      session.Run({{x, Tensor::Vector<float>({1, 2, 3})}}, {y, Grad(y, x)});
  if (!out.ok()) {
    std::fprintf(stderr, "%s\n", out.status().ToString().c_str());
    return 1;
  }
  std::printf("y  = %s\ndx = %s\n", (*out)[0].ToString().c_str(),
              (*out)[1].ToString().c_str());  // [9 40 100], [200 40 6]
  return 0;
}
