// Dispatch from the dtype of a node to an instance of a template.
#ifndef SLUICE_OPS_COMMON_DISPATCH_H_
#define SLUICE_OPS_COMMON_DISPATCH_H_

#include "exec/core/kernel.h"
#include "tensor/compute_type.h"

namespace sluice {

// The kernel with state K<T> (see CpuState) for the type in attribute `attr`,
// which is one of Ts.
template <template <typename> class K, typename... Ts>
KernelMaker CpuStateFor(const char* attr, bool expensive = false) {
  return [attr, expensive](const Node& n, Kernel* k) -> Status {
    const DType t = RemoveRef(n.TypeAttr(attr));
    Status made = NoKernelFor(n, t);
    static_cast<void>(
        ((t == DTypeOf<Ts>() ? (made = CpuState<K<Ts>>(expensive)(n, k), true)
                             : false) ||
         ...));
    return made;
  };
}

}  // namespace sluice

#endif  // SLUICE_OPS_COMMON_DISPATCH_H_
