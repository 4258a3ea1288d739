#include "client/nn/adam_optimizers.h"

#include <algorithm>

#include "client/operators.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// The order of Adam's numbers.
enum AdamNumber : uint8_t { kRate, kBeta1, kBeta2, kEpsilon };

}  // namespace

void AdamOptimizer::CreateNonSlots(const Var& first) {
  MakeNonSlot("beta1_power", numbers()[kBeta1].second, first);
  MakeNonSlot("beta2_power", numbers()[kBeta2].second, first);
}

void AdamOptimizer::CreateSlots(const Var& var) {
  MakeSlot(var, "m", 0);
  MakeSlot(var, "v", 0);
}

Output AdamOptimizer::Values::CorrectedRate() const {
  return learning_rate * ops::Sqrt(1 - power2) / (1 - power1);
}

AdamOptimizer::Values AdamOptimizer::ValuesFor(const Var& var) const {
  const DType t = var.dtype();
  const auto power = [&](const char* name) {
    const Var p = GetNonSlot(name);
    if (!p.valid()) return Output();
    return As(p.is_reference() ? p.value() : p.Read({}), t);
  };
  return {power("beta1_power"), power("beta2_power"), Number(kRate, t),
          Number(kBeta1, t),    Number(kBeta2, t),    Number(kEpsilon, t)};
}

bool AdamOptimizer::AcceptsRepeatedIndices() const {
  return rows_ == AdamRows::kAll || rows_ == AdamRows::kLazy;
}

Node* AdamOptimizer::ApplyDense(Output grad, const Var& var) {
  const Values a = ValuesFor(var);
  return UpdateOp(
      "ApplyAdam", var,
      {var.handle(), GetSlot(var, "m").handle(), GetSlot(var, "v").handle(),
       a.power1, a.power2, a.learning_rate, a.beta1, a.beta2, a.epsilon, grad},
      {{"use_nesterov", nesterov_}});
}

std::pair<Output, Node*> AdamOptimizer::DecayedAndAdded(const Var& slot,
                                                        Output decay,
                                                        Output rows,
                                                        Output indices) const {
  Node* kept = slot.Assign(slot * decay, {});
  if (kept == nullptr) return {CurrentGraph().Failure(), nullptr};
  const ControlDependencies after({kept});
  Node* added = ScatterAdd(slot, indices, rows);
  if (added == nullptr) return {CurrentGraph().Failure(), nullptr};
  const ControlDependencies all({added});
  return {slot.Read({}), added};
}

Node* AdamOptimizer::ApplySparse(const Gradient& grad, const Var& var) {
  const Values a = ValuesFor(var);
  const Var m_slot = GetSlot(var, "m"), v_slot = GetSlot(var, "v");
  if (AdamOptimizer::AcceptsRepeatedIndices())
    return UpdateOp(
        "SparseApplyAdam", var,
        {var.handle(), m_slot.handle(), v_slot.handle(), a.power1, a.power2,
         a.learning_rate, a.beta1, a.beta2, a.epsilon, grad.values,
         grad.indices},
        {{"use_nesterov", nesterov_}, {"lazy", rows_ == AdamRows::kLazy}});
  const Output g = grad.values;
  if (rows_ == AdamRows::kLazyByTensorFlowOps) {
    const Output m =
        a.beta1 * GatherRows(m_slot, grad.indices) + (1 - a.beta1) * g;
    const Output v =
        a.beta2 * GatherRows(v_slot, grad.indices) + (1 - a.beta2) * (g * g);
    const Output ahead = nesterov_ ? a.beta1 * m + (1 - a.beta1) * g : m;
    const std::vector<Node*> updates = {
        ScatterSub(var, grad.indices,
                   a.CorrectedRate() * ahead / (ops::Sqrt(v) + a.epsilon)),
        ScatterUpdate(m_slot, grad.indices, m),
        ScatterUpdate(v_slot, grad.indices, v)};
    if (std::count(updates.begin(), updates.end(), nullptr) > 0) return nullptr;
    return Group(updates, "group", {});
  }
  const auto [m, m_added] =
      DecayedAndAdded(m_slot, a.beta1, g * (1 - a.beta1), grad.indices);
  const auto [v, v_added] =
      DecayedAndAdded(v_slot, a.beta2, g * g * (1 - a.beta2), grad.indices);
  if (rows_ == AdamRows::kMomentsOfAll) {
    const auto rows_of = [&](const Output& moment) {
      return ops::GatherV2(moment, grad.indices, 0);
    };
    const Output ahead =
        nesterov_ ? (1 - a.beta1) * g + a.beta1 * rows_of(m) : rows_of(m);
    Node* const moved = ScatterSub(
        var, grad.indices,
        a.CorrectedRate() * ahead / (ops::Sqrt(rows_of(v)) + a.epsilon));
    if (moved == nullptr || m_added == nullptr || v_added == nullptr)
      return nullptr;
    return Group({moved, m_added, v_added}, "group", {});
  }
  const Output root = ops::Sqrt(v) + a.epsilon;
  Node* step = nullptr;
  if (!nesterov_) {
    step = var.AssignSub(a.CorrectedRate() * m / root, {});
  } else {
    // Rows without a gradient look ahead too.
    const Output ahead = ops::TensorScatterAdd(
        a.beta1 * m, ops::ExpandDims(grad.indices, -1), (1 - a.beta1) * g);
    step = var.AssignSub(a.CorrectedRate() * ahead / root, {});
  }
  if (step == nullptr || m_added == nullptr || v_added == nullptr)
    return nullptr;
  return Group({step, m_added, v_added}, "group", {});
}

