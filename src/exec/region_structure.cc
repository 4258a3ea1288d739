#include "exec/region_structure.h"

#include <algorithm>
#include <iterator>

namespace sluice {
namespace {

// A node that waits for more slow units than this is left to the executor, so
// that sets stay small.
constexpr size_t kManySlow = 32;
// The same for nodes within more conditionals than this.
constexpr size_t kManyGuards = 256;
// A kernel that may take long is cheap on fewer elements than this in total.
constexpr int64_t kFewElements = 2048;

bool IsBackEdge(const Node& to, const Node& from) {
  return to.op().role == OpRole::kMerge &&
         from.op().role == OpRole::kNextIteration;
}

int64_t ParallelIterations(const Node& enter) {
  return enter.IntAttr("parallel_iterations");
}
bool IsConstantEnter(const Node& n) {
  return n.op().role == OpRole::kEnter && n.BoolAttr("is_constant");
}

bool HasReference(const Node& n) {
  for (int i = 0; i < n.num_inputs(); ++i)
    if (IsRef(n.input(i).dtype()) || IsRef(n.input_type(i))) return true;
  for (int i = 0; i < n.num_outputs(); ++i)
    if (IsRef(n.output_type(i))) return true;
  return false;
}

// True for ops that modify a value in place if it is not shared. A region keeps
// a loop variable in a slot that the exit also reads, so each iteration would
// copy a whole list.
bool ChangesVariants(const Node& n) {
  for (const Output& in : n.inputs())
    if (in.dtype() == DType::kVariant) return true;
  return false;
}

// True if all shapes are known and small.
bool IsSmall(const Node& n) {
  int64_t all = 0;
  auto add = [&all](const PartialShape& s) {
    if (!s.rank_known()) return false;
    int64_t elements = 1;
    for (int64_t d : s.dims()) {
      if (d < 0 || d > kFewElements) return false;
      elements *= d;
      if (elements > kFewElements) return false;
    }
    all += elements;
    return true;
  };
  for (const Output& in : n.inputs())
    if (!add(in.shape())) return false;
  for (int i = 0; i < n.num_outputs(); ++i)
    if (!add(n.output_shape(i))) return false;
  return all <= kFewElements;
}

}  // namespace

bool IsAlias(const Node& n) {
  return (n.op().role == OpRole::kIdentity ||
          n.op().role == OpRole::kLoopCond) &&
         n.control_inputs().empty() && n.num_inputs() == 1 &&
         IsRef(n.input(0).dtype()) == IsRef(n.output_type(0));
}

Output ResolveAlias(Output o) {
  while (IsAlias(*o.node)) o = o.node->input(0);
  return o;
}

// ---- Guards -----------------------------------------------------------------

int Guards::Intern(Set s) {
  auto [it, fresh] =
      ids_.try_emplace(std::move(s), static_cast<int>(sets_.size()));
  if (fresh) sets_.push_back(it->first);
  return it->second;
}

int Guards::Union(int a, int b) {
  if (a == kNever || b == kNever) return kNever;
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  Set all;
  std::set_union(set(a).begin(), set(a).end(), set(b).begin(), set(b).end(),
                 std::back_inserter(all));
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i].predicate == all[i - 1].predicate) return kNever;
  if (all.size() > kManyGuards) return kNever;
  return Intern(std::move(all));
}

int Guards::Without(int a, Literal l) {
  Set s = set(a);
  std::erase(s, l);
  return Intern(std::move(s));
}

bool Guards::Has(int a, Literal l) const {
  return std::binary_search(set(a).begin(), set(a).end(), l);
}

std::pair<int, int> Guards::Complement(int a, int b) {
  const std::pair<int, int> none = {-1, kNever};
  if (a == kNever || b == kNever || set(a).size() != set(b).size()) return none;
  int predicate = -1;
  Set common;
  for (size_t i = 0; i < set(a).size(); ++i) {
    const Literal x = set(a)[i], y = set(b)[i];
    if (x == y) {
      common.push_back(x);
    } else if (x.predicate != y.predicate || predicate >= 0) {
      return none;
    } else {
      predicate = x.predicate;
    }
  }
  if (predicate < 0) return none;
  return {predicate, Intern(std::move(common))};
}

