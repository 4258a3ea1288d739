#include "ops.h"

#include <structmember.h>

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "scopes.h"
#include "values.h"

namespace sluice::py {
namespace {

// A parameter of an op function: an input, or an attribute.
struct Parameter {
  PyObject* name = nullptr;  // Interned.
  const ArgDef* input = nullptr;
  const AttrDef* attr = nullptr;
};

struct OpFunction {
  PyObject_HEAD vectorcallfunc call;
  const OpDef* op;
  std::vector<Parameter>* parameters;  // `name` is beside them, the last.
  std::string* default_name;
  bool any_order;     // Types are told by any input, not by those before.
  PyObject* results;  // A named tuple's class, where there are several.
  PyObject* weakrefs;
};

bool IsList(const ArgDef& arg) {
  return !arg.number_attr.empty() || !arg.type_list_attr.empty();
}

bool IsInferred(const OpDef& op, const std::string& attr) {
  return std::any_of(op.inputs.begin(), op.inputs.end(), [&](const ArgDef& in) {
    return in.type_attr == attr || in.type_list_attr == attr ||
           in.number_attr == attr;
  });
}

// Python's reserved words get an underscore.
std::string PythonName(const std::string& name) {
  static const std::set<std::string>* const kReserved =
      new std::set<std::string>{
          "False",  "None",     "True",  "and",    "as",       "assert",
          "async",  "await",    "break", "class",  "continue", "def",
          "del",    "elif",     "else",  "except", "finally",  "for",
          "from",   "global",   "if",    "import", "in",       "is",
          "lambda", "nonlocal", "not",   "or",     "pass",     "raise",
          "return", "try",      "while", "with",   "yield"};
  return kReserved->count(name) != 0 ? name + "_" : name;
}

std::string TypeText(DType t) {
  const Ref type(FromDType(t));
  const Ref name(type ? PyObject_GetAttrString(type.get(), "name") : nullptr);
  std::string text;
  if (!name || !ToString(name.get(), &text)) {
    PyErr_Clear();
    return DTypeName(t);
  }
  return text;
}

bool TypeError(const std::string& message, SourceLoc loc) {
  PyErr_SetString(
      PyExc_TypeError,
      (message + (loc.known() ? "; at " + loc.ToString() : "")).c_str());
  return false;
}

// Whether a list holds a tensor, at any depth.
bool HoldsTensor(PyObject* list) {
  PyObject* const variable = GetHooks().variable_class;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(list, i);
    if (IsTensor(item)) return true;
    if (variable != nullptr && PyObject_IsInstance(item, variable) == 1)
      return true;
    if ((PyList_Check(item) || PyTuple_Check(item)) && HoldsTensor(item))
      return true;
  }
  return false;
}

PyObject* GraphOfVariable(PyObject* o) {
  PyObject* const variable = GetHooks().variable_class;
  if (variable == nullptr || PyObject_IsInstance(o, variable) != 1)
    return nullptr;
  static PyObject* const graph = Interned("graph");
  const Ref g = FindAttribute(o, graph);
  return g && IsGraph(g.get()) ? g.get() : nullptr;  // (The variable holds it.)
}

bool FindGraph(PyObject* o, GraphObject** graph, PyObject** owner) {
  GraphObject* here = nullptr;
  if (IsTensor(o)) {
    here = AsTensor(o)->graph;
  } else if (IsOperation(o)) {
    here = AsOperation(o)->graph;
  } else if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      if (!FindGraph(PySequence_Fast_GET_ITEM(o, i), graph, owner))
        return false;
    return true;
  } else if (o == Py_None || PyFloat_CheckExact(o) || PyLong_CheckExact(o) ||
             PyUnicode_CheckExact(o) || PyBool_Check(o)) {
    return true;
  } else if (PyObject* g = GraphOfVariable(o)) {
    here = AsGraph(g);
  }
  if (here == nullptr || here == *graph) return true;
  if (*graph != nullptr) {
    PyErr_Format(PyExc_ValueError, "%R must be from the same graph as %R.", o,
                 *owner);
    return false;
  }
  *graph = here;
  *owner = o;
  return true;
}

