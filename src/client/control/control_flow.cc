#include "client/control/control_flow.h"

#include <algorithm>

#include "client/control/cond_of_slices.h"
#include "client/types_and_shapes.h"
#include "graph/control_flow.h"
#include "graph/exact_line.h"
#include "graph/graph.h"
#include "graph/tensor_array_info.h"

namespace sluice::internal {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

// Converts to an output; bare numbers become constants of type `want`.
Output AsOutput(const Operand& x, DType want) {
  return x.Get(x.weak && want == DType::kInvalid ? NaturalType(x) : want);
}

std::string Describe(const Output& o) {
  return absl::StrCat(DTypeName(o.dtype()), " of shape ", o.shape().ToString());
}

// The names of two different TensorArrays that the flows belong to; "" if they
// do not. (Only the flow is a loop variable or a branch result, so one array
// cannot replace another.)
std::string DifferentArrays(const Output& want, const Output& got) {
  const Node* const a = TensorArrayOfFlow(want);
  const Node* const b = TensorArrayOfFlow(got);
  if (a == nullptr || b == nullptr || a == b) return "";
  return absl::StrCat("'", a->name(), "', got '", b->name(), "'");
}

bool IsPredicate(const Output& o) {
  return RemoveRef(o.dtype()) == DType::kBool &&
         o.shape().CompatibleWith(PartialShape::Scalar());
}

// Returns false and records the graph's latest error if an output among the
// results of a callable is null.
bool AllThere(const std::vector<Operand>& values, const std::string& what,
              SourceLoc loc) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].output.valid() || values[i].literal.valid()) continue;
    CurrentGraph().PropagateFailure(
        values[i].output,
        WithLine(InvalidArgument(what, ": expected an output as value ", i,
                                 ", got none"),
                 loc));
    return false;
  }
  return true;
}

}  // namespace

std::vector<Operand> After(Node* node, SourceLoc loc) {
  const ControlDependencies after({node});
  if (node == nullptr) return {Operand(CurrentGraph().Failure())};
  return {Operand(Constant(Tensor::Scalar(true), "done", loc))};
}

// ---- Conditionals -----------------------------------------------------------

std::vector<Output> BuildCond(const Operand& pred, const BranchFn& then_fn,
                              const BranchFn& else_fn, const std::string& name,
                              SourceLoc loc) {
  return BuildCondOfSlices(
      pred, then_fn, else_fn, [](size_t) { return false; }, name, loc);
}

