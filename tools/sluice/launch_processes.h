// The processes that `sluice launch` starts, and what becomes of them.
#ifndef SLUICE_TOOLS_SLUICE_LAUNCH_PROCESSES_H_
#define SLUICE_TOOLS_SLUICE_LAUNCH_PROCESSES_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "tools/sluice/launch_spec.h"

namespace sluice::cli {

struct LaunchedProcess {
  std::string name;   // Begins each line of its output: "ps/0".
  std::string where;  // For messages: "on host a"; or "".
  Words command;
  std::vector<std::pair<std::string, std::string>> environment;  // Added.
  // Signals are lines to its standard input ("TERM"), whose end means TERM: it
  // runs a remote process by ssh (RemoteCommand). Else they are sent to it.
  bool remote = false;
};

struct LaunchPolicy {
  // How often each of the tasks is started again after it died.
  int restarts = 0;
  double restart_seconds = 1;  // The pause before.
  // After SIGTERM, before SIGKILL.
  double end_seconds = 15;
};

// Starts the tasks and then the program (if it has a command) and waits. Their
// output goes line by line to our own, with their names. Then:
// - The program ends: the tasks get SIGTERM; returns its exit code.
// - A task ends although nobody asked for it: this is reported. It is started
//   again, if the policy allows; else all others get SIGTERM and the result is
//   its exit code (128 + the signal; 1 if it was 0 and others still ran).
// - SIGTERM or SIGINT to this process: sent on to the program while it runs,
//   whose last steps may need the tasks and whose end ends them, within twice
//   `end_seconds`; else to all tasks: returns 0 if all ended with 0, or else
//   the first other code. A second signal kills all.
// - This process is killed: its local children get SIGTERM.
// Without a program it also returns once all tasks have ended with 0. Called
// once in a process, by its main thread, as it blocks signals.
int RunProcesses(const std::vector<LaunchedProcess>& tasks,
                 const LaunchedProcess& program, const LaunchPolicy& policy);

// A command for a remote shell: it runs `command` with the environment in the
// folder ("": the home directory), takes signals from standard input, and ends
// the command when that ends.
std::string RemoteCommand(
    const Words& command,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::string& folder);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_LAUNCH_PROCESSES_H_
