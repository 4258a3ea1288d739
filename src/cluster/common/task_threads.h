// TaskThreads: a thread pool that grows with its concurrent tasks, and shrinks
// when they have ended. For work that may block (steps, calls to other tasks),
// where a fixed number of threads could deadlock.
#ifndef SLUICE_CLUSTER_COMMON_TASK_THREADS_H_
#define SLUICE_CLUSTER_COMMON_TASK_THREADS_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {

// One thread per concurrent task, up to a limit; beyond it tasks wait, in
// order. Idle threads sleep and are reused; after a while without work they
// end, except for a few. The destructor waits for all tasks. Thread-safe.
class TaskThreads {
 public:
  // The limit is for tasks that do not wait for other tasks of this pool, nor
  // for those of a pool whose tasks wait for these. An idle thread ends after
  // `linger`.
  explicit TaskThreads(
      size_t max_threads = std::numeric_limits<size_t>::max(),
      std::chrono::milliseconds linger = std::chrono::milliseconds(3000))
      : max_threads_(max_threads), linger_(linger) {}
  ~TaskThreads() { Join(/*drop=*/false); }
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;

  // Drops the tasks that have not begun and waits for the running ones. Not
  // called from a task.
  void Stop() { Join(/*drop=*/true); }

  // Ignored after Stop. REQUIRES: the destructor has not begun.
  void Schedule(std::function<void()> task) {
    std::list<std::thread> ended;  // Joined without the lock.
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (stop_) return;
      queue_.push_back(std::move(task));
      if (!idle_.empty()) {
        // (The latest, so that those at the bottom may end.)
        Idle* const wakes = idle_.back();
        idle_.pop_back();
        wakes->woken = true;
        wakes->wake.notify_one();
      } else if (threads_.size() < max_threads_) {
        threads_.emplace_back();
        const auto self = std::prev(threads_.end());
        *self = std::thread([this, self] { Loop(self); });
      }
      ended.swap(ended_);
    }
    for (std::thread& t : ended) t.join();
  }

  // Running or idle ones.
  size_t num_threads() {
    std::lock_guard<std::mutex> lock(mu_);
    return threads_.size();
  }

 private:
  using Self = std::list<std::thread>::iterator;
  // A thread without a task. Used under mu_.
  struct Idle {
    std::condition_variable wake;
    bool woken = false;
  };
  // As many idle threads stay.
  static constexpr size_t kKept = 2;

  void Join(bool drop) {
    std::deque<std::function<void()>> dropped;
    std::list<std::thread> threads;
    {
      std::lock_guard<std::mutex> lock(mu_);
      stop_ = true;
      if (drop) dropped.swap(queue_);
      threads.swap(threads_);
      threads.splice(threads.end(), ended_);
      for (Idle* i : idle_) {
        i->woken = true;
        i->wake.notify_one();
      }
      idle_.clear();
    }
    for (std::thread& t : threads) t.join();
  }
  void Loop(Self self) {
    Idle idle;
    std::unique_lock<std::mutex> lock(mu_);
    for (;;) {
      if (queue_.empty()) {
        if (stop_) return;
        idle_.push_back(&idle);
        idle.woken = false;
        const auto woken = [&idle] { return idle.woken; };
        if (threads_.size() <= kKept)
          idle.wake.wait(lock, woken);
        else if (!idle.wake.wait_for(lock, linger_, woken)) {
          std::erase(idle_, &idle);
          if (threads_.size() <= kKept) continue;
          // (Whoever schedules or stops next joins it.)
          ended_.splice(ended_.end(), threads_, self);
          return;
        }
        continue;
      }
      std::function<void()> task = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
    }
  }

  const size_t max_threads_;
  const std::chrono::milliseconds linger_;
  std::mutex mu_;
  std::deque<std::function<void()>> queue_;  // GUARDED_BY(mu_)
  std::vector<Idle*> idle_;  // GUARDED_BY(mu_); the latest is the last.
  bool stop_ = false;        // GUARDED_BY(mu_)
  // Each thread moves its own entry to ended_ when it ends before Join.
  std::list<std::thread> threads_;  // GUARDED_BY(mu_)
  std::list<std::thread> ended_;    // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_COMMON_TASK_THREADS_H_
