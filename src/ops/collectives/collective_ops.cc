// All-reduce, broadcast, all-gather and reduce-scatter among the members of a
// group (docs/design/043-collectives.md).
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/graph.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/collectives/hub.h"

namespace sluice {
namespace {

using collectives::Algorithm;
using collectives::Call;
using collectives::CallSpec;
using collectives::Hub;
using collectives::Operation;

constexpr int64_t kMaxKey = INT32_MAX;
// A gradient's instance is that of its node and a multiple of this: all members
// that build the same graph get the same.
constexpr int64_t kGradientStride = 1 << 24;

std::string StringOf(const Node& n, const char* attr) {
  return n.AttrOr<std::string>(attr, "");
}

Algorithm AlgorithmOf(const Node& n) {
  const std::string hint = StringOf(n, "communication_hint");
  if (hint == "ring") return Algorithm::kRing;
  if (hint == "tree") return Algorithm::kTree;
  if (hint == "direct") return Algorithm::kDirect;
  // (What other programs ask for, such as nccl, this one has not.)
  return Algorithm::kAuto;
}

class CollectiveKernel {
 public:
  static Result<std::shared_ptr<CollectiveKernel>> Make(const Node& n,
                                                        Operation operation) {
    auto k = std::make_shared<CollectiveKernel>();
    CallSpec& s = k->spec_;
    s.operation = operation;
    s.group = n.IntAttr("group_key");
    s.size = n.IntAttr("group_size");
    s.instance = n.IntAttr("instance_key");
    s.rank = n.AttrOr<int64_t>("rank", -1);
    s.device = n.device();
    s.algorithm = AlgorithmOf(n);
    if (s.size < 1 || s.size > 65536)
      return InvalidArgument("group_size: expected 1 to 65536 members, got ",
                             s.size);
    if (s.instance < 0 || s.instance > kMaxKey)
      return InvalidArgument("instance_key: expected 0 to ", kMaxKey, ", got ",
                             s.instance);
    if (s.rank < -1 || s.rank >= s.size)
      return InvalidArgument("rank: expected 0 to ", s.size - 1,
                             " or -1 for the order of devices, got ", s.rank);
    if (operation == Operation::kReduce ||
        operation == Operation::kReduceScatter) {
      s.merge = *collectives::ParseMergeOp(StringOf(n, "merge_op"));
      s.mean = StringOf(n, "final_op") == "Div";
    }
    if (operation == Operation::kBroadcast) {
      s.root = n.num_inputs() == 1;
      k->shape_ = n.AttrOr<PartialShape>("shape", PartialShape());
      if (!s.root && !k->shape_.fully_known())
        return InvalidArgument("shape: expected a known one, got ",
                               k->shape_.ToString());
    }
    k->dtype_ = n.TypeAttr("T");
    return k;
  }

  // In a group of one.
  Status RunAlone(KernelContext& ctx) const {
    if (receives())
      return InvalidArgument(
          "group_size: expected at least 2 where one receives, got 1");
    SLUICE_RETURN_IF_ERROR(CheckInput(ctx.input(0).shape()));
    ctx.set_output(0, ctx.TakeInput(0));
    return OkStatus();
  }
  void Start(KernelContext& ctx, DoneFn done) {
    if (spec_.size == 1) return done(RunAlone(ctx));
    if (Status s = TryStart(ctx, &done); !s.ok()) done(std::move(s));
  }

