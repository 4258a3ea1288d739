// Kernels of emulated devices: those that are issued, and copies.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "exec/core/checked_kernel.h"
#include "exec/core/kernel_runner.h"
#include "exec/core/stream_allocator.h"
#include "exec/devices/emulated_device.h"
#include "exec/devices/late_memory.h"
#include "exec/scheduling/parameter_cache.h"
#include "exec/scheduling/scheduler.h"
#include "graph/hidden_attributes.h"

namespace sluice {
namespace {

using Kind = EmulatedDevice::StreamKind;

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

// Enqueues what `late` is to do in the span; nothing if the device's work is
// not done late.
void EnqueueLate(const EmulatedDevice& device, LateWork late,
                 const EmulatedStream::Span& span) {
  if (device.late_memory() != nullptr && late.writes_any())
    std::move(late).Enqueue(device.clock(), span.start_ns, span.end_ns);
}

// Runs a kernel that takes no time of the device, such as one that forwards a
// tensor or keeps it in an array.
Status RunAtOnce(EmulatedDevice& device, KernelContext& ctx,
                 const Kernel& inner) {
  Status s = KernelRunner::RunWithin(ctx, inner);
  if (!s.ok()) [[unlikely]]
    return device.Explain(std::move(s));
  if (device.late_memory() != nullptr) {
    LateWork late;  // (An array may have added to an element.)
    late.WritesWhatChanged(*device.late_memory());
    if (late.writes_any())
      EnqueueLate(device, std::move(late),
                  device.Issue(Kind::kCompute, ctx.node(), 0, 0));
  }
  return s;
}

// A CPU kernel may make a scalar inline or forward an input of the host; the
// kernel of a device has its outputs in the memory of the device.
Status MoveToDevice(Tensor* t, Allocator* allocator) {
  if (!t->valid() || !IsPlain(t->dtype()) || !t->in_host_memory() ||
      t->num_elements() == 0)
    return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(Tensor there,
                          Tensor::Make(t->dtype(), t->shape(), allocator));
  std::memcpy(there.raw(), t->raw(), t->bytes());
  *t = std::move(there);
  return OkStatus();
}

// Calls fn(const Tensor&) on the values of the variables that the kernel may
// read and write.
template <typename Fn>
void ForEachVariable(const KernelContext& ctx, const Fn& fn) {
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const Tensor& in = ctx.input(i);
    if (in.dtype() != DType::kResource || in.num_elements() != 1) continue;
    const Variable* v = AsVariable(in.raw<ResourceHandle>()->resource.get());
    if (v == nullptr) continue;
    v->View([&fn](const Tensor& value) {
       fn(value);
       return OkStatus();
     }).IgnoreError();  // (It may have no value yet.)
  }
}

Status RunIssued(KernelContext& ctx) {
  const Issued& k = ctx.state<Issued>();
  EmulatedDevice& device = *k.device;
  if (k.fixed_ns == 0) return RunAtOnce(device, ctx, k.inner);
  // The work is enqueued after it has been computed.
  const StreamMemory::FreeAfter end;
  LateWork late;
  const auto read = [&](const Tensor& t) {
    if (const StreamBuffer* b = StreamBuffer::Of(t))
      ctx.stream()->Wait(b->written());
    if (device.late_memory() != nullptr) late.Reads(t);
  };
  // (Before it runs: an input's buffer may become the output.)
  double bytes = 0, elements = 0, flops = 1;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    bytes += Bytes(ctx.input(i));
    elements = std::max(elements, Elements(ctx.input(i)));
    read(ctx.input(i));
  }
  ForEachVariable(ctx, read);
  flops = FlopsPerOutput(k.arithmetic, ctx);
  Status s = KernelRunner::RunWithin(ctx, k.inner);
  for (int i = 0; s.ok() && i < ctx.num_outputs(); ++i)
    s = MoveToDevice(&ctx.output(i), ctx.step().allocator);
  if (!s.ok()) [[unlikely]]
    return device.Explain(std::move(s));
  int64_t ns = k.fixed_ns;
  if (ns < 0) {
    for (int i = 0; i < ctx.num_outputs(); ++i) bytes += Bytes(ctx.output(i));
    if (ctx.num_outputs() > 0)
      flops = std::max(elements, flops * Elements(ctx.output(0)));
    ns = device.KernelNs(flops, bytes);
  }
  if (device.late_memory() != nullptr) {
    for (int i = 0; i < ctx.num_outputs(); ++i) late.Writes(ctx.output(i));
    late.WritesWhatChanged(*device.late_memory());
  }
  EnqueueLate(device, std::move(late),
              device.Issue(Kind::kCompute, ctx.node(), ns, 0));
  const std::shared_ptr<Event> written = ctx.stream()->Record();
  const auto set_written = [&written](const Tensor& t) {
    if (StreamBuffer* b = StreamBuffer::Of(t)) b->set_written(written);
  };
  for (int i = 0; i < ctx.num_outputs(); ++i) set_written(ctx.output(i));
  ForEachVariable(ctx, set_written);
  return OkStatus();
}

