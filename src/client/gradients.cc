#include "client/gradients.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_join.h"
#include "graph/gradient_scope.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

// True if gradients may flow through an edge of this type.
bool IsDifferentiable(DType t) {
  t = RemoveRef(t);
  return IsFloating(t) || IsComplex(t) || t == DType::kResource ||
         t == DType::kVariant;
}

bool IsControlFlow(const Node& n) {
  switch (n.op().role) {
    case OpRole::kSwitch:
    case OpRole::kMerge:
    case OpRole::kEnter:
    case OpRole::kExit:
    case OpRole::kNextIteration:
    case OpRole::kLoopCond:
      return true;
    default:
      return false;
  }
}

// One call of Gradients: finds the nodes between the xs and the ys, and goes
// through them from the ys down, each when all its consumers among them are
// done. Linear in the size of the graph. Lives on one thread, which holds the
// graph's mutex.
class Backprop {
 public:
  Backprop(const std::vector<Output>& ys, const std::vector<GradTarget>& xs,
           const GradientOptions& options)
      : ys_(ys), options_(options) {
    for (const GradTarget& x : xs) xs_.push_back(x.output);
  }

  Result<std::vector<Gradient>> Run() {
    SLUICE_RETURN_IF_ERROR(Validate());
    if (ys_.empty() || xs_.empty()) return Collect();
    const size_t nodes = static_cast<size_t>(graph_->num_nodes());
    FindBetween(nodes);
    FindStops(nodes);
    const NameScope scope(options_.name);
    const GradientScope call(scope.prefix());
    SLUICE_RETURN_IF_ERROR(Seed());
    while (!ready_.empty()) {
      Node* node = ready_.front();
      ready_.pop_front();
      SLUICE_RETURN_IF_ERROR(Visit(node));
    }
    SLUICE_RETURN_IF_ERROR(CheckAllVisited());
    return Collect();
  }

 private:
  using Sums = std::vector<std::vector<Gradient>>;  // Per output, to be added.

  static size_t Id(const Node* n) { return static_cast<size_t>(n->id()); }

  Status Validate() {
    graph_ = &CurrentGraph();
    const auto check = [this](const std::vector<Output>& list, const char* what,
                              bool may_be_null) -> Status {
      for (size_t i = 0; i < list.size(); ++i) {
        if (!list[i] && may_be_null) continue;
        if (!list[i])
          return graph_->status().ok()
                     ? InvalidArgument("gradients: ", what, "[", i,
                                       "]: expected an output, got none")
                     : graph_->status();
        if (list[i].graph() != graph_)
          return InvalidArgument("gradients: ", what, "[", i,
                                 "]: expected an output of the current graph, "
                                 "got ",
                                 list[i].name(), " of another");
      }
      return OkStatus();
    };
    SLUICE_RETURN_IF_ERROR(check(ys_, "ys", false));
    SLUICE_RETURN_IF_ERROR(check(xs_, "xs", false));
    SLUICE_RETURN_IF_ERROR(check(options_.grad_ys, "grad_ys", true));
    SLUICE_RETURN_IF_ERROR(
        check(options_.stop_gradients, "stop_gradients", false));
    if (options_.grad_ys.size() > ys_.size())
      return InvalidArgument("gradients: grad_ys: expected at most ",
                             ys_.size(), " as there are ys, got ",
                             options_.grad_ys.size());
    return OkStatus();
  }

  // between_: the nodes that some y depends on and that depend on some x, by
  // edges that gradients can flow through. pending_: how many edges to others
  // among them each has.
  void FindBetween(size_t nodes) {
    std::vector<char> needed(nodes), reached(nodes);
    std::vector<std::vector<Node*>> consumers(nodes);
    std::vector<Node*> open;
    const auto mark = [&open](std::vector<char>& set, Node* n) {
      if (set[Id(n)]) return;
      set[Id(n)] = 1;
      open.push_back(n);
    };
    const auto next = [&open] {
      Node* n = open.back();
      open.pop_back();
      return n;
    };
    for (const Output& y : ys_) mark(needed, y.node);
    while (!open.empty()) {
      Node* n = next();
      for (const Output& in : n->inputs()) {
        mark(needed, in.node);
        if (IsDifferentiable(in.dtype())) consumers[Id(in.node)].push_back(n);
      }
    }
    for (const Output& x : xs_) mark(reached, x.node);
    while (!open.empty())
      for (Node* consumer : consumers[Id(next())]) mark(reached, consumer);
    between_.assign(nodes, 0);
    pending_.assign(nodes, 0);
    for (const Output& y : ys_)
      if (reached[Id(y.node)]) mark(between_, y.node);
    while (!open.empty())
      for (const Output& in : next()->inputs())
        if (reached[Id(in.node)]) {
          ++pending_[Id(in.node)];
          mark(between_, in.node);
        }
  }

