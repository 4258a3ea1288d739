#include "exec/core/checked_kernel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/without_throwing.h"
#include "exec/core/kernel_runner.h"

namespace sluice {
namespace {

Status Run(KernelContext& ctx) {
  return KernelRunner::RunChecked(ctx, ctx.state<Kernel>());
}

void Start(KernelContext& ctx, DoneFn done) {
  KernelRunner::StartChecked(ctx, ctx.state<Kernel>(), std::move(done));
}

// (If it throws, so does Run, which reports it.)
bool RunScalar(uint64_t* registers, Tensor* slots, const ScalarPlaces& at) {
  const auto& kernel = *static_cast<const Kernel*>(at.state);
  ScalarPlaces inner = at;
  inner.state = kernel.state.get();
  bool done = false;
  const Status s = WithoutThrowing("kernel", [&] {
    done = kernel.scalar(registers, slots, inner);
    return OkStatus();
  });
  return s.ok() && done;
}

// "output 1 ('y')", with the declared name.
std::string NameOutput(const Node& n, int i) {
  const std::vector<ArgDef>& args = n.op().outputs;
  for (size_t a = 0; a < args.size(); ++a) {
    const auto [begin, end] = n.OutputRange(static_cast<int>(a));
    if (i >= begin && i < end)
      return absl::StrCat("output ", i, " ('", args[a].name, "')");
  }
  return absl::StrCat("output ", i);
}

// Checks that this is what the node declares as output i.
Status CheckOutput(const Node& n, int i, const Tensor& t) {
  const DType want = n.output_type(i);
  if (!t.valid()) [[unlikely]]
    return Internal("kernel: expected ", DTypeName(want), " as ",
                    NameOutput(n, i), ", got none: the kernel did not set it");
  // (The value of a reference, a handle, is up to the kernel.)
  if (!IsRef(want) && t.dtype() != want) [[unlikely]]
    return Internal("kernel: expected ", DTypeName(want), " as ",
                    NameOutput(n, i), ", got ", DTypeName(t.dtype()));
  const PartialShape& shape = n.output_shape(i);
  if (!IsRef(want) && shape.rank_known() &&
      (t.rank() == 0 ? shape.rank() != 0
                     : !shape.CompatibleWith(PartialShape(t.shape()))))
      [[unlikely]]
    return Internal("kernel: expected shape ", shape.ToString(), " as ",
                    NameOutput(n, i), ", as its shape function infers, got ",
                    t.shape().ToString());
  return OkStatus();
}

}  // namespace

// The outputs of one run of a kernel, and an extra one, which must stay empty.
class KernelRunner::CheckedOutputs {
 public:
  explicit CheckedOutputs(KernelContext& ctx)
      : ctx_(ctx), outputs_(ctx.outputs_), state_(ctx.state_) {
    const auto places = static_cast<size_t>(ctx.num_outputs_) + 1;
    if (places > few_.size()) many_.resize(places);
    ctx.outputs_ = places > few_.size() ? many_.data() : few_.data();
  }
  CheckedOutputs(const CheckedOutputs&) = delete;
  // Called once, after the kernel has run.
  Status Take(Status s) {
    Tensor* const given = std::exchange(ctx_.outputs_, outputs_);
    ctx_.state_ = state_;
    SLUICE_RETURN_IF_ERROR(s);
    const int n = ctx_.num_outputs_;
    for (int i = 0; i < n; ++i)
      SLUICE_RETURN_IF_ERROR(CheckOutput(*ctx_.node_, i, given[i]));
    if (given[n].valid())
      return Internal("kernel: expected ", n, " output", n == 1 ? "" : "s",
                      ", got an output ", n);
    std::move(given, given + n, outputs_);
    return OkStatus();
  }

 private:
  KernelContext& ctx_;
  Tensor* const outputs_;
  void* const state_;
  std::array<Tensor, 4> few_;
  std::vector<Tensor> many_;
};

// One run of an async kernel. Lives until the last copy of its `done` callback
// is destroyed.
struct KernelRunner::CheckedRun {
  CheckedRun(KernelContext& ctx, DoneFn d) : outputs(ctx), done(std::move(d)) {}
  ~CheckedRun() {
    Done(
        Internal("kernel: expected a call of done, got none: the kernel "
                 "dropped it"));
  }
  void Done(Status s) {
    if (called.exchange(true)) return;
    done(outputs.Take(std::move(s)));
  }
  CheckedOutputs outputs;
  const DoneFn done;
  std::atomic<bool> called{false};
};

Status KernelRunner::RunChecked(KernelContext& ctx, const Kernel& kernel) {
  CheckedOutputs outputs(ctx);
  ctx.state_ = kernel.state.get();
  return outputs.Take(
      WithoutThrowing("kernel", [&] { return kernel.run(ctx); }));
}

void KernelRunner::StartChecked(KernelContext& ctx, const Kernel& kernel,
                                DoneFn done) {
  auto run = std::make_shared<CheckedRun>(ctx, std::move(done));
  ctx.state_ = kernel.state.get();
  const Status s = WithoutThrowing("kernel", [&] {
    kernel.run_async(ctx,
                     [run](Status result) { run->Done(std::move(result)); });
    return OkStatus();
  });
  if (!s.ok()) run->Done(s);
}

namespace {

// A synchronous kernel that waits for another node would block a thread that
// may have to run that node.
Status CheckWaits(const OpDef& op, const Kernel& kernel) {
  if (!op.facts.waits || kernel.run_async != nullptr) return OkStatus();
  return Internal(
      "kernel maker: expected run_async of an op that waits, got run");
}

}  // namespace

Status MakeDeclaredKernel(const Node& node, Kernel* kernel) {
  const OpDef& op = node.op();
  if (!op.kernel)
    return Unimplemented("no kernel: expected an op that declares one, got ",
                         op.name);
  if (op.own) {
    SLUICE_RETURN_IF_ERROR(op.kernel(node, kernel));
    return CheckWaits(op, *kernel);
  }
  auto inner = std::make_shared<Kernel>();
  SLUICE_RETURN_IF_ERROR(WithoutThrowing(
      "kernel maker", [&] { return op.kernel(node, inner.get()); }));
  if ((inner->run == nullptr) == (inner->run_async == nullptr))
    return Internal("kernel maker: expected one of run and run_async, got ",
                    inner->run == nullptr ? "neither" : "both");
  SLUICE_RETURN_IF_ERROR(CheckWaits(op, *inner));
  *kernel = *inner;
  if (inner->run != nullptr) kernel->run = Run;
  if (inner->run_async != nullptr) kernel->run_async = Start;
  if (inner->scalar != nullptr) kernel->scalar = RunScalar;
  kernel->state = std::move(inner);
  return OkStatus();
}

const Kernel& Unchecked(const Kernel& kernel) {
  return kernel.run == Run || kernel.run_async == Start
             ? *static_cast<const Kernel*>(kernel.state.get())
             : kernel;
}

}  // namespace sluice
