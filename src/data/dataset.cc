#include "data/dataset.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "client/control/control_flow.h"
#include "client/operators.h"
#include "data/pipeline_builder.h"
#include "data/pipeline_position.h"
#include "sluice/ops.h"

namespace sluice {
namespace internal {

std::vector<Output> Arguments(const std::vector<Output>& element, size_t count,
                              SourceLoc loc) {
  if (element.size() == count) return element;
  return std::vector<Output>(
      count,
      BuildError(InvalidArgument("function of an element: expected to take ",
                                 element.size(),
                                 " tensors, got one that takes ", count),
                 loc));
}

std::vector<Output> AsOutputs(const std::vector<Operand>& operands) {
  std::vector<Output> outputs;
  for (const Operand& o : operands) outputs.push_back(o.Get());
  return outputs;
}

namespace {

// What a function says of an element.
Output Predicate(const ElementFn& fn, const Element& x, SourceLoc loc) {
  const std::vector<Output> values = fn(x);
  if (values.size() == 1) return values[0];
  return BuildError(InvalidArgument("predicate of an element: expected a "
                                    "function that returns one boolean scalar, "
                                    "got ",
                                    values.size(), " values"),
                    loc);
}

Output Row(const Output& tensor, const Output& i, SourceLoc loc) {
  return ops::GatherV2(tensor, i, 0, {}, loc);
}

// ---- Sources ----------------------------------------------------------------

// Calls element(i) for 0 <= i < limit.
class Indexed final : public DatasetNode {
 public:
  Indexed(Operand limit, std::function<Element(Output)> element, SourceLoc loc)
      : DatasetNode(loc),
        limit_(std::move(limit)),
        element_(std::move(element)) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    const Output limit = limit_.Get(DType::kInt64);
    return p
        .Loop(
            {{Constant(int64_t{0})}, std::move(flow)}, p.parallel,
            [&](const std::vector<Output>& vars) { return vars[0] < limit; },
            [&](PipelineBuilder::LoopState s) {
              const Element x = element_(s.vars[0]);
              return PipelineBuilder::LoopState{{s.vars[0] + 1},
                                                step(std::move(s.flow), x)};
            },
            loc_)
        .flow;
  }

 private:
  const Operand limit_;
  const std::function<Element(Output)> element_;
};

class Files final : public DatasetNode {
 public:
  Files(Operand patterns, SourceLoc loc)
      : DatasetNode(loc), patterns_(std::move(patterns)) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    const Output patterns = patterns_.Get(DType::kString);
    const Output names = ops::MatchingFiles(patterns, {}, loc_);
    const Output count = ops::Size(names, {.out_type = DType::kInt64}, loc_);
    const Node* found = ops::Assert(
        count > 0,
        {Constant(Tensor::Scalar<std::string>(
             "FromFiles: expected a pattern of existing files, got ")),
         patterns},
        {}, loc_);
    const ControlDependencies after({const_cast<Node*>(found)});
    return Indexed(
               ops::Identity(count),
               [&](Output i) { return Element{Row(names, i, loc_)}; }, loc_)
        .Fold(p, std::move(flow), step);
  }

 private:
  const Operand patterns_;
};

class Records final : public DatasetNode {
 public:
  Records(Operand file, ops::ReadRecordsAttrs format, SourceLoc loc)
      : DatasetNode(loc), file_(std::move(file)), format_(std::move(format)) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    using LoopState = PipelineBuilder::LoopState;
    const Output file = file_.Get(DType::kString);
    // One block is read ahead of that whose records are processed.
    return p
        .Loop(
            {{Constant(int64_t{0})}, std::move(flow)}, 2,
            [](const std::vector<Output>& vars) { return vars[0] >= 0; },
            [&](LoopState s) {
              const auto block =
                  ops::ReadRecords(file, s.vars[0], format_, loc_);
              const Output count =
                  ops::Size(block.records, {.out_type = DType::kInt64}, loc_);
              return LoopState{
                  {block.next_offset},
                  Indexed(
                      count,
                      [&](Output i) {
                        return Element{Row(block.records, i, loc_)};
                      },
                      loc_)
                      .Fold(p, std::move(s.flow), step)};
            },
            loc_)
        .flow;
  }

 private:
  const Operand file_;
  const ops::ReadRecordsAttrs format_;
};

class External final : public DatasetNode {
 public:
  External(Queue queue, SourceLoc loc)
      : DatasetNode(loc), queue_(std::move(queue)) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    if (p.position != nullptr)
      BuildError(
          InvalidArgument("FromQueue: expected a pipeline whose position "
                          "is not saved, got one whose position is; it "
                          "cannot have the same elements again"),
          loc_);
    return p.FoldQueue(queue_, /*own=*/false, std::move(flow), step, loc_);
  }

 private:
  const Queue queue_;
};

// ---- Elements ---------------------------------------------------------------

class ByElement : public Derived {
 public:
  using Derived::Derived;
  const DatasetNode* upstream_by_element() const override {
    return upstream_.get();
  }
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    return upstream_->Fold(p, std::move(flow), [&](Flow f, const Element& x) {
      return Process(std::move(f), x, step);
    });
  }
};

