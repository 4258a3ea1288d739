// Regions: parts of a graph that cost more to schedule than to compute, each
// replaced by one node (design: docs/design/018-regions.md).
//
// A region is either a loop whose nodes are all cheap, with the loops and
// conditionals in it, or a set of nodes of one frame that are alive together
// and wait for the same slow units, so that no node waits longer than it would
// on its own.
#ifndef SLUICE_EXEC_FUSION_REGIONS_H_
#define SLUICE_EXEC_FUSION_REGIONS_H_

#include <memory>
#include <set>
#include <unordered_map>

#include "exec/fusion/region_compiler.h"

namespace sluice {

using RegionKernels = std::unordered_map<const Node*, std::shared_ptr<Kernel>>;

// A region of nodes that a stage of the ready list holds, and of what depends
// on them. It is held in their place.
struct HeldRegion {
  const Node* node = nullptr;
  CompiledRegion compiled;
};

struct FormedRegions {
  RegionKernels kernels;  // Of the new nodes; they point to the replaced nodes.
  std::vector<HeldRegion> held;
};

// Adds a node "_Region" to `graph` for each region and redirects the region's
// consumers to it; the replaced nodes are left without readers, for DropUnread.
// `keep`: nodes that must not change, the targets of the step. `held`: nodes
// that a stage of the ready list holds (exec/core/ready_stage.h).
Result<FormedRegions> FormRegions(Graph* graph,
                                  const RegionStructure::KernelSource& kernels,
                                  const std::set<const Node*>& keep,
                                  const std::set<const Node*>& held = {});

}  // namespace sluice

#endif  // SLUICE_EXEC_FUSION_REGIONS_H_
