// A step partitioned over several devices of this process, for tests: placed at
// random (nodes that share a reference or a resource together) or by the test.
#ifndef SLUICE_SESSION_TESTING_PARTITION_TEST_UTIL_H_
#define SLUICE_SESSION_TESTING_PARTITION_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "exec/core/step_group.h"
#include "exec/devices/emulated_device.h"
#include "passes/partition.h"
#include "passes/partition_properties.h"
#include "passes/place.h"
#include "session/compile.h"
#include "session/session.h"

namespace sluice {

// The device number of each node.
using PlaceNode = std::function<int(const Node&)>;

inline std::string TestDeviceName(int d) {
  return absl::StrCat("/job:localhost/replica:0/task:0/device:CPU:", d);
}

// Places nodes at random over `devices`, seeded. Nodes with a common reference
// or resource, and the arguments, results and calls of a function, stay
// together.
inline void PlaceAtRandom(
    Graph* g, int devices, uint64_t seed,
    const std::function<std::string(int)>& name = TestDeviceName) {
  std::vector<int> group(g->nodes().size());
  std::iota(group.begin(), group.end(), 0);
  const std::function<int(int)> find = [&](int n) {
    int& up = group[static_cast<size_t>(n)];
    return up == n ? n : up = find(up);
  };
  std::map<std::string, int> functions;
  for (const auto& n : g->nodes()) {
    for (int i = 0; i < n->num_inputs(); ++i) {
      const DType t = n->input(i).dtype();
      if (t == DType::kResource || IsRef(n->input_type(i)))
        group[static_cast<size_t>(find(n->id()))] =
            find(n->input(i).node->id());
    }
    const auto function = n->AttrOr<std::string>("function", "");
    if (!function.empty())
      group[static_cast<size_t>(find(n->id()))] =
          find(functions.try_emplace(function, n->id()).first->second);
  }
  std::mt19937_64 random(seed);
  std::vector<int> device(g->nodes().size());
  // Sometimes mostly on one device, sometimes anywhere.
  const bool mostly = random() % 3 == 0;
  for (int& d : device)
    d = mostly && random() % 5 != 0
            ? 0
            : static_cast<int>(random() % static_cast<uint64_t>(devices));
  for (const auto& n : g->nodes())
    g->SetDevice(n.get(), name(device[static_cast<size_t>(find(n->id()))]));
}

// As a user would: some nodes request a device, and placement decides the rest.
inline void PlaceByRandomConstraints(Graph* g, int devices, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const auto& n : g->nodes())
    g->SetDevice(n.get(),
                 random() % 3 != 0
                     ? ""
                     : TestDeviceName(static_cast<int>(
                           random() % static_cast<uint64_t>(devices))));
  PlacementOptions options;
  options.soft_placement = true;
  for (int d = 0; d < devices; ++d)
    options.devices.push_back({*DeviceName::Parse(TestDeviceName(d)), nullptr});
  const Status s = Place(g, options);
  EXPECT_TRUE(s.ok()) << s;
}

// One signature of a graph, partitioned and planned, run any number of times.
class CutStep {
 public:
  struct Options {
    std::function<void(Graph*)> place;
    bool optimize = true;
    bool regions = false;
    // All devices but the first are emulated, with memory of their own.
    bool own_memory = false;
    EmulatedDeviceOptions emulated;
    // The clock of the emulated devices, if not real time: Run advances it.
    std::shared_ptr<VirtualClock> clock;
    ThreadPool* pool = nullptr;
  };