class MapNode final : public ByElement {
 public:
  MapNode(NodePtr upstream, ElementFn fn, const DatasetMapOptions& options,
          SourceLoc loc)
      : ByElement(std::move(upstream), loc),
        fn_(std::move(fn)),
        parallel_(options.parallel) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    p.parallel = std::max(p.parallel, parallel_);
    if (parallel_ > 1) return ByElement::Fold(p, std::move(flow), step);
    // One call after the other, whatever runs at once in the same loop.
    const auto one_by_one = [&](Flow f, const Element& state,
                                const Element& x) {
      const Output order = state[0];
      Element y;
      if (order.valid()) {
        const ControlDependencies after({order.node});
        // (What only reads outer values waits, too: its inputs do.)
        Element here;
        for (const Output& o : x) here.push_back(ops::Identity(o, {}, loc_));
        y = fn_(here);
      }
      std::vector<Node*> ends;
      for (const Output& o : y)
        if (o.valid()) ends.push_back(o.node);
      const Output next = [&] {
        const ControlDependencies done(ends);
        return ops::Identity(order, {}, loc_);
      }();
      return WithState(step(std::move(f), y), {next});
    };
    return FoldState(p, std::move(flow), {Constant(0)}, one_by_one).first;
  }
  Flow Process(Flow flow, const Element& x, const Step& step) const override {
    return step(std::move(flow), fn_(x));
  }
  std::optional<Grouping> grouping() const override {
    return Grouping{1, upstream_, [this](NodePtr upstream) {
                      return std::make_shared<MapNode>(
                          std::move(upstream), fn_,
                          DatasetMapOptions{parallel_}, loc_);
                    }};
  }

 private:
  const ElementFn fn_;
  const int parallel_;
};

class FilterNode final : public ByElement {
 public:
  FilterNode(NodePtr upstream, ElementFn fn, SourceLoc loc)
      : ByElement(std::move(upstream), loc), fn_(std::move(fn)) {}
  Flow Process(Flow flow, const Element& x, const Step& step) const override {
    return StepIf(Predicate(fn_, x, loc_), flow, x, step, loc_);
  }

 private:
  const ElementFn fn_;
};

class ScanNode final : public Derived {
 public:
  ScanNode(NodePtr upstream, std::vector<Operand> initial, ScanFn fn,
           SourceLoc loc)
      : Derived(std::move(upstream), loc),
        initial_(std::move(initial)),
        fn_(std::move(fn)) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    const size_t n = initial_.size();
    const auto scan = [&](Flow f, const Element& state, const Element& x) {
      auto [next, y] = fn_(state, x);
      if (next.size() != n)
        next.assign(
            n, BuildError(InvalidArgument("Scan: expected a function whose ",
                                          "state has ", n, " tensors, got ",
                                          next.size()),
                          loc_));
      return WithState(step(std::move(f), y), next);
    };
    return FoldState(p, std::move(flow), AsOutputs(initial_), scan).first;
  }

 private:
  const std::vector<Operand> initial_;
  const ScanFn fn_;
};

