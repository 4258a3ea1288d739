// Inbox: what came over one connection, until it may be delivered.
#ifndef SLUICE_DIST_INBOX_H_
#define SLUICE_DIST_INBOX_H_

#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"
#include "dist/wire.h"

namespace sluice {

// Holds back what would break the order that Transport promises, and sees to it
// that one thread at a time delivers while others go on reading. Owned by a
// connection; thread-safe, but that one thread at a time adds frames and fills
// bodies.
class Inbox {
 public:
  // Adds what a frame holds (its hello and heartbeats are the caller's matter).
  // Frames may come in any order, and again; each counts once. Where bodies are
  // to go is appended to `*bodies`, valid until BodyDone. InvalidArgument if
  // the numbers are out of reason.
  Status Add(IncomingFrame frame, std::vector<IncomingBody*>* bodies);
  // `body` is full.
  Status BodyDone(IncomingBody* body);
  // DataLoss if frames have waited for one before them for so long.
  Status CheckGap(std::chrono::nanoseconds most);
  // For peers in this process.
  void AddTokens(uint64_t step, uint32_t partition,
                 std::span<TokenMessage> batch);
  void AddControl(uint8_t kind, std::string_view bytes);

  // Delivers what may be delivered, unless another thread is about it, which
  // then will. Calls `handler` without a lock. Returns how many tokens it
  // delivered. After `most` batches and controls it stops; `*more` says whether
  // there are others.
  int64_t Drain(TransportHandler* handler, PeerId from, bool* more = nullptr,
                int64_t most = INT64_MAX);
  // True, and the caller may deliver by itself until EndDirect, if there is
  // nothing to deliver and nobody delivers.
  bool BeginDirect();
  // True if something came meanwhile, which is for the caller to Drain.
  bool EndDirect();

  // Nothing is delivered any more.
  void Close();
  // Waits until nobody delivers. Returns at once on a thread that does so.
  void AwaitIdle();

 private:
  struct Item {
    bool control = false;
    uint8_t kind = 0;
    std::string bytes;
    uint64_t step = 0;
    uint32_t partition = 0;
    std::vector<TokenMessage> batch;
    // A token whose value has not come.
    bool missing = false;
    IncomingBody body;
  };
  // Removes what may be delivered next.
  bool Next(Item* out);

  std::mutex mu_;
  std::condition_variable idle_;
  std::list<Item> items_;  // GUARDED_BY(mu_)
  // Frames that came before their turn. GUARDED_BY(mu_)
  std::map<uint64_t, std::list<Item>> early_;
  std::chrono::steady_clock::time_point gap_since_;  // GUARDED_BY(mu_)
  uint64_t next_frame_ = 0;                          // GUARDED_BY(mu_)
  bool draining_ = false;                            // GUARDED_BY(mu_)
  bool closed_ = false;                              // GUARDED_BY(mu_)
  std::thread::id drainer_;                          // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_DIST_INBOX_H_
