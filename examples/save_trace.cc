// Records one step for chrome://tracing or ui.perfetto.dev.
//   example_save_trace [FILE]
#include <cstdio>
#include <fstream>

#include "sluice/sluice.h"

using namespace sluice;

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "trace.json";
  SetRandomSeed(1);
  Output x = RandomNormal({256, 256});
  // A wide layer of independent products, which run in parallel.
  std::vector<Output> branches;
  for (int i = 0; i < 8; ++i)
    branches.push_back(ops::Tanh(ops::MatMul(x, RandomNormal({256, 256}))));
  Output sum = ops::Sum(ops::AddN(branches), {0, 1});

  Session session;
  RunOptions options;
  options.trace = true;
  RunMetadata metadata;
  const auto result = session.Run({}, {sum}, {}, options, &metadata);
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    return 1;
  }
  std::ofstream(path) << metadata.ChromeTrace();
  std::printf("%zu events in %.3f ms, peak %.1f MB: %s\n",
              metadata.events.size(), metadata.wall_ns * 1e-6,
              metadata.peak_bytes * 1e-6, path);
  return 0;
}
