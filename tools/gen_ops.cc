// Generates the typed C++ builders of all ops (sluice/ops.h) from the op
// registry.
//
//   gen_ops --header FILE
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "graph/op_def.h"
#include "tools/op_signature.h"

namespace sluice {
namespace {

constexpr size_t kColumns = 80;

// ---- Attributes as C++ ------------------------------------------------------

std::string ElementType(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt:
      return "int64_t";
    case AttrKind::kFloat:
      return "float";
    case AttrKind::kBool:
      return "bool";
    case AttrKind::kString:
      return "std::string";
    case AttrKind::kType:
      return "DType";
    case AttrKind::kShape:
      return "PartialShape";
    case AttrKind::kTensor:
      return "Tensor";
    case AttrKind::kFunction:
      return "FunctionRef";
    case AttrKind::kNone:
      break;
  }
  return "AttrValue";
}

std::string FieldType(const AttrDef& attr) {
  const std::string element = ElementType(attr.kind);
  return attr.is_list ? "std::vector<" + element + ">" : element;
}

std::string Quoted(const std::string& s) {
  return absl::StrCat(
      "\"",
      absl::StrReplaceAll(s, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}),
      "\"");
}

std::string TypeConstant(DType t) {
  std::string name = DTypeName(RemoveRef(t));
  name[0] = static_cast<char>(std::toupper(name[0]));
  return (IsRef(t) ? "MakeRef(DType::k" + name + ")" : "DType::k" + name);
}

std::string FloatConstant(float v) {
  if (std::isnan(v)) return "std::numeric_limits<float>::quiet_NaN()";
  if (std::isinf(v))
    return std::string(v < 0 ? "-" : "") +
           "std::numeric_limits<float>::infinity()";
  std::string s = absl::StrFormat("%.9g", v);
  // The shortest text that reads back as the same float.
  for (int digits = 1; digits < 9; ++digits) {
    const std::string shorter = absl::StrFormat("%.*g", digits, v);
    if (std::strtof(shorter.c_str(), nullptr) == v) {
      s = shorter;
      break;
    }
  }
  return s.find_first_of(".e") == std::string::npos ? s + ".0f" : s + "f";
}

// A visitor that prints a default value as an initialiser.
struct Initializer {
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(float v) const { return FloatConstant(v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const { return Quoted(v); }
  std::string operator()(DType v) const { return TypeConstant(v); }
  std::string operator()(const PartialShape& v) const {
    if (!v.rank_known()) return "{}";
    if (v.rank() == 0) return "PartialShape::Scalar()";
    return "{" + absl::StrJoin(v.dims(), ", ") + "}";
  }
  std::string operator()(const FunctionRef& v) const {
    return "{" + Quoted(v.name) + ", nullptr}";
  }
  template <typename T>
  std::string operator()(const std::vector<T>& list) const {
    std::vector<std::string> items;
    for (const auto& item : list)
      items.push_back((*this)(static_cast<T>(item)));
    return "{" + absl::StrJoin(items, ", ") + "}";
  }
  // (graph/op_def.cc reads no default but vectors of uint8.)
  std::string operator()(const Tensor& v) const {
    return "Tensor::Vector<uint8_t>({" +
           absl::StrJoin(v.flat<uint8_t>(), ", ") + "})";
  }
  // Attributes of these kinds have only empty defaults.
  std::string operator()(std::monostate) const { return "{}"; }
  std::string operator()(AttrValue::EmptyList) const { return "{}"; }
  std::string operator()(const AttrValue::Placeholder&) const { return "{}"; }
};

// `text` as // comment lines of at most 80 columns.
std::string Comment(const std::string& text, const std::string& indent = "") {
  std::string out, line = indent + "//";
  for (const auto word :
       absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    if (line.size() + 1 + word.size() > kColumns &&
        line.size() > indent.size() + 2) {
      out += line + "\n";
      line = indent + "//";
    }
    absl::StrAppend(&line, " ", word);
  }
  return out + line + "\n";
}

// `head` + items + `tail`, with line breaks after commas where needed.
std::string Wrapped(const std::string& head,
                    const std::vector<std::string>& items,
                    const std::string& tail) {
  std::string out, line = head;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool last = i + 1 == items.size();
    const std::string item = items[i] + (last ? tail : ",");
    if (line.size() + 1 + item.size() > kColumns) {
      out += line + "\n";
      line = "    " + item;
    } else {
      line += (i == 0 ? "" : " ") + item;
    }
  }
  return out + line + "\n";
}

// ---- The header -------------------------------------------------------------

std::string ResultType(const OpDef& op) {
  if (op.outputs.empty()) return "Node*";
  if (op.outputs.size() > 1) return op.name + "Outputs";
  return IsListArg(op.outputs[0]) ? "std::vector<Output>" : "Output";
}

std::string OutputsStruct(const OpDef& op) {
  std::string out = "struct " + op.name + "Outputs {\n";
  std::set<std::string> taken;
  for (const ArgDef& o : op.outputs)
    absl::StrAppend(&out, "  ",
                    IsListArg(o) ? "std::vector<Output> " : "Output ",
                    Identifier(o.name, &taken), ";\n");
  return out + "};\n";
}

std::string AttrsStruct(const OpDef& op, const OpSignature& b) {
  std::string out = "struct " + op.name + "Attrs {\n";
  for (const OpSignature::Field& f : b.optional) {
    if (!f.attr->allowed_strings.empty())
      out += Comment(
          "One of " + absl::StrJoin(f.attr->allowed_strings, ", ") + ".", "  ");
    absl::StrAppend(&out, "  ", FieldType(*f.attr), " ", f.id, " = ",
                    std::visit(Initializer(), f.attr->default_value->value()),
                    ";\n");
  }
  return out + "  std::string name = {};\n};\n";
}

std::string BuilderFunction(const OpDef& op) {
  const OpSignature b = SignatureOf(op);
  std::string out;
  if (op.outputs.size() > 1) out += OutputsStruct(op);
  if (!b.optional.empty()) out += AttrsStruct(op, b);
  out += Comment(op.doc.empty() ? op.name + "." : op.doc);

  std::vector<std::string> params, body;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    params.push_back(
        (IsListArg(op.inputs[i]) ? "const Operands& " : "const Operand& ") +
        b.inputs[i]);
    body.push_back(".In(" + b.inputs[i] + ")");
  }
  for (const OpSignature::Field& f : b.required) {
    const bool scalar =
        !f.attr->is_list &&
        (f.attr->kind == AttrKind::kInt || f.attr->kind == AttrKind::kFloat ||
         f.attr->kind == AttrKind::kBool || f.attr->kind == AttrKind::kType);
    params.push_back((scalar ? FieldType(*f.attr) + " "
                             : "const " + FieldType(*f.attr) + "& ") +
                     f.id);
    body.push_back(".Attr(\"" + f.attr->name + "\", " + f.id + ")");
  }
  for (const OpSignature::Field& f : b.optional)
    body.push_back(".Attr(\"" + f.attr->name + "\", attrs." + f.id + ")");
  params.push_back("const " + (b.optional.empty() ? "Name" : op.name) +
                   "Attrs& attrs = {}");
  params.push_back("SourceLoc loc = CallerLoc()");

