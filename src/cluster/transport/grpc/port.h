// GrpcPort: one task's use of gRPC: the address on which it receives calls, one
// completion queue for incoming and outgoing calls, and the threads that poll
// it.
#ifndef SLUICE_CLUSTER_TRANSPORT_GRPC_PORT_H_
#define SLUICE_CLUSTER_TRANSPORT_GRPC_PORT_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/transport/grpc/connection_listener.h"
#include "cluster/transport/grpc/credentials.h"
#include "cluster/transport/reader_team.h"

namespace sluice {

// The object behind a completion queue's tag: one gRPC operation, or one kind
// of operation of an object that has at most one of each kind pending. Owned by
// the object that started the operation; must stay alive until Done.
class GrpcEvent {
 public:
  virtual ~GrpcEvent() = default;
  virtual void Done(bool ok) = 0;
  // The tag to start the operation with. (What this thread did before
  // happens-before the event's handling. gRPC guarantees this, but in a way
  // that ThreadSanitizer cannot see, so this adds a release/acquire pair.)
  void* Tag() {
    begun_.fetch_add(1, std::memory_order_release);
    return this;
  }
  static GrpcEvent* OfTag(void* tag) {
    (void)begun_.load(std::memory_order_acquire);
    return static_cast<GrpcEvent*>(tag);
  }

 private:
  static std::atomic<uint64_t> begun_;
};

// An event that calls a method.
template <typename T>
class GrpcMethodEvent final : public GrpcEvent {
 public:
  GrpcMethodEvent(T* object, void (T::*method)(bool))
      : object_(object), method_(method) {}
  void Done(bool ok) override { (object_->*method_)(ok); }

 private:
  T* const object_;
  void (T::*const method_)(bool);
};

// An event for a single operation, which keeps alive what `fn` captures.
class GrpcOneEvent final : public GrpcEvent {
 public:
  // Returns the tag of an event that deletes itself when done.
  static void* Of(std::function<void(bool)> fn) {
    return (new GrpcOneEvent(std::move(fn)))->Tag();
  }
  void Done(bool ok) override {
    fn_(ok);
    delete this;
  }

 private:
  explicit GrpcOneEvent(std::function<void(bool)> fn) : fn_(std::move(fn)) {}
  const std::function<void(bool)> fn_;
};

// An incoming call, of any method.
struct GrpcCall {
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter io{&context};
};

struct GrpcPortOptions {
  std::string listen;  // "host:port", port 0 for any; "": no calls come in.
  TlsFiles tls;
  bool plain_beyond_loopback = false;
  std::chrono::milliseconds peer_timeout{5000};
  int64_t max_message_bytes = INT32_MAX;  // Received ones.
  ConnectionLimits connections;
};

// One thread polls and handles events. gRPC hands events between pollers
// whenever it can, so a second one, even if idle, costs each message two thread
// switches. For the same reason this uses neither gRPC's synchronous server nor
// its callback API. Thread-safe.
class GrpcPort {
 public:
  // Runs on the polling thread and must not block.
  using Handler = std::function<void(std::unique_ptr<GrpcCall>)>;

  GrpcPort() = default;
  ~GrpcPort() { Stop(); }
  GrpcPort(const GrpcPort&) = delete;
  GrpcPort& operator=(const GrpcPort&) = delete;

  Status Open(const GrpcPortOptions& options);
  // Handles the calls whose method begins with `prefix`. Called before Serve.
  void Handle(const std::string& prefix, Handler handler);
  void Serve();
  // Cancels incoming calls that do not end soon, and waits for them and for the
  // threads. REQUIRES: outgoing calls have ended.
  void Stop();
  // Called on the polling thread, within an event: handles `event` after the
  // events that have already arrived, or when those take long. Used for reads:
  // at each read gRPC (1.51) updates the peer's flow-control window with a
  // separate write, unless another write went out since the message was read.
  void Defer(GrpcEvent* event);
  // Whether the connection of an incoming call is still open, by gRPC's name of
  // the peer. (Always true for unix sockets.)
  bool IsConnected(const std::string& peer) { return listener_.IsOpen(peer); }

  // Also used by outgoing calls. Valid after Open.
  grpc::CompletionQueue* queue() { return queue_.get(); }
  // Valid after Open: "host:port", and the faster address for processes on this
  // machine, if there is one.
  const std::string& address() const { return address_; }
  const std::string& local_address() const { return local_address_; }

 private:
  class Waiting;
  void Accept(std::unique_ptr<GrpcCall> call);
  void Read(ReaderTeam::Turn& turn);
  // Called by the reading thread.
  void RunDeferred();

  std::map<std::string, Handler> handlers_;  // Constant after Serve.
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::CompletionQueue> queue_;
  grpc::ServerCompletionQueue* calls_ = nullptr;  // queue_, with a server.
  std::unique_ptr<grpc::Server> server_;
  // Passes accepted connections to the server.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  ConnectionListener listener_;
  ConnectionLimits connections_;
  std::chrono::milliseconds silence_{0};
  std::string address_, local_address_;
  bool serving_ = false;
  std::mutex deferred_mu_;
  std::vector<GrpcEvent*> deferred_;  // GUARDED_BY(deferred_mu_)
  std::thread::id reader_;            // GUARDED_BY(deferred_mu_)
  ReaderTeam team_;
};

// The best way to call `address` from here. `address` is "host:port" or a
// result of PublicAddress.
std::string BestAddress(const std::string& address, const TlsFiles& tls);
// A port's address in the form that BestAddress takes.
std::string PublicAddress(const std::string& host_port, const GrpcPort& port);
// The RingMailbox of the task at `address` (a result of PublicAddress); "" if
// the task is on another machine or does not use shared memory.
std::string RingMailboxAt(const std::string& address);
// The settings common to all channels.
grpc::ChannelArguments CommonChannelArguments(const TlsFiles& tls);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_GRPC_PORT_H_
