// Names the outputs of a node, for messages about one that it does not have.
#ifndef SLUICE_GRAPH_VALID_OUTPUTS_H_
#define SLUICE_GRAPH_VALID_OUTPUTS_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "graph/node.h"

namespace sluice {

// "output 0 to 2", "output 0 (the op has one output)", "no output (the op has
// none)".
inline std::string ValidOutputs(const Node& n) {
  switch (n.num_outputs()) {
    case 0:
      return "no output (the op has none)";
    case 1:
      return "output 0 (the op has one output)";
    default:
      return absl::StrCat("output 0 to ", n.num_outputs() - 1);
  }
}

}  // namespace sluice

#endif  // SLUICE_GRAPH_VALID_OUTPUTS_H_
