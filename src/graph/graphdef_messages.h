// Conversions between single messages of a GraphDef and what they stand for,
// shared by the files of import and export. It includes the generated messages,
// so only files that may use protobuf include it (tools/check_layers.py).
#ifndef SLUICE_GRAPH_GRAPHDEF_MESSAGES_H_
#define SLUICE_GRAPH_GRAPHDEF_MESSAGES_H_

#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/graphdef.h"
#include "graph/hidden_attributes.h"
#include "graph/proto/graph.pb.h"

namespace sluice {

// Nested messages (functions in attributes of functions) beyond this depth are
// rejected; protobuf's own limit, applied to text too.
inline constexpr int kMaxProtoDepth = 100;

// InvalidArgument if a value is malformed (its kind is checked later against
// the op's declaration).
Result<AttrValue> AttrFromProto(const proto::AttrValue& p,
                                TensorProtoLimits* limits);
Status AttrToProto(const AttrValue& v, proto::AttrValue* p);

// True for an internal op (_Arg, _Send), known or not; false for functions,
// whose names may also begin with an underscore ("__inference_f_1").
bool IsInternalOp(std::string_view op, FunctionLibrary& functions);

Status ParseGraphDef(std::string_view bytes, proto::GraphDef* def);
// Any message; `what` names its type in the error.
Status ParseMessage(std::string_view bytes, const char* what,
                    google::protobuf::MessageLite* message);
// A text message. InvalidArgument gives the position of a mistake. Both are
// Unimplemented in the small build, whose messages do not know their fields'
// names.
Status ParseTextMessage(std::string_view text, const char* what,
                        google::protobuf::MessageLite* message);
Result<std::string> PrintTextMessage(
    const google::protobuf::MessageLite& message);

// Deterministic serialisation (maps are ordered by key).
Result<std::string> SerializeProto(
    const google::protobuf::MessageLite& message);

// A parsed input of a NodeDef: "name", "name:1", "^name".
struct InputName {
  std::string_view node;
  int index = 0;
  bool control = false;
};
Result<InputName> ParseInputName(std::string_view s);

// The source lines of the nodes of a GraphDef, by their names in it. Malformed
// entries are ignored.
class LineTable {
 public:
  // Files are interned by `g`; `info` must outlive this.
  LineTable(const proto::GraphDebugInfo& info, Graph& g);
  bool empty() const {
    return info_.traces().empty() && info_.name_to_trace_id().empty();
  }
  SourceLoc Of(const std::string& node) const;

 private:
  const proto::GraphDebugInfo::StackTrace* TraceOf(
      const std::string& name) const;

  const proto::GraphDebugInfo& info_;
  std::vector<const char*> files_;
};
void LinesToProto(const Graph& g, proto::GraphDebugInfo* info);
// ImportGraphDef of a parsed GraphDef, which may contain internal ops.
// REQUIRES: the graph's mutex is held.
Status ImportParsed(const proto::GraphDef& def, Graph& g,
                    const ImportOptions& options, ImportResults* results);

// Name, op, device and attributes of a node; no inputs.
Status NodeToProto(const Node& node, proto::NodeDef* def);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPHDEF_MESSAGES_H_
