// Conditionals and loops inside the graph.
//
//   Output y = Cond(x < 0, [&] { return -x; }, [&] { return x; });
//   auto [i, total] = While(
//       std::tuple{0, 0.0f}, [&](Output i, Output) { return i < n; },
//       [&](Output i, Output total) { return std::tuple{i + 1, total + x}; });
//
// The callables are called once, while the graph is built; outer values that
// they use are captured. They may contain further conditionals and loops, to
// any depth. An op that no result of a construct depends on does not run: to
// have an effect in every iteration, make a result depend on it
// (ControlDependencies). Errors are recorded in the graph; results are then
// null.
#ifndef SLUICE_CLIENT_CONTROL_CONTROL_FLOW_H_
#define SLUICE_CLIENT_CONTROL_CONTROL_FLOW_H_

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "client/control/structure.h"
#include "graph/builder.h"

namespace sluice {

// ---- Conditionals -----------------------------------------------------------

namespace internal {

using BranchFn = std::function<std::vector<Operand>()>;
std::vector<Output> BuildCond(const Operand& pred, const BranchFn& then_fn,
                              const BranchFn& else_fn, const std::string& name,
                              SourceLoc loc);
std::vector<Output> BuildCase(const std::vector<Operand>& preds,
                              const std::vector<BranchFn>& fns,
                              const BranchFn& default_fn, bool exclusive,
                              const std::string& name, SourceLoc loc);
// A value that is available once the node has run.
std::vector<Operand> After(Node* node, SourceLoc loc);

// The parts of a branch's result. `like` keeps the first branch's result.
template <typename R, typename Fn>
BranchFn BranchOf(Fn& fn, std::optional<R>* like, SourceLoc loc) {
  return [&fn, like, loc] {
    auto result = Call(fn);
    if constexpr (std::is_same_v<decltype(result), Node*>) {
      if (!like->has_value()) like->emplace(result);
      return After(result, loc);
    } else {
      using Mine = decltype(result);
      if constexpr (std::is_same_v<Mine, R>)
        if (!like->has_value()) like->emplace(result);
      return Flattened(result, loc);
    }
  };
}

template <typename R>
auto ResultLike(const std::optional<R>& like,
                const std::vector<Output>& merged) {
  if constexpr (std::is_same_v<R, Node*>)
    return merged[0].node;
  else
    return Unflattened(*like, merged);
}

template <typename R>
struct BranchResult {
  using Type = StructureOf<R>;
};
template <>
struct BranchResult<Node*> {
  using Type = Node*;
};

}  // namespace internal

// Returns the result of then_fn if `pred` (a boolean scalar) is true, else the
// result of else_fn; only that branch runs. Both branches return the same
// number of values of the same types: an output, or a structure of outputs
// (client/control/structure.h). Branches that run only for their effects return
// a Node*; the conditional then returns a Node* too.
template <typename Then, typename Else>
auto Cond(const Operand& pred, Then&& then_fn, Else&& else_fn,
          const std::string& name = "cond", SourceLoc loc = CallerLoc()) {
  using R = std::decay_t<std::invoke_result_t<Then&>>;
  using E = std::decay_t<std::invoke_result_t<Else&>>;
  static_assert(std::is_same_v<typename internal::BranchResult<R>::Type,
                               typename internal::BranchResult<E>::Type>,
                "both branches of a Cond return the same kind of value");
  std::optional<R> like;
  std::optional<E> unused;
  const std::vector<Output> merged =
      internal::BuildCond(pred, internal::BranchOf(then_fn, &like, loc),
                          internal::BranchOf(else_fn, &unused, loc), name, loc);
  return internal::ResultLike(like, merged);
}

// A C++ bool (or number) would decide once, while the graph is built. As a
// predicate it is nearly always a mistake, such as a comparison of C++ values.
template <typename B, typename Then, typename Else>
requires std::is_arithmetic_v<B>
void Cond(B, Then&&, Else&&, const std::string& = "cond",
          SourceLoc = CallerLoc()) {
  static_assert(!std::is_arithmetic_v<B>,
                "the predicate of a Cond is an Output: a C++ value decides "
                "while the graph is built; write an if, or Constant(value)");
}

template <typename R>
using CaseBranch = std::pair<Output, std::function<R()>>;

// Returns the result of the first branch whose predicate is true, else that of
// default_fn: Case<Output>({{x < 0, f}, {x < 10, g}}, h). The step fails if no
// predicate is true and there is no default, or if several are true in an
// exclusive Case.
template <typename R>
auto Case(const std::vector<CaseBranch<R>>& branches,
          const std::type_identity_t<std::function<R()>>& default_fn = nullptr,
          bool exclusive = false, const std::string& name = "case",
          SourceLoc loc = CallerLoc()) {
  std::optional<R> like;
  std::vector<Operand> preds;
  std::vector<internal::BranchFn> fns;
  for (const CaseBranch<R>& b : branches) {
    preds.emplace_back(b.first, loc.file, loc.line);
    fns.push_back(internal::BranchOf(b.second, &like, loc));
  }
  internal::BranchFn otherwise;
  if (default_fn) otherwise = internal::BranchOf(default_fn, &like, loc);
  const std::vector<Output> merged =
      internal::BuildCase(preds, fns, otherwise, exclusive, name, loc);
  if (!like.has_value()) like.emplace();  // There were no branches.
  return internal::ResultLike(like, merged);
}

// ---- Loops ------------------------------------------------------------------

struct WhileOptions {
  // The number of iterations that may run at once.
  int parallel_iterations = 32;
  // Whether gradients may flow through the loop.
  bool back_prop = true;
  // Whether values saved for the gradients may wait in slower memory.
  bool swap_memory = false;
  // Whether instances of the same op in different iterations, of this loop and
  // of loops and functions within, run as one where they can. Results are equal
  // within rounding. (SessionOptions::batch_frames asks for it everywhere.)
  bool batch = false;
  // The loop ends after this many iterations even if its condition is still
  // true: an integer scalar, or none.
  std::optional<Operand> maximum_iterations = std::nullopt;
  // Known shapes of the loop variables that hold in every iteration, in the
  // order of the flattened variables; empty: the shapes of the initial values.
  std::vector<PartialShape> shape_invariants = {};
  std::string name = "while";
};

namespace internal {

using LoopFn = std::function<std::vector<Operand>(const std::vector<Output>&)>;
std::vector<Output> BuildWhile(const std::vector<Operand>& init,
                               const LoopFn& cond, const LoopFn& body,
                               const WhileOptions& options, SourceLoc loc);

}  // namespace internal

// Repeats `body` while `cond` is true, starting from `init`, and returns the
// final values of the loop variables. `init` is an output, a vector of outputs,
// or any structure of them. Both callables receive the same structure (the
// parts of a tuple, array or pair as separate arguments, or as a whole); `cond`
// returns a boolean scalar and `body` the variables' next values. A variable
// keeps its type, and its shape unless an invariant allows it to vary.
template <typename Init, typename CondFn, typename BodyFn>
StructureOf<Init> While(const Init& init, CondFn&& cond, BodyFn&& body,
                        const WhileOptions& options = {},
                        SourceLoc loc = CallerLoc()) {
  const std::vector<Output> results = internal::BuildWhile(
      Flattened(init, loc),
      [&](const std::vector<Output>& values) {
        const StructureOf<Init> now = Unflattened(init, values);
        const auto holds = CallWith(cond, now);
        static_assert(!std::is_arithmetic_v<std::decay_t<decltype(holds)>>,
                      "the condition of a While returns an Output: a C++ value "
                      "is the same in every iteration; write Constant(value)");
        return Flattened(holds, loc);
      },
      [&](const std::vector<Output>& values) {
        const StructureOf<Init> now = Unflattened(init, values);
        const auto next = CallWith(body, now);
        return Flattened(next, loc);
      },
      options, loc);
  return Unflattened(init, results);
}

}  // namespace sluice

#endif  // SLUICE_CLIENT_CONTROL_CONTROL_FLOW_H_
