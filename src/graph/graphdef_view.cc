#include "graph/graphdef_view.h"

#include <cstring>

#include "base/wire.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/stubs/common.h"

namespace sluice {
namespace {

// Valid UTF-8, as protobuf requires of the strings of proto3.
bool IsUtf8(std::string_view s) {
  const char* p = s.data();
  size_t n = s.size();
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, sizeof(word));
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (n > 0 && static_cast<uint8_t>(*p) < 0x80) ++p, --n;
  return n == 0 || google::protobuf::internal::IsStructurallyValidUTF8(
                       s.data(), static_cast<int>(s.size()));
}

// The number of nodes; too small if the bytes are malformed.
size_t CountNodes(std::string_view bytes) {
  size_t nodes = 0;
  FieldReader r(bytes);
  WireTag tag;
  while (r.ReadTag(&tag) && r.Skip(tag)) nodes += tag.field == 1 ? 1 : 0;
  return nodes;
}

}  // namespace

bool IsSimpleAttr(std::string_view bytes) {
  FieldReader r(bytes);
  WireTag tag;
  if (!r.ReadTag(&tag)) return false;
  switch (tag.field) {
    case proto::AttrValue::kSFieldNumber:
      if (tag.type != WireType::kBytes) return false;
      break;
    case proto::AttrValue::kFFieldNumber:
      if (tag.type != WireType::kFixed32) return false;
      break;
    case proto::AttrValue::kIFieldNumber:
    case proto::AttrValue::kBFieldNumber:
    case proto::AttrValue::kTypeFieldNumber:
      if (tag.type != WireType::kVarint) return false;
      break;
    default:
      return false;
  }
  return r.Skip(tag) && r.done();
}

Status GraphDefView::Parse(std::string_view bytes) {
  if (bytes.size() <= INT32_MAX && ReadPlain(bytes)) return OkStatus();
  auto* def = google::protobuf::Arena::CreateMessage<proto::GraphDef>(&arena_);
  SLUICE_RETURN_IF_ERROR(ParseGraphDef(bytes, def));
  nodes_.clear();
  inputs_.clear();
  attrs_.clear();
  SetMessage(*def);
  return OkStatus();
}

void GraphDefView::SetMessage(const proto::GraphDef& def) {
  rest_ = &def;
  nodes_.reserve(static_cast<size_t>(def.node_size()));
  for (const proto::NodeDef& from : def.node()) {
    Node n{from.name(), from.op(), from.device()};
    if (from.has_experimental_debug_info())
      n.debug_info = &from.experimental_debug_info();
    inputs_.insert(inputs_.end(), from.input().begin(), from.input().end());
    for (const auto& [name, value] : from.attr())
      attrs_.push_back({name, {}, &value});
    n.inputs_end = static_cast<uint32_t>(inputs_.size());
    n.attrs_end = static_cast<uint32_t>(attrs_.size());
    nodes_.push_back(n);
  }
}

bool GraphDefView::ReadPlain(std::string_view bytes) {
  const size_t nodes = CountNodes(bytes);
  nodes_.reserve(nodes);
  inputs_.reserve(2 * nodes);
  attrs_.reserve(nodes);
  std::string rest;  // The fields that are not nodes.
  FieldReader r(bytes);
  WireTag tag;
  std::string_view node;
  while (!r.done()) {
    const size_t begin = bytes.size() - r.left();
    if (!r.ReadTag(&tag)) return false;
    if (tag.Is(proto::GraphDef::kNodeFieldNumber, WireType::kBytes)) {
      if (!r.ReadBytes(&node) || !ReadNode(node)) return false;
      continue;
    }
    if (tag.field == proto::GraphDef::kNodeFieldNumber || !r.Skip(tag))
      return false;
    rest.append(bytes.substr(begin, bytes.size() - r.left() - begin));
  }
  auto* def = google::protobuf::Arena::CreateMessage<proto::GraphDef>(&arena_);
  rest_ = def;
  return ParseGraphDef(rest, def).ok();
}

bool GraphDefView::ReadNode(std::string_view bytes) {
  Node n;
  const size_t first_attr = attrs_.size();
  FieldReader r(bytes);
  WireTag tag;
  while (!r.done()) {
    std::string_view value;
    if (!r.ReadTag(&tag) || tag.type != WireType::kBytes ||
        !r.ReadBytes(&value))
      return false;
    switch (tag.field) {
      case proto::NodeDef::kNameFieldNumber:
        if (!IsUtf8(value)) return false;
        n.name = value;
        break;
      case proto::NodeDef::kOpFieldNumber:
        if (!IsUtf8(value)) return false;
        n.op = value;
        break;
      case proto::NodeDef::kInputFieldNumber:
        if (!IsUtf8(value)) return false;
        inputs_.push_back(value);
        break;
      case proto::NodeDef::kDeviceFieldNumber:
        if (!IsUtf8(value)) return false;
        n.device = value;
        break;
      case proto::NodeDef::kAttrFieldNumber:
        if (!ReadAttr(value, first_attr)) return false;
        break;
      case proto::NodeDef::kExperimentalDebugInfoFieldNumber:
        if (n.debug_info != nullptr) return false;
        n.debug_info = ReadMessage<DebugInfo>(value);
        if (n.debug_info == nullptr) return false;
        break;
      case proto::NodeDef::kExperimentalTypeFieldNumber:  // (Not used.)
        if (ReadMessage<proto::FullTypeDef>(value) == nullptr) return false;
        break;
      default:
        return false;
    }
  }
  n.inputs_end = static_cast<uint32_t>(inputs_.size());
  n.attrs_end = static_cast<uint32_t>(attrs_.size());
  nodes_.push_back(n);
  return true;
}

bool GraphDefView::ReadAttr(std::string_view bytes, size_t first) {
  Attr a;
  std::string_view value;
  FieldReader r(bytes);
  WireTag key_tag, value_tag;
  if (!r.ReadTag(&key_tag) || !key_tag.Is(1, WireType::kBytes) ||
      !r.ReadBytes(&a.name) || !r.ReadTag(&value_tag) ||
      !value_tag.Is(2, WireType::kBytes) || !r.ReadBytes(&value) || !r.done() ||
      !IsUtf8(a.name))
    return false;
  // (Of two values of one attribute the last counts. This search is for a few.)
  constexpr size_t kMaxAttrs = 64;
  if (attrs_.size() - first == kMaxAttrs) return false;
  for (size_t i = first; i < attrs_.size(); ++i)
    if (attrs_[i].name == a.name) return false;
  if (IsSimpleAttr(value)) {
    a.simple = value;
  } else {
    a.message = ReadMessage<proto::AttrValue>(value);
    if (a.message == nullptr) return false;
  }
  attrs_.push_back(a);
  return true;
}

template <typename M>
const M* GraphDefView::ReadMessage(std::string_view bytes) {
  // (At most as deep as inside of a whole GraphDef.)
  constexpr int kDepthAround = 4;
  auto* m = google::protobuf::Arena::CreateMessage<M>(&arena_);
  google::protobuf::io::CodedInputStream in(
      reinterpret_cast<const uint8_t*>(bytes.data()),
      static_cast<int>(bytes.size()));
  in.SetRecursionLimit(kMaxProtoDepth - kDepthAround);
  google::protobuf::LogSilencer quiet;
  return m->ParseFromCodedStream(&in) && in.ConsumedEntireMessage() ? m
                                                                    : nullptr;
}

}  // namespace sluice
