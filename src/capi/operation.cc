// What operations are: their inputs, outputs, readers and attributes.
#include <cstring>

#include "capi/attributes.h"
#include "capi/handles.h"
#include "graph/graphdef.h"
#include "graph/graphdef_messages.h"
#include "graph/graphdef_op.h"

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

namespace {

TF_AttrType KindToC(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt:
      return TF_ATTR_INT;
    case AttrKind::kFloat:
      return TF_ATTR_FLOAT;
    case AttrKind::kBool:
      return TF_ATTR_BOOL;
    case AttrKind::kType:
      return TF_ATTR_TYPE;
    case AttrKind::kShape:
      return TF_ATTR_SHAPE;
    case AttrKind::kTensor:
      return TF_ATTR_TENSOR;
    case AttrKind::kFunction:
      return TF_ATTR_FUNC;
    default:
      return TF_ATTR_STRING;
  }
}

int64_t SizeOfList(const AttrValue& v) {
  return std::visit(
      [](const auto& value) -> int64_t {
        using T = std::decay_t<decltype(value)>;
        if constexpr (requires { value.size(); } &&
                      !std::is_same_v<T, std::string>)
          return static_cast<int64_t>(value.size());
        else
          return 0;
      },
      v.value());
}

}  // namespace

namespace sluice::capi {

TF_AttrMetadata MetadataOf(const AttrValue& v, const AttrDef* declared) {
  TF_AttrMetadata m = {0, -1, KindToC(v.kind()), -1};
  if (v.get<AttrValue::Placeholder>() != nullptr) {
    m.type = TF_ATTR_PLACEHOLDER;
    return m;
  }
  m.is_list = v.is_list() || IsEmptyList(v) ? 1 : 0;
  if (IsEmptyList(v) && declared != nullptr) m.type = KindToC(declared->kind);
  if (m.is_list != 0) {
    m.list_size = SizeOfList(v);
    if (m.type == TF_ATTR_STRING || m.type == TF_ATTR_SHAPE) m.total_size = 0;
  }
  if (const auto* s = v.get<std::string>())
    m.total_size = static_cast<int64_t>(s->size());
  if (const auto* list = v.get<AttrValue::Strings>())
    for (const std::string& s : *list)
      m.total_size += static_cast<int64_t>(s.size());
  if (const auto* s = v.get<PartialShape>()) m.total_size = s->rank();
  if (const auto* list = v.get<AttrValue::Shapes>())
    for (const PartialShape& s : *list) m.total_size += std::max(s.rank(), 0);
  return m;
}

Status StoreString(const AttrValue& v, void* value, size_t max_length) {
  const auto* s = v.get<std::string>();
  if (s == nullptr) return OtherKind("a string", v);
  const size_t n = std::min(s->size(), max_length);
  if (n == 0) return OkStatus();
  SLUICE_RETURN_IF_ERROR(Given(value, "room for the value"));
  std::memcpy(value, s->data(), n);
  return OkStatus();
}

Status StoreStrings(const AttrValue& v, void** values, size_t* lengths,
                    int max_values, void* storage, size_t storage_size) {
  SLUICE_RETURN_IF_ERROR(GivenArray(values, max_values, "values"));
  SLUICE_RETURN_IF_ERROR(GivenArray(lengths, max_values, "lengths"));
  if (IsEmptyList(v)) return OkStatus();
  const auto* list = v.get<AttrValue::Strings>();
  if (list == nullptr) return OtherKind("a list of strings", v);
  auto* at = static_cast<char*>(storage);
  size_t room = storage == nullptr ? 0 : storage_size;
  const size_t n = std::min(list->size(), static_cast<size_t>(max_values));
  for (size_t i = 0; i < n; ++i) {
    const std::string& s = (*list)[i];
    if (s.size() > room)
      return InvalidArgument("expected storage for all strings, got ",
                             storage_size, " bytes");
    values[i] = at;
    lengths[i] = s.size();
    if (!s.empty()) std::memcpy(at, s.data(), s.size());
    at += s.size();
    room -= s.size();
  }
  return OkStatus();
}

}  // namespace sluice::capi