 private:
  bool receives() const {
    return spec_.operation == Operation::kBroadcast && !spec_.root;
  }
  Status CheckInput(const Shape& shape) const {
    if (spec_.root && !shape_.CompatibleWith(PartialShape(shape)))
      return InvalidArgument("input: expected shape ", shape_.ToString(),
                             ", got ", shape.ToString());
    const bool by_rows = spec_.operation == Operation::kGather ||
                         spec_.operation == Operation::kReduceScatter;
    if (by_rows && shape.rank() < 1)
      return InvalidArgument("input: expected at least one dimension, got a ",
                             "scalar");
    return OkStatus();
  }
  // Calls `done` later or before it returns, unless it fails.
  Status TryStart(KernelContext& ctx, DoneFn* done) {
    Shape shape;
    if (receives()) {
      SLUICE_ASSIGN_OR_RETURN(shape, shape_.ToShape());
    } else {
      shape = ctx.input(0).shape();
      SLUICE_RETURN_IF_ERROR(CheckInput(shape));
    }
    Shape out = shape;
    if (spec_.operation == Operation::kGather) {
      Dims dims(shape.dims().begin(), shape.dims().end());
      if (dims[0] > 0 && dims[0] > INT64_MAX / spec_.size)
        return InvalidArgument("input: expected fewer rows, got ", dims[0]);
      dims[0] *= spec_.size;
      SLUICE_ASSIGN_OR_RETURN(out, Shape::Make(dims));
    }
    Tensor input = receives() ? Tensor() : ctx.input(0);
    Tensor output;
    if (!spec_.root) {
      SLUICE_ASSIGN_OR_RETURN(output, ctx.AllocateTemp(dtype_, out));
    }
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Hub> hub, Hub::Of(ctx));
    auto finish = [this, context = &ctx, done = std::move(*done)](
                      const Call& call, Result<Tensor> result) {
      if (!result.ok()) return done(result.status());
      done(Set(*context, call, *std::move(result)));
    };
    auto call =
        std::make_shared<Call>(spec_, std::move(input), std::move(output),
                               dtype_, shape, std::move(finish));
    hub->Start(ctx, std::move(call));
    return OkStatus();
  }

  // Sets the output. The result of a reduce-scatter is in a buffer for all.
  Status Set(KernelContext& ctx, const Call& call, Tensor result) const {
    if (spec_.operation != Operation::kReduceScatter) {
      ctx.set_output(0, std::move(result));
      return OkStatus();
    }
    const int64_t rows = result.dim(0);
    const int n = static_cast<int>(spec_.size);
    const int64_t begin = collectives::PartBegin(rows, call.rank(), n);
    const int64_t end = collectives::PartBegin(rows, call.rank() + 1, n);
    Dims dims(result.shape().dims().begin(), result.shape().dims().end());
    dims[0] = end - begin;
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, dtype_, shape));
    const Tensor mine = result.Rows(begin, end);
    std::copy_n(mine.raw<char>(), mine.bytes(), ctx.output(0).raw<char>());
    return OkStatus();
  }

  CallSpec spec_;
  DType dtype_ = DType::kInvalid;
  PartialShape shape_;
};

template <Operation kOperation>
KernelMaker CollectiveMaker() {
  return [](const Node& n, Kernel* k) {
    SLUICE_ASSIGN_OR_RETURN(k->state, CollectiveKernel::Make(n, kOperation));
    k->run_async = [](KernelContext& ctx, DoneFn done) {
      ctx.state<CollectiveKernel>().Start(ctx, std::move(done));
    };
    // (Sending to members in this process computes on this thread.)
    k->expensive = true;
    return OkStatus();
  };
}

// The instance of the gradient of a node: such that it differs from those of
// the gradients that the member has already.
int64_t GradientInstance(const Node& node) {
  int64_t instance = node.IntAttr("instance_key");
  const auto taken = [&] {
    for (const auto& n : node.graph()->nodes()) {
      if (n->FindAttr("instance_key") != nullptr &&
          n->IntAttr("instance_key") == instance &&
          n->IntAttr("group_key") == node.IntAttr("group_key") &&
          n->AttrOr<int64_t>("rank", -1) == node.AttrOr<int64_t>("rank", -1) &&
          n->device() == node.device())
        return true;
    }
    return false;
  };
  do {
    instance += kGradientStride;
  } while (taken());
  return instance;
}

