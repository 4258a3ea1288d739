// Variables: creating, reading, inspecting and destroying them.
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

using state::CachedHandle;
using state::ResourceName;
using state::VariableInput;

constexpr const char* kNotDifferentiable =
    "a variable's value, not its handle, is differentiated";

// ---- Creation ---------------------------------------------------------------

// VariableV2 (a reference) and VarHandleOp (a handle) find or create the same
// kind of variable, and return the same kind of token.
class VariableKernel {
 public:
  explicit VariableKernel(const Node& n)
      : name_(n),
        dtype_(n.TypeAttr("dtype")),
        shape_(n.AttrOr<PartialShape>("shape", {})) {
    // The first version of the op had no other way to declare an unknown shape.
    if (n.op_name() == "Variable" && shape_.rank() == 0)
      shape_ = PartialShape::Unknown();
  }

  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0),
                            handle_.Get(ctx, name_, [this](ResourceManager* m) {
                              return Find(m);
                            }));
    return OkStatus();
  }

 private:
  Result<std::shared_ptr<Resource>> Find(ResourceManager* manager) const {
    SLUICE_ASSIGN_OR_RETURN(
        std::shared_ptr<Variable> v,
        manager->LookupOrCreate<Variable>(name_.container, name_.name, [this] {
          return std::make_shared<Variable>(name_.name, dtype_, shape_);
        }));
    if (v->dtype() != dtype_)
      return InvalidArgument("variable '", name_.name, "': expected type ",
                             DTypeName(dtype_), ", got an existing one of ",
                             DTypeName(v->dtype()));
    return std::shared_ptr<Resource>(std::move(v));
  }

  // Constant after construction.
  const ResourceName name_;
  const DType dtype_;
  PartialShape shape_;
  // Thread-safe.
  CachedHandle handle_;
};

// Exists from here to its DestroyTemporaryVariable, at most until the end of
// the step: only tokens own it. State: its kernel.
class TemporaryVariableKernel {
 public:
  static Result<std::shared_ptr<TemporaryVariableKernel>> Make(const Node& n) {
    auto k = std::make_shared<TemporaryVariableKernel>();
    k->dtype_ = n.TypeAttr("dtype");
    const auto shape = n.AttrOr<PartialShape>("shape", {});
    if (!shape.fully_known())
      return InvalidArgument("shape: expected a fully known shape, got ",
                             shape.ToString());
    SLUICE_ASSIGN_OR_RETURN(k->shape_, shape.ToShape());
    k->name_ = n.AttrOr<std::string>("var_name", "");
    if (k->name_.empty()) k->name_ = n.name();
    return k;
  }

  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(Tensor value, Tensor::Zeros(dtype_, shape_));
    auto v = std::make_shared<Variable>(name_, dtype_, shape_);
    v->Assign(std::move(value));
    ctx.set_output(0,
                   Tensor::Scalar<ResourceHandle>({"", name_, std::move(v)}));
    return OkStatus();
  }

 private:
  std::string name_;
  DType dtype_ = DType::kInvalid;
  Shape shape_;
};

// State: var_name.
Status MakeDestroyTemporary(const Node& n, Kernel* k) {
  k->state =
      std::make_shared<std::string>(n.AttrOr<std::string>("var_name", ""));
  k->run = [](KernelContext& ctx) -> Status {
    SLUICE_ASSIGN_OR_RETURN(Variable * v, VariableInput(ctx, 0));
    const std::string& expected = ctx.state<std::string>();
    if (v->name() != expected)
      return NotFound("temporary variable: expected '", expected, "', got '",
                      v->name(), "'");
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0), v->Read());
    v->Reset();
    return OkStatus();
  };
  return OkStatus();
}

Status DeclaredShape(ShapeContext& c) {
  auto shape = c.node().AttrOr<PartialShape>("shape", {});
  if (c.node().op_name() == "Variable" && shape.rank() == 0)
    shape = PartialShape::Unknown();
  c.set_output(0, std::move(shape));
  return OkStatus();
}

// ---- Reading ----------------------------------------------------------------

Status RunReadVariable(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(Variable * v,
                          VariableInput(ctx, 0, ctx.node().output_type(0)));
  SLUICE_ASSIGN_OR_RETURN(ctx.output(0), v->Read());
  return OkStatus();
}

Status ReadVariableShape(ShapeContext& c) {
  c.set_output(0, c.ResourceShape(0));
  return OkStatus();
}

Status ReadVariableGrad(GradContext& c) {
  c.grads[0] = c.dy[0];
  return OkStatus();
}

Status RunIsInitialized(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(Variable * v, VariableInput(ctx, 0));
  ctx.set_output(0, Tensor::Scalar<bool>(v->initialized()));
  return OkStatus();
}

template <typename T>
struct VariableShapeKernel {
  static Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(Variable * v, VariableInput(ctx, 0));
    return state::OfUse(ctx, v->View([&ctx](const Tensor& value) -> Status {
      const Shape& s = value.shape();
      SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), Shape({s.rank()})));
      for (int i = 0; i < s.rank(); ++i) {
        if (static_cast<int64_t>(static_cast<T>(s.dim(i))) != s.dim(i))
          return InvalidArgument("dimension ", i,
                                 ": expected one that out_type can hold, got ",
                                 s.dim(i));
        ctx.output(0).template raw<T>()[i] = static_cast<T>(s.dim(i));
      }
      return OkStatus();
    }));
  }
};

Status VariableShapeShape(ShapeContext& c) {
  const PartialShape s = c.ResourceShape(0);
  c.set_output(0, PartialShape({s.rank_known() ? s.rank() : -1}));
  return OkStatus();
}

// ---- Forgetting -------------------------------------------------------------

