// Arithmetic, comparisons and logic on outputs. Each adds a node, elementwise
// with broadcasting; a bare number takes the type of the other side.
//
//   Output y = 2 * x + b;
//   Output between = y > 10 && !(y == 11);  // A bool for each element.
//
// `&&` and `||` compute both sides, as every op does: what must not run where
// the left side decides goes into a Cond. x.SameAs(y) asks whether two outputs
// are the same edge, x.valid() whether an output is null.
#ifndef SLUICE_CLIENT_OPERATORS_H_
#define SLUICE_CLIENT_OPERATORS_H_

#include "graph/builder.h"

namespace sluice {

Output operator+(const Operand& a, const Operand& b);  // Strings: joined.
Output operator-(const Operand& a, const Operand& b);
Output operator*(const Operand& a, const Operand& b);
// Integers are divided as in C++, towards zero.
Output operator/(const Operand& a, const Operand& b);
// Towards zero for integers and floats, as in C++ (and fmod).
Output operator%(const Operand& a, const Operand& b);
Output operator-(const Operand& a);

Output operator<(const Operand& a, const Operand& b);
Output operator<=(const Operand& a, const Operand& b);
Output operator>(const Operand& a, const Operand& b);
Output operator>=(const Operand& a, const Operand& b);
// Shapes that do not broadcast are an error.
Output operator==(const Operand& a, const Operand& b);
Output operator!=(const Operand& a, const Operand& b);

// Of booleans.
Output operator&&(const Operand& a, const Operand& b);
Output operator||(const Operand& a, const Operand& b);
Output operator!(const Operand& a);

}  // namespace sluice

#endif  // SLUICE_CLIENT_OPERATORS_H_
