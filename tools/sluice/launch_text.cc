#include "tools/sluice/launch_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace sluice::cli {
namespace {

constexpr int kEndMargin = 5;  // Seconds.
constexpr char kIndex[] = "@INDEX@";

Status NoCommands(const LaunchSpec& spec, const char* where) {
  if (!spec.HasCommands()) return OkStatus();
  return Unimplemented("launch: expected jobs of `sluice worker` with ", where,
                       ", got a job with a command (hosts, kubernetes and Ray "
                       "start those)");
}

// YAML's strings in double quotes are JSON's.
std::string YamlString(const std::string& s) {
  return nlohmann::json(s).dump(-1, ' ', false,
                                nlohmann::json::error_handler_t::replace);
}
// Kubernetes puts the values of variables in for $(NAME), and $ for $$.
std::string KubernetesString(const std::string& s) {
  return YamlString(absl::StrReplaceAll(s, {{"$", "$$"}}));
}
std::string YamlList(const Words& words) {
  return absl::StrCat("[",
                      absl::StrJoin(words, ", ",
                                    [](std::string* out, const std::string& w) {
                                      *out += KubernetesString(w);
                                    }),
                      "]");
}

bool IsDnsLabel(const std::string& s) {
  return !s.empty() && s.size() <= 63 && s.back() != '-' &&
         std::islower(static_cast<unsigned char>(s[0])) != 0 &&
         std::all_of(s.begin(), s.end(), [](char c) {
           return std::islower(static_cast<unsigned char>(c)) != 0 ||
                  std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-';
         });
}

std::string EnvironmentYaml(
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::string& indent) {
  std::string text;
  for (const auto& [name, value] : environment)
    absl::StrAppend(&text, indent, "- name: ", YamlString(name), "\n", indent,
                    "  value: ", KubernetesString(value), "\n");
  return text;
}

// The port of "host:port"; 0 if there is none.
int PortOf(const std::string& address) {
  int port = 0;
  const size_t colon = address.rfind(':');
  return colon != std::string::npos &&
                 absl::SimpleAtoi(address.substr(colon + 1), &port)
             ? port
             : 0;
}

std::string ProbeYaml(const LaunchSpec& spec, const LaunchJob& job, int port,
                      int metrics) {
  // (The kubelet has no certificate; a program may not answer gRPC's protocol.)
  std::string how = absl::StrCat("grpc: {port: ", port, "}");
  if (UsesTls(spec) || !job.command.empty())
    how = metrics > 0 && job.command.empty()
              ? absl::StrCat("httpGet: {path: /healthz, port: ", metrics, "}")
              : absl::StrCat("tcpSocket: {port: ", port, "}");
  return absl::StrCat("          readinessProbe:\n            ", how,
                      "\n            periodSeconds: 5\n"
                      "          livenessProbe:\n            ",
                      how,
                      "\n            periodSeconds: 10\n"
                      "            timeoutSeconds: 5\n"
                      "            failureThreshold: 3\n"
                      "            initialDelaySeconds: 10\n");
}

}  // namespace

bool UsesTls(const LaunchSpec& spec) {
  return std::any_of(spec.jobs.begin(), spec.jobs.end(),
                     [&spec](const LaunchJob& j) {
                       return !spec.Flag(j, "--tls-authority").empty();
                     });
}

LaunchSpec AllowPlain(LaunchSpec spec) {
  constexpr char kFlag[] = "--plain-beyond-loopback";
  if (UsesTls(spec) || std::find(spec.flags.begin(), spec.flags.end(), kFlag) !=
                           spec.flags.end())
    return spec;
  std::fprintf(stderr,
               "sluice launch: tasks accept anyone who reaches their ports; "
               "use --tls-authority, --tls-certificate and --tls-key\n");
  spec.flags.push_back(kFlag);
  return spec;
}

int EndSeconds(const LaunchSpec& spec, const LaunchJob& job) {
  double drain = 10;  // The default of `sluice worker`.
  const std::string given = spec.Flag(job, "--drain-seconds");
  double value = 0;
  if (absl::SimpleAtod(given, &value) && value >= 0 && value <= 86400)
    drain = value;
  return static_cast<int>(std::ceil(drain)) + kEndMargin;
}

