// FunctionDefs, serialised: what they declare, the graph they hold, and one
// made from a graph.
#ifndef SLUICE_GRAPH_GRAPHDEF_FUNCTION_H_
#define SLUICE_GRAPH_GRAPHDEF_FUNCTION_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/function.h"

namespace sluice {

// The signature as an op without shape function.
Result<OpDef> FunctionSignature(std::string_view bytes);

// True if the function was declared only: its body is to follow.
bool IsDeclarationOnly(std::string_view bytes);

// The names of ops and functions that the body mentions.
std::set<std::string> FunctionMentions(std::string_view bytes);

// Fills in the nodes of `body->graph`, which is empty and has its library, with
// the attributes of `body->ref` in place of the signature's.
Status BuildFunctionBody(std::string_view bytes, FunctionBody* body);

struct FunctionSpec {
  std::string name;
  std::vector<std::string> arg_names;  // Made valid and unique; may be short.
  std::vector<std::string> result_names;  // The same.
  std::string description;
  AttrMap attrs;  // What else it says of itself: _noinline.
};
// A FunctionDef of these nodes (all of `body.order`; `body.ref` is ignored).
// The lines that made the nodes go along.
Result<std::string> MakeFunctionDef(const FunctionSpec& spec,
                                    const FunctionBody& body);
// One without a body, of which it is known only what it takes and gives.
Result<std::string> MakeFunctionDeclaration(const FunctionSpec& spec,
                                            const std::vector<DType>& args,
                                            const std::vector<DType>& results,
                                            bool stateful);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPHDEF_FUNCTION_H_
