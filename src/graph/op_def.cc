#include "graph/op_def.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/cluster_library.h"
#include "base/without_throwing.h"
#include "graph/attr_kind.h"
#include "graph/node_attrs.h"
#include "graph/op_library.h"

namespace sluice {
namespace {

using absl::ConsumePrefix;
using absl::string_view;
using absl::StripAsciiWhitespace;

const std::vector<DType>& NumberTypes() {
  static const auto* v = new std::vector<DType>{
      DType::kFloat,  DType::kDouble,  DType::kInt32,     DType::kUint8,
      DType::kInt16,  DType::kInt8,    DType::kComplex64, DType::kInt64,
      DType::kQint8,  DType::kQuint8,  DType::kQint32,    DType::kBfloat16,
      DType::kQint16, DType::kQuint16, DType::kUint16,    DType::kComplex128,
      DType::kHalf,   DType::kUint32,  DType::kUint64};
  return *v;
}

std::vector<DType> TypeSet(string_view name) {
  std::vector<DType> out;
  for (DType t : NumberTypes()) {
    const bool real = !IsComplex(t) && !IsQuantized(t);
    if (name == "numbertype" || (name == "realnumbertype" && real) ||
        (name == "quantizedtype" && IsQuantized(t)))
      out.push_back(t);
  }
  return out;
}

Status BadSpec(string_view spec, string_view why) {
  return Internal("op declaration '", std::string(spec),
                  "': ", std::string(why));
}

// "x: T", "x: N * T", "x: Ref(T)", "x: Ref(N * float)".
bool IsName(string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
}

Result<ArgDef> ParseArg(string_view spec, const std::vector<AttrDef>& attrs) {
  ArgDef arg;
  std::pair<string_view, string_view> parts =
      absl::StrSplit(spec, absl::MaxSplits(':', 1));
  arg.name = std::string(StripAsciiWhitespace(parts.first));
  if (!IsName(arg.name)) return BadSpec(spec, "no name");
  string_view type = StripAsciiWhitespace(parts.second);
  if (ConsumePrefix(&type, "Ref(")) {
    arg.is_ref = true;
    if (!absl::ConsumeSuffix(&type, ")")) return BadSpec(spec, "Ref( unclosed");
    type = StripAsciiWhitespace(type);
  }
  if (const size_t star = type.find('*'); star != string_view::npos) {
    arg.number_attr = std::string(StripAsciiWhitespace(type.substr(0, star)));
    if (std::none_of(attrs.begin(), attrs.end(), [&](const AttrDef& a) {
          return a.name == arg.number_attr && a.kind == AttrKind::kInt &&
                 !a.is_list;
        }))
      return BadSpec(spec, "the number is not an attribute");
    type = StripAsciiWhitespace(type.substr(star + 1));
  }
  for (const AttrDef& a : attrs) {
    if (a.name != type) continue;
    if (a.kind != AttrKind::kType)
      return BadSpec(spec, absl::StrCat("expected an attribute that is a type "
                                        "or a list of types, got '",
                                        a.name, ": ",
                                        AttrKindText(a.kind, a.is_list), "'"));
    if (a.is_list && !arg.number_attr.empty())
      return BadSpec(spec, "expected a number of one type, got one of a list");
    (a.is_list ? arg.type_list_attr : arg.type_attr) = a.name;
    return arg;
  }
  const std::optional<DType> t = ParseDType(std::string(type));
  if (!t) return BadSpec(spec, "unknown type");
  if (IsRef(*t)) return BadSpec(spec, "expected Ref(<type>) for a reference");
  arg.type = *t;
  return arg;
}

// The place of the first of these characters that is outside of quotes and of
// brackets that open behind the start; npos if there is none.
size_t FindOutside(string_view s, string_view any) {
  int depth = 0;
  char quote = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
      continue;
    }
    if (depth == 0 && any.find(c) != string_view::npos) return i;
    if (c == '\'' || c == '"') quote = c;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
  }
  return string_view::npos;
}

