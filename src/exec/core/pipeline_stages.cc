#include "exec/core/pipeline_stages.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

// Shares of the time below this say nothing.
constexpr double kNoticeable = 0.05;

bool Starves(const StageLoad& s) {
  return s.starving >= kNoticeable && s.starving > s.full;
}

// From the end of the pipeline to the stage that lacks nothing itself.
int Slowest(const std::vector<StageLoad>& stages) {
  const StageLoad& last = stages.back();
  if (!Starves(last))
    return last.full >= kNoticeable ? static_cast<int>(stages.size())
                                    : PipelineLoad::kUnknown;
  const StageLoad* at = &last;
  // (Counters from another task may name any inputs, in circles too.)
  for (size_t steps = 0; steps < stages.size(); ++steps) {
    const StageLoad* next = nullptr;
    for (const StageLoad& s : stages) {
      const auto& inputs = at->now.inputs;
      if (&s != at && Starves(s) &&
          std::find(inputs.begin(), inputs.end(), s.now.number) !=
              inputs.end() &&
          (next == nullptr || s.starving > next->starving))
        next = &s;
    }
    if (next == nullptr) break;
    at = next;
  }
  return static_cast<int>(at - stages.data());
}

struct LocalStates {
  std::mutex mu;
  std::vector<std::weak_ptr<ResourceManager>> states;  // GUARDED_BY(mu)
};

LocalStates& TheLocalStates() {
  static auto* const all = new LocalStates;
  return *all;
}

}  // namespace

std::vector<StageCounters> ResourceManager::PipelineStages() {
  std::vector<std::shared_ptr<StageQueue>> queues;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [name, resource] : resources_)
      if (resource != nullptr && AsVariable(resource.get()) == nullptr)
        if (auto q = std::dynamic_pointer_cast<StageQueue>(resource))
          queues.push_back(std::move(q));
  }
  std::vector<StageCounters> stages;
  for (const auto& q : queues)
    if (StageCounters c; q->Count(&c)) stages.push_back(std::move(c));
  return stages;
}

std::vector<PipelineLoad> PipelineLoads(
    const std::vector<StageCounters>& before,
    const std::vector<StageCounters>& now, double seconds) {
  using Key = std::tuple<std::string, int64_t, std::string>;
  const auto key = [](const StageCounters& c) {
    return Key{c.pipeline, c.number, c.stage};
  };
  std::map<Key, const StageCounters*> earlier;
  for (const StageCounters& c : before) earlier[key(c)] = &c;
  std::map<Key, StageLoad> loads;
  for (const StageCounters& c : now) {
    StageLoad& load = loads[key(c)];
    load.now = c;
    const auto was = earlier.find(key(c));
    if (was == earlier.end() || !(seconds > 0) ||
        was->second->elements > c.elements)
      continue;
    const StageCounters& b = *was->second;
    const auto share = [seconds](int64_t from, int64_t to) {
      return std::clamp((static_cast<double>(to) - static_cast<double>(from)) *
                            1e-9 / seconds,
                        0.0, 1.0);
    };
    load.per_second =
        (static_cast<double>(c.elements) - static_cast<double>(b.elements)) /
        seconds;
    load.full = share(b.full_ns, c.full_ns);
    load.starving = share(b.starving_ns, c.starving_ns);
  }
  std::vector<PipelineLoad> pipelines;
  for (auto& [where, load] : loads) {
    if (pipelines.empty() || pipelines.back().name != load.now.pipeline)
      pipelines.emplace_back().name = load.now.pipeline;
    pipelines.back().stages.push_back(std::move(load));
  }
  for (PipelineLoad& p : pipelines) p.slowest = Slowest(p.stages);
  return pipelines;
}

void NoteLocalPipelines(const std::shared_ptr<ResourceManager>& state) {
  LocalStates& all = TheLocalStates();
  std::lock_guard<std::mutex> lock(all.mu);
  std::erase_if(all.states, [&](const auto& s) {
    const auto held = s.lock();
    return held == nullptr || held == state;
  });
  all.states.push_back(state);
}

std::vector<std::vector<StageCounters>> LocalPipelineStages() {
  LocalStates& all = TheLocalStates();
  std::vector<std::shared_ptr<ResourceManager>> states;
  {
    std::lock_guard<std::mutex> lock(all.mu);
    for (const auto& s : all.states)
      if (auto held = s.lock()) states.push_back(std::move(held));
  }
  std::vector<std::vector<StageCounters>> stages;
  for (const auto& s : states) stages.push_back(s->PipelineStages());
  return stages;
}

}  // namespace sluice
