#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <system_error>

#include "base/failpoint.h"

namespace sluice {
namespace {

struct ThreadPoolTest : testing::Test {
  ~ThreadPoolTest() override { DisableFailpoints(); }
};

TEST_F(ThreadPoolTest, HasTheThreadsThatTheSystemAllows) {
  ASSERT_TRUE(EnableFailpoints("thread_pool.start=error@3").ok());
  std::atomic<int> runs{0};
  {
    ThreadPool pool(8);
    EXPECT_EQ(pool.size(), 3);
    for (int i = 0; i < 100; ++i) pool.Schedule([&runs] { ++runs; });
  }
  EXPECT_EQ(runs, 100);
}

TEST_F(ThreadPoolTest, WithoutAThreadItThrows) {
  ASSERT_TRUE(EnableFailpoints("thread_pool.start=error").ok());
  EXPECT_THROW(ThreadPool(2), std::system_error);
}

}  // namespace
}  // namespace sluice
