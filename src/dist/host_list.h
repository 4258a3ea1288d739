// Lists of hosts as schedulers write them.
#ifndef SLUICE_DIST_HOST_LIST_H_
#define SLUICE_DIST_HOST_LIST_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace sluice {

// Slurm's: "node[001-003,7],login1,rack[1-2]n[0-3]-ib", in the order in which
// it names them. Numbers keep the digits that they are written with. At most
// 65,536 hosts.
Result<std::vector<std::string>> ParseSlurmHosts(std::string_view text);
// Slurm's count per node, "2(x3),1": 2, 2, 2, 1.
Result<std::vector<int>> ParseSlurmCounts(std::string_view text);

// A host and how many processes it takes.
using HostSlots = std::pair<std::string, int>;
// "a:2,b": a host without a count takes one.
Result<std::vector<HostSlots>> ParseHostSlots(std::string_view text);
// A file of MPI's: a host on each line, "a slots=2 max_slots=4" (Open MPI) or
// "a:2" (MPICH); '#' begins a comment. A host that comes again has more slots.
Result<std::vector<HostSlots>> ParseHostFile(std::string_view text);

}  // namespace sluice

#endif  // SLUICE_DIST_HOST_LIST_H_
