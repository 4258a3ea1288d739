// Regions: the parts of a graph that cost more to schedule than to compute,
// made into one node each (design: docs/design/018-regions.md).
//
// What becomes a region: a loop all of whose nodes are cheap, with the loops
// and conditionals in it; and of the nodes of one frame that are alive together
// those that wait for the same slow things, so that nothing ever waits longer
// than it would have alone.
#ifndef SLUICE_EXEC_REGIONS_H_
#define SLUICE_EXEC_REGIONS_H_

#include <memory>
#include <set>
#include <unordered_map>

#include "exec/region_structure.h"

namespace sluice {

using RegionKernels = std::unordered_map<const Node*, std::shared_ptr<Kernel>>;

// Adds a node "_Region" to `graph` for each region, and gives it the region's
// consumers; what it stands for stays, without readers, for DropUnread. The
// kernels of the new nodes; they point to the nodes they stand for. `keep`:
// nodes that must stay as they are, the targets of the step.
Result<RegionKernels> FormRegions(Graph* graph,
                                  const RegionStructure::KernelSource& kernels,
                                  const std::set<const Node*>& keep);

}  // namespace sluice

#endif  // SLUICE_EXEC_REGIONS_H_
