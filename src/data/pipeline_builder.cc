#include "data/pipeline_builder.h"

#include <utility>

#include "client/control/control_flow.h"
#include "client/operators.h"
#include "data/pipeline_position.h"
#include "graph/hidden_attributes.h"
#include "sluice/ops.h"

namespace sluice::internal {

namespace {

// Leaves all loops and conditionals while it lives.
class AtTopLevel {
 private:
  const ContextScope context_{nullptr};
};

Node* Group(const Output& after, const char* name, SourceLoc loc) {
  if (!after.valid()) return nullptr;
  const NoControlDependencies none;
  const ControlDependencies dependencies({after.node});
  return BuildNode("NoOp", {}, {}, name, loc);
}

}  // namespace

Output After(const Output& state, Node* node) {
  if (node == nullptr) return OrFailure(node);
  const ControlDependencies after({node});
  return ops::Identity(state);
}

std::vector<Component> ComponentsOf(const Element& x) {
  std::vector<Component> components;
  for (const Output& o : x)
    components.push_back({RemoveRef(o.dtype()), o.shape()});
  return components;
}

Element PopState(Flow* flow, size_t n) {
  const auto from = flow->slots.end() - static_cast<std::ptrdiff_t>(n);
  Element state(from, flow->slots.end());
  flow->slots.erase(from, flow->slots.end());
  return state;
}
void Push(Flow* flow, const Element& state) {
  flow->slots.insert(flow->slots.end(), state.begin(), state.end());
}

std::vector<Output> Flatten(const Flow& flow) {
  std::vector<Output> all = flow.slots;
  if (flow.more.valid()) all.push_back(flow.more);
  return all;
}
Flow Unflatten(std::vector<Output> all, bool has_more) {
  Flow flow;
  if (has_more && !all.empty()) {
    flow.more = all.back();
    all.pop_back();
  }
  flow.slots = std::move(all);
  return flow;
}

Flow StepIf(const Output& condition, const Flow& flow, const Element& x,
            const Step& step, SourceLoc loc) {
  return Unflatten(Cond(
                       condition, [&] { return Flatten(step(flow, x)); },
                       [&] { return Flatten(flow); }, "if_wanted", loc),
                   flow.more.valid());
}

Queue DatasetNode::BuildLast(PipelineBuilder& p) const {
  return p.Boundary(
      "prefetch", {.capacity = 2},
      [&](Flow f, const Step& step) { return Fold(p, std::move(f), step); },
      loc_);
}

Flow DatasetNode::Process(Flow flow, const Element&, const Step&) const {
  return flow;
}

Derived::WithState Derived::FoldState(
    PipelineBuilder& p, Flow flow, const Element& initial,
    const std::function<WithState(Flow, const Element& state, const Element&)>&
        step) const {
  Push(&flow, initial);
  flow = upstream_->Fold(p, std::move(flow), [&](Flow f, const Element& x) {
    const Element state = PopState(&f, initial.size());
    auto [next, after] = step(std::move(f), state, x);
    Push(&next, after);
    return next;
  });
  Element state = PopState(&flow, initial.size());
  return {std::move(flow), std::move(state)};
}

// ---- Loops ------------------------------------------------------------------

PipelineBuilder::LoopState PipelineBuilder::Loop(
    const LoopState& init, int at_once,
    const std::function<Output(const std::vector<Output>&)>& holds,
    const std::function<LoopState(LoopState)>& body, SourceLoc loc) {
  const bool has_more = init.flow.more.valid();
  const size_t num_vars = init.vars.size();
  const auto unflatten = [&](const std::vector<Output>& all) {
    LoopState s;
    auto next = all.begin();
    const auto vars_end = next + static_cast<std::ptrdiff_t>(num_vars);
    s.vars.assign(next, vars_end);
    next = vars_end;
    if (has_more) s.flow.more = *next++;
    s.flow.slots.assign(next, all.end());
    return s;
  };
  const auto flatten = [&](const LoopState& s) {
    std::vector<Output> all = s.vars;
    if (has_more) all.push_back(s.flow.more);
    all.insert(all.end(), s.flow.slots.begin(), s.flow.slots.end());
    return all;
  };
  WhileOptions options;
  options.parallel_iterations = at_once;
  options.back_prop = false;
  const std::vector<Output> end = While(
      flatten(init),
      [&](const std::vector<Output>& all) {
        const LoopState s = unflatten(all);
        const Output h = holds(s.vars);
        return has_more ? ops::LogicalAnd(h, s.flow.more) : h;
      },
      [&](const std::vector<Output>& all) {
        return flatten(body(unflatten(all)));
      },
      options, loc);
  return unflatten(end);
}

Flow PipelineBuilder::FoldQueue(const Queue& queue, bool own, Flow flow,
                                const Step& step, SourceLoc loc) {
  if (!queue.handle().valid()) return StepFailed(queue, std::move(flow), step);
  if (own) Reads(queue);
  // The next element is taken when an iteration begins, whatever the element
  // before it still goes through.
  const auto next = [&] {
    Queue::Maybe maybe = queue.Next(loc);
    std::vector<Output> vars = {maybe.has_value};
    vars.insert(vars.end(), maybe.element.begin(), maybe.element.end());
    return vars;
  };
  const LoopState end = Loop(
      {next(), std::move(flow)}, parallel,
      [](const std::vector<Output>& vars) { return vars[0]; },
      [&](LoopState s) {
        const Element x(s.vars.begin() + 1, s.vars.end());
        std::vector<Output> following = next();
        return LoopState{std::move(following), step(std::move(s.flow), x)};
      },
      loc);
  return own ? SkipRest(queue, end.vars[0], end.flow, loc) : end.flow;
}

Flow PipelineBuilder::StepFailed(const Queue& queue, Flow flow,
                                 const Step& step) {
  const size_t n = queue.components().size();
  if (n > 0) flow = step(std::move(flow), Element(n, queue.handle()));
  flow.slots.back() = queue.handle();
  return flow;
}

Flow PipelineBuilder::SkipRest(const Queue& queue, const Output& unfinished,
                               Flow flow, SourceLoc loc) {
  if (epochs == 1 || !flow.more.valid()) return flow;
  // (The first slot is the stage's own: nobody drops it.)
  Output& order = flow.slots.front();
  order = Cond(
      unfinished,
      [&] {
        return After(order, ops::QueueSkipEpoch(queue.handle(), {}, loc));
      },
      [&] { return ops::Identity(order); }, "skip_rest", loc);
  return flow;
}

// ---- Stages -----------------------------------------------------------------

Queue PipelineBuilder::OwnQueue(const Element& like,
                                const BoundaryOptions& options, SourceLoc loc) {
  const AtTopLevel outside;
  for (const Output& o : like) {
    if (o.valid()) continue;
    const Output failed =
        o.error() >= 0
            ? o
            : BuildError(InvalidArgument("element of a pipeline: expected "
                                         "tensors, got none"),
                         loc);
    return Queue::Of(failed, ComponentsOf(like));
  }
  QueueOptions q;
  q.capacity = options.capacity;
  q.min_after_dequeue = options.min_after_dequeue;
  q.seed = options.seed;
  const Queue made = options.shuffle
                         ? Queue::Shuffling(ComponentsOf(like), q, loc)
                         : Queue::Fifo(ComponentsOf(like), q, loc);
  if (made.handle().valid()) {
    CurrentGraph().SetAttr(
        made.handle().node, kPipelineAttr,
        prefix_.substr(0, prefix_.find_last_not_of('/') + 1));
    own_queues_.push_back(made);
  }
  return made;
}

// The last slot of the flow is the order of the enqueues.
Step PipelineBuilder::EnqueueInto(Queue* out, const BoundaryOptions& options,
                                  SourceLoc loc) {
  return [this, out, options, loc](Flow f, const Element& x) {
    if (!out->handle().valid()) {
      *out = OwnQueue(x, options, loc);
    } else {
      out->Widen(ComponentsOf(x));  // Of another loop, as of Concatenate.
    }
    Output& order = f.slots.back();
    if (!order.valid()) return f;
    const ControlDependencies after({order.node});
    order = After(order, out->Enqueue(x, loc));
    if (f.more.valid() && order.valid()) {
      const ControlDependencies entered({order.node});
      f.more = ops::QueueWanted(out->handle(), {}, loc);
    }
    return f;
  };
}

void PipelineBuilder::Finish(PipelineStage stage, SourceLoc loc) {
  const AtTopLevel outside;
  const Queue& out = stage.out;
  stage.in = inputs_;
  for (const Queue& in : inputs_)
    for (size_t i = 0; i < stages.size(); ++i)
      if (stages[i].out.handle().node == in.handle().node)
        stage.input_stages.push_back(static_cast<int64_t>(i));
  if (out.handle().valid()) {
    AttrValue::Ints number = {static_cast<int64_t>(stages.size())};
    number.insert(number.end(), stage.input_stages.begin(),
                  stage.input_stages.end());
    CurrentGraph().SetAttr(out.handle().node, kPipelineStageAttr,
                           std::move(number));
  }
  stage.close = out.Close(false, loc);
  std::vector<Node*> reopens;
  for (const Queue& q : own_queues_)
    if (Node* r = ops::QueueReopen(q.handle(), {}, loc); r != nullptr)
      reopens.push_back(r);
  stage.reopen = sluice::Group(reopens, "reopen", loc);
  stage.stats = ops::QueueStats(out.handle(), {}, loc);
  stage.error_code = ops::Placeholder(DType::kInt32, {.shape = Shape()}, loc);
  stage.error_message =
      ops::Placeholder(DType::kString, {.shape = Shape()}, loc);
  stage.fail = ops::QueueFail(out.handle(), stage.error_code,
                              stage.error_message, {}, loc);
  std::vector<Node*> closes;
  for (const Queue& in : inputs_)
    if (Node* c = in.Close(/*cancel_pending=*/true, loc); c != nullptr)
      closes.push_back(c);
  const ControlDependencies after(closes);
  stage.close_inputs = BuildNode("NoOp", {}, {}, "close_inputs", loc);
  stages.push_back(std::move(stage));
}

Queue PipelineBuilder::Boundary(const std::string& name,
                                const BoundaryOptions& options,
                                const FoldFn& fold, SourceLoc loc) {
  if (in_function)
    return Queue::Failed(BuildError(
        InvalidArgument("FlatMap: expected a function whose datasets have no "
                        "stages with queues of their own, got one with '",
                        name, "'"),
        loc));
  const AtTopLevel outside;
  const NameScope scope(name, prefix_);
  const std::vector<Queue> outer_inputs = std::exchange(inputs_, {});
  const std::vector<Queue> outer_queues = std::exchange(own_queues_, {});
  const int outer_parallel = std::exchange(parallel, 1);
  PipelineStage stage;
  stage.name = name;
  Queue& out = stage.out;
  const Step enqueue = EnqueueInto(&out, options, loc);
  const Flow start{Output(), {Constant(0)}};
  Flow end;
  if (epochs == 1) {
    end = fold(start, enqueue);
  } else {
    const int64_t count = epochs;
    const auto epoch = [&](Flow f) {
      if (restarts_early) f.more = Constant(true);
      f = fold(std::move(f), enqueue);
      f.more = Output();
      Output& order = f.slots.back();
      if (order.valid()) {
        const ControlDependencies after({order.node});
        order = After(order, ops::QueueEndEpoch(out.handle(), {}, loc));
      }
      return f;
    };
    // An epoch that nobody reads.
    const auto none = [&](const Flow& f) {
      Output order = ops::Identity(f.slots.back(), {}, loc);
      if (!out.handle().valid()) return Flow{Output(), {order}};
      for (const char* const op : {"QueueSkipEpoch", "QueueEndEpoch"}) {
        const ControlDependencies after({order.node});
        order = After(order, BuildNode(op, {out.handle()}, {}, "", loc));
      }
      return Flow{Output(), {order}};
    };
    Output first;
    if (position != nullptr && runs_per_epoch > 0)
      first = position->FirstRun(runs_per_epoch);
    end = Loop(
              {{Constant(int64_t{0})}, start}, 1,
              [count](const std::vector<Output>& vars) {
                return vars[0] < (count < 0 ? INT64_MAX : count);
              },
              [&](LoopState s) {
                Flow after =
                    first.valid()
                        ? Unflatten(Cond(
                                        s.vars[0] >= first,
                                        [&] { return Flatten(epoch(s.flow)); },
                                        [&] { return Flatten(none(s.flow)); },
                                        "epoch", loc),
                                    /*has_more=*/false)
                        : epoch(std::move(s.flow));
                return LoopState{{s.vars[0] + 1}, std::move(after)};
              },
              loc)
              .flow;
  }
  // Where what is before it has failed, there may be no element to tell it.
  if (!out.handle().valid() && out.components().empty())
    out = Queue::Failed(end.slots.back());
  stage.run = Group(end.slots.back(), "run", loc);
  const Queue made = out;
  Finish(std::move(stage), loc);
  inputs_ = outer_inputs;
  own_queues_ = outer_queues;
  parallel = outer_parallel;
  return made;
}

Queue PipelineBuilder::PerElementBoundary(
    const std::string& name, const Queue& in,
    const std::function<Flow(Flow, const Element&, const Step&)>& process,
    SourceLoc loc) {
  const AtTopLevel outside;
  const NameScope scope(name, prefix_);
  const std::vector<Queue> outer_inputs = std::exchange(inputs_, {in});
  const std::vector<Queue> outer_queues = std::exchange(own_queues_, {});
  PipelineStage stage;
  stage.name = name;
  const Step enqueue = EnqueueInto(&stage.out, {.capacity = 16}, loc);
  const Queue::Maybe next = in.Next(loc);
  const Output order = Cond(
      next.has_value,
      [&] {
        return process(Flow{Output(), {Constant(0)}}, next.element, enqueue)
            .slots.back();
      },
      [] { return Constant(0); });
  stage.had_value = next.has_value;
  {
    const ControlDependencies after({next.has_value.node});
    stage.ended = in.IsClosed(loc);
  }
  stage.run = Group(order, "run", loc);
  stage.end_epoch = ops::QueueEndEpoch(stage.out.handle(), {}, loc);
  const Queue made = stage.out;
  Finish(std::move(stage), loc);
  inputs_ = outer_inputs;
  own_queues_ = outer_queues;
  return made;
}

}  // namespace sluice::internal
