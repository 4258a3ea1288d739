#include "graph/builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>

#include "graph/call_hook.h"
#include "graph/control_flow.h"
#include "graph/device_name.h"
#include "graph/device_scope.h"
#include "graph/exact_line.h"
#include "graph/function.h"
#include "graph/hidden_attributes.h"
#include "graph/none_output.h"
#include "graph/repeated_names.h"
#include "graph/scope_state.h"

namespace sluice {
namespace {

// The device scopes of this thread.
struct Devices {
  // A device function, and the device of the scopes around it.
  struct Function {
    DeviceFunction choose;
    std::string around;
  };
  std::string device;  // From the scopes in the innermost function.
  std::vector<Function> functions;  // Innermost last.
  // The nodes whose devices new nodes get, innermost last; null: no change.
  // With the state to restore.
  struct Colocation {
    Node* with;
    std::string device;
    std::vector<Function> functions;
  };
  std::vector<Colocation> with;
  std::vector<std::string> groups;  // "loc:@name"

  // The device of the innermost colocation node that has one; or null.
  const std::string* Colocated() const {
    for (auto it = with.rbegin(); it != with.rend(); ++it)
      if (it->with != nullptr && !it->with->device().empty())
        return &it->with->device();
    return nullptr;
  }
  // Calls the device functions, each of which sees the result of the inner
  // ones.
  Status Choose(Node* node) const {
    // (A copy: functions may enter scopes.)
    const std::vector<Function> asked = functions;
    for (auto it = asked.rbegin(); it != asked.rend(); ++it) {
      SLUICE_ASSIGN_OR_RETURN(std::string chosen,
                              MergeDevices(it->choose(node), it->around));
      node->graph()->SetDevice(node, std::move(chosen));
    }
    return OkStatus();
  }
};

// The control inputs of one ControlDependencies: those of `control` from
// `begin` up to the next group's. Nodes that read a node made in the group run
// after these already.
struct ControlGroup {
  size_t begin;
  std::shared_ptr<std::unordered_set<const Node*>> made;
};

// The ambient scopes of this thread.
struct Scopes {
  Graph* graph = nullptr;
  std::string prefix;  // "outer/inner/" or "".
  Devices devices;
  std::vector<Node*> control;
  std::vector<ControlGroup> control_groups;
  // Failures that apply to all new nodes: of a node in ControlDependencies, and
  // of the requested device. A null output without an error means none.
  Output failed_control, failed_device;
  // The groups that each NoControlDependencies hides, innermost last.
  std::vector<std::vector<ControlGroup>> forgotten_groups;
  std::map<std::string, std::string> gradient_override;
  SourceLoc loc;  // Known: overrides.
  ControlFlowContext* context = nullptr;
  bool in_condition = false;  // In the condition of loop `context`.
};

Graph& DefaultGraph() {
  static Graph* graph = new Graph();
  return *graph;
}

Scopes& Current() {
  thread_local Scopes scopes;
  if (scopes.graph == nullptr) scopes.graph = &DefaultGraph();
  return scopes;
}

}  // namespace

Graph& CurrentGraph() { return *Current().graph; }

WithGraph::WithGraph(Graph& g) : saved_(new Scopes(std::move(Current()))) {
  const SourceLoc line = Current().loc;  // Independent of the graph.
  Current() = Scopes();
  Current().graph = &g;
  Current().loc = line;
}
WithGraph::~WithGraph() {
  auto* saved = static_cast<Scopes*>(saved_);
  Current() = std::move(*saved);
  delete saved;
}

NameScope::NameScope(const std::string& name) : saved_(Current().prefix) {
  Enter(name);
}
NameScope::NameScope(const std::string& name, const std::string& within)
    : saved_(std::exchange(Current().prefix,
                           within.empty() ? within : within + "/")) {
  Enter(name);
}
void NameScope::Enter(const std::string& name) {
  Scopes& s = Current();
  std::lock_guard<std::recursive_mutex> lock(s.graph->mutex());
  if (name.size() > 1 && name.ends_with('/')) {
    prefix_ = name.substr(0, name.size() - 1);
  } else {
    prefix_ = s.graph->UniqueScope(s.prefix + name);
    RepeatedNames::Opened(s.graph, s.prefix, name, prefix_);
  }
  s.prefix = prefix_ + "/";
}
NameScope::~NameScope() { Current().prefix = saved_; }

const std::string& CurrentNamePrefix() { return Current().prefix; }

DeviceScope::DeviceScope(const std::string& device)
    : saved_(Current().devices.device),
      saved_failure_(Current().failed_device) {
  Scopes& s = Current();
  Result<std::string> merged = MergeDevices(device, s.devices.device);
  if (merged.ok()) {
    s.devices.device = *merged;
  } else {
    s.graph->RecordError(merged.status());
    s.failed_device = s.graph->Failure();
  }
}
DeviceScope::~DeviceScope() {
  Scopes& s = Current();
  s.devices.device = saved_;
  s.failed_device = saved_failure_;
}

DeviceFunctionScope::DeviceFunctionScope(DeviceFunction choose) {
  if (choose == nullptr) {
    BuildError(
        InvalidArgument("device function: expected a function, got none"));
    choose = [](Node* node) { return node->device(); };
  }
  Devices& d = Current().devices;
  d.functions.push_back({std::move(choose), std::exchange(d.device, "")});
}
DeviceFunctionScope::~DeviceFunctionScope() {
  Devices& d = Current().devices;
  d.device = std::move(d.functions.back().around);
  d.functions.pop_back();
}

Result<std::string> DeviceOfNewNode() {
  const Devices& devices = Current().devices;
  if (const std::string* device = devices.Colocated()) return *device;
  Graph aside;
  NodeSpec spec;
  spec.op = "NoOp";
  spec.device = devices.device;
  SLUICE_ASSIGN_OR_RETURN(Node * node, aside.AddNode(std::move(spec)));
  SLUICE_RETURN_IF_ERROR(devices.Choose(node));
  return node->device();
}

Status ApplyDeviceScopes(Node* node) {
  const Devices& devices = Current().devices;
  SLUICE_ASSIGN_OR_RETURN(std::string device,
                          MergeDevices(node->device(), devices.device));
  node->graph()->SetDevice(node, std::move(device));
  return devices.Choose(node);
}

NoDeviceScope::NoDeviceScope()
    : saved_(new Devices(std::exchange(Current().devices, Devices()))) {}
NoDeviceScope::~NoDeviceScope() {
  auto* saved = static_cast<Devices*>(saved_);
  Current().devices = std::move(*saved);
  delete saved;
}

ControlDependencies::ControlDependencies(std::vector<Node*> nodes)
    : saved_(Current().control.size()),
      saved_failure_(Current().failed_control) {
  Scopes& s = Current();
  for (Node* n : nodes) {
    if (n != nullptr) {
      s.control.push_back(n);
      continue;
    }
    s.graph->PropagateFailure(
        Output(), InvalidArgument("control dependencies: expected nodes, got "
                                  "a null one"));
    s.failed_control = s.graph->Failure();
  }
  if (s.control.size() > saved_)
    s.control_groups.push_back(
        {saved_, std::make_shared<std::unordered_set<const Node*>>()});
}
ControlDependencies::~ControlDependencies() {
  Scopes& s = Current();
  if (s.control.size() > saved_) s.control_groups.pop_back();
  s.control.resize(saved_);
  s.failed_control = saved_failure_;
}

NoControlDependencies::NoControlDependencies() {
  Scopes& s = Current();
  saved_.swap(s.control);
  std::swap(saved_failure_, s.failed_control);
  s.forgotten_groups.push_back(std::move(s.control_groups));
  s.control_groups.clear();
}
NoControlDependencies::~NoControlDependencies() {
  Scopes& s = Current();
  saved_.swap(s.control);
  s.failed_control = saved_failure_;
  s.control_groups = std::move(s.forgotten_groups.back());
  s.forgotten_groups.pop_back();
}

namespace {

// Whether all effects of a node come after all of its inputs. Lowered
// functional ops may not: a body may begin before its arguments are available.
// A Merge continues with its first input.
bool ComesAfterInputs(Graph* graph, const std::string& op) {
  const Result<const OpDef*> def = graph->function_library().LookupOp(op);
  return def.ok() && !ReadsOnlyShapes((*def)->kind) &&
         (*def)->role != OpRole::kFunctional && (*def)->role != OpRole::kCall &&
         (*def)->role != OpRole::kMerge;
}

bool TakesReference(Graph* graph, const std::string& op) {
  const Result<const OpDef*> def = graph->function_library().LookupOp(op);
  return def.ok() && std::any_of((*def)->inputs.begin(), (*def)->inputs.end(),
                                 [](const ArgDef& arg) { return arg.is_ref; });
}

// The control inputs of a node that reads `inputs`; as in TensorFlow, without
// those that the inputs already run after.
std::vector<Node*> ControlInputsFor(const Scopes& s, const std::string& op,
                                    const std::vector<Output>& inputs) {
  if (s.control.empty() || !ComesAfterInputs(s.graph, op)) return s.control;
  std::vector<Node*> nodes;
  const auto read = [&inputs](const Node* n) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [n](const Output& o) { return o.node == n; });
  };
  for (size_t i = 0; i < s.control_groups.size(); ++i) {
    const ControlGroup& group = s.control_groups[i];
    if (std::any_of(inputs.begin(), inputs.end(), [&group](const Output& o) {
          return group.made->count(o.node);
        }))
      continue;
    const size_t end = i + 1 < s.control_groups.size()
                           ? s.control_groups[i + 1].begin
                           : s.control.size();
    for (size_t k = group.begin; k < end; ++k)
      if (!read(s.control[k])) nodes.push_back(s.control[k]);
  }
  return nodes;
}

}  // namespace

