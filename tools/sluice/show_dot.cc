#include "tools/sluice/show_dot.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace sluice::cli {

using show::Box;
using show::Boxes;
using show::FunctionsOf;
using show::Part;
using show::Shown;

namespace {

std::string Quoted(const std::string& s) {
  return "\"" + absl::StrReplaceAll(s, {{"\\", "\\\\"}, {"\"", "\\\""}}) + "\"";
}

constexpr char kFlow[] = "#fde68a";

const char* ColorOf(const Node& n) {
  switch (n.op().role) {
    case OpRole::kSwitch:
    case OpRole::kMerge:
    case OpRole::kEnter:
    case OpRole::kExit:
    case OpRole::kNextIteration:
    case OpRole::kLoopCond:
      return kFlow;
    case OpRole::kConst:
      return "#e5e7eb";
    default:
      break;
  }
  switch (KindOfCall(n)) {
    case CallKind::kIf:
    case CallKind::kCase:
    case CallKind::kWhile:
    case CallKind::kFor:
      return kFlow;
    default:
      return n.op().stateful ? "#fecaca" : "#ffffff";
  }
}

// The last part of the name, and the op. For a closed functional node also its
// functions.
std::string Label(const Node& n, bool opened) {
  const size_t slash = n.name().rfind('/');
  const std::string last =
      slash == std::string::npos ? n.name() : n.name().substr(slash + 1);
  std::string functions = opened ? "" : FunctionsOf(n);
  if (functions.size() > 80) functions = functions.substr(0, 77) + "...";
  return absl::StrCat(last, last == n.op_name() ? "" : "\n" + n.op_name(),
                      functions.empty() ? "" : "\n[" + functions + "]");
}

struct BoxColors {
  const char *line, *ground;
};

BoxColors ColorsOf(Box::Kind kind) {
  switch (kind) {
    case Box::kLoop:
      return {"#2563eb", "#eff6ff"};
    case Box::kBranch:
      return {"#059669", "#ecfdf5"};
    case Box::kCall:
      return {"#9333ea", "#faf5ff"};
    case Box::kGradients:
      return {"#d97706", "#fffbeb"};
    default:
      return {"#93c5fd", "#f8fafc"};
  }
}

// Draws one graph into a string.
class Drawing {
 public:
  Drawing(const Boxes& boxes, const ShowDevices& devices, bool constants)
      : boxes_(boxes), devices_(devices), constants_(constants) {}

  std::string Draw() {
    out_ =
        "digraph sluice {\nfontname=\"Helvetica\";\nlabeljust=l;\n"
        "node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", "
        "fontsize=10, height=0.3];\nedge [arrowsize=0.6, color=\"#4b5563\", "
        "fontname=\"Helvetica\", fontsize=8];\n";
    FindAwaited();
    DrawBox(boxes_.whole());
    // (After the boxes, which would inherit it.)
    if (devices_.any())
      absl::StrAppend(&out_, "labelloc=t;\nlabel=", devices_.Legend(), ";\n");
    for (const auto& part : boxes_.parts()) {
      for (const auto& n : part->graph->nodes()) DrawEdges(*part, n.get());
      DrawResults(*part);
    }
    return out_ + "}\n";
  }

 private:
  bool IsShown(const Node* n) const {
    return n != nullptr && (constants_ || n->op().role != OpRole::kConst);
  }
  static bool IsArg(const Part& part, const Node* n) {
    return part.body != nullptr && n->op().role == OpRole::kArg;
  }
  static bool IsOpenCall(const Part& part, const Node* n) {
    const std::vector<const Part*>* const inside = part.Inside(n);
    return inside != nullptr && (*inside)[0]->kind == CallKind::kCall;
  }
  static std::string Id(const Part& part, const Node* n) {
    if (const Box* fold = part.FoldOf(n))
      return absl::StrCat("g", fold->number);
    return part.number == 0 ? absl::StrCat("n", n->id())
                            : absl::StrCat("p", part.number, "n", n->id());
  }