  out +=
      Wrapped("inline " + ResultType(op) + " " + op.name + "(", params, ") {");
  absl::StrAppend(&out, "  OpCall call(\"", op.name, "\", attrs.name, loc);\n");
  if (!body.empty()) {
    std::string line = "  call";
    for (size_t i = 0; i < body.size(); ++i) {
      if (line.size() + body[i].size() + 1 > kColumns) {
        out += line + "\n";
        line = "      ";
      }
      line += body[i];
    }
    out += line + ";\n";
  }
  if (op.outputs.empty()) return out + "  return call.Run();\n}\n";
  std::vector<std::string> results;
  for (size_t i = 0; i < op.outputs.size(); ++i)
    results.push_back(absl::StrCat(
        IsListArg(op.outputs[i]) ? "call.List(" : "call.Out(", i, ")"));
  if (results.size() == 1) return out + "  return " + results[0] + ";\n}\n";
  return out + Wrapped("  return {", results, "};") + "}\n";
}

std::string Header(const std::vector<const OpDef*>& ops) {
  std::string out =
      "// Typed builders of ops. Generated from the op registry by "
      "gen_ops:\n"
      "// do not edit.\n"
      "//\n"
      "//   Output y = ops::MatMul(x, w, {.transpose_b = true});\n"
      "//   auto [values, indices] = ops::TopKV2(scores, 5);\n"
      "//\n"
      "// Inputs come first, then attributes without a default; the others "
      "are\n"
      "// fields of the last struct, beside the node's name. Ops without "
      "outputs\n"
      "// give their node. Errors are recorded in the graph (Graph::status) "
      "and\n"
      "// name the line of the call.\n"
      "#ifndef SLUICE_OPS_H_\n"
      "#define SLUICE_OPS_H_\n\n"
      "#include <cstdint>\n#include <limits>\n#include <string>\n"
      "#include <vector>\n\n"
      "#include \"client/op_builder.h\"\n\n"
      "namespace sluice {\nnamespace ops {\n\n"
      "// For ops whose only option is their name.\n"
      "struct NameAttrs {\n  std::string name = {};\n};\n";
  for (const OpDef* op : ops) {
    if (op->role == OpRole::kConst) continue;  // sluice::Constant.
    if (op->name[0] == '_') continue;  // Built by the library alone.
    out += "\n" + BuilderFunction(*op);
  }
  return out +
         "\n}  // namespace ops\n}  // namespace sluice\n\n"
         "#endif  // SLUICE_OPS_H_\n";
}

bool WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return true;
  std::fprintf(stderr, "gen_ops: cannot write %s\n", path.c_str());
  return false;
}

int Main(int argc, char** argv) {
  const std::string mode = argc == 3 ? argv[1] : "";
  const auto ops = OpRegistry::Global()->All();
  if (mode == "--header") return WriteFile(argv[2], Header(ops)) ? 0 : 1;
  std::fprintf(stderr, "usage: gen_ops --header FILE\n");
  return 2;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
