// Helpers shared by the client's builders. Internal.
#ifndef SLUICE_CLIENT_BUILD_UTIL_H_
#define SLUICE_CLIENT_BUILD_UTIL_H_

#include "graph/builder.h"
#include "graph/scope_state.h"

namespace sluice {

// The type of an operand without context: a bare number with a fractional part
// is float, as in Python clients. kInvalid if it is null.
DType NaturalType(const Operand& x);

// Returns `o` after recording in the graph what the client knows about its
// shape beyond what the op infers; null, with the error recorded, if the two
// contradict each other.
Output Shaped(Output o, const PartialShape& shape, SourceLoc loc);

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

// Adds the line of the call that failed to an error, as BuildError does.
Status WithLine(const Status& error, SourceLoc loc);

// The extent of dimension `i` of x as known before a step, or -1.
int64_t KnownDim(const Output& x, int i);
// The same as an int32 scalar: a constant if it is known, else computed.
// REQUIRES: x has that dimension.
Output DimOf(const Output& x, int i, SourceLoc loc);

}  // namespace sluice

#endif  // SLUICE_CLIENT_BUILD_UTIL_H_
