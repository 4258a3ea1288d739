#include "dist/cluster_watch.h"

#include <algorithm>

#include "dist/cluster_resolver.h"
#include "dist/server.h"

namespace sluice {
namespace {

constexpr int64_t kPatienceMs = 1000;
constexpr char kInProcess[] = "inproc://";

class Watch final : public ClusterWatch {
 public:
  Watch(std::string target, std::unique_ptr<MasterStub> master)
      : target_(std::move(target)), master_(std::move(master)) {}

  Result<std::vector<TaskSeen>> Look() override {
    proto::ListTasksRequest request;
    request.set_patience_ms(kPatienceMs);
    proto::ListTasksResponse response;
    Status s = master_->ListTasks(request, &response);
    for (size_t i = 0; !s.ok() && i < known_.size(); ++i) {
      const std::string other = "grpc://" + known_[i];
      if (other == target_) continue;
      Result<std::unique_ptr<MasterStub>> master = ConnectMaster(other);
      response.Clear();
      if (!master.ok() || !(*master)->ListTasks(request, &response).ok())
        continue;
      s = OkStatus();
      target_ = other;
      master_ = *std::move(master);
    }
    SLUICE_RETURN_IF_ERROR(s);
    std::vector<TaskSeen> seen;
    known_.clear();
    for (const proto::TaskReport& report : response.task()) {
      seen.push_back(Read(report));
      if (seen.back().error.empty()) known_.push_back(report.address());
    }
    return seen;
  }

 private:
  static TaskSeen Read(const proto::TaskReport& report) {
    TaskSeen t;
    t.task = report.task();
    t.address = report.address();
    const proto::GetStatusResponse& a = report.answer();
    if (const Status s = StatusFromProto(report.reached()); !s.ok())
      t.error = s.message().empty() ? "no answer" : std::string(s.message());
    else if (a.task() != t.task)
      t.error = "another task answers there: " + a.task();
    if (!t.error.empty()) return t;
    t.incarnation = a.incarnation();
    t.devices = a.device_size();
    t.clock_ns = a.clock_ns();
    const proto::TaskCounters& c = a.counters();
    t.started_ns = c.started_ns();
    t.steps = c.steps();
    t.failed_steps = c.failed_steps();
    t.running_steps = c.running_steps();
    t.sessions = c.sessions();
    t.bytes_sent = c.bytes_sent();
    t.bytes_received = c.bytes_received();
    t.recent_steps = c.recent_steps();
    t.step_p50_ns = c.step_p50_ns();
    t.step_p95_ns = c.step_p95_ns();
    t.cpu_ns = c.cpu_ns();
    t.live_bytes = c.live_bytes();
    t.peak_bytes = c.peak_bytes();
    return t;
  }

  std::string target_;
  std::unique_ptr<MasterStub> master_;
  std::vector<std::string> known_;  // Addresses that answered last time.
};

}  // namespace

Result<std::unique_ptr<ClusterWatch>> WatchCluster(const std::string& target) {
  std::string at = target;
  std::unique_ptr<MasterStub> master;
  if (at.rfind(kInProcess, 0) == 0) {
    SLUICE_ASSIGN_OR_RETURN(
        master, ConnectInProcess(at.substr(sizeof(kInProcess) - 1)));
  } else {
    if (at.rfind("grpc://", 0) != 0) {
      SLUICE_ASSIGN_OR_RETURN(const auto resolver, MakeClusterResolver(target));
      SLUICE_ASSIGN_OR_RETURN(at, resolver->Master());
    }
    SLUICE_ASSIGN_OR_RETURN(master, ConnectMaster(at));
  }
  return std::unique_ptr<ClusterWatch>(
      std::make_unique<Watch>(at, std::move(master)));
}

}  // namespace sluice

extern "C" sluice::ClusterWatch* sluice_watch_cluster(const std::string* target,
                                                      std::string* error) {
  auto watch = sluice::WatchCluster(*target);
  if (watch.ok()) return watch->release();
  *error = std::string(watch.status().message());
  return nullptr;
}

extern "C" bool sluice_cluster_tasks(const std::string* source,
                                     std::vector<std::string>* tasks,
                                     std::string* error) {
  const auto resolver = sluice::MakeClusterResolver(*source);
  const sluice::Result<sluice::ClusterSpec> spec =
      resolver.ok() ? (*resolver)->Cluster()
                    : sluice::Result<sluice::ClusterSpec>(resolver.status());
  if (!spec.ok()) {
    *error = std::string(spec.status().message());
    return false;
  }
  for (const sluice::ClusterTask& t : spec->tasks()) tasks->push_back(t.name());
  return true;
}
