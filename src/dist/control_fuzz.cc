// Control messages that nobody vouches for (dist/hostile_test_util.h): whatever
// a peer or a client says, a task answers with errors, and when those who spoke
// are gone nothing is left.
#include <cstdio>
#include <cstdlib>

#include "dist/hostile_test_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const victim = new sluice::hostile::Victim;
  if (!victim->Torment(data, size)) {
    std::fprintf(stderr, "steps are left\n");
    std::abort();
  }
  return 0;
}
