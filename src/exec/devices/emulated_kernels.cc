// Kernels of emulated devices: those that are issued, and copies.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "exec/core/checked_kernel.h"
#include "exec/core/kernel_runner.h"
#include "exec/devices/emulated_device.h"
#include "graph/hidden_attributes.h"
#include "passes/partition.h"

namespace sluice {
namespace {

using Stream = EmulatedDevice::Stream;

// ---- Kernels that are issued ------------------------------------------------

double Elements(const Tensor& t) {
  return t.valid() ? static_cast<double>(t.num_elements()) : 0;
}

double Bytes(const Tensor& t) {
  return t.valid() && IsPlain(t.dtype()) ? static_cast<double>(t.bytes()) : 0;
}

// The arithmetic per element of output 0.
enum class Arithmetic { kOne, kProduct, kProductOfTurned, kConvolution };

Arithmetic ArithmeticOf(const Node& n) {
  if (n.kind() == OpKind::kConv2D) return Arithmetic::kConvolution;
  if (n.kind() != OpKind::kMatMul && n.kind() != OpKind::kMatMulAdd &&
      n.kind() != OpKind::kBatchMatMul)
    return Arithmetic::kOne;
  return n.AttrOr<bool>("transpose_a", false) || n.AttrOr<bool>("adj_x", false)
             ? Arithmetic::kProductOfTurned
             : Arithmetic::kProduct;
}

double FlopsPerOutput(Arithmetic kind, const KernelContext& ctx) {
  if (kind == Arithmetic::kOne || ctx.num_inputs() < 2) return 1;
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  if (kind == Arithmetic::kConvolution)
    return b.rank() == 4 && b.dim(3) > 0
               ? 2 * Elements(b) / static_cast<double>(b.dim(3))
               : 1;
  if (a.rank() < 2) return 1;
  return 2.0 * static_cast<double>(a.dim(
                   a.rank() - (kind == Arithmetic::kProductOfTurned ? 2 : 1)));
}

struct Issued {
  EmulatedDevice* device;
  Kernel inner;
  Arithmetic arithmetic;
  int64_t fixed_ns;  // -1: computed from its work.
};

Status RunIssued(KernelContext& ctx) {
  const Issued& k = ctx.state<Issued>();
  EmulatedDevice& device = *k.device;
  // (Before it runs: an input's buffer may become the output.)
  double bytes = 0, elements = 0, flops = 1;
  if (k.fixed_ns < 0) {
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      bytes += Bytes(ctx.input(i));
      elements = std::max(elements, Elements(ctx.input(i)));
    }
    flops = FlopsPerOutput(k.arithmetic, ctx);
  }
  if (Status s = KernelRunner::RunWithin(ctx, k.inner); !s.ok()) [[unlikely]]
    return device.Explain(std::move(s));
  if (k.fixed_ns == 0) return OkStatus();
  int64_t ns = k.fixed_ns;
  if (ns < 0) {
    for (int i = 0; i < ctx.num_outputs(); ++i) bytes += Bytes(ctx.output(i));
    if (ctx.num_outputs() > 0)
      flops = std::max(elements, flops * Elements(ctx.output(0)));
    ns = device.KernelNs(flops, bytes);
  }
  const int64_t done = device.Issue(Stream::kCompute, ctx.node(), ns, 0);
  for (int i = 0; i < ctx.num_outputs(); ++i)
    device.WillBeReady(ctx.output(i), done);
  return OkStatus();
}

// Runs on the host: for nodes with kRunsOnHostAttr.
Status RunOnHost(KernelContext& ctx) {
  return KernelRunner::RunWithin(ctx, ctx.state<Kernel>(), Allocator::Cpu());
}

// ---- Kernels that wait for a stream -----------------------------------------

// Calls `finish` exactly once: with OK at a time of the device's clock, or with
// Cancelled when the step is cancelled. Values taken from the context are kept
// until then. (The stream itself cannot be stopped.)
class Wait : public std::enable_shared_from_this<Wait> {
 public:
  static void Until(EmulatedDevice& device, int64_t time, KernelContext& ctx,
                    std::function<void(Status)> finish) {
    const auto wait = std::make_shared<Wait>();
    wait->finish_ = std::move(finish);
    wait->cancellation_ = ctx.step().cancellation;
    wait->registered_ =
        wait->cancellation_->Register([wait] { wait->Cancelled(); });
    if (wait->registered_ < 0) return wait->Cancelled();
    device.clock().At(time, [wait] { wait->Due(); });
  }

