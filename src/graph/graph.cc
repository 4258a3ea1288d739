#include "graph/graph.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "graph/any_names.h"
#include "graph/control_flow.h"
#include "graph/function.h"
#include "graph/hidden_attributes.h"
#include "graph/node_attrs.h"
#include "graph/shape_context.h"
#include "graph/tensor_store_info.h"
#include "graph/valid_outputs.h"

namespace sluice::internal {
namespace {
thread_local int any_names = 0;
}  // namespace

AnyNodeNames::AnyNodeNames() { ++any_names; }
AnyNodeNames::~AnyNodeNames() { --any_names; }
bool AnyNodeNames::Allowed() { return any_names > 0; }

}  // namespace sluice::internal

namespace sluice {
namespace {

// Maximum outputs of one argument of a node.
constexpr int64_t kMaxOutputs = 1 << 16;

// Whether a name may have this character: 1: behind the first one, 2: at all.
constexpr std::array<uint8_t, 256> kNameCharacters = [] {
  std::array<uint8_t, 256> table = {};
  for (size_t c = 0; c < table.size(); ++c)
    if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
        (c >= '0' && c <= '9') || c == '.' || c == '_')
      table[c] = 2;
  for (const char c : {'/', '\\', '-', '>'}) table[static_cast<uint8_t>(c)] = 1;
  return table;
}();

bool ValidName(std::string_view name) {
  uint8_t worst =
      name.empty() ? 0 : kNameCharacters[static_cast<uint8_t>(name[0])];
  if (worst != 2) return false;
  for (const char c : name)
    worst = std::min(worst, kNameCharacters[static_cast<uint8_t>(c)]);
  return worst > 0;
}

bool HasUpperCase(std::string_view name) {
  return std::any_of(name.begin(), name.end(),
                     [](char c) { return c >= 'A' && c <= 'Z'; });
}

// The nodes in order, without duplicates.
std::vector<Node*> WithoutRepeats(std::vector<Node*> nodes) {
  constexpr size_t kFew = 16;
  if (nodes.size() <= kFew) {
    auto end = nodes.begin();
    for (Node* n : nodes)
      if (std::find(nodes.begin(), end, n) == end) *end++ = n;
    nodes.erase(end, nodes.end());
  } else {
    std::unordered_set<const Node*> seen;
    std::erase_if(nodes, [&](Node* n) { return !seen.insert(n).second; });
  }
  return nodes;
}

}  // namespace

std::string SourceLoc::ToString() const {
  return known() ? absl::StrCat(file, ":", line) : "";
}

std::string Output::name() const {
  return node == nullptr ? "<none>" : absl::StrCat(node->name(), ":", index);
}

