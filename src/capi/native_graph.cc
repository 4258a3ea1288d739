// The native C API: graphs, nodes and their attributes.
#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/str_join.h"
#include "capi/native.h"
#include "client/variables.h"
#include "graph/function.h"
#include "graph/graphdef.h"
#include "graph/graphdef_op.h"
#include "graph/none_output.h"
#include "graph/valid_outputs.h"

namespace sluice::capi {

Status CheckHas(const Output& o, const char* what) {
  if (o.node == nullptr || (o.index >= 0 && o.index < o.node->num_outputs()))
    return OkStatus();
  return InvalidArgument(what, ": expected ", ValidOutputs(*o.node), " of '",
                         o.node->name(), "', got ", o.index, "; ",
                         o.node->Describe());
}

Result<std::vector<Output>> OutputsFromNative(const sl_output* list, size_t n,
                                              const char* what) {
  SLUICE_RETURN_IF_ERROR(GivenList(list, n, what));
  std::vector<Output> all;
  all.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    all.push_back(FromNative(list[i]));
    SLUICE_RETURN_IF_ERROR(
        CheckHas(all.back(), absl::StrCat(what, "[", i, "]").c_str()));
  }
  return all;
}

Status WhyFailed(const Graph& g, const Output& null, const char* otherwise) {
  if (const Status* const error = g.ErrorOf(null)) return *error;
  return InvalidArgument(otherwise, WhyNone(null));
}

SourceLoc LineFrom(Graph& g, const sl_loc& at) {
  if (at.file == nullptr || at.line <= 0) return {};
  const std::lock_guard<std::recursive_mutex> lock(g.mutex());
  return {g.Intern(at.file), at.line};
}

