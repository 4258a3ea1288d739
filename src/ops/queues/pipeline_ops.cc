// What the stages of pipelines do with the queues between them
// (docs/design/034-pipelines.md): take elements until there are none, which is
// an output and not an error, end epochs, and pass errors on.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/queues/batch.h"
#include "ops/queues/queue_kernels.h"

namespace sluice {
namespace {

using queues::Element;
using queues::Queue;

// The component types and shapes that a node declares.
struct StreamComponents {
  explicit StreamComponents(const Node& n)
      : types(n.AttrOr<AttrValue::Types>("component_types", {})),
        shapes(n.AttrOr<AttrValue::Shapes>("shapes", {})) {}
  static Status Check(const Node& n) {
    const StreamComponents c(n);
    if (c.shapes.size() == c.types.size()) return OkStatus();
    return InvalidArgument("shapes: expected one for each of the ",
                           c.types.size(), " components, got ",
                           c.shapes.size());
  }
  // The queue of input 0. InvalidArgument if its components have other types.
  Result<std::shared_ptr<Queue>> QueueOf(const KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Queue> queue,
                            ctx.resource<Queue>(0));
    SLUICE_RETURN_IF_ERROR(queues::CheckComponentTypes(types, *queue));
    return queue;
  }
  const std::vector<DType> types;
  const std::vector<PartialShape> shapes;
};

bool IsEnd(const Status& s) { return s.code() == StatusCode::kOutOfRange; }

class NextKernel {
 public:
  static Result<std::shared_ptr<NextKernel>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(StreamComponents::Check(n));
    return std::make_shared<NextKernel>(n);
  }
  explicit NextKernel(const Node& n) : components_(n) {}
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue,
                            components_.QueueOf(ctx));
    queue->Dequeue(1, false, ctx.step().cancellation,
                   [this, ctx = &ctx, done](Result<std::vector<Element>> x) {
                     done(x.ok()              ? Set(ctx, &(*x)[0])
                          : IsEnd(x.status()) ? SetEnd(ctx)
                                              : x.status());
                   });
    return OkStatus();
  }

 private:
  Status Set(KernelContext* ctx, Element* element) const {
    ctx->set_output(0, Tensor::Scalar<bool>(true));
    for (size_t c = 0; c < element->size(); ++c) {
      Tensor& t = (*element)[c];
      if (!components_.shapes[c].CompatibleWith(PartialShape(t.shape())))
        return InvalidArgument(
            "component ", c, ": expected an element of shape ",
            components_.shapes[c].ToString(), ", got ", t.shape().ToString());
      SLUICE_RETURN_IF_ERROR(queues::DetachRow(&t));
      ctx->set_output(static_cast<int>(c) + 1, std::move(t));
    }
    return OkStatus();
  }
  // Nobody uses the components; they have some value of the declared shape.
  Status SetEnd(KernelContext* ctx) const {
    ctx->set_output(0, Tensor::Scalar<bool>(false));
    for (size_t c = 0; c < components_.types.size(); ++c) {
      Dims dims;
      const PartialShape& declared = components_.shapes[c];
      for (int d = 0; declared.rank_known() && d < declared.rank(); ++d)
        dims.push_back(std::max<int64_t>(0, declared.dim(d)));
      SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
      SLUICE_ASSIGN_OR_RETURN(Tensor t,
                              Tensor::Zeros(components_.types[c], shape));
      ctx->set_output(static_cast<int>(c) + 1, std::move(t));
    }
    return OkStatus();
  }

  const StreamComponents components_;
};

class NextBatchKernel {
 public:
  static Result<std::shared_ptr<NextBatchKernel>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(StreamComponents::Check(n));
    return std::make_shared<NextBatchKernel>(n);
  }
  explicit NextBatchKernel(const Node& n)
      : components_(n), padded_(n.BoolAttr("padded")) {}
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue,
                            components_.QueueOf(ctx));
    SLUICE_ASSIGN_OR_RETURN(const int64_t count,
                            array::IntScalar(ctx.input(1), "n"));
    if (count < 1)
      return InvalidArgument("n: expected at least 1 element, got ", count);
    queue->Dequeue(count, /*up_to=*/true, ctx.step().cancellation,
                   [this, ctx = &ctx, done](Result<std::vector<Element>> x) {
                     Status s = x.ok()              ? Set(ctx, *x)
                                : IsEnd(x.status()) ? Set(ctx, {})
                                                    : x.status();
                     // (So that the step may own what it has got.)
                     if (x.ok()) x->clear();
                     done(std::move(s));
                   });
    return OkStatus();
  }

 private:
  Status Set(KernelContext* ctx, const std::vector<Element>& batch) const {
    ctx->set_output(
        0, Tensor::Scalar<int32_t>(static_cast<int32_t>(batch.size())));
    return queues::SetBatchOutputs(ctx, 1, batch, padded_, components_.types,
                                   components_.shapes);
  }

  const StreamComponents components_;
  const bool padded_;
};

struct EndEpochKernel {
  explicit EndEpochKernel(const Node&) {}
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue,
                            ctx.resource<Queue>(0));
    queue->EndEpoch(ctx.step().cancellation, done);
    return OkStatus();
  }
};

Status RunFail(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue,
                          ctx.resource<Queue>(0));
  SLUICE_ASSIGN_OR_RETURN(const int64_t code,
                          array::IntScalar(ctx.input(1), "code"));
  const Tensor& message = ctx.input(2);
  if (message.rank() != 0)
    return InvalidArgument("message: expected a scalar, got shape ",
                           message.shape().ToString());
  constexpr auto kLast = static_cast<int64_t>(StatusCode::kUnauthenticated);
  if (code < 1 || code > kLast ||
      code == static_cast<int64_t>(StatusCode::kOutOfRange))
    return InvalidArgument(
        "code: expected an error code other than OutOfRange, got ", code);
  queue->Fail(
      Status(static_cast<StatusCode>(code), message.raw_scalar<std::string>()));
  return OkStatus();
}