Result<std::string> SlurmScript(const LaunchSpec& given,
                                const std::string& sluice, int port,
                                const Words& options) {
  SLUICE_RETURN_IF_ERROR(NoCommands(given, "Slurm"));
  for (const LaunchJob& job : given.jobs)
    if (!job.flags.empty())
      return Unimplemented(
          "launch: expected flags of all tasks with Slurm, as "
          "one srun starts them, got flags of job '",
          job.name, "'");
  const LaunchSpec spec = AllowPlain(given);
  int end = 0;
  for (const LaunchJob& job : spec.jobs)
    end = std::max(end, EndSeconds(spec, job));
  std::string text = absl::StrCat(
      "#!/bin/bash\n"
      "#SBATCH --job-name=",
      spec.name, "\n#SBATCH --ntasks=", spec.num_tasks(),
      // SIGTERM before the time is over, for the tasks and the program to end
      // in order.
      "\n#SBATCH --signal=B:TERM@", 2 * end, "\n");
  for (const std::string& option : options) {
    if (option.find('\n') != std::string::npos)
      return InvalidArgument("--sbatch: expected one line, got '", option, "'");
    absl::StrAppend(&text, "#SBATCH ", option, "\n");
  }
  for (const auto& [name, value] : spec.environment)
    absl::StrAppend(&text, "export ", name, "=", ShellQuoted(value), "\n");
  const std::string query = absl::StrCat(
      "?", spec.Counts(),
      port == 4440 ? "" : "&port=", port == 4440 ? "" : absl::StrCat(port));
  const Words task =
      TaskCommand(spec, spec.jobs[0], sluice, "slurm" + query, nullptr);
  // (A signal may come at any moment: $! is what was started last.)
  absl::StrAppend(&text,
                  "\ntrap '[ -n \"$!\" ] || exit 143; kill -s TERM \"$!\"' "
                  "TERM INT\n");
  absl::StrAppend(&text, "srun --ntasks=", spec.num_tasks(),
                  " --kill-on-bad-exit=1 ", ShellLine(task), " &\ntasks=$!\n");
  if (spec.program.empty()) {
    absl::StrAppend(&text,
                    "wait \"$tasks\"\ncode=$?\n"
                    "# A trapped signal ends the first wait.\n"
                    "if [ \"$code\" -gt 128 ]; then\n"
                    "  wait \"$tasks\" 2>/dev/null\n  again=$?\n"
                    "  # (127: that was the code of the tasks.)\n"
                    "  [ \"$again\" -eq 127 ] || code=$again\n"
                    "fi\nexit \"$code\"\n");
    return text;
  }
  absl::StrAppend(&text,
                  "export SLUICE_TARGET=", ShellQuoted("slurm://" + query),
                  "\n", ShellLine(spec.program),
                  " &\nprogram=$!\n"
                  "# The tasks may fail before the program does.\n"
                  "wait -n \"$tasks\" \"$program\"\ncode=$?\n"
                  "if kill -0 \"$tasks\" 2>/dev/null; then\n"
                  "  wait \"$program\" && code=$? || code=$?\n"
                  "else\n"
                  "  [ \"$code\" -ne 0 ] || code=1\n"
                  "  kill -s TERM \"$program\" 2>/dev/null || true\n"
                  "  wait \"$program\" 2>/dev/null || true\n"
                  "fi\n"
                  "kill -s TERM \"$tasks\" 2>/dev/null || true\n"
                  "wait \"$tasks\" 2>/dev/null || true\nexit \"$code\"\n");
  return text;
}

Result<Words> MpiCommand(const LaunchSpec& given, const std::string& mpirun,
                         const std::string& sluice, int port,
                         const Words& hosts) {
  SLUICE_RETURN_IF_ERROR(NoCommands(given, "MPI"));
  for (const LaunchJob& job : given.jobs)
    if (!job.flags.empty())
      return Unimplemented(
          "launch: expected flags of all tasks with MPI, as "
          "one mpirun starts them, got flags of job '",
          job.name, "'");
  LaunchSpec spec = given;
  std::string query = absl::StrCat("mpi?", spec.Counts());
  Words words = {mpirun, "-n", absl::StrCat(spec.num_tasks())};
  if (!hosts.empty()) {
    spec = AllowPlain(spec);
    SLUICE_ASSIGN_OR_RETURN(const std::vector<LaunchTask> tasks,
                            PlaceTasks(spec, hosts, port));
    std::vector<std::pair<std::string, int>> counts;
    for (const LaunchTask& t : tasks) {
      if (counts.empty() || counts.back().first != t.host)
        counts.emplace_back(t.host, 0);
      ++counts.back().second;
    }
    const std::string list =
        absl::StrJoin(counts, ",", [](std::string* out, const auto& c) {
          absl::StrAppend(out, c.first, ":", c.second);
        });
    words.insert(words.end(), {"--host", list, "--map-by", "slot"});
    absl::StrAppend(&query, "&hosts=", list);
  }
  if (port != 4440) absl::StrAppend(&query, "&port=", port);
  if (!spec.environment.empty()) words.push_back("env");
  for (const auto& [name, value] : spec.environment)
    words.push_back(absl::StrCat(name, "=", value));
  const Words task = TaskCommand(spec, spec.jobs[0], sluice, query, nullptr);
  words.insert(words.end(), task.begin(), task.end());
  return words;
}

std::string TfConfig(const std::string& cluster_json, const std::string& job,
                     const std::string& index) {
  return absl::StrCat("{\"cluster\": ", cluster_json,
                      ", \"task\": {\"type\": \"", job,
                      "\", \"index\": ", index, "}}");
}

