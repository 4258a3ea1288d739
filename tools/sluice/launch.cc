// sluice launch: starts the tasks of a cluster, and a program, where people
// have clusters.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "io/file.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/launch_processes.h"
#include "tools/sluice/launch_spec.h"
#include "tools/sluice/launch_text.h"

namespace sluice::cli {
namespace {

struct LaunchOptions {
  std::string spec;
  Words program;  // After "--"; instead of the description's.
  std::string sluice = "sluice";
  int port = 4440;
  Words hosts;
  // hosts
  std::string ssh =
      "ssh -o BatchMode=yes -o ServerAliveInterval=15 -o ServerAliveCountMax=3";
  std::string folder;
  int restarts = 0;
  // slurm
  Words sbatch;
  bool submit = false;
  // mpi
  std::string mpirun = "mpirun";
  bool print = false;
  // kubernetes
  KubernetesOptions kubernetes;
  std::string output;
};

Result<LaunchSpec> ReadSpec(const LaunchOptions& o) {
  SLUICE_ASSIGN_OR_RETURN(LaunchSpec spec, LaunchSpec::Read(o.spec));
  if (!o.program.empty()) spec.program = o.program;
  return spec;
}

int FailLaunch(const Status& s) {
  return Fail(s.code() == StatusCode::kUnavailable ? kRunFailed : kUsage, s);
}

bool IsThisMachine(const std::string& host) {
  return host == "localhost" || absl::StartsWith(host, "127.");
}

LaunchPolicy PolicyOf(const LaunchSpec& spec, int restarts) {
  LaunchPolicy policy;
  policy.restarts = restarts;
  policy.end_seconds = 0;
  for (const LaunchJob& job : spec.jobs)
    policy.end_seconds =
        std::max<double>(policy.end_seconds, EndSeconds(spec, job));
  return policy;
}

// The program, which runs here.
LaunchedProcess ProgramOf(const LaunchSpec& spec,
                          const std::vector<LaunchTask>& tasks) {
  LaunchedProcess program;
  program.name = "program";
  program.command = spec.program;
  program.environment = {{"SLUICE_TARGET", TargetOf(tasks)},
                         {"SLUICE_CLUSTER", ClusterJson(tasks)}};
  program.environment.insert(program.environment.end(),
                             spec.environment.begin(), spec.environment.end());
  return program;
}

int LaunchOnHosts(const LaunchOptions& o) {
  Result<LaunchSpec> spec = ReadSpec(o);
  if (!spec.ok()) return FailLaunch(spec.status());
  Words hosts;
  for (const std::string& list : o.hosts)
    for (const auto& host : absl::StrSplit(list, ',')) hosts.emplace_back(host);
  Result<std::vector<LaunchTask>> tasks = PlaceTasks(*spec, hosts, o.port);
  if (!tasks.ok()) return FailLaunch(tasks.status());
  if (std::any_of(tasks->begin(), tasks->end(),
                  [](const LaunchTask& t) { return !IsThisMachine(t.host); })) {
    *spec = AllowPlain(*std::move(spec));
    tasks = PlaceTasks(*spec, hosts, o.port);
  }
  const std::string cluster = ClusterJson(*tasks);
  const Words ssh = absl::StrSplit(o.ssh, ' ', absl::SkipEmpty());
  if (ssh.empty()) return Fail(kUsage, "--ssh: expected a command, got none");
  std::vector<LaunchedProcess> processes;
  for (const LaunchTask& t : *tasks) {
    LaunchedProcess p;
    p.name = t.name();
    p.where = "on " + t.host;
    p.environment = spec->environment;
    p.environment.emplace_back("SLUICE_CLUSTER", cluster);
    p.environment.emplace_back(
        "TF_CONFIG", TfConfig(cluster, t.job->name, absl::StrCat(t.number)));
    const Words command = TaskCommand(*spec, *t.job, o.sluice, cluster, &t);
    p.remote = !IsThisMachine(t.host);
    if (p.remote) {
      p.command = ssh;
      p.command.push_back(t.host);
      p.command.push_back(RemoteCommand(command, p.environment, o.folder));
      p.environment.clear();
    } else {
      p.command = command;
    }
    processes.push_back(std::move(p));
  }
  return RunProcesses(processes, ProgramOf(*spec, *tasks),
                      PolicyOf(*spec, o.restarts));
}

int LaunchByMpi(const LaunchOptions& o) {
  const Result<LaunchSpec> spec = ReadSpec(o);
  if (!spec.ok()) return FailLaunch(spec.status());
  Words hosts;
  for (const std::string& list : o.hosts)
    for (const auto& host : absl::StrSplit(list, ',')) hosts.emplace_back(host);
  const Result<Words> command =
      MpiCommand(*spec, o.mpirun, o.sluice, o.port, hosts);
  if (!command.ok()) return FailLaunch(command.status());
  if (o.print) {
    std::printf("%s\n", ShellLine(*command).c_str());
    return 0;
  }
  const Words here = {absl::StrCat("127.0.0.1:", spec->num_tasks())};
  const Result<std::vector<LaunchTask>> tasks =
      PlaceTasks(*spec, hosts.empty() ? here : hosts, o.port);
  if (!tasks.ok()) return FailLaunch(tasks.status());
  LaunchedProcess mpi;
  mpi.name = "mpi";
  mpi.command = *command;
  return RunProcesses({mpi}, ProgramOf(*spec, *tasks), PolicyOf(*spec, 0));
}

// Writes to the file or, without one, to standard output.
int Deliver(const std::string& text, const std::string& path) {
  if (path.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  const Status s = WriteFile(path, text);
  return s.ok() ? 0 : Fail(kRunFailed, s);
}

int LaunchBySlurm(const LaunchOptions& o) {
  const Result<LaunchSpec> spec = ReadSpec(o);
  if (!spec.ok()) return FailLaunch(spec.status());
  const Result<std::string> script =
      SlurmScript(*spec, o.sluice, o.port, o.sbatch);
  if (!script.ok()) return FailLaunch(script.status());
  if (!o.submit) return Deliver(*script, o.output);
  FILE* const sbatch = popen("sbatch", "w");
  if (sbatch == nullptr)
    return Fail(kRunFailed, "sbatch: expected to run it, got no process");
  const bool written =
      std::fwrite(script->data(), 1, script->size(), sbatch) == script->size();
  return pclose(sbatch) == 0 && written
             ? 0
             : Fail(kRunFailed,
                    "sbatch: expected it to take the script, got an "
                    "error");
}

int LaunchOnKubernetes(const LaunchOptions& o) {
  const Result<LaunchSpec> spec = ReadSpec(o);
  if (!spec.ok()) return FailLaunch(spec.status());
  KubernetesOptions options = o.kubernetes;
  options.sluice = o.sluice;
  options.port = o.port;
  const Result<std::string> manifests = KubernetesManifests(*spec, options);
  if (!manifests.ok()) return FailLaunch(manifests.status());
  return Deliver(*manifests, o.output);
}

}  // namespace

void AddLaunch(CLI::App& app, std::function<int()>* run) {
  auto o = std::make_shared<LaunchOptions>();
  CLI::App* sub = app.add_subcommand(
      "launch",
      "Start a cluster, and a program on it, by ssh, Slurm, MPI or "
      "Kubernetes");
  sub->require_subcommand(1);
  sub->footer(
      "The cluster: a JSON file (docs/clusters.md), or JOB=COUNT,...\n"
      "Examples: sluice launch hosts ps=1,worker=3 --hosts a,b -- python3 "
      "train.py\n"
      "          sluice launch slurm cluster.json | sbatch\n"
      "          sluice launch kubernetes cluster.json --image me/mnist | "
      "kubectl apply -f -");
  const auto add = [&](const char* name, const char* what,
                       int (*function)(const LaunchOptions&)) {
    CLI::App* target = sub->add_subcommand(name, what);
    target
        ->add_option("cluster", o->spec,
                     "Jobs, flags, environment and program: a file, JSON, or "
                     "JOB=COUNT,...")
        ->required();
    target->add_option("program", o->program,
                       "After --: what runs once all tasks are started");
    target->add_option("--sluice", o->sluice, "The program there")
        ->capture_default_str();
    target
        ->add_option("--port", o->port,
                     "The first task of a host listens "
                     "there")
        ->check(CLI::Range(1, 65535))
        ->capture_default_str();
    target->callback(
        [o, run, function] { *run = [o, function] { return function(*o); }; });
    return target;
  };
  CLI::App* hosts = add("hosts", "By ssh; on 127.0.0.1 without", LaunchOnHosts);
  hosts->add_option("--hosts", o->hosts, "HOST or HOST:COUNT, with commas")
      ->required();
  hosts->add_option("--ssh", o->ssh, "The command for a host")
      ->capture_default_str();
  hosts->add_option("--folder", o->folder, "Where tasks run on a host");
  hosts
      ->add_option("--restart", o->restarts,
                   "How often to start a task again that ended by itself")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  CLI::App* mpi = add("mpi", "By mpirun", LaunchByMpi);
  mpi->add_option("--hosts", o->hosts,
                  "HOST:COUNT, with commas; none: this machine");
  mpi->add_option("--mpirun", o->mpirun, "The program")->capture_default_str();
  mpi->add_flag("--print", o->print, "Print the command instead");
  CLI::App* slurm = add("slurm", "A script for sbatch", LaunchBySlurm);
  slurm->add_option("--sbatch", o->sbatch,
                    "An option for the job: '--time=10:00'");
  slurm->add_flag("--submit", o->submit, "Run sbatch instead of printing");
  CLI::App* kubernetes =
      add("kubernetes", "Manifests for kubectl", LaunchOnKubernetes);
  kubernetes
      ->add_option("--image", o->kubernetes.image,
                   "With sluice and the "
                   "program")
      ->required();
  kubernetes->add_option("--namespace", o->kubernetes.space);
  for (CLI::App* writes : {slurm, kubernetes})
    writes->add_option("-o,--output", o->output,
                       "A file instead of standard "
                       "output");
}

}  // namespace sluice::cli
