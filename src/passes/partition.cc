#include "passes/partition.h"

#include <algorithm>
#include <utility>

#include "passes/partition_properties.h"
#include "passes/partitioner.h"
#include "passes/properties.h"

namespace sluice {

Result<Partitions> Partition(const Graph& graph,
                             const PartitionOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<Node*> order, TopologicalOrder(graph));
  SLUICE_ASSIGN_OR_RETURN(Frames frames, Frames::Of(graph, order));
  SLUICE_RETURN_IF_ERROR(frames.CheckBackEdges(order));
  return Partitioner(graph, options, std::move(frames), std::move(order)).Run();
}

Result<Partitions> Partitioner::Run() {
  OrderExitsLast();
  FindHomes();
  FindParts();
  DropEmptyParts();
  FindRunners();
  FindOrdering();
  SLUICE_RETURN_IF_ERROR(CheckLoops());
  MakeGraphs();
  FindPlaces();
  SLUICE_RETURN_IF_ERROR(CopyNodes());
  constexpr StepProperties kOpen = kLowered | kPlaced | kOneDevice;
  SLUICE_RETURN_IF_ERROR(
      CheckAfterPhase("CopyNodes", kOpen, kComplete | kPaired));
  constexpr StepProperties kClosed = kOpen | kConnected;
  SLUICE_RETURN_IF_ERROR(CloseBackEdges());
  SLUICE_RETURN_IF_ERROR(
      CheckAfterPhase("CloseBackEdges", kClosed, kComplete | kPaired));
  SLUICE_RETURN_IF_ERROR(AddControlLoops());
  SLUICE_RETURN_IF_ERROR(
      CheckAfterPhase("AddControlLoops", kClosed, kComplete | kPaired));
  SLUICE_RETURN_IF_ERROR(AddWindows());
  SLUICE_RETURN_IF_ERROR(
      CheckAfterPhase("AddWindows", kClosed, kComplete | kPaired));
  SLUICE_RETURN_IF_ERROR(AwaitDevices());
  SLUICE_RETURN_IF_ERROR(
      CheckAfterPhase("AwaitDevices", kClosed, kComplete | kPaired));
  SLUICE_RETURN_IF_ERROR(StartAll());
  SLUICE_RETURN_IF_ERROR(CheckAfterPhase("StartAll", kClosed, kPartitioned));
  Partitions result;
  result.graphs = std::move(out_);
  result.devices = std::move(devices_);
  return result;
}

Status Partitioner::CheckAfterPhase(
    [[maybe_unused]] const char* phase, [[maybe_unused]] StepProperties each,
    [[maybe_unused]] PartitionProperties together) const {
#ifndef NDEBUG
  for (const auto& g : out_)
    SLUICE_RETURN_IF_ERROR(CheckAfter(phase, *g, each));
  if (const Status s = CheckPartitions(graph_, out_, devices_, together);
      !s.ok())
    return Internal("after ", phase, ": ", s.message());
#endif
  return OkStatus();
}

// ---- Assignment of nodes to partitions --------------------------------------

// The home of a node is its device, except for nodes that only move tokens: an
// Exit is with its input, so that the value is transferred once and not in each
// iteration; a NextIteration is with its Merge; a function's arguments, results
// and calls are with its first node.
void Partitioner::FindHomes() {
  absl::flat_hash_map<std::string, int> numbers;
  home_.resize(graph_.nodes().size());
  for (const auto& n : graph_.nodes()) {
    const auto [it, fresh] =
        numbers.try_emplace(n->device(), static_cast<int>(devices_.size()));
    if (fresh) devices_.push_back(n->device());
    home_[Id(n.get())] = it->second;
  }
  absl::flat_hash_map<std::string, int> functions;
  for (const Node* n : order_) {
    if (n->kind() != OpKind::kFunctionStart) continue;
    functions[FunctionOf(*n)] = home(n);
    function_starts_[frames_.frame_of(n)] = n;
  }
  for (const Node* n : order_) {
    const std::string function = FunctionOf(*n);
    if (!function.empty())
      home_[Id(n)] = functions.try_emplace(function, home(n)).first->second;
    if (n->op().role != OpRole::kMerge) continue;
    bool loops = false;
    for (const Output& in : n->inputs()) {
      if (!IsBackEdge(*in.node, *n)) continue;
      home_[Id(in.node)] = home(n);
      loops = true;
    }
    if (loops) loop_merges_[frames_.frame_of(n)].push_back(n);
  }
  for (const Node* n : order_)
    if (n->op().role == OpRole::kExit) home_[Id(n)] = home(n->input(0).node);
}

bool Partitioner::IsRepeated(const Node& n) const {
  switch (n.op().role) {
    case OpRole::kConst:
      return true;
    case OpRole::kEnter:
      return !IsRef(n.output_type(0));
    case OpRole::kNoOp:
      return n.kind() == OpKind::kFunctionStart;
    case OpRole::kIdentity:
    case OpRole::kSwitch: {
      // A predicate that is switched by itself: one bool for both pivots, and
      // for the Switches there.
      const Node& s = *ResolveAlias(Output(const_cast<Node*>(&n))).node;
      return s.op().role == OpRole::kSwitch && !IsRef(s.output_type(0)) &&
             s.control_inputs().empty() &&
             ResolveAlias(s.input(0)).SameAs(ResolveAlias(s.input(1)));
    }
    default:
      return false;
  }
}

