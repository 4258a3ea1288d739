// Fuzzes the parser of frames: every input is an error or a frame whose
// messages pass through the inbox. The rest of the input is the bodies. An
// input that begins like UCX's envelope is parsed as one, with its data.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cluster/transport/inbox.h"
#include "cluster/transport/ucx/envelope.h"
#include "cluster/transport/wire.h"

namespace sluice {
namespace {

class Ignore final : public TransportHandler {
 public:
  void OnTokens(PeerId, uint64_t, uint32_t,
                std::span<TokenMessage> batch) override {
    for (const TokenMessage& m : batch)
      if (!CheckSendable(m.value).ok()) std::abort();
  }
  void OnControl(PeerId, uint8_t, std::string_view) override {}
  void OnPeerLost(PeerId, const Status&) override {}
};

constexpr WireLimits kLimits = {int64_t{1} << 20};

// The frame at the beginning of the input, with the length that it states.
std::string_view FrameAt(std::string_view input) {
  uint32_t records = 0;
  if (input.size() < kFrameHeader) return input;
  std::memcpy(&records, input.data() + 4, 4);
  return input.substr(0, uint64_t{kFrameHeader} + records);
}

void FuzzFrame(std::string_view input) {
  const std::string_view bytes = FrameAt(input);
  std::string_view rest = input.substr(bytes.size());
  Result<IncomingFrame> frame = ParseFrame(bytes, kLimits);
  if (!frame.ok()) return;
  Inbox inbox;
  Ignore handler;
  std::vector<IncomingBody*> bodies;
  if (!inbox.Add(*std::move(frame), &bodies).ok()) return;
  for (IncomingBody* body : bodies) {
    if (body->bytes > rest.size()) break;
    const Result<char*> to = body->Buffer();
    if (!to.ok()) break;
    std::memcpy(*to, rest.data(), body->bytes);
    rest.remove_prefix(body->bytes);
    if (!inbox.BodyDone(body).ok()) break;
  }
  inbox.Drain(&handler, 0);
}

void FuzzEnvelope(std::string_view input) {
  // (UCX reports where the header ends, which may not be where the frame ends.)
  size_t size = sizeof(UcxEnvelope);
  if (input.size() > size) size += FrameAt(input.substr(size)).size();
  for (const size_t header :
       {size, sizeof(UcxEnvelope), size / 2, input.size()}) {
    if (header > input.size()) continue;
    const std::string_view data = input.substr(header);
    const std::optional<UcxHeader> came =
        ReadUcxHeader(input.substr(0, header), data.size());
    if (!came.has_value() || !came->wrong.ok()) continue;
    const bool whole = came->envelope.kind == UcxEnvelope::kFrame;
    if (!whole && came->envelope.kind != UcxEnvelope::kBody) continue;
    Result<IncomingFrame> frame =
        ParseFrame(whole ? data : came->frame, kLimits);
    if (!frame.ok()) continue;
    Inbox inbox;
    Ignore handler;
    std::vector<IncomingBody*> bodies;
    if (!inbox.Add(*std::move(frame), &bodies).ok()) continue;
    if (!whole && !bodies.empty()) {
      const Result<char*> to = UcxBodyBuffer(bodies, data.size());
      if (!to.ok()) continue;
      std::memcpy(*to, data.data(), data.size());
      if (!inbox.BodyDone(bodies[0]).ok()) continue;
    }
    inbox.Drain(&handler, 0);
  }
}

void Fuzz(std::string_view input) {
  const uint32_t envelope = UcxEnvelope::kMagic;
  if (input.size() >= 4 && std::memcmp(input.data(), &envelope, 4) == 0)
    return FuzzEnvelope(input);
  FuzzFrame(input);
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::Fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
