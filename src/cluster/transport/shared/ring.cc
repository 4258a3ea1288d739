#include "cluster/transport/shared/ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>
#include <random>

namespace sluice {
namespace {

static_assert(std::atomic<uint32_t>::is_always_lock_free &&
              std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(RingHeader) <= 4096);

// Set in `waiting`, together with the number in the lower half.
constexpr uint64_t kWaits = uint64_t{1} << 32;
// The maximum number of files that wait for Take.
constexpr size_t kMaxArrivedFiles = 64;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Status Failed(const char* what) {
  return Unavailable("shared memory: ", what, ": ", std::strerror(errno));
}

// False if the name is too long.
bool AbstractName(const std::string& name, sockaddr_un* address,
                  socklen_t* size) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof(address->sun_path)) return false;
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  *size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return true;
}

// Space for a file descriptor and the sender's credentials.
union Attached {
  char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))];
  cmsghdr align;
};

// True if a has reached b; both counters may have wrapped around.
bool Reached(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a - b) >= 0;
}

}  // namespace

RingToken NewRingToken() {
  std::random_device random;
  RingToken token;
  for (uint64_t& t : token) t = (uint64_t{random()} << 32) | random();
  return token;
}

Result<std::unique_ptr<RingWriter>> RingWriter::Make(int* fd) {
  const int file = memfd_create("sluice-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return Failed("memfd_create");
  // (Allocates now, so that lack of memory is an error here and not SIGBUS
  // later.)
  void* at = MAP_FAILED;
  const char* what = "fallocate";
  if (fallocate(file, 0, 0, RingHeader::kBytes) == 0) {
    what = "seals";
    if (fcntl(file, F_ADD_SEALS, kSeals) == 0) {
      what = "mmap";
      at = mmap(nullptr, RingHeader::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                file, 0);
    }
  }
  if (at == MAP_FAILED) {
    const Status s = Failed(what);
    close(file);
    return s;
  }
  new (at) RingHeader();
  *fd = file;
  return std::unique_ptr<RingWriter>(new RingWriter(at));
}

RingWriter::~RingWriter() { munmap(at_, RingHeader::kBytes); }

bool RingWriter::accepted() const {
  return header()->accepted.load(std::memory_order_acquire) != 0;
}

size_t RingWriter::Put(std::string_view bytes) {
  RingHeader* const h = header();
  const auto full = [&] { return put_ - h->taken.load() >= h->kPieces; };
  if (full()) {
    const uint32_t half = put_ - h->kPieces / 2;
    h->waiting.store(kWaits | half);
    // (Either we see the receiver's progress, or the receiver sees that we
    // wait.)
    if (!Reached(h->taken.load(), half) || full()) return 0;
    h->waiting.store(0);
  }
  const size_t n = std::min(bytes.size(), h->kPiece);
  std::memcpy(at_ + 4096 + put_ % h->kPieces * h->kPiece, bytes.data(), n);
  ++put_;
  return n;
}

Result<std::unique_ptr<RingReader>> RingReader::Map(int fd) {
  struct stat file = {};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &file) != 0 ||
      file.st_size != static_cast<off_t>(RingHeader::kBytes))
    return InvalidArgument("shared memory: expected ", RingHeader::kBytes,
                           " bytes that cannot shrink, got ", file.st_size,
                           " with seals ", seals);
  void* const at = mmap(nullptr, RingHeader::kBytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return Failed("mmap");
  std::unique_ptr<RingReader> reader(new RingReader(at));
  reader->header()->accepted.store(1, std::memory_order_release);
  return reader;
}

RingReader::~RingReader() { munmap(at_, RingHeader::kBytes); }

std::string_view RingReader::Next() const {
  return {at_ + 4096 + taken_ % RingHeader::kPieces * RingHeader::kPiece,
          RingHeader::kPiece};
}

bool RingReader::Done() {
  RingHeader* const h = header();
  h->taken.store(++taken_);
  uint64_t waits = h->waiting.load();
  return waits != 0 && Reached(taken_, static_cast<uint32_t>(waits)) &&
         h->waiting.compare_exchange_strong(waits, 0);
}

Status RingMailbox::Open(const std::string& name) {
  const int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s < 0) return Failed("socket");
  const int on = 1;
  sockaddr_un address;
  socklen_t size = 0;
  // (Before bind: else the first message might arrive without credentials.)
  if (!name.empty() &&
      (!AbstractName(name, &address, &size) ||
       setsockopt(s, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0 ||
       bind(s, reinterpret_cast<sockaddr*>(&address), size) != 0)) {
    const Status failed = Failed("mailbox");
    close(s);
    return failed;
  }
  std::lock_guard<std::mutex> lock(mu_);
  socket_ = s;
  return OkStatus();
}

void RingMailbox::Close() {
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [token, fd] : arrived_) close(fd);
  arrived_.clear();
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

Status RingMailbox::Send(const std::string& name, const RingToken& token,
                         int fd) {
  sockaddr_un address;
  socklen_t size = 0;
  if (!AbstractName(name, &address, &size))
    return InvalidArgument("shared memory: expected a name of a mailbox, got ",
                           name.size(), " bytes");
  iovec bytes = {const_cast<uint64_t*>(token.data()), sizeof(token)};
  Attached attached = {};
  msghdr message = {};
  message.msg_name = &address;
  message.msg_namelen = size;
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = attached.bytes;
  message.msg_controllen = CMSG_SPACE(sizeof(int));
  cmsghdr* const c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(c), &fd, sizeof(int));
  std::lock_guard<std::mutex> lock(mu_);
  if (sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
      static_cast<ssize_t>(sizeof(token)))
    return OkStatus();
  if (errno == EAGAIN || errno == ENOBUFS)
    return ResourceExhausted("shared memory: the mailbox is full");
  return Failed("mailbox");
}

int RingMailbox::Take(const RingToken& token) {
  std::lock_guard<std::mutex> lock(mu_);
  // (Bounded, so that senders cannot keep us here forever.)
  for (size_t i = 0; socket_ >= 0 && i < 4 * kMaxArrivedFiles; ++i) {
    RingToken of;
    iovec bytes = {of.data(), sizeof(of)};
    Attached attached;
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = attached.bytes;
    message.msg_controllen = sizeof(attached.bytes);
    const ssize_t n =
        recvmsg(socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) break;
    int fd = -1;
    bool ours = false;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr;
         c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET) continue;
      if (c->cmsg_type == SCM_CREDENTIALS &&
          c->cmsg_len == CMSG_LEN(sizeof(ucred))) {
        ucred who;
        std::memcpy(&who, CMSG_DATA(c), sizeof(who));
        ours = who.uid == geteuid();
      } else if (c->cmsg_type == SCM_RIGHTS) {
        const size_t files = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t k = 0; k < files; ++k) {
          int file;
          std::memcpy(&file, CMSG_DATA(c) + k * sizeof(int), sizeof(int));
          if (fd >= 0) close(fd);
          fd = file;
        }
      }
    }
    if (fd < 0) continue;
    if (!ours || n != static_cast<ssize_t>(sizeof(of)) ||
        (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
      close(fd);
      continue;
    }
    if (arrived_.size() == kMaxArrivedFiles) {
      close(arrived_.front().second);
      arrived_.pop_front();
    }
    arrived_.emplace_back(of, fd);
  }
  const auto it = std::find_if(arrived_.begin(), arrived_.end(),
                               [&](const auto& a) { return a.first == token; });
  if (it == arrived_.end()) return -1;
  const int fd = it->second;
  arrived_.erase(it);
  return fd;
}

}  // namespace sluice