void Partitioner::Need(const Node* n, int p) {
  std::vector<int>& parts = parts_[Id(n)];
  if (IsRepeated(*n) && std::find(parts.begin(), parts.end(), p) == parts.end())
    parts.push_back(p);
}

void Partitioner::FindParts() {
  parts_.resize(graph_.nodes().size());
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const Node* n = *it;
    std::vector<int>& parts = parts_[Id(n)];
    if (parts.empty()) parts.push_back(home(n));
    for (const int p : parts) {
      for (const Output& in : n->inputs()) Need(in.node, p);
      for (const Node* c : n->control_inputs()) Need(c, p);
    }
  }
}

// Drops devices whose nodes are all replicated elsewhere.
void Partitioner::DropEmptyParts() {
  std::vector<int> number(devices_.size(), -1);
  for (const std::vector<int>& parts : parts_)
    for (const int p : parts) number[static_cast<size_t>(p)] = 0;
  std::vector<std::string> left;
  for (size_t p = 0; p < devices_.size(); ++p)
    if (number[p] == 0) {
      number[p] = static_cast<int>(left.size());
      left.push_back(std::move(devices_[p]));
    }
  devices_ = std::move(left);
  for (int& h : home_) h = number[static_cast<size_t>(h)];
  for (std::vector<int>& parts : parts_)
    for (int& p : parts) p = number[static_cast<size_t>(p)];
}

namespace {
bool ChangesSomething(const Node& n) {
  if (n.op().role != OpRole::kCompute) return false;
  for (int i = 0; i < n.num_inputs(); ++i)
    if (IsRef(n.input_type(i))) return true;
  // (What a stack holds is ordered by control edges on calls, too.)
  return !n.op().facts.pure();
}
}  // namespace

// A partition that runs part of a frame also runs part of the enclosing frames,
// in order to enter it.
void Partitioner::FindRunners() {
  runners_.assign(frames_.all().size(),
                  std::vector<uint8_t>(devices_.size(), 0));
  changers_ = runners_;
  for (const Node* n : order_) {
    if (ChangesSomething(*n))
      changers_[static_cast<size_t>(frames_.frame_of(n))]
               [static_cast<size_t>(home(n))] = 1;
    if (IsFloatingConstant(*n)) continue;
    for (const int p : parts_[Id(n)])
      for (const int f : {frames_.frame_of(n), frames_.output_frame(n)})
        runners_[static_cast<size_t>(f)][static_cast<size_t>(p)] = 1;
  }
  std::vector<std::pair<int, int>> within;  // Inner, outer.
  for (size_t f = 0; f < runners_.size(); ++f)
    if (frames_[static_cast<int>(f)].parent >= 0)
      within.emplace_back(f, frames_[static_cast<int>(f)].parent);
  for (const Node* n : order_)
    if (n->op().role == OpRole::kCall)
      within.emplace_back(frames_.function_frame(FunctionOf(*n)),
                          frames_.frame_of(n));
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [inner, outer] : within)
      for (auto* marks : {&runners_, &changers_})
        for (size_t p = 0; p < devices_.size(); ++p) {
          uint8_t& to = (*marks)[static_cast<size_t>(outer)][p];
          if ((*marks)[static_cast<size_t>(inner)][p] == 0 || to != 0) continue;
          to = 1;
          changed = true;
        }
  }
}

void Partitioner::FindOrdering() {
  orders_.assign(graph_.nodes().size(), 0);
  for (bool changed = true; changed;) {  // (Repeated for back edges.)
    changed = false;
    for (const Node* n : order_) {
      uint8_t& to = orders_[Id(n)];
      if (to != 0) continue;
      to = !n->op().facts.pure() || n->op().role == OpRole::kCall;
      for (const Output& in : n->inputs()) to |= orders_[Id(in.node)];
      for (const Node* c : n->control_inputs()) to |= orders_[Id(c)];
      changed |= to != 0;
    }
  }
}

Status Partitioner::CheckLoops() const {
  for (size_t f = 0; f < runners_.size(); ++f) {
    const GraphFrame& frame = frames_[static_cast<int>(f)];
    if (!frame.repeats() || frame.loop_cond() != nullptr ||
        std::count(runners_[f].begin(), runners_[f].end(), 1) < 2)
      continue;
    return InvalidArgument(
        "loop '", frame.name,
        "': expected one LoopCond in a loop over several devices, got ",
        frame.loop_conds.empty() ? "none" : "several", "; ",
        frame.first->Describe());
  }
  return OkStatus();
}

