#include "ops.h"

#include <algorithm>
#include <deque>
#include <map>

#include "absl/strings/str_join.h"
#include "graph/op_library.h"
#include "graph/shape_context.h"
#include "scopes.h"
#include "values.h"

namespace sluice::python {
namespace {

bool IsList(const ArgDef& arg) {
  return !arg.number_attr.empty() || !arg.type_list_attr.empty();
}

bool IsInferred(const OpDef& op, const std::string& attr) {
  return std::any_of(op.inputs.begin(), op.inputs.end(), [&](const ArgDef& in) {
    return in.type_attr == attr || in.type_list_attr == attr ||
           in.number_attr == attr;
  });
}

// Arguments that TensorFlow's Python names otherwise than their declarations.
struct Renamed {
  std::string_view op, argument, name;
};
constexpr Renamed kRenamed[] = {
    {"All", "reduction_indices", "axis"},
    {"Any", "reduction_indices", "axis"},
    {"EuclideanNorm", "reduction_indices", "axis"},
    {"ExpandDims", "dim", "axis"},
    {"Max", "reduction_indices", "axis"},
    {"Mean", "reduction_indices", "axis"},
    {"Min", "reduction_indices", "axis"},
    {"Prod", "reduction_indices", "axis"},
    {"Select", "e", "y"},
    {"Select", "t", "x"},
    {"Split", "split_dim", "axis"},
    {"SplitV", "split_dim", "axis"},
    {"Squeeze", "squeeze_dims", "axis"},
    {"Sum", "reduction_indices", "axis"},
    {"Where", "input", "condition"},
};

// What an op's argument or result is called in Python, whose reserved words get
// an underscore.
std::string PythonName(const OpDef& op, const std::string& name) {
  for (const Renamed& r : kRenamed)
    if (r.op == op.name && r.argument == name) return std::string(r.name);
  const py::object reserved = py::module_::import("keyword").attr("iskeyword");
  return py::cast<bool>(reserved(name)) ? name + "_" : name;
}

std::string TypeNames(const std::vector<DType>& types) {
  return absl::StrJoin(types, ", ", [](std::string* out, DType t) {
    out->append(PythonTypeName(t));
  });
}

bool IsSequence(py::handle o) {
  return PyList_Check(o.ptr()) || PyTuple_Check(o.ptr());
}

// The items of a list, tuple or other sequence.
std::vector<py::object> Items(py::handle sequence) {
  std::vector<py::object> items;
  for (const py::handle item : sequence)
    items.push_back(py::reinterpret_borrow<py::object>(item));
  return items;
}

// A parameter of an op function: an input, or an attribute.
struct Parameter {
  std::string name;
  const ArgDef* input;
  const AttrDef* attr;
};

// What all functions of an op have in common.
struct Signature {
  explicit Signature(const OpDef& op) {
    for (const ArgDef& in : op.inputs)
      parameters.push_back({PythonName(op, in.name), &in, nullptr});
    for (const bool optional : {false, true})
      for (const AttrDef& attr : op.attrs)
        if (attr.name[0] != '_' && attr.default_value.has_value() == optional &&
            !IsInferred(op, attr.name))
          parameters.push_back({PythonName(op, attr.name), nullptr, &attr});
    if (op.outputs.size() < 2) return;
    py::list names;
    for (const ArgDef& out : op.outputs) names.append(PythonName(op, out.name));
    results =
        py::module_::import("collections").attr("namedtuple")(op.name, names);
  }