namespace {

using NativeLock = std::lock_guard<std::recursive_mutex>;

// ---- Attributes -------------------------------------------------------------

Result<std::string> TextFrom(const char* s, int64_t count) {
  if (count == SL_TO_THE_END) {
    SLUICE_RETURN_IF_ERROR(GivenList(s, 1, "text"));
    return std::string(s);
  }
  if (count < 0)
    return InvalidArgument("text: expected at least 0 bytes, got ", count);
  SLUICE_RETURN_IF_ERROR(GivenList(s, static_cast<size_t>(count), "text"));
  return std::string(s, static_cast<size_t>(count));
}

Result<DType> AttrTypeFrom(sl_dtype t) {
  if (t <= 0 || !IsValidDType(t))
    return InvalidArgument("type: expected one of the sl_dtypes, got ", t);
  return static_cast<DType>(t);
}

// A list of To, each made by fn from an element.
template <typename To, typename From, typename Fn>
Result<AttrValue> AttrListFrom(const From* values, int64_t count, Fn&& fn) {
  if (count < 0)
    return InvalidArgument("list: expected at least 0 elements, got ", count);
  const auto n = static_cast<size_t>(count);
  SLUICE_RETURN_IF_ERROR(GivenList(values, n, "list"));
  std::vector<To> list;
  for (size_t i = 0; i < n; ++i) {
    SLUICE_ASSIGN_OR_RETURN(To element, fn(values[i]));
    list.push_back(std::move(element));
  }
  return AttrValue(std::move(list));
}

Result<AttrValue> AttrFrom(const sl_attr& a) {
  const auto& v = a.value;
  switch (a.kind) {
    case SL_KIND_INT:
      return AttrValue(v.i);
    case SL_KIND_FLOAT:
      return AttrValue(v.f);
    case SL_KIND_BOOL:
      return AttrValue(v.b != 0);
    case SL_KIND_STRING: {
      SLUICE_ASSIGN_OR_RETURN(std::string s, TextFrom(v.s, a.count));
      return AttrValue(std::move(s));
    }
    case SL_KIND_TYPE: {
      SLUICE_ASSIGN_OR_RETURN(const DType t, AttrTypeFrom(v.type));
      return AttrValue(t);
    }
    case SL_KIND_SHAPE: {
      SLUICE_ASSIGN_OR_RETURN(PartialShape s,
                              PartialFromNative(v.dims, a.count));
      return AttrValue(std::move(s));
    }
    case SL_KIND_TENSOR: {
      SLUICE_ASSIGN_OR_RETURN(Tensor t, KeptValue(v.tensor));
      return AttrValue(std::move(t));
    }
    case SL_KIND_FUNCTION: {
      SLUICE_ASSIGN_OR_RETURN(std::string s, TextFrom(v.s, a.count));
      return AttrValue(FunctionRef{std::move(s), nullptr});
    }
    case SL_KIND_PROTO: {
      SLUICE_ASSIGN_OR_RETURN(const std::string s, TextFrom(v.s, a.count));
      return ParseAttrValue(s);
    }
    case SL_KIND_LIST | SL_KIND_INT:
      return AttrListFrom<int64_t>(
          v.ints, a.count, [](int64_t i) -> Result<int64_t> { return i; });
    case SL_KIND_LIST | SL_KIND_FLOAT:
      return AttrListFrom<float>(v.floats, a.count,
                                 [](float f) -> Result<float> { return f; });
    case SL_KIND_LIST | SL_KIND_BOOL:
      return AttrListFrom<bool>(
          v.bools, a.count, [](int32_t b) -> Result<bool> { return b != 0; });
    case SL_KIND_LIST | SL_KIND_STRING:
      return AttrListFrom<std::string>(v.strings, a.count, TextFromNative);
    case SL_KIND_LIST | SL_KIND_TYPE:
      return AttrListFrom<DType>(v.types, a.count, AttrTypeFrom);
    case SL_KIND_LIST | SL_KIND_SHAPE:
      return AttrListFrom<PartialShape>(
          v.shapes, a.count,
          [](const sl_shape& s) { return PartialFromNative(s.dims, s.rank); });
    case SL_KIND_LIST | SL_KIND_TENSOR:
      return AttrListFrom<Tensor>(v.tensors, a.count, KeptValue);
    case SL_KIND_LIST | SL_KIND_FUNCTION:
      return AttrListFrom<FunctionRef>(
          v.strings, a.count, [](const sl_string& s) -> Result<FunctionRef> {
            SLUICE_ASSIGN_OR_RETURN(std::string name, TextFromNative(s));
            return FunctionRef{std::move(name), nullptr};
          });
    default:
      return InvalidArgument("kind: expected one of SL_KIND_..., got ", a.kind);
  }
}

Result<AttrMap> AttrsFrom(const sl_op_spec& spec) {
  SLUICE_RETURN_IF_ERROR(GivenList(spec.attrs, spec.num_attrs, "attributes"));
  AttrMap attrs;
  for (size_t i = 0; i < spec.num_attrs; ++i) {
    const sl_attr& a = spec.attrs[i];
    if (a.name == nullptr)
      return InvalidArgument("attributes[", i, "]: expected a name, got null");
    Result<AttrValue> v = AttrFrom(a);
    if (!v.ok())
      return Annotate(v.status(), absl::StrCat("attribute '", a.name, "'"));
    if (!attrs.emplace(a.name, *std::move(v)).second)
      return InvalidArgument("attribute '", a.name,
                             "': expected one value, got two; building ",
                             spec.op);
  }
  return attrs;
}

// InvalidArgument for an attribute that the op does not declare. Any node may
// have those that begin with "_", and a call has those of its function.
Status CheckDeclared(Graph& g, const char* op_name, const AttrMap& attrs) {
  const Result<const OpDef*> found = g.function_library().LookupOp(op_name);
  if (!found.ok() || (*found)->role == OpRole::kFunctional) return OkStatus();
  for (const auto& [name, value] : attrs) {
    if (name.starts_with('_') || (*found)->FindAttr(name) != nullptr) continue;
    std::vector<std::string> names;
    for (const AttrDef& def : (*found)->attrs)
      names.push_back(absl::StrCat("'", def.name, "'"));
    return InvalidArgument(
        "attribute: expected ",
        names.empty() ? "none" : "one of " + absl::StrJoin(names, ", "),
        ", got '", name, "'; building ", op_name);
  }
  return OkStatus();
}

// A single value of a node's attribute as a struct that points into it.
void ViewOne(bool b, sl_attr* a) {
  a->kind = SL_KIND_BOOL;
  a->value.b = b ? 1 : 0;
}
void ViewOne(int64_t i, sl_attr* a) {
  a->kind = SL_KIND_INT;
  a->value.i = i;
}
void ViewOne(float f, sl_attr* a) {
  a->kind = SL_KIND_FLOAT;
  a->value.f = f;
}
void ViewOne(const std::string& s, sl_attr* a) {
  a->kind = SL_KIND_STRING;
  a->count = static_cast<int64_t>(s.size());
  a->value.s = s.c_str();
}
void ViewOne(DType t, sl_attr* a) {
  a->kind = SL_KIND_TYPE;
  a->value.type = static_cast<sl_dtype>(t);
}
void ViewOne(const PartialShape& shape, sl_attr* a) {
  const sl_shape view = ShapeToNative(shape);
  a->kind = SL_KIND_SHAPE;
  a->count = view.rank;
  a->value.dims = view.dims;
}
void ViewOne(const FunctionRef& fn, sl_attr* a) {
  a->kind = SL_KIND_FUNCTION;
  a->count = static_cast<int64_t>(fn.name.size());
  a->value.s = fn.name.c_str();
}

// Whether the attribute is a T, which it then shows.
template <typename T>
bool ViewIf(const AttrValue& v, sl_attr* a) {
  const T* const one = v.get<T>();
  if (one != nullptr) ViewOne(*one, a);
  return one != nullptr;
}
// The same for a list, of which `i` is asked for; -1: the list itself.
template <typename List>
bool ViewListIf(const AttrValue& v, int64_t i, sl_attr* a) {
  const List* const list = v.get<List>();
  if (list == nullptr) return false;
  const auto n = static_cast<int64_t>(list->size());
  if (i >= 0 && i < n) {
    ViewOne((*list)[static_cast<size_t>(i)], a);
    return true;
  }
  ViewOne(typename List::value_type(), a);  // (For its kind.)
  a->kind |= SL_KIND_LIST;
  a->count = n;
  a->value = {};
  if constexpr (std::is_same_v<List, AttrValue::Ints>)
    a->value.ints = list->data();
  if constexpr (std::is_same_v<List, AttrValue::Floats>)
    a->value.floats = list->data();
  return true;
}
bool ViewListAt(const AttrValue& v, int64_t i, sl_attr* a) {
  return ViewListIf<AttrValue::Ints>(v, i, a) ||
         ViewListIf<AttrValue::Floats>(v, i, a) ||
         ViewListIf<AttrValue::Bools>(v, i, a) ||
         ViewListIf<AttrValue::Strings>(v, i, a) ||
         ViewListIf<AttrValue::Types>(v, i, a) ||
         ViewListIf<AttrValue::Shapes>(v, i, a) ||
         ViewListIf<AttrValue::Functions>(v, i, a);
}

// An attribute of a node as a struct that points into it.
Status ViewAttr(const AttrValue& v, sl_attr* a) {
  if (ViewIf<int64_t>(v, a) || ViewIf<float>(v, a) || ViewIf<bool>(v, a) ||
      ViewIf<std::string>(v, a) || ViewIf<DType>(v, a) ||
      ViewIf<PartialShape>(v, a) || ViewIf<FunctionRef>(v, a) ||
      ViewListAt(v, -1, a))
    return OkStatus();
  return Unimplemented("expected no tensors, got ", v.ToString(),
                       "; hint: sl_node_attr_proto");
}

// Element i of one that is a list.
Status ViewItem(const AttrValue& v, int64_t i, sl_attr* a) {
  if (!ViewListAt(v, i, a))
    return InvalidArgument("expected a list without tensors, got ",
                           v.ToString());
  if ((a->kind & SL_KIND_LIST) == 0) return OkStatus();
  const int64_t n = a->count;
  *a = sl_attr();
  return InvalidArgument("expected an element of ", n, ", got ", i);
}

// Calls fn(attribute) with the graph locked, and adds to its error which one it
// is.
template <typename Fn>
Status OfAttr(const sl_node* node, const char* name, Fn&& fn) {
  if (node == nullptr) return InvalidArgument("node: expected one, got null");
  SLUICE_RETURN_IF_ERROR(GivenList(name, 1, "name of an attribute"));
  const Node& n = *FromNative(node);
  const NativeLock lock(n.graph()->mutex());
  const AttrValue* const v = n.FindAttr(name);
  if (v == nullptr)
    return InvalidArgument("attribute '", name,
                           "': expected one of the node, got none; ",
                           n.Describe());
  const Status s = fn(*v);
  if (s.ok()) return s;
  return Status(s.code(), absl::StrCat("attribute '", name, "': ", s.message(),
                                       "; ", n.Describe()));
}

// An attribute of a node as fn(value, attr) shows it.
template <typename Fn>
sl_status* ViewedAttr(const sl_node* node, const char* name, sl_attr* attr,
                      Fn&& fn) {
  return Outcome("attribute", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenList(attr, 1, "room for the attribute"));
    *attr = sl_attr();
    return OfAttr(node, name, [&](const AttrValue& v) -> Status {
      SLUICE_RETURN_IF_ERROR(fn(v, attr));
      const auto it = FromNative(node)->attrs().find(name);
      if (it != FromNative(node)->attrs().end()) attr->name = it->first.c_str();
      return OkStatus();
    });
  });
}

