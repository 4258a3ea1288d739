// The implementation of passes/place.h.
#ifndef SLUICE_PASSES_PLACER_H_
#define SLUICE_PASSES_PLACER_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "passes/place_sets.h"

namespace sluice {

// The state that a node keeps between steps.
enum class Keeps : uint8_t { kNothing, kStream, kState };
Keeps WhatItKeeps(const Node& n);

// Forms the groups and chooses a device for each. Lives for one call of Place.
class Placer {
 public:
  Placer(Graph* graph, const PlacementOptions& options)
      : graph_(*graph),
        options_(options),
        sets_(static_cast<int>(options.devices.size())),
        feasible_(options, &sets_) {}

  Status Run() {
    SLUICE_RETURN_IF_ERROR(CheckDevices());
    SLUICE_RETURN_IF_ERROR(FindChoices());
    if (options_.devices.size() == 1 && options_.log == nullptr) {
      device_.assign(graph_.nodes().size(), 0);  // The only possible one.
      Write();
      return OkStatus();
    }
    SLUICE_ASSIGN_OR_RETURN(order_, TopologicalOrder(graph_));
    SLUICE_RETURN_IF_ERROR(Group());
    Choose();
    if (options_.log != nullptr) Log();
    Write();
    return OkStatus();
  }

 private:
  using Id = DeviceSets::Id;
  static constexpr int kUndecided = -1;

  // Why a node is in its group.
  enum class Share : uint8_t {
    kNothing,
    kReference,
    kResource,
    kClass,
    kLoop,
    kCalls,
    kVariant,
  };
  // Why a group has its device.
  enum class Why : uint8_t {
    kAsked,
    kKernel,
    kSoft,
    kState,
    kGroup,
    kFirst,
    kInput,
    kReader,
    kControl,
    kDefault,
  };

  static size_t Index(const Node* n) { return static_cast<size_t>(n->id()); }
  size_t Root(size_t id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  size_t Root(const Node* n) { return Root(Index(n)); }
  const Node& At(size_t id) const { return *graph_.nodes()[id]; }
  const std::string& DeviceText(int device) const {
    return names_[static_cast<size_t>(device)];
  }

  // ---- Possible devices of each node
  Status CheckDevices();
  Status FindChoices();
  // ---- Groups
  Status Group();
  Status GroupByEdges(const Node& n);
  Status GroupByCalls();
  Status GroupVariants();
  void JoinAbsent(const Node& n, const std::string& name);
  Status Join(const Node& a, const Node& b, Share share, bool must = true);
  Status Conflict(const Node& a, const Node& b, Share share);
  static const char* Shared(Share share);
  // ---- Devices
  void Choose();
  void ChooseFixed();
  void ChooseRequested();
  void Spread(bool enters);
  Id Preferred(size_t root);
  Why WhyFirst(size_t root) const;
  void Decide(size_t root, int device, Why why, const Node* at, const Node* by);
  bool Follow(const Node* n, const Node* to, Why why);
  void Forward(bool enters);
  void Backward();
  void DecideRest();
  // ---- Results
  void Log();
  std::string Reason(const Node& n, const Node& decider);
  void Write();

  Graph& graph_;
  const PlacementOptions& options_;
  DeviceSets sets_;
  Feasibility feasible_;
  std::vector<Node*> order_;
  std::vector<std::string> names_;                  // By device.
  std::unordered_map<std::string, int> device_of_;  // By name.
  Id preferred_ = DeviceSets::kAll;       // Preferred for free choices.
  std::vector<Feasibility::Choice> own_;  // By node: ungrouped.
  std::vector<int> recalled_;   // By node: its device in an earlier step.
  std::vector<size_t> parent_;  // By node: union-find parent.
  // By group root.
  std::vector<Feasibility::Choice> choice_;
  std::vector<int> device_;
  // Nodes, each with a node that has an identity and is not in this step.
  std::vector<std::pair<const Node*, const Node*>> absent_;
  // By node: it was grouped with `with_`, for this reason.
  std::vector<Share> share_;
  std::vector<const Node*> with_;
  // By group root: why, and which nodes decided.
  std::vector<Why> why_;
  std::vector<const Node*> decider_, by_;
  int undecided_ = 0;  // Groups.
};

}  // namespace sluice

#endif  // SLUICE_PASSES_PLACER_H_