  std::vector<Parameter> parameters;  // `name` follows them.
  py::object results;  // A named tuple's class, where there are several.
};

// Made once: a named tuple's class takes as long as some ten operations.
// (Objects live as long as the process; ops do, too.)
const Signature& SignatureOf(const OpDef& op) {
  static auto* const known = new std::map<const OpDef*, const Signature>();
  const auto it = known->find(&op);
  if (it != known->end()) return it->second;
  const Signature made(op);  // (Other threads may run meanwhile.)
  return known->emplace(&op, made).first->second;
}

// ---- Which graph ------------------------------------------------------------

bool IsVariable(py::handle o) {
  const py::object& variable = GetHooks().variable_class;
  return variable && py::isinstance(o, variable);
}

// Whether a list holds a tensor, at any depth.
bool HoldsTensor(py::handle list) {
  for (const py::handle item : list)
    if (AsTensor(item) != nullptr || IsVariable(item) ||
        (IsSequence(item) && HoldsTensor(item)))
      return true;
  return false;
}

// "", or "; the first at FILE:LINE, the other at FILE:LINE": where two values
// were made.
std::string BothLines(py::handle first, py::handle other) {
  const auto line = [](py::handle o) {
    if (const TensorHandle* const tensor = AsTensor(o))
      return tensor->output.node->loc();
    const OperationHandle* const op =
        AsOperation(IsVariable(o) ? py::object(o.attr("op"))
                                  : py::reinterpret_borrow<py::object>(o));
    return op == nullptr ? SourceLoc() : op->output.node->loc();
  };
  const SourceLoc a = line(first), b = line(other);
  return a.known() && b.known() ? absl::StrCat("; the first at ", a.ToString(),
                                               ", the other at ", b.ToString())
                                : "";
}

// The graph that a value is of, if any, must be that which was found before.
void FindGraph(py::handle o, PyGraph** graph, py::handle* owner) {
  if (PyList_CheckExact(o.ptr()) || PyTuple_CheckExact(o.ptr())) {
    for (const py::handle item : o) FindGraph(item, graph, owner);
    return;
  }
  PyGraph* here = nullptr;
  if (const TensorHandle* const tensor = AsTensor(o)) {
    here = &GraphOf(tensor->output.node);
  } else if (const OperationHandle* const op = AsOperation(o)) {
    here = &GraphOf(op->output.node);
  } else if (!o.is_none() && !PyFloat_CheckExact(o.ptr()) &&
             !PyLong_CheckExact(o.ptr()) && !PyUnicode_CheckExact(o.ptr()) &&
             IsVariable(o)) {
    here = py::cast<PyGraph*>(o.attr("graph"));
  }
  if (here == nullptr || here == *graph) return;
  if (*graph != nullptr)
    Raise(PyExc_ValueError,
          absl::StrCat(Repr(o), " must be from the same graph as ",
                       Repr(*owner), ".", BothLines(o, *owner)));
  *graph = here;
  *owner = o;
}

// ---- One call ---------------------------------------------------------------

// The work of one call of an op function. A local variable, under the graph's
// mutex.
class Call {
 public:
  // `name`: an empty one is the op's.
  Call(const OpDef& op, PyGraph& graph, std::string name)
      : op_(op), graph_(graph), loc_(UserLine()), name_(std::move(name)) {}