// ---- Nodes ------------------------------------------------------------------

// The inputs that were given by name, in the op's order. Notes the sizes of
// lists in `attrs`.
Result<std::vector<Output>> InOrder(Graph& g, const sl_op_spec& spec,
                                    AttrMap* attrs) {
  SLUICE_ASSIGN_OR_RETURN(const OpDef* const op,
                          g.function_library().LookupOp(TextOf(spec.op)));
  std::map<std::string, std::vector<Output>> given;
  for (size_t i = 0; i < spec.num_named; ++i) {
    const std::string name = TextOf(spec.named[i].name);
    const Output o = FromNative(spec.named[i].value);
    SLUICE_RETURN_IF_ERROR(
        CheckHas(o, absl::StrCat("input '", name, "'").c_str()));
    given[name].push_back(o);
  }
  std::vector<Output> inputs;
  for (const ArgDef& arg : op->inputs) {
    auto values = given.extract(arg.name);
    const size_t n = values.empty() ? 0 : values.mapped().size();
    if (!arg.number_attr.empty())
      attrs->emplace(arg.number_attr, static_cast<int64_t>(n));
    else if (arg.type_list_attr.empty() && n != 1)
      return InvalidArgument("input '", arg.name, "': expected one, got ", n,
                             "; building ", op->name);
    if (n > 0)
      inputs.insert(inputs.end(), values.mapped().begin(),
                    values.mapped().end());
  }
  if (given.empty()) return inputs;
  std::vector<std::string> names;
  for (const ArgDef& arg : op->inputs)
    names.push_back(absl::StrCat("'", arg.name, "'"));
  return InvalidArgument("input: expected one of ", absl::StrJoin(names, ", "),
                         ", got '", given.begin()->first, "'; building ",
                         op->name);
}

