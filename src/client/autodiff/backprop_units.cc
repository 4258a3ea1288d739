#include "client/autodiff/backprop_units.h"

#include "client/autodiff/gradient_values.h"
#include "graph/graph.h"

namespace sluice {

Node* Representative(Node* n) {
  if (n->op().role != OpRole::kSwitch) return n;
  const Conditional* c = n->graph()->control_flow().ConditionalOf(n);
  if (c == nullptr) return n;
  const auto it = c->switches().find(n->input(0));
  return it == c->switches().end() ? n : it->second;
}

WhileContext* GradientUnits::LevelOf(const Node* n) const {
  WhileContext* const loop = InnermostWhile(ContextOf(n));
  return IsInside(paths_.base(), loop) ? paths_.base() : loop;
}

WhileContext* GradientUnits::LevelAround(const WhileContext* loop) const {
  WhileContext* const outer = InnermostWhile(loop->outer());
  return IsInside(paths_.base(), outer) ? paths_.base() : outer;
}

// The unit for the node on `level`, which is the node's level or one around it.
size_t GradientUnits::UnitOf(Node* n, WhileContext* level) const {
  const WhileContext* at = LevelOf(n);
  if (at == level) return GradientPaths::Id(Representative(n));
  for (;;) {
    const WhileContext* const around = LevelAround(at);
    if (around == level) return unit_of_loop_.at(at);
    at = around;
  }
}

void GradientUnits::Find() {
  Graph* const graph = paths_.graph();
  const std::vector<WhileContext*>& loops = graph->control_flow().loops();
  const size_t nodes = paths_.num_nodes();
  for (size_t i = 0; i < loops.size(); ++i) unit_of_loop_[loops[i]] = nodes + i;
  sources_.resize(nodes + loops.size());
  pending_.assign(nodes + loops.size(), 0);
  std::vector<char> used(nodes + loops.size());
  for (size_t i = nodes; i-- > 0;) {
    Node* const n = graph->nodes()[i].get();
    if (!paths_.Between(n)) continue;
    WhileContext* const level = LevelOf(n);
    // The node and the loops around it, each on its own level.
    WhileContext* at = level;
    for (size_t unit = UnitOf(n, level);;) {
      if (!used[unit]) {
        used[unit] = 1;
        units_on_[at].push_back(unit);
      }
      if (at == paths_.base() || at == nullptr) break;
      unit = unit_of_loop_.at(at);
      at = LevelAround(at);
    }
    if (paths_.IsLoopMover(n) || paths_.StopsAt(n)) continue;
    // (The gradients of reads and writes of stores wait for each other when
    // they run, in any order of their nodes.)
    for (const Output& in :
         paths_.ReadsWritten(n) ? n->inputs() : paths_.InputsOf(n)) {
      if (!in.valid() || !paths_.Between(in.node) ||
          !IsDifferentiable(in.dtype()))
        continue;
      // The innermost level around both.
      WhileContext* common = level;
      WhileContext* const home = LevelOf(in.node);
      while (common != paths_.base() && !IsInside(home, common))
        common = LevelAround(common);
      const size_t from = UnitOf(in.node, common), to = UnitOf(n, common);
      if (from == to) continue;
      sources_[to].push_back(from);
      ++pending_[from];
    }
  }
}

const std::vector<size_t>& GradientUnits::On(const WhileContext* level) const {
  static const std::vector<size_t> kNone;
  const auto it = units_on_.find(level);
  return it == units_on_.end() ? kNone : it->second;
}

Node* GradientUnits::NodeOf(size_t unit) const {
  return unit < paths_.num_nodes() ? paths_.graph()->nodes()[unit].get()
                                   : nullptr;
}

WhileContext* GradientUnits::LoopOf(size_t unit) const {
  return unit < paths_.num_nodes() ? nullptr
                                   : paths_.graph()
                                         ->control_flow()
                                         .loops()[unit - paths_.num_nodes()];
}

}  // namespace sluice