  // `values` may be null for an attribute that has a default. `any_order`:
  // types are told by any input, not by those before.
  Node* Run(const std::vector<Parameter>& parameters,
            const std::vector<py::handle>& values, bool any_order) {
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].attr != nullptr && values[i])
        Attribute(*parameters[i].attr, values[i]);
    if (any_order) TakeTypesOfTensors(parameters, values);
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].input != nullptr)
        Input(*parameters[i].input, values[i]);
    std::deque<ColocateWith> with_variables;
    for (Node* variable : references_) with_variables.emplace_back(variable);
    Node* const node = BuildNode(op_.name, std::move(inputs_),
                                 std::move(attrs_), NodeName(), loc_);
    while (!with_variables.empty()) with_variables.pop_back();
    CheckBuilt(graph_);
    return node;
  }

 private:
  [[noreturn]] void TypeError(const std::string& message,
                              const std::string& more = "") const {
    Raise(PyExc_TypeError,
          absl::StrCat(message, loc_.known() ? "; at " + loc_.ToString() : "",
                       more));
  }

  // "; inputs 'a' (Const) int32 at x.py:3, ...": those so far, and a wrong one.
  std::string InputsAnd(const Output& wrong) const {
    std::string text;
    const auto add = [&text](const Output& o) {
      absl::StrAppend(
          &text, text.empty() ? "; inputs '" : ", '",
          o.index == 0 ? o.node->name() : o.name(), "' (", o.node->op_name(),
          ") ", PythonTypeName(RemoveRef(o.dtype())),
          o.node->loc().known() ? " at " + o.node->loc().ToString() : "");
    };
    for (size_t i = 0; i < std::min<size_t>(inputs_.size(), 8); ++i)
      add(inputs_[i]);
    add(wrong);
    return text;
  }

  void Attribute(const AttrDef& attr, py::handle value) {
    // (None means the default.)
    if (value.is_none() && attr.default_value) return;
    AttrValue v = ToAttr(value, attr.kind, attr.is_list, attr.name);
    if (const DType* t = v.get<DType>()) {
      v = AttrValue(RemoveRef(*t));
      CheckAllowed(attr, attr.name, RemoveRef(*t));
    } else if (const auto* types = v.get<AttrValue::Types>()) {
      for (const DType one : *types) CheckAllowed(attr, attr.name, one);
    }
    attrs_.emplace(attr.name, std::move(v));
  }

  void TakeTypesOfTensors(const std::vector<Parameter>& parameters,
                          const std::vector<py::handle>& values) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const ArgDef* const input = parameters[i].input;
      if (input == nullptr || input->type_attr.empty() || IsList(*input))
        continue;
      if (const TensorHandle* const tensor = AsTensor(values[i])) {
        const DType type = RemoveRef(tensor->output.dtype());
        CheckAllowed(*op_.FindAttr(input->type_attr), input->name, type);
        attrs_.emplace(input->type_attr, AttrValue(type));
      }
    }
  }

  DType Known(const std::string& attr) const {
    const auto it = attrs_.find(attr);
    const DType* const t =
        it == attrs_.end() ? nullptr : it->second.get<DType>();
    return t == nullptr ? DType::kInvalid : *t;
  }

  // The name of a constant that an argument becomes: within the node's. (A name
  // that ends with a slash is all of it.)
  std::string ConstantName(const std::string& argument) {
    if (full_name_.empty())
      full_name_ = name_.ends_with('/')
                       ? name_
                       : graph_.UniqueName(CurrentNamePrefix() + name_) + "/";
    return graph_.UniqueName(full_name_ + argument) + "/";
  }

  // The node's name: the one that its constants have, unless what converts an
  // argument has taken it.
  const std::string& NodeName() const {
    const std::string_view full = full_name_;
    const bool is_free = !full.empty() && graph_.FindNode(full.substr(
                                              0, full.size() - 1)) == nullptr;
    return is_free ? full_name_ : name_;
  }

  Output Convert(py::handle value, DType want, const ArgDef& arg,
                 const std::string& name) {
    if (const TensorHandle* const tensor = AsTensor(value))
      return InGraphOf(graph_, tensor->output);
    return ToOutput(graph_, value, want, arg.is_ref, ConstantName(name), loc_);
  }

  // What Python values become where nothing tells their type: what they are,
  // or, if the op does not take that, its default.
  Output ConvertFree(py::handle value, const ArgDef& arg) {
    const AttrDef* const attr = op_.FindAttr(arg.type_attr);
    if (attr != nullptr && attr->default_value && AsTensor(value) == nullptr &&
        IsPlainValue(value)) {
      try {
        return Convert(value, *attr->default_value->get<DType>(), arg,
                       arg.name);
      } catch (const py::error_already_set& e) {
        if (!e.matches(PyExc_TypeError) && !e.matches(PyExc_ValueError)) throw;
      }
    }
    return Convert(value, DType::kInvalid, arg, arg.name);
  }

  void Input(const ArgDef& arg, py::handle value) {
    if (IsList(arg)) return InputList(arg, value);
    const DType want =
        arg.type == DType::kInvalid ? Known(arg.type_attr) : arg.type;
    Take(arg, want == DType::kInvalid ? ConvertFree(value, arg)
                                      : Convert(value, want, arg, arg.name));
  }

  void InputList(const ArgDef& arg, py::handle value) {
    if (!IsSequence(value) &&
        (AsTensor(value) != nullptr || !PySequence_Check(value.ptr())))
      TypeError(absl::StrCat("Expected list for '", arg.name, "' argument to '",
                             op_.name, "' Op, not ", Repr(value), "."));
    const std::vector<py::object> items = Items(value);
    if (!arg.number_attr.empty()) CheckLength(arg, items.size());
    AttrValue::Types types, wanted;
    if (const auto it = attrs_.find(arg.type_list_attr); it != attrs_.end())
      if (const auto* given = it->second.get<AttrValue::Types>())
        wanted = *given;
    // Any tensor among them tells the type of the others.
    DType want = arg.type;
    if (!arg.type_attr.empty()) {
      want = Known(arg.type_attr);
      for (const py::object& item : items)
        if (const TensorHandle* const tensor = AsTensor(item);
            tensor != nullptr && want == DType::kInvalid)
          want = RemoveRef(tensor->output.dtype());
    }
    if (items.empty() && !arg.type_attr.empty() && want == DType::kInvalid &&
        !op_.FindAttr(arg.type_attr)->default_value)
      TypeError(absl::StrCat(
          "Don't know how to infer type variable from empty input list passed "
          "to input '",
          arg.name, "' of '", op_.name, "' Op."));
    for (size_t i = 0; i < items.size(); ++i) {
      const Output o = Convert(items[i], i < wanted.size() ? wanted[i] : want,
                               arg, absl::StrCat(arg.name, "_", i));
      if (arg.type_list_attr.empty()) {
        Take(arg, o);
        if (!arg.type_attr.empty()) want = Known(arg.type_attr);
      } else {
        types.push_back(RemoveRef(o.dtype()));
        CheckAllowed(*op_.FindAttr(arg.type_list_attr), arg.name, types.back(),
                     &o);
        inputs_.push_back(o);
      }
    }
    if (!arg.type_list_attr.empty())
      attrs_.emplace(arg.type_list_attr, AttrValue(std::move(types)));
  }

  void CheckLength(const ArgDef& arg, size_t length) {
    const auto n = static_cast<int64_t>(length);
    const auto [known, is_new] = attrs_.emplace(arg.number_attr, AttrValue(n));
    if (const int64_t* size = known->second.get<int64_t>();
        size != nullptr && *size != n)
      Raise(PyExc_ValueError,
            absl::StrCat("List argument '", arg.name, "' to '", op_.name,
                         "' Op with length ", n, " must match length ", *size,
                         " of argument '", FirstWith(arg.number_attr), "'."));
  }

  std::string FirstWith(const std::string& attr) const {
    for (const ArgDef& in : op_.inputs)
      if (in.type_attr == attr || in.number_attr == attr) return in.name;
    return attr;
  }

  // Checks the type of an input as TensorFlow does, and appends it.
  void Take(const ArgDef& arg, const Output& o) {
    const DType have = RemoveRef(o.dtype());
    if (arg.is_ref && o.node != nullptr) references_.push_back(o.node);
    if (arg.is_ref && !IsRef(o.dtype()))
      TypeError(absl::StrCat("'", op_.name, "' Op requires that input '",
                             arg.name,
                             "' be a mutable tensor (e.g.: a tf.Variable)"));
    const DType known =
        arg.type == DType::kInvalid ? Known(arg.type_attr) : arg.type;
    if (known == DType::kInvalid) {
      if (const AttrDef* const attr = op_.FindAttr(arg.type_attr))
        CheckAllowed(*attr, arg.name, have, &o);
      attrs_.emplace(arg.type_attr, AttrValue(have));
      origin_[arg.type_attr] = arg.name;
    } else if (known != have) {
      const auto from = origin_.find(arg.type_attr);
      TypeError(
          absl::StrCat(
              "Input '", arg.name, "' of '", op_.name, "' Op has type ",
              PythonTypeName(have), " that does not match ",
              arg.type != DType::kInvalid
                  ? absl::StrCat("expected type of ", PythonTypeName(known))
                  : absl::StrCat(
                        "type ", PythonTypeName(known), " of argument '",
                        from == origin_.end() ? FirstWith(arg.type_attr)
                                              : from->second,
                        "'"),
              "."),
          InputsAnd(o));
    }
    inputs_.push_back(o);
  }

  void CheckAllowed(const AttrDef& attr, const std::string& parameter, DType t,
                    const Output* value = nullptr) const {
    const std::vector<DType>& allowed = attr.allowed_types;
    if (allowed.empty() ||
        std::find(allowed.begin(), allowed.end(), t) != allowed.end())
      return;
    TypeError(
        absl::StrCat("Value passed to parameter '", parameter,
                     "' has DataType ", PythonTypeName(t),
                     " not in list of allowed values: ", TypeNames(allowed)),
        value == nullptr ? "" : InputsAnd(*value));
  }

  const OpDef& op_;
  PyGraph& graph_;
  const SourceLoc loc_;
  const std::string name_;
  std::string full_name_;
  std::vector<Output> inputs_;
  std::vector<Node*> references_;  // What an op changes, it is to be with.
  AttrMap attrs_;
  std::map<std::string, std::string> origin_;  // Of types: the argument.
};

