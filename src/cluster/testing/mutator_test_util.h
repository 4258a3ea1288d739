// Mutates messages as directed by a byte string, for tests and the fuzzer.
#ifndef SLUICE_CLUSTER_TESTING_MUTATOR_TEST_UTIL_H_
#define SLUICE_CLUSTER_TESTING_MUTATOR_TEST_UTIL_H_

#include <google/protobuf/message.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/proto/graph.pb.h"

namespace sluice::hostile {

// Draws values from bytes; after the last byte, zeros.
class Draws {
 public:
  Draws(const uint8_t* bytes, size_t size) : at_(bytes), end_(bytes + size) {}
  bool empty() const { return at_ == end_; }
  uint32_t Byte() { return at_ == end_ ? 0 : *at_++; }
  size_t Below(size_t n) {
    if (n < 2) return 0;
    size_t v = Byte();
    if (n > 256) v = v << 8 | Byte();
    return v % n;
  }
  // Small numbers and boundary values.
  uint64_t Number() {
    static constexpr uint64_t kEnds[] = {0x7f,
                                         0xff,
                                         0xffff,
                                         0xfffff,
                                         0x7fffffff,
                                         0x80000000,
                                         0xfffffffe,
                                         0xffffffff,
                                         0x100000000,
                                         uint64_t{1} << 40,
                                         uint64_t{INT64_MAX},
                                         uint64_t{1} << 63,
                                         UINT64_MAX,
                                         UINT64_MAX - 1};
    const uint32_t v = Byte();
    return v < 160 ? v % 8 : kEnds[v % std::size(kEnds)];
  }
  std::string Bytes(size_t n) {
    n = std::min(n, static_cast<size_t>(end_ - at_));
    std::string s(reinterpret_cast<const char*>(at_), n);
    at_ += n;
    return s;
  }

 private:
  const uint8_t* at_;
  const uint8_t* const end_;
};

// ---- Mutation of messages ---------------------------------------------------

// Changes one field somewhere in the message. Leaves the contents of tensors
// unchanged, since they concern kernels, not messages.
class Mutator {
 public:
  Mutator(google::protobuf::Message* message, Draws* draws) : draws_(*draws) {
    Gather(message);
  }

  void Mutate() {
    if (places_.empty()) return;
    const Place place = places_[draws_.Below(places_.size())];
    const auto* r = place.message->GetReflection();
    if (!place.field->is_repeated()) {
      Set(place, -1);
      return;
    }
    const int n = r->FieldSize(*place.message, place.field);
    const int i = static_cast<int>(draws_.Below(static_cast<size_t>(n)));
    switch (draws_.Below(4)) {
      case 0:
        if (n > 0) r->RemoveLast(place.message, place.field);
        break;
      case 1:
        if (n > 1) r->SwapElements(place.message, place.field, 0, i);
        break;
      case 2:
        Add(place, i, n);
        break;
      default:
        if (n > 0) Set(place, i);
    }
    // (The gathered pointers may be invalid now.)
    places_.clear();
  }

 private:
  using Field = google::protobuf::FieldDescriptor;
  struct Place {
    google::protobuf::Message* message;
    const Field* field;
  };

  void Gather(google::protobuf::Message* m) {
    if (m->GetDescriptor()->name() == "TensorProto") return;
    const auto* r = m->GetReflection();
    for (int f = 0; f < m->GetDescriptor()->field_count(); ++f) {
      const Field* field = m->GetDescriptor()->field(f);
      places_.push_back({m, field});
      if (field->cpp_type() == Field::CPPTYPE_STRING) {
        if (!field->is_repeated()) strings_.push_back(r->GetString(*m, field));
        continue;
      }
      if (field->cpp_type() != Field::CPPTYPE_MESSAGE) continue;
      if (field->is_repeated()) {
        for (int i = 0; i < r->FieldSize(*m, field); ++i)
          Gather(r->MutableRepeatedMessage(m, field, i));
      } else if (r->HasField(*m, field)) {
        Gather(r->MutableMessage(m, field));
      }
    }
  }

  static std::string Printable(std::string s) {
    for (char& c : s) c = static_cast<char>(c & 0x7f);
    return s;
  }
  std::string Text() {
    switch (draws_.Below(4)) {
      case 0:
        return Printable(draws_.Bytes(draws_.Below(12)));
      case 1:
        return std::string(draws_.Below(300), 'x');
      default:
        return strings_.empty() ? "" : strings_[draws_.Below(strings_.size())];
    }
  }

