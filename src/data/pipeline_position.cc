#include "data/pipeline_position.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/control/control_flow.h"
#include "client/operators.h"
#include "sluice/ops.h"

namespace sluice::internal {

namespace {

// What a start goes through at most: runs of a stage that give nothing (which
// take a few minutes), and elements that are made again and dropped. A position
// with more is of a damaged checkpoint, or as good as never there.
constexpr int64_t kMostRuns = 100'000'000;
constexpr int64_t kMostElements = int64_t{1} << 40;

Var Counter(const char* name, const char* collection, SourceLoc loc) {
  return Var(Constant(int64_t{0}), name,
             {.trainable = false, .collections = {collection}}, loc);
}

// The value of PipelinePosition::epochs_.
Output EpochsValue(const Output& elements, const Output& ended, SourceLoc loc) {
  return ops::Pack({elements, ended}, {}, loc);
}

}  // namespace

// The elements of a dataset after those that were taken.
class PipelinePosition::FromTaken final : public Derived {
 public:
  FromTaken(NodePtr upstream, Var left_out, SourceLoc loc)
      : Derived(std::move(upstream), loc), left_out_(std::move(left_out)) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    const Output left_out = left_out_.Read(loc_);
    const auto pass = [&](const Flow& f, const Element& seen,
                          const Element& x) {
      return WithState(StepIf(seen[0] >= left_out, f, x, step, loc_),
                       {seen[0] + 1});
    };
    return FoldState(p, std::move(flow), {Constant(int64_t{0})}, pass).first;
  }

 private:
  const Var left_out_;
};

// Likewise for a dataset that is another one several times.
class PipelinePosition::FromEpoch final : public Derived {
 public:
  FromEpoch(const Epochs& epochs, const PipelinePosition& position)
      : Derived(epochs.upstream, position.loc_),
        count_(epochs.count),
        first_epoch_(position.first_epoch_),
        left_out_(position.left_out_),
        epochs_(position.epochs_) {}
  Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const override {
    const int64_t outer_epochs = std::exchange(p.epochs, count_);
    const int64_t outer_runs = std::exchange(p.runs_per_epoch, 1);
    const Output left_out = left_out_.Read(loc_);
    const int64_t limit =
        count_ < 0 ? std::numeric_limits<int64_t>::max() : count_;
    // How many elements have been seen, those that are left out too.
    Push(&flow, {Constant(int64_t{0})});
    enum { kEpoch, kGoesOn, kBegin, kElements };
    const Output at_begin = flow.slots.back();
    PipelineBuilder::LoopState end = p.Loop(
        {{first_epoch_.Read(loc_), Constant(true), at_begin,
          ops::Unpack(epochs_.Read(loc_), 2, {}, loc_)[0]},
         std::move(flow)},
        1,
        [&](const std::vector<Output>& vars) {
          return ops::LogicalAnd(vars[kEpoch] < limit, vars[kGoesOn]);
        },
        [&](PipelineBuilder::LoopState s) {
          const Output begin = s.vars[kBegin], elements = s.vars[kElements];
          s.flow = upstream_->Fold(
              p, std::move(s.flow), [&](Flow f, const Element& x) {
                const Output seen = Counted(Pop(&f), begin, elements);
                f = StepIf(seen >= left_out, f, x, step, loc_);
                Push(&f, {seen + 1});
                return f;
              });
          Output seen = Pop(&s.flow);
          const Output now = seen - begin;
          // (Before an element of the next epoch leaves.)
          const Output known =
              ops::SelectV2(ops::LogicalOr(ops::Equal(elements, int64_t{0}),
                                           ops::Equal(elements, now)),
                            now, int64_t{-1}, {}, loc_);
          const Output ended = s.vars[kEpoch] + 1;
          seen = After(seen,
                       epochs_.Assign(EpochsValue(known, ended, loc_), loc_));
          Push(&s.flow, {seen});
          // (An empty dataset is not repeated for ever.)
          return PipelineBuilder::LoopState{
              {ended, now > int64_t{0}, seen, known}, std::move(s.flow)};
        },
        loc_);
    Pop(&end.flow);
    p.epochs = outer_epochs;
    p.runs_per_epoch = outer_runs;
    return end.flow;
  }

 private:
  // `seen`; if the epoch turns out to be longer than others were, after that
  // has been noted.
  Output Counted(const Output& seen, const Output& begin,
                 const Output& elements) const {
    const Output longer = ops::LogicalAnd(elements > int64_t{0},
                                          seen - begin >= elements, {}, loc_);
    return Cond(
        longer,
        [&] {
          const Output differ =
              EpochsValue(Constant(int64_t{-1}), Constant(int64_t{0}), loc_);
          return After(seen, epochs_.Assign(differ, loc_));
        },
        [&] { return ops::Identity(seen, {}, loc_); }, "if_longer", loc_);
  }

  const int64_t count_;
  const Var first_epoch_, left_out_, epochs_;
};

