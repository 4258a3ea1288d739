// Chains: connected elementwise nodes that run as one, block by block, without
// writing intermediate values to memory (design: docs/design/027-fusion.md).
#ifndef SLUICE_EXEC_FUSION_CHAINS_H_
#define SLUICE_EXEC_FUSION_CHAINS_H_

#include <set>

#include "exec/fusion/regions.h"

namespace sluice {

// Adds a node "_Chain" to `graph` for each chain, and gives it the readers of
// its nodes, which stay without readers, for DropUnread. Whether the blocks are
// of use is decided when it runs, by the shapes. The kernels of the new nodes;
// they point to the nodes they stand for. `keep`: nodes that must stay as they
// are, the targets of the step. Left alone: what is known to be small
// (regions), and nodes with references or control inputs.
Result<RegionKernels> FormChains(Graph* graph,
                                 const RegionStructure::KernelSource& kernels,
                                 const std::set<const Node*>& keep);

}  // namespace sluice

#endif  // SLUICE_EXEC_FUSION_CHAINS_H_
