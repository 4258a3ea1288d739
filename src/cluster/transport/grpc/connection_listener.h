// ConnectionListener: accepts the connections of a task, within limits.
//
// gRPC (1.51) closes its listening socket permanently when one accept fails,
// for example because no file descriptor is free, and has no limit on
// connections before that. So a task listens itself and passes the accepted
// connections to gRPC.
#ifndef SLUICE_CLUSTER_TRANSPORT_GRPC_CONNECTION_LISTENER_H_
#define SLUICE_CLUSTER_TRANSPORT_GRPC_CONNECTION_LISTENER_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"

namespace sluice {

// 0: chosen by the listener from the process's limit on open files.
struct ConnectionLimits {
  size_t total = 0;
  size_t per_peer = 0;  // From one address; 0: half of `total`.
};

// InvalidArgument if `limits` exceed the number of files that the process may
// open; else `limits` with every 0 replaced.
Result<ConnectionLimits> ResolveConnectionLimits(ConnectionLimits limits);

// Raises the process's soft limit on open files to the hard limit. Returns a
// description of the change, "" if there was none.
std::string RaiseOpenFilesLimit();

// The peer's address without the port, from gRPC's name of a connection
// ("ipv4:10.0.0.1:4242").
std::string PeerHost(const std::string& peer);

// Accepts connections within limits. So that a refused peer learns why, a few
// connections beyond a limit are passed on and closed shortly afterwards;
// Refusal() returns the error to answer them with. Thread-safe.
class ConnectionListener {
 public:
  // Takes ownership of an accepted, non-blocking socket.
  using Handler = std::function<void(int fd)>;

  ConnectionListener() = default;
  ~ConnectionListener() { Stop(); }
  ConnectionListener(const ConnectionListener&) = delete;
  ConnectionListener& operator=(const ConnectionListener&) = delete;

  // "host:port", "unix:PATH" or "unix-abstract:NAME". Port 0: any free port.
  // Returns the port, or 0 for a unix socket. Called before Start.
  Result<int> Listen(const std::string& address);
  // `silence`: the system closes a connection after a packet has been
  // unacknowledged for this long.
  void Start(const ConnectionLimits& limits, std::chrono::milliseconds silence,
             Handler handler);
  // After it returns no connection is accepted and `handler` is not called.
  void Stop();

  // The error for calls on a connection beyond a limit, by gRPC's name of the
  // connection; OK for the others.
  Status Refusal(const std::string& peer);
  // Whether a connection is still open. Always true for unix sockets, whose
  // names are not unique.
  bool IsOpen(const std::string& peer);
  size_t num_open();

 private:
  // Distinguishes a socket from a later one with the same descriptor.
  struct Socket {
    int fd = -1;
    ino_t inode = 0;
    std::string peer, host;
  };
  // A connection beyond a limit, to be closed at `end` through our own
  // descriptor.
  struct Surplus {
    int fd = -1;
    std::chrono::steady_clock::time_point end;
    std::string peer;
    Status why;
  };

  void Loop();
  // False if no connection was waiting, or there was no descriptor for it.
  bool AcceptOne(int listener);
  // REQUIRES for the rest: mu_ held.
  void ForgetClosed();
  Status CheckLimits(const std::string& host);
  int CloseSurplus();  // Milliseconds until the next is due, -1 if none.

  std::vector<int> listeners_;      // Constant after Start.
  std::vector<std::string> paths_;  // Unix sockets; removed by Stop.
  ConnectionLimits limits_;
  std::chrono::milliseconds silence_{0};
  Handler handler_;
  int wake_ = -1;  // An eventfd that stops the thread.
  std::thread thread_;
  std::chrono::steady_clock::time_point last_warning_;  // Used by the thread
                                                        // only.

  std::mutex mu_;
  std::map<int, Socket> open_;              // GUARDED_BY(mu_): by descriptor.
  std::map<std::string, size_t> per_host_;  // GUARDED_BY(mu_)
  std::map<std::string, int> by_peer_;      // GUARDED_BY(mu_)
  std::vector<Surplus> surplus_;            // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_GRPC_CONNECTION_LISTENER_H_
