// VirtualNetwork: a simulated network within one process, in virtual time, with
// configurable faults. The seed determines the fate of the n-th message that
// one task sends to another.
#ifndef SLUICE_CLUSTER_TESTING_VIRTUAL_NETWORK_H_
#define SLUICE_CLUSTER_TESTING_VIRTUAL_NETWORK_H_

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

#include "cluster/transport/transport.h"
#include "cluster/transport/wire.h"

namespace sluice {

class VirtualTransport;

struct VirtualNetworkOptions {
  uint64_t seed = 1;
  // The latency of each frame, drawn uniformly from this range.
  int64_t min_delay_us = 50;
  int64_t max_delay_us = 500;
  // The probabilities that a frame is dropped (it is then resent every
  // `retry_us` until it arrives), duplicated, or truncated (which drops the
  // peer).
  double drop = 0;
  int64_t retry_us = 2000;
  double duplicate = 0;
  double truncate = 0;
  // Tokens between two control messages arrive in any order, and batches in
  // pieces.
  bool reorder = true;
};

// Events happen only in Step and its callers; handlers run there. Sending is
// thread-safe. Runs with one seed are identical if each task sends from one
// thread at a time, and between two Steps sends only in response to what has
// arrived. Otherwise thread races within a task decide which of its messages is
// the n-th, and for messages sent during a Step also their virtual time. Killed
// or paused peers are lost to the others after peer_timeout of virtual time.
// The transports do not outlive it.
class VirtualNetwork {
 public:
  explicit VirtualNetwork(VirtualNetworkOptions options);
  ~VirtualNetwork();

  // A task joins, or, after it was killed, rejoins as a new incarnation. Its
  // address is the task's name. (local_shortcut is ignored and off.)
  std::unique_ptr<Transport> Join(TransportOptions options);

  // Runs the next event. False if there is none.
  bool Step();
  // Steps until there are no events or `max_events` have run; returns how many
  // ran.
  int64_t Run(int64_t max_events = INT64_MAX);
  // Steps until virtual time `us`.
  void RunUntil(int64_t us);
  int64_t now_us() const;
  // Runs `fn` `delay_us` from now.
  void At(int64_t delay_us, std::function<void()> fn);
  // Waits until there is an event, for at most `timeout` of real time: for
  // kernels that run on their own threads.
  bool AwaitEvent(std::chrono::milliseconds timeout);

  // Simulates the death of the task's process: it sends and receives nothing
  // more.
  void Kill(const std::string& task);
  // Simulate SIGSTOP and SIGCONT.
  void Pause(const std::string& task);
  void Resume(const std::string& task);
  // Delays all frames between the two, in both directions, until Heal, as they
  // are then resent; after peer_timeout they lose each other.
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
    uint64_t from = 0, to = 0;  // Incarnations; `to` 0: any.
    std::string from_task, to_task;
    uint64_t connection = 0;
    uint64_t expected = 0;
    uint64_t answers = 0;  // The receiver's, if it connected.
    std::string bytes;
    std::vector<std::string> bodies;
  };
  struct Event {
    std::shared_ptr<Packet> packet;  // Or
    std::function<void()> fn;
  };
  struct Node {
    VirtualTransport* transport = nullptr;  // Null after leaving or Kill.
    uint64_t incarnation = 0;
    bool paused = false;
    int64_t pauses = 0;
    std::vector<std::shared_ptr<Packet>> held;  // While paused.
  };
  // The order of messages between two incarnations.
  struct Pair {
    int64_t barrier_us = 0;  // New messages arrive after it.
    int64_t last_us = 0;     // The latest arrival.
  };

  // `barrier`: the packet is not reordered with any other.
  void Send(std::shared_ptr<Packet> packet, bool barrier);
  void Schedule(int64_t at_us, Event event);
  void Deliver(const std::shared_ptr<Packet>& packet);
  void Leave(VirtualTransport* transport);
  // Loses the others' links to the task's incarnation after their timeout, if
  // `still` returns true then.
  void LoseLater(const std::string& task, std::function<bool()> still);
  // The random generator for the messages from one task to another. REQUIRES:
  // mu_ is held.
  std::mt19937_64& Random(const std::string& from, const std::string& to);

  const VirtualNetworkOptions options_;
  // Held while an event runs. Lock order: before mu_.
  std::recursive_mutex stepping_;
  mutable std::mutex mu_;  // Not held during delivery.
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
  std::map<std::pair<std::string, std::string>,
           std::vector<std::shared_ptr<Packet>>>
      cut_off_;    // GUARDED_BY(mu_): by sender and receiver.
  Counts counts_;  // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TESTING_VIRTUAL_NETWORK_H_