// ---- Frames and units -------------------------------------------------------

Result<std::unique_ptr<RegionStructure>> RegionStructure::Analyse(
    const Graph& graph, const KernelSource& kernels,
    const std::set<const Node*>& keep) {
  std::unique_ptr<RegionStructure> s(new RegionStructure(graph));
  s->kernels_ = &kernels;
  s->keep_ = &keep;
  SLUICE_RETURN_IF_ERROR(s->PlaceNodes());
  // Children have higher numbers than their parents.
  for (int f = s->num_frames() - 1; f >= 0; --f) s->MakeUnits(f);
  for (int f = s->num_frames() - 1; f >= 0; --f) {
    RegionFrame& frame = s->mutable_frame(f);
    if (!s->Order(f)) frame.well_formed = false;
    if (f > 0 && frame.well_formed) s->FindLoop(f);
    if (!frame.well_formed) continue;
    s->Guard(f);
    if (!frame.well_formed) continue;
    frame.whole = f > 0 && s->IsWhole(f);
    s->FindSlow(f);
  }
  s->kernels_ = nullptr;
  s->keep_ = nullptr;
  return s;
}

Status RegionStructure::PlaceNodes() {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                          TopologicalOrder(graph_));
  place_.resize(order.size());
  frames_.emplace_back();
  for (const Node* n : order) SLUICE_RETURN_IF_ERROR(PlaceNode(*n));
  for (const Node* n : order)
    for (const Output& in : n->inputs())
      if (in.node == nullptr ||
          (IsBackEdge(*n, *in.node) && frame_of(in.node) != frame_of(n)))
        return InvalidArgument("frames");
  return OkStatus();
}

// The same rules as in Plan::Build, which reports the errors.
Status RegionStructure::PlaceNode(const Node& n) {
  Place& place = place_[Id(&n)];
  bool first = true;
  auto meet = [&](const Node* from) -> Status {
    if (from == nullptr || IsBackEdge(n, *from) ||
        (from->op().role == OpRole::kConst && from->control_inputs().empty()))
      return OkStatus();
    const int f = place_[Id(from)].output_frame;
    if (!first && f != place.frame) return InvalidArgument("frames");
    first = false;
    place.frame = f;
    return OkStatus();
  };
  for (const Output& in : n.inputs()) SLUICE_RETURN_IF_ERROR(meet(in.node));
  for (const Node* c : n.control_inputs()) SLUICE_RETURN_IF_ERROR(meet(c));
  place.output_frame = place.frame;
  if (n.op().role == OpRole::kEnter) {
    SLUICE_ASSIGN_OR_RETURN(std::string name,
                            n.Attr<std::string>("frame_name"));
    auto [it, fresh] =
        frame_ids_.try_emplace({place.frame, name}, num_frames());
    if (fresh) {
      RegionFrame f;
      f.parent = place.frame;
      f.depth = frame(place.frame).depth + 1;
      f.name = name;
      frames_.push_back(std::move(f));
    }
    place.output_frame = it->second;
    mutable_frame(it->second).enters.push_back(&n);
  } else if (n.op().role == OpRole::kExit) {
    if (place.frame == 0) return InvalidArgument("frames");
    place.output_frame = frame(place.frame).parent;
    mutable_frame(place.frame).exits.push_back(&n);
  } else if (n.op().role == OpRole::kRetval && place.frame != 0) {
    return InvalidArgument("frames");
  }
  mutable_frame(place.frame).nodes.push_back(&n);
  return OkStatus();
}

void RegionStructure::MakeUnits(int f) {
  RegionFrame& frame = mutable_frame(f);
  std::map<int, int> children;  // Frame -> unit.
  for (const Node* n : frame.nodes) {
    Place& place = place_[Id(n)];
    if (n->op().role == OpRole::kEnter) {
      auto [it, fresh] = children.try_emplace(
          place.output_frame, static_cast<int>(frame.units.size()));
      if (fresh) {
        RegionUnit u;
        u.child = place.output_frame;
        u.kind = RegionUnit::kChild;
        frame.units.push_back(std::move(u));
      }
      place.unit = it->second;
      continue;
    }
    place.unit = static_cast<int>(frame.units.size());
    RegionUnit u;
    u.node = n;
    u.kind = Classify(f, *n, &u.kernel);
    frame.units.push_back(std::move(u));
  }
  for (const Node* n : frame.nodes) {
    for (const Output& in : n->inputs()) Depend(f, *n, in.node);
    for (const Node* c : n->control_inputs()) Depend(f, *n, c);
  }
  for (RegionUnit& u : frame.units) {
    std::sort(u.deps.begin(), u.deps.end());
    u.deps.erase(std::unique(u.deps.begin(), u.deps.end()), u.deps.end());
  }
}

