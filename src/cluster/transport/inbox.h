// Inbox: the messages received over one connection, until they may be
// delivered.
#ifndef SLUICE_CLUSTER_TRANSPORT_INBOX_H_
#define SLUICE_CLUSTER_TRANSPORT_INBOX_H_

#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"
#include "cluster/transport/wire.h"

namespace sluice {

// Holds messages back as needed for the order that Transport guarantees, and
// lets one thread at a time deliver while others keep reading. Owned by a
// connection. Thread-safe, except that only one thread at a time may add frames
// and fill bodies.
class Inbox {
 public:
  // Adds the contents of a frame (the caller handles hellos and heartbeats).
  // Frames may arrive in any order and repeatedly; each counts once. Appends
  // the bodies to be filled to `*bodies`, valid until BodyDone. InvalidArgument
  // if the frame's number is out of range.
  Status Add(IncomingFrame frame, std::vector<IncomingBody*>* bodies);
  // `body` is full.
  Status BodyDone(IncomingBody* body);
  // DataLoss if frames have waited longer than `max_wait` for a missing earlier
  // one.
  Status CheckGap(std::chrono::nanoseconds max_wait);
  // These two are for peers in this process.
  void AddTokens(uint64_t step, uint32_t partition,
                 std::span<TokenMessage> batch);
  void AddControl(uint8_t kind, std::string_view bytes);

  // Delivers what may be delivered. If another thread is already delivering,
  // leaves it to that thread. Calls `handler` without a lock. Returns the
  // number of tokens delivered. Stops after `max_items` batches and controls;
  // `*more` reports whether any are left.
  int64_t Drain(TransportHandler* handler, PeerId from, bool* more = nullptr,
                int64_t max_items = INT64_MAX);
  // If nothing is queued and no thread is delivering, returns true, and the
  // caller may deliver directly until EndDirect.
  bool BeginDirect();
  // True if something was queued meanwhile; the caller must then call Drain.
  bool EndDirect();

  // Stops all delivery.
  void Close();
  // Waits until no thread is delivering. Returns at once if called by the
  // delivering thread.
  void AwaitIdle();

 private:
  struct Item {
    bool control = false;
    uint8_t kind = 0;
    std::string bytes;
    uint64_t step = 0;
    uint32_t partition = 0;
    std::vector<TokenMessage> batch;
    // A token whose value has not arrived.
    bool missing = false;
    IncomingBody body;
  };
  // Removes the next item that may be delivered.
  bool Next(Item* out);

  std::mutex mu_;
  std::condition_variable idle_;
  std::list<Item> items_;  // GUARDED_BY(mu_)
  // Frames that arrived out of order. GUARDED_BY(mu_)
  std::map<uint64_t, std::list<Item>> early_;
  std::chrono::steady_clock::time_point gap_since_;  // GUARDED_BY(mu_)
  uint64_t next_frame_ = 0;                          // GUARDED_BY(mu_)
  bool draining_ = false;                            // GUARDED_BY(mu_)
  bool closed_ = false;                              // GUARDED_BY(mu_)
  std::thread::id drainer_;                          // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_INBOX_H_
