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

#include "exec/fusion/region_structure.h"

namespace sluice {

using RegionKernels = std::unordered_map<const Node*, std::shared_ptr<Kernel>>;

// Adds a node "_Region" to `graph` for each region and redirects the region's
// consumers to it; the replaced nodes are left without readers, for DropUnread.
// Returns the kernels of the new nodes, which point to the replaced nodes.
// `keep`: nodes that must not change, the targets of the step.
Result<RegionKernels> FormRegions(Graph* graph,
                                  const RegionStructure::KernelSource& kernels,
                                  const std::set<const Node*>& keep);

}  // namespace sluice

#endif  // SLUICE_EXEC_FUSION_REGIONS_H_
