#include "cluster/transport/ucx/transport.h"

#if SLUICE_HAVE_UCX

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "cluster/transport/host_id.h"
#include "cluster/transport/ucx/link.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t UcxHost() {
  static const uint64_t id = HostId({"ipc", "pid"});
  return id;
}

}  // namespace

bool UcxTransport::GoodAddress(std::string_view address) {
  UcxAddressHeader header;
  if (address.size() <= sizeof(header) || address.size() > 65536) return false;
  std::memcpy(&header, address.data(), sizeof(header));
  return header.checksum == Checksum(address.substr(8));
}

int UcxTransport::LocalPid(std::string_view address) const {
  UcxAddressHeader header;
  std::memcpy(&header, address.data(), sizeof(header));
  const std::string& tls = ucx_options_.tls;
  const bool shares = tls.empty() || tls.find("sysv") != tls.npos ||
                      tls.find("posix") != tls.npos;
  return shares && header.host == UcxHost() ? static_cast<int>(header.pid) : 0;
}

Status UcxTransport::StartNetwork() {
  ucp_config_t* config = nullptr;
  ucs_status_t s = ucp_config_read(nullptr, nullptr, &config);
  if (s != UCS_OK) return FromUcs(s, "configuration");
  const auto set = [&](const char* name, const std::string& value) {
    if (s == UCS_OK && !value.empty())
      s = ucp_config_modify(config, name, value.c_str());
  };
  // Single copy through /proc/PID/mem (CMA) needs a permission that containers
  // often lack; it is used where it works.
  if (!ucx_options_.tls.empty()) {
    set("TLS", ucx_options_.tls);
  } else if (std::getenv("UCX_TLS") == nullptr) {
    set("TLS", "tcp,posix,sysv,cma,self");
  }
  // Only `devices` allows plain text beyond loopback; the environment only
  // selects the networks.
  if (ucx_options_.devices != "all") set("NET_DEVICES", ucx_options_.devices);
  if (std::getenv("UCX_WARN_UNUSED_ENV_VARS") == nullptr)
    set("WARN_UNUSED_ENV_VARS", "n");
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "sluice";
  if (s == UCS_OK) s = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  if (s != UCS_OK) return FromUcs(s, "initialisation");

  ucp_worker_params_t worker = {};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  std::lock_guard<std::mutex> lock(worker_mu_);
  s = ucp_worker_create(context_, &worker, &worker_);
  if (s != UCS_OK) return FromUcs(s, "worker");
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                       UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kUcxMessageId;
  handler.cb = &OnMessage;
  handler.arg = this;
  s = ucp_worker_set_am_recv_handler(worker_, &handler);
  if (s == UCS_OK) s = ucp_worker_get_efd(worker_, &event_fd_);
  if (s != UCS_OK) return FromUcs(s, "worker");
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ucp_address_t* address = nullptr;
  size_t size = 0;
  s = ucp_worker_get_address(worker_, &address, &size);
  if (s != UCS_OK) return FromUcs(s, "address");
  const std::string_view bytes(reinterpret_cast<const char*>(address), size);
  UcxAddressHeader header;
  header.host = UcxHost();
  header.pid = static_cast<uint64_t>(getpid());
  address_.assign(reinterpret_cast<const char*>(&header), sizeof(header));
  address_ += bytes;
  header.checksum = Checksum(std::string_view(address_).substr(8));
  std::memcpy(address_.data(), &header, 8);
  ucp_worker_release_address(worker_, address);
  team_.Start([this](ReaderTeam::Turn& turn) { Read(turn); });
  return OkStatus();
}

void UcxTransport::StopNetwork() {
  stop_.store(true);
  Wake();
  team_.Stop();
  std::lock_guard<std::mutex> lock(worker_mu_);
  // Wait briefly for close messages and endpoint closes.
  const auto deadline = Clock::now() + std::chrono::milliseconds(500);
  for (int idle = 0; worker_ != nullptr && Clock::now() < deadline &&
                     (operations_ > 0 || idle < 20);) {
    if (ucp_worker_progress(worker_) != 0) continue;
    sched_yield();
    ++idle;
  }
  incoming_.clear();
  ready_.clear();
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  worker_ = nullptr;
  // Sends to peers that do not answer never complete.
  for (SendOp* op : sends_) delete op;
  for (ReceiveOp* op : receives_) delete op;
  sends_.clear();
  receives_.clear();
  if (context_ != nullptr) ucp_cleanup(context_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

Result<ucp_ep_h> UcxTransport::MakeEndpoint(std::string_view address,
                                            void* user) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(
      address.data() + sizeof(UcxAddressHeader));
  // UCX uses shared memory only without failure reporting; the heartbeat
  // detects failures instead.
  params.err_mode = LocalPid(address) != 0 ? UCP_ERR_HANDLING_MODE_NONE
                                           : UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* arg, ucp_ep_h, ucs_status_t s) {
    if (arg == nullptr) return;
    auto* link = static_cast<UcxLink*>(arg);
    link->transport_->Fail(
        link, Unavailable(link->Describe(),
                          ": the connection broke: ", ucs_status_string(s)));
  };
  params.err_handler.arg = user;
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t s = ucp_ep_create(worker_, &params, &endpoint);
  if (s != UCS_OK) return FromUcs(s, "connection");
  return endpoint;
}

