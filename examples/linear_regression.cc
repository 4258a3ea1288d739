// Fits a line by gradient descent.
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

int main() {
  Output x = Placeholder<float>({-1}), y = Placeholder<float>({-1});
  Var slope(0.0, "slope"), offset(0.0, "offset");
  Output error = slope * x + offset - y;
  Output loss = ops::Mean(error * error, 0);
  Node* train = GradientDescentOptimizer(0.1).Minimize(loss);

  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  const Feeds points = {{x, Tensor::Vector<float>({-1, 0, 1, 2})},
                        {y, Tensor::Vector<float>({-4, -1, 2, 5})}};
  for (int step = 0; step < 200 && status.ok(); ++step)
    status = session.RunTargets({train}, points);
  const auto line = session.Run({slope, offset});
  if (!status.ok() || !line.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::printf("y = %.3f x + %.3f\n", (*line)[0].scalar<float>(),
              (*line)[1].scalar<float>());  // y = 3 x - 1
  return 0;
}