RegionUnit::Kind RegionStructure::Classify(int f, const Node& n,
                                           std::shared_ptr<Kernel>* k) {
  if (keep_->count(&n) > 0) return RegionUnit::kSlow;
  switch (n.op().role) {
    case OpRole::kConst:
    case OpRole::kNoOp:
      return RegionUnit::kFree;
    case OpRole::kLoopCond:  // (A path through it is not visible.)
      return f == 0 && !IsAlias(n) ? RegionUnit::kSlow : RegionUnit::kFree;
    case OpRole::kSwitch:
    case OpRole::kIdentity:
      return HasReference(n) ? RegionUnit::kSlow : RegionUnit::kFree;
    case OpRole::kExit:
    case OpRole::kNextIteration:
      return f == 0 || HasReference(n) ? RegionUnit::kSlow : RegionUnit::kFree;
    case OpRole::kMerge:
      return n.num_inputs() == 2 && !HasReference(n) ? RegionUnit::kMerge
                                                     : RegionUnit::kSlow;
    case OpRole::kArg:
      return RegionUnit::kFree;
    case OpRole::kCompute: {
      if (HasReference(n) || ChangesVariants(n) || !n.op().kernel)
        return RegionUnit::kSlow;
      Result<std::shared_ptr<Kernel>> made = (*kernels_)(n);
      if (!made.ok() || *made == nullptr || (*made)->run == nullptr ||
          ((*made)->expensive && !IsSmall(n)))
        return RegionUnit::kSlow;
      *k = *std::move(made);
      return RegionUnit::kCheap;
    }
    default:
      return RegionUnit::kSlow;
  }
}

// The unit of frame f that provides the outputs of `from`; -1: none does.
int RegionStructure::UnitSeen(int f, const Node* from) const {
  if (from == nullptr ||
      (from->op().role == OpRole::kConst && from->control_inputs().empty()))
    return -1;
  const Place& p = place_[Id(from)];
  if (p.frame == f) return p.unit;
  if (from->op().role != OpRole::kExit) return -1;  // An Enter into f.
  const std::vector<const Node*>& enters = frame(p.frame).enters;
  return enters.empty() ? -1 : place_[Id(enters[0])].unit;
}

void RegionStructure::Depend(int f, const Node& n, const Node* from) {
  if (from == nullptr || IsBackEdge(n, *from)) return;
  const int on = UnitSeen(f, from);
  RegionUnit& u = mutable_frame(f).units[static_cast<size_t>(unit_of(&n))];
  if (on >= 0 && on != unit_of(&n)) u.deps.push_back(on);
}

// False if there is a cycle of units: a loop that waits for its own result.
bool RegionStructure::Order(int f) {
  RegionFrame& frame = mutable_frame(f);
  std::vector<std::vector<int>> users(frame.units.size());
  std::vector<size_t> pending(frame.units.size());
  for (size_t u = 0; u < frame.units.size(); ++u) {
    pending[u] = frame.units[u].deps.size();
    for (int d : frame.units[u].deps)
      users[static_cast<size_t>(d)].push_back(static_cast<int>(u));
    if (pending[u] == 0) frame.order.push_back(static_cast<int>(u));
  }
  for (size_t i = 0; i < frame.order.size(); ++i)
    for (int user : users[static_cast<size_t>(frame.order[i])])
      if (--pending[static_cast<size_t>(user)] == 0)
        frame.order.push_back(user);
  return frame.order.size() == frame.units.size();
}

// ---- Loops ------------------------------------------------------------------