Result<std::string> KubernetesManifests(const LaunchSpec& given,
                                        const KubernetesOptions& options) {
  const LaunchSpec spec = AllowPlain(given);
  if (options.image.empty())
    return InvalidArgument("--image: expected the name of an image, got none");
  const std::string& name = spec.name;
  std::vector<std::string> names = {name};
  for (const LaunchJob& job : spec.jobs) names.push_back(name + "-" + job.name);
  if (!options.space.empty()) names.push_back(options.space);
  for (const std::string& n : names)
    if (!IsDnsLabel(n))
      return InvalidArgument(
          "kubernetes: expected lower case letters, digits "
          "and '-' in names, at most 63, got '",
          n, "'");
  std::string query =
      absl::StrCat("kubernetes?", spec.Counts(), "&service=", name);
  if (options.port != 4440) absl::StrAppend(&query, "&port=", options.port);
  std::vector<LaunchTask> tasks;
  for (const LaunchJob& job : spec.jobs)
    for (int i = 0; i < job.count; ++i)
      tasks.push_back({&job, i, "",
                       absl::StrCat(name, "-", job.name, "-", i, ".", name, ":",
                                    options.port)});
  const std::string cluster = ClusterJson(tasks);
  const std::string space =
      options.space.empty()
          ? ""
          : "  namespace: " + YamlString(options.space) + "\n";
  // (YAML reads some names, such as "no", as other than strings.)
  const std::string quoted = YamlString(name);
  const std::string labels =
      absl::StrCat("app.kubernetes.io/part-of: ", quoted);
  std::string text = absl::StrCat(
      "apiVersion: v1\nkind: Service\nmetadata:\n  name: ", quoted, "\n", space,
      "  labels: {", labels,
      "}\nspec:\n  clusterIP: None\n"
      // Tasks find each other before they are ready.
      "  publishNotReadyAddresses: true\n  selector: {",
      labels, "}\n  ports:\n  - {name: grpc, port: ", options.port, "}\n");
  for (const LaunchJob& job : spec.jobs) {
    const std::string metrics_at =
        job.command.empty() ? spec.Flag(job, "--metrics") : "";
    const int metrics = PortOf(metrics_at);
    if (!metrics_at.empty() && metrics == 0)
      return InvalidArgument("--metrics: expected host:port, got '", metrics_at,
                             "'");
    Words command = TaskCommand(spec, job, options.sluice, query, nullptr);
    if (!job.command.empty()) {
      const std::pair<std::string, std::string> around = absl::StrSplit(
          TfConfig(cluster, job.name, kIndex), absl::MaxSplits(kIndex, 1));
      // (A pod knows its number by its name only.)
      command = {"sh", "-c",
                 absl::StrCat("export TF_CONFIG=", ShellQuoted(around.first),
                              "\"${HOSTNAME##*-}\"", ShellQuoted(around.second),
                              "; exec ", ShellLine(job.command))};
    }
    const std::string of_job = absl::StrCat(
        labels, ", app.kubernetes.io/component: ", YamlString(job.name));
    absl::StrAppend(
        &text, "---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n",
        "  name: ", YamlString(name + "-" + job.name), "\n", space,
        "  labels: {", of_job, "}\nspec:\n  serviceName: ", quoted,
        "\n  replicas: ", job.count,
        "\n  podManagementPolicy: Parallel\n  selector:\n    matchLabels: {",
        of_job, "}\n  template:\n    metadata:\n      labels: {", of_job,
        "}\n");
    if (metrics > 0)
      absl::StrAppend(&text,
                      "      annotations:\n"
                      "        prometheus.io/scrape: \"true\"\n"
                      "        prometheus.io/path: /metrics\n"
                      "        prometheus.io/port: \"",
                      metrics, "\"\n");
    absl::StrAppend(
        &text, "    spec:\n      terminationGracePeriodSeconds: ",
        EndSeconds(spec, job), "\n      containers:\n        - name: task\n",
        "          image: ", YamlString(options.image),
        "\n          command: ", YamlList(command),
        "\n          env:\n            - name: POD_NAMESPACE\n",
        "              valueFrom: {fieldRef: {fieldPath: "
        "metadata.namespace}}\n",
        EnvironmentYaml(spec.environment, "            "),
        "          ports:\n            - {name: grpc, containerPort: ",
        options.port, "}\n");
    if (metrics > 0)
      absl::StrAppend(&text,
                      "            - {name: metrics, containerPort: ", metrics,
                      "}\n");
    text += ProbeYaml(spec, job, options.port, metrics);
  }
  if (spec.program.empty()) return text;
  absl::StrAppend(
      &text, "---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: ",
      YamlString(name + "-program"), "\n", space, "  labels: {", labels,
      ", app.kubernetes.io/component: program}\nspec:\n  backoffLimit: 4\n"
      "  template:\n    metadata:\n      labels: {app.kubernetes.io/name: ",
      YamlString(name + "-program"),
      "}\n    spec:\n      restartPolicy: OnFailure\n"
      "      containers:\n        - name: program\n          image: ",
      YamlString(options.image),
      "\n          command: ", YamlList(spec.program),
      "\n          env:\n            - name: SLUICE_TARGET\n"
      "              value: ",
      KubernetesString(TargetOf(tasks)), "\n",
      EnvironmentYaml(spec.environment, "            "));
  return text;
}

}  // namespace sluice::cli
