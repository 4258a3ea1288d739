// ConnectionListener: accepts the connections of a task, within limits.
//
// gRPC (1.51) closes its listening socket for good when one accept fails, as it
// does for want of a file descriptor, and accepts without bounds until then. So
// a task listens itself and gives gRPC the connections that it accepted.
#ifndef SLUICE_DIST_CONNECTION_LISTENER_H_
#define SLUICE_DIST_CONNECTION_LISTENER_H_

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

// 0: chosen by the listener from the descriptors that the process may have.
struct ConnectionLimits {
  size_t total = 0;
  size_t per_peer = 0;  // Of one address; 0: half of `total`.
};

// InvalidArgument if `limits` ask for more than the process may open; else the
// same with every limit chosen.
Result<ConnectionLimits> ResolveConnectionLimits(ConnectionLimits limits);

// Raises the limit of open files of the process to what it may have at most.
// What was done, in words; "" if there was nothing to do.
std::string RaiseOpenFilesLimit();

// The address of the peer without the port, by gRPC's name of a connection
// ("ipv4:10.0.0.1:4242").
std::string PeerHost(const std::string& peer);

// A connection beyond a limit is not cut off at once: so that its peer can be
// told why, a few are handed on and closed a moment later; Refusal() says what
// to answer there. Thread-safe.
class ConnectionListener {
 public:
  // Takes over an accepted socket, which does not block.
  using Handler = std::function<void(int fd)>;

  ConnectionListener() = default;
  ~ConnectionListener() { Stop(); }
  ConnectionListener(const ConnectionListener&) = delete;
  ConnectionListener& operator=(const ConnectionListener&) = delete;

  // "host:port", "unix:PATH" or "unix-abstract:NAME". Port 0: a free one. The
  // port, or 0 for a unix socket. Before Start.
  Result<int> Listen(const std::string& address);
  // `silence`: after so long without an answer to a packet the system ends a
  // connection.
  void Start(const ConnectionLimits& limits, std::chrono::milliseconds silence,
             Handler handler);
  // No connection is accepted, nor `handler` called, after it.
  void Stop();

  // What to answer to the calls of a connection that is beyond a limit, by
  // gRPC's name of it; OK for others.
  Status Refusal(const std::string& peer);
  // Whether a connection is still open. True for those whose names do not tell
  // them apart (of unix sockets).
  bool IsOpen(const std::string& peer);
  size_t num_open();

 private:
  // Tells a socket from a later one with the same number.
  struct Socket {
    int fd = -1;
    ino_t inode = 0;
    std::string peer, host;
  };
  // One that is closed at `end`, by a descriptor of our own.
  struct Surplus {
    int fd = -1;
    std::chrono::steady_clock::time_point end;
    std::string peer;
    Status why;
  };

  void Loop();
  // False if there was none, or no room for it.
  bool AcceptOne(int listener);
  // REQUIRES for the rest: mu_ held.
  void ForgetClosed();
  Status CheckLimits(const std::string& host);
  int CloseSurplus();  // Milliseconds until the next is due; -1: none is left.

  std::vector<int> listeners_;      // Constant after Start.
  std::vector<std::string> paths_;  // Of unix sockets, removed in the end.
  ConnectionLimits limits_;
  std::chrono::milliseconds silence_{0};
  Handler handler_;
  int wake_ = -1;  // An eventfd: the thread is to end.
  std::thread thread_;
  std::chrono::steady_clock::time_point complained_;  // The thread's.

  std::mutex mu_;
  std::map<int, Socket> open_;              // GUARDED_BY(mu_): by descriptor.
  std::map<std::string, size_t> per_host_;  // GUARDED_BY(mu_)
  std::map<std::string, int> by_peer_;      // GUARDED_BY(mu_)
  std::vector<Surplus> surplus_;            // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_DIST_CONNECTION_LISTENER_H_
