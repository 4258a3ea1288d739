// Barriers: elements whose components come one by one, under a key, and leave
// when they are complete.
#include <cstdint>
#include <limits>
#include <map>
#include <set>

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

// A queue of complete elements: the number of the insertion that began it, the
// key, and the components. Those that began earlier leave first. Closed, it
// still accepts components of the elements that have begun. Where a component's
// shape is not given, its first value determines it.
class Barrier final : public Queue {
 public:
  explicit Barrier(QueueOptions options)
      : Queue(std::move(options), queues::MakePriorityStore()),
        shapes_(this->options().shapes) {}

  int num_components() const {
    return static_cast<int>(options().types.size()) - kFixed;
  }
  // Sets component c of the elements of these keys. All of them or none:
  // InvalidArgument if an element has that component already, or the values
  // have another shape than those before; Cancelled if the barrier is closed
  // and a key is new.
  Status Insert(const Tensor& keys, int c, std::vector<Element> values) {
    Status status;
    Update([&](Ended*) {
      status = CheckKeys(keys, c);
      if (!status.ok() || values.empty()) return;
      const PartialShape shape(values[0][0].shape());
      PartialShape& known = shapes_[static_cast<size_t>(c + kFixed)];
      if (!known.CompatibleWith(shape)) {
        status = InvalidArgument(
            "Shape mismatch in tuple component ", c, ". Expected ",
            known.ToString(), " as of the first value, got ", shape.ToString());
        return;
      }
      known = shape;
      bool begun = false;
      for (int64_t i = 0; i < keys.num_elements(); ++i) {
        const std::string& key = keys.raw<std::string>()[i];
        auto [at, is_new] = incomplete_.try_emplace(key);
        Incomplete& e = at->second;
        if (is_new) {
          begun = true;
          e.missing = num_components();
          e.element.resize(options().types.size());
          e.element[0] = Tensor::Scalar<int64_t>(next_index_);
          e.element[1] = Tensor::Scalar(key);
        }
        e.element[static_cast<size_t>(c + kFixed)] =
            std::move(values[static_cast<size_t>(i)][0]);
        if (--e.missing > 0) continue;
        store().Push(std::move(e.element));
        incomplete_.erase(at);
      }
      if (begun) ++next_index_;
    });
    return status;
  }
  // No new key is accepted any more, and with `cancel` no component either.
  Status CloseBarrier(bool cancel) {
    Status status;
    Update([&](Ended*) {
      if (closed_ && (cancelled_ || !cancel)) {
        status = Cancelled("Barrier '", options().name, "' is already closed.");
        return;
      }
      closed_ = true;
      cancelled_ = cancel;
      if (cancel) incomplete_.clear();
    });
    return status;
  }
  int64_t incomplete_size() const {
    std::lock_guard<std::mutex> lock(mu_);
    return to_come();
  }

  static constexpr int kFixed = 2;  // The number and the key.

 private:
  struct Incomplete {
    Element element;
    int missing = 0;
  };
  int64_t to_come() const override {
    return static_cast<int64_t>(incomplete_.size());
  }
  Status Insufficient(int64_t requested) const override {
    return OutOfRange("Barrier '", options().name,
                      "' is closed and has insufficient elements (requested ",
                      requested, ", total size ", store().size() + to_come(),
                      ")");
  }
  Status CheckKeys(const Tensor& keys, int c) const {
    int64_t added = 0;
    std::set<std::string_view> seen;
    for (const std::string& key : keys.raw_flat<std::string>()) {
      const auto at = incomplete_.find(key);
      if (at == incomplete_.end()) ++added;
      const bool set =
          at != incomplete_.end() &&
          at->second.element[static_cast<size_t>(c + kFixed)].valid();
      // (The elements of a barrier of one component are complete at once.)
      if (set || (num_components() > 1 && !seen.insert(key).second))
        return InvalidArgument("Key ", key,
                               " already has a value for component ", c,
                               " in barrier ", options().name);
    }
    if (closed_ && (cancelled_ || added > 0))
      return Cancelled("Barrier ", options().name,
                       " is closed.  Pending enqueues cancelled: ", cancelled_,
                       ".  Number of new insertions: ", added,
                       ".  Number of incomplete keys: ", incomplete_.size(),
                       ".");
    return OkStatus();
  }

  // GUARDED_BY(mu_):
  AttrValue::Shapes shapes_;
  bool cancelled_ = false;
  int64_t next_index_ = std::numeric_limits<int64_t>::min();
  std::map<std::string, Incomplete> incomplete_;
};