class FlatMapNode final : public Derived {
 public:
  // cycle > 0: interleaves.
  FlatMapNode(NodePtr upstream, std::function<Dataset(const Element&)> fn,
              int cycle, SourceLoc loc)
      : Derived(std::move(upstream), loc), fn_(std::move(fn)), cycle_(cycle) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    if (cycle_ <= 0)
      return upstream_->Fold(p, std::move(flow), [&](Flow f, const Element& x) {
        return Inner(p, std::move(f), x, step);
      });
    if (p.position != nullptr)
      return p.FoldQueue(InTurn(p), /*own=*/true, std::move(flow), step, loc_);
    const Queue queue = p.Boundary(
        "interleave", {.capacity = 64},
        [&](const Flow& start, const Step& enqueue) {
          p.parallel = cycle_;
          // Each inner dataset enqueues its elements in order; only the end
          // waits for all.
          return upstream_->Fold(p, start, [&](Flow f, const Element& x) {
            const Flow inner = Inner(p, {Output(), {Constant(0)}}, x, enqueue);
            const Output& done = inner.slots.back();
            f.slots.back() =
                done.valid() ? After(f.slots.back(), done.node) : done;
            return f;
          });
        },
        loc_);
    return p.FoldQueue(queue, /*own=*/true, std::move(flow), step, loc_);
  }

 private:
  // A stage for every cycle'th inner dataset, which makes their elements one
  // after the other.
  Queue Lane(PipelineBuilder& p, int64_t lane) const {
    return p.Boundary(
        "lane", {.capacity = 16},
        [&](Flow start, const Step& enqueue) {
          Push(&start, {Constant(int64_t{0})});  // The dataset's number.
          Flow end = upstream_->Fold(
              p, std::move(start), [&](Flow f, const Element& x) {
                const Output number = Pop(&f);
                f = StepIf(
                    ops::Equal(ops::FloorMod(number, int64_t{cycle_}), lane), f,
                    x,
                    [&](Flow g, const Element& y) {
                      return Inner(p, std::move(g), y, enqueue);
                    },
                    loc_);
                Push(&f, {number + 1});
                return f;
              });
          Pop(&end);
          return end;
        },
        loc_);
  }
  // A stage that takes one element of each lane in turn.
  Queue InTurn(PipelineBuilder& p) const {
    std::vector<Queue> lanes;
    for (int i = 0; i < cycle_; ++i) {
      lanes.push_back(Lane(p, i));
      if (!lanes.back().handle().valid()) return lanes.back();
    }
    return p.Boundary(
        "interleave", {.capacity = 64},
        [&](Flow start, const Step& enqueue) {
          for (const Queue& lane : lanes) p.Reads(lane);
          const bool has_more = start.more.valid();
          // The variables: whether each lane may have more.
          const auto any = [](const std::vector<Output>& vars) {
            Output one = vars[0];
            for (size_t i = 1; i < vars.size(); ++i)
              one = ops::LogicalOr(one, vars[i]);
            return one;
          };
          PipelineBuilder::LoopState end = p.Loop(
              {std::vector<Output>(lanes.size(), Constant(true)),
               std::move(start)},
              1, any,
              [&](PipelineBuilder::LoopState s) {
                for (size_t i = 0; i < lanes.size(); ++i)
                  OneOf(lanes[i], &s.vars[i], &s.flow, has_more, enqueue);
                return s;
              },
              loc_);
          for (size_t i = 0; i < lanes.size(); ++i)
            end.flow = p.SkipRest(lanes[i], end.vars[i], end.flow, loc_);
          return std::move(end.flow);
        },
        loc_);
  }
  // Takes an element of the lane if it may have one (`*more`) and elements are
  // wanted.
  void OneOf(const Queue& lane, Output* more, Flow* flow, bool has_more,
             const Step& step) const {
    const Output taken =
        has_more ? ops::LogicalAnd(*more, flow->more, {}, loc_) : *more;
    std::vector<Output> all = Cond(
        taken,
        [&] {
          const Queue::Maybe x = lane.Next(loc_);
          std::vector<Output> after =
              Flatten(StepIf(x.has_value, *flow, x.element, step, loc_));
          after.push_back(x.has_value);
          return after;
        },
        [&] {
          std::vector<Output> same = Flatten(*flow);
          same.push_back(*more);
          return same;
        },
        "if_more", loc_);
    *more = all.back();
    all.pop_back();
    *flow = Unflatten(std::move(all), has_more);
  }
  Flow Inner(PipelineBuilder& p, Flow flow, const Element& x,
             const Step& step) const {
    const bool outer = std::exchange(p.in_function, true);
    const Dataset dataset = fn_(x);
    if (dataset.node() != nullptr)
      flow = dataset.node()->Fold(p, std::move(flow), [&](Flow f, Element y) {
        p.in_function = outer;
        f = step(std::move(f), y);
        p.in_function = true;
        return f;
      });
    p.in_function = outer;
    return flow;
  }

  const std::function<Dataset(const Element&)> fn_;
  const int cycle_;
};

class IgnoreErrorsNode final : public Derived {
 public:
  using Derived::Derived;
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    return p.FoldQueue(BuildLast(p), /*own=*/true, std::move(flow), step, loc_);
  }
  Queue BuildLast(PipelineBuilder& p) const override {
    std::vector<const DatasetNode*> functions;  // The last first.
    const DatasetNode* source = upstream_.get();
    while (source->upstream_by_element() != nullptr) {
      functions.push_back(source);
      source = source->upstream_by_element();
    }
    const Queue in = source->BuildLast(p);
    return p.PerElementBoundary(
        "ignore_errors", in,
        [&](Flow f, const Element& x, const Step& enqueue) {
          Step step = enqueue;
          for (const DatasetNode* fn : functions)
            step = [fn, step](Flow g, const Element& y) {
              return fn->Process(std::move(g), y, step);
            };
          return step(std::move(f), x);
        },
        loc_);
  }
};

// ---- Sequences --------------------------------------------------------------

