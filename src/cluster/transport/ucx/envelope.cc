#include "cluster/transport/ucx/envelope.h"

#include <cstring>

namespace sluice {

std::optional<UcxHeader> ReadUcxHeader(std::string_view header,
                                       size_t data_bytes) {
  UcxHeader out;
  if (header.size() < sizeof(out.envelope)) return std::nullopt;
  std::memcpy(&out.envelope, header.data(), sizeof(out.envelope));
  header.remove_prefix(sizeof(out.envelope));
  if (out.envelope.magic != UcxEnvelope::kMagic) return std::nullopt;
  const uint32_t kind = out.envelope.kind;
  if (kind == UcxEnvelope::kBody) {
    out.frame = header;
    return out;
  }
  if (kind < UcxEnvelope::kFrame || kind > UcxEnvelope::kRefuse) {
    out.wrong = InvalidArgument("message on the wire: expected a kind from ",
                                uint32_t{UcxEnvelope::kFrame}, " to ",
                                uint32_t{UcxEnvelope::kRefuse}, ", got ", kind);
    return out;
  }
  const size_t most = kind == UcxEnvelope::kFrame ? kMaxFrameBytes : 0;
  if (data_bytes > most || !header.empty())
    out.wrong = InvalidArgument("message on the wire: expected at most ", most,
                                " bytes and none in its header, got ",
                                data_bytes, " and ", header.size());
  return out;
}

Result<char*> UcxBodyBuffer(std::span<IncomingBody* const> bodies,
                            size_t data_bytes) {
  if (bodies.size() == 1 && bodies[0]->bytes == data_bytes)
    return bodies[0]->Buffer();
  return InvalidArgument("body on the wire: expected one of ",
                         bodies.empty() ? 0 : bodies[0]->bytes, " bytes, got ",
                         data_bytes);
}

}  // namespace sluice
