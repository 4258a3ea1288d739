#include <unistd.h>

#include <cstdlib>

#include "tools/sluice/cli.h"

namespace {

// OpenMP's runtime reads its settings from the environment when it is loaded,
// before main. By default its threads spin for milliseconds after each kernel:
// on a machine with other load, that stalls every parallel kernel (a 64x100x784
// product: 11 ms by default, 0.25 ms with this). Restarts this program with a
// short spin, unless the environment already sets one.
void CalmOpenMp(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr ||
      std::getenv("OMP_WAIT_POLICY") != nullptr)
    return;
  setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/1);
  execv("/proc/self/exe", argv);  // On failure only speed is lost.
}

}  // namespace

int main(int argc, char** argv) {
  CalmOpenMp(argv);
  return sluice::cli::Main(argc, argv);
}
