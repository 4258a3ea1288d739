#include "sluice/cluster.h"

#include <iostream>

#include "sluice/sluice.h"
using namespace sluice;

int main() {
  auto cluster = LocalCluster::Start({{"worker", 2}});
  if (!cluster.ok()) return std::cerr << cluster.status() << "\n", 1;
  Output x, y;
  {
    DeviceScope first("/job:worker/task:0");
    x = ops::Sum(Tensor::Vector<float>({1, 2, 3}), 0);
  }
  {
    DeviceScope second("/job:worker/task:1");
    y = x * x;
  }
  Session session((*cluster)->target("worker", 0));
  auto out = session.Run(y);
  if (!out.ok()) return std::cerr << out.status() << "\n", 1;
  std::cout << out->ToString() << "\n";
}
