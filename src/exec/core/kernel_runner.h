// KernelRunner: runs a kernel outside of the executor.
#ifndef SLUICE_EXEC_CORE_KERNEL_RUNNER_H_
#define SLUICE_EXEC_CORE_KERNEL_RUNNER_H_

#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "exec/core/kernel.h"

namespace sluice {

// For RunKernel, and for kernels that wrap others. Stateless.
class KernelRunner {
 public:
  // As RunKernel.
  static Result<std::vector<Tensor>> Run(const Node& node,
                                         std::vector<Tensor> inputs,
                                         ResourceManager* resources);
  // Runs `kernel` in place of the one that got `ctx`, on the same inputs and
  // outputs. If `allocator` is not null, it allocates from that, computes on
  // the host and has no stream. REQUIRES: kernel.run.
  static Status RunWithin(KernelContext& ctx, const Kernel& kernel,
                          Allocator* allocator = nullptr);
  // Runs the kernel of another node, which has one output, in the same step.
  // The kernel may take over the inputs' buffers.
  static Status RunOn(const KernelContext& ctx, const Kernel& kernel,
                      const Node& node, std::vector<Tensor> inputs,
                      Tensor* output);
  // Runs a kernel of a node in a step, on other inputs and outputs than the
  // node's, once or several times. On one thread.
  class Repeated {
   public:
    // The kernel may take over the buffers of inputs but those in `kept`.
    // `step`, `kernel` and `node` outlive it.
    Repeated(StepContext* step, const Kernel& kernel, const Node& node,
             const std::vector<bool>& kept);
    // With `inputs` inputs, of which none is kept.
    Repeated(StepContext* step, const Kernel& kernel, const Node& node,
             size_t inputs);
    Status Run(std::span<Tensor> inputs, std::span<Tensor> outputs);

   private:
    Status (*const run_)(KernelContext&);
    absl::InlinedVector<InputRef, 8> refs_;
    absl::InlinedVector<uint32_t, 8> ones_;
    KernelContext ctx_;
  };
  // As RunWithin, with `value` as input i. REQUIRES: no input reads a variable.
  static Status RunWith(KernelContext& ctx, const Kernel& kernel, int i,
                        Tensor value);
  // As RunWithin, but `kernel` sets separate outputs, which are moved to the
  // outputs of `ctx` after they have been checked against the node's declared
  // types and shapes. Internal if the check fails, or if the kernel throws.
  // REQUIRES: kernel.run.
  static Status RunChecked(KernelContext& ctx, const Kernel& kernel);
  // The same for an async kernel. `done` is called exactly once: with an error
  // if the kernel forgets to call it; further calls are ignored. REQUIRES:
  // kernel.run_async.
  static void StartChecked(KernelContext& ctx, const Kernel& kernel,
                           DoneFn done);

 private:
  class CheckedOutputs;
  struct CheckedRun;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_KERNEL_RUNNER_H_
