#include "exec/core/ready_stages.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "exec/core/plan.h"

namespace sluice {
namespace {

// The stages of one execution; ReadyStage says who uses them.
class StagesInOrder final : public ReadyStage {
 public:
  // `of`: by place in Plan::nodes, the number of the stage that holds the node.
  StagesInOrder(const Plan& plan,
                std::vector<std::unique_ptr<ReadyStage>> stages,
                std::vector<uint8_t> of)
      : plan_(plan), stages_(std::move(stages)), of_(std::move(of)) {}

  void Start(uint64_t seed) override {
    for (const auto& s : stages_) s->Start(seed);
  }
  bool Hold(Ready r) override {
    const auto at = static_cast<size_t>(r.node - plan_.nodes.data());
    return stages_[of_[at]]->Hold(r);
  }
  bool empty() const override {
    return std::all_of(stages_.begin(), stages_.end(),
                       [](const auto& s) { return s->empty(); });
  }
  std::span<const Ready> Next() override {
    size_t s = 0;
    while (stages_[s]->empty()) ++s;
    running_ = stages_[s].get();
    return running_->Next();
  }
  bool RunsTogether(size_t nodes) const override {
    return running_->RunsTogether(nodes);
  }
  bool OfOneNode() const override { return running_->OfOneNode(); }
  bool Release() override {
    bool any = false;
    for (const auto& s : stages_) any = s->Release() || any;
    return any;
  }
  Result<std::span<const Ready>> RunTogether(StepContext* step) override {
    return running_->RunTogether(step);
  }
  bool running() const override {
    return running_ != nullptr && running_->running();
  }
  Ready failed() const override { return running_->failed(); }
  void Describe(Ready r, TraceEvent* e) const override {
    running_->Describe(r, e);
  }
  void Clear() override {
    for (const auto& s : stages_) s->Clear();
  }

 private:
  const Plan& plan_;
  const std::vector<std::unique_ptr<ReadyStage>> stages_;
  const std::vector<uint8_t> of_;
  ReadyStage* running_ = nullptr;  // Of the last group.
};

class InOrderMaker final : public ReadyStageMaker {
 public:
  explicit InOrderMaker(std::vector<std::unique_ptr<ReadyStageMaker>> makers)
      : makers_(std::move(makers)) {}

  bool Holds(const Node& node, const Kernel& kernel, bool in_root) override {
    for (size_t i = 0; i < makers_.size(); ++i)
      if (makers_[i]->Holds(node, kernel, in_root)) {
        stage_of_[&node] = static_cast<uint8_t>(i);
        return true;
      }
    return false;
  }

  // (Only the stages that hold something are made.)
  std::unique_ptr<ReadyStage> Make(const Plan& plan) const override {
    std::vector<int> made_as(makers_.size(), -1);
    std::vector<std::unique_ptr<ReadyStage>> stages;
    std::vector<uint8_t> of(plan.nodes.size());
    for (size_t i = 0; i < of.size(); ++i) {
      if ((plan.nodes[i].flags & PlanNode::kHeld) == 0) continue;
      of[i] = stage_of_.at(plan.nodes[i].node);
      made_as[of[i]] = 0;
    }
    for (size_t m = 0; m < makers_.size(); ++m) {
      if (made_as[m] < 0) continue;
      made_as[m] = static_cast<int>(stages.size());
      stages.push_back(makers_[m]->Make(plan));
    }
    if (stages.size() == 1) return std::move(stages[0]);
    for (uint8_t& s : of) s = static_cast<uint8_t>(std::max(made_as[s], 0));
    return std::make_unique<StagesInOrder>(plan, std::move(stages),
                                           std::move(of));
  }

 private:
  const std::vector<std::unique_ptr<ReadyStageMaker>> makers_;
  std::unordered_map<const Node*, uint8_t> stage_of_;  // Fixed after the build.
};

}  // namespace

std::unique_ptr<ReadyStageMaker> InOrder(
    std::vector<std::unique_ptr<ReadyStageMaker>> makers) {
  return std::make_unique<InOrderMaker>(std::move(makers));
}

}  // namespace sluice