  // A call's box needs a point for control edges.
  void FindAwaited() {
    for (const auto& part : boxes_.parts())
      for (const auto& n : part->graph->nodes()) {
        if (IsOpenCall(*part, n.get()) && !n->control_inputs().empty())
          awaited_.insert({part.get(), n.get()});
        for (const Node* c : n->control_inputs())
          if (IsOpenCall(*part, c)) awaited_.insert({part.get(), c});
      }
  }

  // The node that determines a node's device: itself, or the node which uses
  // its body.
  const Node& Placed(const Part& part, const Node& n) const {
    const Part* p = &part;
    const Node* at = &n;
    while (p->outer != nullptr && !devices_.Knows(at->device())) {
      at = p->caller;
      p = p->outer;
    }
    return *at;
  }

  // With devices, a node has its device's colour; ops that move a loop's tokens
  // are then parallelograms, and stateful ops have a thick border.
  std::string Looks(const Part& part, const Node& n) const {
    if (!devices_.any()) return absl::StrCat("fillcolor=\"", ColorOf(n), "\"");
    const Node& placed = Placed(part, n);
    std::string out = absl::StrCat("fillcolor=\"", devices_.Fill(placed),
                                   "\", color=\"", devices_.Line(placed), "\"");
    if (std::string(ColorOf(n)) == kFlow)
      out += ", shape=hexagon, style=filled, margin=\"0.02,0.02\"";
    else if (n.op().stateful)
      out += ", penwidth=2.5";
    return out;
  }

  void DrawBox(const Box& box) {
    for (const Box::Item& item : box.items) {
      if (item.node != nullptr) {
        const Node& n = *item.node;
        const bool opened = item.part->Inside(&n) != nullptr;
        if (IsOpenCall(*item.part, &n)) {
          if (awaited_.contains({item.part, &n}))
            absl::StrAppend(&out_, Id(*item.part, &n),
                            " [shape=point, label=\"\", width=0.08, "
                            "height=0.08, tooltip=",
                            Quoted(item.part->Line(n)), "];\n");
          continue;
        }
        absl::StrAppend(
            &out_, Id(*item.part, &n), " [label=",
            absl::StrReplaceAll(Quoted(Label(n, opened)), {{"\n", "\\n"}}),
            ", ", Looks(*item.part, n),
            ", tooltip=", Quoted(item.part->Line(n)), "];\n");
        continue;
      }
      const BoxColors colors = ColorsOf(item.box->kind);
      if (item.box->closed) {
        absl::StrAppend(
            &out_, "g", item.box->number,
            " [shape=folder, style=filled, label=", Quoted(item.box->label),
            ", color=\"", colors.line, "\", fillcolor=\"",
            devices_.any() ? "#fafafa" : colors.ground, "\", tooltip=",
            Quoted(absl::StrJoin(show::Results(*item.box), "\n")), "];\n");
        continue;
      }
      absl::StrAppend(&out_, "subgraph cluster_", clusters_++,
                      " {\nlabel=", Quoted(item.box->label),
                      ";\ntooltip=", Quoted(item.box->title), ";\ncolor=\"",
                      colors.line, "\";\nbgcolor=\"",
                      devices_.any() ? "#fafafa" : colors.ground, "\";\n");
      DrawBox(*item.box);
      absl::StrAppend(&out_, "}\n");
    }
  }

  // Whether to draw an edge: none within a closed box, and each value only once
  // to or from one.
  bool Joins(const Part& from_part, const Node* from, const Part& to_part,
             const Node* to, int index) {
    const Box* const a = from_part.FoldOf(from);
    const Box* const b = to_part.FoldOf(to);
    if (a == nullptr && b == nullptr) return true;
    return a != b && drawn_
                         .insert({Id(from_part, from), Id(to_part, to),
                                  a == nullptr && index >= 0 ? index : -1})
                         .second;
  }

  // The style of an edge between devices: bold, in the colour of its source
  // device, with one label per transfer, at its first reader.
  std::string CrossingLooks(const Node* from, int index, const Node* to) {
    const Crossing* const c = devices_.Find(from, index, to);
    if (c == nullptr) return "";
    const std::string color = devices_.Line(*from);
    const std::string what = DescribeCrossing(*c);
    return absl::StrCat(", penwidth=2.4, color=\"", color, "\"",
                        said_.insert(c).second && !what.empty()
                            ? absl::StrCat(", fontcolor=\"", color,
                                           "\", label=", Quoted(" " + what))
                            : "");
  }