  void Add(const Place& p, int i, int n) {
    const auto* r = p.message->GetReflection();
    switch (p.field->cpp_type()) {
      case Field::CPPTYPE_MESSAGE: {
        std::unique_ptr<google::protobuf::Message> copy;
        if (n > 0) {
          const auto& from = r->GetRepeatedMessage(*p.message, p.field, i);
          copy.reset(from.New());
          copy->CopyFrom(from);
        }
        auto* made = r->AddMessage(p.message, p.field);
        if (copy != nullptr) made->CopyFrom(*copy);
        break;
      }
      case Field::CPPTYPE_STRING:
        r->AddString(p.message, p.field, Text());
        break;
      case Field::CPPTYPE_UINT32:
        r->AddUInt32(p.message, p.field,
                     static_cast<uint32_t>(draws_.Number()));
        break;
      case Field::CPPTYPE_INT64:
        r->AddInt64(p.message, p.field, static_cast<int64_t>(draws_.Number()));
        break;
      default:
        break;
    }
  }

  // i: the index in a repeated field; -1: the field is not repeated.
  void Set(const Place& p, int i) {
    const auto* r = p.message->GetReflection();
    const bool all = i < 0;
    switch (p.field->cpp_type()) {
#define SLUICE_SET(kind, Name, type)                      \
  case Field::CPPTYPE_##kind: {                           \
    const auto v = static_cast<type>(draws_.Number());    \
    all ? r->Set##Name(p.message, p.field, v)             \
        : r->SetRepeated##Name(p.message, p.field, i, v); \
    break;                                                \
  }
      SLUICE_SET(INT32, Int32, int32_t)
      SLUICE_SET(INT64, Int64, int64_t)
      SLUICE_SET(UINT32, UInt32, uint32_t)
      SLUICE_SET(UINT64, UInt64, uint64_t)
      SLUICE_SET(BOOL, Bool, bool)
#undef SLUICE_SET
      case Field::CPPTYPE_ENUM: {
        const int v = static_cast<int>(draws_.Number() & 0x7fffffff);
        all ? r->SetEnumValue(p.message, p.field, v)
            : r->SetRepeatedEnumValue(p.message, p.field, i, v);
        break;
      }
      case Field::CPPTYPE_STRING: {
        const std::string v = Text();
        all ? r->SetString(p.message, p.field, v)
            : r->SetRepeatedString(p.message, p.field, i, v);
        break;
      }
      case Field::CPPTYPE_MESSAGE:
        if (!all)
          r->MutableRepeatedMessage(p.message, p.field, i)->Clear();
        else if (r->HasField(*p.message, p.field))
          r->ClearField(p.message, p.field);
        else
          r->MutableMessage(p.message, p.field);
        break;
      default:
        break;
    }
  }

  Draws& draws_;
  std::vector<Place> places_;
  std::vector<std::string> strings_;
};

inline void Change(google::protobuf::Message* m, Draws* draws) {
  for (size_t n = draws->Below(4); n > 0; --n) Mutator(m, draws).Mutate();
}

// Changes numbers in the nodes that partitioning made (edges, groups,
// arguments, calls), an input of a node, a node's op, or any field.
inline void ChangeGraph(std::string* graph_def, Draws* draws) {
  proto::GraphDef g;
  if (draws->Below(4) == 0 || !g.ParseFromString(*graph_def)) return;
  std::vector<proto::NodeDef*> ours;
  for (proto::NodeDef& n : *g.mutable_node())
    if (n.op()[0] == '_') ours.push_back(&n);
  const auto any = [&]() -> proto::NodeDef& {
    return *g.mutable_node(
        static_cast<int>(draws->Below(static_cast<size_t>(g.node_size()))));
  };
  for (size_t n = 1 + draws->Below(3); n > 0 && g.node_size() > 0; --n) {
    switch (draws->Below(5)) {
      case 0:
        Change(&g, draws);
        return (void)(*graph_def = g.SerializeAsString());
      case 1: {
        proto::NodeDef& node = any();
        if (node.input_size() > 0)
          *node.mutable_input(static_cast<int>(draws->Below(
              static_cast<size_t>(node.input_size())))) = any().name();
        break;
      }
      case 2:
        any().set_op(any().op());
        break;
      default: {
        if (ours.empty()) break;
        std::vector<proto::AttrValue*> numbers;
        for (auto& [name, value] :
             *ours[draws->Below(ours.size())]->mutable_attr())
          if (value.value_case() == proto::AttrValue::kI)
            numbers.push_back(&value);
        if (!numbers.empty())
          numbers[draws->Below(numbers.size())]->set_i(
              static_cast<int64_t>(draws->Number()));
      }
    }
  }
  *graph_def = g.SerializeAsString();
}

}  // namespace sluice::hostile

#endif  // SLUICE_CLUSTER_TESTING_MUTATOR_TEST_UTIL_H_
