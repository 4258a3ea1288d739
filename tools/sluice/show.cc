// sluice show: a graph with its loops and conditionals as nested boxes, in
// print or drawn.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "graph/control_flow.h"
#include "graph/control_flow_recovery.h"
#include "graph/graphdef.h"
#include "io/file.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/show_devices.h"

extern char** environ;

namespace sluice::cli {
namespace {

// More nodes than this take the layout minutes, and nobody finds one.
constexpr int kManyNodes = 3000;

struct Options {
  std::string graph, format = "text", out;
  bool constants = false;
  std::string cluster, devices;  // To place it on.
};

// What stands in one box, in topological order.
struct Box {
  ControlFlowContext* context = nullptr;  // Null for the whole graph.
  struct Item {
    const Node* node;  // Null for a box.
    Box* box;
  };
  std::vector<Item> items;
};

// The boxes of a graph. The two branches of a conditional are boxes side by
// side in that of what is around it.
class Boxes {
 public:
  static Result<std::unique_ptr<Boxes>> Of(Graph* g, bool constants) {
    SLUICE_RETURN_IF_ERROR(RecoverControlFlow(g));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                            TopologicalOrder(*g));
    auto boxes = std::make_unique<Boxes>();
    boxes->boxes_[nullptr] = std::make_unique<Box>();
    for (const Node* n : order)
      if (constants || n->op().role != OpRole::kConst)
        boxes->BoxOf(ContextOf(n))->items.push_back({n, nullptr});
    return boxes;
  }
  const Box& whole() const { return *boxes_.at(nullptr); }

 private:
  Box* BoxOf(ControlFlowContext* c) {
    std::unique_ptr<Box>& box = boxes_[c];
    if (box == nullptr) {
      box = std::make_unique<Box>();
      box->context = c;
      Box* const made = box.get();
      BoxOf(c->outer())->items.push_back({nullptr, made});
      return made;
    }
    return box.get();
  }

  std::map<ControlFlowContext*, std::unique_ptr<Box>> boxes_;
};

std::string TypeAndShape(const Output& o) {
  return absl::StrCat(DTypeName(o.dtype()), o.shape().ToString());
}

std::string Title(ControlFlowContext* c) {
  if (const CondContext* cond = c->AsCond())
    return absl::StrCat("if ", cond->branch() == 1 ? "" : "not ",
                        cond->conditional()->pred().name(), "   (", c->name(),
                        ")");
  const WhileContext* loop = c->AsWhile();
  std::vector<std::string> variables;
  for (const LoopVariable& v : loop->variables())
    variables.push_back(
        absl::StrCat(v.name, " ", TypeAndShape(Output(v.merge))));
  return absl::StrCat("while ", c->name(), "   (",
                      loop->forward != nullptr ? "backwards; " : "",
                      "parallel_iterations ", loop->parallel_iterations, ")  ",
                      absl::StrJoin(variables, ", "));
}

// ---- In print ---------------------------------------------------------------

std::string Line(const Node& n) {
  std::vector<std::string> inputs;
  for (const Output& in : n.inputs())
    inputs.push_back(in ? (in.index == 0 ? in.node->name() : in.name()) : "?");
  for (const Node* c : n.control_inputs()) inputs.push_back("^" + c->name());
  std::vector<std::string> outputs;
  for (int i = 0; i < n.num_outputs(); ++i)
    outputs.push_back(TypeAndShape(Output(const_cast<Node*>(&n), i)));
  return absl::StrCat(n.name(), " = ", n.op_name(), "(",
                      absl::StrJoin(inputs, ", "), ")",
                      outputs.empty() ? "" : "  ", absl::StrJoin(outputs, ", "),
                      n.device().empty() ? "" : "  @" + n.device(),
                      n.loc().known() ? "  " + n.loc().ToString() : "");
}

void Print(const Box& box, int depth, std::string* out) {
  const std::string bar = [depth] {
    std::string s;
    for (int i = 0; i < depth; ++i) s += "│ ";
    return s;
  }();
  for (const Box::Item& item : box.items) {
    if (item.node != nullptr) {
      absl::StrAppend(out, bar, Line(*item.node), "\n");
      continue;
    }
    absl::StrAppend(out, bar, "┌ ", Title(item.box->context), "\n");
    Print(*item.box, depth + 1, out);
    absl::StrAppend(out, bar, "└\n");
  }
}

// ---- Drawn ------------------------------------------------------------------

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
      return n.op().stateful ? "#fecaca" : "#ffffff";
  }
}

// The last part of the name, and the op.
std::string Label(const Node& n) {
  const size_t slash = n.name().rfind('/');
  const std::string last =
      slash == std::string::npos ? n.name() : n.name().substr(slash + 1);
  return last == n.op_name() ? last : last + "\n" + n.op_name();
}

