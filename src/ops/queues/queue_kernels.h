// Shared by the kernels of ops that wait.
#ifndef SLUICE_OPS_QUEUES_QUEUE_KERNELS_H_
#define SLUICE_OPS_QUEUES_QUEUE_KERNELS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "ops/queues/queue.h"

namespace sluice::queues {

// Why ops on queues have no gradient.
inline constexpr const char* kNoGradient =
    "a queue holds values; gradients do not flow through it";

// InvalidArgument unless timeout_ms is -1 or not declared.
Status CheckTimeout(const Node& n);

// "[float,int32]".
std::string TypesText(const std::vector<DType>& types);

// The attribute component_types of a node. InvalidArgument unless they are the
// types of the queue.
Status CheckComponentTypes(const std::vector<DType>& types, const Queue& queue);

// Sets the outputs from `first` on to the elements' components, each along a
// new first dimension. Elements of different shapes are an error unless
// `padded`.
Status SetBatchOutputs(KernelContext* ctx, int first,
                       const std::vector<Element>& elements, bool padded,
                       const std::vector<DType>& types,
                       const std::vector<PartialShape>& shapes);

// K is a class as CpuState describes it, but with `Status Start(KernelContext&,
// const DoneFn& done)`: `done` is called once if it returns OK, and not
// otherwise. `expensive`: of Start.
template <typename K>
KernelMaker WaitingKernel(bool expensive = false) {
  return [expensive](const Node& n, Kernel* k) {
    k->expensive = expensive;
    if constexpr (requires { K::Make(n); }) {
      SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<K> made, K::Make(n));
      k->state = std::move(made);
    } else {
      k->state = std::make_shared<K>(n);
    }
    k->run_async = [](KernelContext& ctx, DoneFn done) {
      if (Status s = ctx.state<K>().Start(ctx, done); !s.ok())
        done(std::move(s));
    };
    return OkStatus();
  };
}

}  // namespace sluice::queues

#endif  // SLUICE_OPS_QUEUES_QUEUE_KERNELS_H_
