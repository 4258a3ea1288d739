#include <memory>
#include <utility>

#include "base/wire.h"
#include "graph/graphdef_messages.h"
#include "graph/graphdef_view.h"

namespace sluice {
namespace {

Result<FunctionRef> FunctionFromProto(const proto::NameAttrList& p,
                                      TensorProtoLimits* limits) {
  FunctionRef f{p.name(), nullptr};
  if (p.attr().empty()) return f;
  auto attrs = std::make_shared<AttrMap>();
  for (const auto& [name, value] : p.attr()) {
    Result<AttrValue> v = AttrFromProto(value, limits);
    if (!v.ok())
      return Annotate(v.status(),
                      absl::StrCat("function '", p.name(), "', '", name, "'"));
    attrs->emplace(name, *std::move(v));
  }
  f.attrs = std::move(attrs);
  return f;
}

Status FunctionToProto(const FunctionRef& f, proto::NameAttrList* p) {
  p->set_name(f.name);
  if (f.attrs == nullptr) return OkStatus();
  for (const auto& [name, value] : *f.attrs)
    SLUICE_RETURN_IF_ERROR(AttrToProto(value, &(*p->mutable_attr())[name]));
  return OkStatus();
}

// Accepts DT_INVALID: some attributes use it for "no type".
Result<DType> TypeFromProto(int value) {
  if (value == 0) return DType::kInvalid;
  return DTypeFromProto(value);
}

// A list whose elements need a conversion that may fail.
template <typename T, typename Field, typename Convert>
Result<AttrValue> ListFrom(const Field& field, const Convert& convert) {
  std::vector<T> out;
  out.reserve(static_cast<size_t>(field.size()));
  for (const auto& element : field) {
    Result<T> v = convert(element);
    if (!v.ok())
      return Annotate(v.status(),
                      absl::StrCat("element ", out.size(), " of a list"));
    out.push_back(*std::move(v));
  }
  return AttrValue(std::move(out));
}

Result<AttrValue> ListFromProto(const proto::AttrValue::ListValue& p,
                                TensorProtoLimits* limits) {
  const int sizes[] = {p.s_size(),      p.i_size(),    p.f_size(),
                       p.b_size(),      p.type_size(), p.shape_size(),
                       p.tensor_size(), p.func_size()};
  int kinds = 0;
  for (int size : sizes) kinds += size > 0 ? 1 : 0;
  if (kinds == 0) return AttrValue(AttrValue::EmptyList());
  if (kinds > 1)
    return InvalidArgument("list: expected elements of one kind, got ", kinds,
                           " kinds");
  if (p.s_size() > 0)
    return AttrValue(AttrValue::Strings(p.s().begin(), p.s().end()));
  if (p.i_size() > 0)
    return AttrValue(AttrValue::Ints(p.i().begin(), p.i().end()));
  if (p.f_size() > 0)
    return AttrValue(AttrValue::Floats(p.f().begin(), p.f().end()));
  if (p.b_size() > 0)
    return AttrValue(AttrValue::Bools(p.b().begin(), p.b().end()));
  if (p.type_size() > 0) return ListFrom<DType>(p.type(), TypeFromProto);
  if (p.shape_size() > 0)
    return ListFrom<PartialShape>(p.shape(), ShapeFromProto);
  if (p.tensor_size() > 0)
    return ListFrom<Tensor>(p.tensor(), [&](const proto::TensorProto& t) {
      return TensorFromProto(t, limits);
    });
  return ListFrom<FunctionRef>(p.func(), [&](const proto::NameAttrList& f) {
    return FunctionFromProto(f, limits);
  });
}

// Writes one alternative of AttrValue::Value each.
struct Writer {
  proto::AttrValue* p;