ContextScope::ContextScope(ControlFlowContext* context, bool in_condition)
    : saved_(Current().context), saved_in_condition_(Current().in_condition) {
  Current().context = context;
  Current().in_condition = in_condition;
}
ContextScope::~ContextScope() {
  Current().context = saved_;
  Current().in_condition = saved_in_condition_;
}
ControlFlowContext* CurrentContext() { return Current().context; }
bool InLoopCondition() { return Current().in_condition; }
const std::vector<Node*>& CurrentControlDependencies() {
  return Current().control;
}

ColocateWith::ColocateWith(Node* node) : saved_(Current().devices.groups) {
  Devices& d = Current().devices;
  d.with.push_back({node, d.device, d.functions});
  if (node == nullptr) return;
  d.device.clear();
  d.functions.clear();
  // Colocating with a colocated node means its group.
  bool in_groups = false;
  if (const AttrValue* a = node->FindAttr(kColocationAttr))
    if (const auto* groups = a->get<AttrValue::Strings>())
      for (const std::string& group : *groups) {
        if (!group.starts_with("loc:@")) continue;
        d.groups.push_back(group);
        in_groups = true;
      }
  if (!in_groups) d.groups.push_back("loc:@" + node->name());
}
ColocateWith::~ColocateWith() {
  Devices& d = Current().devices;
  d.groups = saved_;
  d.device = std::move(d.with.back().device);
  d.functions = std::move(d.with.back().functions);
  d.with.pop_back();
}

