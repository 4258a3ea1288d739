// Stacks, on which the forward pass of a loop saves values for its gradient.
#include <typeinfo>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

// The declaration of a StackV2 node, shared by the stacks of all its runs.
struct StackOptions {
  std::string name;  // For messages.
  DType dtype = DType::kInvalid;
};

// Tensors, last in first out. Every run of a StackV2 creates a new one. Its
// owners are the tokens of its handle: it is in no table, so it is destroyed,
// with its contents, with the last token of its step, however the step ends.
// Thread-safe; each method takes the single lock once. Tokens are moved in and
// out without copying.
class Stack final : public Resource {
 public:
  // No limit if max_size < 0.
  Stack(std::shared_ptr<const StackOptions> options, int64_t max_size)
      : options_(std::move(options)), max_size_(max_size) {}
  std::string TypeName() const override { return "Stack"; }

  Status Push(Tensor value) {
    std::lock_guard<std::mutex> lock(mu_);
    if (closed_) [[unlikely]]
      return Closed();
    if (value.dtype() != options_->dtype) [[unlikely]]
      return WrongType(value.dtype());
    if (static_cast<uint64_t>(max_size_) <= values_.size()) [[unlikely]]
      return InvalidArgument("stack '", options_->name,
                             "': push: expected at most ", max_size_,
                             " elements (max_size), got one more");
    values_.push_back(std::move(value));
    return OkStatus();
  }
  Status Pop(DType dtype, Tensor* value) {
    std::lock_guard<std::mutex> lock(mu_);
    if (closed_) [[unlikely]]
      return Closed();
    if (dtype != options_->dtype) [[unlikely]]
      return WrongType(dtype);
    if (values_.empty()) [[unlikely]]
      return InvalidArgument("stack '", options_->name,
                             "': pop: expected an element, got an empty stack");
    *value = std::move(values_.back());
    values_.pop_back();
    return OkStatus();
  }
  Status Close() {
    std::lock_guard<std::mutex> lock(mu_);
    closed_ = true;
    values_ = {};
    return OkStatus();
  }

 private:
  Status Closed() const {
    return InvalidArgument("stack '", options_->name,
                           "': expected an open stack, got one that was "
                           "closed");
  }
  Status WrongType(DType t) const {
    return InvalidArgument("stack '", options_->name,
                           "': expected elements of type ",
                           DTypeName(options_->dtype), ", got ", DTypeName(t));
  }

  const std::shared_ptr<const StackOptions> options_;
  const int64_t max_size_;
  std::mutex mu_;
  bool closed_ = false;         // GUARDED_BY(mu_)
  std::vector<Tensor> values_;  // GUARDED_BY(mu_)
};

// ---- Kernels ----------------------------------------------------------------

Status NotAStack(const KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const ResourceHandle* h, ctx.handle(0));
  return InvalidArgument("handle: expected a stack, got ",
                         h->resource ? h->resource->TypeName() : "nothing",
                         " '", h->name, "'");
}

// The stack of input 0, valid as long as the token.
Stack* StackOrNull(const KernelContext& ctx) {
  const Tensor& t = ctx.input(0);
  if (t.dtype() != DType::kResource || t.num_elements() != 1) [[unlikely]]
    return nullptr;
  Resource* r = t.raw<ResourceHandle>()->resource.get();
  if (r == nullptr || typeid(*r) != typeid(Stack)) [[unlikely]]
    return nullptr;
  return static_cast<Stack*>(r);
}

class MakeStackKernel {
 public:
  explicit MakeStackKernel(const Node& n) {
    auto options = std::make_shared<StackOptions>();
    options->name = n.AttrOr<std::string>("stack_name", "");
    if (options->name.empty()) options->name = n.name();
    options->dtype = n.TypeAttr("elem_type");
    options_ = std::move(options);
  }
  Status Run(KernelContext& ctx) {
    int64_t max_size = -1;
    if (ctx.num_inputs() > 0) {
      const Tensor& size = ctx.input(0);
      if (size.rank() != 0 || size.dtype() != DType::kInt32)
        return InvalidArgument("max_size: expected an int32 scalar, got ",
                               size.ToString());
      max_size = size.raw_scalar<int32_t>();
    }
    ctx.set_output(0, Tensor::Scalar<ResourceHandle>(
                          {"", options_->name,
                           std::make_shared<Stack>(options_, max_size)}));
    return OkStatus();
  }

