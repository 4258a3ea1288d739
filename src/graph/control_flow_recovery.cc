#include "graph/control_flow_recovery.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/control_flow.h"
#include "graph/frames.h"
#include "graph/graph.h"
#include "graph/hidden_attributes.h"

namespace sluice {
namespace {

// What placing a loop needs beyond its GraphFrame.
struct LoopInfo {
  size_t enters_left = 0;               // Not placed yet.
  ControlFlowContext* outer = nullptr;  // The deepest context of an Enter.
  WhileContext* loop = nullptr;
};

// Past all Identities, also those that have control inputs.
Output BehindIdentities(Output o) {
  while (o.node->op().role == OpRole::kIdentity && o.node->num_inputs() > 0)
    o = o.node->input(0);
  return o;
}

int DepthOf(const ControlFlowContext* c) {
  int depth = 0;
  for (; c != nullptr; c = c->outer()) ++depth;
  return depth;
}

// One call of RecoverControlFlow.
class Recovery {
 public:
  Recovery(Graph* g, const DescribedContexts& described)
      : graph_(g), contexts_(g->control_flow()), positions_(described.enters) {
    for (const DescribedConditional& d : described.conditionals) {
      for (const Node* n : d.switches) described_by_switch_[n] = &d;
      described_by_pred_.emplace(d.pred, &d);
    }
  }

  Status Run() {
    if (!HasUnplaced()) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(order_, TopologicalOrder(*graph_));
    SLUICE_ASSIGN_OR_RETURN(const Frames frames, Frames::Of(*graph_, order_));
    frames_ = &frames;
    loops_.resize(frames.all().size());
    for (size_t f = 0; f < loops_.size(); ++f)
      loops_[f].enters_left = frames.all()[f].enters.size();
    Place();
    for (const auto& [key, conditional] : conditionals_)
      CompletePivots(conditional);
    for (const auto& [key, conditional] : described_)
      CompletePivots(conditional);
    return graph_->status();
  }

 private:
  size_t Id(const Node* n) const { return static_cast<size_t>(n->id()); }

  static void CompletePivots(Conditional* c) {
    if (!c->branch(0)->pivot.valid() || !c->branch(1)->pivot.valid())
      c->AddPivots();
  }

  // True for a control-flow primitive that no builder placed.
  bool IsUnplaced(const Node* n) const {
    switch (n->op().role) {
      case OpRole::kSwitch:
      case OpRole::kMerge:
        if (contexts_.ConditionalOf(n) != nullptr) return false;
        if (const ControlFlowContext* c = contexts_.ContextOf(n))
          return const_cast<ControlFlowContext*>(c)->AsWhile() == nullptr;
        return true;
      case OpRole::kEnter:
        return contexts_.ContextOf(n) == nullptr;
      default:
        return false;
    }
  }

  bool HasUnplaced() const {
    return std::any_of(graph_->nodes().begin(), graph_->nodes().end(),
                       [this](const auto& n) { return IsUnplaced(n.get()); });
  }

  // The loop that a node moves tokens of or stands in: that which an Enter
  // enters, or which an Exit leaves. 0 for none.
  int LoopAt(const Node* n) const {
    return n->op().role == OpRole::kEnter ? frames_->output_frame(n)
                                          : frames_->frame_of(n);
  }

  // ---- Places

