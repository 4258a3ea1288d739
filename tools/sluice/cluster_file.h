// Cluster files of `sluice simulate`: a ClusterModel in JSON.
//
//   {"calibration": "here.json",
//    "machines": {"host": {"cores": 2}},
//    "jobs": {"ps": {"tasks": 2},
//             "worker": {"tasks": 8, "machine": "host",
//                        "devices": {"GPU": {"count": 1, "flops": 1e13}}}}}
//
// "calibration": a file that `sluice calibrate` wrote, beside this one.
// "machines": those that several tasks share, by name; "machine" (an object):
// what each other task gets for its own; both with cores, bytes_per_s,
// latency_ns. "cpu": flops, bytes_per_s of one core. "costs": members of
// RuntimeCosts. "devices": others than CPU:0, with members of DeviceModel.
#ifndef SLUICE_TOOLS_SLUICE_CLUSTER_FILE_H_
#define SLUICE_TOOLS_SLUICE_CLUSTER_FILE_H_

#include <string>

#include "simulate/cluster_model.h"

namespace sluice::cli {

// InvalidArgument names the member that is wrong or not known.
Result<ClusterModel> ReadClusterFile(const std::string& path);
// What `sluice calibrate` writes.
std::string CalibrationText(const RuntimeCosts& costs, const DeviceModel& cpu);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_CLUSTER_FILE_H_