// The place of the bracket that closes the one at the start; npos if none does.
size_t Closing(string_view s) {
  const size_t close = FindOutside(s.substr(1), ")]}");
  return close == string_view::npos ? close : close + 1;
}

bool IsQuoted(string_view s) {
  return !s.empty() && (s[0] == '\'' || s[0] == '"');
}

Result<std::string> Unquote(string_view s, string_view spec) {
  if (!IsQuoted(s) || s.find(s[0], 1) != s.size() - 1)
    return BadSpec(spec, absl::StrCat("expected a string in quotes, got ",
                                      std::string(s)));
  return std::string(s.substr(1, s.size() - 2));
}

// Items of "[a, b]" or "{a, b}".
Result<std::vector<string_view>> Items(string_view s, string_view spec) {
  s = StripAsciiWhitespace(s);
  const bool open = !s.empty() && (s[0] == '[' || s[0] == '{');
  if (!open || Closing(s) != s.size() - 1 ||
      s.back() != (s[0] == '[' ? ']' : '}'))
    return BadSpec(spec, absl::StrCat("expected values in brackets, got '",
                                      std::string(s), "'"));
  s = StripAsciiWhitespace(s.substr(1, s.size() - 2));
  std::vector<string_view> out;
  while (!s.empty()) {
    const size_t end = std::min(FindOutside(s, ","), s.size());
    out.push_back(StripAsciiWhitespace(s.substr(0, end)));
    if (out.back().empty()) return BadSpec(spec, "a value is missing");
    s = StripAsciiWhitespace(s.substr(std::min(end + 1, s.size())));
  }
  return out;
}

Result<AttrValue> ParseScalar(AttrKind kind, string_view s, string_view spec) {
  s = StripAsciiWhitespace(s);
  switch (kind) {
    case AttrKind::kInt: {
      int64_t v;
      if (!absl::SimpleAtoi(s, &v)) return BadSpec(spec, "bad int");
      return AttrValue(v);
    }
    case AttrKind::kFloat: {
      float v;
      if (!absl::SimpleAtof(s, &v)) return BadSpec(spec, "bad float");
      return AttrValue(v);
    }
    case AttrKind::kBool:
      if (s != "true" && s != "false")
        return BadSpec(spec, absl::StrCat("expected true or false, got '",
                                          std::string(s), "'"));
      return AttrValue(s == "true");
    case AttrKind::kString: {
      SLUICE_ASSIGN_OR_RETURN(std::string text, Unquote(s, spec));
      return AttrValue(std::move(text));
    }
    case AttrKind::kType: {
      const std::optional<DType> t = ParseDType(std::string(s));
      if (!t) return BadSpec(spec, "bad type");
      return AttrValue(*t);
    }
    case AttrKind::kShape: {  // "{ unknown_rank: true }", "{}", "[2,3]".
      std::string dense(s);
      std::erase(dense, ' ');
      if (dense == "{unknown_rank:true}")
        return AttrValue(PartialShape::Unknown());
      PartialShape shape = PartialShape::Scalar();
      SLUICE_ASSIGN_OR_RETURN(const auto dims, Items(s, spec));
      for (string_view d : dims) {
        int64_t v;
        if (!absl::SimpleAtoi(d, &v)) return BadSpec(spec, "bad dimension");
        shape.add_dim(v);
      }
      return AttrValue(shape);
    }
    case AttrKind::kFunction: {
      std::string name(s);
      if (IsQuoted(s)) {
        SLUICE_ASSIGN_OR_RETURN(name, Unquote(s, spec));
      }
      if (name.empty()) return BadSpec(spec, "expected a function, got ''");
      return AttrValue(FunctionRef{std::move(name), nullptr});
    }
    case AttrKind::kTensor: {  // "uint8 [255, 0]"; no op needs more.
      if (!ConsumePrefix(&s, "uint8 "))
        return BadSpec(spec, "expected a vector of uint8");
      std::vector<uint8_t> values;
      SLUICE_ASSIGN_OR_RETURN(const auto items, Items(s, spec));
      for (string_view item : items) {
        int32_t v;
        if (!absl::SimpleAtoi(item, &v) || v < 0 || v > 255)
          return BadSpec(spec, "bad uint8");
        values.push_back(static_cast<uint8_t>(v));
      }
      SLUICE_ASSIGN_OR_RETURN(Tensor t, Tensor::MakeVector<uint8_t>(values));
      return AttrValue(std::move(t));
    }
    default:
      return BadSpec(spec, "this kind has no default");
  }
}