// ---- Op functions -----------------------------------------------------------

class OpFunction {
 public:
  OpFunction(const OpDef& op, std::string default_name, bool any_order)
      : op_(op),
        signature_(SignatureOf(op)),
        parameters_(signature_.parameters),
        default_name_(std::move(default_name)),
        any_order_(any_order),
        called_(op.name) {}

  const std::string& name() const { return op_.name; }
  // What errors call it: its public name, where there is one.
  void SetCalled(std::string name) { called_ = std::move(name); }

  // What pickle takes: the public name, where there is one
  // (sluice/name_lookup.py sets it), or how to make it again.
  py::object Reduce(const py::object& self) const {
    if (py::dict(self.attr("__dict__")).contains("__module__"))
      return self.attr("__qualname__");
    return py::make_tuple(
        py::module_::import("sluice.op_functions").attr("make"),
        py::make_tuple(op_.name, default_name_, any_order_));
  }

  py::object operator()(const py::args& args, const py::kwargs& keywords) {
    const std::vector<py::handle> values = Match(args, keywords);
    PyGraph& graph = GraphOfArguments(values);
    const Building here(graph);
    const py::handle name = values.back();
    std::string text;
    if (name && !name.is_none()) text = ToText(name);
    Node* const node =
        Call(op_, graph, text.empty() ? default_name_ : std::move(text))
            .Run(parameters_, values, any_order_);
    return Results(node);
  }