// ---- One call ---------------------------------------------------------------

// The work of one call of an op function. Lives on the stack, under the graph's
// mutex.
class Call {
 public:
  Call(const OpFunction& f, GraphObject* graph, PyObject* const* values,
       PyObject* name)
      : f_(f),
        op_(*f.op),
        graph_(graph),
        g_(graph->state->graph),
        values_(values),
        loc_(UserLine()),
        name_(*f.default_name) {
    if (name != nullptr && name != Py_None) {
      ok_ = ToString(name, &name_);
      if (name_.empty()) name_ = *f.default_name;
    }
  }

  Node* Run() {
    if (!ok_) return nullptr;
    const std::vector<Parameter>& parameters = *f_.parameters;
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].attr != nullptr && values_[i] != nullptr &&
          !Attribute(*parameters[i].attr, values_[i]))
        return nullptr;
    if (f_.any_order) TakeTypesOfTensors();
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].input != nullptr &&
          !Input(*parameters[i].input, values_[i]))
        return nullptr;
    Node* const node =
        BuildNode(op_.name, std::move(inputs_), std::move(attrs_), name_, loc_);
    return CheckBuilt(g_) ? node : nullptr;
  }

 private:
  bool Attribute(const AttrDef& attr, PyObject* value) {
    // (None means the default.)
    if (value == Py_None && attr.default_value) return true;
    AttrValue v;
    if (!ToAttr(value, attr.kind, attr.is_list, attr.name, &v)) return false;
    if (const DType* t = v.get<DType>()) v = AttrValue(RemoveRef(*t));
    attrs_.emplace(attr.name, std::move(v));
    return true;
  }

  void TakeTypesOfTensors() {
    for (size_t i = 0; i < f_.parameters->size(); ++i) {
      const ArgDef* const input = (*f_.parameters)[i].input;
      if (input != nullptr && !input->type_attr.empty() && !IsList(*input) &&
          IsTensor(values_[i]))
        attrs_.emplace(input->type_attr,
                       AttrValue(RemoveRef(OutputOf(values_[i]).dtype())));
    }
  }

  DType Known(const std::string& attr) const {
    const auto it = attrs_.find(attr);
    const DType* const t =
        it == attrs_.end() ? nullptr : it->second.get<DType>();
    return t == nullptr ? DType::kInvalid : *t;
  }

  // The name of a constant that an argument becomes: beside the node.
  std::string ConstantName(const std::string& argument) {
    if (full_name_.empty())
      full_name_ = name_.ends_with('/')
                       ? name_
                       : g_.UniqueName(CurrentNamePrefix() + name_) + "/";
    std::string name = full_name_ + argument;
    return g_.UniqueName(name) + "/";  // (A name that is all of it.)
  }

  bool Convert(PyObject* value, DType want, bool as_ref, const ArgDef& arg,
               Output* out) {
    if (IsTensor(value)) {
      *out = OutputOf(value);
      return true;
    }
    return ToOutput(graph_, value, want, as_ref, ConstantName(arg.name), loc_,
                    out);
  }

  // What Python values become where nothing tells their type: what they are,
  // or, if the op does not take that, its default.
  bool ConvertFree(PyObject* value, const ArgDef& arg, Output* out) {
    if (!IsTensor(value) && IsPlainValue(value)) {
      const AttrDef* const attr = op_.FindAttr(arg.type_attr);
      const DType* const preset = attr != nullptr && attr->default_value
                                      ? attr->default_value->get<DType>()
                                      : nullptr;
      if (preset != nullptr) {
        if (Convert(value, *preset, arg.is_ref, arg, out)) return true;
        PyErr_Clear();
      }
    }
    return Convert(value, DType::kInvalid, arg.is_ref, arg, out);
  }

  bool Input(const ArgDef& arg, PyObject* value) {
    if (IsList(arg)) return InputList(arg, value);
    DType want = arg.type;
    if (want == DType::kInvalid) want = Known(arg.type_attr);
    Output o;
    if (!(want == DType::kInvalid ? ConvertFree(value, arg, &o)
                                  : Convert(value, want, arg.is_ref, arg, &o)))
      return false;
    return Take(arg, o);
  }

  bool InputList(const ArgDef& arg, PyObject* value) {
    if (!PyList_Check(value) && !PyTuple_Check(value)) {
      const bool one = IsTensor(value) || !PySequence_Check(value);
      if (one)
        return TypeError(
            absl::StrCat("Expected list for '", arg.name, "' argument to '",
                         op_.name, "' Op, not ", Shown(value), "."),
            loc_);
    }
    const Ref items(PySequence_Fast(value, "expected a list of tensors"));
    if (!items) return false;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
    PyObject** const item = PySequence_Fast_ITEMS(items.get());
    if (!arg.number_attr.empty()) {
      const auto known = attrs_.find(arg.number_attr);
      if (known == attrs_.end()) {
        attrs_.emplace(arg.number_attr, AttrValue(int64_t{n}));
      } else if (const int64_t* size = known->second.get<int64_t>();
                 size != nullptr && *size != n) {
        PyErr_Format(PyExc_ValueError,
                     "List argument '%s' to '%s' Op with length %zd must match "
                     "length %lld of argument '%s'.",
                     arg.name.c_str(), op_.name.c_str(), n,
                     static_cast<long long>(*size),
                     FirstWith(arg.number_attr).c_str());
        return false;
      }
    }
    AttrValue::Types types;
    const AttrValue::Types* wanted = nullptr;
    if (!arg.type_list_attr.empty())
      if (const auto it = attrs_.find(arg.type_list_attr); it != attrs_.end())
        wanted = it->second.get<AttrValue::Types>();
    // Any tensor among them tells the type of the others.
    DType want = arg.type;
    if (want == DType::kInvalid && !arg.type_attr.empty()) {
      want = Known(arg.type_attr);
      for (Py_ssize_t i = 0; i < n && want == DType::kInvalid; ++i)
        if (IsTensor(item[i])) want = RemoveRef(OutputOf(item[i]).dtype());
    }
    for (Py_ssize_t i = 0; i < n; ++i) {
      DType type = want;
      if (!arg.type_list_attr.empty() && wanted != nullptr &&
          static_cast<size_t>(i) < wanted->size())
        type = (*wanted)[static_cast<size_t>(i)];
      Output o;
      if (IsTensor(item[i])) {
        o = OutputOf(item[i]);
      } else if (!ToOutput(graph_, item[i], type, arg.is_ref,
                           ConstantName(absl::StrCat(arg.name, "_", i)), loc_,
                           &o)) {
        return false;
      }
      if (want == DType::kInvalid && !arg.type_attr.empty())
        want = RemoveRef(o.dtype());
      if (!arg.type_list_attr.empty()) {
        types.push_back(RemoveRef(o.dtype()));
        inputs_.push_back(o);
      } else if (!Take(arg, o)) {
        return false;
      }
    }
    if (!arg.type_list_attr.empty())
      attrs_.emplace(arg.type_list_attr, AttrValue(std::move(types)));
    return true;
  }

  std::string FirstWith(const std::string& attr) const {
    for (const ArgDef& in : op_.inputs)
      if (in.type_attr == attr || in.number_attr == attr) return in.name;
    return attr;
  }

  static std::string Shown(PyObject* value) {
    const Ref text(PyObject_Repr(value));
    std::string s;
    if (!text || !ToString(text.get(), &s)) PyErr_Clear();
    return s;
  }

  // Checks the type of an input as TensorFlow does, and appends it.
  bool Take(const ArgDef& arg, const Output& o) {
    const DType have = RemoveRef(o.dtype());
    if (arg.is_ref && !IsRef(o.dtype()))
      return TypeError(
          absl::StrCat("'", op_.name, "' Op requires that input '", arg.name,
                       "' be a mutable tensor (e.g.: a tf.Variable)"),
          loc_);
    if (arg.type != DType::kInvalid) {
      if (have != arg.type)
        return TypeError(absl::StrCat("Input '", arg.name, "' of '", op_.name,
                                      "' Op has type ", TypeText(have),
                                      " that does not match expected type of ",
                                      TypeText(arg.type), "."),
                         loc_);
    } else if (!arg.type_attr.empty()) {
      const DType known = Known(arg.type_attr);
      if (known == DType::kInvalid) {
        if (!Allowed(arg, have)) return false;
        attrs_.emplace(arg.type_attr, AttrValue(have));
        origin_[arg.type_attr] = arg.name;
      } else if (known != have) {
        const auto from = origin_.find(arg.type_attr);
        return TypeError(
            absl::StrCat(
                "Input '", arg.name, "' of '", op_.name, "' Op has type ",
                TypeText(have), " that does not match type ", TypeText(known),
                " of argument '",
                from == origin_.end() ? FirstWith(arg.type_attr) : from->second,
                "'."),
            loc_);
      }
    }
    inputs_.push_back(o);
    return true;
  }

  bool Allowed(const ArgDef& arg, DType t) const {
    const AttrDef* const attr = op_.FindAttr(arg.type_attr);
    if (attr == nullptr || attr->allowed_types.empty() ||
        std::find(attr->allowed_types.begin(), attr->allowed_types.end(), t) !=
            attr->allowed_types.end())
      return true;
    std::vector<std::string> names;
    for (const DType a : attr->allowed_types) names.push_back(TypeText(a));
    return TypeError(
        absl::StrCat("Value passed to parameter '", arg.name, "' has DataType ",
                     TypeText(t), " not in list of allowed values: ",
                     absl::StrJoin(names, ", ")),
        loc_);
  }

  const OpFunction& f_;
  const OpDef& op_;
  GraphObject* const graph_;
  Graph& g_;
  PyObject* const* const values_;
  const SourceLoc loc_;
  std::string name_, full_name_;
  bool ok_ = true;
  std::vector<Output> inputs_;
  AttrMap attrs_;
  std::map<std::string, std::string> origin_;  // Of types: the argument.
};