class RepeatNode final : public Derived {
 public:
  RepeatNode(NodePtr upstream, int64_t count, SourceLoc loc)
      : Derived(std::move(upstream), loc), count_(count) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    const int64_t outer = p.epochs;
    // (After the last epoch nothing starts again.)
    const bool outer_restarts =
        std::exchange(p.restarts_early, p.restarts_early && outer != 1);
    const int64_t outer_runs = p.runs_per_epoch;
    int64_t all = 0;
    p.epochs =
        outer < 0 || count_ < 0 || __builtin_mul_overflow(outer, count_, &all)
            ? -1
            : all;
    // (No epoch of the position is the second, if this one has no end.)
    if (count_ < 0 || __builtin_mul_overflow(outer_runs, count_, &all)) all = 0;
    p.runs_per_epoch = all;
    const int64_t limit =
        count_ < 0 ? std::numeric_limits<int64_t>::max() : count_;
    // The flow carries whether the last epoch had any element: an empty dataset
    // is not repeated for ever.
    flow.slots.push_back(Constant(true));
    PipelineBuilder::LoopState end = p.Loop(
        {{Constant(int64_t{0}), Constant(true)}, std::move(flow)}, 1,
        [&](const std::vector<Output>& vars) {
          return ops::LogicalAnd(vars[0] < limit, vars[1]);
        },
        [&](PipelineBuilder::LoopState s) {
          Pop(&s.flow);
          s.flow.slots.push_back(Constant(false));
          s.flow = upstream_->Fold(p, std::move(s.flow),
                                   [&](Flow f, const Element& x) {
                                     Pop(&f);
                                     f = step(std::move(f), x);
                                     f.slots.push_back(Constant(true));
                                     return f;
                                   });
          return PipelineBuilder::LoopState{
              {s.vars[0] + 1, s.flow.slots.back()}, s.flow};
        },
        loc_);
    Pop(&end.flow);
    p.epochs = outer;
    p.runs_per_epoch = outer_runs;
    p.restarts_early = outer_restarts;
    return end.flow;
  }
  std::optional<Epochs> repeats() const override {
    if (count_ == 0 || count_ == 1) return std::nullopt;
    return Epochs{count_, upstream_};
  }

 private:
  const int64_t count_;
};

// Whose elements may end before those of `upstream` do.
class Shortened : public Derived {
 public:
  using Derived::Derived;

 protected:
  // What an element leaves: the flow, the state, and whether more are wanted.
  struct Left {
    Flow flow;
    Element state;
    Output wanted;
  };
  // Folds over `upstream` with a state, as long as `wanted` and what comes
  // after want more.
  Flow FoldWhile(PipelineBuilder& p, Flow flow, Element state,
                 const Output& wanted,
                 const std::function<Left(Flow, Element state, const Element&)>&
                     step) const {
    const bool restarts = std::exchange(p.restarts_early, true);
    // The state also has whether what comes after wants more.
    const bool had_more = flow.more.valid();
    if (had_more) state.push_back(flow.more);
    flow.more = had_more ? ops::LogicalAnd(flow.more, wanted) : wanted;
    auto [end, last] = FoldState(
        p, std::move(flow), state,
        [&](Flow f, Element before, const Element& x) {
          f.more = Output();
          if (had_more) {
            f.more = before.back();
            before.pop_back();
          }
          Left left = step(std::move(f), std::move(before), x);
          Output more = left.wanted;
          if (had_more) {
            left.state.push_back(left.flow.more);
            more = ops::LogicalAnd(left.flow.more, more);
          }
          left.flow.more = more;
          return WithState(std::move(left.flow), std::move(left.state));
        });
    end.more = had_more ? last.back() : Output();
    p.restarts_early = restarts;
    return std::move(end);
  }
};

class TakeNode final : public Shortened {
 public:
  TakeNode(NodePtr upstream, int64_t count, SourceLoc loc)
      : Shortened(std::move(upstream), loc), count_(count) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    // (The state: how many are taken with the element to come.)
    return FoldWhile(
        p, std::move(flow), {Constant(int64_t{1})}, Constant(count_ > 0),
        [&](Flow f, const Element& taken, const Element& x) {
          return Left{step(std::move(f), x), {taken[0] + 1}, taken[0] < count_};
        });
  }

 private:
  const int64_t count_;
};

class TakeWhileNode final : public Shortened {
 public:
  TakeWhileNode(NodePtr upstream, ElementFn fn, SourceLoc loc)
      : Shortened(std::move(upstream), loc), fn_(std::move(fn)) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    return FoldWhile(
        p, std::move(flow), {}, Constant(true),
        [&](const Flow& f, const Element&, const Element& x) {
          const Output wanted = Predicate(fn_, x, loc_);
          return Left{StepIf(wanted, f, x, step, loc_), {}, wanted};
        });
  }

 private:
  const ElementFn fn_;
};

class SkipNode final : public Derived {
 public:
  SkipNode(NodePtr upstream, int64_t count, SourceLoc loc)
      : Derived(std::move(upstream), loc), count_(count) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    const auto skip = [&](const Flow& f, const Element& seen,
                          const Element& x) {
      return WithState(StepIf(seen[0] >= count_, f, x, step, loc_),
                       {seen[0] + 1});
    };
    return FoldState(p, std::move(flow), {Constant(int64_t{0})}, skip).first;
  }

 private:
  const int64_t count_;
};

class ConcatenateNode final : public Derived {
 public:
  ConcatenateNode(NodePtr upstream, NodePtr next, SourceLoc loc)
      : Derived(std::move(upstream), loc), next_(std::move(next)) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    return next_->Fold(p, upstream_->Fold(p, std::move(flow), step), step);
  }

 private:
  const NodePtr next_;
};

