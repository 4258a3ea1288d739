// sluice ops: shows the op registry.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/op_reference.h"

namespace sluice::cli {
namespace {

// Prints one line per op.
void Print(const std::vector<const OpDef*>& ops) {
  size_t width = 0;
  for (const OpDef* op : ops) width = std::max(width, op->name.size());
  for (const OpDef* op : ops)
    std::printf("%-*s  %-14s %s %s\n", static_cast<int>(width),
                op->name.c_str(), op->family.c_str(),
                grad::HasGradient(*op) ? "grad" : "    ", op->doc.c_str());
}

int PrintAll() {
  const std::vector<const OpDef*> ops = OpRegistry::Global()->All();
  Print(ops);
  std::printf("%zu ops\n", ops.size());
  return 0;
}

int Describe(const OpDef& op) {
  const Result<std::string> text = OpText(op);
  if (!text.ok()) return Fail(kRunFailed, text.status());
  std::fputs(text->c_str(), stdout);
  return 0;
}

// Prints the op of that name; else all ops with all of the words, in any order,
// in their names, followed by those with some in their descriptions.
int Find(const std::string& words) {
  const Result<const OpDef*> exact = OpRegistry::Global()->Lookup(words);
  if (exact.ok()) return Describe(**exact);
  const std::vector<std::string> wanted =
      absl::StrSplit(absl::AsciiStrToLower(words), absl::ByAnyChar(" \t\n,"),
                     absl::SkipEmpty());
  const auto has_all = [&](const std::string& text) {
    const std::string lower = absl::AsciiStrToLower(text);
    return !wanted.empty() &&
           std::all_of(wanted.begin(), wanted.end(),
                       [&lower](const std::string& word) {
                         return absl::StrContains(lower, word);
                       });
  };
  std::vector<const OpDef*> by_name, by_doc;
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (has_all(op->name))
      by_name.push_back(op);
    else if (has_all(absl::StrCat(op->name, "\n", op->doc)))
      by_doc.push_back(op);
  }
  by_name.insert(by_name.end(), by_doc.begin(), by_doc.end());
  if (by_name.empty()) return Fail(kUsage, exact.status());
  if (by_name.size() == 1) return Describe(*by_name[0]);
  Print(by_name);
  std::printf("%zu ops with '%s' in name or description\n", by_name.size(),
              words.c_str());
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
      app.add_subcommand("ops", "List the ops, search them, or describe one");
  CLI::Option* name = sub->add_option(
      "NAME", o->name,
      "Op to describe, or words to search for in names and descriptions");
  sub->add_flag("--names", o->names, "Print only names, one per line")
      ->excludes(name);
  sub->add_option("--markdown", o->markdown,
                  "Write the op reference to this folder")
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
      return Find(o->name);
    };
  });
}

}  // namespace sluice::cli
