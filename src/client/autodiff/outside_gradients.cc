#include "client/autodiff/outside_gradients.h"

#include <algorithm>
#include <map>
#include <utility>

#include "client/autodiff/backprop_paths.h"
#include "client/autodiff/function_gradients.h"
#include "client/autodiff/gradient_values.h"
#include "client/body_captures.h"
#include "graph/builder.h"
#include "graph/control_flow.h"
#include "graph/control_flow_recovery.h"
#include "graph/frames.h"

namespace sluice {
namespace {

std::vector<Output> OutsidesOf(const BodyCaptures& body) {
  std::vector<Output> outsides;
  for (const BodyCaptures::Value& v : body.values())
    outsides.push_back(v.outside);
  return outsides;
}

// Which of some values of `g` gradients reach from some of the xs; those and
// the stops are of `g` or of the graphs around it.
Result<std::vector<bool>> FindReached(Graph* g,
                                      const std::vector<Output>& values,
                                      const std::vector<Output>& xs,
                                      const std::vector<Output>& stops) {
  std::vector<bool> reached(values.size());
  if (values.empty() || xs.empty()) return reached;
  SLUICE_RETURN_IF_ERROR(RecoverControlFlow(g));
  std::vector<Output> sources, stops_here, far;
  for (const Output& x : xs) (x.graph() == g ? sources : far).push_back(x);
  for (const Output& s : stops)
    if (s.graph() == g) stops_here.push_back(s);
  if (const BodyCaptures* const body = BodyCaptures::Of(g); body != nullptr) {
    const std::vector<Output> all = OutsidesOf(*body);
    SLUICE_ASSIGN_OR_RETURN(const std::vector<bool> around,
                            FindReached(body->outside(), all, far, stops));
    for (size_t i = 0; i < all.size(); ++i)
      if (around[i]) sources.push_back(body->values()[i].inside);
  }
  // (Paths are those to values of one loop.)
  std::map<WhileContext*, std::vector<size_t>> of_loop;
  for (size_t i = 0; i < values.size(); ++i)
    of_loop[InnermostWhile(ContextOf(values[i]))].push_back(i);
  for (const auto& [loop, some] : of_loop) {
    std::vector<Output> ys;
    for (const size_t i : some) ys.push_back(values[i]);
    GradientPaths paths(g, ys, sources, stops_here);
    SLUICE_RETURN_IF_ERROR(paths.Find());
    for (const size_t i : some) reached[i] = paths.Between(values[i].node);
  }
  return reached;
}

}  // namespace

Graph* GraphOfGradients(const std::vector<Output>& ys,
                        const GradientOptions& options) {
  Graph* const here = &CurrentGraph();
  if (ys.empty() || !ys[0].valid()) return here;
  const auto is_here = [here](const Output& o) { return o.graph() == here; };
  const bool uses_body =
      BodyCaptures::Of(here) != nullptr &&
      (std::any_of(ys.begin(), ys.end(), is_here) ||
       std::any_of(options.grad_ys.begin(), options.grad_ys.end(),
                   [&](const Gradient& g) {
                     return is_here(g.is_sparse() ? g.values : g.dense);
                   }));
  return uses_body ? here : ys[0].graph();
}

bool MayGoOutside(const std::vector<GradTarget>& xs,
                  const GradientOptions& options) {
  const Graph& g = CurrentGraph();
  if (BodyCaptures::Of(&g) == nullptr) return false;
  const auto is_outer = [&g](const Output& o) {
    return o.valid() && o.graph() != &g;
  };
  return std::any_of(xs.begin(), xs.end(),
                     [&](const GradTarget& x) { return is_outer(x.output); }) ||
         std::any_of(options.stop_gradients.begin(),
                     options.stop_gradients.end(), is_outer);
}

namespace {

// One call of GradientsFromBody.
class FromBody {
 public:
  FromBody(const std::vector<Output>& ys, const std::vector<GradTarget>& xs,
           const GradientOptions& options)
      : graph_(&CurrentGraph()),
        body_(*BodyCaptures::Of(graph_)),
        ys_(ys),
        options_(options) {
    for (const GradTarget& x : xs) xs_.push_back(x.output);
    for (const Output& s : options.stop_gradients) {
      stops_.push_back(s);
      // (So that what leads to a captured value does not count.)
      if (const Output outer = body_.Outside(s); outer.valid())
        stops_.push_back(outer);
    }
  }

  Result<std::vector<Gradient>> Run() {
    SLUICE_RETURN_IF_ERROR(Within());
    SLUICE_RETURN_IF_ERROR(Beyond());
    for (size_t i = 0; i < xs_.size(); ++i)
      if (!grads_[i] && options_.unconnected == Unconnected::kZero) {
        SLUICE_ASSIGN_OR_RETURN(grads_[i].dense,
                                Built(ZerosFor(Operand(xs_[i]).Get())));
      }
    return std::move(grads_);
  }

