#include "graph/attr.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "graph/attr_kind.h"

namespace sluice {
namespace {

std::string Text(int64_t v) { return absl::StrCat(v); }
std::string Text(float v) { return absl::StrCat(v); }
std::string Text(bool v) { return v ? "true" : "false"; }
std::string Text(const std::string& v) {
  return absl::StrCat("'", absl::CEscape(v), "'");
}
std::string Text(DType v) { return DTypeName(v); }
std::string Text(const PartialShape& v) { return v.ToString(); }
std::string Text(const Tensor& v) { return v.ToString(); }
std::string Text(const FunctionRef& v) { return v.name; }

struct Printer {
  std::string operator()(std::monostate) const { return "<none>"; }
  std::string operator()(AttrValue::EmptyList) const { return "[]"; }
  std::string operator()(const AttrValue::Placeholder& p) const {
    return "$" + p.name;
  }
  template <typename T>
  std::string operator()(const std::vector<T>& list) const {
    std::vector<std::string> parts;
    for (const auto& v : list) parts.push_back(Text(static_cast<T>(v)));
    return absl::StrCat("[", absl::StrJoin(parts, ","), "]");
  }
  template <typename T>
  std::string operator()(const T& v) const {
    return Text(v);
  }
};

struct Equal {
  bool operator()(std::monostate, std::monostate) const { return true; }
  bool operator()(AttrValue::EmptyList, AttrValue::EmptyList) const {
    return true;
  }
  bool operator()(const AttrValue::Placeholder& a,
                  const AttrValue::Placeholder& b) const {
    return a.name == b.name;
  }
  bool operator()(const Tensor& a, const Tensor& b) const {
    return a.Identical(b);
  }
  bool operator()(const AttrValue::Tensors& a,
                  const AttrValue::Tensors& b) const {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (!a[i].Identical(b[i])) return false;
    return true;
  }
  template <typename T>
  bool operator()(const T& a, const T& b) const {
    return a == b;
  }
  template <typename T, typename U>
  bool operator()(const T&, const U&) const {
    return false;
  }
};

}  // namespace

bool FunctionRef::operator==(const FunctionRef& o) const {
  static const AttrMap kNone;
  return name == o.name &&
         (attrs ? *attrs : kNone) == (o.attrs ? *o.attrs : kNone);
}

AttrKind AttrValue::kind() const {
  switch (v_.index()) {
    case 1:
    case 9:
      return AttrKind::kInt;
    case 2:
    case 10:
      return AttrKind::kFloat;
    case 3:
    case 11:
      return AttrKind::kBool;
    case 4:
    case 12:
      return AttrKind::kString;
    case 5:
    case 13:
      return AttrKind::kType;
    case 6:
    case 14:
      return AttrKind::kShape;
    case 7:
    case 15:
      return AttrKind::kTensor;
    case 8:
    case 16:
      return AttrKind::kFunction;
    default:
      return AttrKind::kNone;
  }
}

bool AttrValue::is_list() const { return v_.index() >= 9 && v_.index() <= 17; }

bool AttrValue::operator==(const AttrValue& o) const {
  return std::visit(Equal(), v_, o.v_);
}

std::string AttrValue::ToString() const { return std::visit(Printer(), v_); }

// By AttrKind.
constexpr std::string_view kKindNames[] = {
    "", "int", "float", "bool", "string", "type", "shape", "tensor", "func"};

std::string AttrKindText(AttrKind kind, bool is_list) {
  const std::string name(kKindNames[static_cast<size_t>(kind)]);
  return is_list ? "list(" + name + ")" : name;
}

AttrKind AttrKindOf(std::string_view name) {
  for (size_t i = 1; i < std::size(kKindNames); ++i)
    if (name == kKindNames[i]) return static_cast<AttrKind>(i);
  return AttrKind::kNone;
}

AttrValue EmptyListOf(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt:
      return AttrValue::Ints();
    case AttrKind::kFloat:
      return AttrValue::Floats();
    case AttrKind::kBool:
      return AttrValue::Bools();
    case AttrKind::kString:
      return AttrValue::Strings();
    case AttrKind::kType:
      return AttrValue::Types();
    case AttrKind::kShape:
      return AttrValue::Shapes();
    case AttrKind::kTensor:
      return AttrValue::Tensors();
    case AttrKind::kFunction:
      return AttrValue::Functions();
    case AttrKind::kNone:
      break;
  }
  return AttrValue::EmptyList();
}

}  // namespace sluice
