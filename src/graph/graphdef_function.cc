#include "graph/graphdef_function.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "graph/attr_kind.h"
#include "graph/call_hook.h"
#include "graph/graphdef_messages.h"

namespace sluice {
namespace {

// In FunctionDef.attr: the body is defined later.

Result<proto::FunctionDef> Parse(std::string_view bytes) {
  proto::FunctionDef def;
  if (bytes.size() > INT32_MAX ||
      !def.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return InvalidArgument("FunctionDef: expected a serialised message, got ",
                           bytes.size(), " malformed bytes");
  return def;
}

Result<ArgDef> ArgFromProto(const proto::OpDef::ArgDef& p) {
  ArgDef arg;
  arg.name = p.name();
  arg.type_attr = p.type_attr();
  arg.type_list_attr = p.type_list_attr();
  arg.number_attr = p.number_attr();
  arg.is_ref = p.is_ref();
  if (p.type() != proto::DT_INVALID) {
    SLUICE_ASSIGN_OR_RETURN(arg.type, DTypeFromProto(p.type()));
  } else if (arg.type_attr.empty() && arg.type_list_attr.empty()) {
    return InvalidArgument("argument '", arg.name,
                           "': expected a type, got none");
  }
  return arg;
}

Result<AttrDef> AttrDefFromProto(const proto::OpDef::AttrDef& p) {
  AttrDef def;
  def.name = p.name();
  std::string kind = p.type();
  if (kind.starts_with("list(") && kind.ends_with(")")) {
    def.is_list = true;
    kind = kind.substr(5, kind.size() - 6);
  }
  def.kind = AttrKindOf(kind);
  if (def.kind == AttrKind::kNone)
    return InvalidArgument("attribute '", def.name, "': expected a kind, got '",
                           p.type(), "'");
  TensorProtoLimits limits;
  if (p.has_default_value()) {
    SLUICE_ASSIGN_OR_RETURN(def.default_value,
                            AttrFromProto(p.default_value(), &limits));
  }
  if (p.has_minimum()) def.minimum = p.minimum();
  return def;
}

Result<OpDef> SignatureFromProto(const proto::OpDef& p) {
  OpDef op;
  op.name = p.name();
  op.stateful = p.is_stateful();
  if (op.stateful) op.facts = kUsesState;
  op.doc = "A function of the graph's library.";
  for (const auto& a : p.attr()) {
    SLUICE_ASSIGN_OR_RETURN(AttrDef def, AttrDefFromProto(a));
    op.attrs.push_back(std::move(def));
  }
  const auto check = [&op](const ArgDef& arg) {
    for (const std::string* attr :
         {&arg.type_attr, &arg.type_list_attr, &arg.number_attr})
      if (!attr->empty() && op.FindAttr(*attr) == nullptr)
        return InvalidArgument("argument '", arg.name,
                               "': expected attribute '", *attr,
                               "' to be declared, got none of that name");
    return OkStatus();
  };
  for (const auto& a : p.input_arg()) {
    SLUICE_ASSIGN_OR_RETURN(ArgDef arg, ArgFromProto(a));
    SLUICE_RETURN_IF_ERROR(check(arg));
    op.inputs.push_back(std::move(arg));
  }
  for (const auto& a : p.output_arg()) {
    SLUICE_ASSIGN_OR_RETURN(ArgDef arg, ArgFromProto(a));
    SLUICE_RETURN_IF_ERROR(check(arg));
    op.outputs.push_back(std::move(arg));
  }
  return op;
}

void AddMentions(const proto::NameAttrList& f, std::set<std::string>* out);
void AddMentions(const proto::AttrValue& v, std::set<std::string>* out) {
  if (v.has_func()) AddMentions(v.func(), out);
  for (const proto::NameAttrList& f : v.list().func()) AddMentions(f, out);
}
void AddMentions(const proto::NameAttrList& f, std::set<std::string>* out) {
  out->insert(f.name());
  for (const auto& [name, value] : f.attr()) AddMentions(value, out);
}

// Builds one body: converts its FunctionDef to a GraphDef, whose import checks
// everything.
class BodyBuilder {
 public:
  BodyBuilder(const proto::FunctionDef& def, FunctionBody* body)
      : def_(def), body_(*body) {}

  Status Run() {
    SLUICE_ASSIGN_OR_RETURN(signature_, SignatureFromProto(def_.signature()));
    SLUICE_RETURN_IF_ERROR(BindAttrs());
    for (const proto::NodeDef& n : def_.node_def()) names_.insert(n.name());
    SLUICE_RETURN_IF_ERROR(AddArgs());
    for (const proto::NodeDef& n : def_.node_def())
      SLUICE_RETURN_IF_ERROR(AddNode(n));
    for (int i = 0; i < def_.node_def_size(); ++i)
      SLUICE_RETURN_IF_ERROR(AddInputs(i));
    graph_.mutable_versions()->set_producer(kGraphDefVersion);
    ImportResults results;
    SLUICE_RETURN_IF_ERROR(
        ImportParsed(graph_, *body_.graph, ImportOptions(), &results));
    body_.args.assign(results.nodes.begin(), results.nodes.begin() + num_args_);
    SLUICE_RETURN_IF_ERROR(FindResults());
    return FindControlResults();
  }

 private:
  // The tensors of one name, by output (or argument) name.
  struct Outputs {
    std::string node;
    std::vector<std::pair<std::string, std::pair<int, int>>> ranges;
  };

  Status BindAttrs() {
    for (const AttrDef& a : signature_.attrs) {
      const AttrValue* v = nullptr;
      if (body_.ref.attrs != nullptr)
        if (auto it = body_.ref.attrs->find(a.name);
            it != body_.ref.attrs->end())
          v = &it->second;
      if (v == nullptr && a.default_value) v = &*a.default_value;
      if (v == nullptr)
        return InvalidArgument("attribute '", a.name,
                               "': expected a value, got none");
      if (v->get<AttrValue::Placeholder>() != nullptr)
        return InvalidArgument("attribute '", a.name,
                               "': expected a value, got the placeholder ",
                               v->ToString());
      attrs_[a.name] = *v;
      SLUICE_RETURN_IF_ERROR(AttrToProto(*v, &bound_[a.name]));
    }
    return OkStatus();
  }

  Status AddArgs() {
    int index = 0;
    for (int i = 0; i < def_.signature().input_arg_size(); ++i) {
      const ArgDef& arg = signature_.inputs[static_cast<size_t>(i)];
      if (arg.is_ref)
        return InvalidArgument("argument '", arg.name,
                               "': expected a value, got a reference");
      SLUICE_ASSIGN_OR_RETURN(const std::vector<DType> types,
                              TypesOf({arg}, attrs_));
      const bool list = !arg.number_attr.empty() || !arg.type_list_attr.empty();
      std::vector<std::string>& nodes = arg_nodes_[arg.name];
      for (size_t k = 0; k < types.size(); ++k) {
        std::string name = list ? absl::StrCat(arg.name, "_", k) : arg.name;
        while (!names_.insert(name).second) name += "_arg";
        nodes.push_back(name);
        proto::NodeDef* n = graph_.add_node();
        n->set_name(name);
        n->set_op("_Arg");
        if (auto it = def_.arg_attr().find(static_cast<uint32_t>(i));
            it != def_.arg_attr().end())
          *n->mutable_attr() = it->second.attr();
        (*n->mutable_attr())["T"].set_type(
            static_cast<proto::DataType>(types[k]));
        (*n->mutable_attr())["index"].set_i(index++);
      }
    }
    num_args_ = index;
    return OkStatus();
  }

  Status Substitute(proto::AttrValue* v) const {
    if (v->value_case() == proto::AttrValue::kPlaceholder) {
      const auto it = bound_.find(v->placeholder());
      if (it == bound_.end())
        return InvalidArgument(
            "placeholder: expected an attribute of the "
            "function, got '$",
            v->placeholder(), "'");
      *v = it->second;
      return OkStatus();
    }
    if (v->has_func())
      for (auto& [name, value] : *v->mutable_func()->mutable_attr())
        SLUICE_RETURN_IF_ERROR(Substitute(&value));
    if (v->has_list())
      for (proto::NameAttrList& f : *v->mutable_list()->mutable_func())
        for (auto& [name, value] : *f.mutable_attr())
          SLUICE_RETURN_IF_ERROR(Substitute(&value));
    return OkStatus();
  }

  Status AddNode(const proto::NodeDef& from) {
    proto::NodeDef* n = graph_.add_node();
    *n = from;
    n->clear_input();
    const auto fail = [&](const Status& s) {
      return Status(s.code(), absl::StrCat(s.message(), "; node '", n->name(),
                                           "' (", n->op(), ")"));
    };
    if (n->op() != kGradientOutsideOp &&
        IsInternalOp(n->op(), body_.graph->function_library()))
      return fail(
          InvalidArgument("op: expected one that graphs may contain, got "
                          "an internal one"));
    for (auto& [name, value] : *n->mutable_attr())
      if (Status s = Substitute(&value); !s.ok()) return fail(s);
    Result<const OpDef*> op = body_.graph->function_library().LookupOp(n->op());
    if (!op.ok()) return fail(op.status());
    Outputs out;
    out.node = n->name();
    // The attributes that determine the numbers of outputs.
    AttrMap counts;
    TensorProtoLimits limits;
    for (const ArgDef& arg : (*op)->outputs)
      for (const std::string& attr :
           {arg.number_attr, arg.type_list_attr, arg.type_attr}) {
        if (attr.empty() || counts.count(attr) != 0) continue;
        const AttrDef* d = (*op)->FindAttr(attr);
        if (auto it = n->attr().find(attr); it != n->attr().end()) {
          Result<AttrValue> v = AttrFromProto(it->second, &limits);
          if (!v.ok()) return fail(v.status());
          counts[attr] =
              v->get<AttrValue::EmptyList>() != nullptr && d != nullptr
                  ? EmptyListOf(d->kind)
                  : *std::move(v);
        } else if (d != nullptr && d->default_value) {
          counts[attr] = *d->default_value;
        }
      }
    int at = 0;
    for (const ArgDef& arg : (*op)->outputs) {
      Result<std::vector<DType>> types = TypesOf({arg}, counts);
      if (!types.ok()) return fail(types.status());
      const int end = at + static_cast<int>(types->size());
      out.ranges.push_back({arg.name, {at, end}});
      at = end;
    }
    outputs_[n->name()] = std::move(out);
    return OkStatus();
  }

  // Resolves "arg", "arg:1", "node:output" or "node:output:1" to tensor names
  // of a GraphDef.
  Status Resolve(const std::string& text, std::vector<std::string>* out) const {
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    int index = -1;
    const bool is_arg = arg_nodes_.count(parts[0]) != 0;
    const size_t most = is_arg ? 2 : 3;
    const auto bad = [&text] {
      return InvalidArgument(
          "input: expected an argument or 'node:output:index', "
          "got '",
          text, "'");
    };
    if (parts.size() > most || parts.size() + 1 < most) return bad();
    if (parts.size() == most &&
        (!absl::SimpleAtoi(parts.back(), &index) || index < 0))
      return bad();
    std::vector<std::string> all;
    if (is_arg) {
      all = arg_nodes_.at(parts[0]);
    } else {
      const auto node = outputs_.find(parts[0]);
      if (node == outputs_.end())
        return InvalidArgument(
            "input: expected a node or argument of the "
            "function, got '",
            text, "'");
      const auto& ranges = node->second.ranges;
      const auto range =
          std::find_if(ranges.begin(), ranges.end(),
                       [&](const auto& r) { return r.first == parts[1]; });
      if (range == ranges.end())
        return InvalidArgument("input: expected an output of node '", parts[0],
                               "', got '", text, "'");
      for (int k = range->second.first; k < range->second.second; ++k)
        all.push_back(k == 0 ? parts[0] : absl::StrCat(parts[0], ":", k));
    }
    if (index < 0) {
      out->insert(out->end(), all.begin(), all.end());
      return OkStatus();
    }
    if (index >= static_cast<int>(all.size())) return bad();
    out->push_back(all[static_cast<size_t>(index)]);
    return OkStatus();
  }

  Status AddInputs(int i) {
    const proto::NodeDef& from = def_.node_def(i);
    proto::NodeDef* n = graph_.mutable_node(num_args_ + i);
    std::vector<std::string> inputs;
    for (const std::string& text : from.input()) {
      if (!text.starts_with("^")) {
        if (Status s = Resolve(text, &inputs); !s.ok())
          return Status(s.code(), absl::StrCat(s.message(), "; node '",
                                               n->name(), "' (", n->op(), ")"));
        continue;
      }
      const auto arg = arg_nodes_.find(text.substr(1));
      if (arg == arg_nodes_.end()) {
        inputs.push_back(text);
      } else {
        for (const std::string& a : arg->second) inputs.push_back("^" + a);
      }
    }
    for (std::string& in : inputs) n->add_input(std::move(in));
    return OkStatus();
  }

  Status FindResults() {
    for (const ArgDef& arg : signature_.outputs) {
      const auto it = def_.ret().find(arg.name);
      if (it == def_.ret().end())
        return InvalidArgument("result '", arg.name,
                               "': expected the name of an output, got none");
      std::vector<std::string> names;
      if (Status s = Resolve(it->second, &names); !s.ok())
        return Annotate(s, absl::StrCat("result '", arg.name, "'"));
      SLUICE_ASSIGN_OR_RETURN(const std::vector<DType> types,
                              TypesOf({arg}, attrs_));
      if (names.size() != types.size())
        return InvalidArgument("result '", arg.name, "': expected ",
                               types.size(), " tensors, got ", names.size());
      for (size_t k = 0; k < names.size(); ++k) {
        SLUICE_ASSIGN_OR_RETURN(const Output o,
                                body_.graph->FindOutput(names[k]));
        if (RemoveRef(o.dtype()) != types[k])
          return InvalidArgument(
              "result '", arg.name, "': expected ", DTypeName(types[k]),
              ", got ", DTypeName(o.dtype()), " from ", o.node->Describe());
        body_.results.push_back(o);
      }
    }
    return OkStatus();
  }

  Status FindControlResults() {
    for (const std::string& name : def_.signature().control_output()) {
      const auto it = def_.control_ret().find(name);
      if (it == def_.control_ret().end())
        return InvalidArgument("control result '", name,
                               "': expected the name of a node, got none");
      SLUICE_ASSIGN_OR_RETURN(Node * n, body_.graph->LookupNode(it->second));
      body_.control_results.push_back(n);
    }
    return OkStatus();
  }

  const proto::FunctionDef& def_;
  FunctionBody& body_;
  OpDef signature_;
  AttrMap attrs_;
  std::map<std::string, proto::AttrValue> bound_;
  std::set<std::string> names_;
  std::map<std::string, std::vector<std::string>> arg_nodes_;
  std::unordered_map<std::string, Outputs> outputs_;
  proto::GraphDef graph_;
  int num_args_ = 0;
};

// An unused name that is valid for an argument in TensorFlow.
std::string ArgName(const std::vector<std::string>& names, size_t i,
                    const char* other, std::set<std::string>* taken) {
  std::string name;
  for (char c : i < names.size() ? names[i] : std::string()) {
    c = absl::ascii_tolower(static_cast<unsigned char>(c));
    name += absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  if (name.empty() || !absl::ascii_isalpha(static_cast<unsigned char>(name[0])))
    name = absl::StrCat(other, name.empty() ? absl::StrCat("_", i) : name);
  const std::string base = name;
  for (int k = 1; !taken->insert(name).second; ++k)
    name = absl::StrCat(base, "_", k);
  return name;
}

void AddArg(const std::string& name, DType t, proto::OpDef::ArgDef* arg) {
  arg->set_name(name);
  arg->set_type(static_cast<proto::DataType>(t));
}

// The name of an output in a body: "node:output:index"; an argument's is its
// name.
std::string NameInBody(const Output& o,
                       const std::map<const Node*, std::string>& args) {
  if (const auto it = args.find(o.node); it != args.end()) return it->second;
  for (int arg = 0;; ++arg) {
    const auto [begin, end] = o.node->OutputRange(arg);
    if (o.index < end)
      return absl::StrCat(o.node->name(), ":",
                          o.node->op().outputs[static_cast<size_t>(arg)].name,
                          ":", o.index - begin);
  }
}

// Declares the attributes of a function that are the values of a node's.
Status DeclarePlaceholders(const Node& n, proto::OpDef* signature) {
  for (const auto& [name, value] : n.attrs()) {
    const auto* placeholder = value.get<AttrValue::Placeholder>();
    if (placeholder == nullptr) continue;
    const AttrDef* const def = n.op().FindAttr(name);
    if (def == nullptr)
      return Unimplemented("attribute '", name, "': expected a value, got ",
                           value.ToString(),
                           ", a placeholder for an attribute that the op does "
                           "not declare; ",
                           n.Describe());
    const std::string kind = AttrKindText(def->kind, def->is_list);
    const auto known = std::find_if(
        signature->attr().begin(), signature->attr().end(),
        [&](const auto& a) { return a.name() == placeholder->name; });
    if (known == signature->attr().end()) {
      proto::OpDef::AttrDef* const attr = signature->add_attr();
      attr->set_name(placeholder->name);
      attr->set_type(kind);
    } else if (known->type() != kind) {
      return InvalidArgument("attribute '", name, "': expected ", kind,
                             ", got ", value.ToString(), ", which is ",
                             known->type(), " elsewhere in the function; ",
                             n.Describe());
    }
  }
  return OkStatus();
}

}  // namespace

Result<OpDef> FunctionSignature(std::string_view bytes) {
  SLUICE_ASSIGN_OR_RETURN(const proto::FunctionDef def, Parse(bytes));
  return SignatureFromProto(def.signature());
}

bool IsDeclarationOnly(std::string_view bytes) {
  const Result<proto::FunctionDef> def = Parse(bytes);
  return def.ok() && def->attr().count(kDeclaredAttr) != 0;
}

bool HasFunctionFlag(std::string_view bytes, const std::string& flag) {
  const Result<proto::FunctionDef> def = Parse(bytes);
  if (!def.ok()) return false;
  const auto it = def->attr().find(flag);
  return it != def->attr().end() && it->second.b();
}

std::set<std::string> FunctionMentions(std::string_view bytes) {
  std::set<std::string> names;
  const Result<proto::FunctionDef> def = Parse(bytes);
  if (!def.ok()) return names;
  for (const proto::NodeDef& n : def->node_def()) {
    names.insert(n.op());
    for (const auto& [name, value] : n.attr()) AddMentions(value, &names);
  }
  return names;
}

Status BuildFunctionBody(std::string_view bytes, FunctionBody* body) {
  SLUICE_ASSIGN_OR_RETURN(const proto::FunctionDef def, Parse(bytes));
  return BodyBuilder(def, body).Run();
}

Result<std::string> MakeFunctionDef(const FunctionSpec& spec,
                                    const FunctionBody& body) {
  proto::FunctionDef def;
  def.mutable_signature()->set_name(spec.name);
  def.mutable_signature()->set_description(spec.description);
  for (const auto& [name, value] : spec.attrs)
    SLUICE_RETURN_IF_ERROR(AttrToProto(value, &(*def.mutable_attr())[name]));
  std::set<std::string> taken, taken_results;
  for (const Node* n : body.order) taken.insert(n->name());
  std::map<const Node*, std::string> args;
  for (size_t i = 0; i < body.args.size(); ++i) {
    const Node* a = body.args[i];
    taken.erase(a->name());
    args[a] = spec.exact_names ? spec.arg_names[i]
                               : ArgName(spec.arg_names, i, "arg", &taken);
    AddArg(args[a], a->output_type(0),
           def.mutable_signature()->add_input_arg());
    AttrMap told = i < spec.arg_attrs.size() ? spec.arg_attrs[i] : AttrMap();
    if (a->output_shape(0).rank_known())
      told[kOutputShapesAttr] = AttrValue::Shapes{a->output_shape(0)};
    for (const char* name : {kHandleTypes, kHandleShapes})
      if (const AttrValue* v = a->FindAttr(name)) told[name] = *v;
    for (const auto& [name, value] : told)
      SLUICE_RETURN_IF_ERROR(AttrToProto(
          value, &(*(*def.mutable_arg_attr())[static_cast<uint32_t>(i)]
                        .mutable_attr())[name]));
  }
  for (size_t i = 0; i < body.results.size(); ++i) {
    const std::string name =
        spec.exact_names
            ? spec.result_names[i]
            : ArgName(spec.result_names, i, "result", &taken_results);
    AddArg(name, RemoveRef(body.results[i].dtype()),
           def.mutable_signature()->add_output_arg());
    (*def.mutable_ret())[name] = NameInBody(body.results[i], args);
  }
  bool stateful = false;
  for (const Node* n : body.order) {
    if (n->op().role == OpRole::kArg) continue;
    stateful |= n->op().stateful;
    SLUICE_RETURN_IF_ERROR(DeclarePlaceholders(*n, def.mutable_signature()));
    proto::NodeDef* p = def.add_node_def();
    SLUICE_RETURN_IF_ERROR(NodeToProto(*n, p));
    if (n->loc().known())
      (*p->mutable_attr())[kSourceLineAttr].set_s(n->loc().ToString());
    for (const Output& in : n->inputs()) {
      if (!in.valid())
        return FailedPrecondition(
            "function: expected all back edges to be "
            "closed, got one open; ",
            n->Describe());
      p->add_input(NameInBody(in, args));
    }
    for (const Node* c : n->control_inputs()) {
      const auto arg = args.find(c);
      p->add_input("^" + (arg == args.end() ? c->name() : arg->second));
    }
  }
  for (size_t i = 0; i < body.control_results.size(); ++i) {
    const std::string& node = body.control_results[i]->name();
    const std::string& name =
        i < spec.control_names.size() ? spec.control_names[i] : node;
    def.mutable_signature()->add_control_output(name);
    (*def.mutable_control_ret())[name] = node;
  }
  def.mutable_signature()->set_is_stateful(stateful);
  return SerializeProto(def);
}

Result<std::string> MakeFunctionDeclaration(const FunctionSpec& spec,
                                            const std::vector<DType>& args,
                                            const std::vector<DType>& results,
                                            bool stateful) {
  proto::FunctionDef def;
  def.mutable_signature()->set_name(spec.name);
  def.mutable_signature()->set_is_stateful(stateful);
  std::set<std::string> taken, taken_results;
  for (size_t i = 0; i < args.size(); ++i)
    AddArg(ArgName(spec.arg_names, i, "arg", &taken), args[i],
           def.mutable_signature()->add_input_arg());
  for (size_t i = 0; i < results.size(); ++i)
    AddArg(ArgName(spec.result_names, i, "result", &taken_results), results[i],
           def.mutable_signature()->add_output_arg());
  (*def.mutable_attr())[kDeclaredAttr].set_b(true);
  return SerializeProto(def);
}

}  // namespace sluice
