#include "exec/fusion/region_structure.h"

#include <algorithm>
#include <iterator>

#include "graph/graph.h"

namespace sluice {
namespace {

// A node that waits for more slow units than this is left to the executor, so
// that sets stay small.
constexpr size_t kManySlow = 32;
// A kernel that may take long is cheap on fewer elements than this in all.
constexpr int64_t kFewElements = 2048;

int64_t ParallelIterations(const Node& enter) {
  return enter.IntAttr("parallel_iterations");
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

// ---- Units ------------------------------------------------------------------

RegionStructure::RegionStructure(const Graph& graph,
                                 const std::vector<Node*>& order, Frames frames)
    : frames_(std::move(frames)),
      liveness_(Liveness::Of(graph, order, frames_)),
      unit_of_(order.size(), -1),
      region_frames_(frames_.all().size()) {}

Result<std::unique_ptr<RegionStructure>> RegionStructure::Analyse(
    const Graph& graph, const KernelSource& kernels,
    const std::set<const Node*>& keep, const std::set<const Node*>& held) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                          TopologicalOrder(graph));
  SLUICE_ASSIGN_OR_RETURN(Frames frames, Frames::Of(graph, order));
  SLUICE_RETURN_IF_ERROR(frames.CheckBackEdges(order));
  std::unique_ptr<RegionStructure> s(
      new RegionStructure(graph, order, std::move(frames)));
  s->kernels_ = &kernels;
  s->keep_ = &keep;
  s->held_ = &held;
  for (int f = 0; f < s->num_frames(); ++f) s->MakeUnits(f);
  // Children have higher numbers than their parents.
  for (int f = s->num_frames() - 1; f >= 0; --f) {
    RegionFrame& frame = s->mutable_frame(f);
    const bool is_loop = s->frames_[f].is_loop();
    frame.well_formed =
        s->Order(f) && (!is_loop || s->FindLoop(f)) && s->FindGuards(f);
    if (!frame.well_formed) continue;
    frame.whole = is_loop && s->IsWhole(f) && s->FindParts(f);
    s->FindSlow(f);
  }
  s->kernels_ = nullptr;
  s->keep_ = nullptr;
  s->held_ = nullptr;
  return s;
}

void RegionStructure::MakeUnits(int f) {
  RegionFrame& frame = mutable_frame(f);
  std::map<int, int> children;  // Frame -> unit.
  const std::vector<const Node*>& nodes = frames_[f].nodes;
  for (const Node* n : nodes) {
    if (n->op().role == OpRole::kEnter) {
      const int child = frames_.output_frame(n);
      auto [it, fresh] =
          children.try_emplace(child, static_cast<int>(frame.units.size()));
      if (fresh) {
        RegionUnit u;
        u.child = child;
        u.kind = RegionUnit::kChild;
        frame.units.push_back(std::move(u));
      }
      unit_of_[Id(n)] = it->second;
      continue;
    }
    unit_of_[Id(n)] = static_cast<int>(frame.units.size());
    RegionUnit u;
    u.node = n;
    u.kind = Classify(f, &u);
    frame.units.push_back(std::move(u));
  }
  for (const Node* n : nodes) {
    for (const Output& in : n->inputs()) Depend(f, *n, in.node);
    for (const Node* c : n->control_inputs()) Depend(f, *n, c);
  }
  for (RegionUnit& u : frame.units) {
    std::sort(u.deps.begin(), u.deps.end());
    u.deps.erase(std::unique(u.deps.begin(), u.deps.end()), u.deps.end());
  }
}

RegionUnit::Kind RegionStructure::Classify(int f, RegionUnit* u) {
  const Node& n = *u->node;
  if (keep_->count(&n) > 0) return RegionUnit::kSlow;
  const bool in_loop = frames_[f].is_loop();
  switch (n.op().role) {
    case OpRole::kConst:
    case OpRole::kNoOp:
      return RegionUnit::kFree;
    case OpRole::kLoopCond:  // (A path through it is one that nobody sees.)
      return !in_loop && !IsAlias(n) ? RegionUnit::kSlow : RegionUnit::kFree;
    case OpRole::kSwitch:
    case OpRole::kIdentity:
      return HasReference(n) ? RegionUnit::kSlow : RegionUnit::kFree;
    case OpRole::kExit:
    case OpRole::kNextIteration:
      return HasReference(n) ? RegionUnit::kSlow : RegionUnit::kFree;
    case OpRole::kMerge:
      return n.num_inputs() == 2 && !HasReference(n) ? RegionUnit::kMerge
                                                     : RegionUnit::kSlow;
    case OpRole::kArg:
      return RegionUnit::kFree;
    case OpRole::kCompute:
      return ClassifyKernel(f, u);
    default:
      return RegionUnit::kSlow;
  }
}

RegionUnit::Kind RegionStructure::ClassifyKernel(int f, RegionUnit* u) {
  const Node& n = *u->node;
  if (HasReference(n) || !n.op().kernel) return RegionUnit::kSlow;
  if (ChangesVariants(n) && !frames_[f].is_function()) return RegionUnit::kSlow;
  Result<std::shared_ptr<Kernel>> made = (*kernels_)(n);
  if (!made.ok() || *made == nullptr || (*made)->run == nullptr)
    return RegionUnit::kSlow;
  u->is_held = held_->count(&n) > 0;
  if ((*made)->expensive && !u->is_held && !IsSmall(n))
    return RegionUnit::kSlow;
  u->kernel = *std::move(made);
  return RegionUnit::kCheap;
}

// The unit of frame f that provides the outputs of `from`; -1: none does.
int RegionStructure::UnitSeen(int f, const Node* from) const {
  if (IsFloatingConstant(*from)) return -1;
  const int at = frames_.frame_of(from);
  if (at == f) return unit_of(from);
  if (from->op().role != OpRole::kExit) return -1;  // An Enter into f.
  return unit_of(frames_[at].first);
}

void RegionStructure::Depend(int f, const Node& n, const Node* from) {
  if (IsBackEdge(*from, n)) return;
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

// Finds the variables and the condition. False if they are not those of an
// ordinary loop.
bool RegionStructure::FindLoop(int f) {
  RegionFrame& loop = mutable_frame(f);
  const GraphFrame& frame = frames_[f];
  const Node* const condition = frame.loop_cond();
  if (condition == nullptr || !condition->control_inputs().empty())
    return false;
  // (A constant may be dead, or one variable end before the others: then units
  // of one guard do not live together.)
  if (!liveness_.is_regular(f)) return false;
  std::set<const Node*> inits;
  for (const Node* n : frame.nodes) {
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
        !n->control_inputs().empty())
      return false;
    loop.variables.push_back({n, enter, next});
    inits.insert(enter);
  }
  if (loop.variables.empty()) return false;
  const int64_t parallel = frame.parallel_iterations;
  for (const Node* e : frame.enters) {
    if (!IsConstantEnter(*e) && inits.count(e) == 0) return false;
    // (The number makes no difference here, but Plan::Build refuses these.)
    if (parallel < 1 || ParallelIterations(*e) != parallel) return false;
  }
  for (const Node* n : frame.nodes) {
    // Reads what is live in the first iteration only, or waits for it.
    for (const Output& in : n->inputs())
      if (inits.count(in.node) > 0 && n->op().role != OpRole::kMerge)
        return false;
    for (const Node* c : n->control_inputs())
      if (c->op().role == OpRole::kNextIteration ||
          (c->op().role == OpRole::kEnter && !IsConstantEnter(*c)))
        return false;
  }
  loop.condition = condition->input(0);
  loop.go =
      liveness_.PredicateLiteral(Output(const_cast<Node*>(condition)), true);
  return true;
}

// ---- Guards of units --------------------------------------------------------

// A loop that enters its parent's frame is live under the condition of all its
// Enters. False if a unit is never live.
bool RegionStructure::FindGuards(int f) {
  for (RegionUnit& u : mutable_frame(f).units) {
    int guard = Conditions::kAlways;
    if (u.child >= 0) {
      for (const Node* e : frames_[u.child].enters)
        guard = conditions().And(guard, liveness_.input_condition(e));
    } else {
      guard = liveness_.input_condition(u.node);
    }
    if (conditions().IsContradiction(guard)) return false;
    u.guard = liveness_.Within(f, guard);
    if (u.kind == RegionUnit::kMerge) FindChoice(f, &u);
  }
  return true;
}

// The predicate by which the Merge of a conditional chooses; the unit is slow
// if it cannot be told.
void RegionStructure::FindChoice(int f, RegionUnit* merge) {
  const Node& n = *merge->node;
  for (const Output& in : n.inputs())
    if (IsBackEdge(*in.node, n)) return;  // Of a loop variable.
  const auto guard = [&](int i) {
    return liveness_.Within(f, liveness_.condition(n.input(i)));
  };
  const auto [literal, common] = conditions().Complement(guard(0), guard(1));
  if (common < 0 || !predicate(literal).valid()) {
    merge->kind = RegionUnit::kSlow;
    return;
  }
  merge->predicate = predicate(literal);
  merge->when_true = (literal & 1) != 0 ? 0 : 1;
}

// ---- What may be a region ---------------------------------------------------

bool RegionStructure::IsWhole(int f) {
  const RegionFrame& loop = frame(f);
  const Output go = predicate(loop.go);
  const auto is = [&](int guard, Literal l) {
    return guard == conditions().One(l);
  };
  for (const RegionUnit& u : loop.units) {
    if (u.kind == RegionUnit::kSlow || u.is_held) return false;
    for (const Literal l : conditions().set(u.guard))
      if (!predicate(l).valid()) return false;
    if (u.kind == RegionUnit::kChild && !frame(u.child).whole) return false;
    if (u.node == nullptr) continue;
    switch (u.node->op().role) {
      case OpRole::kExit:
        if (!is(u.guard, Opposite(loop.go))) return false;
        break;
      case OpRole::kNextIteration:
        if (!is(u.guard, loop.go)) return false;
        break;
      case OpRole::kLoopCond:
        if (u.guard != 0) return false;
        break;
      case OpRole::kMerge:
        if (u.predicate.SameAs(go)) return false;
        break;
      default:
        break;
    }
  }
  return true;
}

// A unit runs in the part that its guard says. A ControlTrigger, and the Merge
// of a conditional with control inputs, fire in every iteration, so that their
// guards say less than what they wait for: one without code is moved behind
// that. False if a unit with code, which would run in each iteration, waits for
// one that does not.
bool RegionStructure::FindParts(int f) {
  RegionFrame& loop = mutable_frame(f);
  loop.parts.assign(loop.units.size(), RegionPart::kHead);
  for (const int at : loop.order) {
    const RegionUnit& u = loop.units[static_cast<size_t>(at)];
    RegionPart& part = loop.parts[static_cast<size_t>(at)];
    if (conditions().Has(u.guard, loop.go)) {
      part = RegionPart::kBody;
      continue;
    }
    if (conditions().Has(u.guard, Opposite(loop.go))) {
      part = RegionPart::kTail;
      continue;
    }
    for (const int d : u.deps) {
      const RegionPart before = loop.parts[static_cast<size_t>(d)];
      if (before == RegionPart::kHead || before == part) continue;
      if (part != RegionPart::kHead || u.kind != RegionUnit::kFree)
        return false;
      part = before;
    }
  }
  return true;
}

// True if a path through the unit, which is in no region, leads from nodes
// under one guard to nodes under the same guard: a ControlTrigger, or a Switch
// of a value that is already under its predicate.
bool RegionStructure::IsDetour(const RegionUnit& u) {
  if (u.node == nullptr) return false;
  if (u.node->kind() == OpKind::kControlTrigger) return true;
  if (u.node->op().role != OpRole::kSwitch) return false;
  const Literal l = liveness_.PredicateLiteral(u.node->input(1), true);
  return conditions().Has(u.guard, l) || conditions().Has(u.guard, Opposite(l));
}

void RegionStructure::FindSlow(int f) {
  RegionFrame& frame = mutable_frame(f);
  // By slow unit: the slow ones that it waits for, and those before them.
  std::vector<std::vector<int>> before(frame.units.size());
  const auto add = [](std::vector<int>* to, const std::vector<int>& more) {
    std::vector<int> both;
    std::set_union(to->begin(), to->end(), more.begin(), more.end(),
                   std::back_inserter(both));
    *to = std::move(both);
  };
  for (int at : frame.order) {
    RegionUnit& u = frame.units[static_cast<size_t>(at)];
    u.after_held = u.is_held;
    bool too_many = false;
    for (int d : u.deps) {
      const RegionUnit& from = frame.units[static_cast<size_t>(d)];
      const bool barrier = from.kind == RegionUnit::kSlow ||
                           from.kind == RegionUnit::kChild ||
                           from.kind == RegionUnit::kMerge || IsDetour(from);
      u.after_held = u.after_held || (!barrier && from.after_held);
      add(&u.slow, barrier ? std::vector<int>{d} : from.slow);
      too_many = u.slow.size() > kManySlow;
      if (too_many) break;
    }
    if (too_many) {
      u.kind = RegionUnit::kSlow;
      continue;
    }
    // Who waits for one waits for those before it.
    std::vector<int> implied;
    for (const int s : u.slow) add(&implied, before[static_cast<size_t>(s)]);
    std::erase_if(u.slow, [&](int s) {
      return std::binary_search(implied.begin(), implied.end(), s);
    });
    // (A Merge does not wait for all its inputs, nor does an Exit for all
    // values that enter its loop.)
    if (u.kind != RegionUnit::kSlow || u.node->op().role == OpRole::kMerge)
      continue;
    add(&implied, u.slow);
    if (implied.size() <= kManySlow)
      before[static_cast<size_t>(at)] = std::move(implied);
  }
}

}  // namespace sluice
