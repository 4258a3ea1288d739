// MetricsServer: a task's counters over HTTP, for monitoring systems.
#ifndef SLUICE_CLUSTER_MONITORING_METRICS_SERVER_H_
#define SLUICE_CLUSTER_MONITORING_METRICS_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "cluster/proto/cluster.pb.h"

namespace sluice {

// What a task says of itself.
struct TaskMetrics {
  proto::GetStatusResponse status;  // With counters.
  bool draining = false;
};

// In Prometheus' text format, version 0.0.4. Each line has the labels job and
// task.
std::string MetricsText(const TaskMetrics& metrics);

// Serves GET /metrics (MetricsText) and GET /healthz: 200 while the task takes
// work, 503 while it drains. Has threads of its own; `read` is called on them
// until the destructor returns.
class MetricsServer {
 public:
  // `address`: "host:port", port 0 for any free one. Unavailable if it is
  // taken, Unimplemented if the build has no HTTP library.
  static Result<std::unique_ptr<MetricsServer>> Start(
      const std::string& address, std::function<TaskMetrics()> read);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;

  const std::string& address() const { return address_; }  // With the port.

 private:
  class Impl;
  MetricsServer();
  std::shared_ptr<Impl> impl_;
  std::string address_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_MONITORING_METRICS_SERVER_H_
