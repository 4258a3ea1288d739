// The work of a node: what a cost model knows about it before it runs.
#ifndef SLUICE_SIMULATE_OP_WORK_H_
#define SLUICE_SIMULATE_OP_WORK_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/core/trace.h"
#include "graph/node.h"
#include "simulate/cluster_model.h"

namespace sluice {

// Measured times of nodes in ns, by name. Empty: all times are estimated.
using MeasuredCosts = std::unordered_map<std::string, double>;

// The median time of each kernel in the traces of one or more steps
// (RunOptions::trace), which should be of the same graph.
MeasuredCosts CostsFromTrace(const std::vector<TraceEvent>& events);

struct OpWork {
  double flops = 0;
  double bytes = 0;         // Read and written.
  double measured_ns = -1;  // Instead of the above, if not negative.
  bool shapes_known = true;

  // On a device of this kind, one core of it if it is a CPU; in ns. Without
  // RuntimeCosts::kernel_ns.
  double NsOn(const DeviceModel& device) const;
};

// The bytes of a value with this static type; dimensions that are not known
// count as 1, and `*known` becomes false then.
double StaticBytes(const Output& o, bool* known);

// flops: products 2mnk, convolutions 2 per filter element and output element,
// other ops 1 per element of their outputs. bytes: all inputs and outputs (of a
// gather, the outputs twice; of an update of a reference, its other inputs
// twice), nothing for ops that touch no elements. With
// measurements, a node without one is part of another's kernel and costs
// nothing.
OpWork WorkOf(const Node& node, const MeasuredCosts& measured);

}  // namespace sluice

#endif  // SLUICE_SIMULATE_OP_WORK_H_
