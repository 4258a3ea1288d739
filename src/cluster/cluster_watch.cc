#include "cluster/cluster_watch.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/algorithm/container.h"
#include "cluster/common/messages.h"
#include "cluster/membership/cluster_resolver.h"
#include "cluster/server.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

// As many as a task reports; another program may answer in its place.
constexpr size_t kMaxStagesOfTask = 1000;
// The time for an answer beyond the time for which its task waits for others.
constexpr milliseconds kAnswer{250};

Result<std::unique_ptr<MasterStub>> MasterAt(const std::string& target) {
  return target.rfind(kInProcessScheme, 0) == 0 ? ConnectInProcess(target)
                                                : ConnectMaster(target);
}

class Watch final : public ClusterWatch {
 public:
  // Asks the first target first. REQUIRES: there is one.
  explicit Watch(std::vector<std::string> targets)
      : known_(std::move(targets)), target_(known_.front()) {}
  ~Watch() override {
    for (auto& [target, call] : calls_)
      if (call.thread.joinable()) call.thread.join();
  }

  Result<std::vector<TaskState>> Poll(milliseconds patience) override {
    std::unique_lock<std::mutex> lock(mu_);
    ForgetCalls();
    ++look_;
    waiting_ = 0;
    answer_.reset();
    error_ = OkStatus();
    const auto wait = [&] {
      come_.wait_for(lock, patience + kAnswer,
                     [this] { return answer_.has_value() || waiting_ == 0; });
    };
    Ask(target_, patience);
    wait();
    if (!answer_.has_value()) {
      for (const std::string& target : known_) Ask(target, patience);
      wait();
    }
    if (!answer_.has_value())
      return !error_.ok() ? error_
                          : Unavailable(target_, ": expected an answer within ",
                                        patience.count(), " ms, got none");
    std::vector<TaskState> seen;
    known_.clear();
    for (const proto::TaskReport& report : answer_->task()) {
      seen.push_back(Read(report));
      known_.push_back("grpc://" + report.address());
    }
    return seen;
  }

 private:
  static TaskState Read(const proto::TaskReport& report) {
    TaskState t;
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
    for (const proto::PipelineStageCounters& s : c.stage()) {
      if (t.stages.size() >= kMaxStagesOfTask) break;
      t.stages.push_back({.pipeline = ValidUtf8(s.pipeline()),
                          .stage = ValidUtf8(s.stage()),
                          .number = s.number(),
                          .inputs = {s.input().begin(), s.input().end()},
                          .elements = s.elements(),
                          .ready = s.ready(),
                          .capacity = s.capacity(),
                          .full_ns = s.full_ns(),
                          .starving_ns = s.starving_ns()});
    }
    return t;
  }

  // A call to one task. Its thread exists while the call is pending.
  struct Call {
    std::unique_ptr<MasterStub> master;  // Used only by `thread`.
    std::thread thread;
    bool busy = false;  // GUARDED_BY(mu_)
  };

  // Removes the calls to tasks that are no longer known, once they have
  // completed. REQUIRES: mu_ is held.
  void ForgetCalls() {
    for (auto it = calls_.begin(); it != calls_.end();) {
      const auto here = it++;
      auto& [target, call] = *here;
      if (call.busy || target == target_ ||
          absl::c_linear_search(known_, target))
        continue;
      if (call.thread.joinable()) call.thread.join();
      calls_.erase(here);
    }
  }

  // Does nothing if a call to the target is still pending. REQUIRES: mu_ is
  // held.
  void Ask(const std::string& target, milliseconds patience) {
    Call& call = calls_[target];
    if (call.busy) return;
    if (call.thread.joinable()) call.thread.join();
    call.busy = true;
    ++waiting_;
    call.thread = std::thread([this, &call, target, patience, look = look_] {
      proto::ListTasksRequest request;
      request.set_patience_ms(patience.count());
      proto::ListTasksResponse response;
      Status s;
      if (call.master == nullptr) {
        Result<std::unique_ptr<MasterStub>> master = MasterAt(target);
        s = master.status();
        if (master.ok()) call.master = *std::move(master);
      }
      if (s.ok()) s = call.master->ListTasks(request, &response);
      std::lock_guard<std::mutex> lock(mu_);
      call.busy = false;
      if (look != look_) return;
      --waiting_;
      if (!s.ok()) {
        if (error_.ok()) error_ = s;
      } else if (!answer_.has_value()) {
        answer_ = std::move(response);
        target_ = target;
      }
      come_.notify_all();
    });
  }

  std::vector<std::string> known_;     // Targets: the tasks of the last answer.
  std::map<std::string, Call> calls_;  // By target.
  std::mutex mu_;
  std::condition_variable come_;
  // The rest is GUARDED_BY(mu_).
  std::string target_;
  int64_t look_ = 0;
  // For the current Poll: pending calls, the first answer, the first error.
  int waiting_ = 0;
  std::optional<proto::ListTasksResponse> answer_;
  Status error_;
};

}  // namespace

Result<std::unique_ptr<ClusterWatch>> WatchCluster(const std::string& target) {
  std::vector<std::string> targets;
  if (target.rfind(kInProcessScheme, 0) == 0 ||
      target.rfind("grpc://", 0) == 0) {
    SLUICE_RETURN_IF_ERROR(MasterAt(target).status());
    targets.push_back(target);
  } else {
    ResolverOptions options;
    options.patience = std::chrono::seconds(1);
    SLUICE_ASSIGN_OR_RETURN(const auto resolver,
                            MakeClusterResolver(target, options));
    Result<ClusterSpec> cluster = resolver->Cluster();
    if (!cluster.ok()) {  // (A task is missing: use the present ones.)
      const Status missing = cluster.status();
      cluster = resolver->Present();
      if (!cluster.ok() || cluster->tasks().empty()) return missing;
    }
    for (const ClusterTask& t : cluster->tasks())
      targets.push_back("grpc://" + t.address);
  }
  if (targets.empty())
    return FailedPrecondition(target, ": expected a task, got none");
  return std::unique_ptr<ClusterWatch>(
      std::make_unique<Watch>(std::move(targets)));
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
