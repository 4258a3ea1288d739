// Loops and functions that several partitions run: the nodes that make each
// partition enter the frame, advance its iterations and stay in step with the
// others.
#include <algorithm>
#include <utility>

#include "passes/partitioner.h"

namespace sluice {

Result<Node*> Partitioner::EnterOf(int frame, int p) {
  Control& control = controls_[{frame, p}];
  if (control.enter != nullptr) return control.enter;
  const GraphFrame& f = frames_[frame];
  const std::string base = f.first->name() + "/_control";
  NodeSpec go;
  go.op = "Const";
  go.attrs = {{"dtype", DType::kBool}, {"value", Tensor::Scalar(true)}};
  SLUICE_ASSIGN_OR_RETURN(Node * yes,
                          Add(p, std::move(go), base + "_go", f.first));
  NodeSpec enter;
  enter.op = "Enter";
  enter.inputs = {Output(yes)};
  enter.attrs = {{"frame_name", f.name},
                 {"is_constant", false},
                 {"parallel_iterations", f.parallel_iterations}};
  SLUICE_ASSIGN_OR_RETURN(control.enter,
                          Add(p, std::move(enter), base + "_enter", f.first));
  if (f.parent != 0)
    starts_.push_back(
        {control.enter, f.parent, p, liveness_.begins_once(frame)});
  return control.enter;
}

Result<Node*> Partitioner::FunctionStart(int frame, int p) {
  Control& control = controls_[{frame, p}];
  if (control.each != nullptr) return control.each;
  const GraphFrame& f = frames_[frame];
  if (const auto it = function_starts_.find(frame);
      it != function_starts_.end()) {
    Node*& start = copy(it->second, p);
    if (start == nullptr) {
      start = out(p).CopyNode(*it->second, {}, {});
      out(p).SetDevice(start, devices_[static_cast<size_t>(p)]);
    }
    return control.each = start;
  }
  NodeSpec spec;
  spec.op = "_Function";
  spec.attrs = {{"function", f.name}};
  SLUICE_ASSIGN_OR_RETURN(
      control.each,
      Add(p, std::move(spec), f.first->name() + "/_control", f.first));
  return control.each;
}

// A node that is alive while the loop continues, derived from the predicate
// only.
Result<Node*> Partitioner::PivotOf(int frame, int p) {
  Control& control = controls_[{frame, p}];
  if (control.pivot != nullptr) return control.pivot;
  const GraphFrame& f = frames_[frame];
  const std::string base = f.first->name() + "/_control";
  SLUICE_ASSIGN_OR_RETURN(
      const Output pred,
      Here(Output(const_cast<Node*>(f.loop_cond())), p, Wanted::kOnHost));
  NodeSpec s;
  s.op = "Switch";
  s.inputs = {pred, pred};
  SLUICE_ASSIGN_OR_RETURN(
      Node * sw, Add(p, std::move(s), base + "_switch", f.loop_cond()));
  NodeSpec pivot;
  pivot.op = "Identity";
  pivot.inputs = {Output(sw, 1)};
  SLUICE_ASSIGN_OR_RETURN(
      control.pivot, Add(p, std::move(pivot), base + "_pivot", f.loop_cond()));
  return control.pivot;
}

// The state machine of Figure 6 (EuroSys'18): a loop that iterates as often as
// the predicate is true. (A _Recv that waits for a dead token starts all the
// same.)
Result<Node*> Partitioner::EachOf(int frame, int p) {
  const GraphFrame& f = frames_[frame];
  if (f.is_function()) return FunctionStart(frame, p);
  if (!f.repeats()) return EnterOf(frame, p);
  if (Node* each = controls_[{frame, p}].each) return each;
  if (home(f.loop_cond()) == p)
    if (const Node* own = OwnMerge(frame, p))
      return controls_[{frame, p}].each = copy(own, p);
  SLUICE_ASSIGN_OR_RETURN(Node * enter, EnterOf(frame, p));
  SLUICE_ASSIGN_OR_RETURN(Node * pivot, PivotOf(frame, p));
  const std::string base = f.first->name() + "/_control";
  NodeSpec merge;
  merge.op = "Merge";
  merge.inputs = {Output(enter), Output()};
  merge.pending_input_types = {DType::kBool, DType::kBool};
  SLUICE_ASSIGN_OR_RETURN(Node * each,
                          Add(p, std::move(merge), base + "_merge", f.first));
  NodeSpec next;
  next.op = "NextIteration";
  next.inputs = {Output(pivot)};
  SLUICE_ASSIGN_OR_RETURN(Node * round,
                          Add(p, std::move(next), base + "_next", f.first));
  SLUICE_RETURN_IF_ERROR(out(p).SetBackEdge(each, 1, Output(round)));
  return controls_[{frame, p}].each = each;
}

const Node* Partitioner::OwnMerge(int frame, int p) {
  for (const Node* m : loop_merges_[frame])
    if (home(m) == p && IsBeforePredicate(frame, m)) return m;
  return nullptr;
}

bool Partitioner::IsBeforePredicate(int frame, const Node* n) {
  auto [it, fresh] = before_predicate_.try_emplace(frame);
  absl::flat_hash_set<const Node*>& seen = it->second;
  if (fresh) {
    std::vector<const Node*> open = {frames_[frame].loop_cond()};
    seen.insert(open[0]);
    while (!open.empty()) {
      const Node* at = open.back();
      open.pop_back();
      if (at->op().role == OpRole::kEnter && frames_.output_frame(at) == frame)
        continue;
      const auto visit = [&](const Node* from) {
        if (!IsBackEdge(*from, *at) && seen.insert(from).second)
          open.push_back(from);
      };
      for (const Output& in : at->inputs()) visit(in.node);
      for (const Node* c : at->control_inputs()) visit(c);
    }
  }
  return seen.contains(n);
}

// A loop's own pivot is equivalent to its predicate, if that waits for the same
// variable: each partition derives it from the predicate.
bool Partitioner::IsPivot(const Node* c, int* frame) {
  if (c->op().role != OpRole::kIdentity) return false;
  const Output o = ResolveAlias(Output(const_cast<Node*>(c)));
  if (o.node->op().role != OpRole::kSwitch || o.index != 1 ||
      !o.node->control_inputs().empty() || IsRef(o.dtype()))
    return false;
  *frame = frames_.frame_of(o.node);
  const GraphFrame& f = frames_[*frame];
  if (f.parent < 0 || f.loop_cond() == nullptr ||
      liveness_.condition(o) != liveness_.going_on(*frame))
    return false;
  const Output data = ResolveAlias(o.node->input(0));
  return data.node->op().role == OpRole::kMerge &&
         data.node->control_inputs().empty() &&
         IsBeforePredicate(*frame, data.node);
}

// ---- Calls ------------------------------------------------------------------

// A partition that runs part of a function enters its own frame when the call
// has all its inputs.
Status Partitioner::BeginCalls(const Node& call) {
  const int at = home(&call);
  const int callee = frames_.function_frame(FunctionOf(call));
  std::vector<Node*> after, ends;
  for (size_t p = 0; p < devices_.size(); ++p) {
    const int to = static_cast<int>(p);
    if (to == at || !Runs(callee, to)) continue;
    if (after.empty()) {
      const Node* here = copy(&call, at);
      after = here->control_inputs();
      for (const Output& in : here->inputs()) {
        if (IsFloatingConstant(*in.node)) continue;
        Node* from = in.node;
        if (from->op().role == OpRole::kSwitch) {
          NodeSpec side;
          side.op = IsRef(in.dtype()) ? "RefIdentity" : "Identity";
          side.inputs = {in};
          SLUICE_ASSIGN_OR_RETURN(
              from, Add(at, std::move(side), call.name() + "/_live", &call));
        }
        after.push_back(from);
      }
    }
    Transfer t;
    t.from = at;
    t.to = to;
    t.frame = frames_.frame_of(&call);
    t.condition = liveness_.input_condition(&call);
    t.once = liveness_.once(&call);
    t.name = "^" + call.name();
    t.node = &call;
    SLUICE_ASSIGN_OR_RETURN(Node * live, Signal(t, after));
    NodeSpec spec;
    spec.op = "_Call";
    spec.name = call.name();  // Identifies its frame in every partition.
    spec.attrs = {{"Tin", AttrValue::Types()},
                  {"Tout", AttrValue::Types()},
                  {"function", FunctionOf(call)}};
    spec.control_inputs = {live};
    spec.device = devices_[p];
    spec.loc = call.loc();
    SLUICE_ASSIGN_OR_RETURN(Node * part, out(to).AddNode(std::move(spec)));
    if (changers_[static_cast<size_t>(callee)][p] == 0) continue;
    t.from = to;
    t.to = at;
    SLUICE_ASSIGN_OR_RETURN(Node * ended, Signal(t, {part}));
    ends.push_back(ended);
  }
  if (ends.empty()) return OkStatus();
  // The call is done for nodes that wait for it when it is done in all
  // partitions.
  Node* here = copy(&call, at);
  std::vector<Node*> given;
  for (int i = 0; i <= call.num_outputs(); ++i) {
    NodeSpec spec;
    spec.op = "NoOp";
    spec.control_inputs = ends;
    if (i < call.num_outputs()) {
      spec.op = "Identity";
      spec.inputs = {Output(here, i)};
    } else {
      spec.control_inputs.push_back(here);
    }
    SLUICE_ASSIGN_OR_RETURN(
        given.emplace_back(),
        Add(at, std::move(spec), call.name() + "/_ended", &call));
    if (i < call.num_outputs()) PlaceByType(Output(given.back()), at);
  }
  call_ends_[&call] = std::move(given);
  return OkStatus();
}

Node* Partitioner::Done(const Node* n, int p) {
  if (n->op().role == OpRole::kCall)
    if (const auto it = call_ends_.find(n); it != call_ends_.end())
      return it->second.back();
  return copy(n, p);
}

Output Partitioner::Given(const Output& o, int p) {
  if (o.node->op().role == OpRole::kCall)
    if (const auto it = call_ends_.find(o.node); it != call_ends_.end())
      return Output(it->second[static_cast<size_t>(o.index)]);
  return Output(copy(o.node, p), o.index);
}

// ---- The end ----------------------------------------------------------------

Status Partitioner::AddControlLoops() {
  for (size_t f = 0; f < runners_.size(); ++f) {
    const GraphFrame& frame = frames_[static_cast<int>(f)];
    if (frame.parent < 0 || !frame.repeats() ||
        std::count(runners_[f].begin(), runners_[f].end(), 1) < 2)
      continue;
    for (size_t p = 0; p < devices_.size(); ++p)
      if (runners_[f][p] != 0 && home(frame.loop_cond()) != static_cast<int>(p))
        SLUICE_RETURN_IF_ERROR(
            EachOf(static_cast<int>(f), static_cast<int>(p)).status());
  }
  return OkStatus();
}

// Partitions that send something to the owner are waited for, and so are those
// that contribute to it.
std::vector<uint8_t> Partitioner::WaitedFor(int frame, int owner) const {
  std::vector<uint8_t> parts(devices_.size(), 0);
  std::vector<const Node*> open;
  absl::flat_hash_set<const Node*> seen;
  // Nodes of the frame, except Enters.
  const auto visit = [&](const Node* n) {
    if (frames_.frame_of(n) == frame && !liveness_.once(n) &&
        n->op().role != OpRole::kEnter && seen.insert(n).second)
      open.push_back(n);
  };
  for (size_t p = 0; p < devices_.size(); ++p)
    if (const auto it = crosses_.find({frame, static_cast<int>(p), owner});
        it != crosses_.end()) {
      parts[p] = 1;
      for (const Node* n : it->second) visit(n);
    }
  while (!open.empty()) {
    const Node* n = open.back();
    open.pop_back();
    if (!IsRepeated(*n)) parts[static_cast<size_t>(home(n))] = 1;
    // (A Merge needs only one of its inputs.)
    if (n->op().role == OpRole::kMerge) continue;
    for (const Output& in : n->inputs()) visit(in.node);
    for (const Node* c : n->control_inputs())
      if (KeepsControl(*n, c)) visit(c);
  }
  return parts;
}

// A constant may take only its liveness from a node without effects (CopyTo,
// AddControl): then nothing of that node crosses.
bool Partitioner::KeepsControl(const Node& n, const Node* c) const {
  if (n.op().role != OpRole::kConst || orders_[Id(c)] != 0) return true;
  const auto crosses = [&](int p) {
    for (const auto* received : {&received_, &received_directly_})
      for (int i = -1; i < c->num_outputs(); ++i)
        if (const auto it = received->find({c, i});
            it != received->end() && it->second.contains(p))
          return true;
    return false;
  };
  const std::vector<int>& parts = parts_[Id(&n)];
  return std::all_of(parts.begin(), parts.end(), [&](int p) {
    return copies_[static_cast<size_t>(p)][Id(c)] != nullptr || crosses(p);
  });
}

// Bounds how far partitions run ahead of each other: an iteration is done for
// the owner of the predicate when all partitions have begun it, and a partition
// begins one only when the iteration parallel_iterations before it is done
// there.
Status Partitioner::AddWindows() {
  for (size_t f = 0; f < runners_.size(); ++f) {
    const GraphFrame& frame = frames_[static_cast<int>(f)];
    if (frame.parent < 0 || !frame.repeats() || frame.loop_cond() == nullptr)
      continue;
    if (std::count(runners_[f].begin(), runners_[f].end(), 1) < 2) continue;
    const int owner = home(frame.loop_cond());
    const std::vector<uint8_t> waited_for =
        WaitedFor(static_cast<int>(f), owner);
    for (size_t p = 0; p < devices_.size(); ++p) {
      Transfer t;
      t.from = static_cast<int>(p);
      t.to = owner;
      t.frame = static_cast<int>(f);
      t.name = absl::StrCat("^", frame.first->name(), "/window");
      t.node = frame.loop_cond();
      if (runners_[f][p] == 0 || t.from == owner || waited_for[p] != 0)
        continue;
      SLUICE_ASSIGN_OR_RETURN(Node * each, EachOf(t.frame, t.from));
      SLUICE_RETURN_IF_ERROR(Signal(t, {each}).status());
    }
  }
  return OkStatus();
}

Status Partitioner::StartAll() {
  for (size_t i = 0; i < starts_.size(); ++i) {  // Grows.
    const Start s = starts_[i];
    if (s.frame == 0) continue;
    SLUICE_ASSIGN_OR_RETURN(Node * when,
                            s.once && !frames_[s.frame].is_function()
                                ? EnterOf(s.frame, s.part)
                                : EachOf(s.frame, s.part));
    SLUICE_RETURN_IF_ERROR(out(s.part).AddControlEdge(when, s.node));
  }
  return OkStatus();
}

}  // namespace sluice
