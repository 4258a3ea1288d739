#include "base/thread_pool.h"

#include <new>
#include <system_error>
#include <utility>

#include "base/failpoint.h"

namespace sluice {

// (Where the system refuses a thread the pool has those that it did start. The
// caller gets the exception if there are none: nothing would run then.)
ThreadPool::ThreadPool(int threads) {
  threads_.reserve(threads > 0 ? static_cast<size_t>(threads) : 0);
  try {
    for (int i = 0; i < threads; ++i) {
      if (!SLUICE_FAILPOINT("thread_pool.start").error.ok())
        throw std::system_error(
            std::make_error_code(std::errc::resource_unavailable_try_again));
      threads_.emplace_back([queue = queue_] { queue->Run(); });
    }
  } catch (const std::system_error&) {
    if (threads_.empty()) throw;
  } catch (const std::bad_alloc&) {  // (Of the thread's own state.)
    if (threads_.empty()) throw;
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(queue_->mu);
    queue_->stop = true;
  }
  queue_->wake.notify_all();
  for (std::thread& t : threads_)
    t.get_id() == std::this_thread::get_id() ? t.detach() : t.join();
}

void ThreadPool::Schedule(std::function<void()> fn) {
  {
    std::lock_guard<std::mutex> lock(queue_->mu);
    queue_->functions.push_back(std::move(fn));
  }
  queue_->wake.notify_one();
}

void ThreadPool::Queue::Run() {
  std::unique_lock<std::mutex> lock(mu);
  for (;;) {
    wake.wait(lock, [this] { return stop || !functions.empty(); });
    if (functions.empty()) return;
    std::function<void()> fn = std::move(functions.front());
    functions.pop_front();
    lock.unlock();
    fn();
    fn = nullptr;  // Destroys its captures outside the lock.
    lock.lock();
  }
}

}  // namespace sluice
