// Side effects of the nodes of a function's body.
#include <map>
#include <set>
#include <utility>

#include "graph/control_flow.h"
#include "graph/function.h"
#include "graph/tensor_store_info.h"

namespace sluice {
namespace {

// True if running the node has a visible effect, even without readers.
bool HasEffect(const Node& n) { return n.op().facts.has_effects; }

// The loops of a body that are made of primitives, by outermost frame.
struct OuterLoops {
  std::vector<std::string> frame_of;  // By node; "" for none.
  std::map<std::string, std::vector<Node*>> exits;
};

OuterLoops FindOuterLoops(const Graph& graph) {
  OuterLoops loops;
  loops.frame_of.resize(graph.nodes().size());
  std::vector<int> depth(graph.nodes().size(), 0);
  const Result<std::vector<Node*>> order = TopologicalOrder(graph);
  if (!order.ok()) return loops;  // (FindOrder reports it.)
  for (Node* n : *order) {
    const auto id = static_cast<size_t>(n->id());
    const auto join = [&](const Node* from) {
      const auto f = static_cast<size_t>(from->id());
      if (depth[f] <= depth[id]) return;
      depth[id] = depth[f];
      loops.frame_of[id] = loops.frame_of[f];
    };
    for (const Output& in : n->inputs())
      if (in.valid() && !(n->op().role == OpRole::kMerge &&
                          in.node->op().role == OpRole::kNextIteration))
        join(in.node);
    for (const Node* c : n->control_inputs()) join(c);
    if (n->op().role == OpRole::kEnter && depth[id]++ == 0)
      loops.frame_of[id] = n->AttrOr<std::string>("frame_name", "");
    if (n->op().role == OpRole::kExit && depth[id] > 0 && --depth[id] == 0) {
      loops.exits[loops.frame_of[id]].push_back(n);
      loops.frame_of[id].clear();
    }
  }
  return loops;
}

// A node that is done when `n` of the branch is, and alive whichever branch is
// taken: nodes that wait for a node of one branch are dead if the other is
// taken.
Result<Node*> DoneInEitherBranch(Node* n, CondContext* branch) {
  Graph* const graph = n->graph();
  Conditional* const conditional = branch->conditional();
  if (!branch->pivot.valid()) conditional->AddPivots();
  NodeSpec spec;
  spec.op = "Identity";
  spec.name = graph->UniqueName(n->name() + "/done");
  spec.inputs = {branch->pivot};
  spec.control_inputs = {n};
  SLUICE_ASSIGN_OR_RETURN(Node* const done, graph->AddNode(std::move(spec)));
  graph->control_flow().SetContext(done, branch);
  const int taken = branch->branch();
  Output alive[2] = {conditional->branch(0)->pivot,
                     conditional->branch(1)->pivot};
  alive[taken] = Output(done);
  Node* const merge = conditional->AddMerge(alive[0], alive[1]);
  if (merge == nullptr) return *graph->ErrorOf(graph->Failure());
  return merge;
}

// The same, for nodes that wait outside of all conditionals.
Node* DoneInAnyBranch(Node* n) {
  for (ControlFlowContext* c = ControlContextOf(n);
       c != nullptr && c->AsCond() != nullptr; c = ControlContextOf(n)) {
    const Result<Node*> merge = DoneInEitherBranch(n, c->AsCond());
    if (!merge.ok()) break;
    n = *merge;
  }
  return n;
}

// The original output of a value, traced out of branches and loops.
Output Origin(Output o) {
  for (;;) {
    switch (o.node->op().role) {
      case OpRole::kMerge:
        if (o.node->input(0).node->op().role == OpRole::kNextIteration)
          return o;
        break;
      case OpRole::kSwitch:
      case OpRole::kEnter:
      case OpRole::kExit:
      case OpRole::kNextIteration:
        break;
      default:
        if (o.node->kind() != OpKind::kIdentity) return o;
    }
    o = o.node->input(0);
  }
}

bool HandsOn(Node* n) {
  return n->num_outputs() > 0 && !Origin(Output(n, 0)).SameAs(Output(n, 0));
}

// Adds the edges of OrderEffects. Within each context, the users of a resource
// are a sequence of nodes, conditionals and loops. Each of them waits for the
// previous one; in a construct, its first users wait, recursively.
class EffectOrder {
 public:
  explicit EffectOrder(Graph* graph) : graph_(*graph) {}

  Status Run() {
    const auto& functions = graph_.function_library().defs();
    std::vector<Node*> nodes;
    for (const auto& n : graph_.nodes()) nodes.push_back(n.get());
    for (Node* const n : nodes) {
      // (Reads of stores wait for the writes of their keys, in any order.)
      if (IsContainer(n->kind()) || ReadsStore(*n) || WritesStore(*n) ||
          HandsOn(n))
        continue;
      std::set<Resource> used;
      for (const Output& in : n->inputs())
        if (in.valid() && in.dtype() == DType::kResource)
          used.insert(ResourceOf(in));
      // (A function may have more effects than its resources indicate.)
      if (HasEffect(*n) && (used.empty() || functions.contains(n->op_name())))
        used.insert(kShown);
      for (const Resource& resource : used)
        SLUICE_RETURN_IF_ERROR(Use(resource, n));
    }
    return CloseLoops();
  }

