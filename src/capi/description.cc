// Operations that are being described (TF_OperationDescription).
#include <algorithm>
#include <cstring>
#include <set>

#include "capi/handles.h"
#include "graph/any_names.h"
#include "graph/function.h"
#include "graph/graphdef_messages.h"
#include "graph/graphdef_op.h"

// What a node will be, and the first mistake so far.
struct TF_OperationDescription {
  TF_Graph* graph = nullptr;
  sluice::NodeSpec spec;
  // Names to be near: "loc:@x". Ends up as the attribute "_class".
  std::set<std::string> colocated;
  sluice::Status mistake;
  void Note(const sluice::Status& s) {
    if (mistake.ok()) mistake = s;
  }
};

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

namespace {

constexpr std::string_view kColocation = "_class";

// Replaces what was given before, as in TensorFlow.
Status SetColocation(TF_OperationDescription* desc, const AttrValue& v) {
  desc->colocated.clear();
  if (const auto* one = v.get<std::string>()) {
    desc->colocated.insert(*one);
  } else if (const auto* list = v.get<AttrValue::Strings>()) {
    desc->colocated.insert(list->begin(), list->end());
  } else if (v.kind() != AttrKind::kNone) {
    return InvalidArgument("expected a list of strings, got ", v.ToString());
  }
  return OkStatus();
}

// Sets an attribute; `value` returns it, or an error.
template <typename Fn>
Status SetAttribute(TF_OperationDescription* desc, const char* name,
                    Fn&& value) {
  SLUICE_RETURN_IF_ERROR(Given(desc, "description"));
  Status s = WithoutThrowing("attribute", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(name, "name of an attribute"));
    Result<AttrValue> v = value();
    if (!v.ok())
      return Annotate(v.status(), absl::StrCat("attribute '", name, "'"));
    if (name == kColocation) return SetColocation(desc, *v);
    desc->spec.attrs[name] = *std::move(v);
    return OkStatus();
  });
  desc->Note(s);
  return s;
}

// The elements of an array as a vector of others.
template <typename To, typename From, typename Fn>
Result<AttrValue> ListOf(const From* values, int n, Fn&& convert) {
  SLUICE_RETURN_IF_ERROR(GivenArray(values, n, "values"));
  std::vector<To> list;
  for (int i = 0; i < n; ++i) list.push_back(convert(values[i]));
  return AttrValue(std::move(list));
}

Result<PartialShape> ParseShape(const void* bytes, size_t len) {
  if (len > 0) SLUICE_RETURN_IF_ERROR(Given(bytes, "shape"));
  proto::TensorShapeProto p;
  SLUICE_RETURN_IF_ERROR(ParseMessage({static_cast<const char*>(bytes), len},
                                      "TensorShapeProto", &p));
  return ShapeFromProto(p);
}

// A constant: it must not change with the caller's memory.
Result<Tensor> OwnCopy(const TF_Tensor* value) {
  SLUICE_ASSIGN_OR_RETURN(Tensor t, sluice::capi::ToTensor(value));
  return t.Clone();
}

Status AppendInput(TF_OperationDescription* desc, TF_Output input) {
  SLUICE_RETURN_IF_ERROR(
      CheckOutput(*desc->graph, input,
                  absl::StrCat("input ", desc->spec.inputs.size()).c_str()));
  desc->spec.inputs.push_back(sluice::capi::FromC(input));
  return OkStatus();
}

// Begins with what TensorFlow says, which its programs look for, if one of the
// first inputs has another type than the op declares.
Status WithInputsOfOtherTypes(const Status& s, const OpDef& op,
                              const std::string& name,
                              const std::vector<Output>& inputs) {
  for (size_t i = 0; i < std::min(op.inputs.size(), inputs.size()); ++i) {
    const ArgDef& arg = op.inputs[i];
    if (!arg.number_attr.empty() || !arg.type_list_attr.empty()) break;
    const DType got = RemoveRef(inputs[i].dtype());
    if (!arg.type_attr.empty() || got == arg.type) continue;
    return Status(
        s.code(),
        absl::StrCat("Input '", arg.name, "' passed ", DTypeName(got),
                     " expected ", DTypeName(arg.type),
                     " while building NodeDef '", name, "': ", s.message()));
  }
  return s;
}

}  // namespace

