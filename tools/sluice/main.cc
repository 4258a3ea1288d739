#include <unistd.h>

#include <cstdlib>

#include "tools/sluice/cli.h"

namespace {

// OpenMP's runtime reads its settings from the environment when it is loaded,
// before main. By default its threads spin for milliseconds after each kernel:
// on a machine where something else runs too, that stalls every parallel kernel
// (a 64x100x784 product: 11 ms by default, 0.25 ms so). Starts this program
// again with a short spin, unless whoever started it has chosen.
void CalmOpenMp(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr ||
      std::getenv("OMP_WAIT_POLICY") != nullptr)
    return;
  setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/1);
  execv("/proc/self/exe", argv);  // Where that fails, nothing is lost but time.
}

}  // namespace

int main(int argc, char** argv) {
  CalmOpenMp(argv);
  return sluice::cli::Main(argc, argv);
}
