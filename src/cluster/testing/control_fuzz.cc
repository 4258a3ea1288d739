// Fuzzes a task with untrusted control messages
// (cluster/testing/hostile_test_util.h): it must answer any message of a peer
// or client with an error or a result, and keep no state after they have
// disconnected.
#include <cstdio>
#include <cstdlib>

#include "cluster/testing/hostile_test_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const victim = new sluice::hostile::Victim;
  if (!victim->PerformActions(data, size)) {
    std::fprintf(stderr, "steps are left\n");
    std::abort();
  }
  return 0;
}
