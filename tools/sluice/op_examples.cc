#include "tools/sluice/op_examples.h"

#include <algorithm>
#include <complex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/builder.h"
#include "graph/op_def.h"
#include "session/session.h"
#include "tools/op_signature.h"

namespace sluice::cli {
namespace {

using Json = nlohmann::json;

constexpr char kExamples[] =
#include "tools/sluice/op_examples.inc"
    ;

// Fields of the lines of op_examples.tsv: op, attributes, inputs.
std::vector<std::vector<std::string>> Lines() {
  std::vector<std::vector<std::string>> lines;
  for (const auto& line : absl::StrSplit(kExamples, '\n', absl::SkipEmpty()))
    if (line[0] != '#')
      lines.push_back(std::vector<std::string>(absl::StrSplit(line, '\t')));
  return lines;
}

Status Malformed(const std::string& what, const std::string& got) {
  return InvalidArgument("op_examples.tsv: expected ", what, ", got ", got);
}

// ---- Reading ----------------------------------------------------------------

// The sizes of nested lists, and their elements in a row.
void Flatten(const Json& j, size_t depth, Dims* dims, std::vector<Json>* flat) {
  if (!j.is_array()) {
    flat->push_back(j);
    return;
  }
  if (dims->size() == depth) dims->push_back(static_cast<int64_t>(j.size()));
  for (const Json& e : j) Flatten(e, depth + 1, dims, flat);
}

template <typename T, typename As = T>
Tensor Elements(const Shape& shape, const std::vector<Json>& flat) {
  Tensor t(DTypeOf<T>(), shape);
  for (size_t i = 0; i < flat.size(); ++i)
    t.data<T>()[i] = static_cast<T>(flat[i].get<As>());
  return t;
}

// Without `type` the elements determine it.
Result<Tensor> ToTensor(const Json& j, std::optional<DType> type) {
  Dims dims;
  std::vector<Json> flat;
  Flatten(j, 0, &dims, &flat);
  const Shape shape({dims.data(), dims.size()});
  if (static_cast<size_t>(shape.num_elements()) != flat.size())
    return Malformed("lists of equal lengths", j.dump());
  if (!type) {
    type = flat.empty() || flat[0].is_number() ? DType::kFloat
           : flat[0].is_boolean()              ? DType::kBool
                                               : DType::kString;
  }
  switch (*type) {
    case DType::kFloat:
      return Elements<float>(shape, flat);
    case DType::kDouble:
      return Elements<double>(shape, flat);
    case DType::kInt32:
      return Elements<int32_t>(shape, flat);
    case DType::kInt64:
      return Elements<int64_t>(shape, flat);
    case DType::kBool:
      return Elements<bool>(shape, flat);
    case DType::kString:
      return Elements<std::string>(shape, flat);
    case DType::kComplex64:
      return Elements<std::complex<float>, float>(shape, flat);
    default:
      return Malformed("a type that examples have", DTypeName(*type));
  }
}

Result<AttrValue> ToAttr(const AttrDef& def, const Json& j) {
  if (def.is_list && def.kind == AttrKind::kInt)
    return AttrValue(j.get<AttrValue::Ints>());
  if (def.is_list) return Malformed("a list of integers", j.dump());
  switch (def.kind) {
    case AttrKind::kInt:
      return AttrValue(j.get<int64_t>());
    case AttrKind::kFloat:
      return AttrValue(j.get<float>());
    case AttrKind::kBool:
      return AttrValue(j.get<bool>());
    case AttrKind::kString:
      return AttrValue(j.get<std::string>());
    case AttrKind::kType: {
      const std::optional<DType> type = ParseDType(j.get<std::string>());
      if (!type) return Malformed("a type", j.dump());
      return AttrValue(*type);
    }
    default:
      return Malformed("an attribute that examples have", def.name);
  }
}

// The type of an input: its fixed type, that of its attribute if it is given or
// has a default, or the most natural allowed one.
std::optional<DType> InputType(const OpDef& op, const ArgDef& arg,
                               const AttrMap& attrs, const Json& j) {
  if (arg.type_attr.empty())
    return arg.type_list_attr.empty() ? std::optional(arg.type) : std::nullopt;
  if (const auto it = attrs.find(arg.type_attr); it != attrs.end())
    return *it->second.get<DType>();
  const AttrDef* a = op.FindAttr(arg.type_attr);
  if (a->default_value) return *a->default_value->get<DType>();
  const std::vector<DType>& allowed = a->allowed_types;
  const auto has = [&](DType t) {
    return std::find(allowed.begin(), allowed.end(), t) != allowed.end();
  };
  const Result<Tensor> alike = ToTensor(j, std::nullopt);
  if (!alike.ok() || allowed.empty() || has(alike->dtype()))
    return std::nullopt;
  for (const DType t : {DType::kInt32, DType::kInt64, DType::kComplex64})
    if (has(t)) return t;
  return std::nullopt;
}

// ---- Writing ----------------------------------------------------------------

std::string NumberText(double v) { return absl::StrFormat("%.5g", v); }

std::string ElementText(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::kFloat:
      return NumberText(t.data<float>()[i]);
    case DType::kDouble:
      return NumberText(t.data<double>()[i]);
    case DType::kBool:
      return t.data<bool>()[i] ? "true" : "false";
    case DType::kInt32:
      return std::to_string(t.data<int32_t>()[i]);
    case DType::kInt64:
      return std::to_string(t.data<int64_t>()[i]);
    case DType::kUint8:
      return std::to_string(t.data<uint8_t>()[i]);
    case DType::kString:
      return Json(t.data<std::string>()[i]).dump();
    case DType::kComplex64: {
      const std::complex<float> v = t.data<std::complex<float>>()[i];
      return NumberText(v.real()) + (v.imag() < 0 ? "-" : "+") +
             NumberText(std::abs(v.imag())) + "i";
    }
    default:
      return "?";
  }
}

std::string ListText(const Tensor& t, int axis, int64_t* next) {
  if (axis == t.rank()) return ElementText(t, (*next)++);
  std::vector<std::string> parts;
  for (int64_t i = 0; i < t.dim(axis); ++i)
    parts.push_back(ListText(t, axis + 1, next));
  return "[" + absl::StrJoin(parts, ", ") + "]";
}

std::string ListText(const Tensor& t) {
  int64_t next = 0;
  return ListText(t, 0, &next);
}

// The op's results: its only output, or a line for each.
Result<std::string> ResultsText(Graph& graph, const OpDef& op, Node* node) {
  std::vector<Output> fetches;
  for (int i = 0; i < node->num_outputs(); ++i) fetches.emplace_back(node, i);
  Session session(graph);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                          session.Run({}, fetches));
  if (results.size() == 1) return " = " + ListText(results[0]);
  const std::vector<ArgDef>& names = op.outputs;
  std::string text;
  for (size_t i = 0; i < results.size(); ++i)
    absl::StrAppend(
        &text, "\n  ",
        names.size() == results.size() ? names[i].name : std::to_string(i),
        " = ", ListText(results[i]));
  return text;
}

