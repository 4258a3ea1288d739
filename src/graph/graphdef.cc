#include "graph/graphdef.h"

#include "absl/strings/numbers.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/stubs/logging.h"
#include "graph/function.h"
#include "graph/graphdef_messages.h"

namespace sluice {

namespace pb = google::protobuf;

Status ParseMessage(std::string_view bytes, const char* what,
                    pb::MessageLite* m) {
  pb::LogSilencer quiet;  // The error is returned instead.
  if (bytes.size() > INT32_MAX)
    return InvalidArgument(what, ": expected at most 2 GiB, got ", bytes.size(),
                           " bytes");
  pb::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                              static_cast<int>(bytes.size()));
  in.SetRecursionLimit(kMaxProtoDepth);
  if (!m->ParseFromCodedStream(&in) || !in.ConsumedEntireMessage())
    return InvalidArgument(
        what, ": expected a serialised message nested at most ", kMaxProtoDepth,
        " deep, got ", bytes.size(),
        " malformed bytes (truncated, or in another format)");
  return OkStatus();
}

bool IsInternalOp(std::string_view op, FunctionLibrary& functions) {
  return op.starts_with("_") && !op.starts_with("_Fused") &&
         (OpRegistry::Global()->Find(op) != nullptr ||
          functions.FindOp(op) == nullptr);
}

Status ParseGraphDef(std::string_view bytes, proto::GraphDef* def) {
  return ParseMessage(bytes, "GraphDef", def);
}

Result<std::string> SerializeProto(const pb::MessageLite& message) {
  if (message.ByteSizeLong() > INT32_MAX)
    return ResourceExhausted("GraphDef: expected at most 2 GiB, got ",
                             message.ByteSizeLong(), " bytes");
  std::string bytes;
  {
    pb::io::StringOutputStream out(&bytes);
    pb::io::CodedOutputStream coded(&out);
    coded.SetSerializationDeterministic(true);
    message.SerializeWithCachedSizes(&coded);
  }
  return bytes;
}

Result<InputName> ParseInputName(std::string_view s) {
  InputName in;
  const std::string_view whole = s;
  if (s.starts_with("^")) {
    in.control = true;
    s.remove_prefix(1);
  }
  const size_t colon = s.rfind(':');
  bool good = true;
  if (!in.control && colon != std::string_view::npos) {
    const std::string_view digits = s.substr(colon + 1);
    good = !digits.empty() && digits.size() <= 9 &&
           digits.find_first_not_of("0123456789") == std::string_view::npos &&
           absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()),
                            &in.index);
    s = s.substr(0, colon);
  }
  if (!good || s.empty() || s.find(':') != std::string_view::npos ||
      s.find('^') != std::string_view::npos)
    return InvalidArgument(
        "input: expected 'node', 'node:index' or '^node', "
        "got '",
        std::string(whole), "'");
  in.node = s;
  return in;
}

Result<std::string> FunctionDefName(std::string_view bytes) {
  proto::FunctionDef def;
  SLUICE_RETURN_IF_ERROR(ParseMessage(bytes, "FunctionDef", &def));
  if (def.signature().name().empty())
    return InvalidArgument("FunctionDef: expected a name, got none");
  return def.signature().name();
}

}  // namespace sluice