Result<Output> BuildOp(Graph& g, const sl_op_spec& spec, SourceLoc loc) {
  SLUICE_RETURN_IF_ERROR(GivenList(spec.op, 1, "name of an op"));
  SLUICE_ASSIGN_OR_RETURN(AttrMap attrs, AttrsFrom(spec));
  SLUICE_RETURN_IF_ERROR(CheckDeclared(g, spec.op, attrs));
  SLUICE_RETURN_IF_ERROR(GivenList(spec.named, spec.num_named, "inputs"));
  SLUICE_ASSIGN_OR_RETURN(
      std::vector<Output> inputs,
      OutputsFromNative(spec.inputs, spec.num_inputs, "inputs"));
  if (spec.num_named > 0) {
    if (spec.num_inputs > 0)
      return InvalidArgument(
          "inputs: expected them in order or by name, got both; building ",
          spec.op);
    SLUICE_ASSIGN_OR_RETURN(inputs, InOrder(g, spec, &attrs));
  }
  SLUICE_RETURN_IF_ERROR(
      GivenList(spec.after, spec.num_after, "control inputs"));
  std::vector<Node*> after;
  for (size_t i = 0; i < spec.num_after; ++i) {
    const Output o = FromNative(spec.after[i]);
    if (o.node == nullptr) {  // Its error is the new node's, too.
      g.PropagateFailure(
          o, InvalidArgument("control input: expected a node, got none",
                             WhyNone(o), "; building ", spec.op));
      return g.Failure();
    }
    after.push_back(o.node);
  }
  const ControlDependencies controls(std::move(after));
  std::optional<DeviceScope> device;
  if (spec.device != nullptr) device.emplace(spec.device);
  return Build(spec.op, std::move(inputs), std::move(attrs), TextOf(spec.name),
               loc);
}

