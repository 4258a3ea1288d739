#include "tools/sluice/op_reference.h"

#include <cctype>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/attr_kind.h"
#include "graph/grad.h"
#include "io/file.h"
#include "tools/op_signature.h"
#include "tools/sluice/op_examples.h"

namespace sluice::cli {
namespace {

std::string ArgType(const ArgDef& arg) {
  std::string type = !arg.type_attr.empty()        ? arg.type_attr
                     : !arg.type_list_attr.empty() ? arg.type_list_attr
                                                   : DTypeName(arg.type);
  if (!arg.number_attr.empty()) type = arg.number_attr + " * " + type;
  return arg.is_ref ? "Ref(" + type + ")" : type;
}

std::string AttrText(const AttrDef& attr) {
  std::string text = AttrKindText(attr.kind, false);
  std::vector<std::string> allowed = attr.allowed_strings;
  for (DType t : attr.allowed_types) allowed.push_back(DTypeName(t));
  if (!allowed.empty()) text = "one of " + absl::StrJoin(allowed, ", ");
  if (attr.is_list) text = "list of " + text;
  if (attr.minimum)
    absl::StrAppend(&text,
                    attr.is_list ? ", length >= " : ", >= ", *attr.minimum);
  if (attr.default_value)
    absl::StrAppend(&text, ", default `", attr.default_value->ToString(), "`");
  return text;
}

std::string GradientText(const OpDef& op) {
  if (grad::HasGradient(op)) return "yes";
  if (op.grad != nullptr) return "none (asking for it is an error)";
  return op.no_grad_reason.empty() ? "none"
                                   : "none (" + op.no_grad_reason + ")";
}

// How C++ calls the builder of an op; "" if it has none.
std::string CallOf(const OpDef& op) {
  if (op.role == OpRole::kConst) return "Constant(value)";  // graph/builder.h
  if (op.name[0] == '_') return "";  // Built by the library alone.
  const OpSignature b = SignatureOf(op);
  std::vector<std::string> args = b.inputs;
  for (const OpSignature::Field& f : b.required) args.push_back(f.id);
  if (!b.optional.empty()) {
    std::vector<std::string> fields;
    for (const OpSignature::Field& f : b.optional) fields.push_back("." + f.id);
    args.push_back("{" + absl::StrJoin(fields, ", ") + "}");
  }
  return absl::StrCat("ops::", op.name, "(", absl::StrJoin(args, ", "), ")");
}

Result<std::string> OpSection(const OpDef& op) {
  std::string out = absl::StrCat("## ", op.name, "\n\n", op.doc, "\n\n");
  if (const std::string call = CallOf(op); !call.empty())
    absl::StrAppend(&out, "```c++\n", call, "\n```\n\n");
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> examples,
                          ExamplesOf(op.name));
  if (!examples.empty())
    absl::StrAppend(&out, "```text\n", absl::StrJoin(examples, "\n"),
                    "\n```\n\n");
  for (const ArgDef& arg : op.inputs)
    absl::StrAppend(&out, "- in `", arg.name, "`: ", ArgType(arg), "\n");
  for (const ArgDef& arg : op.outputs)
    absl::StrAppend(&out, "- out `", arg.name, "`: ", ArgType(arg), "\n");
  for (const AttrDef& attr : op.attrs)
    absl::StrAppend(&out, "- `", attr.name, "`: ", AttrText(attr), "\n");
  absl::StrAppend(&out, "- gradient: ", GradientText(op),
                  op.stateful ? "; stateful" : "",
                  op.commutative ? "; commutative" : "",
                  op.host_reach != nullptr ? "; reaches the host" : "", "\n\n");
  return out;
}

}  // namespace

Result<std::string> OpText(const OpDef& op) {
  std::string out = op.doc.empty() ? op.name : op.name + ": " + op.doc;
  const auto line = [&](const char* what, const std::string& text) {
    absl::StrAppendFormat(&out, "\n  %-9s %s", what, text);
  };
  for (const ArgDef& a : op.inputs) line("input", a.name + ": " + ArgType(a));
  for (const ArgDef& a : op.outputs) line("output", a.name + ": " + ArgType(a));
  for (const AttrDef& a : op.attrs)
    line("attribute", a.name + ": " + AttrText(a));
  line("gradient", GradientText(op));
  if (op.stateful) line("stateful", "yes");
  if (op.host_reach != nullptr) line("host", "reaches it");
  if (!op.family.empty()) line("family", op.family);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> examples,
                          ExamplesOf(op.name));
  for (const std::string& e : examples) line("example", e);
  return out + "\n";
}

Status WriteOpReference(const std::filesystem::path& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);  // (Writing reports errors.)
  std::map<std::string, std::vector<const OpDef*>> families;
  for (const OpDef* op : OpRegistry::Global()->All())
    families[op->family.empty() ? "other" : op->family].push_back(op);
  std::string index =
      "# Op reference\n\nWritten from the op registry by "
      "`sluice ops --markdown docs/ops`; do not edit.\n\n";
  for (const auto& [family, members] : families) {
    std::string page = "# Ops: " + family + "\n\n";
    std::vector<std::string> links;
    for (const OpDef* op : members) {
      SLUICE_ASSIGN_OR_RETURN(const std::string section, OpSection(*op));
      page += section;
      std::string anchor = op->name;
      for (char& c : anchor) c = static_cast<char>(std::tolower(c));
      links.push_back(
          absl::StrCat("[", op->name, "](", family, ".md#", anchor, ")"));
    }
    SLUICE_RETURN_IF_ERROR(WriteFile(dir / (family + ".md"), page));
    absl::StrAppend(&index, "## ", family, " (", members.size(), ")\n\n",
                    absl::StrJoin(links, ",\n"), "\n\n");
  }
  return WriteFile(dir / "README.md", index);
}

}  // namespace sluice::cli
