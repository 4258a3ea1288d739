#include "data/pipeline_builder.h"

#include <utility>

#include "client/control/control_flow.h"
#include "client/operators.h"
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

Queue DatasetNode::BuildLast(PipelineBuilder& p) const {
  return p.Boundary(
      "prefetch", {.capacity = 2},
      [&](Flow f, const Step& step) { return Fold(p, std::move(f), step); },
      loc_);
}

Flow DatasetNode::Process(Flow flow, const Element&, const Step&) const {
  return flow;
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
  if (!queue.handle().valid()) {
    flow.slots.back() = queue.handle();
    return flow;
  }
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
  QueueOptions q;
  q.capacity = options.capacity;
  q.min_after_dequeue = options.min_after_dequeue;
  q.seed = options.seed;
  return options.shuffle ? Queue::Shuffling(ComponentsOf(like), q, loc)
                         : Queue::Fifo(ComponentsOf(like), q, loc);
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
  stage.close = out.Close(false, loc);
  stage.reopen = ops::QueueReopen(out.handle(), {}, loc);
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
    end = Loop(
              {{Constant(int64_t{0})}, start}, 1,
              [count](const std::vector<Output>& vars) {
                return vars[0] < (count < 0 ? INT64_MAX : count);
              },
              [&](LoopState s) {
                if (restarts_early) s.flow.more = Constant(true);
                s.flow = fold(std::move(s.flow), enqueue);
                s.flow.more = Output();
                Output& order = s.flow.slots.back();
                if (order.valid()) {
                  const ControlDependencies after({order.node});
                  order =
                      After(order, ops::QueueEndEpoch(out.handle(), {}, loc));
                }
                return LoopState{{s.vars[0] + 1}, std::move(s.flow)};
              },
              loc)
              .flow;
  }
  stage.run = Group(end.slots.back(), "run", loc);
  const Queue made = out;
  Finish(std::move(stage), loc);
  inputs_ = outer_inputs;
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
  return made;
}

}  // namespace sluice::internal
