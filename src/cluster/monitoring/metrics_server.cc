#include "cluster/monitoring/metrics_server.h"

#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "cluster/common/cluster.h"
#include "cluster/common/messages.h"
#include "graph/device_name.h"

#ifdef SLUICE_HAVE_HTTPLIB
#include <httplib.h>
#include <sys/socket.h>
#endif

namespace sluice {
namespace {

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// Writes families of metrics, each with its help and type.
class MetricsWriter {
 public:
  explicit MetricsWriter(const std::string& task) {
    const Result<DeviceName> name = DeviceName::Parse(task);
    labels_ = name.ok() ? absl::StrCat("job=\"", name->job, "\",task=\"",
                                       name->task, "\"")
                        : absl::StrCat("task=\"", task, "\"");
  }
  void Family(const char* name, const char* type, const char* help) {
    absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n# TYPE ", name, " ",
                    type, "\n");
  }
  template <typename T>
  void Sample(const char* name, T value, const char* label = nullptr) {
    absl::StrAppend(&text_, name, "{", labels_, label == nullptr ? "" : ",",
                    label == nullptr ? "" : label, "} ");
    if constexpr (std::is_floating_point_v<T>)
      absl::StrAppendFormat(&text_, "%.17g\n", value);
    else
      absl::StrAppend(&text_, value, "\n");
  }
  template <typename T>
  void One(const char* name, const char* type, const char* help, T value) {
    Family(name, type, help);
    Sample(name, value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string labels_, text_;
};

// The value of a label, quoted. Pages are UTF-8.
std::string LabelValue(const std::string& text) {
  return absl::StrCat(
      "\"",
      absl::StrReplaceAll(ValidUtf8(text),
                          {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}),
      "\"");
}

void WriteStages(const proto::TaskCounters& c, MetricsWriter* out) {
  using Stage = proto::PipelineStageCounters;
  std::vector<std::string> labels;
  std::set<std::string> seen;
  for (const Stage& s : c.stage()) {
    std::string label = absl::StrCat("pipeline=", LabelValue(s.pipeline()),
                                     ",stage=", LabelValue(s.stage()));
    // (Two samples of the same labels make a page invalid.)
    for (int64_t n = s.number(); !seen.insert(label).second; ++n)
      label =
          absl::StrCat("pipeline=", LabelValue(s.pipeline()),
                       ",stage=", LabelValue(s.stage()), ",number=\"", n, "\"");
    labels.push_back(std::move(label));
  }
  const auto write = [&](const char* name, const char* type, const char* help,
                         auto value) {
    out->Family(name, type, help);
    for (int i = 0; i < c.stage_size(); ++i)
      out->Sample(name, value(c.stage(i)),
                  labels[static_cast<size_t>(i)].c_str());
  };
  write("sluice_pipeline_elements_total", "counter",
        "Elements that the stage of a pipeline has made.",
        [](const Stage& s) { return s.elements(); });
  write("sluice_pipeline_ready", "gauge",
        "Elements in the queue after the stage.",
        [](const Stage& s) { return s.ready(); });
  write("sluice_pipeline_capacity", "gauge",
        "How many elements that queue holds; negative: no limit.",
        [](const Stage& s) { return s.capacity(); });
  write("sluice_pipeline_full_seconds_total", "counter",
        "Time for which the stage has waited for room in that queue.",
        [](const Stage& s) { return Seconds(s.full_ns()); });
  write("sluice_pipeline_starving_seconds_total", "counter",
        "Time for which others have waited for its elements.",
        [](const Stage& s) { return Seconds(s.starving_ns()); });
}

}  // namespace

std::string MetricsText(const TaskMetrics& metrics) {
  const proto::TaskCounters& c = metrics.status.counters();
  MetricsWriter out(metrics.status.task());
  out.Family("sluice_steps_total", "counter",
             "Parts of steps that this task has run.");
  out.Sample("sluice_steps_total", c.steps(), "outcome=\"succeeded\"");
  out.Sample("sluice_steps_total", c.failed_steps(), "outcome=\"failed\"");
  out.One("sluice_steps_running", "gauge", "Parts of steps that run now.",
          c.running_steps());
  out.One("sluice_sessions", "gauge", "Sessions that use this task.",
          c.sessions());
  out.Family("sluice_recent_step_seconds", "gauge",
             "Durations of this task's parts of its latest steps (at most "
             "256).");
  out.Sample("sluice_recent_step_seconds", Seconds(c.step_p50_ns()),
             "quantile=\"0.5\"");
  out.Sample("sluice_recent_step_seconds", Seconds(c.step_p95_ns()),
             "quantile=\"0.95\"");
  out.One("sluice_sent_bytes_total", "counter",
          "Bytes of values sent to other tasks.", c.bytes_sent());
  out.One("sluice_received_bytes_total", "counter",
          "Bytes of values received from other tasks.", c.bytes_received());
  out.One("sluice_sent_values_total", "counter", "Values sent to other tasks.",
          c.tokens_sent());
  out.One("sluice_received_values_total", "counter",
          "Values received from other tasks.", c.tokens_received());
  out.One("sluice_peers_lost_total", "counter",
          "How often another task was lost.", c.peers_lost());
  out.One("sluice_memory_bytes", "gauge",
          "Bytes of live tensors on all devices.", c.live_bytes());
  out.One("sluice_memory_peak_bytes", "gauge",
          "The most bytes of live tensors so far.", c.peak_bytes());
  out.One("sluice_cpu_seconds_total", "counter",
          "CPU time of the process, of all threads.", Seconds(c.cpu_ns()));
  out.One("sluice_uptime_seconds", "gauge", "Time since the task started.",
          Seconds(metrics.status.clock_ns() - c.started_ns()));
  out.One("sluice_draining", "gauge",
          "1 while the task finishes its steps and begins no others.",
          metrics.draining ? 1 : 0);
  if (c.stage_size() > 0) WriteStages(c, &out);
  return out.Take();
}

#ifdef SLUICE_HAVE_HTTPLIB

// The server's threads end when their clients do, which may be late: a slow one
// must not hold up the end of the task.
class MetricsServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(std::function<TaskMetrics()> read) : read_(std::move(read)) {}

