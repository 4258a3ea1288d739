// GrpcPort: gRPC as one task uses it: the address where others call it, one
// completion queue for these calls and its own, and the threads that poll it.
#ifndef SLUICE_DIST_GRPC_PORT_H_
#define SLUICE_DIST_GRPC_PORT_H_

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

#include "dist/connection_listener.h"
#include "dist/grpc_credentials.h"
#include "dist/reader_team.h"

namespace sluice {

// What a completion queue's tag points to: one operation of gRPC's, or the kind
// of operation of an object that has one of each kind under way at most. Owned
// by whoever began the operation, and alive until Done.
class GrpcEvent {
 public:
  virtual ~GrpcEvent() = default;
  virtual void Done(bool ok) = 0;
  // To begin the operation with. (What this thread did before is known to the
  // one that sees the event. gRPC sees to that, but not so that ThreadSanitizer
  // would: so here it is said once more.)
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

// The event that calls a method.
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

// The event of one operation, which keeps alive what `fn` refers to.
class GrpcOneEvent final : public GrpcEvent {
 public:
  // For the operation that takes it as its tag; deletes itself.
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

// A call that came, of any method.
struct GrpcCall {
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter io{&context};
};

struct GrpcPortOptions {
  std::string listen;  // "host:port", port 0 for any; "": nobody calls us.
  TlsFiles tls;
  bool plain_beyond_loopback = false;
  std::chrono::milliseconds peer_timeout{5000};
  int64_t max_message_bytes = INT32_MAX;  // Of those that come.
  ConnectionLimits connections;
};

// One thread polls and does what comes: gRPC hands events from one poller to
// another at each chance, so a second, be it idle, costs every message two
// changes of threads. For the same reason nothing here uses gRPC's own servers
// of blocking calls, nor its callbacks. Thread-safe.
class GrpcPort {
 public:
  // Runs on the thread that polls: what blocks goes elsewhere.
  using Handler = std::function<void(std::unique_ptr<GrpcCall>)>;

  GrpcPort() = default;
  ~GrpcPort() { Stop(); }
  GrpcPort(const GrpcPort&) = delete;
  GrpcPort& operator=(const GrpcPort&) = delete;

  Status Open(const GrpcPortOptions& options);
  // Takes the calls whose method begins with `prefix`. Before Serve.
  void Handle(const std::string& prefix, Handler handler);
  void Serve();
  // Cancels the calls that others made and that do not end soon, and waits for
  // them and for the threads. Before it, our own calls have ended.
  void Stop();
  // Of the thread that polls, in one of its events: does `event` once whatever
  // has come is dealt with, or that takes long. For reads: at each, gRPC (1.51)
  // tells the peer that it may send more, by a write of its own, unless one
  // went out since the message was read.
  void Later(GrpcEvent* event);
  // Whether the connection that a call came by is still there, by the name that
  // gRPC gives to its peer. (That of a unix socket always is.)
  bool IsConnected(const std::string& peer) { return listener_.IsOpen(peer); }

  // Of our own calls too. After Open.
  grpc::CompletionQueue* queue() { return queue_.get(); }
  // After Open: "host:port", and, where processes of this machine have a
  // shorter way to it, which.
  const std::string& address() const { return address_; }
  const std::string& local_address() const { return local_address_; }

 private:
  class Waiting;
  void Accept(std::unique_ptr<GrpcCall> call);
  void Read(ReaderTeam::Turn& turn);
  // The calling thread is the one that reads.
  void DoLater();

  std::map<std::string, Handler> handlers_;  // Constant after Serve.
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::CompletionQueue> queue_;
  grpc::ServerCompletionQueue* calls_ = nullptr;  // The same, with a server.
  std::unique_ptr<grpc::Server> server_;
  // Gives the server its connections.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  ConnectionListener listener_;
  ConnectionLimits connections_;
  std::chrono::milliseconds silence_{0};
  std::string address_, local_address_;
  bool serving_ = false;
  std::mutex later_mu_;
  std::vector<GrpcEvent*> later_;  // GUARDED_BY(later_mu_)
  std::thread::id reader_;         // GUARDED_BY(later_mu_)
  ReaderTeam team_;
};

// Where `address`, "host:port" or that and what PublicAddress added, is best
// called from here.
std::string BestAddress(const std::string& address, const TlsFiles& tls);
// What BestAddress takes for a port's address.
std::string PublicAddress(const std::string& host_port, const GrpcPort& port);
// Where files of memory are passed to the task at `address`, of the same kind;
// "" if it is not on this machine or takes none.
std::string RingMailboxAt(const std::string& address);
// What all our channels have in common.
grpc::ChannelArguments CommonChannelArguments(const TlsFiles& tls);

}  // namespace sluice

#endif  // SLUICE_DIST_GRPC_PORT_H_
