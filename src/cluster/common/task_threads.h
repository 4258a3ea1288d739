// TaskThreads: a thread pool that grows to one thread per concurrent task. For
// work that may block (steps, calls to other tasks), where a fixed number of
// threads could deadlock.
#ifndef SLUICE_CLUSTER_COMMON_TASK_THREADS_H_
#define SLUICE_CLUSTER_COMMON_TASK_THREADS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {

// Idle threads sleep and are reused. The destructor waits for all tasks.
// Thread-safe.
class TaskThreads {
 public:
  TaskThreads() = default;
  ~TaskThreads() { Join(/*drop=*/false); }
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;

  // Drops the tasks that have not begun and waits for the running ones. Not
  // called from a task.
  void Stop() { Join(/*drop=*/true); }

  // Ignored after Stop. REQUIRES: the destructor has not begun.
  void Schedule(std::function<void()> task) {
    std::lock_guard<std::mutex> lock(mu_);
    if (stop_) return;
    queue_.push_back(std::move(task));
    if (queue_.size() > idle_)
      threads_.emplace_back([this] { Loop(); });
    else
      wake_.notify_one();
  }

 private:
  void Join(bool drop) {
    std::deque<std::function<void()>> dropped;
    std::vector<std::thread> threads;
    {
      std::lock_guard<std::mutex> lock(mu_);
      stop_ = true;
      if (drop) dropped.swap(queue_);
      threads.swap(threads_);
    }
    wake_.notify_all();
    for (std::thread& t : threads) t.join();
  }
  void Loop() {
    std::unique_lock<std::mutex> lock(mu_);
    for (;;) {
      if (queue_.empty()) {
        if (stop_) return;
        ++idle_;
        wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        --idle_;
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

  std::mutex mu_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;  // GUARDED_BY(mu_)
  size_t idle_ = 0;                          // GUARDED_BY(mu_)
  bool stop_ = false;                        // GUARDED_BY(mu_)
  std::vector<std::thread> threads_;         // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_COMMON_TASK_THREADS_H_
