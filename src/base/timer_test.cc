#include "base/timer.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <vector>

#include "base/sanitizers.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

TEST(TimerTest, CallsInTheOrderOfTime) {
  Timer& timer = Timer::OfProcess();
  std::vector<int> order;  // Of the timer's thread, until `done`.
  std::promise<void> done;
  const auto now = Timer::Clock::now();
  (void)timer.At(now + milliseconds(40), [&] {
    order.push_back(3);
    done.set_value();
  });
  (void)timer.At(now + milliseconds(20), [&] { order.push_back(2); });
  (void)timer.At(now - milliseconds(1), [&] { order.push_back(1); });
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_GE(Timer::Clock::now(), now + milliseconds(40));
}

TEST(TimerTest, CallsNothingThatWasForgotten) {
  Timer& timer = Timer::OfProcess();
  bool called = false;
  std::promise<void> done;
  const auto now = Timer::Clock::now();
  const Result<Timer::Alarm> alarm =
      timer.At(now + milliseconds(20), [&] { called = true; });
  ASSERT_TRUE(alarm.ok());
  (void)timer.At(now + milliseconds(40), [&] { done.set_value(); });
  timer.Forget(*alarm);
  timer.Forget(*alarm);  // Has no effect.
  done.get_future().wait();
  EXPECT_FALSE(called);
}

TEST(TimerTest, MaySetOneFromTheTimersThread) {
  Timer& timer = Timer::OfProcess();
  std::promise<void> done;
  (void)timer.At(Timer::Clock::now(), [&] {
    (void)timer.At(Timer::Clock::now(), [&] { done.set_value(); });
  });
  done.get_future().wait();
}

TEST(TimerTest, WorksInAChildProcess) {
  if (kThreadSanitized) GTEST_SKIP() << "it forbids threads in a child";
  Timer& timer = Timer::OfProcess();
  std::promise<void> started;
  (void)timer.At(Timer::Clock::now(), [&] { started.set_value(); });
  started.get_future().wait();
  const Result<Timer::Alarm> parents =
      timer.At(Timer::Clock::now() + milliseconds(30), [] {});
  const pid_t child = fork();
  if (child == 0) {
    std::promise<void> done;
    (void)timer.At(Timer::Clock::now() + milliseconds(10),
                   [&] { done.set_value(); });
    done.get_future().wait();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  timer.Forget(*parents);
}

}  // namespace
}  // namespace sluice
