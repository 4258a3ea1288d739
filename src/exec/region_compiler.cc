#include "exec/region_compiler.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <unordered_map>

namespace sluice {
namespace {

constexpr size_t kRegisterBytes = 8;

bool FitsRegister(DType t) {
  t = RemoveRef(t);
  return IsPlain(t) && DTypeSize(t) <= kRegisterBytes;
}

// Compiles one region. Values are named by their roots: the output that gives
// them first, behind identities, switches, loop constants and exits, which are
// no instructions at all.
class Compiler {
 public:
  Compiler(RegionStructure& structure, const std::vector<Output>& outputs)
      : s_(structure),
        outputs_(outputs),
        p_(std::make_shared<RegionProgram>()) {}

  CompiledRegion Compile(int f, const std::vector<int>& units) {
    for (int u : units) Gather(f, u);
    FindScalars();
    FindWants();
    EmitUnits(f, units, s_.unit(f, units[0]).guard);
    Emit(RegionInstr::kEnd);
    FinishOutputs();
    if (failed_) return {};
    MarkLastReads();
    FinishClears();
    p_->ones.assign(p_->num_slots, 1);
    return {p_, std::move(inputs_)};
  }

 private:
  struct Value {
    bool scalar = false;  // Known to be one that fits a register.
    bool wants_register = false, wants_slot = false;
    int64_t reg = -1, slot = -1;
    int64_t constant = -1;  // In the program's table, for kernels.
  };

  // ---- What is in the region ------------------------------------------------

  void Gather(int f, int u) {
    const RegionUnit& unit = s_.unit(f, u);
    if (unit.child < 0) {
      inside_.emplace(unit.node, &unit);
      nodes_.push_back(unit.node);
      return;
    }
    const RegionFrame& loop = s_.frame(unit.child);
    conditions_.push_back(loop.condition);
    for (const Node* e : loop.enters) inside_.emplace(e, nullptr);
    for (int child : loop.order) Gather(unit.child, child);
    for (const RegionLoopVariable& v : loop.variables) next_of_[v.merge] = &v;
  }

  bool IsInside(const Node* n) const { return inside_.count(n) > 0; }

  // Where a value comes from.
  Output Root(Output o) const {
    for (;;) {
      const OpRole role = o.node->op().role;
      const bool passes =
          IsAlias(*o.node) ||
          (IsInside(o.node) &&
           (role == OpRole::kIdentity || role == OpRole::kSwitch ||
            role == OpRole::kEnter || role == OpRole::kExit));
      if (!passes) return o;
      o = o.node->input(0);
    }
  }

  Value& value(Output root) { return values_[root]; }

  bool IsScalarCall(const Node& n) {
    auto it = inside_.find(&n);
    if (it == inside_.end() || it->second == nullptr ||
        it->second->kernel == nullptr ||
        it->second->kernel->scalar == nullptr || n.num_inputs() > 3 ||
        n.num_outputs() != 1 || !FitsRegister(n.output_type(0)))
      return false;
    for (const Output& in : n.inputs())
      if (!value(Root(in)).scalar || !FitsRegister(in.dtype())) return false;
    return true;
  }

  bool KnownScalar(const Output& o) const {
    if (!FitsRegister(o.dtype())) return false;
    if (o.node->op().role == OpRole::kConst)
      return o.node->AttrOr<Tensor>("value", Tensor()).rank() == 0;
    return o.shape().rank() == 0;
  }

  // Loop variables are taken for scalars until what they begin with, or what
  // comes back, is seen not to be one.
  void FindScalars() {
    for (const auto& [merge, variable] : next_of_)
      value(Output(const_cast<Node*>(merge))).scalar =
          FitsRegister(merge->output_type(0));
    for (bool again = true; again;) {
      again = false;
      for (const Node* n : nodes_) FindScalars(*n);
      for (const auto& [merge, variable] : next_of_) {
        Value& v = value(Output(const_cast<Node*>(merge)));
        if (!v.scalar) continue;
        v.scalar = IsScalar(variable->init()) && IsScalar(variable->next());
        again |= !v.scalar;
      }
    }
  }

