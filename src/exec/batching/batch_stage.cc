#include "exec/batching/batch_stage.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "base/helper_threads.h"
#include "base/parallel.h"

namespace sluice {
namespace {

// The most groups of one node that wait at a time. Instances with yet another
// signature (each with its own weights, say) run at once.
constexpr size_t kMostGroups = 8;
// The instances of a region are divided over threads from twice so many on, and
// into more parts than threads if each has as many as kManyPerPart.
constexpr int64_t kFewestPerThread = 16, kManyPerPart = 32;

// The held nodes of one step. See the header; ReadyStage says who uses it.
class BatchStage final : public ReadyStage {
 public:
  // `programs`: by place in Plan::nodes, null for nodes that are not held.
  BatchStage(const Plan& plan, std::vector<const BatchProgram*> programs)
      : plan_(plan),
        programs_(std::move(programs)),
        groups_(programs_.size()) {}

  void Start(uint64_t seed) override {
    Clear();
    random_.seed(seed);
    shuffles_ = seed != 0;
  }

  bool Hold(Ready r) override {
    const auto at = static_cast<size_t>(r.node - plan_.nodes.data());
    const BatchProgram& program = *programs_[at];
    int64_t elements = 0;
    for (uint32_t i = 0; i < r.node->num_inputs; ++i) {
      // (What is known of an object: its values were worth a batch.)
      if (program.inputs[i] == BatchProgram::InputUse::kObject)
        elements += FewestBatchedElements();
      if (program.inputs[i] != BatchProgram::InputUse::kShape) continue;
      const Tensor& t = Input(r, i);
      if (!IsPlain(t.dtype()) || t.num_elements() == 0) return false;
      elements += t.num_elements();
    }
    if ((r.node->flags & PlanNode::kExpensive) == 0 &&
        elements * static_cast<int64_t>(program.calls.size()) <
            FewestBatchedElements())
      return false;
    Group* const group = GroupFor(r, program, &groups_[at]);
    if (group == nullptr) return false;
    if (group->empty()) waiting_.push_back({at, group});
    group->push_back(r);
    return true;
  }

  bool empty() const override { return waiting_.empty() && !running(); }
  bool running() const override { return !in_flight_.empty(); }

  std::span<const Ready> Next() override {
    size_t best = 0;
    if (shuffles_) {
      best = random_() % waiting_.size();
    } else {
      for (size_t i = 1; i < waiting_.size(); ++i)
        if (RunsBefore(waiting_[i], waiting_[best])) best = i;
    }
    program_ = programs_[waiting_[best].node];
    group_.swap(*waiting_[best].group);
    waiting_[best].group->clear();
    waiting_[best] = waiting_.back();
    waiting_.pop_back();
    return group_;
  }

  // With several threads, the next part that is done.
  Result<std::span<const Ready>> RunTogether(StepContext* step) override {
    if (!running()) {
      SortByMemory();
      Divide();
      if (parts_.size() == 1) {
        RunPart(0, step);
        return Ran(0);
      }
      in_flight_.Start(static_cast<int>(parts_.size()), IntraOpThreads() - 1,
                       [this, step](int p) {
                         const ScopedIntraOpThreads of_kernels(1);
                         RunPart(static_cast<size_t>(p), step);
                       });
    }
    return Ran(static_cast<size_t>(in_flight_.Next()));
  }
  Ready failed() const override { return failed_; }
  bool OfOneNode() const override {
    return std::all_of(
        runs_.begin(),
        runs_.begin() + static_cast<std::ptrdiff_t>(parts_.size()),
        [](const auto& run) { return run->ran_together(); });
  }