  void DrawEdges(const Part& part, const Node* n) {
    if (!IsShown(n) || IsArg(part, n)) return;
    const bool call = IsOpenCall(part, n);
    // The inputs of an open conditional are drawn to their readers in the
    // branches.
    const bool choice =
        part.Inside(n) != nullptr &&
        (KindOfCall(*n) == CallKind::kIf || KindOfCall(*n) == CallKind::kCase);
    const int inputs = call ? 0 : choice ? 1 : n->num_inputs();
    for (int i = 0; i < inputs; ++i) {
      const Shown from = boxes_.Resolve(&part, n->input(i));
      if (!IsShown(from.node)) continue;
      const bool back = from.node->op().role == OpRole::kNextIteration &&
                        n->op().role == OpRole::kMerge;
      if (!Joins(*from.part, from.node, part, n, from.index)) continue;
      absl::StrAppend(&out_, Id(*from.part, from.node), " -> ", Id(part, n),
                      " [tooltip=",
                      Quoted(absl::StrCat(n->input(i).name(), " ",
                                          part.TypeAndShape(n->input(i)))),
                      back ? ", constraint=false, color=\"#2563eb\"" : "",
                      // (Only edges of the main graph have crossings.)
                      from.part->number == 0 && part.number == 0
                          ? CrossingLooks(from.node, from.index, n)
                          : "",
                      "];\n");
    }
    for (const Node* c : n->control_inputs()) {
      if (!IsShown(c) || IsArg(part, c)) continue;
      if (!Joins(part, c, part, n, -1)) continue;
      const std::string crossing =
          part.number == 0 ? CrossingLooks(c, -1, n) : "";
      absl::StrAppend(&out_, Id(part, c), " -> ", Id(part, n), " [style=dashed",
                      crossing.empty() ? ", color=\"#9ca3af\"" : crossing,
                      "];\n");
    }
  }

  // The results that a loop or conditional node gets from a body.
  void DrawResults(const Part& part) {
    if (part.body == nullptr || part.kind == CallKind::kCall) return;
    const bool loop =
        part.kind == CallKind::kWhile || part.kind == CallKind::kFor;
    for (const Output& result : part.body->results) {
      const Shown from = boxes_.Resolve(&part, result);
      if (!IsShown(from.node) || from.node == part.caller) continue;
      if (!results_
               .insert({Id(*part.outer, part.caller), Id(*from.part, from.node),
                        from.index})
               .second)
        continue;
      absl::StrAppend(
          &out_, Id(*from.part, from.node), " -> ",
          Id(*part.outer, part.caller), " [tooltip=",
          Quoted(absl::StrCat(result.name(), " ", part.TypeAndShape(result),
                              part.condition ? " whether it goes on" : "")),
          loop ? ", constraint=false, color=\"#2563eb\"" : "",
          part.condition ? ", style=dashed" : "", "];\n");
    }
  }

  const Boxes& boxes_;
  const ShowDevices& devices_;
  const bool constants_;
  std::string out_;
  int clusters_ = 0;
  std::set<std::pair<const Part*, const Node*>> awaited_;
  std::set<const Crossing*> said_;
  std::set<std::tuple<std::string, std::string, int>> results_;
  std::set<std::tuple<std::string, std::string, int>> drawn_;  // See Joins.
};

}  // namespace

std::string Dot(const Boxes& boxes, const ShowDevices& devices,
                bool constants) {
  return Drawing(boxes, devices, constants).Draw();
}

std::string FormatOfFile(const std::string& name) {
  const size_t dot = name.rfind('.');
  const std::string ending =
      dot == std::string::npos ? "" : absl::AsciiStrToLower(name.substr(dot));
  if (ending == ".svg") return "svg";
  if (ending == ".html" || ending == ".htm") return "html";
  if (ending == ".dot" || ending == ".gv") return "dot";
  for (const char* other : {".png", ".jpg", ".jpeg", ".gif", ".pdf", ".ps"})
    if (ending == other) return "";
  return "text";
}

}  // namespace sluice::cli
