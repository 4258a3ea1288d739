#include "exec/batching/batch_program.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/without_throwing.h"
#include "exec/core/checked_kernel.h"
#include "exec/core/error_attribution.h"
#include "exec/core/kernel_runner.h"
#include "exec/fusion/block_form.h"

namespace sluice {
namespace {

BatchProgram::Call CallOf(const Node& n, std::shared_ptr<Kernel> kernel,
                          const BatchForm* form) {
  BatchProgram::Call call;
  call.node = &n;
  call.num_outputs = static_cast<uint32_t>(n.num_outputs());
  call.object = FindObjectForm(n);
  if (call.object.kernel == nullptr && form != nullptr) {
    call.form = *form;
    const std::optional<BlockForm> block = FindBlockForm(n, *kernel);
    call.in_place = block && !block->may_fail;
  }
  call.checked = &Unchecked(*kernel) != kernel.get();
  call.kernel = std::move(kernel);
  return call;
}

// Says what the instances must have in common, and who reads a value last.
void Finish(BatchProgram* p) {
  std::vector<bool> read(p->num_values);
  p->objects.resize(p->num_inputs());
  for (const uint32_t v : p->outputs) read[v] = true;
  for (auto call = p->calls.rbegin(); call != p->calls.rend(); ++call) {
    call->last_read.resize(call->operands.size());
    for (size_t i = call->operands.size(); i-- > 0;) {
      const uint32_t v = call->operands[i];
      call->last_read[i] = !read[v];
      read[v] = true;
      if (v >= p->num_inputs()) continue;
      BatchProgram::InputUse& use = p->inputs[v];
      if (i == 0 && call->object.fits != nullptr) {
        use = std::max(use, BatchProgram::InputUse::kObject);
        p->objects[v] = call->object;
      }
      if (!call->form) continue;
      use = std::max(use, (call->form->shared >> i & 1) != 0
                              ? BatchProgram::InputUse::kValue
                              : BatchProgram::InputUse::kShape);
    }
  }
}

// The shape with `first` as a new dimension 0, after which there are ones up to
// `rank` further dimensions.
Result<Shape> WithFirst(size_t first, std::span<const int64_t> dims,
                        int rank = 0) {
  Dims all(1 + std::max(static_cast<size_t>(rank), dims.size()) - dims.size(),
           1);
  all[0] = static_cast<int64_t>(first);
  all.insert(all.end(), dims.begin(), dims.end());
  return Shape::Make(all);
}

// Whether a result of one instance is what the node declares.
bool IsDeclared(const Node& n, uint32_t output, DType dtype, const Dims& dims) {
  const auto o = static_cast<int>(output);
  return dtype == n.output_type(o) &&
         n.output_shape(o).CompatibleWith(PartialShape(dims));
}

}  // namespace

std::shared_ptr<const BatchProgram> ProgramOf(const Node& node,
                                              std::shared_ptr<Kernel> kernel,
                                              const BatchForm& form) {
  auto p = std::make_shared<BatchProgram>();
  BatchProgram::Call call = CallOf(node, std::move(kernel), &form);
  const auto inputs = static_cast<uint32_t>(node.num_inputs());
  p->inputs.resize(inputs);
  for (uint32_t i = 0; i < inputs; ++i) call.operands.push_back(i);
  call.first_output = inputs;
  for (uint32_t o = 0; o < call.num_outputs; ++o)
    p->outputs.push_back(inputs + o);
  p->num_values = inputs + call.num_outputs;
  p->calls.push_back(std::move(call));
  Finish(p.get());
  return p;
}

std::shared_ptr<const BatchProgram> ProgramOf(const HeldRegion& region,
                                              const BatchForms& forms) {
  auto p = std::make_shared<BatchProgram>();
  OutputMap<uint32_t> numbers;
  for (const Output& in : region.compiled.inputs) numbers[in] = p->num_values++;
  p->inputs.resize(region.compiled.inputs.size());
  // (All constants come before the outputs of the calls.)
  for (const CompiledRegion::Part& part : region.compiled.parts)
    for (const Output& o : part.operands)
      if (o.node->op().role == OpRole::kConst &&
          numbers.try_emplace(o, p->num_values).second) {
        p->constants.push_back(o.node->AttrOr<Tensor>("value", Tensor()));
        ++p->num_values;
      }
  for (const CompiledRegion::Part& part : region.compiled.parts) {
    const auto form = forms.find(part.node);
    BatchProgram::Call call = CallOf(
        *part.node, part.kernel, form == forms.end() ? nullptr : &form->second);
    for (const Output& o : part.operands)
      call.operands.push_back(numbers.at(o));
    call.first_output = p->num_values;
    for (uint32_t o = 0; o < call.num_outputs; ++o)
      numbers[Output(const_cast<Node*>(part.node), static_cast<int>(o))] =
          p->num_values++;
    p->calls.push_back(std::move(call));
  }
  for (const Output& o : region.compiled.outputs)
    p->outputs.push_back(numbers.at(o));
  Finish(p.get());
  return p;
}

// ---- Running ----------------------------------------------------------------

void BatchRun::Load(const BatchProgram& program,
                    std::span<const Ready> instances) {
  program_ = &program;
  instances_ = instances;
  if (values_.size() < program.num_values) values_.resize(program.num_values);
  for (uint32_t i = 0; i < program_->num_inputs(); ++i) LoadInput(i);
  for (uint32_t c = 0; c < program_->constants.size(); ++c) {
    BatchValue& v = values_[program_->num_inputs() + c];
    v.shared = program_->constants[c];
    v.is_shared = true;
  }
}

Status BatchRun::Run(StepContext* step, size_t* failed) {
  step_ = step;
  Status s = Execute(failed);
  if (s.ok()) HandOut();
  Clear();
  return s;
}

void BatchRun::Clear() {
  for (BatchValue& v : values_) v.Clear();
}

// Input i, moved if the instance is its last reader.
Tensor BatchRun::TakeInput(Ready r, uint32_t i) const {
  const InputRef ref = plan_.inputs[r.node->first_input + i];
  Tensor& t = r.iteration->tables[ref.table][ref.index];
  if (ref.table != InputRef::kIteration || !t.has_buffer() ||
      r.iteration->uses[ref.index] != 1)
    return t;
  --r.iteration->held;
  return std::move(t);
}

bool BatchRun::IsSharedInput(uint32_t i) const {
  const Tensor& first = Input(instances_[0], i);
  return std::all_of(instances_.begin() + 1, instances_.end(),
                     [&](Ready r) { return SameTensor(first, Input(r, i)); });
}

// Inputs that are stacked are read when they are needed.
void BatchRun::LoadInput(uint32_t i) {
  const BatchProgram::InputUse use = program_->inputs[i];
  BatchValue& v = values_[i];
  if (use <= BatchProgram::InputUse::kObject) {
    v.each.reserve(count());
    for (const Ready r : instances_) v.each.push_back(TakeInput(r, i));
    v.is_each = true;
  } else if (use == BatchProgram::InputUse::kValue || IsSharedInput(i)) {
    v.shared = Input(instances_[0], i);
    v.is_shared = true;
  }
}

Status BatchRun::Execute(size_t* failed) {
  ran_together_ = true;
  for (const BatchProgram::Call& call : program_->calls) {
    const bool together =
        (call.form || call.object.kernel != nullptr) && RunTogether(call).ok();
    ran_together_ = ran_together_ && (together || !call.form);
    if (!together) {
      Status s = RunEach(call, failed);
      if (!s.ok()) return AttributedTo(std::move(s), call.node->Describe());
    }
    for (size_t i = 0; i < call.operands.size(); ++i)
      if (call.last_read[i]) values_[call.operands[i]].Clear();
  }
  return OkStatus();
}

// ---- Forms of values --------------------------------------------------------

void BatchRun::MakeEach(uint32_t value) {
  BatchValue& v = values_[value];
  if (v.is_each || v.is_shared) return;
  v.each.reserve(count());
  if (value < program_->num_inputs()) {
    for (const Ready r : instances_) v.each.push_back(Input(r, value));
  } else {
    const PartsOf parts(v.stacked);
    for (size_t i = 0; i < count(); ++i) v.each.push_back(parts[i]);
  }
  v.is_each = true;
}

Status BatchRun::MakeStacked(uint32_t value) {
  BatchValue& v = values_[value];
  if (v.is_stacked) return OkStatus();
  if (v.is_shared) {
    SLUICE_ASSIGN_OR_RETURN(
        v.stacked, Stack([&](size_t) -> const Tensor& { return v.shared; }));
  } else if (v.is_each) {
    SLUICE_ASSIGN_OR_RETURN(
        v.stacked, Stack([&](size_t i) -> const Tensor& { return v.each[i]; }));
  } else {
    SLUICE_ASSIGN_OR_RETURN(v.stacked, Stack([&](size_t i) -> const Tensor& {
                              return Input(instances_[i], value);
                            }));
  }
  v.is_stacked = true;
  return OkStatus();
}

// The tensors at(i) of all instances as one: a view if they lie one after the
// other in one buffer.
template <typename At>
Result<Tensor> BatchRun::Stack(const At& at) const {
  const Tensor& first = at(0);
  if (!IsPlain(first.dtype()))
    return Unimplemented("batch: not with this type");
  const size_t bytes = first.bytes();
  const char* next = static_cast<const char*>(first.raw());
  bool in_a_row = first.has_buffer();
  for (size_t i = 0; i < count(); ++i) {
    const Tensor& t = at(i);
    if (t.dtype() != first.dtype() || !(t.shape() == first.shape()))
      return Unimplemented("batch: not with these shapes");
    in_a_row = in_a_row && t.buffer() == first.buffer() && t.raw() == next;
    next += bytes;
  }
  SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                          WithFirst(count(), first.shape().dims()));
  if (in_a_row) {
    first.buffer()->Ref();
    return Tensor::MakeView(first.dtype(), shape, first.buffer(),
                            const_cast<void*>(first.raw()));
  }
  SLUICE_ASSIGN_OR_RETURN(Tensor all,
                          Tensor::Make(first.dtype(), shape, step_->allocator));
  if (bytes == 0) return all;
  char* to = static_cast<char*>(all.raw());
  for (size_t i = 0; i < count(); ++i, to += bytes)
    std::memcpy(to, at(i).raw(), bytes);
  return all;
}

