// Constants, placeholders and ops that forward their inputs.
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/file.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

// ---- Shapes -----------------------------------------------------------------

Status ConstShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const Tensor value, c.node().Attr<Tensor>("value"));
  if (value.dtype() != c.node().TypeAttr("dtype"))
    return InvalidArgument("value: expected ",
                           DTypeName(c.node().TypeAttr("dtype")), ", got ",
                           DTypeName(value.dtype()));
  c.set_output(0, value.shape());
  return OkStatus();
}

Status PlaceholderShape(ShapeContext& c) {
  PartialShape shape = c.node().AttrOr<PartialShape>("shape", PartialShape());
  // Before this attribute was used, graphs wrote [] for an unknown shape.
  const int producer = c.producer_version();
  if (shape.rank() == 0 && producer > 0 && producer <= 21)
    shape = PartialShape();
  c.set_output(0, std::move(shape));
  return OkStatus();
}

Status PlaceholderV2Shape(ShapeContext& c) {
  c.set_output(0, c.node().AttrOr<PartialShape>("shape", PartialShape()));
  return OkStatus();
}

Status WithDefaultShape(ShapeContext& c) {
  const PartialShape shape =
      c.node().AttrOr<PartialShape>("shape", PartialShape());
  SLUICE_RETURN_IF_ERROR(c.input(0).MergeWith(shape).status());
  // The fed value may differ from the default wherever `shape` allows it.
  c.set_output(0, shape);
  return OkStatus();
}

Status EachUnchangedShape(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.set_output(i, c.input(i));
  return OkStatus();
}

Status EnsureShapeShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape s,
                          c.input(0).MergeWith(c.node().AttrOr<PartialShape>(
                              "shape", PartialShape())));
  c.set_output(0, std::move(s));
  return OkStatus();
}

// ---- Kernels ----------------------------------------------------------------

Status NotFed(KernelContext& ctx) {
  const Node& n = ctx.node();
  const PartialShape& shape = n.output_shape(0);
  return InvalidArgument(
      "placeholder '", n.name(), "': expected a fed value of ",
      DTypeName(n.output_type(0)), shape.rank_known() ? shape.ToString() : "",
      ", got none");
}

Status PassAll(KernelContext& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i)
    ctx.set_output(i, ctx.TakeInput(i));
  return OkStatus();
}

Status CopyInput(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(Tensor copy, ctx.input(0).Clone());
  ctx.set_output(0, std::move(copy));
  return OkStatus();
}

class EnsureShapeKernel {
 public:
  explicit EnsureShapeKernel(const Node& n)
      : input_(n.num_inputs() > 0 && n.input(0).valid()
                   ? n.input(0).node->name()
                   : "input"),
        shape_(n.AttrOr<PartialShape>("shape", PartialShape())) {}
  Status Run(KernelContext& ctx) {
    if (!shape_.CompatibleWith(ctx.input(0).shape()))
      return InvalidArgument("shape of '", input_, "': expected ",
                             shape_.ToString(), ", got ",
                             ctx.input(0).shape().ToString());
    ctx.set_output(0, ctx.TakeInput(0));
    return OkStatus();
  }

 private:
  const std::string input_;
  const PartialShape shape_;
};

// The first bytes of a file as a tensor. Read in the first step that runs it;
// steps take turns.
class FileConstKernel {
 public:
  static Result<std::shared_ptr<FileConstKernel>> Make(const Node& n) {
    auto k = std::make_shared<FileConstKernel>();
    k->dtype_ = n.TypeAttr("dtype");
    k->path_ = n.AttrOr<std::string>("memory_region_name", "");
    if (DTypeSize(k->dtype_) == 0)
      return InvalidArgument("dtype: expected plain numbers, got ",
                             DTypeName(k->dtype_));
    SLUICE_ASSIGN_OR_RETURN(
        k->shape_, n.AttrOr<PartialShape>("shape", PartialShape()).ToShape());
    return k;
  }
  Status Run(KernelContext& ctx) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!value_.valid()) {
      SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path_));
      const int64_t n = shape_.num_elements();
      const auto size = static_cast<int64_t>(DTypeSize(dtype_));
      if (n > static_cast<int64_t>(bytes.size()) / size)
        return InvalidArgument("memory_region_name: expected a file of ", n,
                               " elements of ", size, " bytes, got ",
                               bytes.size(), " bytes");
      SLUICE_ASSIGN_OR_RETURN(value_, ctx.AllocateTemp(dtype_, shape_));
      std::memcpy(value_.raw(), bytes.data(), static_cast<size_t>(n * size));
    }
    ctx.set_output(0, value_);
    return OkStatus();
  }

 private:
  DType dtype_ = DType::kInvalid;
  Shape shape_;
  std::string path_;
  std::mutex mutex_;
  Tensor value_;  // Guarded by mutex_.
};