template <typename T>
AttrValue Collect(const std::vector<AttrValue>& values) {
  std::vector<T> out;
  for (const AttrValue& v : values) out.push_back(*v.get<T>());
  return AttrValue(std::move(out));
}

Result<AttrValue> ParseDefault(const AttrDef& a, string_view s,
                               string_view spec) {
  if (!a.is_list) return ParseScalar(a.kind, s, spec);
  std::vector<AttrValue> values;
  SLUICE_ASSIGN_OR_RETURN(const auto items, Items(s, spec));
  for (string_view item : items) {
    SLUICE_ASSIGN_OR_RETURN(AttrValue v, ParseScalar(a.kind, item, spec));
    values.push_back(std::move(v));
  }
  switch (a.kind) {
    case AttrKind::kInt:
      return Collect<int64_t>(values);
    case AttrKind::kFloat:
      return Collect<float>(values);
    case AttrKind::kBool:
      return Collect<bool>(values);
    case AttrKind::kString:
      return Collect<std::string>(values);
    case AttrKind::kType:
      return Collect<DType>(values);
    case AttrKind::kShape:
      return Collect<PartialShape>(values);
    case AttrKind::kTensor:
      return Collect<Tensor>(values);
    case AttrKind::kFunction:
      return Collect<FunctionRef>(values);
    case AttrKind::kNone:
      break;
  }
  return BadSpec(spec, "this kind has no default");
}

// "{float, realnumbertype}", "{'SAME', 'VALID'}": the kind, and what is
// allowed.
Status ParseSet(string_view set, string_view spec, AttrDef* a) {
  SLUICE_ASSIGN_OR_RETURN(const auto items, Items(set, spec));
  if (items.empty()) return BadSpec(spec, "expected allowed values, got none");
  a->kind = IsQuoted(items[0]) ? AttrKind::kString : AttrKind::kType;
  for (string_view item : items) {
    if (a->kind == AttrKind::kString) {
      SLUICE_ASSIGN_OR_RETURN(std::string text, Unquote(item, spec));
      a->allowed_strings.push_back(std::move(text));
    } else if (const auto types = TypeSet(item); !types.empty()) {
      a->allowed_types.insert(a->allowed_types.end(), types.begin(),
                              types.end());
    } else {
      const std::optional<DType> t = ParseDType(std::string(item));
      if (!t) return BadSpec(spec, "bad allowed type");
      a->allowed_types.push_back(*t);
    }
  }
  return OkStatus();
}

