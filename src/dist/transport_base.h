// What the transports have in common: the table of peers, peers in this
// process, heartbeats, and the news that a peer is lost.
#ifndef SLUICE_DIST_TRANSPORT_BASE_H_
#define SLUICE_DIST_TRANSPORT_BASE_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "dist/inbox.h"
#include "dist/runner.h"
#include "dist/task_threads.h"
#include "dist/transport.h"

namespace sluice {

class TransportBase;

struct TransportCounters {
  std::atomic<int64_t> frames_sent{0}, frames_received{0}, tokens_sent{0},
      tokens_received{0}, bytes_sent{0}, bytes_received{0}, lost{0},
      bytes_shared{0};
};

// One peer of one transport. Owned by the transport's table until it is lost,
// and by whoever is in the middle of using it. Thread-safe.
class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(TransportBase* owner, PeerId id, std::string task);
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Begins to connect. After it is in the table; what was sent before waits.
  virtual void Open() {}
  virtual Status SendTokens(uint64_t step, uint32_t partition,
                            std::span<TokenMessage> batch) = 0;
  virtual Status SendControl(uint8_t kind, std::string_view bytes) = 0;
  virtual void SendHeartbeat() {}
  // Hands the network what waits for it, before the end of one that is not
  // lost.
  virtual void SendAll() {}
  // Breaks the connection, which the peer sees at once if it still lives. Once.
  // May be called on any thread; nothing is delivered afterwards.
  virtual void Close() = 0;
  // False for peers that are there as long as the link is.
  virtual bool MayBeStale() const { return true; }
  // False for peers that cannot fall silent.
  virtual bool has_heartbeat() const { return true; }

  void Heard();
  // "task '/job:worker/task:1'"
  std::string Describe() const;

  TransportBase* const owner;  // Not to be used by what outlives Shutdown.
  TransportHandler* const handler;
  const std::shared_ptr<TransportCounters> counters;
  const PeerId id;
  const std::string task;
  std::string place;  // Constant once it is in the table; see PlaceOf.
  std::atomic<uint64_t> incarnation{0};  // 0: not known yet.
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
  TransportStats stats() const final;

  // For links.
  TransportHandler* handler() const { return handler_; }
  const TransportOptions& options() const { return options_; }
  // Takes the link out of the table and tells the handler, on a thread of the
  // transport, the first time.
  void Lose(Link* link, Status why);
  // The link for a peer that said hello: the one we have, or a new one of
  // MakeLink's. Null if it is not for this incarnation of us, or we shut down.
  std::shared_ptr<Link> Accept(const Hello& hello);
  // Of those alive; null if there is none.
  std::shared_ptr<Link> FindLink(const std::string& task, uint64_t incarnation);
  // The incarnation behind a link that was connected to "whichever answers", or
  // that must be the one that was asked for.
  Status CheckIncarnation(Link* link, uint64_t incarnation);
  const std::shared_ptr<TaskThreads>& pump() const { return pump_; }
  const std::shared_ptr<TransportCounters>& counters() const {
    return counters_;
  }

 protected:
  // Of the derived class's constructor and destructor: Shutdown is to be called
  // by the latter, since it calls StopNetwork.
  virtual Status StartNetwork() { return OkStatus(); }
  virtual void StopNetwork() {}
  // A link that Open will connect to `peer`. With the table's lock held: it
  // calls nothing of ours.
  virtual Result<std::shared_ptr<Link>> Dial(PeerId id,
                                             const PeerAddress& peer) = 0;
  // A link to a peer that connected to us.
  virtual std::shared_ptr<Link> MakeLink(PeerId id, const Hello& hello) = 0;
  // What of an address stays the same when the task is started again there; "":
  // nothing is known of that.
  virtual std::string PlaceOf(const std::string& address) const {
    return address;
  }
  // True while the transport cannot hear: silence says nothing then.
  virtual bool Deaf() { return false; }
  // Whether silence is watched for.
  virtual bool Watches() const { return true; }
  // Runs `fn` soon, on a thread that no execution holds.
  virtual void PostLoss(std::function<void()> fn) {
    monitor_->Post(std::move(fn));
  }
  std::vector<std::shared_ptr<Link>> LiveLinks() const;

 private:
  friend class LocalLink;
  // A peer that is lost.
  struct Gone {
    std::string task;
    uint64_t incarnation = 0;
    Status why;
  };
  // The next five REQUIRE: mu_ is held.
  // The latest link to this incarnation of the task (0: to any), or to one that
  // is not known yet. `stale` gets those to other incarnations at this place,
  // or maybe at it: tasks of two clusters may have one name.
  std::shared_ptr<Link> Find(const std::string& task, uint64_t incarnation,
                             const std::string& place,
                             std::vector<std::shared_ptr<Link>>* stale) const;
  void Add(const std::shared_ptr<Link>& link) { links_[link->id] = link; }
  void NoteGone(const Link& link, const Status& why);
  // OK for a peer that is there, else why it is not.
  Status WhyLost(PeerId id) const;
  // Takes it out of the table. False if it was not in it.
  bool Remove(Link* link, const Status& why);
  Result<std::shared_ptr<Link>> Get(PeerId id) const;
  // Of tasks that were restarted. With no lock held.
  void LoseStale(const std::vector<std::shared_ptr<Link>>& links);
  PeerId ConnectLocal(TransportBase* other);
  void Monitor();

  const TransportOptions options_;
  const uint64_t incarnation_;
  const std::shared_ptr<TransportCounters> counters_ =
      std::make_shared<TransportCounters>();
  TransportHandler* handler_ = nullptr;  // Constant after Start.
  // The monitor's.
  int64_t last_tick_ns_ = 0;
  uint64_t looks_ = 0;
  // Told what must not wait for an execution: silence and losses.
  const std::shared_ptr<Runner> monitor_ = std::make_shared<Runner>();
  // Deliver what peers in this process have queued, and drive what that made
  // ready: one at a time for each peer, until a kernel keeps it.
  const std::shared_ptr<TaskThreads> pump_ = std::make_shared<TaskThreads>();

  // Lock order: the process's registry of transports, then mu_ of one (of two
  // only in ConnectLocal), then that of an inbox.
  mutable std::mutex mu_;
  PeerId next_peer_ = 0;  // GUARDED_BY(mu_)
  // Those alive, and of the others the latest. GUARDED_BY(mu_)
  absl::flat_hash_map<PeerId, std::shared_ptr<Link>> links_;
  absl::flat_hash_map<PeerId, Gone> gone_;
  std::deque<PeerId> gone_order_;                   // GUARDED_BY(mu_)
  enum { kNew, kRunning, kStopped } state_ = kNew;  // GUARDED_BY(mu_)
};

// Tasks of one process, each with a transport, and nobody else.
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

#endif  // SLUICE_DIST_TRANSPORT_BASE_H_