// ---- Results ----------------------------------------------------------------

PyObject* ResultClass(OpFunction* f) {
  if (f->results != nullptr) return f->results;
  const Ref collections(PyImport_ImportModule("collections"));
  const Ref names(PyList_New(0));
  for (const ArgDef& out : f->op->outputs) {
    const Ref name(FromString(PythonName(out.name)));
    if (PyList_Append(names.get(), name.get()) < 0) return nullptr;
  }
  if (!collections) return nullptr;
  f->results = PyObject_CallMethod(collections.get(), "namedtuple", "sO",
                                   f->op->name.c_str(), names.get());
  return f->results;
}

PyObject* OneResult(GraphObject* graph, Node* node, int arg) {
  const ArgDef& out = node->op().outputs[static_cast<size_t>(arg)];
  const auto [begin, end] = node->OutputRange(arg);
  if (!IsList(out)) return ToPython(graph, Output(node, begin));
  std::vector<Output> outputs;
  for (int i = begin; i < end; ++i) outputs.emplace_back(node, i);
  return ToPython(graph, outputs);
}

PyObject* Results(OpFunction* f, GraphObject* graph, Node* node) {
  const auto n = static_cast<int>(f->op->outputs.size());
  if (n == 0) return ToPython(graph, node);
  if (n == 1) return OneResult(graph, node, 0);
  PyObject* const type = ResultClass(f);
  if (type == nullptr) return nullptr;
  const Ref values(PyTuple_New(n));
  for (int i = 0; i < n; ++i) {
    PyObject* const one = OneResult(graph, node, i);
    if (one == nullptr) return nullptr;
    PyTuple_SET_ITEM(values.get(), i, one);
  }
  return PyObject_CallObject(type, values.get());
}