// Runs on the host: for nodes with kRunsOnHostAttr.
Status RunOnHost(KernelContext& ctx) {
  return KernelRunner::RunWithin(ctx, ctx.state<Kernel>(), Allocator::Cpu());
}

// ---- Kernels that wait for a stream -----------------------------------------

struct OfDevice {
  EmulatedDevice* device;
};

Result<Tensor> Copy(const Tensor& from, Allocator* allocator) {
  SLUICE_ASSIGN_OR_RETURN(Tensor to,
                          Tensor::Make(from.dtype(), from.shape(), allocator));
  if (from.bytes() > 0) std::memcpy(to.raw(), from.raw(), from.bytes());
  return to;
}

// Calls `go` when the value, of device `of`, has been computed: copies run in
// the order in which their inputs are ready, not in the order of the requests.
void WhenWritten(KernelContext& ctx, const EmulatedDevice& of,
                 const Tensor& value, std::function<void(Status)> go) {
  const std::shared_ptr<Event> written = of.Written(value);
  if (written->done()) return go(OkStatus());
  AwaitEvent(ctx, *written, std::move(go));
}

// Enqueues a copy of `value` to the host, and calls `finish` when it is done.
void SendToHost(EmulatedDevice& device, KernelContext& ctx, const Tensor& value,
                std::function<void(Status)> finish) {
  auto send = [&device, &ctx, &value,
               finish = std::move(finish)](Status s) mutable {
    if (!s.ok()) return finish(std::move(s));
    const auto bytes = static_cast<int64_t>(value.bytes());
    device.Issue(Kind::kToHost, ctx.node(), device.CopyNs(bytes), bytes);
    Stream& stream = *device.stream(Kind::kToHost);
    if (StreamBuffer* b = StreamBuffer::Of(value)) b->UseIn(stream);
    AwaitEvent(ctx, *stream.Record(), std::move(finish));
  };
  WhenWritten(ctx, device, value, std::move(send));
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
  auto give = [&ctx, done = std::move(done),
               copy = *std::move(copy)](Status s) mutable {
    if (s.ok()) {
      LateMemory::Read(ctx.input(0), &copy);
      ctx.set_output(0, std::move(copy));
    }
    copy = Tensor();
    done(std::move(s));
  };
  SendToHost(device, ctx, ctx.input(0), std::move(give));
}

// Enqueues a copy of a value of the host to the device. Values that fit in a
// register are part of the command, which the compute stream runs in no time;
// others have to be transferred.
Result<Tensor> BringIn(EmulatedDevice& device, const Node& node,
                       const Tensor& value) {
  const bool in_command = value.bytes() <= 8;
  const Kind kind = in_command ? Kind::kCompute : Kind::kFromHost;
  Result<Tensor> copy = Copy(value, device.allocator(kind));
  if (!copy.ok()) return device.Explain(copy.status());
  LateWork late;
  late.Writes(*copy);
  const int64_t ns =
      in_command ? 0 : device.CopyNs(static_cast<int64_t>(value.bytes()));
  EnqueueLate(device, std::move(late), device.IssueCopy(kind, node, ns, *copy));
  return copy;
}