// ---- Calls ------------------------------------------------------------------

// Runs the kernel once. An error says only that this cannot be done: then the
// operands are as before, and RunEach finds the error, if there is one.
Status BatchRun::RunTogether(const BatchProgram::Call& call) {
  return call.object.kernel != nullptr ? RunForAll(call) : RunStacked(call);
}

Status BatchRun::RunForAll(const BatchProgram::Call& call) {
  std::vector<BatchValue*> inputs;
  for (const uint32_t v : call.operands) {
    BatchValue& value = values_[v];
    if (!value.is_shared && !value.is_stacked && !value.is_each &&
        !MakeStacked(v).ok())
      MakeEach(v);
    inputs.push_back(&value);
  }
  BatchCall all{*call.node,
                *call.kernel,
                count(),
                step_->allocator,
                inputs,
                call.last_read,
                {values_.data() + call.first_output, call.num_outputs}};
  Status s = call.object.kernel(all);
  for (BatchValue& v : all.outputs)
    if (!s.ok()) v.Clear();
  return s;
}

Status BatchRun::RunStacked(const BatchProgram::Call& call) {
  Status s = GatherOperands(call);
  if (s.ok()) {
    // (A kernel that fails has not taken any inputs if it works in place.)
    if (call.in_place && !shares_result_) DropLastReads(call);
    out_.resize(call.num_outputs +
                1);  // (A user's kernel may set another one.)
    s = WithoutThrowing("kernel", [&] {
      return KernelRunner::Repeated(step_, Unchecked(*call.kernel), *call.node,
                                    in_.size())
          .Run(in_, std::span(out_).first(call.num_outputs));
    });
    if (s.ok()) s = KeepOutputs(call);
    if (!s.ok() && call.in_place && !shares_result_) RestoreLastReads(call);
  }
  for (Tensor& t : in_) t = Tensor();
  for (Tensor& t : out_) t = Tensor();
  return s;
}

