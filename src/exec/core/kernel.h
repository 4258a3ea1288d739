// Kernels compute nodes. Flat slots in, flat slots out.
//
// The kernel contract: a kernel reads its inputs, sets every output, and
// returns. It never waits for another kernel (async kernels may), never keeps a
// pointer into its context, and may run concurrently with itself: mutable state
// must synchronise itself. Values that it keeps for later steps it takes with
// TakeToKeep.
//
// For ops that are not the library's own, the contract is checked on every run
// (exec/core/checked_kernel.h).
//
//   Status RunTwice(KernelContext& ctx) {
//     const Tensor& x = ctx.input(0);
//     SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, x.dtype(), x.shape()));
//     const std::span<const float> from = x.flat<float>();
//     const std::span<float> to = ctx.output(0).flat<float>();
//     for (size_t i = 0; i < from.size(); ++i) to[i] = 2 * from[i];
//     return OkStatus();
//   }
#ifndef SLUICE_EXEC_CORE_KERNEL_H_
#define SLUICE_EXEC_CORE_KERNEL_H_

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/core/cancellation.h"
#include "exec/core/resources.h"
#include "graph/node.h"
#include "tensor/tensor.h"

namespace sluice {

class KernelContext;
class Stream;

using DoneFn = std::function<void(Status)>;

// The locations of up to three inputs and the output: scalars in registers of
// eight bytes, whose low bytes hold an element; tensors, with kSlot set, in
// slots.
struct ScalarPlaces {
  static constexpr uint32_t kSlot = 1u << 31;
  uint32_t in[3] = {};
  uint32_t out = 0;       // A register.
  void* state = nullptr;  // Kernel::state.
  const Tensor& tensor(const Tensor* slots, int i) const {
    return slots[in[i] & ~kSlot];
  }
};
// Returns false if it cannot compute these inputs. Then `run` is called on the
// same inputs and computes the result or returns the error (an integer divided
// by zero).
using ScalarFn = bool (*)(uint64_t* registers, Tensor* slots,
                          const ScalarPlaces& at);

// Made once per node and plan (once per session if the op has an identity),
// shared by all steps. Exactly one of run and run_async is set.
struct Kernel {
  Status (*run)(KernelContext&) = nullptr;
  // Returns at once; `done` is called once, later or before it returns, on any
  // thread. The context is valid until then, and used for another node after.
  void (*run_async)(KernelContext&, DoneFn done) = nullptr;
  std::shared_ptr<void> state;  // Made by the maker; see ctx.state<T>().
  // The same as run if every input and the one output is a scalar of at most
  // eight bytes; optional. It is the fast path of regions
  // (exec/fusion/region_program.h).
  ScalarFn scalar = nullptr;
  uint8_t scalar_slots =
      0;  // Bit i: it takes input i as a tensor of any shape.
  uint8_t scalar_inputs = 3;  // Inputs from this one on are not read.
  // Of an op that waits; optional. Completes if it can do so at once, as `run`
  // would: sets the outputs and `*status` and returns true. Else it has no
  // effect and returns false, and run_async is called.
  bool (*try_run)(KernelContext&, Status* status) = nullptr;
  // Of an op that waits; optional. What a run in progress waits for, if only
  // other nodes of its own step can provide it; else "". When all that is left
  // of a step waits like this, it fails at once (exec/core/executor.h).
  std::string (*needs)(const KernelContext&) = nullptr;
  // May take long (more than ~20 us for some shapes): the executor measures it
  // and runs it in parallel with other ready kernels. Of run_async: the call
  // itself, which then may also be on a thread of the session's.
  bool expensive = false;
};

// Marks an error that already names its node, so that no other node is added.
Status Located(Status s);
bool IsLocated(const Status& s);

// Shared by all kernels of one step. Owned by the step; its members synchronise
// themselves.
struct StepContext {
  int64_t step_id = 0;
  ResourceManager* resources = nullptr;       // Outlives steps.
  ResourceManager* step_resources = nullptr;  // Destroyed with the step.
  Cancellation* cancellation = nullptr;
  // For long-running kernels, which check it periodically.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // The device's: of the memory of outputs and temporaries, and the stream in
  // which kernels enqueue their work; null if they compute it themselves.
  Allocator* allocator = Allocator::Cpu();
  Stream* stream = nullptr;
  // Where Print writes; null: standard error.
  const std::function<void(const std::string&)>* log = nullptr;
};

// The location of an input's token: one of four tables, and the index in it.
struct InputRef {
  enum Table : uint32_t {
    kIteration = 0,  // The slots of the iteration.
    kFrame = 1,      // Loop constants: the slots of the frame.
    kPlan = 2,       // Constants: the slots of the plan.
    kLocal = 3,      // Values read from variables for this run of the kernel.
  };
  uint32_t table : 2;
  uint32_t index : 30;
};

// The interface of a running kernel. Lives for one run of one kernel, on one
// thread at a time.
class KernelContext {
 public:
  int num_inputs() const { return num_inputs_; }
  int num_outputs() const { return num_outputs_; }
  const Tensor& input(int i) const {
    const InputRef r = refs_[i];
    return tables_[r.table][r.index];
  }
  // The slot of output i: assign to it. Empty when the kernel starts.
  Tensor& output(int i) { return outputs_[i]; }
  void set_output(int i, Tensor t) { outputs_[i] = std::move(t); }