AttrMap GradientAttrs(const Node& n) {
  AttrMap attrs;
  for (const char* same :
       {"T", "group_key", "group_size", "communication_hint", "rank"})
    if (const AttrValue* value = n.FindAttr(same)) attrs[same] = *value;
  attrs["instance_key"] = GradientInstance(n);
  return attrs;
}

Status CheckSum(const Node& n) {
  if (StringOf(n, "merge_op") == "Add") return OkStatus();
  return Unimplemented("gradient: expected merge_op Add, got ",
                       StringOf(n, "merge_op"));
}

// The loss of all members depends on each input through all outputs.
Status ReduceGrad(GradContext& c) {
  SLUICE_RETURN_IF_ERROR(CheckSum(*c.op));
  AttrMap attrs = GradientAttrs(*c.op);
  attrs["merge_op"] = std::string("Add");
  attrs["final_op"] = StringOf(*c.op, "final_op");
  attrs["subdiv_offsets"] = AttrValue::Ints{};
  c.grads[0] = Build("CollectiveReduce", {c.dy[0]}, std::move(attrs));
  return OkStatus();
}

Status ReduceScatterGrad(GradContext& c) {
  SLUICE_RETURN_IF_ERROR(CheckSum(*c.op));
  const PartialShape in = c.op->input(0).shape();
  const int64_t size = c.op->IntAttr("group_size");
  // (Of unknown ones, the members of the gather below do not agree.)
  if (in.rank_known() && in.rank() > 0 && in.dim(0) >= 0 &&
      in.dim(0) % size != 0)
    return InvalidArgument("gradient: expected a multiple of ", size,
                           " rows, got ", in.dim(0));
  AttrMap attrs = GradientAttrs(*c.op);
  Output dy = c.dy[0];
  if (StringOf(*c.op, "final_op") == "Div") {
    const Output divisor =
        Build("Cast",
              {Build("Const", {},
                     {{"dtype", DType::kInt64},
                      {"value", Tensor::Scalar<int64_t>(size)}})},
              {{"DstT", c.op->TypeAttr("T")}});
    dy = Build("RealDiv", {dy, divisor});
  }
  attrs["shape"] = PartialShape();
  c.grads[0] = Build("CollectiveGather", {dy}, std::move(attrs));
  return OkStatus();
}

Status GatherGrad(GradContext& c) {
  AttrMap attrs = GradientAttrs(*c.op);
  attrs["merge_op"] = std::string("Add");
  attrs["final_op"] = std::string("Id");
  c.grads[0] = Build("CollectiveReduceScatter", {c.dy[0]}, std::move(attrs));
  return OkStatus();
}

Status GatheredShape(ShapeContext& c) {
  PartialShape in = c.input(0);
  if (in.rank_known()) {
    SLUICE_ASSIGN_OR_RETURN(in, c.WithRankAtLeast(0, 1));
    const int64_t size = c.node().IntAttr("group_size");
    std::vector<int64_t> dims;
    for (int d = 0; d < in.rank(); ++d) dims.push_back(in.dim(d));
    if (dims[0] >= 0)
      dims[0] = dims[0] > INT64_MAX / std::max<int64_t>(size, 1)
                    ? -1
                    : dims[0] * size;
    in = PartialShape(dims);
  }
  const PartialShape declared =
      c.node().AttrOr<PartialShape>("shape", PartialShape());
  if (!declared.CompatibleWith(in))
    return InvalidArgument("shape: expected ", in.ToString(), ", got ",
                           declared.ToString());
  c.set_output(0, in);
  return OkStatus();
}

Status ScatteredShape(ShapeContext& c) {
  PartialShape in = c.input(0);
  if (in.rank_known()) {
    SLUICE_ASSIGN_OR_RETURN(in, c.WithRankAtLeast(0, 1));
    const int64_t size = std::max<int64_t>(c.node().IntAttr("group_size"), 1);
    std::vector<int64_t> dims;
    for (int d = 0; d < in.rank(); ++d) dims.push_back(in.dim(d));
    dims[0] = dims[0] >= 0 && dims[0] % size == 0 ? dims[0] / size : -1;
    in = PartialShape(dims);
  }
  c.set_output(0, in);
  return OkStatus();
}

