#include "graph/control_flow_recovery.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/control_flow.h"

namespace sluice {
namespace {

// A static frame: its name and its parent.
struct FrameInfo {
  std::string name;
  FrameInfo* parent = nullptr;  // Null: the root, which has no FrameInfo.
  int depth = 1;
  std::vector<Node*> enters, merges, switches, exits;
  Node* loop_cond = nullptr;
  size_t enters_left = 0;               // Not placed yet.
  ControlFlowContext* outer = nullptr;  // The deepest context of an Enter.
  WhileContext* loop = nullptr;
};

bool IsBackEdge(const Node* to, const Node* from) {
  return to->op().role == OpRole::kMerge &&
         from->op().role == OpRole::kNextIteration;
}

Output Bare(Output o) {
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
  explicit Recovery(Graph* g) : graph_(g), contexts_(g->control_flow()) {}

  Status Run() {
    if (!HasUnplaced()) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(order_, TopologicalOrder(*graph_));
    SLUICE_RETURN_IF_ERROR(FindFrames());
    Place();
    for (const auto& [key, conditional] : conditionals_)
      if (!conditional->branch(0)->pivot.valid() ||
          !conditional->branch(1)->pivot.valid())
        conditional->AddPivots();
    return graph_->status();
  }

 private:
  size_t Id(const Node* n) const { return static_cast<size_t>(n->id()); }

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

  // ---- Frames

  // The frame that tokens of the node's outputs are in.
  FrameInfo* FrameBehind(const Node* n) const {
    FrameInfo* const at = frame_of_[Id(n)];
    return n->op().role == OpRole::kExit && at != nullptr ? at->parent : at;
  }

  Status FindFrames() {
    frame_of_.assign(order_.size(), nullptr);
    for (Node* n : order_) {
      FrameInfo* at = nullptr;
      const Node* witness = nullptr;
      const auto join = [&](const Node* from) -> Status {
        FrameInfo* const f = FrameBehind(from);
        // (A constant without inputs belongs to the root.)
        if (witness != nullptr && f != at)
          return InvalidArgument(
              "control flow: expected inputs of one frame, got ", FrameName(at),
              " from '", witness->name(), "' and ", FrameName(f), " from '",
              from->name(), "'; ", n->Describe());
        at = f;
        witness = from;
        return OkStatus();
      };
      for (const Output& in : n->inputs())
        if (in.valid() && !IsBackEdge(n, in.node))
          SLUICE_RETURN_IF_ERROR(join(in.node));
      for (const Node* c : n->control_inputs()) SLUICE_RETURN_IF_ERROR(join(c));
      SLUICE_RETURN_IF_ERROR(Enlist(n, at));
    }
    return OkStatus();
  }

  static std::string FrameName(const FrameInfo* f) {
    return f == nullptr ? "none" : "'" + f->name + "'";
  }

  Status Enlist(Node* n, FrameInfo* at) {
    const OpRole role = n->op().role;
    if (role == OpRole::kEnter) {
      const std::string name = n->AttrOr<std::string>("frame_name", "");
      std::unique_ptr<FrameInfo>& f = frames_[{at, name}];
      if (f == nullptr) {
        f = std::make_unique<FrameInfo>();
        f->name = name;
        f->parent = at;
        f->depth = at == nullptr ? 1 : at->depth + 1;
      }
      f->enters.push_back(n);
      ++f->enters_left;
      at = f.get();
    } else if (at == nullptr &&
               (role == OpRole::kExit || role == OpRole::kNextIteration)) {
      return InvalidArgument("control flow: expected ", n->op_name(),
                             " within the frame of an Enter, got one outside; ",
                             n->Describe());
    } else if (at != nullptr) {
      if (role == OpRole::kMerge) at->merges.push_back(n);
      if (role == OpRole::kSwitch) at->switches.push_back(n);
      if (role == OpRole::kExit) at->exits.push_back(n);
      if (role == OpRole::kLoopCond) at->loop_cond = n;
    }
    frame_of_[Id(n)] = at;
    return OkStatus();
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
        if (in.valid() && !IsBackEdge(n, in.node)) add(in.node);
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
      FrameInfo* const f = frame_of_[Id(n)];
      ControlFlowContext* const outer = DeepestInput(n);
      if (DepthOf(outer) > DepthOf(f->outer)) f->outer = outer;
      if (--f->enters_left > 0) continue;
      PlaceLoop(f);
      for (const Node* enter : f->enters) release(enter);
    }
  }

