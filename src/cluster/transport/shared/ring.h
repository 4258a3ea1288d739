// Shared memory through which a process passes the bytes of large values to
// another process of the same user and machine, and the mailbox that transfers
// its file descriptor.
#ifndef SLUICE_CLUSTER_TRANSPORT_SHARED_RING_H_
#define SLUICE_CLUSTER_TRANSPORT_SHARED_RING_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace sluice {

// Identifies an offer of memory. Cannot be guessed.
using RingToken = std::array<uint64_t, 2>;

// The memory that both ends map: this header, then kPieces of kPiece bytes. The
// file has no name, so the system frees it when both processes have ended, even
// after a crash.
struct RingHeader {
  std::atomic<uint32_t> accepted;  // The receiver has mapped it.
  std::atomic<uint32_t> taken;     // Pieces copied so far.
  // If not 0, the sender waits for `taken` to reach the lower half.
  std::atomic<uint64_t> waiting;

  static constexpr size_t kPiece = 512 << 10;
  static constexpr uint32_t kPieces = 4;
  static constexpr size_t kBytes = 4096 + kPiece * kPieces;
};

// The sender's end. Messages on the connection announce full pieces, in order;
// the header only reports which pieces are free again. So a malicious receiver
// can corrupt only the data sent to itself. Used under the lock of its
// connection.
class RingWriter {
 public:
  // Returns the file in `*fd`, which the caller owns. Its size is sealed.
  static Result<std::unique_ptr<RingWriter>> Make(int* fd);
  ~RingWriter();
  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;

  // Until it is true, the connection carries all bytes.
  bool accepted() const;
  // Copies as much as fits into one piece and returns the number of bytes. 0 if
  // all pieces are full; the receiver is then asked for a notice when one is
  // free.
  size_t Put(std::string_view bytes);

 private:
  explicit RingWriter(void* at) : at_(static_cast<char*>(at)) {}
  RingHeader* header() const { return reinterpret_cast<RingHeader*>(at_); }

  char* const at_;
  uint32_t put_ = 0;
};

// The receiver's end. Used by one thread at a time.
class RingReader {
 public:
  // InvalidArgument for a file not made by RingWriter, whose memory could be
  // truncated while it is read. Does not take ownership of `fd`.
  static Result<std::unique_ptr<RingReader>> Map(int fd);
  ~RingReader();
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  // The next piece. A malicious sender may write to it at any time, so copy its
  // bytes once and do not inspect them in place.
  std::string_view Next() const;
  // Releases the piece after it was copied. True if the sender must be
  // notified.
  bool Done();

 private:
  explicit RingReader(void* at) : at_(static_cast<char*>(at)) {}
  RingHeader* header() const { return reinterpret_cast<RingHeader*>(at_); }

  char* const at_;
  uint32_t taken_ = 0;
};

// Receives such files from other processes of this machine and user, on a
// socket in the abstract namespace. The kernel reports the sender of each;
// files from other users are dropped. Thread-safe.
class RingMailbox {
 public:
  RingMailbox() = default;
  ~RingMailbox() { Close(); }
  RingMailbox(const RingMailbox&) = delete;
  RingMailbox& operator=(const RingMailbox&) = delete;

  // "": only for sending.
  Status Open(const std::string& name);
  void Close();
  // Never blocks: ResourceExhausted if the receiver's queue is full. Does not
  // take ownership of `fd`.
  Status Send(const std::string& name, const RingToken& token, int fd);
  // The file that arrived with this token, which the caller then owns; -1 if
  // none has arrived.
  int Take(const RingToken& token);

 private:
  std::mutex mu_;
  int socket_ = -1;                                // GUARDED_BY(mu_)
  std::deque<std::pair<RingToken, int>> arrived_;  // GUARDED_BY(mu_)
};

RingToken NewRingToken();

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_SHARED_RING_H_