const AttrValue* Node::FindAttr(std::string_view name) const {
  auto it = props_->attrs.find(name);
  return it == props_->attrs.end() ? nullptr : &it->second;
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

Status Node::CheckNoPlaceholders() const {
  if (!has_placeholders()) return OkStatus();
  for (const AttrDef& def : op().attrs)
    if (const AttrValue* v = FindAttr(def.name);
        v != nullptr && v->get<AttrValue::Placeholder>() != nullptr)
      return InvalidArgument(
          "attribute '", def.name, "': expected a value, got the placeholder ",
          v->ToString(), ", which stands for an attribute of a function; ",
          Describe());
  return OkStatus();
}

namespace {

std::string DescribeNode(const std::string& name, const std::string& op,
                         SourceLoc loc) {
  return absl::StrCat("node '", name, "' (", op, ")",
                      loc.known() ? " at " + loc.ToString() : "");
}

// "; inputs 'a' (Const) [2,3] at x.cc:3, ...": the inputs of a node that could
// not be built. (Null inputs are back edges that are not set yet.)
std::string DescribeInputs(const std::vector<Output>& inputs) {
  constexpr size_t kMax = 8;
  std::string text;
  for (size_t i = 0; i < std::min(inputs.size(), kMax); ++i) {
    if (!inputs[i].valid()) continue;
    const Node& from = *inputs[i].node;
    absl::StrAppend(&text, text.empty() ? "; inputs '" : ", '",
                    inputs[i].index == 0 ? from.name() : inputs[i].name(),
                    "' (", from.built_as(), ") ", inputs[i].shape().ToString(),
                    from.loc().known() ? " at " + from.loc().ToString() : "");
  }
  if (inputs.size() > kMax)
    absl::StrAppend(&text, " and ", inputs.size() - kMax, " more");
  return text;
}

}  // namespace

std::string Node::Describe() const {
  return DescribeNode(name(), built_as(), loc());
}

namespace {

std::pair<int, int> RangeOf(const std::vector<ArgDef>& args,
                            const AttrMap& attrs, int arg) {
  int pos = 0;
  for (int i = 0; i < static_cast<int>(args.size()); ++i) {
    const auto n = static_cast<int>(
        ArgCount(args[static_cast<size_t>(i)], attrs).value_or(0));
    if (i == arg) return {pos, pos + n};
    pos += n;
  }
  return {pos, pos};
}

}  // namespace

std::pair<int, int> Node::InputRange(int arg) const {
  return RangeOf(op().inputs, attrs(), arg);
}

std::pair<int, int> Node::OutputRange(int arg) const {
  return RangeOf(op().outputs, attrs(), arg);
}

Result<std::vector<DType>> TypesOf(const std::vector<ArgDef>& args,
                                   const AttrMap& attrs) {
  std::vector<DType> types;
  for (const ArgDef& arg : args) {
    SLUICE_ASSIGN_OR_RETURN(const int64_t n, ArgCount(arg, attrs));
    if (n > kMaxOutputs)
      return InvalidArgument("argument '", arg.name, "': expected at most ",
                             kMaxOutputs, " tensors, got ", n);
    if (!arg.type_attr.empty()) {
      auto it = attrs.find(arg.type_attr);
      if (it == attrs.end() || it->second.get<DType>() == nullptr)
        return InvalidArgument("attribute '", arg.type_attr,
                               "': expected a type, got none");
    }
    for (int64_t k = 0; k < n; ++k) types.push_back(ArgType(arg, attrs, k));
  }
  return types;
}

Graph::Graph()
    : function_library_(std::make_shared<FunctionLibrary>()),
      control_flow_(std::make_unique<ControlFlow>(this)) {}
Graph::~Graph() = default;

const std::map<std::string, std::string>& Graph::functions() const {
  return function_library_->defs();
}
std::map<std::string, std::string>& Graph::function_gradients() {
  return function_library_->gradients();
}
const std::map<std::string, std::string>& Graph::function_gradients() const {
  return function_library_->gradients();
}

Result<Node*> Graph::AddNode(NodeSpec spec) {
  std::unique_ptr<Node> node(new Node);
  node->props_ = std::make_shared<Node::Props>();
  Node::Props& props = *node->props_;
  node->graph_ = this;
  props.loc = spec.loc;
  props.device = std::move(spec.device);
  const bool named = !spec.name.empty();
  props.name = named ? std::move(spec.name) : UniqueName(spec.op);
  const auto fail = [&](const Status& s) {
    return Status(s.code(),
                  absl::StrCat(s.message(), "; ",
                               DescribeNode(props.name, spec.op, props.loc)));
  };
  const Result<const OpDef*> found = function_library_->LookupOp(spec.op);
  if (!found.ok()) return fail(found.status());
  const OpDef* const op = props.op = *found;
  if (named && !ValidName(props.name) && !internal::AnyNodeNames::Allowed())
    return fail(InvalidArgument(
        "name: expected letters, digits and ._/-, got '", props.name, "'"));
  if (named && FindId(props.name) >= 0)
    return fail(AlreadyExists("name: expected a new one, got '", props.name,
                              "', which exists in the graph"));

  absl::InlinedVector<DType, 8> in;
  in.reserve(spec.inputs.size());
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const Output& o = spec.inputs[i];
    if (o.node == nullptr) {
      const DType t = i < spec.pending_input_types.size()
                          ? spec.pending_input_types[i]
                          : DType::kInvalid;
      if (op->role != OpRole::kMerge || t == DType::kInvalid)
        return fail(
            InvalidArgument("input ", i, ": expected an output, got none"));
      in.push_back(t);
      continue;
    }
    if (o.node->graph() != this)
      return fail(InvalidArgument("input ", i,
                                  ": expected a node of this graph, got ",
                                  o.node->Describe(), " of another"));
    if (o.index < 0 || o.index >= o.node->num_outputs())
      return fail(InvalidArgument("input ", i, ": expected ",
                                  ValidOutputs(*o.node), " of '",
                                  o.node->name(), "', got ", o.index));
    in.push_back(o.dtype());
  }

  AttrMap& attrs = spec.attrs;
  for (auto& [name, value] : attrs)
    if (const AttrDef* def = op->FindAttr(name);
        def != nullptr &&
        (value.kind() != def->kind || value.is_list() != def->is_list)) {
      if (const auto* p = value.get<AttrValue::Placeholder>()) {
        if (Status s = CheckPlaceholder(*op, *def, *p); !s.ok()) return fail(s);
        props.has_placeholders = true;
        continue;
      }
      value = Coerce(*def, std::move(value));
    }
  if (Status s = InferAttrs(*op, {in.data(), in.size()}, attrs); !s.ok())
    return fail(s);
  for (const AttrDef& def : op->attrs) {
    auto it = attrs.find(def.name);
    if (it == attrs.end()) {
      if (!def.default_value)
        return fail(InvalidArgument("attribute '", def.name,
                                    "': expected a value, got none"));
      it = attrs.emplace(def.name, *def.default_value).first;
    }
    if (props.has_placeholders &&
        it->second.get<AttrValue::Placeholder>() != nullptr)
      continue;
    if (Status s = CheckAttr(def, it->second); !s.ok()) return fail(s);
  }

  // (Most arguments of an op have the type of the one before.)
  const std::string* type_attr = nullptr;
  DType type = DType::kInvalid;
  const auto type_of = [&](const ArgDef& arg, int64_t k) {
    if (arg.type_attr.empty()) return ArgType(arg, attrs, k);
    if (type_attr == nullptr || *type_attr != arg.type_attr) {
      type_attr = &arg.type_attr;
      type = *attrs.find(arg.type_attr)->second.get<DType>();
    }
    return arg.is_ref ? MakeRef(type) : type;
  };
  props.input_types.reserve(in.size());
  size_t pos = 0;
  for (const ArgDef& arg : op->inputs) {
    SLUICE_ASSIGN_OR_RETURN(const int64_t n, ArgCount(arg, attrs));
    for (int64_t k = 0; k < n; ++k, ++pos) {
      const DType want = type_of(arg, k), got = in[pos];
      const bool ok = IsRef(want) ? got == want : RemoveRef(got) == want;
      if (!ok) {
        std::string from =
            spec.inputs[pos].node != nullptr
                ? absl::StrCat(" from '", spec.inputs[pos].name(), "'")
                : "";
        return fail(InvalidArgument("input ", pos, " ('", arg.name,
                                    "'): expected ", DTypeName(want), ", got ",
                                    DTypeName(got), from));
      }
      props.input_types.push_back(want);
    }
  }
  props.output_types.reserve(op->outputs.size());
  for (const ArgDef& arg : op->outputs) {
    Result<int64_t> n = ArgCount(arg, attrs);
    if (!n.ok()) return fail(n.status());
    // The number of outputs, unlike that of inputs, is determined by the
    // attribute alone.
    if (*n > kMaxOutputs)
      return fail(InvalidArgument("outputs: expected at most ", kMaxOutputs,
                                  ", got ", *n));
    for (int64_t k = 0; k < *n; ++k) {
      const DType t = type_of(arg, k);
      if (t == DType::kInvalid)
        return fail(InvalidArgument("output '", arg.name,
                                    "': expected a type, got invalid"));
      props.output_types.push_back(t);
    }
  }
  node->inputs_ = std::move(spec.inputs);
  for (const Node* c : spec.control_inputs)
    if (c == nullptr || c->graph() != this)
      return fail(
          InvalidArgument("control input: expected a node of this graph"));
  node->control_inputs_ = WithoutRepeats(std::move(spec.control_inputs));
  props.attrs = std::move(attrs);
  if (op->shape == nullptr) {
    props.output_shapes.resize(props.output_types.size());
  } else {
    ShapeContext c(*node);
    if (const Status s = c.Infer(); !s.ok()) {
      const Status here = fail(s);
      return Status(here.code(), absl::StrCat(here.message(),
                                              DescribeInputs(node->inputs())));
    }
    props.output_shapes = c.outputs();
  }
  // TensorFlow records shapes from the front end in this attribute.
  if (const auto* known = props.attrs.size() > op->attrs.size()
                              ? node->FindAttr(kOutputShapesAttr)
                              : nullptr)
    if (const auto* shapes = known->get<AttrValue::Shapes>())
      for (size_t i = 0; i < shapes->size() && i < props.output_shapes.size();
           ++i) {
        Result<PartialShape> m = props.output_shapes[i].MergeWith((*shapes)[i]);
        if (m.ok()) props.output_shapes[i] = *m;
      }

  // (For UniqueName, which compares in lower case.)
  if (HasUpperCase(props.name))
    scopes_.insert(absl::AsciiStrToLower(props.name));
  node->id_ = num_nodes();
  nodes_.push_back(std::move(node));
  IndexNames();
  if (WritesStore(*nodes_.back()) || op->role == OpRole::kFunctional)
    CountStoreWrite();
  return nodes_.back().get();
}