Status RunReopen(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue,
                          ctx.resource<Queue>(0));
  queue->Reopen();
  return OkStatus();
}

Status RunSkipEpoch(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue,
                          ctx.resource<Queue>(0));
  queue->SkipEpoch();
  return OkStatus();
}

Status RunWanted(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue,
                          ctx.resource<Queue>(0));
  ctx.set_output(0, Tensor::Scalar<bool>(queue->wanted()));
  return OkStatus();
}

Status RunStats(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue,
                          ctx.resource<Queue>(0));
  const Queue::Stats s = queue->stats();
  ctx.set_output(
      0, Tensor::Vector<int64_t>({s.size, s.capacity, s.entered, s.left,
                                  s.waiting_enqueues, s.waiting_dequeues,
                                  s.full_ns, s.starving_ns}));
  return OkStatus();
}

// ---- Shapes -----------------------------------------------------------------

// Output 0 is a scalar; the others have the declared shapes, after `rows`.
Status ComponentsShape(ShapeContext& c, const PartialShape& rows) {
  SLUICE_RETURN_IF_ERROR(StreamComponents::Check(c.node()));
  const StreamComponents declared(c.node());
  c.set_output(0, PartialShape::Scalar());
  for (int i = 1; i < c.num_outputs(); ++i)
    c.set_output(i, array::JoinShapes(
                        rows, declared.shapes[static_cast<size_t>(i) - 1]));
  return OkStatus();
}
Status NextShape(ShapeContext& c) {
  return ComponentsShape(c, PartialShape::Scalar());
}
Status NextBatchShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  return ComponentsShape(c, PartialShape({-1}));
}
Status StatsShape(ShapeContext& c) {
  c.set_output(0, PartialShape({8}));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(QueueNext)
    .Input("handle: resource")
    .Output("has_value: bool")
    .Output("components: component_types")
    .Attr("component_types: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .Stateful()
    .HostOnly()
    .Waits()
    .Family("queues")
    .Shape(NextShape)
    .Kernel(queues::WaitingKernel<NextKernel>())
    .NoGradient(queues::kNoGradient)
    .Doc(
        "Takes an element; has_value is false if the queue is closed and empty "
        "or an epoch has ended.");

SLUICE_OP(QueueNextBatch)
    .Input("handle: resource")
    .Input("n: int32")
    .Output("count: int32")
    .Output("components: component_types")
    .Attr("component_types: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .Attr("padded: bool = false")
    .Stateful()
    .HostOnly()
    .Waits()
    .Family("queues")
    .Shape(NextBatchShape)
    .Kernel(queues::WaitingKernel<NextBatchKernel>())
    .NoGradient(queues::kNoGradient)
    .Doc(
        "Takes n elements and stacks them, padded to the largest if requested; "
        "fewer, and none at last, if the queue is closed or an epoch has "
        "ended.");

SLUICE_OP(QueueEndEpoch)
    .Input("handle: resource")
    .Stateful()
    .HostOnly()
    .Waits()
    .Family("queues")
    .Shape(NoOutputs)
    .Kernel(queues::WaitingKernel<EndEpochKernel>())
    .NoGradient(queues::kNoGradient)
    .Doc(
        "Ends an epoch: once all elements have left, one dequeue sees the end. "
        "Waits for that, as later enqueues do.");

SLUICE_OP(QueueSkipEpoch)
    .Input("handle: resource")
    .Stateful()
    .HostOnly()
    .Family("queues")
    .Shape(NoOutputs)
    .Kernel(Cpu(RunSkipEpoch))
    .NoGradient(queues::kNoGradient)
    .Doc(
        "Drops the rest of an epoch whose end no dequeue has seen: what is in "
        "the queue, and what enters it before QueueEndEpoch.");

SLUICE_OP(QueueWanted)
    .Input("handle: resource")
    .Output("wanted: bool")
    .Stateful()
    .HostOnly()
    .Family("queues")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunWanted))
    .NoGradient(queues::kNoGradient)
    .Doc("False if the elements of this epoch are dropped (QueueSkipEpoch).");

SLUICE_OP(QueueFail)
    .Input("handle: resource")
    .Input("code: int32")
    .Input("message: string")
    .Stateful()
    .HostOnly()
    .Family("queues")
    .Shape(NoOutputs)
    .Kernel(Cpu(RunFail))
    .NoGradient(queues::kNoGradient)
    .Doc(
        "Closes a queue with an error: once all elements have left, dequeues "
        "fail with it.");

SLUICE_OP(QueueReopen)
    .Input("handle: resource")
    .Stateful()
    .HostOnly()
    .Family("queues")
    .Shape(NoOutputs)
    .Kernel(Cpu(RunReopen))
    .NoGradient(queues::kNoGradient)
    .Doc("Empties a queue and opens it again.");

SLUICE_OP(QueueStats)
    .Input("handle: resource")
    .Output("stats: int64")
    .Stateful()
    .HostOnly()
    .Family("queues")
    .Shape(StatsShape)
    .Kernel(Cpu(RunStats))
    .NoGradient(queues::kNoGradient)
    .Doc(
        "The size and the capacity of a queue (negative: no limit), how many "
        "elements have entered and left it, how many enqueues and dequeues "
        "wait, and for how many nanoseconds any enqueue and any dequeue has "
        "waited so far.");

}  // namespace
}  // namespace sluice