  void FindScalars(const Node& n) {
    const auto output = [&n](int i) {
      return Output(const_cast<Node*>(&n), i);
    };
    if (n.op().role == OpRole::kMerge) {
      value(output(1)).scalar = true;
      if (next_of_.count(&n) == 0)
        value(output(0)).scalar = FitsRegister(n.output_type(0)) &&
                                  IsScalar(n.input(0)) && IsScalar(n.input(1));
    } else if (n.op().role == OpRole::kCompute) {
      for (const Output& in : n.inputs()) (void)IsScalar(in);
      const bool call = IsScalarCall(n);
      for (int i = 0; i < n.num_outputs(); ++i)
        value(output(i)).scalar = call || KnownScalar(output(i));
    }
  }

  bool IsScalar(const Output& o) {
    const Output root = Root(o);
    Value& v = value(root);
    if (!IsInside(root.node) || root.node->op().role == OpRole::kConst)
      v.scalar = KnownScalar(root);
    return v.scalar;
  }

  // Which table each value is read from.
  void FindWants() {
    auto want = [this](const Output& o, bool in_register) {
      Value& v = value(Root(o));
      (in_register ? v.wants_register : v.wants_slot) = true;
    };
    for (const Node* n : nodes_) {
      switch (n->op().role) {
        case OpRole::kSwitch:
          want(n->input(1), true);
          break;
        case OpRole::kMerge: {
          const bool scalar = value(Output(const_cast<Node*>(n))).scalar;
          auto it = next_of_.find(n);
          if (it != next_of_.end()) {
            want(it->second->init(), scalar);
            want(it->second->next(), scalar);
          } else {
            want(n->input(0), scalar);
            want(n->input(1), scalar);
          }
          break;
        }
        case OpRole::kCompute: {
          const bool call = IsScalarCall(*n);
          for (const Output& in : n->inputs()) want(in, call);
          break;
        }
        default:
          break;
      }
    }
    for (const Output& c : conditions_) want(c, true);
    for (const Output& o : outputs_) want(o, IsScalar(o));
  }

  // ---- Places ---------------------------------------------------------------

  uint32_t NewRegister(uint64_t bits = 0) {
    p_->registers.push_back(bits);
    return static_cast<uint32_t>(p_->registers.size() - 1);
  }

  // The value of an output from outside, or a constant, where it is first read.
  Value& Read(const Output& o) {
    const Output root = Root(o);
    Value& v = value(root);
    if (v.reg >= 0 || v.slot >= 0 || v.constant >= 0) return v;
    if (root.node->op().role == OpRole::kConst) {
      const Tensor t = root.node->AttrOr<Tensor>("value", Tensor());
      if (FitsRegister(t.dtype()) && t.num_elements() == 1) {
        uint64_t bits = 0;
        std::memcpy(&bits, t.raw(), DTypeSize(t.dtype()));
        v.reg = NewRegister(bits);
      }
      v.constant = static_cast<int64_t>(p_->constants.size());
      p_->constants.push_back(t);
    } else if (!IsInside(root.node)) {
      RegionProgram::Port in;
      in.dtype = RemoveRef(root.dtype());
      if (v.wants_register) in.reg = v.reg = NewRegister();
      if (v.wants_slot) in.slot = v.slot = p_->num_slots++;
      inputs_.push_back(root);
      p_->inputs.push_back(in);
    }
    return v;
  }
  uint32_t Register(const Output& o) {
    const Value& v = Read(o);
    failed_ |= v.reg < 0;  // A constant predicate that is no scalar.
    return static_cast<uint32_t>(v.reg);
  }
  uint32_t Slot(const Output& o) {
    Value& v = Read(o);
    if (v.slot < 0 && v.constant >= 0) {
      v.slot = p_->num_slots++;
      p_->constant_slots.emplace_back(static_cast<uint32_t>(v.slot),
                                      static_cast<uint32_t>(v.constant));
    }
    failed_ |= v.slot < 0;
    return static_cast<uint32_t>(v.slot);
  }

  // ---- Instructions ---------------------------------------------------------

  RegionInstr& Emit(RegionInstr::Code code) {
    RegionInstr i;
    i.code = code;
    p_->code.push_back(i);
    p_->call_of.push_back(UINT32_MAX);
    return p_->code.back();
  }
  uint32_t Here() const { return static_cast<uint32_t>(p_->code.size()); }

