#include "capi/function_hash.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "absl/strings/escaping.h"
#include "graph/graphdef_messages.h"
#include "ops/common/fingerprint.h"

namespace sluice::capi {
namespace {

constexpr uint64_t kSeed = kMurmurSeed;

uint64_t Combined(uint64_t a, uint64_t b) {
  return a ^ (b + 0x9e3779b97f4a7800 + (a << 10) + (a >> 4));
}

Result<uint64_t> MessageHash(const google::protobuf::MessageLite& message,
                             uint64_t seed) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, SerializeProto(message));
  return MurmurHash64(bytes, seed);
}

// A message has many forms of one tensor: the hash is that of the one with the
// elements' bytes. (Strings: their lengths as varints, then their bytes.)
Result<uint64_t> TensorHash(const proto::TensorProto& p) {
  if (const auto type = static_cast<DType>(p.dtype());
      !IsPlain(type) && type != DType::kString)
    return MessageHash(p, kSeed);
  TensorProtoLimits limits;
  SLUICE_ASSIGN_OR_RETURN(const Tensor t, TensorFromProto(p, &limits));
  proto::TensorProto plain;
  plain.set_dtype(p.dtype());
  ShapeToProto(PartialShape(t.shape()), plain.mutable_tensor_shape());
  std::string* const content = plain.mutable_tensor_content();
  if (t.dtype() == DType::kString) {
    namespace io = google::protobuf::io;
    io::StringOutputStream out(content);
    io::CodedOutputStream coded(&out);
    for (const std::string& s : t.flat<std::string>())
      coded.WriteVarint32(static_cast<uint32_t>(s.size()));
    for (const std::string& s : t.flat<std::string>()) coded.WriteString(s);
  } else {
    content->assign(static_cast<const char*>(t.raw()), t.bytes());
  }
  return MessageHash(plain, kSeed);
}

// Entries of a map, in the order of their names.
template <typename Map, typename Fn>
Status ForEachSorted(const Map& map, Fn&& fn) {
  std::map<std::string_view, const typename Map::mapped_type*> sorted;
  for (const auto& [name, value] : map) sorted[name] = &value;
  for (const auto& [name, value] : sorted)
    SLUICE_RETURN_IF_ERROR(fn(name, *value));
  return OkStatus();
}

Result<uint64_t> AttrHash(const proto::AttrValue& v) {
  if (v.has_tensor()) return TensorHash(v.tensor());
  if (!v.has_func()) return MessageHash(v, kSeed);
  uint64_t h = MurmurHash64(v.func().name());
  SLUICE_RETURN_IF_ERROR(ForEachSorted(
      v.func().attr(),
      [&h](std::string_view name, const proto::AttrValue& value) -> Status {
        SLUICE_ASSIGN_OR_RETURN(const uint64_t hash, AttrHash(value));
        h = Combined(hash, MurmurHash64(name, h));
        return OkStatus();
      }));
  return h;
}

Result<uint64_t> NodeHash(const proto::NodeDef& n) {
  uint64_t h = MurmurHash64(n.name());
  h = MurmurHash64(n.op(), h);
  h = MurmurHash64(n.device(), h);
  std::set<std::string_view> controls;
  for (const std::string& input : n.input()) {
    if (input.starts_with('^'))
      controls.insert(input);
    else
      h = MurmurHash64(input, h);
  }
  for (const std::string_view c : controls) h = MurmurHash64(c, h);
  SLUICE_RETURN_IF_ERROR(ForEachSorted(
      n.attr(),
      [&h](std::string_view name, const proto::AttrValue& value) -> Status {
        if (name.starts_with('_')) return OkStatus();
        SLUICE_ASSIGN_OR_RETURN(const uint64_t hash, AttrHash(value));
        h = Combined(hash, MurmurHash64(name, h));
        return OkStatus();
      }));
  return h;
}

Result<uint64_t> AttrDefHash(const proto::OpDef::AttrDef& a) {
  uint64_t h = MurmurHash64(a.type(), MurmurHash64(a.name()));
  SLUICE_ASSIGN_OR_RETURN(const uint64_t usual, AttrHash(a.default_value()));
  h = MurmurHash64(a.description(), Combined(usual, h));
  h = Combined(a.has_minimum() ? 1 : 0, h);
  h = Combined(static_cast<uint64_t>(a.minimum()), h);
  SLUICE_ASSIGN_OR_RETURN(const uint64_t allowed, AttrHash(a.allowed_values()));
  return Combined(allowed, h);
}

Result<uint64_t> SignatureHash(const proto::OpDef& op) {
  std::map<std::string_view, const proto::OpDef::AttrDef*> attrs;
  for (const auto& a : op.attr()) attrs[a.name()] = &a;
  uint64_t h = kSeed;
  for (const auto& [name, def] : attrs) {
    SLUICE_ASSIGN_OR_RETURN(const uint64_t hash, AttrDefHash(*def));
    h = Combined(hash, MurmurHash64(name, h));
  }
  const std::set<std::string_view> controls(op.control_output().begin(),
                                            op.control_output().end());
  for (const std::string_view c : controls) h = Combined(h, MurmurHash64(c));
  proto::OpDef rest = op;
  rest.clear_attr();
  rest.clear_control_output();
  return MessageHash(rest, h);
}

Result<uint64_t> Hash(const proto::FunctionDef& def) {
  SLUICE_ASSIGN_OR_RETURN(uint64_t h, SignatureHash(def.signature()));
  SLUICE_RETURN_IF_ERROR(ForEachSorted(
      def.attr(),
      [&h](std::string_view name, const proto::AttrValue& value) -> Status {
        if (value.value_case() == proto::AttrValue::VALUE_NOT_SET)
          return OkStatus();
        SLUICE_ASSIGN_OR_RETURN(const uint64_t hash, AttrHash(value));
        h = Combined(hash, MurmurHash64(name, h));
        return OkStatus();
      }));
  std::map<std::string_view, const proto::NodeDef*> nodes;
  for (const auto& n : def.node_def()) nodes[n.name()] = &n;
  uint64_t body = kSeed;
  for (const auto& [name, n] : nodes) {
    SLUICE_ASSIGN_OR_RETURN(const uint64_t hash, NodeHash(*n));
    body = Combined(hash, MurmurHash64(name, body));
  }
  h = Combined(body, h);
  const auto add = [&h](std::string_view name, const std::string& value) {
    h = MurmurHash64(value, MurmurHash64(name, h));
    return OkStatus();
  };
  SLUICE_RETURN_IF_ERROR(ForEachSorted(def.ret(), add));
  SLUICE_RETURN_IF_ERROR(ForEachSorted(def.control_ret(), add));
  return h;
}

}  // namespace

Result<std::string> FunctionHash(std::string_view function_def) {
  proto::FunctionDef def;
  SLUICE_RETURN_IF_ERROR(ParseMessage(function_def, "FunctionDef", &def));
  // (TensorFlow names the function and its control outputs afterwards.)
  def.mutable_signature()->clear_name();
  def.mutable_signature()->clear_control_output();
  def.clear_control_ret();
  SLUICE_ASSIGN_OR_RETURN(const uint64_t h, Hash(def));
  char bytes[sizeof(h)];
  std::memcpy(bytes, &h, sizeof(h));
  std::string text;
  absl::WebSafeBase64Escape(absl::string_view(bytes, sizeof(h)), &text);
  // (Neither is at home in a name.)
  std::replace(text.begin(), text.end(), '-', 'a');
  std::replace(text.begin(), text.end(), '_', 'A');
  return text;
}

}  // namespace sluice::capi