  // `read` is not called any more, and nobody is accepted.
  void Stop() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      read_ = nullptr;
    }
    http_.stop();
    if (serving_.joinable()) serving_.detach();
  }

  // Returns the port.
  Result<int> Listen(const std::string& host, int port) {
    // (By default two servers could listen at the same port.)
    http_.set_socket_options([](socket_t s) {
      const int yes = 1;
      setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    // (Few connections are expected, and idle ones are closed soon.)
    http_.new_task_queue = [] { return new httplib::ThreadPool(8); };
    http_.set_keep_alive_timeout(2);
    http_.set_read_timeout(2);
    http_.set_payload_max_length(1024);
    http_.Get("/metrics",
              [this](const httplib::Request&, httplib::Response& r) {
                r.set_content(MetricsText(Read()),
                              "text/plain; version=0.0.4; charset=utf-8");
              });
    http_.Get("/healthz",
              [this](const httplib::Request&, httplib::Response& r) {
                const bool draining = Read().draining;
                r.status = draining ? 503 : 200;
                r.set_content(draining ? "draining\n" : "ok\n", "text/plain");
              });
    if (port == 0)
      port = http_.bind_to_any_port(host);
    else if (!http_.bind_to_port(host, port))
      port = -1;
    if (port < 0)
      return Unavailable("expected a free port of this machine, got none");
    serving_ = std::thread(
        [self = shared_from_this()] { self->http_.listen_after_bind(); });
    // (A stop before it listens would be lost.)
    while (!http_.is_running()) std::this_thread::yield();
    return port;
  }

 private:
  TaskMetrics Read() {
    std::lock_guard<std::mutex> lock(mu_);
    return read_ == nullptr ? TaskMetrics{{}, true} : read_();
  }

  std::mutex mu_;
  std::function<TaskMetrics()> read_;  // GUARDED_BY(mu_); null once stopped.
  httplib::Server http_;
  std::thread serving_;
};

#else

class MetricsServer::Impl {
 public:
  explicit Impl(std::function<TaskMetrics()>) {}
  void Stop() {}
  Result<int> Listen(const std::string&, int) {
    return Unimplemented(
        "expected a build with cpp-httplib, got one without it");
  }
};

#endif  // SLUICE_HAVE_HTTPLIB

MetricsServer::MetricsServer() = default;
MetricsServer::~MetricsServer() {
  if (impl_ != nullptr) impl_->Stop();
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address, std::function<TaskMetrics()> read) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (!IsHostPort(address, 0) ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port))
    return InvalidArgument("metrics: expected an address host:port, got '",
                           address, "'");
  std::string host = address.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  std::unique_ptr<MetricsServer> server(new MetricsServer);
  server->impl_ = std::make_shared<Impl>(std::move(read));
  Result<int> bound = server->impl_->Listen(host, port);
  if (!bound.ok())
    return Annotate(bound.status(), absl::StrCat("metrics at ", address));
  server->address_ = absl::StrCat(address.substr(0, colon), ":", *bound);
  return server;
}

}  // namespace sluice