class ZipNode final : public Derived {
 public:
  ZipNode(NodePtr a, NodePtr b, SourceLoc loc)
      : Derived(std::move(a), loc), b_(std::move(b)) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    const bool restarts = std::exchange(p.restarts_early, true);
    const Queue other = b_->BuildLast(p);
    p.Reads(other);
    const bool had_more = flow.more.valid();
    if (!had_more) flow.more = Constant(true);
    // The state: whether `other` may have more, which also orders what reads
    // it.
    const auto zip = [&](Flow f, const Element& before, const Element& x) {
      Queue::Maybe y;
      if (before[0].valid()) {
        const ControlDependencies after({before[0].node});
        y = other.Next(loc_);
      }
      Element both = x;
      both.insert(both.end(), y.element.begin(), y.element.end());
      if (!had_more) f.more = Output();
      f = StepIf(y.has_value, f, both, step, loc_);
      f.more = had_more ? ops::LogicalAnd(f.more, y.has_value) : y.has_value;
      return WithState(std::move(f), {y.has_value});
    };
    auto [end, unfinished] =
        FoldState(p, std::move(flow), {Constant(true)}, zip);
    end = p.SkipRest(other, unfinished[0], std::move(end), loc_);
    if (!had_more) end.more = Output();
    p.restarts_early = restarts;
    return std::move(end);
  }

 private:
  const NodePtr b_;
};

// A stage boundary.
class BufferNode final : public Derived {
 public:
  BufferNode(NodePtr upstream, const char* name, const BoundaryOptions& options,
             SourceLoc loc)
      : Derived(std::move(upstream), loc), name_(name), options_(options) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    return p.FoldQueue(BuildLast(p), /*own=*/true, std::move(flow), step, loc_);
  }
  Queue BuildLast(PipelineBuilder& p) const override {
    if (p.position != nullptr && options_.shuffle && options_.seed == 0)
      BuildError(InvalidArgument("Shuffle: expected a seed in a pipeline whose "
                                 "position is saved, got 0; it could not have "
                                 "the same order again"),
                 loc_);
    return p.Boundary(
        name_, options_,
        [&](Flow f, const Step& step) {
          return upstream_->Fold(p, std::move(f), step);
        },
        loc_);
  }
  std::optional<Grouping> grouping() const override {
    if (options_.shuffle) return std::nullopt;
    return Grouping{1, upstream_, [this](NodePtr upstream) {
                      return std::make_shared<BufferNode>(
                          std::move(upstream), name_, options_, loc_);
                    }};
  }

 private:
  const char* const name_;
  const BoundaryOptions options_;
};

class BatchNode final : public Derived {
 public:
  BatchNode(NodePtr upstream, int64_t size, const BatchOptions& options,
            SourceLoc loc)
      : Derived(std::move(upstream), loc), size_(size), options_(options) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    const Queue in = p.Boundary(
        "batch", {.capacity = 2 * size_},
        [&](Flow f, const Step& s) {
          return upstream_->Fold(p, std::move(f), s);
        },
        loc_);
    if (!in.handle().valid()) return p.StepFailed(in, std::move(flow), step);
    p.Reads(in);
    const auto size = static_cast<int32_t>(size_);
    const auto next = [&] {
      const auto batch = in.NextBatch(size, options_.padded, loc_);
      std::vector<Output> vars = {batch.count};
      vars.insert(vars.end(), batch.element.begin(), batch.element.end());
      return vars;
    };
    const PipelineBuilder::LoopState end = p.Loop(
        {next(), std::move(flow)}, p.parallel,
        [&](const std::vector<Output>& vars) {
          return vars[0] >= (options_.drop_remainder ? size : 1);
        },
        [&](PipelineBuilder::LoopState s) {
          Element x(s.vars.begin() + 1, s.vars.end());
          if (options_.drop_remainder)
            for (Output& o : x) o = WithRows(o);
          std::vector<Output> following = next();
          return PipelineBuilder::LoopState{std::move(following),
                                            step(std::move(s.flow), x)};
        },
        loc_);
    return p.SkipRest(in, end.vars[0] >= 1, end.flow, loc_);
  }
  std::optional<Grouping> grouping() const override {
    return Grouping{size_, upstream_, [this](NodePtr upstream) {
                      return std::make_shared<BatchNode>(std::move(upstream),
                                                         size_, options_, loc_);
                    }};
  }

 private:
  Output WithRows(const Output& o) const {
    PartialShape shape = o.shape();
    if (!shape.rank_known() || shape.rank() == 0) return o;
    shape.set_dim(0, size_);
    return ops::EnsureShape(o, shape, {}, loc_);
  }

  const int64_t size_;
  const BatchOptions options_;
};

class BucketNode final : public Derived {
 public:
  BucketNode(NodePtr upstream, ElementFn length,
             std::vector<int64_t> boundaries, std::vector<int64_t> batch_sizes,
             bool drop_remainder, SourceLoc loc)
      : Derived(std::move(upstream), loc),
        length_(std::move(length)),
        boundaries_(std::move(boundaries)),
        sizes_(std::move(batch_sizes)),
        drop_remainder_(drop_remainder) {}