Node* Graph::CopyNode(const Node& from, std::vector<Output> inputs,
                      std::vector<Node*> control_inputs) {
  from.copied_ = true;
  std::unique_ptr<Node> node(new Node);
  node->graph_ = this;
  node->id_ = num_nodes();
  node->copied_ = true;
  node->props_ = from.props_;
  node->inputs_ = std::move(inputs);
  node->control_inputs_ = std::move(control_inputs);
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

Node::Props& Graph::Change(Node* node) {
  if (std::exchange(node->copied_, false)) {
    outdated_.push_back(node->props_);
    node->props_ = std::make_shared<Node::Props>(*node->props_);
  }
  return *node->props_;
}

void Graph::SetDevice(Node* node, std::string device) {
  Change(node).device = std::move(device);
}

void Graph::SetAttr(Node* node, const std::string& name, AttrValue value) {
  Node::Props& props = Change(node);
  props.attrs[name] = std::move(value);
  if (props.has_placeholders)
    props.has_placeholders = std::any_of(
        props.op->attrs.begin(), props.op->attrs.end(), [&](const auto& def) {
          const AttrValue* v = node->FindAttr(def.name);
          return v != nullptr && v->get<AttrValue::Placeholder>() != nullptr;
        });
}

Status Graph::TurnIntoConstant(Node* node, Tensor value) {
  if (node->num_outputs() == 0 || node->output_type(0) != value.dtype())
    return Internal("constant: expected a value of output 0, got ",
                    DTypeName(value.dtype()), "; ", node->Describe());
  SLUICE_ASSIGN_OR_RETURN(const OpDef* op,
                          OpRegistry::Global()->Lookup("Const"));
  auto props = std::make_shared<Node::Props>();
  props->name = node->name();
  props->op = op;
  props->built_as = node->built_as();
  props->device = node->device();
  props->loc = node->loc();
  props->output_types = {value.dtype()};
  props->output_shapes = {PartialShape(value.shape())};
  props->attrs.emplace("dtype", AttrValue(value.dtype()));
  props->attrs.emplace("value", AttrValue(std::move(value)));
  outdated_.push_back(std::exchange(node->props_, std::move(props)));
  node->copied_ = false;
  node->inputs_.clear();
  node->control_inputs_.clear();
  return OkStatus();
}

std::vector<std::unique_ptr<Node>> Graph::Retain(
    const std::vector<uint8_t>& keep) {
  std::vector<std::unique_ptr<Node>> removed;
  size_t kept = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (keep[i] == 0) {
      removed.push_back(std::move(nodes_[i]));
      continue;
    }
    if (kept != i) nodes_[kept] = std::move(nodes_[i]);
    nodes_[kept]->id_ = static_cast<int>(kept);
    ++kept;
  }
  nodes_.resize(kept);
  by_name_.Clear();
  indexed_ = 0;
  return removed;
}