  // Gradients end at nodes that depend on no other x, and where the user says.
  void FindStops(size_t nodes) {
    stop_.assign(nodes, 0);
    for (const Output& x : xs_) {
      const auto& in = x.node->inputs();
      stop_[Id(x.node)] = std::none_of(
          in.begin(), in.end(),
          [this](const Output& o) { return pending_[Id(o.node)] > 0; });
    }
    for (const Output& s : options_.stop_gradients) stop_[Id(s.node)] = 1;
  }

  bool Between(const Node* n) const {
    return Id(n) < between_.size() && between_[Id(n)];
  }

  Status Seed() {
    for (size_t i = 0; i < ys_.size(); ++i) {
      const Output& y = ys_[i];
      if (!Between(y.node)) continue;
      Output seed =
          i < options_.grad_ys.size() ? options_.grad_ys[i] : Output();
      SLUICE_ASSIGN_OR_RETURN(seed, SeedFor(y, seed));
      Add(y, seed);
    }
    std::vector<char> queued(between_.size());
    for (const Output& y : ys_)
      if (Between(y.node) && pending_[Id(y.node)] == 0 && !queued[Id(y.node)]) {
        queued[Id(y.node)] = 1;
        ready_.push_back(y.node);
      }
    return OkStatus();
  }

  Result<Output> SeedFor(const Output& y, Output given) {
    const DType t = RemoveRef(y.dtype());
    if (given) {
      if (t != DType::kResource && RemoveRef(given.dtype()) != t)
        return InvalidArgument("gradients: grad_ys: expected ", DTypeName(t),
                               " as ", y.name(), ", got ",
                               DTypeName(given.dtype()));
      if (t != DType::kResource && !given.shape().CompatibleWith(y.shape()))
        return InvalidArgument("gradients: grad_ys: expected shape ",
                               y.shape().ToString(), " as ", y.name(), ", got ",
                               given.shape().ToString());
      return given;
    }
    if (!IsFloating(t) && !IsInteger(t))
      return InvalidArgument(
          "gradients: expected ys of a real type where grad_ys gives nothing, "
          "got ",
          DTypeName(t), "; ", y.node->Describe());
    const AtLine at(y.node->loc());
    const Output ones = y.shape().rank() == 0
                            ? ScalarOf(t, 1)
                            : Build("OnesLike", {y}, {}, "", {});
    return Built(ones);
  }

  // An output that was just built, or the error that building it recorded.
  Result<Output> Built(Output o) const {
    if (o) return o;
    return graph_->status().ok() ? Internal("gradients: a builder failed")
                                 : graph_->status();
  }

  void Add(const Output& o, const Gradient& g) {
    Sums& sums = grads_[o.node];
    sums.resize(static_cast<size_t>(o.node->num_outputs()));
    sums[static_cast<size_t>(o.index)].push_back(g);
  }

  // The gradient of each output of a node, none where it got none.
  Result<std::vector<Gradient>> Totals(Node* node) {
    std::vector<Gradient> totals(static_cast<size_t>(node->num_outputs()));
    const auto it = grads_.find(node);
    if (it == grads_.end()) return totals;
    for (size_t i = 0; i < totals.size(); ++i) {
      std::vector<Gradient>& sum = it->second[i];
      if (sum.empty()) continue;
      if (sum.size() > 1) {
        const AtLine at(node->loc());
        const Gradient total =
            SumGradients(sum, Output(node, static_cast<int>(i)));
        if (!total) return Built(Output()).status();
        sum = {total};
      }
      totals[i] = sum[0];
    }
    return totals;
  }

