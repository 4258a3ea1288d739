#include "graph/graphdef_op.h"

#include "graph/attr_kind.h"
#include "graph/graphdef_messages.h"

namespace sluice {
namespace {

void ArgToProto(const ArgDef& arg, proto::OpDef::ArgDef* p) {
  p->set_name(arg.name);
  p->set_type(static_cast<proto::DataType>(arg.type));
  p->set_type_attr(arg.type_attr);
  p->set_number_attr(arg.number_attr);
  p->set_type_list_attr(arg.type_list_attr);
  p->set_is_ref(arg.is_ref);
}

Status AttrDefToProto(const AttrDef& def, proto::OpDef::AttrDef* p) {
  p->set_name(def.name);
  p->set_type(AttrKindText(def.kind, def.is_list));
  if (def.default_value)
    SLUICE_RETURN_IF_ERROR(
        AttrToProto(*def.default_value, p->mutable_default_value()));
  if (def.minimum) {
    p->set_has_minimum(true);
    p->set_minimum(*def.minimum);
  }
  for (const DType t : def.allowed_types)
    p->mutable_allowed_values()->mutable_list()->add_type(
        static_cast<proto::DataType>(t));
  for (const std::string& s : def.allowed_strings)
    p->mutable_allowed_values()->mutable_list()->add_s(s);
  return OkStatus();
}

}  // namespace

Result<AttrValue> ParseAttrValue(std::string_view bytes) {
  proto::AttrValue p;
  if (bytes.size() > INT32_MAX ||
      !p.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return InvalidArgument("AttrValue: expected a serialised message, got ",
                           bytes.size(), " malformed bytes");
  TensorProtoLimits limits;
  return AttrFromProto(p, &limits);
}

Result<std::string> SerializeAttrValue(const AttrValue& value) {
  proto::AttrValue p;
  SLUICE_RETURN_IF_ERROR(AttrToProto(value, &p));
  return SerializeProto(p);
}

Result<std::string> ExportOpDef(const OpDef& op) {
  proto::OpDef p;
  p.set_name(op.name);
  for (const ArgDef& in : op.inputs) ArgToProto(in, p.add_input_arg());
  for (const ArgDef& out : op.outputs) ArgToProto(out, p.add_output_arg());
  for (const AttrDef& attr : op.attrs)
    SLUICE_RETURN_IF_ERROR(AttrDefToProto(attr, p.add_attr()));
  p.set_summary(op.doc);
  p.set_is_stateful(op.stateful);
  p.set_is_commutative(op.commutative);
  p.set_allows_uninitialized_input(op.allows_uninitialized_input);
  return SerializeProto(p);
}

}  // namespace sluice