// Whether the value is the same in all instances.
bool BatchRun::IsShared(BatchValue* v) {
  if (v->is_shared || !v->is_each) return v->is_shared;
  for (const Tensor& t : v->each)
    if (!SameTensor(t, v->each[0])) return false;
  v->shared = v->each[0];
  return v->is_shared = true;
}

// Fills in_ for one run for all instances.
Status BatchRun::GatherOperands(const BatchProgram::Call& call) {
  const BatchForm& form = *call.form;
  const size_t n = call.operands.size();
  in_.resize(n);
  shares_result_ = true;
  for (size_t i = 0; i < n; ++i)
    shares_result_ = shares_result_ && values_[call.operands[i]].is_shared;
  const auto is_whole = [&](size_t i) {  // Not stacked.
    return shares_result_ || (form.shared >> i & 1) != 0 ||
           (form.broadcasts && values_[call.operands[i]].is_shared);
  };
  int rank = 0;  // To which the stacked operands are aligned.
  for (size_t i = 0; i < n; ++i) {
    BatchValue& v = values_[call.operands[i]];
    if (is_whole(i)) {
      if (!IsShared(&v)) return Unimplemented("batch: not with these values");
      in_[i] = v.shared;
    } else {
      SLUICE_RETURN_IF_ERROR(MakeStacked(call.operands[i]));
      in_[i] = v.stacked;
    }
    rank = std::max(rank, in_[i].rank() - (is_whole(i) ? 0 : 1));
  }
  if (shares_result_) return OkStatus();
  if (form.accepts != nullptr) {
    first_.resize(n);
    for (size_t i = 0; i < n; ++i)
      first_[i] = is_whole(i) ? in_[i] : PartsOf(in_[i])[0];
    const bool accepted = form.accepts(first_);
    for (size_t i = 0; i < n; ++i) {
      if (accepted && is_whole(i)) in_[i] = std::move(first_[i]);
      first_[i] = Tensor();
    }
    if (!accepted) return Unimplemented("batch: not with these inputs");
  }
  for (size_t i = 0; i < n; ++i) {
    if (is_whole(i)) continue;
    const std::span<const int64_t> dims = in_[i].shape().dims().subspan(1);
    Result<Shape> shape = in_[i].shape();
    if (form.axis == BatchForm::kRows) {
      if (dims.empty()) return Unimplemented("batch: no rows");
      Dims rows(dims.begin(), dims.end());
      rows[0] *= static_cast<int64_t>(count());
      shape = Shape::Make(rows);
    } else if (form.broadcasts) {
      shape = WithFirst(count(), dims, rank);
    }
    SLUICE_RETURN_IF_ERROR(shape.status());
    if (*shape == in_[i].shape()) continue;
    SLUICE_ASSIGN_OR_RETURN(in_[i], in_[i].Reshaped(*shape));
  }
  return OkStatus();
}

