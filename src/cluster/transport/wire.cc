#include "cluster/transport/wire.h"

#include <cstring>
#include <utility>

#include "cluster/transport/wire_bytes.h"
#include "cluster/transport/wire_variant.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the wire's order of bytes is taken to be the machine's");

enum RecordKind : uint8_t {
  kTokens = 1,
  kControl = 2,
  kHello = 3,
  kHeartbeat = 4,
};
constexpr uint8_t kDead = 1, kGroup = 2, kValue = 4, kTag = 8;
constexpr uint8_t kBody = 1;

// The bytes of a string tensor.
std::string PackStrings(const Tensor& t) {
  std::string out;
  for (const std::string& s : t.raw_flat<std::string>())
    Put<uint64_t>(out, s.size());
  for (const std::string& s : t.raw_flat<std::string>()) out += s;
  return out;
}

size_t PackedSize(const Tensor& t) {
  if (t.dtype() == DType::kVariant) {
    const Result<int64_t> bytes = PackedVariantBytes(t);
    return bytes.ok() ? static_cast<size_t>(*bytes) : 0;
  }
  size_t n = 0;
  for (const std::string& s : t.raw_flat<std::string>()) n += 8 + s.size();
  return n;
}

Status UnpackStrings(std::string_view bytes, Tensor* t) {
  const auto strings = t->raw_flat<std::string>();
  if (bytes.size() / 8 < strings.size())
    return InvalidArgument("strings on the wire: expected ", strings.size(),
                           " lengths, got ", bytes.size(), " bytes");
  std::string_view rest = bytes.substr(8 * strings.size());
  for (size_t i = 0; i < strings.size(); ++i) {
    uint64_t length;
    std::memcpy(&length, bytes.data() + 8 * i, 8);
    if (length > rest.size())
      return InvalidArgument("strings on the wire: expected at most ",
                             rest.size(), " bytes, got a length of ", length);
    strings[i].assign(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  if (!rest.empty())
    return InvalidArgument("strings on the wire: expected no more bytes, got ",
                           rest.size());
  return OkStatus();
}

Status Unpack(std::string_view bytes, Tensor* t) {
  return t->dtype() == DType::kString ? UnpackStrings(bytes, t)
                                      : UnpackVariants(bytes, t);
}

// Fills `*tensor` if the bytes are inline, else `*body`.
Status ReadTensor(WireReader& r, const WireLimits& limits, Tensor* tensor,
                  IncomingBody* body) {
  const uint8_t code = r.Get<uint8_t>();
  const uint8_t rank = r.Get<uint8_t>();
  const uint8_t flags = r.Get<uint8_t>();
  const uint8_t zero = r.Get<uint8_t>();
  const DType dtype = static_cast<DType>(code);
  if (!r.good()) return Truncated("tensor");
  if (!IsValidDType(code) || IsRef(dtype) ||
      (!IsPlain(dtype) && dtype != DType::kString && dtype != DType::kVariant))
    return InvalidArgument(
        "tensor on the wire: expected a plain dtype, string or variant, got ",
        int{code});
  if (rank > kMaxRank || (flags & ~kBody) != 0 || zero != 0)
    return InvalidArgument("tensor on the wire: expected a rank up to ",
                           kMaxRank, " and known flags, got rank ", int{rank},
                           " and flags ", int{flags}, ", ", int{zero});
  int64_t dims[kMaxRank];
  for (int i = 0; i < rank; ++i) dims[i] = r.Get<int64_t>();
  if (!r.good()) return Truncated("tensor");
  SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                          Shape::Make(std::span<const int64_t>(dims, rank)));
  const int64_t n = shape.num_elements();
  const int64_t size = IsPlain(dtype) ? static_cast<int64_t>(DTypeSize(dtype))
                       : dtype == DType::kString ? int64_t{sizeof(std::string)}
                                                 : int64_t{sizeof(Variant)};
  const uint64_t least = dtype == DType::kString ? 8 : 1;  // Per element.
  if (n > limits.max_tensor_bytes / size)
    return InvalidArgument("tensor on the wire: expected at most ",
                           limits.max_tensor_bytes, " bytes, got ",
                           DTypeName(dtype), shape.ToString());
  if ((flags & kBody) != 0) {
    uint64_t bytes = static_cast<uint64_t>(n * size);
    if (!IsPlain(dtype)) {
      bytes = r.Get<uint64_t>();
      if (!r.good()) return Truncated("tensor");
      const int64_t most =
          dtype == DType::kVariant
              ? std::min(limits.max_tensor_bytes, int64_t{kMaxPackedBytes})
              : limits.max_tensor_bytes;
      if (bytes > static_cast<uint64_t>(most) ||
          bytes / least < static_cast<uint64_t>(n))
        return InvalidArgument("tensor on the wire: expected ", least,
                               " bytes for each of ", n, " elements and ", most,
                               " at most, got ", bytes, " in total");
    }
    if (bytes == 0)
      return InvalidArgument(
          "tensor on the wire: expected a body of at least "
          "one byte, got none");
    body->dtype = dtype;
    body->shape = shape;
    body->bytes = bytes;
    return OkStatus();
  }
  // Check that the bytes are present before allocating memory for them.
  if (IsPlain(dtype)) {
    const std::string_view raw = r.Bytes(static_cast<uint64_t>(n * size));
    if (!r.good()) return Truncated("tensor");
    SLUICE_ASSIGN_OR_RETURN(*tensor, Tensor::Make(dtype, shape));
    if (!raw.empty()) std::memcpy(tensor->raw(), raw.data(), raw.size());
    return OkStatus();
  }
  const uint64_t bytes = r.Get<uint64_t>();
  const std::string_view raw = r.Bytes(bytes);
  if (!r.good() || raw.size() / least < static_cast<uint64_t>(n))
    return Truncated("tensor");
  SLUICE_ASSIGN_OR_RETURN(*tensor, Tensor::Make(dtype, shape));
  return Unpack(raw, tensor);
}

Status ReadTokens(WireReader& r, const WireLimits& limits,
                  IncomingFrame* frame) {
  IncomingTokens whole;
  whole.step = r.Get<uint64_t>();
  whole.partition = r.Get<uint32_t>();
  const uint32_t count = r.Get<uint32_t>();
  // A token takes at least 5 bytes.
  if (!r.good() || count > r.left() / 5) return Truncated("tokens");
  whole.batch.reserve(count);
  std::vector<Record> large;
  for (uint32_t i = 0; i < count; ++i) {
    TokenMessage m;
    m.edge = r.Get<uint32_t>();
    const uint8_t flags = r.Get<uint8_t>();
    if (!r.good()) return Truncated("token");
    if ((flags & ~(kDead | kGroup | kValue | kTag)) != 0 ||
        ((flags & kDead) != 0 && (flags & kValue) != 0))
      return InvalidArgument("token on the wire: expected known flags, got ",
                             int{flags});
    m.dead = (flags & kDead) != 0;
    m.group = (flags & kGroup) != 0;
    if ((flags & kTag) != 0) {
      const uint64_t low = r.Get<uint64_t>();
      m.tag.frame = absl::MakeUint128(r.Get<uint64_t>(), low);
      m.tag.iteration = r.Get<int64_t>();
      if (!r.good()) return Truncated("token");
      if (m.tag.iteration < 0)
        return InvalidArgument(
            "token on the wire: expected an iteration of at "
            "least 0, got ",
            m.tag.iteration);
    }
    IncomingBody body;
    if ((flags & kValue) != 0)
      SLUICE_RETURN_IF_ERROR(ReadTensor(r, limits, &m.value, &body));
    if (body.bytes == 0) {
      whole.batch.push_back(std::move(m));
    } else {
      large.push_back(IncomingLarge{whole.step, whole.partition, std::move(m),
                                    std::move(body)});
    }
  }
  if (!whole.batch.empty()) frame->records.push_back(std::move(whole));
  frame->bodies += large.size();
  for (Record& l : large) frame->records.push_back(std::move(l));
  return OkStatus();
}

Status ReadRecord(WireReader& r, const WireLimits& limits,
                  IncomingFrame* frame) {
  const uint8_t kind = r.Get<uint8_t>();
  switch (kind) {
    case kTokens:
      return ReadTokens(r, limits, frame);
    case kControl: {
      IncomingControl c;
      c.kind = r.Get<uint8_t>();
      const uint32_t length = r.Get<uint32_t>();
      c.bytes = r.Bytes(length);
      if (!r.good() || length > kMaxControlBytes) return Truncated("control");
      frame->records.push_back(std::move(c));
      return OkStatus();
    }
    case kHello: {
      Hello h;
      h.incarnation = r.Get<uint64_t>();
      h.expected = r.Get<uint64_t>();
      h.task = r.Bytes(r.Get<uint32_t>());
      h.address = r.Bytes(r.Get<uint32_t>());
      if (!r.good()) return Truncated("hello");
      if (h.incarnation == 0 || h.task.empty() || h.task.size() > 1024 ||
          h.address.size() > 65536)
        return InvalidArgument(
            "hello on the wire: expected a task and its "
            "incarnation, got '",
            h.task.substr(0, 100), "' and ", h.incarnation);
      frame->records.push_back(std::move(h));
      return OkStatus();
    }
    case kHeartbeat:
      frame->records.push_back(Heartbeat());
      return OkStatus();
  }
  return InvalidArgument(
      "record on the wire: expected a kind from 1 to 4, got ", int{kind});
}

}  // namespace