  // What the op does, and a line "x: a Tensor of type T" for each parameter.
  std::string Doc() const {
    std::string doc = op_.doc + "\n\nArgs:\n";
    for (const Parameter& p : parameters_)
      absl::StrAppend(&doc, "  ", p.name, ": ",
                      p.input != nullptr ? DocOf(*p.input) : DocOf(*p.attr),
                      "\n");
    doc += "  name: the name of the operation.\n\nReturns:\n  ";
    if (op_.outputs.empty()) return doc + "The operation.";
    if (op_.outputs.size() > 1) doc += "A named tuple:\n  ";
    return doc + absl::StrJoin(op_.outputs, "\n  ",
                               [this](std::string* out, const ArgDef& o) {
                                 absl::StrAppend(out, PythonName(op_, o.name),
                                                 ": ", DocOf(o), ".");
                               });
  }

  // [(name, kind, has_default, default)], for signatures and stubs. The kind is
  // "tensor", "tensors", or that of the attribute.
  py::list Parameters() const {
    py::list all;
    for (const auto& [name, input, attr] : parameters_) {
      if (input != nullptr) {
        all.append(py::make_tuple(name, IsList(*input) ? "tensors" : "tensor",
                                  false, py::none()));
        continue;
      }
      const auto& preset = attr->default_value;
      all.append(py::make_tuple(
          name, absl::StrCat(attr->is_list ? "list " : "", KindOf(*attr)),
          preset.has_value(), preset ? FromAttr(*preset) : py::none()));
    }
    return all;
  }