// "T: {float, double} = DT_FLOAT", "N: int >= 1 = 2", "k: list(int) = [1,2]".
Result<AttrDef> ParseAttr(string_view spec) {
  AttrDef a;
  std::pair<string_view, string_view> parts =
      absl::StrSplit(spec, absl::MaxSplits(':', 1));
  a.name = std::string(StripAsciiWhitespace(parts.first));
  if (!IsName(a.name)) return BadSpec(spec, "no name");
  string_view rest = StripAsciiWhitespace(parts.second);
  if (absl::StartsWith(rest, "list(") && ConsumePrefix(&rest, "list")) {
    a.is_list = true;
    const size_t close = Closing(rest);
    if (close == string_view::npos) return BadSpec(spec, "list( unclosed");
    // The text after the bracket stays in `rest`.
    const string_view inner = StripAsciiWhitespace(rest.substr(1, close - 1));
    const auto no_kind = [&] {
      return BadSpec(spec, absl::StrCat("expected a kind in list(), got '",
                                        std::string(inner), "'"));
    };
    if (absl::StartsWith(inner, "list(")) return no_kind();
    SLUICE_ASSIGN_OR_RETURN(AttrDef element,
                            ParseAttr(absl::StrCat("x:", std::string(inner))));
    if (element.minimum || element.default_value) return no_kind();
    a.kind = element.kind;
    a.allowed_types = element.allowed_types;
    a.allowed_strings = element.allowed_strings;
    rest = rest.substr(close + 1);
  } else if (!rest.empty() && rest[0] == '{') {
    const size_t close = Closing(rest);
    if (close == string_view::npos) return BadSpec(spec, "{ unclosed");
    SLUICE_RETURN_IF_ERROR(ParseSet(rest.substr(0, close + 1), spec, &a));
    rest = rest.substr(close + 1);
  } else {
    size_t end = 0;
    while (end < rest.size() &&
           absl::ascii_isalpha(static_cast<unsigned char>(rest[end])))
      ++end;
    const string_view word = rest.substr(0, end);
    a.kind = AttrKindOf(std::string_view(word.data(), word.size()));
    if (a.kind == AttrKind::kNone) {
      a.kind = AttrKind::kType;
      a.allowed_types = TypeSet(word);
      if (a.allowed_types.empty()) return BadSpec(spec, "unknown kind");
    }
    rest = rest.substr(end);
  }
  rest = StripAsciiWhitespace(rest);
  if (ConsumePrefix(&rest, ">=")) {
    if (!a.is_list && a.kind != AttrKind::kInt)
      return BadSpec(spec, "expected a minimum of an int or of a list's size");
    rest = StripAsciiWhitespace(rest);
    size_t end = 0;
    while (end < rest.size() &&
           (rest[end] == '-' ||
            absl::ascii_isdigit(static_cast<unsigned char>(rest[end]))))
      ++end;
    int64_t v;
    if (!absl::SimpleAtoi(rest.substr(0, end), &v))
      return BadSpec(spec, "bad minimum");
    a.minimum = v;
    rest = StripAsciiWhitespace(rest.substr(end));
  }
  if (ConsumePrefix(&rest, "=")) {
    SLUICE_ASSIGN_OR_RETURN(AttrValue v, ParseDefault(a, rest, spec));
    if (const Status s = CheckAttr(a, v); !s.ok())
      return BadSpec(spec, absl::StrCat("default: ", s.message()));
    a.default_value = std::move(v);
  } else if (!rest.empty()) {
    return BadSpec(spec, absl::StrCat("cannot read '", std::string(rest), "'"));
  }
  return a;
}

// Number of letters added, dropped, changed or swapped with their neighbours,
// ignoring case.
size_t EditDistance(std::string_view a, std::string_view b) {
  auto same = [&](size_t i, size_t j) {
    return absl::ascii_tolower(static_cast<unsigned char>(a[i])) ==
           absl::ascii_tolower(static_cast<unsigned char>(b[j]));
  };
  std::vector<size_t> before(b.size() + 1), last(before), row(before);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min(
          {last[j] + (same(i, j) ? 0 : 1), last[j + 1] + 1, row[j] + 1});
      if (i > 0 && j > 0 && same(i, j - 1) && same(i - 1, j))
        row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row[b.size()];
}

std::string ArgText(const ArgDef& a) {
  std::string type = !a.type_attr.empty()        ? a.type_attr
                     : !a.type_list_attr.empty() ? a.type_list_attr
                                                 : DTypeName(a.type);
  if (!a.number_attr.empty()) type = a.number_attr + " * " + type;
  if (a.is_ref) type = "Ref(" + type + ")";
  return a.name + ": " + type;
}

