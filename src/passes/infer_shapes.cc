#include "passes/infer_shapes.h"

#include <optional>

#include "graph/graph.h"

namespace sluice {
namespace {

// Rounds in which the shapes of loop variables lose the dimensions that an
// iteration changes. After kCarefulRounds, variables that still change get an
// unknown shape; after kMaxRounds, all variables do.
constexpr int kCarefulRounds = 8, kMaxRounds = 16;

class Inference {
 public:
  Inference(const Graph& graph, const std::vector<Node*>& order)
      : graph_(graph),
        order_(order),
        known_(static_cast<size_t>(graph.num_nodes())),
        bound_(static_cast<size_t>(graph.num_nodes())) {}

  void Know(const Node* n, const PartialShape& shape) { At(known_, n) = shape; }

  NodeShapes Run() {
    for (int round = 0;; ++round) {
      Graph copy;
      Copy(&copy);
      if (Holds(round)) return Shapes();
    }
  }

 private:
  using Assumed = std::vector<std::optional<PartialShape>>;
  static std::optional<PartialShape>& At(Assumed& v, const Node* n) {
    return v[static_cast<size_t>(n->id())];
  }
  Output CopyOf(const Output& o) const {
    Node* const n =
        o.valid() ? copies_[static_cast<size_t>(o.node->id())] : nullptr;
    return n == nullptr ? Output() : Output(n, o.index);
  }
  static bool IsBack(const Node* merge, const Output& in) {
    return merge->op().role == OpRole::kMerge && in.valid() &&
           in.node->op().role == OpRole::kNextIteration;
  }

  // The shape with which a loop variable enters a Merge, in the copy.
  PartialShape Entering(const Node* merge) const {
    std::optional<PartialShape> all;
    for (const Output& in : merge->inputs()) {
      if (!in.valid() || IsBack(merge, in)) continue;
      const PartialShape& s = CopyOf(in).shape();
      all = all ? all->Union(s) : s;
    }
    return all.value_or(PartialShape());
  }

  // Copies the graph without back edges, with the assumed shapes.
  void Copy(Graph* copy) {
    copy->ShareLibrary(graph_);
    copies_.assign(static_cast<size_t>(graph_.num_nodes()), nullptr);
    assumed_.assign(static_cast<size_t>(graph_.num_nodes()), std::nullopt);
    for (const Node* n : order_) {
      bool loop = false;
      std::vector<Output> inputs;
      for (const Output& in : n->inputs()) {
        loop |= IsBack(n, in);
        inputs.push_back(IsBack(n, in) ? Output() : CopyOf(in));
      }
      Node* const c = copy->CopyNode(*n, std::move(inputs), {});
      copies_[static_cast<size_t>(n->id())] = c;
      if (const auto& shape = At(known_, n); shape && c->num_outputs() > 0)
        (void)copy->SetShape(Output(c), *shape);
      if (loop) {
        PartialShape shape = Entering(n);
        if (const auto& bound = At(bound_, n)) shape = shape.Union(*bound);
        // (The graph's own shape holds for all values that enter.)
        if (copy->SetShape(Output(c), shape).ok())
          At(assumed_, n) = Output(c).shape();
      }
      copy->RefineShapes(c);
    }
  }

  // Whether every iteration preserves the assumed shapes; otherwise updates the
  // bounds.
  bool Holds(int round) {
    bool holds = true;
    for (const Node* n : order_) {
      const std::optional<PartialShape>& assumed = At(assumed_, n);
      if (!assumed) continue;
      PartialShape all = *assumed;
      for (const Output& in : n->inputs())
        if (IsBack(n, in)) all = all.Union(CopyOf(in).shape());
      // (Graph::SetShape keeps the graph's own shape of the Merge.)
      if (const Result<PartialShape> kept = all.MergeWith(n->output_shape(0));
          kept.ok())
        all = *kept;
      const bool same = all == *assumed;
      holds &= same;
      if (!same || round >= kMaxRounds)
        At(bound_, n) = round < kCarefulRounds ? all : PartialShape();
    }
    return holds || round > kMaxRounds;
  }

  NodeShapes Shapes() const {
    NodeShapes shapes(copies_.size());
    for (size_t i = 0; i < copies_.size(); ++i)
      for (int o = 0; copies_[i] != nullptr && o < copies_[i]->num_outputs();
           ++o)
        shapes[i].push_back(copies_[i]->output_shape(o));
    return shapes;
  }

  const Graph& graph_;
  const std::vector<Node*>& order_;
  Assumed known_;
  Assumed bound_;    // By loop Merge: the most that is certain.
  Assumed assumed_;  // In this round.
  std::vector<Node*> copies_;
};

}  // namespace

Result<NodeShapes> InferShapes(
    const Graph& graph,
    const std::vector<std::pair<const Node*, PartialShape>>& known) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                          TopologicalOrder(graph));
  Inference inference(graph, order);
  for (const auto& [node, shape] : known) inference.Know(node, shape);
  return inference.Run();
}

}  // namespace sluice
