#include "cluster/testing/virtual_network.h"

#include <algorithm>
#include <utility>

#include "cluster/transport/transport_base.h"

namespace sluice {

class VirtualTransport final : public TransportBase {
 public:
  VirtualTransport(VirtualNetwork* network, TransportOptions options)
      : TransportBase(std::move(options)), network_(network) {}
  ~VirtualTransport() override { Shutdown(); }
  std::string address() const override { return options().task; }

  // Called on the thread of Step.
  void Receive(const VirtualNetwork::Packet& packet);
  void LoseTask(const std::string& task, uint64_t incarnation,
                const Status& why) {
    if (const auto link = FindLink(task, incarnation)) Lose(link.get(), why);
  }

 protected:
  Status StartNetwork() override {
    std::lock_guard<std::mutex> lock(network_->mu_);
    VirtualNetwork::Node& node = network_->nodes_[options().task];
    if (node.transport != nullptr)
      return AlreadyExists("virtual network: expected one task '",
                           options().task, "', got another");
    const int64_t pauses = node.pauses + 1;
    node = VirtualNetwork::Node();
    node.transport = this;
    node.incarnation = incarnation();
    node.pauses = pauses;
    return OkStatus();
  }
  void StopNetwork() override { network_->Leave(this); }
  bool Watches() const override { return false; }
  void PostLoss(std::function<void()> fn) override {
    // (A killed task receives nothing.)
    network_->At(0, [this, network = network_, task = options().task,
                     self = incarnation(), fn = std::move(fn)] {
      {
        std::lock_guard<std::mutex> lock(network->mu_);
        const auto it = network->nodes_.find(task);
        if (it == network->nodes_.end() || it->second.transport != this ||
            it->second.incarnation != self)
          return;
      }
      fn();
    });
  }
  Result<std::shared_ptr<Link>> Dial(PeerId id,
                                     const PeerAddress& peer) override;
  std::shared_ptr<Link> MakeLink(PeerId id, const Hello& hello) override;

 private:
  friend class VirtualLink;
  struct Incoming {
    std::weak_ptr<Link> link;
    uint64_t floor = 0;       // All frames below it have arrived,
    std::set<uint64_t> seen;  // and these.
    bool See(uint64_t number) {
      if (number < floor || !seen.insert(number).second) return false;
      for (; seen.erase(floor) > 0; ++floor) {
      }
      return true;
    }
  };
  VirtualNetwork* const network_;
  // By connection; used only by the thread of Step.
  std::map<uint64_t, Incoming> incoming_;
  uint64_t accepting_ = 0;  // The connection that MakeLink is for.
};

class VirtualLink final : public Link {
 public:
  friend class VirtualTransport;
  // `answers`: the peer's connection that it accepts, or 0.
  VirtualLink(VirtualTransport* owner, PeerId id, std::string task,
              uint64_t answers)
      : Link(owner, id, std::move(task)),
        network_(owner->network_),
        writer_(owner->options().inline_bytes),
        self_(owner->options().task),
        self_incarnation_(owner->incarnation()),
        answers_(answers),
        timeout_us_(
            std::chrono::microseconds(owner->options().peer_timeout).count()) {}

  void Open() override {
    std::lock_guard<std::mutex> lock(mu_);
    SayHello();
  }

  Status SendTokens(uint64_t step, uint32_t partition,
                    std::span<TokenMessage> batch) override {
    for (const TokenMessage& m : batch)
      SLUICE_RETURN_IF_ERROR(CheckSendable(m.value));
    std::lock_guard<std::mutex> lock(mu_);
    counters->tokens_sent.fetch_add(static_cast<int64_t>(batch.size()),
                                    std::memory_order_relaxed);
    while (!batch.empty()) {
      size_t n = batch.size();
      if (network_->options_.reorder) {
        std::lock_guard<std::mutex> network_lock(network_->mu_);
        n = 1 + network_->Random(self_, task)() % n;
      }
      SLUICE_RETURN_IF_ERROR(
          writer_.AddTokens(step, partition, batch.first(n)).status());
      batch = batch.subspan(n);
      SendFrame(/*barrier=*/!network_->options_.reorder);
    }
    return OkStatus();
  }