bool UcxTransport::EnsureEndpoint(UcxLink* link) {
  if (link->endpoint_ != nullptr) return true;
  if (stop_.load() || link->lost.load()) return false;
  Result<ucp_ep_h> endpoint = MakeEndpoint(link->address_, link);
  if (!endpoint.ok()) {
    Fail(link, Annotate(endpoint.status(), link->Describe()));
    return false;
  }
  link->endpoint_ = *endpoint;
  return true;
}

void UcxTransport::Fail(UcxLink* link, const Status& why) { Lose(link, why); }

void UcxTransport::CloseEndpoint(ucp_ep_h endpoint) {
  ucp_request_param_t param = {};
  // Flush mode: messages sent before still go out if possible.
  const ucs_status_ptr_t r = ucp_ep_close_nbx(endpoint, &param);
  // (The result is not needed.)
  if (UCS_PTR_IS_PTR(r)) ucp_request_free(r);
}

void UcxTransport::SendBare(ucp_ep_h endpoint, const UcxEnvelope& envelope) {
  auto* op = new SendOp{
      this,
      nullptr,
      std::string(reinterpret_cast<const char*>(&envelope), sizeof(envelope)),
      {}};
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = [](void* request, ucs_status_t, void* user) {
    auto* done = static_cast<SendOp*>(user);
    --done->transport->operations_;
    done->transport->sends_.erase(done);
    delete done;
    ucp_request_free(request);
  };
  param.user_data = op;
  const ucs_status_ptr_t r =
      ucp_am_send_nbx(endpoint, kUcxMessageId, op->header.data(),
                      op->header.size(), nullptr, 0, &param);
  if (UCS_PTR_IS_PTR(r)) {
    ++operations_;
    sends_.insert(op);
  } else {
    delete op;
  }
}

void UcxTransport::Send(UcxLink* link, UcxEnvelope envelope,
                        OutgoingFrame frame) {
  auto* op =
      new SendOp{this,
                 std::static_pointer_cast<UcxLink>(link->shared_from_this()),
                 {},
                 std::move(frame)};
  std::string_view data = op->frame.bytes;
  int64_t bytes = static_cast<int64_t>(data.size());
  link->counters->frames_sent.fetch_add(1, std::memory_order_relaxed);
  link->counters->tokens_sent.fetch_add(op->frame.tokens,
                                        std::memory_order_relaxed);
  envelope.kind =
      op->frame.bodies.empty() ? UcxEnvelope::kFrame : UcxEnvelope::kBody;
  op->header.assign(reinterpret_cast<const char*>(&envelope), sizeof(envelope));
  if (!op->frame.bodies.empty()) {
    op->header += op->frame.bytes;
    data = op->frame.bodies[0].bytes();
    bytes += static_cast<int64_t>(data.size());
  }
  link->counters->bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = [](void* request, ucs_status_t s, void* user) {
    auto* done = static_cast<SendOp*>(user);
    --done->transport->operations_;
    done->transport->sends_.erase(done);
    size_t& under_way = done->link->under_way_;
    const bool full = under_way >= kUcxWindow;
    under_way -= done->bytes();
    if (full && under_way < kUcxWindow) done->transport->SendLater(done->link);
    if (s != UCS_OK)
      done->transport->Fail(
          done->link.get(),
          Unavailable(done->link->Describe(),
                      ": the connection broke: ", ucs_status_string(s)));
    delete done;
    ucp_request_free(request);
  };
  param.user_data = op;
  const ucs_status_ptr_t r =
      ucp_am_send_nbx(link->endpoint_, kUcxMessageId, op->header.data(),
                      op->header.size(), data.data(), data.size(), &param);
  if (UCS_PTR_IS_PTR(r)) {
    ++operations_;
    sends_.insert(op);
    link->under_way_ += op->bytes();
    return;
  }
  if (UCS_PTR_IS_ERR(r))
    Fail(link, Unavailable(link->Describe(), ": the connection broke: ",
                           ucs_status_string(UCS_PTR_STATUS(r))));
  delete op;
}

