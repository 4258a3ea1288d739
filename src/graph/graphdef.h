// Graphs as TensorFlow's GraphDef, binary and text: import into a graph, with
// everything checked, and export.
//
// A GraphDef is untrusted input: whatever its bytes are, the outcome is a valid
// graph or an error that names the node.
//
//   SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ExportGraphDef(graph));
//   Graph copy;
//   SLUICE_RETURN_IF_ERROR(ImportGraphDef(bytes, copy));
#ifndef SLUICE_GRAPH_GRAPHDEF_H_
#define SLUICE_GRAPH_GRAPHDEF_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor_proto.h"

namespace sluice {

class ControlFlowContext;

// The version of TensorFlow's graphs that we write, and the newest whose
// consumers we claim to be (TensorFlow 2.21).
inline constexpr int kGraphDefVersion = 2474;

struct ImportOptions {
  // Names become "prefix/name"; "" keeps them.
  std::string prefix = {};
  // A name that is one of the graph's nodes or scopes becomes "name_1", ...;
  // else that of a node is an error.
  bool unique_names = false;
  // "name:1" (or "name" for output 0) of the GraphDef -> what takes its place
  // wherever it is consumed; the node itself is imported all the same.
  std::map<std::string, Output> input_map = {};
  // The same for "^name".
  std::map<std::string, Node*> control_input_map = {};
  // What to find in the results: "name" is a node, "name:0" an output, or what
  // takes its place.
  std::vector<std::string> return_elements = {};
  // Every imported node runs after these.
  std::vector<Node*> control_dependencies = {};
  // The branch or loop that every imported node belongs to, and whether that is
  // a loop's condition; none for a GraphDef with control flow of its own.
  ControlFlowContext* context = nullptr;
  bool in_condition = false;
  // The device of nodes that have none.
  std::string default_device = {};
  TensorProtoLimits tensor_limits = {};
  // Ops that no user writes are welcome (_Arg, _Send): for what one process
  // sends to another.
  bool internal_ops = false;
};

struct ImportResults {
  std::vector<Node*> return_nodes;     // Of elements without a colon.
  std::vector<Output> return_outputs;  // Of elements with one.
  std::vector<std::string> unused_input_map_keys;
  std::vector<Node*> nodes;  // In the order of the GraphDef.
};

// Adds the nodes of a binary GraphDef to `g`. Nodes may come in any order;
// defaults of attributes are filled in, attributes that the op does not declare
// are kept; a node's line is what debug_info says. On error `g` may hold some
// of the nodes: discard it. Errors name the node. NotFound: unknown op (with
// the nearest names), unknown return element. InvalidArgument: bytes that are
// no GraphDef, a missing or malformed attribute, a duplicate name, an input
// that does not exist or is of another type, a cycle that no NextIteration
// closes.
Status ImportGraphDef(std::string_view bytes, Graph& g,
                      const ImportOptions& options = {},
                      ImportResults* results = nullptr);

// A GraphDef as text, made binary. InvalidArgument says where the mistake is.
Result<std::string> ParseTextGraphDef(std::string_view text);

// A binary GraphDef as text.
Result<std::string> PrintTextGraphDef(std::string_view bytes);

// The whole graph with its functions and the client's lines (debug_info), as it
// would be imported again; the same graph always gives the same bytes.
// What a failed builder left unfinished (Graph::errors), and what reads that, is
// left out. FailedPrecondition if the back edge of a Merge is open otherwise.
Result<std::string> ExportGraphDef(const Graph& g, bool text = false);

// One node, as it is in ExportGraphDef's result: a serialised NodeDef.
Result<std::string> ExportNodeDef(const Node& node);

// A serialised FunctionDef that defines `name`, as graphs keep it; the name.
Result<std::string> FunctionDefName(std::string_view bytes);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPHDEF_H_
