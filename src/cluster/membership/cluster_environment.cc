// Clusters from the environment variables that Slurm, MPI and Kubernetes set
// for the processes they start (cluster/membership/cluster_resolver.h).
#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "cluster/membership/cluster_resolver.h"
#include "cluster/membership/host_list.h"

namespace sluice {
namespace {

constexpr int kPort = 4440;  // The default for a host's first task.

// A variable and its value.
struct Found {
  std::string name, value;
};

// The first of the variables that is set and not empty.
std::optional<Found> First(const EnvironmentReader& environment,
                           const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (const auto value = environment(name); value && !value->empty())
      return Found{name, *value};
  return std::nullopt;
}

Status Missing(const char* who, const std::string& name, const char* what) {
  return FailedPrecondition(who, ": expected ", name, " in the environment, ",
                            what, ", got none (was this process started by ",
                            who, "?)");
}

Result<int> Number(const Found& f, int least) {
  int n = 0;
  if (!absl::SimpleAtoi(f.value, &n) || n < least)
    return InvalidArgument(f.name, ": expected a number from ", least,
                           " on, got '", f.value, "'");
  return n;
}

Result<int> FirstPort(const ClusterSource& source) {
  const std::string text = source.Option("port");
  int port = kPort;
  if (!text.empty() &&
      (!absl::SimpleAtoi(text, &port) || port < 1 || port > 65535))
    return InvalidArgument("option 'port': expected 1 to 65535, got '", text,
                           "'");
  return port;
}

// One of the launched processes, indexed by its number.
struct Process {
  std::string host;
  int on_host = 0;  // Its index on its host.
};

// Assigns the processes to the jobs in the order in which the jobs are named:
// with ps=1&worker=2, process 0 is ps 0 and processes 1 and 2 are workers. If
// no job is named, there is one, "worker".
Result<EnvironmentCluster> Divide(const ClusterSource& source,
                                  const std::vector<Process>& processes,
                                  int self, const std::string& count_from) {
  SLUICE_ASSIGN_OR_RETURN(auto jobs, source.Jobs());
  SLUICE_ASSIGN_OR_RETURN(const int port, FirstPort(source));
  const int all = static_cast<int>(processes.size());
  if (jobs.empty()) jobs.emplace_back("worker", all);
  int sum = 0;
  for (const auto& [job, count] : jobs) sum += count;
  if (sum != all)
    return InvalidArgument(source.scheme, ": expected jobs of ", all,
                           " tasks in total, as ", count_from, " says, got ",
                           sum);
  if (self < 0 || self >= all)
    return InvalidArgument(source.scheme, ": expected a process below ", all,
                           ", as ", count_from, " says, got number ", self);
  EnvironmentCluster c;
  int number = 0;
  for (const auto& [job, count] : jobs)
    for (int task = 0; task < count; ++task, ++number) {
      const Process& p = processes[static_cast<size_t>(number)];
      const ClusterTask t{job, task,
                          absl::StrCat(p.host, ":", port + p.on_host)};
      SLUICE_RETURN_IF_ERROR(
          Annotate(c.cluster.Add(t.job, t.task, t.address), source.scheme));
      if (number == self) c.self = t;
    }
  return c;
}

// Checks a variable about this process against the value derived from the
// others.
Status Agree(const EnvironmentReader& environment,
             const std::vector<std::string>& names, const std::string& expected,
             const std::string& why) {
  const auto found = First(environment, names);
  if (!found || found->value == expected) return OkStatus();
  return InvalidArgument(found->name, ": expected ", expected, ", ", why,
                         ", got '", found->value, "'");
}

}  // namespace

// ---- Slurm ------------------------------------------------------------------

Result<EnvironmentCluster> ClusterFromSlurm(
    const ClusterSource& source, const EnvironmentReader& environment) {
  // Those of the step that srun started; without a step, those of the job.
  const auto nodes =
      First(environment,
            {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (!nodes)
    return Missing("slurm", "SLURM_STEP_NODELIST", "the names of the nodes");
  const auto counts =
      First(environment, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (!counts)
    return Missing("slurm", "SLURM_STEP_TASKS_PER_NODE",
                   "how many tasks each node has");
  const auto rank = First(environment, {"SLURM_PROCID"});
  if (!rank)
    return Missing("slurm", "SLURM_PROCID", "the number of this process");
  Result<std::vector<std::string>> hosts = ParseSlurmHosts(nodes->value);
  SLUICE_RETURN_IF_ERROR(Annotate(hosts.status(), nodes->name));
  Result<std::vector<int>> slots = ParseSlurmCounts(counts->value);
  SLUICE_RETURN_IF_ERROR(Annotate(slots.status(), counts->name));
  if (hosts->size() != slots->size())
    return InvalidArgument(counts->name, ": expected a count for each of ",
                           hosts->size(), " nodes ('", nodes->value, "'), got ",
                           slots->size(), " ('", counts->value, "')");
  const auto layout = First(environment, {"SLURM_DISTRIBUTION"});
  // "block:cyclic": over nodes, then within one.
  const std::string over_nodes =
      layout ? layout->value.substr(0, layout->value.find_first_of(":,"))
             : "block";
  std::vector<Process> processes;
  if (over_nodes == "block") {
    for (size_t i = 0; i < hosts->size(); ++i)
      for (int k = 0; k < (*slots)[i]; ++k)
        processes.push_back({(*hosts)[i], k});
  } else if (over_nodes == "cyclic") {
    const int most = *std::max_element(slots->begin(), slots->end());
    for (int k = 0; k < most; ++k)
      for (size_t i = 0; i < hosts->size(); ++i)
        if (k < (*slots)[i]) processes.push_back({(*hosts)[i], k});
  } else {
    return InvalidArgument(layout->name, ": expected block or cyclic, got '",
                           layout->value, "'");
  }
  SLUICE_ASSIGN_OR_RETURN(const int self, Number(*rank, 0));
  SLUICE_ASSIGN_OR_RETURN(EnvironmentCluster c,
                          Divide(source, processes, self, counts->name));
  const Process& p = processes[static_cast<size_t>(self)];
  const std::string why =
      absl::StrCat("as ", rank->name, "=", self, " of ", nodes->value, " with ",
                   counts->value, " has it (", over_nodes, ")");
  SLUICE_RETURN_IF_ERROR(
      Agree(environment, {"SLURM_LOCALID"}, absl::StrCat(p.on_host), why));
  SLUICE_RETURN_IF_ERROR(Agree(environment, {"SLURMD_NODENAME"}, p.host, why));
  return c;
}

// ---- MPI --------------------------------------------------------------------

Result<EnvironmentCluster> ClusterFromMpi(
    const ClusterSource& source, const EnvironmentReader& environment) {
  // Open MPI; MPICH, Intel MPI and others through PMI; PMIx.
  const auto rank =
      First(environment, {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"});
  if (!rank)
    return Missing("mpi", "OMPI_COMM_WORLD_RANK, PMI_RANK or PMIX_RANK",
                   "the number of this process");
  const auto size = First(environment, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  const std::vector<std::string> local_names = {
      "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK"};
  const auto local_size = First(
      environment,
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"});
  SLUICE_ASSIGN_OR_RETURN(const int self, Number(*rank, 0));
  int count = 0;
  if (size) {
    SLUICE_ASSIGN_OR_RETURN(count, Number(*size, 1));
  }
  // The hosts: from the options, or from the launcher.
  std::vector<HostSlots> hosts;
  std::string from;
  std::string path = source.Option("hostfile");
  if (const std::string given = source.Option("hosts"); !given.empty()) {
    from = "option 'hosts'";
    Result<std::vector<HostSlots>> parsed = ParseHostSlots(given);
    SLUICE_RETURN_IF_ERROR(Annotate(parsed.status(), from));
    hosts = *std::move(parsed);
  } else {
    if (path.empty())
      if (const auto found =
              First(environment, {"OMPI_MCA_orte_default_hostfile",
                                  "PRTE_MCA_prte_default_hostfile"}))
        path = found->value;
    if (!path.empty()) {
      from = absl::StrCat("host file '", path, "'");
      std::ifstream file(path, std::ios::binary);
      if (!file)
        return NotFound("mpi: expected a readable host file, got '", path, "'");
      std::ostringstream text;
      text << file.rdbuf();
      Result<std::vector<HostSlots>> parsed = ParseHostFile(text.str());
      SLUICE_RETURN_IF_ERROR(Annotate(parsed.status(), from));
      hosts = *std::move(parsed);
    } else if (size && local_size && local_size->value == size->value) {
      from = size->name;
      hosts.emplace_back("127.0.0.1", count);  // All on this machine.
    } else {
      return FailedPrecondition(
          "mpi: expected the hosts, which MPI does not pass to processes: "
          "mpi?hostfile=FILE or mpi?hosts=a:2,b:2, got neither, and ",
          size ? absl::StrCat(size->name, "=", size->value)
               : std::string("no count of processes"),
          " does not say that all are on this machine");
    }
  }
  std::vector<Process> processes;
  for (const auto& [host, slots] : hosts)
    for (int k = 0;
         k < slots && (!size || static_cast<int>(processes.size()) < count);
         ++k)
      processes.push_back({host, k});
  if (size && static_cast<int>(processes.size()) != count)
    return InvalidArgument(from, ": expected slots for ", count,
                           " processes, as ", size->name, " says, got ",
                           processes.size());
  SLUICE_ASSIGN_OR_RETURN(
      EnvironmentCluster c,
      Divide(source, processes, self, size ? size->name : from));
  SLUICE_RETURN_IF_ERROR(
      Agree(environment, local_names,
            absl::StrCat(processes[static_cast<size_t>(self)].on_host),
            absl::StrCat("as ", rank->name, "=", self, " of ", from,
                         " has it, slot by slot (mpirun --map-by slot)")));
  return c;
}

// ---- Kubernetes -------------------------------------------------------------

Result<EnvironmentCluster> ClusterFromKubernetes(
    const ClusterSource& source, const EnvironmentReader& environment) {
  SLUICE_ASSIGN_OR_RETURN(const auto jobs, source.Jobs());
  SLUICE_ASSIGN_OR_RETURN(const int port, FirstPort(source));
  if (jobs.empty())
    return InvalidArgument(
        "kubernetes: expected the number of pods, which pods are not told: "
        "kubernetes?worker=4, got no count");
  // A pod of a StatefulSet or an indexed Job is named SET-NUMBER.
  const auto hostname = First(environment, {"HOSTNAME"});
  if (!hostname) return Missing("kubernetes", "HOSTNAME", "as SET-NUMBER");
  const std::string& pod = hostname->value;
  const size_t dash = pod.rfind('-');
  int ordinal = -1;
  if (dash == std::string::npos || dash == 0 ||
      !absl::SimpleAtoi(pod.substr(dash + 1), &ordinal) || ordinal < 0 ||
      absl::StrCat(ordinal) != pod.substr(dash + 1))
    return InvalidArgument(
        "HOSTNAME: expected the name of a pod of a StatefulSet or an indexed "
        "Job, "
        "SET-NUMBER, got '",
        pod, "'");
  const std::string set = pod.substr(0, dash);
  // The headless service and the namespace complete the pods' host names.
  std::string domain = source.Option("service");
  if (domain.empty())
    if (const auto found = First(environment, {"SLUICE_SERVICE"}))
      domain = found->value;
  if (domain.empty())
    return FailedPrecondition(
        "kubernetes: expected the headless service of the pods, "
        "kubernetes?service=NAME or SLUICE_SERVICE in the environment, got "
        "none");
  std::string space = source.Option("namespace");
  if (space.empty())
    if (const auto found = First(environment, {"POD_NAMESPACE"}))
      space = found->value;
  if (!space.empty()) {
    const std::string zone = source.Option("domain");
    absl::StrAppend(&domain, ".", space, ".svc.",
                    zone.empty() ? "cluster.local" : zone);
  }
  const auto address = [&](const std::string& of_set, int number) {
    return absl::StrCat(of_set, "-", number, ".", domain, ":", port);
  };
  EnvironmentCluster c;
  c.bind = absl::StrCat("0.0.0.0:", port);
  const auto index = First(environment, {"JOB_COMPLETION_INDEX"});
  if (index) {  // One set of pods for all jobs.
    SLUICE_RETURN_IF_ERROR(Agree(environment, {"JOB_COMPLETION_INDEX"},
                                 absl::StrCat(ordinal),
                                 absl::StrCat("as HOSTNAME=", pod, " says")));
    int number = 0;
    for (const auto& [job, count] : jobs)
      for (int task = 0; task < count; ++task, ++number) {
        const ClusterTask t{job, task, address(set, number)};
        SLUICE_RETURN_IF_ERROR(c.cluster.Add(t.job, t.task, t.address));
        if (number == ordinal) c.self = t;
      }
    if (ordinal >= number)
      return InvalidArgument("JOB_COMPLETION_INDEX: expected less than ",
                             number, ", the count of tasks, got ", ordinal);
    return c;
  }
  // One StatefulSet per job, named after it: x-ps and x-worker. With a single
  // job any name is allowed.
  std::string own, prefix = set + "/";
  for (const auto& [job, count] : jobs) {
    const bool ends =
        set == job || (set.size() > job.size() + 1 && set.ends_with("-" + job));
    if (!ends && jobs.size() > 1) continue;
    if (!own.empty() && own.size() > job.size()) continue;  // "my-ps" not "ps".
    own = job;
    prefix = ends ? set.substr(0, set.size() - job.size()) : "";
  }
  if (own.empty())
    return InvalidArgument(
        "HOSTNAME: expected the pod of a StatefulSet that is "
        "named after a job (x-ps, x-worker), got '",
        pod, "'");
  for (const auto& [job, count] : jobs)
    for (int task = 0; task < count; ++task) {
      const std::string of_set = job == own ? set : absl::StrCat(prefix, job);
      const ClusterTask t{job, task, address(of_set, task)};
      SLUICE_RETURN_IF_ERROR(c.cluster.Add(t.job, t.task, t.address));
      if (job == own && task == ordinal) c.self = t;
    }
  if (c.self.job.empty())
    return InvalidArgument("HOSTNAME: expected a pod below ", set,
                           "-N for the N tasks of job '", own, "', got '", pod,
                           "'");
  return c;
}

}  // namespace sluice