Node* Graph::CopyNode(const Node& from, std::string name, std::string device,
                      SourceLoc loc, std::vector<Output> inputs,
                      std::vector<Node*> control_inputs) {
  Node* node = CopyNode(from, std::move(inputs), std::move(control_inputs));
  auto props = std::make_shared<Node::Props>(*node->props_);
  props->name = std::move(name);
  props->device = std::move(device);
  props->loc = loc;
  node->props_ = std::move(props);
  node->copied_ = false;
  return node;
}

void Graph::RefineShapes(Node* node) {
  if (node->op().shape == nullptr) return;
  ShapeContext c(*node);
  if (!c.Infer().ok()) return;
  for (int i = 0; i < node->num_outputs(); ++i) {
    Result<PartialShape> m =
        node->output_shape(i).MergeWith(c.outputs()[static_cast<size_t>(i)]);
    if (m.ok() && !(*m == node->output_shape(i)))
      Change(node).output_shapes[static_cast<size_t>(i)] = *std::move(m);
  }
}

Status Graph::TurnIntoIdentity(Node* node, std::vector<Output> values,
                               std::vector<Node*> controls) {
  if (values.empty()) return TurnIntoNoOp(node, std::move(controls));
  if (values.size() != static_cast<size_t>(node->num_outputs()))
    return Internal("replacing ", node->Describe(), ": expected ",
                    node->num_outputs(), " values, got ", values.size());
  for (int i = 0; i < node->num_outputs(); ++i) {
    const DType got = RemoveRef(values[static_cast<size_t>(i)].dtype());
    if (got != node->output_type(i))
      return Internal("replacing output ", i, " of ", node->Describe(),
                      ": expected ", DTypeName(node->output_type(i)), ", got ",
                      DTypeName(got));
  }
  SLUICE_ASSIGN_OR_RETURN(const OpDef* op,
                          OpRegistry::Global()->Lookup("IdentityN"));
  Node::Props& props = Change(node);
  props.built_as = node->built_as();
  props.op = op;
  props.input_types = props.output_types;
  props.attrs = {{"T", AttrValue(AttrValue::Types(props.output_types))}};
  node->inputs_ = std::move(values);
  node->control_inputs_ = std::move(controls);
  RefineShapes(node);
  return OkStatus();
}

