#include "scopes.h"

#include <algorithm>
#include <deque>

#include "graph/device_scope.h"
#include "values.h"

namespace sluice::py {
namespace {

// Of one thread. The library's own scopes are those of the graph `serial`;
// those of other graphs are put aside.
struct Ambient {
  uint64_t serial = 0;  // 0: none of Python's graphs.
  std::vector<Ref> defaults;
  std::unordered_map<uint64_t, ScopeState> aside;
};
Ambient& Here() {
  // (Not destroyed with the thread: the interpreter may be gone by then.)
  thread_local auto* const ambient = new Ambient();
  return *ambient;
}

// The process's default graph; owned.
PyObject* default_graph = nullptr;

void SwitchTo(GraphObject* graph) {
  Ambient& here = Here();
  const uint64_t serial = graph->state->serial;
  if (here.serial == serial) return;
  if (here.serial != 0) here.aside.insert_or_assign(here.serial, ScopeState());
  const auto it = here.aside.find(serial);
  if (it == here.aside.end()) {
    ScopeState(graph->state->graph).Restore();
  } else {
    it->second.Restore();
    here.aside.erase(it);
  }
  here.serial = serial;
}

GraphObject* Innermost() {
  const Ambient& here = Here();
  return AsGraph(here.defaults.empty() ? default_graph
                                       : here.defaults.back().get());
}

// ---- Tokens: what a scope's exit restores
// ------------------------------------

struct Token {
  Ref graph;
  ScopeState before;
};
constexpr const char* kToken = "sluice.scope";

PyObject* MakeToken(GraphObject* graph, const ScopeState& before) {
  auto* const token =
      new Token{Ref::Borrow(reinterpret_cast<PyObject*>(graph)), before};
  PyObject* const capsule = PyCapsule_New(token, kToken, [](PyObject* capsule) {
    delete static_cast<Token*>(PyCapsule_GetPointer(capsule, kToken));
  });
  if (capsule == nullptr) delete token;
  return capsule;
}

PyObject* ExitScope(PyObject*, PyObject* capsule) {
  auto* const token =
      static_cast<Token*>(PyCapsule_GetPointer(capsule, kToken));
  if (token == nullptr) return nullptr;
  const InGraph there(AsGraph(token->graph.get()));
  token->before.Restore();
  Py_RETURN_NONE;
}

bool Count(Py_ssize_t have, Py_ssize_t want) {
  if (have == want) return true;
  PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd", want, have);
  return false;
}

bool GraphArgument(PyObject* o) {
  if (IsGraph(o)) return true;
  PyErr_Format(PyExc_TypeError, "expected a Graph, got %R", o);
  return false;
}

// Enters what `make` makes while it runs: fn(enter), where `enter` is to be
// called inside of the new scope.
template <typename Fn>
PyObject* Enter(PyObject* graph, const Fn& fn) {
  if (!GraphArgument(graph)) return nullptr;
  const InGraph there(AsGraph(graph));
  Graph& g = AsGraph(graph)->state->graph;
  const GraphLock lock(g);
  const ScopeState before;
  std::optional<ScopeState> inside;
  if (!fn([&inside] { inside.emplace(); })) return nullptr;
  if (!CheckBuilt(g)) return nullptr;
  inside->Restore();
  return MakeToken(AsGraph(graph), before);
}

// ---- The scopes -------------------------------------------------------------

bool ValidScope(const std::string& name, bool outermost) {
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool alnum = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       (c >= '0' && c <= '9') || c == '.';
    const bool later =
        c == '_' || c == '/' || c == '\\' || c == '-' || c == '>';
    if (!alnum && !(later && (i > 0 || !outermost))) return false;
  }
  return true;
}

// enter_name_scope(graph, name) -> (token, prefix)
PyObject* EnterNameScope(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!Count(n, 2) || !GraphArgument(args[0])) return nullptr;
  std::string name;
  if (args[1] != Py_None && !ToString(args[1], &name)) return nullptr;
  const InGraph there(AsGraph(args[0]));
  Graph& g = AsGraph(args[0])->state->graph;
  const GraphLock lock(g);
  const ScopeState before;
  if (!name.empty() && !name.ends_with('/')) {
    if (!ValidScope(name, CurrentNamePrefix().empty()))
      return PyErr_Format(PyExc_ValueError, "'%s' is not a valid scope name",
                          name.c_str());
    name = g.UniqueScope(CurrentNamePrefix() + name) + "/";
  }
  SetNamePrefix(name);
  return Py_BuildValue("(NN)", MakeToken(AsGraph(args[0]), before),
                       FromString(name));
}

