// GraphDefView: the nodes of a GraphDef where they are, in the bytes or in a
// message, so that an import makes no message of each. It includes the
// generated messages: only the files of the import use it.
#ifndef SLUICE_GRAPH_GRAPHDEF_VIEW_H_
#define SLUICE_GRAPH_GRAPHDEF_VIEW_H_

#include <google/protobuf/arena.h>

#include <span>
#include <string_view>
#include <vector>

#include "graph/graphdef_messages.h"

namespace sluice {

// Immutable once it is made. The bytes or the message must outlive it.
class GraphDefView {
 public:
  struct Attr {
    std::string_view name;
    // The value: a serialised AttrValue that is simple (IsSimpleAttr), or a
    // message.
    std::string_view simple;
    const proto::AttrValue* message = nullptr;
  };
  using DebugInfo = proto::NodeDef::ExperimentalDebugInfo;
  struct Node {
    std::string_view name, op, device;
    const DebugInfo* debug_info = nullptr;  // Null: none.
    uint32_t inputs_end = 0, attrs_end = 0;
  };

  GraphDefView() = default;
  explicit GraphDefView(const proto::GraphDef& def) { SetMessage(def); }
  GraphDefView(const GraphDefView&) = delete;

  // Reads a serialised GraphDef. Accepts and refuses the same bytes as
  // ParseGraphDef, with the same errors. REQUIRES: it is the first call.
  Status Parse(std::string_view bytes);

  int size() const { return static_cast<int>(nodes_.size()); }
  const Node& node(int i) const { return nodes_[static_cast<size_t>(i)]; }
  std::span<const std::string_view> inputs(int i) const {
    const uint32_t begin = i == 0 ? 0 : node(i - 1).inputs_end;
    return {inputs_.data() + begin, node(i).inputs_end - begin};
  }
  std::span<const Attr> attrs(int i) const {
    const uint32_t begin = i == 0 ? 0 : node(i - 1).attrs_end;
    return {attrs_.data() + begin, node(i).attrs_end - begin};
  }
  // The versions, library and lines; not the nodes.
  const proto::GraphDef& rest() const { return *rest_; }

 private:
  void SetMessage(const proto::GraphDef& def);
  // False if something is not as all known writers write it: then the bytes are
  // parsed into a message, which knows all rules.
  bool ReadPlain(std::string_view bytes);
  bool ReadNode(std::string_view bytes);
  bool ReadAttr(std::string_view bytes, size_t first);
  // A message that was read from the bytes of one that is nested, or null.
  template <typename M>
  const M* ReadMessage(std::string_view bytes);

  google::protobuf::Arena arena_;
  const proto::GraphDef* rest_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<std::string_view> inputs_;
  std::vector<Attr> attrs_;
};

// Whether these bytes are an AttrValue of one field that is a number, a type or
// bytes; and its value. REQUIRES: it is one.
bool IsSimpleAttr(std::string_view bytes);
Result<AttrValue> SimpleAttr(std::string_view bytes);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPHDEF_VIEW_H_
