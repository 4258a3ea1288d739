// The common part of the transports: the table of peers, peers in this process,
// heartbeats, and reporting lost peers.
#ifndef SLUICE_CLUSTER_TRANSPORT_TRANSPORT_BASE_H_
#define SLUICE_CLUSTER_TRANSPORT_TRANSPORT_BASE_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cluster/common/runner.h"
#include "cluster/common/task_threads.h"
#include "cluster/transport/inbox.h"
#include "cluster/transport/transport.h"

namespace sluice {

class TransportBase;

struct TransportCounters {
  std::atomic<int64_t> frames_sent{0}, frames_received{0}, tokens_sent{0},
      tokens_received{0}, bytes_sent{0}, bytes_received{0}, lost{0},
      bytes_shared{0};
};

// One peer of one transport. Shared by the transport's table, until the peer is
// lost, and by the calls that are using it. Thread-safe.
class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(TransportBase* owner, PeerId id, std::string task);
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Starts connecting. Called once the link is in the table; messages sent
  // before are queued.
  virtual void Open() {}
  virtual Status SendTokens(uint64_t step, uint32_t partition,
                            std::span<TokenMessage> batch) = 0;
  virtual Status SendControl(uint8_t kind, std::string_view bytes) = 0;
  virtual void SendHeartbeat() {}
  // Flushes queued messages to the network; called before a live link is
  // closed.
  virtual void SendAll() {}
  // Messages wait to be sent.
  virtual bool HasUnsent() { return false; }
  // Closes the connection; a live peer notices at once. Called once, on any
  // thread; nothing is delivered afterwards.
  virtual void Close() = 0;
  // False for peers that live as long as the link.
  virtual bool MayBeStale() const { return true; }
  // False for peers that cannot become unresponsive.
  virtual bool has_heartbeat() const { return true; }

  void Heard();
  // "task '/job:worker/task:1'"
  std::string Describe() const;

  TransportBase* const owner;  // Not used after Shutdown.
  TransportHandler* const handler;
  const std::shared_ptr<TransportCounters> counters;
  const PeerId id;
  const std::string task;
  std::string place;  // Constant once in the table; see PlaceOf.
  std::atomic<uint64_t> incarnation{0};  // 0: unknown.
  std::atomic<int64_t> last_heard_ns{0};
  std::atomic<bool> lost{false};
  Inbox inbox;
};

class TransportBase : public Transport {
 public:
  explicit TransportBase(TransportOptions options);
  ~TransportBase() override;

  Status Start(TransportHandler* handler) final;
  void Shutdown() final;
  uint64_t incarnation() const final { return incarnation_; }
  Result<PeerId> Connect(const PeerAddress& peer) final;
  void Disconnect(PeerId peer, const Status& why) final;
  Status Lost(PeerId peer) const final;
  std::string TaskOf(PeerId peer) const final;
  uint64_t IncarnationOf(PeerId peer) const final;
  Status SendTokens(PeerId to, uint64_t step, uint32_t partition,
                    std::span<TokenMessage> batch) final;
  Status SendControl(PeerId to, uint8_t kind, std::string_view bytes) final;
  bool HasUnsent() const final;
  TransportStats stats() const final;

  // ---- For links.
  TransportHandler* handler() const { return handler_; }
  const TransportOptions& options() const { return options_; }
  // The first call removes the link from the table and tells the handler, on a
  // thread of the transport.
  void Lose(Link* link, Status why);
  // The link for a peer whose hello arrived: an existing one, or a new one from
  // MakeLink. Null if the hello is for another incarnation of this task, during
  // shutdown, or if it answers a link (`answered`) that is gone.
  std::shared_ptr<Link> Accept(const Hello& hello,
                               const Link* answered = nullptr);
  // Searches the live links; null if there is none.
  std::shared_ptr<Link> FindLink(const std::string& task, uint64_t incarnation);
  // Sets the incarnation of a link that was connected to any incarnation, or
  // checks that it is the requested one.
  Status CheckIncarnation(Link* link, uint64_t incarnation);
  const std::shared_ptr<TaskThreads>& pump() const { return pump_; }
  const std::shared_ptr<TransportCounters>& counters() const {
    return counters_;
  }