PyObject* NamePrefix(PyObject*, PyObject* graph) {
  if (!GraphArgument(graph)) return nullptr;
  const InGraph there(AsGraph(graph));
  return FromString(CurrentNamePrefix());
}

// What a device function is called with.
std::string ChooseDevice(const SharedRef& fn, const NodeSpec& spec) {
  if (PyErr_Occurred()) return "";
  const Ref chosen(PyObject_CallFunction(fn.get(), "sss", spec.op.c_str(),
                                         spec.name.c_str(),
                                         spec.device.c_str()));
  std::string device;
  if (chosen && chosen.get() != Py_None) ToString(chosen.get(), &device);
  return device;
}

// enter_device(graph, None | str | function(op, name, device) -> str)
PyObject* EnterDevice(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!Count(n, 2)) return nullptr;
  PyObject* const device = args[1];
  return Enter(args[0], [device](const auto& enter) {
    if (device == Py_None) {
      const NoDeviceScope scope;
      enter();
    } else if (PyCallable_Check(device)) {
      const DeviceFunctionScope scope([fn = Share(device)](const NodeSpec& s) {
        return ChooseDevice(fn, s);
      });
      enter();
    } else {
      std::string name;
      if (!ToString(device, &name)) return false;
      const DeviceScope scope(name);
      enter();
    }
    return true;
  });
}

// enter_colocation(graph, None | operation, ignore_existing)
PyObject* EnterColocation(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!Count(n, 3)) return nullptr;
  return Enter(args[0], [args](const auto& enter) {
    std::vector<Node*> node;
    if (args[1] != Py_None) {
      const Ref one(PyTuple_Pack(1, args[1]));
      if (!ToNodes(one.get(), &node)) return false;
    }
    std::optional<NoDeviceScope> none;
    if (args[2] == Py_True) none.emplace();
    const ColocateWith scope(node.empty() ? nullptr : node[0]);
    enter();
    return true;
  });
}

// enter_control_dependencies(graph, None | operations)
PyObject* EnterControl(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!Count(n, 2)) return nullptr;
  return Enter(args[0], [args](const auto& enter) {
    if (args[1] == Py_None) {
      // Out of loops and conditionals, too, as in TensorFlow.
      const ContextScope outermost(nullptr);
      enter();
      return true;
    }
    std::vector<Node*> nodes;
    if (!ToNodes(args[1], &nodes)) return false;
    const ControlDependencies scope(nodes);
    enter();
    return true;
  });
}

// enter_gradient_override(graph, {op: name})
PyObject* EnterOverride(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!Count(n, 2)) return nullptr;
  return Enter(args[0], [args](const auto& enter) {
    std::deque<GradientOverride> scopes;
    PyObject *key = nullptr, *value = nullptr;
    std::string op, name;
    for (Py_ssize_t at = 0; PyDict_Next(args[1], &at, &key, &value);) {
      if (!ToString(key, &op) || !ToString(value, &name)) return false;
      scopes.emplace_back(op, name);
    }
    enter();
    while (!scopes.empty()) scopes.pop_back();
    return true;
  });
}