// Finds the variables and the condition; sets well_formed to false if they are
// not those of an ordinary loop.
void RegionStructure::FindLoop(int f) {
  RegionFrame& loop = mutable_frame(f);
  loop.well_formed = false;
  const Node* condition = nullptr;
  std::set<const Node*> inits;
  for (const Node* n : loop.nodes) {
    if (n->op().role == OpRole::kLoopCond) {
      if (condition != nullptr || !n->control_inputs().empty()) return;
      condition = n;
    }
    if (n->op().role != OpRole::kMerge) continue;
    const Node* enter = nullptr;
    const Node* next = nullptr;
    for (const Output& in : n->inputs()) {
      if (in.node->op().role == OpRole::kNextIteration) next = in.node;
      if (in.node->op().role == OpRole::kEnter && !IsConstantEnter(*in.node))
        enter = in.node;
    }
    if (next == nullptr && enter == nullptr) continue;  // A conditional's.
    if (next == nullptr || enter == nullptr || n->num_inputs() != 2 ||
        !n->control_inputs().empty() || frame_of(next) != f)
      return;
    loop.variables.push_back({n, enter, next});
    inits.insert(enter);
  }
  if (condition == nullptr || loop.variables.empty()) return;
  const int64_t parallel = ParallelIterations(*loop.enters[0]);
  for (const Node* e : loop.enters) {
    if (!IsConstantEnter(*e) && inits.count(e) == 0) return;
    // (Irrelevant here, but it has to be an error in all modes of execution.)
    if (parallel < 1 || ParallelIterations(*e) != parallel) return;
  }
  for (const Node* n : loop.nodes) {
    // Values that are alive in the first iteration only, or only as long as the
    // loop.
    for (const Output& in : n->inputs())
      if (inits.count(in.node) > 0 && n->op().role != OpRole::kMerge) return;
    for (const Node* c : n->control_inputs())
      if (c->op().role == OpRole::kNextIteration ||
          (c->op().role == OpRole::kEnter && !IsConstantEnter(*c)))
        return;
  }
  loop.condition = condition->input(0);
  loop.go = {PredicateOf(ResolveAlias(Output(const_cast<Node*>(condition)))),
             true};
  loop.well_formed = true;
}

// ---- Guards of units --------------------------------------------------------

// Null: a new, unique predicate.
int RegionStructure::PredicateOf(Output o) {
  const int next = static_cast<int>(predicates_.size());
  if (o.valid()) {
    auto [it, fresh] = predicate_ids_.try_emplace(o, next);
    if (!fresh) return it->second;
  }
  predicates_.push_back(o);
  return next;
}

// The guard of the token on an edge within frame f.
int RegionStructure::GuardOf(int f, const Output& o) {
  const int u = UnitSeen(f, o.node);
  const int guard = u < 0 ? 0 : unit(f, u).guard;
  if (o.node->op().role != OpRole::kSwitch || frame_of(o.node) != f)
    return guard;
  const int p = PredicateOf(ResolveAlias(o.node->input(1)));
  return guards_.With(guard, {p, o.index == 1});
}

int RegionStructure::GuardOfMerge(int f, RegionUnit* u) {
  const Node& n = *u->node;
  for (const Output& in : n.inputs())
    if (in.node->op().role == OpRole::kNextIteration) return 0;
  if (u->kind != RegionUnit::kMerge) return Opaque();
  const int a = GuardOf(f, n.input(0)), b = GuardOf(f, n.input(1));
  const auto [predicate, common] = guards_.Complement(a, b);
  if (predicate < 0) {
    u->kind = RegionUnit::kSlow;
    return Opaque();
  }
  u->predicate = predicate;
  u->when_true = guards_.Has(a, {predicate, true}) ? 0 : 1;
  int guard = common;
  for (const Node* c : n.control_inputs())
    guard = guards_.Union(guard, GuardOf(f, Output(const_cast<Node*>(c), -1)));
  return guard;
}

