// What the client's builders know of their operands before a step. Internal.
#ifndef SLUICE_CLIENT_TYPES_AND_SHAPES_H_
#define SLUICE_CLIENT_TYPES_AND_SHAPES_H_

#include "graph/builder.h"

namespace sluice {

// The type of an operand without context: a bare number with a fractional part
// is float, as in Python clients. kInvalid if it is null.
DType NaturalType(const Operand& x);

// The operand in a type: a bare number is made in it, everything else is cast
// to it if it has another one. Null, with the error recorded, for strings,
// handles and variants.
Output InType(const Operand& x, DType t);

// Returns `o` after recording in the graph what the client knows about its
// shape beyond what the op infers; null, with the error recorded, if the two
// contradict each other.
Output Shaped(Output o, const PartialShape& shape, SourceLoc loc);

// The extent of dimension `i` of x as known before a step, or -1.
int64_t KnownDim(const Output& x, int i);
// The same as an int32 scalar: a constant if it is known, else computed.
// REQUIRES: x has that dimension.
Output DimOf(const Output& x, int i, SourceLoc loc);

}  // namespace sluice

#endif  // SLUICE_CLIENT_TYPES_AND_SHAPES_H_