  // [(name, is_list)]
  py::list Outputs() const {
    py::list all;
    for (const ArgDef& o : op_.outputs)
      all.append(py::make_tuple(PythonName(op_, o.name), IsList(o)));
    return all;
  }

 private:
  // The value of each parameter, and of `name`; null where none was given.
  std::vector<py::handle> Match(const py::args& args,
                                const py::kwargs& keywords) const {
    const size_t n = parameters_.size();
    std::vector<py::handle> values(n + 1);
    if (args.size() > n + 1)
      Raise(PyExc_TypeError,
            absl::StrCat(called_, "() takes at most ", n + 1, " arguments (",
                         args.size(), " given)"));
    std::copy(args.begin(), args.end(), values.begin());
    for (const auto& [key, value] : keywords) {
      const auto name = py::cast<std::string>(key);
      const size_t at =
          name == "name"
              ? n
              : static_cast<size_t>(std::find_if(parameters_.begin(),
                                                 parameters_.end(),
                                                 [&name](const Parameter& p) {
                                                   return p.name == name;
                                                 }) -
                                    parameters_.begin());
      if (at == n && name != "name") Unexpected(name);
      if (values[at])
        Raise(PyExc_TypeError,
              absl::StrCat(called_, "() got multiple values for argument '",
                           name, "'"));
      values[at] = value;
    }
    for (size_t i = 0; i < n; ++i)
      if (!values[i] && (parameters_[i].input != nullptr ||
                         !parameters_[i].attr->default_value))
        Raise(PyExc_TypeError,
              absl::StrCat(called_, "() missing a required argument: '",
                           parameters_[i].name, "'"));
    return values;
  }

  [[noreturn]] void Unexpected(const std::string& keyword) const {
    std::vector<std::string> names;
    for (const Parameter& p : parameters_) names.push_back(p.name);
    names.push_back("name");
    std::string near = absl::StrJoin(NearestNames(keyword, names, 2), ", ");
    if (!near.empty()) near = absl::StrCat(" (nearest: ", near, ")");
    Raise(PyExc_TypeError,
          absl::StrCat(called_, "() got an unexpected keyword argument '",
                       keyword, "'", near));
  }

  py::object Results(Node* node) const {
    const auto n = static_cast<int>(op_.outputs.size());
    if (node->num_outputs() == 0) return py::cast(node);
    if (n == 1) return OneResult(node, 0);
    py::tuple values(n);
    for (int i = 0; i < n; ++i)
      values[static_cast<size_t>(i)] = OneResult(node, i);
    return signature_.results(*values);
  }

  static py::object OneResult(Node* node, int arg) {
    const ArgDef& out = node->op().outputs[static_cast<size_t>(arg)];
    const auto [begin, end] = node->OutputRange(arg);
    if (!IsList(out)) return py::cast(Output(node, begin));
    std::vector<Output> outputs;
    for (int i = begin; i < end; ++i) outputs.emplace_back(node, i);
    return py::cast(outputs);
  }