GradientOverride::GradientOverride(const std::string& op,
                                   const std::string& name)
    : saved_(Current().gradient_override) {
  Current().gradient_override[op] = name;
}
GradientOverride::~GradientOverride() { Current().gradient_override = saved_; }

AtLine::AtLine(SourceLoc loc) : saved_(Current().loc) {
  // The outermost line is the user's line.
  if (!saved_.known()) Current().loc = loc;
}
AtLine::~AtLine() { Current().loc = saved_; }

SourceLoc CurrentLine() { return Current().loc; }
ExactLine::ExactLine(SourceLoc line) : saved_(CurrentLine()) {
  Current().loc = line;
}
ExactLine::~ExactLine() { Current().loc = saved_; }

ScopeState::ScopeState() : state_(std::make_shared<const Scopes>(Current())) {}
ScopeState::ScopeState(Graph& g) {
  auto fresh = std::make_shared<Scopes>();
  fresh->graph = &g;
  state_ = std::move(fresh);
}
void ScopeState::Restore() const {
  Current() = *static_cast<const Scopes*>(state_.get());
}

NestedDeviceScopes::NestedDeviceScopes(const ScopeState& outer,
                                       const ScopeState& inner)
    : saved_failure_(Current().failed_device) {
  const auto& around = *static_cast<const Scopes*>(outer.state_.get());
  const Devices& in = static_cast<const Scopes*>(inner.state_.get())->devices;
  Scopes& s = Current();
  saved_ = new Devices(std::exchange(s.devices, around.devices));
  s.failed_device = around.failed_device;
  Devices& d = s.devices;
  // The device of the outermost scopes of `inner`, those in none of its device
  // functions, leaves open what the scopes of `outer` fill in.
  const std::string& outermost =
      in.functions.empty() ? in.device : in.functions[0].around;
  const std::string merged =
      MergeDevices(outermost, d.device).value_or(outermost);
  const size_t first = d.functions.size();
  d.functions.insert(d.functions.end(), in.functions.begin(),
                     in.functions.end());
  d.device = in.device;
  (in.functions.empty() ? d.device : d.functions[first].around) = merged;
}
NestedDeviceScopes::~NestedDeviceScopes() {
  auto* saved = static_cast<Devices*>(saved_);
  Current().devices = std::move(*saved);
  Current().failed_device = saved_failure_;
  delete saved;
}

