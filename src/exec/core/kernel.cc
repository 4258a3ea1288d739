#include "exec/core/kernel.h"

#include "absl/strings/cord.h"
#include "exec/core/checked_kernel.h"
#include "exec/core/kernel_runner.h"

namespace sluice {

constexpr const char* kLocated = "sluice/located";

Status Located(Status s) {
  s.SetPayload(kLocated, absl::Cord());
  return s;
}

bool IsLocated(const Status& s) { return s.GetPayload(kLocated).has_value(); }

Status KernelContext::ForwardOrAllocate(std::initializer_list<int> candidates,
                                        int i, DType dtype,
                                        const Shape& shape) {
  // Tensors with a buffer have more than eight bytes.
  for (int c : candidates) {
    if (!CanForward(c)) continue;
    const InputRef r = refs_[c];
    Tensor& t = tables_[r.table][r.index];
    const bool same_shape = t.shape() == shape, same_type = t.dtype() == dtype;
    if (!IsPlain(dtype) ||
        (!same_shape && t.num_elements() != shape.num_elements()) ||
        (!same_type && DTypeSize(t.dtype()) != DTypeSize(dtype)))
      continue;
    ++moved_;
    Tensor& out = outputs_[i] = std::move(t);
    if (!same_shape) {
      SLUICE_ASSIGN_OR_RETURN(out, out.Reshaped(shape));
    }
    if (!same_type) out = out.BitcastTo(dtype);
    return OkStatus();
  }
  return Allocate(i, dtype, shape);
}

bool KernelContext::CanForward(int i) const {
  const InputRef r = refs_[i];
  if (uses_ == nullptr || r.table != InputRef::kIteration ||
      uses_[r.index] != 1)
    return false;
  const Tensor& t = tables_[r.table][r.index];
  return t.has_buffer() && t.unique();
}

Tensor KernelContext::TakeInput(int i) {
  const InputRef r = refs_[i];
  Tensor& t = tables_[r.table][r.index];
  if (uses_ != nullptr && r.table == InputRef::kIteration &&
      uses_[r.index] == 1 && t.has_buffer()) {
    ++moved_;
    return std::move(t);
  }
  return t;
}

Result<Tensor> KernelContext::TakeToKeep(int i) {
  if (input(i).borrowed()) return input(i).Clone();
  return TakeInput(i);
}

Result<const ResourceHandle*> KernelContext::handle(int i) const {
  const Tensor& t = input(i);
  if (t.dtype() != DType::kResource || t.num_elements() != 1)
    return InvalidArgument("input ", i, ": expected a resource handle, got ",
                           t.ToString());
  return t.raw<ResourceHandle>();
}

KernelMaker Cpu(Status (*run)(KernelContext&), bool expensive) {
  return [run, expensive](const Node&, Kernel* k) {
    k->run = run;
    k->expensive = expensive;
    return OkStatus();
  };
}

Status NoKernelFor(const Node& node, DType t,
                   std::initializer_list<DType> has) {
  std::string types;
  for (const DType h : has)
    absl::StrAppend(&types, types.empty() ? " (" : ", ", DTypeName(h));
  return Unimplemented("no kernel: expected a type that ", node.op_name(),
                       " computes", types, types.empty() ? "" : ")", ", got ",
                       DTypeName(t));
}

Result<std::vector<Tensor>> KernelRunner::Run(const Node& node,
                                              std::vector<Tensor> inputs,
                                              ResourceManager* resources) {
  const OpRole role = node.op().role;
  if (role == OpRole::kConst) {
    SLUICE_ASSIGN_OR_RETURN(Tensor t, node.Attr<Tensor>("value"));
    return std::vector<Tensor>{std::move(t)};
  }
  if (role == OpRole::kIdentity) return inputs;
  if (role == OpRole::kNoOp) return std::vector<Tensor>{};
  Kernel kernel;
  SLUICE_RETURN_IF_ERROR(MakeDeclaredKernel(node, &kernel));
  if (kernel.run == nullptr)
    return Unimplemented(
        "kernel: expected a synchronous one, got an async one; ",
        node.Describe());

  ResourceManager own, step_resources;
  Cancellation cancellation;
  StepContext step;
  step.resources = resources != nullptr ? resources : &own;
  step.step_resources = &step_resources;
  step.cancellation = &cancellation;
  std::vector<InputRef> refs;
  for (uint32_t i = 0; i < inputs.size(); ++i)
    refs.push_back({InputRef::kIteration, i});
  std::vector<Tensor> outputs(static_cast<size_t>(node.num_outputs()));
  KernelContext ctx;
  ctx.refs_ = refs.data();
  ctx.tables_[InputRef::kIteration] = inputs.data();
  ctx.outputs_ = outputs.data();
  ctx.state_ = kernel.state.get();
  ctx.step_ = &step;
  ctx.node_ = &node;
  ctx.num_inputs_ = static_cast<int>(inputs.size());
  ctx.num_outputs_ = node.num_outputs();
  SLUICE_RETURN_IF_ERROR(kernel.run(ctx));
  return outputs;
}

Status KernelRunner::RunWithin(KernelContext& ctx, const Kernel& kernel,
                               Allocator* allocator) {
  StepContext step;
  StepContext* const outer = ctx.step_;
  void* const state = ctx.state_;
  if (allocator != nullptr) {
    step = *outer;
    step.allocator = allocator;
    step.stream = nullptr;
    ctx.step_ = &step;
  }
  ctx.state_ = kernel.state.get();
  Status s = kernel.run(ctx);
  ctx.state_ = state;
  ctx.step_ = outer;
  return s;
}

Status KernelRunner::RunOn(const KernelContext& ctx, const Kernel& kernel,
                           const Node& node, std::vector<Tensor> inputs,
                           Tensor* output) {
  return Repeated(ctx.step_, kernel, node, inputs.size())
      .Run(inputs, {output, 1});
}

KernelRunner::Repeated::Repeated(StepContext* step, const Kernel& kernel,
                                 const Node& node,
                                 const std::vector<bool>& kept)
    : Repeated(step, kernel, node, kept.size()) {
  for (uint32_t i = 0; i < kept.size(); ++i)
    if (kept[i]) refs_[i].table = InputRef::kFrame;
}

KernelRunner::Repeated::Repeated(StepContext* step, const Kernel& kernel,
                                 const Node& node, size_t inputs)
    : run_(kernel.run), ones_(inputs, 1) {
  for (uint32_t i = 0; i < inputs; ++i)
    refs_.push_back({InputRef::kIteration, i});
  ctx_.refs_ = refs_.data();
  ctx_.uses_ = ones_.data();
  ctx_.state_ = kernel.state.get();
  ctx_.step_ = step;
  ctx_.node_ = &node;
}

Status KernelRunner::Repeated::Run(std::span<Tensor> inputs,
                                   std::span<Tensor> outputs) {
  ctx_.tables_[InputRef::kIteration] = inputs.data();
  ctx_.tables_[InputRef::kFrame] = inputs.data();
  ctx_.outputs_ = outputs.data();
  ctx_.num_inputs_ = static_cast<int>(inputs.size());
  ctx_.num_outputs_ = static_cast<int>(outputs.size());
  return run_(ctx_);
}

Status KernelRunner::RunWith(KernelContext& ctx, const Kernel& kernel, int i,
                             Tensor value) {
  std::vector<InputRef> refs(ctx.refs_, ctx.refs_ + ctx.num_inputs_);
  refs[static_cast<size_t>(i)] = {InputRef::kLocal, 0};
  KernelContext with = ctx;
  with.refs_ = refs.data();
  with.tables_[InputRef::kLocal] = &value;
  with.state_ = kernel.state.get();
  return kernel.run(with);
}

Result<std::vector<Tensor>> RunKernel(const Node& node,
                                      std::vector<Tensor> inputs,
                                      ResourceManager* resources) {
  if (static_cast<int>(inputs.size()) != node.num_inputs())
    return InvalidArgument("inputs: expected ", node.num_inputs(), ", got ",
                           inputs.size(), "; ", node.Describe());
  for (int i = 0; i < node.num_inputs(); ++i) {
    const DType want = node.input_type(i);
    const DType got = inputs[static_cast<size_t>(i)].dtype();
    if (got != want && !IsRef(want))
      return InvalidArgument("input ", i, ": expected ", DTypeName(want),
                             ", got ", DTypeName(got), "; ", node.Describe());
  }
  Result<std::vector<Tensor>> out =
      KernelRunner::Run(node, std::move(inputs), resources);
  if (!out.ok())
    return Status(out.status().code(),
                  absl::StrCat(out.status().message(), "; ", node.Describe()));
  return out;
}

}  // namespace sluice
