#include "kernels/simd/target.h"

#include <gtest/gtest.h>

#include <cstdlib>
// After target.h.
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace sluice {
namespace {

// With SLUICE_LEAST_TARGET set the kernels run as on the least supported
// machine: ctest runs all of them once more with it.
bool ChooseTheLeast() {
  if (std::getenv("SLUICE_LEAST_TARGET") == nullptr) return false;
  hwy::DisableTargets(~int64_t{HWY_STATIC_TARGET});
  return true;
}
const bool kLeast = ChooseTheLeast();

TEST(Targets, LowestTargetIsChosenOnRequest) {
  const auto targets = hwy::SupportedTargets();
  EXPECT_NE(targets & HWY_STATIC_TARGET, 0);
  if (kLeast) {
    EXPECT_EQ(targets, HWY_STATIC_TARGET);
  }
}

}  // namespace
}  // namespace sluice
