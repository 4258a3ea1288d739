// Serialised FunctionDefs: reading their signature and body, and making one
// from a graph.
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

// True if the function was only declared and its body is defined later.
bool IsDeclarationOnly(std::string_view bytes);

// True if the FunctionDef's boolean attribute `flag` is set.
bool HasFunctionFlag(std::string_view bytes, const std::string& flag);

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
  AttrMap attrs;  // Further attributes: _noinline.
  // Further attributes of arguments; may be short.
  std::vector<AttrMap> arg_attrs = {};
  // Of control results; else their nodes'.
  std::vector<std::string> control_names = {};
  // arg_names and result_names are complete, valid and unique: taken as is.
  bool exact_names = false;
};
// A FunctionDef of these nodes (all of `body.order`; `body.ref` is ignored),
// with their source lines.
Result<std::string> MakeFunctionDef(const FunctionSpec& spec,
                                    const FunctionBody& body);
// A declaration without a body: only the types of arguments and results are
// known.
Result<std::string> MakeFunctionDeclaration(const FunctionSpec& spec,
                                            const std::vector<DType>& args,
                                            const std::vector<DType>& results,
                                            bool stateful);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPHDEF_FUNCTION_H_