  // The elements wait in a queue for each bucket. The element that fills one
  // takes the batch out.
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    std::vector<Queue> buckets(sizes_.size());
    flow.slots.push_back(Constant(0));  // The order of the queues' operations.
    flow = upstream_->Fold(p, std::move(flow), [&](Flow f, const Element& x) {
      for (size_t i = 0; i < buckets.size(); ++i)
        if (!buckets[i].handle().valid())
          buckets[i] = p.OwnQueue(x, {.capacity = sizes_[i]}, loc_);
        else
          buckets[i].Widen(ComponentsOf(x));
      const Output order = Pop(&f);
      const Output bucket = BucketOf(length_(x));
      const auto add = [&](size_t i) {
        const Queue& q = buckets[i];
        Node* const put = [&] {
          const ControlDependencies after({order.node});
          return q.Enqueue(x, loc_);
        }();
        const ControlDependencies after({put});
        const Output full = q.Size(loc_) >= static_cast<int32_t>(sizes_[i]);
        return Cond(
            full, [&] { return Batch(q, static_cast<int32_t>(sizes_[i])); },
            [&] { return NoBatch(q); }, "if_full", loc_);
      };
      f = StepWith(ForBucket(bucket, add, 0), std::move(f), step);
      return f;
    });
    if (buckets[0].handle().valid()) {
      const auto count = static_cast<int32_t>(sizes_.size());
      flow =
          p.Loop(
               {{Constant(0)}, std::move(flow)}, 1,
               [&](const std::vector<Output>& vars) { return vars[0] < count; },
               [&](PipelineBuilder::LoopState s) {
                 const Output order = Pop(&s.flow);
                 const auto rest = [&](size_t i) {
                   const Queue& q = buckets[i];
                   const ControlDependencies after({order.node});
                   const Output size = q.Size(loc_);
                   return Cond(
                       size > 0, [&] { return Batch(q, size); },
                       [&] { return NoBatch(q); }, "if_any", loc_);
                 };
                 const Step drop = [](Flow f, const Element&) { return f; };
                 return PipelineBuilder::LoopState{
                     {s.vars[0] + 1},
                     StepWith(ForBucket(s.vars[0], rest, 0), std::move(s.flow),
                              drop_remainder_ ? drop : step)};
               },
               loc_)
              .flow;
    }
    Pop(&flow);
    return flow;
  }

 private:
  using Branch = std::function<std::vector<Output>(size_t)>;

  // The number of boundaries that are not above the length.
  Output BucketOf(const std::vector<Output>& length) const {
    if (length.size() != 1)
      return BuildError(
          InvalidArgument("BucketByLength: expected a function that returns "
                          "one integer scalar, got ",
                          length.size(), " values"),
          loc_);
    Output bucket = Constant(0);
    const Output l = ops::Cast(length[0], DType::kInt64, {}, loc_);
    for (const int64_t b : boundaries_)
      bucket = bucket + ops::Cast(l >= b, DType::kInt32, {}, loc_);
    return bucket;
  }
  // branch(bucket), by comparisons from i on.
  std::vector<Output> ForBucket(const Output& bucket, const Branch& branch,
                                size_t i) const {
    if (i + 1 == sizes_.size()) return branch(i);
    return Cond(
        ops::Equal(bucket, static_cast<int32_t>(i)), [&] { return branch(i); },
        [&] { return ForBucket(bucket, branch, i + 1); }, "bucket", loc_);
  }
  // Whether there is a batch, and its components.
  std::vector<Output> Batch(const Queue& q, const Operand& size) const {
    const auto batch = q.NextBatch(size, /*padded=*/true, loc_);
    std::vector<Output> all = {batch.count > 0};
    all.insert(all.end(), batch.element.begin(), batch.element.end());
    return all;
  }
  std::vector<Output> NoBatch(const Queue& q) const {
    std::vector<Output> all = {Constant(false)};
    for (const Component& c : q.components()) {
      std::vector<int64_t> dims = {0};
      for (int d = 0; c.shape.rank_known() && d < c.shape.rank(); ++d)
        dims.push_back(std::max<int64_t>(0, c.shape.dim(d)));
      all.push_back(Constant(Tensor::Zeros(c.dtype, Shape(dims)).value()));
    }
    return all;
  }
  // Passes the batch on, if there is one, and puts the order of operations back
  // into the flow.
  Flow StepWith(const std::vector<Output>& batch, Flow flow,
                const Step& step) const {
    flow = StepIf(batch[0], flow, Element(batch.begin() + 1, batch.end()), step,
                  loc_);
    flow.slots.push_back(batch[0].valid() ? After(Constant(0), batch[0].node)
                                          : batch[0]);
    return flow;
  }

  const ElementFn length_;
  const std::vector<int64_t> boundaries_, sizes_;
  const bool drop_remainder_;
};

Dataset Of(NodePtr node) { return Dataset(std::move(node)); }

// The same dataset, with elements that are an error.
NodePtr Failing(NodePtr upstream, const Output& error, SourceLoc loc) {
  return std::make_shared<MapNode>(
      std::move(upstream),
      [error](const Element& x) { return Element(x.size(), error); },
      DatasetMapOptions{}, loc);
}

