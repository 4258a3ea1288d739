// Threads that run expensive kernels in parallel with the driver of a step.
#ifndef SLUICE_BASE_THREAD_POOL_H_
#define SLUICE_BASE_THREAD_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {

// A fixed number of threads and one queue. Owned by a session; the destructor
// runs the queued functions and joins. Idle threads sleep. Thread-safe.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }
  void Schedule(std::function<void()> fn);

 private:
  void Loop();

  std::mutex mu_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;  // GUARDED_BY(mu_)
  bool stop_ = false;                        // GUARDED_BY(mu_)
  std::vector<std::thread> threads_;
};

}  // namespace sluice

#endif  // SLUICE_BASE_THREAD_POOL_H_
