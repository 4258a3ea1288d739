// Frames that nobody vouches for: every input is an error or a frame whose
// messages go through the inbox. The rest of the input are the bodies.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "dist/inbox.h"
#include "dist/wire.h"

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

void Fuzz(std::string_view input) {
  uint32_t records = 0;
  if (input.size() < kFrameHeader) return;
  std::memcpy(&records, input.data() + 4, 4);
  const size_t size =
      std::min<size_t>(input.size(), uint64_t{kFrameHeader} + records);
  std::string_view rest = input.substr(size);
  Result<IncomingFrame> frame =
      ParseFrame(input.substr(0, size), {int64_t{1} << 20});
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

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::Fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