extern "C" {

TF_OperationDescription* TF_NewOperation(TF_Graph* graph, const char* op_type,
                                         const char* oper_name) {
  auto* desc = new TF_OperationDescription;
  desc->graph = graph;
  desc->Note(Given(graph, "graph"));
  desc->Note(Given(op_type, "name of an op"));
  desc->Note(Given(oper_name, "name of an operation"));
  desc->spec.op = View(op_type);
  desc->spec.name = View(oper_name);
  if (desc->spec.name.empty())
    desc->Note(InvalidArgument("name of an operation: expected one, got ''"));
  return desc;
}

void TF_SetDevice(TF_OperationDescription* desc, const char* device) {
  if (desc != nullptr) desc->spec.device = View(device);
}

void TF_AddInput(TF_OperationDescription* desc, TF_Output input) {
  if (desc == nullptr || desc->graph == nullptr) return;
  desc->Note(AppendInput(desc, input));
}

void TF_AddInputList(TF_OperationDescription* desc, const TF_Output* inputs,
                     int num_inputs) {
  if (desc == nullptr || desc->graph == nullptr) return;
  const Status given = GivenArray(inputs, num_inputs, "inputs");
  desc->Note(given);
  for (int i = 0; given.ok() && i < num_inputs; ++i)
    desc->Note(AppendInput(desc, inputs[i]));
}

void TF_AddControlInput(TF_OperationDescription* desc, TF_Operation* input) {
  if (desc == nullptr) return;
  const Status given = Given(input, "control input");
  desc->Note(given);
  if (given.ok()) desc->spec.control_inputs.push_back(FromC(input));
}

void TF_ColocateWith(TF_OperationDescription* desc, TF_Operation* op) {
  if (desc == nullptr) return;
  const Status given = Given(op, "operation to colocate with");
  desc->Note(given);
  if (given.ok())
    desc->colocated.insert(absl::StrCat("loc:@", FromC(op)->name()));
}

void TF_SetAttrString(TF_OperationDescription* desc, const char* attr_name,
                      const void* value, size_t length) {
  (void)SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
    if (length > 0) SLUICE_RETURN_IF_ERROR(Given(value, "value"));
    return AttrValue(std::string(static_cast<const char*>(value), length));
  });
}

void TF_SetAttrStringList(TF_OperationDescription* desc, const char* attr_name,
                          const void* const* values, const size_t* lengths,
                          int num_values) {
  (void)SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
    SLUICE_RETURN_IF_ERROR(GivenArray(values, num_values, "values"));
    SLUICE_RETURN_IF_ERROR(GivenArray(lengths, num_values, "lengths"));
    AttrValue::Strings list;
    for (int i = 0; i < num_values; ++i) {
      if (lengths[i] > 0) SLUICE_RETURN_IF_ERROR(Given(values[i], "value"));
      list.emplace_back(static_cast<const char*>(values[i]), lengths[i]);
    }
    return AttrValue(std::move(list));
  });
}

void TF_SetAttrInt(TF_OperationDescription* desc, const char* attr_name,
                   int64_t value) {
  (void)SetAttribute(desc, attr_name,
                     [&]() -> Result<AttrValue> { return AttrValue(value); });
}

void TF_SetAttrIntList(TF_OperationDescription* desc, const char* attr_name,
                       const int64_t* values, int num_values) {
  (void)SetAttribute(desc, attr_name, [&] {
    return ListOf<int64_t>(values, num_values, [](int64_t v) { return v; });
  });
}

void TF_SetAttrFloat(TF_OperationDescription* desc, const char* attr_name,
                     float value) {
  (void)SetAttribute(desc, attr_name,
                     [&]() -> Result<AttrValue> { return AttrValue(value); });
}

void TF_SetAttrFloatList(TF_OperationDescription* desc, const char* attr_name,
                         const float* values, int num_values) {
  (void)SetAttribute(desc, attr_name, [&] {
    return ListOf<float>(values, num_values, [](float v) { return v; });
  });
}

void TF_SetAttrBool(TF_OperationDescription* desc, const char* attr_name,
                    unsigned char value) {
  (void)SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
    return AttrValue(value != 0);
  });
}

void TF_SetAttrBoolList(TF_OperationDescription* desc, const char* attr_name,
                        const unsigned char* values, int num_values) {
  (void)SetAttribute(desc, attr_name, [&] {
    return ListOf<bool>(values, num_values,
                        [](unsigned char v) { return v != 0; });
  });
}

void TF_SetAttrType(TF_OperationDescription* desc, const char* attr_name,
                    TF_DataType value) {
  (void)SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
    return AttrValue(FromC(value));
  });
}

void TF_SetAttrTypeList(TF_OperationDescription* desc, const char* attr_name,
                        const TF_DataType* values, int num_values) {
  (void)SetAttribute(desc, attr_name, [&] {
    return ListOf<DType>(values, num_values,
                         [](TF_DataType v) { return FromC(v); });
  });
}

void TF_SetAttrPlaceholder(TF_OperationDescription* desc, const char* attr_name,
                           const char* placeholder) {
  (void)SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
    SLUICE_RETURN_IF_ERROR(Given(placeholder, "placeholder"));
    return AttrValue(AttrValue::Placeholder{placeholder});
  });
}

void TF_SetAttrFuncName(TF_OperationDescription* desc, const char* attr_name,
                        const char* value, size_t length) {
  (void)SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
    if (length > 0) SLUICE_RETURN_IF_ERROR(Given(value, "value"));
    return AttrValue(FunctionRef{std::string(value, length), nullptr});
  });
}