std::vector<Output> BuildCondOfSlices(
    const Operand& pred, const BranchFn& then_fn, const BranchFn& else_fn,
    const std::function<bool(size_t)>& is_index, const std::string& name,
    SourceLoc loc) {
  Graph& g = CurrentGraph();
  const Lock lock(g.mutex());
  const NameScope scope(name.empty() ? "cond" : name);
  Output p = pred.Get(DType::kBool);
  if (p.valid() && !IsPredicate(p))
    p = BuildError(InvalidArgument("conditional '", scope.prefix(),
                                   "': expected a predicate that is a boolean "
                                   "scalar, got ",
                                   Describe(p)),
                   loc);
  // All Switches of the conditional read this, so that the whole conditional
  // runs after the control dependencies around it.
  if (p.valid()) p = Build("Identity", {p}, {}, "pred_id", loc);
  if (!p.valid()) {
    const size_t n = then_fn().size();
    return std::vector<Output>(n, p);
  }
  Conditional* c = g.control_flow().NewConditional(
      scope.prefix(), p, CurrentContext(), InLoopCondition());
  c->AddPivots(loc);
  std::vector<Operand> values[2];
  for (const int i : {1, 0}) {
    const ContextScope branch(c->branch(i));
    values[i] = i == 1 ? then_fn() : else_fn();
  }
  const std::vector<Operand>&if_false = values[0], &if_true = values[1];
  std::vector<Output> merged(if_true.size());
  const auto failed = [&] {
    return std::vector<Output>(merged.size(), g.Failure());
  };
  const std::string what = absl::StrCat("conditional '", scope.prefix(), "'");
  if (if_true.size() != if_false.size()) {
    BuildError(InvalidArgument(what,
                               ": expected as many values from both branches, "
                               "got ",
                               if_true.size(), " where it holds and ",
                               if_false.size(), " where not"),
               loc);
    return failed();
  }
  if (!AllThere(if_true, what, loc) || !AllThere(if_false, what, loc))
    return failed();
  for (size_t i = 0; i < merged.size(); ++i) {
    // A bare number takes the type of the other branch's value; if both are
    // bare numbers, one with a fractional part decides.
    const Operand &f = if_false[i], &t = if_true[i];
    const bool from_false = t.weak && (!f.weak || IsFloating(NaturalType(f)));
    const DType want = NaturalType(from_false ? f : t);
    Output sides[2];
    for (const int b : {1, 0}) {
      const ContextScope branch(c->branch(b));
      sides[b] =
          AsOutput(values[b][i], values[b][i].weak ? want : DType::kInvalid);
    }
    if (!sides[0].valid() || !sides[1].valid()) return failed();
    for (const int b : {1, 0})
      if (sides[b].dtype() == DType::kInt32 &&
          sides[1 - b].dtype() == DType::kInt64 && is_index(i)) {
        const ContextScope branch(c->branch(b));
        sides[b] =
            Build("Cast", {sides[b]}, {{"DstT", DType::kInt64}}, "", loc);
        if (!sides[b].valid()) return failed();
      }
    if (RemoveRef(sides[0].dtype()) != RemoveRef(sides[1].dtype())) {
      BuildError(
          InvalidArgument(what, ": expected values of one type as result ", i,
                          ", got ", Describe(sides[1]), " where it holds and ",
                          Describe(sides[0]), " where not"),
          loc);
      return failed();
    }
    if (const std::string e = DifferentArrays(sides[1], sides[0]); !e.empty()) {
      BuildError(InvalidArgument(what, ": expected one TensorArray as result ",
                                 i, " from both branches, ", e),
                 loc);
      return failed();
    }
    merged[i] = OrFailure(c->AddMerge(sides[0], sides[1], loc));
  }
  return merged;
}

namespace {

// The index of the first true predicate, after the requested assertions that at
// most one and at least one is true.
Output CountedFirst(const std::vector<Output>& preds, bool at_most_one,
                    bool at_least_one, const std::string& what, SourceLoc loc) {
  const AtLine at(loc);
  const Output all = Build("Pack", preds, {}, "preds");
  const Output held = Build(
      "Sum", {Build("Cast", {all}, {{"DstT", DType::kInt32}}), IntVector({0})},
      {}, "held");
  const Output one = Constant(Tensor::Scalar<int32_t>(1));
  const auto check = [&](const char* op, const char* name, const char* rule) {
    const Output message = Constant(Tensor::Scalar<std::string>(
        absl::StrCat(what, ": expected ", rule, ", got")));
    return BuildNode("Assert",
                     {Build(op, {held, one}, {}, name), message, all});
  };
  std::vector<Node*> checks;
  if (at_most_one)
    checks.push_back(
        check("LessEqual", "at_most_one", "at most one predicate to hold"));
  if (at_least_one)
    checks.push_back(
        check("GreaterEqual", "at_least_one", "a predicate to hold"));
  const ControlDependencies checked(checks);
  return Build("Identity", {preds[0]}, {}, "checked");
}

}  // namespace