Status SentShape(ShapeContext& c) {
  const PartialShape shape =
      c.node().AttrOr<PartialShape>("shape", PartialShape());
  if (c.num_inputs() == 1 && !shape.CompatibleWith(c.input(0)))
    return InvalidArgument("input: expected shape ", shape.ToString(), ", got ",
                           c.input(0).ToString());
  c.set_output(0, shape);
  return OkStatus();
}

#define SLUICE_COLLECTIVE_GROUP \
  .Attr("group_size: int").Attr("group_key: int").Attr("instance_key: int")

#define SLUICE_COLLECTIVE_REST                 \
  .Attr("communication_hint: string = 'auto'") \
      .Attr("rank: int = -1")                  \
      .Stateful()                              \
      .Waits()                                 \
      .HostOnly()                              \
      .Family("collectives")

SLUICE_OP(CollectiveReduce)
    .Input("input: T")
    .Output("data: T")
    .Attr("T: {float, half, bfloat16, double, int32, int64}")
        SLUICE_COLLECTIVE_GROUP.Attr("merge_op: {'Min', 'Max', 'Mul', 'Add'}")
    .Attr("final_op: {'Id', 'Div'}")
    .Attr("subdiv_offsets: list(int) = []")
    .Attr("wait_for: list(int) = []") SLUICE_COLLECTIVE_REST
    .Shape(UnchangedShape)
    .Kernel(CollectiveMaker<Operation::kReduce>())
    .Grad(ReduceGrad)
    .Doc(
        "Merges the inputs of all members of a group, element by element, for "
        "all of them.");

SLUICE_OP(CollectiveReduceScatter)
    .Input("input: T")
    .Output("data: T")
    .Attr("T: {float, half, bfloat16, double, int32, int64}")
        SLUICE_COLLECTIVE_GROUP.Attr("merge_op: {'Min', 'Max', 'Mul', 'Add'}")
    .Attr("final_op: {'Id', 'Div'}") SLUICE_COLLECTIVE_REST
    .Shape(ScatteredShape)
    .Kernel(CollectiveMaker<Operation::kReduceScatter>())
    .Grad(ReduceScatterGrad)
    .Doc(
        "Merges the inputs of all members of a group; each gets its share of "
        "the rows.");

SLUICE_OP(CollectiveGather)
    .Input("input: T")
    .Output("data: T")
    .Attr("T: {float, half, bfloat16, double, int32, int64}")
        SLUICE_COLLECTIVE_GROUP
    .Attr("shape: shape = { unknown_rank: true }") SLUICE_COLLECTIVE_REST
    .Shape(GatheredShape)
    .Kernel(CollectiveMaker<Operation::kGather>())
    .Grad(GatherGrad)
    .Doc(
        "The inputs of all members of a group, one after the other along the "
        "first dimension.");

SLUICE_OP(CollectiveBcastSend)
    .Input("input: T")
    .Output("data: T")
    .Attr("T: {float, half, bfloat16, double, int32, int64}")
        SLUICE_COLLECTIVE_GROUP.Attr("shape: shape") SLUICE_COLLECTIVE_REST
    .Shape(SentShape)
    .Kernel(CollectiveMaker<Operation::kBroadcast>())
    .NoGradient("the other members have no gradient to send back")
    .Doc("Sends a value to all other members of a group.");

SLUICE_OP(CollectiveBcastRecv)
    .Output("data: T")
    .Attr("T: {float, half, bfloat16, double, int32, int64}")
        SLUICE_COLLECTIVE_GROUP.Attr("shape: shape") SLUICE_COLLECTIVE_REST
    .Shape(SentShape)
    .Kernel(CollectiveMaker<Operation::kBroadcast>())
    .NoGradient("it has no input")
    .Doc("Receives the value that another member of a group sends.");

}  // namespace
}  // namespace sluice
