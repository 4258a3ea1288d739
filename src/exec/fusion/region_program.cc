#include "exec/fusion/region_program.h"

#include <cstring>
#include <utility>

#include "exec/core/error_attribution.h"

namespace sluice {
namespace {

// How many iterations pass between checks of the clock and for cancellation.
constexpr uint32_t kPollEvery = 1024;

// True for all scalars that kernels make: stored inline in the tensor, which
// has room for all bytes of a register.
bool IsSmallScalar(const Tensor& t, DType dtype) {
  return t.dtype() == dtype && t.rank() == 0 && !t.has_buffer();
}

void Box(uint64_t bits, DType dtype, Tensor* out) {
  if (!IsSmallScalar(*out, dtype)) *out = Tensor(dtype, Shape());
  std::memcpy(out->raw(), &bits, sizeof(bits));
}

Status Unbox(const Tensor& t, DType dtype, uint64_t* bits) {
  if (IsSmallScalar(t, dtype)) [[likely]] {
    std::memcpy(bits, t.raw(), sizeof(*bits));
    return OkStatus();
  }
  if (t.dtype() != dtype || t.rank() != 0)
    return InvalidArgument("scalar: expected a ", DTypeName(dtype),
                           " scalar, got ", DTypeName(t.dtype()),
                           t.shape().ToString());
  *bits = 0;
  std::memcpy(bits, t.raw(), DTypeSize(dtype));
  return OkStatus();
}

}  // namespace

// One run of a program. On one thread.
class RegionRun {
 public:
  RegionRun(RegionProgram& p, RegionProgram::Workspace& w, KernelContext& outer)
      : p_(p),
        regs_(w.registers.data()),
        slots_(w.slots.data()),
        outer_(outer) {
    ctx_.tables_[InputRef::kIteration] = slots_;
    ctx_.tables_[InputRef::kFrame] = slots_;
    ctx_.tables_[InputRef::kPlan] = p.constants.data();
    ctx_.uses_ = p.ones.data();
    ctx_.step_ = &outer.step();
  }

  Status Run() {
    for (size_t i = 0; i < p_.inputs.size(); ++i) {
      const RegionProgram::Port& in = p_.inputs[i];
      if (in.reg >= 0)
        SLUICE_RETURN_IF_ERROR(
            Unbox(outer_.input(static_cast<int>(i)), in.dtype, &regs_[in.reg]));
      if (in.slot >= 0) slots_[in.slot] = outer_.TakeInput(static_cast<int>(i));
    }
    SLUICE_RETURN_IF_ERROR(Execute());
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      const RegionProgram::Port& out = p_.outputs[i];
      Tensor& to = outer_.output(static_cast<int>(i));
      if (out.reg >= 0) {
        Box(regs_[out.reg], out.dtype, &to);
      } else {
        to = slots_[out.slot];
      }
    }
    return OkStatus();
  }

 private:
  Status Execute() {
    const RegionInstr* const code = p_.code.data();
    const RegionInstr* i = code;
    uint64_t* const regs = regs_;
    for (;;) {
      if (i->fn != nullptr) {
        if (!i->fn(regs, slots_, i->at)) [[unlikely]]
          SLUICE_RETURN_IF_ERROR(RunInstead(i));
        ++i;
        continue;
      }
      switch (i->code) {
        case RegionInstr::kCall: {
          Status s = Call(p_.calls[i->target]);
          if (!s.ok()) [[unlikely]]
            return At(i, s);
          break;
        }
        case RegionInstr::kSkipUnless:
          if ((regs[i->in[0]] & 1) != i->flag) {
            i = code + i->target;
            continue;
          }
          break;
        case RegionInstr::kLoop:
          ++regs[i->out];
          if (++ticks_ % kPollEvery == 0) [[unlikely]]
            SLUICE_RETURN_IF_ERROR(Poll(i));
          i = code + i->target;
          continue;
        case RegionInstr::kMove:
          regs[i->out] = regs[i->in[0]];
          break;
        case RegionInstr::kSelect:
          regs[i->out] = regs[(regs[i->in[2]] & 1) != 0 ? i->in[1] : i->in[0]];
          break;
        case RegionInstr::kMoveSlot:
          if (i->flag != 0) {
            slots_[i->out] = std::move(slots_[i->in[0]]);
          } else {
            slots_[i->out] = slots_[i->in[0]];
          }
          break;
        case RegionInstr::kSelectSlot:
          slots_[i->out] =
              slots_[(regs[i->in[2]] & 1) != 0 ? i->in[1] : i->in[0]];
          break;
        case RegionInstr::kBox:
          Box(regs[i->in[0]], static_cast<DType>(i->flag), &slots_[i->out]);
          break;
        case RegionInstr::kUnbox: {
          Status s = Unbox(slots_[i->in[0]], static_cast<DType>(i->flag),
                           &regs[i->out]);
          if (!s.ok()) [[unlikely]]
            return At(i, s);
          break;
        }
        case RegionInstr::kEnd:
          return OkStatus();
      }
      ++i;
    }
  }

  Status Call(const RegionProgram::Call& c) {
    SetUp(c);
    ctx_.refs_ = p_.refs.data() + c.first_ref;
    ctx_.outputs_ = slots_ + c.first_output;
    Status s = c.run(ctx_);
    for (uint32_t k = 0; k < c.num_clear; ++k) {
      Tensor& t = slots_[p_.clears[c.first_clear + k]];
      if (t.has_buffer()) t = Tensor();
    }
    return s;
  }

