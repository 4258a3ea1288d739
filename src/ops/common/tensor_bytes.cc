#include "ops/common/tensor_bytes.h"

#include "graph/tensor_proto.h"

namespace sluice {
namespace {

void PutVarint(uint64_t v, std::string* out) {
  for (; v >= 0x80; v >>= 7) out->push_back(static_cast<char>(v | 0x80));
  out->push_back(static_cast<char>(v));
}

// Writes field `number` as a number, omitted if zero, or as bytes.
void PutNumber(int number, uint64_t v, std::string* out) {
  if (v == 0) return;
  PutVarint(static_cast<uint64_t>(number) << 3, out);
  PutVarint(v, out);
}
void PutBytes(int number, absl::string_view bytes, std::string* out) {
  PutVarint(static_cast<uint64_t>(number) << 3 | 2, out);
  PutVarint(bytes.size(), out);
  out->append(bytes.data(), bytes.size());
}

}  // namespace

Result<std::string> TensorContentProto(const Tensor& t) {
  const bool strings = t.dtype() == DType::kString;
  if (!strings && DTypeSize(t.dtype()) == 0) return SerializeTensorProto(t);
  std::string shape, out;
  for (int64_t d : t.shape().dims()) {
    std::string dim;
    PutNumber(1, static_cast<uint64_t>(d), &dim);
    PutBytes(2, dim, &shape);
  }
  PutNumber(1, static_cast<uint64_t>(t.dtype()), &out);
  PutBytes(2, shape, &out);
  if (strings) {
    // All lengths, then all bytes.
    std::string content;
    for (const std::string& v : t.raw_flat<std::string>())
      PutVarint(v.size(), &content);
    for (const std::string& v : t.raw_flat<std::string>()) content += v;
    if (!content.empty()) PutBytes(4, content, &out);
  } else if (t.bytes() > 0) {
    PutBytes(4, {static_cast<const char*>(t.raw()), t.bytes()}, &out);
  }
  return out;
}

}  // namespace sluice