 private:
  using Resource = std::pair<int, int>;     // The number of a node's output.
  static constexpr Resource kShown{-1, 0};  // Externally visible effects.
  static Resource ResourceOf(const Output& value) {
    const Output o = Origin(value);
    return {o.node->id(), o.index};
  }

  // A user of a resource; one of the three is set.
  struct User {
    Node* node = nullptr;
    Conditional* conditional = nullptr;
    WhileContext* loop = nullptr;
    bool operator==(const User&) const = default;
  };
  struct Uses {
    User last;
    std::vector<Node*> before;  // What `last` waits for.
  };

  // The next use of a resource.
  Status Use(const Resource& resource, Node* n) {
    std::vector<ControlFlowContext*> around;  // From the innermost outwards.
    for (ControlFlowContext* c = ContextOf(n); c != nullptr; c = c->outer())
      around.push_back(c);
    std::vector<Node*> before;
    for (size_t i = around.size() + 1; i-- > 0;) {
      ControlFlowContext* const context =
          i < around.size() ? around[i] : nullptr;
      User user;
      if (i == 0)
        user.node = n;
      else if (CondContext* branch = around[i - 1]->AsCond())
        user.conditional = branch->conditional();
      else
        user.loop = around[i - 1]->AsWhile();
      Uses& uses = uses_[context][resource];
      if (!(uses.last == user)) {
        if (uses.last == User()) {
          uses.before = before;
        } else {
          SLUICE_ASSIGN_OR_RETURN(uses.before, Done(uses.last, resource));
        }
        uses.last = user;
      }
      before = uses.before;
    }
    for (Node* const b : before) {
      SLUICE_ASSIGN_OR_RETURN(Node* const here,
                              CaptureControl(ContextOf(n), b));
      SLUICE_RETURN_IF_ERROR(graph_.AddControlEdge(here, n));
    }
    return OkStatus();
  }

  // The nodes that are done when a user is.
  Result<std::vector<Node*>> Done(const User& user, const Resource& resource) {
    if (user.node != nullptr) return std::vector<Node*>{user.node};
    std::vector<Node*> done;
    if (user.loop != nullptr) {
      for (int i = 0; i < static_cast<int>(user.loop->variables().size()); ++i)
        if (Node* const exit = user.loop->variable(i).exit)
          return std::vector<Node*>{exit};
      return done;
    }
    for (int i = 0; i < 2; ++i) {
      CondContext* const branch = user.conditional->branch(i);
      const auto at = uses_[branch].find(resource);
      if (at == uses_[branch].end()) continue;
      SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> last,
                              Done(at->second.last, resource));
      for (Node* const n : last) {
        SLUICE_ASSIGN_OR_RETURN(done.emplace_back(),
                                DoneInEitherBranch(n, branch));
      }
    }
    return done;
  }

  // An iteration begins when the effects of the previous one are done.
  Status CloseLoops() {
    for (WhileContext* const loop : graph_.control_flow().loops()) {
      const auto at = uses_.find(loop);
      if (at == uses_.end()) continue;
      for (const auto& [resource, uses] : at->second) {
        SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> last,
                                Done(uses.last, resource));
        for (Node* const n : last)
          for (const LoopVariable& variable : loop->variables())
            if (variable.next != nullptr)
              SLUICE_RETURN_IF_ERROR(graph_.AddControlEdge(n, variable.next));
      }
    }
    return OkStatus();
  }

  Graph& graph_;
  std::map<ControlFlowContext*, std::map<Resource, Uses>> uses_;
};

}  // namespace

void FindEffects(FunctionBody* body) {
  const OuterLoops loops = FindOuterLoops(*body->graph);
  std::set<std::string> done;
  std::vector<Node*> nodes;
  for (const auto& n : body->graph->nodes()) nodes.push_back(n.get());
  for (Node* const n : nodes) {
    if (!HasEffect(*n)) continue;
    // The effects of a loop are done when the loop is.
    const std::string& frame = loops.frame_of[static_cast<size_t>(n->id())];
    if (frame.empty()) {
      body->control_results.push_back(DoneInAnyBranch(n));
    } else if (const auto exits = loops.exits.find(frame);
               exits != loops.exits.end() && done.insert(frame).second) {
      for (Node* const exit : exits->second)
        body->control_results.push_back(DoneInAnyBranch(exit));
    }
  }
}

Status OrderEffects(Graph* graph) { return EffectOrder(graph).Run(); }

}  // namespace sluice