 private:
  std::shared_ptr<const StackOptions> options_;
};

Status RunPush(KernelContext& ctx) {
  Stack* const stack = StackOrNull(ctx);
  if (stack == nullptr) [[unlikely]]
    return NotAStack(ctx);
  Tensor& out = ctx.output(0);
  out = ctx.TakeInput(1);
  return stack->Push(out);
}

class PopKernel {
 public:
  explicit PopKernel(const Node& n) : dtype_(n.TypeAttr("elem_type")) {}
  Status Run(KernelContext& ctx) {
    Stack* const stack = StackOrNull(ctx);
    if (stack == nullptr) [[unlikely]]
      return NotAStack(ctx);
    return stack->Pop(dtype_, &ctx.output(0));
  }

 private:
  const DType dtype_;
};

Status RunStackClose(KernelContext& ctx) {
  Stack* const stack = StackOrNull(ctx);
  return stack == nullptr ? NotAStack(ctx) : stack->Close();
}

// ---- Shapes -----------------------------------------------------------------

Status MakeStackShape(ShapeContext& c) {
  if (c.num_inputs() > 0) SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  // (Reading a reference gives its container and name.)
  if (!IsRef(c.node().output_type(0))) return ScalarShape(c);
  c.set_output(0, {2});
  return OkStatus();
}

Status PushShape(ShapeContext& c) {
  c.set_output(0, c.input(1));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

constexpr const char* kSaved = "saved by the gradient of a loop";

SLUICE_OP(StackV2)
    .Input("max_size: int32")
    .Output("handle: resource")
    .Attr("elem_type: type")
    .Attr("stack_name: string = ''")
    .Kind(OpKind::kStack)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(MakeStackShape)
    .Kernel(CpuState<MakeStackKernel>())
    .NoGradient(kSaved)
    .Doc("Creates an empty stack of tensors that lives for one step.");

SLUICE_OP(StackPushV2)
    .Input("handle: resource")
    .Input("elem: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("swap_memory: bool = false")
    .Kind(OpKind::kStackPush)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(PushShape)
    .Kernel(Cpu(RunPush))
    .NoGradient(kSaved)
    .Doc("Pushes a tensor on a stack, and returns it.");

SLUICE_OP(StackPopV2)
    .Input("handle: resource")
    .Output("elem: elem_type")
    .Attr("elem_type: type")
    .Kind(OpKind::kStackPop)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(UnknownShape)
    .Kernel(CpuState<PopKernel>())
    .NoGradient(kSaved)
    .Doc("Pops the tensor that was pushed last.");

SLUICE_OP(StackCloseV2)
    .Input("handle: resource")
    .Kind(OpKind::kStackClose)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(NoOutputs)
    .Kernel(Cpu(RunStackClose))
    .NoGradient(kSaved)
    .Doc("Frees a stack before its step ends.");

// The older versions forward the stack by reference.

SLUICE_OP(Stack)
    .Output("handle: Ref(string)")
    .Attr("elem_type: type")
    .Attr("stack_name: string = ''")
    .Kind(OpKind::kStack)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(MakeStackShape)
    .Kernel(CpuState<MakeStackKernel>())
    .NoGradient(kSaved)
    .Doc("Older version of StackV2, without a size limit.");

SLUICE_OP(StackPush)
    .Input("handle: Ref(string)")
    .Input("elem: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("swap_memory: bool = false")
    .Kind(OpKind::kStackPush)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .AllowsUninitializedInput()
    .Shape(PushShape)
    .Kernel(Cpu(RunPush))
    .NoGradient(kSaved)
    .Doc("Older version of StackPushV2.");

SLUICE_OP(StackPop)
    .Input("handle: Ref(string)")
    .Output("elem: elem_type")
    .Attr("elem_type: type")
    .Kind(OpKind::kStackPop)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .AllowsUninitializedInput()
    .Shape(UnknownShape)
    .Kernel(CpuState<PopKernel>())
    .NoGradient(kSaved)
    .Doc("Older version of StackPopV2.");

SLUICE_OP(StackClose)
    .Input("handle: Ref(string)")
    .Kind(OpKind::kStackClose)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .AllowsUninitializedInput()
    .Shape(NoOutputs)
    .Kernel(Cpu(RunStackClose))
    .NoGradient(kSaved)
    .Doc("Older version of StackCloseV2.");

}  // namespace
}  // namespace sluice