Status FileConstShape(ShapeContext& c) {
  c.set_output(0, c.node().AttrOr<PartialShape>("shape", PartialShape()));
  return OkStatus();
}

// Non-finite values found in a tensor.
struct NonFinite {
  bool minus = false, plus = false, nan = false;

  template <typename T>
  void Find(const Tensor& t) {
    for (const T v : t.raw_flat<T>()) {
      const double d = static_cast<double>(v);
      if (d - d == 0) continue;  // Finite.
      (d != d ? nan : d < 0 ? minus : plus) = true;
    }
  }
  // Their description; empty if nothing was found. `signs`: with the signs of
  // infinities.
  std::string Names(bool signs) const {
    std::vector<std::string> names;
    if (signs) {
      if (minus) names.push_back("-Inf");
      if (plus) names.push_back("+Inf");
    } else if (minus || plus) {
      names.push_back("Inf");
    }
    if (nan) names.push_back("NaN");
    if (names.size() < 3) return absl::StrJoin(names, " and ");
    return "-Inf, +Inf, and NaN";
  }
};

class CheckNumericsKernel {
 public:
  explicit CheckNumericsKernel(const Node& n)
      : message_(n.AttrOr<std::string>("message", "")),
        signs_(n.op_name() == "CheckNumericsV2") {}
  Status Run(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    NonFinite found;
    switch (in.dtype()) {
      case DType::kFloat:
        found.Find<float>(in);
        break;
      case DType::kDouble:
        found.Find<double>(in);
        break;
      case DType::kHalf:
        found.Find<half>(in);
        break;
      default:
        found.Find<bfloat16>(in);
        break;
    }
    if (const std::string names = found.Names(signs_); !names.empty())
      return InvalidArgument(message_, " : Tensor had ", names, " values");
    ctx.set_output(0, ctx.TakeInput(0));
    return OkStatus();
  }

 private:
  const std::string message_;
  const bool signs_;
};

// ---- Gradients --------------------------------------------------------------

Status IdentityGrad(GradContext& g) {
  g.grads[0] = g.dy[0];
  return OkStatus();
}

Status IdentityNGrad(GradContext& g) {
  for (size_t i = 0; i < g.dy.size(); ++i) g.grads[i] = g.dy[i];
  return OkStatus();
}

Status PreventGradientGrad(GradContext& g) {
  const std::string message = g.op->AttrOr<std::string>("message", "");
  return NotFound("gradient: expected no request through '", g.op->name(),
                  "', which prevents it", message.empty() ? "" : ": ", message);
}

Status EnsureShapeGrad(GradContext& g) {
  g.grads[0] = g.dy[0];
  return OkStatus();
}

Status CheckNumericsGrad(GradContext& g) {
  g.grads[0] = Build(g.op->op_name(), {g.dy[0]},
                     {{"message",
                       "Not a number (NaN) or infinity (Inf) values detected "
                       "in gradient. Gradient of " +
                           g.op->name()}});
  return OkStatus();
}

SLUICE_OP(Const)
    .Output("output: dtype")
    .Attr("value: tensor")
    .Attr("dtype: type")
    .Role(OpRole::kConst)
    .Shape(ConstShape)
    .NoGradient("it has no inputs")
    .Sample({}, {{"value", Tensor::Vector<float>({1, 2, 3})},
                 {"dtype", DType::kFloat}})
    .Doc("A constant tensor stored in the graph.")
    .Family("array");

SLUICE_OP(ImmutableConst)
    .Output("tensor: dtype")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Attr("memory_region_name: string")
    .ReachesHost([](const Node&) -> std::string { return "reads a file"; })
    .Shape(FileConstShape)
    .Kernel(CpuState<FileConstKernel>())
    .NoGradient("it has no inputs")
    .Doc("A read-only tensor backed by the first bytes of a file.")
    .Family("array");

SLUICE_OP(Placeholder)
    .Output("output: dtype")
    .Attr("dtype: type")
    .Attr("shape: shape = { unknown_rank: true }")
    .Kind(OpKind::kPlaceholder)
    .Shape(PlaceholderShape)
    .Kernel(Cpu(NotFed))
    .NoGradient("it has no inputs")
    .Doc("A value that must be fed in every step that needs it.")
    .Family("control_flow");

SLUICE_OP(PlaceholderV2)
    .Output("output: dtype")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Kind(OpKind::kPlaceholder)
    .Shape(PlaceholderV2Shape)
    .Kernel(Cpu(NotFed))
    .NoGradient("it has no inputs")
    .Doc("A value that must be fed in every step that needs it.")
    .Family("control_flow");