// Adds a node by fn(graph, line); its errors are the graph's.
template <typename Fn>
sl_output BuiltIn(sl_graph* graph, const sl_loc& at, Fn&& fn) {
  sl_output made = {nullptr, 0};
  if (!GivenHandle(graph, "graph").ok()) return made;
  Graph& g = *graph->graph;
  const Status s = WithoutThrowing("node", [&]() -> Status {
    const NativeLock lock(g.mutex());
    const NativeScope here(*graph);
    const SourceLoc loc = LineFrom(g, at);
    const Result<Output> o = fn(g, loc);
    made = ToNative(o.ok() ? *o : BuildError(o.status(), loc));
    return OkStatus();
  });
  if (!s.ok())
    (void)WithoutThrowing("node", [&]() -> Status {
      const NativeLock lock(g.mutex());
      g.RecordError(s);
      made = ToNative(g.Failure());
      return OkStatus();
    });
  return made;
}

bool HasNode(const sl_node* n, int32_t i, int (Node::*count)() const) {
  return n != nullptr && i >= 0 && i < (FromNative(n)->*count)();
}

}  // namespace
}  // namespace sluice::capi

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

extern "C" {

sl_output sl_nth(sl_output output, int32_t index) {
  if (output.node != nullptr) output.index = index;
  return output;
}

sl_status* sl_graph_new(sl_graph** made) {
  return Outcome("graph", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    *made = new sl_graph(std::make_shared<Graph>());
    return OkStatus();
  });
}

void sl_graph_free(sl_graph* graph) {
  if (GivenHandle(graph, "graph").ok() && graph->owned != nullptr) delete graph;
}

sl_status* sl_output_status(sl_graph* graph, sl_output output) {
  return Outcome("output", [&]() -> Status {
    if (output.node != nullptr) {
      const Output o = FromNative(output);
      // (Output 0 of a node without outputs stands for the node.)
      return o.index == 0 && o.node->num_outputs() == 0 ? OkStatus()
                                                        : CheckHas(o, "output");
    }
    SLUICE_RETURN_IF_ERROR(GivenHandle(graph, "graph"));
    const NativeLock lock(graph->graph->mutex());
    return WhyFailed(*graph->graph, FromNative(output),
                     "output: expected one that was built, got none");
  });
}

sl_status* sl_graph_status(sl_graph* graph) {
  return Outcome("graph", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenHandle(graph, "graph"));
    const NativeLock lock(graph->graph->mutex());
    return graph->graph->status();
  });
}

void sl_graph_forget_errors(sl_graph* graph) {
  if (!GivenHandle(graph, "graph").ok()) return;
  const NativeLock lock(graph->graph->mutex());
  graph->graph->ClearErrors();
}

sl_output sl_op(sl_graph* graph, const sl_op_spec* spec) {
  sl_op_spec read;
  const Status given = spec == nullptr
                           ? InvalidArgument("node: expected a spec, got null")
                           : ReadSpec(spec, "spec of a node", &read);
  return BuiltIn(graph, given.ok() ? read.at : sl_loc{nullptr, 0},
                 [&](Graph& g, SourceLoc loc) -> Result<Output> {
                   SLUICE_RETURN_IF_ERROR(given);
                   return BuildOp(g, read, loc);
                 });
}

sl_output sl_constant(sl_graph* graph, sl_loc at, sl_dtype dtype,
                      const int64_t* dims, int32_t rank, const void* data) {
  return BuiltIn(graph, at, [&](Graph&, SourceLoc loc) -> Result<Output> {
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, ShapeFromNative(dims, rank));
    const DType t = TypeFromNative(dtype);
    if (IsRef(t) || !IsPlain(t))
      return InvalidArgument(
          "constant: expected a type of plain elements, got ", dtype);
    SLUICE_ASSIGN_OR_RETURN(Tensor value, Tensor::Make(t, shape));
    SLUICE_RETURN_IF_ERROR(GivenList(
        data, static_cast<size_t>(std::min<int64_t>(shape.num_elements(), 1)),
        "constant: data"));
    if (value.bytes() > 0) std::memcpy(value.raw(), data, value.bytes());
    return Constant(std::move(value), "", loc);
  });
}