  Status Visit(Node* node) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Gradient> dy, Totals(node));
    const bool any = std::any_of(dy.begin(), dy.end(), [](const Gradient& g) {
      return static_cast<bool>(g);
    });
    if (any && !stop_[Id(node)] && node->num_inputs() > 0)
      SLUICE_RETURN_IF_ERROR(Differentiate(node, dy));
    for (const Output& in : node->inputs())
      if (Between(in.node) && --pending_[Id(in.node)] == 0)
        ready_.push_back(in.node);
    return OkStatus();
  }

  Status Differentiate(Node* node, const std::vector<Gradient>& dy) {
    if (IsControlFlow(*node)) return NotThrough(node);
    const Result<UserGradient> fn = FindGradient(*node);
    if (!fn.ok()) return NoGradientFor(node, fn.status());
    if (*fn == nullptr) return OkStatus();
    const NameScope scope(node->name() + "_grad");
    const std::optional<ColocateWith> colocate(
        options_.colocate ? std::optional<ColocateWith>(std::in_place, node)
                          : std::nullopt);
    const AtLine at(node->loc());
    GradContext c;
    c.op = node;
    c.grads.resize(static_cast<size_t>(node->num_inputs()));
    if (dy[0].is_sparse() && ForwardsValue(*node)) {
      c.grads[0] = dy[0];
    } else {
      for (size_t i = 0; i < dy.size(); ++i) {
        c.dy.push_back(Densify(dy[i], Output(node, static_cast<int>(i))));
        if (dy[i] && !c.dy.back()) return Built(Output()).status();
      }
      Status s = (*fn)(c);
      if (s.ok() && !graph_->status().ok()) s = graph_->status();
      if (!s.ok()) return Annotate(s, "gradient of " + node->Describe());
    }
    return Distribute(node, std::move(c.grads));
  }

  // Sparse gradients pass such ops as they are.
  static bool ForwardsValue(const Node& n) {
    return (n.op_name() == "Identity" || n.op_name() == "ReadVariableOp") &&
           n.FindAttr("_gradient_op_type") == nullptr;
  }

  // Checks what a gradient function gave and adds it to the inputs' sums.
  Status Distribute(Node* node, std::vector<Gradient> grads) {
    if (grads.size() != static_cast<size_t>(node->num_inputs()))
      return Internal("gradient of ", node->Describe(), ": expected ",
                      node->num_inputs(), " gradients, got ", grads.size());
    for (int i = 0; i < node->num_inputs(); ++i) {
      Gradient& g = grads[static_cast<size_t>(i)];
      if (!g) continue;
      const Output& in = node->input(i);
      if (!Between(in.node) || !IsDifferentiable(in.dtype())) {
        g = Gradient();
        continue;
      }
      SLUICE_RETURN_IF_ERROR(Check(*node, in, g));
    }
    if (options_.gate_ops) Gate(&grads);
    for (int i = 0; i < node->num_inputs(); ++i)
      if (grads[static_cast<size_t>(i)])
        Add(node->input(i), grads[static_cast<size_t>(i)]);
    return OkStatus();
  }

  Status Check(const Node& node, const Output& in, const Gradient& g) {
    const DType edge = RemoveRef(in.dtype());
    const DType want = edge == DType::kResource ? VariableType(in) : edge;
    const Output value = g.is_sparse() ? g.values : g.dense;
    if (want != DType::kInvalid && want != RemoveRef(value.dtype()) &&
        edge != DType::kVariant)
      return Internal("gradient of ", node.Describe(), ": expected ",
                      DTypeName(want), " for input ", in.name(), ", got ",
                      DTypeName(value.dtype()));
    if (g.is_sparse() || edge == DType::kResource || edge == DType::kVariant ||
        !in.shape().rank_known())
      return OkStatus();
    return Annotate(graph_->SetShape(g.dense, in.shape()),
                    absl::StrCat("gradient of ", node.Describe(), " for input ",
                                 in.name()));
  }

  static void Gate(std::vector<Gradient>* grads) {
    std::vector<Node*> all;
    for (const Gradient& g : *grads)
      if (g) all.push_back(g.is_sparse() ? g.values.node : g.dense.node);
    if (all.size() < 2) return;
    const ControlDependencies after(all);
    for (Gradient& g : *grads) {
      if (g.is_sparse()) {
        g.values = Build("Identity", {g.values}, {}, "", {});
      } else if (g) {
        g.dense = Build("Identity", {g.dense}, {}, "", {});
      }
    }
  }

  Result<std::vector<Gradient>> Collect() {
    std::vector<Gradient> result;
    for (const Output& x : xs_) {
      SLUICE_ASSIGN_OR_RETURN(const std::vector<Gradient> totals,
                              Totals(x.node));
      Gradient g = totals[static_cast<size_t>(x.index)];
      if (!g && options_.unconnected == Unconnected::kZero) {
        SLUICE_ASSIGN_OR_RETURN(g, Built(ZerosOf(x)));
      }
      result.push_back(g);
    }
    return result;
  }

  static Output ZerosOf(const Output& x) {
    if (RemoveRef(x.dtype()) != DType::kResource)
      return Build("ZerosLike", {x}, {}, "", x.node->loc());
    const Output shape = Build("VariableShape", {x}, {}, "", x.node->loc());
    return Build("Fill", {shape, ScalarOf(VariableType(x), 0, x.node->loc())},
                 {}, "", x.node->loc());
  }

  // ---- Errors ---------------------------------------------------------------

  // Nodes that got a gradient and were never ready stand on a cycle.
  Status CheckAllVisited() const {
    const Node* first = nullptr;
    for (const auto& [node, sums] : grads_)
      if (pending_[Id(node)] > 0 &&
          (first == nullptr || node->id() < first->id()))
        first = node;
    return first == nullptr ? OkStatus() : NotThrough(first);
  }

  Status NotThrough(const Node* node) const {
    return Unimplemented(
        "gradients: expected a path without control flow, got ",
        node->Describe(), "; path: ", PathThrough(node));
  }

  Status NoGradientFor(const Node* node, const Status& why) const {
    return Status(why.code(),
                  absl::StrCat("gradients: expected a gradient for every op on "
                               "the way, got none for ",
                               node->Describe(), "; path: ", PathThrough(node),
                               "; hint: RegisterGradient, or stop_gradients"));
  }

  // "loss <- node <- x": a shortest way from some y through `node` to some x.
  std::string PathThrough(const Node* node) const {
    std::unordered_map<const Node*, const Node*> below, above;  // Towards node.
    std::deque<const Node*> queue;
    for (const Output& y : ys_)
      if (Between(y.node) && above.emplace(y.node, nullptr).second)
        queue.push_back(y.node);
    while (!queue.empty() && above.count(node) == 0) Expand(&queue, &above);
    std::vector<std::string> names;
    for (const Node* n = node; n != nullptr;
         n = above.count(n) ? above[n] : nullptr)
      names.insert(names.begin(), n->name());
    queue = {node};
    below.emplace(node, nullptr);
    const Node* end = nullptr;
    while (!queue.empty() && end == nullptr) {
      for (const Output& x : xs_)
        if (x.node == queue.front() && x.node != node) end = x.node;
      if (end == nullptr) Expand(&queue, &below);
    }
    const size_t at = names.size();
    for (const Node* n = end; n != nullptr && n != node; n = below[n])
      names.insert(names.begin() + static_cast<std::ptrdiff_t>(at), n->name());
    constexpr size_t kMost = 12;
    if (names.size() > kMost) {
      // The ends tell more than the middle, but the node itself must show.
      std::vector<std::string> cut(names.begin(), names.begin() + 4);
      cut.insert(cut.end(), {"...", node->name(), "..."});
      cut.insert(cut.end(), names.end() - 4, names.end());
      names = std::move(cut);
    }
    return absl::StrJoin(names, " <- ");
  }

  void Expand(std::deque<const Node*>* queue,
              std::unordered_map<const Node*, const Node*>* from) const {
    const Node* n = queue->front();
    queue->pop_front();
    for (const Output& in : n->inputs())
      if (Between(in.node) && from->emplace(in.node, n).second)
        queue->push_back(in.node);
  }

  const std::vector<Output>& ys_;
  std::vector<Output> xs_;
  const GradientOptions& options_;
  Graph* graph_ = nullptr;
  // By node id, for the nodes there were when it began.
  std::vector<char> between_, stop_;
  std::vector<int> pending_;
  std::deque<Node*> ready_;
  std::unordered_map<Node*, Sums> grads_;
};

