#include "cluster/transport/grpc/connection_listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kUnix[] = "unix:";
// Descriptors reserved for files, for outgoing connections, and for connections
// beyond a limit.
constexpr size_t kSpareDescriptors = 256;
constexpr size_t kMaxConnectionsByDefault = 4096;
// The hard limit on open files may be huge, which is not useful, and slow for
// programs that close every possible descriptor.
constexpr rlim_t kMaxOpenFiles = 1 << 20;
// How many connections beyond a limit may be open at once to report the refusal
// (two descriptors each), and for how long.
constexpr size_t kMaxSurplus = 32;
constexpr std::chrono::milliseconds kSurplusTime{2000};
// The interval at which the thread checks for a free descriptor.
constexpr int kRoomMs = 50;
constexpr std::chrono::seconds kWarningInterval{30};
// The kernel sends keepalive probes after a minute without traffic.
constexpr int kAliveIdleSeconds = 60, kAliveIntervalSeconds = 10,
              kAliveProbes = 3;

size_t OpenFilesLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<size_t>(std::min(limit.rlim_cur, kMaxOpenFiles));
}

// The number of descriptors that connections may use.
size_t MaxConnections() {
  const size_t files = OpenFilesLimit();
  return files > 2 * kSpareDescriptors ? files - kSpareDescriptors
                                       : std::max<size_t>(files / 2, 1);
}

std::string Why() { return std::strerror(errno); }

struct AddressInfoDeleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

void SetOption(int fd, int level, int option, int value) {
  // (An option that a kind of socket does not support is not needed there.)
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

// A socket that listens on `address`; -1 with errno set on an error.
int ListenAt(const sockaddr* address, socklen_t size) {
  const int fd =
      socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (address->sa_family != AF_UNIX) {
    SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);  // (Accepted ones inherit.)
  }
  if (address->sa_family == AF_INET6)
    SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(fd, address, size) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  const int why = errno;
  close(fd);
  errno = why;
  return -1;
}

int PortOf(int fd) {
  sockaddr_storage a{};
  socklen_t size = sizeof(a);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size) != 0) return 0;
  if (a.ss_family == AF_INET)
    return ntohs(reinterpret_cast<sockaddr_in*>(&a)->sin_port);
  if (a.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<sockaddr_in6*>(&a)->sin6_port);
  return 0;
}

// gRPC's name of a connection's peer.
std::string NameOfPeer(int fd) {
  sockaddr_storage a{};
  socklen_t size = sizeof(a);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&a), &size) != 0) return "";
  char text[INET6_ADDRSTRLEN] = "";
  if (a.ss_family == AF_INET) {
    const auto& v4 = *reinterpret_cast<sockaddr_in*>(&a);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  if (a.ss_family != AF_INET6) return kUnix;
  const auto& v6 = *reinterpret_cast<sockaddr_in6*>(&a);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  return absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(v6.sin6_port));
}

ino_t InodeOf(int fd) {
  struct stat s {};
  return fstat(fd, &s) == 0 && S_ISSOCK(s.st_mode) ? s.st_ino : 0;
}

}  // namespace

std::string PeerHost(const std::string& peer) {
  if (peer.rfind("unix", 0) == 0) return kUnix;
  return peer.substr(0, peer.rfind(':'));
}

Result<ConnectionLimits> ResolveConnectionLimits(ConnectionLimits limits) {
  const size_t most = MaxConnections();
  if (limits.total > most)
    return InvalidArgument(
        "connections: expected a limit of at most ", most, ", because ",
        OpenFilesLimit(), " files may be open (ulimit -n), got ", limits.total);
  if (limits.total == 0)
    limits.total = std::min(most, kMaxConnectionsByDefault);
  if (limits.per_peer > limits.total)
    return InvalidArgument("connections: expected a limit of at most ",
                           limits.total, ", the total, for one address, got ",
                           limits.per_peer);
  if (limits.per_peer == 0)
    limits.per_peer = std::max<size_t>(limits.total / 2, 1);
  return limits;
}

std::string RaiseOpenFilesLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  const rlim_t before = limit.rlim_cur;
  const rlim_t wanted = std::min(limit.rlim_max, kMaxOpenFiles);
  if (before >= wanted) return "";
  limit.rlim_cur = wanted;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return absl::StrCat("open files: the limit stays at ", before, ": ", Why());
  return absl::StrCat("open files: raised the limit from ", before, " to ",
                      wanted);
}

