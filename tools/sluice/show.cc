// sluice show: a graph with its loops and conditionals as nested boxes, as text
// or as a drawing.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "inspect/graph_boxes.h"
#include "io/file.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/show_devices.h"
#include "tools/sluice/show_dot.h"

extern char** environ;

namespace sluice::cli {
namespace {

// With more nodes than this the layout takes minutes and is unreadable.
constexpr int kManyNodes = 3000;
// Bodies of functions are printed as often as they are used, which doubles
// where each function uses the next one twice.
constexpr int kManyLines = 50000;

struct Options {
  std::string graph, format, out;
  bool constants = false, gradients = false;
  std::string cluster;  // Place the graph on it, each task with these devices.
  std::optional<std::string> devices;
};

// RAII: a temporary file.
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
  Result<std::vector<PlaceableDevice>> devices = std::vector<PlaceableDevice>();
  if (!o.cluster.empty() || o.devices.has_value())
    devices = DevicesForShow(o.cluster, o.devices.value_or("cpu=1"));
  if (!devices.ok()) return Fail(kUsage, devices.status());
  Graph g;
  if (const Status s = ImportGraphDefFile(o.graph, g); !s.ok())
    return Fail(kRunFailed, s);
  const std::string format = o.format.empty() ? FormatOfFile(o.out) : o.format;
  if (format.empty())
    return Fail(kUsage, absl::StrCat("--out: expected a name that ends in "
                                     ".svg, .html, .dot or .txt, got '",
                                     o.out, "'"));
  if (!devices->empty()) {
    Status s = show::LowerForShow(&g);
    if (s.ok()) s = PlaceForShow(*std::move(devices), &g);
    if (!s.ok()) return Fail(kRunFailed, Annotate(s, o.graph));
  }
  const bool drawn = format == "svg" || format == "html";
  const auto boxes = show::Boxes::Of(
      &g, {.constants = o.constants,
           .most = drawn ? kManyNodes - g.num_nodes() : kManyLines,
           .gradients = o.gradients});
  if (!boxes.ok()) return Fail(kRunFailed, Annotate(boxes.status(), o.graph));
  if (const int n = (*boxes)->shown(); drawn && n > kManyNodes)
    return Fail(
        kRunFailed,
        absl::StrCat("--format ", format, ": expected at most ", kManyNodes,
                     " nodes, got ", n, " (text and dot take any number)"));
  if (const int n = (*boxes)->left_out(); n > 0)
    std::fprintf(stderr,
                 "sluice: %s shown without the bodies of their functions, "
                 "which have too many nodes\n",
                 Counted(n, "functional node").c_str());
  if (const int n = (*boxes)->folded(); n > 0)
    std::fprintf(stderr,
                 "sluice: %s of gradients folded; --gradients shows %s\n",
                 Counted(n, "node").c_str(), n == 1 ? "it" : "them");
  const ShowDevices colours(g, o.constants);
  Result<std::string> text = std::string();
  if (format == "text") {
    show::Print((*boxes)->whole(), 0, &*text);
    if (colours.any()) *text += colours.Table();
  } else {
    text = Dot(**boxes, colours, o.constants);
    if (drawn) text = Svg(*text);
    if (text.ok() && format == "html") text = Html(*text, o.graph);
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
      "show",
      "Print or draw a graph, its loops, conditionals and gradients as "
      "boxes");
  sub->footer(
      "Examples: sluice show model.pb -o model.html\n"
      "          sluice show model.pb --devices cpu=2 -o two.svg\n"
      "If nodes have devices, each device has a colour, and edges between "
      "devices are bold.");
  sub->add_option("GRAPH", o->graph, "GraphDef, binary or text")
      ->required()
      ->check(WhyNoGraphFile);
  sub->add_option("--format", o->format,
                  "text, dot, svg or html; by default the extension of --out, "
                  "else text")
      ->check(CLI::IsMember({"text", "dot", "svg", "html"}));
  sub->add_option("-o,--out", o->out, "Write to this file instead of printing");
  sub->add_flag("--constants", o->constants, "Show constants too");
  sub->add_flag("--gradients", o->gradients,
                "Show the nodes of gradients, not only their results");
  sub->add_option("--devices", o->devices,
                  "First place the graph as a session with these devices would "
                  "(cpu=2,gpu=1; in each task)");
  sub->add_option(
      "--cluster", o->cluster,
      "First place the graph on the tasks of this cluster (a file, or as "
      "for sluice worker)");
  sub->callback([o, run] { *run = [o] { return Show(*o); }; });
}

}  // namespace sluice::cli
