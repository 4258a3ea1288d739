#include "exec/batching/batch_stage.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "exec/core/kernel_runner.h"

namespace sluice {
namespace {

// Shared inputs of at most so many bytes are compared by value (axes, sizes).
constexpr size_t kComparedBytes = 64;
// The most groups of one node that wait at a time. Instances with yet another
// signature (each with its own weights, say) run at once.
constexpr size_t kMostGroups = 8;

// Whether both are the same elements: in the same place, or few and equal.
bool SameTensor(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  if (a.has_buffer() && a.buffer() == b.buffer() && a.raw() == b.raw())
    return true;
  return IsPlain(a.dtype()) && a.bytes() <= kComparedBytes &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// The held nodes of one step. See the header; ReadyStage says who uses it.
class BatchStage final : public ReadyStage {
 public:
  // `forms`: by place in Plan::nodes, null for nodes that are not held.
  BatchStage(const Plan& plan, std::vector<const BatchForm*> forms)
      : plan_(plan), forms_(std::move(forms)), groups_(forms_.size()) {}

  void Start(uint64_t seed) override {
    Clear();
    random_.seed(seed);
    shuffles_ = seed != 0;
  }

  bool Hold(Ready r) override {
    const auto at = static_cast<size_t>(r.node - plan_.nodes.data());
    const BatchForm& form = *forms_[at];
    int64_t elements = 0;
    for (uint32_t i = 0; i < r.node->num_inputs; ++i) {
      const Tensor& t = Input(r, i);
      if ((form.shared >> i & 1) != 0) continue;
      if (!IsPlain(t.dtype()) || t.num_elements() == 0) return false;
      elements += t.num_elements();
    }
    if ((r.node->flags & PlanNode::kExpensive) == 0 &&
        elements < FewestBatchedElements())
      return false;
    Group* const group = GroupFor(r, form, &groups_[at]);
    if (group == nullptr) return false;
    if (group->empty()) waiting_.push_back({at, group});
    group->push_back(r);
    return true;
  }

  bool empty() const override { return waiting_.empty(); }

  std::span<const Ready> Next() override {
    size_t best = 0;
    if (shuffles_) {
      best = random_() % waiting_.size();
    } else {
      for (size_t i = 1; i < waiting_.size(); ++i)
        if (RunsBefore(waiting_[i], waiting_[best])) best = i;
    }
    form_ = forms_[waiting_[best].node];
    running_.swap(*waiting_[best].group);
    waiting_[best].group->clear();
    waiting_[best] = waiting_.back();
    waiting_.pop_back();
    return running_;
  }

  Result<std::span<const Ready>> RunTogether(StepContext* step) override {
    const PlanNode& n = *running_[0].node;
    SortByMemory();
    std::vector<Tensor> inputs(n.num_inputs);
    for (uint32_t i = 0; i < n.num_inputs; ++i)
      inputs[i] = Input(running_[0], i);
    if (form_->accepts != nullptr && !form_->accepts(inputs))
      return Unimplemented("batch: not with these inputs");
    int rank = 0;  // To which the inputs are aligned for broadcasting.
    if (form_->broadcasts)
      for (const Tensor& t : inputs) rank = std::max(rank, t.rank());
    bool stacked = false;
    for (uint32_t i = 0; i < n.num_inputs; ++i) {
      if ((form_->shared >> i & 1) != 0) continue;
      if (form_->broadcasts && InputIsShared(i)) continue;
      SLUICE_ASSIGN_OR_RETURN(inputs[i], Stack(i, rank, step->allocator));
      stacked = true;
    }
    if (!stacked) return Unimplemented("batch: of instances that are equal");
    std::vector<Tensor> outputs(n.num_outputs);
    SLUICE_RETURN_IF_ERROR(
        KernelRunner::RunFor(step, n.run, n.state, *n.node, inputs, outputs));
    for (const Tensor& out : outputs)
      if (!out.valid() || out.rank() == 0 || out.dim(0) % count() != 0 ||
          (form_->axis == BatchForm::kNew && out.dim(0) != count()))
        return Unimplemented("batch: not with these outputs");
    for (uint32_t o = 0; o < n.num_outputs; ++o) HandOut(o, outputs[o]);
    return std::span<const Ready>(running_);
  }

  void Clear() override {
    for (const Waiting& w : waiting_) w.group->clear();
    waiting_.clear();
  }

 private:
  // Instances of one node whose inputs have the same shapes.
  using Group = std::vector<Ready>;
  struct Waiting {
    size_t node;  // In Plan::nodes.
    Group* group;
  };

  static const Tensor& InputAt(const Plan& plan, Ready r, uint32_t i) {
    const InputRef ref = plan.inputs[r.node->first_input + i];
    return r.iteration->tables[ref.table][ref.index];
  }
  const Tensor& Input(Ready r, uint32_t i) const {
    return InputAt(plan_, r, i);
  }
  int64_t count() const { return static_cast<int64_t>(running_.size()); }

  // Nodes of inner frames first, whose results outer ones wait for; they have
  // higher numbers. Within a frame in topological order.
  bool RunsBefore(const Waiting& a, const Waiting& b) const {
    if (a.node == b.node) return a.group->size() > b.group->size();
    const size_t frame_a = FrameOf(a), frame_b = FrameOf(b);
    return frame_a != frame_b ? frame_a > frame_b : a.node < b.node;
  }
  size_t FrameOf(const Waiting& w) const {
    const PlanFrame* const f = w.group->front().iteration->frame->plan;
    return static_cast<size_t>(f - plan_.frames.data());
  }

  // The group of the node's instances with these shapes, possibly empty; null
  // if too many wait.
  Group* GroupFor(Ready r, const BatchForm& form,
                  std::vector<std::unique_ptr<Group>>* groups) {
    Group* free = nullptr;
    for (const auto& g : *groups) {
      if (g->empty())
        free = g.get();
      else if (Fits(r, form, g->front()))
        return g.get();
    }
    if (free != nullptr || groups->size() == kMostGroups) return free;
    return groups->emplace_back(std::make_unique<Group>()).get();
  }

  bool Fits(Ready r, const BatchForm& form, Ready other) const {
    for (uint32_t i = 0; i < r.node->num_inputs; ++i) {
      const Tensor& a = Input(r, i);
      const Tensor& b = Input(other, i);
      if ((form.shared >> i & 1) != 0) {
        if (!SameTensor(a, b)) return false;
      } else if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) {
        return false;
      }
    }
    return true;
  }

  bool InputIsShared(uint32_t i) const {
    const Tensor& first = Input(running_[0], i);
    return std::all_of(running_.begin(), running_.end(),
                       [&](Ready r) { return SameTensor(first, Input(r, i)); });
  }

  // Orders the instances by the place of their first stacked input, so that
  // neighbours in memory are neighbours in the batch.
  void SortByMemory() {
    uint32_t i = 0;
    while (i < running_[0].node->num_inputs && (form_->shared >> i & 1) != 0)
      ++i;
    if (i == running_[0].node->num_inputs) return;
    places_.clear();
    for (const Ready r : running_) places_.push_back({Input(r, i).raw(), r});
    const auto before = [](const Place& a, const Place& b) {
      return std::less<>()(a.first, b.first);
    };
    if (std::is_sorted(places_.begin(), places_.end(), before)) return;
    std::sort(places_.begin(), places_.end(), before);
    for (size_t k = 0; k < places_.size(); ++k) running_[k] = places_[k].second;
  }

  // Input i of all instances as one tensor: a view if they lie one after the
  // other in one buffer.
  Result<Tensor> Stack(uint32_t i, int rank, Allocator* allocator) const {
    const Tensor& first = Input(running_[0], i);
    std::vector<int64_t> dims(first.shape().dims().begin(),
                              first.shape().dims().end());
    if (form_->axis == BatchForm::kNew) {
      if (form_->broadcasts)
        dims.insert(dims.begin(), static_cast<size_t>(rank - first.rank()), 1);
      dims.insert(dims.begin(), count());
    } else {
      if (dims.empty()) return Unimplemented("batch: no rows");
      dims[0] *= count();
    }
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    const size_t bytes = first.bytes();
    const char* next = static_cast<const char*>(first.raw());
    const bool in_a_row =
        first.has_buffer() &&
        std::all_of(running_.begin(), running_.end(), [&](Ready r) {
          const Tensor& t = Input(r, i);
          return t.buffer() == first.buffer() &&
                 t.raw() == std::exchange(next, next + bytes);
        });
    if (in_a_row) {
      first.buffer()->Ref();
      return Tensor::MakeView(first.dtype(), shape, first.buffer(),
                              const_cast<void*>(first.raw()));
    }
    SLUICE_ASSIGN_OR_RETURN(Tensor all,
                            Tensor::Make(first.dtype(), shape, allocator));
    char* to = static_cast<char*>(all.raw());
    for (const Ready r : running_) {
      std::memcpy(to, Input(r, i).raw(), bytes);
      to += bytes;
    }
    return all;
  }

  // Gives each instance its part of output `o`. (The parts of a buffer have
  // more than eight bytes, as Tensor requires: smaller ones are copied.)
  void HandOut(uint32_t o, const Tensor& all) const {
    std::vector<int64_t> dims(all.shape().dims().begin(),
                              all.shape().dims().end());
    if (form_->axis == BatchForm::kNew)
      dims.erase(dims.begin());
    else
      dims[0] /= count();
    const Shape shape{std::span<const int64_t>(dims)};
    const size_t bytes = all.bytes() / running_.size();
    const char* from = static_cast<const char*>(all.raw());
    for (const Ready r : running_) {
      Tensor& out = Tokens::OutputSlots(r)[o];
      if (bytes <= 8) {
        out = Tensor(all.dtype(), shape);
        std::memcpy(out.raw(), from, bytes);
      } else {
        all.buffer()->Ref();
        out = Tensor(all.dtype(), shape, all.buffer(), const_cast<char*>(from));
      }
      from += bytes;
    }
  }

  const Plan& plan_;
  const std::vector<const BatchForm*> forms_;
  std::vector<std::vector<std::unique_ptr<Group>>> groups_;  // By node.
  std::vector<Waiting> waiting_;                             // Not empty.
  Group running_;
  using Place = std::pair<const void*, Ready>;
  std::vector<Place> places_;        // Only used by SortByMemory.
  const BatchForm* form_ = nullptr;  // Of running_.
  bool shuffles_ = false;
  std::mt19937_64 random_;
};

// Owned by the plan, whose stages refer to the forms.
class BatchStageMaker final : public ReadyStageMaker {
 public:
  explicit BatchStageMaker(BatchForms forms) : forms_(std::move(forms)) {}

  bool Holds(const Node& node, const Kernel& /*kernel*/,
             bool /*in_root*/) override {
    return forms_.count(&node) != 0;
  }

  std::unique_ptr<ReadyStage> Make(const Plan& plan) const override {
    std::vector<const BatchForm*> forms(plan.nodes.size());
    for (size_t i = 0; i < forms.size(); ++i)
      if (const auto it = forms_.find(plan.nodes[i].node); it != forms_.end())
        forms[i] = &it->second;
    return std::make_unique<BatchStage>(plan, std::move(forms));
  }

 private:
  const BatchForms forms_;
};

}  // namespace

std::unique_ptr<ReadyStageMaker> MakeBatching(BatchForms forms) {
  return std::make_unique<BatchStageMaker>(std::move(forms));
}

}  // namespace sluice