// Leaves in_ as the only owner of what nobody else reads.
void BatchRun::DropLastReads(const BatchProgram::Call& call) {
  dropped_.clear();
  for (size_t i = 0; i < call.operands.size(); ++i) {
    BatchValue& v = values_[call.operands[i]];
    if (!call.last_read[i] || !v.is_stacked) continue;
    dropped_.push_back({i, v.stacked.shape()});
    v.Clear();
  }
}

void BatchRun::RestoreLastReads(const BatchProgram::Call& call) {
  for (const auto& [i, shape] : dropped_) {
    Result<Tensor> stacked = in_[i].Reshaped(shape);
    if (!stacked.ok()) continue;
    BatchValue& v = values_[call.operands[i]];
    v.stacked = *std::move(stacked);
    v.is_stacked = true;
  }
}

// Makes the kernel's outputs the values.
Status BatchRun::KeepOutputs(const BatchProgram::Call& call) {
  const auto k = static_cast<int64_t>(count());
  const bool has_rows = call.form->axis == BatchForm::kRows;
  for (uint32_t o = 0; o < call.num_outputs; ++o) {
    Tensor& t = out_[o];
    if (!t.valid()) return Unimplemented("batch: not with these outputs");
    Dims dims(t.shape().dims().begin(), t.shape().dims().end());
    if (!shares_result_) {
      if (dims.empty() || dims[0] % k != 0 || (!has_rows && dims[0] != k))
        return Unimplemented("batch: not with these outputs");
      if (has_rows)
        dims[0] /= k;
      else
        dims.erase(dims.begin());
    }
    if (call.checked && !IsDeclared(*call.node, o, t.dtype(), dims))
      return Unimplemented("batch: not with these outputs");
    if (shares_result_ || !has_rows) continue;
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, WithFirst(count(), dims));
    SLUICE_ASSIGN_OR_RETURN(t, t.Reshaped(shape));
  }
  if (out_[call.num_outputs].valid())
    return Unimplemented("batch: not with more outputs");
  for (uint32_t o = 0; o < call.num_outputs; ++o) {
    BatchValue& v = values_[call.first_output + o];
    (shares_result_ ? v.shared : v.stacked) = std::move(out_[o]);
    (shares_result_ ? v.is_shared : v.is_stacked) = true;
  }
  return OkStatus();
}