// ---- The callable -----------------------------------------------------------

PyObject* CallOp(PyObject* self, PyObject* const* args, size_t nargsf,
                 PyObject* keywords) {
  auto* const f = reinterpret_cast<OpFunction*>(self);
  const std::vector<Parameter>& parameters = *f->parameters;
  const size_t n = parameters.size();
  const auto positional = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  constexpr size_t kMost = 64;
  PyObject* values[kMost + 1] = {};  // The last: the name.
  if (n > kMost || positional > n + 1)
    return PyErr_Format(PyExc_TypeError,
                        "%s() takes at most %zu arguments (%zu given)",
                        f->op->name.c_str(), n + 1, positional);
  for (size_t i = 0; i < positional; ++i) values[i] = args[i];
  const Py_ssize_t given = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  static PyObject* const kName = Interned("name");
  for (Py_ssize_t k = 0; k < given; ++k) {
    PyObject* const key = PyTuple_GET_ITEM(keywords, k);
    size_t at = n + 1;
    if (key == kName) {
      at = n;
    } else {
      for (size_t i = 0; i < n && at > n; ++i)
        if (parameters[i].name == key) at = i;
      for (size_t i = 0; i < n && at > n; ++i)
        if (PyUnicode_Compare(parameters[i].name, key) == 0) at = i;
      if (at > n && PyUnicode_Compare(kName, key) == 0) at = n;
    }
    if (at > n) {
      std::vector<std::string> names;
      std::string text, one;
      for (const Parameter& p : parameters) {
        ToString(p.name, &one);
        names.push_back(one);
      }
      ToString(key, &text);
      return PyErr_Format(
          PyExc_TypeError,
          "%s() got an unexpected keyword argument %R (nearest: %s)",
          f->op->name.c_str(), key,
          absl::StrJoin(NearestNames(text, names, 2), ", ").c_str());
    }
    if (values[at] != nullptr)
      return PyErr_Format(PyExc_TypeError,
                          "%s() got multiple values for argument %R",
                          f->op->name.c_str(), key);
    values[at] = args[positional + static_cast<size_t>(k)];
  }
  for (size_t i = 0; i < n; ++i)
    if (values[i] == nullptr &&
        (parameters[i].input != nullptr || !parameters[i].attr->default_value))
      return PyErr_Format(PyExc_TypeError,
                          "%s() missing a required argument: %R",
                          f->op->name.c_str(), parameters[i].name);
  GraphObject* const graph =
      GraphOfArguments(values, static_cast<Py_ssize_t>(n));
  if (graph == nullptr) return nullptr;
  const InGraph there(graph);
  const GraphLock lock(graph->state->graph);
  Node* const node = Call(*f, graph, values, values[n]).Run();
  return node == nullptr ? nullptr : Results(f, graph, node);
}

