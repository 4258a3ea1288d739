#include "scopes.h"

#include <algorithm>
#include <deque>
#include <map>

#include "graph/control_flow.h"
#include "graph/device_scope.h"

namespace sluice::python {
namespace {

// Of one thread. The library's own scopes are those of the graph `serial`;
// those of other graphs are put aside.
struct Ambient {
  uint64_t serial = 0;  // 0: none of Python's graphs.
  std::vector<py::object> defaults;
  std::unordered_map<uint64_t, ScopeState> aside;
};
Ambient& Here() {
  // (Not destroyed with the thread: the interpreter may be gone by then.)
  thread_local auto* const ambient = new Ambient();
  return *ambient;
}

// The process's default graph.
py::object& ProcessGraph() {
  static auto* const graph = new py::object();
  return *graph;
}

void SwitchTo(PyGraph& graph) {
  Ambient& here = Here();
  if (here.serial == graph.serial) return;
  if (here.serial != 0) here.aside.insert_or_assign(here.serial, ScopeState());
  const auto it = here.aside.find(graph.serial);
  if (it == here.aside.end()) {
    if (graph.first_scopes != nullptr)
      graph.first_scopes->Restore();
    else
      ScopeState(graph).Restore();
  } else {
    it->second.Restore();
    here.aside.erase(it);
  }
  here.serial = graph.serial;
}

const py::object& Innermost() {
  const Ambient& here = Here();
  return here.defaults.empty() ? ProcessGraph() : here.defaults.back();
}

// What a scope's end restores.
struct Token {
  py::object graph;
  ScopeState before;
};

// Enters what `make` makes while it runs: make(enter), where `enter` is to be
// called inside of the new scope.
template <typename Make>
Token Enter(PyGraph& g, const Make& make) {
  const Entering here(g);
  const ScopeState before;
  std::optional<ScopeState> inside;
  make([&inside] { inside.emplace(); });
  CheckBuilt(g);
  inside->Restore();
  return {ObjectOf(g), before};
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

// (token, prefix)
std::pair<Token, std::string> EnterNameScope(
    PyGraph& g, const std::optional<std::string>& given) {
  const Entering here(g);
  const ScopeState before;
  std::string name = given.value_or("");
  if (!name.empty() && !name.ends_with('/')) {
    if (!ValidScope(name, CurrentNamePrefix().empty()))
      Raise(PyExc_ValueError,
            absl::StrCat("'", name, "' is not a valid scope name"));
    name = g.UniqueScope(CurrentNamePrefix() + name) + "/";
  }
  SetNamePrefix(name);
  return {{ObjectOf(g), before}, name};
}

// While the device of what is no operation is asked for: function(device) ->
// what functions of devices see instead, in this thread. Null else.
py::object& StandIn() {
  thread_local auto* const stand_in = new py::object();
  return *stand_in;
}

std::string DeviceOfStandIn(PyGraph& g, const py::object& stand_in) {
  const Entering here(g);
  const py::object before = std::exchange(StandIn(), stand_in);
  const Result<std::string> device = DeviceOfNewNode();
  StandIn() = before;
  if (PyErr_Occurred()) throw py::error_already_set();
  return Checked(device);
}

// None, a string, or function(operation) -> string or None.
Token EnterDevice(PyGraph& g, const py::object& device) {
  return Enter(g, [&device](const auto& enter) {
    if (device.is_none()) {
      const NoDeviceScope scope;
      enter();
    } else if (PyCallable_Check(device.ptr())) {
      const DeviceFunctionScope scope([fn = Share(device)](Node* node) {
        return FromLibrary([&] {
          const py::object chosen =
              StandIn() ? (*fn)(StandIn()(node->device())) : (*fn)(node);
          return chosen.is_none() ? "" : ToText(chosen);
        });
      });
      enter();
    } else {
      const DeviceScope scope(ToText(device));
      enter();
    }
  });
}

Token EnterColocation(PyGraph& g, std::optional<Node*> with,
                      bool ignore_existing) {
  return Enter(g, [&](const auto& enter) {
    std::optional<NoDeviceScope> none;
    if (ignore_existing) none.emplace();
    const ColocateWith scope(with.value_or(nullptr));
    enter();
  });
}

Token EnterControlDependencies(PyGraph& g,
                               const std::optional<std::vector<Node*>>& nodes) {
  return Enter(g, [&nodes](const auto& enter) {
    if (nodes) {
      const ControlDependencies scope(*nodes);
      enter();
    } else {  // Out of loops and conditionals, too, as in TensorFlow.
      const ContextScope outermost(nullptr);
      enter();
    }
  });
}

// The loop or branch of a node.
Token EnterContextOf(PyGraph& g, Node* node) {
  return Enter(g, [node](const auto& enter) {
    const ContextScope scope(ContextOf(node));
    enter();
  });
}

Token EnterGradientOverride(PyGraph& g,
                            const std::map<std::string, std::string>& names) {
  return Enter(g, [&names](const auto& enter) {
    std::deque<GradientOverride> scopes;
    for (const auto& [op, name] : names) scopes.emplace_back(op, name);
    enter();
    while (!scopes.empty()) scopes.pop_back();
  });
}

void ExitScope(const Token& token) {
  const InGraph there(py::cast<PyGraph&>(token.graph));
  token.before.Restore();
}

// Threads that enter the graph from now on begin with this one's devices and
// what it waits for.
void ShareScopes(PyGraph& g) {
  const Entering here(g);
  if (g.first_scopes != nullptr) return;
  const ScopeState mine;
  SetNamePrefix("");
  g.first_scopes = std::make_unique<const ScopeState>();
  mine.Restore();
}

// ---- Default graphs ---------------------------------------------------------

void PushDefault(PyGraph& g) {
  Here().defaults.push_back(ObjectOf(g));
  SwitchTo(g);
}

void PopDefault(const py::object& graph) {
  std::vector<py::object>& defaults = Here().defaults;
  const auto last =
      std::find_if(defaults.rbegin(), defaults.rend(),
                   [&graph](const py::object& one) { return one.is(graph); });
  if (last == defaults.rend())
    Raise(PyExc_AssertionError, "Nesting violated for default stack of graphs");
  defaults.erase(last.base() - 1);
  TargetGraph();
}

void SetDefault(PyGraph& g) {
  if (!Here().defaults.empty())
    Raise(PyExc_AssertionError,
          "Do not use tf.reset_default_graph() to clear nested graphs. If you "
          "need a cleared graph, exit the nesting and create a new graph.");
  const py::object old = std::exchange(ProcessGraph(), ObjectOf(g));
  SwitchTo(g);
}

}  // namespace

PyGraph& TargetGraph() {
  PyGraph& graph = *PartOf<PyGraph>(Innermost());
  SwitchTo(graph);
  return graph;
}

InGraph::InGraph(PyGraph& graph) {
  PyGraph& target = TargetGraph();
  if (&target == &graph) return;
  back_ = ObjectOf(target);
  std::vector<py::object>& defaults = Here().defaults;
  depth_ = defaults.size();
  defaults.push_back(ObjectOf(graph));
  SwitchTo(graph);
}
InGraph::~InGraph() {
  if (!back_) return;
  std::vector<py::object>& defaults = Here().defaults;
  if (defaults.size() > depth_) defaults.resize(depth_);
  SwitchTo(*PartOf<PyGraph>(back_));
}

Building::Building(PyGraph& g) : Entering(g), graph_(g), first_(g.num_nodes()) {
  if (g.finalized)
    Raise(PyExc_RuntimeError, "Graph is finalized and cannot be modified.");
}
Building::~Building() {
  if (graph_.num_nodes() > first_)
    graph_.stacks.Record(first_, graph_.num_nodes());
}

void ForgetScopes(const PyGraph& graph) {
  Ambient& here = Here();
  here.aside.erase(graph.serial);
  if (here.serial == graph.serial) here.serial = 0;
}

void AddScopes(py::module_& m) {
  py::class_<Token>(m, "Scope");
  m.def("enter_name_scope", EnterNameScope);
  m.def("enter_device", EnterDevice);
  m.def("enter_colocation", EnterColocation);
  m.def("enter_control_dependencies", EnterControlDependencies);
  m.def("enter_context_of", EnterContextOf);
  m.def("enter_gradient_override", EnterGradientOverride);
  m.def("exit_scope", ExitScope);
  m.def("share_scopes", ShareScopes);
  m.def("name_prefix", [](PyGraph& g) {
    const InGraph there(g);
    return CurrentNamePrefix();
  });
  m.def("device_of_new_node", DeviceOfStandIn);
  m.def("current_control_inputs", [](PyGraph& g) {
    const InGraph there(g);
    return CurrentControlDependencies();
  });
  m.def("in_control_flow", [](PyGraph& g) {
    const InGraph there(g);
    return CurrentContext() != nullptr;
  });
  m.def("push_default_graph", PushDefault);
  m.def("pop_default_graph", PopDefault);
  m.def("get_default_graph", Innermost);
  m.def("set_default_graph", SetDefault);
  m.def("default_graph_depth", [] { return Here().defaults.size(); });
}

}  // namespace sluice::python
