// Ops on queues, in both spellings: with handles that are references to strings
// and with resources (docs/design/032-queues.md).
#include <algorithm>

#include "absl/strings/str_join.h"
#include "graph/hidden_attributes.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/queues/batch.h"
#include "ops/queues/queue.h"
#include "ops/queues/queue_kernels.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

using queues::Element;
using queues::Queue;
using queues::QueueOptions;

enum class QueueKind { kFifo, kPadding, kShuffle, kPriority };

constexpr std::string_view kPaddingKind = "PaddingFIFOQueue";

constexpr const char* QueueKindName(QueueKind kind) {
  switch (kind) {
    case QueueKind::kFifo:
      return "FIFOQueue";
    case QueueKind::kPadding:
      return "PaddingFIFOQueue";
    case QueueKind::kShuffle:
      return "RandomShuffleQueue";
    case QueueKind::kPriority:
      return "PriorityQueue";
  }
  return "";
}

std::string ShapesText(const std::vector<PartialShape>& shapes) {
  return absl::StrCat(
      "[",
      absl::StrJoin(shapes, ",",
                    [](std::string* out, const PartialShape& s) {
                      out->append(s.ToString());
                    }),
      "]");
}

// ---- Making queues ----------------------------------------------------------

// The components of the queues that a node makes. A priority queue has the
// priority before those declared.
std::vector<DType> ComponentTypes(const Node& n, bool has_priority) {
  auto types = n.AttrOr<AttrValue::Types>("component_types", {});
  if (has_priority) types.insert(types.begin(), DType::kInt64);
  return types;
}
std::vector<PartialShape> ComponentShapes(const Node& n, bool has_priority) {
  auto shapes = n.AttrOr<AttrValue::Shapes>("shapes", {});
  if (has_priority) shapes.insert(shapes.begin(), PartialShape(Shape()));
  return shapes;
}

template <QueueKind kind>
class MakeQueueKernel {
 public:
  static Result<std::shared_ptr<MakeQueueKernel>> Make(const Node& n) {
    auto k = std::make_shared<MakeQueueKernel>(n);
    SLUICE_RETURN_IF_ERROR(CheckOptions(k->options_));
    return k;
  }
  explicit MakeQueueKernel(const Node& n) : handle_(n) {
    constexpr bool kHasPriority = kind == QueueKind::kPriority;
    options_.name = handle_.name();
    options_.kind = QueueKindName(kind);
    options_.types = ComponentTypes(n, kHasPriority);
    options_.shapes = ComponentShapes(n, kHasPriority);
    options_.capacity = std::max<int64_t>(n.IntAttr("capacity"), -1);
    options_.min_after_dequeue = n.AttrOr<int64_t>("min_after_dequeue", 0);
    options_.seed = n.AttrOr<int64_t>("seed", 0);
    options_.seed2 = n.AttrOr<int64_t>("seed2", 0);
    options_.pipeline = n.AttrOr<std::string>(kPipelineAttr, "");
    options_.stage = n.AttrOr<AttrValue::Ints>(kPipelineStageAttr, {});
  }
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(
        ctx.output(0),
        handle_.Get(
            ctx,
            [this] { return std::make_shared<Queue>(options_, MakeStore()); },
            [this](const Queue& q) { return CheckSame(q.options()); }));
    return OkStatus();
  }

 private:
  static Status CheckOptions(const QueueOptions& o) {
    constexpr bool kPadded = kind == QueueKind::kPadding;
    const bool may_be_any =
        kind == QueueKind::kFifo || kind == QueueKind::kShuffle;
    if (o.shapes.size() != o.types.size() && !(o.shapes.empty() && may_be_any))
      return InvalidArgument("shapes: expected one for each of the ",
                             o.types.size(), " components, got ",
                             o.shapes.size());
    for (const PartialShape& s : o.shapes)
      if (!(kPadded ? s.rank_known() : s.fully_known()))
        return InvalidArgument(
            "shapes: expected shapes that are fully ",
            kPadded ? "defined except for dimensions" : "defined", ", got ",
            s.ToString());
    if (o.min_after_dequeue < 0)
      return InvalidArgument("min_after_dequeue ", o.min_after_dequeue,
                             " must be >= 0");
    if (o.capacity >= 0 && o.min_after_dequeue >= o.capacity &&
        kind == QueueKind::kShuffle)
      return InvalidArgument("min_after_dequeue ", o.min_after_dequeue,
                             " must be < capacity ", o.capacity);
    return OkStatus();
  }
  std::unique_ptr<queues::ElementStore> MakeStore() const {
    switch (kind) {
      case QueueKind::kShuffle:
        return queues::MakeShuffleStore(options_.min_after_dequeue,
                                        options_.seed, options_.seed2);
      case QueueKind::kPriority:
        return queues::MakePriorityStore();
      case QueueKind::kFifo:
      case QueueKind::kPadding:
        break;
    }
    return queues::MakeFifoStore();
  }
  // Steps and sessions that share a queue must declare the same one.
  Status CheckSame(const QueueOptions& o) const {
    const auto error = [&](const char* what, const auto& has,
                           const auto& wanted) {
      return InvalidArgument("Shared queue '", options_.name, "' has ", what,
                             " ", has, " but requested ", what, " ", wanted);
    };
    if (std::string_view(o.kind) != options_.kind)
      return InvalidArgument("Expected ", options_.kind, ", found ", o.kind,
                             " '", options_.name, "'");
    if (o.capacity != options_.capacity)
      return error("capacity", o.capacity, options_.capacity);
    if (o.types != options_.types)
      return error("component types", queues::TypesText(o.types),
                   queues::TypesText(options_.types));
    if (o.shapes != options_.shapes)
      return error("component shapes", ShapesText(o.shapes),
                   ShapesText(options_.shapes));
    if (o.min_after_dequeue != options_.min_after_dequeue)
      return error("min_after_dequeue", o.min_after_dequeue,
                   options_.min_after_dequeue);
    // (One that asks for no seeds takes those that the queue has.)
    const bool seeded = options_.seed != 0 || options_.seed2 != 0;
    if (seeded && (o.seed != options_.seed || o.seed2 != options_.seed2))
      return error("random seeds",
                   absl::StrCat("(", o.seed, ", ", o.seed2, ")"),
                   absl::StrCat("(", options_.seed, ", ", options_.seed2, ")"));
    return OkStatus();
  }

  state::SharedHandle<Queue> handle_;
  QueueOptions options_;
};

