#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "passes/passes.h"

namespace sluice {
namespace {

// Takes a variable by reference, as ops that write one do.
bool TakesVariable(const Node& n) {
  const std::vector<ArgDef>& inputs = n.op().inputs;
  return n.op().role == OpRole::kCompute &&
         std::any_of(inputs.begin(), inputs.end(),
                     [](const ArgDef& in) { return in.is_ref; });
}

// A read of a variable that may be delayed until its reader runs.
bool IsRead(const Output& in) {
  return in.node->op().role == OpRole::kIdentity &&
         in.node->control_inputs().empty() && IsRef(in.node->input(0).dtype());
}

// By node: whether it writes a variable, or waits for a write.
std::vector<uint8_t> FindChanged(const Graph& graph) {
  std::vector<uint8_t> changed(graph.nodes().size(), 0);
  for (const auto& n : graph.nodes())
    changed[static_cast<size_t>(n->id())] = TakesVariable(*n);
  for (bool more = true; more;) {  // (Repeated for back edges.)
    more = false;
    for (const auto& n : graph.nodes()) {
      uint8_t& to = changed[static_cast<size_t>(n->id())];
      if (to != 0) continue;
      for (const Output& in : n->inputs())
        to |= changed[static_cast<size_t>(in.node->id())];
      for (const Node* c : n->control_inputs())
        to |= changed[static_cast<size_t>(c->id())];
      more |= to != 0;
    }
  }
  return changed;
}

// Ops whose outputs are in another frame or iteration than the node, or may be
// dead when the node is not.
bool MovesTokens(OpRole role) {
  return role == OpRole::kSwitch || role == OpRole::kMerge ||
         role == OpRole::kEnter || role == OpRole::kExit ||
         role == OpRole::kNextIteration;
}

std::string FrameOf(const Node& enter) {
  return enter.AttrOr<std::string>("frame_name", "");
}

// The variable of a reference, and the frames that the reference has entered.
const Node* VariableBehind(Output reference, std::vector<std::string>* frames) {
  for (;;) {
    const Node* const n = reference.node;
    if (n->op().role == OpRole::kEnter)
      frames->push_back(FrameOf(*n));
    else if (n->op().role != OpRole::kSwitch &&
             n->op().role != OpRole::kIdentity)
      return n;
    reference = n->input(0);
  }
}

// (variable, frame) for each loop in which the variable is written.
using Changes = std::set<std::pair<const Node*, std::string>>;

Changes ChangesInLoops(const Graph& graph) {
  Changes changes;
  for (const auto& n : graph.nodes()) {
    if (!TakesVariable(*n)) continue;
    for (const Output& in : n->inputs()) {
      if (!IsRef(in.dtype())) continue;
      std::vector<std::string> frames;
      const Node* const variable = VariableBehind(in, &frames);
      for (std::string& f : frames) changes.emplace(variable, std::move(f));
    }
  }
  return changes;
}

// Adds a read inside the loop to replace `read`, an outer read that `enter`
// takes into the loop.
Result<Node*> ReadWithin(Graph* graph, const Node& enter, const Node& read) {
  NodeSpec taken;
  taken.op = "RefEnter";
  taken.name = graph->UniqueName(enter.name() + "/ref");
  taken.device = read.device();
  taken.loc = read.loc();
  for (const char* a :
       {"T", "frame_name", "is_constant", "parallel_iterations"})
    if (const AttrValue* v = enter.FindAttr(a)) taken.attrs[a] = *v;
  taken.inputs = {read.input(0)};
  SLUICE_ASSIGN_OR_RETURN(Node* const reference,
                          graph->AddNode(std::move(taken)));
  NodeSpec within;
  within.op = read.op_name();
  within.name = graph->UniqueName(enter.name() + "/read");
  within.device = read.device();
  within.loc = read.loc();
  within.attrs = read.attrs();
  within.inputs = {Output(reference, 0)};
  return graph->AddNode(std::move(within));
}

// Moves outer reads of a variable into the loops that use them, to run in each
// iteration, if the loop writes the variable.
Status ReadInLoops(Graph* graph) {
  const Changes changes = ChangesInLoops(*graph);
  std::unordered_map<const Node*, Node*> reads;  // Replace these Enters.
  for (bool more = !changes.empty(); more;) {    // (Repeated for nested loops.)
    more = false;
    for (size_t i = 0, n = graph->nodes().size(); i < n; ++i) {
      const Node& enter = *graph->nodes()[i];
      if (enter.op().role != OpRole::kEnter || !enter.BoolAttr("is_constant") ||
          !IsRead(enter.input(0)) || reads.count(&enter) != 0)
        continue;
      const Node& read = *enter.input(0).node;
      std::vector<std::string> outer;
      const Node* const variable = VariableBehind(read.input(0), &outer);
      if (changes.count({variable, FrameOf(enter)}) == 0) continue;
      SLUICE_ASSIGN_OR_RETURN(reads[&enter], ReadWithin(graph, enter, read));
      more = true;
    }
    if (!more) break;
    for (const auto& n : graph->nodes())
      for (int i = 0; i < n->num_inputs(); ++i)
        if (const auto it = reads.find(n->input(i).node); it != reads.end())
          SLUICE_RETURN_IF_ERROR(
              graph->ReplaceInput(n.get(), i, Output(it->second, 0)));
  }
  return OkStatus();
}

}  // namespace

Status OrderReads(Graph* graph) {
  SLUICE_RETURN_IF_ERROR(ReadInLoops(graph));
  std::vector<Node*> readers;
  for (const auto& n : graph->nodes())
    if (n->op().role != OpRole::kMerge &&
        std::any_of(n->inputs().begin(), n->inputs().end(), IsRead))
      readers.push_back(n.get());
  if (readers.empty()) return OkStatus();
  const std::vector<uint8_t> changed = FindChanged(*graph);
  for (Node* n : readers) {
    std::vector<Node*> after;
    for (const Output& in : n->inputs()) {
      if (in.node->op().role == OpRole::kConst)  // (It may be folded away.)
        after.insert(after.end(), in.node->control_inputs().begin(),
                     in.node->control_inputs().end());
      else if (changed[static_cast<size_t>(in.node->id())] != 0 &&
               !IsRef(in.dtype()) && !IsRead(in) &&
               !MovesTokens(in.node->op().role))
        after.push_back(in.node);
    }
    for (Node* c : after) SLUICE_RETURN_IF_ERROR(graph->AddControlEdge(c, n));
  }
  return OkStatus();
}

}  // namespace sluice
