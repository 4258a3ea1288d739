// Of optimizers: builds in the graph of the loss. Internal.
#ifndef SLUICE_CLIENT_NN_IN_GRAPH_OF_H_
#define SLUICE_CLIENT_NN_IN_GRAPH_OF_H_

#include <optional>

#include "graph/builder.h"

namespace sluice {

// Switches to the graph of `o`, if that is not the current one.
inline std::optional<WithGraph> InGraphOf(const Output& o) {
  if (!o.valid() || o.graph() == &CurrentGraph()) return std::nullopt;
  return std::optional<WithGraph>(std::in_place, *o.graph());
}

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_IN_GRAPH_OF_H_
