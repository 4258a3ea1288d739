#include "exec/fusion/region_optimizer.h"

#include <algorithm>
#include <vector>

namespace sluice {
namespace {

// Registers only: calls read and write slots.
int NumRegistersRead(const RegionInstr& i) {
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
bool Reads(const RegionInstr& i, uint32_t reg) {
  for (int k = 0; k < NumRegistersRead(i); ++k)
    if (i.in[k] == reg) return true;
  return i.fn == nullptr && i.code == RegionInstr::kSelectSlot &&
         i.in[2] == reg;
}
bool Writes(const RegionInstr& i, uint32_t reg) {
  if (i.fn != nullptr) return i.at.out == reg;
  return (i.code == RegionInstr::kMove || i.code == RegionInstr::kSelect ||
          i.code == RegionInstr::kUnbox || i.code == RegionInstr::kLoop) &&
         i.out == reg;
}
void Rename(RegionInstr* i, uint32_t from, uint32_t to, bool output) {
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

// The last reads of slots.
class LastReads {
 public:
  explicit LastReads(RegionProgram* program) : p_(*program) {}

  void Mark() {
    struct Use {
      uint32_t at;
      int64_t operand;  // For a call: in refs; -1: a move's.
    };
    std::vector<std::vector<Use>> reads(p_.num_slots);
    std::vector<std::vector<uint32_t>> writes(p_.num_slots);
    std::vector<char> pinned(p_.num_slots, 0), results(p_.num_slots, 0);
    for (const RegionProgram::Port& in : p_.inputs)
      if (in.slot >= 0) writes[static_cast<size_t>(in.slot)].push_back(0);
    for (const auto& [slot, constant] : p_.constant_slots) pinned[slot] = 1;
    for (const RegionProgram::Port& out : p_.outputs)
      if (out.slot >= 0) results[static_cast<size_t>(out.slot)] = 1;
    for (uint32_t at = 0; at < p_.code.size(); ++at) {
      const RegionInstr& i = p_.code[at];
      if (i.fn != nullptr) {
        for (uint32_t in : i.at.in)
          if ((in & ScalarPlaces::kSlot) != 0)
            reads[in & ~ScalarPlaces::kSlot].push_back({at, -2});
        continue;
      }
      switch (i.code) {
        case RegionInstr::kCall: {
          const RegionProgram::Call& c = p_.calls[i.target];
          for (uint32_t k = 0; k < static_cast<uint32_t>(c.node->num_inputs());
               ++k) {
            const InputRef r = p_.refs[c.first_ref + k];
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
    clears_of_.resize(p_.code.size());
    for (uint32_t slot = 0; slot < p_.num_slots; ++slot) {
      if (pinned[slot] || writes[slot].empty()) continue;
      // The loop that defines it anew in each iteration. For a loop variable
      // this is its own loop, where only reads after the condition may be the
      // last: reads after the loop see the value of the last iteration.
      const int home = LoopAt(writes[slot].back());
      const bool variable = writes[slot].size() > 1;
      if (results[slot] && !variable) continue;
      const uint32_t from =
          variable ? p_.loops[static_cast<size_t>(home)].branch : 0;
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
          p_.refs[static_cast<size_t>(finals[0].operand)].table =
              InputRef::kIteration;
        clears_of_[last].push_back(slot);
      } else if (finals[0].operand == -1) {
        p_.code[last].flag = 1;
      }
    }
  }

  void FinishClears() {
    for (uint32_t at = 0; at < p_.code.size(); ++at) {
      if (clears_of_[at].empty()) continue;
      RegionProgram::Call& c = p_.calls[p_.code[at].target];
      c.first_clear = static_cast<uint32_t>(p_.clears.size());
      c.num_clear = static_cast<uint32_t>(clears_of_[at].size());
      p_.clears.insert(p_.clears.end(), clears_of_[at].begin(),
                       clears_of_[at].end());
    }
  }

 private:
  // The innermost loop around an instruction, as an index of loops; -1: none.
  int LoopAt(uint32_t at) const {
    for (size_t i = 0; i < p_.loops.size(); ++i)  // Inner ones come first.
      if (at >= p_.loops[i].begin && at < p_.loops[i].end)
        return static_cast<int>(i);
    return -1;
  }

  bool Within(uint32_t at, int home) const {
    if (home < 0) return true;
    const RegionProgram::Loop& b = p_.loops[static_cast<size_t>(home)];
    return at >= b.begin && at < b.end;
  }
  bool IsCall(uint32_t at) const {
    return p_.code[at].fn == nullptr && p_.code[at].code == RegionInstr::kCall;
  }

  RegionProgram& p_;
  std::vector<std::vector<uint32_t>> clears_of_;  // By instruction.
};

}  // namespace

void CoalesceMoves(RegionProgram* program, uint32_t branch, uint32_t moves) {
  std::vector<RegionInstr>& code = program->code;
  for (uint32_t m = moves; m < code.size(); ++m) {
    RegionInstr& move = code[m];
    if (move.fn != nullptr || move.code != RegionInstr::kMove) continue;
    const uint32_t from = move.in[0], to = move.out;
    int64_t definition = -1;
    bool fits = true;
    int depth_end = 0;
    for (uint32_t k = branch + 1; k < m && fits; ++k) {
      const RegionInstr& i = code[k];
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
    // Not if other moves of this list read either location.
    for (uint32_t k = moves; k < code.size(); ++k)
      if (k != m && (Reads(code[k], to) || Reads(code[k], from))) fits = false;
    if (!fits || definition < 0) continue;
    for (uint32_t k = static_cast<uint32_t>(definition); k < m; ++k)
      Rename(&code[k], from, to, k == definition);
    RegionInstr nothing;
    nothing.code = RegionInstr::kMove;
    nothing.in[0] = nothing.out = to;
    code[m] = nothing;
  }
  // Drops moves of a value to itself.
  uint32_t kept = moves;
  for (uint32_t m = moves; m < code.size(); ++m) {
    const RegionInstr& i = code[m];
    if (i.fn == nullptr && i.code == RegionInstr::kMove && i.in[0] == i.out)
      continue;
    code[kept++] = code[m];
  }
  code.resize(kept);
  program->call_of.resize(kept);
}

void MarkLastReads(RegionProgram* program) {
  LastReads reads(program);
  reads.Mark();
  reads.FinishClears();
}

}  // namespace sluice
