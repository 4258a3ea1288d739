// The description of a cluster that `sluice launch` starts, the same for every
// kind of place where it runs.
//
//   {"name": "mnist",
//    "jobs": {"ps": 1, "worker": {"count": 3, "flags": ["--devices",
//    "cpu=2"]}}, "flags": ["--drain-seconds", "30"], "environment":
//    {"OMP_NUM_THREADS": "4"}, "program": ["python3", "train.py"]}
//
// A job's "command" replaces `sluice worker`: a program that is a task itself,
// as TensorFlow's programs are, and finds the cluster in TF_CONFIG.
#ifndef SLUICE_TOOLS_SLUICE_LAUNCH_SPEC_H_
#define SLUICE_TOOLS_SLUICE_LAUNCH_SPEC_H_

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace sluice::cli {

using Words = std::vector<std::string>;

struct LaunchJob {
  std::string name;
  int count = 0;
  Words flags;    // Of this job's tasks, after those of all.
  Words command;  // Instead of `sluice worker`; or none.
};

// A plain value.
struct LaunchSpec {
  std::string name = "sluice";
  std::vector<LaunchJob> jobs;  // In the order given.
  Words flags;                  // Of `sluice worker`, in all tasks.
  std::vector<std::pair<std::string, std::string>> environment;  // Of all.
  // What runs once, as a client; or none.
  Words program;

  // A file, its contents, or "ps=1,worker=3". InvalidArgument names what is
  // wrong; NotFound a missing file.
  static Result<LaunchSpec> Read(const std::string& text);

  int num_tasks() const;
  bool HasCommands() const;
  // "ps=1&worker=3", for the part of a cluster's source after '?'.
  std::string Counts() const;
  // The value that follows `flag` in a job's flags, the last one; "" if none.
  std::string Flag(const LaunchJob& job, const std::string& flag) const;
};

// One task, with its number on the whole and where it listens.
struct LaunchTask {
  const LaunchJob* job = nullptr;
  int number = 0;  // In its job.
  std::string host;
  std::string address;       // "host:port".
  std::string name() const;  // "ps/0".
};

// Places the tasks on the hosts ("a", "b:4" for four tasks), in order; without
// counts the tasks are divided evenly. The k-th task of a host listens at
// first_port + k. InvalidArgument if there is no room.
Result<std::vector<LaunchTask>> PlaceTasks(const LaunchSpec& spec,
                                           const Words& hosts, int first_port);
// {"ps": ["a:4440"], ...}.
std::string ClusterJson(const std::vector<LaunchTask>& tasks);
// The target for clients: task 0 of chief, master or worker, or the first.
std::string TargetOf(const std::vector<LaunchTask>& tasks);

// What starts a task with this source of the cluster, `sluice` being the
// program's path. `task`: null if the environment says which one it is.
Words TaskCommand(const LaunchSpec& spec, const LaunchJob& job,
                  const std::string& sluice, const std::string& cluster,
                  const LaunchTask* task);

// A word as a POSIX shell reads it back.
std::string ShellQuoted(const std::string& word);
std::string ShellLine(const Words& words);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_LAUNCH_SPEC_H_
