// Checks on the kernels of ops that are not the library's own.
#ifndef SLUICE_EXEC_CORE_CHECKED_KERNEL_H_
#define SLUICE_EXEC_CORE_CHECKED_KERNEL_H_

#include "exec/core/kernel.h"

namespace sluice {

// Makes the kernel that the node's op declares. Unless the op is the library's
// own, the kernel is wrapped in one that checks its outputs
// (KernelRunner::RunChecked) on every run. The library's kernels have no
// overhead.
Status MakeDeclaredKernel(const Node& node, Kernel* kernel);

// The kernel that such a kernel wraps; `kernel` itself if it wraps none. Valid
// as long as `kernel`.
const Kernel& Unchecked(const Kernel& kernel);

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_CHECKED_KERNEL_H_
