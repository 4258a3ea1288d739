// ReaderTeam: threads of which one at a time reads from the network.
#ifndef SLUICE_DIST_READER_TEAM_H_
#define SLUICE_DIST_READER_TEAM_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {

// Who reads a message also does what it asks for, with no hand-over. When that
// takes long, another thread takes the reading over, so that a step which
// computes for an hour delays no other message. Threads stay, asleep, for the
// next time; a watcher looks for turns that take long while there are any.
class ReaderTeam {
 public:
  // One thread's turn as the reader. Its own; the watcher may end it.
  class Turn {
   public:
    // What follows may take long.
    void BeginWork();
    // False if another thread reads by now: then this turn is over.
    bool EndWork();

   private:
    friend class ReaderTeam;
    static constexpr int64_t kReads = 0, kRelieved = -1;
    explicit Turn(ReaderTeam* team) : team_(team) {}
    ReaderTeam* const team_;
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
};

}  // namespace sluice

#endif  // SLUICE_DIST_READER_TEAM_H_