sl_output sl_constant_strings(sl_graph* graph, sl_loc at, const int64_t* dims,
                              int32_t rank, const sl_string* strings) {
  return BuiltIn(graph, at, [&](Graph&, SourceLoc loc) -> Result<Output> {
    SLUICE_ASSIGN_OR_RETURN(Tensor value,
                            StringsFromNative(dims, rank, strings));
    return Constant(std::move(value), "", loc);
  });
}

sl_output sl_variable(sl_graph* graph, sl_loc at, const char* name,
                      sl_output initial) {
  return BuiltIn(graph, at, [&](Graph&, SourceLoc loc) -> Result<Output> {
    const Output value = FromNative(initial);
    SLUICE_RETURN_IF_ERROR(CheckHas(value, "initial value"));
    return Var(Operand(value, loc.file, loc.line), TextOf(name), {}, loc)
        .handle();
  });
}

sl_output sl_read(sl_graph* graph, sl_loc at, sl_output variable) {
  return BuiltIn(graph, at, [&](Graph& g, SourceLoc loc) -> Result<Output> {
    const Output handle = FromNative(variable);
    SLUICE_RETURN_IF_ERROR(CheckHas(handle, "variable"));
    const Var var = Var::FromHandle(handle);
    if (handle.valid() && !var.valid())
      return InvalidArgument("variable: expected its handle, got '",
                             handle.name(), "'; ", handle.node->Describe());
    if (!handle.valid() && g.ErrorOf(handle) == nullptr)
      return WhyFailed(g, handle, "variable: expected its handle, got none");
    return var.Read(loc);
  });
}

sl_output sl_initializer(sl_graph* graph, sl_loc at) {
  return BuiltIn(graph, at, [&](Graph&, SourceLoc loc) -> Result<Output> {
    return OrFailure(GlobalVariablesInitializer(loc));
  });
}

// ---- Import, export and look-up ---------------------------------------------

sl_status* sl_graph_export(sl_graph* graph, sl_buffer** made) {
  return Outcome("graph", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    SLUICE_RETURN_IF_ERROR(GivenHandle(graph, "graph"));
    const NativeLock lock(graph->graph->mutex());
    SLUICE_ASSIGN_OR_RETURN(std::string bytes, ExportGraphDef(*graph->graph));
    *made = NewNativeBuffer(std::move(bytes));
    return OkStatus();
  });
}

sl_status* sl_graph_import(sl_graph* graph, const void* data, size_t size,
                           const char* prefix) {
  return Outcome("import", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenHandle(graph, "graph"));
    SLUICE_RETURN_IF_ERROR(GivenList(data, size, "GraphDef"));
    const NativeLock lock(graph->graph->mutex());
    ImportOptions options;
    options.prefix = TextOf(prefix);
    return ImportGraphDef({static_cast<const char*>(data), size}, *graph->graph,
                          options);
  });
}

sl_status* sl_graph_find(sl_graph* graph, const char* name, sl_output* found) {
  return Outcome("graph", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenList(found, 1, "room for the output"));
    *found = {nullptr, 0};
    SLUICE_RETURN_IF_ERROR(GivenHandle(graph, "graph"));
    SLUICE_RETURN_IF_ERROR(GivenList(name, 1, "name"));
    Graph& g = *graph->graph;
    const NativeLock lock(g.mutex());
    if (Node* const n = g.FindNode(name);
        n != nullptr && n->num_outputs() == 0) {
      *found = ToNative(Output(n));
      return OkStatus();
    }
    SLUICE_ASSIGN_OR_RETURN(const Output o, g.FindOutput(name));
    *found = ToNative(o);
    return OkStatus();
  });
}

size_t sl_graph_num_nodes(sl_graph* graph) {
  if (!GivenHandle(graph, "graph").ok()) return 0;
  const NativeLock lock(graph->graph->mutex());
  return graph->graph->nodes().size();
}