// ---- Operations -------------------------------------------------------------

Result<std::shared_ptr<Queue>> QueueInput(const KernelContext& ctx) {
  return ctx.resource<Queue>(0);
}

Result<Element> Components(KernelContext& ctx) {
  Element element;
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(Tensor t, ctx.TakeToKeep(i));
    element.push_back(std::move(t));
  }
  return element;
}

template <bool many>
struct EnqueueKernel {
  static Result<std::shared_ptr<EnqueueKernel>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(queues::CheckTimeout(n));
    return std::make_shared<EnqueueKernel>();
  }
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue,
                            QueueInput(ctx));
    SLUICE_ASSIGN_OR_RETURN(Element components, Components(ctx));
    std::vector<Element> elements;
    if constexpr (many) {
      SLUICE_RETURN_IF_ERROR(queue->CheckBatch(components));
      SLUICE_ASSIGN_OR_RETURN(
          elements, queues::SplitBatch(components, queue->in_order()));
    } else {
      SLUICE_RETURN_IF_ERROR(queue->Check(components));
      elements.push_back(std::move(components));
    }
    queue->Enqueue(std::move(elements), ctx.step().cancellation, done);
    return OkStatus();
  }
};

template <bool many, bool up_to>
class DequeueKernel {
 public:
  static Result<std::shared_ptr<DequeueKernel>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(queues::CheckTimeout(n));
    return std::make_shared<DequeueKernel>(n);
  }
  explicit DequeueKernel(const Node& n)
      : types_(n.AttrOr<AttrValue::Types>("component_types", {})) {}
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue,
                            QueueInput(ctx));
    const QueueOptions& o = queue->options();
    SLUICE_RETURN_IF_ERROR(queues::CheckComponentTypes(types_, *queue));
    int64_t count = 1;
    if constexpr (many) {
      SLUICE_ASSIGN_OR_RETURN(count, array::IntScalar(ctx.input(1), "n"));
      if (count < 0)
        return InvalidArgument(up_to ? "DequeueUpToOp" : "DequeueManyOp",
                               " requested ", count, " < 0 elements");
      if (o.shapes.empty())
        return InvalidArgument(o.kind,
                               "'s DequeueMany and DequeueUpTo require the "
                               "components to have specified shapes.");
    }
    queue->Dequeue(
        count, up_to, ctx.step().cancellation,
        [ctx = &ctx, done, queue](Result<std::vector<Element>> taken) {
          if (!taken.ok()) return done(taken.status());
          if constexpr (many) {
            Status s = queues::SetBatchOutputs(
                ctx, 0, *taken, queue->options().kind == kPaddingKind,
                queue->options().types, queue->options().shapes);
            taken->clear();  // So that the step may own what it has got.
            return done(std::move(s));
          }
          for (int i = 0; i < ctx->num_outputs(); ++i) {
            Tensor& t = (*taken)[0][static_cast<size_t>(i)];
            if (Status s = queues::DetachRow(&t); !s.ok()) return done(s);
            ctx->set_output(i, std::move(t));
          }
          done(OkStatus());
        });
    return OkStatus();
  }

 private:
  const AttrValue::Types types_;
};

