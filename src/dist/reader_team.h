// ReaderTeam: threads of which one at a time reads from the network.
#ifndef SLUICE_DIST_READER_TEAM_H_
#define SLUICE_DIST_READER_TEAM_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "dist/task_threads.h"
#include "exec/agenda.h"

namespace sluice {

// Who reads a message also does what it asks for, with no hand-over. When that
// takes long, another thread reads on, and the executions that the message made
// ready and nobody drives yet get a thread each: a kernel that computes for an
// hour delays no step whose tokens have come by then. (What it makes ready
// itself, other parts of its own step, waits for it.) Threads stay, asleep, for
// the next time; a watcher looks for turns that take long while there are any.
class ReaderTeam {
 public:
  // One thread's turn as the reader. Its own; the watcher may end it.
  class Turn {
   public:
    // Delivers a message and then drives what that made ready. False if another
    // thread reads by now: then this turn is over.
    template <typename Deliver>
    bool Do(Deliver deliver) {
      BeginWork();
      {
        const HeldAgenda drives_when_all_is_delivered(&agenda_);
        deliver();
        if (since_.load() == kRelieved)
          team_->Spread(&agenda_, /*keeps_one=*/true);
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
    Agenda agenda_{Agenda::kAnyThread};
    int64_t began_ = kReads;
    std::atomic<int64_t> since_{kReads};  // Or when the work began.
  };

  ReaderTeam() = default;
  ~ReaderTeam() { Stop(); }
  ReaderTeam(const ReaderTeam&) = delete;
  ReaderTeam& operator=(const ReaderTeam&) = delete;

  // `read` returns when its turn or all reading is over. Once.
  void Start(std::function<void(Turn&)> read);
  // Waits for all threads, what they work on included. Who reads has been told
  // that it is over.
  void Stop();

 private:
  void Loop();
  // Those that wait get a thread each, but one if `keeps_one`, for whoever
  // drives them without being watched any more.
  void Spread(Agenda* agenda, bool keeps_one);
  void Watch();
  void WakeWatcher();

  std::function<void(Turn&)> read_;  // Constant after Start.
  std::mutex mu_;
  std::condition_variable vacancy_, watch_;
  bool stop_ = false;                 // GUARDED_BY(mu_)
  bool vacant_ = true;                // GUARDED_BY(mu_): nobody reads.
  size_t idle_ = 0;                   // GUARDED_BY(mu_)
  std::shared_ptr<Turn> turn_;        // GUARDED_BY(mu_): the latest.
  std::vector<std::thread> threads_;  // GUARDED_BY(mu_)
  std::thread watcher_;
  std::atomic<bool> watcher_dozes_{false};
  std::optional<TaskThreads> others_;  // While it runs.
};

}  // namespace sluice

#endif  // SLUICE_DIST_READER_TEAM_H_
