// Devices with their own memory: which values are stored there, and the copies
// between device and host memory.
//
// Numbers (float and similar types) are in device memory; integers and bools
// are in host memory if they are computed only from such values, so that a
// loop's counter and its predicate never wait for the device. Outputs of device
// kernels are in device memory, whatever their type. A tensor is copied if it
// is needed in the other memory; values that the host reads are copied each
// time they are computed. From one device to another, numbers are copied
// directly if the devices can do that, and else through the host.
#include <algorithm>
#include <utility>

#include "graph/device_name.h"
#include "graph/hidden_attributes.h"
#include "graph/parameter_behind.h"
#include "passes/partitioner.h"

namespace sluice {
namespace {

bool HasMemory(DType t) {
  t = RemoveRef(t);
  return t != DType::kString && t != DType::kResource && t != DType::kVariant;
}

// Types that devices compute.
bool IsNumber(DType t) {
  t = RemoveRef(t);
  return HasMemory(t) && !IsInteger(t) && t != DType::kBool;
}

// Reads the shape of a tensor, not its elements.
bool IsOfShapes(const Node& n) {
  return ReadsOnlyShapes(n.kind()) || n.kind() == OpKind::kTensorArraySize ||
         n.kind() == OpKind::kVariableShape ||
         n.kind() == OpKind::kIsInitialized;
}

// Packs tensors into a variant, or takes them out: such tensors are in host
// memory, so that each part of the step can read them.
bool IsOfVariants(const Node& n) {
  bool variant = false;
  for (int i = 0; i < n.num_inputs(); ++i)
    variant |= RemoveRef(n.input_type(i)) == DType::kVariant;
  for (int i = 0; i < n.num_outputs(); ++i)
    variant |= n.output_type(i) == DType::kVariant;
  return variant && !IsContainer(n.kind());
}

// Sizes, positions or axes, which a device kernel takes from host memory as
// launch arguments.
bool IsArgumentOnHost(const Node& n, int i) {
  const std::vector<ArgDef>& args = n.op().inputs;
  for (size_t a = 0; a < args.size(); ++a) {
    if (!args[a].on_host) continue;
    const auto [begin, end] = n.InputRange(static_cast<int>(a));
    if (i >= begin && i < end) return true;
  }
  return false;
}

}  // namespace

// One flag for each node: its outputs are in device memory (or, for a kernel,
// it runs there). LiesOnDevice applies further rules to single outputs.
void Partitioner::FindPlaces() {
  on_device_node_.assign(graph_.nodes().size(), 0);
  if (std::find(own_memory_.begin(), own_memory_.end(), 1) == own_memory_.end())
    return;
  absl::flat_hash_set<const Node*> decided;  // For back edges.
  for (const Node* n : order_) {
    if (decided.contains(n)) continue;
    uint8_t& there = on_device_node_[Id(n)];
    bool numbers = false;
    for (int i = 0; i < n->num_outputs(); ++i)
      numbers |= IsNumber(n->output_type(i));
    const auto given = [&](const Output& in) {
      return LiesOnDevice(in) && HasMemory(in.dtype());
    };
    switch (n->op().role) {
      case OpRole::kLoopCond:
        break;
      case OpRole::kConst:
      case OpRole::kArg:
      case OpRole::kCall:
        there = numbers;
        break;
      case OpRole::kMerge:
        for (const Output& in : n->inputs())
          there |= !IsBackEdge(*in.node, *n) && given(in);
        for (const Output& in : n->inputs())
          if (IsBackEdge(*in.node, *n)) {
            on_device_node_[Id(in.node)] = there;
            decided.insert(in.node);
          }
        break;
      case OpRole::kCompute:
      case OpRole::kFunctional:
        if (IsOfVariants(*n)) break;
        there = numbers;
        if (!HasOwnMemory(home(n)) || IsOfShapes(*n)) break;
        for (int i = 0; i < n->num_inputs(); ++i)
          there |= IsRef(n->input_type(i)) ? IsNumber(n->input_type(i))
                                           : given(n->input(i));
        break;
      default:  // Forwards its input.
        there = n->num_inputs() > 0 && given(n->input(0));
        if (n->num_inputs() > 0 && IsRef(n->input(0).dtype()))
          there = IsNumber(n->input(0).dtype());
    }
  }
}

bool Partitioner::LiesOnDevice(const Output& o) const {
  const Node& n = *o.node;
  const DType t = o.dtype();
  if (!HasMemory(t)) return false;
  if (IsRef(t) || IsContainer(n.kind()) || n.op().role == OpRole::kArg ||
      n.op().role == OpRole::kCall)
    return IsNumber(t);
  if (n.op().role == OpRole::kMerge && o.index == 1) return false;
  if (n.op().role == OpRole::kCompute && IsOfShapes(n)) return false;
  return on_device_node_[Id(&n)] != 0;
}

Partitioner::Wanted Partitioner::WantedBy(const Node& n, int i) const {
  const auto by_type = [&] {
    return IsNumber(n.input_type(i)) ? Wanted::kOnDevice : Wanted::kOnHost;
  };
  const Wanted as_node =
      on_device_node_[Id(&n)] != 0 ? Wanted::kOnDevice : Wanted::kOnHost;
  switch (n.op().role) {
    case OpRole::kSwitch:
      return i == 1 ? Wanted::kOnHost : as_node;
    case OpRole::kLoopCond:
      return Wanted::kOnHost;
    case OpRole::kRetval:
      return FunctionOf(n).empty() ? Wanted::kOnHost : by_type();
    case OpRole::kCall:
      return by_type();
    case OpRole::kCompute:
    case OpRole::kFunctional:
      if (IsOfShapes(n)) return Wanted::kAnywhere;
      if (IsContainer(n.kind())) return by_type();
      return IsArgumentOnHost(n, i) ? Wanted::kOnHost : as_node;
    default:
      return as_node;
  }
}

// ---- New nodes --------------------------------------------------------------

void Partitioner::PlaceCopy(const Node& n, Node* made, int p) {
  if (!HasOwnMemory(p)) return;
  for (int i = 0; i < n.num_outputs(); ++i)
    if (n.op().role != OpRole::kConst &&
        LiesOnDevice(Output(const_cast<Node*>(&n), i)) && !IsFedHere(n))
      lie_on_device_.insert(Output(made, i));
  if (n.op().role == OpRole::kCompute && on_device_node_[Id(&n)] == 0 &&
      !IsContainer(n.kind()))
    out(p).SetAttr(made, kRunsOnHostAttr, AttrValue(true));
}

bool Partitioner::IsFedHere(const Node& n) {
  return n.op().role == OpRole::kArg && FunctionOf(n).empty();
}

void Partitioner::PlaceByType(const Output& made, int p) {
  if (HasOwnMemory(p) && IsNumber(made.dtype())) lie_on_device_.insert(made);
}

Result<Output> Partitioner::Moved(const char* op, const Output& o, int p) {
  NodeSpec spec;
  spec.op = op;
  spec.inputs = {o};
  SLUICE_ASSIGN_OR_RETURN(
      Node * n, Add(p, std::move(spec), o.node->name() + "/_copy", o.node));
  out(p).SetShape(Output(n), o.shape()).IgnoreError();
  return Output(n);
}

// (Integers are mostly read on the host.)
bool Partitioner::CanGoDirectly(const Output& o, int from, int to) const {
  return options_.can_copy != nullptr && HasOwnMemory(from) &&
         HasOwnMemory(to) && IsNumber(o.dtype()) &&
         lie_on_device_.contains(o) &&
         options_.can_copy(devices_[static_cast<size_t>(from)],
                           devices_[static_cast<size_t>(to)]);
}

Result<Output> Partitioner::OnHost(const Output& o, int p) {
  if (!lie_on_device_.contains(o) || !HasMemory(o.dtype())) return o;
  Output& there = on_host_[o];
  if (!there.valid()) {
    SLUICE_ASSIGN_OR_RETURN(there, Moved("_CopyFromDevice", o, p));
  }
  return there;
}

Result<Output> Partitioner::OnDevice(const Output& o, int p) {
  if (lie_on_device_.contains(o) || !HasMemory(o.dtype())) return o;
  Output& there = on_device_[o];
  if (!there.valid()) {
    SLUICE_ASSIGN_OR_RETURN(there, Moved("_CopyToDevice", o, p));
    lie_on_device_.insert(there);
  }
  return there;
}

Result<Output> Partitioner::WhereWanted(const Node& n, int i,
                                        const Output& here, int p) {
  if (!HasOwnMemory(p) || IsRef(n.input_type(i))) return here;
  switch (WantedBy(n, i)) {
    case Wanted::kOnHost:
      return OnHost(here, p);
    case Wanted::kOnDevice: {
      SLUICE_ASSIGN_OR_RETURN(const Output there, OnDevice(here, p));
      MarkParameter(n, i, there, p);
      return there;
    }
    case Wanted::kAnywhere:
      break;
  }
  return here;
}

// Marks the copy of a variable's value that a scheduled body reads. (One of
// another task arrives in a new buffer in each step, so that the device could
// not tell whether it has the value.)
void Partitioner::MarkParameter(const Node& n, int i, const Output& there,
                                int p) {
  if (n.FindAttr(kScheduledAttr) == nullptr ||
      there.node->kind() != OpKind::kCopyToDevice)
    return;
  const Node* const variable = ParameterBehind(n.input(i));
  if (variable == nullptr) return;
  const Result<DeviceName> from = DeviceName::Parse(variable->device());
  const Result<DeviceName> to =
      DeviceName::Parse(devices_[static_cast<size_t>(p)]);
  if (from.ok() && to.ok() && from->Task() == to->Task())
    out(p).SetAttr(there.node, kParameterAttr, AttrValue(variable->name()));
}

// A step is done when its devices have finished all issued work, including
// kernels without readers on the device.
Status Partitioner::AwaitDevices() {
  std::vector<uint8_t> taken(graph_.nodes().size());
  for (const auto& n : graph_.nodes())
    for (const Output& in : n->inputs())
      taken[Id(in.node)] |=
          home(n.get()) == home(in.node) && n->op().role != OpRole::kRetval;
  std::vector<std::vector<Node*>> last(devices_.size());
  for (const Node* n : order_)
    if (taken[Id(n)] == 0 && HasOwnMemory(home(n)) &&
        (n->op().role == OpRole::kCompute || n->op().role == OpRole::kExit) &&
        frames_.output_frame(n) == 0 && on_device_node_[Id(n)] != 0 &&
        liveness_.condition(n, -1) == Conditions::kAlways)
      last[static_cast<size_t>(home(n))].push_back(copy(n, home(n)));
  for (size_t p = 0; p < last.size(); ++p) {
    if (last[p].empty()) continue;
    NodeSpec spec;
    spec.op = "_AwaitDevice";
    spec.control_inputs = last[p];
    SLUICE_RETURN_IF_ERROR(Add(static_cast<int>(p), std::move(spec),
                               last[p][0]->name() + "/_done", last[p][0])
                               .status());
  }
  return OkStatus();
}

}  // namespace sluice