  Status operator()(std::monostate) const { return OkStatus(); }
  Status operator()(int64_t v) const { return p->set_i(v), OkStatus(); }
  Status operator()(float v) const { return p->set_f(v), OkStatus(); }
  Status operator()(bool v) const { return p->set_b(v), OkStatus(); }
  Status operator()(const std::string& v) const {
    return p->set_s(v), OkStatus();
  }
  Status operator()(DType v) const {
    p->set_type(static_cast<proto::DataType>(v));
    return OkStatus();
  }
  Status operator()(const PartialShape& v) const {
    ShapeToProto(v, p->mutable_shape());
    return OkStatus();
  }
  Status operator()(const Tensor& v) const {
    return TensorToProto(v, p->mutable_tensor());
  }
  Status operator()(const FunctionRef& v) const {
    return FunctionToProto(v, p->mutable_func());
  }
  Status operator()(AttrValue::EmptyList) const {
    p->mutable_list();
    return OkStatus();
  }
  Status operator()(const AttrValue::Placeholder& v) const {
    return p->set_placeholder(v.name), OkStatus();
  }
  template <typename T>
  Status operator()(const std::vector<T>& list) const {
    proto::AttrValue::ListValue* out = p->mutable_list();
    for (const auto& v : list) SLUICE_RETURN_IF_ERROR(Add(v, out));
    return OkStatus();
  }

  using List = proto::AttrValue::ListValue;
  static Status Add(int64_t v, List* out) { return out->add_i(v), OkStatus(); }
  static Status Add(float v, List* out) { return out->add_f(v), OkStatus(); }
  static Status Add(bool v, List* out) { return out->add_b(v), OkStatus(); }
  static Status Add(const std::string& v, List* out) {
    return out->add_s(v), OkStatus();
  }
  static Status Add(DType v, List* out) {
    out->add_type(static_cast<proto::DataType>(v));
    return OkStatus();
  }
  static Status Add(const PartialShape& v, List* out) {
    ShapeToProto(v, out->add_shape());
    return OkStatus();
  }
  static Status Add(const Tensor& v, List* out) {
    return TensorToProto(v, out->add_tensor());
  }
  static Status Add(const FunctionRef& v, List* out) {
    return FunctionToProto(v, out->add_func());
  }
};

}  // namespace

Result<AttrValue> AttrFromProto(const proto::AttrValue& p,
                                TensorProtoLimits* limits) {
  switch (p.value_case()) {
    case proto::AttrValue::kS:
      return AttrValue(p.s());
    case proto::AttrValue::kI:
      return AttrValue(static_cast<int64_t>(p.i()));
    case proto::AttrValue::kF:
      return AttrValue(p.f());
    case proto::AttrValue::kB:
      return AttrValue(p.b());
    case proto::AttrValue::kType: {
      SLUICE_ASSIGN_OR_RETURN(const DType t, TypeFromProto(p.type()));
      return AttrValue(t);
    }
    case proto::AttrValue::kShape: {
      SLUICE_ASSIGN_OR_RETURN(PartialShape s, ShapeFromProto(p.shape()));
      return AttrValue(std::move(s));
    }
    case proto::AttrValue::kTensor: {
      SLUICE_ASSIGN_OR_RETURN(Tensor t, TensorFromProto(p.tensor(), limits));
      return AttrValue(std::move(t));
    }
    case proto::AttrValue::kFunc: {
      SLUICE_ASSIGN_OR_RETURN(FunctionRef f,
                              FunctionFromProto(p.func(), limits));
      return AttrValue(std::move(f));
    }
    case proto::AttrValue::kList:
      return ListFromProto(p.list(), limits);
    case proto::AttrValue::kPlaceholder:
      return AttrValue(AttrValue::Placeholder{p.placeholder()});
    case proto::AttrValue::VALUE_NOT_SET:
      break;
  }
  return AttrValue();
}

Result<AttrValue> SimpleAttr(std::string_view bytes) {
  FieldReader r(bytes);
  WireTag tag;
  uint64_t number = 0;
  (void)r.ReadTag(&tag);
  if (tag.field == proto::AttrValue::kSFieldNumber) {
    std::string_view text;
    (void)r.ReadBytes(&text);
    return AttrValue(std::string(text));
  }
  if (tag.field == proto::AttrValue::kFFieldNumber) {
    float f = 0;
    (void)r.ReadFixed(&f);
    return AttrValue(f);
  }
  (void)r.ReadVarint(&number);
  if (tag.field == proto::AttrValue::kIFieldNumber)
    return AttrValue(static_cast<int64_t>(number));
  if (tag.field == proto::AttrValue::kBFieldNumber)
    return AttrValue(number != 0);
  SLUICE_ASSIGN_OR_RETURN(const DType t,
                          TypeFromProto(static_cast<int>(number)));
  return AttrValue(t);
}

Status AttrToProto(const AttrValue& v, proto::AttrValue* p) {
  p->Clear();
  return std::visit(Writer{p}, v.value());
}

}  // namespace sluice