void SetNamePrefix(const std::string& prefix) { Current().prefix = prefix; }

namespace {

CallHook& TheCallHook() {
  static CallHook hook = nullptr;
  return hook;
}

// Null if it failed: the graph has the error.
Node* TryBuildNode(const std::string& op, std::vector<Output> inputs,
                   AttrMap attrs, const std::string& name, SourceLoc loc) {
  Scopes& s = Current();
  std::lock_guard<std::recursive_mutex> lock(s.graph->mutex());
  const Node* reference = nullptr;  // Of a captured input.
  for (Output& o : inputs) {
    if (!o.valid()) {
      s.graph->PropagateFailure(
          o, InvalidArgument("input: expected an output, got none", WhyNone(o),
                             "; building ", op,
                             loc.known() ? " at " + loc.ToString() : ""));
      return nullptr;
    }
    if (o.graph() == s.graph || s.graph->capture == nullptr) continue;
    Result<Output> captured = s.graph->capture(o);
    if (!captured.ok()) {
      s.graph->RecordError(captured.status());
      return nullptr;
    }
    if (IsRef(o.dtype())) reference = o.node;
    o = *captured;
  }
  for (const Output& failed : {s.failed_control, s.failed_device})
    if (failed.error() >= 0) {
      s.graph->PropagateFailure(
          failed, FailedPrecondition("scope: expected control dependencies and "
                                     "a device, got one that failed; building ",
                                     op));
      return nullptr;
    }
  NodeSpec spec;
  spec.op = op;
  // (A scope's name, which ends with a slash, is the complete name.)
  spec.name = name.ends_with('/')
                  ? name.substr(0, name.size() - 1)
                  : s.graph->UniqueName(s.prefix + (name.empty() ? op : name));
  spec.inputs = std::move(inputs);
  // (May contain duplicates, which AddNode removes.)
  spec.control_inputs = ControlInputsFor(s, op, spec.inputs);
  for (const Node* c : spec.control_inputs)
    if (c->graph() != s.graph) {
      s.graph->RecordError(InvalidArgument(
          "control input: expected a node of this graph, got ", c->Describe(),
          " of another",
          s.graph->capture == nullptr
              ? ""
              : "; hint: the body of a function captures values only; make its "
                "calls run after the node",
          "; building ", op));
      return nullptr;
    }
  spec.attrs = std::move(attrs);
  if (!s.devices.groups.empty() && !spec.attrs.count(kColocationAttr)) {
    AttrValue::Strings groups = s.devices.groups;
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    spec.attrs[kColocationAttr] = AttrValue(std::move(groups));
  }
  if (auto it = s.gradient_override.find(op); it != s.gradient_override.end())
    spec.attrs.emplace(kGradientOpTypeAttr, AttrValue(it->second));
  spec.loc = s.loc.known() ? s.loc : loc;
  const std::string* const colocated = s.devices.Colocated();
  spec.device = colocated != nullptr ? *colocated : s.devices.device;
  ControlFlowContext* const context = s.context;
  for (WhileContext* loop = InnermostWhile(context); loop != nullptr;
       loop = InnermostWhile(loop->outer()))
    if (loop->rewrite_hook) loop->rewrite_hook(&spec);
  if (Status fits = PrepareForContext(context, s.in_condition, &spec);
      !fits.ok()) {
    s.graph->RecordError(fits);
    return nullptr;
  }
  Result<Node*> node = s.graph->AddNode(std::move(spec));
  if (!node.ok()) {
    s.graph->RecordError(
        reference != nullptr && TakesReference(s.graph, op)
            ? Status(node.status().code(),
                     absl::StrCat(node.status().message(),
                                  "; hint: the body of a function has only the "
                                  "value of the reference variable '",
                                  reference->name(),
                                  "'; it can update a resource variable"))
            : node.status());
    return nullptr;
  }
  if (context != nullptr) s.graph->control_flow().SetContext(*node, context);
  for (const ControlGroup& group : s.control_groups) group.made->insert(*node);
  if (colocated == nullptr)
    if (Status d = s.devices.Choose(*node); !d.ok()) {
      s.graph->RecordError(
          InvalidArgument(d.message(), "; ", (*node)->Describe()));
      return nullptr;
    }
  if ((*node)->op().role == OpRole::kFunctional && TheCallHook() != nullptr)
    if (const Status done = TheCallHook()(*node); !done.ok()) {
      s.graph->RecordError(done);
      return nullptr;
    }
  return *node;
}

}  // namespace

