#include "graph/grad.h"

#include "graph/builder.h"

namespace sluice {

Output GradContext::DyOrZeros(int i) {
  const auto at = static_cast<size_t>(i);
  if (at < dy.size() && dy[at].valid()) return dy[at];
  return Build("ZerosLike", {Output(op, i)}, {}, "", {});
}

namespace grad {

Status Undefined(GradContext& c) {
  return Unimplemented("gradient: expected an op that has one, got ",
                       c.op->op_name());
}

bool HasGradient(const OpDef& op) {
  return op.grad != nullptr && op.grad != Undefined;
}

}  // namespace grad
}  // namespace sluice
