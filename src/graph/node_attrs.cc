#include "graph/node_attrs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "graph/attr_kind.h"

namespace sluice {

AttrValue Coerce(const AttrDef& def, AttrValue v) {
  if (def.is_list && v.get<AttrValue::EmptyList>())
    return EmptyListOf(def.kind);
  if (!def.is_list && def.kind == AttrKind::kFloat)
    if (const int64_t* i = v.get<int64_t>())
      return AttrValue(static_cast<float>(*i));
  if (def.is_list && def.kind == AttrKind::kFloat)
    if (const auto* ints = v.get<AttrValue::Ints>())
      return AttrValue(AttrValue::Floats(ints->begin(), ints->end()));
  return v;
}

Status CheckAttr(const AttrDef& def, const AttrValue& v) {
  if (v.kind() != def.kind || v.is_list() != def.is_list)
    return InvalidArgument("attribute '", def.name, "': expected ",
                           AttrKindText(def.kind, def.is_list), ", got ",
                           v.ToString());
  auto check_type = [&](DType t) {
    if (t != DType::kInvalid && !IsValidDType(static_cast<int>(t)))
      return InvalidArgument("attribute '", def.name,
                             "': expected a type, got number ",
                             static_cast<int>(t));
    if (!def.allowed_types.empty() &&
        std::find(def.allowed_types.begin(), def.allowed_types.end(),
                  RemoveRef(t)) == def.allowed_types.end()) {
      std::vector<std::string> names;
      for (DType a : def.allowed_types) names.push_back(DTypeName(a));
      return InvalidArgument("attribute '", def.name, "': expected one of {",
                             absl::StrJoin(names, ","), "}, got ",
                             DTypeName(t));
    }
    return OkStatus();
  };
  auto check_string = [&](const std::string& s) {
    if (!def.allowed_strings.empty() &&
        std::find(def.allowed_strings.begin(), def.allowed_strings.end(), s) ==
            def.allowed_strings.end())
      return InvalidArgument("attribute '", def.name, "': expected one of {",
                             absl::StrJoin(def.allowed_strings, ","),
                             "}, got '", s, "'");
    return OkStatus();
  };
  // (The most frequent kind.)
  if (const DType* t = v.get<DType>()) return check_type(*t);
  const auto check_valid = [&](const auto& x) {
    return Annotate(x.status(), absl::StrCat("attribute '", def.name, "'"));
  };
  if (const auto* s = v.get<PartialShape>())
    SLUICE_RETURN_IF_ERROR(check_valid(*s));
  if (const auto* ss = v.get<AttrValue::Shapes>())
    for (const PartialShape& s : *ss) SLUICE_RETURN_IF_ERROR(check_valid(s));
  if (const auto* t = v.get<Tensor>()) SLUICE_RETURN_IF_ERROR(check_valid(*t));
  if (const auto* ts = v.get<AttrValue::Tensors>())
    for (const Tensor& t : *ts) SLUICE_RETURN_IF_ERROR(check_valid(t));
  if (const auto* ts = v.get<AttrValue::Types>())
    for (DType t : *ts) SLUICE_RETURN_IF_ERROR(check_type(t));
  if (const auto* s = v.get<std::string>())
    SLUICE_RETURN_IF_ERROR(check_string(*s));
  if (const auto* ss = v.get<AttrValue::Strings>())
    for (const std::string& s : *ss) SLUICE_RETURN_IF_ERROR(check_string(s));
  if (def.minimum) {
    const int64_t size = std::visit(
        [](const auto& x) -> int64_t {
          using X = std::decay_t<decltype(x)>;
          if constexpr (std::is_same_v<X, int64_t>)
            return x;
          else if constexpr (requires { x.size(); } &&
                             !std::is_same_v<X, std::string>)
            return static_cast<int64_t>(x.size());
          else
            return INT64_MAX;
        },
        v.value());
    if (size < *def.minimum)
      return InvalidArgument("attribute '", def.name, "': expected at least ",
                             *def.minimum, ", got ", size);
  }
  return OkStatus();
}

Status CheckPlaceholder(const OpDef& op, const AttrDef& def,
                        const AttrValue::Placeholder& v) {
  if (v.name.empty())
    return InvalidArgument("attribute '", def.name,
                           "': expected the name of a function's attribute, "
                           "got ''");
  if (def.kind == AttrKind::kFunction)
    return InvalidArgument("attribute '", def.name,
                           "': expected a function, got the placeholder $",
                           v.name);
  for (const auto* args : {&op.inputs, &op.outputs})
    for (const ArgDef& arg : *args)
      for (const std::string* attr :
           {&arg.type_attr, &arg.number_attr, &arg.type_list_attr})
        if (*attr == def.name)
          return InvalidArgument(
              "attribute '", def.name,
              "': expected a value, since types of inputs or outputs depend on "
              "it, got the placeholder $",
              v.name);
  return OkStatus();
}

Result<int64_t> ArgCount(const ArgDef& arg, const AttrMap& attrs) {
  if (!arg.number_attr.empty()) {
    auto it = attrs.find(arg.number_attr);
    const int64_t* n = it == attrs.end() ? nullptr : it->second.get<int64_t>();
    if (n == nullptr)
      return InvalidArgument("attribute '", arg.number_attr,
                             "': expected an int, got none");
    if (*n < 0 || *n > (1 << 24))
      return InvalidArgument("attribute '", arg.number_attr,
                             "': expected 0 to 2^24, got ", *n);
    return *n;
  }
  if (!arg.type_list_attr.empty()) {
    auto it = attrs.find(arg.type_list_attr);
    const auto* ts =
        it == attrs.end() ? nullptr : it->second.get<AttrValue::Types>();
    if (ts == nullptr)
      return InvalidArgument("attribute '", arg.type_list_attr,
                             "': expected a list of types, got none");
    return static_cast<int64_t>(ts->size());
  }
  return 1;
}

DType ArgType(const ArgDef& arg, const AttrMap& attrs, int64_t k) {
  DType t = arg.type;
  if (!arg.type_attr.empty())
    t = *attrs.find(arg.type_attr)->second.get<DType>();
  else if (!arg.type_list_attr.empty())
    t = (*attrs.find(arg.type_list_attr)
              ->second.get<AttrValue::Types>())[static_cast<size_t>(k)];
  return arg.is_ref ? MakeRef(t) : t;
}

Status InferAttrs(const OpDef& op, std::span<const DType> in, AttrMap& attrs) {
  const auto total = static_cast<int64_t>(in.size());
  // At most one argument has unknown length: it gets the remaining inputs.
  int64_t known = 0;
  int unknown = 0;
  for (const ArgDef& a : op.inputs) {
    const std::string& attr =
        !a.number_attr.empty() ? a.number_attr : a.type_list_attr;
    if (attr.empty() || attrs.count(attr)) {
      SLUICE_ASSIGN_OR_RETURN(int64_t n, ArgCount(a, attrs));
      known += n;
    } else {
      ++unknown;
    }
  }
  int64_t pos = 0;
  const std::string* known_type = nullptr;  // An attribute that has a value.
  for (const ArgDef& a : op.inputs) {
    int64_t n = 1;
    const std::string& attr =
        !a.number_attr.empty() ? a.number_attr : a.type_list_attr;
    if (!attr.empty()) {
      if (attrs.count(attr)) {
        SLUICE_ASSIGN_OR_RETURN(n, ArgCount(a, attrs));
      } else {
        // Several arguments may share one count ("N").
        int sharing = 0;
        for (const ArgDef& b : op.inputs)
          if (b.number_attr == attr || b.type_list_attr == attr) ++sharing;
        if (unknown > sharing || (total - known) % sharing != 0 ||
            total < known)
          return InvalidArgument("inputs: expected attribute '", attr,
                                 "' to give their number, got ", total,
                                 " inputs");
        n = (total - known) / sharing;
        if (!a.number_attr.empty()) attrs[attr] = AttrValue(n);
      }
    }
    if (pos + n > total)
      return InvalidArgument("inputs: expected at least ", pos + n, " for ",
                             op.Signature(), ", got ", total);
    if (!a.type_attr.empty() && n > 0 &&
        (known_type == nullptr || *known_type != a.type_attr)) {
      known_type = &a.type_attr;
      attrs.try_emplace(a.type_attr, RemoveRef(in[static_cast<size_t>(pos)]));
    }
    if (!a.type_list_attr.empty() && !attrs.count(a.type_list_attr)) {
      AttrValue::Types types;
      for (int64_t k = 0; k < n; ++k)
        types.push_back(RemoveRef(in[static_cast<size_t>(pos + k)]));
      attrs[a.type_list_attr] = AttrValue(std::move(types));
    }
    pos += n;
  }
  if (pos != total)
    return InvalidArgument("inputs: expected ", pos, " for ", op.Signature(),
                           ", got ", total);
  return OkStatus();
}

}  // namespace sluice
