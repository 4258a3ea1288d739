// Arithmetic, comparisons and logic on outputs. Each adds a node, elementwise
// with broadcasting; a bare number takes the type of the other side.
//
//   Output y = 2 * x + b;
//   Output between = y > 10 && !(y == 11);  // A bool for each element.
//
// `&&` and `||` compute both sides, as every op does: use Cond for an operand
// that must not run depending on the other one. x.SameAs(y) tests whether two
// outputs are the same edge, x.valid() whether an output is non-null.
#ifndef SLUICE_CLIENT_OPERATORS_H_
#define SLUICE_CLIENT_OPERATORS_H_

#include "graph/builder.h"

namespace sluice {

// Addition; concatenates strings.
Output operator+(const Operand& a, const Operand& b);
Output operator-(const Operand& a, const Operand& b);
Output operator*(const Operand& a, const Operand& b);
// Integer division truncates towards zero, as in C++.
Output operator/(const Operand& a, const Operand& b);
// The remainder of truncating division for integers and floats, as in C++
// (fmod).
Output operator%(const Operand& a, const Operand& b);
Output operator-(const Operand& a);

Output operator<(const Operand& a, const Operand& b);
Output operator<=(const Operand& a, const Operand& b);
Output operator>(const Operand& a, const Operand& b);
Output operator>=(const Operand& a, const Operand& b);
// Shapes that do not broadcast are an error.
Output operator==(const Operand& a, const Operand& b);
Output operator!=(const Operand& a, const Operand& b);

// For booleans.
Output operator&&(const Operand& a, const Operand& b);
Output operator||(const Operand& a, const Operand& b);
Output operator!(const Operand& a);

}  // namespace sluice

#endif  // SLUICE_CLIENT_OPERATORS_H_