  Status SendControl(uint8_t kind, std::string_view bytes) override {
    std::lock_guard<std::mutex> lock(mu_);
    SLUICE_RETURN_IF_ERROR(writer_.AddControl(kind, bytes));
    SendFrame(/*barrier=*/true);
    return OkStatus();
  }

  void Close() override {
    std::lock_guard<std::mutex> lock(mu_);
    closed_ = true;
    Packet(VirtualNetwork::Packet::kClose, true, {});
  }
  bool has_heartbeat() const override { return false; }

 private:
  void Packet(VirtualNetwork::Packet::Kind kind, bool barrier,
              OutgoingFrame frame) {
    auto p = std::make_shared<VirtualNetwork::Packet>();
    p->kind = kind;
    p->from = self_incarnation_;
    p->to = incarnation.load();
    p->expected = p->to;
    p->from_task = self_;
    p->to_task = task;
    p->connection = connection_;
    p->answers = answers_;
    p->bytes = std::move(frame.bytes);
    for (const WireBody& b : frame.bodies) p->bodies.emplace_back(b.bytes());
    network_->Send(std::move(p), barrier);
  }
  bool Began(uint64_t connection) {
    std::lock_guard<std::mutex> lock(mu_);
    return connection_ == connection;
  }
  void SayHello() {
    if (connection_ != 0 || closed_) return;
    {
      std::lock_guard<std::mutex> lock(network_->mu_);
      connection_ = network_->next_connection_++;
    }
    Packet(VirtualNetwork::Packet::kHello, true, {});
  }
  void SendFrame(bool barrier) {
    SayHello();
    OutgoingFrame frame = writer_.Take();
    counters->frames_sent.fetch_add(1, std::memory_order_relaxed);
    if (!closed_)
      Packet(VirtualNetwork::Packet::kFrame, barrier, std::move(frame));
  }

  VirtualNetwork* const network_;
  std::mutex mu_;
  FrameWriter writer_;       // GUARDED_BY(mu_)
  uint64_t connection_ = 0;  // GUARDED_BY(mu_)
  bool closed_ = false;      // GUARDED_BY(mu_)
  const std::string self_;
  const uint64_t self_incarnation_;
  const uint64_t answers_;

