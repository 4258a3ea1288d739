#include "cluster/transport/reader_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>

#include "cluster/testing/meeting_steps_test_util.h"

namespace sluice {
namespace {

// Stands in for a network: a queue of messages, each a piece of work.
class Feed {
 public:
  void Add(std::function<void()> work) {
    std::lock_guard<std::mutex> lock(mu_);
    queue_.push_back(std::move(work));
    came_.notify_one();
  }
  void End() {
    std::lock_guard<std::mutex> lock(mu_);
    ended_ = true;
    came_.notify_all();
  }
  void Read(ReaderTeam::Turn& turn) {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock<std::mutex> lock(mu_);
        EXPECT_EQ(++reading_, 1);
        came_.wait(lock, [this] { return ended_ || !queue_.empty(); });
        --reading_;
        if (queue_.empty()) return;
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      if (!turn.Do(work)) return;
    }
  }

 private:
  std::mutex mu_;
  std::condition_variable came_;
  std::deque<std::function<void()>> queue_;  // GUARDED_BY(mu_)
  bool ended_ = false;                       // GUARDED_BY(mu_)
  int reading_ = 0;                          // GUARDED_BY(mu_)
};

class Gate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = true;
    changed_.notify_all();
  }
  void Await() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool open_ = false;  // GUARDED_BY(mu_)
};

// Shared with the work that uses it.
using Shared = std::shared_ptr<Gate>;
Shared MakeGate() { return std::make_shared<Gate>(); }

TEST(ReaderTeamTest, LongWorkDoesNotStopReading) {
  Feed feed;
  ReaderTeam team;
  team.Start([&](ReaderTeam::Turn& turn) { feed.Read(turn); });
  const Shared gate = MakeGate(), last = MakeGate();
  std::vector<Shared> begun;
  for (int i = 0; i < 5; ++i) {
    begun.push_back(MakeGate());
    feed.Add([gate, mine = begun.back()] {
      mine->Open();
      gate->Await();
    });
  }
  // Each begins although none before it has ended.
  for (const Shared& g : begun) g->Await();
  gate->Open();
  feed.Add([last] { last->Open(); });
  last->Await();
  feed.End();
  team.Stop();
}

TEST(ReaderTeamTest, StopWaitsForReadMessages) {
  Feed feed;
  std::atomic<int> done{0};
  {
    ReaderTeam team;
    team.Start([&](ReaderTeam::Turn& turn) { feed.Read(turn); });
    for (int i = 0; i < 1000; ++i) feed.Add([&done] { ++done; });
    feed.End();
  }
  EXPECT_EQ(done.load(), 1000);
}

TEST(ReaderTeamTest, WokenWatcherDetectsLongWork) {
  Feed feed;
  ReaderTeam team;
  team.Start([&](ReaderTeam::Turn& turn) { feed.Read(turn); });
  for (int round = 0; round < 3; ++round) {
    // Usually long enough for it to fall asleep.
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    const Shared gate = MakeGate(), second = MakeGate();
    feed.Add([gate] { gate->Await(); });
    feed.Add([second] { second->Open(); });
    second->Await();
    gate->Open();
  }
  feed.End();
  team.Stop();
}

// Even if the delivery of the message takes long.
TEST(ReaderTeamTest, BlockingKernelDelaysNoStepOfSameMessage) {
  for (const int delay_ms : {0, 20}) {
    SCOPED_TRACE(delay_ms);
    constexpr size_t kSteps = 4;
    MeetingSteps steps(kSteps);
    Feed feed;
    ReaderTeam team;
    team.Start([&](ReaderTeam::Turn& turn) { feed.Read(turn); });
    feed.Add([&] {
      for (size_t i = 0; i < kSteps; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
        steps.Deliver(i);
      }
    });
    EXPECT_TRUE(steps.Await());
    feed.End();
    team.Stop();
  }
}

// However many kernels block, the next message is read soon.
TEST(ReaderTeamTest, BlockingKernelsDoNotDelayReadingInSequence) {
  constexpr size_t kBlocked = 100;
  MeetingSteps steps(kBlocked + 1);
  Feed feed;
  ReaderTeam team;
  team.Start([&](ReaderTeam::Turn& turn) { feed.Read(turn); });
  const Shared read = MakeGate();
  const auto begin = std::chrono::steady_clock::now();
  feed.Add([&] {
    for (size_t i = 0; i < kBlocked; ++i) steps.Deliver(i);
  });
  feed.Add([&] {
    read->Open();
    steps.Deliver(kBlocked);
  });
  read->Await();
  // (A reader is relieved after 5 ms.)
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            kBlocked * std::chrono::milliseconds(5));
  EXPECT_TRUE(steps.Await());
  feed.End();
  team.Stop();
}

}  // namespace
}  // namespace sluice