  // Places nodes in an order in which every node comes after its inputs, and
  // nodes of a frame after all of its Enters, which determine the enclosing
  // context.
  void Place() {
    std::vector<int> pending(order_.size(), 0);
    std::vector<std::vector<Node*>> consumers(order_.size());
    for (Node* n : order_) {
      const auto add = [&](const Node* from) {
        ++pending[Id(n)];
        consumers[Id(from)].push_back(n);
      };
      for (const Output& in : n->inputs())
        if (in.valid() && !IsBackEdge(*in.node, *n)) add(in.node);
      for (const Node* c : n->control_inputs()) add(c);
    }
    std::vector<Node*> ready;
    for (Node* n : order_)
      if (pending[Id(n)] == 0) ready.push_back(n);
    const auto release = [&](const Node* n) {
      for (Node* c : consumers[Id(n)])
        if (--pending[Id(c)] == 0) ready.push_back(c);
    };
    for (size_t i = 0; i < ready.size(); ++i) {
      Node* const n = ready[i];
      if (n->op().role != OpRole::kEnter) {
        PlaceNode(n);
        release(n);
        continue;
      }
      const int f = LoopAt(n);
      LoopInfo& info = loops_[static_cast<size_t>(f)];
      ControlFlowContext* const outer = DeepestInput(n);
      if (DepthOf(outer) > DepthOf(info.outer)) info.outer = outer;
      if (--info.enters_left > 0) continue;
      info.loop = PlaceLoop((*frames_)[f], info.outer);
      for (const Node* enter : (*frames_)[f].enters) release(enter);
    }
  }

  // The deepest context of the node's inputs.
  ControlFlowContext* DeepestInput(const Node* n) const {
    ControlFlowContext* deepest = nullptr;
    const auto join = [&deepest](ControlFlowContext* c) {
      if (DepthOf(c) > DepthOf(deepest)) deepest = c;
    };
    for (const Output& in : n->inputs())
      if (in.valid() && !IsBackEdge(*in.node, *n)) join(ContextOf(in));
    for (const Node* c : n->control_inputs()) join(ControlContextOf(c));
    return deepest;
  }

  WhileContext* PlaceLoop(const GraphFrame& f, ControlFlowContext* outer) {
    // A builder's loop that nodes were added to by hand stays as it is.
    WhileContext* loop = nullptr;
    for (const Node* enter : f.enters)
      if (ControlFlowContext* c = contexts_.ContextOf(enter))
        loop = c->AsWhile();
    const bool known = loop != nullptr;
    if (!known) {
      loop = contexts_.NewWhile(f.name, f.name, outer);
      loop->parallel_iterations = static_cast<int>(f.parallel_iterations);
      loop->batch =
          std::any_of(f.enters.begin(), f.enters.end(), [](const Node* enter) {
            return enter->AttrOr<bool>(kBatchAttr, false);
          });
    }
    for (const Node* e : f.enters) {
      Node* const enter = const_cast<Node*>(e);
      if (contexts_.ContextOf(enter) == nullptr)
        contexts_.SetContext(enter, loop);
      if (IsConstantEnter(*enter) &&
          loop->constants().count(enter->input(0)) == 0)
        loop->AdoptConstant(enter);
    }
    if (known) return loop;
    const Node* const cond =
        f.loop_conds.empty() ? nullptr : f.loop_conds.back();
    if (cond != nullptr) loop->AdoptLoopCond(const_cast<Node*>(cond));
    OutputMap<Node*> switches;  // By the predicate, by what they switch.
    OutputMap<Node*> identities;
    for (const Node* n : f.nodes) {
      if (n->op().role == OpRole::kSwitch && cond != nullptr &&
          BehindIdentities(n->input(1)).node == cond)
        switches[n->input(0)] = const_cast<Node*>(n);
      if (n->kind() == OpKind::kIdentity && n->control_inputs().empty() &&
          n->num_inputs() == 1)
        identities[n->input(0)] = const_cast<Node*>(n);
    }
    std::vector<LoopVariable> variables;
    for (const Node* n : f.nodes) {
      if (n->op().role != OpRole::kMerge || n->num_inputs() != 2) continue;
      Node* const merge = const_cast<Node*>(n);
      LoopVariable v;
      for (const Output& in : merge->inputs()) {
        if (!in.valid()) continue;
        if (in.node->op().role == OpRole::kEnter) v.enter = in.node;
        if (in.node->op().role == OpRole::kNextIteration) v.next = in.node;
      }
      if (v.enter == nullptr) continue;
      v.merge = merge;
      v.name = v.enter->name();
      if (const auto it = switches.find(Output(merge)); it != switches.end()) {
        v.switch_node = it->second;
        for (const Node* exit : f.exits)
          if (exit->input(0).SameAs(Output(v.switch_node, 0)))
            v.exit = const_cast<Node*>(exit);
      } else if (cond != nullptr && v.next != nullptr) {
        // (Only the condition reads the variable, and the Switch was dropped as
        // unread.)
        v.switch_node =
            AddTo(loop, IsRef(merge->output_type(0)) ? "RefSwitch" : "Switch",
                  {Output(merge), Output(const_cast<Node*>(cond))});
      }
      if (v.switch_node != nullptr) v.body_value = Output(v.switch_node, 1);
      variables.push_back(std::move(v));
    }
    std::stable_sort(variables.begin(), variables.end(),
                     [this](const LoopVariable& a, const LoopVariable& b) {
                       return PositionOf(a) < PositionOf(b);
                     });
    for (LoopVariable& v : variables) {
      if (v.switch_node != nullptr && loop->variables().empty())
        v.body_value = PivotBehind(v.body_value, identities, loop);
      loop->AdoptVariable(std::move(v));
    }
    return loop;
  }