void SetCallHook(CallHook hook) { TheCallHook() = hook; }

Node* BuildNode(const std::string& op, std::vector<Output> inputs,
                AttrMap attrs, const std::string& name, SourceLoc loc) {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  Node* const node =
      TryBuildNode(op, std::move(inputs), std::move(attrs), name, loc);
  if (node == nullptr) g.CountNullNode(false);
  return node;
}

Output Build(const std::string& op, std::vector<Output> inputs, AttrMap attrs,
             const std::string& name, SourceLoc loc) {
  // (For the node and its failure together: other threads may build, too.)
  const std::lock_guard<std::recursive_mutex> lock(CurrentGraph().mutex());
  return OrFailure(
      BuildNode(op, std::move(inputs), std::move(attrs), name, loc));
}

Output OrFailure(Node* node) {
  if (node != nullptr) return Output(node);
  Graph& g = CurrentGraph();
  const std::lock_guard<std::recursive_mutex> lock(g.mutex());
  g.CountNullNode(true);
  return g.Failure();
}

Status WithLine(const Status& error, SourceLoc loc) {
  if (!loc.known()) return error;
  return Status(error.code(),
                absl::StrCat(error.message(), "; at ", loc.ToString()));
}

Output BuildError(const Status& status, SourceLoc loc) {
  Scopes& s = Current();
  std::lock_guard<std::recursive_mutex> lock(s.graph->mutex());
  if (s.loc.known()) loc = s.loc;
  s.graph->RecordError(WithLine(status, loc));
  return s.graph->Failure();
}

Output Constant(Tensor value, const std::string& name, SourceLoc loc) {
  const DType t = value.dtype();
  return Build("Const", {}, {{"value", std::move(value)}, {"dtype", t}}, name,
               loc);
}

namespace {

// (The limits are exact as doubles, or one more is.)
template <typename T>
Result<Tensor> IntegerScalar(double v) {
  constexpr double kEnd =
      2.0 * static_cast<double>(std::numeric_limits<T>::max() / 2 + 1);
  constexpr double kFirst = std::numeric_limits<T>::min();
  if (!(v > kFirst - 1 && v < kEnd) && v != kFirst)
    return InvalidArgument("constant: expected a number in the range of ",
                           DTypeName(DTypeOf<T>()), ", got ", v);
  return Tensor::Scalar(static_cast<T>(v));
}

}  // namespace

Result<Tensor> ScalarTensor(DType dtype, double v) {
  switch (dtype) {
    case DType::kFloat:
      return Tensor::Scalar(static_cast<float>(v));
    case DType::kDouble:
      return Tensor::Scalar(v);
    case DType::kHalf:
      return Tensor::Scalar(half(static_cast<float>(v)));
    case DType::kBfloat16:
      return Tensor::Scalar(bfloat16(static_cast<float>(v)));
    case DType::kInt8:
      return IntegerScalar<int8_t>(v);
    case DType::kInt16:
      return IntegerScalar<int16_t>(v);
    case DType::kInt32:
      return IntegerScalar<int32_t>(v);
    case DType::kInt64:
      return IntegerScalar<int64_t>(v);
    case DType::kUint8:
      return IntegerScalar<uint8_t>(v);
    case DType::kUint16:
      return IntegerScalar<uint16_t>(v);
    case DType::kUint32:
      return IntegerScalar<uint32_t>(v);
    case DType::kUint64:
      return IntegerScalar<uint64_t>(v);
    case DType::kBool:
      return Tensor::Scalar(v != 0);
    case DType::kComplex64:
      return Tensor::Scalar(complex64(static_cast<float>(v)));
    case DType::kComplex128:
      return Tensor::Scalar(complex128(v));
    default:
      return InvalidArgument("constant: expected a numeric type, got ",
                             DTypeName(dtype));
  }
}

Output ScalarOf(DType dtype, double v, SourceLoc loc) {
  Result<Tensor> t = ScalarTensor(RemoveRef(dtype), v);
  return t.ok() ? Constant(*std::move(t), "", loc)
                : BuildError(t.status(), loc);
}

