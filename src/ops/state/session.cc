// Tensors that are stored in the session between steps, by handle.
#include <atomic>

#include "graph/op_def.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

// A value stored under its handle until it is deleted. Immutable.
class SessionTensor : public Resource {
 public:
  explicit SessionTensor(Tensor v) : value(std::move(v)) {}
  std::string TypeName() const override { return "SessionTensor"; }
  const Tensor value;
};

// Separate from the variables, whose names belong to the user.
constexpr const char* kContainer = "_session_tensors";

// Stores input 0 and returns its handle: a string, or a resource of that name.
Status RunGetSessionHandle(KernelContext& ctx) {
  static std::atomic<int64_t> next{0};
  const std::string name = absl::StrCat(
      ctx.node().name(), ";", next.fetch_add(1, std::memory_order_relaxed),
      ";/job:localhost/replica:0/task:0/device:CPU:0");
  SLUICE_ASSIGN_OR_RETURN(Tensor value, ctx.TakeToKeep(0));
  auto kept = std::make_shared<SessionTensor>(std::move(value));
  SLUICE_RETURN_IF_ERROR(ctx.step().resources->Create(kContainer, name, kept));
  if (ctx.node().output_type(0) == DType::kString) {
    ctx.set_output(0, Tensor::Scalar<std::string>(name));
  } else {
    ctx.set_output(
        0, Tensor::Scalar<ResourceHandle>({kContainer, name, std::move(kept)}));
  }
  return OkStatus();
}

Result<std::string> HandleInput(const KernelContext& ctx) {
  const Tensor& t = ctx.input(0);
  if (t.num_elements() != 1)
    return InvalidArgument("handle: expected a scalar, got shape ",
                           t.shape().ToString());
  return t.raw_scalar<std::string>();
}

Status NoSuchHandle(const std::string& handle) {
  return InvalidArgument("The tensor with handle '", handle,
                         "' is not in the session store.");
}

Status RunGetSessionTensor(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::string handle, HandleInput(ctx));
  auto kept = ctx.step().resources->Lookup<SessionTensor>(kContainer, handle);
  if (!kept.ok()) return NoSuchHandle(handle);
  const Tensor& value = (*kept)->value;
  if (value.dtype() != ctx.node().output_type(0))
    return InvalidArgument("handle '", handle, "': expected a tensor of type ",
                           DTypeName(ctx.node().output_type(0)), ", got ",
                           DTypeName(value.dtype()));
  ctx.set_output(0, value);
  return OkStatus();
}

Status RunDeleteSessionTensor(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::string handle, HandleInput(ctx));
  if (!ctx.step().resources->Delete(kContainer, handle).ok())
    return NoSuchHandle(handle);
  return OkStatus();
}

Status HandleInShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  return OkStatus();  // The outputs, if any, are unknown.
}

constexpr const char* kSessionGradient =
    "gradients do not flow through a session";

SLUICE_OP(GetSessionHandle)
    .Input("value: T")
    .Output("handle: string")
    .Attr("T: type")
    .Kind(OpKind::kGetSessionHandle)
    .Stateful()
    .Family("state")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunGetSessionHandle))
    .NoGradient(kSessionGradient)
    .Sample({{.shape = {2}, .dtype = DType::kFloat}})
    .Doc("Stores a tensor in the session, and returns a handle to it.");

SLUICE_OP(GetSessionHandleV2)
    .Input("value: T")
    .Output("handle: resource")
    .Attr("T: type")
    .Kind(OpKind::kGetSessionHandle)
    .Stateful()
    .Family("state")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunGetSessionHandle))
    .NoGradient(kSessionGradient)
    .Sample({{.shape = {2}, .dtype = DType::kFloat}})
    .Doc(
        "Stores a tensor in the session, and returns a resource whose name is "
        "the handle.");

SLUICE_OP(GetSessionTensor)
    .Input("handle: string")
    .Output("value: dtype")
    .Attr("dtype: type")
    .Stateful()
    .Family("state")
    .Shape(HandleInShape)
    .Kernel(Cpu(RunGetSessionTensor))
    .NoGradient(kSessionGradient)
    .Doc("Returns the tensor that the session stores under a handle.");

SLUICE_OP(DeleteSessionTensor)
    .Input("handle: string")
    .Stateful()
    .Family("state")
    .Shape(HandleInShape)
    .Kernel(Cpu(RunDeleteSessionTensor))
    .NoGradient(kSessionGradient)
    .Doc("Deletes the tensor that the session stores under a handle.");

}  // namespace
}  // namespace sluice