  // The deepest context of the node's inputs.
  ControlFlowContext* DeepestInput(const Node* n) const {
    ControlFlowContext* deepest = nullptr;
    const auto join = [&deepest](ControlFlowContext* c) {
      if (DepthOf(c) > DepthOf(deepest)) deepest = c;
    };
    for (const Output& in : n->inputs())
      if (in.valid() && !IsBackEdge(n, in.node)) join(ContextOf(in));
    for (const Node* c : n->control_inputs()) join(ControlContextOf(c));
    return deepest;
  }

  void PlaceLoop(FrameInfo* f) {
    // A builder's loop is kept even if nodes were added to it manually.
    for (const Node* enter : f->enters)
      if (ControlFlowContext* c = contexts_.ContextOf(enter))
        f->loop = c->AsWhile();
    const bool known = f->loop != nullptr;
    if (!known) {
      f->loop = contexts_.NewWhile(f->name, f->name, f->outer);
      f->loop->parallel_iterations =
          static_cast<int>(f->enters[0]->IntAttr("parallel_iterations"));
    }
    for (Node* enter : f->enters) {
      if (contexts_.ContextOf(enter) == nullptr)
        contexts_.SetContext(enter, f->loop);
      if (IsConstantEnter(enter) &&
          f->loop->constants().count(enter->input(0)) == 0)
        f->loop->AdoptConstant(enter);
    }
    if (known) return;
    if (f->loop_cond != nullptr) f->loop->AdoptLoopCond(f->loop_cond);
    for (Node* merge : f->merges) {
      LoopVariable v;
      for (const Output& in : merge->inputs()) {
        if (!in.valid()) continue;
        if (in.node->op().role == OpRole::kEnter) v.enter = in.node;
        if (in.node->op().role == OpRole::kNextIteration) v.next = in.node;
      }
      if (v.enter == nullptr || merge->num_inputs() != 2) continue;
      v.merge = merge;
      v.name = v.enter->name();
      for (Node* s : f->switches)
        if (s->input(0).SameAs(Output(merge)) && f->loop_cond != nullptr &&
            Bare(s->input(1)).SameAs(Output(f->loop_cond)))
          v.switch_node = s;
      if (v.switch_node != nullptr) {
        v.body_value = Output(v.switch_node, 1);
        for (Node* exit : f->exits)
          if (exit->input(0).SameAs(Output(v.switch_node, 0))) v.exit = exit;
      }
      f->loop->AdoptVariable(std::move(v));
    }
  }

  void PlaceNode(Node* n) {
    const OpRole role = n->op().role;
    FrameInfo* const f = frame_of_[Id(n)];
    WhileContext* const loop = f == nullptr ? nullptr : f->loop;
    ControlFlowContext* place = DeepestInput(n);
    // The primitives of a loop's variables belong to the loop, whatever they
    // wait for.
    if (loop != nullptr &&
        (loop->VariableOf(n) >= 0 || !IsInside(place, loop) ||
         role == OpRole::kExit || role == OpRole::kNextIteration))
      place = loop;
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
    const Output pred = Bare(n->input(1));
    if (loop != nullptr && loop->loop_cond() != nullptr &&
        pred.node == loop->loop_cond())
      return;
    Conditional*& c = conditionals_[{pred.node, pred.index, place}];
    if (c == nullptr)
      c = contexts_.NewConditional(pred.node->name() + "/cond", pred, place);
    c->AdoptSwitch(n);
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
  std::vector<Node*> order_;
  std::vector<FrameInfo*>
      frame_of_;  // By node; an Exit's is the one it leaves.
  std::map<std::pair<FrameInfo*, std::string>, std::unique_ptr<FrameInfo>>
      frames_;
  std::map<std::tuple<Node*, int, ControlFlowContext*>, Conditional*>
      conditionals_;
};

}  // namespace

Status RecoverControlFlow(Graph* graph) { return Recovery(graph).Run(); }

}  // namespace sluice
