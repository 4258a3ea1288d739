#include "dist/worker_main.h"

#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "dist/cluster_resolver.h"
#include "dist/server.h"
#include "exec/emulated_device.h"

namespace sluice {
namespace {

// "cpu=2,emu=8(memory=1G,kernel_us=20)": how many of which type, and what the
// emulated ones are like.
Status ParseDevices(absl::string_view text, ServerOptions* options) {
  while (!text.empty()) {
    size_t end = std::min(text.find(','), text.size());
    absl::string_view details;
    if (const size_t open = text.find('('); open < end) {
      const size_t close = text.find(')', open);
      if (close == absl::string_view::npos)
        return InvalidArgument("--devices: expected ')', got '", text, "'");
      details = text.substr(open + 1, close - open - 1);
      end = open;
    }
    const absl::string_view part = text.substr(0, end);
    const std::pair<std::string, std::string> kv = absl::StrSplit(part, '=');
    int count = 0;
    if ((kv.first != "cpu" && kv.first != "emu") ||
        (kv.first == "cpu" && !details.empty()) ||
        !absl::SimpleAtoi(kv.second, &count) || count < 1 || count > 1024)
      return InvalidArgument("--devices: expected cpu=N or emu=N(how), got '",
                             part, "'");
    if (!details.empty()) end += details.size() + 2;
    text.remove_prefix(end);
    if (!text.empty() && text[0] != ',')
      return InvalidArgument("--devices: expected ',', got '", text, "'");
    if (!text.empty()) text.remove_prefix(1);
    if (kv.first == "cpu") {
      options->cpu_devices = count;
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(
        const EmulatedDeviceOptions emulated,
        ParseEmulatedDevice({details.data(), details.size()}));
    options->more_devices = [count, emulated](
                                DeviceName name,
                                std::vector<std::unique_ptr<Device>>* devices) {
      name.type = "EMU";
      for (name.number = 0; name.number < count; ++name.number)
        devices->push_back(std::make_unique<EmulatedDevice>(name, emulated));
      return OkStatus();
    };
  }
  return OkStatus();
}

// A port that nobody listens at, at least a moment ago.
int PortToTry() {
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  socklen_t size = sizeof(a);
  int port = 0;
  if (s >= 0 && bind(s, reinterpret_cast<sockaddr*>(&a), size) == 0 &&
      getsockname(s, reinterpret_cast<sockaddr*>(&a), &size) == 0)
    port = ntohs(a.sin_port);
  if (s >= 0) close(s);
  return port;
}

// A task that runs, and its place in the cluster.
struct RunningTask {
  std::unique_ptr<ClusterResolver> resolver;  // Outlives the server.
  std::unique_ptr<Server> server;
};

// With etcd: the port in `address`, if it says 0, is one that is free.
Status WithPort(std::string* address) {
  const size_t colon = address->rfind(':');
  if (colon == std::string::npos || address->substr(colon) != ":0")
    return OkStatus();
  const int port = PortToTry();
  if (port == 0) return Unavailable("port: expected a free one, got none");
  *address = absl::StrCat(address->substr(0, colon), ":", port);
  return OkStatus();
}

Status Prepare(const WorkerFlags& flags, RunningTask* r,
               ServerOptions* options) {
  ResolverOptions ask;
  ask.job = flags.job;
  ask.task = flags.task;
  ask.patience = options->connect_timeout;
  options->bind = flags.bind;
  SLUICE_ASSIGN_OR_RETURN(const ClusterSource source,
                          ClusterSource::Parse(flags.cluster));
  if (source.scheme == "etcd") {
    if (flags.job.empty())
      return InvalidArgument(
          "--job: expected one, as etcd gives none, got none");
    if (flags.bind.empty())
      return InvalidArgument(
          "--bind: expected host:port (0: a free one) to be told to the "
          "others, "
          "got none");
    SLUICE_RETURN_IF_ERROR(WithPort(&options->bind));
    ask.address = flags.address.empty() ? options->bind : flags.address;
  }
  SLUICE_ASSIGN_OR_RETURN(r->resolver, MakeClusterResolver(flags.cluster, ask));
  SLUICE_ASSIGN_OR_RETURN(const ClusterTask self, r->resolver->Self());
  options->job = self.job;
  options->task = self.task;
  if (r->resolver->changes()) {
    options->cluster = ClusterSpec();
    SLUICE_RETURN_IF_ERROR(
        options->cluster.Add(self.job, self.task, self.address));
    options->members = [resolver = r->resolver.get()](bool complete) {
      return complete ? resolver->Cluster() : resolver->Present();
    };
  } else {
    SLUICE_ASSIGN_OR_RETURN(options->cluster, r->resolver->Cluster());
  }
  if (options->bind.empty()) options->bind = r->resolver->Bind();
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
  // What large values are read into is given back and taken again for each;
  // page faults would cost more than the copies.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  sluice::RunningTask r;
  sluice::Status s;
  const bool any_port = flags->bind.ends_with(":0");
  // (A port that was free may be taken when it is wanted.)
  for (int attempt = 0; attempt < 10; ++attempt) {
    sluice::ServerOptions options;
    s = sluice::Prepare(*flags, &r, &options);
    if (!s.ok()) {
      *error = std::string(s.message());
      return s.code() == sluice::StatusCode::kUnavailable ? 1 : 2;
    }
    auto server = sluice::Server::Start(options);
    s = server.status();
    if (s.ok()) r.server = *std::move(server);
    if (s.code() != sluice::StatusCode::kUnavailable || !any_port) break;
  }
  std::mutex mu;
  sluice::Status evicted;  // GUARDED_BY(mu)
  if (s.ok()) {
    r.resolver->OnLost(
        [&r](const std::string& task, const sluice::Status& why) {
          r.server->master().LoseTask(task, why);
        });
    s = r.resolver->Join(r.server->worker().incarnation(),
                         [&mu, &evicted](const sluice::Status& why) {
                           std::lock_guard<std::mutex> lock(mu);
                           evicted = why;
                           kill(getpid(), SIGTERM);
                         });
  }
  if (s.ok()) {
    std::printf("%s at %s\n", r.server->worker().task().c_str(),
                r.server->target().c_str());
    std::fflush(stdout);
    int signal = 0;
    sigwait(&signals, &signal);
  }
  if (r.resolver != nullptr) r.resolver->Leave();
  if (r.server != nullptr) r.server->Stop();
  std::lock_guard<std::mutex> lock(mu);
  if (s.ok()) s = evicted;
  *error = std::string(s.message());
  return s.ok() ? 0 : 1;
}
