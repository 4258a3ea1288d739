#include "tools/board/graph_view.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/graphdef.h"
#include "inspect/graph_boxes.h"

namespace sluice::board {
namespace {

using show::Box;
using show::Boxes;
using show::Part;
using show::Shown;

const char* KindOf(Box::Kind kind) {
  switch (kind) {
    case Box::kWhole:
      return "graph";
    case Box::kLoop:
      return "loop";
    case Box::kBranch:
      return "branch";
    case Box::kCall:
      return "function";
    case Box::kPart:
      return "part";
    case Box::kGradients:
      return "gradients";
  }
  return "part";
}

const char* KindOf(const Node& n) {
  switch (n.op().role) {
    case OpRole::kSwitch:
    case OpRole::kMerge:
    case OpRole::kEnter:
    case OpRole::kExit:
    case OpRole::kNextIteration:
    case OpRole::kLoopCond:
      return "flow";
    case OpRole::kConst:
      return "constant";
    case OpRole::kArg:
      return "input";
    default:
      break;
  }
  switch (KindOfCall(n)) {
    case CallKind::kIf:
    case CallKind::kCase:
    case CallKind::kWhile:
    case CallKind::kFor:
      return "flow";
    default:
      break;
  }
  if (n.num_inputs() == 0 && n.op_name().starts_with("Placeholder"))
    return "input";
  return n.op().stateful ? "state" : "op";
}

// "a/b" of "a/b/c"; "" without a slash.
std::string ScopeOf(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

// The longest scope that both are in.
std::string CommonScope(const std::string& a, const std::string& b) {
  size_t end = 0;
  for (size_t i = 0; i <= std::min(a.size(), b.size()); ++i) {
    const bool a_ends = i == a.size() || a[i] == '/';
    const bool b_ends = i == b.size() || b[i] == '/';
    if (a_ends && b_ends) end = i;
    if (i < a.size() && i < b.size() && a[i] != b[i]) break;
  }
  return a.substr(0, end);
}

class Viewer {
 public:
  explicit Viewer(const Boxes& boxes) : boxes_(boxes) {}

  GraphView View() {
    view_.left_out = boxes_.left_out();
    view_.boxes.push_back({.kind = "graph", .label = "graph"});
    AddItems(boxes_.whole(), 0, "");
    for (const auto& part : boxes_.parts()) {
      for (const auto& n : part->graph->nodes()) AddEdges(*part, n.get());
      AddResults(*part);
    }
    return std::move(view_);
  }

 private:
  static bool IsOpenCall(const Part& part, const Node* n) {
    const std::vector<const Part*>* const inside = part.Inside(n);
    return inside != nullptr && (*inside)[0]->kind == CallKind::kCall;
  }

  // The scope that all nodes of a box are in; those of gradients, which are in
  // scopes of their own, do not count.
  std::string ScopeOfBox(const Box& box) {
    bool any = false;
    std::string scope;
    for (const Box::Item& item : box.items) {
      if (item.node == nullptr && item.box->kind == Box::kGradients) continue;
      const std::string s = item.node != nullptr ? ScopeOf(item.node->name())
                                                 : ScopeOfBox(*item.box);
      scope = any ? CommonScope(scope, s) : s;
      any = true;
    }
    return scope;
  }

  // The box for a scope within a box whose own scope is `own`.
  int BoxFor(int box, const std::string& own, const std::string& scope,
             const std::map<std::string, int>& sizes) {
    std::string rest = scope;
    if (!own.empty()) {
      if (rest == own || !rest.starts_with(own + "/")) return box;
      rest = rest.substr(own.size() + 1);
    }
    const auto size_of = [&](const std::string& path) {
      const auto it = sizes.find(path);
      return it == sizes.end() ? 0 : it->second;
    };
    int at = box;
    std::string path = own, label;
    while (!rest.empty()) {
      const size_t slash = rest.find('/');
      const std::string part = rest.substr(0, slash);
      rest = slash == std::string::npos ? "" : rest.substr(slash + 1);
      path = path.empty() ? part : absl::StrCat(path, "/", part);
      label = label.empty() ? part : absl::StrCat(label, "/", part);
      if (size_of(path) < 2) return at;  // Not worth a box.
      // A scope with nothing but another one shares its box.
      if (!rest.empty() &&
          size_of(absl::StrCat(path, "/", rest.substr(0, rest.find('/')))) ==
              size_of(path))
        continue;
      const auto [it, is_new] = scopes_.try_emplace(
          {box, path}, static_cast<int>(view_.boxes.size()));
      if (is_new)
        view_.boxes.push_back(
            {.outer = at, .kind = "scope", .label = label, .title = path});
      at = it->second;
      label = "";
    }
    return at;
  }

  void AddItems(const Box& box, int index, const std::string& own) {
    // How many items each scope has, the ones further inside included.
    std::map<std::string, int> sizes;
    std::vector<std::string> scopes;
    for (const Box::Item& item : box.items) {
      std::string s = item.node != nullptr ? ScopeOf(item.node->name())
                                           : ScopeOf(ScopeOfBox(*item.box));
      scopes.push_back(s);
      for (; !s.empty(); s = ScopeOf(s)) ++sizes[s];
    }
    for (size_t i = 0; i < box.items.size(); ++i) {
      const Box::Item& item = box.items[i];
      const int in = BoxFor(index, own, scopes[i], sizes);
      if (item.node == nullptr) {
        const int inner = static_cast<int>(view_.boxes.size());
        view_.boxes.push_back({.outer = in,
                               .kind = KindOf(item.box->kind),
                               .label = item.box->label,
                               .title = item.box->title});
        AddItems(*item.box, inner, ScopeOfBox(*item.box));
        continue;
      }
      const Node& n = *item.node;
      if (IsOpenCall(*item.part, &n)) continue;
      ids_[{item.part, &n}] = static_cast<int>(view_.nodes.size());
      view_.nodes.push_back({.box = in,
                             .name = n.name(),
                             .op = n.op_name(),
                             .device = DeviceOf(*item.part, n),
                             .kind = KindOf(n),
                             .line = item.part->Line(n)});
    }
  }

  // Of the node, or of the one that uses its body.
  static std::string DeviceOf(const Part& part, const Node& n) {
    const Part* p = &part;
    const Node* at = &n;
    while (at->device().empty() && p->outer != nullptr) {
      at = p->caller;
      p = p->outer;
    }
    return at->device();
  }

  // -1 if it is not shown.
  int IdOf(const Part* part, const Node* n) const {
    const auto it = ids_.find({part, n});
    return it == ids_.end() ? -1 : it->second;
  }
  void AddEdge(ViewEdge edge) {
    if (edge.from < 0 || edge.to < 0) return;
    if (known_.insert({edge.from, edge.to, edge.control, edge.value}).second)
      view_.edges.push_back(std::move(edge));
  }
  static std::string Describe(const Part& part, const Output& o) {
    return absl::StrCat(o.name(), " ", part.TypeAndShape(o));
  }

  void AddEdges(const Part& part, const Node* n) {
    const int to = IdOf(&part, n);
    if (part.body != nullptr && n->op().role == OpRole::kArg) return;
    // The inputs of an open conditional go to their readers in the branches.
    const bool choice =
        part.Inside(n) != nullptr &&
        (KindOfCall(*n) == CallKind::kIf || KindOfCall(*n) == CallKind::kCase);
    const int inputs = IsOpenCall(part, n) ? 0 : choice ? 1 : n->num_inputs();
    for (int i = 0; i < inputs; ++i) {
      const Shown from = boxes_.Resolve(&part, n->input(i));
      if (from.node == nullptr) continue;
      AddEdge({.from = IdOf(from.part, from.node),
               .to = to,
               .back = from.node->op().role == OpRole::kNextIteration &&
                       n->op().role == OpRole::kMerge,
               .value = Describe(part, n->input(i))});
    }
    for (const Node* c : n->control_inputs())
      AddEdge({.from = IdOf(&part, c), .to = to, .control = true});
  }

  // What a loop or conditional gets from its bodies.
  void AddResults(const Part& part) {
    if (part.body == nullptr || part.kind == CallKind::kCall) return;
    const bool loop =
        part.kind == CallKind::kWhile || part.kind == CallKind::kFor;
    for (const Output& result : part.body->results) {
      const Shown from = boxes_.Resolve(&part, result);
      if (from.node == nullptr || from.node == part.caller) continue;
      AddEdge({.from = IdOf(from.part, from.node),
               .to = IdOf(part.outer, part.caller),
               .back = loop,
               .value = Describe(part, result)});
    }
  }

  const Boxes& boxes_;
  GraphView view_;
  std::map<std::pair<const Part*, const Node*>, int> ids_;
  std::map<std::pair<int, std::string>, int> scopes_;
  std::set<std::tuple<int, int, bool, std::string>> known_;
};

}  // namespace

Result<GraphView> ViewGraph(std::string_view graph_def, int most_nodes) {
  Graph g;
  SLUICE_RETURN_IF_ERROR(ImportGraphDef(graph_def, g));
  if (g.num_nodes() > most_nodes)
    return ResourceExhausted("graph: expected at most ", most_nodes,
                             " nodes to draw, got ", g.num_nodes(),
                             " (sluice show prints any number as text)");
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Boxes> boxes,
                          Boxes::Of(&g, {.constants = true,
                                         .most = most_nodes - g.num_nodes(),
                                         .gradients = true}));
  return Viewer(*boxes).View();
}

}  // namespace sluice::board
