// ReaderTeam: a group of threads that take turns reading from the network.
#ifndef SLUICE_CLUSTER_TRANSPORT_READER_TEAM_H_
#define SLUICE_CLUSTER_TRANSPORT_READER_TEAM_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cluster/common/task_threads.h"
#include "exec/core/drive_queue.h"

namespace sluice {

// The thread that reads a message also processes it, without a hand-over. If
// that takes long, another thread takes over reading, and each execution that
// the message made ready and that no thread drives yet gets its own thread. So
// a kernel that runs for an hour does not delay steps whose tokens have arrived
// by then. (Work that the kernel itself makes ready, in other parts of its own
// step, waits for it.) Idle threads sleep and are reused; while any turn is
// running, a watcher checks for long ones.
class ReaderTeam {
 public:
  // One thread's turn as the reader. Used by that thread; the watcher may end
  // it.
  class Turn {
   public:
    // Delivers a message and then drives the executions it made ready. False if
    // another thread has taken over reading; this turn is then over.
    template <typename Deliver>
    bool Do(Deliver deliver) {
      BeginWork();
      {
        const HeldDriveScope drives_when_all_is_delivered(&drive_queue_);
        deliver();
        if (since_.load() == kRelieved)
          team_->Spread(&drive_queue_, /*keeps_one=*/true);
      }
      return EndWork();
    }

   private:
    friend class ReaderTeam;
    static constexpr int64_t kReads = 0, kRelieved = -1;
    explicit Turn(ReaderTeam* team) : team_(team) {}
    void BeginWork();
    bool EndWork();

    ReaderTeam* const team_;
    DriveQueue drive_queue_{DriveQueue::kAnyThread};
    int64_t began_ = kReads;
    std::atomic<int64_t> since_{kReads};  // Or the work's start time.
  };

  ReaderTeam() = default;
  ~ReaderTeam() { Stop(); }
  ReaderTeam(const ReaderTeam&) = delete;
  ReaderTeam& operator=(const ReaderTeam&) = delete;

  // `read` returns when its turn or all reading is over. Called once.
  void Start(std::function<void(Turn&)> read);
  // Waits for all threads and their work. REQUIRES: the reader has been told to
  // return.
  void Stop();

 private:
  void Loop();
  // Gives each waiting execution a thread, except one if `keeps_one`, which the
  // calling thread drives itself without being watched.
  void Spread(DriveQueue* queue, bool keeps_one);
  void Watch();
  void WakeWatcher();

  std::function<void(Turn&)> read_;  // Constant after Start.
  std::mutex mu_;
  std::condition_variable vacancy_, watch_;
  bool stop_ = false;                 // GUARDED_BY(mu_)
  bool vacant_ = true;                // GUARDED_BY(mu_): no thread reads.
  size_t idle_ = 0;                   // GUARDED_BY(mu_)
  std::shared_ptr<Turn> turn_;        // GUARDED_BY(mu_): the latest.
  std::vector<std::thread> threads_;  // GUARDED_BY(mu_)
  std::thread watcher_;
  std::atomic<bool> watcher_sleeps_{false};
  std::optional<TaskThreads> others_;  // Set while running.
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_READER_TEAM_H_
