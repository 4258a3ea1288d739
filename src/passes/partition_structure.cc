#include "passes/partition_structure.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sluice {
namespace {

// Kinds of literals (Conditions::Literal).
enum : int { kPredicate, kOpaque, kBegun, kBegunConstant };
// Larger sets are too expensive: they become opaque.
constexpr size_t kMostLiterals = 48;
constexpr int kMostMergeInputs = 16;

}  // namespace

bool IsLoopEnter(const Node& n) {
  return n.op().role == OpRole::kEnter && !IsRef(n.output_type(0));
}
bool IsConstEnter(const Node& n) {
  return n.op().role == OpRole::kEnter && n.BoolAttr("is_constant");
}
bool IsBackEdge(const Node& from, const Node& to) {
  return from.op().role == OpRole::kNextIteration &&
         to.op().role == OpRole::kMerge;
}
bool IsAnywhere(const Node& n) {
  return n.op().role == OpRole::kConst && n.control_inputs().empty();
}
bool IsPassThrough(const Node& n) {
  return (n.op().role == OpRole::kIdentity ||
          n.op().role == OpRole::kLoopCond) &&
         n.control_inputs().empty() && n.num_inputs() == 1 &&
         IsRef(n.input(0).dtype()) == IsRef(n.output_type(0));
}
Output StripPassThrough(Output o) {
  while (IsPassThrough(*o.node)) o = o.node->input(0);
  return o;
}
std::string FunctionOf(const Node& n) {
  switch (n.op().role) {
    case OpRole::kArg:
    case OpRole::kRetval:
    case OpRole::kCall:
      return n.AttrOr<std::string>("function", "");
    default:
      return n.op_name() == "_Function" ? n.AttrOr<std::string>("function", "")
                                        : "";
  }
}

// ---- Conditions -------------------------------------------------------------

int Conditions::Intern(Set s) {
  const auto [it, fresh] =
      ids_.try_emplace(std::move(s), static_cast<int>(sets_.size()));
  if (fresh) sets_.push_back(&it->first);
  return it->second;
}

uint32_t Conditions::Literal(int kind, int64_t a, int64_t b) {
  return literals_
      .try_emplace({kind, a, b}, 2 * static_cast<uint32_t>(literals_.size()))
      .first->second;
}

bool Conditions::Has(int id, uint32_t literal) const {
  return std::binary_search(set(id).begin(), set(id).end(), literal);
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

int Conditions::Or(std::vector<int> sets) {
  // A or (A and B) is A; (A and p) or (A and not p) is A, since A says that p
  // is live.
  const auto join = [this](int a, int b) {
    const Set &x = set(a), &y = set(b);
    if (std::includes(x.begin(), x.end(), y.begin(), y.end())) return b;
    if (std::includes(y.begin(), y.end(), x.begin(), x.end())) return a;
    if (x.size() != y.size()) return -1;
    Set common, only_x, only_y;
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(),
                          std::back_inserter(common));
    if (common.size() + 1 != x.size()) return -1;
    std::set_difference(x.begin(), x.end(), common.begin(), common.end(),
                        std::back_inserter(only_x));
    std::set_difference(y.begin(), y.end(), common.begin(), common.end(),
                        std::back_inserter(only_y));
    return (only_x[0] ^ 1) == only_y[0] ? Intern(std::move(common)) : -1;
  };
  for (bool joined = true; joined && sets.size() > 1;) {
    joined = false;
    for (size_t i = 0; i < sets.size() && !joined; ++i)
      for (size_t k = i + 1; k < sets.size() && !joined; ++k)
        if (const int both = join(sets[i], sets[k]); both >= 0) {
          sets[i] = both;
          sets.erase(sets.begin() + static_cast<std::ptrdiff_t>(k));
          joined = true;
        }
  }
  return sets.size() == 1 ? sets[0] : -1;
}

// ---- Frames -----------------------------------------------------------------

Result<CutStructure> CutStructure::Of(const Graph& graph,
                                      const std::vector<Node*>& order) {
  CutStructure s(graph);
  s.frames_.emplace_back();
  for (const Node* n : order) SLUICE_RETURN_IF_ERROR(s.AssignFrame(*n));
  for (const Node* n : order) s.FindOnce(*n);
  s.FindConditions(order);
  return s;
}

int CutStructure::function_frame(const std::string& name) const {
  const auto it = frame_ids_.find({-1, name});
  return it == frame_ids_.end() ? -1 : it->second;
}

int CutStructure::FunctionFrame(const Node& n) {
  const auto [it, fresh] = frame_ids_.try_emplace(
      {-1, FunctionOf(n)}, static_cast<int>(frames_.size()));
  if (fresh) {
    CutFrame f;
    f.name = it->first.second;
    f.is_function = true;
    f.first = &n;
    frames_.push_back(std::move(f));
  }
  return it->second;
}