std::vector<Node*> AdamOptimizer::Finish() {
  std::vector<Node*> updates;
  for (const auto& [name, beta] :
       {std::pair("beta1_power", kBeta1), std::pair("beta2_power", kBeta2)}) {
    const Var power = GetNonSlot(name);
    if (!power.valid()) continue;
    const ColocateWith same_device(power.handle().node);
    updates.push_back(power.Assign(power * Number(beta, power.dtype()), {}));
  }
  return updates;
}

// ---- AMSGrad ----------------------------------------------------------------

void AmsGradOptimizer::CreateSlots(const Var& var) {
  for (const std::string& slot : SlotNames()) MakeSlot(var, slot, 0);
}

Node* AmsGradOptimizer::Step(const Var& var, Output m, Output v) const {
  const Values a = ValuesFor(var);
  const Var vhat = GetSlot(var, "vhat");
  const Output largest = ops::Maximum(vhat, v);
  Node* kept = vhat.Assign(largest, {});
  Node* step = var.AssignSub(
      a.CorrectedRate() * m / (ops::Sqrt(largest) + a.epsilon), {});
  if (kept == nullptr || step == nullptr) return nullptr;
  return Group({kept, step}, "group", {});
}

Node* AmsGradOptimizer::ApplyDense(Output grad, const Var& var) {
  const Values a = ValuesFor(var);
  const Var m_slot = GetSlot(var, "m"), v_slot = GetSlot(var, "v");
  if (!var.is_reference())
    return UpdateOp("ApplyAdamWithAmsgrad", var,
                    {var.handle(), m_slot.handle(), v_slot.handle(),
                     GetSlot(var, "vhat").handle(), a.power1, a.power2,
                     a.learning_rate, a.beta1, a.beta2, a.epsilon, grad});
  // (The op has no form with references.)
  const Output m = a.beta1 * m_slot + (1 - a.beta1) * grad;
  const Output v = a.beta2 * v_slot + (1 - a.beta2) * grad * grad;
  Node* m_kept = m_slot.Assign(m, {});
  Node* v_kept = v_slot.Assign(v, {});
  Node* step = Step(var, m, v);
  if (m_kept == nullptr || v_kept == nullptr || step == nullptr) return nullptr;
  return Group({m_kept, v_kept, step}, "group", {});
}

Node* AmsGradOptimizer::ApplySparse(const Gradient& grad, const Var& var) {
  const Values a = ValuesFor(var);
  const Output g = grad.values;
  const auto [m, m_added] = DecayedAndAdded(GetSlot(var, "m"), a.beta1,
                                            g * (1 - a.beta1), grad.indices);
  const auto [v, v_added] = DecayedAndAdded(
      GetSlot(var, "v"), a.beta2, g * g * (1 - a.beta2), grad.indices);
  Node* step = Step(var, m, v);
  if (m_added == nullptr || v_added == nullptr || step == nullptr)
    return nullptr;
  return Group({m_added, v_added, step}, "group", {});
}

// ---- AdaMax -----------------------------------------------------------------

void AdaMaxOptimizer::CreateNonSlots(const Var& first) {
  MakeNonSlot("beta1_power", numbers()[kBeta1].second, first);
}

Node* AdaMaxOptimizer::ApplyDense(Output grad, const Var& var) {
  const Values a = ValuesFor(var);
  return UpdateOp(
      "ApplyAdaMax", var,
      {var.handle(), GetSlot(var, "m").handle(), GetSlot(var, "v").handle(),
       a.power1, a.learning_rate, a.beta1, a.beta2, a.epsilon, grad});
}

Node* AdaMaxOptimizer::ApplySparse(const Gradient& grad, const Var& var) {
  const Values a = ValuesFor(var);
  const Var m_slot = GetSlot(var, "m"), v_slot = GetSlot(var, "v");
  const Output m =
      a.beta1 * GatherRows(m_slot, grad.indices) + (1 - a.beta1) * grad.values;
  const Output v = ops::Maximum(a.beta2 * GatherRows(v_slot, grad.indices),
                                ops::Abs(grad.values));
  const Output step = a.learning_rate / (1 - a.power1) * (m / (v + a.epsilon));
  const std::vector<Node*> updates = {ScatterSub(var, grad.indices, step),
                                      ScatterUpdate(m_slot, grad.indices, m),
                                      ScatterUpdate(v_slot, grad.indices, v)};
  if (std::count(updates.begin(), updates.end(), nullptr) > 0) return nullptr;
  return Group(updates, "group", {});
}

// ---- AdamW ------------------------------------------------------------------

void AdamWOptimizer::Prepare() {
  part_ = Hyperparameter(weight_decay_, "weight_decay");
  AdamOptimizer::Prepare();
}

bool AdamWOptimizer::Decays(const Var& var) const {
  return decayed_.empty() ||
         std::any_of(decayed_.begin(), decayed_.end(),
                     [&](const Var& v) { return v.SameAs(var); });
}

Node* AdamWOptimizer::ApplyDense(Output grad, const Var& var) {
  if (!Decays(var)) return AdamOptimizer::ApplyDense(grad, var);
  Node* lost = Decay(var, part_, {});
  if (lost == nullptr) return nullptr;
  const ControlDependencies decayed({lost});
  return AdamOptimizer::ApplyDense(grad, var);
}

Node* AdamWOptimizer::ApplySparse(const Gradient& grad, const Var& var) {
  if (!Decays(var)) return AdamOptimizer::ApplySparse(grad, var);
  Node* lost = Decay(var, part_, grad.indices);
  if (lost == nullptr) return nullptr;
  const ControlDependencies decayed({lost});
  return AdamOptimizer::ApplySparse(grad, var);
}

}  // namespace sluice