namespace {

using OperationLock = std::lock_guard<std::recursive_mutex>;

// The readers of a node; its graph is locked.
TF_Graph::Readers& ReadersOf(const Node* n) {
  TF_Graph& g = *GraphOf(n);
  const size_t count = g.nodes().size();
  g.readers.resize(count);
  for (; g.indexed < count; ++g.indexed) {
    Node* const reader = g.nodes()[g.indexed].get();
    for (int i = 0; i < reader->num_inputs(); ++i) {
      const Output& from = reader->input(i);
      if (!from.valid()) continue;
      TF_Graph::Readers& r = g.readers[static_cast<size_t>(from.node->id())];
      r.inputs.push_back({ToC(reader), i});
      r.outputs.push_back(from.index);
    }
    for (const Node* c : reader->control_inputs())
      g.readers[static_cast<size_t>(c->id())].controls.push_back(ToC(reader));
  }
  return g.readers[static_cast<size_t>(n->id())];
}

// Calls fn with the readers of an output, one after the other; returns their
// number.
template <typename Fn>
int ForEachReader(TF_Output o, Fn&& fn) {
  if (o.oper == nullptr) return 0;
  const Node* n = FromC(o.oper);
  const OperationLock lock(n->graph()->mutex());
  const TF_Graph::Readers& r = ReadersOf(n);
  int found = 0;
  for (size_t i = 0; i < r.inputs.size(); ++i)
    if (r.outputs[i] == o.index) fn(found++, r.inputs[i]);
  return found;
}

int LengthOf(const Node& n, const std::vector<ArgDef>& args, const char* name,
             bool input, Status* status) {
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].name == View(name)) {
      const auto [begin, end] = input ? n.InputRange(static_cast<int>(i))
                                      : n.OutputRange(static_cast<int>(i));
      return end - begin;
    }
  *status = InvalidArgument(input ? "input" : "output",
                            ": expected an argument of the op, got '",
                            View(name), "'; ", n.Describe());
  return -1;
}

int ListLength(TF_Operation* oper, const char* name, bool input,
               TF_Status* status) {
  int length = -1;
  Report(status, "operation", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(oper, "operation"));
    SLUICE_RETURN_IF_ERROR(Given(name, "name of an argument"));
    const Node& n = *FromC(oper);
    const OperationLock lock(n.graph()->mutex());
    Status s;
    length =
        LengthOf(n, input ? n.op().inputs : n.op().outputs, name, input, &s);
    return s;
  });
  return length;
}

// Calls fn(attribute) with the graph locked.
template <typename Fn>
void WithAttribute(TF_Operation* oper, const char* name, TF_Status* status,
                   Fn&& fn) {
  Report(status, "attribute", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(oper, "operation"));
    const Node& n = *FromC(oper);
    const OperationLock lock(n.graph()->mutex());
    return WithAttributeOf(n, name, fn);
  });
}

// The one value of an attribute.
template <typename T, typename Out>
void GetOne(TF_Operation* oper, const char* name, const char* kind, Out* value,
            TF_Status* status) {
  WithAttribute(oper, name, status, [&](const AttrValue& v) {
    return StoreOne<T>(v, kind, value);
  });
}

// The first elements of a list.
template <typename T, typename Out>
void GetList(TF_Operation* oper, const char* name, const char* kind,
             Out* values, int max_values, TF_Status* status) {
  WithAttribute(oper, name, status, [&](const AttrValue& v) {
    return StoreList<T>(v, kind, values, max_values);
  });
}

Result<std::string> ShapeBytes(const PartialShape& s) {
  proto::TensorShapeProto p;
  ShapeToProto(s, &p);
  return SerializeProto(p);
}

}  // namespace