Result<int> CutStructure::LoopFrame(const Node& enter, int parent) {
  SLUICE_ASSIGN_OR_RETURN(std::string name,
                          enter.Attr<std::string>("frame_name"));
  const auto [it, fresh] = frame_ids_.try_emplace(
      {parent, std::move(name)}, static_cast<int>(frames_.size()));
  if (fresh) {
    CutFrame f;
    f.name = it->first.second;
    f.parent = parent;
    f.parallel_iterations = enter.IntAttr("parallel_iterations");
    f.first = &enter;
    frames_.push_back(std::move(f));
  }
  frames_[static_cast<size_t>(it->second)].enters.push_back(&enter);
  return it->second;
}

// The rules of Plan::Build.
Status CutStructure::AssignFrame(const Node& n) {
  const std::string function = FunctionOf(n);
  const bool begins =
      !function.empty() && n.num_inputs() == 0 && n.op().role != OpRole::kCall;
  int f = begins ? FunctionFrame(n) : 0;
  const Node* first = begins ? &n : nullptr;
  const auto meet = [&](const Node* from) {
    if (from == nullptr || IsAnywhere(*from) || IsBackEdge(*from, n))
      return OkStatus();
    if (first == nullptr) {
      first = from;
      f = output_frame(from);
    } else if (output_frame(from) != f) {
      return InvalidArgument(
          "frames: expected all inputs from one frame, got '", first->name(),
          "' in '", frame(f).name, "' and '", from->name(), "' in '",
          frame(output_frame(from)).name, "'; ", n.Describe());
    }
    return OkStatus();
  };
  for (const Output& in : n.inputs()) SLUICE_RETURN_IF_ERROR(meet(in.node));
  for (const Node* c : n.control_inputs()) SLUICE_RETURN_IF_ERROR(meet(c));
  info(&n).frame = info(&n).output_frame = f;
  CutFrame& home = frames_[static_cast<size_t>(f)];
  switch (n.op().role) {
    case OpRole::kEnter: {
      SLUICE_ASSIGN_OR_RETURN(info(&n).output_frame, LoopFrame(n, f));
      break;
    }
    case OpRole::kExit:
    case OpRole::kNextIteration:
      if (home.parent < 0)
        return InvalidArgument(n.op_name(),
                               ": expected to be inside a loop, got the root; ",
                               n.Describe());
      if (n.op().role == OpRole::kExit) {
        info(&n).output_frame = home.parent;
      } else {
        home.repeats = true;
        home.next_iterations.push_back(&n);
      }
      break;
    case OpRole::kLoopCond:
      home.has_one_cond = home.loop_cond == nullptr;
      home.loop_cond = &n;
      break;
    case OpRole::kRetval:
      if (!function.empty()) home.returns.push_back(&n);
      break;
    case OpRole::kCall:
      FunctionFrame(n);
      break;
    default:
      break;
  }
  return OkStatus();
}

// A value that enters a loop is available only in iteration 0, and so are all
// nodes that wait for it, up to the Merge where the back edge arrives.
void CutStructure::FindOnce(const Node& n) {
  bool once = false;
  for (const Output& in : n.inputs()) {
    if (in.valid() && IsBackEdge(*in.node, n)) return;
    once |= in.valid() && info(in.node).once;
  }
  for (const Node* c : n.control_inputs()) once |= info(c).once;
  Info& me = info(&n);
  if (n.op().role == OpRole::kEnter) {
    if (once) frames_[static_cast<size_t>(me.output_frame)].begins_once = true;
    me.once = !IsConstEnter(n);
  } else if (n.op().role == OpRole::kExit) {
    me.once = frame(me.frame).begins_once;
  } else {
    me.once = once;
  }
}

// ---- Conditions of tokens ---------------------------------------------------

int CutStructure::condition(const Node* n, int index) const {
  if (n->op().role != OpRole::kSwitch) return info(n).ports[0];
  return index < 0 ? info(n).inputs : info(n).ports[index == 0 ? 0 : 1];
}

int CutStructure::Opaque(const Node& n, int port) {
  return conditions_.One(conditions_.Literal(kOpaque, n.id(), port));
}

uint32_t CutStructure::PredicateLiteral(Output pred, bool value) {
  pred = StripPassThrough(pred);
  return conditions_.Literal(kPredicate, pred.node->id(), pred.index) |
         (value ? 1u : 0u);
}

int CutStructure::Begun(int f, int outside, bool constant) {
  if (outside == Conditions::kAlways) return outside;
  // In a regular loop both kinds are alive in all iterations, or there is only
  // one.
  const bool apart = irregular_[static_cast<size_t>(f)] != 0 && constant;
  const uint32_t literal =
      conditions_.Literal(apart ? kBegunConstant : kBegun, f, outside);
  begun_.try_emplace(literal, f, outside);
  return conditions_.One(literal);
}