 protected:
  // The derived class's destructor must call Shutdown, since it calls
  // StopNetwork.
  virtual Status StartNetwork() { return OkStatus(); }
  virtual void StopNetwork() {}
  // Makes a link that Open will connect to `peer`. Called with the table's lock
  // held, so it must not call this class.
  virtual Result<std::shared_ptr<Link>> Dial(PeerId id,
                                             const PeerAddress& peer) = 0;
  // Makes a link to a peer that connected to us.
  virtual std::shared_ptr<Link> MakeLink(PeerId id, const Hello& hello) = 0;
  // The part of an address that stays the same when the task is restarted
  // there; "": unknown.
  virtual std::string PlaceOf(const std::string& address) const {
    return address;
  }
  // Whether to detect silent peers.
  virtual bool Watches() const { return true; }
  // Runs `fn` soon, on a thread that is not blocked by an execution.
  virtual void PostLoss(std::function<void()> fn) {
    monitor_->Post(std::move(fn));
  }
  std::vector<std::shared_ptr<Link>> LiveLinks() const;

 private:
  friend class LocalLink;
  // A lost peer.
  struct Gone {
    std::string task;
    uint64_t incarnation = 0;
    Status why;
  };
  // The next five REQUIRE that mu_ is held.
  // The latest link to this incarnation of the task (0: to any), or to an
  // unknown one. Adds to `stale` the links to other incarnations at this place
  // or at an unknown one; tasks of two clusters may have the same name.
  std::shared_ptr<Link> Find(const std::string& task, uint64_t incarnation,
                             const std::string& place,
                             std::vector<std::shared_ptr<Link>>* stale) const;
  void Add(const std::shared_ptr<Link>& link) { links_[link->id] = link; }
  void NoteGone(const Link& link, const Status& why);
  // OK for a connected peer, else why it is lost.
  Status WhyLost(PeerId id) const;
  // Removes it from the table. False if it was not in it.
  bool Remove(Link* link, const Status& why);
  Result<std::shared_ptr<Link>> Get(PeerId id) const;
  // Loses links to restarted tasks. Called with no lock held.
  void LoseStale(const std::vector<std::shared_ptr<Link>>& links);
  PeerId ConnectLocal(TransportBase* other);
  void Monitor();

  const TransportOptions options_;
  const uint64_t incarnation_;
  const std::shared_ptr<TransportCounters> counters_ =
      std::make_shared<TransportCounters>();
  TransportHandler* handler_ = nullptr;  // Constant after Start.
  // Used by the monitor only.
  int64_t last_tick_ns_ = 0;
  uint64_t checks_ = 0;
  // Runs work that must not wait for an execution: checks for silent peers and
  // reports of lost ones.
  const std::shared_ptr<Runner> monitor_ = std::make_shared<Runner>();
  // Delivers the messages queued by peers in this process and drives the
  // executions they make ready: one thread at a time per peer, unless a kernel
  // keeps it busy.
  const std::shared_ptr<TaskThreads> pump_ = std::make_shared<TaskThreads>();

  // Lock order: the process's registry of transports, then mu_ of one transport
  // (of two only in ConnectLocal), then an inbox's lock.
  mutable std::mutex mu_;
  PeerId next_peer_ = 0;  // GUARDED_BY(mu_)
  // All live peers, and the latest lost ones. GUARDED_BY(mu_)
  absl::flat_hash_map<PeerId, std::shared_ptr<Link>> links_;
  absl::flat_hash_map<PeerId, Gone> gone_;
  std::deque<PeerId> gone_order_;                   // GUARDED_BY(mu_)
  enum { kNew, kRunning, kStopped } state_ = kNew;  // GUARDED_BY(mu_)
};

// Connects the tasks of one process, each with its own transport, and no
// others.
class LocalTransport final : public TransportBase {
 public:
  using TransportBase::TransportBase;
  ~LocalTransport() override { Shutdown(); }
  // "local:INCARNATION"
  std::string address() const override;

 protected:
  bool Watches() const override { return false; }
  Result<std::shared_ptr<Link>> Dial(PeerId id,
                                     const PeerAddress& peer) override;
  std::shared_ptr<Link> MakeLink(PeerId, const Hello&) override {
    return nullptr;
  }
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_TRANSPORT_BASE_H_