// Attributes, inputs and outputs have names of their own: clients pass all but
// the outputs by name.
Status CheckNames(const OpDef& def) {
  std::vector<std::string_view> names;
  for (const AttrDef& a : def.attrs) names.push_back(a.name);
  for (const ArgDef& a : def.inputs) names.push_back(a.name);
  for (const ArgDef& a : def.outputs) names.push_back(a.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return OkStatus();
  return BadSpec(def.name,
                 absl::StrCat("expected different names of attributes, inputs "
                              "and outputs, got several '",
                              std::string(*twice), "'"));
}

// Passes take any order of the inputs for the same.
Status CheckCommutative(const OpDef& def) {
  if (!def.commutative || def.inputs.empty()) return OkStatus();
  const auto type = [](const ArgDef& a) {
    return std::tie(a.type, a.type_attr, a.number_attr, a.is_ref);
  };
  const ArgDef &first = def.inputs.front(), &last = def.inputs.back();
  const bool all_inputs = def.inputs.size() == 1;
  const bool two_inputs = def.inputs.size() == 2 && first.number_attr.empty() &&
                          type(first) == type(last);
  if (first.type_list_attr.empty() && last.type_list_attr.empty() &&
      (all_inputs || two_inputs))
    return OkStatus();
  return BadSpec(def.name,
                 "expected two inputs of one type, or N * type, of a "
                 "commutative op, got others");
}

}  // namespace

const AttrDef* OpDef::FindAttr(std::string_view attr) const {
  for (const AttrDef& a : attrs)
    if (a.name == attr) return &a;
  return nullptr;
}

std::string OpDef::Signature() const {
  std::vector<std::string> in, out, at;
  for (const ArgDef& a : inputs) in.push_back(ArgText(a));
  for (const ArgDef& a : outputs) out.push_back(ArgText(a));
  for (const AttrDef& a : attrs) {
    std::string text = a.name + ": " + AttrKindText(a.kind, a.is_list);
    if (a.default_value) text += " = " + a.default_value->ToString();
    at.push_back(text);
  }
  std::string s = absl::StrCat(name, "(", absl::StrJoin(in, ", "), ") -> (",
                               absl::StrJoin(out, ", "), ")");
  if (!at.empty()) absl::StrAppend(&s, "; ", absl::StrJoin(at, ", "));
  return s;
}

Result<OpDef> OpDefBuilder::Finish() const {
  OpDef def = def_;
  for (const char* spec : attrs_) {
    SLUICE_ASSIGN_OR_RETURN(AttrDef a, ParseAttr(spec));
    def.attrs.push_back(std::move(a));
  }
  for (const char* spec : inputs_) {
    SLUICE_ASSIGN_OR_RETURN(ArgDef a, ParseArg(spec, def.attrs));
    def.inputs.push_back(std::move(a));
  }
  for (const char* spec : outputs_) {
    SLUICE_ASSIGN_OR_RETURN(ArgDef a, ParseArg(spec, def.attrs));
    def.outputs.push_back(std::move(a));
  }
  for (const char* const name : host_inputs_) {
    const auto arg =
        std::find_if(def.inputs.begin(), def.inputs.end(),
                     [name](const ArgDef& a) { return a.name == name; });
    if (arg == def.inputs.end())
      return BadSpec(name, "HostInput: there is no input of this name");
    arg->on_host = true;
  }
  SLUICE_RETURN_IF_ERROR(CheckNames(def));
  SLUICE_RETURN_IF_ERROR(CheckCommutative(def));
  return def;
}

namespace {

// What a library that this thread is loading registers; mistakes are reported
// and do not abort.
struct Load {
  std::vector<OpDefBuilder> ops;
  std::vector<std::function<void()>> undo;
  Status failed;

