// What the files of GraphDef import and export share. Included by graphdef*.cc
// alone, since it brings in the generated messages.
#ifndef SLUICE_GRAPH_GRAPHDEF_INTERNAL_H_
#define SLUICE_GRAPH_GRAPHDEF_INTERNAL_H_

#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/graphdef.h"
#include "graph/proto/graph.pb.h"

namespace sluice {

// Messages inside messages (functions in attributes of functions) beyond this
// depth are refused; protobuf's own limit, for text too.
inline constexpr int kMaxProtoDepth = 100;

// InvalidArgument if a value is malformed (not if it is of an unexpected kind:
// that is for the op's declaration to say).
Result<AttrValue> AttrFromProto(const proto::AttrValue& p,
                                TensorProtoLimits* limits);
Status AttrToProto(const AttrValue& v, proto::AttrValue* p);

// True for an op that no user writes (_Arg, _Send), known or not; not for
// functions, whose names may begin alike ("__inference_f_1").
bool IsInternalOp(std::string_view op, FunctionLibrary& functions);

Status ParseGraphDef(std::string_view bytes, proto::GraphDef* def);

// The same message always gives the same bytes (maps in order of keys).
Result<std::string> SerializeProto(const google::protobuf::Message& message);

// An input of a NodeDef, taken apart: "name", "name:1", "^name".
struct InputName {
  std::string_view node;
  int index = 0;
  bool control = false;
};
Result<InputName> ParseInputName(std::string_view s);

// Which of the client's lines made the nodes of a GraphDef, by the names that
// they have in it. Whatever makes no sense is as if it were not there.
class LineTable {
 public:
  // Files are interned by `g`; `info` must outlive this.
  LineTable(const proto::GraphDebugInfo& info, Graph& g);
  SourceLoc Of(const std::string& node) const;

 private:
  const proto::GraphDebugInfo::StackTrace* TraceOf(
      const std::string& name) const;

  const proto::GraphDebugInfo& info_;
  std::vector<const char*> files_;
};
void LinesToProto(const Graph& g, proto::GraphDebugInfo* info);
// ImportGraphDef of our own making (ops that no user writes may be in it),
// parsed and under the graph's mutex.
Status ImportParsed(const proto::GraphDef& def, Graph& g,
                    const ImportOptions& options, ImportResults* results);

// Name, op, device and attributes of a node; no inputs.
Status NodeToProto(const Node& node, proto::NodeDef* def);

// Where bodies of functions keep the line that made a node: "model.cc:12".
inline constexpr const char* kSourceLineAttr = "_sluice_line";

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPHDEF_INTERNAL_H_