SLUICE_OP(PlaceholderWithDefault)
    .Input("input: dtype")
    .Output("output: dtype")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Role(OpRole::kIdentity)
    .Shape(WithDefaultShape)
    .Grad(IdentityGrad)
    .Sample({{.shape = {2, 3}}}, {{"shape", PartialShape({-1, 3})}})
    .Doc("Returns the input, unless the step is fed another value.")
    .Family("control_flow");

SLUICE_OP(Identity)
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Kind(OpKind::kIdentity)
    .Role(OpRole::kIdentity)
    .Shape(UnchangedShape)
    .Grad(IdentityGrad)
    .Sample({{.shape = {2, 3}}})
    .Doc("Returns the input unchanged.")
    .Family("control_flow");

SLUICE_OP(IdentityN)
    .Input("input: T")
    .Output("output: T")
    .Attr("T: list(type) >= 1")
    .Kind(OpKind::kIdentityN)
    .Shape(EachUnchangedShape)
    .Kernel(Cpu(PassAll))
    .Grad(IdentityNGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {}}},
            {{"T", AttrValue::Types{DType::kFloat, DType::kDouble}}})
    .Doc("Returns the inputs unchanged.")
    .Family("control_flow");

SLUICE_OP(NoOp)
    .Role(OpRole::kNoOp)
    .Shape(NoOutputs)
    .NoGradient("it has no inputs")
    .Sample({})
    .Doc("Does nothing; groups control dependencies.")
    .Family("control_flow");

SLUICE_OP(StopGradient)
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Kind(OpKind::kSameValue)
    .Role(OpRole::kIdentity)
    .Shape(UnchangedShape)
    .NoGradient("blocking gradients is its purpose")
    .Sample({{.shape = {2, 3}}})
    .Doc("Returns the input and blocks its gradient.")
    .Family("control_flow");

SLUICE_OP(PreventGradient)
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("message: string = ''")
    .Kind(OpKind::kSameValue)
    .Role(OpRole::kIdentity)
    .Shape(UnchangedShape)
    .Grad(PreventGradientGrad)
    .Sample({{.shape = {2, 3}}})
    .Doc("Returns the input; requesting a gradient through it is an error.")
    .Family("control_flow");

SLUICE_OP(GuaranteeConst)
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Kind(OpKind::kSameValue)
    .Stateful({})
    .Role(OpRole::kIdentity)
    .Shape(UnchangedShape)
    .Grad(IdentityGrad)
    .Sample({{.shape = {2, 3}}})
    .Doc(
        "Returns the input, with the promise that it is the same in every "
        "step.")
    .Family("control_flow");

SLUICE_OP(Snapshot)
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Kind(OpKind::kSameValue)
    .Role(OpRole::kIdentity)
    .Shape(UnchangedShape)
    .Grad(IdentityGrad)
    .Sample({{.shape = {2, 3}}})
    .Doc("Returns the input unchanged.")
    .Family("control_flow");

SLUICE_OP(DeepCopy)
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Kind(OpKind::kSameValue)
    .Stateful(kDiffersEachTime)
    .Shape(UnchangedShape)
    .Kernel(Cpu(CopyInput, true))
    .Grad(IdentityGrad)
    .Sample({{.shape = {2, 3}}})
    .Doc("Copies the input to a buffer of its own.")
    .Family("control_flow");

SLUICE_OP(EnsureShape)
    .Input("input: T")
    .Output("output: T")
    .Attr("shape: shape")
    .Attr("T: type")
    .Kind(OpKind::kSameValue)
    .Shape(EnsureShapeShape)
    .Kernel(CpuState<EnsureShapeKernel>())
    .Grad(EnsureShapeGrad)
    .Sample({{.shape = {2, 3}}}, {{"shape", PartialShape({-1, 3})}})
    .Doc(
        "Returns the input; the step fails if its shape is not compatible "
        "with `shape`.")
    .Family("control_flow");

OpDefBuilder CheckNumericsOp(const char* name, const char* doc) {
  return OpDefBuilder(name)
      .Input("tensor: T")
      .Output("output: T")
      .Attr("T: {bfloat16, half, float, double}")
      .Attr("message: string")
      .Stateful()
      .Shape(UnchangedShape)
      .Kernel(CpuState<CheckNumericsKernel>(true))
      .Grad(CheckNumericsGrad)
      .Sample({{.shape = {2, 3}}}, {{"message", "sample"}})
      .Doc(doc)
      .Family("control_flow");
}

const OpRegistrar kCheckNumerics[] = {
    CheckNumericsOp("CheckNumerics",
                    "Returns the input; the step fails if it contains an "
                    "infinity or a NaN."),
    CheckNumericsOp("CheckNumericsV2",
                    "CheckNumerics with separate messages for positive and "
                    "negative infinity."),
};

}  // namespace
}  // namespace sluice
