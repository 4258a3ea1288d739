#include "cluster/task_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "cluster/membership/cluster_resolver.h"
#include "cluster/monitoring/metrics_server.h"
#include "cluster/server.h"
#include "cluster/transport/grpc/credentials.h"
#include "exec/devices/device_list.h"
#include "exec/devices/emulated_device.h"

namespace sluice {
namespace {

Status ParseDevices(const std::string& text, ServerOptions* options) {
  SLUICE_ASSIGN_OR_RETURN(const DeviceList list, ParseDeviceList(text));
  options->cpu_devices = list.cpus;
  if (list.emulated == 0) return OkStatus();
  options->more_devices =
      [list](DeviceName name, std::vector<std::unique_ptr<Device>>* devices) {
        name.type = "EMU";
        for (name.number = 0; name.number < list.emulated; ++name.number)
          devices->push_back(std::make_unique<EmulatedDevice>(name, list.how));
        return OkStatus();
      };
  return OkStatus();
}

// A port that had no listener a moment ago.
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

// With etcd: replaces port 0 in `address` by a free port.
Status WithPort(std::string* address) {
  const size_t colon = address->rfind(':');
  if (colon == std::string::npos || address->substr(colon) != ":0")
    return OkStatus();
  const int port = PortToTry();
  if (port == 0) return Unavailable("port: expected a free one, got none");
  *address = absl::StrCat(address->substr(0, colon), ":", port);
  return OkStatus();
}

// Checks the flags as far as possible without contacting other services.
Status CheckFlags(const TaskServerOptions& flags, const ClusterSource& source) {
  const bool etcd = source.scheme == "etcd";
  if (flags.task < 0)
    return InvalidArgument("--task: expected 0 or more, got ", flags.task);
  if (flags.job.empty() && flags.task != 0)
    return InvalidArgument("--task: expected a --job with it, got ", flags.task,
                           " alone");
  if (etcd && flags.job.empty())
    return InvalidArgument(
        "--job: expected a job, which etcd does not set, got none");
  if (etcd && flags.bind.empty())
    return InvalidArgument(
        "--bind: expected host:port (0: a free one) to publish to the "
        "others, got none");
  if (!flags.bind.empty() && !IsHostPort(flags.bind, /*least_port=*/0))
    return InvalidArgument("--bind: expected host:port, got '", flags.bind,
                           "'");
  if (!etcd && !flags.address.empty())
    return InvalidArgument("--address: expected with etcd only, got '",
                           flags.address, "'");
  if (!flags.address.empty() && !IsHostPort(flags.address))
    return InvalidArgument("--address: expected host:port, got '",
                           flags.address, "'");
  if (!(flags.drain_seconds >= 0))
    return InvalidArgument("--drain-seconds: expected at least 0, got ",
                           flags.drain_seconds);
  if (flags.peer_timeout_ms < 1)
    return InvalidArgument("--peer-timeout-ms: expected 1 or more, got ",
                           flags.peer_timeout_ms);
  const std::pair<const char*, int64_t> limits[] = {
      {"--step-timeout-ms", flags.step_timeout_ms},
      {"--max-connections", flags.max_connections},
      {"--max-connections-per-peer", flags.max_connections_per_peer},
      {"--max-sessions", flags.max_sessions},
      {"--max-sessions-per-peer", flags.max_sessions_per_peer}};
  for (const auto& [name, value] : limits)
    if (value < 0)
      return InvalidArgument(name, ": expected 0 or more, got ", value);
  if (flags.max_message_mb < 1 || flags.max_message_mb > 2048)
    return InvalidArgument("--max-message-mb: expected 1 to 2048, got ",
                           flags.max_message_mb);
  return OkStatus();
}

// Converts the flags and creates the resolver.
Status Prepare(const TaskServerOptions& flags,
               std::unique_ptr<ClusterResolver>* resolver,
               ServerOptions* options) {
  ResolverOptions ask;
  ask.job = flags.job;
  ask.task = flags.task;
  ask.patience = options->connect_timeout;
  options->bind = flags.bind;
  SLUICE_ASSIGN_OR_RETURN(const ClusterSource source,
                          ClusterSource::Parse(flags.cluster));
  SLUICE_RETURN_IF_ERROR(CheckFlags(flags, source));
  if (source.scheme == "etcd") {
    SLUICE_RETURN_IF_ERROR(WithPort(&options->bind));
    ask.address = flags.address.empty() ? options->bind : flags.address;
  }
  SLUICE_ASSIGN_OR_RETURN((*resolver), MakeClusterResolver(flags.cluster, ask));
  SLUICE_ASSIGN_OR_RETURN(const ClusterTask self, (*resolver)->Self());
  options->job = self.job;
  options->task = self.task;
  if ((*resolver)->changes()) {
    options->cluster = ClusterSpec();
    SLUICE_RETURN_IF_ERROR(
        options->cluster.Add(self.job, self.task, self.address));
    options->members = [resolver =
                            resolver->get()](const TaskFilter& wait_for) {
      return wait_for ? resolver->Cluster(wait_for) : resolver->Present();
    };
  } else {
    SLUICE_ASSIGN_OR_RETURN(options->cluster, (*resolver)->Cluster());
  }
  if (options->bind.empty()) options->bind = (*resolver)->Bind();
  options->transport = flags.transport;
  options->shared_memory = !flags.no_shared_memory;
  options->peer_timeout = std::chrono::milliseconds(flags.peer_timeout_ms);
  options->step_timeout = std::chrono::milliseconds(flags.step_timeout_ms);
  options->tls = {flags.tls_authority, flags.tls_certificate, flags.tls_key,
                  ""};
  options->plain_beyond_loopback = flags.plain_beyond_loopback;
  options->max_message_bytes = flags.max_message_mb << 20;
  options->max_connections = static_cast<size_t>(flags.max_connections);
  options->max_connections_per_peer =
      static_cast<size_t>(flags.max_connections_per_peer);
  if (flags.max_sessions > 0)
    options->max_sessions = static_cast<size_t>(flags.max_sessions);
  options->max_sessions_per_peer =
      static_cast<size_t>(flags.max_sessions_per_peer);
  options->allow_host_access = flags.allow_host_access;
  options->allow_reset = flags.allow_reset;
  return ParseDevices(flags.devices, options);
}

}  // namespace

struct TaskServer::State {
  std::unique_ptr<ClusterResolver> resolver;  // Outlives the server.
  std::unique_ptr<Server> server;
  std::unique_ptr<MetricsServer> metrics;  // Ends before the server.
};

TaskServer::TaskServer(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

TaskServer::~TaskServer() { Stop(); }

Result<std::unique_ptr<TaskServer>> TaskServer::Start(
    const TaskServerOptions& options,
    std::function<void(const Status&)> evicted) {
  std::unique_ptr<TaskServer> task(new TaskServer(std::make_unique<State>()));
  State* const state = task->state_.get();
  const bool any_port = options.bind.ends_with(":0");
  // (A port that was free may be taken by the time it is used.)
  for (int attempt = 0; state->server == nullptr; ++attempt) {
    ServerOptions o;
    SLUICE_RETURN_IF_ERROR(Prepare(options, &state->resolver, &o));
    o.direct_clients = true;
    auto server = Server::Start(o);
    if (server.ok())
      state->server = *std::move(server);
    else if (server.status().code() != StatusCode::kUnavailable || !any_port ||
             attempt == 9)
      return server.status();
  }
  if (!options.metrics.empty()) {
    SLUICE_RETURN_IF_ERROR(CheckListenAddress(options.metrics, TlsFiles(),
                                              options.plain_beyond_loopback));
    SLUICE_ASSIGN_OR_RETURN(state->metrics,
                            MetricsServer::Start(options.metrics, [state] {
                              Server& server = *state->server;
                              TaskMetrics m;
                              proto::GetStatusRequest ask;
                              ask.set_counters(true);
                              server.worker().GetStatus(ask, &m.status);
                              m.draining = server.master().draining();
                              return m;
                            }));
  }
  state->resolver->OnLost([state](const std::string& lost, uint64_t incarnation,
                                  const Status& why) {
    state->server->master().LoseTask(lost, incarnation, why);
  });
  SLUICE_RETURN_IF_ERROR(
      state->resolver->Join(state->server->worker().incarnation(),
                            [evicted = std::move(evicted)](const Status& why) {
                              if (evicted) evicted(why);
                            }));
  return task;
}

std::string TaskServer::task() const { return state_->server->worker().task(); }
std::string TaskServer::target() const { return state_->server->target(); }

std::string TaskServer::metrics() const {
  return state_->metrics == nullptr ? "" : state_->metrics->address();
}
void TaskServer::Drain() { state_->server->Drain(); }
bool TaskServer::idle() const { return state_->server->idle(); }

void TaskServer::Stop() {
  if (state_->resolver != nullptr) state_->resolver->Leave();
  state_->metrics.reset();
  if (state_->server != nullptr) state_->server->Stop();
}

}  // namespace sluice