  // After a value has come into one table: into the other, if it is read there.
  void AlsoWanted(Value* v, DType dtype) {
    if (v->reg >= 0 && v->wants_slot) {
      if (v->slot < 0) v->slot = p_->num_slots++;
      RegionInstr& i = Emit(RegionInstr::kBox);
      i.in[0] = static_cast<uint32_t>(v->reg);
      i.out = static_cast<uint32_t>(v->slot);
      i.flag = static_cast<uint8_t>(dtype);
    } else if (v->slot >= 0 && v->wants_register) {
      if (v->reg < 0) v->reg = NewRegister();
      RegionInstr& i = Emit(RegionInstr::kUnbox);
      i.in[0] = static_cast<uint32_t>(v->slot);
      i.out = static_cast<uint32_t>(v->reg);
      i.flag = static_cast<uint8_t>(dtype);
    }
  }

  void EmitCompute(const RegionUnit& u) {
    const Node& n = *u.node;
    const auto call = static_cast<uint32_t>(p_->calls.size());
    RegionProgram::Call c;
    c.node = u.node;
    c.kernel = u.kernel;
    const Output first(const_cast<Node*>(u.node));
    if (IsScalarCall(n)) {
      RegionInstr i;
      i.fn = u.kernel->scalar;
      i.at = {};
      for (int k = 0; k < n.num_inputs(); ++k)
        i.at.in[k] = Register(n.input(k));
      Value& v = value(first);
      v.reg = NewRegister();
      i.at.out = static_cast<uint32_t>(v.reg);
      i.at.state = u.kernel->state.get();
      p_->code.push_back(i);
      p_->call_of.push_back(call);
      p_->calls.push_back(std::move(c));
      AlsoWanted(&v, n.output_type(0));
      return;
    }
    std::vector<InputRef> refs;
    for (const Output& in : n.inputs()) {
      Value& v = Read(in);
      refs.push_back(
          v.slot >= 0
              ? InputRef{InputRef::kFrame, static_cast<uint32_t>(v.slot)}
              : InputRef{InputRef::kPlan, static_cast<uint32_t>(v.constant)});
    }
    c.first_ref = static_cast<uint32_t>(p_->refs.size());
    p_->refs.insert(p_->refs.end(), refs.begin(), refs.end());
    c.first_output = p_->num_slots;
    p_->num_slots += static_cast<uint32_t>(n.num_outputs());
    RegionInstr& i = Emit(RegionInstr::kCall);
    i.target = call;
    p_->call_of.back() = call;
    for (int k = 0; k < n.num_outputs(); ++k) {
      Value& v = value(Output(const_cast<Node*>(u.node), k));
      v.slot = c.first_output + k;
    }
    p_->calls.push_back(std::move(c));
    for (int k = 0; k < n.num_outputs(); ++k) {
      Value& v = value(Output(const_cast<Node*>(u.node), k));
      if (v.wants_register) AlsoWanted(&v, n.output_type(k));
    }
  }

  void EmitMerge(const RegionUnit& u) {
    const Node& n = *u.node;
    const uint32_t when_true = static_cast<uint32_t>(u.when_true);
    const uint32_t predicate = Register(s_.predicate(u.predicate));
    Value& v = value(Output(const_cast<Node*>(u.node)));
    const Output no = n.input(1 - u.when_true), yes = n.input(u.when_true);
    if (v.scalar) {
      const uint32_t a = Register(no), b = Register(yes);
      v.reg = NewRegister();
      SelectRegister(a, b, predicate, static_cast<uint32_t>(v.reg));
    } else {
      const uint32_t a = Slot(no), b = Slot(yes);
      v.slot = p_->num_slots++;
      RegionInstr& i = Emit(RegionInstr::kSelectSlot);
      i.in[0] = a;
      i.in[1] = b;
      i.in[2] = predicate;
      i.out = static_cast<uint32_t>(v.slot);
    }
    AlsoWanted(&v, n.output_type(0));
    Value& index = value(Output(const_cast<Node*>(u.node), 1));
    if (!index.wants_register && !index.wants_slot) return;
    index.reg = NewRegister();
    SelectRegister(NewRegister(1 - when_true), NewRegister(when_true),
                   predicate, static_cast<uint32_t>(index.reg));
    AlsoWanted(&index, DType::kInt32);
  }