void UcxTransport::FlushLink(UcxLink* link, size_t window) {
  if (!EnsureEndpoint(link)) return;
  UcxEnvelope envelope;
  envelope.from = incarnation();
  envelope.connection = link->connection_;
  envelope.answers = link->answers_;
  while (link->under_way_ < window) {
    OutgoingFrame frame;
    {
      std::lock_guard<std::mutex> lock(link->mu_);
      if (link->closed_) return;
      if (link->frames_.empty()) {
        if (link->writer_.empty()) return;
        frame = link->writer_.Take();
      } else {
        frame = std::move(link->frames_.front());
        link->frames_.pop_front();
      }
    }
    envelope.to = link->incarnation.load();
    Send(link, envelope, std::move(frame));
  }
}

void UcxTransport::SendQueued(const std::shared_ptr<UcxLink>& link) {
  if (worker_mu_.try_lock()) {
    if (worker_ != nullptr) FlushLink(link.get());
    const bool pending = link->under_way_ > 0;
    worker_mu_.unlock();
    // Other threads may have failed to get the lock meanwhile.
    if (pending || has_dirty_.load()) Wake();
    return;
  }
  SendLater(link);
  Wake();
}

void UcxTransport::SendLater(std::shared_ptr<UcxLink> link) {
  {
    std::lock_guard<std::mutex> lock(dirty_mu_);
    dirty_.push_back(std::move(link));
  }
  has_dirty_.store(true);
}

void UcxTransport::Wake() {
  if (!sleeping_.load() || !sleeping_.exchange(false)) return;
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

void UcxTransport::Ready(const std::shared_ptr<UcxLink>& link) {
  if (std::exchange(link->ready_, true)) return;
  ready_.push_back(link);
}

bool UcxTransport::Turn() {
  std::vector<std::shared_ptr<UcxLink>> ready;
  bool busy = false;
  {
    std::lock_guard<std::mutex> lock(worker_mu_);
    if (has_dirty_.exchange(false)) {
      std::vector<std::shared_ptr<UcxLink>> dirty;
      {
        std::lock_guard<std::mutex> dirty_lock(dirty_mu_);
        dirty.swap(dirty_);
      }
      for (const auto& link : dirty) FlushLink(link.get());
      busy = true;
    }
    while (ready_.empty() && ucp_worker_progress(worker_) != 0) busy = true;
    ready.swap(ready_);
    for (const auto& link : ready) link->ready_ = false;
  }
  if (ready.empty()) return busy;
  for (const auto& link : ready)
    link->counters->tokens_received.fetch_add(
        link->inbox.Drain(link->handler, link->id), std::memory_order_relaxed);
  return true;
}

void UcxTransport::Read(ReaderTeam::Turn& turn) {
  const bool yields = std::thread::hardware_concurrency() < 8;
  auto last = Clock::now();
  while (!stop_.load(std::memory_order_relaxed)) {
    bool busy = false;
    if (!turn.Do([&] { busy = Turn(); })) return;
    if (busy) {
      last = Clock::now();
      continue;
    }
    if (Clock::now() - last < ucx_options_.spin) {
      if (yields) sched_yield();
      continue;
    }
    sleeping_.store(true);
    {
      std::lock_guard<std::mutex> lock(worker_mu_);
      if (has_dirty_.load() || stop_.load() ||
          ucp_worker_arm(worker_) != UCS_OK) {
        sleeping_.store(false);
        last = Clock::now();
        continue;
      }
    }
    pollfd fds[] = {{event_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    if (sleeping_.load()) (void)poll(fds, 2, -1);
    sleeping_.store(false);
    uint64_t count;
    (void)!read(wake_fd_, &count, sizeof(count));
    last = Clock::now();
  }
}

bool HaveUcx() { return true; }

std::unique_ptr<Transport> MakeUcxTransport(UcxTransportOptions options) {
  return std::make_unique<UcxTransport>(std::move(options));
}

}  // namespace sluice

#else

namespace sluice {
bool HaveUcx() { return false; }
std::unique_ptr<Transport> MakeUcxTransport(UcxTransportOptions) {
  return nullptr;
}
}  // namespace sluice

#endif