 public:
  const int64_t timeout_us_;
};

Result<std::shared_ptr<Link>> VirtualTransport::Dial(PeerId id,
                                                     const PeerAddress& peer) {
  return std::make_shared<VirtualLink>(this, id, peer.task, 0);
}

std::shared_ptr<Link> VirtualTransport::MakeLink(PeerId id,
                                                 const Hello& hello) {
  return std::make_shared<VirtualLink>(this, id, hello.task, accepting_);
}

void VirtualTransport::Receive(const VirtualNetwork::Packet& packet) {
  if (packet.kind == VirtualNetwork::Packet::kClose) {
    const auto link = FindLink(packet.from_task, packet.from);
    if (link == nullptr) return;
    // (A duplicated or late packet does not refer to a newer connection.)
    bool of_it = packet.answers != 0 &&
                 static_cast<VirtualLink*>(link.get())->Began(packet.answers);
    if (const auto it = incoming_.find(packet.connection);
        it != incoming_.end()) {
      of_it |= it->second.link.lock() == link;
      incoming_.erase(it);
    }
    if (of_it)
      Lose(link.get(), Unavailable(link->Describe(), " closed the connection"));
    return;
  }
  if (packet.kind == VirtualNetwork::Packet::kHello) {
    if (incoming_.contains(packet.connection)) return;
    // An answer to a connection that was dropped meanwhile does not start one.
    if (packet.answers != 0) {
      const auto ours = FindLink(packet.from_task, packet.from);
      if (ours == nullptr ||
          !static_cast<VirtualLink*>(ours.get())->Began(packet.answers))
        return;
    }
    accepting_ = packet.connection;
    const Hello hello{packet.from, packet.expected, packet.from_task, ""};
    if (const auto link = Accept(hello))
      incoming_[packet.connection].link = link;
    return;
  }
  const auto it = incoming_.find(packet.connection);
  if (it == incoming_.end()) return;
  const std::shared_ptr<Link> link = it->second.link.lock();
  if (link == nullptr || link->lost.load()) {
    incoming_.erase(it);
    return;
  }
  Result<IncomingFrame> frame =
      ParseFrame(packet.bytes, {options().max_tensor_bytes});
  if (!frame.ok()) {
    Lose(link.get(),
         Annotate(frame.status(), absl::StrCat("from ", link->Describe())));
    return;
  }
  if (!it->second.See(frame->number)) return;
  counters()->frames_received.fetch_add(1, std::memory_order_relaxed);
  size_t body = 0;
  for (Record& r : frame->records) {
    if (auto* tokens = std::get_if<IncomingTokens>(&r)) {
      link->inbox.AddTokens(tokens->step, tokens->partition, tokens->batch);
    } else if (auto* control = std::get_if<IncomingControl>(&r)) {
      link->inbox.AddControl(control->kind, control->bytes);
    } else if (auto* large = std::get_if<IncomingLarge>(&r)) {
      const std::string& bytes = packet.bodies[body++];
      Status s = bytes.size() == large->body.bytes
                     ? OkStatus()
                     : InvalidArgument("body on the wire: expected ",
                                       large->body.bytes, " bytes, got ",
                                       bytes.size());
      if (s.ok()) {
        const Result<char*> buffer = large->body.Buffer();
        s = buffer.status();
        if (s.ok()) {
          std::copy(bytes.begin(), bytes.end(), *buffer);
          s = large->body.Finish();
        }
      }
      if (!s.ok()) {
        Lose(link.get(), Annotate(s, absl::StrCat("from ", link->Describe())));
        return;
      }
      large->token.value = std::move(large->body.tensor);
      link->inbox.AddTokens(large->step, large->partition, {&large->token, 1});
    }
  }
  const int64_t n = link->inbox.Drain(link->handler, link->id);
  counters()->tokens_received.fetch_add(n, std::memory_order_relaxed);
}

VirtualNetwork::VirtualNetwork(VirtualNetworkOptions options)
    : options_(options) {}
VirtualNetwork::~VirtualNetwork() = default;

std::unique_ptr<Transport> VirtualNetwork::Join(TransportOptions options) {
  options.local_shortcut = false;
  if (options.incarnation == 0) {
    // Must be unique in the process's registry, across networks.
    std::lock_guard<std::mutex> lock(mu_);
    options.incarnation =
        reinterpret_cast<uintptr_t>(this) * 0x9e3779b97f4a7c15u +
        next_incarnation_++;
  }
  return std::make_unique<VirtualTransport>(this, std::move(options));
}

std::mt19937_64& VirtualNetwork::Random(const std::string& from,
                                        const std::string& to) {
  const auto [it, fresh] = random_.try_emplace({from, to});
  if (fresh) {
    const std::string name = absl::StrCat(options_.seed, " ", from, " ", to);
    std::seed_seq seed(name.begin(), name.end());
    it->second.seed(seed);
  }
  return it->second;
}

void VirtualNetwork::Schedule(int64_t at_us, Event event) {
  events_.emplace(std::pair(at_us, next_event_++), std::move(event));
  arrived_.notify_all();
}

void VirtualNetwork::Send(std::shared_ptr<Packet> packet, bool barrier) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto from = nodes_.find(packet->from_task);
  if (from == nodes_.end() || from->second.incarnation != packet->from) return;
  // Messages from a killed process are dropped; a task that sends a close
  // message as it leaves has not left yet.
  if (from->second.transport == nullptr) return;
  ++counts_.frames;
  std::mt19937_64& random = Random(packet->from_task, packet->to_task);
  const auto chance = [&](double p) {
    return p > 0 && std::uniform_real_distribution<double>(0, 1)(random) < p;
  };
  const auto delay = [&] {
    return std::uniform_int_distribution<int64_t>(
        options_.min_delay_us,
        std::max(options_.min_delay_us, options_.max_delay_us))(random);
  };
  int64_t at = now_us_ + delay();
  while (chance(options_.drop)) {
    ++counts_.dropped;
    at += options_.retry_us;
  }
  Pair& pair = pairs_[{packet->from, packet->to_task}];
  at = std::max(at, barrier ? pair.last_us : pair.barrier_us);
  if (barrier) pair.barrier_us = at;
  pair.last_us = std::max(pair.last_us, at);
  if (chance(options_.duplicate)) {
    ++counts_.duplicated;
    Schedule(at + delay(), {packet, nullptr});
  }
  if (packet->kind == Packet::kFrame && chance(options_.truncate)) {
    ++counts_.truncated;
    packet = std::make_shared<Packet>(*packet);
    packet->bytes.resize(random() % packet->bytes.size());
  }
  Schedule(at, {std::move(packet), nullptr});
}