// `upstream`; Failing, with the error recorded, if an argument of what follows
// is too small.
NodePtr Require(NodePtr upstream, int64_t least, int64_t value,
                const char* what, SourceLoc loc) {
  if (value >= least) return upstream;
  const Output error = BuildError(
      InvalidArgument(what, ": expected at least ", least, ", got ", value),
      loc);
  return Failing(std::move(upstream), error, loc);
}

}  // namespace
}  // namespace internal

using internal::Of;
using internal::Require;

// ---- Sources ----------------------------------------------------------------

Dataset Dataset::Range(const Operand& limit, SourceLoc loc) {
  return Of(std::make_shared<internal::Indexed>(
      limit, [](Output i) { return Element{i}; }, loc));
}

Dataset Dataset::FromTensors(const Operands& tensors, SourceLoc loc) {
  const Element all = internal::AsOutputs(tensors.items());
  if (all.empty())
    return Range(BuildError(InvalidArgument("FromTensors: expected at least "
                                            "one tensor, got none"),
                            loc),
                 loc);
  const Output shape = ops::Shape(all[0], {.out_type = DType::kInt64}, loc);
  Output rows = internal::Row(shape, Constant(0), loc);
  std::vector<Node*> checks;
  for (size_t i = 1; i < all.size(); ++i) {
    const Output other = internal::Row(
        ops::Shape(all[i], {.out_type = DType::kInt64}, loc), Constant(0), loc);
    if (Node* const check = ops::Assert(
            ops::Equal(rows, other),
            {Constant(Tensor::Scalar<std::string>(
                 "FromTensors: expected tensors with the same first dimension, "
                 "got ")),
             rows, other},
            {}, loc);
        check != nullptr)
      checks.push_back(check);
  }
  if (!checks.empty()) {
    const ControlDependencies after(checks);
    rows = ops::Identity(rows);
  }
  return Of(std::make_shared<internal::Indexed>(
      rows,
      [all, loc](Output i) {
        Element x;
        for (const Output& t : all) x.push_back(internal::Row(t, i, loc));
        return x;
      },
      loc));
}

Dataset Dataset::FromFiles(const Operand& patterns, SourceLoc loc) {
  return Of(std::make_shared<internal::Files>(patterns, loc));
}

Dataset Dataset::TfRecords(const Operand& file,
                           const RecordFileOptions& options, SourceLoc loc) {
  ops::ReadRecordsAttrs format;
  format.compression_type = options.compression;
  format.ignore_errors = options.ignore_errors;
  return Of(std::make_shared<internal::Records>(file, format, loc));
}

Dataset Dataset::TextLines(const Operand& file, int64_t skip_header_lines,
                           SourceLoc loc) {
  ops::ReadRecordsAttrs format;
  format.format = "text";
  format.skip_header_lines = skip_header_lines;
  return Of(std::make_shared<internal::Records>(file, format, loc));
}

Dataset Dataset::FixedLengthRecords(const Operand& file, int64_t record_bytes,
                                    const FixedLengthOptions& options,
                                    SourceLoc loc) {
  ops::ReadRecordsAttrs format;
  format.format = "fixed";
  format.record_bytes = record_bytes;
  format.header_bytes = options.header_bytes;
  format.footer_bytes = options.footer_bytes;
  format.compression_type = options.compression;
  return Of(std::make_shared<internal::Records>(file, format, loc));
}

Dataset Dataset::FromQueue(const Queue& queue, SourceLoc loc) {
  return Of(std::make_shared<internal::External>(queue, loc));
}

// ---- Elements ---------------------------------------------------------------

Dataset Dataset::MapWith(internal::ElementFn fn,
                         const DatasetMapOptions& options,
                         SourceLoc loc) const {
  DatasetMapOptions checked = options;
  checked.parallel = std::max(1, options.parallel);
  return Of(std::make_shared<internal::MapNode>(
      Require(node_, 1, options.parallel, "Map: parallel", loc), std::move(fn),
      checked, loc));
}

Dataset Dataset::FilterWith(internal::ElementFn fn, SourceLoc loc) const {
  return Of(std::make_shared<internal::FilterNode>(node_, std::move(fn), loc));
}

Dataset Dataset::Scan(const Operands& initial, const internal::ScanFn& fn,
                      SourceLoc loc) const {
  if (!fn) {
    const Output failed = BuildError(
        InvalidArgument("Scan: expected a function, got an empty one"), loc);
    return Map([failed](const Element&) { return failed; });
  }
  return Of(
      std::make_shared<internal::ScanNode>(node_, initial.items(), fn, loc));
}

Dataset Dataset::FlatMapWith(std::function<Dataset(const Element&)> fn,
                             int cycle, SourceLoc loc) const {
  return Of(std::make_shared<internal::FlatMapNode>(node_, std::move(fn), cycle,
                                                    loc));
}

