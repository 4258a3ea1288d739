#include "base/failpoint.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(FailpointTest, ActsForTheConfiguredHits) {
  ASSERT_TRUE(EnableFailpoints("x.y=error(gone)@1*2; z=drop").ok());
  EXPECT_TRUE(SLUICE_FAILPOINT("x.y").error.ok());
  EXPECT_EQ(SLUICE_FAILPOINT("x.y").error.message(), "x.y: gone");
  EXPECT_FALSE(SLUICE_FAILPOINT("x.y").error.ok());
  EXPECT_TRUE(SLUICE_FAILPOINT("x.y").error.ok());
  EXPECT_TRUE(SLUICE_FAILPOINT("z").drop());
  EXPECT_EQ(FailpointHits("x.y"), 4);
  EXPECT_FALSE(EnableFailpoints("x.y=explode").ok());
  EXPECT_FALSE(EnableFailpoints("nothing").ok());
  DisableFailpoints();
  EXPECT_TRUE(SLUICE_FAILPOINT("x.y").error.ok());
  EXPECT_FALSE(SLUICE_FAILPOINT("z").drop());
}

TEST(FailpointTest, NamesAreRegisteredBeforeFirstHit) {
  if (FailpointNames().empty()) (void)SLUICE_FAILPOINT("never.passed");
  const std::vector<std::string> names = FailpointNames();
  for (const char* name : {"never.passed", "x.y", "z"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
}

}  // namespace
}  // namespace sluice
