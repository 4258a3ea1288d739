// TensorFlow's GraphDef, binary and text: validated import into a graph, and
// export.
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

#include "graph/node.h"
#include "graph/tensor_proto.h"

namespace sluice {

class ControlFlowContext;

// The producer version of exports and our consumer version for imports
// (TensorFlow 2.21).
inline constexpr int kGraphDefVersion = 2474;

struct ImportOptions {
  // Names become "prefix/name"; "" keeps them.
  std::string prefix = {};
  // A name that the graph's nodes or scopes already use becomes "name_1", ...;
  // if false, an existing node of that name is an error.
  bool unique_names = false;
  // "name:1" (or "name" for output 0) of the GraphDef -> the output that
  // replaces it wherever it is consumed; the node itself is still imported.
  std::map<std::string, Output> input_map = {};
  // The same for "^name".
  std::map<std::string, Node*> control_input_map = {};
  // Elements to return in the results: "name" is a node, "name:0" an output, or
  // its replacement.
  std::vector<std::string> return_elements = {};
  // Every imported node runs after these.
  std::vector<Node*> control_dependencies = {};
  // The branch or loop that every imported node belongs to, and whether that is
  // a loop's condition; must be null for a GraphDef with its own control flow.
  ControlFlowContext* context = nullptr;
  bool in_condition = false;
  // The device of nodes without one.
  std::string default_device = {};
  TensorProtoLimits tensor_limits = {};
  // Accept internal ops (_Arg, _Send): for graphs sent between processes.
  bool internal_ops = false;
};

struct ImportResults {
  std::vector<Node*> return_nodes;     // For elements without a colon.
  std::vector<Output> return_outputs;  // For elements with one.
  std::vector<std::string> unused_input_map_keys;
  std::vector<Node*> nodes;  // In the order of the GraphDef.
};

// Adds the nodes of a binary GraphDef to `g`. Nodes may be in any order;
// defaults of attributes are filled in, and attributes that the op does not
// declare are kept; source lines come from debug_info. On error `g` may hold
// some of the nodes: discard it. Errors name the node. NotFound: unknown op
// (with the nearest names), unknown return element. InvalidArgument: bytes that
// are not a GraphDef, a missing or malformed attribute, a duplicate name, an
// input that does not exist or is of another type, a cycle that no
// NextIteration closes.
Status ImportGraphDef(std::string_view bytes, Graph& g,
                      const ImportOptions& options = {},
                      ImportResults* results = nullptr);

// Parses a text GraphDef to binary. InvalidArgument gives the position of a
// mistake.
Result<std::string> ParseTextGraphDef(std::string_view text);

// Prints a binary GraphDef as text.
Result<std::string> PrintTextGraphDef(std::string_view bytes);

// Exports the whole graph with its functions and source lines (debug_info);
// deterministic. Nodes that a failed builder left unfinished (Graph::errors),
// and their consumers, are left out. FailedPrecondition if the back edge of a
// Merge is missing for another reason.
Result<std::string> ExportGraphDef(const Graph& g, bool text = false);

// Exports one node as in ExportGraphDef's result: a serialised NodeDef.
Result<std::string> ExportNodeDef(const Node& node);

// The name of the function that a serialised FunctionDef defines.
Result<std::string> FunctionDefName(std::string_view bytes);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPHDEF_H_