  static Result<std::unique_ptr<CutStep>> Make(const Graph& graph,
                                               const StepSignature& s,
                                               const Options& options) {
    std::unique_ptr<CutStep> step(new CutStep);
    step->pool_ = options.pool;
    step->clock_ = options.clock;
    SLUICE_ASSIGN_OR_RETURN(
        OptimizedStep whole,
        OptimizeStep(graph, s, options.optimize, options.optimize));
    options.place(whole.graph.get());
    PartitionOptions o;
    if (options.own_memory)
      o.has_own_memory = [](const std::string& d) { return d.back() != '0'; };
    // (Both are asked about devices that are made below, alike.)
    o.can_copy = [&options](const std::string&, const std::string&) {
      return options.emulated.peer_bytes_per_s > 0;
    };
    SLUICE_ASSIGN_OR_RETURN(step->cut_, Partition(*whole.graph, o));
    SLUICE_RETURN_IF_ERROR(CheckPartitions(*whole.graph, step->cut_.graphs,
                                           step->cut_.devices, kPartitioned));
    std::vector<PartitionPlan> plans;
    for (size_t p = 0; p < step->cut_.graphs.size(); ++p) {
      SLUICE_ASSIGN_OR_RETURN(const DeviceName name,
                              DeviceName::Parse(step->cut_.devices[p]));
      EmulatedDeviceOptions emulated = options.emulated;
      emulated.clock = options.clock;
      if (o.has_own_memory != nullptr && o.has_own_memory(name.ToString()))
        step->devices_.push_back(
            std::make_unique<EmulatedDevice>(name, emulated));
      else
        step->devices_.push_back(std::make_unique<CpuDevice>(name));
      const std::vector<Node*> keep = UnreadNodes(*step->cut_.graphs[p]);
      SLUICE_ASSIGN_OR_RETURN(
          BuiltPlan built,
          BuildPlan(std::move(step->cut_.graphs[p]), keep,
                    {.regions = options.regions &&
                                step->devices_.back()->host_memory()},
                    [&step](const Node& n, std::shared_ptr<Kernel>* k) {
                      return step->kernels_.Get(
                          n,
                          [&step](const Node& node, Kernel* kernel) {
                            return step->devices_.back()->MakeKernel(node,
                                                                     kernel);
                          },
                          k);
                    }));
      step->built_.push_back(std::move(built));
      plans.push_back({step->built_.back().plan, step->devices_.back().get()});
    }
    for (size_t i = 0; i < s.feeds.size(); ++i)
      step->args_.push_back(static_cast<uint32_t>(i));
    step->fetches_ = s.fetches.size();
    step->group_ = std::make_unique<StepGroup>(std::move(plans));
    return step;
  }

  // `untaken`: receives the number of tokens that were left over.
  Result<std::vector<Tensor>> Run(const std::vector<Tensor>& feeds,
                                  uint64_t scheduler_seed, size_t* untaken,
                                  ResourceManager* resources = nullptr,
                                  int64_t timeout_ms = 60'000) {
    ExecuteOptions o;
    o.step.step_id = ++steps_;
    o.step.resources = resources == nullptr ? &resources_ : resources;
    o.scheduler_seed = scheduler_seed;
    o.pool = pool_;
    o.deadline = std::chrono::steady_clock::now() +
                 std::chrono::milliseconds(timeout_ms);
    group_->Start(o);
    Status status =
        clock_ == nullptr ? group_->Run(args_, feeds) : RunInVirtualTime(feeds);
    if (status.ok()) *untaken = group_->UnconsumedTokens();
    std::vector<Tensor> out;
    for (uint32_t i = 0; status.ok() && i < fetches_; ++i) {
      Tensor* t = group_->result(i);
      if (t == nullptr)
        status = group_->MissingResult(i);
      else
        out.push_back(std::move(*t));
    }
    group_->Finish();
    if (!status.ok()) return status;
    return out;
  }

  // The number of nodes with that op in the plans.
  int Count(const std::string& op) const {
    int n = 0;
    for (const BuiltPlan& b : built_)
      for (const PlanNode& p : b.plan->nodes) n += p.node->op_name() == op;
    return n;
  }
  size_t partitions() const { return built_.size(); }
  // The emulated device with that number in its name; null if there is none.
  EmulatedDevice* emulated(int number) const {
    for (const auto& d : devices_)
      if (d->name().number == number)
        if (auto* e = dynamic_cast<EmulatedDevice*>(d.get())) return e;
    return nullptr;
  }

 private:
  CutStep() = default;
  // Runs everything on this thread; advances the clock when all work is
  // waiting.
  Status RunInVirtualTime(const std::vector<Tensor>& feeds) {
    std::optional<Status> ended;
    group_->Run(args_, feeds, [&ended](Status s) { ended = std::move(s); });
    while (!ended)
      if (!clock_->Next()) return Internal("nothing is due, but it runs");
    return *ended;
  }
  Partitions cut_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::shared_ptr<VirtualClock> clock_;
  StatefulKernels kernels_;
  std::vector<BuiltPlan> built_;
  std::vector<uint32_t> args_;
  size_t fetches_ = 0;
  ResourceManager resources_;
  ThreadPool* pool_ = nullptr;
  std::unique_ptr<StepGroup> group_;
  int64_t steps_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_SESSION_TESTING_PARTITION_TEST_UTIL_H_