  std::string DocOf(const ArgDef& in) const {
    std::string doc = IsList(in) ? "a list of Tensors" : "a Tensor";
    if (in.type != DType::kInvalid)
      absl::StrAppend(&doc, " of ", PythonTypeName(in.type));
    else if (!in.type_attr.empty())
      absl::StrAppend(&doc, " of type ", in.type_attr);
    if (const AttrDef* attr = op_.FindAttr(in.type_attr);
        attr != nullptr && !attr->allowed_types.empty())
      absl::StrAppend(&doc, ", one of ", TypeNames(attr->allowed_types));
    return doc;
  }

  static const char* KindOf(const AttrDef& attr) {
    static const char* const kKinds[] = {"none",  "int",          "float",
                                         "bool",  "string",       "type",
                                         "shape", "tensor value", "function"};
    return kKinds[static_cast<int>(attr.kind)];
  }

  static std::string DocOf(const AttrDef& attr) {
    std::string doc =
        !attr.allowed_strings.empty()
            ? absl::StrCat("one of '",
                           absl::StrJoin(attr.allowed_strings, "', '"), "'")
        : attr.is_list ? absl::StrCat("a list of ", KindOf(attr), "s")
        : attr.kind == AttrKind::kInt ? "an int"
                                      : absl::StrCat("a ", KindOf(attr));
    if (!attr.allowed_types.empty())
      absl::StrAppend(&doc, ", one of ", TypeNames(attr.allowed_types));
    if (attr.default_value)
      absl::StrAppend(&doc, "; by default ", attr.default_value->ToString());
    return doc;
  }

  const OpDef& op_;
  const Signature& signature_;
  const std::vector<Parameter>& parameters_;  // Its own.
  const std::string default_name_;
  const bool any_order_;
  std::string called_;
};

py::object MakeOp(const std::string& name,
                  const std::optional<std::string>& default_name,
                  bool any_order) {
  const Result<const OpDef*> op = OpRegistry::Global()->Lookup(name);
  if (!op.ok()) Raise(PyExc_AttributeError, op.status().message());
  py::object made =
      py::cast(OpFunction(**op, default_name.value_or(name), any_order));
  // (A class can have no property of these names: it has them itself.)
  made.attr("__name__") = name;
  made.attr("__qualname__") = name;
  return made;
}

std::vector<std::string> OpNames() {
  std::vector<std::string> names;
  for (const OpDef* op : OpRegistry::Global()->All())
    if (op->name[0] != '_') names.push_back(op->name);  // (Users write none.)
  return names;
}

std::vector<std::string> LoadLibrary(const std::string& path) {
  const Result<std::vector<std::string>> names = [&] {
    const OthersRun others_run;
    return LoadOpLibrary(path);
  }();
  CheckRun(names.status(), py::none());
  return *names;
}

// ---- Constants --------------------------------------------------------------

// A new Const in the default graph.
Output MakeConstant(const py::object& value, std::optional<DType> dtype,
                    const std::string& name) {
  Tensor t = ToTensor(value, dtype.value_or(DType::kInvalid));
  PyGraph& graph = TargetGraph();
  const Building here(graph);
  const Output o = Constant(std::move(t), name, UserLine());
  CheckBuilt(graph);
  return o;
}

// A plain value, all of it: no tensor is in it.
bool IsConstant(py::handle value) {
  return IsPlainValue(value) && !(IsSequence(value) && HoldsTensor(value));
}

}  // namespace

Output InGraphOf(PyGraph& graph, const Output& o) {
  if (!graph.is_function || !o.valid() || o.graph() == &graph) return o;
  return py::cast<Output>(ObjectOf(graph).attr("capture")(o));
}