Status Graph::TurnIntoNoOp(Node* node, std::vector<Node*> controls) {
  SLUICE_ASSIGN_OR_RETURN(const OpDef* op,
                          OpRegistry::Global()->Lookup("NoOp"));
  Node::Props& props = Change(node);
  props.built_as = node->built_as();
  props.op = op;
  props.input_types.clear();
  props.output_types.clear();
  props.output_shapes.clear();
  props.attrs.clear();
  node->inputs_.clear();
  node->control_inputs_ = std::move(controls);
  return OkStatus();
}

Status Graph::SetBackEdge(Node* merge, int index, Output source) {
  if (merge == nullptr || merge->graph() != this)
    return InvalidArgument("back edge: expected a Merge of this graph, got ",
                           merge == nullptr ? "none" : merge->Describe());
  if (merge->op().role != OpRole::kMerge || index < 0 ||
      index >= merge->num_inputs() || merge->input(index).node != nullptr)
    return InvalidArgument(
        "back edge: expected an open input of a Merge, got input ", index,
        " of ", merge->Describe());
  if (!source.valid() || source.graph() != this || source.index != 0 ||
      source.node->op().role != OpRole::kNextIteration)
    return InvalidArgument("cycle: expected a NextIteration to close it, got ",
                           source.valid() ? source.node->Describe() : "none",
                           " into ", merge->Describe());
  if (RemoveRef(source.dtype()) != RemoveRef(merge->input_type(index)))
    return InvalidArgument("back edge: expected ",
                           DTypeName(merge->input_type(index)), ", got ",
                           DTypeName(source.dtype()), "; ", merge->Describe());
  merge->inputs_[static_cast<size_t>(index)] = source;
  return OkStatus();
}

Status Graph::AddControlEdge(Node* from, Node* to) {
  if (from == nullptr || to == nullptr)
    return InvalidArgument("control edge: expected two nodes, got ",
                           from == to ? "none" : "one");
  if (from->graph() != this || to->graph() != this || from == to)
    return InvalidArgument(
        "control edge: expected two nodes of this graph, got '", from->name(),
        "' and '", to->name(), "'");
  auto& c = to->control_inputs_;
  if (std::find(c.begin(), c.end(), from) == c.end()) c.push_back(from);
  return OkStatus();
}

Status Graph::SetShape(Output o, const PartialShape& shape) {
  if (!o.valid() || o.graph() != this || o.index < 0 ||
      o.index >= o.node->num_outputs())
    return InvalidArgument("shape: expected an output of this graph, got ",
                           o.valid() ? "'" + o.name() + "'" : "none");
  SLUICE_RETURN_IF_ERROR(shape.status());
  const PartialShape& have = o.shape();
  Result<PartialShape> merged = have.MergeWith(shape);
  if (!merged.ok())
    return InvalidArgument("shape of '", o.name(), "': expected ",
                           have.ToString(), ", got ", shape.ToString(), "; ",
                           o.node->Describe());
  if (*merged == have) return OkStatus();
  Change(o.node).output_shapes[static_cast<size_t>(o.index)] =
      *std::move(merged);
  return OkStatus();
}