// A ControlTrigger also runs after dead inputs: its guard is the common part of
// its inputs' guards. It belongs to the iteration of the body that its inputs
// belong to.
int RegionStructure::GuardOfTrigger(int f, const Node& n) {
  bool first = true, in_body = false;
  Guards::Set common;
  for (const Node* c : n.control_inputs()) {
    const int g = GuardOf(f, Output(const_cast<Node*>(c), -1));
    if (g == Guards::kNever) return g;
    const Guards::Set& s = guards_.set(g);
    if (f > 0) in_body |= guards_.Has(g, frame(f).go);
    if (first) common = s;
    Guards::Set both;
    std::set_intersection(common.begin(), common.end(), s.begin(), s.end(),
                          std::back_inserter(both));
    common = std::move(both);
    first = false;
  }
  const int guard = guards_.Intern(std::move(common));
  return in_body ? guards_.With(guard, frame(f).go) : guard;
}

void RegionStructure::Guard(int f) {
  RegionFrame& frame = mutable_frame(f);
  for (int at : frame.order) {
    RegionUnit& u = frame.units[static_cast<size_t>(at)];
    int guard = 0;
    auto meet = [&](const Node& n) {
      for (const Output& in : n.inputs())
        guard = guards_.Union(guard, GuardOf(f, in));
      for (const Node* c : n.control_inputs())
        guard =
            guards_.Union(guard, GuardOf(f, Output(const_cast<Node*>(c), -1)));
    };
    if (u.child >= 0) {
      for (const Node* e : this->frame(u.child).enters) meet(*e);
    } else if (u.node->op().role == OpRole::kMerge) {
      guard = GuardOfMerge(f, &u);
    } else if (u.node->op_name() == "ControlTrigger") {
      guard = GuardOfTrigger(f, *u.node);
    } else {
      meet(*u.node);
    }
    if (guard == Guards::kNever) {  // Never alive: ignored.
      frame.well_formed = false;
      return;
    }
    u.guard = guard;
  }
}

// ---- What may be a region ---------------------------------------------------

bool RegionStructure::IsWhole(int f) {
  const RegionFrame& loop = frame(f);
  const Guards::Literal stop = {loop.go.predicate, false};
  auto is = [&](int guard, Guards::Literal l) {
    return guard == guards_.Intern({l});
  };
  for (const RegionUnit& u : loop.units) {
    if (u.kind == RegionUnit::kSlow) return false;
    if (u.kind == RegionUnit::kChild && !frame(u.child).whole) return false;
    if (u.node == nullptr) continue;
    switch (u.node->op().role) {
      case OpRole::kExit:
        if (!is(u.guard, stop)) return false;
        break;
      case OpRole::kNextIteration:
        if (!is(u.guard, loop.go)) return false;
        break;
      case OpRole::kLoopCond:
        if (u.guard != 0) return false;
        break;
      case OpRole::kMerge:
        if (u.predicate == loop.go.predicate) return false;
        break;
      default:
        break;
    }
  }
  return true;
}

// True if a path through the unit, which is in no region, leads from nodes
// under one guard to nodes under the same guard: a ControlTrigger, or a Switch
// of a value that is already under its predicate.
bool RegionStructure::IsDetour(const RegionUnit& u) {
  if (u.node == nullptr) return false;
  if (u.node->op_name() == "ControlTrigger") return true;
  if (u.node->op().role != OpRole::kSwitch) return false;
  const int p = PredicateOf(ResolveAlias(u.node->input(1)));
  return guards_.Has(u.guard, {p, false}) || guards_.Has(u.guard, {p, true});
}

void RegionStructure::FindSlow(int f) {
  RegionFrame& frame = mutable_frame(f);
  for (int at : frame.order) {
    RegionUnit& u = frame.units[static_cast<size_t>(at)];
    for (int d : u.deps) {
      const RegionUnit& from = frame.units[static_cast<size_t>(d)];
      const bool barrier = from.kind == RegionUnit::kSlow ||
                           from.kind == RegionUnit::kChild ||
                           from.kind == RegionUnit::kMerge || IsDetour(from);
      std::vector<int> both;
      const std::vector<int> itself = {d};
      const std::vector<int>& more = barrier ? itself : from.slow;
      std::set_union(u.slow.begin(), u.slow.end(), more.begin(), more.end(),
                     std::back_inserter(both));
      u.slow = std::move(both);
      if (u.slow.size() > kManySlow) {
        u.kind = RegionUnit::kSlow;
        break;
      }
    }
  }
}

}  // namespace sluice
