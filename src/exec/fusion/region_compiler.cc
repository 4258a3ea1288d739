#include "exec/fusion/region_compiler.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <unordered_map>

#include "exec/fusion/region_optimizer.h"

namespace sluice {
namespace {

constexpr size_t kRegisterBytes = 8;

bool FitsRegister(DType t) {
  t = RemoveRef(t);
  return IsPlain(t) && DTypeSize(t) <= kRegisterBytes;
}

// Compiles one region. Values are identified by their roots: the output that
// produces them, behind identities, switches, loop constants and exits, which
// need no instructions.
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
    MarkLastReads(p_.get());
    p_->ones.assign(p_->num_slots, 1);
    CompiledRegion compiled{p_, std::move(inputs_), std::move(parts_), {}};
    for (const Output& o : outputs_) compiled.outputs.push_back(Root(o));
    return compiled;
  }

 private:
  struct Value {
    bool scalar = false;  // Known to fit a register.
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
    for (const Node* e : s_.frames()[unit.child].enters)
      inside_.emplace(e, nullptr);
    for (int child : loop.order) Gather(unit.child, child);
    for (const RegionLoopVariable& v : loop.variables) next_of_[v.merge] = &v;
  }

  bool IsInside(const Node* n) const { return inside_.count(n) > 0; }