 private:
  bool IsHere(const Output& o) const { return o.graph() == graph_; }

  // The gradients within the body: of its own xs, and of the captured values
  // that are, or depend on, others.
  Status Within() {
    std::vector<Output> outer;
    for (const Output& x : xs_)
      if (!IsHere(x)) outer.push_back(x);
    std::vector<Output> leaves;
    const std::vector<Output> all = OutsidesOf(body_);
    SLUICE_ASSIGN_OR_RETURN(const std::vector<bool> reached,
                            FindReached(body_.outside(), all, outer, stops_));
    for (size_t i = 0; i < all.size(); ++i)
      if (reached[i]) leaves.push_back(body_.values()[i].inside);
    GradientOptions options = options_;
    options.unconnected = Unconnected::kNone;
    std::erase_if(options.stop_gradients,
                  [this](const Output& s) { return !IsHere(s); });
    std::vector<GradTarget> targets;
    for (const Output& x : xs_)
      if (IsHere(x)) targets.emplace_back(x);
    const size_t own = targets.size();
    targets.insert(targets.end(), leaves.begin(), leaves.end());
    StoreScope stores;
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<Gradient> grads,
        GradientsWithStores(ys_, targets, options, &stores));
    grads_.resize(xs_.size());
    for (size_t i = 0, k = 0; i < xs_.size(); ++i)
      if (IsHere(xs_[i])) grads_[i] = grads[k++];
    for (size_t i = 0; i < leaves.size(); ++i)
      if (grads[own + i]) {
        leaves_.push_back(leaves[i]);
        leaf_grads_.push_back(grads[own + i]);
      }
    return OkStatus();
  }

  // The outer value of an argument of the body, as far out as it is captured.
  Output Source(Output o) const {
    for (const BodyCaptures* b = &body_; b != nullptr;
         b = BodyCaptures::Of(o.graph())) {
      const Output outside = b->Outside(o);
      if (!outside.valid()) break;
      o = outside;
    }
    return o;
  }

  std::vector<Output> OuterXs() const {
    std::vector<Output> outer;
    for (const Output& x : xs_)
      if (!IsHere(x)) outer.push_back(Source(x));
    return outer;
  }

  // The x that an argument stands for, itself or by an identity of it, as that
  // of a variable's reference is; otherwise another value.
  Output XOf(const Output& leaf, const std::vector<Output>& outer) const {
    Output o = Source(leaf);
    while (!Contains(outer, o) && o.node->kind() == OpKind::kIdentity)
      o = Source(o.node->input(0));
    return o;
  }

  // The outer value of a leaf that is no x, or that depends on others of these;
  // null if there is none.
  Result<Output> OtherThanXs(const std::vector<Output>& outer) const {
    for (const Output& leaf : leaves_) {
      const Output x = XOf(leaf, outer);
      if (!Contains(outer, x)) return Source(leaf);
      std::vector<Output> others;
      for (const Output& o : outer)
        if (!o.SameAs(x)) others.push_back(o);
      SLUICE_ASSIGN_OR_RETURN(
          const std::vector<bool> reached,
          FindReached(body_.outside(), {body_.Outside(leaf)}, others, stops_));
      if (reached[0]) return Source(leaf);
    }
    return Output();
  }

  // Adds what the leaves contribute to the xs.
  Status Beyond() {
    if (leaves_.empty()) return OkStatus();
    const std::vector<Output> outer = OuterXs();
    SLUICE_ASSIGN_OR_RETURN(const Output other, OtherThanXs(outer));
    if (other.valid())
      return Unimplemented(
          "gradient in the body of a function: expected no captured value "
          "that depends on an outer x otherwise than by being it, got '",
          other.name(),
          "'; hint: compute it in the body, or pass it and x as arguments; ",
          other.node->Describe());
    for (size_t i = 0; i < xs_.size(); ++i)
      for (size_t k = 0; k < leaves_.size() && !IsHere(xs_[i]); ++k)
        if (XOf(leaves_[k], outer).SameAs(Source(xs_[i])))
          grads_[i] = SumGradients({grads_[i], leaf_grads_[k]}, leaves_[k]);
    return OkStatus();
  }

  Graph* const graph_;
  const BodyCaptures& body_;
  const std::vector<Output>& ys_;
  const GradientOptions& options_;
  std::vector<Output> xs_, stops_;
  std::vector<Gradient> grads_;  // Of the xs, as far as they are known.
  // Where the gradients of the body end, and what they are there.
  std::vector<Output> leaves_;
  std::vector<Gradient> leaf_grads_;
};

}  // namespace

Result<std::vector<Gradient>> GradientsFromBody(
    const std::vector<Output>& ys, const std::vector<GradTarget>& xs,
    const GradientOptions& options) {
  return FromBody(ys, xs, options).Run();
}

}  // namespace sluice
