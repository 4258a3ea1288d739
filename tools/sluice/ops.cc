// sluice ops: what the registry knows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "graph/op_def.h"
#include "tools/sluice/cli.h"

namespace sluice::cli {
namespace {

const char* KindName(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt:
      return "int";
    case AttrKind::kFloat:
      return "float";
    case AttrKind::kBool:
      return "bool";
    case AttrKind::kString:
      return "string";
    case AttrKind::kType:
      return "type";
    case AttrKind::kShape:
      return "shape";
    case AttrKind::kTensor:
      return "tensor";
    case AttrKind::kFunction:
      return "func";
    case AttrKind::kNone:
      break;
  }
  return "none";
}

std::string TypeNames(const std::vector<DType>& types) {
  std::vector<std::string> names;
  for (DType t : types) names.push_back(DTypeName(t));
  return names.empty() ? "any" : absl::StrJoin(names, ", ");
}

std::string ArgText(const ArgDef& a) {
  std::string type = !a.type_attr.empty()        ? a.type_attr
                     : !a.type_list_attr.empty() ? a.type_list_attr
                                                 : DTypeName(a.type);
  if (!a.number_attr.empty()) type = a.number_attr + " * " + type;
  if (a.is_ref) type = "Ref(" + type + ")";
  return a.name + ": " + type;
}

void PrintArgs(const char* what, const std::vector<ArgDef>& args) {
  for (const ArgDef& a : args)
    std::printf("  %-9s %s\n", what, ArgText(a).c_str());
}

void PrintAttr(const AttrDef& a) {
  std::string text = KindName(a.kind);
  if (a.is_list) text = "list(" + text + ")";
  if (a.minimum) absl::StrAppend(&text, " >= ", *a.minimum);
  if (a.default_value)
    absl::StrAppend(&text, " = ", a.default_value->ToString());
  if (a.kind == AttrKind::kType)
    absl::StrAppend(&text, " of ", TypeNames(a.allowed_types));
  if (!a.allowed_strings.empty())
    absl::StrAppend(&text, " of '", absl::StrJoin(a.allowed_strings, "', '"),
                    "'");
  std::printf("  %-9s %s: %s\n", "attribute", a.name.c_str(), text.c_str());
}

void PrintOp(const OpDef& op) {
  std::printf("%s%s%s\n", op.name.c_str(), op.doc.empty() ? "" : ": ",
              op.doc.c_str());
  PrintArgs("input", op.inputs);
  PrintArgs("output", op.outputs);
  for (const AttrDef& a : op.attrs) PrintAttr(a);
  std::printf("  %-9s %s\n", "gradient",
              op.grad != nullptr ? "yes"
              : op.no_grad_reason.empty()
                  ? "none"
                  : ("none: " + op.no_grad_reason).c_str());
  if (op.stateful) std::printf("  %-9s yes\n", "stateful");
  if (!op.family.empty())
    std::printf("  %-9s %s\n", "family", op.family.c_str());
}

int PrintAll() {
  const std::vector<const OpDef*> ops = OpRegistry::Global()->All();
  size_t width = 0;
  for (const OpDef* op : ops) width = std::max(width, op->name.size());
  for (const OpDef* op : ops)
    std::printf("%-*s  %-14s %s %s\n", static_cast<int>(width),
                op->name.c_str(), op->family.c_str(),
                op->grad != nullptr ? "grad" : "    ", op->doc.c_str());
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
    bool names = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* sub =
      app.add_subcommand("ops", "List the ops, or tell all about one");
  CLI::Option* name = sub->add_option("NAME", o->name, "Op to describe");
  sub->add_flag("--names", o->names, "Names alone, one a line")->excludes(name);
  sub->callback([o, run] {
    *run = [o] {
      if (o->names) return PrintNames();
      if (o->name.empty()) return PrintAll();
      const Result<const OpDef*> op = OpRegistry::Global()->Lookup(o->name);
      if (!op.ok()) return Fail(kUsage, op.status());
      PrintOp(**op);
      return 0;
    };
  });
}

}  // namespace sluice::cli