std::vector<Output> BuildCase(const std::vector<Operand>& preds,
                              const std::vector<BranchFn>& fns,
                              const BranchFn& default_fn, bool exclusive,
                              const std::string& name, SourceLoc loc) {
  const Lock lock(CurrentGraph().mutex());
  const NameScope scope(name.empty() ? "case" : name);
  if (fns.empty()) {
    if (default_fn) {
      std::vector<Output> values;
      for (const Operand& x : default_fn())
        values.push_back(AsOutput(x, DType::kInvalid));
      return values;
    }
    BuildError(InvalidArgument("case '", scope.prefix(),
                               "': expected a branch, got none"),
               loc);
    return {CurrentGraph().Failure()};
  }
  std::vector<Output> ps;
  for (const Operand& pred : preds) {
    ps.push_back(pred.Get(DType::kBool));
    if (ps.back().valid() && !IsPredicate(ps.back()))
      ps.back() = BuildError(
          InvalidArgument("case '", scope.prefix(), "': expected predicate ",
                          ps.size() - 1, " to be a boolean scalar, got ",
                          Describe(ps.back())),
          loc);
  }
  const bool built = std::all_of(ps.begin(), ps.end(),
                                 [](const Output& p) { return p.valid(); });
  if (built && (exclusive || !default_fn))
    ps[0] = CountedFirst(ps, exclusive, !default_fn,
                         absl::StrCat("case '", scope.prefix(), "'"), loc);
  // Without a default the last branch is used if no predicate is true: the step
  // has failed.
  BranchFn rest = default_fn ? default_fn : fns.back();
  for (size_t i = default_fn ? fns.size() : fns.size() - 1; i-- > 0;)
    rest = [&, i, otherwise = rest] {
      std::vector<Operand> values;
      for (const Output& o :
           BuildCond(Operand(ps[i]), fns[i], otherwise, "cond", loc))
        values.emplace_back(o, loc.file, loc.line);
      return values;
    };
  std::vector<Output> results;
  if (fns.size() == 1 && !default_fn) {
    const ControlDependencies checked({ps[0].node});
    for (const Operand& x : rest()) {
      const Output value = AsOutput(x, DType::kInvalid);
      results.push_back(Build("Identity", {value}, {}, "", loc));
    }
    return results;
  }
  for (const Operand& x : rest()) results.push_back(x.output);
  return results;
}

// ---- Loops ------------------------------------------------------------------

namespace {

// One call of BuildWhile. Lives on one thread, which holds the graph's mutex.
class LoopBuilder {
 public:
  LoopBuilder(const WhileOptions& options, SourceLoc loc)
      : options_(options),
        loc_(loc),
        scope_(options.name.empty() ? "while" : options.name),
        what_(absl::StrCat("loop '", scope_.prefix(), "'")) {}

  // False if an error was recorded.
  bool Run(const std::vector<Operand>& init, const LoopFn& cond,
           const LoopFn& body) {
    return Open(init) && Condition(cond) && Body(body);
  }

  Output Result(size_t i) const { return Output(loop_->variables()[i].exit); }

 private:
  bool Fail(const Status& s) const {
    BuildError(s, loc_);
    return false;
  }

  bool Open(const std::vector<Operand>& init) {
    const auto& invariants = options_.shape_invariants;
    count_ = init.size();
    if (init.empty())
      return Fail(InvalidArgument(
          what_, ": expected at least one loop variable, got none"));
    if (!invariants.empty() && invariants.size() != init.size())
      return Fail(InvalidArgument(what_, ": expected ", init.size(),
                                  " shape invariants, got ",
                                  invariants.size()));
    if (options_.parallel_iterations < 1)
      return Fail(InvalidArgument(
          what_, ": expected parallel_iterations of at least 1, got ",
          options_.parallel_iterations));
    if (!AllThere(init, what_, loc_)) return false;
    std::vector<Output> values;
    for (const Operand& x : init) {
      Output value = AsOutput(x, DType::kInvalid);
      // A loop variable is a value.
      if (value.valid() && IsRef(value.dtype()))
        value = Build("Identity", {value}, {}, "", loc_);
      if (!value.valid()) return false;
      values.push_back(value);
    }
    if (!Limit()) return false;
    loop_ = CurrentGraph().control_flow().NewWhile(
        scope_.prefix(), scope_.prefix(), CurrentContext(), InLoopCondition());
    loop_->parallel_iterations = options_.parallel_iterations;
    loop_->back_prop = options_.back_prop;
    loop_->swap_memory = options_.swap_memory;
    loop_->batch = options_.batch;
    loop_->maximum_iterations = maximum_;
    std::vector<Node*> after;
    for (Node* n : CurrentControlDependencies()) {
      const sluice::Result<Node*> here =
          CaptureControl(CurrentContext(), n, loc_);
      if (!here.ok()) return Fail(here.status());
      after.push_back(*here);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const std::optional<PartialShape> shape =
          invariants.empty() ? std::nullopt
                             : std::optional<PartialShape>(invariants[i]);
      if (loop_->OpenVariable(values[i], VariableName(i), shape, after, loc_) <
          0)
        return false;
    }
    if (maximum_.valid() &&
        loop_->OpenVariable(ScalarOf(maximum_.dtype(), 0, loc_),
                            "iteration counter", std::nullopt, after, loc_) < 0)
      return false;
    return true;
  }

