// Placement: which device each group gets.
#include "passes/place.h"

#include "graph/graph.h"
#include "passes/placer.h"

namespace sluice {

Placer::Why Placer::WhyFirst(size_t root) const {
  return choice_[root].softened ? Why::kSoft : Why::kFirst;
}

// The preferred devices among those that the group may have.
DeviceSets::Id Placer::Preferred(size_t root) {
  const Id may = choice_[root].may;
  const Id preferred = sets_.Intersect(may, preferred_);
  return preferred == DeviceSets::kNone ? may : preferred;
}

void Placer::Decide(size_t root, int device, Why why, const Node* at,
                    const Node* by) {
  device_[root] = device;
  why_[root] = why;
  decider_[root] = at;
  by_[root] = by;
  --undecided_;
}

// Puts n's group on the device of the group of `to`, or in the same task; false
// if it may not be there or the device is not decided yet.
bool Placer::Follow(const Node* n, const Node* to, Why why) {
  const int there = device_[Root(to)];
  if (there == kUndecided) return false;
  const size_t root = Root(n);
  const Id may = choice_[root].may;
  if (sets_.Has(may, there)) {
    Decide(root, there, why, n, to);
    return true;
  }
  const Id near = sets_.Intersect(may, feasible_.task_of(there));
  if (near == DeviceSets::kNone) return false;
  Decide(root, sets_.First(near), why, n, to);
  return true;
}

void Placer::Choose() {
  const size_t n = graph_.nodes().size();
  device_.resize(n, kUndecided);
  why_.resize(n, Why::kDefault);
  decider_.resize(n, nullptr);
  by_.resize(n, nullptr);
  for (size_t i = 0; i < n; ++i) undecided_ += Root(i) == i;
  ChooseFixed();
  // Each twice, as loop variables are decided at their NextIteration. Groups
  // with a requested device come before those without; the sources of values
  // that enter a loop are considered last.
  Spread(false);
  ChooseRequested();
  Spread(false);
  Spread(true);
  DecideRest();
}

void Placer::Spread(bool enters) {
  for (int round = 0; round < 2 && undecided_ > 0; ++round) {
    const int before = undecided_;
    Forward(enters);
    if (undecided_ < before) Forward(enters);
    Backward();
    if (undecided_ == before) break;
  }
}

void Placer::ChooseRequested() {
  for (const Node* n : order_) {
    const size_t root = Root(n);
    if (device_[root] == kUndecided && !n->device().empty())
      Decide(root, sets_.First(Preferred(root)), WhyFirst(root), n, nullptr);
  }
}

// Groups with one choice, and those with state, which must not depend on its
// readers in this step.
void Placer::ChooseFixed() {
  const bool one_device = options_.devices.size() == 1;
  // First the groups with a node that has only one choice by itself.
  for (const Node* n : order_) {
    const size_t i = Index(n), root = Root(n);
    const Id may = choice_[root].may;
    if (device_[root] != kUndecided || sets_.size(may) != 1 ||
        own_[i].may != may)
      continue;
    Decide(root, sets_.First(may),
           own_[i].softened             ? Why::kSoft
           : recalled_[i] != kUndecided ? Why::kState
           : !n->device().empty()       ? Why::kAsked
           : one_device                 ? Why::kDefault
                                        : Why::kKernel,
           n, nullptr);
  }
  for (const Node* n : order_) {
    const size_t i = Index(n), root = Root(n);
    if (device_[root] != kUndecided) continue;
    const Id may = choice_[root].may;
    const Keeps keeps = WhatItKeeps(*n);
    if (sets_.size(may) == 1)
      Decide(root, sets_.First(may),
             choice_[root].softened ? Why::kSoft : Why::kGroup, n, nullptr);
    else if (keeps == Keeps::kState)
      Decide(root, sets_.First(Preferred(root)), WhyFirst(root), n, nullptr);
    else if (keeps == Keeps::kStream && recalled_[i] != kUndecided &&
             sets_.Has(may, recalled_[i]))
      Decide(root, recalled_[i], Why::kState, n, nullptr);
  }
}

// Places nodes with their inputs.
void Placer::Forward(bool enters) {
  for (const Node* n : order_) {
    if (device_[Root(n)] != kUndecided) continue;
    switch (n->op().role) {
      case OpRole::kConst:
      case OpRole::kArg:
        break;
      case OpRole::kEnter:
        // The source may have no other part in the loop.
        if (!enters) break;
        [[fallthrough]];
      case OpRole::kSwitch:
      case OpRole::kExit:
      case OpRole::kNextIteration:
      case OpRole::kIdentity:
        Follow(n, n->input(0).node, Why::kInput);
        break;
      default:
        for (const Output& in : n->inputs()) {
          const OpRole role = in.node->op().role;
          if (role == OpRole::kConst || (role == OpRole::kEnter && !enters))
            continue;
          if (Follow(n, in.node, Why::kInput)) break;
        }
    }
  }
}

// Places undecided nodes with their first reader in topological order.
void Placer::Backward() {
  std::vector<const Node*> reader(graph_.nodes().size(), nullptr);
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const Node* n = *it;
    const size_t i = Index(n);
    if (device_[Root(i)] == kUndecided && reader[i] != nullptr)
      Follow(n, reader[i], Why::kReader);
    if (device_[Root(i)] == kUndecided || n->op().role == OpRole::kRetval)
      continue;
    for (const Output& in : n->inputs()) reader[Index(in.node)] = n;
  }
}

void Placer::DecideRest() {
  for (const Node* n : order_) {
    const size_t root = Root(n);
    if (device_[root] != kUndecided) continue;
    const auto follow_any = [&] {
      for (const Output& in : n->inputs())
        if (Follow(n, in.node, Why::kInput)) return true;
      for (const Node* c : n->control_inputs())
        if (Follow(n, c, Why::kControl)) return true;
      return false;
    };
    if (!follow_any())
      Decide(root, sets_.First(Preferred(root)), Why::kDefault, n, nullptr);
  }
}

void Placer::Write() {
  for (const auto& n : graph_.nodes()) {
    const std::string& device = DeviceText(device_[Root(n.get())]);
    if (options_.state != nullptr && WhatItKeeps(*n) != Keeps::kNothing)
      (*options_.state)[n->name()] = device;
    if (n->device() != device) graph_.SetDevice(n.get(), device);
  }
  for (const auto& [n, absent] : absent_)
    options_.state->emplace(absent->name(), DeviceText(device_[Root(n)]));
}

Status Place(Graph* graph, const PlacementOptions& options) {
  return Placer(graph, options).Run();
}

}  // namespace sluice
