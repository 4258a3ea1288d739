// sluice ops: what the registry knows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "graph/grad.h"
#include "graph/op_def.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/op_reference.h"

namespace sluice::cli {
namespace {

int PrintAll() {
  const std::vector<const OpDef*> ops = OpRegistry::Global()->All();
  size_t width = 0;
  for (const OpDef* op : ops) width = std::max(width, op->name.size());
  for (const OpDef* op : ops)
    std::printf("%-*s  %-14s %s %s\n", static_cast<int>(width),
                op->name.c_str(), op->family.c_str(),
                grad::HasGradient(*op) ? "grad" : "    ", op->doc.c_str());
  std::printf("%zu ops\n", ops.size());
  return 0;
}

int PrintNames() {
  for (const OpDef* op : OpRegistry::Global()->All())
    std::printf("%s\n", op->name.c_str());
  return 0;
}

}  // namespace

void AddOps(CLI::App& app, std::function<int()>* run) {
  struct Options {
    std::string name;
    std::string markdown;
    bool names = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* sub =
      app.add_subcommand("ops", "List the ops, or tell all about one");
  CLI::Option* name = sub->add_option("NAME", o->name, "Op to describe");
  sub->add_flag("--names", o->names, "Names alone, one a line")->excludes(name);
  sub->add_option("--markdown", o->markdown, "Write the op reference there")
      ->type_name("DIR")
      ->excludes(name);
  sub->callback([o, run] {
    *run = [o] {
      if (!o->markdown.empty()) {
        const Status s = WriteOpReference(o->markdown);
        return s.ok() ? 0 : Fail(kRunFailed, s);
      }
      if (o->names) return PrintNames();
      if (o->name.empty()) return PrintAll();
      const Result<const OpDef*> op = OpRegistry::Global()->Lookup(o->name);
      if (!op.ok()) return Fail(kUsage, op.status());
      const Result<std::string> text = OpText(**op);
      if (!text.ok()) return Fail(kRunFailed, text.status());
      std::fputs(text->c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace sluice::cli
