// KernelRunner: runs a kernel in a context that no executor made for it.
#ifndef SLUICE_EXEC_KERNEL_RUNNER_H_
#define SLUICE_EXEC_KERNEL_RUNNER_H_

#include <vector>

#include "exec/kernel.h"

namespace sluice {

// For RunKernel, and for kernels that are made of others. No state.
class KernelRunner {
 public:
  // As RunKernel.
  static Result<std::vector<Tensor>> Run(const Node& node,
                                         std::vector<Tensor> inputs,
                                         ResourceManager* resources);
  // Runs `kernel` in the place of the one that got `ctx`, on the same inputs
  // and outputs. Its memory comes from `allocator`, if that is not null.
  // REQUIRES: kernel.run.
  static Status RunWithin(KernelContext& ctx, const Kernel& kernel,
                          Allocator* allocator = nullptr);
  // Runs the kernel of another node, which has one output, in the same step. It
  // may take the inputs' buffers.
  static Status RunOn(const KernelContext& ctx, const Kernel& kernel,
                      const Node& node, std::vector<Tensor> inputs,
                      Tensor* output);
  // As RunWithin, with `value` as input i. REQUIRES: no input reads a variable.
  static Status RunWith(KernelContext& ctx, const Kernel& kernel, int i,
                        Tensor value);
  // Runs `kernel` in the place of the one that got `ctx`, as RunWithin, and has
  // it set its outputs in a place of their own: what it gives is moved to the
  // outputs of `ctx` once it is known to be what the node promises. Internal if
  // it is not, or if the kernel throws. REQUIRES: kernel.run.
  static Status RunChecked(KernelContext& ctx, const Kernel& kernel);
  // The same for a kernel that is async. `done` is called once, whatever the
  // kernel does: with an error if it forgets to call it; what it calls later is
  // ignored. REQUIRES: kernel.run_async.
  static void StartChecked(KernelContext& ctx, const Kernel& kernel,
                           DoneFn done);

 private:
  class CheckedOutputs;
  struct CheckedRun;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_KERNEL_RUNNER_H_