  void SelectRegister(uint32_t a, uint32_t b, uint32_t predicate,
                      uint32_t out) {
    RegionInstr& i = Emit(RegionInstr::kSelect);
    i.in[0] = a;
    i.in[1] = b;
    i.in[2] = predicate;
    i.out = out;
  }

  void Move(bool in_register, uint32_t from, uint32_t to) {
    if (from == to) return;
    RegionInstr& i =
        Emit(in_register ? RegionInstr::kMove : RegionInstr::kMoveSlot);
    i.in[0] = from;
    i.out = to;
  }

  // ---- Control flow ---------------------------------------------------------

  static bool HasCode(const RegionUnit& u) {
    return u.kind == RegionUnit::kCheap || u.kind == RegionUnit::kChild ||
           (u.kind == RegionUnit::kMerge && u.predicate >= 0);
  }

  // Units in an order that respects their dependencies, those under one guard
  // as far as possible together.
  std::vector<int> Schedule(int f, const std::vector<int>& units) {
    std::unordered_map<int, int> pending;
    std::unordered_map<int, std::vector<int>> users;
    for (int u : units) pending[u] = 0;
    std::map<int, std::deque<int>> ready;  // By guard.
    for (int u : units) {
      for (int d : s_.unit(f, u).deps)
        if (pending.count(d) > 0) {
          ++pending[u];
          users[d].push_back(u);
        }
      if (pending[u] == 0) ready[s_.unit(f, u).guard].push_back(u);
    }
    std::vector<int> order;
    int guard = 0;
    while (!ready.empty()) {
      auto it = ready.find(guard);
      if (it == ready.end()) it = ready.begin();
      guard = it->first;
      const int u = it->second.front();
      it->second.pop_front();
      if (it->second.empty()) ready.erase(it);
      order.push_back(u);
      for (int user : users[u])
        if (--pending[user] == 0) ready[s_.unit(f, user).guard].push_back(user);
    }
    return order;
  }

  // The code of units, each under what its guard has beyond `base`.
  void EmitUnits(int f, const std::vector<int>& units, int base) {
    Guards& guards = s_.guards();
    std::vector<std::pair<Guards::Literal, uint32_t>> open;  // And where.
    auto close = [&](size_t keep) {
      for (; open.size() > keep; open.pop_back())
        p_->code[open.back().second].target = Here();
    };
    for (int at : units) {
      const RegionUnit& u = s_.unit(f, at);
      if (!HasCode(u)) continue;
      Guards::Set more;
      for (Guards::Literal l : guards.set(u.guard))
        if (!guards.Has(base, l)) more.push_back(l);
      size_t same = 0;
      while (same < open.size() && same < more.size() &&
             open[same].first == more[same])
        ++same;
      close(same);
      for (size_t i = same; i < more.size(); ++i) {
        const uint32_t predicate = Register(s_.predicate(more[i].predicate));
        open.emplace_back(more[i], Here());
        RegionInstr& skip = Emit(RegionInstr::kSkipUnless);
        skip.in[0] = predicate;
        skip.flag = more[i].value;
      }
      if (u.kind == RegionUnit::kChild) {
        EmitLoop(u.child);
      } else if (u.kind == RegionUnit::kMerge) {
        EmitMerge(u);
      } else {
        EmitCompute(u);
      }
    }
    close(0);
  }