  Status Check() const {
    SLUICE_RETURN_IF_ERROR(failed);
    std::set<std::string> names;
    for (const OpDefBuilder& op : ops) {
      if (!names.insert(op.name()).second ||
          OpRegistry::Global()->Find(op.name()) != nullptr)
        return AlreadyExists("expected names of new ops, got '", op.name(),
                             "', which exists");
      SLUICE_RETURN_IF_ERROR(op.Finish().status());
    }
    if (ops.empty() && undo.empty())
      return InvalidArgument("expected a library that declares ops, got none");
    return OkStatus();
  }
};
thread_local Load* loading = nullptr;

// Opens the library and lets it register what it declares. Null, with the
// reason, if it cannot be opened.
void* OpenLibrary(const char* path, std::string* why) {
  const auto open = [&]() -> void* {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return library;
    const char* const message = dlerror();
    *why = message != nullptr ? message : path;
    return nullptr;
  };
  if (void* const library = open()) return library;
  // One in C may expect the functions of the C API in the process, or need
  // libsluice_c, which is beside libsluice and perhaps not in the search path.
  if (why->find("libsluice_c.so") == why->npos && why->find("TF_") == why->npos)
    return nullptr;
  const std::string first = *why;
  if (OpenOwnLibrary("libsluice_c.so.0") != nullptr)
    if (void* const library = open()) return library;
  *why = first;
  return nullptr;
}

}  // namespace

namespace internal {

bool UndoUnlessLoaded(std::function<void()> undo) {
  if (loading == nullptr) return false;
  loading->undo.push_back(std::move(undo));
  return true;
}

bool FailLoad(const Status& why) {
  if (loading == nullptr) return false;
  if (loading->failed.ok()) loading->failed = why;
  return true;
}

}  // namespace internal

// Declarations are kept as builders until the first look-up: parsing hundreds
// of them would slow down the start of every process.
struct OpRegistry::State {
  std::mutex mu;
  std::map<std::string, OpDefBuilder, std::less<>> pending;  // GUARDED_BY(mu)
  std::map<std::string, OpDef, std::less<>> parsed;  // GUARDED_BY(mu); stable.
  absl::flat_hash_map<std::string_view, const OpDef*> by_name;  // Of `parsed`.
  // Errors in the declarations of a name. GUARDED_BY(mu)
  std::map<std::string, Status, std::less<>> wrong;
};

OpRegistry::OpRegistry() : state_(new State) {}

OpRegistry* OpRegistry::Global() {
  static OpRegistry* registry = new OpRegistry();
  return registry;
}

void OpRegistry::Register(OpDefBuilder builder) {
  if (loading != nullptr) return loading->ops.push_back(std::move(builder));
  std::lock_guard<std::mutex> lock(state_->mu);
  std::string name = builder.name();
  const bool own = builder.own();
  const auto [it, added] = state_->pending.emplace(name, std::move(builder));
  if (added) return;
  if (own && it->second.own()) {
    fprintf(stderr, "op '%s' is declared twice\n", name.c_str());
    std::abort();
  }
  state_->wrong.emplace(
      name,
      AlreadyExists("op '", name,
                    "': expected one declaration, got two; hint: give one "
                    "another name"));
}

const OpDef* OpRegistry::Find(std::string_view name) const {
  std::lock_guard<std::mutex> lock(state_->mu);
  if (auto it = state_->by_name.find(name); it != state_->by_name.end())
    return it->second;
  auto it = state_->pending.find(name);
  if (it == state_->pending.end()) return nullptr;
  Result<OpDef> def = it->second.Finish();
  if (!def.ok() && !it->second.own()) {
    state_->wrong.emplace(std::string(name),
                          InvalidArgument("op '", std::string(name),
                                          "': ", def.status().message()));
    return nullptr;
  }
  if (!def.ok()) {
    fprintf(stderr, "%s: %s\n", std::string(name).c_str(),
            std::string(def.status().message()).c_str());
    std::abort();
  }
  const auto& [own, parsed] =
      *state_->parsed.emplace(std::string(name), *std::move(def)).first;
  state_->by_name.emplace(own, &parsed);
  return &parsed;
}

