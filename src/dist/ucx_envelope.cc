#include "dist/ucx_envelope.h"

#include <cstring>

namespace sluice {

std::optional<UcxHeader> ReadUcxHeader(std::string_view header,
                                       size_t data_bytes) {
  UcxHeader out;
  if (header.size() < sizeof(out.envelope)) return std::nullopt;
  std::memcpy(&out.envelope, header.data(), sizeof(out.envelope));
  header.remove_prefix(sizeof(out.envelope));
  if (out.envelope.magic != UcxEnvelope::kMagic) return std::nullopt;
  switch (out.envelope.kind) {
    case UcxEnvelope::kFrame:
      if (data_bytes > kMaxFrameBytes) return std::nullopt;
      break;
    case UcxEnvelope::kBody:
      out.frame = header;
      return out;
    case UcxEnvelope::kClose:
    case UcxEnvelope::kRefuse:
      if (data_bytes > 0) return std::nullopt;
      break;
    default:
      return std::nullopt;
  }
  if (!header.empty()) return std::nullopt;
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
