#include <iostream>

#include "sluice/sluice.h"
using namespace sluice;

int main() {
  Output x = Placeholder<float>({-1});  // A vector, however long.
  Output y = ops::Sum(x * x + 1, 0);    // Builds nodes; computes nothing.
  Output slope = Grad(y, x);            // Adds the nodes of dy/dx.
  Session session;
  auto out = session.Run({{x, Tensor::Vector<float>({1, 2, 3})}}, {y, slope});
  if (!out.ok()) return std::cerr << out.status() << "\n", 1;
  for (const Tensor& t : *out) std::cout << t.ToString() << "\n";
}