  static std::string VariableName(size_t i) {
    return absl::StrCat("loop variable ", i);
  }

  bool Limit() {
    if (!options_.maximum_iterations.has_value()) return true;
    const AtLine at(loc_);  // A bare number has no source line of its own.
    maximum_ = AsOutput(*options_.maximum_iterations, DType::kInvalid);
    if (!maximum_.valid()) return false;
    const DType t = RemoveRef(maximum_.dtype());
    if ((t == DType::kInt32 || t == DType::kInt64) &&
        maximum_.shape().CompatibleWith(PartialShape::Scalar()))
      return true;
    return Fail(InvalidArgument(
        what_,
        ": expected maximum_iterations that is an int32 or int64 scalar, got ",
        Describe(maximum_)));
  }

  bool Condition(const LoopFn& cond) {
    const ContextScope here(loop_, true);
    std::vector<Output> values;
    for (size_t i = 0; i < count_; ++i)
      values.emplace_back(loop_->variables()[i].merge);
    const std::vector<Operand> holds = cond(values);
    if (holds.size() != 1)
      return Fail(InvalidArgument(what_,
                                  ": expected one value from the condition, a "
                                  "boolean scalar, got ",
                                  holds.size()));
    if (!AllThere(holds, what_ + ": condition", loc_)) return false;
    Output pred = AsOutput(holds[0], DType::kBool);
    if (!pred.valid()) return false;
    if (maximum_.valid() && RemoveRef(pred.dtype()) == DType::kBool) {
      const Output more =
          Build("Less", {Output(loop_->variables()[count_].merge), maximum_},
                {}, "", loc_);
      pred = Build("LogicalAnd", {more, pred}, {}, "", loc_);
    }
    return loop_->SetCondition(pred, loc_);
  }

  bool Body(const LoopFn& body) {
    const ContextScope here(loop_);
    std::vector<Output> values;
    for (size_t i = 0; i < count_; ++i)
      values.push_back(loop_->variables()[i].body_value);
    const std::vector<Operand> next = body(values);
    if (next.size() != count_)
      return Fail(InvalidArgument(
          what_, ": expected ", count_,
          " values from the body, one per loop variable, got ", next.size(),
          next.size() < count_
              ? absl::StrCat(" (none for ", VariableName(next.size()), ")")
              : ""));
    if (!AllThere(next, what_ + ": body", loc_)) return false;
    for (size_t i = 0; i < count_; ++i) {
      const DType type = values[i].dtype();
      const Output value =
          AsOutput(next[i], next[i].weak ? type : DType::kInvalid);
      if (!value.valid()) return false;
      if (const std::string e = DifferentArrays(values[i], value); !e.empty())
        return Fail(InvalidArgument(what_, ": ", VariableName(i),
                                    ": expected the TensorArray that enters "
                                    "the loop, ",
                                    e));
      if (!loop_->CloseVariable(static_cast<int>(i), value, loc_)) return false;
    }
    if (!maximum_.valid()) return true;
    const Output counter = loop_->variables()[count_].body_value;
    const Output one = ScalarOf(counter.dtype(), 1, loc_);
    return loop_->CloseVariable(static_cast<int>(count_),
                                Build("AddV2", {counter, one}, {}, "", loc_),
                                loc_);
  }

  const WhileOptions& options_;
  const SourceLoc loc_;
  const NameScope scope_;
  const std::string what_;
  size_t count_ = 0;  // The number of the user's loop variables.
  Output maximum_;
  WhileContext* loop_ = nullptr;
};

}  // namespace

std::vector<Output> BuildWhile(const std::vector<Operand>& init,
                               const LoopFn& cond, const LoopFn& body,
                               const WhileOptions& options, SourceLoc loc) {
  const Lock lock(CurrentGraph().mutex());
  std::vector<Output> results(init.size());
  LoopBuilder builder(options, loc);
  if (!builder.Run(init, cond, body))
    return std::vector<Output>(init.size(), CurrentGraph().Failure());
  for (size_t i = 0; i < results.size(); ++i) results[i] = builder.Result(i);
  return results;
}

}  // namespace sluice::internal