Result<int> ConnectionListener::Listen(const std::string& address) {
  const auto error = [&address] {
    return Unavailable("gRPC: expected an address to listen on, got '", address,
                       "': ", Why());
  };
  absl::string_view path = address;
  const bool abstract = absl::ConsumePrefix(&path, "unix-abstract:");
  if (abstract || absl::ConsumePrefix(&path, "unix:")) {
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    if (path.empty() || path.size() + 1 >= sizeof(a.sun_path))
      return InvalidArgument(
          "gRPC: expected the name of a unix socket of 1 to ",
          sizeof(a.sun_path) - 2, " bytes, got '", address, "'");
    std::memcpy(a.sun_path + (abstract ? 1 : 0), path.data(), path.size());
    const size_t size = offsetof(sockaddr_un, sun_path) + path.size() + 1;
    if (!abstract) {
      struct stat s {};  // (From a killed task.)
      if (lstat(a.sun_path, &s) == 0 && S_ISSOCK(s.st_mode)) unlink(a.sun_path);
    }
    const int fd =
        ListenAt(reinterpret_cast<sockaddr*>(&a), static_cast<socklen_t>(size));
    if (fd < 0) return error();
    listeners_.push_back(fd);
    if (!abstract) paths_.emplace_back(path);
    return 0;
  }
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535)
    return InvalidArgument("gRPC: expected host:port to listen on, got '",
                           address, "'");
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  // The wildcard address of either family stands for both families.
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(static_cast<uint16_t>(port));
  if (host.empty() || host == "0.0.0.0" || host == "::") {
    const int fd = ListenAt(reinterpret_cast<sockaddr*>(&any), sizeof(any));
    if (fd >= 0) {
      listeners_.push_back(fd);
      return PortOf(fd);
    }
    if (errno == EADDRINUSE) return error();
    host = "0.0.0.0";  // (Without IPv6.)
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int failed = getaddrinfo(host.c_str(), "0", &hints, &found);
      failed != 0)
    return Unavailable("gRPC: expected an address to listen on, got '", address,
                       "': ", gai_strerror(failed));
  const std::unique_ptr<addrinfo, AddressInfoDeleter> list(found);
  // Listen on all addresses of the name, with the same port.
  const size_t before = listeners_.size();
  int why = EADDRNOTAVAIL;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    if (a->ai_family == AF_INET)
      reinterpret_cast<sockaddr_in*>(a->ai_addr)->sin_port =
          htons(static_cast<uint16_t>(port));
    else if (a->ai_family == AF_INET6)
      reinterpret_cast<sockaddr_in6*>(a->ai_addr)->sin6_port =
          htons(static_cast<uint16_t>(port));
    else
      continue;
    const int fd = ListenAt(a->ai_addr, a->ai_addrlen);
    if (fd < 0) {
      why = errno;
      continue;
    }
    listeners_.push_back(fd);
    if (port == 0) port = PortOf(fd);
  }
  if (listeners_.size() > before) return port;
  errno = why;
  return error();
}

void ConnectionListener::Start(const ConnectionLimits& limits,
                               std::chrono::milliseconds silence,
                               Handler handler) {
  limits_ = limits;
  silence_ = silence;
  handler_ = std::move(handler);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { Loop(); });
}

void ConnectionListener::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    // (The thread also polls periodically, in case the write failed.)
    (void)!write(wake_, &one, sizeof(one));
    thread_.join();
    close(wake_);
  }
  for (const int fd : listeners_) close(fd);
  listeners_.clear();
  for (const std::string& path : paths_) unlink(path.c_str());
  paths_.clear();
  std::lock_guard<std::mutex> lock(mu_);
  for (const Surplus& s : surplus_) close(s.fd);
  surplus_.clear();
}

void ConnectionListener::Loop() {
  std::vector<pollfd> polled;
  for (const int fd : listeners_) polled.push_back({fd, POLLIN, 0});
  polled.push_back({wake_, POLLIN, 0});
  for (;;) {
    int next = -1;
    {
      std::lock_guard<std::mutex> lock(mu_);
      next = CloseSurplus();
    }
    if (poll(polled.data(), polled.size(), next) < 0 && errno != EINTR) {
      // (Out of memory.)
      std::this_thread::sleep_for(std::chrono::milliseconds(kRoomMs));
      continue;
    }
    if (polled.back().revents != 0) return;
    bool room = true;
    for (const pollfd& p : polled)
      if (p.revents != 0) room = AcceptOne(p.fd) && room;
    // Waiting connections are accepted as soon as there is room.
    if (!room) poll(&polled.back(), 1, kRoomMs);
  }
}