  void EmitLoop(int f) {
    const RegionFrame& loop = s_.frame(f);
    Guards& guards = s_.guards();
    const Guards::Literal stop = {loop.go.predicate, false};
    std::vector<int> head, body, tail;
    for (int u : loop.order) {
      const int g = loop.units[static_cast<size_t>(u)].guard;
      (guards.Has(g, loop.go) ? body
       : guards.Has(g, stop)  ? tail
                              : head)
          .push_back(u);
    }
    for (const RegionLoopVariable& v : loop.variables) {
      Value& header = value(Output(const_cast<Node*>(v.merge)));
      if (header.scalar) {
        const uint32_t from = Register(v.init());
        header.reg = NewRegister();
        Move(true, from, static_cast<uint32_t>(header.reg));
      } else {
        const uint32_t from = Slot(v.init());
        header.slot = p_->num_slots++;
        Move(false, from, static_cast<uint32_t>(header.slot));
      }
    }
    RegionProgram::Loop info;
    info.name = loop.name;
    info.counter = NewRegister();
    Move(true, NewRegister(), info.counter);

    const uint32_t top = info.begin = Here();
    for (const RegionLoopVariable& v : loop.variables)
      AlsoWanted(&value(Output(const_cast<Node*>(v.merge))),
                 v.merge->output_type(0));
    EmitUnits(f, Schedule(f, head), 0);
    const uint32_t condition = Register(loop.condition);
    const uint32_t branch = Here();
    RegionInstr& skip = Emit(RegionInstr::kSkipUnless);
    skip.in[0] = condition;
    skip.flag = 1;
    EmitUnits(f, Schedule(f, body), guards.Intern({loop.go}));
    const uint32_t moves = Here();
    EmitNext(loop);
    Coalesce(branch, moves);
    RegionInstr& back = Emit(RegionInstr::kLoop);
    back.out = info.counter;
    back.target = top;
    p_->code[branch].target = info.end = Here();
    bodies_.push_back({top, branch, info.end});
    p_->loops.push_back(std::move(info));
    EmitUnits(f, Schedule(f, tail), guards.Intern({stop}));
  }

  // Gives the loop variables their next values, all at once: a value that is
  // another variable of this loop is put aside first.
  void EmitNext(const RegionFrame& loop) {
    struct Step {
      bool in_register;
      uint32_t from, to;
    };
    std::vector<Step> steps;
    std::map<std::pair<bool, uint32_t>, uint32_t> aside;
    for (const RegionLoopVariable& v : loop.variables) {
      const Output header(const_cast<Node*>(v.merge));
      const bool in_register = value(header).scalar;
      const Output next = Root(v.next());
      if (next == header) continue;
      const uint32_t from = in_register ? Register(next) : Slot(next);
      steps.push_back(
          {in_register, from,
           static_cast<uint32_t>(in_register ? value(header).reg
                                             : value(header).slot)});
      for (const RegionLoopVariable& other : loop.variables)
        if (next == Output(const_cast<Node*>(other.merge)))
          aside[{in_register, from}] = 0;
    }
    for (auto& [place, copy] : aside) {
      copy = place.first ? NewRegister() : p_->num_slots++;
      Move(place.first, place.second, copy);
    }
    for (const Step& s : steps) {
      auto it = aside.find({s.in_register, s.from});
      Move(s.in_register, it == aside.end() ? s.from : it->second, s.to);
    }
  }

  // Where the next value of a loop variable is computed after the variable was
  // last read, it is computed in its place.
  void Coalesce(uint32_t branch, uint32_t moves) {
    for (uint32_t m = moves; m < p_->code.size(); ++m) {
      RegionInstr& move = p_->code[m];
      if (move.fn != nullptr || move.code != RegionInstr::kMove) continue;
      const uint32_t from = move.in[0], to = move.out;
      int64_t definition = -1;
      bool fits = true;
      int depth_end = 0;
      for (uint32_t k = branch + 1; k < m && fits; ++k) {
        const RegionInstr& i = p_->code[k];
        if (i.fn == nullptr && i.code == RegionInstr::kSkipUnless)
          depth_end = std::max(depth_end, static_cast<int>(i.target));
        if (i.fn == nullptr && i.code == RegionInstr::kLoop)
          fits = definition < 0;  // Not across an inner loop.
        if (Writes(i, from)) {
          fits = definition < 0 && i.fn != nullptr &&
                 static_cast<int>(k) >= depth_end;
          definition = k;
        } else if (definition >= 0 && (Reads(i, to) || Writes(i, to))) {
          fits = false;
        }
      }
      // Other moves of this list that read either place keep it as it is.
      for (uint32_t k = moves; k < p_->code.size(); ++k)
        if (k != m && (Reads(p_->code[k], to) || Reads(p_->code[k], from)))
          fits = false;
      if (!fits || definition < 0) continue;
      for (uint32_t k = static_cast<uint32_t>(definition); k < m; ++k)
        Rename(&p_->code[k], from, to, k == definition);
      RegionInstr nothing;
      nothing.code = RegionInstr::kMove;
      nothing.in[0] = nothing.out = to;
      p_->code[m] = nothing;
    }
    // Moves to where a value already is.
    uint32_t kept = moves;
    for (uint32_t m = moves; m < p_->code.size(); ++m) {
      const RegionInstr& i = p_->code[m];
      if (i.fn == nullptr && i.code == RegionInstr::kMove && i.in[0] == i.out)
        continue;
      p_->code[kept++] = p_->code[m];
    }
    p_->code.resize(kept);
    p_->call_of.resize(kept);
  }

