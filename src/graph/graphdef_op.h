// Parts of TensorFlow's GraphDefs in binary form, for clients that build nodes
// one by one and inspect ops.
#ifndef SLUICE_GRAPH_GRAPHDEF_OP_H_
#define SLUICE_GRAPH_GRAPHDEF_OP_H_

#include <string>
#include <string_view>

#include "graph/op_def.h"

namespace sluice {

// Parses a serialised AttrValue. InvalidArgument if it is malformed.
Result<AttrValue> ParseAttrValue(std::string_view bytes);
Result<std::string> SerializeAttrValue(const AttrValue& value);

// The declaration of an op, as TensorFlow has it: a serialised OpDef.
Result<std::string> ExportOpDef(const OpDef& op);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPHDEF_OP_H_
