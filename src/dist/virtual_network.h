// VirtualNetwork: a network within one process and in virtual time, as bad as a
// test wants it. What becomes of the n-th that one task sends to another
// follows from the seed.
#ifndef SLUICE_DIST_VIRTUAL_NETWORK_H_
#define SLUICE_DIST_VIRTUAL_NETWORK_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "dist/transport.h"
#include "dist/wire.h"

namespace sluice {

class VirtualTransport;

struct VirtualNetworkOptions {
  uint64_t seed = 1;
  // Each frame takes so long, drawn evenly.
  int64_t min_delay_us = 50;
  int64_t max_delay_us = 500;
  // How likely a frame is lost (it is sent again, `retry_us` later, as often as
  // it takes), comes twice, or comes cut short (which drops the peer).
  double drop = 0;
  int64_t retry_us = 2000;
  double duplicate = 0;
  double truncate = 0;
  // Tokens between two controls come in any order, and batches in pieces.
  bool reorder = true;
};

// Nothing happens but in Step and what calls it; handlers run there. Sending is
// thread-safe. A run is the same at each time with one seed if each task sends
// from one thread at a time, and between two Steps what follows from what came:
// tasks whose threads race choose by themselves which of them is n-th, and what
// sends while Step goes on when virtual time it is. Peers that are
// killed or paused are lost to the others after their peer_timeout of virtual
// time. The transports do not outlive it.
class VirtualNetwork {
 public:
  explicit VirtualNetwork(VirtualNetworkOptions options);
  ~VirtualNetwork();

  // A task joins, or, with a new incarnation, joins again after it was killed.
  // Its address is its task's name. (local_shortcut is taken to be off.)
  std::unique_ptr<Transport> Join(TransportOptions options);

  // The next thing that happens. False if nothing will.
  bool Step();
  // Until nothing happens any more, or `most` things have; how many did.
  int64_t Run(int64_t most = INT64_MAX);
  // Until virtual time `us`.
  void RunUntil(int64_t us);
  int64_t now_us() const;
  // `fn` happens `delay_us` from now.
  void At(int64_t delay_us, std::function<void()> fn);
  // Waits until there is something to Step, at most so long in real time: for
  // kernels that run on threads of their own.
  bool AwaitEvent(std::chrono::milliseconds timeout);

  // The task's process dies: nothing comes from it or to it any more.
  void Kill(const std::string& task);
  // It stops (SIGSTOP) and goes on.
  void Pause(const std::string& task);
  void Resume(const std::string& task);
  // Frames between the two (both ways) vanish until Heal; they lose each other.
  void Cut(const std::string& a, const std::string& b);
  void Heal(const std::string& a, const std::string& b);

  struct Counts {
    int64_t frames = 0, dropped = 0, duplicated = 0, truncated = 0;
  };
  Counts counts() const;

 private:
  friend class VirtualLink;
  friend class VirtualTransport;

  struct Packet {
    enum Kind { kHello, kFrame, kClose } kind = kFrame;
    uint64_t from = 0, to = 0;  // Incarnations; `to` 0: who has the name.
    std::string from_task, to_task;
    uint64_t connection = 0;
    uint64_t expected = 0;
    uint64_t answers = 0;  // The receiver's connection, if it began.
    std::string bytes;
    std::vector<std::string> bodies;
  };
  struct Event {
    std::shared_ptr<Packet> packet;  // Or
    std::function<void()> fn;
  };
  struct Node {
    VirtualTransport* transport = nullptr;  // Null once it left or was killed.
    uint64_t incarnation = 0;
    bool paused = false;
    int64_t pauses = 0;
    std::vector<std::shared_ptr<Packet>> held;  // While paused.
  };
  // Order between two incarnations.
  struct Pair {
    int64_t barrier_us = 0;  // Nothing that is sent now comes before it.
    int64_t last_us = 0;     // Of what was sent.
  };

  // `barrier`: nothing overtakes it and it overtakes nothing.
  void Send(std::shared_ptr<Packet> packet, bool barrier);
  void Schedule(int64_t at_us, Event event);
  void Deliver(const std::shared_ptr<Packet>& packet);
  void Leave(VirtualTransport* transport);
  // Links of others to the task's incarnation are lost after their timeout, if
  // `still` says so then.
  void LoseLater(const std::string& task, std::function<bool()> still);
  // What chance there is in whatever the one sends to the other. REQUIRES: mu_
  // is held.
  std::mt19937_64& Random(const std::string& from, const std::string& to);

  const VirtualNetworkOptions options_;
  // Held while an event happens. Before mu_.
  std::recursive_mutex stepping_;
  mutable std::mutex mu_;  // Not held while anything is delivered.
  std::condition_variable arrived_;
  std::map<std::pair<std::string, std::string>, std::mt19937_64>
      random_;                                            // GUARDED_BY(mu_)
  int64_t now_us_ = 0;                                    // GUARDED_BY(mu_)
  std::map<std::pair<int64_t, uint64_t>, Event> events_;  // GUARDED_BY(mu_)
  uint64_t next_event_ = 0;                               // GUARDED_BY(mu_)
  uint64_t next_connection_ = 1;                          // GUARDED_BY(mu_)
  uint64_t next_incarnation_ = 1;                         // GUARDED_BY(mu_)
  std::map<std::string, Node> nodes_;  // GUARDED_BY(mu_); by task.
  std::map<std::pair<uint64_t, std::string>, Pair> pairs_;  // GUARDED_BY(mu_)
  std::set<std::pair<std::string, std::string>> cuts_;      // GUARDED_BY(mu_)
  Counts counts_;                                           // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_DIST_VIRTUAL_NETWORK_H_