Result<const OpDef*> OpRegistry::Lookup(std::string_view name) const {
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    if (state_->wrong.empty())
      if (auto it = state_->by_name.find(name); it != state_->by_name.end())
        return it->second;
  }
  const OpDef* const def = Find(name);
  std::vector<std::string> names;
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    if (!state_->wrong.empty())
      if (auto it = state_->wrong.find(name); it != state_->wrong.end())
        return it->second;
    if (def != nullptr) return def;
    for (const auto& [n, b] : state_->pending) names.push_back(n);
  }
  const std::vector<std::string> near = NearestNames(name, names);
  return NotFound("unknown op: expected a registered op, got '",
                  std::string(name), "'",
                  near.empty() ? "" : "; nearest: ", absl::StrJoin(near, ", "));
}

std::vector<const OpDef*> OpRegistry::All() const {
  std::vector<std::string> names;
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    for (const auto& [n, b] : state_->pending) names.push_back(n);
  }
  std::vector<const OpDef*> out;
  for (const std::string& n : names)
    if (const OpDef* def = Find(n)) out.push_back(def);
  return out;
}

Result<std::vector<std::string>> LoadOpLibrary(const std::string& path) {
  static std::mutex mu;
  static auto* libraries = new std::map<void*, std::vector<std::string>>;
  if (loading != nullptr)
    return FailedPrecondition("ops of ", path,
                              ": expected no library that is being loaded on "
                              "this thread, got one");
  std::lock_guard<std::mutex> lock(mu);
  Load load;
  std::string why;
  loading = &load;
  void* const library = OpenLibrary(path.c_str(), &why);
  auto known = libraries->end();
  if (library != nullptr) {
    known = libraries->find(library);
    void* const init =
        known == libraries->end() ? dlsym(library, "TF_InitKernel") : nullptr;
    if (init != nullptr) {
      const Status s = WithoutThrowing("TF_InitKernel", [init] {
        reinterpret_cast<void (*)()>(init)();
        return OkStatus();
      });
      if (!s.ok()) internal::FailLoad(s);
    }
  }
  loading = nullptr;
  if (library == nullptr)
    return NotFound("ops of a library: expected a shared library, got ", why);
  if (known != libraries->end()) {
    dlclose(library);  // (Reference-counted.)
    return known->second;
  }
  if (Status s = load.Check(); !s.ok()) {
    // What was registered points into the library.
    for (auto undo = load.undo.rbegin(); undo != load.undo.rend(); ++undo)
      (*undo)();
    load.undo.clear();
    load.ops.clear();
    dlclose(library);
    return Annotate(s, "ops of " + path);
  }
  std::vector<std::string>& names = (*libraries)[library];
  for (OpDefBuilder& op : load.ops) {
    names.push_back(op.name());
    OpRegistry::Global()->Register(std::move(op));
  }
  return names;
}

std::vector<std::string> NearestNames(
    std::string_view name, const std::vector<std::string>& candidates,
    size_t max_names) {
  std::vector<std::pair<size_t, std::string>> scored;
  for (const std::string& c : candidates) {
    // A third of the letters; for a single letter, only the other case is near.
    const size_t limit = (std::max(name.size(), c.size()) + 1) / 3;
    if (c.size() > name.size() + limit || name.size() > c.size() + limit)
      continue;
    const size_t d = EditDistance(name, c);
    if (d <= limit) scored.emplace_back(d, c);
  }
  std::sort(scored.begin(), scored.end());
  std::vector<std::string> out;
  for (size_t i = 0; i < scored.size() && i < max_names; ++i)
    out.push_back(scored[i].second);
  return out;
}

}  // namespace sluice