  void SetUp(const RegionProgram::Call& c) {
    ctx_.state_ = c.state;
    ctx_.node_ = c.node;
    ctx_.num_inputs_ = c.num_inputs;
    ctx_.num_outputs_ = c.num_outputs;
  }

  // Runs the kernel after the scalar function returned false.
  Status RunInstead(const RegionInstr* i) {
    const RegionProgram::Call& c = p_.calls[CallOf(i)];
    const auto inputs = static_cast<size_t>(c.node->num_inputs());
    std::vector<Tensor> in(inputs);
    std::vector<InputRef> refs(inputs);
    Tensor out;
    for (uint32_t k = 0; k < inputs; ++k) {
      refs[k] = {InputRef::kLocal, k};
      const DType t = RemoveRef(c.node->input_type(static_cast<int>(k)));
      if (k >= c.kernel->scalar_inputs) {
        Box(0, t, &in[k]);
      } else if ((i->at.in[k] & ScalarPlaces::kSlot) != 0) {
        in[k] = i->at.tensor(slots_, static_cast<int>(k));
      } else {
        Box(regs_[i->at.in[k]], t, &in[k]);
      }
    }
    SetUp(c);
    ctx_.tables_[InputRef::kLocal] = in.data();
    ctx_.refs_ = refs.data();
    ctx_.outputs_ = &out;
    Status s = c.run(ctx_);
    if (s.ok()) s = Unbox(out, c.node->output_type(0), &regs_[i->at.out]);
    return s.ok() ? s : At(i, s);
  }

  uint32_t CallOf(const RegionInstr* i) const {
    return p_.call_of[static_cast<size_t>(i - p_.code.data())];
  }

  // The error of an instruction, with its node and its loop.
  Status At(const RegionInstr* i, const Status& s) const {
    std::string where;
    const uint32_t call = CallOf(i);
    if (call < p_.calls.size())
      absl::StrAppend(&where, "; ",
                      DescribeAttributed(s, *p_.calls[call].node));
    absl::StrAppend(&where, Iteration(i));
    return Located(Status(s.code(), absl::StrCat(s.message(), where)));
  }

  std::string Iteration(const RegionInstr* i) const {
    const auto at = static_cast<uint32_t>(i - p_.code.data());
    for (const RegionProgram::Loop& loop : p_.loops)
      if (at >= loop.begin && at < loop.end)
        return absl::StrCat(", frame '", loop.name, "' iteration ",
                            regs_[loop.counter]);
    return "";
  }

  // The loops around an instruction, outermost first.
  std::string Frames(const RegionInstr* i) const {
    const auto at = static_cast<uint32_t>(i - p_.code.data());
    std::string frames, around;
    for (auto loop = p_.loops.rbegin(); loop != p_.loops.rend(); ++loop) {
      if (at < loop->begin || at >= loop->end) continue;
      const std::string frame = absl::StrCat(
          "frame '", loop->name, "' iteration ", regs_[loop->counter]);
      absl::StrAppend(&frames, "; ", frame, around.empty() ? "" : " within ",
                      around);
      around = frame;
    }
    return frames;
  }

  // (Each error is Located: it names the node that the region replaces, and the
  // executor adds the enclosing frames.)
  Status Poll(const RegionInstr* i) const {
    const StepContext& step = outer_.step();
    if (step.cancellation->cancelled())
      return Located(Cancelled("loop: cancelled", Frames(i)));
    if (step.deadline && std::chrono::steady_clock::now() > *step.deadline)
      return Located(DeadlineExceeded(
          "step: expected to end before its deadline", Frames(i)));
    return OkStatus();
  }

  RegionProgram& p_;
  uint64_t* const regs_;
  Tensor* const slots_;
  KernelContext& outer_;
  KernelContext ctx_;
  uint32_t ticks_ = 0;
};

RegionProgram::Call::Call(const Node* n, std::shared_ptr<Kernel> k)
    : node(n), kernel(std::move(k)) {
  if (kernel == nullptr) return;
  run = kernel->run;
  state = kernel->state.get();
  num_inputs = n->num_inputs();
  num_outputs = n->num_outputs();
}

Status RegionProgram::Run(KernelContext& ctx) {
  std::unique_ptr<Workspace> w = Acquire();
  Status s = RegionRun(*this, *w, ctx).Run();
  Release(std::move(w));
  return s;
}

RegionProgram::~RegionProgram() { delete last_.load(); }

void RegionProgram::SetConstants(Workspace* w) const {
  for (const auto& [slot, constant] : constant_slots)
    w->slots[slot] = constants[constant];
}

std::unique_ptr<RegionProgram::Workspace> RegionProgram::Acquire() {
  if (Workspace* const last = last_.exchange(nullptr); last != nullptr)
    return std::unique_ptr<Workspace>(last);
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!idle_.empty()) {
      std::unique_ptr<Workspace> w = std::move(idle_.back());
      idle_.pop_back();
      return w;
    }
  }
  auto w = std::make_unique<Workspace>();
  w->registers = registers;
  w->slots.resize(num_slots);
  SetConstants(w.get());
  return w;
}

void RegionProgram::Release(std::unique_ptr<Workspace> w) {
  for (Tensor& t : w->slots)
    if (t.has_buffer()) t = Tensor();
  SetConstants(w.get());
  Workspace* none = nullptr;
  if (last_.compare_exchange_strong(none, w.get())) {
    (void)w.release();
    return;
  }
  std::lock_guard<std::mutex> lock(mu_);
  idle_.push_back(std::move(w));
}

}  // namespace sluice