  void Clear() override {
    in_flight_.Drop();
    for (const auto& run : runs_) run->Clear();
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
  int64_t count() const { return static_cast<int64_t>(group_.size()); }

  // Divides the group over the threads, and loads each part. There are more
  // parts than threads if they are not small: while others run, the driver
  // passes on the tokens of those that are done.
  void Divide() {
    const int threads = IntraOpThreads();
    int64_t parts = 1;
    if (threads > 1 &&
        program_->calls.size() > 1)  // (A kernel divides itself.)
      parts =
          std::max(std::min<int64_t>(threads, (count() + kFewestPerThread - 1) /
                                                  kFewestPerThread),
                   std::min<int64_t>(2 * threads, count() / kManyPerPart));
    parts_.assign(static_cast<size_t>(parts), Part());
    while (runs_.size() < parts_.size())
      runs_.push_back(std::make_unique<BatchRun>(plan_));
    for (size_t p = 0; p < parts_.size(); ++p) {
      const auto begin = count() * static_cast<int64_t>(p) / parts;
      const auto end = count() * static_cast<int64_t>(p + 1) / parts;
      parts_[p].instances = std::span<const Ready>(group_).subspan(
          static_cast<size_t>(begin), static_cast<size_t>(end - begin));
      runs_[p]->Load(*program_, parts_[p].instances);
    }
  }

  void RunPart(size_t p, StepContext* step) {
    parts_[p].status = runs_[p]->Run(step, &parts_[p].failed);
  }

  Result<std::span<const Ready>> Ran(size_t p) {
    const Part& part = parts_[p];
    if (part.status.ok()) return part.instances;
    failed_ = part.instances[part.failed];
    return part.status;
  }

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
  Group* GroupFor(Ready r, const BatchProgram& program,
                  std::vector<std::unique_ptr<Group>>* groups) {
    Group* free = nullptr;
    for (const auto& g : *groups) {
      if (g->empty())
        free = g.get();
      else if (Fits(r, program, g->front()))
        return g.get();
    }
    if (free != nullptr || groups->size() == kMostGroups) return free;
    return groups->emplace_back(std::make_unique<Group>()).get();
  }

  bool Fits(Ready r, const BatchProgram& program, Ready other) const {
    for (uint32_t i = 0; i < r.node->num_inputs; ++i) {
      const BatchProgram::InputUse use = program.inputs[i];
      if (use == BatchProgram::InputUse::kNothing) continue;
      const Tensor& a = Input(r, i);
      const Tensor& b = Input(other, i);
      const bool fits = use == BatchProgram::InputUse::kObject
                            ? program.objects[i].fits(a, b)
                        : use == BatchProgram::InputUse::kValue
                            ? SameTensor(a, b)
                            : a.dtype() == b.dtype() && a.shape() == b.shape();
      if (!fits) return false;
    }
    return true;
  }

  // Where the elements of an input lie in a buffer; null if that does not
  // matter.
  const void* PlaceOf(Ready r, uint32_t i) const {
    const Tensor& t = Input(r, i);
    const BatchProgram::InputUse use = program_->inputs[i];
    if (use == BatchProgram::InputUse::kObject)
      return program_->objects[i].place == nullptr
                 ? nullptr
                 : program_->objects[i].place(t);
    return use == BatchProgram::InputUse::kShape && t.has_buffer() ? t.raw()
                                                                   : nullptr;
  }

  // Orders the instances by the place of an input, so that neighbours in memory
  // are neighbours in the batch: of the objects, which stand for many values,
  // or of the first that is stacked.
  void SortByMemory() {
    const uint32_t n = program_->num_inputs();
    uint32_t by = n;
    for (uint32_t i = 0; i < n; ++i)
      if (PlaceOf(group_[0], i) != nullptr &&
          (by == n ||
           (program_->inputs[by] != BatchProgram::InputUse::kObject &&
            program_->inputs[i] == BatchProgram::InputUse::kObject)))
        by = i;
    if (by == n) return;
    places_.clear();
    for (const Ready r : group_) places_.push_back({PlaceOf(r, by), r});
    const auto before = [](const Place& a, const Place& b) {
      return std::less<>()(a.first, b.first);
    };
    if (std::is_sorted(places_.begin(), places_.end(), before)) return;
    std::sort(places_.begin(), places_.end(), before);
    for (size_t k = 0; k < places_.size(); ++k) group_[k] = places_[k].second;
  }

  const Plan& plan_;
  const std::vector<const BatchProgram*> programs_;
  std::vector<std::vector<std::unique_ptr<Group>>> groups_;  // By node.
  std::vector<Waiting> waiting_;                             // Not empty.
  Group group_;                            // That Next returned last.
  const BatchProgram* program_ = nullptr;  // Of group_.
  using Place = std::pair<const void*, Ready>;
  std::vector<Place> places_;  // Only used by SortByMemory.
  // Of group_. While one is in flight, the thread that runs it uses its run.
  struct Part {
    std::span<const Ready> instances;
    size_t failed = 0;  // In `instances`.
    Status status;
  };
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<BatchRun>> runs_;  // By part.
  Ready failed_;
  bool shuffles_ = false;
  std::mt19937_64 random_;
  PartsInFlight in_flight_;  // Last: its end waits for what uses the others.
};

// Owned by the plan, whose stages refer to the programs.
class BatchStageMaker final : public ReadyStageMaker {
 public:
  explicit BatchStageMaker(BatchPrograms programs)
      : programs_(std::move(programs)) {}

  bool Holds(const Node& node, const Kernel& /*kernel*/,
             bool /*in_root*/) override {
    return programs_.count(&node) != 0;
  }

  std::unique_ptr<ReadyStage> Make(const Plan& plan) const override {
    std::vector<const BatchProgram*> programs(plan.nodes.size());
    for (size_t i = 0; i < programs.size(); ++i)
      if (const auto it = programs_.find(plan.nodes[i].node);
          it != programs_.end())
        programs[i] = it->second.get();
    return std::make_unique<BatchStage>(plan, std::move(programs));
  }

 private:
  const BatchPrograms programs_;
};

}  // namespace

std::unique_ptr<ReadyStageMaker> MakeBatching(BatchPrograms programs) {
  return std::make_unique<BatchStageMaker>(std::move(programs));
}

}  // namespace sluice