Status CheckSendable(const Tensor& t) {
  if (!t.valid() || IsPlain(t.dtype()) || t.dtype() == DType::kString)
    return OkStatus();
  if (t.dtype() == DType::kVariant) return PackedVariantBytes(t).status();
  return InvalidArgument(
      "value for another task: expected plain elements, strings or lists of "
      "such, got ",
      DTypeName(t.dtype()),
      "; it is meaningful only in the process that made it");
}

void FrameWriter::Begin() {
  if (!frame_.bytes.empty()) return;
  frame_.bytes.reserve(256);
  frame_.bytes.resize(kFrameHeader);
}

void FrameWriter::AddTensor(const Tensor& t, const Tensor& packed) {
  std::string& out = frame_.bytes;
  const bool plain = IsPlain(t.dtype());
  const size_t bytes = plain            ? t.bytes()
                       : packed.valid() ? packed.bytes()
                                        : PackedSize(t);
  const bool body = bytes > inline_bytes_;
  Put(out, static_cast<uint8_t>(t.dtype()));
  Put(out, static_cast<uint8_t>(t.rank()));
  Put(out, body ? kBody : uint8_t{0});
  Put(out, uint8_t{0});
  for (const int64_t d : t.shape().dims()) Put(out, d);
  if (!plain) Put(out, uint64_t{bytes});
  if (body) {
    WireBody b;
    if (plain) {
      b.tensor = t;
    } else if (packed.valid()) {
      b.tensor = packed;
    } else {
      b.owned = PackStrings(t);
    }
    frame_.bodies.push_back(std::move(b));
  } else if (plain) {
    if (bytes > 0) out.append(static_cast<const char*>(t.raw()), bytes);
  } else if (packed.valid()) {
    if (bytes > 0) out.append(static_cast<const char*>(packed.raw()), bytes);
  } else {
    out += PackStrings(t);
  }
}

