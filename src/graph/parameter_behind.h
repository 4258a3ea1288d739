// Which variable a value was read from.
#ifndef SLUICE_GRAPH_PARAMETER_BEHIND_H_
#define SLUICE_GRAPH_PARAMETER_BEHIND_H_

#include "graph/node.h"

namespace sluice {

// The node that makes the variable of which `value` is the value, unchanged
// since the read: traced through Identities, the Switches of conditionals and
// the Enters of loop constants, and from the read to the variable likewise.
// Null if there is none, or it is not known (an argument of a function).
const Node* ParameterBehind(const Output& value);

}  // namespace sluice

#endif  // SLUICE_GRAPH_PARAMETER_BEHIND_H_
