#include "tools/op_signature.h"

namespace sluice {
namespace {

// True if AddNode infers the attribute from the inputs.
bool IsInferred(const OpDef& op, const std::string& attr) {
  for (const ArgDef& in : op.inputs)
    if (in.type_attr == attr || in.type_list_attr == attr ||
        in.number_attr == attr)
      return true;
  return false;
}

}  // namespace

std::string Identifier(const std::string& name, std::set<std::string>* taken) {
  static const std::set<std::string> kReserved = {
      "and",      "auto",     "bool",      "case",     "char",     "class",
      "const",    "default",  "delete",    "do",       "double",   "else",
      "enum",     "export",   "false",     "float",    "for",      "if",
      "int",      "long",     "namespace", "new",      "not",      "or",
      "operator", "private",  "public",    "register", "return",   "short",
      "signed",   "static",   "struct",    "switch",   "template", "this",
      "true",     "typename", "union",     "unsigned", "using",    "void",
      "while",    "xor"};
  std::string id = name;
  while (kReserved.count(id) != 0 || taken->count(id) != 0) id += '_';
  taken->insert(id);
  return id;
}

bool IsListArg(const ArgDef& arg) {
  return !arg.number_attr.empty() || !arg.type_list_attr.empty();
}

OpSignature SignatureOf(const OpDef& op) {
  OpSignature b;
  std::set<std::string> arguments = {"attrs", "loc", "call"};
  std::set<std::string> fields = {"name"};
  for (const ArgDef& in : op.inputs)
    b.inputs.push_back(Identifier(in.name, &arguments));
  for (const AttrDef& attr : op.attrs) {
    if (attr.name[0] == '_' || IsInferred(op, attr.name)) continue;
    if (attr.default_value) {
      b.optional.push_back({&attr, Identifier(attr.name, &fields)});
    } else {
      b.required.push_back({&attr, Identifier(attr.name, &arguments)});
    }
  }
  return b;
}

}  // namespace sluice