  // The producer of a value.
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
    if (it == inside_.end() || it->second == nullptr) return false;
    const Kernel* k = it->second->kernel.get();
    if (k == nullptr || k->scalar == nullptr || n.num_outputs() != 1 ||
        !FitsRegister(n.output_type(0)))
      return false;
    for (int i = 0; i < NumScalarInputs(n, *k); ++i)
      if (!TakesTensor(*k, i) && (!value(Root(n.input(i))).scalar ||
                                  !FitsRegister(n.input(i).dtype())))
        return false;
    return k->scalar_slots == 0 || KnownScalar(Output(const_cast<Node*>(&n)));
  }
  static int NumScalarInputs(const Node& n, const Kernel& k) {
    return std::min<int>(n.num_inputs(), k.scalar_inputs);
  }
  static bool TakesTensor(const Kernel& k, int input) {
    return ((k.scalar_slots >> input) & 1) != 0;
  }

  bool KnownScalar(const Output& o) const {
    if (!FitsRegister(o.dtype())) return false;
    if (o.node->op().role == OpRole::kConst)
      return o.node->AttrOr<Tensor>("value", Tensor()).rank() == 0;
    return o.shape().rank() == 0;
  }

  // Loop variables are assumed to be scalars until the initial value, or the
  // back edge's value, turns out not to be one.
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

  // Finds the table from which each value is read.
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
          if (!IsScalarCall(*n)) {
            for (const Output& in : n->inputs()) want(in, false);
            break;
          }
          const Kernel& k = *inside_[n]->kernel;
          for (int i = 0; i < NumScalarInputs(*n, k); ++i)
            want(n->input(i), !TakesTensor(k, i));
          ForEachAwaited(*n, k, [&](const Output& o) { want(o, IsScalar(o)); });
          break;
        }
        default:
          break;
      }
    }
    for (const Output& c : conditions_) want(c, true);
    for (const Output& o : outputs_) want(o, IsScalar(o));
  }

  // Calls fn(input) for each external input that a scalar call waits for but
  // does not read: the flow of an array.
  template <typename Fn>
  void ForEachAwaited(const Node& n, const Kernel& k, const Fn& fn) {
    for (int i = NumScalarInputs(n, k); i < n.num_inputs(); ++i)
      if (!IsInside(Root(n.input(i)).node)) fn(n.input(i));
  }

  // ---- Places ---------------------------------------------------------------

  uint32_t NewRegister(uint64_t bits = 0) {
    p_->registers.push_back(bits);
    return static_cast<uint32_t>(p_->registers.size() - 1);
  }

  // The value of an external output, or a constant, on its first read.
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
      in.node = root.node;
      if (v.wants_register) in.reg = v.reg = NewRegister();
      if (v.wants_slot) in.slot = v.slot = p_->num_slots++;
      inputs_.push_back(root);
      p_->inputs.push_back(in);
    }
    return v;
  }
  uint32_t Register(const Output& o) {
    const Value& v = Read(o);
    failed_ |= v.reg < 0;  // A constant predicate that is not a scalar.
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

  // After a value was put into one table: copies it to the other, if read
  // there.
  void AlsoWanted(const Output& root) {
    Value* const v = &value(root);
    const DType dtype = root.dtype();
    if (v->reg >= 0 && v->wants_slot) {
      if (v->slot < 0) v->slot = p_->num_slots++;
      RegionInstr& i = Emit(RegionInstr::kBox);
      i.in[0] = static_cast<uint32_t>(v->reg);
      i.out = static_cast<uint32_t>(v->slot);
      i.flag = static_cast<uint8_t>(dtype);
    } else if (v->slot >= 0 && v->wants_register) {
      if (v->reg < 0) v->reg = NewRegister();
      RegionInstr& i = Emit(RegionInstr::kUnbox);
      p_->call_of.back() = static_cast<uint32_t>(p_->calls.size());
      p_->calls.emplace_back(root.node);
      i.in[0] = static_cast<uint32_t>(v->slot);
      i.out = static_cast<uint32_t>(v->reg);
      i.flag = static_cast<uint8_t>(dtype);
    }
  }

  void EmitCompute(const RegionUnit& u) {
    const Node& n = *u.node;
    const auto call = static_cast<uint32_t>(p_->calls.size());
    RegionProgram::Call c(u.node, u.kernel);
    CompiledRegion::Part part{u.node, u.kernel, {}};
    for (const Output& in : n.inputs()) part.operands.push_back(Root(in));
    parts_.push_back(std::move(part));
    const Output first(const_cast<Node*>(u.node));
    if (IsScalarCall(n)) {
      RegionInstr i;
      i.fn = u.kernel->scalar;
      i.at = {};
      for (int k = 0; k < NumScalarInputs(n, *u.kernel); ++k)
        i.at.in[k] = TakesTensor(*u.kernel, k)
                         ? Slot(n.input(k)) | ScalarPlaces::kSlot
                         : Register(n.input(k));
      ForEachAwaited(n, *u.kernel, [this](const Output& o) { Read(o); });
      Value& v = value(first);
      v.reg = NewRegister();
      i.at.out = static_cast<uint32_t>(v.reg);
      i.at.state = u.kernel->state.get();
      p_->code.push_back(i);
      p_->call_of.push_back(call);
      p_->calls.push_back(std::move(c));
      AlsoWanted(first);
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
      const Output o(const_cast<Node*>(u.node), k);
      if (value(o).wants_register) AlsoWanted(o);
    }
  }

  void EmitMerge(const RegionUnit& u) {
    const Node& n = *u.node;
    const uint32_t when_true = static_cast<uint32_t>(u.when_true);
    const uint32_t predicate = Register(u.predicate);
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
    AlsoWanted(Output(const_cast<Node*>(u.node)));
    const Output chosen(const_cast<Node*>(u.node), 1);
    Value& index = value(chosen);
    if (!index.wants_register && !index.wants_slot) return;
    index.reg = NewRegister();
    SelectRegister(NewRegister(1 - when_true), NewRegister(when_true),
                   predicate, static_cast<uint32_t>(index.reg));
    AlsoWanted(chosen);
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
           (u.kind == RegionUnit::kMerge && u.predicate.valid());
  }

  // Orders units by their dependencies, keeping those under one guard together
  // as far as possible.
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

  // Emits the code of units, each under the part of its guard beyond `base`.
  void EmitUnits(int f, const std::vector<int>& units, int base) {
    const Conditions& guards = s_.conditions();
    std::vector<std::pair<Literal, uint32_t>> open;  // And where.
    auto close = [&](size_t keep) {
      for (; open.size() > keep; open.pop_back())
        p_->code[open.back().second].target = Here();
    };
    for (int at : units) {
      const RegionUnit& u = s_.unit(f, at);
      if (!HasCode(u)) continue;
      Conditions::Set more;
      for (const Literal l : guards.set(u.guard))
        if (!guards.Has(base, l)) more.push_back(l);
      size_t same = 0;
      while (same < open.size() && same < more.size() &&
             open[same].first == more[same])
        ++same;
      close(same);
      for (size_t i = same; i < more.size(); ++i) {
        const uint32_t predicate = Register(s_.predicate(more[i]));
        open.emplace_back(more[i], Here());
        RegionInstr& skip = Emit(RegionInstr::kSkipUnless);
        skip.in[0] = predicate;
        skip.flag = more[i] & 1;
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
    Conditions& guards = s_.conditions();
    const Literal stop = Opposite(loop.go);
    std::vector<int> head, body, tail;
    for (const int u : loop.order) {
      const RegionPart part = loop.parts[static_cast<size_t>(u)];
      (part == RegionPart::kBody   ? body
       : part == RegionPart::kTail ? tail
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
    info.name = s_.frames()[f].name;
    info.counter = NewRegister();
    Move(true, NewRegister(), info.counter);

    const uint32_t top = info.begin = Here();
    for (const RegionLoopVariable& v : loop.variables)
      AlsoWanted(Output(const_cast<Node*>(v.merge)));
    EmitUnits(f, Schedule(f, head), 0);
    const uint32_t condition = Register(loop.condition);
    const uint32_t branch = Here();
    RegionInstr& skip = Emit(RegionInstr::kSkipUnless);
    skip.in[0] = condition;
    skip.flag = 1;
    EmitUnits(f, Schedule(f, body), guards.One(loop.go));
    const uint32_t moves = Here();
    EmitNext(loop);
    CoalesceMoves(p_.get(), branch, moves);
    RegionInstr& back = Emit(RegionInstr::kLoop);
    back.out = info.counter;
    back.target = top;
    p_->code[branch].target = info.end = Here();
    info.branch = branch;
    p_->loops.push_back(std::move(info));
    EmitUnits(f, Schedule(f, tail), guards.One(stop));
  }

  // Assigns the next values of the loop variables as a parallel move: a value
  // that is another variable of this loop is saved first.
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
      if (next.SameAs(header)) continue;
      const uint32_t from = in_register ? Register(next) : Slot(next);
      steps.push_back(
          {in_register, from,
           static_cast<uint32_t>(in_register ? value(header).reg
                                             : value(header).slot)});
      for (const RegionLoopVariable& other : loop.variables)
        if (next.SameAs(Output(const_cast<Node*>(other.merge))))
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

  RegionStructure& s_;
  const std::vector<Output>& outputs_;
  std::shared_ptr<RegionProgram> p_;
  std::vector<Output> inputs_;
  std::vector<CompiledRegion::Part> parts_;
  std::unordered_map<const Node*, const RegionUnit*> inside_;
  std::vector<const Node*> nodes_;
  std::vector<Output> conditions_;
  bool failed_ = false;
  std::unordered_map<const Node*, const RegionLoopVariable*> next_of_;
  OutputMap<Value> values_;
};

}  // namespace

CompiledRegion CompileRegion(RegionStructure& structure, int f,
                             const std::vector<int>& units,
                             const std::vector<Output>& outputs) {
  return Compiler(structure, outputs).Compile(f, units);
}

}  // namespace sluice