 private:
  void Due() {
    if (over_.exchange(true)) return;
    // While the step is alive; a later cancellation has no effect.
    cancellation_->Deregister(registered_);
    std::exchange(finish_, nullptr)(OkStatus());
  }
  void Cancelled() {
    if (over_.exchange(true)) return;
    std::exchange(finish_,
                  nullptr)(sluice::Cancelled("device: the step was cancelled"));
  }

  std::atomic<bool> over_{false};
  // Owned by the thread that has set over_.
  std::function<void(Status)> finish_;
  Cancellation* cancellation_ = nullptr;
  int64_t registered_ = -1;
};

struct OfDevice {
  EmulatedDevice* device;
};

Result<Tensor> Copy(const Tensor& from, Allocator* allocator) {
  SLUICE_ASSIGN_OR_RETURN(Tensor to,
                          Tensor::Make(from.dtype(), from.shape(), allocator));
  if (from.bytes() > 0) std::memcpy(to.raw(), from.raw(), from.bytes());
  return to;
}

// A copy to the host is enqueued when the tensor has been computed: copies run
// in the order in which their inputs are ready, not in the order of the
// requests.
void SendToHost(EmulatedDevice& device, KernelContext& ctx, const Tensor& value,
                std::function<void(Status)> finish) {
  const auto bytes = static_cast<int64_t>(value.bytes());
  auto send = [&device, &ctx, bytes,
               finish = std::move(finish)](Status s) mutable {
    if (!s.ok()) return finish(std::move(s));
    const int64_t there =
        device.Issue(Stream::kToHost, ctx.node(), device.CopyNs(bytes), bytes);
    Wait::Until(device, there, ctx, std::move(finish));
  };
  const int64_t ready = device.ReadyAt(value);
  if (ready <= device.clock().Now()) return send(OkStatus());
  Wait::Until(device, ready, ctx, std::move(send));
}

int64_t IssueFromHost(EmulatedDevice& device, const Node& node,
                      const Tensor& value) {
  const auto bytes = static_cast<int64_t>(value.bytes());
  return device.Issue(Stream::kFromHost, node, device.CopyNs(bytes), bytes);
}

// Returns a callback that holds nothing of the step after it has called `done`.
std::function<void(Status)> Gives(KernelContext& ctx, Tensor value,
                                  DoneFn done) {
  return [&ctx, done = std::move(done),
          value = std::move(value)](Status s) mutable {
    if (s.ok()) ctx.set_output(0, std::move(value));
    value = Tensor();
    done(std::move(s));
  };
}

void CopyFromDevice(KernelContext& ctx, DoneFn done) {
  EmulatedDevice& device = *ctx.state<OfDevice>().device;
  Result<Tensor> copy = Copy(ctx.input(0), Allocator::Cpu());
  if (!copy.ok()) return done(copy.status());
  SendToHost(device, ctx, ctx.input(0),
             Gives(ctx, *std::move(copy), std::move(done)));
}

// Copies `value` to the device's memory, then sets output 0 to it.
void BringIn(EmulatedDevice& device, KernelContext& ctx, const Tensor& value,
             DoneFn done) {
  Result<Tensor> copy = Copy(value, device.allocator());
  if (!copy.ok()) return done(device.Explain(copy.status()));
  const int64_t arrives = IssueFromHost(device, ctx.node(), value);
  device.WillBeReady(*copy, arrives);
  Wait::Until(device, arrives, ctx,
              Gives(ctx, *std::move(copy), std::move(done)));
}

void CopyToDevice(KernelContext& ctx, DoneFn done) {
  const Tensor& value = ctx.input(0);
  if (value.has_buffer())
    return BringIn(*ctx.state<OfDevice>().device, ctx, value, std::move(done));
  // Values that fit in a register are passed with the launch of their reader.
  ctx.set_output(0, value);
  done(OkStatus());
}

// A constant is copied once.
struct ConstantCopy {
  EmulatedDevice* device;
  std::mutex mu;
  Tensor there;  // GUARDED_BY(mu)
};

void CopyConstant(KernelContext& ctx, DoneFn done) {
  ConstantCopy& k = ctx.state<ConstantCopy>();
  const Tensor& value = ctx.input(0);
  {
    std::lock_guard<std::mutex> lock(k.mu);
    if (!k.there.valid()) {
      Result<Tensor> copy = Copy(value, k.device->allocator());
      if (copy.ok()) {
        k.there = *std::move(copy);
        k.device->WillBeReady(k.there,
                              IssueFromHost(*k.device, ctx.node(), value));
      } else {
        return done(k.device->Explain(copy.status()));
      }
    }
    ctx.set_output(0, k.there);
  }
  // (Also if it was copied before: the copy may still be in progress.)
  const int64_t arrives = k.device->ReadyAt(ctx.output(0));
  if (arrives <= k.device->clock().Now()) return done(OkStatus());
  Wait::Until(*k.device, arrives, ctx, std::move(done));
}

void AwaitDevice(KernelContext& ctx, DoneFn done) {
  EmulatedDevice& device = *ctx.state<OfDevice>().device;
  Wait::Until(device, device.Position(Stream::kCompute), ctx, std::move(done));
}

// ---- Values that are saved on the host --------------------------------------

struct Swapping {
  EmulatedDevice* device;
  Kernel inner;
  int value;  // The saved input.
};

// Pushes and writes: swaps the value out to host memory first if device memory
// is scarce. The kernel finishes when the copy is done, so a loop runs ahead of
// the copies by at most its parallel_iterations.
void Save(KernelContext& ctx, DoneFn done) {
  const Swapping& k = ctx.state<Swapping>();
  EmulatedDevice& device = *k.device;
  const Tensor& value = ctx.input(k.value);
  if (!device.ShouldSwap(value) || device.IsSwappedOut(value))
    return done(device.Explain(KernelRunner::RunWithin(ctx, k.inner)));
  Result<Tensor> copy = device.SwapOut(value);
  if (!copy.ok()) return done(copy.status());
  auto save = [&ctx, &k, done = std::move(done),
               copy = *std::move(copy)](Status s) mutable {
    if (s.ok()) s = KernelRunner::RunWith(ctx, k.inner, k.value, copy);
    // A stack forwards its input, not the copy.
    if (s.ok() && ctx.output(0).SharesBufferWith(copy))
      ctx.set_output(0, ctx.input(k.value));
    copy = Tensor();
    done(std::move(s));
  };
  SendToHost(device, ctx, value, std::move(save));
}

// Pops and reads: swaps the value in if it was swapped out.
void Restore(KernelContext& ctx, DoneFn done) {
  const Swapping& k = ctx.state<Swapping>();
  Status s = KernelRunner::RunWithin(ctx, k.inner);
  if (!s.ok() || !k.device->IsSwappedOut(ctx.output(0)))
    return done(k.device->Explain(std::move(s)));
  const Tensor saved = std::exchange(ctx.output(0), Tensor());
  BringIn(*k.device, ctx, saved, std::move(done));
}

bool HasString(const Node& n) {
  for (int i = 0; i < n.num_inputs(); ++i)
    if (n.input_type(i) == DType::kString) return true;
  for (int i = 0; i < n.num_outputs(); ++i)
    if (n.output_type(i) == DType::kString) return true;
  return false;
}

[[maybe_unused]] const bool registered = [] {
  RegisterDeviceType("EMU", [](const Node& node) {
    static auto* const any =
        new EmulatedDevice(DeviceName{"", -1, -1, "EMU", -1}, {});
    Kernel kernel;
    return any->MakeKernel(node, &kernel);
  });
  return true;
}();

// Checks the options that times are computed from.
Status CheckOptions(const EmulatedDeviceOptions& o) {
  for (const auto& [what, rate] : {std::pair("flops_per_s", o.flops_per_s),
                                   {"bytes_per_s", o.bytes_per_s},
                                   {"copy_bytes_per_s", o.copy_bytes_per_s}})
    if (!(rate > 0))
      return InvalidArgument("emulated device: ", what,
                             ": expected a positive rate, got ", rate);
  const auto check_ns = [](const std::string& what, int64_t ns) {
    // A thread waits for this time.
    constexpr int64_t kMax = int64_t{1'000'000'000} * 3600;
    if (ns >= 0 && ns <= kMax) return OkStatus();
    return InvalidArgument("emulated device: ", what,
                           ": expected 0 ns to an hour, got ", ns);
  };
  SLUICE_RETURN_IF_ERROR(check_ns("kernel_ns", o.kernel_ns));
  SLUICE_RETURN_IF_ERROR(check_ns("copy_ns", o.copy_ns));
  for (const auto& [op, ns] : o.op_ns)
    SLUICE_RETURN_IF_ERROR(check_ns("op_ns of " + op, ns));
  return OkStatus();
}

}  // namespace

Status EmulatedDevice::MakeKernel(const Node& node, Kernel* kernel) {
  SLUICE_RETURN_IF_ERROR(CheckOptions(options_));
  const OpKind kind = node.kind();
  if (kind == OpKind::kCopyFromDevice || kind == OpKind::kCopyToDevice ||
      kind == OpKind::kAwaitDevice) {
    if (kind == OpKind::kCopyToDevice &&
        node.input(0).node->op().role == OpRole::kConst) {
      auto state = std::make_shared<ConstantCopy>();
      state->device = this;
      kernel->state = std::move(state);
      kernel->run_async = CopyConstant;
      return OkStatus();
    }
    kernel->state = std::make_shared<OfDevice>(OfDevice{this});
    kernel->run_async = kind == OpKind::kCopyFromDevice ? CopyFromDevice
                        : kind == OpKind::kCopyToDevice ? CopyToDevice
                                                        : AwaitDevice;
    return OkStatus();
  }
  if (HasString(node) || node.op().host_only)
    return Unimplemented("no kernel: expected an op that ", name().type,
                         " devices compute, got ", node.op_name());
  Kernel inner;
  SLUICE_RETURN_IF_ERROR(MakeDeclaredKernel(node, &inner));
  if (inner.run == nullptr)
    return Unimplemented("no kernel: expected an op that does not wait, got ",
                         node.op_name());
  if (node.AttrOr<bool>(kRunsOnHostAttr, false)) {
    kernel->state = std::make_shared<Kernel>(std::move(inner));
    kernel->run = RunOnHost;
    return OkStatus();
  }
  const bool saves =
      kind == OpKind::kStackPush || kind == OpKind::kTensorArrayWrite;
  const bool restores =
      kind == OpKind::kStackPop || kind == OpKind::kTensorArrayRead;
  // (A pop has no such attribute: it depends on the stack's contents.)
  const bool swaps = node.AttrOr<bool>("swap_memory", false) ||
                     node.AttrOr<bool>(kSwapMemoryAttr, false);
  if (kind == OpKind::kStackPop || (swaps && (saves || restores))) {
    kernel->state = std::make_shared<Swapping>(
        Swapping{this, std::move(inner), kind == OpKind::kStackPush ? 1 : 2});
    kernel->run_async = saves ? Save : Restore;
    return OkStatus();
  }
  const auto fixed = options_.op_ns.find(node.op_name());
  const int64_t ns = fixed != options_.op_ns.end()   ? fixed->second
                     : node.op().touches_no_elements ? 0
                                                     : -1;
  kernel->state = std::make_shared<Issued>(
      Issued{this, std::move(inner), ArithmeticOf(node), ns});
  kernel->run = RunIssued;
  return OkStatus();
}

}  // namespace sluice
