// The header of UcxTransport's messages, and its parser, whose input is
// untrusted. (Does not depend on UCX.)
#ifndef SLUICE_CLUSTER_TRANSPORT_UCX_ENVELOPE_H_
#define SLUICE_CLUSTER_TRANSPORT_UCX_ENVELOPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"
#include "cluster/transport/wire.h"

namespace sluice {

// The header of each active message, or the start of it.
struct UcxEnvelope {
  enum Kind : uint32_t {
    kFrame = 1,   // The data is a frame without bodies.
    kBody = 2,    // The header goes on with a frame; its one body is the data.
    kClose = 3,   // The sender closes its connection.
    kRefuse = 4,  // Refuses the receiver's connection: wrong incarnation.
  };
  uint32_t magic = kMagic;
  uint32_t kind = kFrame;
  uint64_t to = 0;  // Incarnations; 0: any.
  uint64_t from = 0;
  uint64_t connection = 0;  // The sender's number for it (kRefuse: receiver's).
  // The receiver's number, if the sender accepted the receiver's connection. An
  // answer to a connection that was dropped meanwhile does not start a new one.
  uint64_t answers = 0;

  static constexpr uint32_t kMagic = 0x31554c53;  // "SLU1"
};

struct UcxHeader {
  UcxEnvelope envelope;
  std::string_view frame;  // For kBody.
  Status wrong;            // Not OK: stop reading from the sender.
};

// Parses the header of a message with this many bytes of data. nullopt for a
// message that is not ours, which is ignored.
std::optional<UcxHeader> ReadUcxHeader(std::string_view header,
                                       size_t data_bytes);
// The buffer for the data of a kBody message, whose frame announced `bodies`.
Result<char*> UcxBodyBuffer(std::span<IncomingBody* const> bodies,
                            size_t data_bytes);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_UCX_ENVELOPE_H_
