// Ops and kernels that were declared in C (tensorflow/c/ops.h, kernels.h).
#ifndef SLUICE_CAPI_C_OPS_H_
#define SLUICE_CAPI_C_OPS_H_

#include <string>

#include "base/status.h"
#include "exec/core/kernel.h"
#include "graph/graphdef_messages.h"
#include "graph/op_def.h"

namespace sluice::capi {

// Whether the op was declared in C, and not in C++. Thread-safe.
bool IsDeclaredInC(const std::string& op);
// The op's definition, with what only declarations in C have. Thread-safe.
Status ToOpDef(const OpDef& op, proto::OpDef* p);

// Makes the kernel for a node from those that were registered for its op: of
// the ones whose constraints it meets, the one with the highest priority.
// Unimplemented if there is none, InvalidArgument if two have that priority;
// what create_func reports. Thread-safe.
Status MakeKernelInC(const Node& node, Kernel* kernel);

}  // namespace sluice::capi

#endif  // SLUICE_CAPI_C_OPS_H_
