// Parsers for the host lists that schedulers write.
#ifndef SLUICE_CLUSTER_MEMBERSHIP_HOST_LIST_H_
#define SLUICE_CLUSTER_MEMBERSHIP_HOST_LIST_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace sluice {

// Slurm's list, "node[001-003,7],login1,rack[1-2]n[0-3]-ib", in the order
// given. Numbers keep their leading zeros. At most 65,536 hosts.
Result<std::vector<std::string>> ParseSlurmHosts(std::string_view text);
// Slurm's counts per node: "2(x3),1" is 2, 2, 2, 1.
Result<std::vector<int>> ParseSlurmCounts(std::string_view text);

// A host and its number of process slots.
using HostSlots = std::pair<std::string, int>;
// "a:2,b"; a host without a count has one slot.
Result<std::vector<HostSlots>> ParseHostSlots(std::string_view text);
// An MPI host file: one host per line, "a slots=2 max_slots=4" (Open MPI) or
// "a:2" (MPICH); '#' begins a comment. The slots of repeated hosts add up.
Result<std::vector<HostSlots>> ParseHostFile(std::string_view text);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_MEMBERSHIP_HOST_LIST_H_
