#include "client/operators.h"

#include "client/op_builder.h"

namespace sluice {
namespace {

Output Binary(const char* op, const Operand& a, const Operand& b) {
  OpCall call(op, "", a.loc.known() ? a.loc : b.loc);
  return call.In(a).In(b).Out();
}

DType TypeOf(const Operand& a) {
  if (a.output.valid()) return RemoveRef(a.output.dtype());
  return a.weak ? DType::kInvalid : a.literal.dtype();
}

// The type of a binary operator's arguments: a bare number does not decide.
DType CommonType(const Operand& a, const Operand& b) {
  const DType t = TypeOf(a);
  return t != DType::kInvalid ? t : TypeOf(b);
}

}  // namespace

Output operator+(const Operand& a, const Operand& b) {
  return Binary(CommonType(a, b) == DType::kString ? "Add" : "AddV2", a, b);
}
Output operator-(const Operand& a, const Operand& b) {
  return Binary("Sub", a, b);
}
Output operator*(const Operand& a, const Operand& b) {
  return Binary("Mul", a, b);
}
Output operator/(const Operand& a, const Operand& b) {
  return Binary(IsInteger(CommonType(a, b)) ? "TruncateDiv" : "RealDiv", a, b);
}
Output operator%(const Operand& a, const Operand& b) {
  return Binary("TruncateMod", a, b);
}
Output operator-(const Operand& a) {
  return OpCall("Neg", "", a.loc).In(a).Out();
}

Output operator<(const Operand& a, const Operand& b) {
  return Binary("Less", a, b);
}
Output operator<=(const Operand& a, const Operand& b) {
  return Binary("LessEqual", a, b);
}
Output operator>(const Operand& a, const Operand& b) {
  return Binary("Greater", a, b);
}
Output operator>=(const Operand& a, const Operand& b) {
  return Binary("GreaterEqual", a, b);
}
Output operator==(const Operand& a, const Operand& b) {
  return Binary("Equal", a, b);
}
Output operator!=(const Operand& a, const Operand& b) {
  return Binary("NotEqual", a, b);
}

Output operator&&(const Operand& a, const Operand& b) {
  return Binary("LogicalAnd", a, b);
}
Output operator||(const Operand& a, const Operand& b) {
  return Binary("LogicalOr", a, b);
}
Output operator!(const Operand& a) {
  return OpCall("LogicalNot", "", a.loc).In(a).Out();
}

}  // namespace sluice
