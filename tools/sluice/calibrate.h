// The measurements behind `sluice calibrate`, and how the simulator's costs
// follow from them.
#ifndef SLUICE_TOOLS_SLUICE_CALIBRATE_H_
#define SLUICE_TOOLS_SLUICE_CALIBRATE_H_

#include "simulate/cluster_model.h"

namespace sluice::cli {

struct Calibration {
  RuntimeCosts costs;
  DeviceModel cpu;  // flops and bytes_per_s of one core.
  // What was measured, in seconds.
  double iteration_s = 0;      // Of a loop in one task,
  double ping_pong_s = 0;      // of one that passes a value between two tasks,
  double independent_s = 0;    // of one whose tasks do not wait for each other.
  double null_step_s = 0;      // A step of one task,
  double two_task_step_s = 0;  // and of two.
};

// Starts `sluice worker` processes of this program on this machine and measures
// for about 20 seconds. Then finds the costs with which the simulator, on a
// machine of `cores` cores, predicts what was measured.
Result<Calibration> Calibrate(int cores);

// A cluster of `tasks` workers on one machine, with these costs.
ClusterModel SharedMachine(const Calibration& c, int tasks, int cores);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_CALIBRATE_H_