// Runs the kernel for each instance, which may take over what it reads last.
Status BatchRun::RunEach(const BatchProgram::Call& call, size_t* failed) {
  const size_t n = call.operands.size();
  in_.resize(n);
  out_.resize(call.num_outputs);
  std::vector<bool> kept(n);
  for (size_t i = 0; i < n; ++i) {
    const BatchValue& v = values_[call.operands[i]];
    if (v.is_shared) {
      kept[i] = true;
      in_[i] = v.shared;
    } else {
      MakeEach(call.operands[i]);
    }
  }
  for (uint32_t o = 0; o < call.num_outputs; ++o) {
    BatchValue& v = values_[call.first_output + o];
    v.each.reserve(count());
    v.is_each = true;
  }
  KernelRunner::Repeated kernel(step_, *call.kernel, *call.node, kept);
  Status s;
  for (size_t k = 0; k < count() && s.ok(); ++k) {
    for (size_t i = 0; i < n; ++i) {
      if (kept[i]) continue;
      Tensor& t = values_[call.operands[i]].each[k];
      if (call.last_read[i])
        in_[i] = std::move(t);
      else
        in_[i] = t;
    }
    s = kernel.Run(in_, out_);
    if (!s.ok()) *failed = k;
    for (uint32_t o = 0; o < call.num_outputs; ++o)
      values_[call.first_output + o].each.push_back(
          std::exchange(out_[o], Tensor()));
  }
  for (Tensor& t : in_) t = Tensor();
  return s;
}

// Fills the output slots.
void BatchRun::HandOut() {
  const std::vector<uint32_t>& outputs = program_->outputs;
  for (size_t o = 0; o < outputs.size(); ++o) {
    BatchValue& v = values_[outputs[o]];
    if (!v.is_stacked) MakeEach(outputs[o]);  // (Of an input that is one.)
    const bool again =
        std::find(outputs.begin() + static_cast<std::ptrdiff_t>(o) + 1,
                  outputs.end(), outputs[o]) != outputs.end();
    if (v.is_each) {
      for (size_t i = 0; i < count(); ++i) {
        Tensor& to = Tokens::OutputSlots(instances_[i])[o];
        if (again)
          to = v.each[i];
        else
          to = std::move(v.each[i]);
      }
    } else if (v.is_shared) {
      for (const Ready r : instances_) Tokens::OutputSlots(r)[o] = v.shared;
    } else {
      const PartsOf parts(v.stacked);
      for (size_t i = 0; i < count(); ++i)
        Tokens::OutputSlots(instances_[i])[o] = parts[i];
    }
  }
}

}  // namespace sluice
