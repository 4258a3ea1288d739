// The kernels of ops that are not the library's own, which are not trusted.
#ifndef SLUICE_EXEC_CHECKED_KERNEL_H_
#define SLUICE_EXEC_CHECKED_KERNEL_H_

#include "exec/kernel.h"

namespace sluice {

// Makes the kernel that the node's op declares. Unless the op is the library's
// own it is wrapped in one that checks what it gives
// (KernelRunner::RunChecked), wherever it runs: there is no cost for other
// kernels.
Status MakeDeclaredKernel(const Node& node, Kernel* kernel);

// The kernel that such a kernel wraps; `kernel` itself if it wraps none. Lives
// as long as `kernel`.
const Kernel& Unchecked(const Kernel& kernel);

}  // namespace sluice

#endif  // SLUICE_EXEC_CHECKED_KERNEL_H_