  int PositionOf(const LoopVariable& v) const {
    const auto it = positions_.find(v.enter);
    return it == positions_.end() ? std::numeric_limits<int>::max()
                                  : it->second;
  }

  // A value of the body that a control edge can begin at: one from the Switch
  // itself would also be taken in the last iteration.
  Output PivotBehind(const Output& body_value,
                     const OutputMap<Node*>& identities, WhileContext* loop) {
    const auto it = identities.find(body_value);
    Node* const identity =
        it != identities.end()
            ? it->second
            : AddTo(loop,
                    IsRef(body_value.dtype()) ? "RefIdentity" : "Identity",
                    {body_value});
    return identity == nullptr ? body_value : Output(identity);
  }

  // Null if the node cannot be added, which is an error of the graph.
  Node* AddTo(WhileContext* loop, const char* op, std::vector<Output> inputs) {
    NodeSpec spec;
    spec.op = op;
    spec.name = graph_->UniqueName(absl::StrCat(loop->name(), "/", op));
    spec.loc = inputs[0].node->loc();
    spec.device = inputs[0].node->device();
    spec.inputs = std::move(inputs);
    const Result<Node*> made = graph_->AddNode(std::move(spec));
    if (!made.ok()) {
      graph_->RecordError(made.status());
      return nullptr;
    }
    contexts_.SetContext(*made, loop);
    return *made;
  }

  void PlaceNode(Node* n) {
    const OpRole role = n->op().role;
    WhileContext* const loop = loops_[static_cast<size_t>(LoopAt(n))].loop;
    ControlFlowContext* place = DeepestInput(n);
    // The primitives of a loop's variables belong to the loop, whatever they
    // wait for.
    if (loop != nullptr &&
        (loop->VariableOf(n) >= 0 || !IsInside(place, loop) ||
         role == OpRole::kExit || role == OpRole::kNextIteration))
      place = loop;
    // It runs whichever branches its inputs are in.
    if (n->kind() == OpKind::kControlTrigger)
      while (place != nullptr && place->AsCond() != nullptr)
        place = place->outer();
    if (role == OpRole::kMerge && (loop == nullptr || loop->VariableOf(n) < 0))
      place = PlaceMerge(n);
    if (role == OpRole::kSwitch && (loop == nullptr || loop->VariableOf(n) < 0))
      PlaceSwitch(n, place, loop);
    if (contexts_.ContextOf(n) == nullptr && place != nullptr)
      contexts_.SetContext(n, place);
    if (role == OpRole::kIdentity && n->num_inputs() > 0 &&
        n->input(0).node->op().role == OpRole::kSwitch && place != nullptr)
      if (CondContext* branch = place->AsCond())
        if (!branch->pivot.valid() && ContextOf(n->input(0)) == branch)
          branch->pivot = Output(n);
  }