// State: ignore_lookup_error.
Status MakeDestroyResource(const Node& n, Kernel* k) {
  k->state = std::make_shared<bool>(n.BoolAttr("ignore_lookup_error"));
  k->run = [](KernelContext& ctx) -> Status {
    SLUICE_ASSIGN_OR_RETURN(const ResourceHandle* h, ctx.handle(0));
    // Existing handles still refer to it, and find it empty.
    if (Variable* const v = AsVariable(h->resource.get())) v->Reset();
    Status s = ctx.step().resources->Delete(h->container, h->name);
    if (s.code() == StatusCode::kNotFound && ctx.state<bool>())
      return OkStatus();
    return s;
  };
  return OkStatus();
}

// Reads are snapshots, and updates copy only values that a reader still holds:
// there is no mode to disable.
Status RunDisableCopyOnRead(KernelContext& ctx) {
  return VariableInput(ctx, 0).status();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Variable)
    .Output("ref: Ref(dtype)")
    .Attr("shape: shape")
    .Attr("dtype: type")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Kind(OpKind::kRefVariable)
    .TouchesNoElements()
    .Stateful(kOwnsState)
    .Family("state")
    .Shape(DeclaredShape)
    .Kernel(CpuState<VariableKernel>())
    .NoGradient(kNotDifferentiable)
    .Doc(
        "Returns a reference to a variable; the older form of VariableV2, in "
        "which a scalar shape means that the shape is unknown.");

SLUICE_OP(VariableV2)
    .Output("ref: Ref(dtype)")
    .Attr("shape: shape")
    .Attr("dtype: type")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Kind(OpKind::kRefVariable)
    .TouchesNoElements()
    .Stateful(kOwnsState)
    .Family("state")
    .Shape(DeclaredShape)
    .Kernel(CpuState<VariableKernel>())
    .NoGradient(kNotDifferentiable)
    .Doc(
        "Returns a reference to a variable, which keeps a tensor between "
        "steps.");

SLUICE_OP(VarHandleOp)
    .Output("resource: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Attr("debug_name: string = ''")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Attr("allowed_devices: list(string) = []")
    .Kind(OpKind::kVarHandle)
    .TouchesNoElements()
    .Stateful(kOwnsState)
    .Family("state")
    .Shape(ScalarShape)
    .Kernel(CpuState<VariableKernel>())
    .NoGradient(kNotDifferentiable)
    .Doc("Returns a handle to a variable, which keeps a tensor between steps.");

SLUICE_OP(TemporaryVariable)
    .Output("ref: Ref(dtype)")
    .Attr("shape: shape")
    .Attr("dtype: type")
    .Attr("var_name: string = ''")
    .TouchesNoElements()
    .Stateful(kOwnsState)
    .Family("state")
    .Shape(DeclaredShape)
    .Kernel(CpuState<TemporaryVariableKernel>())
    .NoGradient(kNotDifferentiable)
    .Doc(
        "Returns a reference to a new variable filled with zeros, which "
        "exists until its DestroyTemporaryVariable runs.");

SLUICE_OP(DestroyTemporaryVariable)
    .Input("ref: Ref(T)")
    .Output("value: T")
    .Attr("T: type")
    .Attr("var_name: string")
    .Family("state")
    .Shape(UnchangedShape)
    .Kernel(MakeDestroyTemporary)
    .NoGradient(kNotDifferentiable)
    .Doc("Destroys a temporary variable and returns its last value.");

SLUICE_OP(ReadVariableOp)
    .Input("resource: resource")
    .Output("value: dtype")
    .Attr("dtype: type")
    .Kind(OpKind::kReadVariable)
    .TouchesNoElements()
    .Stateful()
    .Family("state")
    .Shape(ReadVariableShape)
    .Kernel(Cpu(RunReadVariable))
    .Grad(ReadVariableGrad)
    .Doc(
        "Reads a variable atomically: the value before or after any "
        "concurrent update.");

SLUICE_OP(IsVariableInitialized)
    .Input("ref: Ref(dtype)")
    .Output("is_initialized: bool")
    .Attr("dtype: type")
    .Kind(OpKind::kIsInitialized)
    .TouchesNoElements()
    .AllowsUninitializedInput()
    .Family("state")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunIsInitialized))
    .NoGradient("its output is boolean")
    .Doc("Whether the variable has a value.");

SLUICE_OP(VarIsInitializedOp)
    .Input("resource: resource")
    .Output("is_initialized: bool")
    .Kind(OpKind::kIsInitialized)
    .Stateful()
    .Family("state")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunIsInitialized))
    .NoGradient("its output is boolean")
    .Doc("Whether the variable has a value.");

SLUICE_OP(VariableShape)
    .Input("input: resource")
    .Output("output: out_type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Kind(OpKind::kVariableShape)
    .TouchesNoElements()
    .Stateful()
    .Family("state")
    .Shape(VariableShapeShape)
    .Kernel(CpuFor<VariableShapeKernel, int32_t, int64_t>("out_type"))
    .NoGradient("it depends only on the shape")
    .Doc("The shape of a variable's value.");

SLUICE_OP(DestroyResourceOp)
    .Input("resource: resource")
    .Attr("ignore_lookup_error: bool = true")
    .Stateful()
    .Family("state")
    .Shape(NoOutputs)
    .Kernel(MakeDestroyResource)
    .NoGradient("it has no outputs")
    .Doc("Destroys the resource that a handle refers to.");

SLUICE_OP(DisableCopyOnRead)
    .Input("resource: resource")
    .Stateful()
    .Family("state")
    .Shape(NoOutputs)
    .Kernel(Cpu(RunDisableCopyOnRead))
    .NoGradient("it has no outputs")
    .Doc("Does nothing (for compatibility): reads never copy here.");

}  // namespace
}  // namespace sluice