sl_node* sl_graph_node(sl_graph* graph, size_t i) {
  if (!GivenHandle(graph, "graph").ok()) return nullptr;
  const NativeLock lock(graph->graph->mutex());
  const auto& nodes = graph->graph->nodes();
  return i < nodes.size() ? ToNative(nodes[i].get()) : nullptr;
}

sl_status* sl_graph_variables(sl_graph* graph,
                              void (*each)(const sl_variable_info* variable,
                                           void* data),
                              void* data) {
  return Outcome("graph", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenHandle(graph, "graph"));
    SLUICE_RETURN_IF_ERROR(GivenEach(each));
    std::vector<std::pair<sl_variable_info, PartialShape>> all;
    {
      Graph& g = *graph->graph;
      const NativeLock lock(g.mutex());
      OutputSet trainable;
      if (const auto it = g.collections().find(kTrainableVariables);
          it != g.collections().end())
        trainable.insert(it->second.begin(), it->second.end());
      for (const auto& n : g.nodes()) {
        if (n->kind() != OpKind::kVarHandle &&
            n->kind() != OpKind::kRefVariable)
          continue;
        const Output handle(n.get());
        all.push_back({{n->name().c_str(),
                        ToNative(handle),
                        static_cast<sl_dtype>(VariableType(handle)),
                        {nullptr, -1},
                        trainable.contains(handle) ? 1 : 0},
                       VariableShapeOf(handle)});
      }
    }
    for (auto& [info, shape] : all) {
      info.shape = ShapeToNative(shape);
      each(&info, data);
    }
    return OkStatus();
  });
}

// ---- Nodes ------------------------------------------------------------------

const char* sl_node_name(const sl_node* node) {
  return node == nullptr ? nullptr : FromNative(node)->name().c_str();
}
const char* sl_node_op(const sl_node* node) {
  return node == nullptr ? nullptr : FromNative(node)->op_name().c_str();
}
const char* sl_node_device(const sl_node* node) {
  return node == nullptr ? nullptr : FromNative(node)->device().c_str();
}
sl_loc sl_node_loc(const sl_node* node) {
  if (node == nullptr) return {nullptr, 0};
  const SourceLoc& loc = FromNative(node)->loc();
  return {loc.file, loc.line};
}
int32_t sl_node_num_inputs(const sl_node* node) {
  return node == nullptr ? 0 : FromNative(node)->num_inputs();
}
int32_t sl_node_num_outputs(const sl_node* node) {
  return node == nullptr ? 0 : FromNative(node)->num_outputs();
}
sl_output sl_node_input(const sl_node* node, int32_t i) {
  if (!HasNode(node, i, &Node::num_inputs)) return {nullptr, 0};
  return ToNative(FromNative(node)->input(i));
}

sl_status* sl_node_attr(const sl_node* node, const char* name, sl_attr* attr) {
  return ViewedAttr(node, name, attr, ViewAttr);
}

sl_status* sl_node_attr_item(const sl_node* node, const char* name, int64_t i,
                             sl_attr* attr) {
  return ViewedAttr(node, name, attr, [i](const AttrValue& v, sl_attr* a) {
    return ViewItem(v, i, a);
  });
}

sl_status* sl_node_attr_proto(const sl_node* node, const char* name,
                              sl_buffer** made) {
  return Outcome("attribute", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    return OfAttr(node, name, [&](const AttrValue& v) -> Status {
      SLUICE_ASSIGN_OR_RETURN(std::string bytes, SerializeAttrValue(v));
      *made = NewNativeBuffer(std::move(bytes));
      return OkStatus();
    });
  });
}

sl_dtype sl_output_dtype(sl_output output) {
  if (!HasNode(output.node, output.index, &Node::num_outputs)) return 0;
  return static_cast<sl_dtype>(RemoveRef(FromNative(output).dtype()));
}

int32_t sl_output_shape(sl_output output, int64_t* dims, int32_t room) {
  if (!HasNode(output.node, output.index, &Node::num_outputs)) return -1;
  const Output o = FromNative(output);
  const NativeLock lock(o.graph()->mutex());
  const PartialShape& shape = o.shape();
  if (!shape.rank_known()) return -1;
  for (int32_t i = 0; dims != nullptr && i < std::min(room, shape.rank()); ++i)
    dims[i] = shape.dim(i);
  return shape.rank();
}

}  // extern "C"
