#include "cluster/transport/reader_team.h"

#include <chrono>
#include <utility>

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

// If work takes longer than this, another thread takes over reading.
constexpr auto kPatience = std::chrono::milliseconds(5);
// After this many checks of a reader that only reads, the watcher sleeps until
// there is work again.
constexpr int kCalm = 20;

}  // namespace

void ReaderTeam::Turn::BeginWork() {
  began_ = Clock::now().time_since_epoch().count();
  since_.store(began_);
  if (team_->watcher_sleeps_.load()) team_->WakeWatcher();
}

bool ReaderTeam::Turn::EndWork() {
  int64_t expected = began_;
  return since_.compare_exchange_strong(expected, kReads);
}

void ReaderTeam::Start(std::function<void(Turn&)> read) {
  read_ = std::move(read);
  others_.emplace();
  std::lock_guard<std::mutex> lock(mu_);
  threads_.emplace_back([this] { Loop(); });
  watcher_ = std::thread([this] { Watch(); });
}

void ReaderTeam::Stop() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
    vacancy_.notify_all();
    watch_.notify_all();
  }
  // (The watcher adds threads, so join it first.)
  if (watcher_.joinable()) watcher_.join();
  for (std::thread& t : threads_) t.join();
  threads_.clear();
  others_.reset();
}

void ReaderTeam::Loop() {
  std::unique_lock<std::mutex> lock(mu_);
  for (;;) {
    ++idle_;
    vacancy_.wait(lock, [this] { return stop_ || vacant_; });
    --idle_;
    // (Even when stopping, a thread must read until reading is over.)
    if (!vacant_) return;
    vacant_ = false;
    const std::shared_ptr<Turn> turn(new Turn(this));
    const std::shared_ptr<Turn> before = std::exchange(turn_, turn);
    lock.unlock();
    if (before != nullptr) Spread(&before->drive_queue_, /*keeps_one=*/false);
    read_(*turn);
    lock.lock();
    if (turn->since_.load() != Turn::kRelieved) return;  // Nothing to read.
  }
}

void ReaderTeam::Spread(DriveQueue* queue, bool keeps_one) {
  Execution* next = queue->Next();
  while (next != nullptr) {
    Execution* const e = std::exchange(next, queue->Next());
    if (next == nullptr && keeps_one) return queue->Add(e);
    others_->Schedule([e] {
      DriveQueue its_own(DriveQueue::kOneThread);
      its_own.Add(e);
      const HeldDriveScope drives_it(&its_own);
    });
  }
}

void ReaderTeam::WakeWatcher() {
  std::lock_guard<std::mutex> lock(mu_);
  watcher_sleeps_.store(false);
  watch_.notify_all();
}

void ReaderTeam::Watch() {
  std::unique_lock<std::mutex> lock(mu_);
  for (int calm = 0; !stop_;) {
    watch_.wait_for(lock, kPatience);
    if (turn_ == nullptr || vacant_) continue;
    int64_t since = turn_->since_.load();
    if (since == Turn::kReads || since == Turn::kRelieved) {
      if (++calm < kCalm) continue;
      calm = 0;
      watcher_sleeps_.store(true);
      // (The reader checks whether we sleep after it publishes that it works.)
      if (turn_->since_.load() == Turn::kReads)
        watch_.wait(lock, [this] { return stop_ || !watcher_sleeps_.load(); });
      watcher_sleeps_.store(false);
      continue;
    }
    calm = 0;
    const Clock::time_point began{Clock::duration(since)};
    if (Clock::now() - began < kPatience ||
        !turn_->since_.compare_exchange_strong(since, Turn::kRelieved))
      continue;
    vacant_ = true;
    if (idle_ > 0)
      vacancy_.notify_one();
    else
      threads_.emplace_back([this] { Loop(); });
  }
}

}  // namespace sluice
