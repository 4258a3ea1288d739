#include "cluster/transport/transport_base.h"

#include <map>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/failpoint.h"
#include "exec/core/executor.h"
#include "exec/core/trace.h"

namespace sluice {
namespace {

// Per peer_timeout: the number of checks for silent peers, and the number of
// heartbeats sent to each peer.
constexpr int kChecksPerTimeout = 10, kHeartbeatsPerTimeout = 5;

uint64_t RandomIncarnation() {
  std::random_device device;
  uint64_t v = 0;
  while (v == 0) v = (uint64_t{device()} << 32) | device();
  return v;
}

// The transports running in this process, by incarnation.
struct Registry {
  std::mutex mu;
  std::map<uint64_t, TransportBase*> transports;  // GUARDED_BY(mu)
};
Registry& GetRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

}  // namespace

// A peer in this process. The sending thread delivers a message itself, unless
// earlier ones are queued.
class LocalLink final : public Link {
 public:
  LocalLink(TransportBase* owner, PeerId id, std::string task)
      : Link(owner, id, std::move(task)), pump_(owner->pump()) {}

  bool MayBeStale() const override { return false; }

  void SetMate(std::shared_ptr<LocalLink> mate) {
    std::lock_guard<std::mutex> lock(mu_);
    mate_ = std::move(mate);
  }

  Status SendTokens(uint64_t step, uint32_t partition,
                    std::span<TokenMessage> batch) override {
    for (const TokenMessage& m : batch)
      SLUICE_RETURN_IF_ERROR(CheckSendable(m.value));
    const FailpointHit hit = SLUICE_FAILPOINT("local.send");
    SLUICE_RETURN_IF_ERROR(hit.error);
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<LocalLink> to, mate());
    if (hit.drop() || batch.empty()) return OkStatus();
    const int64_t n = static_cast<int64_t>(batch.size());
    counters->tokens_sent.fetch_add(n, std::memory_order_relaxed);
    to->counters->tokens_received.fetch_add(n, std::memory_order_relaxed);
    // (Executions that this makes ready are driven after the inbox is
    // released.)
    const HeldDriveScope drives_when_all_is_delivered;
    if (to->inbox.BeginDirect()) {
      to->handler->OnTokens(to->id, step, partition, batch);
      if (to->inbox.EndDirect()) to->PostDrain();
    } else {
      // Earlier messages may belong to another step, which must not run here:
      // this thread has its own step to finish.
      to->inbox.AddTokens(step, partition, batch);
      to->PostDrain();
    }
    return OkStatus();
  }

  // Delivered by a thread of the peer: a step's start must not run the step
  // here.
  Status SendControl(uint8_t kind, std::string_view bytes) override {
    if (bytes.size() > kMaxControlBytes)
      return InvalidArgument("control message: expected at most ",
                             kMaxControlBytes, " bytes, got ", bytes.size());
    const FailpointHit hit = SLUICE_FAILPOINT("local.control");
    SLUICE_RETURN_IF_ERROR(hit.error);
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<LocalLink> to, mate());
    if (hit.drop()) return OkStatus();
    to->inbox.AddControl(kind, bytes);
    to->PostDrain();
    return OkStatus();
  }

  void Close() override {
    std::shared_ptr<LocalLink> mate;
    {
      std::lock_guard<std::mutex> lock(mu_);
      mate.swap(mate_);
    }
    if (mate == nullptr || mate.get() == this) return;
    Registry& r = GetRegistry();
    std::lock_guard<std::mutex> lock(r.mu);
    for (const auto& [incarnation, transport] : r.transports) {
      if (transport != mate->owner) continue;
      transport->Lose(mate.get(),
                      Unavailable(mate->Describe(), " closed the connection"));
    }
  }
  bool has_heartbeat() const override { return false; }

 private:
  Result<std::shared_ptr<LocalLink>> mate() const {
    std::lock_guard<std::mutex> lock(mu_);
    if (mate_ == nullptr) return Unavailable(Describe(), " is lost");
    return mate_;
  }
  void PostDrain() {
    pump_->Schedule(
        [self = std::static_pointer_cast<LocalLink>(shared_from_this())] {
          const HeldDriveScope drives_when_the_next_has_a_thread;
          bool more = false;
          self->inbox.Drain(self->handler, self->id, &more, /*max_items=*/1);
          if (more) self->PostDrain();
        });
  }

  const std::shared_ptr<TaskThreads> pump_;
  mutable std::mutex mu_;
  std::shared_ptr<LocalLink> mate_;  // GUARDED_BY(mu_)
};

