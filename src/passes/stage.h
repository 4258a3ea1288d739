// What a step needs that is fed and fetched in stages, and runs elsewhere.
#ifndef SLUICE_PASSES_STAGE_H_
#define SLUICE_PASSES_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "passes/partition.h"
#include "passes/passes.h"

namespace sluice {

// For each fetch the positions of the feeds that it needs, in order: all that
// it would read whichever branches are taken. Takes time linear in the graph
// for each fetch.
std::vector<std::vector<size_t>> FeedsNeeded(const Graph& graph,
                                             const StepSignature& s);

// Where the feeds enter the partitions of a step.
struct OpenEnds {
  static constexpr uint32_t kNowhere = UINT32_MAX;
  struct Entry {
    uint32_t partition = kNowhere;  // This: nobody waits for it.
    uint32_t edge = 0;              // Of the _Recv that waits there.
  };
  std::vector<Entry> feeds;       // By feed.
  std::vector<uint32_t> fetches;  // By fetch: the partition that gives it.
};

// Feeds and fetches become tokens, which come and go while the step runs: each
// _Arg becomes a _Recv, and each _Retval a _Send to the partition after the
// last (its edge and its group: the number of the fetch).
Result<OpenEnds> OpenTheEnds(Partitions* parts, size_t feeds, size_t fetches);

}  // namespace sluice

#endif  // SLUICE_PASSES_STAGE_H_
