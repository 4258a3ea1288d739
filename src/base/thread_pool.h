// Threads that run expensive kernels in parallel with the driver of a step.
#ifndef SLUICE_BASE_THREAD_POOL_H_
#define SLUICE_BASE_THREAD_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {

// A fixed number of threads and one queue. Owned by a session; the destructor
// runs the queued functions and joins. (If one of them calls it, that thread
// runs what is left when its function has returned.) Idle threads sleep.
// Thread-safe.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }
  void Schedule(std::function<void()> fn);

 private:
  // What the threads use; a thread that destroys the pool outlives it.
  struct Queue {
    std::mutex mu;
    std::condition_variable wake;
    std::deque<std::function<void()>> functions;  // GUARDED_BY(mu)
    bool stop = false;                            // GUARDED_BY(mu)
    void Run();
  };

  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::vector<std::thread> threads_;
};

}  // namespace sluice

#endif  // SLUICE_BASE_THREAD_POOL_H_