extern "C" {

const char* TF_OperationName(TF_Operation* oper) {
  return FromC(oper)->name().c_str();
}
const char* TF_OperationOpType(TF_Operation* oper) {
  return FromC(oper)->op_name().c_str();
}
const char* TF_OperationDevice(TF_Operation* oper) {
  return FromC(oper)->device().c_str();
}

int TF_OperationNumOutputs(TF_Operation* oper) {
  return FromC(oper)->num_outputs();
}
TF_DataType TF_OperationOutputType(TF_Output oper_out) {
  return oper_out.oper == nullptr ? TF_DataType{}
                                  : ToC(FromC(oper_out).dtype());
}
int TF_OperationOutputListLength(TF_Operation* oper, const char* arg_name,
                                 TF_Status* status) {
  return ListLength(oper, arg_name, /*input=*/false, status);
}
int TF_OperationNumInputs(TF_Operation* oper) {
  return FromC(oper)->num_inputs();
}
TF_DataType TF_OperationInputType(TF_Input oper_in) {
  return oper_in.oper == nullptr
             ? TF_DataType{}
             : ToC(FromC(oper_in.oper)->input_type(oper_in.index));
}
int TF_OperationInputListLength(TF_Operation* oper, const char* arg_name,
                                TF_Status* status) {
  return ListLength(oper, arg_name, /*input=*/true, status);
}

TF_Output TF_OperationInput(TF_Input oper_in) {
  if (oper_in.oper == nullptr) return {nullptr, -1};
  const Node* n = FromC(oper_in.oper);
  const OperationLock lock(n->graph()->mutex());
  return ToC(n->input(oper_in.index));
}

void TF_OperationAllInputs(TF_Operation* oper, TF_Output* inputs,
                           int max_inputs) {
  const Node* n = FromC(oper);
  const OperationLock lock(n->graph()->mutex());
  for (int i = 0; i < std::min(n->num_inputs(), max_inputs); ++i)
    inputs[i] = ToC(n->input(i));
}

int TF_OperationOutputNumConsumers(TF_Output oper_out) {
  return ForEachReader(oper_out, [](int, TF_Input) {});
}

int TF_OperationOutputConsumers(TF_Output oper_out, TF_Input* consumers,
                                int max_consumers) {
  return ForEachReader(oper_out, [&](int i, TF_Input reader) {
    if (i < max_consumers) consumers[i] = reader;
  });
}

int TF_OperationNumControlInputs(TF_Operation* oper) {
  const Node* n = FromC(oper);
  const OperationLock lock(n->graph()->mutex());
  return static_cast<int>(n->control_inputs().size());
}

int TF_OperationGetControlInputs(TF_Operation* oper,
                                 TF_Operation** control_inputs,
                                 int max_control_inputs) {
  const Node* n = FromC(oper);
  const OperationLock lock(n->graph()->mutex());
  const auto count = static_cast<int>(n->control_inputs().size());
  for (int i = 0; i < std::min(count, max_control_inputs); ++i)
    control_inputs[i] = ToC(n->control_inputs()[static_cast<size_t>(i)]);
  return count;
}

int TF_OperationNumControlOutputs(TF_Operation* oper) {
  return TF_OperationGetControlOutputs(oper, nullptr, 0);
}

int TF_OperationGetControlOutputs(TF_Operation* oper,
                                  TF_Operation** control_outputs,
                                  int max_control_outputs) {
  const Node* n = FromC(oper);
  const OperationLock lock(n->graph()->mutex());
  const std::vector<TF_Operation*>& all = ReadersOf(n).controls;
  const auto count = static_cast<int>(all.size());
  for (int i = 0; i < std::min(count, max_control_outputs); ++i)
    control_outputs[i] = all[static_cast<size_t>(i)];
  return count;
}

TF_AttrMetadata TF_OperationGetAttrMetadata(TF_Operation* oper,
                                            const char* attr_name,
                                            TF_Status* status) {
  TF_AttrMetadata m = {0, -1, TF_ATTR_STRING, -1};
  WithAttribute(oper, attr_name, status, [&](const AttrValue& v) -> Status {
    m = MetadataOf(v, FromC(oper)->op().FindAttr(attr_name));
    return OkStatus();
  });
  return m;
}

void TF_OperationGetAttrString(TF_Operation* oper, const char* attr_name,
                               void* value, size_t max_length,
                               TF_Status* status) {
  WithAttribute(oper, attr_name, status, [&](const AttrValue& v) {
    return StoreString(v, value, max_length);
  });
}

void TF_OperationGetAttrStringList(TF_Operation* oper, const char* attr_name,
                                   void** values, size_t* lengths,
                                   int max_values, void* storage,
                                   size_t storage_size, TF_Status* status) {
  WithAttribute(oper, attr_name, status, [&](const AttrValue& v) {
    return StoreStrings(v, values, lengths, max_values, storage, storage_size);
  });
}

void TF_OperationGetAttrInt(TF_Operation* oper, const char* attr_name,
                            int64_t* value, TF_Status* status) {
  GetOne<int64_t>(oper, attr_name, "an int", value, status);
}
void TF_OperationGetAttrIntList(TF_Operation* oper, const char* attr_name,
                                int64_t* values, int max_values,
                                TF_Status* status) {
  GetList<int64_t>(oper, attr_name, "a list of ints", values, max_values,
                   status);
}
void TF_OperationGetAttrFloat(TF_Operation* oper, const char* attr_name,
                              float* value, TF_Status* status) {
  GetOne<float>(oper, attr_name, "a float", value, status);
}
void TF_OperationGetAttrFloatList(TF_Operation* oper, const char* attr_name,
                                  float* values, int max_values,
                                  TF_Status* status) {
  GetList<float>(oper, attr_name, "a list of floats", values, max_values,
                 status);
}
void TF_OperationGetAttrBool(TF_Operation* oper, const char* attr_name,
                             unsigned char* value, TF_Status* status) {
  GetOne<bool>(oper, attr_name, "a bool", value, status);
}
void TF_OperationGetAttrBoolList(TF_Operation* oper, const char* attr_name,
                                 unsigned char* values, int max_values,
                                 TF_Status* status) {
  GetList<bool>(oper, attr_name, "a list of bools", values, max_values, status);
}
void TF_OperationGetAttrType(TF_Operation* oper, const char* attr_name,
                             TF_DataType* value, TF_Status* status) {
  GetOne<DType>(oper, attr_name, "a type", value, status);
}
void TF_OperationGetAttrTypeList(TF_Operation* oper, const char* attr_name,
                                 TF_DataType* values, int max_values,
                                 TF_Status* status) {
  GetList<DType>(oper, attr_name, "a list of types", values, max_values,
                 status);
}

void TF_OperationGetAttrShape(TF_Operation* oper, const char* attr_name,
                              int64_t* value, int num_dims, TF_Status* status) {
  WithAttribute(oper, attr_name, status, [&](const AttrValue& v) -> Status {
    const auto* s = v.get<PartialShape>();
    if (s == nullptr) return OtherKind("a shape", v);
    const int n = std::min(s->rank(), num_dims);  // (-1: an unknown rank.)
    if (n > 0) SLUICE_RETURN_IF_ERROR(Given(value, "room for sizes"));
    for (int i = 0; i < n; ++i) value[i] = s->dim(i);
    return OkStatus();
  });
}

void TF_OperationGetAttrShapeList(TF_Operation* oper, const char* attr_name,
                                  int64_t** dims, int* num_dims, int num_shapes,
                                  int64_t* storage, int storage_size,
                                  TF_Status* status) {
  WithAttribute(oper, attr_name, status, [&](const AttrValue& v) -> Status {
    SLUICE_RETURN_IF_ERROR(GivenArray(dims, num_shapes, "dims"));
    SLUICE_RETURN_IF_ERROR(GivenArray(num_dims, num_shapes, "num_dims"));
    if (IsEmptyList(v)) return OkStatus();
    const auto* list = v.get<AttrValue::Shapes>();
    if (list == nullptr) return OtherKind("a list of shapes", v);
    int64_t* at = storage;
    int room = storage == nullptr ? 0 : storage_size;
    const size_t n = std::min(list->size(), static_cast<size_t>(num_shapes));
    for (size_t i = 0; i < n; ++i) {
      const PartialShape& s = (*list)[i];
      num_dims[i] = s.rank();
      dims[i] = at;
      if (s.rank() > room)
        return InvalidArgument("expected storage for all sizes, got room for ",
                               storage_size);
      for (int k = 0; k < s.rank(); ++k) *at++ = s.dim(k);
      room -= std::max(s.rank(), 0);
    }
    return OkStatus();
  });
}

void TF_OperationGetAttrTensorShapeProto(TF_Operation* oper,
                                         const char* attr_name,
                                         TF_Buffer* value, TF_Status* status) {
  WithAttribute(oper, attr_name, status, [&](const AttrValue& v) -> Status {
    const auto* s = v.get<PartialShape>();
    if (s == nullptr) return OtherKind("a shape", v);
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ShapeBytes(*s));
    return Fill(value, bytes);
  });
}