Dataset Dataset::Enumerate(SourceLoc loc) const {
  return Scan(
      {Constant(int64_t{0})},
      [](const Element& number, const Element& x) {
        Element y = {number[0]};
        y.insert(y.end(), x.begin(), x.end());
        return std::pair{Element{number[0] + 1}, y};
      },
      loc);
}

Dataset Dataset::IgnoreErrors(SourceLoc loc) const {
  return Of(std::make_shared<internal::IgnoreErrorsNode>(node_, loc));
}

// ---- Sequences --------------------------------------------------------------

Dataset Dataset::Repeat(int64_t count, SourceLoc loc) const {
  return Of(std::make_shared<internal::RepeatNode>(node_, count, loc));
}

Dataset Dataset::Take(int64_t count, SourceLoc loc) const {
  return Of(std::make_shared<internal::TakeNode>(node_, count, loc));
}

Dataset Dataset::TakeWhileWith(internal::ElementFn fn, SourceLoc loc) const {
  return Of(
      std::make_shared<internal::TakeWhileNode>(node_, std::move(fn), loc));
}

Dataset Dataset::Skip(int64_t count, SourceLoc loc) const {
  return Of(std::make_shared<internal::SkipNode>(node_, count, loc));
}

Dataset Dataset::Concatenate(const Dataset& next, SourceLoc loc) const {
  return Of(
      std::make_shared<internal::ConcatenateNode>(node_, next.node_, loc));
}

Dataset Dataset::Zip(const Dataset& a, const Dataset& b, SourceLoc loc) {
  return Of(std::make_shared<internal::ZipNode>(a.node_, b.node_, loc));
}

Dataset Dataset::Shuffle(int64_t buffer, int64_t seed, SourceLoc loc) const {
  if (buffer < 1) return Of(Require(node_, 1, buffer, "Shuffle: buffer", loc));
  if (buffer == 1) return Prefetch(1, loc);
  // Some room, so that the stages on both sides need not take turns for each
  // element. With a seed it is in front, since what is drawn must not depend on
  // how many elements are there.
  const int64_t room = buffer / 8 + 16;
  const internal::BoundaryOptions options{
      .capacity = seed == 0 ? buffer + room : buffer,
      .shuffle = true,
      .min_after_dequeue = buffer - 1,
      .seed = seed};
  const Dataset before = seed == 0 ? *this : Prefetch(room, loc);
  return Of(std::make_shared<internal::BufferNode>(before.node_, "shuffle",
                                                   options, loc));
}

Dataset Dataset::Batch(int64_t size, const BatchOptions& options,
                       SourceLoc loc) const {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return Of(std::make_shared<internal::BatchNode>(
      Require(node_, 1, size, "Batch: size", loc),
      std::clamp(size, int64_t{1}, kMost), options, loc));
}

Dataset Dataset::BucketWith(internal::ElementFn length,
                            std::vector<int64_t> boundaries,
                            std::vector<int64_t> batch_sizes,
                            bool drop_remainder, SourceLoc loc) const {
  internal::NodePtr from = node_;
  if (batch_sizes.size() != boundaries.size() + 1) {
    from = internal::Failing(
        from,
        BuildError(
            InvalidArgument("BucketByLength: expected ", boundaries.size() + 1,
                            " batch sizes for ", boundaries.size(),
                            " boundaries, got ", batch_sizes.size()),
            loc),
        loc);
    batch_sizes.resize(boundaries.size() + 1, 1);
  }
  for (size_t i = 1; i < boundaries.size(); ++i)
    from = Require(from, boundaries[i - 1], boundaries[i],
                   "BucketByLength: a boundary after another", loc);
  for (int64_t& size : batch_sizes) {
    from = Require(from, 1, size, "BucketByLength: batch_sizes", loc);
    size = std::max(int64_t{1}, size);
  }
  return Of(std::make_shared<internal::BucketNode>(
      std::move(from), std::move(length), std::move(boundaries),
      std::move(batch_sizes), drop_remainder, loc));
}

Dataset Dataset::Prefetch(int64_t count, SourceLoc loc) const {
  return Of(std::make_shared<internal::BufferNode>(
      Require(node_, 1, count, "Prefetch: count", loc), "prefetch",
      internal::BoundaryOptions{.capacity = std::max(int64_t{1}, count)}, loc));
}

DatasetIterator Dataset::MakeIterator(const std::string& name,
                                      const IteratorOptions& options,
                                      SourceLoc loc) const {
  const NameScope scope(name);
  const AtLine at(loc);
  internal::PipelineBuilder builder(scope.prefix());
  if (!options.saved) {
    node_->BuildLast(builder);
    return DatasetIterator(CurrentGraph(), std::move(builder.stages));
  }
  internal::PipelinePosition position(loc);
  builder.position = &position;
  const int first_node = CurrentGraph().num_nodes();
  position.From(node_)->BuildLast(builder);
  internal::RefuseRandomState(CurrentGraph(), first_node, loc);
  return DatasetIterator(CurrentGraph(), std::move(builder.stages),
                         position.Saved());
}

}  // namespace sluice