void OpDealloc(PyObject* self) {
  auto* const f = reinterpret_cast<OpFunction*>(self);
  if (f->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  for (Parameter& p : *f->parameters) Py_DECREF(p.name);
  delete f->parameters;
  delete f->default_name;
  Py_XDECREF(f->results);
  Py_TYPE(self)->tp_free(self);
}

PyObject* OpRepr(PyObject* self) {
  return PyUnicode_FromFormat(
      "<op %s>", reinterpret_cast<OpFunction*>(self)->op->name.c_str());
}

PyObject* OpName(PyObject* self, void*) {
  return FromString(reinterpret_cast<OpFunction*>(self)->op->name);
}

// "x (T): tensor" lines below what the op does.
PyObject* OpDoc(PyObject* self, void*) {
  auto* const f = reinterpret_cast<OpFunction*>(self);
  std::string doc = f->op->doc + "\n\nArgs:\n";
  std::string name;
  for (const Parameter& p : *f->parameters) {
    ToString(p.name, &name);
    absl::StrAppend(&doc, "  ", name, ": ");
    if (p.input != nullptr) {
      const ArgDef& in = *p.input;
      absl::StrAppend(&doc, IsList(in) ? "a list of Tensors" : "a Tensor",
                      in.type != DType::kInvalid ? " of " + TypeText(in.type)
                      : !in.type_attr.empty()    ? " of type " + in.type_attr
                                                 : "");
      if (const AttrDef* attr = f->op->FindAttr(in.type_attr);
          attr != nullptr && !attr->allowed_types.empty()) {
        std::vector<std::string> types;
        for (const DType t : attr->allowed_types) types.push_back(TypeText(t));
        absl::StrAppend(&doc, ", one of ", absl::StrJoin(types, ", "));
      }
    } else {
      if (!p.attr->allowed_strings.empty())
        absl::StrAppend(&doc, "one of '",
                        absl::StrJoin(p.attr->allowed_strings, "', '"), "'");
      else
        doc += "an attribute";
      if (p.attr->default_value)
        absl::StrAppend(&doc, "; by default ",
                        p.attr->default_value->ToString());
    }
    doc += "\n";
  }
  doc += "  name: the name of the operation.\n\nReturns:\n  ";
  std::vector<std::string> outs;
  for (const ArgDef& o : f->op->outputs)
    outs.push_back(o.name + (IsList(o) ? " (a list of Tensors)" : ""));
  doc += outs.empty() ? "The operation." : absl::StrJoin(outs, ", ") + ".";
  return FromString(doc);
}

// [(name, kind, has_default, default)], for signatures and stubs. The kind is
// "tensor", "tensors", or that of the attribute.
PyObject* OpParameters(PyObject* self, PyObject*) {
  auto* const f = reinterpret_cast<OpFunction*>(self);
  Ref list(PyList_New(0));
  for (const Parameter& p : *f->parameters) {
    std::string kind = "tensor";
    Ref preset = Ref::Borrow(Py_None);
    bool has_default = false;
    if (p.input != nullptr) {
      if (IsList(*p.input)) kind = "tensors";
    } else {
      static const char* const kKinds[] = {"none",  "int",          "float",
                                           "bool",  "string",       "type",
                                           "shape", "tensor value", "function"};
      kind = kKinds[static_cast<int>(p.attr->kind)];
      if (p.attr->is_list) kind = "list " + kind;
      has_default = p.attr->default_value.has_value();
      if (has_default) preset = Ref(FromAttr(*p.attr->default_value));
      if (!preset) return nullptr;
    }
    const Ref one(Py_BuildValue("(ONOO)", p.name, FromString(kind),
                                has_default ? Py_True : Py_False,
                                preset.get()));
    if (!one || PyList_Append(list.get(), one.get()) < 0) return nullptr;
  }
  return list.release();
}

// [(name, is_list)] of the outputs.
PyObject* OpOutputs(PyObject* self, PyObject*) {
  Ref list(PyList_New(0));
  for (const ArgDef& o : reinterpret_cast<OpFunction*>(self)->op->outputs) {
    const Ref one(Py_BuildValue("(NO)", FromString(PythonName(o.name)),
                                IsList(o) ? Py_True : Py_False));
    if (!one || PyList_Append(list.get(), one.get()) < 0) return nullptr;
  }
  return list.release();
}

PyMethodDef op_methods[] = {{"_parameters", OpParameters, METH_NOARGS, nullptr},
                            {"_outputs", OpOutputs, METH_NOARGS, nullptr},
                            {nullptr, nullptr, 0, nullptr}};
PyGetSetDef op_getset[] = {{"__name__", OpName, nullptr, nullptr, nullptr},
                           {"__qualname__", OpName, nullptr, nullptr, nullptr},
                           {"__doc__", OpDoc, nullptr, nullptr, nullptr},
                           {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject MakeOpType() {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "sluice._core.OpFunction";
  t.tp_basicsize = sizeof(OpFunction);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  t.tp_vectorcall_offset = offsetof(OpFunction, call);
  t.tp_weaklistoffset = offsetof(OpFunction, weakrefs);
  t.tp_call = PyVectorcall_Call;
  t.tp_dealloc = OpDealloc;
  t.tp_repr = OpRepr;
  t.tp_methods = op_methods;
  t.tp_getset = op_getset;
  return t;
}
PyTypeObject OpType = MakeOpType();

// op(name, default_name=None, any_order=False)
PyObject* MakeOp(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"op", "default_name", "any_order", nullptr};
  const char *name = nullptr, *default_name = nullptr;
  int any_order = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|zp",
                                   const_cast<char**>(names), &name,
                                   &default_name, &any_order))
    return nullptr;
  const Result<const OpDef*> op = OpRegistry::Global()->Lookup(name);
  if (!op.ok()) {
    const Ref text(FromString(
        {op.status().message().data(), op.status().message().size()}));
    PyErr_SetObject(PyExc_AttributeError, text.get());
    return nullptr;
  }
  auto* const f = reinterpret_cast<OpFunction*>(OpType.tp_alloc(&OpType, 0));
  if (f == nullptr) return nullptr;
  f->call = CallOp;
  f->op = *op;
  f->parameters = new std::vector<Parameter>();
  f->default_name = new std::string(default_name ? default_name : name);
  f->any_order = any_order != 0;
  for (const ArgDef& in : f->op->inputs)
    f->parameters->push_back(
        {Interned(PythonName(in.name).c_str()), &in, nullptr});
  for (const bool optional : {false, true})
    for (const AttrDef& attr : f->op->attrs)
      if (attr.name[0] != '_' && attr.default_value.has_value() == optional &&
          !IsInferred(*f->op, attr.name))
        f->parameters->push_back(
            {Interned(PythonName(attr.name).c_str()), nullptr, &attr});
  return reinterpret_cast<PyObject*>(f);
}