Link::Link(TransportBase* owner, PeerId id, std::string task)
    : owner(owner),
      handler(owner->handler()),
      counters(owner->counters()),
      id(id),
      task(std::move(task)) {
  Heard();
}

void Link::Heard() { last_heard_ns.store(NowNs(), std::memory_order_relaxed); }

std::string Link::Describe() const { return absl::StrCat("task '", task, "'"); }

TransportBase::TransportBase(TransportOptions options)
    : options_(std::move(options)),
      incarnation_(options_.incarnation != 0 ? options_.incarnation
                                             : RandomIncarnation()) {}

TransportBase::~TransportBase() = default;

Status TransportBase::Start(TransportHandler* handler) {
  if (options_.task.empty() || options_.peer_timeout.count() < 1)
    return InvalidArgument(
        "transport: expected a task and a timeout of at least 1 ms, got '",
        options_.task, "' and ", options_.peer_timeout.count(), " ms");
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (state_ != kNew)
      return FailedPrecondition("transport of '", options_.task,
                                "': expected one Start, got another");
    handler_ = handler;
    state_ = kRunning;
  }
  const Status started = StartNetwork();
  if (!started.ok()) {
    StopNetwork();
    std::lock_guard<std::mutex> lock(mu_);
    state_ = kStopped;
    return started;
  }
  {
    Registry& r = GetRegistry();
    std::lock_guard<std::mutex> lock(r.mu);
    if (!r.transports.emplace(incarnation_, this).second)
      return AlreadyExists("transport of '", options_.task,
                           "': expected a unique incarnation, got ",
                           incarnation_);
  }
  last_tick_ns_ = NowNs();
  if (Watches())
    monitor_->Every(std::max(options_.peer_timeout / kChecksPerTimeout,
                             std::chrono::milliseconds(1)),
                    [this] { Monitor(); });
  return OkStatus();
}

void TransportBase::Monitor() {
  const int64_t timeout =
      std::chrono::nanoseconds(options_.peer_timeout).count();
  // (The next check would be too late: reporting the loss may itself be delayed
  // by up to the interval between two checks.)
  const int64_t limit = timeout - 2 * timeout / kChecksPerTimeout;
  // If this process was paused, the silence of others means nothing.
  const int64_t now = NowNs();
  const bool was_paused = now - last_tick_ns_ > timeout / 2;
  last_tick_ns_ = now;
  const bool beat =
      ++checks_ % (kChecksPerTimeout / kHeartbeatsPerTimeout) == 0;
  for (const std::shared_ptr<Link>& link : LiveLinks()) {
    if (!link->has_heartbeat()) continue;
    if (was_paused) link->Heard();
    if (beat) link->SendHeartbeat();
    const int64_t silent =
        NowNs() - link->last_heard_ns.load(std::memory_order_relaxed);
    if (silent > limit)
      Lose(link.get(),
           Unavailable(link->Describe(), ": expected a heartbeat every ",
                       limit / 1000000, " ms, got none for ", silent / 1000000,
                       " ms"));
  }
}

void TransportBase::Shutdown() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (state_ != kRunning) return;
    state_ = kStopped;
  }
  {
    Registry& r = GetRegistry();
    std::lock_guard<std::mutex> lock(r.mu);
    const auto it = r.transports.find(incarnation_);
    if (it != r.transports.end() && it->second == this) r.transports.erase(it);
  }
  std::vector<std::shared_ptr<Link>> links;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const Status why =
        Unavailable("transport of '", options_.task, "' was shut down");
    for (auto& [id, link] : links_) {
      NoteGone(*link, why);
      links.push_back(std::move(link));
    }
    links_.clear();
  }
  for (const auto& link : links) {
    link->SendAll();
    link->lost.store(true);
    link->inbox.Close();
    link->Close();
  }
  StopNetwork();
  for (const auto& link : links) link->inbox.AwaitIdle();
  monitor_->Stop();
  pump_->Stop();
}

std::shared_ptr<Link> TransportBase::Find(
    const std::string& task, uint64_t incarnation, const std::string& place,
    std::vector<std::shared_ptr<Link>>* stale) const {
  std::shared_ptr<Link> latest;
  for (const auto& [id, link] : links_) {
    if (link->task != task) continue;
    const uint64_t known = link->incarnation.load();
    if (incarnation == 0 || known == 0 || known == incarnation) {
      if (latest == nullptr || latest->id < id) latest = link;
    } else if (link->MayBeStale() &&
               (place.empty() || link->place.empty() || link->place == place)) {
      stale->push_back(link);
    }
  }
  return latest;
}