Status Graph::ReplaceInput(Node* node, int index, Output source) {
  if (RemoveRef(source.dtype()) != RemoveRef(node->input_type(index)))
    return Internal("replacing input ", index, " of ", node->Describe(),
                    ": expected ", DTypeName(node->input_type(index)), ", got ",
                    DTypeName(source.dtype()));
  node->inputs_[static_cast<size_t>(index)] = source;
  return OkStatus();
}

void Graph::IndexNames() const {
  if (indexed_ == nodes_.size()) return;
  by_name_.Reserve(nodes_.size());
  for (; indexed_ < nodes_.size(); ++indexed_)
    by_name_.Insert(nodes_[indexed_]->name(), static_cast<int>(indexed_));
}

int Graph::FindId(std::string_view name) const {
  IndexNames();
  return by_name_.Find(name, [this](int id) -> std::string_view {
    return nodes_[static_cast<size_t>(id)]->name();
  });
}

void Graph::ReplaceControlInput(Node* node, const Node* from, Node* to) {
  auto& c = node->control_inputs_;
  std::erase(c, from);
  if (std::find(c.begin(), c.end(), to) == c.end()) c.push_back(to);
}

Node* Graph::FindNode(std::string_view name) const {
  const int id = FindId(name);
  return id < 0 ? nullptr : nodes_[static_cast<size_t>(id)].get();
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
    if (!absl::SimpleAtoi(
            absl::string_view(name.data() + colon + 1, name.size() - colon - 1),
            &index))
      return InvalidArgument("expected 'name' or 'name:index', got '",
                             std::string(name), "'");
    base = name.substr(0, colon);
  }
  SLUICE_ASSIGN_OR_RETURN(Node * n, LookupNode(base));
  if (n->num_outputs() == 0)
    return NotFound("expected a node with outputs, got '", std::string(name),
                    "', which can only be a target; ", n->Describe());
  if (index < 0 || index >= n->num_outputs())
    return NotFound("expected ", ValidOutputs(*n), " of ", n->Describe(),
                    ", got '", std::string(name), "'");
  return Output(n, index);
}

// Generated names differ in more than case, as in TensorFlow's Python, since
// they may become file names of checkpoints or logs.
std::string Graph::UniqueName(const std::string& base) {
  const std::string key = absl::AsciiStrToLower(base);
  const auto is_taken = [&](const std::string& end) {
    return FindId(base + end) >= 0 || scopes_.count(key + end) > 0 ||
           (key != base && FindId(key + end) >= 0);
  };
  if (!is_taken("")) return base;
  // All suffixes up to `taken` were returned before; an unused name is returned
  // again.
  int& taken = name_counts_[key];
  for (;; ++taken) {
    const std::string end = absl::StrCat("_", taken + 1);
    if (!is_taken(end)) return base + end;
  }
}

std::string Graph::UniqueScope(const std::string& base) {
  std::string name = UniqueName(base);
  scopes_.insert(absl::AsciiStrToLower(name));
  return name;
}

void Graph::RecordError(Status s) {
  if (s.ok()) return;
  if (errors_.size() == kMaxErrors) {
    errors_.pop_back();
    if (null_nodes_.size() == kMaxErrors) null_nodes_.pop_back();
  }
  errors_.push_back(std::move(s));
  failure_ = Output::Failed(static_cast<int>(errors_.size()) - 1);
}

const Status* Graph::ErrorOf(const Output& null) const {
  const int error = null.error();
  return error >= 0 && static_cast<size_t>(error) < errors_.size()
             ? &errors_[static_cast<size_t>(error)]
             : nullptr;
}

void Graph::CountNullNode(bool take_back) {
  if (ErrorOf(failure_) == nullptr) return;
  const auto error = static_cast<size_t>(failure_.error());
  if (null_nodes_.size() <= error) null_nodes_.resize(error + 1, 0);
  null_nodes_[error] += take_back ? -1 : 1;
}