// Sets output 0 to a copy that was brought in, when it is there. (What a
// command brings is there for all that the compute stream runs later.)
void GiveWhenThere(EmulatedDevice& device, KernelContext& ctx, Tensor copy,
                   DoneFn done) {
  if (copy.bytes() <= 8) {
    ctx.set_output(0, std::move(copy));
    return done(OkStatus());
  }
  WhenWritten(ctx, device, copy, Gives(ctx, copy, std::move(done)));
}

void BringInAndGive(EmulatedDevice& device, KernelContext& ctx,
                    const Tensor& value, DoneFn done) {
  Result<Tensor> copy = BringIn(device, ctx.node(), value);
  if (!copy.ok()) return done(copy.status());
  GiveWhenThere(device, ctx, *std::move(copy), std::move(done));
}

void CopyToDevice(KernelContext& ctx, DoneFn done) {
  BringInAndGive(*ctx.state<OfDevice>().device, ctx, ctx.input(0),
                 std::move(done));
}

// A constant is copied once.
struct ConstantCopy {
  EmulatedDevice* device;
  std::mutex mu;
  Tensor there;  // GUARDED_BY(mu)
};

void CopyConstant(KernelContext& ctx, DoneFn done) {
  ConstantCopy& k = ctx.state<ConstantCopy>();
  Tensor there;
  {
    std::lock_guard<std::mutex> lock(k.mu);
    if (!k.there.valid()) {
      Result<Tensor> copy = BringIn(*k.device, ctx.node(), ctx.input(0));
      if (!copy.ok()) return done(copy.status());
      k.there = *std::move(copy);
    }
    there = k.there;
  }
  // (Also if it was copied before: the copy may still be in progress.)
  GiveWhenThere(*k.device, ctx, std::move(there), std::move(done));
}

// A parameter of scheduled bodies is kept.
struct ParameterCopy {
  EmulatedDevice* device;
  int number;  // ParameterNumber.
};

void CopyParameter(KernelContext& ctx, DoneFn done) {
  const ParameterCopy& k = ctx.state<ParameterCopy>();
  const Tensor& value = ctx.input(0);
  if (value.bytes() <= 8)
    return BringInAndGive(*k.device, ctx, value, std::move(done));
  const Result<std::shared_ptr<ParameterCache>> cache =
      k.device->Parameters(ctx.step().resources);
  if (!cache.ok()) return done(cache.status());
  Tensor there;
  {
    std::lock_guard<std::mutex> lock((*cache)->fetch_mutex());
    there = (*cache)->Find(k.number, value);
    if (!there.valid()) {
      Result<Tensor> copy = BringIn(*k.device, ctx.node(), value);
      if (!copy.ok()) return done(copy.status());
      there = *std::move(copy);
      const Result<std::shared_ptr<Scheduler>> scheduler =
          Scheduler::Of(ctx.step().resources);
      if (!scheduler.ok()) return done(scheduler.status());
      (*cache)->Keep(k.number, (*scheduler)->HeldValue(k.number, value), there);
    }
  }
  // (Also if it was fetched before: the copy may still be in progress.)
  GiveWhenThere(*k.device, ctx, std::move(there), std::move(done));
}

// Copies from the memory of another emulated device.
void CopyFromPeer(KernelContext& ctx, DoneFn done) {
  EmulatedDevice& device = *ctx.state<OfDevice>().device;
  const Tensor& value = ctx.input(0);
  StreamBuffer* const from = StreamBuffer::Of(value);
  // (A token without elements, such as the flow of an array.)
  if (from == nullptr)
    return BringInAndGive(device, ctx, value, std::move(done));
  auto copy = [&device, &ctx, &value, from,
               done = std::move(done)](Status s) mutable {
    if (!s.ok()) return done(std::move(s));
    Result<Tensor> made = Copy(value, device.allocator(Kind::kPeer));
    if (!made.ok()) return done(device.Explain(made.status()));
    LateWork late;
    late.Reads(value);
    late.Writes(*made);
    const int64_t ns = device.PeerNs(static_cast<int64_t>(value.bytes()));
    EnqueueLate(device, std::move(late),
                device.IssueCopy(Kind::kPeer, ctx.node(), ns, *made));
    from->UseIn(*device.stream(Kind::kPeer));
    WhenWritten(ctx, device, *made, Gives(ctx, *made, std::move(done)));
  };
  const std::shared_ptr<Event> written = from->written();
  if (written->done()) return copy(OkStatus());
  AwaitEvent(ctx, *written, std::move(copy));
}

