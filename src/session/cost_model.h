// CostModel: the measured costs of a step's nodes, from traces.
#ifndef SLUICE_SESSION_COST_MODEL_H_
#define SLUICE_SESSION_COST_MODEL_H_

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "exec/core/trace.h"
#include "graph/graphdef_costs.h"

namespace sluice {

// Owned by a compiled step. Thread-safe.
class CostModel {
 public:
  // Adds the measurements of one run. Returns the costs of all nodes of
  // `partitions` (GraphDefs whose nodes have devices), each the maximum over
  // all runs, as a serialised CostGraphDef. Nodes that were fused into another
  // node's kernel, or did not run, have none.
  Result<std::string> Update(const std::vector<TraceEvent>& events,
                             const std::vector<std::string>& partitions);

 private:
  // REQUIRES: mu_ held.
  void Add(const TraceEvent& event, const std::string& device);

  std::mutex mu_;
  // By device ("" if there is only one partition) and node. GUARDED_BY(mu_)
  std::map<std::pair<std::string, std::string>, NodeCost> costs_;
};

}  // namespace sluice

#endif  // SLUICE_SESSION_COST_MODEL_H_
