// For any graph drawn from the bytes (exec/testing/random_graph.h), all kinds
// of sessions compute the same as the reference interpreter. The first eight
// bytes seed the order in which nodes run. Seeds are in
// tests/fuzz/random_graph_fuzz.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "exec/testing/random_graph_test_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint64_t seed = 0;
  const size_t head = std::min(size, sizeof(seed));
  if (head > 0) std::memcpy(&seed, data, head);
  const std::string what =
      sluice::CheckRandomGraph(data + head, size - head, seed | 1);
  if (!what.empty()) {
    std::fprintf(stderr, "%s\n", what.c_str());
    std::abort();
  }
  return 0;
}