  // Registers only. A call reads and writes slots.
  static int NumRegistersRead(const RegionInstr& i) {
    if (i.fn != nullptr) return 3;
    switch (i.code) {
      case RegionInstr::kSkipUnless:
      case RegionInstr::kMove:
      case RegionInstr::kBox:
        return 1;
      case RegionInstr::kSelect:
        return 3;
      default:
        return 0;
    }
  }
  static bool Reads(const RegionInstr& i, uint32_t reg) {
    for (int k = 0; k < NumRegistersRead(i); ++k)
      if (i.in[k] == reg) return true;
    return i.fn == nullptr && i.code == RegionInstr::kSelectSlot &&
           i.in[2] == reg;
  }
  static bool Writes(const RegionInstr& i, uint32_t reg) {
    if (i.fn != nullptr) return i.at.out == reg;
    return (i.code == RegionInstr::kMove || i.code == RegionInstr::kSelect ||
            i.code == RegionInstr::kUnbox || i.code == RegionInstr::kLoop) &&
           i.out == reg;
  }
  static void Rename(RegionInstr* i, uint32_t from, uint32_t to, bool output) {
    if (output) {
      i->at.out = to;
      return;
    }
    for (int k = 0; k < NumRegistersRead(*i); ++k)
      if (i->in[k] == from) i->in[k] = to;
    if (i->fn == nullptr && i->code == RegionInstr::kSelectSlot &&
        i->in[2] == from)
      i->in[2] = to;
  }

  // ---- The end --------------------------------------------------------------

  void FinishOutputs() {
    for (const Output& o : outputs_) {
      Value& v = Read(o);
      RegionProgram::Port out;
      out.dtype = RemoveRef(o.dtype());
      if (v.scalar) {
        out.reg = v.reg;
      } else {
        out.slot = Slot(o);
      }
      p_->outputs.push_back(out);
    }
  }

  // The innermost loop around an instruction, as an index of bodies_; -1: none.
  int LoopAt(uint32_t at) const {
    for (size_t i = 0; i < bodies_.size(); ++i)  // Inner ones come first.
      if (at >= bodies_[i].top && at < bodies_[i].end)
        return static_cast<int>(i);
    return -1;
  }

