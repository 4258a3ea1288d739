// PlaceByCost: chooses devices by the predicted time of a step.
//
//   Result<CostPlacement> placed =
//       PlaceByCost(&graph, signature, cluster, {.simulations = 200});
#ifndef SLUICE_SIMULATE_PLACE_BY_COST_H_
#define SLUICE_SIMULATE_PLACE_BY_COST_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "simulate/simulate_step.h"

namespace sluice {

struct PlaceByCostOptions {
  MeasuredCosts measured;
  UnknownValues unknown;
  int simulations = 200;  // That the local search may spend.
  uint64_t seed = 1;
  // Places of the devices that nodes may be placed on; empty: all.
  std::vector<int> devices;
};

struct CostPlacement {
  double step_ns = 0;        // Predicted, of the placement that was chosen.
  double list_ns = 0;        // Of list scheduling alone.
  double one_device_ns = 0;  // With all free nodes on the first device; -1 if
                             // they do not fit.
  // No placement is faster: the longest path of kernels, each on its fastest
  // device, without transfers; and all work divided among all devices.
  double path_bound_ns = 0, work_bound_ns = 0;
  int groups = 0;  // Sets of nodes that share a device.
  int simulations = 0;
  double bound_ns() const { return std::max(path_bound_ns, work_bound_ns); }
};

// Sets the device of every node of the step that has none, in the user's graph;
// nodes that have one keep it. A node, what reads or writes its references or
// handles, its "loc:@" group, and the nodes of one loop are placed together.
// List scheduling by upward rank (HEFT: the node with the longest path to the
// end first, each where it ends first), then moves of one group to another
// device, kept if the simulator predicts a shorter step. A placement needs, on
// each device, the memory of the variables there and of all values that its
// nodes make in a step (an upper bound of what is alive at once).
//
// Holds the graph's mutex. ResourceExhausted if no placement fits into the
// memories; InvalidArgument for a malformed cluster or option. On error the
// devices are as before. Deterministic.
Result<CostPlacement> PlaceByCost(Graph* graph, const StepSignature& signature,
                                  const ClusterModel& cluster,
                                  const PlaceByCostOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_SIMULATE_PLACE_BY_COST_H_