PyObject* ControlInputs(PyObject*, PyObject* graph) {
  if (!GraphArgument(graph)) return nullptr;
  const InGraph there(AsGraph(graph));
  Ref list(PyList_New(0));
  for (Node* node : CurrentControlDependencies()) {
    const Ref op(ToPython(AsGraph(graph), node));
    if (!op || PyList_Append(list.get(), op.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* InControlFlow(PyObject*, PyObject* graph) {
  if (!GraphArgument(graph)) return nullptr;
  const InGraph there(AsGraph(graph));
  return PyBool_FromLong(CurrentContext() != nullptr);
}

// ---- Default graphs ---------------------------------------------------------

PyObject* PushDefault(PyObject*, PyObject* graph) {
  if (!GraphArgument(graph)) return nullptr;
  Here().defaults.push_back(Ref::Borrow(graph));
  SwitchTo(AsGraph(graph));
  Py_RETURN_NONE;
}

PyObject* PopDefault(PyObject*, PyObject* graph) {
  std::vector<Ref>& defaults = Here().defaults;
  for (size_t i = defaults.size(); i-- > 0;)
    if (defaults[i].get() == graph) {
      const Ref gone = std::move(defaults[i]);
      defaults.erase(defaults.begin() + static_cast<std::ptrdiff_t>(i));
      SwitchTo(Innermost());
      Py_RETURN_NONE;
    }
  PyErr_SetString(PyExc_AssertionError,
                  "Nesting violated for default stack of graphs");
  return nullptr;
}

PyObject* GetDefault(PyObject*, PyObject*) {
  return Ref::Borrow(reinterpret_cast<PyObject*>(Innermost())).release();
}

PyObject* SetDefault(PyObject*, PyObject* graph) {
  if (!GraphArgument(graph)) return nullptr;
  if (!Here().defaults.empty()) {
    PyErr_SetString(PyExc_AssertionError,
                    "Do not use tf.reset_default_graph() to clear nested "
                    "graphs. If you need a cleared graph, exit the nesting and "
                    "create a new graph.");
    return nullptr;
  }
  PyObject* const old = std::exchange(default_graph, graph);
  Py_INCREF(graph);
  SwitchTo(AsGraph(graph));
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

PyObject* DefaultDepth(PyObject*, PyObject*) {
  return PyLong_FromSize_t(Here().defaults.size());
}

}  // namespace

GraphObject* TargetGraph() {
  GraphObject* const graph = Innermost();
  SwitchTo(graph);
  return graph;
}

InGraph::InGraph(GraphObject* graph) {
  GraphObject* const target = TargetGraph();
  if (target == graph) return;
  back_ = Ref::Borrow(reinterpret_cast<PyObject*>(target));
  SwitchTo(graph);
}
InGraph::~InGraph() {
  if (back_) SwitchTo(AsGraph(back_.get()));
}

void ForgetScopes(const GraphObject& graph) {
  Ambient& here = Here();
  here.aside.erase(graph.state->serial);
  if (here.serial == graph.state->serial) here.serial = 0;
}

PyMethodDef scope_functions[] = {
    {"enter_name_scope", Fast(EnterNameScope), METH_FASTCALL, nullptr},
    {"enter_device", Fast(EnterDevice), METH_FASTCALL, nullptr},
    {"enter_colocation", Fast(EnterColocation), METH_FASTCALL, nullptr},
    {"enter_control_dependencies", Fast(EnterControl), METH_FASTCALL, nullptr},
    {"enter_gradient_override", Fast(EnterOverride), METH_FASTCALL, nullptr},
    {"exit_scope", ExitScope, METH_O, nullptr},
    {"name_prefix", NamePrefix, METH_O, nullptr},
    {"current_control_inputs", ControlInputs, METH_O, nullptr},
    {"in_control_flow", InControlFlow, METH_O, nullptr},
    {"push_default_graph", PushDefault, METH_O, nullptr},
    {"pop_default_graph", PopDefault, METH_O, nullptr},
    {"get_default_graph", GetDefault, METH_NOARGS, nullptr},
    {"set_default_graph", SetDefault, METH_O, nullptr},
    {"default_graph_depth", DefaultDepth, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace sluice::py