std::vector<Status> Graph::ErrorsOfNullNodes() const {
  std::vector<Status> first, rest;
  for (size_t i = 0; i < errors_.size(); ++i)
    (i < null_nodes_.size() && null_nodes_[i] > 0 ? first : rest)
        .push_back(errors_[i]);
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

void Graph::PropagateFailure(const Output& null, const Status& otherwise) {
  if (ErrorOf(null) != nullptr) {
    failure_ = null;
  } else if (errors_.empty() || null.reason() >= 0) {
    RecordError(otherwise);
  } else {
    const Status likely = ErrorsOfNullNodes()[0];
    RecordError(Status(likely.code(), absl::StrCat(otherwise.message(),
                                                   "; after an earlier error: ",
                                                   likely.message())));
  }
}

const char* Graph::Intern(const std::string& s) {
  return interned_.insert(s).first->c_str();
}

Result<std::vector<Node*>> TopologicalOrder(const Graph& graph,
                                            const std::vector<uint8_t>* only) {
  const size_t n = graph.nodes().size();
  auto skip = [only](const Node* node) {
    return node == nullptr ||
           (only != nullptr && (*only)[static_cast<size_t>(node->id())] == 0);
  };
  // Calls fn(source) for each edge that counts.
  auto each_source = [&skip](const Node& to, const auto& fn) {
    const bool merge = to.op().role == OpRole::kMerge;
    auto one = [&](const Node* from) {
      if (!skip(from) && !(merge && from->op().role == OpRole::kNextIteration))
        fn(static_cast<size_t>(from->id()));
    };
    for (const Output& in : to.inputs()) one(in.node);
    for (const Node* c : to.control_inputs()) one(c);
  };
  // Consumers of node i: consumers[end[i - 1], end[i]), where end[-1] is 0.
  std::vector<uint32_t> pending(n, 0), end(n, 0);
  size_t wanted = 0;
  for (const auto& node : graph.nodes()) {
    if (skip(node.get())) continue;
    ++wanted;
    uint32_t& waits = pending[static_cast<size_t>(node->id())];
    each_source(*node, [&](size_t from) { ++waits, ++end[from]; });
  }
  uint32_t edges = 0;
  for (uint32_t& e : end) e = std::exchange(edges, edges + e);
  std::vector<Node*> consumers(edges), order;
  order.reserve(wanted);
  for (const auto& node : graph.nodes()) {
    if (skip(node.get())) continue;
    each_source(*node,
                [&](size_t from) { consumers[end[from]++] = node.get(); });
    if (pending[static_cast<size_t>(node->id())] == 0)
      order.push_back(node.get());
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const auto id = static_cast<size_t>(order[i]->id());
    for (uint32_t e = id == 0 ? 0 : end[id - 1]; e < end[id]; ++e)
      if (--pending[static_cast<size_t>(consumers[e]->id())] == 0)
        order.push_back(consumers[e]);
  }
  if (order.size() == wanted) return order;
  // Nodes that were never ready are on a cycle or downstream of one: walk back
  // until a node repeats.
  const auto stuck = [&](const Node* node) {
    return !skip(node) && pending[static_cast<size_t>(node->id())] > 0;
  };
  const auto before = [&](const Node* node) -> const Node* {
    const bool merge = node->op().role == OpRole::kMerge;
    for (const Output& in : node->inputs())
      if (stuck(in.node) &&
          !(merge && in.node->op().role == OpRole::kNextIteration))
        return in.node;
    for (const Node* c : node->control_inputs())
      if (stuck(c)) return c;
    return nullptr;
  };
  for (const auto& node : graph.nodes()) {
    if (!stuck(node.get())) continue;
    std::vector<const Node*> way;
    const Node* at = node.get();
    while (at != nullptr &&
           std::find(way.begin(), way.end(), at) == way.end()) {
      way.push_back(at);
      at = before(at);
    }
    if (at == nullptr) break;
    way.erase(way.begin(), std::find(way.begin(), way.end(), at));
    constexpr size_t kMax = 12;
    std::string names = at->name();
    for (size_t i = 1; i < std::min(way.size(), kMax); ++i)
      absl::StrAppend(&names, " <- ", way[i]->name());
    absl::StrAppend(&names, way.size() > kMax ? " <- ..." : "", " <- ",
                    at->name());
    return InvalidArgument(
        "cycle: expected a NextIteration to close it, got one without through ",
        at->Describe(), ": ", names);
  }
  return Internal("cycle");
}

}  // namespace sluice