  // Allocates output i (plain elements are uninitialised).
  Status Allocate(int i, DType dtype, const Shape& shape) {
    SLUICE_ASSIGN_OR_RETURN(outputs_[i],
                            Tensor::Make(dtype, shape, step_->allocator));
    return OkStatus();
  }
  Result<Tensor> AllocateTemp(DType dtype, const Shape& shape) {
    return Tensor::Make(dtype, shape, step_->allocator);
  }
  // Sets output i to the buffer of the first input among `candidates` that has
  // no other readers, elements of the same size and as many of them; else
  // allocates it. The input's token may be moved away: fetch shapes and data
  // pointers of all inputs BEFORE the call (the pointers stay valid).
  Status ForwardOrAllocate(std::initializer_list<int> candidates, int i,
                           DType dtype, const Shape& shape);
  // True if this kernel is the last reader of input i and owns its buffer.
  bool CanForward(int i) const;
  // Input i as an owned token: moved if this kernel is its last reader.
  Tensor TakeInput(int i);
  // The same for values that may outlive the step (a variable's value, or the
  // contents of a variant): a copy if the memory is lent for the step.
  Result<Tensor> TakeToKeep(int i);

  // The variable behind a resource or reference input.
  template <typename T>
  Result<std::shared_ptr<T>> resource(int i) const {
    SLUICE_ASSIGN_OR_RETURN(const ResourceHandle* h, handle(i));
    std::shared_ptr<T> r = std::dynamic_pointer_cast<T>(h->resource);
    if (r == nullptr)
      return InvalidArgument(
          "input ", i, ": expected another kind of resource, got ",
          h->resource ? h->resource->TypeName() : "none", " '", h->name, "'");
    return r;
  }
  Result<const ResourceHandle*> handle(int i) const;

  template <typename T>
  T& state() const {
    return *static_cast<T*>(state_);
  }
  StepContext& step() const { return *step_; }
  // The stream in which the kernel enqueues its work; null on the CPU.
  Stream* stream() const { return step_->stream; }
  const Node& node() const {
    return *node_;
  }  // For messages, not attributes:
     // read those in the maker.
  bool cancelled() const { return step_->cancellation->cancelled(); }

 private:
  friend class Execution;
  friend class KernelRunner;
  friend class RegionRun;

  const InputRef* refs_ = nullptr;
  Tensor* tables_[4] = {};
  Tensor* outputs_ = nullptr;
  void* state_ = nullptr;
  StepContext* step_ = nullptr;
  const Node* node_ = nullptr;
  // Readers left of each iteration slot; null if nothing may be forwarded.
  const uint32_t* uses_ = nullptr;
  int moved_ = 0;  // Buffers moved out of iteration slots.
  int num_inputs_ = 0;
  int num_outputs_ = 0;
};

// ---- Makers -----------------------------------------------------------------

// A stateless kernel for every dtype that the declaration allows.
KernelMaker Cpu(Status (*run)(KernelContext&), bool expensive = false);

// The error for a missing kernel. `has`: the types with a kernel, if known.
Status NoKernelFor(const Node& node, DType t,
                   std::initializer_list<DType> has = {});

// K<T>::Run for the type in attribute `attr`, one of Ts.
//   .Kernel(CpuFor<FillKernel, float, double, int32_t>("T"))
template <template <typename> class K, typename... Ts>
KernelMaker CpuFor(const char* attr, bool expensive = false) {
  return [attr, expensive](const Node& n, Kernel* k) {
    const DType t = RemoveRef(n.TypeAttr(attr));
    k->expensive = expensive;
    const bool found =
        ((t == DTypeOf<Ts>() ? (k->run = &K<Ts>::Run, true) : false) || ...);
    return found ? OkStatus() : NoKernelFor(n, t, {DTypeOf<Ts>()...});
  };
}

// K is a class with `static Result<std::shared_ptr<K>> Make(const Node&)` (or a
// constructor K(const Node&) and no Make) and `Status Run(KernelContext&)`,
// prepared once and shared by all steps.
template <typename K>
KernelMaker CpuState(bool expensive = false) {
  return [expensive](const Node& n, Kernel* k) {
    if constexpr (requires { K::Make(n); }) {
      SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<K> made, K::Make(n));
      k->state = std::move(made);
    } else {
      k->state = std::make_shared<K>(n);
    }
    k->run = [](KernelContext& ctx) { return ctx.state<K>().Run(ctx); };
    k->expensive = expensive;
    return OkStatus();
  };
}

// ---- Running one kernel outside a step --------------------------------------

// Runs the node's kernel once on these inputs, for constant folding, shape
// functions and tests. Unimplemented for async kernels and nodes without a
// kernel.
Result<std::vector<Tensor>> RunKernel(const Node& node,
                                      std::vector<Tensor> inputs,
                                      ResourceManager* resources = nullptr);

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_KERNEL_H_
