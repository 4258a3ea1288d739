#include "graph/graph.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "graph/control_flow.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

// Of one argument of a node.
constexpr int64_t kMaxOutputs = 1 << 16;

bool ValidName(std::string_view name) {
  if (name.empty()) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool alnum = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       (c >= '0' && c <= '9');
    const bool later = c == '_' || c == '/' || c == '\\' || c == '-' || c == '>';
    if (!(alnum || c == '.' || c == '_' || (i > 0 && later))) return false;
  }
  return true;
}

// Turns a value into the declared kind where that loses nothing: an empty list
// of unknown kind, an int given for a float.
AttrValue Coerce(const AttrDef& def, AttrValue v) {
  if (def.is_list && v.get<AttrValue::EmptyList>()) return EmptyListOf(def.kind);
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
    return InvalidArgument("attribute '", def.name, "': expected another kind, got ",
                           v.ToString());
  auto check_type = [&](DType t) {
    if (!def.allowed_types.empty() &&
        std::find(def.allowed_types.begin(), def.allowed_types.end(),
                  RemoveRef(t)) == def.allowed_types.end()) {
      std::vector<std::string> names;
      for (DType a : def.allowed_types) names.push_back(DTypeName(a));
      return InvalidArgument("attribute '", def.name, "': expected one of {",
                             absl::StrJoin(names, ","), "}, got ", DTypeName(t));
    }
    return OkStatus();
  };
  auto check_string = [&](const std::string& s) {
    if (!def.allowed_strings.empty() &&
        std::find(def.allowed_strings.begin(), def.allowed_strings.end(), s) ==
            def.allowed_strings.end())
      return InvalidArgument("attribute '", def.name, "': expected one of {",
                             absl::StrJoin(def.allowed_strings, ","), "}, got '",
                             s, "'");
    return OkStatus();
  };
  if (const DType* t = v.get<DType>()) SLUICE_RETURN_IF_ERROR(check_type(*t));
  if (const auto* ts = v.get<AttrValue::Types>())
    for (DType t : *ts) SLUICE_RETURN_IF_ERROR(check_type(t));
  if (const auto* s = v.get<std::string>()) SLUICE_RETURN_IF_ERROR(check_string(*s));
  if (const auto* ss = v.get<AttrValue::Strings>())
    for (const std::string& s : *ss) SLUICE_RETURN_IF_ERROR(check_string(s));
  if (def.minimum) {
    const int64_t size = std::visit(
        [](const auto& x) -> int64_t {
          using X = std::decay_t<decltype(x)>;
          if constexpr (std::is_same_v<X, int64_t>) return x;
          else if constexpr (requires { x.size(); } && !std::is_same_v<X, std::string>)
            return static_cast<int64_t>(x.size());
          else return INT64_MAX;
        },
        v.value());
    if (size < *def.minimum)
      return InvalidArgument("attribute '", def.name, "': expected at least ",
                             *def.minimum, ", got ", size);
  }
  return OkStatus();
}