void TransportBase::NoteGone(const Link& link, const Status& why) {
  gone_[link.id] = {link.task, link.incarnation.load(), why};
  gone_order_.push_back(link.id);
  if (gone_order_.size() <= kMaxLostPeers) return;
  gone_.erase(gone_order_.front());
  gone_order_.pop_front();
}

Status TransportBase::WhyLost(PeerId id) const {
  if (id >= next_peer_)
    return InvalidArgument("peer: expected a number below ", next_peer_,
                           ", got ", id);
  if (links_.contains(id)) return OkStatus();
  if (const auto it = gone_.find(id); it != gone_.end()) return it->second.why;
  return Unavailable("peer: expected a connected one, got number ", id,
                     ", which was lost before the latest ", kMaxLostPeers);
}

std::vector<std::shared_ptr<Link>> TransportBase::LiveLinks() const {
  std::lock_guard<std::mutex> lock(mu_);
  std::vector<std::shared_ptr<Link>> links;
  for (const auto& [id, link] : links_) links.push_back(link);
  return links;
}

std::shared_ptr<Link> TransportBase::FindLink(const std::string& task,
                                              uint64_t incarnation) {
  std::lock_guard<std::mutex> lock(mu_);
  std::vector<std::shared_ptr<Link>> others;
  std::shared_ptr<Link> link = Find(task, incarnation, "", &others);
  return link != nullptr && link->incarnation.load() == incarnation ? link
                                                                    : nullptr;
}

bool TransportBase::Remove(Link* link, const Status& why) {
  std::lock_guard<std::mutex> lock(mu_);
  // (Not another link with the same number: the mate's transport may be gone.)
  const auto it = links_.find(link->id);
  if (it == links_.end() || it->second.get() != link) return false;
  links_.erase(it);
  NoteGone(*link, why);
  return true;
}

void TransportBase::Lose(Link* link, Status why) {
  const std::shared_ptr<Link> keep = link->shared_from_this();
  if (!Remove(link, why)) return;
  link->lost.store(true);
  link->inbox.Close();
  counters_->lost.fetch_add(1, std::memory_order_relaxed);
  PostLoss([this, keep, why = std::move(why)] {
    (void)SLUICE_FAILPOINT("transport.lost");
    keep->Close();
    handler_->OnPeerLost(keep->id, why);
  });
}

void TransportBase::LoseStale(const std::vector<std::shared_ptr<Link>>& links) {
  for (const auto& link : links)
    Lose(link.get(), Aborted(link->Describe(), " was restarted"));
}

PeerId TransportBase::ConnectLocal(TransportBase* other) {
  const auto add = [](TransportBase* t, const TransportBase* peer) {
    auto link =
        std::make_shared<LocalLink>(t, t->next_peer_++, peer->options_.task);
    link->incarnation.store(peer->incarnation_);
    t->Add(link);
    return link;
  };
  const auto ours = add(this, other);
  const auto theirs = other == this ? ours : add(other, this);
  ours->SetMate(theirs);
  if (theirs != ours) theirs->SetMate(ours);
  return ours->id;
}

Result<PeerId> TransportBase::Connect(const PeerAddress& peer) {
  const FailpointHit hit = SLUICE_FAILPOINT("transport.connect");
  SLUICE_RETURN_IF_ERROR(hit.error);
  uint64_t wanted = peer.incarnation;
  if (wanted == 0 && peer.address.starts_with("local:") &&
      !absl::SimpleAtoi(peer.address.substr(6), &wanted))
    wanted = 0;
  Registry& r = GetRegistry();
  std::vector<std::shared_ptr<Link>> stale;
  std::shared_ptr<Link> fresh;
  Result<PeerId> out = PeerId{0};
  {
    std::lock_guard<std::mutex> registry_lock(r.mu);
    TransportBase* local = nullptr;
    if (options_.local_shortcut && wanted != 0) {
      const auto it = r.transports.find(wanted);
      if (it != r.transports.end() && it->second->options_.task == peer.task)
        local = it->second;
    }
    std::unique_lock<std::mutex> lock(mu_, std::defer_lock);
    std::unique_lock<std::mutex> other_lock;
    if (local != nullptr && local != this) {
      other_lock = std::unique_lock<std::mutex>(local->mu_, std::defer_lock);
      std::lock(lock, other_lock);
      if (local->state_ != kRunning) local = nullptr;
    } else {
      lock.lock();
    }
    if (state_ != kRunning)
      return FailedPrecondition("transport of '", options_.task,
                                "': expected it to run, got Connect to '",
                                peer.task, "'");
    if (const auto link =
            Find(peer.task, wanted, PlaceOf(peer.address), &stale))
      return link->id;
    if (local != nullptr) {
      out = ConnectLocal(local);
    } else {
      SLUICE_ASSIGN_OR_RETURN(fresh, Dial(next_peer_, peer));
      fresh->place = PlaceOf(peer.address);
      fresh->incarnation.store(wanted);
      Add(fresh);
      out = next_peer_++;
    }
  }
  LoseStale(stale);
  if (fresh != nullptr) fresh->Open();
  return out;
}