// The first dimension of what a sparse gradient stands for, as a scalar.
Output RowCount(const Gradient& g, Output like) {
  const auto from_shape = [](const PartialShape& s) {
    return s.rank() >= 1 && s.dim(0) >= 0
               ? Constant(Tensor::Scalar<int64_t>(s.dim(0)), "", {})
               : Output();
  };
  Output shape = g.dense_shape;
  if (shape) {
    const Result<PartialShape> known = ConstantAsShape(shape);
    if (known.ok())
      if (const Output rows = from_shape(*known)) return rows;
  }
  const bool resource = like && RemoveRef(like.dtype()) == DType::kResource;
  if (like) {
    const PartialShape known = resource ? VariableShapeOf(like) : like.shape();
    if (const Output rows = from_shape(known)) return rows;
    if (!shape)
      shape = Build(resource ? "VariableShape" : "Shape", {like}, {}, "", {});
  }
  if (!shape)
    return BuildError(InvalidArgument(
        "sparse gradient: expected a known shape to make it dense, got none"));
  return Build("StridedSlice",
               {shape, IntVector({0}), IntVector({1}), IntVector({1})},
               {{"shrink_axis_mask", 1}}, "", {});
}

}  // namespace

Output Densify(const Gradient& g, Output like) {
  if (!g.is_sparse()) return g.dense;
  return Build("UnsortedSegmentSum", {g.values, g.indices, RowCount(g, like)},
               {}, "", {});
}