  void PlaceSwitch(Node* n, ControlFlowContext* place, WhileContext* loop) {
    if (contexts_.ConditionalOf(n) != nullptr) return;
    const Output pred = BehindIdentities(n->input(1));
    if (loop != nullptr && loop->loop_cond() != nullptr &&
        pred.node == loop->loop_cond())
      return;
    if (const DescribedConditional* d = DescriptionOf(*n, pred)) {
      Conditional*& c = described_[d];
      if (c == nullptr) c = PlaceDescribed(*d);
      c->AdoptSwitch(n);
      return;
    }
    Conditional*& c = conditionals_[{pred.node, pred.index, place}];
    if (c == nullptr)
      c = contexts_.NewConditional(pred.node->name() + "/cond", pred, place);
    c->AdoptSwitch(n);
  }

  // Null if the Switch, whose predicate is `pred`, belongs to none.
  const DescribedConditional* DescriptionOf(const Node& n,
                                            const Output& pred) const {
    const DescribedConditional* found = nullptr;
    if (const auto it = described_by_switch_.find(&n);
        it != described_by_switch_.end())
      found = it->second;
    else if (const auto of = described_by_pred_.find(n.input(1));
             of != described_by_pred_.end())
      found = of->second;
    return found != nullptr && BehindIdentities(found->pred).SameAs(pred)
               ? found
               : nullptr;
  }

  Conditional* PlaceDescribed(const DescribedConditional& d) {
    // (An Identity of the predicate may not be placed yet.)
    Conditional* const c = contexts_.NewConditional(
        d.name, d.pred, ContextOf(BehindIdentities(d.pred)));
    for (const int i : {0, 1}) c->branch(i)->pivot = d.pivots[i];
    return c;
  }

  // The context of a Merge of branches; registers it with their conditional.
  ControlFlowContext* PlaceMerge(Node* n) {
    if (Conditional* c = contexts_.ConditionalOf(n)) return c->outer();
    ControlFlowContext* common = ContextOf(n->input(0));
    for (const Output& in : n->inputs())
      if (in.valid()) common = CommonContext(common, ContextOf(in));
    const Conditional* of = nullptr;
    bool fits = n->num_inputs() == 2;
    int seen = 0;
    for (const Output& in : n->inputs()) {
      if (!in.valid()) return common;
      ControlFlowContext* c = ContextOf(in);
      while (c != nullptr && c != common && c->outer() != common)
        c = c->outer();
      CondContext* const branch =
          c == nullptr || c == common ? nullptr : c->AsCond();
      if (branch == nullptr) return common;
      fits = fits && (of == nullptr || of == branch->conditional());
      of = branch->conditional();
      seen |= 1 << branch->branch();
    }
    if (fits && seen == 3) const_cast<Conditional*>(of)->AdoptMerge(n);
    return common;
  }

  Graph* const graph_;
  ControlFlow& contexts_;
  const std::unordered_map<const Node*, int>& positions_;  // Of Enters.
  std::vector<Node*> order_;
  const Frames* frames_ = nullptr;  // While Run runs.
  std::vector<LoopInfo> loops_;     // By frame; nothing of the root.
  std::map<std::tuple<Node*, int, ControlFlowContext*>, Conditional*>
      conditionals_;
  std::unordered_map<const Node*, const DescribedConditional*>
      described_by_switch_;
  OutputMap<const DescribedConditional*> described_by_pred_;
  std::map<const DescribedConditional*, Conditional*> described_;
};

}  // namespace

Status RecoverControlFlow(Graph* graph, const DescribedContexts& described) {
  return Recovery(graph, described).Run();
}

}  // namespace sluice
