// What `sluice launch` hands to other programs that start processes.
#ifndef SLUICE_TOOLS_SLUICE_LAUNCH_TEXT_H_
#define SLUICE_TOOLS_SLUICE_LAUNCH_TEXT_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "tools/sluice/launch_spec.h"

namespace sluice::cli {

// Whether tasks use TLS, by their flags; without it those that listen beyond
// loopback need --plain-beyond-loopback (which AllowPlain adds where it lacks,
// and says so on standard error).
bool UsesTls(const LaunchSpec& spec);
LaunchSpec AllowPlain(LaunchSpec spec);

// How long SIGTERM to a task may take: its --drain-seconds and a margin.
int EndSeconds(const LaunchSpec& spec, const LaunchJob& job);

// A batch script for sbatch: srun starts the tasks, and the program, if there
// is one, runs beside them in the script. `options`: lines "#SBATCH ...",
// without
// "#SBATCH". Unimplemented for jobs with commands.
Result<std::string> SlurmScript(const LaunchSpec& spec,
                                const std::string& sluice, int port,
                                const Words& options);

// mpirun and its arguments. `hosts`: as for PlaceTasks; none: this machine.
Result<Words> MpiCommand(const LaunchSpec& spec, const std::string& mpirun,
                         const std::string& sluice, int port,
                         const Words& hosts);

struct KubernetesOptions {
  std::string image;
  std::string sluice = "sluice";
  std::string space;  // Namespace; "": kubectl's.
  int port = 4440;
};
// YAML: a headless service, a StatefulSet for each job, and a Job for the
// program. InvalidArgument for names that Kubernetes does not allow.
Result<std::string> KubernetesManifests(const LaunchSpec& spec,
                                        const KubernetesOptions& options);

// The value of TF_CONFIG for a task; `index` is put in as it is.
std::string TfConfig(const std::string& cluster_json, const std::string& job,
                     const std::string& index);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_LAUNCH_TEXT_H_