PipelinePosition::PipelinePosition(SourceLoc loc)
    : loc_(loc),
      taken_(Counter("position", kGlobalVariables, loc)),
      epochs_(Constant(Tensor::Vector<int64_t>({0, 0})), "epochs",
              {.trainable = false, .collections = {kGlobalVariables}}, loc),
      first_epoch_(Counter("first_epoch", kLocalVariables, loc)),
      left_out_(Counter("left_out", kLocalVariables, loc)) {}

NodePtr PipelinePosition::From(const NodePtr& last) { return From(last, 1); }

NodePtr PipelinePosition::From(const NodePtr& node, int64_t elements) {
  if (const auto grouping = node->grouping()) {
    int64_t before = 0;
    if (!__builtin_mul_overflow(elements, grouping->elements, &before))
      return grouping->make(From(grouping->upstream, before));
  }
  elements_ = elements;
  if (const auto epochs = node->repeats()) {
    has_epochs_ = true;
    return std::make_shared<FromEpoch>(*epochs, *this);
  }
  return std::make_shared<FromTaken>(node, left_out_, loc_);
}

Output PipelinePosition::FirstRun(int64_t runs_per_epoch) {
  most_runs_per_epoch_ = std::max(most_runs_per_epoch_, runs_per_epoch);
  // (Saved() sees to it that this does not overflow.)
  return first_epoch_.Read(loc_) * runs_per_epoch;
}

// An operation that fails if `value` is more than `most`.
Node* PipelinePosition::AtMost(const Output& value, int64_t most,
                               const char* of_what) const {
  const auto text = [&](const std::string& s) {
    return Constant(Tensor::Scalar(s));
  };
  return ops::Assert(
      value <= most,
      {text(absl::StrCat("position of a pipeline: expected at most ", most, " ",
                         of_what, ", got")),
       value, text("after elements:"), taken_.Read(loc_)},
      {}, loc_);
}

SavedPosition PipelinePosition::Saved() const {
  SavedPosition saved;
  saved.taken = taken_;
  saved.epochs = epochs_;
  saved.elements = elements_;
  // (A checkpoint may hold anything.)
  const Output taken = ops::Maximum(taken_.Read(loc_), int64_t{0}, {}, loc_);
  Output epoch = Constant(int64_t{0}), left_out = taken;
  if (has_epochs_) {
    const std::vector<Output> epochs =
        ops::Unpack(epochs_.Read(loc_), 2, {}, loc_);
    const Output per_epoch = ops::Maximum(epochs[0], int64_t{1}, {}, loc_);
    const Output whole = ops::FloorDiv(taken, per_epoch, {}, loc_);
    // (The last epoch that was taken from may have more elements than those
    // before it, unless its end was seen.)
    const Output may_go_on =
        ops::LogicalAnd(ops::Equal(whole * per_epoch, taken, {}, loc_),
                        epochs[1] < whole, {}, loc_);
    const Output last = ops::SelectV2(may_go_on, whole - 1, whole, {}, loc_);
    epoch = ops::SelectV2(epochs[0] > int64_t{0},
                          ops::Maximum(last, int64_t{0}, {}, loc_), int64_t{0},
                          {}, loc_);
    left_out = taken - epoch * per_epoch;
  }
  std::vector<Node*> checks = {
      AtMost(left_out, kMostElements, "elements to make again")};
  if (most_runs_per_epoch_ > 0)
    checks.push_back(
        AtMost(epoch, kMostRuns / most_runs_per_epoch_, "epochs to leave out"));
  {
    const ControlDependencies plausible(checks);
    saved.begin = sluice::Group(
        {first_epoch_.Assign(epoch, loc_), left_out_.Assign(left_out, loc_)},
        "begin", loc_);
  }
  const Operand none(Constant(int64_t{0}));
  saved.rewind =
      Group({taken_.Assign(none, loc_),
             epochs_.Assign(Constant(Tensor::Vector<int64_t>({0, 0})), loc_)},
            "rewind", loc_);
  return saved;
}

void RefuseRandomState(const Graph& graph, int first, SourceLoc loc) {
  for (int i = first; i < graph.num_nodes(); ++i) {
    const Node& n = *graph.nodes()[static_cast<size_t>(i)];
    const OpDef& def = n.op();
    // (A queue that shuffles has seeds too, but gives a handle.)
    if (!def.stateful || n.FindAttr("seed2") == nullptr ||
        n.num_outputs() == 0 || n.output_type(0) == DType::kResource ||
        IsRef(n.output_type(0)))
      continue;
    BuildError(
        InvalidArgument("pipeline whose position is saved: expected functions "
                        "that give the same for the same element, got ",
                        def.name, " '", n.name(),
                        "', whose numbers depend on what was drawn before; "
                        "hint: a Stateless operation, whose seed is the number "
                        "that Enumerate gives the element"),
        loc);
    return;
  }
}

}  // namespace sluice::internal