Output ToOutput(PyGraph& graph, py::handle value, DType want, bool as_ref,
                const std::string& name, SourceLoc loc) {
  if (const TensorHandle* const tensor = AsTensor(value))
    return InGraphOf(graph, tensor->output);
  if (!as_ref && IsConstant(value)) {
    const Output o = Constant(ToTensor(value, want), name, loc);
    CheckBuilt(graph);
    return o;
  }
  const py::object dtype =
      want == DType::kInvalid ? py::none() : FromDType(RemoveRef(want));
  const Hooks& hooks = GetHooks();
  const py::object made = (IsSequence(value) ? hooks.pack : hooks.convert)(
      value, dtype, name, as_ref);
  const TensorHandle* const tensor = AsTensor(made);
  if (tensor == nullptr)
    Raise(PyExc_TypeError,
          absl::StrCat("Failed to convert ", Repr(value), " of type ",
                       TypeName(value), " to a Tensor"));
  return InGraphOf(graph, tensor->output);
}

Operand ToOperand(PyGraph& g, py::handle o, SourceLoc loc,
                  const std::string& name) {
  if (PyFloat_Check(o.ptr()) ||
      (PyLong_Check(o.ptr()) && !PyBool_Check(o.ptr())))
    return Operand(py::cast<double>(o), loc.file, loc.line);
  return Operand(ToOutput(g, o, DType::kInvalid, false, name, loc), loc.file,
                 loc.line);
}

PyGraph& GraphOfArguments(const std::vector<py::handle>& arguments) {
  PyGraph& target = TargetGraph();
  if (target.is_function) return target;
  PyGraph* graph = nullptr;
  py::handle owner;
  for (const py::handle o : arguments)
    if (o) FindGraph(o, &graph, &owner);
  return graph != nullptr ? *graph : target;
}

void AddOps(py::module_& m) {
  py::class_<OpFunction>(m, "OpFunction", py::dynamic_attr())
      .def("__call__", &OpFunction::operator())
      .def("__repr__",
           [](const OpFunction& f) { return "<op " + f.name() + ">"; })
      .def_property_readonly("__doc__", &OpFunction::Doc)
      .def_property_readonly("__signature__",
                             [](const py::object& self) {
                               return py::module_::import("sluice.op_functions")
                                   .attr("signature")(self);
                             })
      // (So that help() takes it for a function; it is bound to nothing.)
      .def("__get__", [](const py::object& self, const py::object&,
                         const py::object&) { return self; })
      .def("__reduce__",
           [](const py::object& self) {
             return py::cast<const OpFunction&>(self).Reduce(self);
           })
      .def_property_readonly("_op_name", &OpFunction::name)
      .def("_set_called", &OpFunction::SetCalled)
      .def("_parameters", &OpFunction::Parameters)
      .def("_outputs", &OpFunction::Outputs);
  m.def("op", MakeOp, py::arg("name"), py::arg("default_name") = py::none(),
        py::arg("any_order") = false, "The function of an op.");
  m.def("op_names", OpNames, "The names of all ops.");
  m.def("load_op_library", LoadLibrary, "The names of a library's ops.");
  m.def("nearest_names", [](const std::string& name,
                            const std::vector<std::string>& candidates) {
    return NearestNames(name, candidates);
  });
  m.def("constant", MakeConstant);
  // A Tensor as it is, a plain value as a constant; None for all else.
  m.def("to_tensor",
        [](const py::object& value, std::optional<DType> dtype,
           const std::string& name) -> Output {
          if (const TensorHandle* const t = AsTensor(value))
            return InGraphOf(TargetGraph(), t->output);
          return IsConstant(value) ? MakeConstant(value, dtype, name)
                                   : Output();
        });
  // What is known before a step of the shape whose dimensions a tensor holds.
  m.def("constant_as_shape", [](const Output& o) {
    const GraphLock lock(GraphOf(o.node));
    return Checked(ConstantAsShape(o));
  });
  // What a constant of the value would hold.
  m.def("as_array", [](const py::object& value, std::optional<DType> dtype) {
    return ToNumpy(ToTensor(value, dtype.value_or(DType::kInvalid)));
  });
}

}  // namespace sluice::python
