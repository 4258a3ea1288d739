// What the client's builders have in common. Not for users.
#ifndef SLUICE_CLIENT_BUILD_UTIL_H_
#define SLUICE_CLIENT_BUILD_UTIL_H_

#include "graph/builder.h"

namespace sluice {

// The type that an operand has by itself: of bare numbers, those with a point
// are float, as in Python clients of this field. kInvalid if it is null.
DType NaturalType(const Operand& x);

// `o`, after the graph was told what the client knows of its shape beyond what
// ops infer; null, with the error recorded, if they contradict each other.
Output Shaped(Output o, const PartialShape& shape, SourceLoc loc);

// A function whose body this thread builds.
struct BodyInProgress {
  const Graph* body;
  Graph* owner;  // Where the function is defined: a body itself, perhaps.
  const std::string* function;
  const BodyInProgress* outer;  // The one that was begun before, or null.
};
// That of the ambient graph; null if that is no body in progress.
const BodyInProgress* CurrentBody();

// An error with the line of the call that it is an error of, as BuildError
// records it.
Status WithLine(const Status& error, SourceLoc loc);

// Dimension `i` of x before a step, or -1.
int64_t KnownDim(const Output& x, int i);
// The same as an int32 scalar: a constant where it is known, else computed.
// REQUIRES: x has that dimension.
Output DimOf(const Output& x, int i, SourceLoc loc);

}  // namespace sluice

#endif  // SLUICE_CLIENT_BUILD_UTIL_H_
