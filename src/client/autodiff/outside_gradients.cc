#include "client/autodiff/outside_gradients.h"

#include <algorithm>
#include <map>
#include <utility>

#include "client/autodiff/backprop_paths.h"
#include "client/autodiff/function_gradients.h"
#include "client/autodiff/gradient_values.h"
#include "client/autodiff/outside_part.h"
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

// Which of some values gradients reach from some of the xs, and from which xs.
struct Reached {
  std::vector<bool> values, xs;
};

// `values` are of `g`; xs and stops of it or of the graphs around it.
Result<Reached> FindReached(Graph* g, const std::vector<Output>& values,
                            const std::vector<Output>& xs,
                            const std::vector<Output>& stops) {
  Reached found{std::vector<bool>(values.size()), std::vector<bool>(xs.size())};
  if (values.empty() || xs.empty()) return found;
  SLUICE_RETURN_IF_ERROR(RecoverControlFlow(g));
  // The ends of the paths in g: its own xs, then the arguments that stand for
  // `captured`, those outer values that gradients reach from the others.
  std::vector<Output> ends, outer_xs, captured;
  for (const Output& x : xs) (x.graph() == g ? ends : outer_xs).push_back(x);
  const size_t own = ends.size();
  const BodyCaptures* const body = BodyCaptures::Of(g);
  if (body != nullptr) {
    const std::vector<Output> all = OutsidesOf(*body);
    SLUICE_ASSIGN_OR_RETURN(const Reached around,
                            FindReached(body->outside(), all, outer_xs, stops));
    for (size_t i = 0; i < all.size(); ++i)
      if (around.values[i]) {
        ends.push_back(body->values()[i].inside);
        captured.push_back(all[i]);
      }
  }
  std::vector<Output> stops_here;
  for (const Output& s : stops)
    if (s.graph() == g) stops_here.push_back(s);
  std::vector<bool> used(ends.size());
  // (Paths are those to values of one loop.)
  std::map<WhileContext*, std::vector<size_t>> of_loop;
  for (size_t i = 0; i < values.size(); ++i)
    of_loop[InnermostWhile(ContextOf(values[i]))].push_back(i);
  for (const auto& [loop, some] : of_loop) {
    std::vector<Output> ys;
    for (const size_t i : some) ys.push_back(values[i]);
    GradientPaths paths(g, ys, ends, stops_here);
    SLUICE_RETURN_IF_ERROR(paths.Find());
    for (const size_t i : some) found.values[i] = paths.Between(values[i].node);
    for (size_t k = 0; k < ends.size(); ++k)
      used[k] = used[k] || paths.Between(ends[k].node);
  }
  std::vector<Output> on_the_way;
  for (size_t k = own; k < ends.size(); ++k)
    if (used[k]) on_the_way.push_back(captured[k - own]);
  std::vector<bool> outer_used(outer_xs.size());
  if (!on_the_way.empty()) {
    SLUICE_ASSIGN_OR_RETURN(
        Reached around,
        FindReached(body->outside(), on_the_way, outer_xs, stops));
    outer_used = std::move(around.xs);
  }
  size_t next_own = 0, next_outer = 0;
  for (size_t i = 0; i < xs.size(); ++i)
    found.xs[i] =
        xs[i].graph() == g ? used[next_own++] : outer_used[next_outer++];
  return found;
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
                     options.stop_gradients.end(), is_outer) ||
         std::any_of(g.nodes().begin(), g.nodes().end(),
                     [](const auto& n) { return IsOutsidePart(*n); });
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
  // Where gradients within the body end that concern more than its own xs, and
  // what they are there.
  struct Leaf {
    Output at;
    Gradient gradient;
  };

  bool IsHere(const Output& o) const { return o.graph() == graph_; }

  // The gradients within the body: of its own xs, of the captured values that
  // are, or depend on, others, and of earlier gradients with a part outside.
  Status Within() {
    std::vector<Output> leaves;
    const std::vector<Output> all = OutsidesOf(body_);
    SLUICE_ASSIGN_OR_RETURN(
        const Reached reached,
        FindReached(body_.outside(), all, OuterXs(), stops_));
    for (size_t i = 0; i < all.size(); ++i)
      if (reached.values[i]) leaves.push_back(body_.values()[i].inside);
    GradientOptions options = options_;
    options.unconnected = Unconnected::kNone;
    std::erase_if(options.stop_gradients,
                  [this](const Output& s) { return !IsHere(s); });
    const std::vector<Output> stops = options.stop_gradients;
    for (const auto& n : graph_->nodes())
      for (int i = 0; IsOutsidePart(*n) && i < n->num_outputs(); ++i) {
        const Output part(n.get(), i);
        options.stop_gradients.push_back(part);
        if (!Contains(stops, part)) leaves.push_back(part);
      }
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
      if (grads[own + i]) leaves_.push_back({leaves[i], grads[own + i]});
    return OkStatus();
  }

  std::vector<Output> OuterXs() const {
    std::vector<Output> outer;
    for (const Output& x : xs_)
      if (!IsHere(x)) outer.push_back(Source(x));
    return outer;
  }

  // The outer value that an argument stands for, as far out as it is captured.
  static Output Source(Output o) {
    while (const BodyCaptures* const body = BodyCaptures::Of(o.graph())) {
      const Output outside = body->Outside(o);
      if (!outside.valid()) break;
      o = outside;
    }
    return o;
  }

  // The x that a leaf is, itself or by an identity of it, as that of a
  // variable's reference; null if it is another value, or an x that depends on
  // others of these.
  Result<Output> XOf(const Output& leaf) const {
    const std::vector<Output> outer = OuterXs();
    Output x = Source(leaf);
    while (!Contains(outer, x) && x.node->kind() == OpKind::kIdentity)
      x = Source(x.node->input(0));
    if (!Contains(outer, x)) return Output();
    if (x.node->num_inputs() == 0) return x;  // (As most variables.)
    std::vector<Output> others;
    for (const Output& o : outer)
      if (!o.SameAs(x)) others.push_back(o);
    SLUICE_ASSIGN_OR_RETURN(
        const Reached reached,
        FindReached(body_.outside(), {body_.Outside(leaf)}, others, stops_));
    return reached.values[0] ? Output() : x;
  }

  // Adds what the leaves contribute to the xs.
  Status Beyond() {
    std::vector<Leaf> beyond;
    for (const Leaf& leaf : leaves_) {
      SLUICE_ASSIGN_OR_RETURN(const Output x, XOf(leaf.at));
      if (!x.valid()) beyond.push_back(leaf);
      for (size_t i = 0; i < xs_.size() && x.valid(); ++i)
        if (!IsHere(xs_[i]) && Source(xs_[i]).SameAs(x))
          grads_[i] = SumGradients({grads_[i], leaf.gradient}, leaf.at);
    }
    // (An earlier gradient depends on what it was made of.)
    std::vector<Output> values;
    for (const Leaf& leaf : beyond)
      if (IsOutsidePart(*leaf.at.node))
        values.insert(values.end(), leaf.at.node->inputs().begin(),
                      leaf.at.node->inputs().end());
      else
        values.push_back(leaf.at);
    SLUICE_ASSIGN_OR_RETURN(const Reached reached,
                            FindReached(graph_, values, xs_, stops_));
    OutsidePart part;
    std::vector<size_t> of_x;
    for (size_t i = 0; i < xs_.size(); ++i) {
      if (!reached.xs[i]) continue;
      of_x.push_back(i);
      part.xs.push_back(Operand(xs_[i]).Get());
    }
    if (of_x.empty()) return OkStatus();
    for (const Leaf& leaf : beyond) {
      part.ys.push_back(leaf.at);
      SLUICE_ASSIGN_OR_RETURN(part.dys.emplace_back(),
                              Built(Densify(leaf.gradient, leaf.at)));
    }
    std::vector<Output> stops;
    for (const Output& o : stops_)
      if (!IsHere(o)) stops.push_back(o);
    if (std::any_of(beyond.begin(), beyond.end(), [](const Leaf& leaf) {
          return IsOutsidePart(*leaf.at.node);
        })) {
      // Earlier gradients lead back into the body, where gradients stop at the
      // arguments that are its own, too.
      for (const Output& o : stops_)
        if (IsHere(o)) stops.push_back(o);
      for (const auto& n : graph_->nodes())
        if (const Output arg(n.get());
            n->op().role == OpRole::kArg && !body_.Outside(arg).valid())
          stops.push_back(arg);
    }
    for (const Output& s : stops) part.stops.push_back(Operand(s).Get());
    for (const size_t i : of_x) part.is_outer.push_back(!IsHere(xs_[i]));
    for (const Output& s : stops) part.is_outer.push_back(!IsHere(s));
    Node* const node = BuildOutsidePart(part);
    if (node == nullptr) return Built(Output()).status();
    for (size_t k = 0; k < of_x.size(); ++k) {
      Gradient& grad = grads_[of_x[k]];
      grad =
          SumGradients({grad, Output(node, static_cast<int>(k))}, part.xs[k]);
    }
    return OkStatus();
  }

  Graph* const graph_;
  const BodyCaptures& body_;
  const std::vector<Output>& ys_;
  const GradientOptions& options_;
  std::vector<Output> xs_, stops_;
  std::vector<Gradient> grads_;  // Of the xs, as far as they are known.
  std::vector<Leaf> leaves_;
};

}  // namespace

Result<std::vector<Gradient>> GradientsFromBody(
    const std::vector<Output>& ys, const std::vector<GradTarget>& xs,
    const GradientOptions& options) {
  return FromBody(ys, xs, options).Run();
}

}  // namespace sluice