// With devices a node's colour is its device's; then what moves a loop's tokens
// has slanting sides, and what has state a thick border.
std::string Looks(const Node& n, const ShowDevices& devices) {
  if (!devices.any()) return absl::StrCat("fillcolor=\"", ColorOf(n), "\"");
  std::string out = absl::StrCat("fillcolor=\"", devices.Fill(n),
                                 "\", color=\"", devices.Line(n), "\"");
  if (std::string(ColorOf(n)) == kFlow)
    out += ", shape=hexagon, style=filled, margin=\"0.02,0.02\"";
  else if (n.op().stateful)
    out += ", penwidth=2.5";
  return out;
}

void Draw(const Box& box, const ShowDevices& devices, int* clusters,
          std::string* out) {
  for (const Box::Item& item : box.items) {
    if (item.node != nullptr) {
      const Node& n = *item.node;
      absl::StrAppend(
          out, "n", n.id(),
          " [label=", absl::StrReplaceAll(Quoted(Label(n)), {{"\n", "\\n"}}),
          ", ", Looks(n, devices), ", tooltip=", Quoted(Line(n)), "];\n");
      continue;
    }
    ControlFlowContext* const c = item.box->context;
    const bool loop = c->AsWhile() != nullptr;
    const char* const ground = devices.any() ? "#fafafa"
                               : loop        ? "#eff6ff"
                                             : "#ecfdf5";
    absl::StrAppend(out, "subgraph cluster_", (*clusters)++,
                    " {\nlabel=", Quoted(Title(c)), ";\ncolor=\"",
                    loop ? "#2563eb" : "#059669", "\";\nbgcolor=\"", ground,
                    "\";\n");
    Draw(*item.box, devices, clusters, out);
    absl::StrAppend(out, "}\n");
  }
}

// Of an edge that crosses: bold, in the colour of the device that it leaves;
// what crosses is said once for each transfer, at its first reader.
std::string CrossingLooks(const Node* from, int index, const Node* to,
                          const ShowDevices& devices,
                          std::set<const Crossing*>* said) {
  const Crossing* const c = devices.Find(from, index, to);
  if (c == nullptr) return "";
  const std::string color = devices.Line(*from);
  const std::string what = DescribeCrossing(*c);
  return absl::StrCat(", penwidth=2.4, color=\"", color, "\"",
                      said->insert(c).second && !what.empty()
                          ? absl::StrCat(", fontcolor=\"", color,
                                         "\", label=", Quoted(" " + what))
                          : "");
}

std::string Dot(const Graph& g, const Boxes& boxes, const ShowDevices& devices,
                bool constants) {
  std::string out =
      "digraph sluice {\nfontname=\"Helvetica\";\nlabeljust=l;\n"
      "node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", "
      "fontsize=10, height=0.3];\nedge [arrowsize=0.6, color=\"#4b5563\", "
      "fontname=\"Helvetica\", fontsize=8];\n";
  int clusters = 0;
  Draw(boxes.whole(), devices, &clusters, &out);
  // (After the boxes: they would inherit it.)
  if (devices.any())
    absl::StrAppend(&out, "labelloc=t;\nlabel=", devices.Legend(), ";\n");
  const auto shown = [&](const Node* n) {
    return n != nullptr && (constants || n->op().role != OpRole::kConst);
  };
  std::set<const Crossing*> said;
  for (const auto& n : g.nodes()) {
    if (!shown(n.get())) continue;
    for (const Output& in : n->inputs()) {
      if (!shown(in.node)) continue;
      const bool back = in.node->op().role == OpRole::kNextIteration &&
                        n->op().role == OpRole::kMerge;
      absl::StrAppend(
          &out, "n", in.node->id(), " -> n", n->id(),
          " [tooltip=", Quoted(absl::StrCat(in.name(), " ", TypeAndShape(in))),
          back ? ", constraint=false, color=\"#2563eb\"" : "",
          CrossingLooks(in.node, in.index, n.get(), devices, &said), "];\n");
    }
    for (const Node* c : n->control_inputs())
      if (shown(c)) {
        const std::string crossing =
            CrossingLooks(c, -1, n.get(), devices, &said);
        absl::StrAppend(&out, "n", c->id(), " -> n", n->id(), " [style=dashed",
                        crossing.empty() ? ", color=\"#9ca3af\"" : crossing,
                        "];\n");
      }
  }
  return out + "}\n";
}

// A file of our own that goes away.
class Scratch {
 public:
  Scratch() {
    const char* dir = std::getenv("TMPDIR");
    path_ = std::string(dir != nullptr ? dir : "/tmp") + "/sluice_show_XXXXXX";
    const int fd = mkstemp(path_.data());
    if (fd >= 0) close(fd);
  }
  ~Scratch() { std::remove(path_.c_str()); }
  Scratch(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Graphviz does the layout.
Result<std::string> Svg(const std::string& dot) {
  const Scratch in, out;
  SLUICE_RETURN_IF_ERROR(WriteFile(in.path(), dot));
  std::vector<std::string> words = {"dot", "-Tsvg", "-o", out.path(),
                                    in.path()};
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, "dot", nullptr, nullptr, argv.data(), environ) != 0)
    return FailedPrecondition(
        "--format: expected the program 'dot' for a drawing (Debian package "
        "graphviz), found none");
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
      WEXITSTATUS(status) != 0)
    return Internal("dot: expected to succeed, got exit status ", status);
  return ReadFile(out.path());
}