Gradient SumGradients(const std::vector<Gradient>& gs, Output like) {
  std::vector<Gradient> some;
  for (const Gradient& g : gs)
    if (g) some.push_back(g);
  if (some.empty()) return Gradient();
  if (some.size() == 1) return some[0];
  const bool sparse =
      std::all_of(some.begin(), some.end(),
                  [](const Gradient& g) { return g.is_sparse(); });
  if (!sparse) {
    std::vector<Output> terms;
    for (const Gradient& g : some) terms.push_back(Densify(g, like));
    return Build("AddN", std::move(terms), {}, "", {});
  }
  // Indices of two types are joined as int64.
  const bool mixed =
      std::any_of(some.begin(), some.end(), [&some](const Gradient& g) {
        return g.indices.dtype() != some[0].indices.dtype();
      });
  std::vector<Output> indices, values;
  for (const Gradient& g : some) {
    values.push_back(g.values);
    indices.push_back(
        mixed && g.indices.dtype() != DType::kInt64
            ? Build("Cast", {g.indices}, {{"DstT", DType::kInt64}}, "", {})
            : g.indices);
  }
  const Output axis = ScalarOf(DType::kInt32, 0, {});
  values.push_back(axis);
  indices.push_back(axis);
  const Output all_values =
      Build("ConcatV2", std::move(values), {}, "values", {});
  const Output all_indices =
      Build("ConcatV2", std::move(indices), {}, "indices", {});
  if (!all_values || !all_indices) return Gradient();
  return Gradient::Slices(all_indices, all_values, some[0].dense_shape);
}

Result<std::vector<Gradient>> Gradients(const std::vector<Output>& ys,
                                        const std::vector<GradTarget>& xs,
                                        const GradientOptions& options) {
  Graph* graph = ys.empty() || !ys[0] ? &CurrentGraph() : ys[0].graph();
  std::optional<WithGraph> there;
  if (graph != &CurrentGraph()) there.emplace(*graph);
  std::lock_guard<std::recursive_mutex> lock(graph->mutex());
  return Backprop(ys, xs, options).Run();
}

std::vector<Output> Grad(const std::vector<Output>& ys,
                         const std::vector<GradTarget>& xs,
                         const GradientOptions& options, SourceLoc loc) {
  const Result<std::vector<Gradient>> grads = Gradients(ys, xs, options);
  std::vector<Output> result(xs.size());
  if (!grads.ok()) {
    BuildError(grads.status(), loc);
    return result;
  }
  for (size_t i = 0; i < xs.size(); ++i)
    result[i] = Densify((*grads)[i], xs[i].output);
  return result;
}

Output Grad(Output y, const GradTarget& x, const GradientOptions& options,
            SourceLoc loc) {
  return Grad(std::vector<Output>{y}, std::vector<GradTarget>{x}, options,
              loc)[0];
}

}  // namespace sluice