class CloseKernel {
 public:
  explicit CloseKernel(const Node& n)
      : cancel_pending_(n.BoolAttr("cancel_pending_enqueues")) {}
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue,
                            QueueInput(ctx));
    queue->Close(cancel_pending_, ctx.step().cancellation, done);
    return OkStatus();
  }

 private:
  const bool cancel_pending_;
};

Status RunQueueIsClosed(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue, QueueInput(ctx));
  ctx.set_output(0, Tensor::Scalar<bool>(queue->closed()));
  return OkStatus();
}

Status RunQueueSize(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue, QueueInput(ctx));
  ctx.set_output(0,
                 Tensor::Scalar<int32_t>(static_cast<int32_t>(queue->size())));
  return OkStatus();
}

// ---- Shapes -----------------------------------------------------------------

// The node that makes the queue of a handle; null if unknown.
const Node* QueueOrigin(Output handle) {
  for (int depth = 0; depth < 100 && handle.valid(); ++depth) {
    const Node& n = *handle.node;
    for (const QueueKind k : {QueueKind::kFifo, QueueKind::kPadding,
                              QueueKind::kShuffle, QueueKind::kPriority})
      if (n.op_name() == QueueKindName(k) ||
          n.op_name() == absl::StrCat(QueueKindName(k), "V2"))
        return &n;
    if (n.kind() != OpKind::kIdentity && n.op().role != OpRole::kEnter &&
        n.op().role != OpRole::kSwitch)
      break;
    handle = n.input(0);
  }
  return nullptr;
}

// The components' shapes, as far as the queue is known; `rows`: the dimension
// before them, or null.
Status DequeueShapeWith(ShapeContext& c, const int64_t* rows) {
  const Node* const queue = QueueOrigin(c.node().input(0));
  if (queue == nullptr) return OkStatus();
  const std::vector<PartialShape> shapes = ComponentShapes(
      *queue, std::string_view(queue->op_name()).starts_with("Priority"));
  if (shapes.size() != static_cast<size_t>(c.num_outputs())) return OkStatus();
  for (int i = 0; i < c.num_outputs(); ++i) {
    const PartialShape& s = shapes[static_cast<size_t>(i)];
    c.set_output(
        i, rows == nullptr ? s : array::JoinShapes(PartialShape({*rows}), s));
  }
  return OkStatus();
}
Status DequeueShape(ShapeContext& c) { return DequeueShapeWith(c, nullptr); }
Result<int64_t> RowsWanted(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  const std::optional<int64_t> n = c.ConstantInt(1);
  if (n && *n < 0)
    return InvalidArgument("n: expected >= 0 elements, got ", *n);
  return n.value_or(-1);
}
Status DequeueManyShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t rows, RowsWanted(c));
  return DequeueShapeWith(c, &rows);
}
Status DequeueUpToShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(RowsWanted(c).status());
  const int64_t rows = -1;
  return DequeueShapeWith(c, &rows);
}

// ---- Declarations -----------------------------------------------------------

