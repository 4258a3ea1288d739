// Cut edges: one _Send and _Recv for each output and destination, one pair of
// signals for each ordering constraint.
#include <algorithm>
#include <utility>

#include "passes/partitioner.h"

namespace sluice {
namespace {

// The variable behind `o`; or `o`. As in a plan, a node with control inputs
// reads through the Identities that take snapshots.
Output Variable(Output o) {
  o = ResolveAlias(o);
  while (o.node->op().role == OpRole::kIdentity &&
         o.node->control_inputs().empty() && IsRef(o.node->input(0).dtype()))
    o = ResolveAlias(o.node->input(0));
  return o;
}

}  // namespace

Result<Output> Partitioner::Input(const Node& n, int i, int p) {
  Output o = n.input(i);
  Output here;
  if (IsRef(n.input_type(i)) && IsRef(o.dtype())) {
    if (copy(o.node, p) == nullptr)
      return Internal("reference: expected '", o.name(), "' on ",
                      devices_[static_cast<size_t>(p)],
                      " as its user is (a reference cannot be sent), got ",
                      o.node->device(), "; ", n.Describe());
    return Given(o, p);
  }
  if (!n.control_inputs().empty() && n.op().role != OpRole::kMerge)
    if (const Output v = Variable(o); IsRef(v.dtype())) {
      // (If nothing is cut, the plan finds the variable itself.)
      if (copy(v.node, p) == nullptr) {
        SLUICE_ASSIGN_OR_RETURN(here, ReadAfter(v, n, p));
      } else if (copy(o.node, p) == nullptr) {
        o = v;
      }
    }
  if (!here.valid()) {
    SLUICE_ASSIGN_OR_RETURN(here, Here(o, p, WantedBy(n, i)));
  }
  return WhereWanted(n, i, here, p);
}

Result<Output> Partitioner::Here(const Output& o, int p, Wanted wanted) {
  if (copy(o.node, p) != nullptr) return Given(o, p);
  // (What the host reads would only be copied once more.)
  const bool direct = wanted != Wanted::kOnHost &&
                      CanGoDirectly(Given(o, home(o.node)), home(o.node), p);
  Node*& recv = (direct ? received_directly_ : received_)[{o.node, o.index}][p];
  if (recv != nullptr) return Output(recv);
  Transfer t;
  t.from = home(o.node);
  t.to = p;
  t.frame = frames_.output_frame(o.node);
  t.condition = liveness_.condition(o);
  t.once = liveness_.once(o.node);
  t.name = o.name();
  t.node = o.node;
  t.shape = o.shape();
  SLUICE_ASSIGN_OR_RETURN(recv, Send(t, Given(o, t.from), direct));
  return Output(recv);
}

// Reads a variable of another partition as `n` would: after the nodes that n
// waits for.
Result<Output> Partitioner::ReadAfter(const Output& ref, const Node& n, int p) {
  const int at = home(ref.node);
  std::vector<int> key;
  bool once = liveness_.once(ref.node);
  for (const Node* c : n.control_inputs()) {
    key.push_back(c->id());
    once |= liveness_.once(c);
  }
  std::sort(key.begin(), key.end());
  Node*& read = reads_[{ref.node->id(), ref.index, std::move(key)}];
  if (read == nullptr) {
    NodeSpec spec;
    spec.op = "Identity";
    spec.inputs = {Output(copy(ref.node, at), ref.index)};
    for (const Node* c : n.control_inputs())
      SLUICE_RETURN_IF_ERROR(AddControl(c, n, at, &spec.control_inputs));
    SLUICE_ASSIGN_OR_RETURN(
        read, Add(at, std::move(spec), ref.node->name() + "/_read", &n));
    PlaceByType(Output(read), at);
  }
  Node*& recv = received_[{read, 0}][p];
  if (recv == nullptr) {
    Transfer t;
    t.from = at;
    t.to = p;
    t.frame = frames_.frame_of(&n);
    t.condition = -1;
    t.once = once;
    t.name = ref.name();
    t.node = ref.node;
    t.shape = ref.shape();
    SLUICE_ASSIGN_OR_RETURN(
        recv, Send(t, Output(read), CanGoDirectly(Output(read), at, p)));
  }
  return Output(recv);
}

Status Partitioner::AddControl(const Node* c, const Node& n, int p,
                               std::vector<Node*>* controls) {
  const auto add = [controls](Node* node) {
    if (std::find(controls->begin(), controls->end(), node) == controls->end())
      controls->push_back(node);
    return OkStatus();
  };
  if (copy(c, p) != nullptr) return add(Done(c, p));
  if (IsFloatingConstant(*c)) return OkStatus();
  if (int frame; IsPivot(c, &frame)) {
    SLUICE_ASSIGN_OR_RETURN(Node * pivot, PivotOf(frame, p));
    return add(pivot);
  }
  Transfer t;
  t.from = home(c);
  t.to = p;
  t.frame = frames_.output_frame(c);
  t.condition = liveness_.condition(c, -1);
  t.once = liveness_.once(c);
  t.name = "^" + c->name();
  t.node = c;
  // If c has no effect, a constant may wait for any node that is alive when c
  // is. (Readers of the constant may wait for c only through it.)
  if (n.op().role == OpRole::kConst && orders_[Id(c)] == 0 && !options_.staged)
    if (const auto it = alike_.find({-1, p, t.frame, t.condition, t.once});
        it != alike_.end())
      return add(it->second);
  // A value that is transferred anyway shows that c is done.
  if (c->op().role != OpRole::kSwitch)
    for (int i = 0; i < c->num_outputs(); ++i)
      for (const auto* received : {&received_, &received_directly_})
        if (const auto it = received->find({c, i}); it != received->end())
          if (const auto r = it->second.find(p); r != it->second.end())
            return add(r->second);
  Node*& recv = received_[{c, -1}][p];
  if (recv == nullptr) {
    SLUICE_ASSIGN_OR_RETURN(recv, Signal(t, {Done(c, t.from)}));
  }
  return add(recv);
}

Result<Node*> Partitioner::Send(const Transfer& t, Output from, bool direct) {
  const DType type = RemoveRef(from.dtype());
  if (!direct) {
    SLUICE_ASSIGN_OR_RETURN(from, OnHost(from, t.from));
  }
  NodeSpec send, recv;
  send.op = "_Send";
  send.inputs = {from};
  send.attrs["T"] = type;
  recv.op = "_Recv";
  recv.attrs["T"] = type;
  SLUICE_ASSIGN_OR_RETURN(Node * node,
                          Connect(t, std::move(send), std::move(recv)));
  out(t.to).SetShape(Output(node), t.shape).IgnoreError();
  if (!direct) return node;
  SLUICE_ASSIGN_OR_RETURN(const Output there,
                          Moved("_CopyFromPeer", Output(node), t.to));
  lie_on_device_.insert(there);
  return there.node;
}

Result<Node*> Partitioner::Signal(const Transfer& t, std::vector<Node*> after) {
  NodeSpec send, recv;
  send.op = "_SendSignal";
  send.control_inputs = std::move(after);
  recv.op = "_RecvSignal";
  return Connect(t, std::move(send), std::move(recv));
}

Result<Node*> Partitioner::Connect(const Transfer& t, NodeSpec send,
                                   NodeSpec recv) {
  const auto to = static_cast<size_t>(t.to);
  const std::tuple<int, int, int, int, bool> kind = {t.from, t.to, t.frame,
                                                     t.condition, t.once};
  // Edges that are dead together are reported by one message, that of the
  // first.
  int group = next_group_[to];
  bool leads = true;
  if (t.condition >= 0 && groups_hold_ && !options_.staged) {
    const auto [it, fresh] = groups_.try_emplace(kind, group);
    group = it->second;
    leads = fresh;
  }
  if (leads) ++next_group_[to];
  const int64_t edge = next_edge_[to]++;
  for (NodeSpec* s : {&send, &recv}) {
    s->attrs["tensor_name"] = t.name;
    s->attrs["send_device"] = devices_[static_cast<size_t>(t.from)];
    s->attrs["recv_device"] = devices_[to];
    s->attrs["edge"] = edge;
    s->attrs["group"] = group;
  }
  send.attrs["destination"] = t.to;
  send.attrs["leads_group"] = leads;
  SLUICE_RETURN_IF_ERROR(Add(t.from, std::move(send),
                             absl::StrCat(t.node->name(), "/_send"), t.node)
                             .status());
  SLUICE_ASSIGN_OR_RETURN(Node * there,
                          Add(t.to, std::move(recv),
                              absl::StrCat(t.node->name(), "/_recv"), t.node));
  if (t.condition >= 0)
    alike_.try_emplace({-1, t.to, t.frame, t.condition, t.once}, there);
  if (t.frame != 0) starts_.push_back({there, t.frame, t.to, t.once});
  if (!t.once) {
    std::vector<const Node*>& sources = crosses_[{t.frame, t.from, t.to}];
    // (If it is dead, the message of another edge may report it, which waits
    // for less.)
    if (t.condition == Conditions::kAlways ||
        t.condition == liveness_.going_on(t.frame))
      sources.push_back(t.node);
  }
  return there;
}

}  // namespace sluice