PyObject* OpNames(PyObject*, PyObject*) {
  Ref list(PyList_New(0));
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (op->name[0] == '_') continue;  // What no user writes.
    const Ref name(FromString(op->name));
    if (!name || PyList_Append(list.get(), name.get()) < 0) return nullptr;
  }
  return list.release();
}

// nearest_names(name, candidates) -> [str]
PyObject* Nearest(PyObject*, PyObject* args) {
  const char* name = nullptr;
  PyObject* candidates = nullptr;
  if (!PyArg_ParseTuple(args, "sO", &name, &candidates)) return nullptr;
  const Ref items(PySequence_Fast(candidates, "expected names"));
  if (!items) return nullptr;
  std::vector<std::string> names;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    names.emplace_back();
    if (!ToString(PySequence_Fast_GET_ITEM(items.get(), i), &names.back()))
      return nullptr;
  }
  Ref list(PyList_New(0));
  for (const std::string& s : NearestNames(name, names)) {
    const Ref one(FromString(s));
    if (!one || PyList_Append(list.get(), one.get()) < 0) return nullptr;
  }
  return list.release();
}

// constant(value, dtype, name) -> Tensor: a new Const in the default graph.
PyObject* MakeConstant(PyObject*, PyObject* args) {
  PyObject *value = nullptr, *dtype = nullptr;
  const char* name = nullptr;
  if (!PyArg_ParseTuple(args, "OOs", &value, &dtype, &name)) return nullptr;
  DType want = DType::kInvalid;
  if (dtype != Py_None && !ToDType(dtype, &want)) return nullptr;
  Tensor t;
  if (!ToTensor(value, want, false, &t)) return nullptr;
  GraphObject* const graph = TargetGraph();
  const GraphLock lock(graph->state->graph);
  const Output o = Constant(std::move(t), name, UserLine());
  if (!CheckBuilt(graph->state->graph)) return nullptr;
  return ToPython(graph, o);
}

