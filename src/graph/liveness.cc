#include "graph/liveness.h"

#include <algorithm>
#include <iterator>

#include "graph/graph.h"

namespace sluice {
namespace {

// A larger set is replaced by one opaque literal: sets are copied and compared.
constexpr size_t kMaxLiterals = 256;
constexpr size_t kMaxMergeInputs = 16;

// Fires when all its inputs have come, live or dead.
bool IsNeverDead(const Node& n) { return n.kind() == OpKind::kControlTrigger; }

}  // namespace

// ---- Conditions -------------------------------------------------------------

int Conditions::Intern(Set s) {
  const auto [it, fresh] =
      ids_.try_emplace(std::move(s), static_cast<int>(sets_.size()));
  if (fresh) sets_.push_back(&it->first);
  return it->second;
}

bool Conditions::Has(int id, Literal literal) const {
  return std::binary_search(set(id).begin(), set(id).end(), literal);
}

bool Conditions::IsContradiction(int id) const {
  return std::adjacent_find(set(id).begin(), set(id).end(),
                            [](Literal a, Literal b) {
                              return a == Opposite(b);
                            }) != set(id).end();
}

int Conditions::And(int a, int b) {
  if (a == b || b == kAlways) return a;
  if (a == kAlways) return b;
  if (a > b) std::swap(a, b);
  if (const auto it = ands_.find({a, b}); it != ands_.end()) return it->second;
  Set all;
  std::set_union(set(a).begin(), set(a).end(), set(b).begin(), set(b).end(),
                 std::back_inserter(all));
  const int id = Intern(std::move(all));
  ands_.emplace(std::pair(a, b), id);
  return id;
}

std::pair<Literal, int> Conditions::Complement(int a, int b) {
  const std::pair<Literal, int> none = {0, -1};
  const Set &x = set(a), &y = set(b);
  if (x.size() != y.size()) return none;
  Literal differs = 0;
  bool found = false;
  Set common;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) {
      common.push_back(x[i]);
    } else if (found || x[i] != Opposite(y[i])) {
      return none;
    } else {
      differs = x[i];
      found = true;
    }
  }
  if (!found) return none;
  return {differs, Intern(std::move(common))};
}

int Conditions::Or(std::vector<int> conditions) {
  const auto join = [this](int a, int b) {
    const Set &x = set(a), &y = set(b);
    if (std::includes(x.begin(), x.end(), y.begin(), y.end())) return b;
    if (std::includes(y.begin(), y.end(), x.begin(), x.end())) return a;
    return Complement(a, b).second;
  };
  for (bool joined = true; joined && conditions.size() > 1;) {
    joined = false;
    for (size_t i = 0; i < conditions.size() && !joined; ++i)
      for (size_t k = i + 1; k < conditions.size() && !joined; ++k)
        if (const int both = join(conditions[i], conditions[k]); both >= 0) {
          conditions[i] = both;
          conditions.erase(conditions.begin() + static_cast<std::ptrdiff_t>(k));
          joined = true;
        }
  }
  return conditions.size() == 1 ? conditions[0] : -1;
}

// ---- Literals ---------------------------------------------------------------

Literal Liveness::MakeLiteral(Kind kind, int64_t a, int64_t b) {
  const auto [it, fresh] = literals_.try_emplace(
      {kind, a, b}, 2 * static_cast<Literal>(literals_.size()));
  if (fresh) predicates_.emplace_back();
  return it->second;
}

Literal Liveness::PredicateLiteral(Output predicate, bool value) {
  predicate = ResolveAlias(predicate);
  const Literal literal =
      MakeLiteral(Kind::kPredicate, predicate.node->id(), predicate.index);
  predicates_[literal / 2] = predicate;
  return literal | (value ? 1u : 0u);
}

Output Liveness::predicate(Literal literal) const {
  return predicates_[literal / 2];
}

int Liveness::Opaque(const Node& n) {
  return conditions_.One(MakeLiteral(Kind::kOpaque, n.id(), 0));
}

