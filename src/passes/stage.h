// Support for steps that are fed and fetched in stages and run in other
// processes.
#ifndef SLUICE_PASSES_STAGE_H_
#define SLUICE_PASSES_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "passes/partition.h"
#include "passes/passes.h"

namespace sluice {

// For each fetch, the sorted positions of the feeds that it needs, over all
// branches. Needs nothing of `graph`. Takes time linear in the graph for each
// fetch.
std::vector<std::vector<size_t>> FeedsNeeded(const Graph& graph,
                                             const StepSignature& s);

// The partitions through which feeds and fetches of a step enter and leave.
struct OpenEnds {
  static constexpr uint32_t kNowhere = UINT32_MAX;
  struct Entry {
    uint32_t partition = kNowhere;  // kNowhere: not needed.
    uint32_t edge = 0;              // Edge of its _Recv there.
  };
  std::vector<Entry> feeds;       // By feed.
  std::vector<uint32_t> fetches;  // By fetch: its partition.
};

// Converts feeds and fetches to tokens that are transferred while the step
// runs: each _Arg becomes a _Recv, and each _Retval a _Send to the partition
// after the last (its edge and its group are the number of the fetch).
// Needs: what Partition leaves. Leaves in each graph: connected, lowered,
// placed, one device, open ends (passes/properties.h).
Result<OpenEnds> OpenTheEnds(Partitions* parts, size_t feeds, size_t fetches);

}  // namespace sluice

#endif  // SLUICE_PASSES_STAGE_H_
