// Chains: connected elementwise nodes that run as one, block by block, without
// writing intermediate values to memory (design: docs/design/027-fusion.md).
#ifndef SLUICE_EXEC_CHAINS_H_
#define SLUICE_EXEC_CHAINS_H_

#include <set>

#include "exec/regions.h"

namespace sluice {

// Adds a node "_Chain" to `graph` for each chain and redirects the readers of
// the chain's nodes to it; these nodes are left without readers, for
// DropUnread. Whether blocks are used is decided at run time, by the shapes.
// Returns the kernels of the new nodes, which point to the replaced nodes.
// `keep`: nodes that must not change, the targets of the step. Not fused:
// values that are known to be small (regions), nodes with references or control
// inputs, and, in graphs with functions that run as their own frames,
// conditionals.
Result<RegionKernels> FormChains(Graph* graph,
                                 const RegionStructure::KernelSource& kernels,
                                 const std::set<const Node*>& keep);

}  // namespace sluice

#endif  // SLUICE_EXEC_CHAINS_H_
