#include "dist/worker_main.h"

#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "dist/server.h"

namespace sluice {
namespace {

// "cpu=2": how many of which type.
Status ParseDevices(const std::string& text, ServerOptions* options) {
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> kv = absl::StrSplit(part, '=');
    int count = 0;
    if (kv.first != "cpu" || !absl::SimpleAtoi(kv.second, &count) ||
        count < 1 || count > 1024)
      return InvalidArgument("--devices: expected cpu=N, got '", part, "'");
    options->cpu_devices = count;
  }
  return OkStatus();
}

Status Prepare(const WorkerFlags& flags, ServerOptions* options) {
  SLUICE_ASSIGN_OR_RETURN(options->cluster, ClusterSpec::Load(flags.cluster));
  SLUICE_RETURN_IF_ERROR(options->cluster.Find(flags.job, flags.task).status());
  options->job = flags.job;
  options->task = flags.task;
  options->bind = flags.bind;
  options->transport = flags.transport;
  options->peer_timeout = std::chrono::milliseconds(flags.peer_timeout_ms);
  options->tls = {flags.tls_authority, flags.tls_certificate, flags.tls_key,
                  ""};
  options->plain_beyond_loopback = flags.plain_beyond_loopback;
  return ParseDevices(flags.devices, options);
}

}  // namespace
}  // namespace sluice

extern "C" int sluice_worker_main(const sluice::WorkerFlags* flags,
                                  std::string* error) {
  // These end the task in good order: all threads leave them to sigwait.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  sluice::ServerOptions options;
  if (const sluice::Status s = sluice::Prepare(*flags, &options); !s.ok()) {
    *error = std::string(s.message());
    return 2;
  }
  auto server = sluice::Server::Start(options);
  if (!server.ok()) {
    *error = std::string(server.status().message());
    return 1;
  }
  std::printf("%s at %s\n", (*server)->worker().task().c_str(),
              (*server)->target().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->Stop();
  return 0;
}