Output IntVector(const std::vector<int32_t>& v) {
  return Constant(Tensor::Vector<int32_t>(v), "", {});
}
Output IntVector(std::initializer_list<int32_t> v) {
  return Constant(Tensor::Vector<int32_t>(v), "", {});
}

namespace {

// Elements of a bare literal: exactly as double, or, beyond 2^53, as int64.
double ElementAsDouble(const Tensor& t, size_t i) {
  switch (t.dtype()) {
    case DType::kFloat:
      return t.flat<float>()[i];
    case DType::kDouble:
      return t.flat<double>()[i];
    case DType::kBool:
      return t.flat<bool>()[i] ? 1 : 0;
    case DType::kInt8:
      return t.flat<int8_t>()[i];
    case DType::kInt16:
      return t.flat<int16_t>()[i];
    case DType::kInt32:
      return t.flat<int32_t>()[i];
    case DType::kInt64:
      return static_cast<double>(t.flat<int64_t>()[i]);
    case DType::kUint8:
      return t.flat<uint8_t>()[i];
    case DType::kUint16:
      return t.flat<uint16_t>()[i];
    case DType::kUint32:
      return t.flat<uint32_t>()[i];
    case DType::kUint64:
      return static_cast<double>(t.flat<uint64_t>()[i]);
    default:
      return 0;
  }
}

// True if the integer type `t` holds v exactly.
bool Holds(DType t, double v) {
  const int bits = static_cast<int>(DTypeSize(t)) * 8;
  const bool is_signed = t == DType::kInt8 || t == DType::kInt16 ||
                         t == DType::kInt32 || t == DType::kInt64;
  const double end = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  return v >= (is_signed ? -end : 0) && v < end && v == std::floor(v);
}

// The literal of bare numbers as another type.
Result<Tensor> ConvertLiteral(const Tensor& literal, DType want) {
  const auto misfit = [&] {
    return InvalidArgument("constant: expected ", DTypeName(want), ", got ",
                           literal.ToString());
  };
  // Beyond 2^53 a double would round.
  if ((want == DType::kInt64 || want == DType::kUint64) &&
      (literal.dtype() == DType::kInt64 || literal.dtype() == DType::kUint64)) {
    for (const int64_t v : literal.raw_flat<int64_t>())
      if (v < 0) return misfit();  // In one of the two.
    return literal.BitcastTo(want);
  }
  if (!IsPlain(want) ||
      (want == DType::kBool) != (literal.dtype() == DType::kBool))
    return misfit();
  SLUICE_ASSIGN_OR_RETURN(Tensor out, Tensor::Make(want, literal.shape()));
  const size_t size = DTypeSize(want);
  for (size_t i = 0; i < static_cast<size_t>(literal.num_elements()); ++i) {
    const double v = ElementAsDouble(literal, i);
    if (IsInteger(want) && !Holds(want, v)) return misfit();
    SLUICE_ASSIGN_OR_RETURN(const Tensor element, ScalarTensor(want, v));
    std::memcpy(out.raw<char>() + i * size, element.raw(), size);
  }
  return out;
}

}  // namespace

Output Operand::Get(DType want) const {
  if (!literal_error.ok()) return BuildError(literal_error, loc);
  if (output.valid()) {
    Graph& g = CurrentGraph();
    if (output.graph() == &g || g.capture == nullptr) return output;
    const Result<Output> captured = g.capture(output);
    return captured.ok() ? *captured : BuildError(captured.status(), loc);
  }
  if (!literal.valid()) {
    Graph& g = CurrentGraph();
    if (g.ErrorOf(output) != nullptr) g.PropagateFailure(output, OkStatus());
    return output;
  }
  want = RemoveRef(want);
  if (!weak || want == DType::kInvalid || want == literal.dtype())
    return Constant(literal, "", loc);
  Result<Tensor> converted = ConvertLiteral(literal, want);
  return converted.ok() ? Constant(*std::move(converted), "", loc)
                        : BuildError(converted.status(), loc);
}

Result<std::string> MergeDevices(const std::string& spec,
                                 const std::string& defaults) {
  SLUICE_ASSIGN_OR_RETURN(const DeviceName inner, DeviceName::Parse(spec));
  SLUICE_ASSIGN_OR_RETURN(const DeviceName outer, DeviceName::Parse(defaults));
  return inner.WithDefaults(outer).ToString();
}

}  // namespace sluice
