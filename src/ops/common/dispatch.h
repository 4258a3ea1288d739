// Dispatch from the dtype of a node to an instance of a template.
#ifndef SLUICE_OPS_COMMON_DISPATCH_H_
#define SLUICE_OPS_COMMON_DISPATCH_H_

#include "exec/core/kernel.h"
#include "tensor/compute_type.h"
#include "tensor/computed_types.h"

namespace sluice {

// The kernel with state K<T> (see CpuState) for the type in attribute `attr`,
// which is one of Ts that this build computes with.
template <template <typename> class K, typename... Ts>
KernelMaker CpuStateFor(const char* attr, bool expensive = false) {
  return [attr, expensive](const Node& n, Kernel* k) -> Status {
    const DType t = RemoveRef(n.TypeAttr(attr));
    Status made = NoKernelFor(n, t);
    const auto make = [&]<typename T>() {
      if constexpr (kIsComputed<T>) {
        if (t != DTypeOf<T>()) return false;
        made = CpuState<K<T>>(expensive)(n, k);
        return true;
      } else {
        return false;
      }
    };
    static_cast<void>((make.template operator()<Ts>() || ...));
    return made;
  };
}

}  // namespace sluice

#endif  // SLUICE_OPS_COMMON_DISPATCH_H_