void VirtualNetwork::Deliver(const std::shared_ptr<Packet>& packet) {
  VirtualTransport* transport = nullptr;
  VirtualTransport* sender = nullptr;
  uint64_t incarnation = 0;
  bool refused = false;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = nodes_.find(packet->to_task);
    const bool there = it != nodes_.end() && it->second.transport != nullptr;
    const bool cut = cuts_.contains({packet->from_task, packet->to_task});
    if (there && it->second.paused && !cut) {
      it->second.held.push_back(packet);
      return;
    }
    if (there) incarnation = it->second.incarnation;
    const bool right = there && (packet->to == 0 || packet->to == incarnation);
    const auto from = nodes_.find(packet->from_task);
    if (from != nodes_.end() && from->second.incarnation == packet->from)
      sender = from->second.transport;
    if (right && !cut) {
      transport = it->second.transport;
    } else if (packet->kind == Packet::kHello && sender != nullptr) {
      refused = true;
    } else if (cut) {
      cut_off_[{packet->from_task, packet->to_task}].push_back(packet);
    }
  }
  if (transport != nullptr) {
    // The sender connected to any incarnation: this one has answered.
    if (packet->to == 0 && packet->kind == Packet::kHello && sender != nullptr)
      if (const auto link = sender->FindLink(packet->to_task, 0))
        link->incarnation.store(incarnation);
    transport->Receive(*packet);
    return;
  }
  if (!refused) return;
  const uint64_t to = packet->to;
  const std::string task = packet->to_task;
  const Status why =
      incarnation != 0 && incarnation != to && to != 0
          ? Aborted("task '", task, "' was restarted: expected incarnation ",
                    to, ", got ", incarnation)
          : Unavailable("task '", task, "' does not answer");
  sender->LoseTask(task, to, why);
}

bool VirtualNetwork::Step() {
  Event event;
  std::lock_guard<std::recursive_mutex> stepping(stepping_);
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (events_.empty()) return false;
    const auto it = events_.begin();
    now_us_ = std::max(now_us_, it->first.first);
    event = std::move(it->second);
    events_.erase(it);
  }
  if (event.packet != nullptr) {
    Deliver(event.packet);
  } else {
    event.fn();
  }
  return true;
}

int64_t VirtualNetwork::Run(int64_t max_events) {
  int64_t n = 0;
  while (n < max_events && Step()) ++n;
  return n;
}

void VirtualNetwork::RunUntil(int64_t us) {
  bool end = false;
  At(us - now_us(), [&end] { end = true; });
  while (!end && Step()) {
  }
}

int64_t VirtualNetwork::now_us() const {
  std::lock_guard<std::mutex> lock(mu_);
  return now_us_;
}

void VirtualNetwork::At(int64_t delay_us, std::function<void()> fn) {
  std::lock_guard<std::mutex> lock(mu_);
  Schedule(now_us_ + std::max<int64_t>(delay_us, 0), {nullptr, std::move(fn)});
}

