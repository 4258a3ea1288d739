#include "base/helper_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace sluice {
namespace {

TEST(HelperThreadsTest, RunsEachPartOnce) {
  for (int parts = 0; parts <= 5; ++parts)
    for (int turn = 0; turn < 200; ++turn) {
      std::vector<int> runs(5);  // (No two threads write one element.)
      RunParts(parts, [&](int part) { ++runs.at(static_cast<size_t>(part)); });
      for (int i = 0; i < 5; ++i)
        ASSERT_EQ(runs[static_cast<size_t>(i)], i < parts ? 1 : 0);
    }
}

TEST(HelperThreadsTest, PartsRunBesideEachOther) {
  std::mutex mu;
  std::condition_variable came;
  std::set<std::thread::id> threads;
  // Each part waits for the others.
  RunParts(3, [&](int) {
    std::unique_lock<std::mutex> lock(mu);
    threads.insert(std::this_thread::get_id());
    came.notify_all();
    came.wait(lock, [&] { return threads.size() == 3; });
  });
  EXPECT_EQ(threads.size(), 3u);
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 1u);
}

// All helpers are busy with one call: another one does not wait for them.
TEST(HelperThreadsTest, TheCallerRunsWhatNoHelperHasStarted) {
  constexpr int kMost = 8;  // More than any other test uses.
  std::mutex mu;
  std::condition_variable changed;
  int held = 0;
  bool release = false;
  std::thread holder([&] {
    RunParts(kMost, [&](int) {
      std::unique_lock<std::mutex> lock(mu);
      ++held;
      changed.notify_all();
      changed.wait(lock, [&] { return release; });
    });
  });
  {
    std::unique_lock<std::mutex> lock(mu);
    changed.wait(lock, [&] { return held == kMost; });
  }
  std::set<std::thread::id> threads;
  RunParts(2, [&](int) {
    const std::lock_guard<std::mutex> lock(mu);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads, std::set<std::thread::id>{std::this_thread::get_id()});
  {
    const std::lock_guard<std::mutex> lock(mu);
    release = true;
  }
  changed.notify_all();
  holder.join();
}

TEST(HelperThreadsTest, ManyThreadsCallAtOnce) {
  std::atomic<int> sum{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      for (int turn = 0; turn < 300; ++turn)
        RunParts(1 + turn % 4, [&](int part) { sum += part + 1; });
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(sum.load(), 4 * 75 * (1 + 3 + 6 + 10));
}

// The owner does something else until a helper is done.
TEST(HelperThreadsTest, PartsRunWithoutTheirOwner) {
  std::mutex mu;
  std::condition_variable changed;
  bool runs = false, release = false;
  PartsInFlight parts;
  EXPECT_TRUE(parts.empty());
  parts.Start(1, 1, [&](int part) {
    std::unique_lock<std::mutex> lock(mu);
    runs = part == 0;
    changed.notify_all();
    changed.wait(lock, [&] { return release; });
  });
  {
    std::unique_lock<std::mutex> lock(mu);
    changed.wait(lock, [&] { return runs; });
    EXPECT_FALSE(parts.empty());
    release = true;
  }
  changed.notify_all();
  EXPECT_EQ(parts.Next(), 0);
  EXPECT_TRUE(parts.empty());
}

TEST(HelperThreadsTest, NextReturnsEachPartOnce) {
  PartsInFlight in_flight;  // Used again each time.
  for (int turn = 0; turn < 300; ++turn) {
    const int parts = turn % 6;
    std::vector<int> runs(6);
    in_flight.Start(parts, 2,
                    [&](int part) { ++runs.at(static_cast<size_t>(part)); });
    std::set<int> returned;
    while (!in_flight.empty()) {
      const int part = in_flight.Next();
      EXPECT_EQ(runs.at(static_cast<size_t>(part)), 1);
      EXPECT_TRUE(returned.insert(part).second);
    }
    ASSERT_EQ(returned.size(), static_cast<size_t>(parts));
  }
}

// Others of the process may have started more helpers than this call may use.
TEST(HelperThreadsTest, NoMoreHelpersThanAllowedRunParts) {
  RunParts(6, [](int) {});
  for (int turn = 0; turn < 100; ++turn) {
    std::atomic<int> running{0}, most{0};
    PartsInFlight in_flight;
    in_flight.Start(12, 2, [&](int) {
      const int now = ++running;
      for (int seen = most; now > seen;)
        if (most.compare_exchange_weak(seen, now)) break;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      --running;
    });
    while (!in_flight.empty()) in_flight.Next();
    EXPECT_LE(most, 2 + 1);  // And this thread.
  }
}

// After Drop no part runs, and the others may be gone.
TEST(HelperThreadsTest, DropWaitsForThePartsThatRun) {
  for (int turn = 0; turn < 300; ++turn) {
    std::atomic<int> running{0}, ran{0};
    {
      PartsInFlight in_flight;
      in_flight.Start(4, 2, [&](int) {
        ++running;
        std::this_thread::yield();
        ++ran;
        --running;
      });
      if (turn % 2 == 0) in_flight.Next();
      if (turn % 3 == 0) continue;  // The destructor drops them.
      in_flight.Drop();
      EXPECT_TRUE(in_flight.empty());
      EXPECT_EQ(running, 0);
      const int after = ran;
      std::this_thread::yield();
      EXPECT_EQ(ran, after);
    }
    EXPECT_EQ(running, 0);
  }
}

}  // namespace
}  // namespace sluice