std::string Html(const std::string& svg, const std::string& title) {
  const size_t begin = svg.find("<svg");
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<title>",
      absl::StrReplaceAll(title, {{"&", "&amp;"}, {"<", "&lt;"}}),
      "</title>\n<style>body{margin:0;overflow:hidden;font-family:sans-serif}"
      "svg{position:absolute;transform-origin:0 0;cursor:grab}"
      "p{position:fixed;left:8px;bottom:0;color:#6b7280;font-size:12px}"
      "</style></head><body>\n",
      svg.substr(begin == std::string::npos ? 0 : begin),
      R"(<p>Wheel: zoom. Drag: move. Double click: all of it. Hover: a node's
whole line.</p>
<script>
const s = document.querySelector("svg");
const {width: w, height: h} = s.getBoundingClientRect();
let x, y, k, from = null;
const show = () => s.style.transform = `translate(${x}px,${y}px) scale(${k})`;
const all = () => {
  x = y = 10;
  k = Math.min(1, (innerWidth - 20) / w, (innerHeight - 40) / h); show();
};
addEventListener("wheel", e => {
  const f = Math.exp(-e.deltaY / 500);
  x = e.clientX - (e.clientX - x) * f; y = e.clientY - (e.clientY - y) * f;
  k *= f; show();
});
addEventListener("mousedown", e => from = [e.clientX - x, e.clientY - y]);
addEventListener("mousemove", e => {
  if (from) { x = e.clientX - from[0]; y = e.clientY - from[1]; show(); }
});
addEventListener("mouseup", () => from = null);
addEventListener("dblclick", all);
all();
</script></body></html>
)");
}

int Show(const Options& o) {
  const Result<std::string> bytes = ReadGraphDefFile(o.graph);
  if (!bytes.ok()) return Fail(kRunFailed, bytes.status());
  Graph g;
  if (const Status s = ImportGraphDef(*bytes, g); !s.ok())
    return Fail(kRunFailed, Annotate(s, o.graph));
  if (!o.cluster.empty() || !o.devices.empty())
    if (const Status s = PlaceForShow(
            o.cluster, o.devices.empty() ? "cpu=1" : o.devices, &g);
        !s.ok())
      return Fail(kRunFailed, Annotate(s, o.graph));
  const auto boxes = Boxes::Of(&g, o.constants);
  if (!boxes.ok()) return Fail(kRunFailed, Annotate(boxes.status(), o.graph));
  const bool drawn = o.format == "svg" || o.format == "html";
  if (drawn && g.num_nodes() > kManyNodes)
    return Fail(kRunFailed,
                absl::StrCat("--format ", o.format, ": expected at most ",
                             kManyNodes, " nodes, got ", g.num_nodes(),
                             " (text and dot take any number)"));
  const ShowDevices devices(g, o.constants);
  Result<std::string> text = std::string();
  if (o.format == "text") {
    Print((*boxes)->whole(), 0, &*text);
    if (devices.any()) *text += devices.Table();
  } else {
    text = Dot(g, **boxes, devices, o.constants);
    if (drawn) text = Svg(*text);
    if (text.ok() && o.format == "html") text = Html(*text, o.graph);
  }
  if (!text.ok()) return Fail(kRunFailed, text.status());
  if (o.out.empty()) {
    std::fwrite(text->data(), 1, text->size(), stdout);
    return 0;
  }
  const Status s = WriteFile(o.out, *text);
  return s.ok() ? 0 : Fail(kRunFailed, s);
}

}  // namespace

void AddShow(CLI::App& app, std::function<int()>* run) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand(
      "show", "Print or draw a graph, its loops and conditionals as boxes");
  sub->footer(
      "Examples: sluice show model.pb --format html -o model.html\n"
      "          sluice show model.pb --devices cpu=2 --format svg -o two.svg\n"
      "Where nodes have devices, each has a colour, and what crosses is bold.");
  sub->add_option("GRAPH", o->graph, "GraphDef: binary, or text if *.pbtxt")
      ->required()
      ->check(CLI::ExistingFile);
  sub->add_option("--format", o->format, "text, dot, svg or html")
      ->check(CLI::IsMember({"text", "dot", "svg", "html"}))
      ->capture_default_str();
  sub->add_option("-o,--out", o->out, "Write to this file instead of printing");
  sub->add_flag("--constants", o->constants, "Show constants too");
  sub->add_option("--devices", o->devices,
                  "Place it first, as a session with these devices would "
                  "(cpu=2,gpu=1; of each task)");
  sub->add_option("--cluster", o->cluster,
                  "Place it first on the tasks of this cluster (a file, or as "
                  "for sluice worker)");
  sub->callback([o, run] { *run = [o] { return Show(*o); }; });
}

}  // namespace sluice::cli
