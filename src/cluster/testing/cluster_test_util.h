// A cluster within a test: servers in this process, without gRPC.
#ifndef SLUICE_CLUSTER_TESTING_CLUSTER_TEST_UTIL_H_
#define SLUICE_CLUSTER_TESTING_CLUSTER_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/server.h"
#include "cluster/transport/transport_base.h"
#include "sluice/sluice.h"

namespace sluice {

// The count of the numbers below n and their sum, computed by a loop whose
// predicate is on the first worker, whose counter is on `counter` and whose sum
// is on the ps.
inline std::tuple<Output, Output> CountAndSum(Output n, const char* counter) {
  return While(
      std::tuple(Output(Constant(int32_t{0})), Output(Constant(int32_t{0}))),
      [&](Output i, Output) {
        DeviceScope on("/job:worker/task:0");
        return i < n;
      },
      [&](Output i, Output total) {
        Output next, sum;
        {
          DeviceScope on(counter);
          next = i + 1;
        }
        DeviceScope on("/job:ps/task:0");
        sum = total + i;
        return std::tuple(next, sum);
      });
}

using MakeTransport =
    std::function<std::unique_ptr<Transport>(TransportOptions)>;

// Starts a server for each task: {{"ps", 1}, {"worker", 2}}.
class TestCluster {
 public:
  explicit TestCluster(
      std::vector<std::pair<std::string, int>> jobs,
      MakeTransport make_transport =
          [](TransportOptions o) {
            return std::make_unique<LocalTransport>(std::move(o));
          },
      std::function<void(ServerOptions*)> adjust = nullptr)
      : make_transport_(std::move(make_transport)), adjust_(std::move(adjust)) {
    static int clusters = 0;
    prefix_ = "cluster" + std::to_string(clusters++);
    int port = 1;
    for (const auto& [job, tasks] : jobs)
      for (int i = 0; i < tasks; ++i)
        EXPECT_TRUE(
            spec_.Add(job, i, "nowhere:" + std::to_string(port++)).ok());
    for (const ClusterTask& t : spec_.tasks()) StartTask(t.job, t.task);
  }

  void StartTask(const std::string& job, int task) {
    const ClusterTask t = *spec_.Find(job, task);
    ServerOptions options;
    options.cluster = spec_;
    options.job = job;
    options.task = task;
    options.allow_host_access = true;
    options.allow_reset = true;
    if (adjust_) adjust_(&options);
    TransportOptions transport;
    transport.task = t.name();
    ServerParts parts;
    parts.transport = make_transport_(transport);
    parts.name = prefix_ + t.name();
    parts.connect = [prefix = prefix_](const ClusterTask& other) {
      return ConnectWorkerInProcess(prefix + other.name());
    };
    Result<std::unique_ptr<Server>> s =
        Server::Start(options, std::move(parts));
    ASSERT_TRUE(s.ok()) << s.status();
    servers_[t.name()] = *std::move(s);
  }
  void StopTask(const std::string& job, int task) {
    servers_.erase(spec_.Find(job, task)->name());
  }
  Server& server(const std::string& job, int task) {
    return *servers_.at(spec_.Find(job, task)->name());
  }
  std::string target(const std::string& job, int task) {
    return server(job, task).target();
  }
  // Waits until no session or step is left; false after 30 seconds.
  bool Quiet() {
    for (int i = 0; i < 30'000; ++i) {
      size_t left = 0;
      for (const auto& [name, s] : servers_)
        left += s->worker().num_sessions() + s->worker().steps().num_running() +
                s->master().num_sessions() + s->master().steps().num_running() +
                s->master().steps().num_staged() +
                s->worker().steps().early_bytes();
      if (left == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

 private:
  const MakeTransport make_transport_;
  const std::function<void(ServerOptions*)> adjust_;
  std::string prefix_;
  ClusterSpec spec_;
  std::map<std::string, std::unique_ptr<Server>> servers_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TESTING_CLUSTER_TEST_UTIL_H_