  // Finds for each slot the read after which nobody wants it, so that a kernel
  // may have its buffer and memory is free early.
  void MarkLastReads() {
    struct Use {
      uint32_t at;
      int64_t operand;  // Of a call: in refs; -1: a move's.
    };
    std::vector<std::vector<Use>> reads(p_->num_slots);
    std::vector<std::vector<uint32_t>> writes(p_->num_slots);
    std::vector<char> pinned(p_->num_slots, 0);
    for (const RegionProgram::Port& in : p_->inputs)
      if (in.slot >= 0) writes[static_cast<size_t>(in.slot)].push_back(0);
    for (const auto& [slot, constant] : p_->constant_slots) pinned[slot] = 1;
    for (const RegionProgram::Port& out : p_->outputs)
      if (out.slot >= 0) pinned[static_cast<size_t>(out.slot)] = 1;
    for (uint32_t at = 0; at < p_->code.size(); ++at) {
      const RegionInstr& i = p_->code[at];
      if (i.fn != nullptr) continue;
      switch (i.code) {
        case RegionInstr::kCall: {
          const RegionProgram::Call& c = p_->calls[i.target];
          for (uint32_t k = 0; k < static_cast<uint32_t>(c.node->num_inputs());
               ++k) {
            const InputRef r = p_->refs[c.first_ref + k];
            if (r.table == InputRef::kFrame)
              reads[r.index].push_back({at, c.first_ref + k});
          }
          for (int k = 0; k < c.node->num_outputs(); ++k)
            writes[c.first_output + static_cast<uint32_t>(k)].push_back(at);
          break;
        }
        case RegionInstr::kMoveSlot:
          reads[i.in[0]].push_back({at, -1});
          writes[i.out].push_back(at);
          break;
        case RegionInstr::kSelectSlot:
          reads[i.in[0]].push_back({at, -2});
          reads[i.in[1]].push_back({at, -2});
          writes[i.out].push_back(at);
          break;
        case RegionInstr::kBox:
          writes[i.out].push_back(at);
          break;
        case RegionInstr::kUnbox:
          reads[i.in[0]].push_back({at, -2});
          break;
        default:
          break;
      }
    }
    clears_of_.resize(p_->code.size());
    for (uint32_t slot = 0; slot < p_->num_slots; ++slot) {
      if (pinned[slot] || writes[slot].empty()) continue;
      // The loop whose iterations each give it anew: of a loop variable, its
      // own, where only reads behind the condition may be the last.
      const int home = LoopAt(writes[slot].back());
      const bool variable = writes[slot].size() > 1;
      const uint32_t from =
          variable ? bodies_[static_cast<size_t>(home)].branch : 0;
      if (reads[slot].empty()) {
        if (!variable && IsCall(writes[slot][0]))
          clears_of_[writes[slot][0]].push_back(slot);
        continue;
      }
      uint32_t last = 0;
      bool outside = false;
      for (const Use& u : reads[slot]) {
        if (LoopAt(u.at) != home && !Within(u.at, home)) {
          outside = true;
          continue;
        }
        last = std::max(last, u.at);
      }
      if (outside && !variable) continue;
      if (last < from || LoopAt(last) != home) continue;
      std::vector<Use> finals;
      for (const Use& u : reads[slot])
        if (u.at == last) finals.push_back(u);
      if (finals[0].operand >= 0) {
        if (finals.size() == 1)
          p_->refs[static_cast<size_t>(finals[0].operand)].table =
              InputRef::kIteration;
        clears_of_[last].push_back(slot);
      } else if (finals[0].operand == -1) {
        p_->code[last].flag = 1;
      }
    }
  }

  bool Within(uint32_t at, int home) const {
    if (home < 0) return true;
    const Body& b = bodies_[static_cast<size_t>(home)];
    return at >= b.top && at < b.end;
  }
  bool IsCall(uint32_t at) const {
    return p_->code[at].fn == nullptr &&
           p_->code[at].code == RegionInstr::kCall;
  }

  void FinishClears() {
    for (uint32_t at = 0; at < p_->code.size(); ++at) {
      if (clears_of_[at].empty()) continue;
      RegionProgram::Call& c = p_->calls[p_->code[at].target];
      c.first_clear = static_cast<uint32_t>(p_->clears.size());
      c.num_clear = static_cast<uint32_t>(clears_of_[at].size());
      p_->clears.insert(p_->clears.end(), clears_of_[at].begin(),
                        clears_of_[at].end());
    }
  }

  struct Body {
    uint32_t top, branch, end;
  };

  RegionStructure& s_;
  const std::vector<Output>& outputs_;
  std::shared_ptr<RegionProgram> p_;
  std::vector<Output> inputs_;
  std::unordered_map<const Node*, const RegionUnit*> inside_;
  std::vector<const Node*> nodes_;
  std::vector<Output> conditions_;
  bool failed_ = false;
  std::unordered_map<const Node*, const RegionLoopVariable*> next_of_;
  std::unordered_map<Output, Value, OutputHash> values_;
  std::vector<Body> bodies_;                      // Inner loops first.
  std::vector<std::vector<uint32_t>> clears_of_;  // By instruction.
};

}  // namespace

CompiledRegion CompileRegion(RegionStructure& structure, int f,
                             const std::vector<int>& units,
                             const std::vector<Output>& outputs) {
  return Compiler(structure, outputs).Compile(f, units);
}

}  // namespace sluice
