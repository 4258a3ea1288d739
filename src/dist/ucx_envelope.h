// What UcxTransport puts in front of its messages, and how one that came is
// read: bytes that nobody vouches for. (Without UCX itself.)
#ifndef SLUICE_DIST_UCX_ENVELOPE_H_
#define SLUICE_DIST_UCX_ENVELOPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"
#include "dist/wire.h"

namespace sluice {

// The header of each active message, or its beginning.
struct UcxEnvelope {
  enum Kind : uint32_t {
    kFrame = 1,  // The data are a frame without bodies.
    kBody = 2,   // A frame with one body follows in the header; it is the data.
    kClose = 3,  // The sender forgets its connection.
    kRefuse = 4,  // The receiver's connection is refused: another incarnation.
  };
  uint32_t magic = kMagic;
  uint32_t kind = kFrame;
  uint64_t to = 0;  // Incarnations; 0: any.
  uint64_t from = 0;
  uint64_t connection = 0;  // The sender's number of it (kRefuse: receiver's).
  // The receiver's, if it is that which the sender has accepted: an answer to
  // one that was given up meanwhile is none to begin.
  uint64_t answers = 0;

  static constexpr uint32_t kMagic = 0x31554c53;  // "SLU1"
};

struct UcxHeader {
  UcxEnvelope envelope;
  std::string_view frame;  // Of kBody.
  Status wrong;            // Not OK: whoever sent it is not to be read on.
};

// The header of a message that came with so many bytes of data. Nothing if it
// is none of ours, which is passed over.
std::optional<UcxHeader> ReadUcxHeader(std::string_view header,
                                       size_t data_bytes);
// Where the data of a kBody go, whose frame announced these.
Result<char*> UcxBodyBuffer(std::span<IncomingBody* const> bodies,
                            size_t data_bytes);

}  // namespace sluice

#endif  // SLUICE_DIST_UCX_ENVELOPE_H_