// to_tensor(value, dtype, name) -> Tensor, for what is a Tensor or a plain
// value; None for all else.
PyObject* ToTensorFunction(PyObject*, PyObject* args) {
  PyObject *value = nullptr, *dtype = nullptr;
  const char* name = nullptr;
  if (!PyArg_ParseTuple(args, "OOs", &value, &dtype, &name)) return nullptr;
  if (IsTensor(value)) return Ref::Borrow(value).release();
  if (!IsPlainValue(value) ||
      ((PyList_Check(value) || PyTuple_Check(value)) && HoldsTensor(value)))
    Py_RETURN_NONE;
  return MakeConstant(nullptr, args);
}

// as_array(value, dtype) -> numpy array: what a constant of it would hold.
PyObject* AsArrayFunction(PyObject*, PyObject* args) {
  PyObject *value = nullptr, *dtype = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &value, &dtype)) return nullptr;
  DType want = DType::kInvalid;
  if (dtype != Py_None && !ToDType(dtype, &want)) return nullptr;
  Tensor t;
  if (!ToTensor(value, want, false, &t)) return nullptr;
  return ToNumpy(std::move(t));
}

}  // namespace

bool ToOutput(GraphObject* graph, PyObject* value, DType want, bool as_ref,
              const std::string& name, SourceLoc loc, Output* out) {
  if (IsTensor(value)) {
    *out = OutputOf(value);
    return true;
  }
  const bool list = PyList_Check(value) || PyTuple_Check(value);
  if (!as_ref && IsPlainValue(value) && !(list && HoldsTensor(value))) {
    Tensor t;
    if (!ToTensor(value, want, false, &t)) return false;
    *out = Constant(std::move(t), name, loc);
    return CheckBuilt(graph->state->graph);
  }
  const Ref dtype(want == DType::kInvalid ? Ref::Borrow(Py_None).release()
                                          : FromDType(RemoveRef(want)));
  const Ref text(FromString(name));
  if (!dtype || !text) return false;
  const Ref made(PyObject_CallFunctionObjArgs(
      list ? GetHooks().pack : GetHooks().convert, value, dtype.get(),
      text.get(), as_ref ? Py_True : Py_False, nullptr));
  if (!made) return false;
  if (!IsTensor(made.get())) {
    PyErr_Format(PyExc_TypeError, "Failed to convert %R of type %s to a Tensor",
                 value, Py_TYPE(value)->tp_name);
    return false;
  }
  *out = OutputOf(made.get());
  return true;
}

GraphObject* GraphOfArguments(PyObject* const* args, Py_ssize_t n) {
  GraphObject* graph = nullptr;
  PyObject* owner = nullptr;
  for (Py_ssize_t i = 0; i < n; ++i)
    if (args[i] != nullptr && !FindGraph(args[i], &graph, &owner))
      return nullptr;
  return graph != nullptr ? graph : TargetGraph();
}

bool AddOpFunctions(PyObject* module) {
  return PyModule_AddType(module, &OpType) == 0;
}

PyMethodDef op_functions[] = {
    {"op", Fast(MakeOp), METH_VARARGS | METH_KEYWORDS,
     "op(name, default_name=None, any_order=False): the function of an op."},
    {"op_names", OpNames, METH_NOARGS, "The names of all ops."},
    {"nearest_names", Nearest, METH_VARARGS, nullptr},
    {"constant", MakeConstant, METH_VARARGS, nullptr},
    {"to_tensor", ToTensorFunction, METH_VARARGS, nullptr},
    {"as_array", AsArrayFunction, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace sluice::py