bool VirtualNetwork::AwaitEvent(std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mu_);
  return arrived_.wait_for(lock, timeout, [&] { return !events_.empty(); });
}

void VirtualNetwork::Leave(VirtualTransport* transport) {
  std::lock_guard<std::recursive_mutex> stepping(stepping_);
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = nodes_.find(transport->options().task);
  if (it != nodes_.end() && it->second.transport == transport)
    it->second.transport = nullptr;
}

void VirtualNetwork::LoseLater(const std::string& task,
                               std::function<bool()> still) {
  uint64_t incarnation = 0;
  std::vector<std::pair<std::string, int64_t>> others;
  {
    std::lock_guard<std::mutex> lock(mu_);
    incarnation = nodes_[task].incarnation;
    for (const auto& [name, node] : nodes_)
      if (name != task && node.transport != nullptr)
        others.emplace_back(name, std::chrono::microseconds(
                                      node.transport->options().peer_timeout)
                                      .count());
  }
  for (const auto& [name, timeout] : others)
    At(timeout, [this, name = name, task, incarnation, still] {
      if (!still()) return;
      VirtualTransport* transport = nullptr;
      {
        std::lock_guard<std::mutex> lock(mu_);
        const Node& node = nodes_[name];
        if (!node.paused) transport = node.transport;
      }
      if (transport == nullptr) return;
      transport->LoseTask(
          task, incarnation,
          Unavailable("task '", task, "': expected a heartbeat, got none"));
    });
}

void VirtualNetwork::Kill(const std::string& task) {
  LoseLater(task, [] { return true; });
  std::lock_guard<std::mutex> lock(mu_);
  nodes_[task].transport = nullptr;
  nodes_[task].held.clear();
}

void VirtualNetwork::Pause(const std::string& task) {
  int64_t pauses = 0;
  {
    std::lock_guard<std::mutex> lock(mu_);
    nodes_[task].paused = true;
    pauses = ++nodes_[task].pauses;
  }
  LoseLater(task, [this, task, pauses] {
    std::lock_guard<std::mutex> lock(mu_);
    return nodes_[task].paused && nodes_[task].pauses == pauses;
  });
}

void VirtualNetwork::Resume(const std::string& task) {
  std::lock_guard<std::mutex> lock(mu_);
  Node& node = nodes_[task];
  node.paused = false;
  for (auto& packet : node.held)
    Schedule(now_us_, {std::move(packet), nullptr});
  node.held.clear();
}

void VirtualNetwork::Cut(const std::string& a, const std::string& b) {
  std::vector<std::pair<std::string, std::string>> ways = {{a, b}, {b, a}};
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& way : ways) cuts_.insert(way);
  }
  for (const auto& way : ways) {
    uint64_t incarnation = 0;
    int64_t timeout = 0;
    {
      std::lock_guard<std::mutex> lock(mu_);
      const Node& from = nodes_[way.first];
      if (from.transport == nullptr) continue;
      timeout =
          std::chrono::microseconds(from.transport->options().peer_timeout)
              .count();
      incarnation = nodes_[way.second].incarnation;
    }
    At(timeout, [this, way, incarnation] {
      VirtualTransport* transport = nullptr;
      {
        std::lock_guard<std::mutex> lock(mu_);
        if (cuts_.contains(way)) transport = nodes_[way.first].transport;
      }
      if (transport == nullptr) return;
      transport->LoseTask(way.second, incarnation,
                          Unavailable("task '", way.second,
                                      "': expected a heartbeat, got none"));
    });
  }
}

void VirtualNetwork::Heal(const std::string& a, const std::string& b) {
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& way : {std::pair(a, b), std::pair(b, a)}) {
    cuts_.erase(way);
    for (auto& packet : cut_off_[way])
      Schedule(now_us_, {std::move(packet), nullptr});
    cut_off_.erase(way);
  }
}

VirtualNetwork::Counts VirtualNetwork::counts() const {
  std::lock_guard<std::mutex> lock(mu_);
  return counts_;
}

}  // namespace sluice