int Liveness::Begun(int f, int outside, bool constant) {
  if (outside == Conditions::kAlways) return outside;
  // In a regular loop a constant and a variable that enter under one condition
  // live in all iterations alike.
  const bool apart = irregular_[Index(f)] != 0 && constant;
  const Literal literal =
      MakeLiteral(apart ? Kind::kBegunConstant : Kind::kBegun, f, outside);
  begun_.try_emplace(literal, f, outside);
  return conditions_.One(literal);
}

int Liveness::Outside(int f, int condition, int64_t besides) {
  int outside = Conditions::kAlways;
  for (const Literal l : conditions_.set(condition)) {
    if (static_cast<int64_t>(l) == besides) continue;
    const auto it = begun_.find(l);
    if (it == begun_.end() || it->second.first != f) return -1;
    outside = conditions_.And(outside, it->second.second);
  }
  return outside;
}

int Liveness::Within(int f, int condition) {
  Conditions::Set left = conditions_.set(condition);
  std::erase_if(left, [&](Literal l) {
    const auto it = begun_.find(l);
    return it != begun_.end() && it->second.first == f;
  });
  return conditions_.Intern(std::move(left));
}

// ---- The analysis -----------------------------------------------------------

Liveness::Liveness(const Graph& graph, const Frames& frames)
    : frames_(frames),
      info_(graph.nodes().size()),
      irregular_(frames.all().size(), 0),
      begins_once_(frames.all().size(), 0),
      going_on_(frames.all().size(), -1) {}

Liveness Liveness::Of(const Graph& graph, const std::vector<Node*>& order,
                      const Frames& frames) {
  Liveness liveness(graph, frames);
  for (const Node* n : order) liveness.FindOnce(*n);
  liveness.FindConditions(order);
  return liveness;
}

int Liveness::condition(const Node* n, int index) const {
  if (n->op().role != OpRole::kSwitch) return info(n).ports[0];
  return index < 0 ? info(n).inputs : info(n).ports[index == 0 ? 0 : 1];
}

// A value that enters a loop is there in iteration 0 alone, and so is all that
// waits for it, up to the Merge where the loop's later values come in.
void Liveness::FindOnce(const Node& n) {
  bool once = false;
  for (const Output& in : n.inputs()) {
    if (IsBackEdge(*in.node, n)) return;
    once |= info(in.node).once;
  }
  for (const Node* c : n.control_inputs()) once |= info(c).once;
  Info& me = info(&n);
  if (n.op().role == OpRole::kEnter) {
    if (once) begins_once_[Index(frames_.output_frame(&n))] = 1;
    me.once = !IsConstantEnter(n);
  } else if (n.op().role == OpRole::kExit) {
    me.once = begins_once(frames_.frame_of(&n));
  } else {
    me.once = once;
  }
}

int Liveness::MergeCondition(const Node& n) {
  std::vector<int> live;
  bool loops = false;
  const Node* entry = nullptr;
  for (const Output& in : n.inputs()) {
    if (IsBackEdge(*in.node, n)) {
      loops = true;
      continue;
    }
    entry = in.node;
    live.push_back(condition(in));
  }
  // The Merge of a loop variable is live in iteration 0 if its entry is; later
  // it fires live or not at all.
  if (loops) return live.size() == 1 && info(entry).once ? live[0] : Opaque(n);
  if (live.empty() || live.size() > kMaxMergeInputs) return Opaque(n);
  const int joined = conditions_.Or(std::move(live));
  return joined >= 0 ? joined : Opaque(n);
}

// A regular loop that begins gives all its results.
int Liveness::ExitCondition(const Node& n) {
  const int f = frames_.frame_of(&n);
  const Node* const cond = frames_[f].loop_cond();
  if (irregular_[Index(f)] != 0 || cond == nullptr) return Opaque(n);
  const Literal done = PredicateLiteral(Output(const_cast<Node*>(cond)), false);
  if (!conditions_.Has(info(&n).inputs, done)) return Opaque(n);
  const int outside = Outside(f, info(&n).inputs, done);
  return outside >= 0 ? outside : Opaque(n);
}

