// sluice worker: one task of a cluster.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/cluster_library.h"
#include "cluster/worker_main.h"
#include "tools/sluice/cli.h"

namespace sluice::cli {
namespace {

int RunWorker(const WorkerFlags& flags) {
  const Result<void*> found = DistSymbol("sluice_worker_main");
  if (!found.ok()) return Fail(kRunFailed, found.status());
  std::string error;
  const int code =
      reinterpret_cast<decltype(&sluice_worker_main)>(*found)(&flags, &error);
  return code == 0 ? 0 : Fail(code == 2 ? kUsage : kRunFailed, error);
}

}  // namespace

void AddWorker(CLI::App& app, std::function<int()>* run) {
  auto f = std::make_shared<WorkerFlags>();
  CLI::App* sub = app.add_subcommand("worker", "Run one task of a cluster");
  sub->footer(
      "Examples: sluice worker --cluster cluster.json --job ps --task 1\n"
      "          sluice worker --cluster 'etcd://10.0.0.9:2379/mine?ps=1&"
      "worker=2'\n            --job worker --task 0 --bind 10.0.0.3:0\n"
      "          srun sluice worker --cluster 'slurm?ps=1&worker=3'");
  sub->add_option("--cluster", f->cluster,
                  "A file, {\"ps\": [\"host:port\"], \"worker\": [...]}; or "
                  "etcd://host:port/name?JOB=COUNT&..., slurm?..., mpi?..., "
                  "kubernetes?... (docs/clusters.md)")
      ->required();
  sub->add_option("--job", f->job,
                  "Job of this task; set by Slurm, MPI and Kubernetes");
  sub->add_option("--task", f->task, "Number of this task in the job")
      ->capture_default_str();
  sub->add_option("--bind", f->bind,
                  "Listen here instead of at the cluster's address");
  sub->add_option("--address", f->address,
                  "With etcd: the address that others use, if not --bind");
  sub->add_flag("--plain-beyond-loopback", f->plain_beyond_loopback,
                "Let other machines connect without TLS");
  sub->add_option("--tls-authority", f->tls_authority, "PEM files, for TLS");
  sub->add_option("--tls-certificate", f->tls_certificate);
  sub->add_option("--tls-key", f->tls_key);
  sub->add_option("--transport", f->transport,
                  "Data plane: grpc, or ucx (within machines and networks that "
                  "are trusted)")
      ->capture_default_str();
  sub->add_flag(
      "--no-shared-memory", f->no_shared_memory,
      "With grpc: send large tensors over the stream within a machine "
      "too");
  sub->add_option("--devices", f->devices,
                  "cpu=N,emu=N(memory=1G,kernel_us=20,...): emulated "
                  "accelerators beside the CPUs")
      ->capture_default_str();
  sub->add_option("--peer-timeout-ms", f->peer_timeout_ms,
                  "A task silent for this long is lost")
      ->check(CLI::Range(100, 600000))
      ->capture_default_str();
  sub->add_option("--step-timeout-ms", f->step_timeout_ms,
                  "Ends steps that set no timeout after this long; 0: never")
      ->check(CLI::Range(int64_t{0}, int64_t{86'400'000}));
  sub->add_option("--max-message-mb", f->max_message_mb,
                  "Limit of one message received: a graph, a step's feeds")
      ->check(CLI::Range(1, 2048))
      ->capture_default_str();
  const auto limit = [sub](const char* name, int64_t* value, const char* what) {
    sub->add_option(name, *value, what)
        ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  };
  limit("--max-connections", &f->max_connections,
        "Limit of open connections; 0: 4096, or as many as open files allow");
  limit("--max-connections-per-peer", &f->max_connections_per_peer,
        "The same for one address; 0: half");
  limit("--max-sessions", &f->max_sessions,
        "Limit of clients' open sessions; 0: 4096");
  limit("--max-sessions-per-peer", &f->max_sessions_per_peer,
        "The same for one address; 0: half");
  sub->add_flag("--allow-host-access", f->allow_host_access,
                "Let sessions run ops that read or write this process's files "
                "or call its functions");
  sub->add_flag("--allow-reset", f->allow_reset,
                "Let every client clear the default container, or all");
  sub->add_option("--metrics", f->metrics,
                  "host:port that serves /metrics for Prometheus and /healthz")
      ->type_name("ADDRESS");
  sub->add_option("--drain-seconds", f->drain_seconds,
                  "How long SIGTERM waits for running steps to end; a second "
                  "signal ends them at once")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  sub->callback([f, run] { *run = [f] { return RunWorker(*f); }; });
}

}  // namespace sluice::cli