class MakeBarrierKernel {
 public:
  static Result<std::shared_ptr<MakeBarrierKernel>> Make(const Node& n) {
    auto k = std::make_shared<MakeBarrierKernel>(n);
    const QueueOptions& o = k->options_;
    if (o.shapes.size() != o.types.size())
      return InvalidArgument(
          "All of the component shapes must be specified: "
          "expected ",
          o.types.size() - Barrier::kFixed, ", got ",
          o.shapes.size() - Barrier::kFixed);
    if (n.IntAttr("capacity") != -1)
      return InvalidArgument(
          "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier "
          "through a queue to enforce a limited capacity.");
    return k;
  }
  explicit MakeBarrierKernel(const Node& n) : handle_(n) {
    options_.name = handle_.name();
    options_.kind = "Barrier";
    options_.types = n.AttrOr<AttrValue::Types>("component_types", {});
    options_.shapes = n.AttrOr<AttrValue::Shapes>("shapes", {});
    options_.types.insert(options_.types.begin(),
                          {DType::kInt64, DType::kString});
    options_.shapes.insert(options_.shapes.begin(), Barrier::kFixed,
                           PartialShape(Shape()));
  }
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(
        ctx.output(0),
        handle_.Get(
            ctx, [this] { return std::make_shared<Barrier>(options_); },
            [this](const Barrier& b) {
              if (b.options().types == options_.types &&
                  b.options().shapes == options_.shapes)
                return OkStatus();
              return InvalidArgument("Shared barrier '", options_.name,
                                     "' has other component types or shapes "
                                     "than requested");
            }));
    return OkStatus();
  }

 private:
  state::SharedHandle<Barrier> handle_;
  QueueOptions options_;
};

Result<std::shared_ptr<Barrier>> BarrierInput(const KernelContext& ctx) {
  return ctx.resource<Barrier>(0);
}

struct BarrierInsertKernel {
  explicit BarrierInsertKernel(const Node& n)
      : component(n.IntAttr("component_index")) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Barrier> barrier,
                            BarrierInput(ctx));
    const QueueOptions& o = barrier->options();
    if (component < 0 || component >= barrier->num_components())
      return InvalidArgument("The component ID is out of range ", component,
                             " > num_components (= ", barrier->num_components(),
                             ")");
    const size_t c = static_cast<size_t>(component) + Barrier::kFixed;
    const Tensor& keys = ctx.input(1);
    if (keys.rank() != 1)
      return InvalidArgument("keys: expected a vector, got shape ",
                             keys.shape().ToString());
    const Tensor& values = ctx.input(2);
    if (values.dtype() != o.types[c])
      return InvalidArgument("values: expected type ", DTypeName(o.types[c]),
                             " of component ", component, ", got ",
                             DTypeName(values.dtype()));
    const PartialShape expected =
        array::JoinShapes(PartialShape({keys.dim(0)}), o.shapes[c]);
    if (!expected.CompatibleWith(PartialShape(values.shape())))
      return InvalidArgument("Shape mismatch in tuple component ", component,
                             ". Expected ", expected.ToString(), ", got ",
                             values.shape().ToString());
    if (values.num_elements() == 0 && keys.num_elements() > 0)
      return InvalidArgument(
          "Tensors with no elements are not supported: expected components "
          "with elements, got shape ",
          values.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(Tensor kept, ctx.TakeToKeep(2));
    SLUICE_ASSIGN_OR_RETURN(std::vector<Element> elements,
                            queues::SplitBatch({std::move(kept)}, false));
    return barrier->Insert(keys, static_cast<int>(component),
                           std::move(elements));
  }
  const int64_t component;
};

struct BarrierTakeKernel {
  static Result<std::shared_ptr<BarrierTakeKernel>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(queues::CheckTimeout(n));
    return std::make_shared<BarrierTakeKernel>(n);
  }
  // (TensorFlow ignores wait_for_incomplete too.)
  explicit BarrierTakeKernel(const Node& n)
      : types(n.AttrOr<AttrValue::Types>("component_types", {})),
        small(n.BoolAttr("allow_small_batch")) {
    types.insert(types.begin(), {DType::kInt64, DType::kString});
  }
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Barrier> barrier,
                            BarrierInput(ctx));
    if (types != barrier->options().types)
      return InvalidArgument("component_types: expected those of Barrier '",
                             barrier->options().name, "', got others");
    SLUICE_ASSIGN_OR_RETURN(const int64_t count,
                            array::IntScalar(ctx.input(1), "num_elements"));
    if (count < 0)
      return InvalidArgument("num_elements: expected >= 0, got ", count);
    barrier->Dequeue(
        count, small, ctx.step().cancellation,
        [ctx = &ctx, done, barrier](Result<std::vector<Element>> taken) {
          done(taken.ok() ? queues::SetBatchOutputs(ctx, 0, *taken, false,
                                                    barrier->options().types,
                                                    barrier->options().shapes)
                          : taken.status());
        });
    return OkStatus();
  }
  AttrValue::Types types;
  const bool small;
};