void AwaitDevice(KernelContext& ctx, DoneFn done) {
  EmulatedDevice& device = *ctx.state<OfDevice>().device;
  AwaitEvent(ctx, *device.stream(Kind::kCompute)->Record(), std::move(done));
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
    return done(RunAtOnce(device, ctx, k.inner));
  Result<Tensor> copy = device.SwapOut(value);
  if (!copy.ok()) return done(copy.status());
  auto save = [&ctx, &k, done = std::move(done),
               copy = *std::move(copy)](Status s) mutable {
    if (s.ok()) {
      LateMemory::Read(ctx.input(k.value), &copy);
      s = KernelRunner::RunWith(ctx, k.inner, k.value, copy);
    }
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
  Status s = RunAtOnce(*k.device, ctx, k.inner);
  if (!s.ok() || !k.device->IsSwappedOut(ctx.output(0)))
    return done(std::move(s));
  const Tensor saved = std::exchange(ctx.output(0), Tensor());
  BringInAndGive(*k.device, ctx, saved, std::move(done));
}

// Keeps tensors that are on the host (passes/partition_memory.cc).
bool IsContainerOfHost(const Node& n) {
  if (!IsContainer(n.kind())) return false;
  for (const char* attr : {"dtype", "T", "elem_type"}) {
    const DType t = RemoveRef(n.AttrOr<DType>(attr, DType::kInvalid));
    if (t != DType::kInvalid) return IsInteger(t) || t == DType::kBool;
  }
  return false;
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
  if (!(o.peer_bytes_per_s >= 0))
    return InvalidArgument(
        "emulated device: peer_bytes_per_s: expected a rate "
        "of at least 0, got ",
        o.peer_bytes_per_s);
  if (o.late && dynamic_cast<VirtualClock*>(o.clock.get()) == nullptr)
    return InvalidArgument(
        "emulated device: late: expected a VirtualClock, got another clock");
  const auto check_ns = [](const std::string& what, int64_t ns) {
    // A thread waits for this time.
    constexpr int64_t kMax = int64_t{1'000'000'000} * 3600;
    if (ns >= 0 && ns <= kMax) return OkStatus();
    return InvalidArgument("emulated device: ", what,
                           ": expected 0 ns to an hour, got ", ns);
  };
  SLUICE_RETURN_IF_ERROR(check_ns("kernel_ns", o.kernel_ns));
  SLUICE_RETURN_IF_ERROR(check_ns("copy_ns", o.copy_ns));
  SLUICE_RETURN_IF_ERROR(check_ns("peer_ns", o.peer_ns));
  for (const auto& [op, ns] : o.op_ns)
    SLUICE_RETURN_IF_ERROR(check_ns("op_ns of " + op, ns));
  return OkStatus();
}

}  // namespace

Status EmulatedDevice::MakeKernel(const Node& node, Kernel* kernel) {
  SLUICE_RETURN_IF_ERROR(CheckOptions(options_));
  const OpKind kind = node.kind();
  if (kind == OpKind::kCopyFromDevice || kind == OpKind::kCopyFromPeer ||
      kind == OpKind::kCopyToDevice || kind == OpKind::kAwaitDevice) {
    if (kind == OpKind::kCopyToDevice &&
        node.input(0).node->op().role == OpRole::kConst) {
      auto state = std::make_shared<ConstantCopy>();
      state->device = this;
      kernel->state = std::move(state);
      kernel->run_async = CopyConstant;
      return OkStatus();
    }
    if (const auto parameter = node.AttrOr<std::string>(kParameterAttr, "");
        !parameter.empty()) {
      kernel->state = std::make_shared<ParameterCopy>(
          ParameterCopy{this, ParameterNumber(parameter)});
      kernel->run_async = CopyParameter;
      return OkStatus();
    }
    kernel->state = std::make_shared<OfDevice>(OfDevice{this});
    kernel->run_async = kind == OpKind::kCopyFromDevice ? CopyFromDevice
                        : kind == OpKind::kCopyFromPeer ? CopyFromPeer
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
  if (node.AttrOr<bool>(kRunsOnHostAttr, false) || IsContainerOfHost(node)) {
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
