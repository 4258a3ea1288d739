// Null outputs that are not errors, such as a gradient with respect to an x
// that nothing depends on, with the reason why they are null. Code that needs a
// value reports the reason.
#ifndef SLUICE_GRAPH_NONE_OUTPUT_H_
#define SLUICE_GRAPH_NONE_OUTPUT_H_

#include <string>

#include "graph/node.h"

namespace sluice {

// A null output with a reason. The process keeps the reasons of the last few
// thousand such outputs. Thread-safe.
Output NoneBecause(std::string why);
// ": <why>" for such an output, to append to a message; "" for any other
// output, or if the reason is no longer kept.
std::string WhyNone(const Output& none);

}  // namespace sluice

#endif  // SLUICE_GRAPH_NONE_OUTPUT_H_
