// Names of attribute kinds in declarations, OpDefs and messages: "int", "type",
// "func", ...
#ifndef SLUICE_GRAPH_ATTR_KIND_H_
#define SLUICE_GRAPH_ATTR_KIND_H_

#include <string>
#include <string_view>

#include "graph/attr.h"

namespace sluice {

std::string AttrKindText(AttrKind kind, bool is_list);  // "list(int)"
// kNone if there is no such kind.
AttrKind AttrKindOf(std::string_view name);

}  // namespace sluice

#endif  // SLUICE_GRAPH_ATTR_KIND_H_