void TF_OperationGetAttrTensorShapeProtoList(TF_Operation* oper,
                                             const char* attr_name,
                                             TF_Buffer** values, int max_values,
                                             TF_Status* status) {
  WithAttribute(oper, attr_name, status, [&](const AttrValue& v) -> Status {
    SLUICE_RETURN_IF_ERROR(GivenArray(values, max_values, "values"));
    if (IsEmptyList(v)) return OkStatus();
    const auto* list = v.get<AttrValue::Shapes>();
    if (list == nullptr) return OtherKind("a list of shapes", v);
    const size_t n = std::min(list->size(), static_cast<size_t>(max_values));
    std::vector<std::string> all(n);
    for (size_t i = 0; i < n; ++i) {
      SLUICE_ASSIGN_OR_RETURN(all[i], ShapeBytes((*list)[i]));
    }
    for (size_t i = 0; i < n; ++i)
      values[i] = TF_NewBufferFromString(all[i].data(), all[i].size());
    return OkStatus();
  });
}

void TF_OperationGetAttrTensor(TF_Operation* oper, const char* attr_name,
                               TF_Tensor** value, TF_Status* status) {
  if (value != nullptr) *value = nullptr;
  WithAttribute(oper, attr_name, status, [&](const AttrValue& v) -> Status {
    SLUICE_RETURN_IF_ERROR(Given(value, "room for the value"));
    const auto* t = v.get<Tensor>();
    if (t == nullptr) return OtherKind("a tensor", v);
    SLUICE_ASSIGN_OR_RETURN(*value, NewTensor(*t));
    return OkStatus();
  });
}