// Both spellings of an op, which differ in the handle.
#define SLUICE_QUEUE(Name, declaration)                                      \
  SLUICE_OP(Name)                                                            \
      .Output("handle: Ref(string)")                                         \
          declaration.Attr("container: string = ''")                         \
      .Attr("shared_name: string = ''")                                      \
      .Stateful(kOwnsState)                                                  \
      .HostOnly()                                                            \
      .Family("queues")                                                      \
      .NoGradient(queues::kNoGradient);                                      \
  SLUICE_OP(Name##V2)                                                        \
      .Output("handle: resource") declaration.Attr("container: string = ''") \
      .Attr("shared_name: string = ''")                                      \
      .Stateful(kOwnsState)                                                  \
      .HostOnly()                                                            \
      .Family("queues")                                                      \
      .NoGradient(queues::kNoGradient)
#define SLUICE_QUEUE_OP(Name, declaration)                                 \
  SLUICE_OP(Name)                                                          \
      .Input("handle: Ref(string)") declaration.AllowsUninitializedInput() \
      .Stateful()                                                          \
      .HostOnly()                                                          \
      .Family("queues")                                                    \
      .NoGradient(queues::kNoGradient);                                    \
  SLUICE_OP(Name##V2)                                                      \
      .Input("handle: resource") declaration.Stateful()                    \
      .HostOnly()                                                          \
      .Family("queues")                                                    \
      .NoGradient(queues::kNoGradient)

SLUICE_QUEUE(FIFOQueue,
             .Attr("component_types: list(type) >= 1")
                 .Attr("shapes: list(shape) >= 0 = []")
                 .Attr("capacity: int = -1")
                 .Shape(state::HandleShape)
                 .Kernel(CpuState<MakeQueueKernel<QueueKind::kFifo>>())
                 .Doc("Returns a queue whose elements leave in the order in "
                      "which they came."));

SLUICE_QUEUE(PaddingFIFOQueue,
             .Attr("component_types: list(type) >= 1")
                 .Attr("shapes: list(shape) >= 0 = []")
                 .Attr("capacity: int = -1")
                 .Shape(state::HandleShape)
                 .Kernel(CpuState<MakeQueueKernel<QueueKind::kPadding>>())
                 .Doc("Returns a FIFO queue that pads elements of different "
                      "shapes when several are dequeued together."));

SLUICE_QUEUE(RandomShuffleQueue,
             .Attr("component_types: list(type) >= 1")
                 .Attr("shapes: list(shape) >= 0 = []")
                 .Attr("capacity: int = -1")
                 .Attr("min_after_dequeue: int = 0")
                 .Attr("seed: int = 0")
                 .Attr("seed2: int = 0")
                 .Shape(state::HandleShape)
                 .Kernel(CpuState<MakeQueueKernel<QueueKind::kShuffle>>())
                 .Doc("Returns a queue whose elements leave in a random "
                      "order."));

SLUICE_QUEUE(PriorityQueue,
             .Attr("component_types: list(type) >= 0 = []")
                 .Attr("shapes: list(shape) >= 0")
                 .Attr("capacity: int = -1")
                 .Shape(state::HandleShape)
                 .Kernel(CpuState<MakeQueueKernel<QueueKind::kPriority>>())
                 .Doc("Returns a queue whose elements leave in the order of "
                      "their first component, an int64."));

SLUICE_QUEUE_OP(QueueEnqueue,
                .Input("components: Tcomponents")
                    .Attr("Tcomponents: list(type) >= 1")
                    .Attr("timeout_ms: int = -1")
                    .Waits()
                    .Shape(NoOutputs)
                    .Kernel(queues::WaitingKernel<EnqueueKernel<false>>())
                    .Doc("Enqueues an element; waits until there is room."));

SLUICE_QUEUE_OP(QueueEnqueueMany,
                .Input("components: Tcomponents")
                    .Attr("Tcomponents: list(type) >= 1")
                    .Attr("timeout_ms: int = -1")
                    .Waits()
                    .Shape(NoOutputs)
                    .Kernel(queues::WaitingKernel<EnqueueKernel<true>>())
                    .Doc("Enqueues the rows of its inputs, each as soon as "
                         "there is room."));

SLUICE_QUEUE_OP(
    QueueDequeue,
    .Output("components: component_types")
        .Attr("component_types: list(type) >= 1")
        .Attr("timeout_ms: int = -1")
        .Waits()
        .Shape(DequeueShape)
        .Kernel((queues::WaitingKernel<DequeueKernel<false, false>>()))
        .Doc("Takes an element; waits until there is one."));

SLUICE_QUEUE_OP(
    QueueDequeueMany,
    .Input("n: int32")
        .Output("components: component_types")
        .Attr("component_types: list(type) >= 1")
        .Attr("timeout_ms: int = -1")
        .Waits()
        .Shape(DequeueManyShape)
        .Kernel((queues::WaitingKernel<DequeueKernel<true, false>>()))
        .Doc("Takes n elements and stacks them; waits until there are n."));

SLUICE_QUEUE_OP(
    QueueDequeueUpTo,
    .Input("n: int32")
        .Output("components: component_types")
        .Attr("component_types: list(type) >= 1")
        .Attr("timeout_ms: int = -1")
        .Waits()
        .Shape(DequeueUpToShape)
        .Kernel((queues::WaitingKernel<DequeueKernel<true, true>>()))
        .Doc("Takes n elements and stacks them, or those that are left in a "
             "closed queue."));

SLUICE_QUEUE_OP(QueueClose,
                .Attr("cancel_pending_enqueues: bool = false")
                    .Waits()
                    .Shape(NoOutputs)
                    .Kernel(queues::WaitingKernel<CloseKernel>())
                    .Doc("Closes a queue: no element enters any more, and "
                         "dequeues that it cannot satisfy fail."));

SLUICE_QUEUE_OP(QueueIsClosed, .Output("is_closed: bool")
                                   .Shape(ScalarShape)
                                   .Kernel(Cpu(RunQueueIsClosed))
                                   .Doc("Whether a queue is closed."));

SLUICE_QUEUE_OP(QueueSize, .Output("size: int32")
                               .Shape(ScalarShape)
                               .Kernel(Cpu(RunQueueSize))
                               .Doc("The number of elements in a queue."));

#undef SLUICE_QUEUE
#undef SLUICE_QUEUE_OP

}  // namespace
}  // namespace sluice
