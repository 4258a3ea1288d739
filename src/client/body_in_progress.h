// The function bodies that a thread builds. Internal.
#ifndef SLUICE_CLIENT_BODY_IN_PROGRESS_H_
#define SLUICE_CLIENT_BODY_IN_PROGRESS_H_

#include <string>

#include "graph/node.h"
#include "graph/scope_state.h"

namespace sluice {

// A function whose body this thread builds.
struct BodyInProgress {
  const Graph* body;
  Graph* owner;  // The graph that defines the function; possibly a body itself.
  const std::string* function;
  const BodyInProgress* outer;  // The one that was begun before, or null.
  const ScopeState* around;     // The scopes around its definition.
};
// The ambient graph's; null if the ambient graph is not a body in progress.
const BodyInProgress* CurrentBody();

}  // namespace sluice

#endif  // SLUICE_CLIENT_BODY_IN_PROGRESS_H_