struct CloseBarrierKernel {
  explicit CloseBarrierKernel(const Node& n)
      : cancel(n.BoolAttr("cancel_pending_enqueues")) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Barrier> barrier,
                            BarrierInput(ctx));
    return barrier->CloseBarrier(cancel);
  }
  const bool cancel;
};

template <bool incomplete>
Status RunBarrierSize(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Barrier> barrier,
                          BarrierInput(ctx));
  const int64_t n = incomplete ? barrier->incomplete_size() : barrier->size();
  ctx.set_output(0, Tensor::Scalar(static_cast<int32_t>(n)));
  return OkStatus();
}

Status BarrierInsertShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape keys, c.WithRank(1, 1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape values, c.WithRankAtLeast(2, 1));
  if (!values.rank_known()) return OkStatus();
  return MergeDim(keys.dim(0), values.dim(0)).status();
}

Status BarrierTakeShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  c.set_output(0, {-1});
  c.set_output(1, {-1});
  return OkStatus();
}

constexpr const char* kBarrierHolds =
    "a barrier holds values; gradients do not flow through it";

SLUICE_OP(Barrier)
    .Output("handle: Ref(string)")
    .Attr("component_types: list(type) >= 1")
    .Attr("shapes: list(shape) >= 0 = []")
    .Attr("capacity: int = -1")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful(kOwnsState)
    .HostOnly()
    .Family("queues")
    .Shape(state::HandleShape)
    .Kernel(CpuState<MakeBarrierKernel>())
    .NoGradient(kBarrierHolds)
    .Doc(
        "Returns a barrier: elements whose components are inserted one by one "
        "under a key, and that can be taken when they are complete.");

SLUICE_OP(BarrierInsertMany)
    .Input("handle: Ref(string)")
    .Input("keys: string")
    .Input("values: T")
    .Attr("T: type")
    .Attr("component_index: int")
    .AllowsUninitializedInput()
    .Stateful()
    .HostOnly()
    .Family("queues")
    .Shape(BarrierInsertShape)
    .Kernel(CpuState<BarrierInsertKernel>())
    .NoGradient(kBarrierHolds)
    .Doc(
        "Sets one component of the elements of some keys, all of them or "
        "none.");

SLUICE_OP(BarrierTakeMany)
    .Input("handle: Ref(string)")
    .Input("num_elements: int32")
    .Output("indices: int64")
    .Output("keys: string")
    .Output("values: component_types")
    .Attr("component_types: list(type) >= 1")
    .Attr("allow_small_batch: bool = false")
    .Attr("wait_for_incomplete: bool = false")
    .Attr("timeout_ms: int = -1")
    .AllowsUninitializedInput()
    .Stateful()
    .Waits()
    .HostOnly()
    .Family("queues")
    .Shape(BarrierTakeShape)
    .Kernel(queues::WaitingKernel<BarrierTakeKernel>())
    .NoGradient(kBarrierHolds)
    .Doc(
        "Takes complete elements, those first whose insertion began first; "
        "waits until there are as many.");

SLUICE_OP(BarrierClose)
    .Input("handle: Ref(string)")
    .Attr("cancel_pending_enqueues: bool = false")
    .AllowsUninitializedInput()
    .Stateful()
    .HostOnly()
    .Family("queues")
    .Shape(NoOutputs)
    .Kernel(CpuState<CloseBarrierKernel>())
    .NoGradient(kBarrierHolds)
    .Doc(
        "Closes a barrier: it accepts no new key any more, or drops the "
        "incomplete elements and accepts no component either.");

SLUICE_OP(BarrierReadySize)
    .Input("handle: Ref(string)")
    .Output("size: int32")
    .AllowsUninitializedInput()
    .Stateful()
    .HostOnly()
    .Family("queues")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunBarrierSize<false>))
    .NoGradient(kBarrierHolds)
    .Doc("The number of complete elements in a barrier.");

SLUICE_OP(BarrierIncompleteSize)
    .Input("handle: Ref(string)")
    .Output("size: int32")
    .AllowsUninitializedInput()
    .Stateful()
    .HostOnly()
    .Family("queues")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunBarrierSize<true>))
    .NoGradient(kBarrierHolds)
    .Doc("The number of incomplete elements in a barrier.");

}  // namespace
}  // namespace sluice