void TransportBase::Disconnect(PeerId peer, const Status& why) {
  const Result<std::shared_ptr<Link>> link = Get(peer);
  if (!link.ok() || !Remove(link->get(), why)) return;
  (*link)->lost.store(true);
  (*link)->inbox.Close();
  (*link)->Close();
}

std::shared_ptr<Link> TransportBase::Accept(const Hello& hello,
                                            const Link* answered) {
  if (hello.expected != 0 && hello.expected != incarnation_) return nullptr;
  std::vector<std::shared_ptr<Link>> stale;
  std::shared_ptr<Link> link;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (state_ != kRunning) return nullptr;
    link = Find(hello.task, hello.incarnation, PlaceOf(hello.address), &stale);
    if (answered != nullptr && link.get() != answered) return nullptr;
    if (link != nullptr) {
      uint64_t unknown = 0;
      link->incarnation.compare_exchange_strong(unknown, hello.incarnation);
      // (Its incarnation may have become known meanwhile.)
      if (link->incarnation.load() != hello.incarnation) {
        stale.push_back(link);
        link = nullptr;
      }
    }
    if (link == nullptr) {
      link = MakeLink(next_peer_, hello);
      if (link == nullptr) return nullptr;
      ++next_peer_;
      link->place = PlaceOf(hello.address);
      link->incarnation.store(hello.incarnation);
      Add(link);
    }
  }
  LoseStale(stale);
  link->Heard();
  return link;
}

Status TransportBase::CheckIncarnation(Link* link, uint64_t incarnation) {
  uint64_t expected = 0;
  if (link->incarnation.compare_exchange_strong(expected, incarnation) ||
      expected == incarnation)
    return OkStatus();
  return Aborted(link->Describe(), " was restarted: expected incarnation ",
                 expected, ", got ", incarnation);
}

Result<std::shared_ptr<Link>> TransportBase::Get(PeerId id) const {
  std::lock_guard<std::mutex> lock(mu_);
  if (const auto it = links_.find(id); it != links_.end()) return it->second;
  return WhyLost(id);
}

Status TransportBase::Lost(PeerId peer) const {
  std::lock_guard<std::mutex> lock(mu_);
  return WhyLost(peer);
}

std::string TransportBase::TaskOf(PeerId peer) const {
  std::lock_guard<std::mutex> lock(mu_);
  if (const auto it = links_.find(peer); it != links_.end())
    return it->second->task;
  const auto it = gone_.find(peer);
  return it == gone_.end() ? std::string() : it->second.task;
}

uint64_t TransportBase::IncarnationOf(PeerId peer) const {
  std::lock_guard<std::mutex> lock(mu_);
  if (const auto it = links_.find(peer); it != links_.end())
    return it->second->incarnation.load();
  const auto it = gone_.find(peer);
  return it == gone_.end() ? 0 : it->second.incarnation;
}

Status TransportBase::SendTokens(PeerId to, uint64_t step, uint32_t partition,
                                 std::span<TokenMessage> batch) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Link> link, Get(to));
  return link->SendTokens(step, partition, batch);
}

Status TransportBase::SendControl(PeerId to, uint8_t kind,
                                  std::string_view bytes) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Link> link, Get(to));
  return link->SendControl(kind, bytes);
}

bool TransportBase::HasUnsent() const {
  const std::vector<std::shared_ptr<Link>> links = LiveLinks();
  return std::any_of(links.begin(), links.end(),
                     [](const auto& link) { return link->HasUnsent(); });
}

TransportStats TransportBase::stats() const {
  const auto get = [](const std::atomic<int64_t>& v) {
    return v.load(std::memory_order_relaxed);
  };
  const TransportCounters& c = *counters_;
  return {get(c.frames_sent), get(c.frames_received),
          get(c.tokens_sent), get(c.tokens_received),
          get(c.bytes_sent),  get(c.bytes_received),
          get(c.lost),        get(c.bytes_shared)};
}

std::string LocalTransport::address() const {
  return absl::StrCat("local:", incarnation());
}

Result<std::shared_ptr<Link>> LocalTransport::Dial(PeerId,
                                                   const PeerAddress& peer) {
  return Unavailable("task '", peer.task,
                     "': expected it in this process, got address '",
                     peer.address, "'");
}

}  // namespace sluice