// Number of tensors that argument `arg` stands for, given the attributes.
Result<int64_t> ArgCount(const ArgDef& arg, const AttrMap& attrs) {
  if (!arg.number_attr.empty()) {
    auto it = attrs.find(arg.number_attr);
    const int64_t* n = it == attrs.end() ? nullptr : it->second.get<int64_t>();
    if (n == nullptr)
      return InvalidArgument("attribute '", arg.number_attr, "': expected an int, got none");
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
  if (!arg.type_attr.empty()) t = *attrs.at(arg.type_attr).get<DType>();
  if (!arg.type_list_attr.empty())
    t = (*attrs.at(arg.type_list_attr).get<AttrValue::Types>())[static_cast<size_t>(k)];
  return arg.is_ref ? MakeRef(t) : t;
}

// Fills in type and count attributes that the inputs determine.
Status InferAttrs(const OpDef& op, const std::vector<DType>& in, AttrMap& attrs) {
  const auto total = static_cast<int64_t>(in.size());
  // At most one argument of unknown length: it takes what the others leave.
  int64_t known = 0;
  int unknown = 0;
  for (const ArgDef& a : op.inputs) {
    const std::string& attr = !a.number_attr.empty() ? a.number_attr : a.type_list_attr;
    if (attr.empty() || attrs.count(attr)) {
      SLUICE_ASSIGN_OR_RETURN(int64_t n, ArgCount(a, attrs));
      known += n;
    } else {
      ++unknown;
    }
  }
  int64_t pos = 0;
  for (const ArgDef& a : op.inputs) {
    int64_t n = 1;
    const std::string& attr = !a.number_attr.empty() ? a.number_attr : a.type_list_attr;
    if (!attr.empty()) {
      if (attrs.count(attr)) {
        SLUICE_ASSIGN_OR_RETURN(n, ArgCount(a, attrs));
      } else {
        // Several arguments may share one count ("N").
        int sharing = 0;
        for (const ArgDef& b : op.inputs)
          if (b.number_attr == attr || b.type_list_attr == attr) ++sharing;
        if (unknown > sharing || (total - known) % sharing != 0 || total < known)
          return InvalidArgument("inputs: expected attribute '", attr,
                                 "' to tell their number, got ", total, " inputs");
        n = (total - known) / sharing;
        if (!a.number_attr.empty()) attrs[attr] = AttrValue(n);
      }
    }
    if (pos + n > total)
      return InvalidArgument("inputs: expected at least ", pos + n, " for ",
                             op.Signature(), ", got ", total);
    if (!a.type_attr.empty() && n > 0 && !attrs.count(a.type_attr)) {
      attrs[a.type_attr] = AttrValue(RemoveRef(in[static_cast<size_t>(pos)]));
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

}  // namespace

std::string SourceLoc::ToString() const {
  return known() ? absl::StrCat(file, ":", line) : "";
}

std::string Output::name() const {
  return node == nullptr ? "<none>" : absl::StrCat(node->name(), ":", index);
}

const AttrValue* Node::FindAttr(std::string_view name) const {
  auto it = attrs_.find(std::string(name));
  return it == attrs_.end() ? nullptr : &it->second;
}

Status Node::AttrError(std::string_view name) const {
  const AttrValue* a = FindAttr(name);
  if (a == nullptr)
    return InvalidArgument("attribute '", std::string(name),
                           "': expected a value, got none; ", Describe());
  return InvalidArgument("attribute '", std::string(name),
                         "': expected another kind, got ", a->ToString(), "; ",
                         Describe());
}

std::string Node::Describe() const {
  std::string s = absl::StrCat("node '", name_, "' (", op_->name, ")");
  if (loc_.known()) absl::StrAppend(&s, " at ", loc_.ToString());
  return s;
}

std::pair<int, int> Node::InputRange(int arg) const {
  int pos = 0;
  for (int i = 0;; ++i) {
    const auto n = static_cast<int>(
        ArgCount(op_->inputs[static_cast<size_t>(i)], attrs_).value_or(0));
    if (i == arg) return {pos, pos + n};
    pos += n;
  }
}

std::pair<int, int> Node::OutputRange(int arg) const {
  int pos = 0;
  for (int i = 0;; ++i) {
    const auto n = static_cast<int>(
        ArgCount(op_->outputs[static_cast<size_t>(i)], attrs_).value_or(0));
    if (i == arg) return {pos, pos + n};
    pos += n;
  }
}

Graph::Graph() : control_flow_(std::make_unique<ControlFlow>(this)) {}
Graph::~Graph() = default;

Result<Node*> Graph::AddNode(NodeSpec spec) {
  SLUICE_ASSIGN_OR_RETURN(const OpDef* op, OpRegistry::Global()->Lookup(spec.op));
  std::unique_ptr<Node> node(new Node);
  node->op_ = op;
  node->graph_ = this;
  node->loc_ = spec.loc;
  node->device_ = std::move(spec.device);
  if (spec.name.empty()) {
    spec.name = UniqueName(spec.op);
  } else if (!ValidName(spec.name)) {
    return InvalidArgument("name: expected letters, digits and ._/-, got '",
                           spec.name, "'");
  } else if (by_name_.count(spec.name)) {
    return AlreadyExists("name: expected a new one, got '", spec.name,
                         "', which exists in the graph");
  }
  node->name_ = spec.name;
  auto fail = [&node](const Status& s) {
    return Status(s.code(), absl::StrCat(s.message(), "; ", node->Describe()));
  };

  std::vector<DType> in;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const Output& o = spec.inputs[i];
    if (o.node == nullptr) {
      const DType t = i < spec.pending_input_types.size()
                          ? spec.pending_input_types[i]
                          : DType::kInvalid;
      if (op->role != OpRole::kMerge || t == DType::kInvalid)
        return fail(InvalidArgument("input ", i, ": expected an output, got none"));
      in.push_back(t);
      continue;
    }
    if (o.node->graph() != this)
      return fail(InvalidArgument("input ", i, ": expected a node of this graph, got ",
                                  o.node->Describe(), " of another"));
    if (o.index < 0 || o.index >= o.node->num_outputs())
      return fail(InvalidArgument("input ", i, ": expected output 0 to ",
                                  o.node->num_outputs() - 1, " of '",
                                  o.node->name(), "', got ", o.index));
    in.push_back(o.dtype());
  }

  AttrMap& attrs = spec.attrs;
  for (auto& [name, value] : attrs)
    if (const AttrDef* def = op->FindAttr(name)) value = Coerce(*def, std::move(value));
  if (Status s = InferAttrs(*op, in, attrs); !s.ok()) return fail(s);
  for (const AttrDef& def : op->attrs) {
    auto it = attrs.find(def.name);
    if (it == attrs.end()) {
      if (!def.default_value)
        return fail(InvalidArgument("attribute '", def.name,
                                    "': expected a value, got none"));
      it = attrs.emplace(def.name, *def.default_value).first;
    }
    if (Status s = CheckAttr(def, it->second); !s.ok()) return fail(s);
  }

  size_t pos = 0;
  for (const ArgDef& arg : op->inputs) {
    SLUICE_ASSIGN_OR_RETURN(const int64_t n, ArgCount(arg, attrs));
    for (int64_t k = 0; k < n; ++k, ++pos) {
      const DType want = ArgType(arg, attrs, k), got = in[pos];
      const bool ok = IsRef(want) ? got == want : RemoveRef(got) == want;
      if (!ok) {
        std::string from = spec.inputs[pos].node != nullptr
                               ? absl::StrCat(" from '", spec.inputs[pos].name(), "'")
                               : "";
        return fail(InvalidArgument("input ", pos, " ('", arg.name, "'): expected ",
                                    DTypeName(want), ", got ", DTypeName(got), from));
      }
      node->input_types_.push_back(want);
    }
  }
  for (const ArgDef& arg : op->outputs) {
    Result<int64_t> n = ArgCount(arg, attrs);
    if (!n.ok()) return fail(n.status());
    // Unlike inputs, outputs are backed by nothing but the attribute.
    if (*n > kMaxOutputs)
      return fail(InvalidArgument("outputs: expected at most ", kMaxOutputs,
                                  ", got ", *n));
    for (int64_t k = 0; k < *n; ++k)
      node->output_types_.push_back(ArgType(arg, attrs, k));
  }
  node->inputs_ = std::move(spec.inputs);
  for (Node* c : spec.control_inputs) {
    if (c == nullptr || c->graph() != this)
      return fail(InvalidArgument("control input: expected a node of this graph"));
    if (std::find(node->control_inputs_.begin(), node->control_inputs_.end(), c) ==
        node->control_inputs_.end())
      node->control_inputs_.push_back(c);
  }
  node->attrs_ = std::move(attrs);
  node->output_shapes_.resize(node->output_types_.size());
  if (op->shape != nullptr) {
    ShapeContext c(*node);
    if (Status s = op->shape(c); !s.ok()) return fail(s);
    node->output_shapes_ = c.outputs();
  }
  // TensorFlow records what a front end knows beyond inference.
  if (const auto* known = node->FindAttr("_output_shapes"))
    if (const auto* shapes = known->get<AttrValue::Shapes>())
      for (size_t i = 0; i < shapes->size() && i < node->output_shapes_.size(); ++i) {
        Result<PartialShape> m = node->output_shapes_[i].MergeWith((*shapes)[i]);
        if (m.ok()) node->output_shapes_[i] = *m;
      }

  node->id_ = num_nodes();
  Node* raw = node.get();
  by_name_.emplace(node->name_, raw);
  nodes_.push_back(std::move(node));
  return raw;
}

Node* Graph::CopyNode(const Node& from, std::vector<Output> inputs,
                      std::vector<Node*> control_inputs) {
  std::unique_ptr<Node> node(new Node(from));
  node->graph_ = this;
  node->id_ = num_nodes();
  node->inputs_ = std::move(inputs);
  node->control_inputs_ = std::move(control_inputs);
  Node* raw = node.get();
  by_name_.emplace(node->name_, raw);
  nodes_.push_back(std::move(node));
  return raw;
}

Status Graph::SetBackEdge(Node* merge, int index, Output source) {
  if (merge->op().role != OpRole::kMerge || index < 0 ||
      index >= merge->num_inputs() || merge->input(index).node != nullptr)
    return InvalidArgument("back edge: expected an open input of a Merge, got input ",
                           index, " of ", merge->Describe());
  if (!source || source.node->op().role != OpRole::kNextIteration)
    return InvalidArgument("cycle: expected a NextIteration to close it, got ",
                           source ? source.node->Describe() : "none", " into ",
                           merge->Describe());
  if (RemoveRef(source.dtype()) != RemoveRef(merge->input_type(index)))
    return InvalidArgument("back edge: expected ",
                           DTypeName(merge->input_type(index)), ", got ",
                           DTypeName(source.dtype()), "; ", merge->Describe());
  merge->inputs_[static_cast<size_t>(index)] = source;
  return OkStatus();
}

Status Graph::AddControlEdge(Node* from, Node* to) {
  if (from->graph() != this || to->graph() != this || from == to)
    return InvalidArgument("control edge: expected two nodes of this graph, got '",
                           from->name(), "' and '", to->name(), "'");
  auto& c = to->control_inputs_;
  if (std::find(c.begin(), c.end(), from) == c.end()) c.push_back(from);
  return OkStatus();
}

Status Graph::SetShape(Output o, const PartialShape& shape) {
  PartialShape& have = o.node->output_shapes_[static_cast<size_t>(o.index)];
  Result<PartialShape> merged = have.MergeWith(shape);
  if (!merged.ok())
    return InvalidArgument("shape of '", o.name(), "': expected ", have.ToString(),
                           ", got ", shape.ToString(), "; ", o.node->Describe());
  have = *merged;
  return OkStatus();
}

Status Graph::ReplaceInput(Node* node, int index, Output source) {
  if (RemoveRef(source.dtype()) != RemoveRef(node->input_type(index)))
    return Internal("replacing input ", index, " of ", node->Describe(), ": expected ",
                    DTypeName(node->input_type(index)), ", got ",
                    DTypeName(source.dtype()));
  node->inputs_[static_cast<size_t>(index)] = source;
  return OkStatus();
}

Node* Graph::FindNode(std::string_view name) const {
  auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : it->second;
}

Result<Node*> Graph::LookupNode(std::string_view name) const {
  if (Node* n = FindNode(name)) return n;
  std::vector<std::string> names;
  for (const auto& n : nodes_) names.push_back(n->name());
  const std::vector<std::string> near = NearestNames(name, names);
  return NotFound("expected a node of the graph, got '", std::string(name), "'",
                  near.empty() ? "" : "; nearest: ", absl::StrJoin(near, ", "));
}

Result<Output> Graph::FindOutput(std::string_view name) const {
  int index = 0;
  std::string_view base = name;
  if (const size_t colon = name.rfind(':'); colon != std::string_view::npos) {
    if (!absl::SimpleAtoi(absl::string_view(name.data() + colon + 1,
                                            name.size() - colon - 1), &index))
      return InvalidArgument("expected 'name' or 'name:index', got '",
                             std::string(name), "'");
    base = name.substr(0, colon);
  }
  SLUICE_ASSIGN_OR_RETURN(Node* n, LookupNode(base));
  if (index < 0 || index >= n->num_outputs())
    return NotFound("expected an output 0 to ", n->num_outputs() - 1, " of ",
                    n->Describe(), ", got '", std::string(name), "'");
  return Output(n, index);
}

std::string Graph::UniqueName(const std::string& base) {
  if (!by_name_.count(base) && !scopes_.count(base)) return base;
  int& count = name_counts_[base];
  for (;;) {
    std::string name = absl::StrCat(base, "_", ++count);
    if (!by_name_.count(name) && !scopes_.count(name)) return name;
  }
}

std::string Graph::UniqueScope(const std::string& base) {
  std::string name = UniqueName(base);
  scopes_.insert(name);
  return name;
}

void Graph::RecordError(const Status& s) {
  if (status_.ok()) status_ = s;
}

const char* Graph::Intern(const std::string& s) {
  return interned_.insert(s).first->c_str();
}

Result<std::vector<Node*>> TopologicalOrder(const Graph& graph) {
  std::vector<int> pending(graph.nodes().size(), 0);
  std::vector<std::vector<Node*>> consumers(graph.nodes().size());
  auto back = [](const Node& to, const Node* from) {
    return to.op().role == OpRole::kMerge &&
           from->op().role == OpRole::kNextIteration;
  };
  std::vector<Node*> order;
  order.reserve(graph.nodes().size());
  for (const auto& n : graph.nodes()) {
    auto add = [&](Node* from) {
      if (from == nullptr || back(*n, from)) return;
      ++pending[static_cast<size_t>(n->id())];
      consumers[static_cast<size_t>(from->id())].push_back(n.get());
    };
    for (const Output& in : n->inputs()) add(in.node);
    for (Node* c : n->control_inputs()) add(c);
    if (pending[static_cast<size_t>(n->id())] == 0) order.push_back(n.get());
  }
  for (size_t i = 0; i < order.size(); ++i)
    for (Node* c : consumers[static_cast<size_t>(order[i]->id())])
      if (--pending[static_cast<size_t>(c->id())] == 0) order.push_back(c);
  if (order.size() == graph.nodes().size()) return order;
  for (const auto& n : graph.nodes())
    if (pending[static_cast<size_t>(n->id())] > 0)
      return InvalidArgument(
          "cycle: expected a NextIteration to close it, got one without through ",
          n->Describe());
  return Internal("cycle");
}

}  // namespace sluice