Result<std::string> Example(const std::vector<std::string>& line) {
  SLUICE_ASSIGN_OR_RETURN(const OpDef* op,
                          OpRegistry::Global()->Lookup(line[0]));
  AttrMap attrs;
  std::vector<std::string> shown;
  const Json options = Json::parse(line.at(1));
  for (const auto& [name, value] : options.items()) {
    const AttrDef* def = op->FindAttr(name);
    if (def == nullptr) return Malformed("an attribute of " + op->name, name);
    SLUICE_ASSIGN_OR_RETURN(attrs[name], ToAttr(*def, value));
    shown.push_back(name + "=" + value.dump());
  }
  // All lists have the same length here, so it follows from the number of
  // values.
  const size_t given = line.size() - 2;
  const auto lists = static_cast<size_t>(
      std::count_if(op->inputs.begin(), op->inputs.end(), IsListArg));
  const size_t single = op->inputs.size() - lists;
  if (given < single || (lists == 0 && given != single))
    return Malformed("all inputs of " + op->name, std::to_string(given));
  Graph graph;
  const WithGraph use(graph);
  std::vector<Output> inputs;
  std::vector<std::string> arguments;
  for (const ArgDef& arg : op->inputs) {
    const bool is_list = IsListArg(arg);
    std::vector<std::string> elements;
    for (size_t n = is_list ? (given - single) / lists : 1; n > 0; --n) {
      const Json j = Json::parse(line[2 + inputs.size()]);
      SLUICE_ASSIGN_OR_RETURN(const Tensor t,
                              ToTensor(j, InputType(*op, arg, attrs, j)));
      inputs.push_back(Constant(t));
      elements.push_back(ListText(t));
    }
    const std::string text = absl::StrJoin(elements, ", ");
    arguments.push_back(is_list ? "{" + text + "}" : text);
  }
  arguments.insert(arguments.end(), shown.begin(), shown.end());
  Node* node = BuildNode(op->name, inputs, attrs);
  SLUICE_RETURN_IF_ERROR(graph.status());
  SLUICE_ASSIGN_OR_RETURN(const std::string results,
                          ResultsText(graph, *op, node));
  return op->name + "(" + absl::StrJoin(arguments, ", ") + ")" + results;
}

}  // namespace

Result<std::vector<std::string>> ExamplesOf(const std::string& op) {
  std::vector<std::string> examples;
  for (const std::vector<std::string>& line : Lines()) {
    if (line[0] != op) continue;
    SLUICE_ASSIGN_OR_RETURN(std::string text, Example(line));
    examples.push_back(std::move(text));
  }
  return examples;
}

std::vector<std::string> OpsWithExamples() {
  std::set<std::string> names;
  for (const std::vector<std::string>& line : Lines()) names.insert(line[0]);
  return {names.begin(), names.end()};
}

}  // namespace sluice::cli