bool FrameWriter::HasBody(const TokenMessage& m) const {
  if (!m.value.valid() || m.dead) return false;
  return static_cast<size_t>(IsPlain(m.value.dtype())
                                 ? m.value.bytes()
                                 : PackedSize(m.value)) > inline_bytes_;
}

Result<size_t> FrameWriter::AddTokens(uint64_t step, uint32_t partition,
                                      std::span<TokenMessage> batch,
                                      bool bodies_alone) {
  // The encoded variants. Encoded first, so that nothing is added if memory is
  // short.
  std::vector<Tensor> packed;
  for (size_t i = 0; i < batch.size(); ++i) {
    const Tensor& value = batch[i].value;
    if (!value.valid() || value.dtype() != DType::kVariant || batch[i].dead) {
      SLUICE_RETURN_IF_ERROR(CheckSendable(value));
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(const int64_t bytes, PackedVariantBytes(value));
    if (bodies_alone && bytes > static_cast<int64_t>(inline_bytes_) &&
        (i > 0 || !empty()))
      break;  // Not reached now.
    packed.resize(i + 1);
    SLUICE_ASSIGN_OR_RETURN(packed[i],
                            Tensor::Make(DType::kUint8, Shape({bytes})));
    PackVariants(value, static_cast<char*>(packed[i].raw()));
  }
  packed.resize(batch.size());
  if (batch.empty()) return size_t{0};
  if (bodies_alone && !empty() && HasBody(batch[0])) return size_t{0};
  Begin();
  std::string& out = frame_.bytes;
  Put(out, uint8_t{kTokens});
  Put(out, step);
  Put(out, partition);
  const size_t count_at = out.size();
  Put(out, uint32_t{0});
  uint32_t count = 0;
  for (TokenMessage& m : batch) {
    const Tensor& as_bytes = packed[count];
    if (bodies_alone && count > 0 && HasBody(m)) break;
    const bool value = m.value.valid() && !m.dead;
    const bool tag = !(m.tag == TokenTag());
    Put(out, m.edge);
    Put(out,
        static_cast<uint8_t>((m.dead ? kDead : 0) | (m.group ? kGroup : 0) |
                             (value ? kValue : 0) | (tag ? kTag : 0)));
    if (tag) {
      Put(out, absl::Uint128Low64(m.tag.frame));
      Put(out, absl::Uint128High64(m.tag.frame));
      Put(out, m.tag.iteration);
    }
    if (value) AddTensor(m.value, as_bytes);
    m.value = Tensor();
    ++count;
    if (bodies_alone && has_body()) break;
  }
  std::memcpy(out.data() + count_at, &count, sizeof(count));
  frame_.tokens += count;
  return size_t{count};
}

Status FrameWriter::AddControl(uint8_t kind, std::string_view bytes) {
  if (bytes.size() > kMaxControlBytes)
    return InvalidArgument("control message: expected at most ",
                           kMaxControlBytes, " bytes, got ", bytes.size());
  Begin();
  Put(frame_.bytes, uint8_t{kControl});
  Put(frame_.bytes, kind);
  Put(frame_.bytes, static_cast<uint32_t>(bytes.size()));
  frame_.bytes += bytes;
  return OkStatus();
}

void FrameWriter::AddHello(const Hello& hello) {
  Begin();
  std::string& out = frame_.bytes;
  Put(out, uint8_t{kHello});
  Put(out, hello.incarnation);
  Put(out, hello.expected);
  Put(out, static_cast<uint32_t>(hello.task.size()));
  out += hello.task;
  Put(out, static_cast<uint32_t>(hello.address.size()));
  out += hello.address;
}

void FrameWriter::AddHeartbeat() {
  Begin();
  Put(frame_.bytes, uint8_t{kHeartbeat});
}

OutgoingFrame FrameWriter::Take() {
  OutgoingFrame out = std::exchange(frame_, OutgoingFrame());
  const uint32_t head[] = {
      kFrameMagic, static_cast<uint32_t>(out.bytes.size() - kFrameHeader)};
  const uint32_t tail[] = {static_cast<uint32_t>(out.bodies.size()), 0};
  std::memcpy(out.bytes.data(), head, 8);
  std::memcpy(out.bytes.data() + 8, &next_, 8);
  std::memcpy(out.bytes.data() + 16, tail, 8);
  ++next_;
  return out;
}

Result<char*> IncomingBody::Buffer() {
  if (IsPlain(dtype)) {
    SLUICE_ASSIGN_OR_RETURN(tensor, Tensor::Make(dtype, shape));
    return static_cast<char*>(tensor.raw());
  }
  const int64_t dims[] = {static_cast<int64_t>(bytes)};
  SLUICE_ASSIGN_OR_RETURN(staging, Tensor::Make(DType::kUint8, Shape(dims)));
  return static_cast<char*>(staging.raw());
}

Status IncomingBody::Finish() {
  if (IsPlain(dtype)) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(tensor, Tensor::Make(dtype, shape));
  SLUICE_RETURN_IF_ERROR(
      Unpack({static_cast<const char*>(staging.raw()), bytes}, &tensor));
  staging = Tensor();
  return OkStatus();
}

Result<IncomingFrame> ParseFrame(std::string_view bytes,
                                 const WireLimits& limits) {
  WireReader r(bytes);
  IncomingFrame frame;
  const uint32_t magic = r.Get<uint32_t>();
  const uint32_t size = r.Get<uint32_t>();
  frame.number = r.Get<uint64_t>();
  const uint32_t bodies = r.Get<uint32_t>();
  const uint32_t zero = r.Get<uint32_t>();
  if (!r.good()) return Truncated("frame");
  if (magic != kFrameMagic || zero != 0)
    return InvalidArgument("frame on the wire: expected version 2 (SLF2), got ",
                           magic, ", ", zero);
  if (size != r.left())
    return InvalidArgument("frame on the wire: expected ", size,
                           " bytes of records, got ", r.left());
  while (!r.empty()) SLUICE_RETURN_IF_ERROR(ReadRecord(r, limits, &frame));
  if (frame.bodies != bodies)
    return InvalidArgument("frame on the wire: expected ", bodies,
                           " bodies, got ", frame.bodies);
  return frame;
}

}  // namespace sluice
