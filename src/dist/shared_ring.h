// Memory by which one process hands the bytes of large values to another of the
// same user and machine, and the way in which it gets there.
#ifndef SLUICE_DIST_SHARED_RING_H_
#define SLUICE_DIST_SHARED_RING_H_

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

// By which an offer of memory is known again; nobody guesses one.
using RingToken = std::array<uint64_t, 2>;

// What both ends have mapped: this, then kPieces of kPiece bytes. The file has
// no name, so the system takes it back when both are gone, however they went.
struct RingHeader {
  std::atomic<uint32_t> accepted;  // The receiver has it.
  std::atomic<uint32_t> taken;     // Pieces that it has copied, ever.
  // Not 0: the sender waits for `taken` to reach the lower half.
  std::atomic<uint64_t> waiting;

  static constexpr size_t kPiece = 512 << 10;
  static constexpr uint32_t kPieces = 4;
  static constexpr size_t kBytes = 4096 + kPiece * kPieces;
};

// The sender's end. Which piece is full is said by the messages of the
// connection, in their order, so the header only says what may be filled again;
// whatever a receiver writes there spoils no more than what it is sent. Used
// under the lock of its connection.
class RingWriter {
 public:
  // The file is in `*fd`, the caller's, and cannot change its size any more.
  static Result<std::unique_ptr<RingWriter>> Make(int* fd);
  ~RingWriter();
  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;

  // Until then all goes the other way.
  bool accepted() const;
  // Copies as much as goes into one piece and returns how much that is. 0 if
  // all are full: then the receiver is asked to say when that has changed.
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
  // InvalidArgument for a file that is not of RingWriter's making: such memory
  // might be taken away while it is read. Does not take `fd`.
  static Result<std::unique_ptr<RingReader>> Map(int fd);
  ~RingReader();
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  // The next piece. The sender may write to it at any time if it means harm: so
  // its bytes are to be copied, once, and not looked at here.
  std::string_view Next() const;
  // It was copied. True if the sender is to be told.
  bool Done();

 private:
  explicit RingReader(void* at) : at_(static_cast<char*>(at)) {}
  RingHeader* header() const { return reinterpret_cast<RingHeader*>(at_); }

  char* const at_;
  uint32_t taken_ = 0;
};

// Where the other processes of this machine and user pass such files: a socket
// in the abstract name space. The system says of whom each comes; those of
// other users are dropped. Thread-safe.
class RingMailbox {
 public:
  RingMailbox() = default;
  ~RingMailbox() { Close(); }
  RingMailbox(const RingMailbox&) = delete;
  RingMailbox& operator=(const RingMailbox&) = delete;

  // "": only sends.
  Status Open(const std::string& name);
  void Close();
  // Never blocks: ResourceExhausted if what was sent before has to be taken
  // first. Does not take `fd`.
  Status Send(const std::string& name, const RingToken& token, int fd);
  // The file that came with this token, which is the caller's; -1 if none did.
  int Take(const RingToken& token);

 private:
  std::mutex mu_;
  int socket_ = -1;                                // GUARDED_BY(mu_)
  std::deque<std::pair<RingToken, int>> arrived_;  // GUARDED_BY(mu_)
};

RingToken NewRingToken();

}  // namespace sluice

#endif  // SLUICE_DIST_SHARED_RING_H_