// The first edge of a group reports that all are dead, so it must not wait for
// any of the others. A loop's dead results wait for all inputs of the loop.
void Partitioner::OrderExitsLast() {
  std::vector<int> pending(graph_.nodes().size(), 0);
  std::vector<std::vector<Node*>> readers(graph_.nodes().size());
  std::vector<size_t> enters_left(frames_.all().size());
  std::vector<std::vector<Node*>> exits(frames_.all().size());
  const auto frame = [this](const Node* n) {
    return static_cast<size_t>(n->op().role == OpRole::kEnter
                                   ? frames_.output_frame(n)
                                   : frames_.frame_of(n));
  };
  for (size_t f = 0; f < enters_left.size(); ++f)
    enters_left[f] = frames_[static_cast<int>(f)].enters.size();
  for (Node* n : order_) {
    const auto wait = [&](const Node* from) {
      if (IsBackEdge(*from, *n)) return;
      readers[Id(from)].push_back(n);
      ++pending[Id(n)];
    };
    for (const Output& in : n->inputs()) wait(in.node);
    for (const Node* c : n->control_inputs()) wait(c);
    if (n->op().role == OpRole::kExit) {
      exits[frame(n)].push_back(n);
      ++pending[Id(n)];
    }
  }
  std::vector<Node*> ordered;
  ordered.reserve(order_.size());
  for (Node* n : order_)
    if (pending[Id(n)] == 0) ordered.push_back(n);
  const auto reached = [&](Node* n) {
    if (--pending[Id(n)] == 0) ordered.push_back(n);
  };
  for (size_t i = 0; i < ordered.size(); ++i) {
    Node* n = ordered[i];
    for (Node* to : readers[Id(n)]) reached(to);
    if (n->op().role == OpRole::kEnter && --enters_left[frame(n)] == 0)
      for (Node* exit : exits[frame(n)]) reached(exit);
  }
  // (A loop that feeds itself has no such order: then edges are not grouped.)
  if (ordered.size() == order_.size())
    order_ = std::move(ordered);
  else
    groups_hold_ = false;
}

// ---- Copying ----------------------------------------------------------------

void Partitioner::MakeGraphs() {
  for (size_t p = 0; p < devices_.size(); ++p) {
    out_.push_back(std::make_unique<Graph>());
    out_[p]->ShareLibrary(graph_);
    out_[p]->producer_version = graph_.producer_version;
    copies_.emplace_back(graph_.nodes().size(), nullptr);
    own_memory_.push_back(options_.has_own_memory != nullptr &&
                          options_.has_own_memory(devices_[p]));
  }
  next_edge_.assign(devices_.size(), 0);
  next_group_.assign(devices_.size(), 0);
}

Status Partitioner::CopyNodes() {
  for (const Node* n : order_)
    for (const int p : parts_[Id(n)]) SLUICE_RETURN_IF_ERROR(CopyTo(*n, p));
  return OkStatus();
}

Status Partitioner::CopyTo(const Node& n, int p) {
  std::vector<Output> inputs;
  inputs.reserve(n.inputs().size());
  bool open = false;
  for (int i = 0; i < n.num_inputs(); ++i) {
    if (IsBackEdge(*n.input(i).node, n)) {
      inputs.emplace_back();
      open = true;
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(inputs.emplace_back(), Input(n, i, p));
  }
  if (open) open_.emplace_back(&n, p);
  std::vector<Node*> controls;
  bool starts = false;
  for (const Node* c : n.control_inputs()) {
    // A constant after a node without effects only needs the right liveness.
    if (n.op().role == OpRole::kConst && orders_[Id(c)] == 0 &&
        copy(c, p) == nullptr && !liveness_.once(c) &&
        liveness_.condition(c, -1) == Conditions::kAlways) {
      starts = true;
      continue;
    }
    SLUICE_RETURN_IF_ERROR(AddControl(c, n, p, &controls));
  }
  Node* made = out(p).CopyNode(n, std::move(inputs), std::move(controls));
  if (n.device() != devices_[static_cast<size_t>(p)])
    out(p).SetDevice(made, devices_[static_cast<size_t>(p)]);
  copy(&n, p) = made;
  PlaceCopy(n, made, p);
  if (starts) starts_.push_back({made, frames_.frame_of(&n), p, false});
  return n.op().role == OpRole::kCall ? BeginCalls(n) : OkStatus();
}

Status Partitioner::CloseBackEdges() {
  for (const auto& [n, p] : open_)
    for (int i = 0; i < n->num_inputs(); ++i) {
      const Output& in = n->input(i);
      if (IsBackEdge(*in.node, *n))
        SLUICE_RETURN_IF_ERROR(out(p).SetBackEdge(
            copy(n, p), i, Output(copy(in.node, p), in.index)));
    }
  return OkStatus();
}

Result<Node*> Partitioner::Add(int p, NodeSpec spec, const std::string& base,
                               const Node* near) {
  spec.name = base;
  for (int k = 1; out(p).FindNode(spec.name) != nullptr ||
                  graph_.FindNode(spec.name) != nullptr;
       ++k)
    spec.name = absl::StrCat(base, "_", k);
  spec.device = devices_[static_cast<size_t>(p)];
  spec.loc = near->loc();
  return out(p).AddNode(std::move(spec));
}

}  // namespace sluice