bool ConnectionListener::AcceptOne(int listener) {
  const int fd =
      accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    const int why = errno;
    if (why != EMFILE && why != ENFILE && why != ENOBUFS && why != ENOMEM)
      return true;  // It was closed, or is taken.
    const auto now = Clock::now();
    if (now - last_warning_ > kWarningInterval) {
      last_warning_ = now;
      std::fprintf(stderr,
                   "sluice: cannot accept a connection: %s (%zu are open, the "
                   "limit on open files is %zu); waiting for a free one\n",
                   std::strerror(why), num_open(), OpenFilesLimit());
    }
    return false;
  }
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kAliveIdleSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kAliveIntervalSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kAliveProbes);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
            static_cast<int>(silence_.count()));
  Socket s;
  s.fd = fd;
  s.inode = InodeOf(fd);
  s.peer = NameOfPeer(fd);
  s.host = PeerHost(s.peer);
  if (s.peer.empty()) {  // It was closed.
    close(fd);
    return true;
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (const Status why = CheckLimits(s.host); !why.ok()) {
      Surplus more;
      // (Our own descriptor: gRPC may close the other at any time, and its
      // number may then belong to another file.)
      if (s.host != kUnix && surplus_.size() < kMaxSurplus)
        more.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
      if (more.fd < 0) {
        close(fd);
        return true;
      }
      more.end = Clock::now() + kSurplusTime;
      more.peer = s.peer;
      more.why = why;
      surplus_.push_back(std::move(more));
    } else {
      // (The previous socket with this descriptor is closed.)
      if (const auto old = open_.find(fd); old != open_.end()) {
        if (--per_host_[old->second.host] == 0)
          per_host_.erase(old->second.host);
        by_peer_.erase(old->second.peer);
        open_.erase(old);
      }
      ++per_host_[s.host];
      by_peer_[s.peer] = fd;
      open_[fd] = std::move(s);
    }
  }
  handler_(fd);
  return true;
}

void ConnectionListener::ForgetClosed() {
  for (auto it = open_.begin(); it != open_.end();) {
    const Socket& s = it->second;
    if (InodeOf(s.fd) == s.inode) {
      ++it;
      continue;
    }
    if (--per_host_[s.host] == 0) per_host_.erase(s.host);
    by_peer_.erase(s.peer);
    it = open_.erase(it);
  }
}

Status ConnectionListener::CheckLimits(const std::string& host) {
  // (A process on this machine connects over TCP first and is refused there, so
  // unix sockets get a slightly higher limit.)
  const bool local = host == kUnix;
  const size_t total = limits_.total + (local ? kMaxSurplus : 0);
  const auto within = [&] {
    const auto it = per_host_.find(host);
    return open_.size() < total &&
           (local || it == per_host_.end() || it->second < limits_.per_peer);
  };
  if (within()) return OkStatus();
  ForgetClosed();
  if (within()) return OkStatus();
  const bool all = open_.size() >= total;
  return ResourceExhausted(
      "connections: expected at most ", all ? limits_.total : limits_.per_peer,
      all ? std::string(" in total") : absl::StrCat(" from ", host),
      ", got more (", all ? "--max-connections" : "--max-connections-per-peer",
      " of `sluice worker` sets the limit)");
}

int ConnectionListener::CloseSurplus() {
  const auto now = Clock::now();
  std::chrono::milliseconds next{-1};
  for (auto it = surplus_.begin(); it != surplus_.end();) {
    if (it->end <= now) {
      shutdown(it->fd, SHUT_RDWR);
      close(it->fd);
      it = surplus_.erase(it);
      continue;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(it->end - now);
    next = next.count() < 0 ? left : std::min(next, left);
    ++it;
  }
  return static_cast<int>(next.count());
}

Status ConnectionListener::Refusal(const std::string& peer) {
  std::lock_guard<std::mutex> lock(mu_);
  for (const Surplus& s : surplus_)
    if (s.peer == peer) return s.why;
  return OkStatus();
}

bool ConnectionListener::IsOpen(const std::string& peer) {
  if (PeerHost(peer) == kUnix) return true;
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = by_peer_.find(peer);
  if (it == by_peer_.end()) return false;
  const Socket& s = open_[it->second];
  return InodeOf(s.fd) == s.inode;
}

size_t ConnectionListener::num_open() {
  std::lock_guard<std::mutex> lock(mu_);
  ForgetClosed();
  return open_.size();
}

}  // namespace sluice
