// Null outputs that are no error, such as a gradient where nothing depends on
// x, and why they are null: for the message of whoever needs a value.
#ifndef SLUICE_GRAPH_NONE_OUTPUT_H_
#define SLUICE_GRAPH_NONE_OUTPUT_H_

#include <string>

#include "graph/graph.h"

namespace sluice {

// A null output that remembers why it is null. The process keeps the reasons
// of the last few thousand. Thread-safe.
Output NoneBecause(std::string why);
// ": <why>" of such an output, for the end of a message; "" of any other, and
// of one whose reason is no longer kept.
std::string WhyNone(const Output& none);

}  // namespace sluice

#endif  // SLUICE_GRAPH_NONE_OUTPUT_H_
