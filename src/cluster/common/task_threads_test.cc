#include "cluster/common/task_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace sluice {
namespace {

using std::chrono::milliseconds;

// Tasks that wait until they are let go.
class TaskThreadsTest : public ::testing::Test {
 protected:
  void Block(TaskThreads* threads, int count) {
    for (int i = 0; i < count; ++i)
      threads->Schedule([this] {
        ++running_;
        let_go_.wait();
        --running_;
        ++ended_;
      });
  }
  bool Becomes(const std::function<bool()>& what) {
    for (int i = 0; i < 3000 && !what(); ++i)
      std::this_thread::sleep_for(milliseconds(10));
    return what();
  }
  std::promise<void> letting_go_;
  const std::shared_future<void> let_go_ = letting_go_.get_future().share();
  std::atomic<int> running_{0}, ended_{0};
};

TEST_F(TaskThreadsTest, GrowsToOneThreadPerTaskAndShrinksAgain) {
  TaskThreads threads(1000, milliseconds(20));
  Block(&threads, 50);
  EXPECT_TRUE(Becomes([&] { return running_ == 50; }));
  EXPECT_EQ(threads.num_threads(), 50u);
  letting_go_.set_value();
  EXPECT_TRUE(Becomes([&] { return threads.num_threads() <= 2; }))
      << threads.num_threads();
  // And again.
  Block(&threads, 50);
  EXPECT_TRUE(Becomes([&] { return ended_ == 100; }));
}

// A trickle of tasks, which one thread can do, must not keep the others.
TEST_F(TaskThreadsTest, ShrinksAlsoUnderLightLoad) {
  TaskThreads threads(1000, milliseconds(100));
  Block(&threads, 50);
  EXPECT_TRUE(Becomes([&] { return running_ == 50; }));
  letting_go_.set_value();
  std::atomic<int> done{0};
  EXPECT_TRUE(Becomes([&] {
    for (int i = 0; i < 5; ++i) {
      threads.Schedule([&done] { ++done; });
      std::this_thread::sleep_for(milliseconds(1));
    }
    return threads.num_threads() <= 10;
  })) << threads.num_threads();
}

TEST_F(TaskThreadsTest, TasksBeyondTheLimitWaitTheirTurn) {
  TaskThreads threads(4);
  Block(&threads, 20);
  EXPECT_TRUE(Becomes([&] { return running_ == 4; }));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(running_, 4);
  EXPECT_EQ(threads.num_threads(), 4u);
  letting_go_.set_value();
  EXPECT_TRUE(Becomes([&] { return ended_ == 20; }));
}

TEST_F(TaskThreadsTest, StopWaitsForRunningTasksAndDropsOthers) {
  TaskThreads threads(2);
  Block(&threads, 6);
  EXPECT_TRUE(Becomes([&] { return running_ == 2; }));
  std::thread lets_go([&] {
    std::this_thread::sleep_for(milliseconds(50));
    letting_go_.set_value();
  });
  threads.Stop();
  EXPECT_EQ(running_, 0);
  EXPECT_EQ(ended_, 2);
  threads.Schedule([this] { ++ended_; });
  lets_go.join();
  EXPECT_EQ(ended_, 2);
}

// Threads come and go while others schedule; each task runs once.
TEST_F(TaskThreadsTest, EachTaskRunsOnceWhileThreadsEnd) {
  std::atomic<int> done{0};
  {
    TaskThreads threads(8, milliseconds(1));
    std::vector<std::thread> callers;
    for (int c = 0; c < 4; ++c)
      callers.emplace_back([&threads, &done, c] {
        for (int i = 0; i < 500; ++i) {
          threads.Schedule([&done] { ++done; });
          if (i % 50 == c) std::this_thread::sleep_for(milliseconds(3));
        }
      });
    for (std::thread& t : callers) t.join();
  }
  EXPECT_EQ(done, 2000);
}

}  // namespace
}  // namespace sluice
