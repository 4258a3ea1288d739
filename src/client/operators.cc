#include "client/operators.h"

#include <optional>
#include <string_view>

#include "client/op_builder.h"
#include "client/tensorflow_names.h"

namespace sluice {
namespace {

thread_local bool tensorflow_names = false;

// What TensorFlow's Python client calls the nodes of an operator.
std::string TensorFlowName(std::string_view op) {
  if (op == "AddV2" || op == "Add") return "add";
  if (op == "Sub") return "sub";
  if (op == "Mul") return "mul";
  if (op == "RealDiv") return "truediv";
  return std::string(op);
}

// A bare number as a constant of the given name and the type of the tensor
// beside it. Other operands, and numbers that the type cannot hold, are left
// to the op.
Operand NamedNumber(const Operand& x, const Operand& beside, const char* name) {
  if (!x.weak || !x.literal.valid() || x.literal.rank() != 0 ||
      !beside.output.valid())
    return x;
  std::optional<double> value;
  if (x.literal.dtype() == DType::kDouble) value = x.literal.scalar<double>();
  if (x.literal.dtype() == DType::kInt32) value = x.literal.scalar<int32_t>();
  if (!value) return x;
  const Result<Tensor> t =
      ScalarTensor(RemoveRef(beside.output.dtype()), *value);
  return t.ok() ? Operand(Constant(*t, name, x.loc), x.loc.file, x.loc.line)
                : x;
}

Output Binary(const char* op, const Operand& a, const Operand& b) {
  const SourceLoc loc = a.loc.known() ? a.loc : b.loc;
  if (!tensorflow_names) return OpCall(op, "", loc).In(a).In(b).Out();
  const NameScope scope(TensorFlowName(op));
  const Operand x = NamedNumber(a, b, "x"), y = NamedNumber(b, a, "y");
  return OpCall(op, scope.prefix() + "/", loc).In(x).In(y).Out();
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

TensorFlowNames::TensorFlowNames() : saved_(tensorflow_names) {
  tensorflow_names = true;
}
TensorFlowNames::~TensorFlowNames() { tensorflow_names = saved_; }

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