int CutStructure::Outside(int f, int condition, int64_t besides) {
  int outside = Conditions::kAlways;
  for (const uint32_t l : conditions_.set(condition)) {
    if (static_cast<int64_t>(l) == besides) continue;
    const auto it = begun_.find(l);
    if (it == begun_.end() || it->second.first != f) return -1;
    outside = conditions_.And(outside, it->second.second);
  }
  return outside;
}

int CutStructure::MergeCondition(const Node& n) {
  std::vector<int> live;
  bool loops = false;
  const Node* entry = nullptr;
  for (const Output& in : n.inputs()) {
    if (!in.valid() || IsBackEdge(*in.node, n)) {
      loops = true;
      continue;
    }
    entry = in.node;
    live.push_back(condition(in));
  }
  // For a loop: alive in iteration 0 if its entry is; later it fires live or
  // not at all.
  if (loops) return live.size() == 1 && info(entry).once ? live[0] : Opaque(n);
  if (live.empty() || live.size() > kMostMergeInputs) return Opaque(n);
  const int joined = conditions_.Or(std::move(live));
  return joined >= 0 ? joined : Opaque(n);
}

// A loop that is entered produces all of its results when it is done.
int CutStructure::ExitCondition(const Node& n) {
  const int f = info(&n).frame;
  const CutFrame& loop = frame(f);
  if (irregular_[static_cast<size_t>(f)] != 0 || loop.loop_cond == nullptr)
    return Opaque(n);
  const uint32_t done =
      PredicateLiteral(Output(const_cast<Node*>(loop.loop_cond)), false);
  if (!conditions_.Has(info(&n).inputs, done)) return Opaque(n);
  const int outside = Outside(f, info(&n).inputs, done);
  return outside >= 0 ? outside : Opaque(n);
}

void CutStructure::FindCondition(const Node& n) {
  Info& me = info(&n);
  int all = Conditions::kAlways;
  if (n.op().role != OpRole::kMerge)
    for (const Output& in : n.inputs())
      all = conditions_.And(all, condition(in));
  if (n.op_name() != "ControlTrigger" && n.op().role != OpRole::kMerge)
    for (const Node* c : n.control_inputs())
      all = conditions_.And(all, condition(c, -1));
  if (conditions_.set(all).size() > kMostLiterals) all = Opaque(n);
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
      me.ports[0] = Begun(me.output_frame, all, IsConstEnter(n));
      break;
    case OpRole::kExit:
      me.ports[0] = ExitCondition(n);
      break;
    case OpRole::kCall: {
      const int callee = function_frame(FunctionOf(n));
      if (irregular_[static_cast<size_t>(callee)] != 0)
        me.ports[0] = conditions_.And(all, Opaque(n));
      break;
    }
    default:
      break;
  }
  if (n.op().role != OpRole::kSwitch) me.ports[1] = me.ports[0];
}

// A loop is regular if all loop variables are alive until the LoopCond is
// false; a function, if its calls get all results.
bool CutStructure::IsRegular(int f) {
  const CutFrame& me = frame(f);
  if (me.is_function)
    return std::all_of(me.returns.begin(), me.returns.end(),
                       [this](const Node* r) {
                         return info(r).inputs == Conditions::kAlways;
                       });
  if (me.parent < 0) return true;
  if (!me.has_one_cond) return false;
  const Output pred(const_cast<Node*>(me.loop_cond));
  const uint32_t more = PredicateLiteral(pred, true);
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

void CutStructure::FindConditions(const std::vector<Node*>& order) {
  // The assumptions about frames are verified afterwards; if one does not hold,
  // all conditions are recomputed without it.
  constexpr int kMostRounds = 4;
  irregular_.assign(frames_.size(), 0);
  for (int round = 0;; ++round) {
    for (const Node* n : order) FindCondition(*n);
    bool again = false;
    for (size_t f = 0; f < frames_.size(); ++f)
      if (irregular_[f] == 0 && !IsRegular(static_cast<int>(f))) {
        irregular_[f] = 1;
        again = true;
      }
    if (!again) break;
    if (round == kMostRounds) irregular_.assign(frames_.size(), 1);
  }
  going_on_.assign(frames_.size(), -1);
  for (size_t f = 0; f < frames_.size(); ++f)
    if (frames_[f].has_one_cond) {
      const Output pred(const_cast<Node*>(frames_[f].loop_cond));
      going_on_[f] = conditions_.And(
          condition(pred), conditions_.One(PredicateLiteral(pred, true)));
    }
}

}  // namespace sluice
