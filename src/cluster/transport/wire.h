// The wire format of tokens and control messages.
//
// All numbers are little endian. A frame, version 2:
//    0  u32  "SLF2"
//    4  u32  R, bytes of records
//    8  u64  number of the frame on its connection, from 0
//   16  u32  number of bodies
//   20  u32  0
//   24  R bytes of records; nothing follows
// Bodies, the bytes of large tensors, are sent beside their frame in the order
// of its records; how depends on the transport.
//
// A record begins with a byte for its kind:
//   1 tokens:  u64 step, u32 partition, u32 count, then for each token:
//       u32 edge, u8 flags (1 dead, 2 group, 4 has a value, 8 has a tag), then
//       u128 frame, i64 iteration if it has a tag (else both are 0), then the
//       tensor if it has a value
//   2 control: u8 kind, u32 length, bytes
//   3 hello:   u64 incarnation of the sender, u64 of the receiver (0: any),
//              u32 length, its task, u32 length, its address. The first record
//              of a connection, and nowhere else
//   4 heartbeat: nothing
// A tensor:
//   u8 dtype, u8 rank, u8 flags (1: its bytes are a body), u8 0, i64 dims, and
//   unless they are a body, its bytes. Plain dtypes are stored as in memory.
//   Strings are a u64 total size, a u64 length for each, then all their bytes.
//   Variants are a u64 size and the format of cluster/transport/wire_variant.h.
//   If strings or variants are a body, only the size is here.
#ifndef SLUICE_CLUSTER_TRANSPORT_WIRE_H_
#define SLUICE_CLUSTER_TRANSPORT_WIRE_H_

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "cluster/transport/transport.h"
#include "exec/core/rendezvous.h"
#include "tensor/tensor.h"

namespace sluice {

inline constexpr uint32_t kFrameMagic = 0x32464c53;  // "SLF2"
inline constexpr size_t kFrameHeader = 24;
inline constexpr size_t kMaxFrameBytes = 64 << 20;

// Bytes to be sent and their owner: a tensor or a string.
struct WireBody {
  Tensor tensor;
  std::string owned;
  std::string_view bytes() const {
    return owned.empty()
               ? std::string_view(static_cast<const char*>(tensor.raw()),
                                  tensor.bytes())
               : std::string_view(owned);
  }
};

struct OutgoingFrame {
  std::string bytes;
  std::vector<WireBody> bodies;
  int64_t tokens = 0;
};

struct Hello {
  uint64_t incarnation = 0;
  uint64_t expected = 0;
  std::string task;
  std::string address;
};

// Collects messages into frames. Used under the lock of its connection.
class FrameWriter {
 public:
  explicit FrameWriter(size_t inline_bytes) : inline_bytes_(inline_bytes) {}

  // Adds nothing on an error. With `bodies_alone` a token with a body gets a
  // frame of its own: adding stops before such a token if the frame is not
  // empty, and after it. Returns the number of tokens added.
  Result<size_t> AddTokens(uint64_t step, uint32_t partition,
                           std::span<TokenMessage> batch,
                           bool bodies_alone = false);
  Status AddControl(uint8_t kind, std::string_view bytes);
  void AddHello(const Hello& hello);
  void AddHeartbeat();

  bool empty() const { return frame_.bytes.empty(); }
  size_t bytes() const { return frame_.bytes.size(); }
  bool has_body() const { return !frame_.bodies.empty(); }
  // Returns the current frame and starts an empty one. REQUIRES: not empty.
  OutgoingFrame Take();

 private:
  void Begin();
  // `packed`: the bytes of variants.
  void AddTensor(const Tensor& t, const Tensor& packed);
  bool HasBody(const TokenMessage& m) const;

  const size_t inline_bytes_;
  OutgoingFrame frame_;
  uint64_t next_ = 0;
};

// A tensor whose bytes have not arrived.
struct IncomingBody {
  Tensor tensor;  // Not allocated yet; see `dtype`, `shape`.
  DType dtype = DType::kInvalid;
  Shape shape;
  size_t bytes = 0;
  Tensor staging;      // For strings and variants: their bytes.
  bool whole = false;  // Used by Inbox.

  // Allocates and returns the buffer for `bytes` bytes.
  Result<char*> Buffer();
  // Completes `tensor` once the buffer is filled.
  Status Finish();
};

struct IncomingTokens {
  uint64_t step = 0;
  uint32_t partition = 0;
  std::vector<TokenMessage> batch;
};
struct IncomingControl {
  uint8_t kind = 0;
  std::string bytes;
};
// A token whose value is a body of the frame.
struct IncomingLarge {
  uint64_t step = 0;
  uint32_t partition = 0;
  TokenMessage token;
  IncomingBody body;
};
struct Heartbeat {};
using Record = std::variant<IncomingTokens, IncomingControl, IncomingLarge,
                            Hello, Heartbeat>;

struct IncomingFrame {
  uint64_t number = 0;
  std::vector<Record> records;
  size_t bodies = 0;
};

struct WireLimits {
  int64_t max_tensor_bytes = int64_t{16} << 30;
};

// Parses a frame from untrusted bytes. InvalidArgument says what is wrong with
// them; ResourceExhausted means out of memory.
Result<IncomingFrame> ParseFrame(std::string_view bytes,
                                 const WireLimits& limits);

// An error if the tensor cannot be sent.
Status CheckSendable(const Tensor& t);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_WIRE_H_
