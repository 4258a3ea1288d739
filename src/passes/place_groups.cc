// Placement: the possible devices of each node, and which nodes share a device.
#include <map>
#include <numeric>

#include "graph/graph.h"
#include "graph/hidden_attributes.h"
#include "passes/placer.h"

namespace sluice {
namespace {

// Values of these types stay with the state that they refer to.
bool IsHandle(DType t) { return IsRef(t) || t == DType::kResource; }

}  // namespace

Keeps WhatItKeeps(const Node& n) {
  if (!n.op().facts.has_identity || n.op().role != OpRole::kCompute)
    return Keeps::kNothing;
  for (const Output& in : n.inputs())
    if (IsHandle(in.dtype())) return Keeps::kNothing;  // It is with its state.
  for (int i = 0; i < n.num_outputs(); ++i)
    if (IsHandle(n.output_type(i))) return Keeps::kState;
  return Keeps::kStream;
}

// ---- Possible devices of each node ------------------------------------------

Status Placer::CheckDevices() {
  if (options_.devices.empty())
    return InvalidArgument("devices: expected at least one, got none");
  for (const PlaceableDevice& d : options_.devices) {
    if (!d.name.complete())
      return InvalidArgument(
          "devices: expected /job:J/replica:R/task:T/device:TYPE:N, got '",
          d.name.ToString(), "'");
    names_.push_back(d.name.ToString());
    device_of_.emplace(names_.back(), static_cast<int>(names_.size()) - 1);
  }
  preferred_ = sets_.Where([&](int d) {
    return options_.default_device.Matches(
        options_.devices[static_cast<size_t>(d)].name);
  });
  return OkStatus();
}

Status Placer::FindChoices() {
  const size_t n = graph_.nodes().size();
  own_.resize(n);
  recalled_.resize(n, kUndecided);
  for (size_t i = 0; i < n; ++i) {
    const Node& node = At(i);
    SLUICE_ASSIGN_OR_RETURN(own_[i], feasible_.Of(node));
    if (options_.state == nullptr || options_.state->empty()) continue;
    const Keeps keeps = WhatItKeeps(node);
    if (keeps == Keeps::kNothing) continue;
    const auto it = options_.state->find(node.name());
    if (it == options_.state->end()) continue;
    const auto device = device_of_.find(it->second);
    if (device == device_of_.end()) continue;
    recalled_[i] = device->second;
    if (keeps == Keeps::kState && sets_.Has(own_[i].may, device->second))
      own_[i].may = own_[i].last_resort = sets_.Single(device->second);
  }
  // A NextIteration shares its Merge's device, whatever its own constraint
  // (builders put each where its token is).
  for (const auto& merge : graph_.nodes()) {
    if (merge->op().role != OpRole::kMerge) continue;
    for (const Output& in : merge->inputs())
      if (in.node->op().role == OpRole::kNextIteration &&
          sets_.Intersect(own_[Index(merge.get())].may,
                          own_[Index(in.node)].may) == DeviceSets::kNone)
        own_[Index(in.node)] = Feasibility::Choice();
  }
  // Calls that belong to one frame share a device, too: the first constraint
  // among them applies.
  std::map<std::string, Id> asked;
  for (size_t i = 0; i < n; ++i) {
    if (At(i).op().role != OpRole::kCall) continue;
    const auto [it, first] = asked.try_emplace(
        At(i).AttrOr<std::string>("function", ""), own_[i].may);
    const Id both = sets_.Intersect(it->second, own_[i].may);
    if (both == DeviceSets::kNone)
      own_[i] = Feasibility::Choice();
    else
      it->second = both;
  }
  parent_.resize(n);
  std::iota(parent_.begin(), parent_.end(), size_t{0});
  choice_ = own_;
  share_.resize(n, Share::kNothing);
  with_.resize(n, nullptr);
  return OkStatus();
}

// ---- Groups -----------------------------------------------------------------

// Merges the groups of a and b. If not `must`: only if there is a device for
// both.
Status Placer::Join(const Node& a, const Node& b, Share share, bool must) {
  const size_t x = Root(&a), y = Root(&b);
  if (x == y) return OkStatus();
  Feasibility::Choice both;
  both.may = sets_.Intersect(choice_[x].may, choice_[y].may);
  both.last_resort =
      sets_.Intersect(choice_[x].last_resort, choice_[y].last_resort);
  both.softened = choice_[x].softened || choice_[y].softened;
  if (both.may == DeviceSets::kNone) {
    if (!must) return OkStatus();
    if (!options_.soft_placement || both.last_resort == DeviceSets::kNone)
      return Conflict(a, b, share);
    both.may = feasible_.CpusIfAny(both.last_resort);
    both.softened = true;
  }
  // The older node's root is kept: groups are identified by their first node.
  const size_t root = std::min(x, y);
  parent_[std::max(x, y)] = root;
  choice_[root] = both;
  const bool b_joins = with_[Index(&b)] == nullptr;
  const Node& joins = b_joins ? b : a;
  if (with_[Index(&joins)] == nullptr) {
    share_[Index(&joins)] = share;
    with_[Index(&joins)] = b_joins ? &a : &b;
  }
  return OkStatus();
}

const char* Placer::Shared(Share share) {
  switch (share) {
    case Share::kReference:
      return "a reference";
    case Share::kResource:
      return "a resource";
    case Share::kClass:
      return "a colocation group";
    case Share::kLoop:
      return "a loop's variable";
    case Share::kCalls:
      return "the calls of a function";
    case Share::kVariant:
      return "a variant";
    case Share::kNothing:
      break;
  }
  return "nothing";
}

// Names two nodes, one of each group, that cannot share a device. There may be
// none: three nodes can conflict without any two of them conflicting.
Status Placer::Conflict(const Node& a, const Node& b, Share share) {
  const size_t x = Root(&a), y = Root(&b);
  const Node *p = nullptr, *q = nullptr;
  std::map<Id, const Node*> left, right;  // By possible devices: the first.
  for (const auto& n : graph_.nodes()) {
    const Id may = own_[Index(n.get())].may;
    if (may == DeviceSets::kAll) continue;
    if (Root(n.get()) == x) left.emplace(may, n.get());
    if (Root(n.get()) == y) right.emplace(may, n.get());
  }
  for (const auto& [l, left_node] : left)
    for (const auto& [r, right_node] : right)
      if (p == nullptr && sets_.Intersect(l, r) == DeviceSets::kNone) {
        p = left_node;
        q = right_node;
      }
  if (p == nullptr) {
    p = left.empty() ? &a : left.begin()->second;
    q = right.empty() ? &b : right.begin()->second;
  }
  const auto wants = [&](const Node* n) {
    const size_t i = Index(n);
    return absl::StrCat(
        "'", n->device(), "'",
        recalled_[i] != kUndecided ? ", where an earlier step placed it," : "",
        " (", feasible_.Names(own_[i].may), ")");
  };
  std::string sharing;
  if (p == &a && q == &b)
    sharing = absl::StrCat("which share ", Shared(share));
  else
    sharing = absl::StrCat("which must be on one device as '", a.name(),
                           "' and '", b.name(), "' share ", Shared(share));
  return InvalidArgument("device: expected one for ", DescribeAsked(*p),
                         " and ", DescribeAsked(*q), ", ", sharing, ", got ",
                         wants(p), " and ", wants(q));
}

Status Placer::Group() {
  std::unordered_map<std::string_view, const Node*> classes;
  std::vector<std::pair<const Node*, std::string_view>> absent;
  for (const Node* n : order_) {
    SLUICE_RETURN_IF_ERROR(GroupByEdges(*n));
    const AttrValue* attr = n->FindAttr(kColocationAttr);
    const auto* names =
        attr == nullptr ? nullptr : attr->get<AttrValue::Strings>();
    if (names == nullptr) continue;
    for (const std::string& name : *names) {
      if (!name.starts_with("loc:@")) continue;
      // The node that names the group, or, if it was pruned, the first member.
      const auto [it, added] = classes.try_emplace(name, n);
      if (added) {
        if (const Node* named = graph_.FindNode(name.substr(5)))
          it->second = named;
        else
          absent.emplace_back(n, std::string_view(name).substr(5));
      }
      SLUICE_RETURN_IF_ERROR(Join(*it->second, *n, Share::kClass));
    }
  }
  SLUICE_RETURN_IF_ERROR(GroupByCalls());
  for (const auto& [n, name] : absent) JoinAbsent(*n, std::string(name));
  return GroupVariants();
}

// The node's group, which is complete, is placed where the other node is, or
// will be in a later step. (If that is impossible, the step with both reports
// the error.)
void Placer::JoinAbsent(const Node& n, const std::string& name) {
  const Node* const named =
      options_.whole == nullptr ? nullptr : options_.whole->FindNode(name);
  if (named == nullptr) return;
  const Result<Feasibility::Choice> choice = feasible_.Of(*named);
  if (!choice.ok()) return;
  const bool keeps =
      WhatItKeeps(*named) == Keeps::kState && options_.state != nullptr;
  Id may = choice->may;
  if (keeps) {
    const auto it = options_.state->find(name);
    if (it != options_.state->end())
      if (const auto d = device_of_.find(it->second);
          d != device_of_.end() && sets_.Has(may, d->second))
        may = sets_.Single(d->second);
  }
  Id& ours = choice_[Root(&n)].may;
  const Id both = sets_.Intersect(ours, may);
  if (both == DeviceSets::kNone) return;
  // (A feed is a value, independent of where the state will be.)
  if (keeps && n.op().role != OpRole::kArg) absent_.emplace_back(&n, named);
  ours = both;
  Id& own = own_[Index(&n)].may;
  own = sets_.Intersect(own, may);
}

Status Placer::GroupByEdges(const Node& n) {
  const bool is_merge = n.op().role == OpRole::kMerge;
  const bool is_call = n.op().role == OpRole::kCall;
  for (int i = 0; i < n.num_inputs(); ++i) {
    const Output& in = n.input(i);
    if (in.dtype() == DType::kResource && !is_call) {
      SLUICE_RETURN_IF_ERROR(Join(*in.node, n, Share::kResource));
    } else if (IsRef(n.input_type(i)) && IsRef(in.dtype())) {
      SLUICE_RETURN_IF_ERROR(Join(*in.node, n, Share::kReference));
    }
    // (Identified by the Merge: back edges are closed late.)
    if (is_merge && in.node->op().role == OpRole::kNextIteration)
      SLUICE_RETURN_IF_ERROR(Join(n, *in.node, Share::kLoop));
  }
  return OkStatus();
}

// Resources that are arguments or results of a call share the device of the
// function's.
Status Placer::GroupByCalls() {
  struct Frame {
    const Node* first = nullptr;
    std::vector<const Node*> args, results;
    std::vector<const Node*> calls;  // And the start.
  };
  std::map<std::string, Frame> frames;
  for (const auto& node : graph_.nodes()) {
    const Node* n = node.get();
    const OpRole role = n->op().role;
    if (role != OpRole::kArg && role != OpRole::kRetval &&
        role != OpRole::kCall && n->kind() != OpKind::kFunctionStart)
      continue;
    std::string function = n->AttrOr<std::string>("function", "");
    if (function.empty()) continue;
    Frame& f = frames[std::move(function)];
    if (f.first == nullptr) f.first = n;
    if (role != OpRole::kArg && role != OpRole::kRetval) {
      f.calls.push_back(n);
      continue;
    }
    std::vector<const Node*>& list = role == OpRole::kArg ? f.args : f.results;
    const auto i = static_cast<size_t>(n->IntAttr("index"));
    if (list.size() <= i) list.resize(i + 1, nullptr);
    list[i] = n;
  }
  for (const auto& [name, f] : frames)
    for (const Node* call : f.calls)
      for (size_t i = 0; i < f.args.size(); ++i)
        if (static_cast<int>(i) < call->num_inputs() && f.args[i] != nullptr &&
            call->input(static_cast<int>(i)).dtype() == DType::kResource)
          SLUICE_RETURN_IF_ERROR(Join(*call->input(static_cast<int>(i)).node,
                                      *f.args[i], Share::kResource));
  for (const auto& [name, f] : frames) {
    for (const Node* call : f.calls)
      SLUICE_RETURN_IF_ERROR(Join(*f.first, *call, Share::kCalls));
    for (const Node* result : f.results)
      if (result != nullptr)
        SLUICE_RETURN_IF_ERROR(Join(*f.first, *result, Share::kCalls));
  }
  // Handles of several devices may be arguments of one function.
  for (const auto& [name, f] : frames)
    for (const Node* arg : f.args)
      if (arg != nullptr)
        SLUICE_RETURN_IF_ERROR(Join(*f.first, *arg, Share::kCalls,
                                    arg->output_type(0) != DType::kResource));
  return OkStatus();
}

// Nodes that must share a device already do: a variant is sent if necessary.
Status Placer::GroupVariants() {
  for (const Node* n : order_)
    for (const Output& in : n->inputs())
      if (in.dtype() == DType::kVariant)
        SLUICE_RETURN_IF_ERROR(Join(*in.node, *n, Share::kVariant, false));
  return OkStatus();
}

}  // namespace sluice
