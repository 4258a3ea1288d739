// Arithmetic and comparisons on outputs: 2 * x + b, x < 0. A bare number takes
// the type of the other side. `==` stays C++'s: two Outputs are equal if they
// are the same edge; ops::Equal compares values.
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

}  // namespace sluice

#endif  // SLUICE_CLIENT_OPERATORS_H_