// (A dead control input does not make a Merge dead.)
void Liveness::FindCondition(const Node& n) {
  Info& me = info(&n);
  int all = Conditions::kAlways;
  const auto meet = [&](int condition) {
    if (all >= 0) all = conditions_.And(all, condition);
    if (all >= 0 && conditions_.set(all).size() > kMaxLiterals) all = -1;
  };
  if (n.op().role != OpRole::kMerge) {
    for (const Output& in : n.inputs()) meet(condition(in));
    if (!IsNeverDead(n))
      for (const Node* c : n.control_inputs()) meet(condition(c, -1));
  }
  if (all < 0) all = Opaque(n);
  me.inputs = me.ports[0] = me.ports[1] = all;
  switch (n.op().role) {
    case OpRole::kSwitch:
      for (int port = 0; port < 2; ++port)
        me.ports[port] = conditions_.And(
            all, conditions_.One(PredicateLiteral(n.input(1), port == 1)));
      break;
    case OpRole::kMerge:
      me.inputs = me.ports[0] = MergeCondition(n);
      break;
    case OpRole::kEnter:
      me.ports[0] = Begun(frames_.output_frame(&n), all, IsConstantEnter(n));
      break;
    case OpRole::kExit:
      me.ports[0] = ExitCondition(n);
      break;
    case OpRole::kCall:
      if (irregular_[Index(frames_.function_frame(FunctionOf(n)))] != 0)
        me.ports[0] = conditions_.And(all, Opaque(n));
      break;
    default:
      break;
  }
  if (n.op().role != OpRole::kSwitch) me.ports[1] = me.ports[0];
}

// A loop is regular if all its variables live until its predicate is false; a
// function, if every call gives all results.
bool Liveness::IsRegular(int f) {
  const GraphFrame& me = frames_[f];
  if (me.is_function())
    return std::all_of(me.returns.begin(), me.returns.end(),
                       [this](const Node* r) {
                         return info(r).inputs == Conditions::kAlways;
                       });
  if (!me.is_loop()) return true;
  if (me.loop_cond() == nullptr) return false;
  const Output pred(const_cast<Node*>(me.loop_cond()));
  const Literal more = PredicateLiteral(pred, true);
  const int begun = Outside(f, condition(pred), -1);
  if (begun < 0) return false;
  const auto within = [&](int outside) {
    return conditions_.And(begun, outside) == begun;
  };
  for (const Node* e : me.enters)
    if (!within(info(e).inputs)) return false;
  for (const Node* n : me.next_iterations) {
    const int outside = Outside(f, info(n).inputs, more);
    if (!conditions_.Has(info(n).inputs, more) || outside < 0 ||
        !within(outside))
      return false;
  }
  return true;
}

// All frames are taken to be regular first. Where that turns out to be wrong,
// all conditions are found again without the assumption.
void Liveness::FindConditions(const std::vector<Node*>& order) {
  constexpr int kMaxRounds = 4;
  for (int round = 0;; ++round) {
    for (const Node* n : order) FindCondition(*n);
    bool again = false;
    for (int f = 0; f < frames_.size(); ++f)
      if (irregular_[Index(f)] == 0 && !IsRegular(f)) {
        irregular_[Index(f)] = 1;
        again = true;
      }
    if (!again) break;
    if (round == kMaxRounds) irregular_.assign(irregular_.size(), 1);
  }
  for (int f = 0; f < frames_.size(); ++f)
    if (const Node* cond = frames_[f].loop_cond()) {
      const Output pred(const_cast<Node*>(cond));
      going_on_[Index(f)] = conditions_.And(
          condition(pred), conditions_.One(PredicateLiteral(pred, true)));
    }
}

}  // namespace sluice