void TF_SetAttrShape(TF_OperationDescription* desc, const char* attr_name,
                     const int64_t* dims, int num_dims) {
  (void)SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
    SLUICE_ASSIGN_OR_RETURN(PartialShape s, PartialShapeOf(dims, num_dims));
    return AttrValue(std::move(s));
  });
}

void TF_SetAttrShapeList(TF_OperationDescription* desc, const char* attr_name,
                         const int64_t* const* dims, const int* num_dims,
                         int num_shapes) {
  (void)SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
    SLUICE_RETURN_IF_ERROR(GivenArray(dims, num_shapes, "dims"));
    SLUICE_RETURN_IF_ERROR(GivenArray(num_dims, num_shapes, "num_dims"));
    AttrValue::Shapes list;
    for (int i = 0; i < num_shapes; ++i) {
      SLUICE_ASSIGN_OR_RETURN(list.emplace_back(),
                              PartialShapeOf(dims[i], num_dims[i]));
    }
    return AttrValue(std::move(list));
  });
}

void TF_SetAttrTensorShapeProto(TF_OperationDescription* desc,
                                const char* attr_name, const void* proto,
                                size_t proto_len, TF_Status* status) {
  SetStatus(status, SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
              SLUICE_ASSIGN_OR_RETURN(PartialShape s,
                                      ParseShape(proto, proto_len));
              return AttrValue(std::move(s));
            }));
}

void TF_SetAttrTensorShapeProtoList(TF_OperationDescription* desc,
                                    const char* attr_name,
                                    const void* const* protos,
                                    const size_t* proto_lens, int num_shapes,
                                    TF_Status* status) {
  SetStatus(
      status, SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
        SLUICE_RETURN_IF_ERROR(GivenArray(protos, num_shapes, "protos"));
        SLUICE_RETURN_IF_ERROR(GivenArray(proto_lens, num_shapes, "lengths"));
        AttrValue::Shapes list;
        for (int i = 0; i < num_shapes; ++i) {
          SLUICE_ASSIGN_OR_RETURN(list.emplace_back(),
                                  ParseShape(protos[i], proto_lens[i]));
        }
        return AttrValue(std::move(list));
      }));
}

void TF_SetAttrTensor(TF_OperationDescription* desc, const char* attr_name,
                      TF_Tensor* value, TF_Status* status) {
  SetStatus(status, SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
              SLUICE_ASSIGN_OR_RETURN(Tensor t, OwnCopy(value));
              return AttrValue(std::move(t));
            }));
}

void TF_SetAttrTensorList(TF_OperationDescription* desc, const char* attr_name,
                          TF_Tensor* const* values, int num_values,
                          TF_Status* status) {
  SetStatus(status, SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
              SLUICE_RETURN_IF_ERROR(GivenArray(values, num_values, "values"));
              AttrValue::Tensors list;
              for (int i = 0; i < num_values; ++i) {
                SLUICE_ASSIGN_OR_RETURN(list.emplace_back(),
                                        OwnCopy(values[i]));
              }
              return AttrValue(std::move(list));
            }));
}

void TF_SetAttrValueProto(TF_OperationDescription* desc, const char* attr_name,
                          const void* proto, size_t proto_len,
                          TF_Status* status) {
  SetStatus(
      status, SetAttribute(desc, attr_name, [&]() -> Result<AttrValue> {
        if (proto_len > 0) SLUICE_RETURN_IF_ERROR(Given(proto, "proto"));
        return ParseAttrValue({static_cast<const char*>(proto), proto_len});
      }));
}

TF_Operation* TF_FinishOperation(TF_OperationDescription* desc,
                                 TF_Status* status) {
  TF_Operation* made = nullptr;
  const std::unique_ptr<TF_OperationDescription> owned(desc);
  Report(status, "operation", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(desc, "description"));
    SLUICE_RETURN_IF_ERROR(Given(desc->graph, "graph"));
    if (!desc->mistake.ok())
      return Annotate(desc->mistake, absl::StrCat("node '", desc->spec.name,
                                                  "' (", desc->spec.op, ")"));
    if (!desc->colocated.empty())
      desc->spec.attrs[std::string(kColocation)] =
          AttrValue::Strings(desc->colocated.begin(), desc->colocated.end());
    Graph& g = *desc->graph;
    std::lock_guard<std::recursive_mutex> lock(g.mutex());
    const sluice::internal::AnyNodeNames any_name;
    const std::vector<Output> inputs = desc->spec.inputs;
    const std::string op = desc->spec.op, name = desc->spec.name;
    Result<Node*> n = g.AddNode(std::move(desc->spec));
    // (TensorFlow's code for a name that is taken.)
    if (n.status().code() == StatusCode::kAlreadyExists)
      return InvalidArgument(n.status().message());
    if (!n.ok()) {
      const Result<const OpDef*> known = g.function_library().LookupOp(op);
      return known.ok()
                 ? WithInputsOfOtherTypes(n.status(), **known, name, inputs)
                 : n.status();
    }
    made = ToC(*n);
    return OkStatus();
  });
  return made;
}

}  // extern "C"
