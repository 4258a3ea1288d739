// Sets of possible devices of nodes, for placement.
#ifndef SLUICE_PASSES_PLACE_SETS_H_
#define SLUICE_PASSES_PLACE_SETS_H_

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "passes/place.h"

namespace sluice {

// "node 'x' (Placeholder) at model.cc:12"; for an _Arg, the node that is fed.
std::string DescribeAsked(const Node& n);

// Interned sets of devices: equal sets have the same number. There are few, as
// there are few constraints, so the set of a group is a number, and an
// intersection is a look-up. Owned by one placement, on one thread.
class DeviceSets {
 public:
  using Id = int;
  static constexpr Id kNone = 0;
  static constexpr Id kAll = 1;

  explicit DeviceSets(int devices);
  // The set of devices for which `in` is true.
  Id Where(const std::function<bool(int)>& in);
  Id Single(int device);
  Id Intersect(Id a, Id b);
  bool Has(Id set, int device) const;
  const std::vector<int>& Members(Id set) const {  // In order.
    return sets_[static_cast<size_t>(set)];
  }
  int First(Id set) const { return Members(set).front(); }  // Not empty.
  size_t size(Id set) const { return Members(set).size(); }

 private:
  Id Intern(std::vector<int> members);

  const int devices_;
  std::vector<std::vector<int>> sets_;  // By id, sorted.
  std::map<std::vector<int>, Id> ids_;
  std::vector<Id> just_;  // By device.
  std::unordered_map<uint64_t, Id> intersections_;
};

// Device constraints of nodes and available kernels. Owned by one placement, on
// one thread.
class Feasibility {
 public:
  using Id = DeviceSets::Id;

  Feasibility(const PlacementOptions& options, DeviceSets* sets);

  // The possible devices of the node, and with soft placement also the devices
  // of last resort.
  struct Choice {
    Id may = DeviceSets::kAll;
    Id last_resort = DeviceSets::kAll;
    bool softened = false;  // No requested device has a kernel.
  };
  Result<Choice> Of(const Node& n);

  // The devices of the device's task.
  Id task_of(int device) const { return task_of_[static_cast<size_t>(device)]; }
  // The CPUs in `set`, if there are any; else `set`.
  Id CpusIfAny(Id set);
  // "/job:a/.../device:CPU:0, ... (12 more)".
  std::string Names(Id set) const;

 private:
  struct Requested {
    Id match;  // The devices that match.
    Id task;   // Those in their tasks; if none match, in the requested task.
  };
  Result<Requested> Parse(const Node& n);
  // The devices on which the node has kernels. `why` gets the reasons for the
  // others; may be null.
  Id Kernels(const Node& n, Status* why);

  const PlacementOptions& options_;
  DeviceSets& sets_;
  std::unordered_map<std::string_view, Requested> asked_;
  Id cpus_;
  std::vector<Id> task_of_;        // By device.
  std::vector<int> type_example_;  // By type: its first device.
  std::vector<Id> of_type_;        // By type: its devices.
  // By op and types of the node: the types of devices that have a kernel.
  struct Kernel {
    std::vector<uint8_t> types;      // 1: has one. 0: not checked yet.
    Id devices = DeviceSets::kNone;  // Those of the types.
  };
  std::unordered_map<std::string, Kernel> kernels_;
  std::string key_;
};

}  // namespace sluice

#endif  // SLUICE_PASSES_PLACE_SETS_H_