void TF_OperationGetAttrTensorList(TF_Operation* oper, const char* attr_name,
                                   TF_Tensor** values, int max_values,
                                   TF_Status* status) {
  WithAttribute(oper, attr_name, status, [&](const AttrValue& v) -> Status {
    SLUICE_RETURN_IF_ERROR(GivenArray(values, max_values, "values"));
    if (IsEmptyList(v)) return OkStatus();
    const auto* list = v.get<AttrValue::Tensors>();
    if (list == nullptr) return OtherKind("a list of tensors", v);
    const size_t n = std::min(list->size(), static_cast<size_t>(max_values));
    std::vector<std::unique_ptr<TF_Tensor>> all;
    for (size_t i = 0; i < n; ++i) {
      SLUICE_ASSIGN_OR_RETURN(TF_Tensor* const t, NewTensor((*list)[i]));
      all.emplace_back(t);
    }
    for (size_t i = 0; i < n; ++i) values[i] = all[i].release();
    return OkStatus();
  });
}

void TF_OperationGetAttrValueProto(TF_Operation* oper, const char* attr_name,
                                   TF_Buffer* output_attr_value,
                                   TF_Status* status) {
  WithAttribute(oper, attr_name, status, [&](const AttrValue& v) -> Status {
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes, SerializeAttrValue(v));
    return Fill(output_attr_value, bytes);
  });
}

void TF_OperationToNodeDef(TF_Operation* oper, TF_Buffer* output_node_def,
                           TF_Status* status) {
  Report(status, "operation", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(oper, "operation"));
    const Node& n = *FromC(oper);
    const OperationLock lock(n.graph()->mutex());
    SLUICE_ASSIGN_OR_RETURN(std::string bytes, ExportNodeDef(n));
    const auto& changed = GraphOf(&n)->changed;
    auto it = changed.lower_bound({&n, 0});
    if (it == changed.end() || it->first != &n)
      return Fill(output_node_def, bytes);
    // (TensorFlow names the output of an edge that TF_UpdateEdge set, also if
    // it is the first: "x:0".)
    proto::NodeDef def;
    SLUICE_RETURN_IF_ERROR(ParseMessage(bytes, "NodeDef", &def));
    for (; it != changed.end() && it->first == &n; ++it)
      if (n.input(it->second).index == 0)
        def.mutable_input(it->second)->append(":0");
    SLUICE_ASSIGN_OR_RETURN(bytes, SerializeProto(def));
    return Fill(output_node_def, bytes);
  });
}

}  // extern "C"
