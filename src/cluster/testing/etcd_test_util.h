// An etcd server for one test.
#ifndef SLUICE_CLUSTER_TESTING_ETCD_TEST_UTIL_H_
#define SLUICE_CLUSTER_TESTING_ETCD_TEST_UTIL_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cluster/membership/etcd_client.h"
#include "cluster/testing/child_process_test_util.h"

namespace sluice {

// A cluster of one server or more, which listen on free local ports, with their
// data in a temporary directory, until it is destroyed. `endpoint()` is "" if
// etcd is not installed.
class TestEtcd {
 public:
  explicit TestEtcd(size_t servers = 1) : servers_(servers) {
    // In memory where possible, because etcd syncs to disk at each write.
    std::string pattern =
        (access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir()) +
        "sluice_etcd_XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
    for (int attempt = 0; attempt < 10 && endpoint_.empty(); ++attempt) {
      for (Server& s : servers_) s = {UnusedPort(), UnusedPort(), nullptr};
      Start();
    }
  }
  ~TestEtcd() {
    servers_.clear();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // Of the first server.
  const std::string& endpoint() const { return endpoint_; }
  void Kill(size_t server = 0) { servers_[server].process.reset(); }
  void Signal(int signal) { servers_[0].process->Signal(signal); }
  // Restarts with the same data and ports.
  void Start() {
    std::string cluster;
    for (size_t i = 0; i < servers_.size(); ++i)
      cluster +=
          (i == 0 ? "" : ",") + Name(i) + "=" + At(servers_[i].peer_port);
    for (size_t i = 0; i < servers_.size(); ++i) {
      Server& s = servers_[i];
      const std::string client = At(s.port), peer = At(s.peer_port);
      s.process = std::make_unique<ChildProcess>(
          "etcd",
          std::vector<std::string>{
              "--name", Name(i), "--data-dir", folder_ + "/" + Name(i),
              "--listen-client-urls", client, "--advertise-client-urls", client,
              "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
              "--initial-cluster", cluster,
              // (Servers on one machine can use short timeouts, which allow
              // short leases.)
              "--heartbeat-interval", "100", "--election-timeout", "500"},
          std::vector<std::string>{"ETCD_UNSUPPORTED_ARCH="},
          folder_ + "/log" + Name(i));
    }
    const std::string at = At(servers_[0].port).substr(7);
    EtcdClient asks({at}, std::chrono::milliseconds(2000));
    int64_t revision = 0;
    const bool up = BecomesTrue([&] {
      return servers_[0].process->Ended() || asks.List("/", &revision).ok();
    });
    endpoint_ = up && !servers_[0].process->Ended() ? at : "";
    if (!endpoint_.empty()) return;
    std::ifstream said(folder_ + "/log" + Name(0));
    log_ = std::string(std::istreambuf_iterator<char>(said), {});
  }
  // Its output, if it did not start.
  const std::string& log() const { return log_; }

 private:
  struct Server {
    int port = 0, peer_port = 0;
    std::unique_ptr<ChildProcess> process;
  };
  static std::string Name(size_t server) {
    return "server" + std::to_string(server);
  }
  static std::string At(int port) {
    return "http://127.0.0.1:" + std::to_string(port);
  }

  std::string folder_, endpoint_, log_;
  std::vector<Server> servers_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TESTING_ETCD_TEST_UTIL_H_
